# SPDX-License-Identifier: Apache-2.0
"""What coding agents send, replayed: the shapes of Claude Code's, Codex's and Continue's requests, with short texts, and limits
that they do not send because the test model would go on to the end of its context. Every answer goes through the wire
checker; what the agent takes out of a stream is sent back as it would send it back."""
import json

import pytest

import wire

SESSION = "5e551011-0000-4000-8000-000000000001"
EPHEMERAL = {"cache_control": {"type": "ephemeral"}}


def events(answer):
    """The events of a stream, read as both agents do: by the JSON of each data line."""
    assert answer.status_code == 200, answer.text
    return [json.loads(text) for _, text in wire.Sse().feed(answer.content) if text]


# Claude Code

CLAUDE_HEADERS = {
    "authorization": "Bearer none", "user-agent": "claude-cli/2.1.325 (external, cli)", "x-app": "cli",
    "anthropic-version": "2023-06-01", "anthropic-dangerous-direct-browser-access": "true",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,mid-conversation-tool-changes-2026-07-01",
    "x-claude-code-session-id": SESSION, "x-stainless-lang": "js", "x-stainless-retry-count": "0",
    "x-stainless-timeout": "600",
}


def claude_tool(name, properties, **more):
    return {"name": name, "description": f"The tool {name}.", "input_schema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": properties,
        "required": list(properties), "additionalProperties": False}, **more}


CLAUDE_TOOLS = [
    claude_tool("Bash", {"command": {"type": "string", "maxLength": 24}}),
    claude_tool("Read", {"file_path": {"type": "string", "maxLength": 24}}),
    claude_tool("TodoWrite", {"todos": {"type": "array", "maxItems": 1, "items": {
        "type": "object", "properties": {"content": {"type": "string", "minLength": 1, "maxLength": 9},
                                         "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]}},
        "required": ["content", "status"], "additionalProperties": False}}}, **EPHEMERAL),
    {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
]


def claude_body(messages, turn, **more):
    return {
        "model": "claude-sonnet-5", "messages": messages, "max_tokens": 120, "stream": True, "temperature": 1,
        "system": [
            {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.325.a{turn}f; cc_entrypoint=cli; cch=0{turn}b9e;"},
            {"type": "text", "text": "You are a coding agent that runs in a terminal.", **EPHEMERAL},
            {"type": "text", "text": "Use the tools. " * 60 + "\n# Environment\nPlatform: linux", **EPHEMERAL}],
        "tools": CLAUDE_TOOLS, "metadata": {"user_id": json.dumps({"device_id": "d", "session_id": SESSION})},
        "thinking": {"type": "adaptive", "display": "updates"}, "output_config": {"effort": "high"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}, **more}


def claude(server, body):
    return events(server.post("/v1/messages?beta=true", body, headers=CLAUDE_HEADERS))


def claude_blocks(stream):
    """Blocks as the agent puts them together from a stream."""
    blocks = []
    for event in stream:
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            for kind, key in (("text_delta", "text"), ("thinking_delta", "thinking"), ("signature_delta", "signature")):
                if delta["type"] == kind:
                    blocks[-1][key] += delta[key]
            blocks[-1]["json"] += delta.get("partial_json", "")
    for block in blocks:
        text = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(text)
    return blocks


def input_tokens(usage):
    return usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]


def test_claude_code_turns(server):
    turns = [{"role": "user", "content": [
        {"type": "text", "text": "<system-reminder>\nThe date is 2026-11-15.\n</system-reminder>"},
        {"type": "text", "text": "List the files.", **EPHEMERAL}]}]
    choice = {"type": "any", "disable_parallel_tool_use": True}  # it sends auto; a model this small would not call
    first = claude(server, claude_body(turns, 1, tool_choice=choice))
    assert first[0]["type"] == "message_start" and first[-1]["type"] == "message_stop"
    assert first[-2]["delta"]["stop_reason"] == "tool_use"
    blocks = claude_blocks(first)
    call = blocks[-1]
    assert call["type"] == "tool_use" and call["name"] in ("Bash", "Read", "TodoWrite")

    turns += [{"role": "assistant", "content": blocks}, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": call["id"], "is_error": False, "content": [
            {"type": "text", "text": "README.md"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}], **EPHEMERAL},
        {"type": "text", "text": "<system-reminder>\nThe todo list is empty.\n</system-reminder>"}]},
        {"role": "system", "content": "The user has changed the mode."}]
    second = claude(server, claude_body(turns, 2, max_tokens=16))
    usage = second[-2]["usage"]
    # The billing line differs in every request; the rest of the prompt is found in the cache all the same.
    assert usage["cache_read_input_tokens"] > input_tokens(first[-2]["usage"]) / 2, usage
    counted = server.post("/v1/messages/count_tokens?beta=true", headers=CLAUDE_HEADERS, body={
        k: v for k, v in claude_body(turns, 3).items() if k in ("model", "system", "messages", "tools", "thinking")})
    assert counted.json() == {"input_tokens": input_tokens(usage)}


def test_claude_code_finds_tools(server):
    """Most of its tools wait until the model has searched for them; then they are sent, marked, among the others."""
    def later(name):
        return claude_tool(name, {"url": {"type": "string", "maxLength": 24}}, defer_loading=True)

    def count(tools, turns):
        return server.post("/v1/messages/count_tokens?beta=true", headers=CLAUDE_HEADERS,
                           body={"messages": turns, "tools": tools}).json()["input_tokens"]
    search = claude_tool("ToolSearch", {"query": {"type": "string", "maxLength": 24}})
    turns = [{"role": "user", "content": "Fetch it."}]
    plain, waiting = [*CLAUDE_TOOLS, search], [later("Nothing"), *CLAUDE_TOOLS, search]
    assert count(waiting, turns) == count(plain, turns)
    first = claude(server, claude_body(turns, 1, tools=waiting, max_tokens=1))

    turns += [{"role": "assistant", "content": [
        {"type": "tool_use", "id": "toolu_1", "name": "ToolSearch", "input": {"query": "select:Fetch"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [
            {"type": "tool_reference", "tool_name": "Fetch"}]}]}]
    found = [later("Fetch"), later("Nothing"), *CLAUDE_TOOLS, search]
    assert count(found, turns) == count([*plain, claude_tool("Fetch", {"url": {"type": "string", "maxLength": 24}})], turns)
    choice = {"type": "tool", "name": "Fetch", "disable_parallel_tool_use": True}
    second = claude(server, claude_body(turns, 2, tools=found, tool_choice=choice))
    assert claude_blocks(second)[-1]["name"] == "Fetch"
    # It stands behind the others: all that came before is found in the cache.
    assert second[-2]["usage"]["cache_read_input_tokens"] > input_tokens(first[-2]["usage"]) / 2

    turns += [{"role": "system", "content": [
        {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "Fetch"}}]}]
    assert count(found, turns) == count(plain, turns)


def test_claude_code_side_requests(server):
    quota = server.post("/v1/messages?beta=true", headers=CLAUDE_HEADERS, body={
        "model": "claude-haiku-5", "max_tokens": 1, "messages": [{"role": "user", "content": "quota"}],
        "metadata": {"user_id": "u"}})
    assert quota.status_code == 200 and quota.json()["stop_reason"] == "max_tokens"
    title = claude(server, claude_body(
        [{"role": "user", "content": "Fix the build"}], 1, tools=[], thinking={"type": "disabled"}, max_tokens=60,
        output_config={"format": {"type": "json_schema", "schema": {
            "type": "object", "properties": {"title": {"type": "string", "maxLength": 24}}, "required": ["title"],
            "additionalProperties": False}}}))
    assert set(json.loads(claude_blocks(title)[0]["text"])) == {"title"}
    models = server.http.get("/v1/models?limit=1000", headers=CLAUDE_HEADERS).json()
    assert models["data"][0]["type"] == "model" and models["has_more"] is False
    assert server.http.head("/", headers=CLAUDE_HEADERS).status_code == 200  # is there a server?


def test_claude_code_is_told_what_does_not_fit(server):
    answer = server.post("/v1/messages?beta=true", headers=CLAUDE_HEADERS,
                         body=claude_body([{"role": "user", "content": "word " * 17000}], 1))
    assert answer.status_code == 400
    # It compacts on these words.
    assert answer.json()["error"]["message"].startswith("prompt is too long: ")


# Codex

CODEX_HEADERS = {
    "authorization": "Bearer none", "accept": "text/event-stream", "originator": "codex_cli_rs",
    "user-agent": "codex_cli_rs/0.163.0 (Debian 12; aarch64) xterm", "session-id": SESSION, "thread-id": SESSION,
    "x-codex-installation-id": SESSION, "x-codex-window-id": SESSION + ":0",
}
CODEX_TOOLS = [
    {"type": "function", "name": "exec_command", "description": "Runs a command in a PTY.", "strict": False,
     "parameters": {"type": "object", "properties": {"cmd": {"type": "string", "maxLength": 24}},
                    "required": ["cmd"], "additionalProperties": False}},
    {"type": "function", "name": "update_plan", "description": "Updates the task plan.", "strict": False,
     "parameters": {"type": "object", "properties": {"plan": {"type": "array", "maxItems": 1, "items": {
         "type": "object", "properties": {"step": {"type": "string", "maxLength": 9}, "status": {"type": "string", "maxLength": 9}},
         "required": ["step", "status"], "additionalProperties": False}}},
         "required": ["plan"], "additionalProperties": False}},
    {"type": "custom", "name": "apply_patch", "description": "Edits files.",
     "format": {"type": "grammar", "syntax": "lark", "definition": "start: \"*** Begin Patch\" LF"}},
    {"type": "web_search", "external_web_access": False},
    {"type": "local_shell"},
    {"type": "namespace", "name": "multi_agent_v1", "description": "Agents.", "tools": [
        {"type": "function", "name": "spawn_agent", "strict": False, "parameters": {"type": "object", "properties": {}}}]},
]


def item(role, *texts):
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": t} for t in texts]}


CODEX_START = [
    item("developer", "<permissions instructions>\nThe sandbox is read-only.\n</permissions instructions>"),
    item("user", "# AGENTS.md instructions\nBe brief.", "<environment_context>\n  <cwd>/src</cwd>\n</environment_context>"),
    item("user", "List the files."),
]


def codex(server, items, **more):
    """A turn: the last event, and the items that Codex keeps, which it takes from output_item.done alone."""
    stream = events(server.post("/v1/responses", headers=CODEX_HEADERS, body={
        "model": "any", "instructions": "You are a coding agent.", "input": items, "tools": CODEX_TOOLS,
        "tool_choice": "auto", "parallel_tool_calls": False, "reasoning": {"effort": "medium", "summary": "auto"},
        "store": False, "stream": True, "include": ["reasoning.encrypted_content"], "prompt_cache_key": SESSION,
        "text": {"verbosity": "low"}, "client_metadata": {"x-codex-installation-id": SESSION},
        "max_output_tokens": 120, **more}))
    return stream[-1], [e["item"] for e in stream if e["type"] == "response.output_item.done"]


def test_codex_turns(server):
    # The others take texts and members of any length, and some answers would go on to the limit.
    few = [{"name": "exec_command"}, {"name": "update_plan"}]
    last, kept = codex(server, CODEX_START, tool_choice={"type": "allowed_tools", "mode": "required", "tools": few})
    assert last["type"] == "response.completed" and last["response"]["usage"]["total_tokens"] > 0
    call = kept[-1]
    assert call["type"] == "function_call" and call["name"] in ("exec_command", "update_plan")
    assert isinstance(json.loads(call["arguments"]), dict)

    history = [*CODEX_START, {"type": "reasoning", "summary": [], "content": None, "encrypted_content": None}, *kept,
               {"type": "function_call_output", "call_id": call["call_id"], "output": [
                   {"type": "input_text", "text": "README.md\n"},
                   {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}]},
               {"type": "custom_tool_call", "status": "completed", "call_id": "call_2", "name": "apply_patch",
                "input": "*** Begin Patch\n*** End Patch"},
               {"type": "custom_tool_call_output", "call_id": "call_2", "output": "Success."}]
    last, kept = codex(server, history, max_output_tokens=16)
    assert last["type"] in ("response.completed", "response.incomplete") and kept
    assert last["response"]["usage"]["input_tokens_details"]["cached_tokens"] > 0


def test_codex_calls_tools_of_plain_text(server):
    """apply_patch comes as a custom tool; the call is one, whether or not the limit cut it."""
    last, kept = codex(server, CODEX_START, tool_choice={"type": "custom", "name": "apply_patch"}, max_output_tokens=40)
    call = kept[-1]
    assert call["type"] == "custom_tool_call" and call["name"] == "apply_patch" and isinstance(call["input"], str)
    assert last["response"]["output"][-1] == call
    assert CODEX_TOOLS[2] in last["response"]["tools"]


def test_codex_calls_tools_in_namespaces(server):
    """What an MCP server offers comes as a namespace; a call and its place in the history name both parts."""
    tools = [{"type": "namespace", "name": "mcp__birds", "description": "Tools in the mcp__birds namespace.", "tools": [
        {"type": "function", "name": "find", "description": "Finds a bird.", "strict": False, "parameters": {
            "type": "object", "properties": {"name": {"type": "string", "maxLength": 12}}, "required": ["name"]}}]}]
    last, kept = codex(server, CODEX_START, tools=tools, tool_choice="required")
    call = kept[-1]
    assert (call["namespace"], call["name"]) == ("mcp__birds", "find") and set(json.loads(call["arguments"])) == {"name"}
    assert last["response"]["output"][-1] == call and last["response"]["tools"] == tools
    last, kept = codex(server, [*CODEX_START, *kept, {"type": "function_call_output", "call_id": call["call_id"],
                                                      "output": "in the marsh"}], tools=tools, max_output_tokens=16)
    assert last["type"] in ("response.completed", "response.incomplete") and kept


@pytest.mark.parametrize("path", ["/v1/models?client_version=0.163.0", "/models"])
def test_codex_looks_for_models(server, path):
    answer = server.http.get(path, headers={**CODEX_HEADERS, "accept": "*/*"})
    assert answer.status_code == 200 and answer.json()["data"][0]["context_length"] == 8192


def test_codex_is_told_what_does_not_fit(server):
    last, kept = codex(server, [*CODEX_START, item("user", "word " * 9000)])
    assert last["type"] == "response.failed" and not kept
    assert last["response"]["error"]["code"] == "context_length_exceeded"


# Continue

CONTINUE_HEADERS = {"authorization": "Bearer none", "api-key": "none", "x-api-key": "none", "accept": "application/json"}


def events_of_chat(answer):
    """The events of a stream that ends with [DONE]."""
    assert answer.status_code == 200, answer.text
    texts = [text for _, text in wire.Sse().feed(answer.content) if text]
    assert texts.pop() == "[DONE]"
    return [json.loads(text) for text in texts]


def test_continue_chat(server):
    stream = events_of_chat(server.post("/v1/chat/completions", headers=CONTINUE_HEADERS, body={
        "model": "whimbrel", "max_tokens": 12, "stream": True, "stream_options": {"include_usage": True},
        "messages": [{"role": "system", "content": "Answer briefly."}, {"role": "user", "content": "Name a bird."},
                     {"role": "assistant", "content": " "}, {"role": "user", "content": [{"type": "text", "text": "Well?"}]}]}))
    assert "".join(c["delta"].get("content") or "" for e in stream for c in e["choices"])
    assert stream[-1]["choices"] == [] and stream[-1]["usage"]["completion_tokens"] > 0


def test_continue_completes_what_is_typed(server):
    stop = ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>",
            "<|file_sep|>", "<|im_start|>", "<|im_end|>", "/src/", "#- coding: utf-8", "```", "\nclass ", "\ndef "]
    stream = events_of_chat(server.post("/v1/completions", headers=CONTINUE_HEADERS, body={
        "model": "qwen2.5-coder", "prompt": "<|fim_prefix|>def add(a, b):\n<|fim_suffix|>\n<|fim_middle|>",
        "max_tokens": 12, "temperature": 0.01, "stream": True, "stop": stop}))
    assert stream[-1]["choices"][0]["finish_reason"] in ("stop", "length")

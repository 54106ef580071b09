#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seed inputs of the chat targets to corpus/chat_output and corpus/messages beside this script."""
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent.parent / "data" / "corpus"
CALL = '<tool_call>\n{"name": "f", "arguments": %s}\n</tool_call>'
XML = "<tool_call>\n<function=f>\n<parameter=s>\n%s\n</parameter>\n<parameter=i>\n2\n</parameter>\n</function>\n</tool_call>"
INVOKE = ('<minimax:tool_call>\n<invoke name="f">\n<parameter name="s">%s</parameter>\n</invoke>\n'
          '<invoke name="g">\n</invoke>\n</minimax:tool_call>')
OUTPUTS = {
    "plain": (0, "hello <b> </tool_call> \n"),
    "think": (4, "<think>\nwhy\n</think>\n\nso"),
    "inside": (12, "why</think>\n\n" + CALL % '{"a": 1}'),
    "hermes": (0, "so\n" + CALL % '{"s": "\\u00e9", "i": [1.5e3, null]}' + "\n" + CALL % "{}"),
    "hermes_text": (0, '<tool_call>{"arguments": "{\\"a\\": \\"\\\\n\\"}", "name": "f"}</tool_call>'),
    "hermes_bad": (0, CALL % '{"a": 1,}' + " x " + CALL % "[1]"),
    "hermes_cut": (0, (CALL % '{"a": "b')[:50]),
    "xml": (1, "so\n\n" + XML % 'a "b"\n\\' + "\n" + XML % ""),
    "xml_missing": (1, "<tool_call><function=f><parameter=b>True\n<parameter=o>{\"k\": 1}\n</function></tool_call>z"),
    "xml_bad": (1, "<tool_call><function=f>junk<parameter=a\n>"),
    "invoke": (2, INVOKE % "Oslo"),
    "invoke_cut": (2, (INVOKE % "[1, 2")[:75]),
    "no_tools": (16, CALL % "{}"),
    "no_types": (33, XML % "[1, 2]"),
}
# Of the second half of the forms.
MORE = {
    "python": (0, "[f(s=\"a\\u00e9\", i=-1.5e3, b=True, o={'k': [None, 1,],}), f()]"),
    "python_said": (0, "so [f(s=1)]"),
    "python_tags": (1, "so<|tool_call_start|>[f(s='it\\'s', o=None), g(a.b=[1])]<|tool_call_end|>so"),
    "python_bad": (1, "<|tool_call_start|>[f(s=\"\\U00110000\", i=tru)]<|tool_call_end|>"),
    "bare": (2, '{"name": "f", "arguments": {"s": "x"}}; {"name": "f", "arguments": {}}'),
    "bare_list": (3, '[{"name": "f", "arguments": {"s": "x"}}, {"name": "f", "arguments": {}}]'),
    "mcp": (64, "<use_mcp_tool>\n<server_name>default</server_name>\n<tool_name>f</tool_name>\n<arguments>\n"
                '{"s": "x"}\n</arguments>\n</use_mcp_tool>'),
    "params": (65, '<function name="f"><param name="s"><![CDATA[a</param>]]></param><param name="i">2</param></function>'),
    "seed": (66, XML.replace("tool_call", "seed:tool_call") % "a"),
    "actions": (67, '<|action_start|><|plugin|>\n{"name": "f", "arguments": {}}<|action_end|>'),
    "tool_calls": (128, '<tool_calls>[{"name": "f", "arguments": {}}]</tool_calls>'),
    "tool_calls_lines": (129, '<tool_calls>\n{"name": "f", "arguments": {}}\n{"name": "f", "arguments": {}}\n</tool_calls>'),
    "calls_list_ids": (130, '[TOOL_CALLS][{"id": "callnumb1", "name": "f", "arguments": {"i": 1}}]'),
    "tool_call_list": (131, '<|tool_call|>[{"name": "f", "arguments": {"i": 1}}]'),
    "dsml_function": (195, '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="s" string="true">x'
                           "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"),
}
# Of the third quarter.
LATER = {
    "cohere": (0, 'so<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "f", "parameters": {"s": "x"}}\n]<|END_ACTION|>'),
    "apertus": (1, '<|tools_prefix|>[{"f": {"s": "x"}}, {"g": {}}]<|tools_suffix|>'),
    "apertus_bad": (1, '<|tools_prefix|>[{"f\\u0041": null, "g": 1}]<|tools_suffix|>'),
    "llama4": (2, '<|python_start|>so<|python_end|>{"name": "f", "parameters": {"i": 1}}{"name": "f", "parameters": {}}'),
    "function_call": (3, '<function_call> {"name": "f", "arguments": {}}\n<function_call> {"name": "f", "arguments": {}}'),
    "gigachat": (64, 'so<|function_call|>{"name": "f", "arguments": {}}'),
    "addressed": (65, 'all\nso >>> 1\n>>>f\n{"s": "x"}>>>all\n so'),
    "addressed_later": (73, 'so>>>f\n{"s": "x"}'),
    "addressed_no_tools": (81, 'all\nso>>>f\n{"s": "x"}'),
    "solar": (66, '<|tool_calls|><|tool_call:begin|>a1<|tool_call:name|>f<|tool_call:args|>{"i": 1}<|tool_call:end|><|calls|>'),
}
FOX = "\U0001f98a<s>"
USER = {"role": "user", "content": FOX}
TOOLS = [{"type": "function", "function": {"name": "f", "description": FOX, "parameters": {"x": 1.5}}}]


def call(arguments):
    return {"role": "assistant", "content": None, "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}]}


MESSAGES = {
    "plain": [{"role": "system", "content": "a"}, {"role": "developer", "content": FOX}, USER],
    "parts": [{"role": "user", "content": [{"type": "text", "text": FOX}, {"type": "text", "text": ""}]}],
    "image": [{"role": "user", "content": [{"type": "image_url"}]}],
    "calls": [USER, call('{"a": "' + FOX + '"}'), {"role": "tool", "content": FOX, "tool_call_id": "1"}, USER],
    "raw": [USER, call('{"a": '), {"role": "tool", "content": [{"type": "image"}]}],
    "object": [USER, call({"a": [1, None, True]})],
    "late": [USER, {"role": "system", "content": FOX}, USER, USER],
    "goes_on": [USER, {"role": "assistant", "content": FOX, "reasoning": "r"}],
    "alone": [{"role": "tool", "content": "x", "name": FOX}],
    "wrong": [{"role": "function"}],
}


def save(folder, name, data):
    (HERE / folder).mkdir(parents=True, exist_ok=True)
    (HERE / folder / name).write_bytes(data)


for name, (flags, text) in OUTPUTS.items():
    save("chat_output", name, bytes([flags, 3]) + text.encode())
for name, (flags, text) in MORE.items():
    save("chat_output", name, bytes([flags, 64 + 3]) + text.encode())
for name, (flags, text) in LATER.items():
    save("chat_output", name, bytes([flags, 128 + 3]) + text.encode())
save("chat_output", "think_other", bytes([4, 16 + 3]) + b"[THINK]\nwhy [/TH\n[/THINK]\n\nso <think>x</think>")
for name, messages in MESSAGES.items():
    for pick in range(3):
        body = {"messages": messages, "tools": TOOLS, "kwargs": {"enable_thinking": False, "x": FOX}}
        save("messages", f"{name}_{pick}", bytes([pick]) + json.dumps(body, ensure_ascii=False).encode())
save("messages", "no_json", b"\0[")

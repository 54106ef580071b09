# SPDX-License-Identifier: Apache-2.0
"""More attacks of attack.py, by what requests ask for: rows of a route and a body that each asks for much with little,
and odd values in every field of every route. See attacks.py for what an attack is."""
import json

CHAT, COMPLETIONS, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"
N_VOCAB = 49152
ALL_BIASED = {str(i): 1 for i in range(N_VOCAB)}


def said(content, **more):
    return {"messages": [{"role": "user", "content": content}], "max_tokens": 20, **more}


def with_schema(schema):
    return said("hi", response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})


def calls(n, arguments):
    return [{"id": f"c{i}", "type": "function", "function": {"name": "f", "arguments": arguments}} for i in range(n)]


def tool(name, parameters=None, **more):
    return {"type": "function", "function": {"name": name, "parameters": parameters or {"type": "object"}, **more}}


def nested(depth, of):
    value = of
    for _ in range(depth):
        value = {"type": "object", "properties": {"a": value}, "required": ["a"]}
    return value


def repeated():
    """Answers that repeat their request."""
    ids = [100 + i % 4000 for i in range(8000)]
    yield "a bias of all in 128 answers", "/completion", {"prompt": "a", "n_predict": 1, "n_cmpl": 128, "logit_bias": ALL_BIASED}
    yield "a bias of all, chosen", "/completion", {"prompt": "a", "n_predict": 1, "n_cmpl": 21, "logit_bias": ALL_BIASED,
                                                  "response_fields": ["generation_settings/logit_bias"]}
    yield "a bias of all in a stream", "/completion", {"prompt": "a", "n_predict": 1, "n_cmpl": 21, "logit_bias": ALL_BIASED,
                                                      "stream": True}
    yield "stops of control characters", "/completion", {"prompt": "a", "n_predict": 1, "n_cmpl": 128,
                                                        "stop": ["\x01" * 1000 + str(i) for i in range(64)]}
    yield "an echo in 128 answers", COMPLETIONS, {"prompt": [40686] * 8000, "echo": True, "n": 128, "max_tokens": 1}
    yield "an echo in a stream", COMPLETIONS, {"prompt": [40686] * 8000, "echo": True, "n": 128, "max_tokens": 1, "stream": True}
    yield "ids in 128 answers", COMPLETIONS, {"prompt": ids, "return_token_ids": True, "n": 128, "max_tokens": 1}
    yield "log-probabilities of an echo", COMPLETIONS, {"prompt": ids, "echo": True, "logprobs": 5, "n": 21, "max_tokens": 1}
    yield "those of sixteen prompts", COMPLETIONS, {"prompt": [[k] + ids[:2000] for k in range(16)], "echo": True,
                                                   "logprobs": 20, "max_tokens": 1}
    yield "metadata of 6 MB", RESPONSES, {"input": "hi", "max_output_tokens": 9, "stream": True,
                                          "metadata": {"a": "\x01" * 1_000_000}}
    yield "tools that a response repeats", RESPONSES, {
        "input": "hi", "max_output_tokens": 9, "stream": True,
        "tools": [{"type": "function", "name": f"f{i}", "description": "x" * 3000} for i in range(512)]}


def sampled():
    """What is looked at for each token."""
    yield "a bias of all for 32", CHAT, said("hi", n=32, ignore_eos=True, logit_bias=ALL_BIASED)
    yield "all ids allowed", CHAT, said("hi", n=32, ignore_eos=True, allowed_token_ids=list(range(N_VOCAB)))
    yield "one id allowed", CHAT, said("hi", n=32, ignore_eos=True, allowed_token_ids=[7])
    yield "all ids but one forbidden", CHAT, said("hi", logit_bias={str(i): -100 for i in range(1, N_VOCAB)})
    yield "64 long stops", COMPLETIONS, {"prompt": "a" * 3000, "n": 16, "max_tokens": 100, "ignore_eos": True,
                                         "stop": ["a" * 1000 + str(i) for i in range(64)]}
    yield "stops that nearly come", COMPLETIONS, {"prompt": [28] * 500, "n": 16, "max_tokens": 200, "ignore_eos": True,
                                                 "stop": ["," * i + "x" for i in range(1, 65)]}
    yield "bad words", CHAT, said("hi", n=16, ignore_eos=True, bad_words=["a" * 500 + str(i) for i in range(60)])
    yield "dry over all", "/completion", {"prompt": "a b " * 3500, "n_predict": 60, "n_cmpl": 32, "dry_multiplier": 1,
                                          "dry_allowed_length": 0, "dry_penalty_last_n": -1, "ignore_eos": True}
    yield "dry breakers", "/completion", {"prompt": "a " * 4000, "n_predict": 40, "dry_multiplier": 3e38,
                                          "dry_sequence_breakers": [chr(97 + i % 26) for i in range(64)]}
    yield "all penalties", COMPLETIONS, {"prompt": [5] * 8000, "n": 32, "max_tokens": 30, "ignore_eos": True, "temperature": 1e-30,
                                         "repetition_penalty": 1e30, "presence_penalty": 2, "frequency_penalty": -2,
                                         "xtc_probability": 1, "xtc_threshold": 0, "min_p": 1, "top_k": 2 ** 31 - 1}
    yield "log-probabilities for 32", CHAT, said("hi", n=32, max_tokens=200, ignore_eos=True, logprobs=True, top_logprobs=20)
    yield "a long prediction", CHAT, said("hi", prediction={"type": "content", "content": "a b c " * 1_000_000})
    yield "predictions for 32", CHAT, said("hi", n=32, max_tokens=100, ignore_eos=True,
                                           prediction={"type": "content", "content": "a " * 8000})
    yield "best_of", COMPLETIONS, {"prompt": "a", "n": 128, "best_of": 128, "max_tokens": 5}
    yield "best_of that is not n", COMPLETIONS, {"prompt": "a", "n": 2, "best_of": 2 ** 40, "max_tokens": 5}
    yield "128 prompts", COMPLETIONS, {"prompt": [[i] * 60 for i in range(128)], "max_tokens": 40, "ignore_eos": True}
    yield "most urgent of all", CHAT, said("hi", n=128, max_tokens=400, ignore_eos=True, priority=-2 ** 63)
    yield "progress of each step", CHAT, said("a " * 7000, stream=True, stream_options={"include_usage": True,
                                                                                     "continuous_usage_stats": True})


def texts():
    """Words without an end, and texts that grow."""
    for name, word in (("a", "a"), ("Cyrillic", "\u0436"), ("Han", "\u4e2d"), ("joined", "\U0001f468\u200d"),
                       ("combining", "e\u0301"), ("digits", "7"), ("marks", "!?"), ("blank", "\u00a0"),
                       ("Hangul", "\u1100\u1161"), ("ligature", "\ufdfa")):
        yield f"one word: {name}", COMPLETIONS, {"prompt": word * 30000, "max_tokens": 1}
        yield f"one word, cut: {name}", COMPLETIONS, {"prompt": word * 400000, "truncate_prompt_tokens": 9, "max_tokens": 1}
    yield "special tokens", "/tokenize", {"prompt": "<|im_start|>" * 300000}
    yield "nearly special", "/tokenize", {"prompt": "<|im_start" * 300000}
    yield "ids and long texts", "/completion", {"prompt": [1, "x" * 2_000_000, 2], "truncate_prompt_tokens": 9, "n_predict": 1}
    yield "a bias for a long text", "/completion", {"prompt": "a", "n_predict": 1, "logit_bias": [["word " * 400000, 1]] * 4}
    yield "a system text of 8 MB", MESSAGES, {**said("hi"), "system": [{"type": "text", "text": "s " * 4000}] * 1000}
    yield "results inside results", MESSAGES, said([{"type": "tool_result", "tool_use_id": "x", "content": [
        {"type": "text", "text": "y"}] * 20000}])
    yield "a suffix", COMPLETIONS, {"prompt": "a" * 100000, "suffix": "b" * 4_000_000, "max_tokens": 1}
    yield "an old context", "/api/generate", {"model": "m", "prompt": "a", "suffix": "b" * 1_000_000, "raw": True}
    yield "500 tools", CHAT, said("hi", tools=[tool(f"f{i}", description="d " * 2000) for i in range(500)])
    yield "calls of calls", CHAT, {"messages": [{"role": "user", "content": "a"}] + [
        {"role": "assistant", "tool_calls": calls(100, '{"a":' * 60 + "1" + "}" * 60)}] * 100, "max_tokens": 1}
    yield "a number of a million digits", COMPLETIONS, b'{"prompt":"a","seed":' + b"9" * 1_000_000 + b"}"
    yield "a fraction of a million digits", COMPLETIONS, b'{"prompt":"a","max_tokens":1,"temperature":0.' + b"3" * 1_000_000 + b"}"
    yield "an exponent of a million digits", COMPLETIONS, b'{"prompt":"a","top_p":1e-' + b"9" * 1_000_000 + b"}"
    yield "escapes", COMPLETIONS, b'{"max_tokens":1,"prompt":"' + b"\\ud83e\\udd8a" * 200000 + b'"}'
    yield "halves of pairs", COMPLETIONS, b'{"max_tokens":1,"prompt":"' + b"\\ud83e" * 200000 + b'"}'
    yield "a name of a megabyte", COMPLETIONS, b'{"max_tokens":1,"prompt":"a","' + b"k" * 1_000_000 + b'":1}'
    yield "a model of a megabyte", CHAT, said("hi", model="\x1b[31m" + "m" * 1_000_000)


def grammars():
    """Answers whose form costs more than it says."""
    yield "choices of one byte's difference", CHAT, said("hi", choice=["a" * 300 + f"{i:05d}" for i in range(3000)])
    yield "long choices", CHAT, said("hi", choice=["a" * 60000 + str(i) for i in range(50)])
    yield "100,000 choices", CHAT, said("hi", choice=[f"{i * 7919 % 100003}" for i in range(100000)])
    yield "a schema 40 deep, strict", CHAT, with_schema(nested(40, {"type": "string", "pattern": "^(a|b)*c{1,50}$"}))
    yield "patterns that multiply", CHAT, with_schema({"allOf": [{"type": "string", "pattern": p} for p in (
        "^(aa)*$", "^(aaa)*$", "^(aaaaa)*$", "^(aaaaaaa)*$", "^(aaaaaaaaaaa)*$", "^(aaaaaaaaaaaaa)*$")]})
    yield "numbers between two", CHAT, with_schema({"type": "number", "minimum": 1e-300, "maximum": 1e300, "multipleOf": 7e-9})
    yield "integers between two", CHAT, with_schema({"type": "integer", "minimum": -2 ** 63, "maximum": 2 ** 63 - 1})
    yield "formats", CHAT, with_schema({"anyOf": [{"type": "string", "format": f} for f in (
        "date-time", "email", "uri", "uuid", "ipv6", "hostname", "duration", "json-pointer")] * 20})
    yield "names that must match", CHAT, with_schema({"type": "object", "patternProperties": {
        f"^(a|b){{{i}}}x": {"type": "integer"} for i in range(1, 40)}, "additionalProperties": False})
    yield "conditions", CHAT, with_schema({"allOf": [{"if": {"properties": {f"p{i}": {"const": i}}},
                                                    "then": {"required": [f"q{i}"]}} for i in range(30)]})
    yield "references in a ring", CHAT, with_schema({"$ref": "#/$defs/a0", "$defs": {
        f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{(i * 7 + 1) % 200}"}, {"type": "array", "items": {
            "$ref": f"#/$defs/a{(i + 1) % 200}"}}]} for i in range(200)}})
    yield "references that are escaped", CHAT, with_schema({"$ref": "#/$defs/" + "~0~1%25" * 9000})
    yield "lists that are counted", CHAT, with_schema({"type": "array", "contains": {"enum": [1, 2]}, "minContains": 400,
                                                      "maxContains": 4000, "items": {"type": "integer"}})
    yield "items before items", CHAT, with_schema({"type": "array", "prefixItems": [{"enum": [i, str(i)]} for i in range(3000)]})
    yield "a class of all characters", CHAT, said("hi", regex="[\\x00-\\U0010ffff]{1,3000}")
    yield "classes of properties", CHAT, said("hi", regex="(\\p{L}\\p{N}){1,400}")
    yield "lazy and greedy", CHAT, said("hi", regex="(a*?b*+c?){90}(.|\\n){900}")
    yield "alternatives of a kind", CHAT, said("hi", regex="|".join("a" * i + "b" for i in range(900)))
    yield "GBNF: left and right", CHAT, said("hi", grammar='root ::= a root b | "x"\na ::= root? "y"\nb ::= a*')
    yield "GBNF: nothing in a ring", CHAT, said("hi", grammar='root ::= a* "x"\na ::= b*\nb ::= c?\nc ::= a | ""')
    yield "GBNF: 20,000 rules", CHAT, said("hi", grammar="root ::= r0\n" + "".join(
        f'r{i} ::= "a" r{i + 1} | "b"\n' for i in range(20000)) + 'r20000 ::= "c"')
    yield "GBNF: deep brackets", CHAT, said("hi", grammar="root ::= " + "(" * 5000 + '"a"' + ")" * 5000)
    yield "GBNF: counts of counts", CHAT, said("hi", grammar='root ::= (("a"{0,200}){0,200}){0,200} "b"')
    yield "GBNF: a long text", CHAT, said("hi", grammar='root ::= "' + "\\x41" * 200000 + '"')
    yield "a call of one of 300 strict tools", CHAT, said("hi", tool_choice="required", tools=[
        tool(f"f{i}", {"type": "object", "properties": {f"p{k}": {"enum": [f"{i}{k}", None]} for k in range(9)}}, strict=True)
        for i in range(300)])
    yield "tools and a form", CHAT, said("hi", tools=[tool("f")], response_format={"type": "json_object"}, n=16)
    yield "Ollama's format", "/api/chat", {"model": "m", **said("hi"), "format": nested(30, {"enum": list(range(200))})}
    yield "a response's format", RESPONSES, {"input": "hi", "max_output_tokens": 9, "text": {"format": {
        "type": "json_schema", "name": "x", "schema": nested(30, {"type": "string", "minLength": 100, "maxLength": 3000})}}}
    yield "a grammar in llama.cpp's words", "/completion", {"prompt": "a", "n_predict": 9, "json_schema": {
        "type": "object", "properties": {f"p{i}": {"type": "string", "maxLength": i} for i in range(200)}}}
    yield "a tag without an end", CHAT, said("hi", structural_tag={"type": "structural_tag", "format": {
        "type": "sequence", "elements": [{"type": "any_text"}] * 3000}})


def rows():
    for make in (repeated, sampled, texts, grammars):
        yield from make()


def row(name, path, body):
    def send(foe):
        foe.send(path, body)
    send.__name__ = f"asks: {name}"
    return send


# --- odd values in every field ---------------------------------------------------------------------

ODD = [None, True, 0, -1, 2 ** 31, 2 ** 63 - 1, -2 ** 63, 1e308, 1e-308, 0.5, "", "a", "\x00", "\x1b[2J", "a" * 100000,
       "\U0001f98a" * 9, "$ref", [], [[]], [None], ["a", 1, None, {}], [[[[1]]]], list(range(5000)), {}, {"": {}},
       {"a": {"b": {"c": []}}}, {"type": "text"}, {"type": "function"}, {"type": "json_schema"}, [{"type": "text"}],
       [{"role": "user"}], [{"type": "text", "text": None}], {str(i): i for i in range(2000)}]
COMMON = ("model", "stream", "temperature", "top_p", "top_k", "min_p", "xtc_probability", "xtc_threshold", "repeat_penalty",
          "repetition_penalty", "presence_penalty", "frequency_penalty", "seed", "logit_bias", "stop_token_ids",
          "allowed_token_ids", "bad_words", "dry_multiplier", "dry_base", "dry_allowed_length", "dry_sequence_breakers",
          "truncate_prompt_tokens", "truncation_side", "ignore_eos", "repetition_detection", "min_tokens",
          "skip_special_tokens", "return_token_ids", "return_tokens_as_token_ids", "return_timings", "regex", "choice",
          "grammar", "json_schema", "priority", "chat_template_kwargs", "stop", "max_tokens", "response_format", "tools",
          "tool_choice", "metadata", "user", "n", "logprobs", "structured_outputs", "guided_json", "thinking", "reasoning")
BASES = {
    CHAT: ({"messages": [{"role": "user", "content": "a"}], "max_tokens": 1},
           ("messages", "top_logprobs", "stream_options", "parallel_tool_calls", "prediction", "reasoning_effort",
            "max_completion_tokens", "functions", "modalities", "add_generation_prompt", "continue_final_message",
            "return_progress", "service_tier", "store", "structural_tag")),
    COMPLETIONS: ({"prompt": "a", "max_tokens": 1}, ("prompt", "suffix", "echo", "best_of", "stream_options", "parse_special",
                                                     "add_special_tokens")),
    MESSAGES: ({"messages": [{"role": "user", "content": "a"}], "max_tokens": 1},
               ("messages", "system", "stop_sequences", "output_config", "output_format", "mcp_servers", "container")),
    RESPONSES: ({"input": "a", "max_output_tokens": 1},
                ("input", "instructions", "previous_response_id", "text", "store", "include", "conversation", "prompt",
                 "background", "max_output_tokens", "parallel_tool_calls", "truncation")),
    "/v1/messages/count_tokens": ({"messages": [{"role": "user", "content": "a"}]}, ("messages", "system")),
    "/api/chat": ({"messages": [{"role": "user", "content": "a"}], "options": {"num_predict": 1}},
                  ("messages", "options", "format", "think", "keep_alive", "images", "template", "context")),
    "/api/generate": ({"prompt": "a", "options": {"num_predict": 1}},
                      ("prompt", "system", "suffix", "raw", "options", "format", "think", "context", "images")),
    "/api/show": ({"model": "m"}, ("model", "verbose", "system")),
    "/completion": ({"prompt": "a", "n_predict": 1},
                    ("prompt", "n_predict", "n_cmpl", "n_probs", "response_fields", "return_tokens", "return_progress",
                     "samplers", "id_slot", "n_indent", "lora", "post_sampling_probs", "max_completion_tokens")),
    "/infill": ({"input_prefix": "a", "input_suffix": "b", "n_predict": 1},
                ("input_prefix", "input_suffix", "input_extra", "prompt")),
    "/tokenize": ({"prompt": "a"}, ("prompt", "content", "messages", "with_pieces", "return_token_strs", "add_special",
                                    "parse_special")),
    "/detokenize": ({"tokens": [5]}, ("tokens", "skip_special_tokens")),
    "/apply-template": ({"messages": [{"role": "user", "content": "a"}]}, ("messages", "add_generation_prompt",
                                                                           "continue_final_message")),
}


def odd_bodies():
    """Every field of every route with every odd value, and those of a message with some."""
    for path, (base, own) in BASES.items():
        for key in own + COMMON:
            for value in ODD:
                yield path, {**base, key: value}
        for key in ("role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content", "thinking", "refusal"):
            for value in ODD if "messages" in base else ():
                yield path, {**base, "messages": [{"role": "assistant", "content": "a", key: value}]}


def odd_fields(foe):
    bodies = [(path, json.dumps(body).encode()) for path, body in odd_bodies()]
    while not foe.over():
        foe.send(*foe.rng.choice(bodies))


def chains(foe):
    """Conversations that go on from their last response, and branch, and are deleted in the middle."""
    last = None
    while not foe.over():
        body = {"input": "a " * foe.rng.choice([1, 3000]), "max_output_tokens": 1, "previous_response_id": last}
        s = foe.connect()
        data = json.dumps(body).encode()
        s.sendall(f"POST {RESPONSES} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
                  .encode() + data)
        got = b""
        while (piece := s.recv(65536)):
            got += piece
        at = got.find(b'"resp_')
        s.close()
        foe.socks.remove(s)
        made = got[at + 1:got.find(b'"', at + 1)].decode() if at >= 0 else None
        if made and foe.rng.random() < 0.1:
            foe.send(f"{RESPONSES}/{made}", method="DELETE")
        last = made if foe.rng.random() < 0.9 else None


KINDS = [odd_fields, chains]

# SPDX-License-Identifier: Apache-2.0
# Answers of run and chat that are held to a schema or an expression, calls of tools, and reasoning that is held to a budget.
. "$(dirname "$0")/common.bash"

run_it run "$data/llama-f32" --ids 1 --grammar-regex a
expect "ids have no grammar" 2 err "--ids" err "--grammar-regex"
run_it run "$data/llama-f32" --ids 1 --think-budget 4
expect "and no budget" 2 err "--ids" err "--think-budget"

model=${XDG_CACHE_HOME:-${HOME:-}/.cache}/whimbrel/SmolLM2-135M-Instruct.Q4_1.gguf
if [[ ! -f $model ]]; then
    skip "run with grammars" "the default model is not there; make model fetches it"
    finish
fi

schema=$TEST_TMP/schema.json
cat >"$schema" <<'END'
{"type": "object", "required": ["name", "legs"], "additionalProperties": false,
 "properties": {"name": {"type": "string", "maxLength": 12}, "legs": {"type": "integer", "minimum": 0, "maximum": 8}}}
END
for seed in 1 2; do
    run_it run "$model" -p "Name an animal." --temp 1.5 --seed $seed -q --json-schema "$schema"
    expect "an answer by a schema, seed $seed" 0
    expect_python "is what it says, seed $seed" "
r = json.loads(text)
assert list(r) == ['name', 'legs'] and len(r['name']) <= 12 and 0 <= r['legs'] <= 8, text"
done
run_it run "$model" -p "Name an animal." --temp 1.5 --seed 1 -q --grammar-regex '(cat|dog)-[0-9]{3}' --json
expect_python "an answer by an expression ends where that does" "
import re
r = json.loads(text)
assert re.fullmatch('(cat|dog)-[0-9]{3}', r['text']) and r['stop'] == 'eos', r"
run_it run "$model" --raw -p "1 + 1 = " --temp 0 -q --grammar-regex '[0-9]{3}'
expect_python "also of plain text" "assert len(text.strip()) == 3 and text.strip().isdigit(), text"

# Tools: they stand in the prompt, and calls come apart from the text.
tools=$TEST_TMP/tools.json
cat >"$tools" <<'END'
[{"type": "function", "function": {"name": "get_weather", "description": "the weather of a city", "parameters":
  {"type": "object", "required": ["city", "days"], "additionalProperties": false,
   "properties": {"city": {"type": "string", "maxLength": 20}, "days": {"type": "integer", "minimum": 1, "maximum": 9}}}}}]
END
run_it run "$model" -p "Weather in Paris?" --tools "$tools" --tool-choice required --temp 1.5 --seed 3 -n 80 -q --json
expect_python "a call that must be" "
r = json.loads(text)
assert r['text'].startswith('<tool_call>') and r['tool_calls'], r
for call in r['tool_calls']:
    a = call['arguments']
    assert call['name'] == 'get_weather' and list(a) == ['city', 'days'] and 1 <= a['days'] <= 9, r"
with_tools=$(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["prompt_ids"]))' "$TEST_TMP/out")
run_it run "$model" -p "Weather in Paris?" --temp 0 -n 1 -q --json
expect_python "tools stand in the prompt, and without them there are no calls" "
r = json.loads(text)
assert len(r['prompt_ids']) + 50 < $with_tools and 'tool_calls' not in r, r"
run_it run "$model" -p "Weather in Paris?" --tools "$tools" --temp 0 -n 4 -q --json
expect_python "a call that may be" "assert json.loads(text)['tool_calls'] == [], text"

# Reasoning that the prompt leaves open stays free, and its budget ends it.
printf '%s' '{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: <think>' >"$TEST_TMP/think.jinja"
run_it run "$model" -p "Say hello." --chat-template "$TEST_TMP/think.jinja" --think-budget 6 --temp 0 -q --grammar-regex '(cat|dog)!' --json
expect_python "the expression holds after the reasoning, which its budget ends" "
import re
r = json.loads(text)
thought, answer = r['text'].split('</think>')
assert len(thought) > 6 and re.fullmatch('(cat|dog)!', answer.strip()), r
assert len(r['ids']) < 20, r"

printf 'Is it?\nAnd now?\n' | "$WHIMBREL" chat "$model" -q --temp 1.5 --grammar-regex 'yes|no' >"$TEST_TMP/out" 2>"$TEST_TMP/err"
expect_python "every answer of a chat is held to it" "assert [t in ('yes', 'no') for t in text.split()] == [True, True], text"

# What cannot be is refused before anything is loaded.
refuse()
{
    local name=$1
    shift
    run_it run "$model" -p x "$@"
    if [[ $err == *loading:* ]]; then bad "$name" "it loaded"; fi
}
refuse "an expression without its end" --grammar-regex '(yes'
expect "an expression without its end" 1 err "--grammar-regex" err "at character 5" err ") is missing"
refuse "a file that is not there" --json-schema "$TEST_TMP/none.json"
expect "a file that is not there" 2 err "--json-schema" err "$TEST_TMP/none.json"
echo '{"type": "object"' >"$TEST_TMP/half.json"
refuse "half a file" --json-schema "$TEST_TMP/half.json"
expect "half a file" 2 err "$TEST_TMP/half.json: not valid JSON at line"
echo '[1]' >"$TEST_TMP/list.json"
refuse "a list" --json-schema "$TEST_TMP/list.json"
expect "a list" 2 err "$TEST_TMP/list.json" err "an object such as"
echo '{"properties": {"a": {"type": "whale"}}}' >"$TEST_TMP/whale.json"
refuse "a schema that makes no sense" --json-schema "$TEST_TMP/whale.json"
expect "a schema that makes no sense" 1 err "--json-schema" err "properties.a" err "unknown type"
refuse "two at once" --json-schema "$schema" --grammar-regex a
expect "two at once" 2 err "--json-schema and --grammar-regex"
refuse "a call of nothing" --tool-choice required
expect "a call of nothing" 2 err "--tool-choice" err "no --tools"
refuse "a schema is no list of tools" --tools "$schema"
expect "a schema is no list of tools" 2 err "$schema" err "a list"
echo '[{"name": "f"}]' >"$TEST_TMP/flat.json"
refuse "a tool of another form" --tools "$TEST_TMP/flat.json"
expect "a tool of another form" 2 err "tool 1 is not of the form"
refuse "tools without turns" --tools "$tools" --raw
expect "tools without turns" 1 err "--tools" err "chat template"
printf '/quit\n' | "$WHIMBREL" chat "$model" -q --grammar-regex '(' >"$TEST_TMP/out" 2>"$TEST_TMP/err"
rc=$? out=$(<"$TEST_TMP/out") err=$(<"$TEST_TMP/err")
expect "a chat refuses it before its first turn" 1 err "--grammar-regex"
finish

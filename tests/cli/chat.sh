# SPDX-License-Identifier: Apache-2.0
# whimbrel chat through pipes: lines in, answers out, nothing else. Needs the default model.
. "$(dirname "$0")/common.bash"

run_it chat --help
expect "chat --help" 0 out "whimbrel chat" out "--temp" out "--system" out "--ctx"
run_it chat --json
expect "chat has no --json" 2 err "--json"
run_it chat "$data/llama-f32" </dev/null
expect "a model without tokenizer is refused" 1 err "tokenizer"
run_it chat "$data/llama-f3" </dev/null
expect "an unknown model, with near names" 1 err "$data/llama-f32"

# talk ARGS...: lines on standard input, the rest as run_it.
talk()
{
    "$WHIMBREL" chat "$model" -q --temp 0 "$@" >"$TEST_TMP/out" 2>"$TEST_TMP/err"
    rc=$?
    out=$(<"$TEST_TMP/out")
    err=$(<"$TEST_TMP/err")
}

# A tiny model with a letter for each id; a bias makes it say one for ever.
model=$TEST_TMP/circles
mkdir "$model"
ln -s "$(realpath "$data/llama-bf16/model.safetensors")" "$model"
sed 's/"max_position_embeddings": [0-9]*/"max_position_embeddings": 4096/' "$data/llama-bf16/config.json" >"$model/config.json"
vocab=$(for ((i = 0; i < 83; i++)); do printf ',"\\u%04x":%d' $((33 + i)) $i; done)
level='{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}'
printf '{"pre_tokenizer":%s,"decoder":%s,"model":{"type":"BPE","vocab":{%s},"merges":[]}}' \
    "$level" "$level" "${vocab#,}" >"$model/tokenizer.json"
echo '{{ messages[0].content }}' >"$TEST_TMP/template"
circle=(-n 2056 --logit-bias 64=100 --chat-template "$TEST_TMP/template")
talk "${circle[@]}" <<<"Hi."
expect "an answer that goes in circles is ended, and it is told why" 0 err "repeats itself" err "/regenerate"
expect_same "after 2048 tokens" "${#out}" 2048
talk "${circle[@]}" --no-repetition-detection <<<"Hi."
expect_same "it goes on where that is asked for" "$err" ""
expect_same "to its end" "${#out}" 2056

model=${XDG_CACHE_HOME:-${HOME:-}/.cache}/whimbrel/SmolLM2-135M-Instruct.Q4_1.gguf
if [[ ! -f $model ]]; then
    skip "chat" "the default model is not there; make model fetches it"
    finish
fi

talk -n 12 <<<"Say hello."
expect "an answer comes" 0
expect_same "and nothing else" "$err" ""
if [[ -n $out && $out != *$'\033'* && $out != *"> "* && $out != *tokens/s* ]]; then
    ok "no prompt, no codes, no figures"
else
    bad "no prompt, no codes, no figures" "$out"
fi
first=$out
"$WHIMBREL" run "$model" -q --temp 0 -n 12 -p "Say hello." >"$TEST_TMP/out"
expect_same "it is the answer that run gives" "$first" "$(<"$TEST_TMP/out")"

# Turns: what is kept between them changes nothing. The second answer alone, after loading the first turn.
talk -n 24 <<EOF
My name is Ada.
What is my name?
/save $TEST_TMP/warm.json
EOF
expect "two turns" 0
python3 - "$TEST_TMP" <<'EOF'
import json, sys
m = json.load(open(sys.argv[1] + "/warm.json"))
m["messages"] = m["messages"][:2]
json.dump(m, open(sys.argv[1] + "/half.json", "w"))
EOF
talk -n 24 <<EOF
/load $TEST_TMP/half.json
What is my name?
/save $TEST_TMP/cold.json
EOF
if cmp -s "$TEST_TMP/warm.json" "$TEST_TMP/cold.json"; then ok "a turn with reuse equals a cold one"; else
    bad "a turn with reuse equals a cold one" "$(diff "$TEST_TMP/warm.json" "$TEST_TMP/cold.json" | head -4)"; fi

talk -n 8 <<EOF
One.
/regenerate
/save $TEST_TMP/a.json
Two.
/undo
/save $TEST_TMP/b.json
/system You are a crab.
/clear
Three.
/save $TEST_TMP/c.json
/quit
Four.
EOF
expect "commands work" 0
if cmp -s "$TEST_TMP/a.json" "$TEST_TMP/b.json"; then ok "/undo takes back a turn"; else
    bad "/undo takes back a turn" "$(<"$TEST_TMP/b.json")"; fi
cp "$TEST_TMP/c.json" "$TEST_TMP/out"
expect_python "/system, /clear and /quit" "
m = json.loads(text)['messages']
assert [x['role'] for x in m] == ['system', 'user', 'assistant'], m
assert m[0]['content'] == 'You are a crab.' and m[1]['content'] == 'Three.', m"
cp "$TEST_TMP/a.json" "$TEST_TMP/out"
expect_python "/regenerate replaces the answer" "assert len(json.loads(text)['messages']) == 2, text"

talk <<<"/params temperature 0.5"
expect "/params changes a parameter" 0 out "temperature 0.5"
talk <<<"/params heat 3"
expect "/params refuses what is unknown" 0 err "heat" err "top_k"
talk <<<"/params top_p 3"
expect "/params refuses what is out of range" 0 err "top_p"
talk <<<"/help"
expect "/help lists the commands" 0 out "/regenerate" out "/quit"
talk <<<"/sav x"
expect "a mistyped command" 0 err "/save?"
talk <<<"/load $TEST_TMP/none"
expect "/load of nothing" 0 err "$TEST_TMP/none"
talk <<<"/save /nowhere/at/all"
expect "/save to nowhere" 0 err "/nowhere/at/all"
talk -n 4 <<<'first \
second
/save '"$TEST_TMP"'/d.json'
cp "$TEST_TMP/d.json" "$TEST_TMP/out"
expect_python "a backslash joins lines" "
assert json.loads(text)['messages'][0]['content'] == 'first \nsecond', text"

# A template that opens the reasoning: what is thought is kept apart and not shown to a pipe.
printf '%s' '{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: <think>' >"$TEST_TMP/think.jinja"
talk -n 8 --chat-template "$TEST_TMP/think.jinja" <<EOF
Say hello.
/save $TEST_TMP/think.json
EOF
expect_same "reasoning is not shown to a pipe" "$out" ""
cp "$TEST_TMP/think.json" "$TEST_TMP/out"
expect_python "but kept" "
m = json.loads(text)['messages']
assert m[1]['content'] == '' and m[1]['reasoning_content'], m"

# A conversation that outgrows its context.
talk --ctx 64 <<EOF
Say hello.
And now tell me a very long story about the sea and the birds that live there.
/save $TEST_TMP/full.json
EOF
expect "a full context is told, with the ways out" 1 err "context" err "Your message was not added" err "/clear"
finish

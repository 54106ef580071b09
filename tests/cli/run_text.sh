# SPDX-License-Identifier: Apache-2.0
# whimbrel run with text: prompts from everywhere, streaming, stop strings, seeds, JSON, interrupts, a full
# context. Needs the default model.
. "$(dirname "$0")/common.bash"

model=${XDG_CACHE_HOME:-${HOME:-}/.cache}/whimbrel/SmolLM2-135M-Instruct.Q4_1.gguf
if [[ ! -f $model ]]; then
    skip "text prompts" "the default model is not there; make model fetches it"
    finish
fi

run_it run --raw -p "The capital of France is" --temp 0 -n 3 -q
expect_same "plain continuation" "$out" " Paris."
expect_same "quiet is quiet" "$err" ""
answer_raw=$out
printf 'The capital of France is' | "$WHIMBREL" run --raw --temp 0 -n 3 -q >"$TEST_TMP/out"
expect_same "the prompt from a pipe" "$(<"$TEST_TMP/out")" "$answer_raw"
printf 'The capital of France is' | "$WHIMBREL" run --raw -p - --temp 0 -n 3 -q >"$TEST_TMP/out"
expect_same "the prompt from -p -" "$(<"$TEST_TMP/out")" "$answer_raw"

run_it run "The capital of France is" --raw --temp 0 -n 3 -q
expect_same "a text alone is the prompt" "$out" "$answer_raw"

run_it run --verbose -p "Hello, who are you?" --temp 0 -n 16
expect "the chat template is used, and said" 0 err "with the chat template" err "sampling: temperature 0"
run_it run --verbose -p "Hello, who are you?" -n 4
expect "defaults are shown" 0 err "temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, repetition_penalty 1.1, seed " err "defaults from whimbrel"
run_it run --verbose -p "Hello, who are you?" -n 4 --temp 0 --repeat-penalty 1.2
expect "a penalty is used where it is asked for" 0 err "temperature 0 (always the likeliest), repetition_penalty 1.2 "
run_it run --verbose -p "Hello, who are you?" --temp 0 -n 16 --json -q
cp "$TEST_TMP/out" "$TEST_TMP/plain"
expect_python "JSON holds everything" "
r = json.loads(text)
assert r['model'].endswith('.gguf') and r['prompt'] == 'Hello, who are you?', r
assert len(r['ids']) == r['usage']['completion_tokens'] <= 16 and r['text'], r
assert r['usage']['prompt_tokens'] == len(r['prompt_ids']) > 10, r
assert r['stop'] in ('length', 'eos') and r['timings']['prompt_s'] > 0 and r['sampling']['temperature'] == 0, r"
run_it run --verbose -p "Hello, who are you?" -s "You are a parrot." --temp 0 -n 16 --json -q
expect_python "a system message changes the prompt" "
assert json.loads(text)['prompt_ids'] != json.load(open('$TEST_TMP/plain'))['prompt_ids']"
run_it run --raw -s "x" -p "y" -q
expect "--raw has no place for --system" 1 err "--system"
run_it run --raw -p "<|im_start|>" -n 1 -q --json
expect_python "special tokens in text are text" "assert len(json.loads(text)['prompt_ids']) > 1, text"

# Seeds.
for i in 1 2; do
    run_it run -p "Tell me about the sea." -n 24 --temp 1 --seed 7 -q
    cp "$TEST_TMP/out" "$TEST_TMP/seed$i"
done
expect_same "the same seed gives the same text" "$(<"$TEST_TMP/seed1")" "$(<"$TEST_TMP/seed2")"
run_it run -p "Tell me about the sea." -n 24 --temp 1 --seed 8 -q
if [[ $out != "$(<"$TEST_TMP/seed1")" ]]; then ok "another seed, another text"; else
    bad "another seed, another text" "it is the same"; fi

# Stop strings: inside a token, over several tokens, never shown in part.
run_it run --raw -p "One, two, three, four," --temp 0 -n 24 -q
full=$out
run_it run --raw -p "One, two, three, four," --temp 0 -n 24 -q --json --stop "en, e" --stop "zzz"
cp "$TEST_TMP/out" "$TEST_TMP/stop"
expect_python "a stop string ends the text before it" "
r, full = json.loads(text), '''$full'''
assert 'en, e' in full, full
assert r['stop'] == 'stop' and r['stop_text'] == 'en, e', r
assert r['text'] == full[:full.index('en, e')], r"

# Log-probabilities with texts.
run_it run --raw -p "The capital of France is" --temp 0 -n 2 -q --logprobs 2
expect "log-probabilities with texts" 0 out '" Paris" -0.' out '" the":'
run_it run --raw -p "The capital of France is" --temp 0 -n 2 -q --json --prompt-logprobs 1 --logprobs 1
expect_python "log-probabilities of the prompt" "
r = json.loads(text)
assert [p and p['text'] for p in r['prompt_logprobs']] == [None, ' capital', ' of', ' France', ' is'], r
assert all(p['logprob'] <= p['top'][0][1] for p in r['prompt_logprobs'][1:])
assert r['logprobs'][0]['text'] == ' Paris'"

# Whole characters only, whatever the tokens are.
run_it run --raw -p "Emoji: 🙂🙃🦜 日本語 日本" --temp 0.9 --seed 3 -n 60 -q --ignore-eos
if iconv -f UTF-8 -t UTF-8 "$TEST_TMP/out" >/dev/null 2>&1; then ok "the output is UTF-8"; else
    bad "the output is UTF-8" "iconv refuses it"; fi

# Ends.
run_it run --raw -p "One, two, three, four," --temp 0 --ignore-eos --ctx 20 -q
expect "a full context is told, also when quiet" 0 err "the context of 20 tokens is full" err "--ctx makes it longer"
run_it run -p "$(printf 'word %.0s' {1..300})" --ctx 100 -q
expect "a prompt that does not fit is refused" 1 err "more than the context of 100" err "--ctx"
"$WHIMBREL" run --raw -p "One, two, three," --temp 0 --ignore-eos -q >"$TEST_TMP/out" 2>"$TEST_TMP/err" &
pid=$!
for ((tries = 600; tries > 0; tries--)); do
    [[ -s $TEST_TMP/out ]] && break
    sleep 0.1
done
kill -INT $pid
wait $pid
rc=$?
expect_same "Ctrl-C ends a run with status 130" "$rc" 130
if [[ -s $TEST_TMP/out ]]; then ok "with what was made"; else bad "with what was made" "nothing"; fi
"$WHIMBREL" run -p "Hello" -n 8 -q --temp 0 >/dev/full 2>"$TEST_TMP/err"
rc=$? err=$(<"$TEST_TMP/err") out=
expect "a full disk is an error" 1 err "standard output"

# Wrong input.
run_it run -p ""
expect "an empty prompt is refused" 2 err "prompt is empty"
printf 'a\377b' | "$WHIMBREL" run -q >"$TEST_TMP/out" 2>"$TEST_TMP/err"
rc=$? err=$(<"$TEST_TMP/err")
expect "text that is not UTF-8 is refused" 1 err "UTF-8"
printf 'one\n{%% if x %%}\n two\n' >"$TEST_TMP/broken.jinja"
run_it run -p "Hi" --chat-template "$TEST_TMP/broken.jinja"
expect "a broken template: file, line and column" 1 err "$TEST_TMP/broken.jinja" err "line"
printf '{{ raise_exception("no such thing") }}' >"$TEST_TMP/raises.jinja"
run_it run -p "Hi" --chat-template "$TEST_TMP/raises.jinja"
expect "a template that refuses" 1 err "no such thing"
printf '{{ messages[0].content }}{{ extra }}' >"$TEST_TMP/kwargs.jinja"
run_it run -p "Hi" --chat-template "$TEST_TMP/kwargs.jinja" --template-kwargs '{"extra":" there"}' -n 1 --json -q
expect_python "variables for the template" "assert len(json.loads(text)['prompt_ids']) == 2, text"
run_it run -p "Hi" --template-kwargs '[1]'
expect "variables must be an object" 1 err "--template-kwargs" err "JSON object"
run_it run -p "Hi" --template-kwargs '{"n":18446744073709551616}'
expect "and have numbers that can be held" 1 err "--template-kwargs" err "64 bits"
finish

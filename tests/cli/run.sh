# SPDX-License-Identifier: Apache-2.0
# whimbrel run on the tiny checkpoints: the ids of the independent implementation, in every way of
# asking for them.
. "$(dirname "$0")/common.bash"

tiny=$data/llama-f32
for folder in "$data"/*/; do
    name=$(basename "$folder")
    [[ -f $folder/config.json ]] || continue
    ids=$(prompt "$name" 1 tokens) want=$(prompt "$name" 1 greedy)
    run_it run "$folder" --ids "$ids" -n "$(wc -w <<<"$want")" --ignore-eos --quiet
    expect_same "greedy ids of $name" "$out" "$want"
    expect_same "quiet is quiet ($name)" "$err" ""
done

run_it run --verbose "$data/qwen35-f32" --ids "1 2 3" -n 1
expect "what text does not need is not loaded, in one line" 0 err "not loaded: 2 vision tensors" err "2 MTP tensors" \
    err "recurrent states"

run_it run --verbose "$data/minimax-fp8" --ids "1 2 3" -n 1
expect "quantised weights that become floats are named, in one line" 0 err "loaded as floats: " err "quantised weights ("
run_it run --verbose "$tiny" --ids "1 2 3" -n 1
expect_python "where there are none the line is not" "assert 'loaded as floats' not in open('$TEST_TMP/err').read()"

for i in 0 1 2 3 4; do
    ids=$(prompt llama-f32 $i tokens) want=$(prompt llama-f32 $i greedy)
    run_it run --verbose "$tiny" --ids "${ids// /,}" -n "$(wc -w <<<"$want")" --ignore-eos --max-step-tokens 7
    expect_same "prompt $i in steps of 7" "$out" "$want"
done
run_it run "$tiny" --ids "1 2 3" -n 1
expect_same "unless it is asked for, nothing but the answer is printed" "$err" ""
run_it run --verbose "$tiny" --ids "1 2 3" -n 2 --ignore-eos
expect "a summary follows" 0 err "tokens/s" err "memory plan" err "weights"

ids=$(prompt llama-f32 1 tokens) want=$(prompt llama-f32 1 greedy)
tr ' ' '\n' <<<"$ids" | "$WHIMBREL" run "$tiny" --ids - -n 24 --ignore-eos -q >"$TEST_TMP/out" 2>"$TEST_TMP/err"
expect_same "ids from standard input" "$(<"$TEST_TMP/out")" "$want"
run_it run "$tiny" --ids "$ids" -n 24 --ignore-eos -q -t 1
expect_same "one thread" "$out" "$want"

run_it run "$tiny" --ids "$ids" -n 24 --ignore-eos -q --trace-ops
expect_same "traced" "$out" "$want"
expect "every op is told with its operands" 0 err "linear " err " us " err " x=F32[1," err "attn_paged "

run_it run "$tiny" --ids "$ids" -n 5 --ignore-eos --json --logprobs 100
expect "json ends well" 0
expect_python "json holds ids and log-probabilities" "
r = json.loads(text)
assert r['prompt_ids'] == [int(i) for i in '$ids'.split()], r
assert r['ids'] == [int(i) for i in '$want'.split()[:5]], r
assert r['stop'] == 'length' and r['prompt_tps'] > 0 and r['gen_tps'] > 0, r
assert [s['id'] for s in r['logprobs']] == r['ids']
for s in r['logprobs']:
    top = [p for _, p in s['top']]
    assert len(top) == 100 and top == sorted(top, reverse=True) and s['logprob'] == top[0] <= 0
    assert len({i for i, _ in s['top']}) == 100
    assert 0.9 < sum(map(math.exp, top)) < 1 + 1e-6"

# Text that goes in circles is proposed, and is the same.
circle="5 6 7 8 5 6 7 8 5 6 7 8 5 6 7 8"
run_it run "$tiny" --ids "$circle" -n 200 --ignore-eos --json -q --no-lookup
plain=$out
run_it run "$tiny" --ids "$circle" -n 200 --ignore-eos --json -q
expect_python "lookup changes no token and says what was proposed" "
a, b = json.loads(text), json.loads('''$plain''')
assert a['ids'] == b['ids']
t = a['timings']
assert 0 <= t['accepted_tokens'] <= t['proposed_tokens'], t
assert b['timings']['proposed_tokens'] == b['timings']['accepted_tokens'] == 0"
# A draft proposes, and changes nothing; it is found beside a model.
drafts=$data/../drafts
run_it run "$tiny" --ids "$ids" -n 40 --ignore-eos -q --no-lookup
undrafted=$out
run_it run "$tiny" --ids "$ids" -n 40 --ignore-eos -q --no-lookup --draft "$drafts/llama-f32-dflash"
expect_same "a draft changes no token" "$out" "$undrafted"
run_it run "$tiny" --ids "$ids" -n 40 --ignore-eos -q --draft "$drafts/llama-f32-dflash-tokens" --draft-type q4_0
expect_same "nor does a narrow one" "$out" "$undrafted"
mkdir "$TEST_TMP/drafted"
ln -s "$(realpath "$tiny")"/* "$TEST_TMP/drafted"
ln -s "$(realpath "$drafts/qwen3-f32-dflash")" "$TEST_TMP/drafted/draft"
run_it run "$TEST_TMP/drafted" --ids "$ids" -n 40 --ignore-eos -q
expect "a draft beside the model that was made for another is not used" 0 err "hidden_size" err "--no-draft"
expect_same "the answer comes without it" "$out" "$undrafted"
expect_same "it is told once" "$(grep -c "is not used" <<<"$err")" 1
run_it run "$TEST_TMP/drafted" --ids "$ids" -n 40 --ignore-eos -q --no-draft
expect_same "is left alone" "$out$err" "$undrafted"
run_it run "$TEST_TMP/drafted" --ids "$ids" -n 2 -q --draft "$TEST_TMP/drafted/draft"
expect "one that was asked for is refused" 1 err "--draft: " err "hidden_size"
ln -s "$(realpath "$data/llama-mixed-gguf/model.gguf")" "$TEST_TMP/parted-00001-of-00001.gguf"
ln -s "$(realpath "$drafts/qwen3-f32-dflash")" "$TEST_TMP/parted.draft"
run_it run "$TEST_TMP/parted-00001-of-00001.gguf" --ids "1 2 3" -n 2 -q
expect "a draft beside the parts of a model" 0 err "hidden_size" err "parted.draft"
run_it run "$tiny" --ids "$ids" -n 2 -q --kv-mem 1T --draft "$drafts/llama-f32-dflash"
expect "too little memory for a model with its draft" 1 err "--kv-mem, --no-draft)"
run_it run "$tiny" --ids "$ids" -n 2 -q --kv-mem 1T
expect "and without one" 1 err "--kv-mem)"
run_it run "$tiny" --ids "$ids" -n 2 --draft "$TEST_TMP/none"
expect "a draft that is not there" 1 err "--draft" err "$TEST_TMP/none"
small=$data/qwen3-f32
run_it run "$small" --ids "1 2 3" -n 2 --ignore-eos --json --logprobs 100
expect_python "log-probabilities of a whole vocabulary sum to 1" "
for s in json.loads(text)['logprobs']:
    assert len(s['top']) == 83, len(s['top'])
    assert abs(sum(math.exp(p) for _, p in s['top']) - 1) < 1e-6"
run_it run "$tiny" --ids "$ids" -n 3 --ignore-eos --logprobs 2 -q
expect_python "text with log-probabilities: a line for each token" "
rows = text.splitlines()
assert [r.split()[0] for r in rows] == '$want'.split()[:3], text
assert all(r.split()[1].startswith(r.split()[0] + ':-') and len(r.split()) == 3 for r in rows), text"

# A model whose end-of-sequence id comes as third token.
mkdir -p "$TEST_TMP/eos" && cp "$tiny"/* "$TEST_TMP/eos"
third=$(cut -d' ' -f3 <<<"$want")
sed -i "s/\"eos_token_id\": [0-9]*/\"eos_token_id\": $third/" "$TEST_TMP/eos/config.json"
run_it run --verbose "$TEST_TMP/eos" --ids "$ids" -n 24
expect_same "generation stops at the end id" "$out" "$(cut -d' ' -f1-3 <<<"$want")"
expect "and says so" 0 err "stop: eos"

run_it run --verbose "$tiny" --ids "$ids" -n 24 --ignore-eos --ctx 9
expect "a full context is told" 0 err "context of 9 tokens is full" err "3 of 24" err "stop: context"
expect_same "and what fits is right" "$out" "$(cut -d' ' -f1-3 <<<"$want")"
run_it run "$tiny" --ids "$ids" --ctx 6
expect "a prompt longer than the context is refused" 1 err "7 tokens" err "context of 6"
run_it run --verbose "$tiny" --ids "$ids" -n 60 --ignore-eos --kv-mem 40K
expect "full KV memory is told" 0 err "--kv-mem gives more" err "26 of 60" err "stop: context"
run_it run "$tiny" --ids "$(prompt llama-f32 2 tokens)" --kv-mem 40K
expect "a prompt larger than the KV memory is refused" 1 err "64 tokens" err "--kv-mem"
run_it run "$tiny" --ids "1 149"
expect "an id outside the vocabulary is refused" 1 err "149" err "0 to 148"
run_it run "$tiny" --ids "1 -1"
expect "a negative id is refused" 1 err "-1" err "0 to 148"
run_it run "$tiny" --ids "1 99999999999"
expect "a huge id is refused" 1 err "99999999999"
for wrong in "1 two" "1.5" "" "1;2" "999999999999999999999"; do
    run_it run "$tiny" --ids="$wrong"
    expect "ids \"$wrong\" are refused" 2 err "--ids"
done
run_it run "$tiny" </dev/null
expect "a prompt is needed" 2 err "prompt is empty" err "--ids"
run_it run "$tiny" -p "Hello"
expect "text needs a tokenizer" 1 err "tokenizer"
run_it run "$tiny" --ids 1 -p "Hello"
expect "ids or text, not both" 2 err "--ids" err "a prompt"

# Prompt log-probabilities: the same in chunks of rows and whatever the step is.
long=$(prompt llama-f32 2 tokens)
run_it run "$tiny" --ids "$long" -n 1 --json -q --prompt-logprobs 3
cp "$TEST_TMP/out" "$TEST_TMP/rows"
expect_python "prompt log-probabilities: one for each token but the first" "
r = json.loads(text)
p = r['prompt_logprobs']
assert len(p) == len(r['prompt_ids']) and p[0] is None, p
for i, s in enumerate(p[1:], 1):
    assert s['id'] == r['prompt_ids'][i] and len(s['top']) == 3 and s['logprob'] <= s['top'][0][1] <= 0"
run_it run "$tiny" --ids "$long" -n 1 --json -q --prompt-logprobs 3 --max-step-tokens 7
expect_python "and the same in steps of 7" "
a, b = json.load(open('$TEST_TMP/rows')), json.loads(text)
assert a['prompt_logprobs'] == b['prompt_logprobs'] and a['ids'] == b['ids']"

# Sampling by seed.
for seed in 1 2; do
    run_it run "$tiny" --ids "$ids" -n 24 --ignore-eos -q --temp 1 --seed $seed
    expect "sampling with seed $seed" 0
    cp "$TEST_TMP/out" "$TEST_TMP/seed$seed"
done
run_it run "$tiny" --ids "$ids" -n 24 --ignore-eos -q --temp 1 --seed 1 -t 1 --max-step-tokens 3
expect_same "a seed gives the same ids again" "$out" "$(<"$TEST_TMP/seed1")"
if [[ $(<"$TEST_TMP/seed1") != $(<"$TEST_TMP/seed2") ]]; then ok "another seed, other ids"; else
    bad "another seed, other ids" "they are the same"; fi
run_it run "$tiny" --ids "$ids" -n 24 --ignore-eos -q --temp 1 --top-k 1
expect_same "top-k 1 is greedy" "$out" "$want"
first=${want%% *}
run_it run "$tiny" --ids "$ids" -n 1 --ignore-eos -q --logit-bias "$first=-100"
if [[ $out != "$first" ]]; then ok "a bias forbids a token"; else bad "a bias forbids a token" "$out"; fi
run_it run "$tiny" --ids "$ids" -n 3 --ignore-eos -q --logit-bias 9=100
expect_same "a bias forces a token" "$out" "9 9 9"
# One token for ever: run goes on unless it is asked not to.
mkdir "$TEST_TMP/long"
ln -s "$(realpath "$tiny")"/model* "$TEST_TMP/long"
sed 's/"max_position_embeddings": [0-9]*/"max_position_embeddings": 4096/' "$tiny/config.json" >"$TEST_TMP/long/config.json"
run_it run --verbose "$TEST_TMP/long" --ids "$ids" -n 2100 --ignore-eos --logit-bias 9=100
expect_same "a circle goes on" "$(wc -w <<<"$out")" 2100
run_it run --verbose "$TEST_TMP/long" --ids "$ids" -n 2100 --ignore-eos --logit-bias 9=100 --repetition-detection
expect_same "a circle is ended where that is asked for" "$(wc -w <<<"$out")" 2048
expect "and it is told why" 0 err "stop: repetition"
run_it run "$tiny" --ids "$ids" --logit-bias 9
expect "a bias without value is refused" 1 err "ID=X"
run_it run "$tiny" --ids "$ids" --logit-bias 999=1
expect "a bias outside the vocabulary is refused" 1 err "999" err "148"
run_it run "$tiny" --ids "$ids" --top-p 1.5
expect "a parameter outside its range is refused" 2 err "--top-p" err "from 0 to 1"

# Names that lead nowhere.
run_it run "$data/llama-f3" --ids 1
expect "an unknown model, with near names" 1 err "no model" err "$data/llama-f32"
run_it run "$TEST_TMP/nothing-like-it" --ids 1
expect "an unknown model far from all" 1 err "no model" err "config.json"
WHIMBREL_CACHE=$TEST_TMP/empty run_it run --ids 1
expect "without a default model, the way to get it" 1 err "make model" err "$TEST_TMP/empty/"
run_it run shape:smollm2-135m --load-format dummy --weight-type q4_0 --ids "1 2 3" -n 2 --ctx 64 -q
expect "dummy weights run" 0

# Steps in a file, to be run again (tests/replay does so); a record that could not be written is a failure.
ids=$(prompt llama-f32 1 tokens) want=$(prompt llama-f32 1 greedy)
run_it run "$tiny" --ids "$ids" -n 24 --ignore-eos -q --no-lookup --record-steps "$TEST_TMP/steps"
expect_same "recording changes nothing" "$out" "$want"
expect_python "the file names the model and has a record for each step and its results" "
import struct
b = open('$TEST_TMP/steps', 'rb').read()
assert b[:8] == b'whimstep' and b'llama-f32' in b[:100], b[:100]
at, kinds = 264, []
while at < len(b):
    kind, n = struct.unpack_from('<2i', b, at)
    kinds.append(kind)
    at += 8 + 4 * n
assert at == len(b) and kinds == [1, 2] * (len(kinds) // 2) and len(kinds) >= 2 * 24, kinds"
run_it run "$tiny" --ids "$ids" -n 2 -q --record-steps /dev/full
expect "a full disk fails the run" 1 err "--record-steps" err "/dev/full"
run_it run "$tiny" --ids "$ids" -n 2 -q --record-steps "$TEST_TMP/none/steps"
expect "so does a folder that is not there" 1 err "$TEST_TMP/none/steps"

# The example of README.md, where the default model is at hand.
if [[ -f ${XDG_CACHE_HOME:-${HOME:-}/.cache}/whimbrel/SmolLM2-135M-Instruct.Q4_1.gguf ]]; then
    run_it run --ids "504 3575 282 4649 314" -n 3 -q
    expect_same "the capital of France" "$out" "7042 30 198"
else
    skip "the capital of France" "the default model is not there; make model fetches it"
fi
finish

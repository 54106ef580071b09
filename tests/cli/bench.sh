# SPDX-License-Identifier: Apache-2.0
# whimbrel bench: the table, the JSON that tools read, its refusals.
. "$(dirname "$0")/common.bash"

tiny=$data/llama-f32
run_it bench "$tiny" -p 20 -n 4 -b 1,3 -r 2 --seconds 0.02
expect "bench prints a table" 0 out "batch" out "GFLOP/s" out "first token after" err "bench (tokens)"
expect_same "a row for each batch size" "$(awk '$1 ~ /^[0-9]+$/ && NF == 10 { print $1 }' <<<"$out" | xargs)" "1 3"
run_it bench "$tiny" -p 20 -n 4 -b 1,3 -r 1 --seconds 0.02 --json -q --max-step-tokens 16
expect_same "quiet is quiet" "$err" ""
expect_python "json has exactly the promised keys" "
rows = [json.loads(line) for line in text.splitlines()]
assert [r['batch'] for r in rows] == [1, 3]
for r in rows:
    assert list(r) == ['model', 'isa', 'threads', 'batch', 'prompt_tokens', 'gen_tokens', 'prompt_tps',
                       'gen_tps', 'read_gbs', 'read_share', 'gflops', 'peak_share', 'depth', 'load_s',
                       'first_token_s', 'machine_gbs', 'machine_gflops'], list(r)
    assert r['prompt_tokens'] == 20 and r['gen_tokens'] == 4 and r['model'] == '$tiny' and r['depth'] == 20
    assert r['load_s'] < r['first_token_s'] < 60
    assert all(r[k] > 0 for k in list(r)[6:]), r"
run_it bench shape:smollm2-135m --load-format dummy --weight-type q4_0 -p 16 -n 3 -b 2 -r 1 --seconds 0.1 --json -q
expect "a shape with dummy weights" 0
expect_python "reads and operations follow from the shape" "
r = json.loads(text)
weights = 134515008 * 18 / 32
kv = 2 * (16 + 2) * 30 * 2 * 3 * 64 * 2
want = (weights + kv) * r['gen_tps'] / 2 / 1e9
assert abs(r['read_gbs'] / want - 1) < 0.25, (r['read_gbs'], want)
want = 2 * (106.2e6 + 28.3e6 / 16) * r['prompt_tps'] / 1e9
assert abs(r['gflops'] / want - 1) < 0.02, (r['gflops'], want)"
run_it bench "$tiny" -p 5 -n 4 -d 70 -b 1,2 -r 1 --seconds 0.02 --json -q --max-step-tokens 16
expect_python "a depth of its own" "
assert [json.loads(line)['depth'] for line in text.splitlines()] == [70, 70]"
run_it bench "$tiny" -p 5 -n 4 -d 0 -r 1 --seconds 0.02 --json -q
expect_python "no depth at all" "assert json.loads(text)['depth'] == 0"
run_it bench "$tiny" -p 5 -n 4 -d 200 --ctx 100
expect "a context too short for the depth is refused" 2 err "204"
run_it bench --ranks 3 -r 1 --json
expect_python "collectives between ranks" "
rows = [json.loads(line) for line in text.splitlines()]
assert [r['ranks'] for r in rows] == [3] * len(rows) and 1048576 in [r.get('bytes') for r in rows]
assert all(r[k] > 0 for r in rows if 'bytes' in r for k in ('all_reduce_us', 'all_gather_us', 'broadcast_us')), rows
assert [r['expert_rows'] for r in rows if r.get('experts_us', 0) > 0] == [1, 8], rows
assert [r['step_rows'] for r in rows if min(r.get('as_one_us', 0), r.get('choices_first_us', 0)) > 0] == [170], rows"
run_it bench --ranks 2 -r 1
expect "as a table" 0 out "all_reduce" out "1048576" out "8 rows of each to experts and back: " \
    out "2 ranks, 256 rows of each to experts: "
run_it bench --ranks 1
expect "one rank has nobody to talk to" 2 err "from 2 to 64"
run_it bench "$tiny" -b 600
expect "a batch larger than a step is refused" 2 err "600" err "--max-step-tokens"
run_it bench "$tiny" -p 20 -n 4 --ctx 10
expect "a context too short is refused" 2 err "--ctx"

# Proposals of an oracle beside the plain run: all right, some, none; models with recurrent states, too.
for draft in oracle:1 oracle:0.6 oracle:0; do
    for model in llama-f32 qwen35-f32; do
        run_it bench "$data/$model" --draft $draft -p 20 -n 60 -b 1,3 -r 2 --seconds 0.02 --json -q
        expect "bench --draft $draft of $model" 0
        expect_python "the same tokens with $draft of $model" "
rows = [json.loads(line) for line in text.splitlines()]
assert [r['batch'] for r in rows] == [1, 3]
for r in rows:
    assert list(r) == ['model', 'draft', 'batch', 'prompt_tokens', 'gen_tokens', 'plain_tps', 'draft_tps', 'speedup',
                       'tokens_per_step', 'proposed_tokens', 'accepted_tokens', 'same'], list(r)
    assert r['same'] is True and r['draft'] == '$draft' and r['plain_tps'] > 0 and r['draft_tps'] > 0
    assert 0 <= r['accepted_tokens'] <= r['proposed_tokens'] and 1 <= r['tokens_per_step'] <= 16
    assert '$draft' != 'oracle:1' or r['accepted_tokens'] == r['proposed_tokens']
    assert '$draft' != 'oracle:0' or r['accepted_tokens'] == 0"
    done
done
run_it bench "$tiny" --draft oracle:0.5 -p 20 -n 30 -r 1 --seconds 0.02
expect "bench --draft prints a table" 0 out "speed-up" out "the same"
for draft in oracle oracle: oracle:2 oracle:-1 oracle:x oracle:nan some/draft; do
    run_it bench "$tiny" --draft "$draft"
    expect "--draft $draft is refused" 2 err "oracle:A"
done
run_it bench "$tiny" --draft oracle:1 --peer true
expect "--draft beside --peer is refused" 2 err "--peer"
# A step of several rows of one sequence beside one of one row, and the draft's pass.
run_it bench "$tiny" --verify-rows 1,4 -p 20 -d 40 -n 6 --seconds 0.02
expect "bench --verify-rows prints a table" 0 out "rows" out "ratio" out "1.000" out "draft ms"
run_it bench "$data/qwen35-f32" --verify-rows 2,1,16 -p 20 -d 40 -n 6 --seconds 0.02 --json -q
expect_python "a row for each number of rows" "
rows = [json.loads(line) for line in text.splitlines()]
assert [r['rows'] for r in rows] == [2, 1, 16] and rows[0]['ratio'] == 1
assert all(list(r) == ['rows', 'step_ms', 'ratio', 'draft_ms', 'draft_share'] and r['step_ms'] > 0 for r in rows)"
run_it bench "$tiny" --verify-rows 4 --peer true
expect "--verify-rows beside --peer is refused" 2 err "--verify-rows"
run_it bench "$tiny" --verify-rows 4 -p 20 -n 6 --draft oracle:1
expect "--verify-rows takes no oracle" 2 err "oracle:1" err "by itself"
run_it bench "$tiny" --suite gsm8k --draft oracle:1
expect "nor does --suite" 2 err "oracle:1" err "by itself"
run_it bench "$tiny" --verify-rows 1,16 --max-step-tokens 8
expect "--verify-rows beyond a step" 2 err "16 rows" err "--max-step-tokens is 8"
# Questions with proposals and without: those that are there, and a file.
model=${XDG_CACHE_HOME:-${HOME:-}/.cache}/whimbrel/SmolLM2-135M-Instruct.Q4_1.gguf
printf '%s\n' '{"question": "What is 2 + 3?", "answer": "5"}' '' '{"prompt": "Count to three: one, two, one, two,"}' \
    >"$TEST_TMP/some.jsonl"
[[ -f $model ]] || skip "bench --suite" "the default model is not there; make model fetches it"
for suite in gsm8k "$TEST_TMP/some.jsonl"; do
    [[ -f $model ]] || continue
    run_it bench "$model" --suite "$suite" --questions 2 -n 24 -r 2 --json -q
    expect "bench --suite $suite" 0
    expect_python "the same tokens with --suite $suite" "
r = json.loads(text)
assert list(r) == ['model', 'suite', 'questions', 'tokens', 'plain_tps', 'draft_tps', 'speedup', 'tokens_per_step',
                   'tokens_per_verify', 'tokens_per_verify_of_4', 'verifies', 'verifies_of_4', 'proposed_tokens', 'accepted_tokens', 'same'], list(r)
assert r['same'] is True and r['questions'] == 2 and 0 < r['tokens'] <= 96
assert 0 <= r['accepted_tokens'] <= r['proposed_tokens'] and 0 <= r['verifies_of_4'] <= r['verifies']
assert 1 <= r['tokens_per_verify'] <= 16 and 1 <= r['tokens_per_verify_of_4'] <= 4"
done
run_it bench "$tiny" --suite gsm8k --peer true
expect "--suite beside --peer is refused" 2 err "--peer"
printf '{"text": "no question"}\n' >"$TEST_TMP/other.jsonl"
run_it bench "$tiny" --suite "$TEST_TMP/other.jsonl"
expect "a suite without questions is refused" 1 err "other.jsonl" err '"question"'
printf '{"question": \n' >"$TEST_TMP/broken.jsonl"
run_it bench "$tiny" --suite "$TEST_TMP/broken.jsonl"
expect "a suite that is no JSON is refused" 1 err "broken.jsonl"
run_it bench "$tiny" --suite "$TEST_TMP/none.jsonl"
expect "no such suite" 1 err "none.jsonl"
run_it bench "$TEST_TMP/nowhere"
expect "no such model" 1 err "nowhere"

# --- another program beside it. The model's file is made here; the programs are scripts. ---
gguf=$TEST_TMP/tiny.gguf
mkdir "$TEST_TMP/shape"
cat >"$TEST_TMP/shape/config.json" <<'END'
{"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 300, "hidden_size": 64,
 "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
 "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000, "tie_word_embeddings": true,
 "hidden_act": "silu", "torch_dtype": "bfloat16"}
END
run_it bench "$TEST_TMP/shape" --load-format dummy --weight-type q8_0 --write-gguf "$gguf"
expect "dummy weights go to a GGUF file" 0 err "writing"
run_it bench "$TEST_TMP/shape" --load-format dummy --weight-type q8_0 --write-gguf "$gguf"
expect "a file that exists is not overwritten" 1 err "exists already"
run_it run "$gguf" --ids 1,2,3 -n 2 -q
expect "it can be run" 0

peer=$TEST_TMP/peer/llama-bench
mkdir "$TEST_TMP/peer"
cat >"$peer" <<'END'
#!/bin/bash
echo "$@" >>"$(dirname "$0")/calls"
while (($# > 0)); do
    case $1 in
        -p) p=$2 ;;
        -n) n=$2 ;;
        -d) d=$2 ;;
    esac
    shift 2
done
sleep 0.2
echo "a warning that does not matter" >&2
echo "["
((p > 0)) && echo "{\"n_prompt\": $p, \"n_gen\": 0, \"n_depth\": 0, \"avg_ts\": 100.5, \"samples_ts\": [ 100.5 ]}"
((p > 0 && n > 0)) && echo ","
((n > 0)) && echo "{\"n_prompt\": 0, \"n_gen\": $n, \"n_depth\": ${d:-0}, \"avg_ts\": $((50 + ${d:-0})).0}"
echo "]"
END
chmod +x "$peer"
bench_peer=(bench "$gguf" -p 20 -n 4 --seconds 0.02 -t 1)
run_it "${bench_peer[@]}" -r 2 --peer "$peer"
expect "a peer's figures stand beside ours" 0 out "beside $peer" out "ratio" out "100.5" out "50.0" err "bench (tokens)"
expect_same "each round runs it once, with our file and threads" "$(cat "$TEST_TMP/peer/calls")" \
    "-m $gguf -t 1 -p 20 -n 4 -r 1 -o json
-m $gguf -t 1 -p 20 -n 4 -r 1 -o json"
rm "$TEST_TMP/peer/calls"
run_it "${bench_peer[@]}" --peer "$peer" --json -q
expect_same "five rounds unless told otherwise" "$(wc -l <"$TEST_TMP/peer/calls")" 5
expect_python "the ratios in JSON" "
r = json.loads(text)
assert r['peer'] == '$peer' and r['peer_prompt_tps'] == 100.5 and r['peer_gen_tps'] == 50 and r['depth'] == 0
assert abs(r['prompt_ratio'] - r['prompt_tps'] / 100.5) < 1e-6 * r['prompt_ratio']
assert abs(r['gen_ratio'] - r['gen_tps'] / 50) < 1e-6 * r['gen_ratio']"
run_it "${bench_peer[@]}" -r 1 -d 30 --peer "$peer" --json -q
expect_python "the same depth for both" "
r = json.loads(text)
assert r['depth'] == 30 and r['peer_prompt_tps'] == 100.5 and r['peer_gen_tps'] == 80"
run_it "${bench_peer[@]}" -r 1 -b 1,3 --peer "$peer"
expect "several sequences need another program, which is named" 1 err "llama-batched-bench" err "--batch 1"
cat >"$TEST_TMP/peer/llama-batched-bench" <<'END'
#!/bin/bash
echo "$@" >"$(dirname "$0")/calls"
echo
echo '{"n_kv_max": 1, "pp": 20, "tg": 4, "pl": 3, "t_pp": 1.0, "speed_pp": 70.25, "speed_tg": 30.5}'
echo
END
chmod +x "$TEST_TMP/peer/llama-batched-bench"
run_it "${bench_peer[@]}" -r 1 -b 3 --peer "$peer" --json -q
expect_python "it is run for them" "
r = json.loads(text)
assert r['batch'] == 3 and r['peer_prompt_tps'] == 70.25 and r['peer_gen_tps'] == 30.5 and r['depth'] == 20"
expect_same "with room for all" "$(cat "$TEST_TMP/peer/calls")" \
    "-m $gguf -t 1 -c 768 -npp 20 -ntg 4 -npl 3 --output-format jsonl"
run_it "${bench_peer[@]}" -r 1 -b 2 -d 0 --peer "$peer"
expect "it cannot begin at nothing" 1 err "--depth"
run_it "${bench_peer[@]}" -r 1 --peer "$TEST_TMP/nothing"
expect "no such program" 1 err "$TEST_TMP/nothing"
run_it "${bench_peer[@]}" -r 1 --peer no-such-program-anywhere
expect "nor in PATH" 1 err "no-such-program-anywhere"
run_it "${bench_peer[@]}" -r 1 --peer "$gguf"
expect "a file that is no program" 1 err "not executable"
broken()
{
    printf '#!/bin/bash\n%s\n' "$1" >"$TEST_TMP/broken"
    chmod +x "$TEST_TMP/broken"
    run_it "${bench_peer[@]}" -r 1 -q --peer "$TEST_TMP/broken"
}
broken 'echo "line one" >&2; echo "cannot load the model" >&2; exit 3'
expect "a peer that fails is quoted" 1 err "exit status 3" err "cannot load the model"
broken 'echo "| model | test | t/s |"'
expect "a peer that prints something else" 1 err "llama-bench's JSON" err "| model |"
broken 'echo "[{\"n_prompt\": 20, \"n_gen\": 0, \"avg_ts\": \"fast\"}]"'
expect "a peer whose figures are none" 1 err "llama-bench's JSON"
broken 'echo "[]"'
expect "a peer that measured nothing" 1 err "llama-bench's JSON"
broken 'kill -9 $$'
expect "a peer that dies" 1 err "signal 9" err "said nothing"
run_it bench "$tiny" --peer "$peer"
expect "a peer reads GGUF files only" 1 err "GGUF"
run_it bench shape:smollm2-135m --load-format dummy --peer "$peer"
expect "how to get a file of a shape" 1 err "--write-gguf"
finish

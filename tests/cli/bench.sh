# SPDX-License-Identifier: Apache-2.0
# whimbrel bench: the table, the JSON that tools read, its refusals.
. "$(dirname "$0")/common.bash"

tiny=$data/llama-f32
run_it bench "$tiny" -p 20 -n 4 -b 1,3 -r 2 --seconds 0.02
expect "bench prints a table" 0 out "batch" out "GFLOP/s" err "bench (tokens)"
expect_same "a row for each batch size" "$(awk '$1 ~ /^[0-9]+$/ && NF == 9 { print $1 }' <<<"$out" | xargs)" "1 3"
run_it bench "$tiny" -p 20 -n 4 -b 1,3 -r 1 --seconds 0.02 --json -q --max-step-tokens 16
expect_same "quiet is quiet" "$err" ""
expect_python "json has exactly the promised keys" "
rows = [json.loads(line) for line in text.splitlines()]
assert [r['batch'] for r in rows] == [1, 3]
for r in rows:
    assert list(r) == ['model', 'isa', 'threads', 'batch', 'prompt_tokens', 'gen_tokens', 'prompt_tps',
                       'gen_tps', 'read_gbs', 'read_share', 'gflops', 'peak_share'], list(r)
    assert r['prompt_tokens'] == 20 and r['gen_tokens'] == 4 and r['model'] == '$tiny'
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
run_it bench "$tiny" -b 600
expect "a batch larger than a step is refused" 2 err "600" err "--max-step-tokens"
run_it bench "$tiny" -p 20 -n 4 --ctx 10
expect "a context too short is refused" 2 err "--ctx"
run_it bench "$TEST_TMP/nowhere"
expect "no such model" 1 err "nowhere"
finish

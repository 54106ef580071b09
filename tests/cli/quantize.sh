# SPDX-License-Identifier: Apache-2.0
# whimbrel quantize: tiny models of each kind to each kind of codes, what the report says, and what is refused.
. "$(dirname "$0")/common.bash"

python3 "$cli/../support/tiny_folders.py" "$TEST_TMP/tiny"
ids="5 17 80 3 44 91 12 60 33 7 28 71 2 9 55 66 14 90 23 38 77 1 50 64"

# One value of the model's files: header FOLDER EXPRESSION, where h maps names to what the headers say.
header()
{
    python3 -c 'import glob, json, struct, sys
h = {}
for path in glob.glob(sys.argv[1] + "/*.safetensors"):
    with open(path, "rb") as f:
        h |= json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
print(eval(sys.argv[2]))' "$1" "$2"
}

declare -A matrices=([dense-q8]=14 [dense-q4]=14 [dense-fp8]=8 [moe-q8]=38 [moe-q4]=38 [moe-fp8]=38 [hybrid-q8]=37
    [hybrid-q4]=37 [hybrid-fp8]=37)
declare -A types=([q8]=Q8_0 [q4]=Q4_0 [fp8]=FP8)
for model in dense moe hybrid; do
    for kind in q8 q4 fp8; do
        out_dir=$TEST_TMP/$model-$kind
        run_it quantize "$TEST_TMP/tiny/$model" "$out_dir" --to $kind --ids "$ids" --json
        expect "quantize $model to $kind" 0 err "quantising: 100%" err "reading with OUT: 100%"
        expect_python "the report on $model as $kind" "
r = json.loads(text)
q = r['report']
share = {'q8': 8.5, 'q4': 4.5, 'fp8': 8}['$kind'] / 16
assert r['n_matrix'] == ${matrices[$model-$kind]} and (r['n_odd'] == 0) == ('$model-$kind' != 'dense-fp8'), r
assert share <= r['matrix_bytes_out'] / r['matrix_bytes_in'] < share + 0.01, r
assert r['bytes_in'] - r['matrix_bytes_in'] == r['bytes_out'] - r['matrix_bytes_out'], r
assert q['tokens'] == 24 and 20 < q['perplexity_in'] < 2000, q
assert 0.5 < q['perplexity_out'] / q['perplexity_in'] < 2 and 0 < q['kl_mean'] <= q['kl_max'], q
low, high, same = {'q8': (0, 0.05, 0.8), 'q4': (0.02, 0.5, 0.3), 'fp8': (0.001, 0.1, 0.6)}['$kind']
assert low < q['kl_mean'] < high and same <= q['same_choice'] <= 1, q"
        run_it inspect "$out_dir" --json
        expect_python "$model as $kind has the type" "
r = json.loads(text)
assert r['types']['${types[$kind]}']['count'] == ${matrices[$model-$kind]}, r['types']"
        run_it run "$out_dir" --ids "$ids" -n 8 -q
        expect "$model as $kind generates" 0
        expect_same "8 tokens of $model as $kind" "$(wc -w <<<"$out")" 8
    done
done

# Predictions move as the codes are coarse, and the report is what run says: the same logits.
run_it run "$TEST_TMP/tiny/dense" --ids "$ids" -n 1 -q --json --prompt-logprobs 0
expect_python "perplexity is that of run" "
rows = [r['logprob'] for r in json.loads(text)['prompt_logprobs'] if r]
import subprocess
said = subprocess.run(['$WHIMBREL', 'quantize', '$TEST_TMP/tiny/dense', '$TEST_TMP/again', '--to', 'q8', '--json', '-q',
    '--shard-size', '64K', '--threads', '1', '--ids', '$ids'], capture_output=True, text=True, check=True)
assert said.stderr == '', said.stderr
q = json.loads(said.stdout)['report']
assert len(rows) == 23 and abs(math.exp(-sum(rows) / 23) / q['perplexity_in'] - 1) < 1e-5, q"
n_file=$(find "$TEST_TMP/again" -name 'model-*-of-*.safetensors' | wc -l)
if ((n_file > 3)) && [[ -f $TEST_TMP/again/model.safetensors.index.json ]]; then
    ok "a model of several files"
else
    bad "a model of several files" "$(ls "$TEST_TMP/again")"
fi
run_it run "$TEST_TMP/again" --ids "$ids" -n 8 -q
in_parts=$out
run_it run "$TEST_TMP/dense-q8" --ids "$ids" -n 8 -q
expect_same "files and threads change nothing" "$in_parts" "$out"

# What is not quantised is what it was, also what whimbrel does not read; experts have names of their own.
expect_same "five dimensions are kept" \
    "$(header "$TEST_TMP/hybrid-q4" 'h["model.visual.patch_embed.proj.weight"]["shape"]')" "[8, 3, 2, 4, 4]"
expect_same "experts one by one" \
    "$(header "$TEST_TMP/hybrid-q4" 'h["model.language_model.layers.1.mlp.experts.3.up_proj.weight_packed"]["shape"]')" \
    "[128, 16]"
expect_same "no stack is left" "$(header "$TEST_TMP/hybrid-q4" '[n for n in h if n.endswith(".experts.gate_up_proj")]')" "[]"
expect_same "gates stay" "$(header "$TEST_TMP/hybrid-q4" '[h[n]["dtype"] for n in h if ".shared_expert_gate." in n
    or ".mlp.gate." in n or ".in_proj_a." in n or "lm_head" in n]')" "['BF16', 'BF16', 'BF16', 'BF16', 'BF16', 'BF16']"
out=$(<"$TEST_TMP/hybrid-fp8/config.json")
printf '%s' "$out" >"$TEST_TMP/out"
expect_python "config.json" "
c = json.loads(text)
q, was = c.pop('quantization_config'), json.load(open('$TEST_TMP/tiny/hybrid/config.json'))
assert c == was, c
assert q['quant_method'] == 'fp8' and q['weight_block_size'] == [128, 128], q
assert {'lm_head', 'model.language_model.layers.0.mlp.gate', 'model.visual.blocks.0.attn.proj'} <= set(q['modules_to_not_convert'])"

# Golden models: what does not divide stays, files beside the weights come along, texts need a tokenizer.
cp -r "$data/qwen35-bf16" "$TEST_TMP/golden"
echo '{{ messages }}' >"$TEST_TMP/golden/chat_template.jinja"
echo weights >"$TEST_TMP/golden/pytorch_model.bin"
run_it quantize "$TEST_TMP/golden" "$TEST_TMP/golden-q8" --to q8
expect "a golden model without tokenizer" 0 out "do not divide into groups of 32" out "no report" out "tokenizer" out "--ids"
if cmp -s "$TEST_TMP/golden/chat_template.jinja" "$TEST_TMP/golden-q8/chat_template.jinja" &&
    [[ ! -e $TEST_TMP/golden-q8/pytorch_model.bin ]]; then
    ok "files beside the weights come along"
else
    bad "files beside the weights come along" "$(ls "$TEST_TMP/golden-q8")"
fi
run_it run "$TEST_TMP/golden-q8" --ids "$(prompt qwen35-bf16 1 tokens)" -n 4 -q
expect "the golden model generates" 0

run_it quantize
expect "nothing given" 2 err "quantize IN OUT"
run_it quantize a b
expect "no --to" 2 err "--to q8"
run_it quantize a b c --to q8
expect "three folders" 2 err '"c"'
run_it quantize "$data/qwen3-bf16" "$TEST_TMP/x" --to q5
expect "an unknown kind" 2 err '"q5"' err "q8|q4|fp8"
run_it quantize "$data/llama-mixed-gguf/model.gguf" "$TEST_TMP/x" --to q4
expect "a GGUF file" 1 err "GGUF"
run_it quantize "$TEST_TMP/dense-q8" "$TEST_TMP/x" --to q4
expect "a quantised model" 1 err "quantised already"
run_it quantize "$TEST_TMP/tiny/dense" "$TEST_TMP/tiny/dense/" --to q4
expect "onto itself" 1 err "same folder"
run_it quantize "$TEST_TMP/tiny/dense" "$TEST_TMP/moe-q4" --to q4
expect "onto another" 1 err "not empty"
run_it quantize "$TEST_TMP/tiny/dense" "$TEST_TMP/x" --to q4 --ids "5 96"
expect "an id that is none" 1 err "96"
run_it quantize "$TEST_TMP/tiny/dense" "$TEST_TMP/x" --to q4 --text "$TEST_TMP/none.txt"
expect "a text that is not there" 1 err "none.txt"
if [[ ! -e $TEST_TMP/x && ! -e $TEST_TMP/x.part ]]; then
    ok "refusals leave nothing"
else
    bad "refusals leave nothing" "$(ls "$TEST_TMP")"
fi
finish

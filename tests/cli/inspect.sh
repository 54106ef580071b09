# SPDX-License-Identifier: Apache-2.0
# whimbrel inspect on good and on broken models.
. "$(dirname "$0")/common.bash"

# The path that one would give for a folder of the golden data.
model_path()
{
    if [[ -f $1/config.json ]]; then
        echo "$1"
    else
        find "$1" -name '*.gguf' | sort | head -1
    fi
}

for folder in "$data"/*/; do
    name=$(basename "$folder") path=$(model_path "$folder")
    [[ -n $path ]] || continue
    run_it inspect "$path"
    expect "inspect $name" 0 out "architecture" out "memory plan" out "fits" out "tensors"
    run_it inspect "$path" --json --tensors
    expect "inspect $name --json" 0
    expect_python "json of $name agrees with its golden data" "
r, g = json.loads(text), json.load(open('$folder/golden.json'))
assert (g['arch'] + '_').startswith(r['arch'] + '_') and r['fits'] is True, r
assert r['n_vocab'] == g.get('vocab', r['n_vocab']) and r['n_layer'] == g.get('layers', r['n_layer'])
assert r['n_tensor'] == len(r['tensors']) == sum(t['count'] for t in r['types'].values())
assert r['n_param'] == sum(math.prod(t['shape']) for t in r['tensors'])
assert sum(p['bytes'] for p in r['plan']['parts']) == r['plan']['total'] > 0, r['plan']
assert {t['file'] for t in r['tensors']} <= {f['path'].split('/')[-1] for f in r['files']}
paths = [f['path'] for f in r['files']]
assert paths == sorted(paths), paths
assert (r['dtype'] is None) == (r['format'] == 'gguf'), (r['format'], r['dtype'])"
done
run_it inspect "$data/llama-f32"
expect "a declared type is told" 0 out "declared type  F32"
expect_python "files are listed by name" "
names = [line.split('/')[-1] for line in text.splitlines() if line.endswith('.safetensors')]
assert len(names) == 3 and names == sorted(names), names"
run_it inspect "$data/llama-mixed-gguf/model.gguf"
expect_python "GGUF files declare no type" "
assert 'declared type' not in text and 'Q4_K' in text"
run_it inspect "$data/llama-f32" --tensors
expect "tensors are listed" 0 out "layers.2.mlp.down_proj.weight" out "72 x 100" out "model-00003-of-00003.safetensors"

run_it inspect shape:qwen3-8b --load-format dummy --weight-type q4_0 --ctx 8192 --json
expect_python "a shape without files" "
r = json.loads(text)
assert r['format'] == 'dummy' and 8.0e9 < r['n_param'] < 8.3e9, r['n_param']
assert 4.0e9 < r['plan']['total'] < 7e9 and r['files'] == [], r['plan']"
run_it inspect "$data/llama-f32" --ctx 100 --json
expect_python "--ctx is planned for" "
assert json.loads(text)['ctx'] == 100"
run_it inspect "$data/llama-f32" --kv-mem 1000G
expect "what does not fit is told" 0 out "does not fit"
run_it inspect "$data/llama-f32" --kv-mem 1000G --json
expect_python "what does not fit is told in json" "
r = json.loads(text)
assert r['fits'] is False and r['plan']['total'] > 1e12 > r['plan']['available']"

# Text files as transformers writes them open everywhere; what run refuses, inspect tells in the same words.
run_it inspect "$data/llama-f32"
expect "a model without a tokenizer" 0 out "fits" out "text: cannot be read or written (run --ids still works): $data/llama-f32: there is no tokenizer.json"
text=$TEST_TMP/text
cp -r "$data/llama-f32" "$text"
cat >"$text/tokenizer.json" <<'END'
{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}, "decoder": {"type": "ByteLevel"}}
END
printf '\357\273\277{"model_max_length": 1000000000000000019884624838656, "pad": [NaN, -Infinity, "\\u0000"],
"eos_token": 3, "eos_token": "b"}' >"$text/tokenizer_config.json"
sed -i '0,/{/s//{"time_step_limit": [0.0, Infinity], "n_ctx": 100000000000000000000,/' "$text/config.json"
run_it run "$text" --raw -p ab -n 2 -q
expect "numbers as Python writes them" 0
run_it inspect "$text" --json
expect_python "inspect opens the same files" "
r = json.loads(text)
assert r['fits'] is True and r['text_error'] is None, r['text_error']"
echo '{"eos_token": 3}' >"$text/tokenizer_config.json"
why="$text/tokenizer_config.json: \"eos_token\" is an integer, expected a string"
run_it run "$text" --raw -p ab -n 2 -q
expect "a token that is no text" 1 err "$why"
run_it inspect "$text"
expect "inspect says what run says" 0 out "fits" out "text: cannot be read or written (run --ids still works): $why"
rm "$text/tokenizer_config.json"
echo '{"temperature": Infinity}' >"$text/generation_config.json"
run_it run "$text" --raw -p ab -n 2 -q
expect "an infinite temperature" 1 err "generation_config.json: \"temperature\" is NaN, infinite"
run_it inspect "$text" --json
expect_python "inspect reads the wishes too" "
assert '\"temperature\" is NaN, infinite' in json.loads(text)['text_error']"
mkdir -p "$TEST_TMP/gguf" && cp "$data"/qwen3-mixed-gguf/*.gguf "$TEST_TMP/gguf" && echo '{' >"$TEST_TMP/gguf/generation_config.json"
run_it inspect "$TEST_TMP/gguf"
expect "wishes that are no JSON, beside GGUF files" 0 out "fits" out "generation_config.json"

# Broken files: exit status 1, and the message names the file.
broken=$TEST_TMP/broken
fresh()
{
    rm -rf "$broken"
    cp -r "$data/llama-bf16" "$broken"
}
fresh && truncate -s 100000 "$broken/model.safetensors"
run_it inspect "$broken"
expect "a cut safetensors file" 1 err "model.safetensors"
run_it run "$broken" --ids 1
expect "a cut safetensors file is not run" 1 err "model.safetensors"
fresh && printf '\377\377\377\377\377\377\377\177' | dd of="$broken/model.safetensors" conv=notrunc status=none
run_it inspect "$broken"
expect "a huge safetensors header" 1 err "model.safetensors"
fresh && echo '{"model_type": "llama",' >"$broken/config.json"
run_it inspect "$broken"
expect "a broken config.json" 1 err "config.json"
fresh && sed -i 's/"num_hidden_layers": [0-9]*/"num_hidden_layers": -1/' "$broken/config.json"
run_it inspect "$broken"
expect "a config that cannot be" 1 err "config.json" err "num_hidden_layers"
fresh && sed -i 's/"model_type": "[a-z0-9]*"/"model_type": "frobnicator"/; s/Llama/Frob/' "$broken/config.json"
run_it inspect "$broken"
expect "an unknown architecture" 1 err "config.json" err "Frob" err "LlamaForCausalLM"
fresh && sed -i 's/"num_hidden_layers": [0-9]*/"num_hidden_layers": 3/' "$broken/config.json"
run_it inspect "$broken"
expect "missing tensors" 1 err "layers.2."
fresh && rm "$broken/model.safetensors"
run_it inspect "$broken"
expect "no weights" 1 err "broken"
# A MiniMax with e4m3 weights, changed by Python: h is the header, d the data, name a tensor of expert 3 in layer 0.
changed()
{
    rm -rf "$broken"
    cp -r "$data/minimax-fp8" "$broken"
    python3 -c "
import json, struct, sys
path, name = sys.argv[1] + '/model.safetensors', 'model.layers.0.block_sparse_moe.experts.3.w1.weight'
raw = open(path, 'rb').read()
n = struct.unpack('<Q', raw[:8])[0]
h, d = json.loads(raw[8:8 + n]), bytearray(raw[8 + n:])
scale = h[name + '_scale_inv']
$1
head = json.dumps(h).encode()
open(path, 'wb').write(struct.pack('<Q', len(head)) + head + d)" "$broken"
    run_it run "$broken" --ids 1
}
expert=block_sparse_moe.experts.3.w1.weight
changed "del h[name], h[name + '_scale_inv']"
expect "an expert is missing" 1 err "missing layers.0.$expert"
changed "del h[name + '_scale_inv']"
expect "an expert's scales are missing" 1 err "$expert" err "weight_scale"
changed "scale['shape'] = [1, *scale['shape']]"
expect "an expert's scales have another shape" 1 err "${expert}_scale_inv" err "has shape [1, 1, "
changed "d[scale['data_offsets'][0]:scale['data_offsets'][0] + 4] = b'\\xff' * 4"
expect "an expert's scale is NaN" 1 err "${expert}_scale_inv" err "nan"
changed ""
expect "an unchanged one is fine" 0
sed -i 's/"num_local_experts": [0-9]*/"num_local_experts": 9/' "$broken/config.json"
run_it run "$broken" --ids 1
expect "more experts than declared" 1 err "extra model.layers.0.block_sparse_moe.experts.9.w1.weight"
head -c 5000 "$data/llama-mixed-gguf/model.gguf" >"$TEST_TMP/cut.gguf"
run_it inspect "$TEST_TMP/cut.gguf"
expect "a cut gguf file" 1 err "cut.gguf"
head -c 5000 /dev/zero >"$TEST_TMP/zero.gguf"
run_it inspect "$TEST_TMP/zero.gguf"
expect "not a gguf file" 1 err "zero.gguf"
: >"$TEST_TMP/empty.gguf"
run_it inspect "$TEST_TMP/empty.gguf"
expect "an empty gguf file" 1 err "empty.gguf"
run_it inspect "$TEST_TMP/nowhere"
expect "no such model" 1 err "nowhere"
run_it inspect shape:nonesuch --load-format dummy
expect "no such shape" 1 err "nonesuch" err "qwen3-8b"
finish

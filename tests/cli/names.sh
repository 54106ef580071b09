# SPDX-License-Identifier: Apache-2.0
# Names of models as people type them, and options of other programs. No hub is asked: none is there.
. "$(dirname "$0")/common.bash"

export WHIMBREL_CACHE=$TEST_TMP/cache HF_HUB_CACHE=$TEST_TMP/hub HF_ENDPOINT=http://127.0.0.1:9
cd "$TEST_TMP" || exit 1

for name in qwen3:4b QWEN3:4B qwen3:4b-instruct; do
    run_it run "$name" hello
    expect "$name is said to be what it is" 1 err "$name is Qwen/Qwen3-4B-GGUF:Q4_K_M: http://127.0.0.1:9 cannot be reached"
done
run_it pull llama3.2:3b-q8_0
expect "pull, with a quantisation" 1 err "is bartowski/Llama-3.2-3B-Instruct-GGUF:q8_0"
run_it inspect https://huggingface.co/org/name/blob/v1/x-Q5_0.gguf
expect "an address" 1 err "is org/name@v1:x-Q5_0.gguf"
run_it chat hf.co/org/name:Q4_0
expect "as Ollama and llama.cpp take it" 1 err "is org/name:Q4_0"
run_it run https://elsewhere.example/org/name hello
expect "an address of another place" 1 err "not the address of a model" err "https://huggingface.co/ORG/NAME"
run_it run qwen3:3b hello
expect "near names of the family" 1 err "near it: qwen3:0.6b, qwen3:1.7b, qwen3:4b"
run_it pull lama3.2
expect "near names, pull" 2 err "llama3.2:1b, llama3.2:3b"

mkdir -p hub/models--Org--Some-Model-GGUF
run_it run some-model-gguf hello
expect "near names in the cache" 1 err "near it: Org/Some-Model-GGUF"

cp -r "$data/llama-f32" qwen3:4b
run_it inspect qwen3:4b
expect "what is there as a path goes first" 0 out "architecture   llama"

run_it run x -p one two
expect "two prompts" 2 err "two prompts"
run_it run qwen3:4b "1 2 3" --ids "1 2"
expect "--ids and a prompt" 2 err "--ids"
run_it serve qwen3:4b -ngl 99 -c 4096
expect "-ngl" 2 err "-ngl is an option of llama.cpp; not needed here"
run_it serve --max-model-len 4096
expect "--max-model-len" 2 err "vLLM; whimbrel calls it --ctx"
run_it run --max-num-seqs 4
expect "one that is an option elsewhere" 2 err "--max-seqs" err '"serve" and not of "run"'

# The catalogue's numbers: what the planner says of these shapes, with the file's size for the weights.
if why=$(python3 - "$WHIMBREL" "$cli/../../apps/local/models.def" 2>&1 <<'PY'
import json, re, subprocess, sys
SHAPES = {"qwen3:0.6b": "qwen3-0.6b", "qwen3:1.7b": "qwen3-1.7b", "qwen3:4b": "qwen3-4b", "qwen3:8b": "qwen3-8b",
          "qwen3:32b": "qwen3-32b", "qwen3:30b": "qwen3-30b-a3b", "qwen3.5:4b": "qwen3.5-4b",
          "qwen3.5:35b": "qwen3.5-35b-a3b", "mistral:7b": "mistral-7b", "qwen2.5:1.5b": "qwen2.5-1.5b",
          "qwen2.5:3b": "qwen2.5-3b", "qwen2.5:7b": "qwen2.5-7b"}
row = re.compile(r'WHIM_MODEL\("([^" ]+)[^"]*", "[^"]+", "([^"]+)", "[^"]+",\s*(\d+),\s*(\d+),\s*(\d+)')
seen = 0
for name, quant, disk, memory, active in row.findall(open(sys.argv[2]).read()):
    if name not in SHAPES:
        continue
    seen += 1
    disk, memory, active = (int(x) * 1e6 for x in (disk, memory, active))
    out = subprocess.run([sys.argv[1], "inspect", "shape:" + SHAPES[name], "--load-format", "dummy", "--weight-type", "q4_k",
                          "--ctx", "8192", "--backend", "cpu", "--json"], capture_output=True, text=True).stdout
    it = json.loads(out)
    rest = it["plan"]["total"] - sum(p["bytes"] for p in it["plan"]["parts"] if p["name"] in ("weights", "experts"))
    assert abs(memory / (disk + rest) - 1) < 0.05, (name, "memory", memory, disk + rest)
    embedding = it["n_vocab"] * it["d_model"]
    read = it["n_param"] - (0 if it["tied_head"] else embedding)
    if it["n_expert"]:
        experts = it["n_layer"] * 3 * it["d_model"] * it["d_expert"]
        read -= experts * (it["n_expert"] - it["top_k"])
    assert abs(active / (disk * read / it["n_param"]) - 1) < 0.05, (name, "active", active, disk * read / it["n_param"])
assert seen == len(SHAPES), seen
PY
); then
    ok "sizes of the catalogue are those of the planner"
else
    bad "sizes of the catalogue are those of the planner" "$(tail -1 <<<"$why")"
fi
finish

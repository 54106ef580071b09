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
expect "near names of the family" 1 err "similar names: qwen3:0.6b, qwen3:1.7b, qwen3:4b"
run_it pull lama3.2
expect "near names, pull" 2 err "llama3.2:1b, llama3.2:3b"

mkdir -p hub/models--Org--Some-Model-GGUF
run_it run some-model-gguf hello
expect "near names in the cache" 1 err "similar names: Org/Some-Model-GGUF"

mkdir near && cp -r "$data/llama-f32" near/xenia && cp -r "$data/llama-f32" near/x.draft && touch near/x.gguf near/x-notes.txt && mkdir near/x-old
run_it inspect near/x
near=${err#*similar names: }
expect_same "near paths are models, and nothing else" "${near%%. As a name*}" "near/x.gguf, near/xenia"

cp -r "$data/llama-f32" qwen3:4b
run_it inspect qwen3:4b
expect "what is there as a path goes first" 0 out "architecture   llama"

run_it run x -p one two
expect "two prompts" 2 err "two prompts"
run_it run what is a bird
expect "a prompt without quotes" 2 err 'got "a" as well; put a prompt in quotes'
run_it run qwen3:4b "1 2 3" --ids "1 2"
expect "--ids and a prompt" 2 err "--ids"
run_it serve qwen3:4b -ngl 99 -c 4096
expect "-ngl" 2 err "-ngl is an option of llama.cpp; not needed here"
run_it run -m x.gguf hello
expect "-m" 2 err "-m is an option of llama.cpp; give the model without an option: \"whimbrel run MODEL\""
run_it ls
expect "a command of another program" 2 err "\"ls\" is a command of Ollama and LM Studio; whimbrel calls it \"list\""
run_it serve --max-model-len 4096
expect "--max-model-len" 2 err "vLLM; whimbrel calls it --ctx"
run_it serve --max_model_len=4096
expect "the same with underscores" 2 err "vLLM; whimbrel calls it --ctx"
run_it run --temprature 1 hello
expect "near another name that works" 2 err "did you mean --temp?"
run_it run --max-num-seqs 4
expect "one that is an option elsewhere" 2 err "--max-seqs" err '"serve" and not of "run"'

# The catalogue's sizes of files: the tensors of these models, in the types that their quantisation gives them. Vocabularies
# make the rest of a file, a percent of the smallest.
if why=$(python3 - "$cli/../../apps/local/models.def" 2>&1 <<'PY'
import re, sys
BYTES = {"Q4_K": 4.5 / 8, "Q5_0": 5.5 / 8, "Q6_K": 6.5625 / 8, "Q8_0": 8.5 / 8}
COARSE = {"Q4_K": "Q5_0", "Q6_K": "Q8_0"}  # for rows that are no multiple of 256
# layers, width, heads, heads of keys, a head's width, MLP, vocabulary, the head is the embedding, experts
SHAPES = {
    "qwen3:0.6b": (28, 1024, 16, 8, 128, 3072, 151936, True), "qwen3:1.7b": (28, 2048, 16, 8, 128, 6144, 151936, True),
    "qwen3:4b": (36, 2560, 32, 8, 128, 9728, 151936, True), "qwen3:8b": (36, 4096, 32, 8, 128, 12288, 151936, False),
    "qwen3:14b": (40, 5120, 40, 8, 128, 17408, 151936, False), "qwen3:32b": (64, 5120, 64, 8, 128, 25600, 151936, False),
    "qwen3:30b": (48, 2048, 32, 4, 128, 768, 151936, False, 128),
    "llama3.2:1b": (16, 2048, 32, 8, 64, 8192, 128256, True), "llama3.2:3b": (28, 3072, 24, 8, 128, 8192, 128256, True),
    "llama3.1:8b": (32, 4096, 32, 8, 128, 14336, 128256, False), "llama3.3:70b": (80, 8192, 64, 8, 128, 28672, 128256, False),
    "mistral:7b": (32, 4096, 32, 8, 128, 14336, 32768, False), "mistral-nemo:12b": (40, 5120, 32, 8, 128, 14336, 131072, False),
    "mistral-small:24b": (40, 5120, 32, 8, 128, 32768, 131072, False),
    "qwen2.5:0.5b": (24, 896, 14, 2, 64, 4864, 151936, True), "qwen2.5:1.5b": (28, 1536, 12, 2, 128, 8960, 151936, True),
    "qwen2.5:3b": (36, 2048, 16, 2, 128, 11008, 151936, True), "qwen2.5:7b": (28, 3584, 28, 4, 128, 18944, 152064, False),
    "qwen2.5:14b": (48, 5120, 40, 8, 128, 13824, 152064, False), "qwen2.5:32b": (64, 5120, 40, 8, 128, 27648, 152064, False),
    "deepseek-r1:1.5b": (28, 1536, 12, 2, 128, 8960, 151936, False),
    "smollm2:360m": (32, 960, 15, 5, 64, 2560, 49152, True), "smollm2:1.7b": (24, 2048, 32, 32, 64, 8192, 49152, True)}
# Of hybrids, whose types their maker chooses layer by layer: bytes as they were published.
PUBLISHED = {"qwen3.5:0.8b": 811843840, "qwen3.5:4b": 2740937888, "qwen3.5:9b": 5680522464, "qwen3.5:27b": 16740812704,
             "qwen3.5:35b": 22016023168}

def weights(quant, n_layer, d, n_head, n_kv, d_head, ff, vocab, tied, experts=1):
    def size(n, row, kind):
        kind = quant if quant == "Q8_0" else COARSE[kind] if row % 256 else kind
        return n * BYTES[kind]
    total = size(vocab * d, d, "Q6_K") + (0 if tied else size(vocab * d, d, "Q4_K"))
    for i in range(n_layer):
        edge = n_layer // 8
        fine = "Q6_K" if i < edge or i >= 7 * n_layer // 8 or (i - edge) % 3 == 2 else "Q4_K"
        total += 2 * size(n_head * d_head * d, d, "Q4_K") + size(n_kv * d_head * d, d, "Q4_K")
        total += size(n_kv * d_head * d, d, fine)
        total += size(2 * experts * ff * d, d, "Q4_K") + size(experts * ff * d, ff, fine)
    return total

row = re.compile(r'WHIM_MODEL\("([^" ]+)[^"]*", "([^"]+)", "([^"]+)", "([^"]+)",\s*(\d+)')
rows = row.findall(open(sys.argv[1]).read())
files = {}
for name, repo, quant, params, disk in rows:
    disk = int(disk) * 1e6
    if name in SHAPES:
        wanted = weights(quant, *SHAPES[name])
    elif name in PUBLISHED:
        wanted = PUBLISHED[name]
    else:
        twins = [d for n, d in files.items() if n.split(":")[1] == name.split(":")[1]]
        assert disk in twins, (name, disk)  # one of another's shape has its size
        continue
    files[name] = disk
    assert abs(disk / wanted - 1) < 0.02 if name in SHAPES else abs(disk - wanted) < 1e6, (name, disk, wanted)
assert len(rows) > 35 and len(files) == len(SHAPES) + len(PUBLISHED), (len(rows), len(files))
PY
); then
    ok "files of the catalogue have the size of their weights"
else
    bad "files of the catalogue have the size of their weights" "$(tail -1 <<<"$why")"
fi

# Its other numbers: what the planner says of these shapes, with the file's size for the weights.
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

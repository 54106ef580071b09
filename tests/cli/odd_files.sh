# SPDX-License-Identifier: Apache-2.0
# Odd things that published models have in their JSON files: each is taken as it is meant, or refused by its field.
# tests/data/odd_files.txt has them; the model is a tiny one, with a file of its own replaced or given more members.
. "$(dirname "$0")/common.bash"

cd "$cli/../.." || exit 1
mkdir -p "$TEST_TMP/plain"
tests/support/tiny-model llama-bf16 "$TEST_TMP/plain"

# answer FOLDER [OPTION...]: what the model says there.
answer()
{
    run_it run "$@" -p hello -n 8 -q --temp 0
}

answer "$TEST_TMP/plain"
expect "the plain model answers" 0
plain=$out
python3 - "$TEST_TMP/plain" <<'EOF'
import json, os, struct, sys
shard = "model-00001-of-00001.safetensors"
os.rename(sys.argv[1] + "/model.safetensors", sys.argv[1] + "/" + shard)
with open(sys.argv[1] + "/" + shard, "rb") as f:
    names = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
index = {"weight_map": {name: shard for name in names if name != "__metadata__"}}
with open(sys.argv[1] + "/model.safetensors.index.json", "w") as f:
    json.dump(index, f)
with open(sys.argv[1] + "/generation_config.json", "w") as f:
    json.dump({"transformers_version": "4.51.0"}, f)
EOF

n=0
while IFS='|' read -r file json wanted; do
    [[ $file == '#'* || -z $file ]] && continue
    file=${file// /} wanted=${wanted# }
    rm -rf "$TEST_TMP/odd" && cp -r "$TEST_TMP/plain" "$TEST_TMP/odd"
    json=${json# } json=${json% }
    if [[ $json == '+'* ]]; then # more members; the last of a name counts
        text=$(<"$TEST_TMP/plain/$file")
        printf '%s, %s}' "${text%\}*}" "${json#+}" >"$TEST_TMP/odd/$file"
    else
        printf '%b' "$json" >"$TEST_TMP/odd/$file"
    fi
    answer "$TEST_TMP/odd"
    if [[ $wanted == same ]]; then
        expect "$file: $json" 0
        expect_same "$file: $json: the answer" "$out" "$plain"
    elif [[ $wanted == other ]]; then
        expect "$file: $json" 0
    [[ $out != "$plain" ]] || bad "$file: $json" "it changes nothing"
    else
        expect "$file: $json" 1 err "$file" err "$wanted"
    fi
    ((n += 1))
done <tests/data/odd_files.txt
((n > 60)) || bad "the table" "only $n cases"

# What a file or a template says does not control the terminal.
python3 - "$TEST_TMP/evil.gguf" <<'EOF'
import struct, sys
def text(s):
    return struct.pack("<Q", len(s)) + s
with open(sys.argv[1], "wb") as f:
    f.write(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text(b"general.architecture") + struct.pack("<I", 8)
            + text(b"a\x1b[2J\x1b]0;b\x07\xc2\x9bc") + bytes(64))
EOF
run_it inspect "$TEST_TMP/evil.gguf"
expect "controls in a name" 1 err 'a\x1b[2J\x1b]0;b\x07\x9bc'
[[ $err != *$'\x1b'* && $err != *$'\x07'* ]] || bad "controls in a name" "they are printed"
printf '%s' '{{ raise_exception("no\x1b[2J\r") }}' >"$TEST_TMP/evil.jinja"
answer "$TEST_TMP/plain" --chat-template "$TEST_TMP/evil.jinja"
expect "controls in a template" 1 err 'no\x1b[2J\x0d'
[[ $err != *$'\x1b'* && $err != *$'\r'* ]] || bad "controls in a template" "they are printed"
finish

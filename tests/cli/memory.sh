# SPDX-License-Identifier: Apache-2.0
# The memory plan is refused before anything is loaded, and progress is shown as fits the reader.
. "$(dirname "$0")/common.bash"

tiny=$data/llama-f32
run_it run "$tiny" --verbose --ids 1 --kv-mem 1000G
expect "more KV memory than there is" 1 err "GiB" err "memory plan" err "(--ctx, --max-seqs, --kv-mem)"
run_it bench "$tiny" -p 16 -n 4 --kv-mem 1000G
expect "more KV memory than there is, to bench" 1 err "(--ctx, --max-seqs, --kv-mem)"
run_it inspect "$tiny" --kv-mem 1
expect "KV memory below a page, to inspect" 1 err "--kv-mem: the memory for keys and values is below one KV page"
run_it run "$tiny" --ids 1 --kv-mem 1000G
if [[ $err == *loading:* ]]; then
    bad "nothing is loaded then" "it loaded"
else
    ok "nothing is loaded then"
fi
run_it run shape:qwen3-32b --load-format dummy --weight-type f32 --ids 1
expect "more weights than there is room for" 1 err "GiB"

# Without --ctx the context is the model's, or what a part of the memory beside the weights holds (a quarter, for serve
# half), or 8192 tokens, or what fits. The reason is the true one.
shares_hold="
def holds(whole, r, share):
    part = {p['name']: p['bytes'] for p in r['plan']['parts']}
    left = r['plan']['available'] - part['weights']
    assert r['ctx'] <= whole, r['ctx']
    if 8192 < r['ctx'] < whole:
        assert share - 0.05 < part['KV pages'] / left <= share, (r['ctx'], left)
    elif r['ctx'] < min(8192, whole):
        token = part['KV pages'] / int(r['plan']['parts'][1]['detail'].split()[0])
        assert r['plan']['total'] + r['plan']['loading'] + 1024 * token > r['plan']['available'], r
r = json.loads(text)
holds(r['max_ctx'], r, 0.25)
holds(r['max_ctx'], r['serve'], 0.5)
assert r['max_seqs'] == 1 and r['serve']['max_seqs'] == 32, r"
reasons_hold="
import re
found = re.findall(r\"(run and chat|serve): with context (\d+) tokens(?: of the model's 40960 \((.*?)\))?,\", text)
assert [f[0] for f in found] == ['run and chat', 'serve'], text
for who, ctx, reason in found:
    share = ('a quarter' if who != 'serve' else 'half') + ' of the memory that the weights leave; --ctx N asks for more'
    ctx = int(ctx)
    want = ('' if ctx == 40960 else share if ctx > 8192 else
            'the usual in little memory; --ctx N asks for more' if ctx == 8192 else 'memory gives no more')
    assert reason == want, (who, ctx, reason)"
for model in "shape:qwen3-0.6b" "shape:qwen3-8b --weight-type q4_0 --kv-dtype f32" "shape:qwen3-8b --weight-type bf16"; do
    # shellcheck disable=SC2086 # the words of $model
    run_it inspect $model --load-format dummy --json
    expect_python "the context is what model and memory have: $model" "$shares_hold"
    # shellcheck disable=SC2086
    run_it inspect $model --load-format dummy
    expect_python "and inspect says why, for each command: $model" "$reasons_hold"
done
run_it inspect shape:qwen3-0.6b --load-format dummy --ctx 100
expect "a shorter one says why" 0 out "context 100 tokens of the model's 40960 (--ctx says so)"

# Of a large context run and chat touch what they use.
default_model=${XDG_CACHE_HOME:-${HOME:-}/.cache}/whimbrel/SmolLM2-135M-Instruct.Q4_1.gguf
for command in "run $tiny --ids 1,2,3 -n 1" "chat $default_model -n 1"; do
    read -r name model _ <<<"$command"
    if [[ ! -e $model ]]; then
        skip "$name touches what it uses of its KV memory" "the default model is not there; make model fetches it"
        continue
    fi
    # shellcheck disable=SC2086 # the words of $command
    python3 -c "import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], input=b'Hello\n', stdout=subprocess.DEVNULL).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)" \
        "$WHIMBREL" $command --kv-mem 2G >"$TEST_TMP/out" 2>"$TEST_TMP/err"
    expect_python "$name touches what it uses of its KV memory" "
code, kilobytes = map(int, text.split())
assert code == 0 and kilobytes < 1 << 20, text"
done

run_it run "$tiny" --ids 1 -n 1
expect_same "loading that is quick is not worth a word" "$err" ""
run_it bench "$tiny" -p 16 -n 4 -r 1
expect "progress comes in lines" 0 err "loading: "
expect_same "without carriage returns" "$(tr -cd '\r' <"$TEST_TMP/err" | wc -c)" 0

# The same on a terminal: a bar that is redrawn, and a newline at its end.
python3 - "$WHIMBREL" "$tiny" >"$TEST_TMP/out" 2>&1 <<'PY'
import os, pty, subprocess, sys

main, side = pty.openpty()
child = subprocess.Popen([sys.argv[1], "bench", sys.argv[2], "-p", "16", "-n", "4", "-r", "1"], stdout=subprocess.PIPE,
                         stderr=side)
os.close(side)
shown = b""
while True:
    try:
        piece = os.read(main, 4096)
    except OSError:
        break
    if not piece:
        break
    shown += piece
child.stdout.read()
assert child.wait() == 0, child.returncode
bar = shown.index(b"\rloading  [")
last = shown.index(b"\rloading: 100%")
assert bar < last and b"\n" not in shown[bar:last], shown
assert shown[last:].count(b"\r\n") >= 2 and shown.endswith(b"\r\n"), shown
PY
rc=$? out= err=$(tail -1 "$TEST_TMP/out")
expect "a bar on a terminal" 0
finish

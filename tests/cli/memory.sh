# SPDX-License-Identifier: Apache-2.0
# The memory plan is refused before anything is loaded, and progress is shown as fits the reader.
. "$(dirname "$0")/common.bash"

tiny=$data/llama-f32
run_it run "$tiny" --ids 1 --kv-mem 1000G
expect "more KV memory than there is" 1 err "GiB" err "memory plan"
if [[ $err == *loading:* ]]; then
    bad "nothing is loaded then" "it loaded"
else
    ok "nothing is loaded then"
fi
run_it run shape:qwen3-32b --load-format dummy --weight-type f32 --ids 1
expect "more weights than there is room for" 1 err "GiB"

# Without --ctx the context is the model's, or what a quarter of the memory beside the weights holds.
run_it inspect shape:qwen3-0.6b --load-format dummy --json
expect_python "the context is what model and memory have" "
r = json.loads(text)
part = {p['name']: p['bytes'] for p in r['plan']['parts']}
left = r['plan']['available'] - part['weights']
assert r['max_ctx'] == 40960 and r['ctx'] <= r['max_ctx'], r['ctx']
assert r['ctx'] == r['max_ctx'] or r['ctx'] == 2048 or 0.2 < part['KV pages'] / left < 0.3, (r['ctx'], left)"
run_it inspect shape:qwen3-0.6b --load-format dummy
expect_python "and inspect says so" "assert 'with context 40960 tokens' in text or \"of the model's 40960 (memory gives\" in text"
run_it inspect shape:qwen3-0.6b --load-format dummy --ctx 100
expect "a shorter one says why" 0 out "context 100 tokens of the model's 40960 (--ctx says so)"

run_it run "$tiny" --ids 1 -n 1
expect "progress comes in lines" 0 err "loading: "
expect_same "without carriage returns" "$(tr -cd '\r' <"$TEST_TMP/err" | wc -c)" 0

# The same on a terminal: a bar that is redrawn, and a newline at its end.
python3 - "$WHIMBREL" "$tiny" >"$TEST_TMP/out" 2>&1 <<'PY'
import os, pty, subprocess, sys

main, side = pty.openpty()
child = subprocess.Popen([sys.argv[1], "run", sys.argv[2], "--ids", "1", "-n", "2"], stdout=subprocess.PIPE,
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
ids = child.stdout.read().split()
assert child.wait() == 0 and len(ids) == 2, (child.returncode, ids)
bar = shown.index(b"\rloading  [")
last = shown.index(b"\rloading: 100%")
assert bar < last and b"\n" not in shown[bar:last], shown
assert shown[last:].count(b"\r\n") >= 2 and shown.endswith(b"\r\n"), shown
PY
rc=$? out= err=$(tail -1 "$TEST_TMP/out")
expect "a bar on a terminal" 0
finish

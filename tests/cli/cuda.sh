# SPDX-License-Identifier: Apache-2.0
# Which device is used, and what is said of GPUs that cannot be: with a driver that is a fake.
. "$(dirname "$0")/common.bash"

tiny=$data/llama-f32
mkdir -p "$TEST_TMP/driver"
if ! "${CC:-gcc}" -Wall -Wextra -Werror -shared -fPIC -o "$TEST_TMP/driver/libcuda.so.1" "$cli/fake_cuda.c"; then
    bad "the fake driver" "it does not compile"
    finish
    exit
fi
# with WISHES ARGS...: as run_it, beside a driver with these wishes (fake_cuda.c).
with()
{
    local wishes=$1
    shift
    LD_LIBRARY_PATH=$TEST_TMP/driver FAKE_CUDA=$wishes run_it "$@"
}

with "" doctor --seconds 0.01
if [[ $out == *"built without kernels"* ]]; then
    skip "devices by a fake driver" "the program has no kernels: pip could not fetch their compiler"
    finish
    exit
fi
expect "doctor names GPU, driver, kernels and the default" 0 out "backend        cuda: Fake GPU 0" \
    out "driver for CUDA 12.4" out "used: sm_90" out "default device cuda: Fake GPU 0"
with "count=2" doctor --seconds 0.01
expect "and that there are more" 0 out "devices      2" out "--backend cuda:1"

with "" run --verbose "$tiny" --ids 1 -n 1
expect "a GPU is used by default" 0 err "device: cuda: Fake GPU 0" err "on the device" err "on the host"
with "" run --verbose "$tiny" --ids 1 -n 1 --backend cpu
expect "unless the CPU is asked for" 0 err "device: cpu: "
run_it run --verbose "$tiny" --ids 1 -n 1
expect "without a driver the CPU is used" 0 err "device: "
if [[ $err == *"better device"* && ! -e /dev/nvidiactl ]]; then
    bad "and nothing is missed" "${err:0:200}"
else
    ok "and nothing is missed"
fi

for capability in "8 0" "8 6" "8 9" "12 0"; do
    with "major=${capability% *} minor=${capability#* }" run --verbose "$tiny" --ids 1 -n 1 --backend cuda
    if [[ $err == *"has no kernels for a GPU of capability ${capability/ /.}: one that is built with make CUDA=1"* ]]; then
        skip "a GPU of capability ${capability/ /.}" "the program has no kernels for it"
        continue
    fi
    expect "a GPU of capability ${capability/ /.} is used" 0 err "device: cuda: Fake GPU 0"
done

# Threads of the host make weights ready, each with a buffer.
with "" inspect "$tiny" --json --threads 1
cp "$TEST_TMP/out" "$TEST_TMP/one.json"
with "" inspect "$tiny" --json
cp "$TEST_TMP/out" "$TEST_TMP/all.json"
run_it doctor --json --seconds 0.01
expect_python "all CPUs load a model" "
n = min(32, json.loads(text)['threads'])
one, all = (json.load(open(f'$TEST_TMP/{name}.json'))['plan'] for name in ('one', 'all'))
assert all['loading'] == n * one['loading'] > 0, (n, one, all)"

mkdir "$TEST_TMP/damaged"
echo "no library" >"$TEST_TMP/damaged/libcuda.so.1"
LD_LIBRARY_PATH=$TEST_TMP/damaged run_it run --verbose "$tiny" --ids 1 -n 1
expect "a driver that cannot be loaded is missed" 0 err "cpu is used in place of a better device" err "there is a driver" \
    err "damaged/libcuda.so.1: " err "525 or newer" err "device: cpu"

with "" bench "$tiny" -p 20 -n 4 -b 1 -r 1 --json -q
expect_python "bench has no ceilings of a GPU" "
r = json.loads(text)
assert all(r[k] is None for k in ('machine_gbs', 'machine_gflops', 'read_share', 'peak_share')), r
assert r['read_gbs'] > 0 and r['gflops'] > 0, r"
with "" bench "$tiny" -p 20 -n 4 -b 1 -r 1 -q
expect "nor tells those of the CPUs" 0 out "best and median of 1
"

# refused NAME WISHES TEXT...: asked for it is refused with the texts; left to us the CPU is used, and the same is said.
refused()
{
    local name=$1 wishes=$2 texts=()
    shift 2
    for text; do texts+=(err "$text"); done
    with "$wishes" run "$tiny" --ids 1 -n 1 --backend cuda
    expect "$name" 1 "${texts[@]}"
    with "$wishes" run "$tiny" --ids 1 -n 1 --verbose
    expect "$name, and nobody asked for it" 0 err "cpu is used in place of a better device" "${texts[@]}" err "device: cpu"
}
refused "an old driver" driver=11040 "CUDA 11.4" "12.0 is the oldest" "525"
refused "a driver without a GPU, as in a container" count=0 "shows no GPU" "container"
refused "a driver that does not start" init=999 "does not start" "(999)"
refused "an old GPU" major=7 "Fake GPU 0" "capability 7.0" "8.0 is the oldest"
refused "memory that others have" retain=2 "no memory for a context" "nvidia-smi"
refused "exclusive mode" retain=46 "to itself" "exclusive mode"
refused "too little memory" free=900000 "the model needs" "on the device"
with "retain=46 count=2 free=900000" run "$tiny" --ids 1 -n 1
expect "each of two GPUs is told of" 0 err "cuda:0: GPU 0: another process has it to itself" err "; cuda:1: the model needs"
with "retain=46 count=2" run "$tiny" --ids 1 -n 1 --verbose
expect "the second GPU where the first cannot be had" 0 err "device: cuda: Fake GPU 1"
with "count=2" run "$tiny" --ids 1 -n 1 --backend cuda:2
expect "a GPU that is not there" 1 err "GPUs have the numbers 0 to 1; not 2"
with "" run --verbose "$tiny" --ids 1 -n 1 --tp 2 --backend cuda
expect "several ranks are refused by name" 1 err "2 ranks: this backend has a model on one GPU"
with "lost=5" run "$tiny" --ids 1 -n 9
expect "a GPU that is lost in a step" 1 err "GPU 0: lost" err "Xid" err "unspecified launch failure (719)"

# A server ends for it, and says why.
model=$TEST_TMP/model
cp -r "$tiny" "$model"
python3 -c "import json
level = {'type': 'ByteLevel', 'add_prefix_space': False}
vocab = {chr(0x100 + i) if i < 33 else chr(i): i for i in range(107)}
print(json.dumps({'pre_tokenizer': level, 'decoder': level,
                  'model': {'type': 'BPE', 'vocab': vocab, 'merges': []}}))" >"$model/tokenizer.json"
LD_LIBRARY_PATH=$TEST_TMP/driver FAKE_CUDA=lost=150 "$WHIMBREL" serve "$model" --port 0 --log-format json \
    >"$TEST_TMP/out" 2>"$TEST_TMP/err" &
server=$!
if python3 - "$TEST_TMP/err" $server <<'P'
import http.client, json, os, sys, time, urllib.error, urllib.request
port = None
while port is None:
    os.kill(int(sys.argv[2]), 0)
    for line in open(sys.argv[1]):
        if line.startswith("{") and json.loads(line).get("event") == "ready":
            port = json.loads(line)["port"]
    time.sleep(0.05)
body = json.dumps({"prompt": [1, 2], "max_tokens": 60, "temperature": 0}).encode()
try:
    for _ in range(200):
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body)).read()
    raise SystemExit("it was never lost")
except urllib.error.HTTPError as e:
    assert e.code == 500, e.code
except (urllib.error.URLError, ConnectionError, http.client.HTTPException):
    pass  # the server may have ended before a slow machine wrote its answer
P
then
    ok "a request in a step that was lost ends"
else
    bad "a request in a step that was lost ends" "$(tail -1 "$TEST_TMP/err")"
    kill $server
fi
wait $server
rc=$? out=$(<"$TEST_TMP/out") err=$(<"$TEST_TMP/err")
expect "and the server ends with the reason" 1 err '"event":"lost"' err "Xid"
finish

# SPDX-License-Identifier: Apache-2.0
# whimbrel doctor, here and where something is missing.
. "$(dirname "$0")/common.bash"

run_it doctor --seconds 0.05
expect "doctor" 0 out "cpu  " out "memory  " out "GB/s" out "GFLOP/s" out "backend" out "Q4_0" out "ready" out "default device "
expect "cores and workers are told" 0 out "cores  " out "memory node" out "workers  " out "on CPU"
expect "the ops are told" 0 out "  ops   " out "kernels"
run_it doctor --help
expect "its help tells what fails" 0 out "the exit status is 1" out "if no backend can be used"
run_it doctor --seconds 0.05 --json
expect "doctor --json" 0
expect_python "its figures are sensible" "
r = json.loads(text)
assert r['ready'] is True and r['failure'] == '' and r['cpus'] >= 1 and r['mem_available'] > 0
assert 0 < r['read_gbs'] < 1e5 and 0 < r['peak_gflops'] < 1e6
assert 1 <= r['cores'] <= r['cpus_mask'] and r['nodes'] >= 1 and r['topology'] in ('hwloc', 'sysfs')
usable = [b for b in r['backends'] if b['usable']]
assert usable[0]['workers'] == 'any' or usable[0]['workers'].count('|') == usable[0]['threads'] - 1
assert usable and usable[0]['isa'] in usable[0]['levels'], usable
assert {'F32', 'BF16', 'Q4_0', 'Q4_1', 'Q8_0', 'Q6_K'} <= set(usable[0]['weights']), usable
assert 4 <= usable[0]['weights']['Q4_0'] <= 8
assert usable[0]['ops'] > 10 and len(usable[0]['compositions']) < usable[0]['ops'], usable
assert all(b['compositions'] == ['add_rmsnorm', 'split_qkv_rmsnorm_rope']
           for b in usable if b['name'] == 'guard'), usable"
lowest=$(python3 -c 'import json, sys
print([b for b in json.load(open(sys.argv[1]))["backends"] if b["usable"]][0]["levels"][0])' "$TEST_TMP/out")
run_it doctor --seconds 0.05 --isa "$lowest"
expect "the lowest level can be asked for" 0 out "used: $lowest"
run_it doctor --seconds 0.05 --isa nonesuch
expect "an unknown level is a failure that lists the levels" 1 out "nonesuch" out "$lowest" out "not ready"
run_it doctor --seconds 0.05 --threads 4000
expect "more threads than CPUs is a failure" 1 out "not ready"
WHIMBREL_CACHE=$TEST_TMP/empty run_it doctor --seconds 0.05
expect "a missing default model is a warning" 0 out "warning" out "make model" out "$TEST_TMP/empty"
run_cpus()
{
    taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')" "$@"
}
if command -v taskset >/dev/null; then
    run_cpus "$WHIMBREL" doctor --seconds 0.05 --json >"$TEST_TMP/out"
    expect_python "an affinity mask is respected" "
r = json.loads(text)
assert r['cpus'] == 1 and r['threads'] == 1 and r['backends'][0]['threads'] == 1"
fi
finish

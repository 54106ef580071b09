# SPDX-License-Identifier: Apache-2.0
# Models over several processes: the tokens of one process, for every family, and what is refused.
. "$(dirname "$0")/common.bash"
# Ranks keep their leader's folder, so those of the server's tests, which may run beside this, are not counted at the end.
WHIMBREL=$(realpath "$WHIMBREL")
cd "$TEST_TMP" || exit 1

ids="5 6 7 8 9 10 11"
ask() # MODEL N
{
    run_it run "$data/$1" --ids "$ids" -n 24 --ignore-eos -q --threads 1 --oversubscribe --tp "$2"
}

for name in llama-f32 llama-bias qwen2-f32 qwen3-f32 qwen3-window qwen3moe-f32 qwen35-f32 qwen35-moe qwen3next-f32 \
    minimax-f32; do
    ask $name 1
    one=$out
    for n in 2 3 5; do
        ask $name $n
        expect "$name over $n processes" 0 out "$one"
    done
done
ask llama-f32 64
one=$out
ask llama-f32 1
expect "64 processes on few CPUs" 0 out "$one"
one=$out

run_it run "$data/llama-f32" --ids "$ids" -n 24 --ignore-eos -q --threads 1 --oversubscribe --tp 2 \
    --draft "$data/../drafts/llama-f32-dflash-tokens"
expect "a draft over 2 processes" 0 out "$one"

# Ranks that share prompts, over the kinds of layers.
for name in llama-f32 qwen3moe-f32 qwen35-moe; do
    ask $name 1
    one=$out
    run_it run "$data/$name" --ids "$ids" -n 24 --ignore-eos -q --threads 1 --oversubscribe --cp 3
    expect "$name, whose prompt 3 processes share" 0 out "$one"
done
ask llama-f32 1
one=$out
run_it run "$data/llama-f32" --ids "$ids" -n 24 --ignore-eos -q --threads 1 --oversubscribe --cp 2 --tp 4
expect "parts of 2 processes that share a prompt" 0 out "$one"
run_it run "$data/llama-f32" --ids "$ids" --threads 1 --oversubscribe --cp 3 --tp 4
expect "--cp that does not divide --tp" 1 err "--cp: 4 ranks cannot be 3 parts that share prompts"
run_it inspect shape:qwen3-30b-a3b --tp 4 --cp 2 --ep 4
expect "--ep above the ranks of a part" 1 err "--ep: experts cannot be distributed over 4 ranks in parts of 2 that share prompts"
run_it inspect shape:qwen3-30b-a3b --tp 8 --cp 2 --ep 2 --ep-experts 100,28 --json
expect_python "--ep in parts of four" "
ranks = json.loads(text)['ranks']
assert [(r['n_head'], r['n_expert'], r['d_ff']) for r in ranks] == 2 * (2 * [(8, 100, 384)] + 2 * [(8, 28, 384)]), ranks"
run_it inspect shape:qwen3-8b --tp 4 --cp 2 --json
expect_python "inspect --tp above --cp" "
ranks = json.loads(text)['ranks']
# A token: as two ranks have it.
assert [(r['n_head'], r['n_kv'], r['d_ff']) for r in ranks] == 4 * [(16, 4, 6144)], ranks
assert all(r['token_comm'] == (1 + 36 * 2) * 4 * 4096 + 2 * 8 for r in ranks), ranks[0]"
run_it run "$data/llama-f32" --ids "$ids" --threads 1 --oversubscribe --cp 4 --max-step-tokens 7
expect "--cp with small steps" 1 err "steps of 8 tokens or more, and none has more than 7" err "--max-step-tokens"
run_it inspect shape:qwen3-8b --cp 2
expect "inspect --cp" 0 out "serve over 2 ranks" out "for each of its tokens: 0 B, of 8 at once: 0 B, of a prompt: 304.00 KiB; the largest message: "

# Ranks with requests of their own: what is refused before anything loads.
serve_it() { run_it serve "$data/qwen3moe-f32" --port 0 --threads 1 --oversubscribe "$@"; }
serve_it --tp 4 --dp 3
expect "--dp that does not divide --tp" 1 err "--dp: 4 ranks cannot be 3 groups with requests of their own"
serve_it --dp 2 --ep 4
expect "--ep over groups of several" 1 err "--ep: experts cannot be distributed over 4 ranks in groups of 2" err "(--tp)"
serve_it --cp 2 --dp 2
expect "--cp and --dp beyond the ranks" 1 err "--dp: 2 ranks cannot be 2 groups with requests of their own, each of 2 parts"
serve_it --cp 2 --dp 2 --tp 6
expect "--cp and --dp that do not divide --tp" 1 err "--dp: 6 ranks cannot be 2 groups with requests of their own, each of 2 parts"
run_it inspect shape:qwen3-8b --tp 8 --cp 2 --dp 2 --json
expect_python "inspect --cp and --dp, and a cut model" "
ranks = json.loads(text)['ranks']
# A token of each group: of both, a sum of 4,096 behind the embedding and two in each of 36 layers; the best of two ranks, and of two groups.
assert [(r['n_head'], r['n_kv'], r['d_ff']) for r in ranks] == 8 * [(16, 4, 6144)], ranks
assert all(r['token_comm'] == ((1 + 36 * 2) * 4 * 4096 + 2 * 8 + 2 * 8) for r in ranks), ranks[0]"
run_it inspect shape:qwen3-8b --tp 4 --cp 2 --dp 2 --json
expect_python "inspect --cp and --dp" "
ranks = json.loads(text)['ranks']
assert [(r['n_head'], r['n_kv'], r['d_ff']) for r in ranks] == 4 * [(32, 8, 12288)], ranks
# A token of each: the best of both. A prompt's: half of the others' keys and values, and rows.
assert all(r['token_comm'] == 2 * 8 for r in ranks), ranks[0]
assert all(r['prompt_comm'] == 36 * 2 * 4 * 1024 + 4 * 4096 for r in ranks), ranks[0]"
run_it inspect shape:qwen3-30b-a3b --tp 4 --cp 2 --dp 2 --ep 2
expect "--cp, --dp and --ep below the ranks" 1 err "--ep: experts cannot be distributed over 2 of 4 ranks" err "use --ep 4, or --tp 4 with a smaller"
run_it inspect shape:qwen3-30b-a3b --tp 4 --cp 2 --ep 2
expect "--cp and --ep with the rest split" 0 out "serve over 4 ranks"
run_it inspect shape:qwen3-30b-a3b --cp 2 --dp 2 --ep 4 --ep-dispatch f32 --json
expect_python "inspect --cp, --dp and --ep" "
ranks = json.loads(text)['ranks']
# A token of each group: rows of 2,048 and 8 choices of four ranks in 48 layers, as each of a group's two has the token,
# three quarters of the 32 results, and the best tokens of both.
assert [(r['n_head'], r['n_expert']) for r in ranks] == 4 * [(32, 32)], ranks
assert all(r['token_comm'] == 48 * 4 * (4 * (2048 + 8) + 24 * 2048) + 2 * 8 for r in ranks), ranks[0]"
serve_it --ep 2 --dp 3
expect "--ep below --dp" 1 err "--ep: experts cannot be distributed over 2 of 3 ranks"
serve_it --ep 3 --dp 2
expect "--dp below --ep" 1 err "--dp: 3 ranks cannot be 2 groups with requests of their own"
serve_it --tp 4 --dp 3 --kv-dir "$TEST_TMP/pages"
expect "--dp is named where it is wrong itself" 1 err "--dp: 4 ranks cannot be 3 groups with requests of their own"
run_it inspect shape:qwen3-8b --dp 2
expect "inspect --dp" 0 out "serve over 2 ranks" out "for each of its tokens: 16 B, of 8 at once: 16 B, of a prompt: 0 B; the largest message: "
run_it inspect shape:qwen3-8b --tp 4 --dp 2 --json
expect_python "inspect --tp above --dp" "
ranks = json.loads(text)['ranks']
# A token of each group: a sum of 4,096 behind the embedding; in 36 layers two of the group's row and two of both groups' rows;
# the best of two ranks, and of two groups.
assert [(r['n_head'], r['n_kv'], r['d_ff']) for r in ranks] == 4 * [(16, 4, 3072)], ranks
assert all(r['token_comm'] == ((1 + 36 * 6) * 4 * 4096 + 2 * 8 + 2 * 8) for r in ranks), ranks[0]"

# Ranks that have whole experts, and share prompts as well.
for name in qwen3moe-f32 minimax-f32 qwen35-moe; do
    ask $name 1
    one=$out
    run_it run "$data/$name" --ids "$ids" -n 24 --ignore-eos -q --threads 1 --oversubscribe --ep 3
    expect "$name, whose experts 3 processes have" 0 out "$one"
done
run_it run "$data/qwen35-moe" --ids "$ids" -n 24 --ignore-eos -q --threads 1 --oversubscribe --ep 2 --cp 2
expect "experts and prompts" 0 out "$one"
run_it run "$data/qwen35-moe" --ids "$ids" -n 24 --ignore-eos -q --threads 1 --oversubscribe --ep 2 --cp 2 --ep-experts 11,1 --ep-slots 2
expect "experts that are dealt unevenly" 0 out "$one"
run_it run "$data/llama-f32" --ids "$ids" --threads 1 --oversubscribe --ep 2
expect "--ep without experts" 1 err "--ep: experts cannot be distributed over 2 ranks: the llama model has none"
run_it run "$data/qwen35-moe" --ids "$ids" --threads 1 --oversubscribe --ep 100
expect "--ep above the experts" 1 err "--ep: 100 ranks cannot have an expert each: the model has "
run_it run "$data/qwen35-moe" --ids "$ids" --threads 1 --oversubscribe --ep 2 --tp 3
expect "--ep that does not divide --tp" 1 err "--ep: experts cannot be distributed over 2 of 3 ranks" err "must divide"
for ranks in "--tp 2 --ep 2" "--tp 4 --ep 2"; do
    run_it run "$data/qwen35-moe" --ids "$ids" -n 24 --ignore-eos -q --threads 1 --oversubscribe $ranks
    expect "experts and the rest cut, $ranks" 0 out "$one"
done
run_it inspect shape:qwen3-30b-a3b --ep 2 --ep-dispatch bf16
expect "--ep-dispatch where no row travels" 1 err "--ep-dispatch: no rows are sent to experts"
run_it inspect shape:qwen3-30b-a3b --ep 2 --cp 2 --ep-dispatch bf16 --weight-type q4_0
expect "--ep-dispatch that rounds" 0 err "a value by up to 1/256 of itself" out "serve over 2 ranks"
run_it inspect shape:qwen3-30b-a3b --ep 2 --cp 2 --max-seqs 8 --ep-slots 7
expect "--ep-slots below the sequences" 1 err "--ep-slots: 7 slots for rows are fewer than the 8 sequences"
run_it inspect shape:qwen3-30b-a3b --ep 2 --ep-experts 100,27
expect "--ep-experts that are not all" 1 err "--ep-experts: '100,27' does not distribute 128 experts over 2 ranks"
run_it inspect shape:qwen3-30b-a3b --ep 3
expect "inspect --ep" 0 out "serve over 3 ranks" out "experts" out "for each of its tokens: "
run_it inspect shape:qwen3-30b-a3b --tp 4 --ep 2 --json
expect_python "inspect --tp above --ep" "
ranks = json.loads(text)['ranks']
# Two sums of 2,048 in 48 layers and one behind the embedding, and the best of four ranks.
assert [(r['n_head'], r['n_expert'], r['d_ff']) for r in ranks] == 4 * [(8, 64, 384)], ranks
assert all(r['token_comm'] == 97 * 4 * 2048 + 4 * 8 for r in ranks), ranks[0]"
run_it inspect shape:qwen3-30b-a3b --tp 1 --ep 2
expect "inspect --tp 1 --ep 2" 1 err "--ep: experts cannot be distributed over 2 of 1 ranks"
run_it inspect shape:qwen3-30b-a3b --tp 1 --dp 2
expect "inspect --tp 1 --dp 2" 1 err "--dp: 1 ranks cannot be 2 groups"
run_it inspect shape:qwen3-30b-a3b --dp 2 --ep 2 --ep-dispatch f32 --json
expect_python "inspect --dp --ep" "
ranks = json.loads(text)['ranks']
# A token of each: rows of 2,048 and 8 choices in 48 layers, half of the 16 results, and the best tokens.
assert [r['n_expert'] for r in ranks] == [64, 64], ranks
assert all(r['token_comm'] == r['batch_comm'] == 2 * (48 * 4 * (2048 + 8 + 4 * 2048) + 8) for r in ranks), ranks[0]"
run_it inspect shape:qwen3-30b-a3b --ep 2 --json
expect_python "inspect --ep: a few tokens, and many" "
ranks = json.loads(text)['ranks']
# What heads give and what \`o\` makes of it are gathered. The 8 results go to everybody; of more tokens
# than 4 half of them do, and the sums. An embedding is one rank's; each tells its best token.
layer = 4 * (4096 + 2048)
assert [(r['n_head'], r['n_kv'], r['n_expert'], r['d_ff']) for r in ranks] == 2 * [(16, 2, 64, 768)], ranks
assert all(r['token_comm'] == 48 * (layer + 4 * 8 * 2048) + 4 * 2048 + 2 * 8 for r in ranks), ranks[0]
assert all(r['batch_comm'] == 48 * (layer + 4 * 5 * 2048) + 4 * 2048 + 2 * 8 for r in ranks), ranks[0]
assert all(r['prompt_comm'] == r['batch_comm'] - 2 * 8 for r in ranks), ranks[0]"
run_it inspect shape:minimax-m2 --ep 2 --json
expect_python "inspect --ep of norms over all heads" "
ranks = json.loads(text)['ranks']
assert [(r['n_head'], r['n_kv']) for r in ranks] == 2 * [(48, 8)], ranks"

for n in 0 -1 1025 x; do
    run_it run "$data/llama-f32" --ids "$ids" --tp $n
    expect "--tp $n" 2 err "--tp" err "$n"
done
run_it run "$data/llama-f32" --ids "$ids" --threads 1 --tp 1024
expect "more ranks than CPUs" 1 err "1024 ranks with 1 thread each were asked for" err "CPU" err "--oversubscribe"
run_it rank
expect "rank is for whimbrel itself" 1 err "whimbrel serve --tp N"
run_it run "$data/llama-f32" --ids "$ids" --threads 1 --tp 2 --oversubscribe --kv-mem 1
expect "what one rank refuses is refused before others start" 1 err "--kv-mem"
run_it inspect shape:minimax-m2 --weight-type fp8 --tp 7
expect "inspect --tp" 0 out "serve over 7 ranks" out "messages of each, for each of its tokens: 1.47 MiB" out "memory node "
run_it inspect shape:minimax-m2 --weight-type fp8 --tp 7 --json
expect_python "shares of MiniMax-M2 over 7 ranks" "
ranks = json.loads(text)['ranks']
assert [r['n_head'] for r in ranks] == [12] + [6] * 6 and [r['n_kv'] for r in ranks] == [2] + [1] * 6, ranks
assert [r['d_ff'] for r in ranks] == [256] * 5 + [128] * 2, ranks
assert all(r['token_comm'] == 3072 * 4 * (2 * 62 + 1) + 62 * 8 + 7 * 8 for r in ranks), ranks[0]
assert all(r['most_comm'] >= 512 * 3072 * 4 for r in ranks), ranks[0]
nodes, all = json.loads(text)['nodes'], sum(r['total'] for r in ranks)
assert nodes and all - 7 * len(nodes) <= sum(n['total'] for n in nodes) <= all, nodes"
run_it inspect shape:qwen3-30b-a3b --tp 6 --json
expect_python "more ranks than KV heads" "
ranks = json.loads(text)['ranks']
assert sum(r['n_head'] for r in ranks) == 32 and all(r['n_kv'] == 1 for r in ranks), ranks"

# Several machines: what is refused before anything else happens, and what launchers say.
model=$data/llama-f32
export WHIMBREL_JOIN_SECRET="a secret of these tests"
nodes=(--threads 1 --tp 2 --oversubscribe)
run_it serve "$model" "${nodes[@]}" --nodes 2
expect "--nodes without --join" 2 err "--join HOST:PORT"
run_it serve "$model" "${nodes[@]}" --nodes 2 --join somewhere
expect "--join without a port" 2 err "--join takes HOST:PORT, not \"somewhere\""
run_it serve "$model" "${nodes[@]}" --nodes 3 --join 127.0.0.1:1
expect "more nodes than ranks" 2 err "2 ranks (--tp, --cp, --dp, --ep) over --nodes 3"
run_it serve "$model" "${nodes[@]}" --nnodes 2 --node-rank 2 --dist-init-addr "[::1]:1"
expect "a node that is not there" 2 err "--node-rank 2 of --nodes 2"
run_it serve "$model" "${nodes[@]}" --node-rank 1
expect "--node-rank without --nodes" 2 err "--nodes N says how many"
WHIMBREL_JOIN_SECRET=short run_it serve "$model" "${nodes[@]}" --nodes 2 --join 127.0.0.1:1
expect "a short secret" 2 err "WHIMBREL_JOIN_SECRET: a secret of 5 bytes; it must have 16"
WHIMBREL_JOIN_SECRET='' run_it serve "$model" "${nodes[@]}" --nodes 2 --join 127.0.0.1:1
expect "no secret" 2 err "--join-secret-file or WHIMBREL_JOIN_SECRET"
LWS_GROUP_SIZE=2 LWS_WORKER_INDEX=2 LWS_LEADER_ADDRESS=127.0.0.1 run_it serve "$model" "${nodes[@]}"
expect "a launcher that counts wrongly" 2 err "LeaderWorkerSet says machine 2 of 2"
OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_LOCAL_RANK=1 run_it serve "$model" "${nodes[@]}"
expect "two of a launcher on one machine" 2 err "mpirun started several whimbrels" err "--nodes 1"
OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_LOCAL_RANK=0 run_it serve "$model" "${nodes[@]}"
expect "a launcher that names no leader" 2 err "--join HOST:PORT"
# Who could have no bridge says so before it joins or lets others join; else nobody leads at that address, which is this
# machine's like all of 127.x.
slurm()
{
    SLURM_STEP_NUM_NODES=2 SLURM_NODEID=$1 SLURM_LOCALID=0 SLURM_STEP_NODELIST="127.83.7.[1-2]" run_it \
        serve "$model" "${nodes[@]}" --join-time 1 --port 0
}
if [[ -e $(dirname "$(readlink -f "$WHIMBREL")")/whimbrel-ucx.so ]]; then
    if (exec 3<>/dev/tcp/127.83.7.1/8090) 2>/dev/null; then
        skip "a leader that does not come" "something has port 8090 here"
    else
        slurm 1
        expect "a leader that does not come" 1 err "node 1 could not join in 1 s: no answer from 127.83.7.1, port 8090"
    fi
    for node in 0 1; do
        run_it serve "$model" "${nodes[@]}" --nodes 2 --node-rank $node --join 127.0.0.1:1 --join-device nothing0
        expect "node $node with an interface that is not there" 1 err "the bridge of node $node: UCX cannot begin" \
            err "nothing0" err "--join-device"
    done
else
    for node in 0 1; do
        slurm $node
        expect "node $node without the module for UCX" 1 err "the bridge of node $node: ranks on several hosts need" \
            err "install the package libucx-dev"
    done
fi

left=0
for process in /proc/[0-9]*; do
    [[ $(tr '\0' ' ' 2>/dev/null <"$process/cmdline") == "whimbrel rank " &&
        $(readlink "$process/cwd") == "$PWD" ]] && ((left += 1))
done 2>/dev/null
expect_same "no process is left" $left 0
finish

# SPDX-License-Identifier: Apache-2.0
# Models over several processes: the tokens of one process, for every family, and what is refused.
. "$(dirname "$0")/common.bash"

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

for n in 0 -1 1025 x; do
    run_it run "$data/llama-f32" --ids "$ids" --tp $n
    expect "--tp $n" 2 err "--tp" err "$n"
done
run_it run "$data/llama-f32" --ids "$ids" --threads 1 --tp 1024
expect "more ranks than CPUs" 1 err "1024 ranks with 1 thread each were asked for" err "CPU" err "--oversubscribe"
run_it serve "$data/llama-f32" --tp 2 --oversubscribe --kv-dir "$TEST_TMP/kv" --port 0
expect "pages of several ranks on a disk" 1 err "--kv-dir"
run_it rank
expect "rank is for whimbrel itself" 1 err "whimbrel serve --tp N"
run_it run "$data/llama-f32" --ids "$ids" --threads 1 --tp 2 --oversubscribe --kv-mem 1
expect "what one rank refuses is refused before others start" 1 err "--kv-mem"
expect_same "no process is left" "$(pgrep -c -f '^whimbrel rank$')" 0
finish

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The CUDA backend on a GPU that is not there: tests/emulated_gpu/test.sh FOLDER PART, where FOLDER has what the
# build's goal `gpu` makes, and PART is one of
#   80, 90     checkop on a GPU of that capability, every EVERY-th (17) of its quick cases
#   cases      and on one of 9.0 some that have kernels of their own
#   barriers   what is found when a barrier is taken out of a kernel
#   models     some of the tiny models against their goldens
set -u
cd "$(dirname "$0")/../.." || exit 1
folder=$1 part=$2
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
passed=0 failed=0
ok() { echo "ok $1"; ((passed += 1)); }
bad() { echo "FAIL $1: $2"; ((failed += 1)); }

# What is left when every EVERY-th case has run: cases that have kernels of their own on a GPU of capability 9.0.
linear="46 47 49 50 51 53 70 71 72 73 74 76 91 138 140 160 186 191 192 193 194 197 200 201 205 206 207 208 209"
attn_paged="3 13 15 16 18 38"
moe_experts="16 20 24 32 34 35 68"

# checkop CAPABILITY OPTION...: leaves its lines in $out/checkop and the kernels that ran in $out/log.
checkop()
{
    local capability=$1
    shift
    EMULATED_GPU=capability=$capability,seed=$capability,log=$out/log "$folder/checkop" --backend=cuda "$@" >"$out/checkop" 2>&1
}

told()
{
    local name=$1 total
    total=$(($(grep -c '^WHIM_CUDA_KERNEL(' src/backends/cuda/kernels.def) +
        4 * $(grep -c '^WHIM_CUDA_KERNELS_OF(' src/backends/cuda/kernels.def)))
    ok "$name ($(sort -u "$out/log" | wc -l) of $total kernels)"
}

# Another seed for each, so that they have other cases.
checkop_some()
{
    if checkop "$1" --quick --every="${EVERY:-17}" --seed="$1"; then
        told "checkop for capability $1"
    else
        bad "checkop for capability $1" "$(grep -aE '^(FAIL|emulated)' "$out/checkop")"
    fi
}

checkop_cases()
{
    local op=$1 case before=$failed
    for case in ${!op}; do
        checkop 90 --op="$op" --case="$case" || bad "$op" "$(grep -aE '^(FAIL|emulated)' "$out/checkop")"
    done
    ((failed > before)) || told "chosen cases of $op"
}

# without CAPABILITY WORD@KERNEL OP CASE: that a case of checkop fails without that, and not with it.
without()
{
    local capability=$1 barrier=$2 kernel=${2#*@} how=(--backend=cuda --op="$3" --case="$4")
    rm -f "$out/log"
    if ! EMULATED_GPU=capability=$capability,log=$out/log "$folder/checkop" "${how[@]}" >"$out/all" 2>&1; then
        bad "${how[*]} as capability $capability" "$(grep -am1 FAIL "$out/all")"
    elif ! grep -qx "$kernel" "$out/log"; then
        bad "${how[*]}" "it has $kernel no more: another case of $3 is wanted here"
    elif EMULATED_GPU=capability=$capability,without=$barrier "$folder/checkop" "${how[@]}" >"$out/less" 2>&1; then
        bad "$barrier taken away" "nobody notices"
    else
        ok "$barrier taken away: $(grep -am1 -oE '^FAIL .*|^emulated GPU: .*' "$out/less" | cut -c1-150)"
    fi
}

# models CAPABILITY NAME...: against their goldens.
models()
{
    local capability=$1 name
    shift
    rm -rf "$out/data" && mkdir "$out/data"
    for name; do
        ln -s "$PWD/tests/data/golden/$name" "$out/data/$name"
    done
    if EMULATED_GPU=capability=$capability "$folder/golden_test" "$out/data" --quick --only models --backend cuda \
        >"$out/models" 2>&1 && grep -q '^RESULT passed=[1-9]' "$out/models"; then
        ok "tiny models for capability $capability: $*"
    else
        bad "tiny models for capability $capability" "$(grep -v '^ok' "$out/models")"
    fi
}

case $part in
    80 | 90) checkop_some "$part" ;;
    cases)
        checkop_cases linear
        checkop_cases attn_paged
        checkop_cases moe_experts
        ;;
    barriers)
        without 80 __syncthreads@k_rmsnorm rmsnorm 3
        without 80 __syncthreads@k_topk topk 10
        without 80 copies_wait@k_mm_64 linear 196
        without 80 __syncthreads@k_mm_64 linear 196
        without 90 cluster_sync@k_mm_split_8 linear 25
        without 90 wide_until@k_mm_wide_split_64 linear 140
        without 90 bulk_wait@k_mm_fp8_rows_split_32 linear 91
        without 90 cluster_sync@k_attn_cluster_64 attn_paged 1
        without 90 bulk_wait@k_experts_few_up moe_experts 10
        ;;
    models)
        models 80 llama-bf16
        models 90 llama-bf16 qwen3-mixed-gguf qwen35-moe
        ;;
    *)
        bad "$part" "no such part"
        ;;
esac
echo "RESULT passed=$passed failed=$failed skipped=0"
exit $((failed > 0))

/* SPDX-License-Identifier: Apache-2.0 */
/* Instruction levels: what this build holds and what this machine can run. A level includes all
 * below it; the first missing feature ends the ladder. */
#include "levels.inc"
#include "backends/cpu/cpu.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__aarch64__)
#include <sys/auxv.h>
#ifndef HWCAP_ASIMDDP
#define HWCAP_ASIMDDP (1UL << 20)
#endif
#ifndef HWCAP2_I8MM
#define HWCAP2_I8MM (1UL << 13)
#endif
#ifndef HWCAP2_BF16
#define HWCAP2_BF16 (1UL << 14)
#endif
#endif

#if defined(__aarch64__)
extern const whim_cpu_kernels whim_cpu_kernels_neon, whim_cpu_kernels_dotprod,
    whim_cpu_kernels_i8mm, whim_cpu_kernels_bf16;
static const whim_cpu_kernels *const ladder[] = {
    &whim_cpu_kernels_neon,
#ifdef WHIM_HAS_dotprod
    &whim_cpu_kernels_dotprod,
#endif
#ifdef WHIM_HAS_i8mm
    &whim_cpu_kernels_i8mm,
#endif
#ifdef WHIM_HAS_bf16
    &whim_cpu_kernels_bf16,
#endif
};

static int32_t machine_height(void)
{
    if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) == 0) {
        return 1;
    }
    if ((getauxval(AT_HWCAP2) & HWCAP2_I8MM) == 0) {
        return 2;
    }
    return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0 ? 4 : 3;
}
#elif defined(__x86_64__)
extern const whim_cpu_kernels whim_cpu_kernels_sse2, whim_cpu_kernels_avx2, whim_cpu_kernels_avx512,
    whim_cpu_kernels_avx512vnni, whim_cpu_kernels_avx512bf16, whim_cpu_kernels_amx;
static const whim_cpu_kernels *const ladder[] = {
    &whim_cpu_kernels_sse2,
#ifdef WHIM_HAS_avx2
    &whim_cpu_kernels_avx2,
#endif
#ifdef WHIM_HAS_avx512
    &whim_cpu_kernels_avx512,
#endif
#ifdef WHIM_HAS_avx512vnni
    &whim_cpu_kernels_avx512vnni,
#endif
#ifdef WHIM_HAS_avx512bf16
    &whim_cpu_kernels_avx512bf16,
#endif
#ifdef WHIM_HAS_amx
    &whim_cpu_kernels_amx,
#endif
};

/* gcc 10 does not know this name in __builtin_cpu_supports. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

#ifdef WHIM_HAS_amx
/* Leave to use tile registers, for all threads of the process; asking again is harmless. */
static bool tiles_permitted(void)
{
    enum { REQ_XCOMP_PERM = 0x1023, XTILE_DATA = 18 }; /* of arch_prctl */
    return syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XTILE_DATA) == 0;
}
#endif

/* These look at the processor and at what the system saves of it. */
static int32_t machine_height(void)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) {
        return 1;
    }
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq")) {
        return 2;
    }
    if (!__builtin_cpu_supports("avx512vnni")) {
        return 3;
    }
#ifdef WHIM_HAS_avx512bf16
    if (!__builtin_cpu_supports("avx512bf16")) {
        return 4;
    }
#endif
#ifdef WHIM_HAS_amx
    if (!__builtin_cpu_supports("amx-tile") || !__builtin_cpu_supports("amx-int8") ||
        !__builtin_cpu_supports("amx-bf16") || !tiles_permitted()) {
        return 5;
    }
#endif
    return 6;
}
#else
#error "whimbrel's CPU backend knows aarch64 and x86_64"
#endif

/* What the machine can run of what this build holds. */
static int32_t ladder_height(void)
{
    const int32_t n = machine_height(), built = (int32_t)(sizeof ladder / sizeof ladder[0]);
    return n < built ? n : built;
}

const char *whim_cpu_levels_left_out(void)
{
    return WHIM_LEVELS_LEFT_OUT;
}

int32_t whim_cpu_levels(const char **names, int32_t max)
{
    int32_t n = ladder_height();
    for (int32_t i = 0; i < n && i < max; i++) {
        names[i] = ladder[i]->level;
    }
    return n < max ? n : max;
}

const whim_cpu_kernels *whim_cpu_level_find(const char *name)
{
    int32_t n = ladder_height();
    if (name == NULL) {
        return ladder[n - 1];
    }
    for (int32_t i = 0; i < n; i++) {
        if (strcmp(ladder[i]->level, name) == 0) {
            return ladder[i];
        }
    }
    return NULL;
}

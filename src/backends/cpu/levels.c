/* SPDX-License-Identifier: Apache-2.0 */
/* Instruction levels: what this build holds and what this machine can run. */
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

/* A level that this build holds, and whether this machine can run it and all below it. */
typedef struct rung {
    const whim_cpu_kernels *kernels;
    bool (*runs)(void);
} rung;

static bool runs_always(void)
{
    return true;
}

#if defined(__aarch64__)
extern const whim_cpu_kernels whim_cpu_kernels_neon, whim_cpu_kernels_dotprod,
    whim_cpu_kernels_i8mm, whim_cpu_kernels_bf16;

#ifdef WHIM_HAS_dotprod
static bool runs_dotprod(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}
#endif

#ifdef WHIM_HAS_i8mm
static bool runs_i8mm(void)
{
    return runs_dotprod() && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
}
#endif

#ifdef WHIM_HAS_bf16
static bool runs_bf16(void)
{
    return runs_i8mm() && (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
}
#endif

static const rung ladder[] = {
    {&whim_cpu_kernels_neon, runs_always},
#ifdef WHIM_HAS_dotprod
    {&whim_cpu_kernels_dotprod, runs_dotprod},
#endif
#ifdef WHIM_HAS_i8mm
    {&whim_cpu_kernels_i8mm, runs_i8mm},
#endif
#ifdef WHIM_HAS_bf16
    {&whim_cpu_kernels_bf16, runs_bf16},
#endif
};
#elif defined(__x86_64__)
extern const whim_cpu_kernels whim_cpu_kernels_sse2, whim_cpu_kernels_avx2, whim_cpu_kernels_avx512,
    whim_cpu_kernels_avx512vnni, whim_cpu_kernels_avx512bf16, whim_cpu_kernels_amx;

/* These look at the processor and at what the system saves of it. A build of the sanitizers leaves
 * avx512 out and holds what is above it. */

#ifdef WHIM_HAS_avx2
/* gcc 10 does not know f16c in __builtin_cpu_supports. */
static bool runs_avx2(void)
{
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

#if defined(WHIM_HAS_avx512) || defined(WHIM_HAS_avx512vnni)
static bool runs_avx512(void)
{
    return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif

#ifdef WHIM_HAS_avx512vnni
static bool runs_avx512vnni(void)
{
    return runs_avx512() && __builtin_cpu_supports("avx512vnni");
}
#endif

#ifdef WHIM_HAS_avx512bf16
static bool runs_avx512bf16(void)
{
    return runs_avx512vnni() && __builtin_cpu_supports("avx512bf16");
}
#endif

#ifdef WHIM_HAS_amx
/* Leave to use tile registers, for all threads of the process; asking again is harmless. */
static bool tiles_permitted(void)
{
    enum { REQ_XCOMP_PERM = 0x1023, XTILE_DATA = 18 }; /* of arch_prctl */
    return syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XTILE_DATA) == 0;
}

static bool runs_amx(void)
{
    return runs_avx512bf16() && __builtin_cpu_supports("amx-tile") &&
           __builtin_cpu_supports("amx-int8") && __builtin_cpu_supports("amx-bf16") &&
           tiles_permitted();
}
#endif

static const rung ladder[] = {
    {&whim_cpu_kernels_sse2, runs_always},
#ifdef WHIM_HAS_avx2
    {&whim_cpu_kernels_avx2, runs_avx2},
#endif
#ifdef WHIM_HAS_avx512
    {&whim_cpu_kernels_avx512, runs_avx512},
#endif
#ifdef WHIM_HAS_avx512vnni
    {&whim_cpu_kernels_avx512vnni, runs_avx512vnni},
#endif
#ifdef WHIM_HAS_avx512bf16
    {&whim_cpu_kernels_avx512bf16, runs_avx512bf16},
#endif
#ifdef WHIM_HAS_amx
    {&whim_cpu_kernels_amx, runs_amx},
#endif
};
#else
#error "whimbrel's CPU backend knows aarch64 and x86_64"
#endif

/* What the machine can run of what this build holds. */
static int32_t ladder_height(void)
{
    const int32_t built = (int32_t)(sizeof ladder / sizeof ladder[0]);
    int32_t n = 0;
    while (n < built && ladder[n].runs()) {
        n++;
    }
    return n;
}

const char *whim_cpu_levels_left_out(void)
{
    return WHIM_LEVELS_LEFT_OUT;
}

int32_t whim_cpu_levels(const char **names, int32_t max)
{
    int32_t n = ladder_height();
    for (int32_t i = 0; i < n && i < max; i++) {
        names[i] = ladder[i].kernels->level;
    }
    return n < max ? n : max;
}

const whim_cpu_kernels *whim_cpu_level_find(const char *name)
{
    int32_t n = ladder_height();
    if (name == NULL) {
        return ladder[n - 1].kernels;
    }
    for (int32_t i = 0; i < n; i++) {
        if (strcmp(ladder[i].kernels->level, name) == 0) {
            return ladder[i].kernels;
        }
    }
    return NULL;
}

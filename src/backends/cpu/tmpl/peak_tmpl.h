/* SPDX-License-Identifier: Apache-2.0 */
/* What a level's units can do at most: its fastest multiply-add for a kind of weights, on registers
 * only. `bench` measures it on all threads and calls a kernel's share of it its share of the peak.
 * Floats take the level's own vf_fma, int8 and BF16 what the compiler's flags allow (peak_units.h),
 * so that a new level has nothing to do. A level whose best unit for some types is of another form
 * defines PEAK_TILES and peak_tiles, which gives the multiply-adds that it has done, 0 for the
 * other types. */
#include "backends/cpu/tmpl/peak_units.h"
#include "tensor/dtype.h"

#include <string.h>

/* Without the pragmas the sums would live in memory. The operands are small numbers in every type
 * that a level may read them as, so that no sum overflows, and they differ: with zeros, or with one
 * register twice, a Neoverse V1 does half as many fmla and twice as many sdot as with real data. */
#define PEAK_LOOP(name, acc_type, op_type, step)                         \
    static void name(int64_t rounds)                                     \
    {                                                                    \
        acc_type acc[PEAK_SUMS];                                         \
        op_type a, b;                                                    \
        memset(&a, 0x3c, sizeof a);                                      \
        memset(&b, 0x3d, sizeof b);                                      \
        PEAK_OPAQUE(b);                                                  \
        _Pragma("GCC unroll 32") for (int i = 0; i < PEAK_SUMS; i++)     \
        {                                                                \
            acc[i] = (acc_type){0};                                      \
        }                                                                \
        for (int64_t r = 0; r < rounds; r++) {                           \
            _Pragma("GCC unroll 32") for (int i = 0; i < PEAK_SUMS; i++) \
            {                                                            \
                PEAK_OPAQUE(a);                                          \
                acc[i] = step(acc[i], a, b);                             \
            }                                                            \
        }                                                                \
        _Pragma("GCC unroll 32") for (int i = 0; i < PEAK_SUMS; i++)     \
        {                                                                \
            PEAK_OPAQUE(acc[i]);                                         \
        }                                                                \
    }

static inline vf peak_fma(vf acc, vf a, vf b)
{
    return vf_fma(a, b, acc);
}

PEAK_LOOP(peak_float, vf, vf, peak_fma)
PEAK_LOOP(peak_int, pi_acc, pi_op, pi_mac)
#ifdef PEAK_BF16
PEAK_LOOP(peak_bf16, ph_acc, ph_op, ph_mac)
#endif

static int64_t peak_macs(whim_dtype dtype, int64_t rounds)
{
#ifdef PEAK_TILES
    int64_t macs = peak_tiles(dtype, rounds);
    if (macs > 0) {
        return macs;
    }
#endif
    if (whim_dtype_get(dtype)->kind == WHIM_DTYPE_KIND_QUANT) {
        peak_int(rounds);
        return rounds * PEAK_SUMS * PI_MACS;
    }
#ifdef PEAK_BF16
    if (whim_cpu_wants_bf16(dtype)) {
        peak_bf16(rounds);
        return rounds * PEAK_SUMS * PH_MACS;
    }
#endif
    peak_float(rounds);
    return rounds * PEAK_SUMS * VF;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Products of int8 rows with tiles in PAIR order by smmla, which multiplies 2 rows x 8 k with 2 outputs x
 * 8 k: lanes are (row 0, output 0), (row 0, output 1), (row 1, output 0), (row 1, output 1). One row runs
 * on the same unit with zeros as the second row. Included after codes_tmpl.h; the sums over k follow
 * whim_group_dot_step. */
#ifndef WHIM_BACKENDS_CPU_I8MM_PAIR_I8MM_H
#define WHIM_BACKENDS_CPU_I8MM_PAIR_I8MM_H

#define PRODUCT_ORDER WHIM_CPU_ORDER_PAIR
#define PRODUCT_TAIL 2

/* Integer dots of one pair of outputs with one pair of rows, the halves of the group apart. */
typedef struct pair_dot {
    int32x4_t low, high;
} pair_dot;

ALWAYS_INLINE int32x4_t pair_mma(int32x4_t acc, int8x16_t a, vb w)
{
    return vmmlaq_s32(acc, a, vreinterpretq_s8_u8(w));
}

/* Sum over the group with integer sub-scales where the type has them; sc: per lane. */
ALWAYS_INLINE int32x4_t pair_total(const whim_cpu_form form, pair_dot dot, const int32x4_t *sc)
{
    if (form.subs == 2) {
        return vmlaq_s32(vmulq_s32(dot.low, sc[0]), dot.high, sc[1]);
    }
    int32x4_t total = vaddq_s32(dot.low, dot.high);
    return form.subs == 1 ? vmulq_s32(total, sc[0]) : total;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Few rows times a tile straight from its packed codes: up to eight rows by eight outputs at once,
 * so that codes and scales are taken apart once for all of the rows. In assembly for the reason
 * that rows4_i8mm.h gives.
 *
 * What binds these loops is the number of vector instructions, of whatever kind. So all that a load
 * can do is left to loads: rows are read again for every four outputs, and what a group needs of
 * its rows beside their int8 is laid out in lanes before the first tile (few_lanes).
 *
 * Registers: v0-v7 weights of two pairs of outputs; v8, v9 their d; v10, v11 their m; v12, v13
 * dots; v14, v15 rows, then scales of rows; v16-v31 sums, by four outputs, then pairs of rows, then
 * pairs of outputs, in the lanes that rows4_i8mm.h describes. Four rows need eight sums: there
 * v28, v29 are dots too, those of every other pair of rows, and v30, v31 have scales of rows. */
#ifndef WHIM_BACKENDS_CPU_I8MM_FEW_I8MM_H
#define WHIM_BACKENDS_CPU_I8MM_FEW_I8MM_H

#include "backends/cpu/i8mm/few_order_i8mm.h"

#define PRODUCT_FEW
#define FEW_AHEAD "16384" /* bytes that codes are asked for before they are needed */
enum {
    FEW_BLOCK = 8, /* rows, and outputs, of a loop */
    FEW_OUTPUTS = 8,
    FEW_MAX_ROWS = 24, /* from here on an opened tile pays */
};

#define FEW_LINE(at) "prfm pldl2keep, [%[w], #" #at "+" FEW_AHEAD "]\n\t"
#define FEW_NIBBLES_AHEAD FEW_LINE(0) FEW_LINE(64)
#define FEW_BYTES_AHEAD FEW_LINE(0) FEW_LINE(64) FEW_LINE(128) FEW_LINE(192)
/* Weights of four outputs (b: the first or second four). Low nibbles go to the top of their bytes,
 * which makes the dots of the first pair 16 times too large: scvtf takes that away exactly. */
#define FEW_NIBBLES(b)                                                        \
    "ldp q0, q1, [%[w], #64*" #b "]\n\tldp q2, q3, [%[w], #64*" #b "+32]\n\t" \
    "ushr v4.16b, v0.16b, #4\n\tshl v0.16b, v0.16b, #4\n\t"                   \
    "ushr v5.16b, v1.16b, #4\n\tshl v1.16b, v1.16b, #4\n\t"                   \
    "ushr v6.16b, v2.16b, #4\n\tshl v2.16b, v2.16b, #4\n\t"                   \
    "ushr v7.16b, v3.16b, #4\n\tshl v3.16b, v3.16b, #4\n\t"
#define FEW_BYTES(b)                                                            \
    "ldp q0, q1, [%[w], #128*" #b "]\n\tldp q2, q3, [%[w], #128*" #b "+32]\n\t" \
    "ldp q4, q5, [%[w], #128*" #b "+64]\n\tldp q6, q7, [%[w], #128*" #b "+96]\n\t"

/* Their scales, F16, as (d0, d0, d1, d1). */
#define FEW_D(b)                                           \
    "ldr d8, [%[sc], #8*" #b "]\n\tfcvtl v9.4s, v8.4h\n\t" \
    "zip1 v8.4s, v9.4s, v9.4s\n\tzip2 v9.4s, v9.4s, v9.4s\n\t"
#define FEW_D_M(b)                                               \
    FEW_D(b)                                                     \
    "ldr d10, [%[sc], #32+8*" #b "]\n\tfcvtl v11.4s, v10.4h\n\t" \
    "zip1 v10.4s, v11.4s, v11.4s\n\tzip2 v11.4s, v11.4s, v11.4s\n\t"

/* Dots of the pair of rows r with four outputs; the second four move the row's pointer on. */
#define FEW_AT_0 "]"
#define FEW_AT_32_0 ", #32]"
#define FEW_AT_1 "], #32"
#define FEW_AT_32_1 "], #32"
/* clang-format off */
#define FEW_HALF(mma, w0, w1, w2, w3)                                                   \
    #mma " v12.4s, v" #w0 ".16b, v14.16b\n\t" #mma " v13.4s, v" #w2 ".16b, v14.16b\n\t" \
    #mma " v12.4s, v" #w1 ".16b, v15.16b\n\t" #mma " v13.4s, v" #w3 ".16b, v15.16b\n\t"
#define FEW_DOTS(mma, r, b)                          \
    "ldp q14, q15, [%[q" #r "]" FEW_AT_##b "\n\t"    \
    FEW_HALF(mma, 0, 1, 4, 5)                        \
    "ldp q14, q15, [%[q" #r "]" FEW_AT_32_##b "\n\t" \
    FEW_HALF(mma, 2, 3, 6, 7)

/* acc += float(dot) * (d * s), s at `at` of the group's lanes. */
#define FEW_SCALE(at, c0, c1)                                      \
    "ldr q14, [%[lanes], #" at "]\n\t"                             \
    "fmul v15.4s, v8.4s, v14.4s\n\tfmul v14.4s, v9.4s, v14.4s\n\t" \
    "fmla v" #c0 ".4s, v12.4s, v15.4s\n\tfmla v" #c1 ".4s, v13.4s, v14.4s\n\t"

/* A pair of rows with four outputs: codes with a minimum, codes with an offset, values. */
#define FEW_PAIR_MIN(r, b, c0, c1)                                                  \
    "movi v12.2d, #0\n\tmovi v13.2d, #0\n\t"                                        \
    FEW_DOTS(usmmla, r, b)                                                          \
    "scvtf v12.4s, v12.4s, #4\n\tscvtf v13.4s, v13.4s\n\t"                          \
    FEW_SCALE("32*" #r, c0, c1)                                                     \
    "ldr q14, [%[lanes], #32*" #r "+16]\n\t"                                        \
    "fmla v" #c0 ".4s, v10.4s, v14.4s\n\tfmla v" #c1 ".4s, v11.4s, v14.4s\n\t"
#define FEW_PAIR_OFFSET(r, b, c0, c1)                                               \
    "ldr q12, [%[lanes], #48*" #r "+16]\n\tldr q13, [%[lanes], #48*" #r "+32]\n\t"  \
    FEW_DOTS(usmmla, r, b)                                                          \
    "scvtf v12.4s, v12.4s, #4\n\tscvtf v13.4s, v13.4s\n\t"                          \
    FEW_SCALE("48*" #r, c0, c1)
#define FEW_PAIR_VALUES(r, b, c0, c1)                                               \
    "movi v12.2d, #0\n\tmovi v13.2d, #0\n\t"                                        \
    FEW_DOTS(smmla, r, b)                                                           \
    "scvtf v12.4s, v12.4s\n\tscvtf v13.4s, v13.4s\n\t"                              \
    FEW_SCALE("16*" #r, c0, c1)
/* clang-format on */

/* X for the pairs of rows of a block, with the first and the second four outputs. */
#define FEW_1_0(X) X(0, 0, 16, 17)
#define FEW_2_0(X) FEW_1_0(X) X(1, 0, 18, 19)
#define FEW_3_0(X) FEW_2_0(X) X(2, 0, 20, 21)
#define FEW_4_0(X) FEW_3_0(X) X(3, 0, 22, 23)
#define FEW_1_1(X) X(0, 1, 24, 25)
#define FEW_2_1(X) FEW_1_1(X) X(1, 1, 26, 27)
#define FEW_3_1(X) FEW_2_1(X) X(2, 1, 28, 29)
#define FEW_4_1(X) FEW_3_1(X) X(3, 1, 30, 31)

/* Sums to out [rows][16]. */
#define FEW_STORE(r, b, c0, c1)                                                          \
    "uzp1 v12.4s, v" #c0 ".4s, v" #c1 ".4s\n\tuzp2 v13.4s, v" #c0 ".4s, v" #c1 ".4s\n\t" \
    "str q12, [%[out], #128*" #r "+16*" #b "]\n\tstr q13, [%[out], #128*" #r "+64+16*" #b "]\n\t"

/* sc: the first group's d; w: its codes; step: bytes from group to group; q: the first row's int8,
 * q_step: bytes from pair to pair of rows; lanes: what few_lanes made for these rows. */
typedef void few_kernel(const char *sc, const char *w, int64_t step, int64_t n_group,
                        const int8_t *q, int64_t q_step, const void *lanes, float *out);

/* HEAD: what comes before the first group; GROUP: a group; NEXT: the way to the next one. */
/* clang-format off */
#define DEFINE_FEW(name, pairs, LINES, HEAD, GROUP, NEXT, STORE, vectors)                          \
    static void name##_##pairs(const char *sc, const char *w, int64_t step, int64_t n_group,       \
                               const int8_t *q, int64_t q_step, const void *lanes, float *out)     \
    {                                                                                              \
        const int8_t *q1 = q + q_step, *q2 = q1 + q_step, *q3 = q2 + q_step;                       \
        int64_t n = n_group;                                                                       \
        asm volatile(                                                                              \
            "movi v16.2d, #0\n\tmovi v17.2d, #0\n\tmovi v18.2d, #0\n\tmovi v19.2d, #0\n\t"         \
            "movi v20.2d, #0\n\tmovi v21.2d, #0\n\tmovi v22.2d, #0\n\tmovi v23.2d, #0\n\t"         \
            "movi v24.2d, #0\n\tmovi v25.2d, #0\n\tmovi v26.2d, #0\n\tmovi v27.2d, #0\n\t"         \
            "movi v28.2d, #0\n\tmovi v29.2d, #0\n\tmovi v30.2d, #0\n\tmovi v31.2d, #0\n\t"         \
            HEAD                                                                                   \
            "1:\n\t"                                                                               \
            "prfm pldl2keep, [%[sc], #" FEW_AHEAD "]\n\t" LINES                                    \
            GROUP                                                                                  \
            "add %[lanes], %[lanes], #" #pairs "*" #vectors "*16\n\t" NEXT "b.ne 1b\n\t"           \
            STORE                                                                                  \
            : [w] "+r"(w), [sc] "+r"(sc), [n] "+r"(n), [q0] "+r"(q), [q1] "+r"(q1), [q2] "+r"(q2), \
              [q3] "+r"(q3), [lanes] "+r"(lanes), [step] "+r"(step)                                \
            : [out] "r"(out)                                                                       \
            : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10",   \
              "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22",  \
              "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");                      \
    }
/* clang-format on */

/* In plain order: all of four outputs, pair of rows by pair of rows. */
#define FEW_NEXT "add %[w], %[w], %[step]\n\tadd %[sc], %[sc], %[step]\n\tsubs %[n], %[n], #1\n\t"
#define DEFINE_FEW_PLAIN(name, pairs, CODES, SCALES, PAIR, vectors)                               \
    DEFINE_FEW(name, pairs, CODES##_AHEAD, "",                                                    \
               CODES(0) SCALES(0) FEW_##pairs##_0(PAIR) CODES(1) SCALES(1) FEW_##pairs##_1(PAIR), \
               FEW_NEXT, FEW_##pairs##_0(FEW_STORE) FEW_##pairs##_1(FEW_STORE), vectors)

/* In the order that was found. The last group is followed by itself: nothing is read behind it. */
#define FEW_AROUND "subs %[n], %[n], #1\n\tcsel %[step], %[step], xzr, ne\n\t"
#define DEFINE_FEW_ORDERED(name, pairs, START, S, T, MIN, vectors)        \
    DEFINE_FEW(name, pairs, FEW_NIBBLES_AHEAD FEW_AROUND, FEW_NIBBLES(0), \
               FEW_ORDER_##pairs(START, S, T, MIN), "", FEW_ORDERED_##pairs, vectors)
#define FEW_ORDERED_1 FEW_STORE(0, 0, 16, 17) FEW_STORE(0, 1, 18, 19)
#define FEW_ORDERED_2 \
    FEW_STORE(0, 0, 16, 17) FEW_STORE(1, 0, 18, 19) FEW_STORE(0, 1, 20, 21) FEW_STORE(1, 1, 22, 23)

/* With a minimum dots begin at 0, with an offset where the lanes say. */
#define FEW_MIN_START(v, r, i) "movi v" #v ".2d, #0\n\t"
#define FEW_MIN_S(r) "ldr q30, [%[lanes], #32*" #r "]\n\t"
#define FEW_MIN_T(r) "ldr q30, [%[lanes], #32*" #r "+16]\n\t"
#define FEW_MIN_M(x) x
#define FEW_OFFSET_START(v, r, i) "ldr q" #v ", [%[lanes], #48*" #r "+16+16*" #i "]\n\t"
#define FEW_OFFSET_S(r) "ldr q30, [%[lanes], #48*" #r "]\n\t"
#define FEW_OFFSET_T(r)
#define FEW_OFFSET_M(x)

#define DEFINE_FEW_LIST(name) \
    static few_kernel *const name[4] = {name##_1, name##_2, name##_3, name##_4};
DEFINE_FEW_ORDERED(few_min, 1, FEW_MIN_START, FEW_MIN_S, FEW_MIN_T, FEW_MIN_M, 2)
DEFINE_FEW_ORDERED(few_min, 2, FEW_MIN_START, FEW_MIN_S, FEW_MIN_T, FEW_MIN_M, 2)
DEFINE_FEW_PLAIN(few_min, 3, FEW_NIBBLES, FEW_D_M, FEW_PAIR_MIN, 2)
DEFINE_FEW_PLAIN(few_min, 4, FEW_NIBBLES, FEW_D_M, FEW_PAIR_MIN, 2)
DEFINE_FEW_LIST(few_min)
DEFINE_FEW_ORDERED(few_offset, 1, FEW_OFFSET_START, FEW_OFFSET_S, FEW_OFFSET_T, FEW_OFFSET_M, 3)
DEFINE_FEW_ORDERED(few_offset, 2, FEW_OFFSET_START, FEW_OFFSET_S, FEW_OFFSET_T, FEW_OFFSET_M, 3)
DEFINE_FEW_PLAIN(few_offset, 3, FEW_NIBBLES, FEW_D, FEW_PAIR_OFFSET, 3)
DEFINE_FEW_PLAIN(few_offset, 4, FEW_NIBBLES, FEW_D, FEW_PAIR_OFFSET, 3)
DEFINE_FEW_LIST(few_offset)
DEFINE_FEW_PLAIN(few_values, 1, FEW_BYTES, FEW_D, FEW_PAIR_VALUES, 1)
DEFINE_FEW_PLAIN(few_values, 2, FEW_BYTES, FEW_D, FEW_PAIR_VALUES, 1)
DEFINE_FEW_PLAIN(few_values, 3, FEW_BYTES, FEW_D, FEW_PAIR_VALUES, 1)
DEFINE_FEW_PLAIN(few_values, 4, FEW_BYTES, FEW_D, FEW_PAIR_VALUES, 1)
DEFINE_FEW_LIST(few_values)

/* Types that the loops above know: Q4_0, Q4_1 and Q8_0. */
ALWAYS_INLINE bool few_has(const whim_cpu_form form)
{
    bool nibbles = form.bits == 4 && form.table == WHIM_TABLE_NONE && form.subs == 0;
    return nibbles || (form.bits == 8 && form.d == WHIM_DTYPE_F16);
}

/* Vectors of lanes for a pair of rows and a group: s; then t, or what the dots of the first and the
 * second pair of outputs start at. */
ALWAYS_INLINE int few_vectors(const whim_cpu_form form)
{
    return form.has_min ? 2 : form.bits < 8 ? 3 : 1;
}

/* Whether few_product takes so many rows, given `room` bytes for few_lanes. */
ALWAYS_INLINE bool few_takes(const whim_cpu_form form, int64_t rows, int64_t k, int64_t room)
{
    int64_t lanes = (rows + 1) / 2 * (k / WHIM_GROUP) * few_vectors(form) * 16;
    return few_has(form) && k > 0 && rows <= FEW_MAX_ROWS && lanes <= room;
}

/* Lay out in lanes what the loops need of the rows, [block of 8 rows][group][pair of
 * rows][vector]. */
static void few_lanes(const whim_cpu_form *form, int64_t rows, int64_t k,
                      const whim_cpu_act_meta *meta, float *out)
{
    int64_t n_group = k / WHIM_GROUP, n_pair = (rows + 1) / 2;
    for (int64_t first = 0; first < n_pair; first += FEW_BLOCK / 2) {
        int64_t last = n_pair - first < FEW_BLOCK / 2 ? n_pair : first + FEW_BLOCK / 2;
        for (int64_t g = 0; g < n_group; g++) {
            for (int64_t pair = first; pair < last; pair++) {
                const float *of_pair = (const float *)(meta + (pair * n_group + g) * 2);
                vf row0 = vld1q_f32(of_pair), row1 = vld1q_f32(of_pair + 4);
                vf st = vzip1q_f32(row0, row1);
                int32x4_t halves = vreinterpretq_s32_f32(vzip2q_f32(row0, row1));
                int32x4_t sum = vaddq_s32(halves, vextq_s32(halves, halves, 2));
                vst1q_f32(out, pair_twice(st, 0));
                if (form->has_min) {
                    vst1q_f32(out + 4, pair_twice(st, 1));
                } else if (form->offset > 0) {
                    vst1q_s32((int32_t *)out + 4, vmulq_n_s32(sum, -16 * form->offset));
                    vst1q_s32((int32_t *)out + 8, vmulq_n_s32(sum, -form->offset));
                }
                out += few_vectors(*form) * 4;
            }
        }
    }
}

/* The rows of one tile; `lanes` as few_lanes made them. */
ALWAYS_INLINE void few_product(const whim_cpu_form form, const char *tile, int64_t rows, int64_t k,
                               const int8_t *q, const float *lanes, float *out)
{
    few_kernel *const *kernels = form.bits == 8 ? few_values : form.has_min ? few_min : few_offset;
    int64_t n_group = k / WHIM_GROUP, n_pair = (rows + 1) / 2, pairs;
    for (int64_t pair = 0; pair < n_pair; pair += pairs) {
        pairs = n_pair - pair < FEW_BLOCK / 2 ? n_pair - pair : FEW_BLOCK / 2;
        for (int half = 0; half < 2; half++) {
            kernels[pairs - 1](tile + half * FEW_OUTPUTS * 2,
                               tile + WHIM_CPU_SCALE_BYTES(form) +
                                   half * WHIM_CPU_CODE_BYTES(form.bits) / 2,
                               whim_cpu_span_bytes(&form), n_group, q + pair * 2 * k, 2 * k,
                               lanes + pair * n_group * few_vectors(form) * 4,
                               out + pair * 2 * WHIM_CPU_TILE + half * FEW_OUTPUTS);
        }
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Four rows times one tile: the loops that prompts and batches spend their time in. In
 * assembly, because they take all 32 registers and the compiler, given the same loop in C, moves
 * sums to the stack and back.
 *
 * Registers: v0-v3 and v4-v7 one group of the first and of the second pair of rows; v8, v9 their s
 * and v10, v11 their t in the lanes (row 0, row 1, row 0, row 1); v12, v13
 * weights, then scales; v14, v15 integer dots; v16-v31 sums, even ones of the first pair of rows,
 * odd ones of the second, a pair of outputs after the other, in the lanes (output 0 row 0, output 0
 * row 1, output 1 row 0, output 1 row 1). Scales come in pairs too: (d0, d0, d1, d1). */
#ifndef WHIM_BACKENDS_CPU_I8MM_ROWS4_I8MM_H
#define WHIM_BACKENDS_CPU_I8MM_ROWS4_I8MM_H

/* Half a group for four rows. */
#define ROWS4_DOT(a0, a1, b0, b1)                                                    \
    "smmla v14.4s, v12.16b, v" #a0 ".16b\n\tsmmla v15.4s, v12.16b, v" #b0 ".16b\n\t" \
    "smmla v14.4s, v13.16b, v" #a1 ".16b\n\tsmmla v15.4s, v13.16b, v" #b1 ".16b\n\t"

/* acc += float(dot) * (d * s) */
#define ROWS4_SCALE(c0, c1)                                  \
    "ldr q12, [%[d]], #16\n\t"                               \
    "scvtf v14.4s, v14.4s\n\tfmul v13.4s, v12.4s, v8.4s\n\t" \
    "scvtf v15.4s, v15.4s\n\tfmul v12.4s, v12.4s, v9.4s\n\t" \
    "fmla v" #c0 ".4s, v14.4s, v13.4s\n\tfmla v" #c1 ".4s, v15.4s, v12.4s\n\t"

/* The same with one integer sub-scale: float(dot) * sc is exact, and added to 0 so that it is never
 * -0. */
#define ROWS4_SCALE_SUB(c0, c1)                                                  \
    "ldr q12, [%[sc]], #16\n\t"                                                  \
    "scvtf v14.4s, v14.4s\n\tmovi v13.2d, #0\n\tfmla v13.4s, v14.4s, v12.4s\n\t" \
    "scvtf v15.4s, v15.4s\n\tmovi v14.2d, #0\n\tfmla v14.4s, v15.4s, v12.4s\n\t" \
    "ldr q12, [%[d]], #16\n\t"                                                   \
    "fmul v15.4s, v12.4s, v8.4s\n\tfmla v" #c0 ".4s, v13.4s, v15.4s\n\t"         \
    "fmul v15.4s, v12.4s, v9.4s\n\tfmla v" #c1 ".4s, v14.4s, v15.4s\n\t"

/* acc += m * (s * (mn * sum)); v10, v11: float(sum) */
#define ROWS4_MIN_SUB(c0, c1)                                         \
    "ldr q12, [%[mn]], #16\n\tmovi v13.2d, #0\n\tmovi v14.2d, #0\n\t" \
    "fmla v13.4s, v12.4s, v10.4s\n\tfmla v14.4s, v12.4s, v11.4s\n\t"  \
    "ldr q12, [%[m]], #16\n\t"                                        \
    "fmul v13.4s, v13.4s, v8.4s\n\tfmul v14.4s, v14.4s, v9.4s\n\t"    \
    "fmla v" #c0 ".4s, v12.4s, v13.4s\n\tfmla v" #c1 ".4s, v12.4s, v14.4s\n\t"

/* acc += m * t */
#define ROWS4_MIN(c0, c1)      \
    "ldr q12, [%[m]], #16\n\t" \
    "fmla v" #c0 ".4s, v12.4s, v10.4s\n\tfmla v" #c1 ".4s, v12.4s, v11.4s\n\t"
#define ROWS4_NO_MIN(c0, c1)

/* A pair of outputs from opened values. */
#define OPEN_PAIR(c0, c1, MIN)                                                                \
    "movi v14.2d, #0\n\tmovi v15.2d, #0\n\t"                                                  \
    "ldp q12, q13, [%[w]], #32\n\t" ROWS4_DOT(                                                \
        0, 1, 4, 5) "ldp q12, q13, [%[w]], #32\n\t" ROWS4_DOT(2, 3, 6, 7) ROWS4_SCALE(c0, c1) \
        MIN(c0, c1)
#define OPEN_GROUP(MIN)    \
    OPEN_PAIR(16, 17, MIN) \
    OPEN_PAIR(18, 19, MIN) \
    OPEN_PAIR(20, 21, MIN) \
    OPEN_PAIR(22, 23, MIN) \
    OPEN_PAIR(24, 25, MIN) OPEN_PAIR(26, 27, MIN) OPEN_PAIR(28, 29, MIN) OPEN_PAIR(30, 31, MIN)

/* The same with one sub-scale for the group. */
#define SUB_PAIR(c0, c1, MIN)                                                                     \
    "movi v14.2d, #0\n\tmovi v15.2d, #0\n\t"                                                      \
    "ldp q12, q13, [%[w]], #32\n\t" ROWS4_DOT(                                                    \
        0, 1, 4, 5) "ldp q12, q13, [%[w]], #32\n\t" ROWS4_DOT(2, 3, 6, 7) ROWS4_SCALE_SUB(c0, c1) \
        MIN(c0, c1)
#define SUB_GROUP(MIN)    \
    SUB_PAIR(16, 17, MIN) \
    SUB_PAIR(18, 19, MIN) \
    SUB_PAIR(20, 21, MIN) \
    SUB_PAIR(22, 23, MIN) \
    SUB_PAIR(24, 25, MIN) SUB_PAIR(26, 27, MIN) SUB_PAIR(28, 29, MIN) SUB_PAIR(30, 31, MIN)

/* The same with one for each half: v10, v11 take the first half's share. The second half's
 * sub-scales lie OPEN_SCALES floats after the first's. */
#define HALVES_PAIR(c0, c1, MIN)                                                                \
    "movi v14.2d, #0\n\tmovi v15.2d, #0\n\tmovi v10.2d, #0\n\tmovi v11.2d, #0\n\t"              \
    "ldp q12, q13, [%[w]], #32\n\t" ROWS4_DOT(                                                  \
        0, 1, 4,                                                                                \
        5) "ldr q12, [%[sc]], #16\n\tscvtf v14.4s, v14.4s\n\tscvtf v15.4s, v15.4s\n\t"          \
           "fmla v10.4s, v14.4s, v12.4s\n\tfmla v11.4s, v15.4s, v12.4s\n\t"                     \
           "movi v14.2d, #0\n\tmovi v15.2d, #0\n\t"                                             \
           "ldp q12, q13, [%[w]], #32\n\t" ROWS4_DOT(                                           \
               2, 3, 6,                                                                         \
               7) "ldr q12, [%[sc], #112]\n\tscvtf v14.4s, v14.4s\n\tscvtf v15.4s, v15.4s\n\t"  \
                  "fmla v10.4s, v14.4s, v12.4s\n\tfmla v11.4s, v15.4s, v12.4s\n\t"              \
                  "ldr q12, [%[d]], #16\n\tfmul v13.4s, v12.4s, v8.4s\n\tfmul v12.4s, v12.4s, " \
                  "v9.4s\n\t"                                                                   \
                  "fmla v" #c0 ".4s, v10.4s, v13.4s\n\tfmla v" #c1 ".4s, v11.4s, v12.4s\n\t"
#define HALVES_GROUP(MIN)    \
    HALVES_PAIR(16, 17, MIN) \
    HALVES_PAIR(18, 19, MIN) \
    HALVES_PAIR(20, 21, MIN) \
    HALVES_PAIR(22, 23, MIN) \
    HALVES_PAIR(24, 25, MIN) \
    HALVES_PAIR(26, 27, MIN) \
    HALVES_PAIR(28, 29, MIN) HALVES_PAIR(30, 31, MIN) "add %[sc], %[sc], #128\n\t"

/* (s, t, half, half) of four rows of a group, spread over the lanes. */
#define META_PLAIN                                                 \
    "zip1 v12.4s, v8.4s, v9.4s\n\tzip1 v13.4s, v10.4s, v11.4s\n\t" \
    "dup v8.2d, v12.d[0]\n\tdup v9.2d, v13.d[0]\n\t"               \
    "dup v10.2d, v12.d[1]\n\tdup v11.2d, v13.d[1]\n\t"
/* The same with the sum of both halves, as a float, instead of t. */
#define META_SUM                                                               \
    "zip2 v14.4s, v8.4s, v9.4s\n\tzip2 v15.4s, v10.4s, v11.4s\n\t"             \
    "zip1 v12.4s, v8.4s, v9.4s\n\tzip1 v13.4s, v10.4s, v11.4s\n\t"             \
    "ext v8.16b, v14.16b, v14.16b, #8\n\text v9.16b, v15.16b, v15.16b, #8\n\t" \
    "add v10.4s, v14.4s, v8.4s\n\tadd v11.4s, v15.4s, v9.4s\n\t"               \
    "scvtf v10.4s, v10.4s\n\tscvtf v11.4s, v11.4s\n\t"                         \
    "dup v8.2d, v12.d[0]\n\tdup v9.2d, v13.d[0]\n\t"

/* Sums of two pairs of outputs to and from out [4][16]. */
#define ROWS4_LOAD(c0, c1, c2, c3, at)                                         \
    "ldr q12, [%[out], #" #at "]\n\tldr q13, [%[out], #64+" #at "]\n\t"        \
    "ldr q14, [%[out], #128+" #at "]\n\tldr q15, [%[out], #192+" #at "]\n\t"   \
    "zip1 v" #c0 ".4s, v12.4s, v13.4s\n\tzip2 v" #c2 ".4s, v12.4s, v13.4s\n\t" \
    "zip1 v" #c1 ".4s, v14.4s, v15.4s\n\tzip2 v" #c3 ".4s, v14.4s, v15.4s\n\t"
#define ROWS4_STORE(c0, c1, c2, c3, at)                                                  \
    "uzp1 v12.4s, v" #c0 ".4s, v" #c2 ".4s\n\tuzp2 v13.4s, v" #c0 ".4s, v" #c2 ".4s\n\t" \
    "uzp1 v14.4s, v" #c1 ".4s, v" #c3 ".4s\n\tuzp2 v15.4s, v" #c1 ".4s, v" #c3 ".4s\n\t" \
    "str q12, [%[out], #" #at "]\n\tstr q13, [%[out], #64+" #at "]\n\t"                  \
    "str q14, [%[out], #128+" #at "]\n\tstr q15, [%[out], #192+" #at "]\n\t"
#define ROWS4_ALL(X) \
    X(16, 17, 18, 19, 0) X(20, 21, 22, 23, 16) X(24, 25, 26, 27, 32) X(28, 29, 30, 31, 48)

/* w: the first group's weights; skip: bytes from a group's end to the next one. */
typedef void rows4_kernel(const open_tile *tile, const void *w, int64_t skip, int64_t n_group,
                          const int8_t *q, const whim_cpu_act_meta *meta, int64_t k, float *out);

/* clang-format off */
#define DEFINE_ROWS4(name, META, GROUP, MIN)                                                       \
    static void name(const open_tile *tile, const void *w, int64_t skip, int64_t n_group,          \
                     const int8_t *q, const whim_cpu_act_meta *meta, int64_t k, float *out)        \
    {                                                                                              \
        const int8_t *q1 = q + 2 * k;                                                              \
        const float *d = tile->d, *m = tile->m, *sc = tile->sc, *mn = tile->mn;                    \
        const whim_cpu_act_meta *meta1 = meta + 2 * (k / WHIM_GROUP);                              \
        int64_t n = n_group;                                                                       \
        asm volatile(                                                                              \
            ROWS4_ALL(ROWS4_LOAD)                                                                  \
            "1:\n\t"                                                                               \
            "ldp q8, q9, [%[m0]], #32\n\tldp q10, q11, [%[m1]], #32\n\t"                           \
            "ldp q0, q1, [%[q0]], #32\n\tldp q4, q5, [%[q1]], #32\n\t"                             \
            "ldp q2, q3, [%[q0]], #32\n\tldp q6, q7, [%[q1]], #32\n\t"                             \
            META                                                                                   \
            GROUP(MIN)                                                                             \
            "add %[w], %[w], %[skip]\n\tsubs %[n], %[n], #1\n\tb.ne 1b\n\t"                        \
            ROWS4_ALL(ROWS4_STORE)                                                                 \
            : [w] "+r"(w), [d] "+r"(d), [m] "+r"(m), [n] "+r"(n), [q0] "+r"(q), [q1] "+r"(q1),     \
              [m0] "+r"(meta), [m1] "+r"(meta1), [sc] "+r"(sc), [mn] "+r"(mn)                      \
            : [out] "r"(out), [skip] "r"(skip)                                                     \
            : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10",   \
              "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22",  \
              "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");                      \
    }
/* clang-format on */
DEFINE_ROWS4(rows4_plain, META_PLAIN, OPEN_GROUP, ROWS4_NO_MIN)
DEFINE_ROWS4(rows4_min, META_PLAIN, OPEN_GROUP, ROWS4_MIN)
DEFINE_ROWS4(rows4_sub, META_PLAIN, SUB_GROUP, ROWS4_NO_MIN)
DEFINE_ROWS4(rows4_sub_min, META_SUM, SUB_GROUP, ROWS4_MIN_SUB)
DEFINE_ROWS4(rows4_halves, META_PLAIN, HALVES_GROUP, ROWS4_NO_MIN)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Four rows times one opened tile without sub-scales: the loop that prompts and batches spend their time in.
 * In assembly, because its 32 registers are all taken and the compiler, given the same loop in C, moves sums
 * to the stack and back (84 instead of 112 GMAC/s a core with Q4_0 at k = 576, 61 instead of 97 with Q4_1).
 *
 * Registers: v0-v3 and v4-v7 one group of the first and second pair of rows; v8, v9 their s, v10, v11 their t,
 * in the lanes (row 0, row 0, row 1, row 1); v12, v13 weights, then scales; v14, v15 integer dots;
 * v16-v31 sums: even ones the first pair of rows, odd ones the second, by pairs of outputs. */
#ifndef WHIM_BACKENDS_CPU_I8MM_ROWS4_I8MM_H
#define WHIM_BACKENDS_CPU_I8MM_ROWS4_I8MM_H

/* Outputs 2p, 2p+1: two dots of 32 for four rows, acc += float(dot) * (d * s), then MIN. */
#define ROWS4_PAIR(c0, c1, MIN)                                      \
    "ldp q12, q13, [%[w]], #32\n\t"                                  \
    "movi v14.2d, #0\n\t"                                            \
    "movi v15.2d, #0\n\t"                                            \
    "smmla v14.4s, v0.16b, v12.16b\n\tsmmla v15.4s, v4.16b, v12.16b\n\t" \
    "smmla v14.4s, v1.16b, v13.16b\n\tsmmla v15.4s, v5.16b, v13.16b\n\t" \
    "ldp q12, q13, [%[w]], #32\n\t"                                  \
    "smmla v14.4s, v2.16b, v12.16b\n\tsmmla v15.4s, v6.16b, v12.16b\n\t" \
    "smmla v14.4s, v3.16b, v13.16b\n\tsmmla v15.4s, v7.16b, v13.16b\n\t" \
    "ldr q12, [%[d]], #16\n\t"                                       \
    "scvtf v14.4s, v14.4s\n\tfmul v13.4s, v12.4s, v8.4s\n\t"         \
    "scvtf v15.4s, v15.4s\n\tfmul v12.4s, v12.4s, v9.4s\n\t"         \
    "fmla v" #c0 ".4s, v14.4s, v13.4s\n\tfmla v" #c1 ".4s, v15.4s, v12.4s\n\t" MIN(c0, c1)

#define ROWS4_NO_MIN(c0, c1)
/* acc += m * t */
#define ROWS4_MIN(c0, c1)      \
    "ldr q12, [%[m]], #16\n\t" \
    "fmla v" #c0 ".4s, v12.4s, v10.4s\n\tfmla v" #c1 ".4s, v12.4s, v11.4s\n\t"

/* Sums to and from out [4][16]: a pair of outputs of one row is 8 bytes. */
#define ROWS4_LOAD(c0, c1, at)                                                \
    "ldr d" #c0 ", [%[out], #" #at "]\n\tldr d" #c1 ", [%[out], #128+" #at "]\n\t" \
    "add x9, %[out], #64+" #at "\n\tld1 {v" #c0 ".d}[1], [x9]\n\t"            \
    "add x9, %[out], #192+" #at "\n\tld1 {v" #c1 ".d}[1], [x9]\n\t"
#define ROWS4_STORE(c0, c1, at)                                               \
    "str d" #c0 ", [%[out], #" #at "]\n\tstr d" #c1 ", [%[out], #128+" #at "]\n\t" \
    "add x9, %[out], #64+" #at "\n\tst1 {v" #c0 ".d}[1], [x9]\n\t"            \
    "add x9, %[out], #192+" #at "\n\tst1 {v" #c1 ".d}[1], [x9]\n\t"
#define ROWS4_ALL(X)                                                          \
    X(16, 17, 0) X(18, 19, 8) X(20, 21, 16) X(22, 23, 24) X(24, 25, 32) X(26, 27, 40) \
    X(28, 29, 48) X(30, 31, 56)

/* A group's rows, and (s, t, ..) of four rows spread over the lanes. */
#define ROWS4_ACTIVATIONS                                                     \
    "ldp q8, q9, [%[m0]], #32\n\tldp q10, q11, [%[m1]], #32\n\t"              \
    "ldp q0, q1, [%[q0]], #32\n\tldp q4, q5, [%[q1]], #32\n\t"                \
    "ldp q2, q3, [%[q0]], #32\n\tldp q6, q7, [%[q1]], #32\n\t"                \
    "zip1 v12.4s, v8.4s, v9.4s\n\tzip1 v13.4s, v10.4s, v11.4s\n\t"            \
    "zip1 v8.4s, v12.4s, v12.4s\n\tzip1 v9.4s, v13.4s, v13.4s\n\t"            \
    "zip2 v10.4s, v12.4s, v12.4s\n\tzip2 v11.4s, v13.4s, v13.4s\n\t"

#define DEFINE_ROWS4(name, MIN)                                                                \
    static void name(const open_tile *tile, int64_t n_group, const int8_t *q,                  \
                     const whim_cpu_act_meta *meta, int64_t k, float *out)                     \
    {                                                                                          \
        const int8_t *w = tile->values, *q1 = q + 2 * k;                                       \
        const float *d = tile->d, *m = tile->m;                                                \
        const whim_cpu_act_meta *meta1 = meta + 2 * (k / WHIM_GROUP);                          \
        int64_t n = n_group;                                                                   \
        asm volatile(                                                                          \
            ROWS4_ALL(ROWS4_LOAD) "1:\n\t" ROWS4_ACTIVATIONS ROWS4_PAIR(16, 17, MIN)           \
                ROWS4_PAIR(18, 19, MIN) ROWS4_PAIR(20, 21, MIN) ROWS4_PAIR(22, 23, MIN)        \
                    ROWS4_PAIR(24, 25, MIN) ROWS4_PAIR(26, 27, MIN) ROWS4_PAIR(28, 29, MIN)    \
                        ROWS4_PAIR(30, 31, MIN) "subs %[n], %[n], #1\n\t"                      \
                                                "b.ne 1b\n\t" ROWS4_ALL(ROWS4_STORE)           \
            : [w] "+r"(w), [d] "+r"(d), [m] "+r"(m), [n] "+r"(n), [q0] "+r"(q), [q1] "+r"(q1), \
              [m0] "+r"(meta), [m1] "+r"(meta1)                                                \
            : [out] "r"(out)                                                                   \
            : "memory", "cc", "x9", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8",      \
              "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19",      \
              "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30",     \
              "v31");                                                                          \
    }
DEFINE_ROWS4(rows4_plain, ROWS4_NO_MIN)
DEFINE_ROWS4(rows4_min, ROWS4_MIN)

#endif

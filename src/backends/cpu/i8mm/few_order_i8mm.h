/* SPDX-License-Identifier: Apache-2.0 */
/* One group of two and of four rows by eight outputs of types with nibbles; few_i8mm.h has
 * the registers. The order is what makes these lists: it was found by a search that moved single
 * instructions and timed the loop on a Neoverse V1, from one in which the dots of a pair of rows
 * stand between the floats of the pair before. It saves 13% and 10% of the time of the plain order
 * (few_i8mm.h has that for more rows) with weights in the cache, about 8% and 6% with weights that
 * come from memory; on others it is an order like any. The weights of the first four outputs are
 * there when a group begins, and those of the next group when it ends.
 *   START(v, r, i)  dots v of the pair of rows r with pair i of the outputs begin
 *   S(r), T(r)      scales of the rows to v30; those of the minimum
 *   MIN(...)        what only types with a minimum need */
#ifndef WHIM_BACKENDS_CPU_I8MM_FEW_ORDER_I8MM_H
#define WHIM_BACKENDS_CPU_I8MM_FEW_ORDER_I8MM_H

/* clang-format off */
#define FEW_ORDER_1(START, S, T, MIN)                                                             \
    "ldr d8, [%[sc], #0]\n\tfcvtl v9.4s, v8.4h\n\t" START(12, 0, 0) START(13, 0, 1)               \
    "ldp q14, q15, [%[q0]]\n\tusmmla v12.4s, v0.16b, v14.16b\n\t"                                 \
    "usmmla v12.4s, v1.16b, v15.16b\n\tusmmla v13.4s, v4.16b, v14.16b\n\t"                        \
    "usmmla v13.4s, v5.16b, v15.16b\n\tzip1 v8.4s, v9.4s, v9.4s\n\tzip2 v9.4s, v9.4s, v9.4s\n\t"  \
    MIN("ldr d10, [%[sc], #32]\n\t") "ldp q14, q15, [%[q0], #32]\n\t"                             \
    "usmmla v12.4s, v2.16b, v14.16b\n\t" MIN("fcvtl v11.4s, v10.4h\n\t")                          \
    MIN("zip1 v10.4s, v11.4s, v11.4s\n\t") "usmmla v12.4s, v3.16b, v15.16b\n\t"                   \
    MIN("zip2 v11.4s, v11.4s, v11.4s\n\t") "ldp q0, q1, [%[w], #64]\n\t"                          \
    "ldp q2, q3, [%[w], #96]\n\tushr v4.16b, v0.16b, #4\n\tusmmla v13.4s, v6.16b, v14.16b\n\t"    \
    "shl v0.16b, v0.16b, #4\n\tushr v5.16b, v1.16b, #4\n\tshl v1.16b, v1.16b, #4\n\t"             \
    "usmmla v13.4s, v7.16b, v15.16b\n\tushr v6.16b, v2.16b, #4\n\t"                               \
    "ldp q14, q15, [%[q0]], #32\n\tshl v2.16b, v2.16b, #4\n\tushr v7.16b, v3.16b, #4\n\t"         \
    "shl v3.16b, v3.16b, #4\n\tscvtf v13.4s, v13.4s\n\t" START(28, 0, 0) S(0) START(29, 0, 1)     \
    "scvtf v12.4s, v12.4s, #4\n\tfmul v31.4s, v8.4s, v30.4s\n\tfmla v16.4s, v12.4s, v31.4s\n\t"   \
    "usmmla v28.4s, v0.16b, v14.16b\n\tusmmla v29.4s, v4.16b, v14.16b\n\t"                        \
    "fmul v30.4s, v9.4s, v30.4s\n\tfmla v17.4s, v13.4s, v30.4s\n\t" T(0)                          \
    "usmmla v28.4s, v1.16b, v15.16b\n\t" MIN("fmla v16.4s, v10.4s, v30.4s\n\t")                   \
    "ldr d8, [%[sc], #8]\n\tusmmla v29.4s, v5.16b, v15.16b\n\tldp q14, q15, [%[q0]], #32\n\t"     \
    "usmmla v28.4s, v2.16b, v14.16b\n\tfcvtl v9.4s, v8.4h\n\tzip1 v8.4s, v9.4s, v9.4s\n\t"        \
    "zip2 v9.4s, v9.4s, v9.4s\n\t" MIN("fmla v17.4s, v11.4s, v30.4s\n\t")                         \
    "usmmla v29.4s, v6.16b, v14.16b\n\tusmmla v28.4s, v3.16b, v15.16b\n\t"                        \
    "add %[w], %[w], %[step]\n\t" MIN("ldr d10, [%[sc], #40]\n\t")                                \
    MIN("fcvtl v11.4s, v10.4h\n\t") MIN("zip1 v10.4s, v11.4s, v11.4s\n\t")                        \
    "ldp q0, q1, [%[w], #0]\n\tusmmla v29.4s, v7.16b, v15.16b\n\t"                                \
    MIN("zip2 v11.4s, v11.4s, v11.4s\n\t") "scvtf v28.4s, v28.4s, #4\n\t" S(0)                    \
    "ushr v4.16b, v0.16b, #4\n\tshl v0.16b, v0.16b, #4\n\tscvtf v29.4s, v29.4s\n\t"               \
    "ldp q2, q3, [%[w], #32]\n\tushr v5.16b, v1.16b, #4\n\tshl v1.16b, v1.16b, #4\n\t"            \
    "fmul v31.4s, v8.4s, v30.4s\n\tfmul v30.4s, v9.4s, v30.4s\n\t"                                \
    "fmla v18.4s, v28.4s, v31.4s\n\tadd %[sc], %[sc], %[step]\n\tushr v6.16b, v2.16b, #4\n\t"     \
    "fmla v19.4s, v29.4s, v30.4s\n\t" T(0) "shl v2.16b, v2.16b, #4\n\t"                           \
    MIN("fmla v18.4s, v10.4s, v30.4s\n\t") MIN("fmla v19.4s, v11.4s, v30.4s\n\t")                 \
    "ushr v7.16b, v3.16b, #4\n\tshl v3.16b, v3.16b, #4\n\t"

#define FEW_ORDER_2(START, S, T, MIN)                                                             \
    "ldr d8, [%[sc], #0]\n\t" START(13, 0, 1) "fcvtl v9.4s, v8.4h\n\t"                            \
    "zip1 v8.4s, v9.4s, v9.4s\n\tzip2 v9.4s, v9.4s, v9.4s\n\tldp q14, q15, [%[q0]]\n\t"           \
    START(12, 0, 0) "usmmla v12.4s, v0.16b, v14.16b\n\tusmmla v12.4s, v1.16b, v15.16b\n\t"        \
    "usmmla v13.4s, v4.16b, v14.16b\n\tusmmla v13.4s, v5.16b, v15.16b\n\t"                        \
    MIN("ldr d10, [%[sc], #32]\n\t") MIN("fcvtl v11.4s, v10.4h\n\t")                              \
    "ldp q14, q15, [%[q0], #32]\n\tusmmla v12.4s, v2.16b, v14.16b\n\t"                            \
    "usmmla v12.4s, v3.16b, v15.16b\n\tusmmla v13.4s, v6.16b, v14.16b\n\t"                        \
    MIN("zip1 v10.4s, v11.4s, v11.4s\n\t") MIN("zip2 v11.4s, v11.4s, v11.4s\n\t")                 \
    "usmmla v13.4s, v7.16b, v15.16b\n\tldp q14, q15, [%[q1]]\n\tscvtf v12.4s, v12.4s, #4\n\t"     \
    "scvtf v13.4s, v13.4s\n\t" START(29, 1, 1) S(0) START(28, 1, 0)                               \
    "usmmla v29.4s, v4.16b, v14.16b\n\tusmmla v28.4s, v0.16b, v14.16b\n\t"                        \
    "fmul v31.4s, v8.4s, v30.4s\n\tusmmla v29.4s, v5.16b, v15.16b\n\t"                            \
    "usmmla v28.4s, v1.16b, v15.16b\n\tfmul v30.4s, v9.4s, v30.4s\n\t"                            \
    "fmla v16.4s, v12.4s, v31.4s\n\tldp q14, q15, [%[q1], #32]\n\t"                               \
    "usmmla v28.4s, v2.16b, v14.16b\n\tldp q0, q1, [%[w], #64]\n\t"                               \
    "fmla v17.4s, v13.4s, v30.4s\n\t" T(0) "usmmla v29.4s, v6.16b, v14.16b\n\t"                   \
    MIN("fmla v16.4s, v10.4s, v30.4s\n\t") "usmmla v29.4s, v7.16b, v15.16b\n\t"                   \
    "usmmla v28.4s, v3.16b, v15.16b\n\tldp q2, q3, [%[w], #96]\n\tushr v4.16b, v0.16b, #4\n\t"    \
    "shl v0.16b, v0.16b, #4\n\tushr v5.16b, v1.16b, #4\n\tshl v1.16b, v1.16b, #4\n\t"             \
    "ushr v6.16b, v2.16b, #4\n\tshl v2.16b, v2.16b, #4\n\tldp q14, q15, [%[q0]], #32\n\t"         \
    MIN("fmla v17.4s, v11.4s, v30.4s\n\t") S(1) "ushr v7.16b, v3.16b, #4\n\t"                     \
    "scvtf v28.4s, v28.4s, #4\n\tfmul v31.4s, v8.4s, v30.4s\n\tldr d8, [%[sc], #8]\n\t"           \
    "shl v3.16b, v3.16b, #4\n\t" START(13, 0, 1) START(12, 0, 0) "scvtf v29.4s, v29.4s\n\t"       \
    "usmmla v13.4s, v4.16b, v14.16b\n\tfmul v30.4s, v9.4s, v30.4s\n\t"                            \
    "usmmla v12.4s, v0.16b, v14.16b\n\tfmla v18.4s, v28.4s, v31.4s\n\t"                           \
    "fmla v19.4s, v29.4s, v30.4s\n\t" T(1) MIN("fmla v18.4s, v10.4s, v30.4s\n\t")                 \
    "usmmla v12.4s, v1.16b, v15.16b\n\tusmmla v13.4s, v5.16b, v15.16b\n\t"                        \
    MIN("ldr d10, [%[sc], #40]\n\t") "ldp q14, q15, [%[q0]], #32\n\tfcvtl v9.4s, v8.4h\n\t"       \
    MIN("fmla v19.4s, v11.4s, v30.4s\n\t") "usmmla v12.4s, v2.16b, v14.16b\n\t"                   \
    "zip1 v8.4s, v9.4s, v9.4s\n\tzip2 v9.4s, v9.4s, v9.4s\n\tusmmla v13.4s, v6.16b, v14.16b\n\t"  \
    MIN("fcvtl v11.4s, v10.4h\n\t") "usmmla v13.4s, v7.16b, v15.16b\n\t"                          \
    "usmmla v12.4s, v3.16b, v15.16b\n\tldp q14, q15, [%[q1]], #32\n\t"                            \
    MIN("zip1 v10.4s, v11.4s, v11.4s\n\t") MIN("zip2 v11.4s, v11.4s, v11.4s\n\t")                 \
    START(29, 1, 1) START(28, 1, 0) "scvtf v12.4s, v12.4s, #4\n\t"                                \
    "usmmla v28.4s, v0.16b, v14.16b\n\t" S(0) "scvtf v13.4s, v13.4s\n\t"                          \
    "usmmla v29.4s, v4.16b, v14.16b\n\tusmmla v28.4s, v1.16b, v15.16b\n\t"                        \
    "fmul v31.4s, v8.4s, v30.4s\n\tfmul v30.4s, v9.4s, v30.4s\n\t"                                \
    "usmmla v29.4s, v5.16b, v15.16b\n\tadd %[w], %[w], %[step]\n\t"                               \
    "ldp q14, q15, [%[q1]], #32\n\tfmla v20.4s, v12.4s, v31.4s\n\t"                               \
    "usmmla v28.4s, v2.16b, v14.16b\n\tfmla v21.4s, v13.4s, v30.4s\n\t"                           \
    "ldp q0, q1, [%[w], #0]\n\t" T(0) MIN("fmla v21.4s, v11.4s, v30.4s\n\t")                      \
    "usmmla v28.4s, v3.16b, v15.16b\n\tldp q2, q3, [%[w], #32]\n\tscvtf v28.4s, v28.4s, #4\n\t"   \
    "usmmla v29.4s, v6.16b, v14.16b\n\tusmmla v29.4s, v7.16b, v15.16b\n\t"                        \
    MIN("fmla v20.4s, v10.4s, v30.4s\n\t") "add %[sc], %[sc], %[step]\n\t"                        \
    "ushr v4.16b, v0.16b, #4\n\tscvtf v29.4s, v29.4s\n\t" S(1) "shl v0.16b, v0.16b, #4\n\t"       \
    "fmul v31.4s, v8.4s, v30.4s\n\tfmul v30.4s, v9.4s, v30.4s\n\tushr v5.16b, v1.16b, #4\n\t"     \
    "shl v1.16b, v1.16b, #4\n\tfmla v22.4s, v28.4s, v31.4s\n\tushr v7.16b, v3.16b, #4\n\t"        \
    "fmla v23.4s, v29.4s, v30.4s\n\tushr v6.16b, v2.16b, #4\n\t" T(1)                             \
    MIN("fmla v22.4s, v10.4s, v30.4s\n\t") MIN("fmla v23.4s, v11.4s, v30.4s\n\t")                 \
    "shl v3.16b, v3.16b, #4\n\tshl v2.16b, v2.16b, #4\n\t"
/* clang-format on */

#endif

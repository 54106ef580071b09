/* SPDX-License-Identifier: Apache-2.0 */
/* How weights and quantised activations are in memory on the CPU.
 *
 * A packed weight is a row of tiles; a tile is 16 outputs with all their k, padded with zeros after
 * the last output. Lanes run along outputs, k is walked in order, and one packing serves every
 * number of rows.
 *
 * Float types: [k][16], BF16 for levels with a unit for it as that unit wants it
 * (whim_cpu_bf16_order). FP8: codes in the same order, then [k / 128][16] F32 scales.
 *
 * Block types: groups of 32 k in order, `span` of them under one scale; all that a group needs lies
 * together, so that a product reads memory in one stream:
 *   span    d[16], then m[16] for types with a minimum; then its groups
 *   group   512 codes of `bits` bits in eight blocks of 64 (below); then, for types with integer
 *   sub-scales,
 *           sc[subs][16] int8 and mn[subs][16] uint8
 * A code is the weight's integer plus `offset`, or the index into `table`; 8-bit codes are the
 * signed integer itself. Bits of code block b (0..7) are in planes of 64-byte blocks one after the
 * other:
 *   8 bits: byte block b             4 bits: block b / 2, shifted by 4 (b % 2)
 *   2 bits: block b / 4, by 2 (b % 4)  1 bit: block 0, by b
 * with 3 = 2 + 1, 5 = 4 + 1 and 6 = 4 + 2 bits, the low ones first.
 * Which weight is where in the eight blocks is the level's order:
 *   QUAD  block b = k 4b .. 4b+3: [16 outputs][4]      (dot products of 4, lanes along outputs)
 *   PAIR  block b = outputs 2b, 2b+1: [k / 8][2][8]    (2 x 8 by 8 x 2 matrix products)
 *
 * Activations: rows in blocks of 16 (QUAD; the last has the rows that are left) or two (PAIR; the
 * last is filled up); per block and group 32 int8 a row, as [row][32] or [k / 8][2][8], and one
 * whim_cpu_act_meta a row. For BF16 units with weights in order TWO: BF16 in blocks of 16 rows (the
 * last has the rows that are left), [k / 32][row][32], k padded with zeros. */
#ifndef WHIM_BACKENDS_CPU_PACKING_H
#define WHIM_BACKENDS_CPU_PACKING_H

#include "base/alloc.h"
#include "ops/args/linear_args.h"
#include "tensor/quant.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    WHIM_CPU_TILE = 16,       /* outputs of a tile */
    WHIM_CPU_CODES = 16 * 32, /* codes of a tile's group */
    WHIM_CPU_BLOCK = 64,      /* codes, and bytes, of a code block */
};

typedef enum whim_cpu_order { WHIM_CPU_ORDER_QUAD, WHIM_CPU_ORDER_PAIR } whim_cpu_order;

/* BF16 tiles: LANES [k][16]; TWO [k / 2][16][2]; FOUR [k / 4][8][2][4] (pairs of outputs by 4 k).
 * The last two pad k with zeros to a multiple of 32. */
typedef enum whim_cpu_bf16_order {
    WHIM_CPU_BF16_LANES,
    WHIM_CPU_BF16_TWO,
    WHIM_CPU_BF16_FOUR,
} whim_cpu_bf16_order;

typedef enum whim_cpu_table {
    WHIM_TABLE_NONE,
    WHIM_TABLE_IQ4,
    WHIM_TABLE_FP4,
    WHIM_TABLE_IQ2,
    WHIM_TABLE_IQ3_XXS,
    WHIM_TABLE_IQ3_S,
} whim_cpu_table;

/* The block types: X(NAME, name, bits, offset, table, type of d, groups per d, sub-scales, has
 * m). */
#define WHIM_CPU_FORMS(X)                                \
    X(Q4_0, q4_0, 4, 8, NONE, F16, 1, 0, false)          \
    X(Q4_1, q4_1, 4, 0, NONE, F16, 1, 0, true)           \
    X(Q5_0, q5_0, 5, 16, NONE, F16, 1, 0, false)         \
    X(Q5_1, q5_1, 5, 0, NONE, F16, 1, 0, true)           \
    X(Q8_0, q8_0, 8, 0, NONE, F16, 1, 0, false)          \
    X(Q2_K, q2_k, 2, 0, NONE, F16, 8, 2, true)           \
    X(Q3_K, q3_k, 3, 4, NONE, F16, 8, 2, false)          \
    X(Q4_K, q4_k, 4, 0, NONE, F16, 8, 1, true)           \
    X(Q5_K, q5_k, 5, 0, NONE, F16, 8, 1, true)           \
    X(Q6_K, q6_k, 6, 32, NONE, F16, 8, 2, false)         \
    X(IQ4_NL, iq4_nl, 4, 0, IQ4, F16, 1, 0, false)       \
    X(IQ4_XS, iq4_xs, 4, 0, IQ4, F16, 8, 1, false)       \
    X(IQ2_S, iq2_s, 3, 0, IQ2, F32, 8, 2, false)         \
    X(IQ3_XXS, iq3_xxs, 4, 0, IQ3_XXS, F32, 8, 1, false) \
    X(IQ3_S, iq3_s, 4, 0, IQ3_S, F16, 8, 1, false)       \
    X(MXFP4, mxfp4, 4, 0, FP4, BF16, 1, 0, false)        \
    X(INT8, int8, 8, 0, NONE, F32, 4, 0, false)

/* Types that are packed as another one: X(NAME, the other). Entries of code books are opened to one
 * code a weight, so IQ2 takes three bits of memory for two in the file, and IQ3 four for three. */
#define WHIM_CPU_SAME_FORMS(X) \
    X(IQ2_XXS, iq2_s)          \
    X(IQ2_XS, iq2_s)

typedef struct whim_cpu_form {
    int bits, offset;
    whim_cpu_table table;
    whim_dtype d; /* F16, BF16 or F32 */
    int span;     /* groups that share d and m */
    int subs;     /* integer sub-scales of a group: 0 none, 1, or 2 (one per 16 k) */
    bool has_min;
} whim_cpu_form;

/* Bytes of the parts of a group and of a span, as constants for kernels. */
#define WHIM_CPU_CODE_BYTES(bits) (WHIM_CPU_BLOCK * (bits))
#define WHIM_CPU_SCALE_BYTES(form) \
    (WHIM_CPU_TILE * (((form).d == WHIM_DTYPE_F32 ? 4 : 2) + ((form).has_min ? 2 : 0)))
#define WHIM_CPU_SUB_BYTES(form) (WHIM_CPU_TILE * (form).subs * ((form).has_min ? 2 : 1))

/* The form of a block type; NULL for others. */
const whim_cpu_form *whim_cpu_form_of(whim_dtype dtype);

/* A group: codes, then sub-scales. A span: scales, then groups. */
static inline int64_t whim_cpu_group_bytes(const whim_cpu_form *f)
{
    return WHIM_CPU_CODE_BYTES(f->bits) + WHIM_CPU_SUB_BYTES(*f);
}

static inline int64_t whim_cpu_span_bytes(const whim_cpu_form *f)
{
    return WHIM_CPU_SCALE_BYTES(*f) + f->span * whim_cpu_group_bytes(f);
}

/* From the start of a tile to the scales of group g, and to the group. */
static inline int64_t whim_cpu_scales_at(const whim_cpu_form *f, int64_t g)
{
    return g / f->span * whim_cpu_span_bytes(f);
}

static inline int64_t whim_cpu_group_at(const whim_cpu_form *f, int64_t g)
{
    return whim_cpu_scales_at(f, g) + WHIM_CPU_SCALE_BYTES(*f) +
           g % f->span * whim_cpu_group_bytes(f);
}

/* Bytes of a tile of k inputs, a multiple of the block of the type. */
static inline int64_t whim_cpu_block_tile_bytes(const whim_cpu_form *f, int64_t k)
{
    return whim_aligned(whim_cpu_scales_at(f, k / WHIM_GROUP));
}

/* Place of the weight (output o, input k of its group) among the 512 codes. */
static inline int whim_cpu_code_place(whim_cpu_order order, int o, int k)
{
    return order == WHIM_CPU_ORDER_QUAD ? k / 4 * WHIM_CPU_BLOCK + o * 4 + k % 4
                                        : o / 2 * WHIM_CPU_BLOCK + k / 8 * 16 + o % 2 * 8 + k % 8;
}

/* The scale of one row's group, s * (sum of its int8), and the sums of its halves. */
typedef struct whim_cpu_act_meta {
    float s, t;
    int32_t half[2];
} whim_cpu_act_meta;

/* Quantised rows; whim_cpu_act_bytes of memory, aligned to 64, hold the two arrays. */
typedef struct whim_cpu_act {
    int8_t *q;               /* [row blocks][k / 32][rows of the block * 32] */
    whim_cpu_act_meta *meta; /* [row blocks][k / 32][rows of the block] */
} whim_cpu_act;

/* Rows that memory is needed for. */
static inline int64_t whim_cpu_act_rows(whim_cpu_order order, int64_t n_row)
{
    return order == WHIM_CPU_ORDER_PAIR ? (n_row + 1) / 2 * 2 : n_row;
}

static inline int64_t whim_cpu_act_bytes(whim_cpu_order order, int64_t n_row, int64_t k)
{
    int64_t rows = whim_cpu_act_rows(order, n_row);
    return rows * k + rows * (k / WHIM_GROUP) * (int64_t)sizeof(whim_cpu_act_meta) + 64;
}

static inline whim_cpu_act whim_cpu_act_at(whim_cpu_order order, void *memory, int64_t n_row,
                                           int64_t k)
{
    int64_t q_bytes = whim_aligned(whim_cpu_act_rows(order, n_row) * k);
    return (whim_cpu_act){memory, (whim_cpu_act_meta *)((char *)memory + q_bytes)};
}

/* Whether weights of a type take BF16 rows on levels that have a unit for those. */
static inline bool whim_cpu_wants_bf16(whim_dtype dtype)
{
    return dtype == WHIM_DTYPE_BF16 || dtype == WHIM_DTYPE_FP8;
}

/* BF16 rows from `at` on, the beginning of a block; each has `pitch` steps, and what is wanted of
 * it begins at step `first`. */
typedef struct whim_cpu_bf16_rows {
    const uint16_t *at;
    int64_t pitch, first;
} whim_cpu_bf16_rows;

/* Steps of 32 k of a BF16 row. */
static inline int64_t whim_cpu_bf16_steps(int64_t k)
{
    return (k + 31) / 32;
}

/* Place of a BF16 row's step, in elements; of n_row rows, whose last block has the rows that are
 * left. */
static inline int64_t whim_cpu_bf16_act_place(int64_t n_row, int64_t k, int64_t row, int64_t step)
{
    int64_t row0 = row / 16 * 16, block = n_row - row0 < 16 ? n_row - row0 : 16;
    return (row0 * whim_cpu_bf16_steps(k) + step * block + row - row0) * 32;
}

static inline int64_t whim_cpu_bf16_act_bytes(int64_t n_row, int64_t k)
{
    return n_row * whim_cpu_bf16_steps(k) * 32 * (int64_t)sizeof(uint16_t);
}

struct whim_cpu_kernels;

/* Bytes of one tile of k inputs, of any weight type. */
int64_t whim_cpu_tile_bytes(const struct whim_cpu_kernels *level, whim_dtype dtype, int64_t k);

/* Row `row` of a packed weight as F32. */
void whim_cpu_unpack_row(const struct whim_cpu_kernels *level, const whim_weight *w, int64_t row,
                         float *y);

/* Group `group` of output o of the tile at `tile`, back as the law's form. */
void whim_cpu_unpack_group(const whim_cpu_form *form, whim_cpu_order order, const void *tile, int o,
                           int64_t group, whim_quant_group *out);

#endif

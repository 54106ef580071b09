/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory two commands have in common: a conflict that is missed is a race, one that is made
 * up is a barrier for nothing. */
#include "backends/cpu/access.h"
#include "ops/operands.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <string.h>

#define COUNT(a) ((int32_t)(sizeof(a) / sizeof(a)[0]))

/* --- two ranges ------------------------------------------------------------------------------- */

enum { AT = 0x10000 };

typedef struct range_case {
    const char *name;
    whim_access a, b; /* at, row_bytes, stride, n_row */
    bool overlap;
} range_case;

static const range_case range_cases[] = {
    {"the same bytes", {AT, 64, 64, 1}, {AT, 64, 64, 1}, true},
    {"one byte in common", {AT, 64, 64, 1}, {AT + 63, 64, 64, 1}, true},
    {"touching", {AT, 64, 64, 1}, {AT + 64, 64, 64, 1}, false},
    {"one inside the other", {AT, 64, 64, 1}, {AT + 16, 8, 8, 1}, true},
    {"far apart", {AT, 64, 64, 4}, {AT + 4096, 64, 64, 4}, false},
    {"touching matrices", {AT, 64, 64, 4}, {AT + 256, 64, 64, 4}, false},
    {"the last row of one is the first of the other", {AT, 64, 64, 4}, {AT + 192, 64, 64, 4}, true},
    {"columns side by side", {AT, 32, 96, 8}, {AT + 32, 64, 96, 8}, false},
    {"the middle column of three", {AT + 32, 32, 96, 8}, {AT + 64, 32, 96, 8}, false},
    {"columns with one byte in common", {AT, 33, 96, 8}, {AT + 32, 64, 96, 8}, true},
    {"columns of different rows", {AT, 32, 96, 8}, {AT + 96 * 3 + 32, 64, 96, 8}, false},
    {"the same column of different rows", {AT, 32, 96, 8}, {AT + 96 * 3, 32, 96, 8}, true},
    {"a column that runs over into the next row's first",
     {AT, 32, 96, 8},
     {AT + 64, 40, 96, 8},
     true},
    {"the same column, rows below", {AT, 32, 96, 8}, {AT + 96 * 8, 32, 96, 8}, false},
    {"different strides, in one another's span", {AT, 32, 96, 8}, {AT + 40, 8, 128, 4}, true},
    {"different strides, apart", {AT, 32, 96, 8}, {AT + 96 * 7 + 32, 8, 128, 4}, false},
    {"a span in the gap of a matrix is taken for an overlap",
     {AT, 32, 96, 8},
     {AT + 40, 8, 8, 1},
     true},
    {"one row repeated, same bytes", {AT, 64, 0, 100}, {AT + 32, 64, 64, 1}, true},
    {"one row repeated takes no more than a row", {AT, 64, 0, 100}, {AT + 64, 64, 64, 1}, false},
    {"two repeated rows", {AT, 64, 0, 100}, {AT + 8, 8, 0, 3}, true},
    {"no rows", {AT, 64, 64, 0}, {AT, 64, 64, 4}, false},
    {"no columns", {AT, 0, 64, 4}, {AT, 64, 64, 4}, false},
    {"nothing at all", {AT, 0, 0, 0}, {AT, 0, 0, 0}, false},
    {"no rows inside a span", {AT + 32, 64, 64, 0}, {AT, 256, 256, 1}, false},
};

static void ranges_overlap_or_not(void **state)
{
    (void)state;
    int32_t bad = 0;
    for (int32_t i = 0; i < COUNT(range_cases); i++) {
        const range_case *c = &range_cases[i];
        if (whim_access_overlap(&c->a, &c->b) != c->overlap ||
            whim_access_overlap(&c->b, &c->a) != c->overlap) {
            print_error("%s: expected %d\n", c->name, c->overlap);
            bad++;
        }
    }
    assert_int_equal(bad, 0);
}

/* All matrices of up to 3 x 3 bytes with strides up to 5 against the bytes themselves. An overlap
 * must be seen always; with equal strides, none may be made up where both have the same rows. */
static void no_overlap_is_missed(void **state)
{
    (void)state;
    for (int32_t n = 0; n < 4 * 4 * 6 * 4 * 4 * 6 * 16; n++) {
        int32_t left = n;
        whim_access m[2];
        for (int i = 0; i < 2; i++) {
            m[i].n_row = left % 4, left /= 4;
            m[i].row_bytes = left % 4, left /= 4;
            m[i].stride = left % 6, left /= 6;
            m[i].at = AT;
        }
        m[1].at += (uintptr_t)left;
        char bytes[64] = {0};
        bool common = false;
        for (int i = 0; i < 2; i++) {
            for (int64_t at = 0; at < m[i].n_row * m[i].row_bytes; at++) {
                int64_t byte = at / m[i].row_bytes * m[i].stride + at % m[i].row_bytes;
                char *cell = &bytes[byte + (int64_t)(m[i].at - AT)];
                common |= i == 1 && *cell == 1;
                *cell = i == 0 ? 1 : *cell;
            }
        }
        assert_false(common && !whim_access_overlap(&m[0], &m[1]));
        bool columns = m[0].stride == m[1].stride && m[0].n_row == m[1].n_row &&
                       m[1].at - AT + (uintptr_t)m[1].row_bytes <= (uintptr_t)m[0].stride;
        assert_false(columns && !common && whim_access_overlap(&m[0], &m[1]));
    }
}

/* --- two ops ---------------------------------------------------------------------------------- */

enum { ROWS = 4, COLS = 32, LAYER = 2 * WHIM_CPU_PAGE * COLS * 4, PAGE = 4 * LAYER };

/* Matrices to point into; never followed. */
static float mem_a[ROWS * 3 * COLS], mem_b[ROWS * COLS], mem_c[ROWS * COLS], mem_d[ROWS * COLS];
static char mem_pages[2 * PAGE];
static whim_q8_block mem_q8[ROWS * COLS / 32];

#define VIEW(layer)                                                                        \
    {                                                                                      \
        .pages = mem_pages, .page_stride = PAGE, .layer_offset = (layer)*LAYER, .n_kv = 1, \
        .d_head = COLS, .type = WHIM_KV_F32, .page_len = WHIM_CPU_PAGE                     \
    }
#define LINEAR(X, Y, STRIDE)                                                              \
    {                                                                                     \
        .w = {.dtype = WHIM_DTYPE_F32, .n = COLS, .k = COLS}, .x = (X), .x_stride = COLS, \
        .y = (Y), .y_stride = (STRIDE), .n_row = ROWS                                     \
    }

/* Columns 0, 1 and 2 of mem_a. */
static const whim_linear_args to_q = LINEAR(mem_b, mem_a, 3 * COLS);
static const whim_linear_args to_k = LINEAR(mem_b, mem_a + COLS, 3 * COLS);
static const whim_linear_args to_v = LINEAR(mem_b, mem_a + 2 * COLS, 3 * COLS);
static const whim_linear_args b_to_c = LINEAR(mem_b, mem_c, COLS);
static const whim_linear_args c_to_b = LINEAR(mem_c, mem_b, COLS);
static const whim_linear_args d_to_c = LINEAR(mem_d, mem_c, COLS);
static const whim_linear_args no_rows = {
    .w = {.n = COLS, .k = COLS}, .x = mem_b, .x_stride = COLS, .y = mem_c, .y_stride = COLS};
static const whim_rmsnorm_args norm_q = {
    .x = mem_a, .x_stride = 3 * COLS, .y = mem_d, .y_stride = COLS, .n_row = ROWS, .n_col = COLS};
static const whim_rmsnorm_args norm_in_place = {
    .x = mem_c, .x_stride = COLS, .y = mem_c, .y_stride = COLS, .n_row = ROWS, .n_col = COLS};
static const whim_add_args add_c_to_b = {
    .x = mem_b, .x_stride = COLS, .y = mem_c, .y_stride = COLS, .n_row = ROWS, .n_col = COLS};
static const whim_add_args add_c_to_d = {
    .x = mem_d, .x_stride = COLS, .y = mem_c, .y_stride = COLS, .n_row = ROWS, .n_col = COLS};
/* The bias is the first row of mem_c. */
static const whim_add_args add_bias = {
    .x = mem_d, .x_stride = COLS, .y = mem_c, .y_stride = 0, .n_row = ROWS, .n_col = COLS};
static const whim_embed_args embed_row_0 = {
    .w = {.k = COLS}, .y = mem_c, .y_stride = COLS, .n_row = 1};
static const whim_embed_args embed_row_1 = {
    .w = {.k = COLS}, .y = mem_c + COLS, .y_stride = COLS, .n_row = 1};
static const whim_add_rmsnorm_args add_norm = {.x = mem_b,
                                               .x_stride = COLS,
                                               .delta = mem_c,
                                               .delta_stride = COLS,
                                               .y = mem_d,
                                               .y_stride = COLS,
                                               .n_row = ROWS,
                                               .n_col = COLS};
static const whim_swiglu_args gate_in_place = {.gate = mem_b,
                                               .gate_stride = COLS,
                                               .up = mem_c,
                                               .up_stride = COLS,
                                               .y = mem_b,
                                               .y_stride = COLS,
                                               .n_row = ROWS,
                                               .n_col = COLS};
static const int32_t mem_ids[4];
static const whim_embed_args embed_ids = {
    .w = {.k = COLS}, .ids = mem_ids, .y = mem_c, .y_stride = COLS, .n_row = 1};
static const whim_result_tokens_args resolve_ids = {
    .refs = mem_ids, .result_stride = 1, .tokens = (int32_t *)mem_ids, .n_row = 1};
static const whim_gather_rows_args gather_c = {.x = mem_c,
                                               .x_stride = COLS,
                                               .y = mem_d,
                                               .y_stride = COLS,
                                               .n_src = ROWS,
                                               .n_row = 1,
                                               .n_col = COLS};
static const whim_rope_table_args table_d = {.cos_sin = mem_d, .n_row = ROWS, .n_freq = COLS / 2};
#define ROPE(X)                                                                                   \
    {                                                                                             \
        .x = (X), .x_stride = COLS, .cos_sin = mem_d, .n_row = ROWS, .n_head = 1, .d_head = COLS, \
        .n_freq = COLS / 2                                                                        \
    }
static const whim_rope_args rope_b = ROPE(mem_b), rope_c = ROPE(mem_c);
static const whim_split_qkv_rmsnorm_rope_args split = {.qkv = mem_a,
                                                       .qkv_stride = 3 * COLS,
                                                       .cos_sin = mem_d,
                                                       .q = mem_b,
                                                       .k = mem_c,
                                                       .v = mem_c + COLS,
                                                       .n_row = 1,
                                                       .n_head = 1,
                                                       .n_kv = 1,
                                                       .d_head = COLS,
                                                       .n_freq = COLS / 2};
static const whim_narrow_args quantize_c = {.x = mem_c,
                                            .x_stride = COLS,
                                            .y_type = WHIM_ACT_Q8,
                                            .y = mem_q8,
                                            .y_stride = COLS,
                                            .n_row = ROWS,
                                            .n_col = COLS};
static const whim_kv_write_args write_0 = {.kv = VIEW(0), .k = mem_c, .v = mem_c, .n_row = 1};
static const whim_kv_write_args write_1 = {.kv = VIEW(1), .k = mem_c, .v = mem_c, .n_row = 1};
static const whim_kv_read_args read_0 = {.kv = VIEW(0), .k = mem_d, .v = mem_d + COLS, .n_row = 1};
static const whim_page_zero_args zero = {.pages = mem_pages, .page_bytes = PAGE, .n_id = 1};
static const whim_attn_paged_args attend_0 = {
    .kv = VIEW(0), .q = mem_b, .out = mem_d, .n_row = ROWS, .n_head = 1};
static const whim_attn_paged_args attend_1 = {
    .kv = VIEW(1), .q = mem_b, .out = mem_a, .n_row = ROWS, .n_head = 1};

#define OP(op, args) WHIM_OP_##op, &(args), sizeof(args)

typedef struct op_case {
    const char *name;
    whim_op a;
    const void *a_args;
    size_t a_size;
    whim_op b;
    const void *b_args;
    size_t b_size;
    bool conflict;
} op_case;

static const op_case op_cases[] = {
    {"products of one input, columns of one output", OP(linear, to_q), OP(linear, to_k), false},
    {"the same, not neighbours", OP(linear, to_q), OP(linear, to_v), false},
    {"two products with the same output", OP(linear, b_to_c), OP(linear, d_to_c), true},
    {"a product of what a product wrote", OP(linear, b_to_c), OP(linear, c_to_b), true},
    {"a norm of the column that was written", OP(linear, to_q), OP(rmsnorm, norm_q), true},
    {"a norm of another column", OP(linear, to_k), OP(rmsnorm, norm_q), false},
    {"a norm in place of what is read", OP(rmsnorm, norm_in_place), OP(add, add_c_to_b), true},
    {"two additions of one matrix", OP(add, add_c_to_b), OP(add, add_c_to_d), false},
    {"an addition changes what a product reads", OP(linear, to_q), OP(add, add_c_to_b), true},
    {"the input of an addition is only read", OP(add, add_c_to_d), OP(linear, c_to_b), false},
    {"a bias is one row", OP(add, add_bias), OP(embed, embed_row_1), false},
    {"that row", OP(add, add_bias), OP(embed, embed_row_0), true},
    {"rows of an embedding", OP(embed, embed_row_0), OP(embed, embed_row_1), false},
    {"the sum of add_rmsnorm is written", OP(add_rmsnorm, add_norm), OP(linear, to_q), true},
    {"so is its norm", OP(add_rmsnorm, add_norm), OP(kv_read, read_0), true},
    {"its delta is read", OP(add_rmsnorm, add_norm), OP(embed, embed_row_0), true},
    {"its delta is not written", OP(add_rmsnorm, add_norm), OP(kv_write, write_0), false},
    {"swiglu in place", OP(swiglu, gate_in_place), OP(linear, to_q), true},
    {"its second input is read", OP(swiglu, gate_in_place), OP(embed, embed_row_0), true},
    {"and not written", OP(swiglu, gate_in_place), OP(kv_write, write_0), false},
    {"an embedding of tokens that came late", OP(result_tokens, resolve_ids), OP(embed, embed_ids),
     true},
    {"gathering what was written", OP(embed, embed_row_1), OP(gather_rows, gather_c), true},
    {"gathering what is read", OP(gather_rows, gather_c), OP(linear, c_to_b), false},
    {"a rotation waits for its table", OP(rope_table, table_d), OP(rope, rope_b), true},
    {"two rotations by one table", OP(rope, rope_b), OP(rope, rope_c), false},
    {"a rotation is in place", OP(rope, rope_b), OP(linear, to_q), true},
    {"a split waits for its columns", OP(linear, to_v), OP(split_qkv_rmsnorm_rope, split), true},
    {"a split writes q", OP(split_qkv_rmsnorm_rope, split), OP(rope, rope_b), true},
    {"a split writes k", OP(split_qkv_rmsnorm_rope, split), OP(embed, embed_row_0), true},
    {"a split writes v", OP(split_qkv_rmsnorm_rope, split), OP(embed, embed_row_1), true},
    {"a split reads its table", OP(rope_table, table_d), OP(split_qkv_rmsnorm_rope, split), true},
    {"quantising what was written", OP(linear, b_to_c), OP(narrow, quantize_c), true},
    {"quantising what is read", OP(linear, c_to_b), OP(narrow, quantize_c), false},
    {"keys and values of one layer", OP(kv_write, write_0), OP(attn_paged, attend_0), true},
    {"keys and values of two layers", OP(kv_write, write_0), OP(attn_paged, attend_1), false},
    {"writing to two layers", OP(kv_write, write_0), OP(kv_write, write_1), false},
    {"writing twice to one layer", OP(kv_write, write_0), OP(kv_write, write_0), true},
    {"reading back", OP(kv_write, write_0), OP(kv_read, read_0), true},
    {"reading back another layer", OP(kv_write, write_1), OP(kv_read, read_0), false},
    {"two attentions", OP(attn_paged, attend_0), OP(attn_paged, attend_1), false},
    {"zeroing before writing", OP(page_zero, zero), OP(kv_write, write_0), true},
    {"zeroing is for all layers", OP(page_zero, zero), OP(kv_write, write_1), true},
    {"zeroing before attention", OP(page_zero, zero), OP(attn_paged, attend_1), true},
    {"zeroing and a product", OP(page_zero, zero), OP(linear, b_to_c), false},
    {"an op without rows", OP(linear, no_rows), OP(linear, b_to_c), false},
};

static bool conflict(const whim_access *a, int32_t n_a, const whim_access *b, int32_t n_b)
{
    for (int32_t i = 0; i < n_a * n_b; i++) {
        const whim_access *x = &a[i / n_b], *y = &b[i % n_b];
        if ((x->write || y->write) && whim_access_overlap(x, y)) {
            return true;
        }
    }
    return false;
}

static void ops_conflict_or_not(void **state)
{
    (void)state;
    int32_t bad = 0;
    for (int32_t i = 0; i < COUNT(op_cases); i++) {
        const op_case *c = &op_cases[i];
        whim_access a[WHIM_ACCESS_MAX], b[WHIM_ACCESS_MAX];
        assert_int_equal(c->a_size, whim_op_args_bytes(c->a));
        assert_int_equal(c->b_size, whim_op_args_bytes(c->b));
        int32_t n_a = whim_access_list(c->a, c->a_args, a);
        int32_t n_b = whim_access_list(c->b, c->b_args, b);
        if (conflict(a, n_a, b, n_b) != c->conflict || conflict(b, n_b, a, n_a) != c->conflict) {
            print_error("%s (%s, %s): expected %d\n", c->name, whim_op_name(c->a),
                        whim_op_name(c->b), c->conflict);
            bad++;
        }
    }
    assert_int_equal(bad, 0);
}

/* A product reads the int8 rows that quantising writes, or x, and what its own rows are made
 * from. */
static void a_product_reads_its_rows(void **state)
{
    (void)state;
    whim_cpu_quantize_args quantize = {
        .x = mem_c, .x_stride = COLS, .act = mem_q8, .n_row = ROWS, .k = COLS};
    whim_cpu_product_args args = {.w = {.dtype = WHIM_DTYPE_Q8_0, .n = COLS, .k = COLS},
                                  .act = mem_q8,
                                  .x = mem_c,
                                  .x_stride = COLS,
                                  .y = mem_d,
                                  .y_stride = COLS,
                                  .n_row = ROWS};
    whim_access product[WHIM_ACCESS_MAX], other[WHIM_ACCESS_MAX];
    int32_t n = whim_access_product(&args, 2, product);
    int32_t n_other = whim_access_quantize(&quantize, other);
    assert_true(conflict(product, n, other, n_other));
    n_other = whim_access_list(WHIM_OP_linear, &d_to_c, other); /* reads what the product writes */
    assert_true(conflict(product, n, other, n_other));
    args.act = mem_q8 + ROWS * COLS / 64; /* another buffer */
    args.y = mem_b;
    n = whim_access_product(&args, 2, product);
    n_other = whim_access_quantize(&quantize, other);
    assert_false(conflict(product, n, other, n_other));
    args.act = NULL;
    args.own = (whim_cpu_own){.used = true, .delta = mem_d, .delta_stride = COLS};
    n = whim_access_product(&args, 2, product);
    n_other = whim_access_list(WHIM_OP_linear, &d_to_c, other); /* writes x */
    assert_true(conflict(product, n, other, n_other));
    args.x = mem_a;
    n = whim_access_product(&args, 2, product);
    quantize.act = mem_d; /* writes delta */
    n_other = whim_access_quantize(&quantize, other);
    assert_true(conflict(product, n, other, n_other));
    args.own.delta = NULL;
    n = whim_access_product(&args, 2, product);
    assert_false(conflict(product, n, other, n_other));
}

/* An op that writes nothing would do nothing, unless others wait for it. */
static void every_op_writes(void **state)
{
    (void)state;
    for (int32_t op = 0; op < WHIM_OP_COUNT; op++) {
        static const int64_t none[1];
        _Alignas(16) char args[WHIM_OP_ARGS_MAX] = {0};
        if (op == WHIM_OP_all_gather_v) {
            ((whim_all_gather_v_args *)(void *)args)->cols = none;
        } else if (op == WHIM_OP_reduce_scatter_v) {
            ((whim_reduce_scatter_v_args *)(void *)args)->cols = none;
        }
        whim_operand list[WHIM_OPERANDS_MAX];
        int32_t n = whim_operand_list((whim_op)op, args, list), writes = 0;
        for (int32_t i = 0; i < n; i++) {
            writes += (list[i].use & WHIM_USE_WRITES) != 0;
        }
        assert_true(writes > 0 || op == WHIM_OP_barrier);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_overlap_or_not), cmocka_unit_test(no_overlap_is_missed),
        cmocka_unit_test(ops_conflict_or_not),   cmocka_unit_test(a_product_reads_its_rows),
        cmocka_unit_test(every_op_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

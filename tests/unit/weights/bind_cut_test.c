/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank keeps of a parameter is that part of the whole one, byte for byte, whatever happens to
 * rows and columns on their way. */
#include "weights/bind.h"

#include "unit/weights/fixture.h"

static const whim_arch llama = {.name = "llama"};

/* A matrix or vector as the device has it; the guard keeps rows as the file has them. */
typedef struct loaded {
    whim_weight w;
    uint8_t *bytes;
    int64_t n_byte;
} loaded;

static loaded load(whim_dtype dtype, whim_dtype narrow, whim_param param)
{
    whim_ckpt ckpt = {.format = WHIM_CKPT_DUMMY, .config = {.arch = &llama, .dtype = dtype}};
    whim_binder binder;
    whim_diag diag = {{0}};
    whim_device *device = NULL;
    whim_stream *stream = NULL;
    loaded out = {0};
    const float *values = NULL;
    whim_device_cfg cfg = {.n_thread = 1};
    bool vector = param.values != NULL;
    param.weight = vector ? NULL : &out.w;
    param.values = vector ? &values : NULL;
    assert_int_equal(whim_backend_find("guard")->device_open(0, &cfg, &device, &diag), WHIM_ERR_OK);
    whim_binder_init(&binder);
    binder.narrow = narrow;
    whim_bind(&binder, &param, "layers.0.w");
    assert_int_equal(whim_bind_match(&binder, &ckpt, device, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_bind_load(&binder, &ckpt, device, 2, NULL, NULL, &diag), WHIM_ERR_OK);
    out.n_byte = binder.params[0].bytes;
    out.bytes = malloc((size_t)out.n_byte + 1);
    if (vector) {
        out.w = (whim_weight){WHIM_DTYPE_F32, binder.params[0].n_here, param.k, NULL};
        assert_int_equal(values == NULL, out.w.n == 0);
    }
    assert_int_equal(whim_stream_open(device, &stream, &diag), WHIM_ERR_OK);
    if (out.n_byte > 0) {
        assert_int_equal(whim_stream_copy_out(stream, out.bytes, binder.buffer, out.n_byte),
                         WHIM_ERR_OK);
    }
    assert_int_equal(whim_stream_sync(stream), WHIM_ERR_OK);
    whim_stream_close(stream);
    whim_binder_deinit(&binder);
    whim_device_close(device);
    return out;
}

/* Rows of `cut` from `to` on are runs of the rows of `whole` from `from` on. */
static void expect_rows(const loaded *whole, int64_t from, const loaded *cut, int64_t to,
                        const whim_param *param)
{
    int64_t k = whole->w.k, here = cut->w.k;
    whim_dtype dtype = whole->w.dtype;
    for (int32_t i = 0; i < param->n_row_run; i++) {
        for (int64_t r = 0; r < param->row_runs[i].n; r++, to++) {
            const uint8_t *row =
                whole->bytes + (from + param->row_runs[i].at + r) * whim_dtype_row_bytes(dtype, k);
            const uint8_t *own = cut->bytes + to * whim_dtype_row_bytes(dtype, here);
            for (int32_t j = 0; j < param->n_col_run; j++) {
                int64_t n = whim_dtype_row_bytes(dtype, param->col_runs[j].n);
                assert_memory_equal(own, row + whim_dtype_row_bytes(dtype, param->col_runs[j].at),
                                    (size_t)n);
                own += n;
            }
        }
    }
}

static void check(whim_dtype dtype, whim_dtype narrow, whim_param param, bool vector)
{
    const float *some = NULL;
    param.values = vector ? &some : NULL;
    whim_param all = param;
    all.row_runs = all.col_runs = all.own_experts = NULL;
    all.n_row_run = all.n_col_run = 0;
    loaded whole = load(dtype, narrow, all);
    loaded cut = load(dtype, narrow, param);
    const whim_part every = {0, param.n}, wide = {0, param.k};
    if (param.row_runs == NULL) {
        param.row_runs = &every;
        param.n_row_run = 1;
    }
    if (param.col_runs == NULL) {
        param.col_runs = &wide;
        param.n_col_run = 1;
    }
    int64_t n = param.n_expert > 0 ? param.n_expert : 1;
    const whim_part own = param.own_experts != NULL ? *param.own_experts : (whim_part){0, n};
    assert_true(own.n > 0 || cut.w.n == 0);
    for (int64_t e = 0; e < own.n; e++) {
        expect_rows(&whole, whole.w.n / n * (own.at + e), &cut, cut.w.n / own.n * e, &param);
    }
    free(whole.bytes);
    free(cut.bytes);
}

static void rows_and_columns(void **state)
{
    (void)state;
    static const whim_dtype types[] = {WHIM_DTYPE_F32,  WHIM_DTYPE_BF16, WHIM_DTYPE_Q4_1,
                                       WHIM_DTYPE_Q8_0, WHIM_DTYPE_Q6_K, WHIM_DTYPE_FP8};
    static const whim_part rows[] = {{16, 48}, {80, 0}, {112, 16}}, none[] = {{7, 0}};
    static const whim_part cols[] = {{256, 256}, {256, 512}}, no_cols[] = {{512, 0}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        whim_param p = {.n = 130, .k = 1024, .row_runs = rows, .n_row_run = 3};
        check(types[i], WHIM_DTYPE_F32, p, false);
        p.col_runs = cols;
        p.n_col_run = 2;
        check(types[i], WHIM_DTYPE_F32, p, false);
        p.unpair = 16;
        check(types[i], WHIM_DTYPE_F32, p, false);
        p.widen = true;
        check(types[i], WHIM_DTYPE_F32, p, false);
        p.row_runs = none;
        p.n_row_run = 1;
        check(types[i], WHIM_DTYPE_F32, p, false);
        p = (whim_param){.n = 130, .k = 1024, .col_runs = no_cols, .n_col_run = 1};
        check(types[i], WHIM_DTYPE_F32, p, false);
    }
    whim_param narrow = {.n = 8, .k = 1024, .col_runs = cols, .n_col_run = 2};
    check(WHIM_DTYPE_BF16, WHIM_DTYPE_Q4_0, narrow, false);
}

/* Heads lie elsewhere in the file: 4 groups of 2 heads, which are 2 tiles of 4 there. */
static void heads_in_another_order(void **state)
{
    (void)state;
    const whim_head_order heads = {
        .first = 32, .at = 32, .size = 32, .n_per = 2, .group_step = 1, .head_step = 4};
    whim_head_order from_zero = heads;
    from_zero.first = from_zero.at = 0;
    static const whim_part rows[] = {{16, 16}, {96, 128}}, cols[] = {{64, 64}, {192, 32}};
    static const whim_dtype types[] = {WHIM_DTYPE_F32, WHIM_DTYPE_Q4_0};
    for (int i = 0; i < 2; i++) {
        whim_param p = {.n = 288, .k = 256, .rows = heads, .row_runs = rows, .n_row_run = 2};
        check(types[i], WHIM_DTYPE_F32, p, false);
        p.cols = from_zero;
        p.col_runs = cols;
        p.n_col_run = 2;
        check(types[i], WHIM_DTYPE_F32, p, false);
    }
}

static void experts_are_cut_one_by_one(void **state)
{
    (void)state;
    static const whim_part rows[] = {{32, 64}}, none[] = {{96, 0}}, cols[] = {{128, 128}};
    static const whim_dtype types[] = {WHIM_DTYPE_BF16, WHIM_DTYPE_Q5_1, WHIM_DTYPE_FP8};
    const whim_expert_names names = {"up_proj", "gate_up_proj", 96, 192};
    for (int i = 0; i < 3; i++) {
        whim_param p = {.n = 96, .k = 256, .n_expert = 5, .experts = names};
        p.row_runs = rows;
        p.n_row_run = 1;
        check(types[i], WHIM_DTYPE_F32, p, false);
        p.col_runs = cols;
        p.n_col_run = 1;
        check(types[i], WHIM_DTYPE_F32, p, false);
        p.row_runs = none;
        check(types[i], WHIM_DTYPE_F32, p, false);
    }
}

/* A rank may have whole experts, any number of them. */
static void experts_are_dealt(void **state)
{
    (void)state;
    static const whim_part own[] = {{0, 5}, {0, 2}, {2, 2}, {4, 1}, {5, 0}, {2, 0}};
    static const whim_dtype types[] = {WHIM_DTYPE_F32, WHIM_DTYPE_BF16, WHIM_DTYPE_Q4_0};
    for (size_t i = 0; i < sizeof own / sizeof own[0] * 3; i++) {
        whim_param p = {.n = 40,
                        .k = 256,
                        .n_expert = 5,
                        .own_experts = &own[i / 3],
                        .experts = {"w", "ww", 0, 40}};
        check(types[i % 3], WHIM_DTYPE_F32, p, false);
    }
}

static void vectors_are_cut(void **state)
{
    (void)state;
    static const whim_part runs[] = {{0, 4}, {8, 4}, {20, 12}}, none[] = {{3, 0}};
    whim_param p = {.n = 32, .k = 1, .row_runs = runs, .n_row_run = 3, .unpair = 4};
    check(WHIM_DTYPE_F32, WHIM_DTYPE_F32, p, true);
    p.unpair = 0;
    p.k = 4;
    p.form = WHIM_VECTOR_NEG_EXP;
    check(WHIM_DTYPE_F32, WHIM_DTYPE_F32, p, true);
    p.row_runs = none;
    p.n_row_run = 1;
    check(WHIM_DTYPE_F32, WHIM_DTYPE_F32, p, true);
}

/* The type that a tensor will have is known before it is declared. */
static void blocks_are_known_early(void **state)
{
    (void)state;
    static const struct {
        whim_dtype dtype;
        int64_t k, block, group;
    } cases[] = {
        {WHIM_DTYPE_BF16, 300, 1, 1},    {WHIM_DTYPE_Q4_0, 64, 32, 32},
        {WHIM_DTYPE_Q4_K, 512, 256, 32}, {WHIM_DTYPE_Q4_K, 96, 32, 32},
        {WHIM_DTYPE_FP8, 1024, 128, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_ckpt ckpt = {.format = WHIM_CKPT_DUMMY,
                          .config = {.arch = &llama, .dtype = cases[i].dtype}};
        whim_binder binder;
        whim_binder_init(&binder);
        whim_param param = {.n = 8, .k = cases[i].k};
        int64_t group = 0;
        assert_int_equal(whim_bind_block(&binder, &param, NULL, "w.%d", 1), 1);
        binder.ckpt = &ckpt;
        assert_int_equal(whim_bind_block(&binder, &param, &group, "w.%d", 1), cases[i].block);
        assert_int_equal(group, cases[i].group);
        whim_binder_deinit(&binder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_columns),           cmocka_unit_test(heads_in_another_order),
        cmocka_unit_test(experts_are_cut_one_by_one), cmocka_unit_test(vectors_are_cut),
        cmocka_unit_test(experts_are_dealt),          cmocka_unit_test(blocks_are_known_early),
    };
    return cmocka_run_group_tests_name("bind_cut", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What recording makes of a layer: how many barriers, who makes the rows of products, where the
 * norms go. Nothing runs here; that the results stay the same is checkop's business ("chain"). */
#include "backends/cpu/stream.h"
#include "support/cmocka.h"

#include "base/os/cpu.h"

extern const whim_backend whim_backend_cpu;

enum {
    D = 64,
    HEADS = 2,
    KV = 1,
    D_HEAD = 32,
    FF = 128,
    ROWS = 64,
    WIDTH = (HEADS + 2 * KV) * D_HEAD
};

/* Memory to point into; never followed. */
static float x[ROWS * D], delta[ROWS * D], mlp_delta[ROWS * D], normed[ROWS * D],
    cos_sin[ROWS * D_HEAD];
static float qkv[ROWS * WIDTH], q[ROWS * D], k[ROWS * D], v[ROWS * D], attn[ROWS * D];
static float act[ROWS * FF], scratch[ROWS * FF], norm_w[D];
static char weights[1], pages[1];
static int32_t slots[ROWS], positions[ROWS], q_start[ROWS + 1], kv_len[ROWS], page_list[ROWS],
    page_start[ROWS];

typedef struct fixture {
    whim_device *dev;
    whim_stream *base;
    whim_cpu_stream *s;
} fixture;

static bool fixture_open(fixture *f, int32_t n_thread)
{
    whim_diag diag = {""};
    if (n_thread > whim_os_cpu_count()) {
        return false;
    }
    whim_device_cfg cfg = {.n_thread = n_thread};
    assert_int_equal(whim_backend_cpu.device_open(0, &cfg, &f->dev, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_stream_open(f->dev, &f->base, &diag), WHIM_ERR_OK);
    f->s = (whim_cpu_stream *)f->base;
    return true;
}

static void fixture_close(fixture *f)
{
    whim_stream_close(f->base);
    whim_device_close(f->dev);
}

#define RECORD(call) assert_int_equal(call, WHIM_ERR_OK)

static void linear(fixture *f, whim_dtype dtype, int64_t n, int64_t n_in, const float *from,
                   float *to, int64_t stride, int64_t n_row)
{
    RECORD(whim_op_linear(f->base, &(whim_linear_args){.w = {dtype, n, n_in, weights},
                                                       .x = from,
                                                       .x_stride = n_in,
                                                       .y = to,
                                                       .y_stride = stride,
                                                       .n_row = n_row}));
}

static void add_norm_of(fixture *f, const float *add, int64_t n_row)
{
    RECORD(whim_op_add_rmsnorm(f->base, &(whim_add_rmsnorm_args){.x = x,
                                                                 .x_stride = D,
                                                                 .delta = add,
                                                                 .delta_stride = D,
                                                                 .w = norm_w,
                                                                 .eps = 1e-5f,
                                                                 .y = normed,
                                                                 .y_stride = D,
                                                                 .n_row = n_row,
                                                                 .n_col = D}));
}

static void add_norm(fixture *f, int64_t n_row)
{
    add_norm_of(f, delta, n_row);
}

/* The ops of src/layers/decoder.c. */
static void layer(fixture *f, whim_dtype dtype, int64_t n_row)
{
    whim_kv_view kv = {.pages = pages,
                       .page_stride = 1 << 20,
                       .type = WHIM_KV_BF16,
                       .n_kv = KV,
                       .d_head = D_HEAD,
                       .page_len = WHIM_CPU_PAGE};
    add_norm_of(f, mlp_delta, n_row);
    linear(f, dtype, HEADS * D_HEAD, D, normed, qkv, WIDTH, n_row);
    linear(f, dtype, D_HEAD, D, normed, qkv + HEADS * D_HEAD, WIDTH, n_row);
    linear(f, dtype, D_HEAD, D, normed, qkv + (HEADS + KV) * D_HEAD, WIDTH, n_row);
    RECORD(whim_op_split_qkv_rmsnorm_rope(f->base, &(whim_split_qkv_rmsnorm_rope_args){
                                                       .qkv = qkv,
                                                       .qkv_stride = WIDTH,
                                                       .cos_sin = cos_sin,
                                                       .q = q,
                                                       .k = k,
                                                       .v = v,
                                                       .n_row = n_row,
                                                       .n_head = HEADS,
                                                       .n_kv = KV,
                                                       .d_head = D_HEAD,
                                                       .n_freq = D_HEAD / 2,
                                                   }));
    RECORD(whim_op_kv_write(
        f->base, &(whim_kv_write_args){.kv = kv, .k = k, .v = v, .slots = slots, .n_row = n_row}));
    RECORD(whim_op_attn_paged(f->base, &(whim_attn_paged_args){.kv = kv,
                                                               .q = q,
                                                               .q_start = q_start,
                                                               .kv_len = kv_len,
                                                               .positions = positions,
                                                               .pages = page_list,
                                                               .page_start = page_start,
                                                               .out = attn,
                                                               .scale = 1.0f,
                                                               .causal = true,
                                                               .n_row = n_row,
                                                               .n_seq = 1,
                                                               .n_head = HEADS,
                                                               .max_pages = ROWS}));
    linear(f, dtype, D, HEADS * D_HEAD, attn, delta, D, n_row);
    add_norm(f, n_row);
    RECORD(whim_op_linear_swiglu(f->base, &(whim_linear_swiglu_args){
                                              .gate = {dtype, FF, D, weights},
                                              .up = {dtype, FF, D, weights},
                                              .x = normed,
                                              .x_stride = D,
                                              .y = act,
                                              .y_stride = FF,
                                              .n_row = n_row,
                                          }));
    linear(f, dtype, D, FF, act, mlp_delta, D, n_row);
}

static int32_t barriers(const whim_cpu_stream *s, int64_t from)
{
    int32_t n = 0;
    for (int64_t i = from; i < s->n_list; i++) {
        n += s->list[i].barrier;
    }
    return n;
}

/* The barriers: norm, q, k, v | split | kv_write | attention | o | norm, gate, up | down */
static void a_layer_of_one_row(void **state)
{
    (void)state;
    const whim_dtype types[] = {WHIM_DTYPE_Q4_1, WHIM_DTYPE_F32};
    for (int32_t t = 0; t < 2; t++) {
        fixture f;
        if (!fixture_open(&f, 2)) {
            skip();
        }
        layer(&f, types[t], 1);
        int64_t from = f.s->n_list;
        layer(&f, types[t], 1);
        assert_int_equal(barriers(f.s, from), 7);
        fixture_close(&f);
    }
}

static const whim_cpu_product_args *product(const whim_cpu_stream *s, int64_t i)
{
    assert_true(s->list[i].kernel == s->dev->kernels->linear);
    return (const whim_cpu_product_args *)s->list[i].args;
}

/* Products of a norm's result go ahead of it; the first makes the rows, the others keep them. */
static void a_norm_waits(void **state)
{
    (void)state;
    fixture f;
    if (!fixture_open(&f, 2)) {
        skip();
    }
    add_norm(&f, 1);
    assert_int_equal(f.s->n_list, 0);
    linear(&f, WHIM_DTYPE_Q4_0, D, D, normed, q, D, 1);
    linear(&f, WHIM_DTYPE_Q4_0, D, D, normed, k, D, 1);
    linear(&f, WHIM_DTYPE_F32, D, D, normed, v, D, 1); /* wants floats: made again */
    assert_int_equal(f.s->n_list, 3);
    for (int64_t i = 0; i < 3; i++) {
        const whim_cpu_product_args *a = product(f.s, i);
        assert_ptr_equal(a->x, x);
        assert_ptr_equal(a->own.delta, delta);
        assert_ptr_equal(a->own.norm, norm_w);
        assert_true(a->own.used);
        assert_int_equal(a->own.kept, i == 1);
        assert_false(f.s->list[i].barrier);
    }
    linear(&f, WHIM_DTYPE_F32, D, D, q, attn, D, 1); /* reads a product: the barrier serves both */
    assert_int_equal(f.s->n_list, 5);
    assert_true(f.s->list[3].kernel == f.s->dev->kernels->add_rmsnorm && f.s->list[3].barrier);
    assert_ptr_equal(product(f.s, 4)->x, q);
    assert_false(f.s->list[4].barrier);
    fixture_close(&f);
}

/* What a product may not go ahead with: memory that the norm needs, other rows, or after somebody
 * else asked for the norm's result. */
static void a_norm_comes_first(void **state)
{
    (void)state;
    fixture f;
    if (!fixture_open(&f, 2)) {
        skip();
    }
    whim_cpu_kernel *norm = f.s->dev->kernels->add_rmsnorm;
    add_norm(&f, 1);
    linear(&f, WHIM_DTYPE_F32, D, D, normed, delta, D, 1); /* overwrites delta */
    assert_true(f.s->list[0].kernel == norm && f.s->list[1].barrier);
    add_norm(&f, 2);
    linear(&f, WHIM_DTYPE_F32, D, D, normed, q, D, 1); /* one row of two */
    assert_true(f.s->list[2].kernel == norm && f.s->list[3].barrier);
    assert_ptr_equal(product(f.s, 3)->x, normed);
    add_norm(&f, 1);
    RECORD(whim_op_gather_rows(f.base, &(whim_gather_rows_args){.x = x,
                                                                .x_stride = D,
                                                                .y = scratch,
                                                                .y_stride = D,
                                                                .n_src = 1,
                                                                .n_row = 1,
                                                                .n_col = D}));
    assert_true(f.s->list[4].kernel == norm && f.s->list[5].barrier);
    add_norm(&f, 1);
    add_norm(&f, 1); /* the first of two */
    assert_true(f.s->list[6].kernel == norm);
    assert_int_equal(f.s->n_list, 7);
    fixture_close(&f);
}

/* Many rows are quantised once by all workers, and a lone worker has nobody to wait for. */
static void many_rows_are_shared(void **state)
{
    (void)state;
    for (int32_t n_thread = 1; n_thread <= 2; n_thread++) {
        fixture f;
        if (!fixture_open(&f, n_thread)) {
            skip();
        }
        add_norm(&f, n_thread == 1 ? 1 : ROWS);
        linear(&f, WHIM_DTYPE_Q4_0, D, D, normed, q, D, n_thread == 1 ? 1 : ROWS);
        assert_int_equal(f.s->n_list, 3);
        assert_true(f.s->list[0].kernel == f.s->dev->kernels->add_rmsnorm);
        assert_true(f.s->list[1].kernel == f.s->dev->kernels->quantize_act);
        assert_false(product(f.s, 2)->own.used);
        fixture_close(&f);
    }
}

/* A list that fills up runs with the norm that waits. */
static void a_full_list(void **state)
{
    (void)state;
    fixture f;
    if (!fixture_open(&f, 2)) {
        skip();
    }
    for (int32_t i = 0; i < CPU_LIST_MAX - 2; i++) {
        RECORD(whim_op_add(
            f.base, &(whim_add_args){
                        .x = x, .x_stride = D, .y = delta, .y_stride = D, .n_row = 1, .n_col = 1}));
    }
    add_norm(&f, 1);
    assert_int_equal(f.s->n_list, CPU_LIST_MAX - 2);
    RECORD(whim_op_add(
        f.base,
        &(whim_add_args){.x = q, .x_stride = D, .y = k, .y_stride = D, .n_row = 1, .n_col = 1}));
    assert_int_equal(f.s->n_list, CPU_LIST_MAX - 1);
    add_norm(&f, 1);
    assert_int_equal(f.s->n_list, 0);
    RECORD(whim_stream_sync(f.base));
    assert_int_equal(f.s->n_list, 0);
    assert_int_equal(f.s->later.n_access, 0);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_of_one_row), cmocka_unit_test(a_norm_waits),
        cmocka_unit_test(a_norm_comes_first), cmocka_unit_test(many_rows_are_shared),
        cmocka_unit_test(a_full_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

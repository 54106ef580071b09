/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of the CUDA backend without a GPU: the loader's refusals, packing and the stream's
 * parts on a driver that is a few functions over the host's own memory. */
#include "backends/cuda/launch.h"

#include "base/math/rng.h"
#include "support/cmocka.h"

#include <stdlib.h>
#include <string.h>

/* --- loading ---------------------------------------------------------------------------------- */

static void test_loader_refuses(void **state)
{
    whim_cu_driver cu = {0};
    whim_diag diag = {{0}};
    (void)state;
    assert_int_equal(whim_cu_driver_load("libno-such-driver.so.1", &cu, &diag), WHIM_ERR_NOT_FOUND);
    assert_non_null(strstr(diag.text, "no driver"));
    assert_non_null(strstr(diag.text, "525"));
    /* A library that is another one. */
    assert_int_equal(whim_cu_driver_load("libm.so.6", &cu, &diag), WHIM_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "cuInit"));
}

/* --- a driver over the host's memory ---------------------------------------------------------- */

static int last_event, n_record, waited[8], n_wait;

static int fake_current(whim_cu_handle context)
{
    (void)context;
    return 0;
}

static int fake_copy(uint64_t dst, const void *src, size_t bytes)
{
    memcpy((void *)(uintptr_t)dst, src, bytes);
    return 0;
}

static int fake_stream(whim_cu_handle *stream, unsigned flags)
{
    (void)flags;
    *stream = &last_event;
    return 0;
}

static int fake_event(whim_cu_handle *event, unsigned flags)
{
    (void)flags;
    *event = (whim_cu_handle)(uintptr_t)++last_event;
    return 0;
}

static int fake_done(whim_cu_handle any)
{
    (void)any;
    return 0;
}

static int fake_record(whim_cu_handle event, whim_cu_handle stream)
{
    (void)event;
    (void)stream;
    n_record++;
    return 0;
}

static int fake_wait(whim_cu_handle event)
{
    waited[n_wait++ % 8] = (int)(uintptr_t)event;
    return 0;
}

static int fake_alloc(uint64_t *ptr, size_t bytes)
{
    *ptr = (uint64_t)(uintptr_t)malloc(bytes);
    return 0;
}

static int fake_free(uint64_t ptr)
{
    free((void *)(uintptr_t)ptr);
    return 0;
}

static int fake_set(uint64_t ptr, unsigned char value, size_t n)
{
    memset((void *)(uintptr_t)ptr, value, n);
    return 0;
}

/* What was started: which kernel, and the arguments of products of few rows. */
static whim_cu_handle started[8];
static whim_cuda_few_args started_args[8];
static unsigned started_grid[8];
static int n_started;

static bool is_kernel(int i, whim_cuda_kernel kernel)
{
    return started[i] == (whim_cu_handle)(uintptr_t)(kernel + 1);
}

static int fake_launch(const whim_cu_launch_config *config, whim_cu_handle function, void **args,
                       void **extra)
{
    (void)extra;
    assert_true(config->grid[0] > 0 && config->block[0] > 0 && n_started < 8);
    started[n_started] = function;
    started_grid[n_started] = config->grid[0];
    if (!is_kernel(n_started, WHIM_CUDA_K_tiles_bf16)) { /* which has arguments of its own */
        memcpy(&started_args[n_started], args[0], sizeof started_args[0]);
    }
    n_started++;
    return 0;
}

static const whim_cu_driver fake = {
    .cuMemAlloc_v2 = fake_alloc,
    .cuMemFree_v2 = fake_free,
    .cuMemsetD8_v2 = fake_set,
    .cuLaunchKernelEx = fake_launch,
    .cuCtxSetCurrent = fake_current,
    .cuMemcpyHtoD_v2 = fake_copy,
    .cuStreamCreate = fake_stream,
    .cuStreamDestroy_v2 = fake_done,
    .cuStreamSynchronize = fake_done,
    .cuEventCreate = fake_event,
    .cuEventDestroy_v2 = fake_done,
    .cuEventRecord = fake_record,
    .cuEventSynchronize = fake_wait,
};

static whim_cuda_device device = {.cu = &fake, .n_multiprocessor = 4};

/* --- packing ---------------------------------------------------------------------------------- */

/* Column i of row r as the tiles hold it; the reverse of packing, by the words of launch_args.h. */
static float packed_at(const char *packed, whim_dtype dtype, int64_t k, int64_t r, int64_t i)
{
    const whim_dtype_info *info = whim_dtype_get(dtype);
    int64_t lane = r % 16, tile = r / 16;
    uint8_t row[256];
    float y[256];
    if (info->kind == WHIM_DTYPE_KIND_FLOAT) {
        int64_t per = 16 / info->block_bytes, bytes = (k + per - 1) / per * 16 * 16;
        memcpy(row, packed + tile * bytes + whim_cuda_float_at(info->block_bytes, lane, i), 4);
        whim_dequant_row(dtype, row, y, 1);
        return y[0];
    }
    if (info->kind == WHIM_DTYPE_KIND_SCALED) {
        const char *at = packed + tile * ((k / 128) * 132 + 4) * 16;
        memcpy(row, at + (k / 128) * 128 * 16 + (i / 128 * 16 + lane) * 4, 4);
        memset(row + 4, 0, 128);
        row[4] = *(const uint8_t *)(at + whim_cuda_scaled_at(lane, i));
        whim_dequant_row(dtype, row, y, 128);
        return y[0];
    }
    whim_cuda_group_form form = whim_cuda_group_form_of(dtype);
    const char *at = packed + (tile * (k / 32) + i / 32) * (form.head_bytes + form.code_bytes) * 16;
    const char *head = at + form.code_bytes * 16 + lane * form.head_bytes;
    if (form.head_bytes < (int)sizeof(whim_cuda_wide_head)) {
        memcpy(row, head, (size_t)form.head_bytes);
        for (int v = 0; v < form.code_bytes / 16; v++) {
            memcpy(row + form.head_bytes + 16 * v, at + (v * 16 + lane) * 16, 16);
        }
        whim_dequant_row(dtype, row, y, 32);
        return y[i % 32];
    }
    whim_cuda_wide_head wide;
    memcpy(&wide, head, sizeof wide);
    int q = *(const int8_t *)(at + (i % 32 / 16 * 16 + lane) * 16 + i % 16);
    int half = (int)(i % 32 / 16);
    return (float)(wide.sc[half] * q) * wide.d + wide.m * (float)wide.mn[half];
}

/* Whether row r of FP8 is marked as one that has a NaN. */
static bool packed_nan(const char *packed, int64_t k, int64_t r)
{
    float mark;
    memcpy(&mark, packed + (r / 16 + 1) * whim_cuda_scaled_bytes(k) - (16 - r % 16) * 4, 4);
    assert_true(mark == 0.0f || mark != mark);
    return mark != mark;
}

static bool same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
}

static void check_type(whim_dtype dtype, int64_t n, int64_t k)
{
    int64_t row_bytes = whim_dtype_row_bytes(dtype, k);
    int64_t bytes = whim_cuda_weight_bytes(&device.base, dtype, n, k);
    uint8_t *file = malloc((size_t)(n * row_bytes));
    char *packed = malloc((size_t)bytes + 1);
    float *want = malloc((size_t)k * sizeof *want);
    assert_true(bytes > 0 && file != NULL && packed != NULL && want != NULL);
    packed[bytes] = 77;
    for (int64_t i = 0; i < n * row_bytes; i++) {
        file[i] = (uint8_t)whim_rng_at(7, (uint64_t)i);
    }
    for (int64_t row = 0; row < n; row += 64) { /* slabs, the last one shorter */
        int64_t slab = n - row < 64 ? n - row : 64;
        whim_pack pack = {dtype, n, k, row, slab, file + row * row_bytes, packed};
        assert_int_equal(whim_cuda_pack_weight(&device.base, &pack), WHIM_ERR_OK);
    }
    for (int64_t r = 0; r < n; r++) {
        whim_dequant_row(dtype, file + r * row_bytes, want, k);
        bool has_nan = false;
        for (int64_t i = 0; i < k; i++) {
            assert_true(same(packed_at(packed, dtype, k, r, i), want[i]));
            has_nan |= dtype == WHIM_DTYPE_FP8 && want[i] != want[i];
        }
        assert_true(dtype != WHIM_DTYPE_FP8 || packed_nan(packed, k, r) == has_nan);
    }
    assert_int_equal(packed[bytes], 77);
    free(file);
    free(packed);
    free(want);
}

static void test_packing(void **state)
{
    (void)state;
    for (int32_t t = 0; t < WHIM_DTYPE_COUNT; t++) {
        const whim_dtype_info *info = whim_dtype_get((whim_dtype)t);
        if (info->kind == WHIM_DTYPE_KIND_INT) {
            assert_int_equal(whim_cuda_weight_bytes(&device.base, (whim_dtype)t, 4, 4), -1);
            continue;
        }
        check_type((whim_dtype)t, 70, info->kind == WHIM_DTYPE_KIND_FLOAT ? 13 : 256);
        check_type((whim_dtype)t, 1, info->kind == WHIM_DTYPE_KIND_FLOAT ? 1 : 256);
    }
}

static void test_packing_refuses(void **state)
{
    float x[64] = {0}, y[64 * 32];
    (void)state;
    whim_pack ok = {WHIM_DTYPE_F32, 40, 4, 32, 8, x, y};
    assert_int_equal(whim_cuda_pack_weight(&device.base, &ok), WHIM_ERR_OK);
    whim_pack in_tile = {WHIM_DTYPE_F32, 40, 4, 8, 8, x, y};
    assert_int_equal(whim_cuda_pack_weight(&device.base, &in_tile), WHIM_ERR_INVALID);
    whim_pack beyond = {WHIM_DTYPE_F32, 40, 4, 32, 9, x, y};
    assert_int_equal(whim_cuda_pack_weight(&device.base, &beyond), WHIM_ERR_INVALID);
    assert_int_equal(whim_cuda_weight_bytes(&device.base, WHIM_DTYPE_Q4_0, 8, 33), -1);
    assert_int_equal(whim_cuda_weight_bytes(&device.base, WHIM_DTYPE_F32, INT64_MAX, 4), -1);
}

/* --- the stream ------------------------------------------------------------------------------- */

/* The third event waits for the first part; parts that are too old or not there are refused. */
static void test_parts(void **state)
{
    whim_stream *s = NULL;
    whim_diag diag;
    whim_event number = 0;
    (void)state;
    last_event = n_record = n_wait = 0;
    assert_int_equal(whim_cuda_stream_open(&device.base, &s, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_stream_wait(s, 1), WHIM_ERR_INVALID);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(whim_stream_record(s, &number), WHIM_ERR_OK);
        assert_int_equal(number, i);
    }
    assert_int_equal(n_wait, 0);
    assert_int_equal(whim_stream_record(s, &number), WHIM_ERR_OK);
    assert_int_equal(number, 3);
    assert_int_equal(n_wait, 1);
    assert_int_equal(n_record, 3);
    assert_int_equal(whim_stream_wait(s, 1), WHIM_ERR_INVALID);
    assert_int_equal(whim_stream_wait(s, 2), WHIM_ERR_OK);
    assert_int_equal(whim_stream_wait(s, 3), WHIM_ERR_OK);
    assert_int_not_equal(waited[1], waited[2]);
    assert_int_equal(waited[0], waited[2]); /* part 3 has the event of part 1 */
    whim_stream_close(s);
}

/* --- products that wait for each other -------------------------------------------------------- */

/* A device with tables, whose kernels are their numbers, and a stream of it. */
static whim_stream *stream_make(void)
{
    whim_stream *s = NULL;
    whim_diag diag;
    whim_cuda_ops_init(&device.ops);
    for (int i = 0; i < WHIM_CUDA_KERNEL_COUNT; i++) {
        device.kernels[i] = (whim_cu_handle)(uintptr_t)(i + 1);
    }
    n_started = 0;
    assert_int_equal(whim_cuda_stream_open(&device.base, &s, &diag), WHIM_ERR_OK);
    return s;
}

/* Products of the same rows are one launch, which comes when something else is queued. */
static void test_products_join(void **state)
{
    float x[64] = {0}, y[4 * 40];
    whim_event event;
    (void)state;
    whim_stream *s = stream_make();
    whim_linear_args a = {.w = {WHIM_DTYPE_Q4_0, 16, 64, x}, .x = x, .x_stride = 64, .n_row = 1};
    for (int i = 0; i < 3; i++) {
        a.y = y + 16 * i;
        a.y_stride = 48;
        assert_int_equal(whim_cuda_linear(s, &a), WHIM_ERR_OK);
        assert_int_equal(n_started, 0);
    }
    assert_int_equal(whim_stream_record(s, &event), WHIM_ERR_OK);
    assert_int_equal(n_started, 1);
    assert_true(is_kernel(0, WHIM_CUDA_K_few_q4_0_1));
    assert_int_equal(started_args[0].n_matrix, 3);
    assert_ptr_equal(started_args[0].matrix[2].y, y + 32);
    whim_stream_close(s);
}

/* Other rows, another type and outputs that share memory make a launch of their own. */
static void test_products_part(void **state)
{
    float x[128] = {0}, y[4 * 40];
    (void)state;
    whim_linear_args first = {.w = {WHIM_DTYPE_F16, 16, 64, x},
                              .x = x,
                              .x_stride = 64,
                              .y = y,
                              .y_stride = 40,
                              .n_row = 2};
    whim_linear_args others[] = {first, first, first, first, first};
    others[0].x = x + 4;
    others[1].n_row = 1;
    others[1].w.dtype = WHIM_DTYPE_F32; /* which has kernels of its own for more rows */
    others[2].y = y + 8;                /* columns that overlap */
    others[3].y = y + 30;               /* the end of a row is the next one's beginning */
    others[4].y_stride = 20;            /* the same rows */
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        whim_stream *s = stream_make();
        assert_int_equal(whim_cuda_linear(s, &first), WHIM_ERR_OK);
        assert_int_equal(whim_cuda_linear(s, &others[i]), WHIM_ERR_OK);
        assert_int_equal(n_started, 1);
        assert_int_equal(whim_stream_sync(s), WHIM_ERR_OK);
        assert_int_equal(n_started, 2);
        assert_int_equal(started_args[1].n_matrix, 1);
        whim_stream_close(s);
    }
    whim_stream *s = stream_make();
    whim_linear_args beside = first;
    beside.y = y + 16; /* columns of the same rows */
    assert_int_equal(whim_cuda_linear(s, &first), WHIM_ERR_OK);
    assert_int_equal(whim_cuda_linear(s, &beside), WHIM_ERR_OK);
    assert_int_equal(whim_stream_sync(s), WHIM_ERR_OK);
    assert_int_equal(n_started, 1);
    whim_stream_close(s);
}

/* Few rows of BF16 go through as many tiles at once as leave the busiest of four multiprocessors the
 * least. */
static void test_products_share(void **state)
{
    enum { K = 1 << 17 }; /* of which 16 rows are 4 MiB */
    static const struct {
        int64_t n;
        whim_cuda_kernel kernel;
        unsigned grid;
    } cases[] = {
        {8 * 16, WHIM_CUDA_K_mm_few_2, 4},
        {12 * 16, WHIM_CUDA_K_mm_few_3, 4},
        {16 * 16, WHIM_CUDA_K_mm_few_4, 4},
        {1 << 20, WHIM_CUDA_K_mm_few_4, 4},
    };
    static float x[K];
    static uint16_t tiles[16 * K];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_stream *s = stream_make();
        whim_linear_args a = {.w = {WHIM_DTYPE_BF16, cases[i].n, K, x},
                              .x = x,
                              .x_stride = K,
                              .y = x,
                              .y_stride = cases[i].n,
                              .n_row = 1};
        whim_cuda_made_set(s, x, K, 1, K, (whim_cuda_left){tiles, 16});
        s->workspace = (whim_workspace){.base = (char *)tiles, .bytes = sizeof tiles};
        assert_int_equal(whim_cuda_linear(s, &a), WHIM_ERR_OK);
        assert_int_equal(whim_cuda_flush(s), WHIM_ERR_OK);
        assert_int_equal(n_started, 1);
        assert_true(is_kernel(0, cases[i].kernel));
        assert_int_equal(started_grid[0], cases[i].grid);
        s->workspace = (whim_workspace){0};
        whim_stream_close(s);
    }
}

/* 9 to 64 rows: clusters share k where they can have all outputs at once, and rows lie in one tile. */
static void test_products_some_rows(void **state)
{
    enum { K = 256, ROWS = 17 };
    static const struct {
        int64_t n_tile;
        whim_cuda_kernel kernel;
        unsigned grid;
    } cases[] = {
        {1, WHIM_CUDA_K_mm_rows_split_4, 4},   {9, WHIM_CUDA_K_mm_rows_split_9, 4},
        {13, WHIM_CUDA_K_mm_rows_split_13, 4}, {14, WHIM_CUDA_K_mm_rows_4, 4},
        {48, WHIM_CUDA_K_mm_rows_12, 4},       {1000, WHIM_CUDA_K_mm_rows_12, 4},
    };
    static float x[ROWS * K];
    (void)state;
    device.has_wide = true;
    device.n_cluster = 1;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_stream *s = stream_make();
        whim_linear_args a = {.w = {WHIM_DTYPE_BF16, cases[i].n_tile * 16, K, x},
                              .x = x,
                              .x_stride = K,
                              .y = x,
                              .y_stride = cases[i].n_tile * 16,
                              .n_row = ROWS};
        whim_cuda_left left = whim_cuda_made_place(s, WHIM_CUDA_MADE_NORM, ROWS, K);
        assert_int_equal(left.rows, 32);
        whim_cuda_made_set(s, x, K, ROWS, K, left);
        s->workspace = (whim_workspace){.base = (char *)x, .bytes = sizeof x};
        assert_int_equal(whim_cuda_linear(s, &a), WHIM_ERR_OK);
        assert_int_equal(whim_cuda_flush(s), WHIM_ERR_OK);
        assert_int_equal(n_started, 1);
        assert_true(is_kernel(0, cases[i].kernel));
        assert_int_equal(started_grid[0], cases[i].grid);
        s->workspace = (whim_workspace){0};
        whim_stream_close(s);
    }
    device.has_wide = false;
}

/* Many rows are one launch, whose blocks take items in turns. */
static void test_products_many_rows(void **state)
{
    enum { K = 64, N = 512, ROWS = 1000 };
    static float x[ROWS * K], y[ROWS * N];
    static uint16_t space[1152 * K];
    (void)state;
    device.has_wide = true;
    whim_stream *s = stream_make();
    whim_linear_args a = {.w = {WHIM_DTYPE_BF16, N, K, x},
                          .x = x,
                          .x_stride = K,
                          .y = y,
                          .y_stride = N,
                          .n_row = ROWS};
    s->workspace = (whim_workspace){.base = (char *)space, .bytes = sizeof space};
    whim_cuda_made_set(s, x, K, ROWS, K, (whim_cuda_left){space, 192});
    assert_int_equal(whim_cuda_linear(s, &a), WHIM_ERR_OK);
    assert_int_equal(whim_cuda_flush(s), WHIM_ERR_OK);
    assert_int_equal(n_started, 1);
    assert_true(is_kernel(0, WHIM_CUDA_K_mm_bulk_192));
    assert_int_equal(started_grid[0], 4);
    assert_int_equal(started_args[0].n_row, ROWS);
    assert_ptr_equal(started_args[0].tiles, space);
    s->workspace = (whim_workspace){0};
    whim_stream_close(s);
    device.has_wide = false;
}

/* FP8: few rows by a block on each multiprocessor, others by blocks of 16 and 32 rows with two tiles
 * of outputs each, or where there is the wider unit by what it has. Rows that may have been left in
 * tiles of another size are made anew. */
static void test_products_fp8(void **state)
{
    enum { K = 128, N = 5 * 16, MOST = 100 };
    static const struct {
        bool wide;
        int64_t n_row;
        whim_cuda_kernel kernel;
        unsigned grid;
        int made; /* tiles first */
    } cases[] = {
        {false, 1, WHIM_CUDA_K_mm_fp8_few_2, 3, 0},
        {false, 8, WHIM_CUDA_K_mm_fp8_few_2, 3, 0},
        {false, 9, WHIM_CUDA_K_mm_fp8_2, 3, 1},
        {false, 17, WHIM_CUDA_K_mm_fp8_4, 3, 1},
        {false, 33, WHIM_CUDA_K_mm_fp8_4, 6, 1},
        {true, 8, WHIM_CUDA_K_mm_fp8_few_2, 3, 0},
        {true, 9, WHIM_CUDA_K_mm_fp8_rows_split_16, 4, 0},
        {true, 33, WHIM_CUDA_K_mm_fp8_rows_split_64, 4, 0},
        {true, MOST, WHIM_CUDA_K_mm_fp8_bulk_128, 2, 1},
    };
    static float x[MOST * K], y[MOST * N];
    static uint16_t tiles[WHIM_CUDA_TILES_UNIT * K];
    (void)state;
    device.n_cluster = 1;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        device.has_wide = cases[i].wide;
        whim_stream *s = stream_make();
        int64_t n_row = cases[i].n_row;
        int last = cases[i].made;
        whim_linear_args a = {.w = {WHIM_DTYPE_FP8, N, K, x},
                              .x = x,
                              .x_stride = K,
                              .y = y,
                              .y_stride = N,
                              .n_row = n_row};
        s->workspace = (whim_workspace){.base = (char *)tiles, .bytes = sizeof tiles};
        whim_cuda_made_set(s, x, K, n_row, K,
                           whim_cuda_made_place(s, WHIM_CUDA_MADE_NORM, n_row, K));
        assert_int_equal(whim_cuda_linear(s, &a), WHIM_ERR_OK);
        assert_int_equal(whim_cuda_flush(s), WHIM_ERR_OK);
        assert_int_equal(n_started, last + 1);
        assert_true(last == 0 || is_kernel(0, WHIM_CUDA_K_tiles_bf16));
        assert_true(is_kernel(last, cases[i].kernel));
        assert_int_equal(started_grid[last], cases[i].grid);
        s->workspace = (whim_workspace){0};
        whim_stream_close(s);
    }
    device.has_wide = false;
}

/* --- what an op needs ------------------------------------------------------------------------- */

static void test_workspace(void **state)
{
    (void)state;
    whim_linear_args a = {.w = {.dtype = WHIM_DTYPE_Q4_0, .n = 8, .k = 64}, .n_row = 3};
    assert_int_equal(whim_cuda_op_workspace(&device.base, WHIM_OP_linear, &a),
                     3 * 2 * (int64_t)sizeof(whim_q8_block));
    a.w.dtype = WHIM_DTYPE_F32;
    assert_int_equal(whim_cuda_op_workspace(&device.base, WHIM_OP_linear, &a), 0);
    a.w.dtype = WHIM_DTYPE_BF16; /* a whole tile of rows */
    assert_int_equal(whim_cuda_op_workspace(&device.base, WHIM_OP_linear, &a), 16 * 64 * 2);
    assert_true(whim_cuda_op_accepts(&device.base, WHIM_OP_linear, &a));
    a.x_type = WHIM_ACT_FP8;
    assert_false(whim_cuda_op_accepts(&device.base, WHIM_OP_linear, &a));
}

/* The dry run sees the largest step: fewer rows may not need more. */
static void test_workspace_grows(void **state)
{
    int64_t last[2] = {0, 0};
    (void)state;
    for (int64_t n_row = 1; n_row < 200; n_row++) {
        whim_attn_paged_args attn = {.kv = {.n_kv = 2, .d_head = 64, .page_len = 64},
                                     .n_row = n_row,
                                     .n_head = 4,
                                     .max_pages = 100};
        whim_linear_args linear = {.w = {.dtype = WHIM_DTYPE_Q4_0, .n = 8, .k = 64},
                                   .n_row = n_row};
        int64_t now[] = {whim_cuda_op_workspace(&device.base, WHIM_OP_attn_paged, &attn),
                         whim_cuda_op_workspace(&device.base, WHIM_OP_linear, &linear)};
        for (int i = 0; i < 2; i++) {
            assert_true(now[i] >= last[i]);
            last[i] = now[i];
        }
    }
    assert_true(last[0] > 0 && last[1] > 0);
}

/* No rows (a step of which nobody wants a result): the plan of earlier rows is not to be followed. */
static void test_experts_no_rows(void **state)
{
    enum { EXPERTS = 6, D = 64, MEMORY = 1 << 16 };
    static float x[D], memory[MEMORY];
    whim_weight stack = {WHIM_DTYPE_BF16, EXPERTS * D, D, x};
    whim_moe_experts_args a = {.gate = stack,
                               .up = stack,
                               .down = stack,
                               .x = x,
                               .x_stride = D,
                               .weights = x,
                               .y = x,
                               .y_stride = D,
                               .n_expert = EXPERTS,
                               .k_top = 2};
    (void)state;
    device.has_wide = true;
    whim_stream *s = stream_make();
    s->workspace = (whim_workspace){.base = (char *)memory, .bytes = sizeof memory};
    assert_int_equal(whim_cuda_moe_experts(s, &a), WHIM_ERR_OK);
    assert_int_equal(whim_cuda_flush(s), WHIM_ERR_OK);
    assert_int_equal(n_started, 0);
    s->workspace = (whim_workspace){0};
    whim_stream_close(s);
    device.has_wide = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loader_refuses),     cmocka_unit_test(test_packing),
        cmocka_unit_test(test_packing_refuses),    cmocka_unit_test(test_parts),
        cmocka_unit_test(test_workspace),          cmocka_unit_test(test_workspace_grows),
        cmocka_unit_test(test_products_join),      cmocka_unit_test(test_products_part),
        cmocka_unit_test(test_products_fp8),       cmocka_unit_test(test_products_share),
        cmocka_unit_test(test_products_some_rows), cmocka_unit_test(test_products_many_rows),
        cmocka_unit_test(test_experts_no_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

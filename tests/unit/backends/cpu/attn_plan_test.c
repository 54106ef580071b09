/* SPDX-License-Identifier: Apache-2.0 */
/* Attention cut into items: every pair and segment exactly once, split where it pays and only
 * there, and on any number of workers the bits of the law. */
#include "backends/cpu/attn_plan.h"
#include "backends/cpu/cpu.h"
#include "base/alloc.h"
#include "support/cmocka.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SEQ = 6, MAX_PAIRS = 400, MAX_SEGMENTS = 24, N_KV = 3 };

static int32_t q_start[MAX_SEQ + 1], kv_len[MAX_SEQ];

static whim_attn_paged_args call_of(int64_t n_seq, int64_t group)
{
    return (whim_attn_paged_args){.kv = {.n_kv = N_KV, .d_head = 8},
                                  .q_start = q_start,
                                  .kv_len = kv_len,
                                  .n_seq = n_seq,
                                  .n_head = N_KV * group};
}

static void sequences(int64_t n_seq, const int32_t *rows, const int32_t *len)
{
    for (int64_t i = 0; i < n_seq; i++) {
        q_start[i + 1] = q_start[i] + rows[i];
        kv_len[i] = len[i];
    }
}

/* Walk all items and count how often each (sequence, KV head, pair, segment) is met. */
static void check_cover(const whim_attn_plan *plan, int64_t group)
{
    static unsigned char hit[MAX_SEQ][N_KV][MAX_PAIRS][MAX_SEGMENTS];
    memset(hit, 0, sizeof hit);
    whim_attn_cursor cursor = {0};
    for (int64_t i = 0; i < plan->n_item; i++) {
        whim_attn_item item;
        whim_attn_plan_item(plan, i, &cursor, &item);
        assert_in_range(item.n_pair, 1, plan->unit_pairs);
        assert_in_range(item.unit, 0, plan->n_unit - 1);
        for (int64_t p = item.first; p < item.first + item.n_pair; p++) {
            hit[item.seq][item.kv_head][p][item.segment]++;
        }
        if (!plan->split) {
            assert_int_equal(item.n_segment, 1);
        } else {
            assert_true(item.slot + item.segment < plan->n_item);
        }
    }
    for (int64_t s = 0; s < plan->a->n_seq; s++) {
        int64_t pairs = (q_start[s + 1] - q_start[s]) * group;
        int64_t segments = kv_len[s] > 0 ? (kv_len[s] + WHIM_KV_SEGMENT - 1) / WHIM_KV_SEGMENT : 1;
        for (int64_t i = 0; i < N_KV * MAX_PAIRS * MAX_SEGMENTS; i++) {
            int64_t g = i % MAX_SEGMENTS, p = i / MAX_SEGMENTS % MAX_PAIRS;
            bool there = p < pairs && g < (plan->split ? segments : 1);
            assert_int_equal(hit[s][i / MAX_SEGMENTS / MAX_PAIRS][p][g], there);
        }
    }
}

static void every_pair_once(void **state)
{
    (void)state;
    static const int32_t rows[] = {0, 1, 7, 64, 0, 3}, len[] = {600, 9000, 7, 64, 0, 513};
    static const int64_t groups[] = {1, 3, 5};
    sequences(MAX_SEQ, rows, len);
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        for (int32_t n_worker = 1; n_worker <= 64; n_worker *= 2) {
            for (int64_t n_seq = 0; n_seq <= MAX_SEQ; n_seq++) {
                whim_attn_paged_args a = call_of(n_seq, groups[g]);
                whim_attn_plan plan;
                whim_attn_plan_make(&plan, &a, 16, 4, n_worker);
                check_cover(&plan, groups[g]);
            }
        }
    }
}

static whim_attn_plan plan_of(int32_t rows, int32_t len, int32_t n_worker, int64_t d_head)
{
    static whim_attn_paged_args a;
    sequences(1, &rows, &len);
    a = call_of(1, 3);
    a.kv.d_head = d_head;
    whim_attn_plan plan;
    whim_attn_plan_make(&plan, &a, WHIM_ATTN_UNIT_MAX, 4, n_worker);
    return plan;
}

static void split_where_it_pays(void **state)
{
    (void)state;
    whim_attn_plan plan = plan_of(1, 8192, 2, 64);
    assert_true(plan.split);
    assert_int_equal(plan.n_item, N_KV * 16);
    assert_false(plan_of(1, 8192, 1, 64).split);
    assert_false(plan_of(1, 512, 2, 64).split);
    assert_false(plan_of(512, 8192, 2, 64).split);
    /* Sums that do not fit the shared memory. */
    assert_false(plan_of(1, 8192, 2, 16384).split);
    /* A short context is split by query head, when there are more workers than KV heads. */
    assert_int_equal(plan_of(1, 100, 2, 64).n_item, N_KV);
    assert_int_equal(plan_of(1, 100, 8, 64).n_item, 3 * N_KV);
    /* Few rows are cut into as many pairs as go together. */
    assert_int_equal(plan_of(4, 200, 2, 64).n_item, 3 * N_KV);
    /* A prompt that one unit could hold still feeds all workers. */
    assert_true(plan_of(20, 20, 2, 64).n_item >= 8);
}

/* --- on workers ------------------------------------------------------------------------------- */

enum {
    ROWS = 5,
    HEADS = 6,
    D = 20,
    KV = 2,
    LEN = 1700,
    PAGES = (LEN + WHIM_CPU_PAGE - 1) / WHIM_CPU_PAGE
};

typedef struct subject {
    whim_kv_view kv;
    float *k, *v, *q, *out;
    int32_t *slots, table[PAGES], positions[ROWS], start[3], len[2];
} subject;

static float *floats(int64_t n)
{
    float *x = whim_alloc_array(n, sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)(rand() % 2001 - 1000) / 500.0f;
    }
    return x;
}

static void subject_make(subject *s, whim_kv_type type)
{
    *s = (subject){.start = {0, 1, ROWS}, .len = {LEN, LEN - 700}};
    int64_t bytes = whim_kv_layer_bytes(KV, D, type, WHIM_CPU_PAGE);
    s->kv = (whim_kv_view){
        .page_stride = bytes, .n_kv = KV, .d_head = D, .type = type, .page_len = WHIM_CPU_PAGE};
    s->k = floats(PAGES * WHIM_CPU_PAGE * KV * D);
    s->v = floats(PAGES * WHIM_CPU_PAGE * KV * D);
    s->q = floats(ROWS * HEADS * D);
    s->out = floats(ROWS * HEADS * D);
    s->kv.pages = whim_alloc_array(PAGES, bytes);
    s->slots = whim_alloc_array(PAGES * WHIM_CPU_PAGE, sizeof *s->slots);
    assert_non_null(s->kv.pages);
    assert_non_null(s->slots);
    for (int32_t i = 0; i < PAGES * WHIM_CPU_PAGE; i++) {
        s->slots[i] = i;
        s->table[i / WHIM_CPU_PAGE] = PAGES - 1 - i / WHIM_CPU_PAGE;
    }
    for (int32_t i = 0; i < ROWS; i++) {
        s->positions[i] = i == 0 ? LEN - 1 : LEN - 700 - ROWS + i;
    }
}

static void subject_free(subject *s)
{
    whim_free(s->k);
    whim_free(s->v);
    whim_free(s->q);
    whim_free(s->out);
    whim_free(s->kv.pages);
    whim_free(s->slots);
}

/* Two sequences that read the same pages: one row, and four. */
static whim_attn_paged_args attn_args(const subject *s, int32_t window)
{
    static int32_t table[2 * PAGES];
    static const int32_t page_start[] = {0, PAGES};
    memcpy(table, s->table, sizeof s->table);
    memcpy(table + PAGES, s->table, sizeof s->table);
    return (whim_attn_paged_args){.kv = s->kv,
                                  .q = s->q,
                                  .q_start = s->start,
                                  .kv_len = s->len,
                                  .positions = s->positions,
                                  .pages = table,
                                  .page_start = page_start,
                                  .out = s->out,
                                  .scale = 0.5f,
                                  .causal = true,
                                  .window = window,
                                  .n_row = ROWS,
                                  .n_seq = 2,
                                  .n_head = HEADS,
                                  .max_pages = 2 * PAGES};
}

static whim_kv_write_args write_args(const subject *s)
{
    return (whim_kv_write_args){
        .kv = s->kv, .k = s->k, .v = s->v, .slots = s->slots, .n_row = PAGES * WHIM_CPU_PAGE};
}

static void law_run(const subject *s, int32_t window, float *out)
{
    whim_stream law;
    whim_law_stream_init(&law);
    whim_kv_write_args w = write_args(s);
    whim_attn_paged_args a = attn_args(s, window);
    assert_int_equal(whim_op_kv_write(&law, &w), WHIM_ERR_OK);
    assert_int_equal(whim_op_attn_paged(&law, &a), WHIM_ERR_OK);
    memcpy(out, s->out, ROWS * HEADS * D * sizeof *out);
}

/* The same command several times: what a call leaves behind must not disturb the next. */
static void workers_run(const subject *s, int32_t window, int32_t n_worker,
                        whim_attn_shared *shared)
{
    const whim_cpu_kernels *kernels = whim_cpu_level_find(NULL);
    whim_cpu_command commands[4] = {{.kernel = kernels->kv_write}};
    whim_kv_write_args w = write_args(s);
    memcpy(commands[0].args, &w, sizeof w);
    whim_cpu_attn_args a = {.op = attn_args(s, window), .shared = shared};
    for (int32_t i = 1; i < 4; i++) {
        commands[i] = (whim_cpu_command){.kernel = kernels->attn_paged, .barrier = true};
        memcpy(commands[i].args, &a, sizeof a);
    }
    whim_attn_plan plan;
    whim_attn_plan_make(&plan, &a.op, WHIM_ATTN_UNIT_MAX, 4, n_worker);
    assert_int_equal(plan.split, n_worker > 1);
    whim_cpu_workers pool;
    assert_int_equal(whim_cpu_workers_init(&pool, n_worker, 0, 1, NULL), WHIM_ERR_OK);
    memset(s->out, 0, ROWS * HEADS * D * sizeof *s->out);
    whim_cpu_workers_run(&pool, commands, 4);
    whim_cpu_workers_deinit(&pool);
    for (int32_t i = 0; i < WHIM_ATTN_COUNTERS; i++) {
        assert_int_equal(atomic_load(&shared->done[i]), 0);
    }
}

static void bits_of_the_law_on_any_workers(void **state)
{
    (void)state;
    static const int32_t windows[] = {0, 600};
    whim_attn_shared *shared = whim_alloc(sizeof *shared);
    assert_non_null(shared);
    for (int32_t type = 0; type < WHIM_KV_TYPE_COUNT; type++) {
        subject s;
        subject_make(&s, (whim_kv_type)type);
        for (int32_t i = 0; i < 2; i++) {
            float want[ROWS * HEADS * D];
            law_run(&s, windows[i], want);
            for (int32_t n_worker = 1; n_worker <= 5; n_worker++) {
                workers_run(&s, windows[i], n_worker, shared);
                assert_memory_equal(s.out, want, sizeof want);
            }
        }
        subject_free(&s);
    }
    whim_free(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_once),
        cmocka_unit_test(split_where_it_pays),
        cmocka_unit_test(bits_of_the_law_on_any_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

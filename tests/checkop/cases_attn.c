/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of attention over pages. The pages are filled by kv_write on the side that reads them,
 * since their layout is the backend's. param[] of a case: see enum below. */
#include "checkop/cases_kv.h"

#include "base/check.h"

enum {
    P_MAX_LEN,
    P_N_SEQ,
    P_MAX_PAGES,
    P_N_PAGE,
    P_KV_LEN,
    P_POSITIONS,
    P_TABLE,
    P_PAGE_START,
    P_START,
    P_ALONE
};

typedef struct attn_shape {
    kv_shape kv;
    int64_t n_seq, rows, ratio, max_len; /* rows: at most, for each sequence */
    bool causal;
    int32_t window;
    bool wild;
    int32_t first;
} attn_shape;

#define ATTN_KV(type, n_kv, d_head, n_page, layers)              \
    {                                                            \
        WHIM_KV_##type, n_kv, d_head, n_page, layers, layers - 1 \
    }

static const attn_shape hostile[] = {
    {ATTN_KV(BF16, 3, 64, 8, 1), 0, 0, 3, 60, true, 0, false},
    {ATTN_KV(BF16, 3, 64, 8, 2), 1, 1, 3, 1, true, 0, false},
    {ATTN_KV(F32, 1, 20, 8, 1), 3, 5, 1, 33, true, 0, false},
    {ATTN_KV(F16, 2, 80, 20, 3), 2, 7, 2, 600, true, 0, false},
    {ATTN_KV(BF16, 1, 128, 40, 1), 1, 2, 7, 1100, true, 0, false},
    {ATTN_KV(F32, 2, 16, 40, 1), 2, 3, 8, 1061, false, 0, false},
    {ATTN_KV(F16, 1, 256, 24, 2), 1, 2, 4, 545, true, 100, false},
    {ATTN_KV(BF16, 2, 96, 40, 1), 2, 2, 5, 1030, true, 513, false},
    {ATTN_KV(F32, 1, 33, 20, 1), 2, 7, 6, 530, false, 31, false},
    {ATTN_KV(BF16, 1, 17, 8, 1), 2, 3, 1, 100, true, 1, false},
    {ATTN_KV(F32, 2, 32, 8, 1), 2, 3, 2, 70, true, 0, true},
    {ATTN_KV(BF16, 1, 48, 20, 1), 2, 3, 3, 520, true, 0, true},
    {ATTN_KV(F16, 1, 64, 8, 1), 2, 3, 1, 70, false, 0, true},
    {ATTN_KV(BF16, 1, 4, 16, 1), CHECKOP_MANY, 1, 1, 3, true, 0, false},
    {ATTN_KV(F32, 1, 3, 4, 1), 1, CHECKOP_MANY, 1, 2, false, 0, false},
    /* Many rows and heads together: whole blocks, tails, pages widened once for all. */
    {ATTN_KV(BF16, 3, 64, 24, 1), 1, 45, 3, 600, true, 0, false},
    {ATTN_KV(Q8, 2, 33, 20, 2), 3, 40, 2, 200, true, 0, false},
    {ATTN_KV(F16, 1, 80, 20, 1), 2, 37, 4, 580, true, 70, false},
    {ATTN_KV(F32, 1, 20, 20, 1), 2, 70, 1, 530, false, 0, false},
    {ATTN_KV(BF16, 1, 16, 8, 1), 2, 3, 71, 90, true, 0, false},
    {ATTN_KV(BF16, 1, 48, 20, 1), 2, 30, 3, 520, true, 0, true},
    {ATTN_KV(Q8, 1, 48, 20, 1), 2, 30, 3, 520, true, 0, true},
    {ATTN_KV(BF16, 1, 2048, 4, 1), 1, 5, 3, 60, true, 0, false},
    {ATTN_KV(Q8, 1, 16384, 2, 1), 1, 1, 2, 10, true, 0, false},
    /* Few rows over several segments: split among the workers. */
    {ATTN_KV(BF16, 1, 64, 80, 1), 1, 1, 3, 2100, true, 0, false},
    {ATTN_KV(Q8, 2, 64, 70, 1), 2, 2, 3, 2048, true, 0, false},
    {ATTN_KV(F16, 1, 20, 50, 1), 3, 3, 2, 1537, true, 700, false},
    {ATTN_KV(F32, 2, 24, 50, 1), 1, 4, 5, 1500, false, 0, true},
    /* Keys at the front that nobody sees: one, with rows that then see none, and a segment. */
    {ATTN_KV(F32, 2, 24, 8, 1), 3, 5, 2, 3, true, 0, false, 1},
    {ATTN_KV(BF16, 2, 64, 50, 1), 2, 4, 3, 1100, true, 0, false, 1},
    {ATTN_KV(BF16, 1, 64, 80, 1), 1, 1, 3, 2100, true, 1500, false, 600},
    {ATTN_KV(F16, 1, 32, 8, 1), 2, 20, 2, 70, false, 5, false, 33},
    /* A rank without heads, and one without those of q. */
    {ATTN_KV(BF16, 0, 64, 8, 2), 3, 5, 3, 90, true, 0, false},
    {ATTN_KV(Q8, 0, 32, 4, 1), 1, 1, 1, 20, true, 0, false},
    {ATTN_KV(BF16, 2, 64, 8, 1), 3, 5, 0, 90, true, 0, false},
};
enum { N_HOSTILE = sizeof hostile / sizeof hostile[0] };

static attn_shape shape_random(checkop_rng *rng, int32_t page_len)
{
    attn_shape s = {0};
    s.kv.type = (whim_kv_type)checkop_range(rng, 0, WHIM_KV_TYPE_COUNT - 1);
    s.kv.n_kv = checkop_range(rng, 1, 3);
    s.kv.d_head = checkop_pick(rng, 16, 20, 32, 64, 80, 96, 128, 192, 256);
    s.kv.layers = checkop_range(rng, 1, 3);
    s.kv.layer = checkop_range(rng, 0, s.kv.layers - 1);
    s.ratio = checkop_range(rng, 1, s.kv.d_head > 96 ? 3 : 8);
    s.n_seq = checkop_range(rng, 1, 4);
    s.rows = checkop_pick(rng, 1, 1, 2, checkop_range(rng, 1, 12));
    s.max_len = checkop_pick(rng, 32, 512, checkop_range(rng, 1, 100), checkop_range(rng, 1, 600));
    s.kv.n_page = (s.max_len + page_len - 1) / page_len + checkop_range(rng, 0, 5);
    s.causal = !checkop_chance(rng, 4);
    s.window = checkop_chance(rng, 3) ? (int32_t)checkop_range(rng, 1, s.max_len + 5) : 0;
    s.first = checkop_chance(rng, 4) ? (int32_t)checkop_range(rng, 1, s.max_len + 5) : 0;
    return s;
}

/* New lengths, positions and pages of every sequence. Entries that no key needs are -1. */
static void tables_fill(checkop_case *c)
{
    int32_t *kv_len = checkop_i32(c, (int32_t)c->param[P_KV_LEN]);
    int32_t *positions = checkop_i32(c, (int32_t)c->param[P_POSITIONS]);
    int32_t *table = checkop_i32(c, (int32_t)c->param[P_TABLE]);
    const int32_t *start = checkop_i32(c, (int32_t)c->param[P_START]);
    const int32_t *page_start = checkop_i32(c, (int32_t)c->param[P_PAGE_START]);
    int64_t max_pages = c->param[P_MAX_PAGES], max_len = c->param[P_MAX_LEN];
    int64_t n_page = c->param[P_N_PAGE];
    for (int64_t r = 0; r < c->n_row; r++) {
        positions[r] = (int32_t)checkop_range(&c->rng, 0, max_len);
    }
    for (int64_t s = 0; s < c->param[P_N_SEQ]; s++) {
        kv_len[s] =
            (int32_t)(s == 0 ? max_len : checkop_range(&c->rng, s % 5 == 3 ? 0 : 1, max_len));
        int64_t step = checkop_chance(&c->rng, 2) ? 1 : n_page - 1;
        int64_t first = checkop_range(&c->rng, 0, n_page - 1);
        for (int64_t p = 0; p < max_pages; p++) {
            bool needed = p * c->page_len < kv_len[s];
            table[page_start[s] + p] = needed ? (int32_t)((first + p * step) % n_page) : -1;
        }
        bool free = checkop_chance(&c->rng, 4); /* else the last rows of the sequence */
        for (int64_t r = start[s]; r < start[s + 1]; r++) {
            int64_t last = kv_len[s] - (start[s + 1] - r);
            positions[r] =
                (int32_t)(free || last < 0 ? checkop_range(&c->rng, -1, kv_len[s] + 40) : last);
        }
    }
}

static void attn_slice(const checkop_case *c, int64_t row, checkop_call *call)
{
    whim_attn_paged_args *a = (void *)call->args.bytes;
    const checkop_buf *b = &c->buf[c->param[P_START]];
    const int32_t *start = (const void *)(b->init + b->head);
    int64_t seq = 0;
    while (seq < a->n_seq && start[seq + 1] <= row) {
        seq++;
    }
    a->n_seq = seq < a->n_seq ? 1 : 0;
    for (int32_t i = 0; i < call->n_bind; i++) {
        checkop_bind *bind = &call->bind[i];
        if (bind->buf == c->param[P_START]) {
            bind->buf = (int32_t)c->param[P_ALONE];
        } else if (a->n_seq > 0 && bind->buf == c->param[P_KV_LEN]) {
            bind->offset = 4 * seq;
        } else if (a->n_seq > 0 && bind->buf == c->param[P_PAGE_START]) {
            bind->offset = 4 * seq;
        }
    }
}

/* Rows of each sequence: some have none, some rows after the last sequence are padding. */
static int64_t rows_split(checkop_case *c, const attn_shape *s, int32_t *start, bool all)
{
    start[0] = 0;
    for (int64_t i = 0; i < s->n_seq; i++) {
        int64_t n = all || i == 0 ? s->rows : checkop_range(&c->rng, s->rows > 1 ? 0 : 1, s->rows);
        start[i + 1] = start[i] + (int32_t)n;
    }
    return start[s->n_seq] + (all ? 0 : checkop_range(&c->rng, 0, 2));
}

static void attn_build(checkop_case *c, const attn_shape *s, bool all)
{
    checkop_fill fill = s->wild ? CHECKOP_WILD : CHECKOP_SANE;
    int32_t pages = kv_fill_all(c, &s->kv, fill);
    int32_t *start, *one, *page_start, *ignored;
    int64_t max_pages = (s->max_len + c->page_len - 1) / c->page_len + 1;
    c->param[P_START] = checkop_given(c, "q_start", s->n_seq + 1, &start);
    int64_t n_row = rows_split(c, s, start, all);
    c->param[P_ALONE] = checkop_given(c, "q_start of one", 2, &one);
    one[0] = 0;
    one[1] = 1;
    c->param[P_KV_LEN] = checkop_given(c, "kv_len", s->n_seq, &ignored);
    c->param[P_POSITIONS] = checkop_given(c, "positions", n_row, &ignored);
    c->param[P_TABLE] = checkop_given(c, "pages", s->n_seq * max_pages, &ignored);
    c->param[P_PAGE_START] = checkop_given(c, "page_start", s->n_seq, &page_start);
    for (int64_t i = 0; i < s->n_seq; i++) {
        page_start[i] = (int32_t)((s->n_seq - 1 - i) * max_pages); /* in an order of its own */
    }
    c->param[P_MAX_PAGES] = max_pages;
    c->param[P_MAX_LEN] = s->max_len;
    c->param[P_N_PAGE] = s->kv.n_page;
    c->param[P_N_SEQ] = s->n_seq;
    checkop_call *call = checkop_call_add(c, WHIM_OP_attn_paged);
    whim_attn_paged_args *a = (void *)call->args.bytes;
    *a = (whim_attn_paged_args){.scale = 0.25f,
                                .causal = s->causal,
                                .window = s->window,
                                .first = s->first,
                                .n_row = n_row,
                                .n_seq = s->n_seq,
                                .n_head = s->kv.n_kv * s->ratio,
                                .max_pages = s->n_seq * max_pages};
    kv_view_bind(c, call, offsetof(whim_attn_paged_args, kv), pages, &s->kv);
    CHECKOP_BIND(c, call, attn_paged, positions, (int32_t)c->param[P_POSITIONS], 4);
    CHECKOP_BIND(c, call, attn_paged, q_start, (int32_t)c->param[P_START], 0);
    CHECKOP_BIND(c, call, attn_paged, kv_len, (int32_t)c->param[P_KV_LEN], 0);
    CHECKOP_BIND(c, call, attn_paged, pages, (int32_t)c->param[P_TABLE], 0);
    CHECKOP_BIND(c, call, attn_paged, page_start, (int32_t)c->param[P_PAGE_START], 0);
    checkop_operands(c, call, fill, 1);
    CHECKOP_SUBJECT(c, call, attn_paged, n_row);
    c->slice = attn_slice;
    c->refill = tables_fill;
    tables_fill(c);
}

static void attn_make(checkop_case *c, int32_t index)
{
    attn_shape s = index < N_HOSTILE ? hostile[index] : shape_random(&c->rng, c->page_len);
    kv_say(c, &s.kv);
    checkop_say(c, " n_seq=%lld rows<=%lld ratio=%lld max_len=%lld %s window=%d first=%d%s",
                (long long)s.n_seq, (long long)s.rows, (long long)s.ratio, (long long)s.max_len,
                s.causal ? "causal" : "non-causal", s.window, s.first, s.wild ? " wild" : "");
    whim_check(s.kv.n_page * c->page_len >= s.max_len);
    attn_build(c, &s, false);
}

/* One decoded row at three context lengths, a prompt, 16 sequences, a prompt's last chunk. */
static const struct {
    int64_t rows, len, n_seq, n_kv, ratio, d_head;
} bench_shapes[] = {
    {1, 128, 1, 3, 3, 64},    {1, 1024, 1, 3, 3, 64},  {1, 8192, 1, 3, 3, 64},
    {512, 512, 1, 3, 3, 64},  {1, 1024, 16, 3, 3, 64}, {64, 4096, 1, 3, 3, 64},
    {1, 128, 1, 8, 2, 128},   {1, 1024, 1, 8, 2, 128}, {1, 8192, 1, 8, 2, 128},
    {512, 512, 1, 8, 2, 128},
};
enum { N_BENCH = sizeof bench_shapes / sizeof bench_shapes[0] };

static bool attn_bench(checkop_case *c, int32_t i)
{
    static const whim_kv_type types[] = {WHIM_KV_BF16, WHIM_KV_F16, WHIM_KV_F32, WHIM_KV_Q8};
    if (i >= 4 * N_BENCH) {
        return false;
    }
    int64_t rows = bench_shapes[i % N_BENCH].rows, len = bench_shapes[i % N_BENCH].len;
    int64_t n_seq = bench_shapes[i % N_BENCH].n_seq;
    attn_shape s = {.kv = {types[i / N_BENCH], bench_shapes[i % N_BENCH].n_kv,
                           bench_shapes[i % N_BENCH].d_head, n_seq * len / c->page_len, 1, 0},
                    .n_seq = n_seq,
                    .rows = rows,
                    .ratio = bench_shapes[i % N_BENCH].ratio,
                    .max_len = len,
                    .causal = true};
    checkop_say(c, "%s %lld rows, %lld keys, %lld sequences, %lld/%lld heads of %lld",
                whim_kv_type_name(s.kv.type), (long long)(rows * n_seq), (long long)len,
                (long long)n_seq, (long long)(s.kv.n_kv * s.ratio), (long long)s.kv.n_kv,
                (long long)s.kv.d_head);
    attn_build(c, &s, true);
    int32_t *kv_len = checkop_i32(c, (int32_t)c->param[P_KV_LEN]);
    int32_t *positions = checkop_i32(c, (int32_t)c->param[P_POSITIONS]);
    int32_t *table = checkop_i32(c, (int32_t)c->param[P_TABLE]);
    for (int64_t j = 0; j < n_seq; j++) {
        kv_len[j] = (int32_t)len;
        for (int64_t p = 0; p < len / c->page_len; p++) {
            table[j * c->param[P_MAX_PAGES] + p] = (int32_t)(j * len / c->page_len + p);
        }
    }
    double pairs = 0.0;
    for (int64_t r = 0; r < c->n_row; r++) {
        positions[r] = (int32_t)(len - rows + r % rows);
        pairs += positions[r] + 1;
    }
    c->flops = 4.0 * pairs * (double)(s.kv.n_kv * s.ratio * s.kv.d_head);
    c->traffic =
        (double)(n_seq * len * 2 * s.kv.n_kv * whim_kv_vector_bytes(s.kv.type, s.kv.d_head));
    return true;
}

static const char *attn_arguments(int32_t i, void *args)
{
    whim_attn_paged_args *a = args;
    void *p = checkop_somewhere;
    *a = (whim_attn_paged_args){.kv = kv_view_valid(),
                                .q = p,
                                .q_start = p,
                                .kv_len = p,
                                .positions = p,
                                .pages = p,
                                .page_start = p,
                                .out = p,
                                .scale = 1.0f,
                                .n_row = 1,
                                .n_seq = 1,
                                .n_head = 4,
                                .max_pages = 1};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->n_seq = -1, "n_seq < 0";
    case 3:
        return a->n_head = 3, "n_head is not a multiple of n_kv";
    case 4:
        return a->kv.n_kv = 0, "heads of q without any of k";
    case 5:
        return a->window = -1, "window < 0";
    case 6:
        return a->page_start = NULL, "page_start = NULL";
    case 7:
        return a->kv.type = WHIM_KV_TYPE_COUNT, "no KV type";
    case 8:
        return a->kv.page_stride--, "page_stride too small";
    case 9:
        return a->kv.d_head = 0, "d_head = 0";
    case 10:
        return a->kv.pages = NULL, "pages = NULL";
    case 11:
        return a->out = NULL, "out = NULL";
    case 12:
        return a->max_pages = -1, "max_pages < 0";
    case 13:
        return a->first = -1, "first < 0";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_attn_paged = {N_HOSTILE,      200,       8, attn_make,
                                                attn_arguments, attn_bench};

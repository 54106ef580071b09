/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over pages, shared by all levels: included once per level after kv_tmpl.h and
 * exp_tmpl.h. A unit of pairs (attn_plan.h) walks its keys segment by segment and page by page: K
 * and V of a page are loaded, and for many pairs widened, once for all of them. */
#include "backends/cpu/attn_plan.h"

enum {
    ATTN_LANES = ATTN_VECS * VF,
    SCORE_STRIDE = WHIM_KV_SEGMENT + 16, /* a power of two would make rows collide in the cache */
    WIDEN_PAIRS = 3 * ATTN_PAIRS,        /* from here on widening a page first pays */
};

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#if ATTN_PAIRS > 4
#define FOR_PAIRS_MORE \
    case 5:            \
        CALL(5);       \
        break;         \
    case 6:            \
        CALL(6);       \
        break;
#else
#define FOR_PAIRS_MORE
#endif
/* CALL with the number of pairs as a constant. */
#define FOR_PAIRS(n)   \
    switch (n) {       \
    case 1:            \
        CALL(1);       \
        break;         \
    case 2:            \
        CALL(2);       \
        break;         \
    case 3:            \
        CALL(3);       \
        break;         \
    case 4:            \
        CALL(4);       \
        break;         \
        FOR_PAIRS_MORE \
    default:           \
        break;         \
    }

#define TILE_NAME f32
#define TILE_ELEM float
#define TILE_VLOAD vf_load
#define TILE_LOAD1 same_f32
#include "backends/cpu/tmpl/attn_tile_tmpl.h"

#define TILE_NAME f16
#define TILE_ELEM uint16_t
#define TILE_VLOAD vf_load_f16
#define TILE_LOAD1 whim_f16_to_f32
#include "backends/cpu/tmpl/attn_tile_tmpl.h"

#define TILE_NAME bf16
#define TILE_ELEM uint16_t
#define TILE_VLOAD vf_load_bf16
#define TILE_LOAD1 whim_bf16_to_f32
#include "backends/cpu/tmpl/attn_tile_tmpl.h"

#define TILE_NAME q8
#define TILE_ELEM int8_t
#define TILE_VLOAD vf_load_i8
#define TILE_LOAD1 (float)
#include "backends/cpu/tmpl/attn_tile_tmpl.h"

typedef struct attn_tiles {
    void (*scores)(const void *, int64_t, const float *, int, int64_t, int64_t, float *);
    void (*values)(const void *, int64_t, const float *, int, int64_t, int64_t, float *const *);
    void (*widen)(const void *, int64_t, float *);
    int64_t elem; /* bytes */
} attn_tiles;

static const attn_tiles attn_tile_kinds[WHIM_KV_TYPE_COUNT] = {
    [WHIM_KV_F32] = {scores_f32, values_f32, widen_f32, 4},
    [WHIM_KV_BF16] = {scores_bf16, values_bf16, widen_bf16, 2},
    [WHIM_KV_F16] = {scores_f16, values_f16, widen_f16, 2},
    [WHIM_KV_Q8] = {scores_q8, values_q8, widen_q8, 1},
};

typedef struct attn_unit {
    const whim_attn_paged_args *a;
    const attn_tiles *stored, *tiles; /* of the pages, and of what the loops read */
    const int32_t *pages;
    int64_t kv_head, n_pair;
    float *q;    /* [n_pair][d_head] scaled, rounded like the KV type */
    float *p;    /* [n_pair][SCORE_STRIDE] */
    float *seg;  /* [n_pair][d_head] sums of one segment */
    float *tile; /* [WHIM_CPU_PAGE * d_head] a widened page */
    float *out[WHIM_ATTN_UNIT_MAX];
    int64_t lo[WHIM_ATTN_UNIT_MAX], hi[WHIM_ATTN_UNIT_MAX]; /* keys that a pair sees */
} attn_unit;

/* One segment of a unit: which of its keys each pair sees, and what came out. */
typedef struct attn_segment {
    int64_t base;                                           /* its first key */
    int64_t first, last;                                    /* keys that any pair sees */
    int64_t lo[WHIM_ATTN_UNIT_MAX], hi[WHIM_ATTN_UNIT_MAX]; /* counted from base; equal: none */
    float max[WHIM_ATTN_UNIT_MAX], sum[WHIM_ATTN_UNIT_MAX];
    float *o[WHIM_ATTN_UNIT_MAX]; /* [d_head], where the sum over values goes */
} attn_segment;

static inline int64_t clip(int64_t x, int64_t lo, int64_t hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* --- one segment ------------------------------------------------------------------------------ */

/* K or V of a page for the loops: as stored, or widened. */
static const void *page_tile(const attn_unit *u, const char *layer, int64_t index)
{
    const char *at = layer + index * u->stored->elem;
    if (u->tiles == u->stored) {
        return at;
    }
    u->stored->widen(at, WHIM_CPU_PAGE * u->a->kv.d_head, u->tile);
    return u->tile;
}

/* Q8: the weights or scores of a page's keys times their scales. */
static void scale_keys(const attn_unit *u, int64_t page, const float *scales)
{
    for (int64_t r = 0; r < u->n_pair; r++) {
        float *p = u->p + r * SCORE_STRIDE + page;
        for (int64_t j = 0; j < WHIM_CPU_PAGE; j++) {
            p[j] *= scales[j];
        }
    }
}

/* Scores of the page that starts at key `page` of the segment. */
static void page_scores(const attn_unit *u, const attn_segment *s, char *layer, int64_t page)
{
    const whim_kv_view *kv = &u->a->kv;
    const void *keys = page_tile(u, layer, keys_index(kv, u->kv_head));
    for (int64_t r = 0; r < u->n_pair; r += ATTN_PAIRS) {
        int64_t n = u->n_pair - r < ATTN_PAIRS ? u->n_pair - r : ATTN_PAIRS;
        int64_t lo = WHIM_KV_SEGMENT, hi = 0;
        for (int64_t i = r; i < r + n; i++) {
            lo = s->lo[i] < s->hi[i] && s->lo[i] < lo ? s->lo[i] : lo;
            hi = s->hi[i] > hi ? s->hi[i] : hi;
        }
        lo = clip(lo - page, 0, WHIM_CPU_PAGE) / ATTN_LANES * ATTN_LANES;
        hi = clip(hi - page, 0, WHIM_CPU_PAGE);
        u->tiles->scores(keys, kv->d_head, u->q + r * kv->d_head, (int)n, lo, hi,
                         u->p + r * SCORE_STRIDE + page);
    }
    if (kv->type == WHIM_KV_Q8) {
        scale_keys(u, page, key_scales(kv, layer, u->kv_head));
    }
}

/* Rounded to BF16. A NaN has its payload, if any, in the upper half, since q was rounded already:
 * the addition cannot carry out of it. */
ALWAYS_INLINE vf round_weight(vf x)
{
    vu u = (vu)x;
    return (vf)((u + 0x7fffu + ((u >> 16) & 1u)) & 0xffff0000u);
}

/* The largest of x[0..n), n a multiple of WHIM_LANES; NaNs are passed over. */
ALWAYS_INLINE float lanes_max(const float *x, int64_t n)
{
    enum { VECS = WHIM_LANES / VF };
    vf max[VECS];
    for (int v = 0; v < VECS; v++) {
        max[v] = vf_set1(-INFINITY);
    }
    for (int64_t j = 0; j < n; j += WHIM_LANES) {
        for (int v = 0; v < VECS; v++) {
            max[v] = vf_max_over(max[v], vf_load(x + j + v * VF));
        }
    }
    for (int v = VECS / 2; v > 0; v /= 2) {
        for (int i = 0; i < v; i++) {
            max[i] = vf_max_over(max[i], max[i + v]);
        }
    }
    return vf_max_lanes(max[0]);
}

/* Scores to weights; keys outside of [lo, hi) in the lanes at the edges become exact zeros. */
static void softmax(float *p, int64_t lo, int64_t hi, bool bf16, float *max_out, float *sum_out)
{
    int64_t begin = lo / WHIM_LANES * WHIM_LANES;
    int64_t end = (hi + WHIM_LANES - 1) / WHIM_LANES * WHIM_LANES;
    for (int64_t j = begin; j < lo; j++) {
        p[j] = -INFINITY;
    }
    for (int64_t j = hi; j < end; j++) {
        p[j] = -INFINITY;
    }
    float max = lanes_max(p + begin, end - begin), lane[WHIM_LANES];
    for (int64_t first = 0; first < WHIM_LANES; first += EXP_LANES) {
        vf sum[EXP_VECS], x[EXP_VECS];
        EACH_VEC sum[v] = vf_zero();
        for (int64_t j = begin + first; j < end; j += WHIM_LANES) {
            EACH_VEC x[v] = vf_load(p + j + v * VF) - vf_set1(max);
            vf_exp(x);
            EACH_VEC sum[v] = sum[v] + x[v];
            EACH_VEC vf_store(p + j + v * VF, bf16 ? round_weight(x[v]) : x[v]);
        }
        EACH_VEC vf_store(lane + first + v * VF, sum[v]);
    }
    *max_out = max;
    *sum_out = whim_fold16_add(lane);
}

/* n pairs from r on, over the keys [lo, hi) of the segment as far as the page has them. */
static void values_part(const attn_unit *u, const attn_segment *s, const void *values, int64_t page,
                        int64_t r, int64_t n, int64_t lo, int64_t hi)
{
    int64_t begin = clip(lo - page, 0, WHIM_CPU_PAGE), end = clip(hi - page, 0, WHIM_CPU_PAGE);
    if (begin < end) {
        u->tiles->values(values, u->a->kv.d_head, u->p + r * SCORE_STRIDE + page, (int)n, begin,
                         end, s->o + r);
    }
}

/* Sums over the values of a page. Pairs go together over the keys that all of them see, and one by
 * one over what only some see, before and after: a weight of 0 could turn a sum of -0 into +0. */
static void page_values(const attn_unit *u, const attn_segment *s, char *layer, int64_t page)
{
    const whim_kv_view *kv = &u->a->kv;
    const void *values = page_tile(u, layer, values_index(kv, u->kv_head));
    if (kv->type == WHIM_KV_Q8) {
        scale_keys(u, page, value_scales(kv, layer, u->kv_head));
    }
    for (int64_t r = 0; r < u->n_pair; r += ATTN_PAIRS) {
        int64_t n = u->n_pair - r < ATTN_PAIRS ? u->n_pair - r : ATTN_PAIRS;
        int64_t lo = 0, hi = WHIM_KV_SEGMENT;
        for (int64_t i = r; i < r + n; i++) {
            lo = s->lo[i] > lo ? s->lo[i] : lo;
            hi = s->hi[i] < hi ? s->hi[i] : hi;
        }
        if (lo >= hi) {
            lo = hi = WHIM_KV_SEGMENT; /* all keys are "before" */
        }
        for (int64_t i = r; i < r + n; i++) {
            values_part(u, s, values, page, i, 1, s->lo[i], lo < s->hi[i] ? lo : s->hi[i]);
        }
        values_part(u, s, values, page, r, n, lo, hi);
        for (int64_t i = r; i < r + n; i++) {
            values_part(u, s, values, page, i, 1, hi > s->lo[i] ? hi : s->lo[i], s->hi[i]);
        }
    }
}

/* Which keys each pair sees of the segment from key `base` on. */
static void segment_open(const attn_unit *u, int64_t base, attn_segment *s)
{
    s->base = base;
    s->first = WHIM_KV_SEGMENT;
    s->last = 0;
    for (int64_t r = 0; r < u->n_pair; r++) {
        s->lo[r] = clip(u->lo[r] - base, 0, WHIM_KV_SEGMENT);
        s->hi[r] = clip(u->hi[r] - base, 0, WHIM_KV_SEGMENT);
        if (s->lo[r] < s->hi[r]) {
            s->first = s->lo[r] < s->first ? s->lo[r] : s->first;
            s->last = s->hi[r] > s->last ? s->hi[r] : s->last;
        }
    }
}

#ifdef ATTN_MATRIX
#include "backends/cpu/tmpl/attn_matrix_tmpl.h"
enum { ATTN_ON_MATRIX = true };
#else
enum { ATTN_ON_MATRIX = false };
#define matrix_takes(kv) ((void)(kv), false)
#define MATRIX_PAIRS ATTN_PAIRS
#define matrix_segment(u, s)
#endif

/* Maximum, sum and o of every pair that sees a key of the segment. */
static void segment_run(const attn_unit *u, attn_segment *s)
{
    const whim_kv_view *kv = &u->a->kv;
    if (matrix_takes(kv)) {
        matrix_segment(u, s);
        return;
    }
    const int32_t *pages = u->pages + s->base / WHIM_CPU_PAGE;
    int64_t first = s->first / WHIM_CPU_PAGE * WHIM_CPU_PAGE;
    for (int64_t page = first; page < s->last; page += WHIM_CPU_PAGE) {
        page_scores(u, s, page_layer(kv, pages[page / WHIM_CPU_PAGE]), page);
    }
    for (int64_t r = 0; r < u->n_pair; r++) {
        if (s->lo[r] < s->hi[r]) {
            softmax(u->p + r * SCORE_STRIDE, s->lo[r], s->hi[r], kv->type == WHIM_KV_BF16,
                    &s->max[r], &s->sum[r]);
            memset(s->o[r], 0, (size_t)kv->d_head * sizeof(float));
        }
    }
    for (int64_t page = first; page < s->last; page += WHIM_CPU_PAGE) {
        page_values(u, s, page_layer(kv, pages[page / WHIM_CPU_PAGE]), page);
    }
}

/* --- units ------------------------------------------------------------------------------------ */

/* Pairs that go together. */
static int64_t unit_granule(const whim_kv_view *kv)
{
    return matrix_takes(kv) ? MATRIX_PAIRS : ATTN_PAIRS;
}

/* Pairs that fit a worker's scratch. */
static int64_t unit_pairs_max(const whim_kv_view *kv)
{
    int64_t room = WHIM_CPU_SCRATCH / (int64_t)sizeof(float), each = 2 * kv->d_head + SCORE_STRIDE;
    int64_t beside_tile = (room - WHIM_CPU_PAGE * kv->d_head) / each, granule = unit_granule(kv);
    bool widen = beside_tile >= WIDEN_PAIRS && !matrix_takes(kv);
    int64_t n = widen ? beside_tile : room / each;
    n = n < WHIM_ATTN_UNIT_MAX ? n : WHIM_ATTN_UNIT_MAX;
    return n > granule ? n / granule * granule : n;
}

static void unit_scratch(attn_unit *u, float *scratch)
{
    const whim_kv_view *kv = &u->a->kv;
    int64_t d = kv->d_head, room = WHIM_CPU_SCRATCH / (int64_t)sizeof(float);
    u->p = scratch;
    u->q = u->p + u->n_pair * SCORE_STRIDE;
    u->seg = u->q + u->n_pair * d;
    u->tile = u->seg + u->n_pair * d;
    bool fits = u->tile - scratch + WHIM_CPU_PAGE * d <= room;
    u->stored = &attn_tile_kinds[kv->type];
    u->tiles = fits && u->n_pair >= WIDEN_PAIRS ? &attn_tile_kinds[WHIM_KV_F32] : u->stored;
}

static void scale_query(float *restrict out, const float *restrict q, float scale, int64_t d,
                        bool bf16)
{
    for (int64_t i = 0; i < d; i++) {
        out[i] = q[i] * scale;
    }
    for (int64_t i = 0; i < d && bf16; i++) {
        out[i] = whim_bf16_to_f32(whim_f32_to_bf16(out[i]));
    }
}

static void unit_open(attn_unit *u, const whim_attn_paged_args *a, const whim_attn_item *item,
                      float *scratch)
{
    u->a = a;
    u->pages = a->pages + a->page_start[item->seq];
    u->kv_head = item->kv_head;
    u->n_pair = item->n_pair;
    unit_scratch(u, scratch);
    int64_t d = a->kv.d_head, group = a->n_head / a->kv.n_kv;
    for (int64_t i = 0; i < u->n_pair; i++) {
        int64_t row = a->q_start[item->seq] + (item->first + i) / group;
        int64_t head = u->kv_head * group + (item->first + i) % group;
        int64_t after = (int64_t)a->positions[row] + 1, len = a->kv_len[item->seq];
        int64_t last = a->causal ? after : after - 1 + a->window;
        u->hi[i] = (a->causal || a->window > 0) && last < len ? last : len;
        u->lo[i] = a->window > 0 && after - a->window > a->first ? after - a->window : a->first;
        u->out[i] = a->out + (row * a->n_head + head) * d;
        scale_query(u->q + i * d, a->q + (row * a->n_head + head) * d, a->scale, d,
                    a->kv.type == WHIM_KV_BF16);
    }
}

/* The law's merge: what came before, in max, sum and out, and one segment more. */
static void merge(float *max, float *sum, float *out, float seg_max, float seg_sum,
                  const float *seg, int64_t d)
{
    float new_max = *max > seg_max ? *max : seg_max;
    float keep = whim_expf(*max - new_max), take = whim_expf(seg_max - new_max);
    for (int64_t i = 0; i < d; i++) {
        out[i] = whim_fmaf(out[i], keep, seg[i] * take);
    }
    *sum = whim_fmaf(*sum, keep, seg_sum * take);
    *max = new_max;
}

static void divide(float *out, bool any, float sum, int64_t d)
{
    for (int64_t i = 0; i < d; i++) {
        out[i] = any ? out[i] / sum : 0.0f;
    }
}

/* A unit alone: its segments one after the other. */
static void unit_run(const attn_unit *u)
{
    int64_t d = u->a->kv.d_head, end = 0;
    float max[WHIM_ATTN_UNIT_MAX], sum[WHIM_ATTN_UNIT_MAX];
    bool started[WHIM_ATTN_UNIT_MAX] = {false};
    for (int64_t r = 0; r < u->n_pair; r++) {
        end = u->hi[r] > end ? u->hi[r] : end;
    }
    for (int64_t base = 0; base < end; base += WHIM_KV_SEGMENT) {
        attn_segment s;
        segment_open(u, base, &s);
        if (s.first >= s.last) {
            continue;
        }
        for (int64_t r = 0; r < u->n_pair; r++) {
            s.o[r] = started[r] ? u->seg + r * d : u->out[r];
        }
        segment_run(u, &s);
        for (int64_t r = 0; r < u->n_pair; r++) {
            if (s.lo[r] < s.hi[r] && started[r]) {
                merge(&max[r], &sum[r], u->out[r], s.max[r], s.sum[r], s.o[r], d);
            } else if (s.lo[r] < s.hi[r]) {
                max[r] = s.max[r];
                sum[r] = s.sum[r];
                started[r] = true;
            }
        }
    }
    for (int64_t r = 0; r < u->n_pair; r++) {
        divide(u->out[r], started[r], sum[r], d);
    }
}

/* All segments of a unit are done: merge them in order. */
static void unit_merge(const attn_unit *u, const whim_attn_item *item, const float *slots,
                       int64_t slot_floats)
{
    int64_t d = u->a->kv.d_head;
    for (int64_t r = 0; r < u->n_pair; r++) {
        float max = 0.0f, sum = 0.0f;
        bool started = false;
        for (int64_t i = 0; i < item->n_segment; i++) {
            const float *seg = slots + i * slot_floats + r * (d + 2);
            int64_t base = i * WHIM_KV_SEGMENT;
            if (clip(u->lo[r] - base, 0, WHIM_KV_SEGMENT) >=
                clip(u->hi[r] - base, 0, WHIM_KV_SEGMENT)) {
                continue;
            }
            if (started) {
                merge(&max, &sum, u->out[r], seg[d], seg[d + 1], seg, d);
            } else {
                memcpy(u->out[r], seg, (size_t)d * sizeof *seg);
                max = seg[d];
                sum = seg[d + 1];
                started = true;
            }
        }
        divide(u->out[r], started, sum, d);
    }
}

/* One segment of a unit whose other segments may be on other workers. */
static void unit_run_segment(const attn_unit *u, const whim_attn_plan *plan,
                             const whim_attn_item *item, whim_attn_shared *shared)
{
    int64_t d = u->a->kv.d_head, slot_floats = whim_attn_slot_floats(plan);
    float *slots = shared->partials + item->slot * slot_floats;
    attn_segment s;
    segment_open(u, item->segment * WHIM_KV_SEGMENT, &s);
    for (int64_t r = 0; r < u->n_pair; r++) {
        s.o[r] = slots + item->segment * slot_floats + r * (d + 2);
    }
    if (s.first < s.last) {
        segment_run(u, &s);
        for (int64_t r = 0; r < u->n_pair; r++) {
            s.o[r][d] = s.max[r];
            s.o[r][d + 1] = s.sum[r];
        }
    }
    /* Whoever is last sees what the others wrote. */
    if (atomic_fetch_add_explicit(&shared->done[item->unit], 1, memory_order_acq_rel) + 1 ==
        item->n_segment) {
        unit_merge(u, item, slots, slot_floats);
        atomic_store_explicit(&shared->done[item->unit], 0, memory_order_relaxed);
    }
}

static void attn_paged_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_cpu_attn_args *command = args;
    const whim_attn_paged_args *a = &command->op;
    whim_attn_plan plan;
    whim_attn_plan_make(&plan, a, unit_pairs_max(&a->kv), unit_granule(&a->kv), worker->count);
    whim_attn_cursor cursor = {0};
    whim_cpu_claim c = whim_cpu_claim_open(worker, plan.n_item);
    while (whim_cpu_claim_next(&c)) {
        for (int64_t i = c.begin; i < c.end; i++) {
            attn_unit u;
            whim_attn_item item;
            whim_attn_plan_item(&plan, i, &cursor, &item);
            unit_open(&u, a, &item, worker->scratch);
            if (item.n_segment > 1) {
                unit_run_segment(&u, &plan, &item, command->shared);
            } else {
                unit_run(&u);
            }
        }
    }
    int64_t used = a->n_seq > 0 ? a->q_start[a->n_seq] : 0, width = a->n_head * a->kv.d_head;
    if (worker->index == 0 && used < a->n_row && width > 0) {
        memset(a->out + used * width, 0, (size_t)((a->n_row - used) * width) * sizeof(float));
    }
}

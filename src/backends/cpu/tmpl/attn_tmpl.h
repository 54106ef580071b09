/* SPDX-License-Identifier: Apache-2.0 */
/* The KV and attention kernels, shared by all levels: included once per level after its vec header.
 *
 * Page layout on the CPU, per layer: keys [n_kv][d_head][WHIM_KV_PAGE], so that lanes run along keys when
 * scores are made; values [n_kv][WHIM_KV_PAGE][d_head], so that lanes run along d when they are summed.
 * Both sums are in order, as the law wants. A (row, KV head) pair is the unit of work. */
#include "backends/cpu/kernels.h"
#include "base/fmath.h"
#include "tensor/half.h"

#include <string.h>

enum { PAGE_VECS = WHIM_KV_PAGE / VF, VALUE_VECS = 4 };

static inline char *page_layer(const whim_kv_view *kv, int64_t page)
{
    return (char *)kv->pages + page * kv->page_stride + kv->layer_offset;
}

/* Index of key element (head, i, place), and of value element (head, place, i). */
static inline int64_t key_index(const whim_kv_view *kv, int64_t head, int64_t i, int64_t place)
{
    return (head * kv->d_head + i) * WHIM_KV_PAGE + place;
}
static inline int64_t value_index(const whim_kv_view *kv, int64_t head, int64_t place, int64_t i)
{
    return ((kv->n_kv + head) * WHIM_KV_PAGE + place) * kv->d_head + i;
}

static inline float load_f32(const float *p)
{
    return *p;
}
static inline float load_f16(const uint16_t *p)
{
    return whim_f16_to_f32(*p);
}
static inline float load_bf16(const uint16_t *p)
{
    return whim_bf16_to_f32(*p);
}

/* Rows of q, scores and values of one KV type. `name`: suffix; `elem`: storage type; `vload`, `load1`:
 * vector and scalar loads; `store`: saturating narrowing. */
#define DEFINE_KV(name, elem, vload, load1, store)                                        \
    static void write_##name(const whim_kv_write_args *a, int64_t r)                      \
    {                                                                                     \
        int64_t d = a->kv.d_head, place = a->slots[r] % WHIM_KV_PAGE;                     \
        elem *layer = (elem *)page_layer(&a->kv, a->slots[r] / WHIM_KV_PAGE);             \
        for (int64_t h = 0; h < a->kv.n_kv; h++) {                                        \
            const float *k = a->k + (r * a->kv.n_kv + h) * d;                             \
            const float *v = a->v + (r * a->kv.n_kv + h) * d;                             \
            elem *keys = layer + key_index(&a->kv, h, 0, place);                          \
            elem *values = layer + value_index(&a->kv, h, place, 0);                      \
            for (int64_t i = 0; i < d; i++) {                                             \
                keys[i * WHIM_KV_PAGE] = store(k[i]);                                     \
                values[i] = store(v[i]);                                                  \
            }                                                                             \
        }                                                                                 \
    }                                                                                     \
    static void read_##name(const whim_kv_read_args *a, int64_t r)                        \
    {                                                                                     \
        int64_t d = a->kv.d_head, place = a->slots[r] % WHIM_KV_PAGE;                     \
        const elem *layer = (const elem *)page_layer(&a->kv, a->slots[r] / WHIM_KV_PAGE); \
        for (int64_t h = 0; h < a->kv.n_kv; h++) {                                        \
            for (int64_t i = 0; i < d; i++) {                                             \
                int64_t at = (r * a->kv.n_kv + h) * d + i;                                \
                a->k[at] = load1(layer + key_index(&a->kv, h, i, place));                 \
                a->v[at] = load1(layer + value_index(&a->kv, h, place, i));               \
            }                                                                             \
        }                                                                                 \
    }                                                                                     \
    /* Scores of one page's 32 keys. */                                                   \
    static void scores_##name(const void *layer, const whim_kv_view *kv, int64_t head,    \
                              const float *q, float *out)                                 \
    {                                                                                     \
        const elem *keys = (const elem *)layer + key_index(kv, head, 0, 0);               \
        vf acc[PAGE_VECS];                                                                \
        for (int v = 0; v < PAGE_VECS; v++) {                                             \
            acc[v] = vf_zero();                                                           \
        }                                                                                 \
        for (int64_t i = 0; i < kv->d_head; i++) {                                        \
            vf value = vf_set1(q[i]);                                                     \
            for (int v = 0; v < PAGE_VECS; v++) {                                         \
                acc[v] = vf_fma(value, vload(keys + i * WHIM_KV_PAGE + v * VF), acc[v]);  \
            }                                                                             \
        }                                                                                 \
        for (int v = 0; v < PAGE_VECS; v++) {                                             \
            vf_store(out + v * VF, acc[v]);                                               \
        }                                                                                 \
    }                                                                                     \
    /* out += p * values, over the places [begin, end) of one page. */                    \
    static void values_##name(const void *layer, const whim_kv_view *kv, int64_t head,    \
                              const float *p, int64_t begin, int64_t end, float *out)     \
    {                                                                                     \
        const elem *values = (const elem *)layer + value_index(kv, head, 0, 0);           \
        int64_t d = kv->d_head, i = 0;                                                    \
        for (; i + VALUE_VECS * VF <= d; i += VALUE_VECS * VF) {                          \
            vf acc[VALUE_VECS];                                                           \
            for (int v = 0; v < VALUE_VECS; v++) {                                        \
                acc[v] = vf_load(out + i + v * VF);                                       \
            }                                                                             \
            for (int64_t j = begin; j < end; j++) {                                       \
                vf weight = vf_set1(p[j]);                                                \
                for (int v = 0; v < VALUE_VECS; v++) {                                    \
                    acc[v] = vf_fma(weight, vload(values + j * d + i + v * VF), acc[v]);  \
                }                                                                         \
            }                                                                             \
            for (int v = 0; v < VALUE_VECS; v++) {                                        \
                vf_store(out + i + v * VF, acc[v]);                                       \
            }                                                                             \
        }                                                                                 \
        for (; i < d; i++) {                                                              \
            for (int64_t j = begin; j < end; j++) {                                       \
                out[i] = whim_fmaf(p[j], load1(values + j * d + i), out[i]);              \
            }                                                                             \
        }                                                                                 \
    }
DEFINE_KV(f32, float, vf_load, load_f32, whim_f32_sat)
DEFINE_KV(f16, uint16_t, vf_load_f16, load_f16, whim_f32_to_f16_sat)
DEFINE_KV(bf16, uint16_t, vf_load_bf16, load_bf16, whim_f32_to_bf16_sat)

typedef struct kv_kind {
    void (*write)(const whim_kv_write_args *, int64_t);
    void (*read)(const whim_kv_read_args *, int64_t);
    void (*scores)(const void *, const whim_kv_view *, int64_t, const float *, float *);
    void (*values)(const void *, const whim_kv_view *, int64_t, const float *, int64_t, int64_t,
                   float *);
} kv_kind;

static const kv_kind *kv_kind_of(const whim_kv_view *kv)
{
    static const kv_kind f32 = {write_f32, read_f32, scores_f32, values_f32};
    static const kv_kind f16 = {write_f16, read_f16, scores_f16, values_f16};
    static const kv_kind bf16 = {write_bf16, read_bf16, scores_bf16, values_bf16};
    return kv->dtype == WHIM_DTYPE_F32 ? &f32 : kv->dtype == WHIM_DTYPE_F16 ? &f16 : &bf16;
}

static void kv_write_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_kv_write_args *a = args;
    const kv_kind *kind = kv_kind_of(&a->kv);
    int64_t begin, end;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        if (a->slots[r] >= 0) {
            kind->write(a, r);
        }
    }
}

static void kv_read_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_kv_read_args *a = args;
    const kv_kind *kind = kv_kind_of(&a->kv);
    int64_t width = a->kv.n_kv * a->kv.d_head, begin, end;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        if (a->slots[r] >= 0) {
            kind->read(a, r);
        } else {
            memset(a->k + r * width, 0, (size_t)width * sizeof(float));
            memset(a->v + r * width, 0, (size_t)width * sizeof(float));
        }
    }
}

static void page_zero_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_page_zero_args *a = args;
    int64_t begin, end;
    whim_cpu_share(worker, a->n_id, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        if (a->ids[i] >= 0) {
            memset((char *)a->pages + a->ids[i] * a->page_bytes, 0, (size_t)a->page_bytes);
        }
    }
}

/* One row and head: where its keys are, and the running state over segments. */
typedef struct attn_state {
    const whim_attn_paged_args *a;
    const kv_kind *kind;
    const int32_t *pages;
    int64_t head; /* KV head */
    float *q;     /* [d_head] scaled, rounded like the KV type */
    float *seg;   /* [d_head] sum of one segment */
    float *out;   /* [d_head] */
    float max, sum;
    bool started;
} attn_state;

static inline void round_bf16(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        x[i] = whim_bf16_to_f32(whim_f32_to_bf16(x[i]));
    }
}

/* Keys [lo, hi) of the segment that starts at key `base`; lo and hi count from base. */
static void attn_segment(attn_state *s, int64_t base, int64_t lo, int64_t hi)
{
    const whim_kv_view *kv = &s->a->kv;
    const int32_t *pages = s->pages + base / WHIM_KV_PAGE;
    float p[WHIM_KV_SEGMENT];
    for (int64_t page = lo / WHIM_KV_PAGE; page * WHIM_KV_PAGE < hi; page++) {
        s->kind->scores(page_layer(kv, pages[page]), kv, s->head, s->q, p + page * WHIM_KV_PAGE);
    }
    float max = whim_max16(p + lo, hi - lo);
    for (int64_t j = lo; j < hi; j++) {
        p[j] = whim_expf(p[j] - max);
    }
    for (int64_t j = 0; j < lo; j++) {
        p[j] = 0.0f;
    }
    float sum = whim_sum16(p, hi);
    if (kv->dtype == WHIM_DTYPE_BF16) {
        round_bf16(p + lo, hi - lo);
    }
    float *dst = s->started ? s->seg : s->out;
    memset(dst, 0, (size_t)kv->d_head * sizeof *dst);
    for (int64_t page = lo / WHIM_KV_PAGE; page * WHIM_KV_PAGE < hi; page++) {
        int64_t first = page * WHIM_KV_PAGE;
        int64_t begin = lo > first ? lo - first : 0;
        int64_t end = hi - first < WHIM_KV_PAGE ? hi - first : WHIM_KV_PAGE;
        s->kind->values(page_layer(kv, pages[page]), kv, s->head, p + first, begin, end, dst);
    }
    if (!s->started) {
        s->max = max;
        s->sum = sum;
        s->started = true;
        return;
    }
    float new_max = s->max > max ? s->max : max;
    float keep = whim_expf(s->max - new_max), take = whim_expf(max - new_max);
    for (int64_t i = 0; i < kv->d_head; i++) {
        s->out[i] = whim_fmaf(s->out[i], keep, s->seg[i] * take);
    }
    s->sum = whim_fmaf(s->sum, keep, sum * take);
    s->max = new_max;
}

static void attn_head(attn_state *s, int64_t r, int64_t h, int64_t lo, int64_t hi)
{
    const whim_attn_paged_args *a = s->a;
    int64_t d = a->kv.d_head;
    const float *q = a->q + (r * a->n_head + h) * d;
    s->out = a->out + (r * a->n_head + h) * d;
    s->started = false;
    for (int64_t i = 0; i < d; i++) {
        s->q[i] = q[i] * a->scale;
    }
    if (a->kv.dtype == WHIM_DTYPE_BF16) {
        round_bf16(s->q, d);
    }
    int64_t first = lo < hi ? lo / WHIM_KV_SEGMENT * WHIM_KV_SEGMENT : hi;
    for (int64_t base = first; base < hi; base += WHIM_KV_SEGMENT) {
        int64_t seg_lo = lo > base ? lo - base : 0;
        int64_t seg_hi = hi - base < WHIM_KV_SEGMENT ? hi - base : WHIM_KV_SEGMENT;
        attn_segment(s, base, seg_lo, seg_hi);
    }
    for (int64_t i = 0; i < d; i++) {
        s->out[i] = s->started ? s->out[i] / s->sum : 0.0f;
    }
}

/* All query heads of one KV head of one row. */
static void attn_unit(const whim_attn_paged_args *a, const whim_cpu_worker *worker, int64_t seq,
                      int64_t r, int64_t kv_head)
{
    int64_t hi = a->kv_len[seq], lo = 0, after = (int64_t)a->positions[r] + 1;
    if (a->causal && after < hi) {
        hi = after;
    }
    if (a->window > 0 && after > a->window) {
        lo = after - a->window;
    }
    lo = lo < hi ? lo : hi;
    attn_state s = {
        .a = a,
        .kind = kv_kind_of(&a->kv),
        .pages = a->page_table + seq * a->max_pages,
        .head = kv_head,
        .q = worker->scratch,
        .seg = (float *)worker->scratch + WHIM_CPU_MAX_HEAD_DIM,
    };
    int64_t group = a->n_head / a->kv.n_kv;
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; h++) {
        attn_head(&s, r, h, lo, hi);
    }
}

static void attn_paged_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_attn_paged_args *a = args;
    int64_t unit = 0;
    for (int64_t seq = 0; seq < a->n_seq; seq++) {
        for (int64_t r = a->q_start[seq]; r < a->q_start[seq + 1]; r++) {
            for (int64_t h = 0; h < a->kv.n_kv; h++) {
                if (unit++ % worker->count == worker->index) {
                    attn_unit(a, worker, seq, r, h);
                }
            }
        }
    }
    if (worker->index == 0) {
        int64_t used = a->n_seq > 0 ? a->q_start[a->n_seq] : 0;
        int64_t width = a->n_head * a->kv.d_head;
        memset(a->out + used * width, 0, (size_t)((a->n_row - used) * width) * sizeof(float));
    }
}

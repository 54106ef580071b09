/* SPDX-License-Identifier: Apache-2.0 */
/* The law of attention over paged keys and values.
 *
 * Order, for one query row and head, over the keys lo .. hi-1 that the row sees:
 *  1. q' = q * scale, rounded to BF16 when the KV type is BF16.
 *  2. Keys are cut into segments of 512 counted from position 0; a segment without visible keys is
 *     skipped. In a segment: scores s_j = sum over d in order by fma of q' and the stored k, for Q8
 *     of q' and the integers and then times the key's scale; m = max; p_j = exp(s_j - m); l = sum
 *     of p_j in 16 lanes, key j in lane j mod 16; p'_j = p_j, rounded to BF16 for BF16, times the
 *     value's scale for Q8; o = sum over keys in order of fma(p'_j, stored v_j).
 *  3. Segments merge in order: M' = max(M, m), a = exp(M - M'), b = exp(m - M'),
 *     L' = fma(L, a, l * b), O' = fma(O, a, o * b). The result is O / L.
 * The law's page layout: [K|V][place][n_kv][d_head], then for Q8 the scales [K|V][place][n_kv]. */
#include "base/math/fmath.h"
#include "ops/ref/ref.h"
#include "tensor/half.h"

#include <string.h>

enum { KEYS, VALUES };

enum { CHUNK = 16 }; /* elements of a vector that are loaded at once: tests run the law */

/* Number of a stored vector inside its page. */
static int64_t vector_index(const whim_kv_view *kv, int which, int64_t place, int64_t head)
{
    return (which * kv->page_len + place) * kv->n_kv + head;
}

static char *page_at(const whim_kv_view *kv, int64_t page)
{
    return (char *)kv->pages + page * kv->page_stride + kv->layer_offset;
}

static float *scale_at(const whim_kv_view *kv, int64_t page, int64_t vector)
{
    return (float *)(page_at(kv, page) + 2 * kv->page_len * kv->n_kv * kv->d_head) + vector;
}

static void kv_store(const whim_kv_view *kv, int64_t page, int64_t vector, const float *x)
{
    char *at = page_at(kv, page);
    int64_t first = vector * kv->d_head;
    if (kv->type == WHIM_KV_Q8) {
        float scale = whim_kv_q8_scale(x, kv->d_head);
        *scale_at(kv, page, vector) = scale;
        whim_kv_q8_round(x, kv->d_head, scale, (int8_t *)at + first);
        return;
    }
    for (int64_t i = 0; i < kv->d_head; i++) {
        if (kv->type == WHIM_KV_F32) {
            ((float *)at)[first + i] = whim_f32_sat(x[i]);
        } else if (kv->type == WHIM_KV_BF16) {
            ((uint16_t *)at)[first + i] = whim_f32_to_bf16_sat(x[i]);
        } else {
            ((uint16_t *)at)[first + i] = whim_f32_to_f16_sat(x[i]);
        }
    }
}

/* Elements first .. first + n - 1 of a vector as stored: for Q8 the integers. */
static void kv_load(const whim_kv_view *kv, int64_t page, int64_t vector, int64_t first, int64_t n,
                    float *x)
{
    const char *at = page_at(kv, page);
    int64_t elem = vector * kv->d_head + first;
    switch (kv->type) {
    case WHIM_KV_F32:
        memcpy(x, (const float *)at + elem, (size_t)n * sizeof *x);
        break;
    case WHIM_KV_BF16:
        for (int64_t i = 0; i < n; i++) {
            x[i] = whim_bf16_to_f32(((const uint16_t *)at)[elem + i]);
        }
        break;
    case WHIM_KV_F16:
        for (int64_t i = 0; i < n; i++) {
            x[i] = whim_f16_to_f32(((const uint16_t *)at)[elem + i]);
        }
        break;
    default:
        for (int64_t i = 0; i < n; i++) {
            x[i] = (float)((const int8_t *)at)[elem + i];
        }
    }
}

/* x times the vector's scale, where the type has one. */
static float kv_scaled(const whim_kv_view *kv, int64_t page, int64_t vector, float x)
{
    return kv->type == WHIM_KV_Q8 ? x * *scale_at(kv, page, vector) : x;
}

whim_err whim_ref_kv_write(whim_stream *s, const whim_kv_write_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        if (a->slots[r] < 0) {
            continue;
        }
        int64_t page = a->slots[r] / a->kv.page_len, place = a->slots[r] % a->kv.page_len;
        for (int64_t h = 0; h < a->kv.n_kv; h++) {
            int64_t at = (r * a->kv.n_kv + h) * a->kv.d_head;
            kv_store(&a->kv, page, vector_index(&a->kv, KEYS, place, h), a->k + at);
            kv_store(&a->kv, page, vector_index(&a->kv, VALUES, place, h), a->v + at);
        }
    }
    return WHIM_ERR_OK;
}

static void kv_read_vector(const whim_kv_view *kv, int64_t slot, int which, int64_t head, float *x)
{
    int64_t page = slot / kv->page_len;
    int64_t vector = vector_index(kv, which, slot % kv->page_len, head);
    if (slot < 0) {
        memset(x, 0, (size_t)kv->d_head * sizeof *x);
        return;
    }
    kv_load(kv, page, vector, 0, kv->d_head, x);
    for (int64_t i = 0; i < kv->d_head; i++) {
        x[i] = kv_scaled(kv, page, vector, x[i]);
    }
}

whim_err whim_ref_kv_read(whim_stream *s, const whim_kv_read_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        for (int64_t h = 0; h < a->kv.n_kv; h++) {
            int64_t at = (r * a->kv.n_kv + h) * a->kv.d_head;
            kv_read_vector(&a->kv, a->slots[r], KEYS, h, a->k + at);
            kv_read_vector(&a->kv, a->slots[r], VALUES, h, a->v + at);
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_ref_page_zero(whim_stream *s, const whim_page_zero_args *a)
{
    (void)s;
    for (int64_t i = 0; i < a->n_id; i++) {
        if (a->ids[i] >= 0) {
            memset((char *)a->pages + a->ids[i] * a->page_bytes, 0, (size_t)a->page_bytes);
        }
    }
    return WHIM_ERR_OK;
}

/* One row, one head; the running state of step 3 lives in max, sum and out. */
typedef struct attn_row {
    const whim_attn_paged_args *a;
    const int32_t *pages; /* this sequence's row of the page table */
    const float *q;       /* [d_head] */
    float *out;           /* [d_head] */
    int64_t head;         /* KV head */
    float max, sum;
    bool started;
} attn_row;

static float round_like_kv(const whim_kv_view *kv, float x)
{
    return kv->type == WHIM_KV_BF16 ? whim_bf16_to_f32(whim_f32_to_bf16(x)) : x;
}

static float attn_score(const attn_row *row, int64_t key)
{
    const whim_kv_view *kv = &row->a->kv;
    int64_t page = row->pages[key / kv->page_len];
    int64_t vector = vector_index(kv, KEYS, key % kv->page_len, row->head);
    float acc = 0.0f, k[CHUNK];
    for (int64_t first = 0; first < kv->d_head; first += CHUNK) {
        int64_t n = kv->d_head - first < CHUNK ? kv->d_head - first : CHUNK;
        kv_load(kv, page, vector, first, n, k);
        for (int64_t i = 0; i < n; i++) {
            float q = round_like_kv(kv, row->q[first + i] * row->a->scale);
            acc = whim_fmaf(q, k[i], acc);
        }
    }
    return kv_scaled(kv, page, vector, acc);
}

/* Elements at .. at + n_elem - 1 of the weighted sum of values, at most a chunk. */
static void attn_values(const attn_row *row, const float *p, int64_t first, int64_t n, int64_t at,
                        int64_t n_elem, float acc[CHUNK])
{
    const whim_kv_view *kv = &row->a->kv;
    float v[CHUNK] = {0};
    memset(acc, 0, CHUNK * sizeof *acc);
    for (int64_t j = 0; j < n; j++) {
        int64_t page = row->pages[(first + j) / kv->page_len];
        int64_t vector = vector_index(kv, VALUES, (first + j) % kv->page_len, row->head);
        float weight = kv_scaled(kv, page, vector, round_like_kv(kv, p[j]));
        kv_load(kv, page, vector, at, n_elem, v);
        for (int i = 0; i < CHUNK; i++) {
            acc[i] = whim_fmaf(weight, v[i], acc[i]);
        }
    }
}

/* Keys first .. first + n - 1, all in one segment. */
static void attn_segment(attn_row *row, int64_t first, int64_t n)
{
    float p[WHIM_KV_SEGMENT];
    float max = -INFINITY;
    for (int64_t j = 0; j < n; j++) {
        p[j] = attn_score(row, first + j);
        max = p[j] > max ? p[j] : max;
    }
    float lanes[WHIM_LANES] = {0};
    for (int64_t j = 0; j < n; j++) {
        p[j] = whim_expf(p[j] - max);
        lanes[(first + j) % WHIM_LANES] += p[j];
    }
    float sum = whim_fold16_add(lanes);
    float new_max = row->started && row->max > max ? row->max : max;
    float keep = row->started ? whim_expf(row->max - new_max) : 0.0f;
    float take = row->started ? whim_expf(max - new_max) : 1.0f;
    int64_t d = row->a->kv.d_head;
    for (int64_t at = 0; at < d; at += CHUNK) {
        int64_t n_elem = d - at < CHUNK ? d - at : CHUNK;
        float o[CHUNK], *out = row->out + at;
        attn_values(row, p, first, n, at, n_elem, o);
        for (int64_t i = 0; i < n_elem; i++) {
            out[i] = row->started ? whim_fmaf(out[i], keep, o[i] * take) : o[i];
        }
    }
    row->sum = row->started ? whim_fmaf(row->sum, keep, sum * take) : sum;
    row->max = new_max;
    row->started = true;
}

static void attn_one(const whim_attn_paged_args *a, int64_t seq, int64_t r, int64_t h)
{
    int64_t d = a->kv.d_head;
    int64_t hi = a->kv_len[seq], lo = a->first;
    int64_t after = (int64_t)a->positions[r] + 1;
    int64_t last = a->causal ? after : after - 1 + a->window;
    if ((a->causal || a->window > 0) && last < hi) {
        hi = last;
    }
    if (a->window > 0 && after - a->window > lo) {
        lo = after - a->window;
    }
    attn_row row = {
        .a = a,
        .pages = a->pages + a->page_start[seq],
        .q = a->q + (r * a->n_head + h) * d,
        .out = a->out + (r * a->n_head + h) * d,
        .head = h / (a->n_head / a->kv.n_kv),
    };
    for (int64_t first = lo; first < hi;) {
        int64_t end = (first / WHIM_KV_SEGMENT + 1) * WHIM_KV_SEGMENT;
        end = end < hi ? end : hi;
        attn_segment(&row, first, end - first);
        first = end;
    }
    for (int64_t i = 0; i < d; i++) {
        row.out[i] = row.started ? row.out[i] / row.sum : 0.0f;
    }
}

whim_err whim_ref_attn_paged(whim_stream *s, const whim_attn_paged_args *a)
{
    (void)s;
    for (int64_t seq = 0; seq < a->n_seq; seq++) {
        for (int64_t r = a->q_start[seq]; r < a->q_start[seq + 1]; r++) {
            for (int64_t h = 0; h < a->n_head; h++) {
                attn_one(a, seq, r, h);
            }
        }
    }
    int64_t used = a->n_seq > 0 ? a->q_start[a->n_seq] : 0;
    int64_t width = a->n_head * a->kv.d_head;
    for (int64_t i = used * width; i < a->n_row * width; i++) {
        a->out[i] = 0.0f;
    }
    return WHIM_ERR_OK;
}

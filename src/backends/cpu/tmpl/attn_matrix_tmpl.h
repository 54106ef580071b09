/* SPDX-License-Identifier: Apache-2.0 */
/* One segment of attention on a matrix unit, for levels that give matrix_takes, matrix_scores and
 * matrix_values. Pairs go together over all keys that any of them sees; what a pair does not see
 * has a weight of exact zero. That could turn a sum of -0 into +0, so sums of -0 end as +0 always.
 * Included by attn_tmpl.h. */

/* The keys of the segment that any of the n pairs from r on sees; empty: hi <= lo. */
static void matrix_range(const attn_segment *s, int64_t r, int64_t n, int64_t *lo, int64_t *hi)
{
    *lo = WHIM_KV_SEGMENT;
    *hi = 0;
    for (int64_t i = r; i < r + n; i++) {
        if (s->lo[i] < s->hi[i]) {
            *lo = s->lo[i] < *lo ? s->lo[i] : *lo;
            *hi = s->hi[i] > *hi ? s->hi[i] : *hi;
        }
    }
}

static int64_t lanes_down(int64_t key)
{
    return key / WHIM_LANES * WHIM_LANES;
}

/* Zeros from `begin` to `end`, but where softmax left weights of the keys lo .. hi - 1, in whole
 * lanes. */
static void matrix_blank(float *p, int64_t lo, int64_t hi, int64_t begin, int64_t end)
{
    int64_t first = lo < hi ? lanes_down(lo) : end;
    int64_t last = lo < hi ? lanes_down(hi + WHIM_LANES - 1) : end;
    for (int64_t j = begin; j < first; j++) {
        p[j] = 0.0f;
    }
    for (int64_t j = last; j < end; j++) {
        p[j] = 0.0f;
    }
}

static int64_t matrix_count(const attn_unit *u, int64_t r)
{
    return u->n_pair - r < MATRIX_PAIRS ? u->n_pair - r : MATRIX_PAIRS;
}

/* Scores, and after softmax the sums over values, of the page that starts at key `page` of the
 * segment. */
static void matrix_page(const attn_unit *u, const attn_segment *s, int64_t page, bool values)
{
    const whim_kv_view *kv = &u->a->kv;
    const uint16_t *layer =
        (const uint16_t *)page_layer(kv, u->pages[(s->base + page) / WHIM_CPU_PAGE]);
    for (int64_t r = 0; r < u->n_pair; r += MATRIX_PAIRS) {
        int64_t n = matrix_count(u, r), lo, hi;
        matrix_range(s, r, n, &lo, &hi);
        int64_t begin = clip(lanes_down(lo) - page, 0, WHIM_CPU_PAGE);
        int64_t end = clip(lanes_down(hi + WHIM_LANES - 1) - page, 0, WHIM_CPU_PAGE);
        float *p = u->p + r * SCORE_STRIDE + page;
        if (values) {
            matrix_values(layer + values_index(kv, u->kv_head), kv->d_head, p, SCORE_STRIDE, n,
                          begin, end, s->o + r);
        } else {
            matrix_scores(layer + keys_index(kv, u->kv_head), kv->d_head, u->q + r * kv->d_head, n,
                          begin, end, p, SCORE_STRIDE);
        }
    }
}

static void matrix_weights(const attn_unit *u, attn_segment *s)
{
    int64_t d = u->a->kv.d_head, lo = 0, hi = 0;
    for (int64_t r = 0; r < u->n_pair; r++) {
        if (r % MATRIX_PAIRS == 0) {
            matrix_range(s, r, matrix_count(u, r), &lo, &hi);
        }
        float *p = u->p + r * SCORE_STRIDE;
        if (s->lo[r] < s->hi[r]) {
            softmax(p, s->lo[r], s->hi[r], true, &s->max[r], &s->sum[r]);
        }
        matrix_blank(p, s->lo[r], s->hi[r], lanes_down(lo), lanes_down(hi + WHIM_LANES - 1));
        memset(s->o[r], 0, (size_t)d * sizeof(float));
    }
}

/* Maximum, sum and o of every pair that sees a key of the segment. */
static void matrix_segment(const attn_unit *u, attn_segment *s)
{
    int64_t first = s->first / WHIM_CPU_PAGE * WHIM_CPU_PAGE;
    for (int64_t page = first; page < s->last; page += WHIM_CPU_PAGE) {
        matrix_page(u, s, page, false);
    }
    matrix_weights(u, s);
    for (int64_t page = first; page < s->last; page += WHIM_CPU_PAGE) {
        matrix_page(u, s, page, true);
    }
    for (int64_t r = 0; r < u->n_pair; r++) {
        for (int64_t i = 0; i < u->a->kv.d_head; i++) {
            s->o[r][i] += 0.0f;
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Cells over time. Only what web/dashboard_series.js reads is kept: a few hundred numbers. */
#include "server/metrics/history.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "server/body/body.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

/* Metrics without labels that are the operator's or the server's: their texts are in the table. */
static const int32_t kept[] = {
    WHIM_METER_TOKENS,       WHIM_METER_PROMPT_TOKENS, WHIM_METER_RUNNING,  WHIM_METER_WAITING,
    WHIM_METER_KV_BYTES,     WHIM_METER_KV_CAPACITY,   WHIM_METER_TTFT,     WHIM_METER_ITL,
    WHIM_METER_E2E,          WHIM_METER_STEP_SEQS,     WHIM_METER_PROPOSED, WHIM_METER_RIGHT_AT,
    WHIM_METER_BLOCK_TOKENS,
};
enum { N_KEPT = sizeof kept / sizeof kept[0] };

struct whim_history {
    pthread_mutex_t lock;
    int64_t n_number; /* of a sample */
    int64_t n;        /* samples so far; the ring has the last ones */
    int64_t last_ns;
    int64_t *times;   /* [WHIM_HISTORY_SAMPLES] */
    int64_t *numbers; /* [WHIM_HISTORY_SAMPLES][n_number] */
};

/* Of a histogram of times the sum is left out: nobody draws it. */
static bool has_sum(const whim_meter_spec *spec)
{
    return spec->unit == WHIM_METER_ONE;
}

/* Columns of a metric: cells, or all that a histogram has. */
static int64_t width(const whim_meter_spec *spec)
{
    return spec->type == WHIM_METER_HISTOGRAM ? spec->n_cell + 2 + has_sum(spec) : spec->n_cell;
}

whim_history *whim_history_create(void)
{
    whim_history *h = whim_alloc(sizeof *h);
    if (h == NULL) {
        return NULL;
    }
    pthread_mutex_init(&h->lock, NULL);
    for (int32_t i = 0; i < N_KEPT; i++) {
        h->n_number += width(&whim_meter_specs[kept[i]]);
    }
    h->times = whim_alloc_array(WHIM_HISTORY_SAMPLES, sizeof *h->times);
    h->numbers = whim_alloc_array(WHIM_HISTORY_SAMPLES * h->n_number, sizeof *h->numbers);
    if (h->times == NULL || h->numbers == NULL) {
        whim_history_destroy(h);
        return NULL;
    }
    return h;
}

void whim_history_destroy(whim_history *h)
{
    if (h != NULL) {
        pthread_mutex_destroy(&h->lock);
        whim_free(h->times);
        whim_free(h->numbers);
        whim_free(h);
    }
}

bool whim_history_is_due(whim_history *h, int64_t now_ns)
{
    pthread_mutex_lock(&h->lock);
    bool due = h->n == 0 || now_ns - h->last_ns >= WHIM_HISTORY_STEP_S * WHIM_NS_PER_S;
    pthread_mutex_unlock(&h->lock);
    return due;
}

static int64_t *row_of(const whim_history *h, int64_t i)
{
    return h->numbers + i % WHIM_HISTORY_SAMPLES * h->n_number;
}

/* The numbers of a metric as /metrics tells them: buckets add up. */
static int64_t *copy(const whim_meters *m, const whim_meter_spec *spec, int64_t *to)
{
    int64_t count = 0;
    bool adds_up = spec->type == WHIM_METER_HISTOGRAM;
    for (int32_t i = 0; i < spec->n_cell + adds_up; i++) {
        int64_t value = atomic_load_explicit(&m->cells[spec->cell + i], memory_order_relaxed);
        count = adds_up ? count + value : value;
        *to++ = count;
    }
    if (adds_up) {
        *to++ = count;
    }
    if (adds_up && has_sum(spec)) {
        *to++ =
            atomic_load_explicit(&m->cells[spec->cell + spec->n_cell + 1], memory_order_relaxed);
    }
    return to;
}

void whim_history_take(whim_history *h, const whim_meters *meters, int64_t now_ns)
{
    pthread_mutex_lock(&h->lock);
    int64_t *to = row_of(h, h->n);
    h->times[h->n % WHIM_HISTORY_SAMPLES] = h->last_ns = now_ns;
    for (int32_t i = 0; i < N_KEPT; i++) {
        to = copy(meters, &whim_meter_specs[kept[i]], to);
    }
    h->n++;
    pthread_mutex_unlock(&h->lock);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void put_name(whim_str *out, const char *name, const char *end, const char *label,
                     const char *value)
{
    whim_put_form(out, "'%s%s", name, end);
    if (label != NULL) {
        whim_str_printf(out, "{%s=\\\"%s\\\"}", label, value);
    }
    whim_str_append(out, "\",");
}

static void put_columns(whim_str *out)
{
    for (int32_t k = 0; k < N_KEPT; k++) {
        const whim_meter_spec *spec = &whim_meter_specs[kept[k]];
        bool is_histogram = spec->type == WHIM_METER_HISTOGRAM;
        for (int32_t i = 0; i < spec->n_cell; i++) {
            put_name(out, spec->name, is_histogram ? "_bucket" : "",
                     is_histogram                       ? "le"
                     : spec->set == WHIM_LABEL_SET_NONE ? NULL
                                                        : whim_label_name(spec->set),
                     is_histogram ? spec->limits[i] : whim_label_text(spec->set, i));
        }
        if (is_histogram) {
            put_name(out, spec->name, "_bucket", "le", "+Inf");
            put_name(out, spec->name, "_count", NULL, NULL);
        }
        if (is_histogram && has_sum(spec)) {
            put_name(out, spec->name, "_sum", NULL, NULL);
        }
    }
    out->len -= out->len > 0; /* the last comma */
}

static void put_row(whim_str *out, const int64_t *now, const int64_t *before, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        whim_str_printf(out, ",%" PRId64, now[i] - (before != NULL ? before[i] : 0));
    }
}

void whim_history_write(whim_history *h, int64_t now_ns, whim_str *out)
{
    whim_str_printf(out, "{\"step_s\":%d,\"columns\":[", WHIM_HISTORY_STEP_S);
    put_columns(out);
    whim_str_append(out, "],\"rows\":[");
    pthread_mutex_lock(&h->lock);
    int64_t first = h->n > WHIM_HISTORY_SAMPLES ? h->n - WHIM_HISTORY_SAMPLES : 0;
    for (int64_t i = first; i < h->n; i++) {
        int64_t age = now_ns - h->times[i % WHIM_HISTORY_SAMPLES];
        whim_str_printf(out, "%s[%" PRId64, i > first ? "," : "", age / WHIM_NS_PER_MS);
        put_row(out, row_of(h, i), i > first ? row_of(h, i - 1) : NULL, h->n_number);
        whim_str_append_char(out, ']');
    }
    pthread_mutex_unlock(&h->lock);
    whim_str_append(out, "]}");
}

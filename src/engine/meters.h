/* SPDX-License-Identifier: Apache-2.0 */
/* Counters and histograms: one array of cells that meters.def lays out, and the inline calls that
 * move them. The text of /metrics is server/metrics.
 *
 * Invariants:
 *  1. A call here is one or two relaxed atomic adds: no lock, no allocation, no system call.
 *  2. A histogram's count is the sum of its cells, so count and buckets agree whenever they are
 *     read.
 * Threads: any. */
#ifndef WHIM_ENGINE_METERS_H
#define WHIM_ENGINE_METERS_H

#include <stdatomic.h>
#include <stdint.h>

/* The label sets and bucket sets, without the metrics. */
#include "engine/meters.def"

/* Room for the server's routes and faults, which it names. */
enum { WHIM_LABEL_ROUTE_COUNT = 48, WHIM_LABEL_REASON_COUNT = 32 };

#define WHIM_LABEL_ENUM(set, value, text) WHIM_LABEL_##set##_##value,
#define WHIM_LABEL_SET_ENUM(set, label) \
    enum { WHIM_LABELS_##set(WHIM_LABEL_ENUM) WHIM_LABEL_##set##_COUNT };
WHIM_LABEL_SETS(WHIM_LABEL_SET_ENUM)
/* A cell of HTTP is ((route * methods) + method) * statuses + status. */
enum {
    WHIM_LABEL_HTTP_COUNT =
        WHIM_LABEL_ROUTE_COUNT * WHIM_LABEL_METHOD_COUNT * WHIM_LABEL_STATUS_COUNT
};

/* A cell of RANK_SITE is rank * sites + site. */
enum {
    WHIM_LABEL_RANK_COUNT = 1024, /* WHIM_COMM_MAX_RANK */
    WHIM_LABEL_RANK_SITE_COUNT = WHIM_LABEL_RANK_COUNT * WHIM_LABEL_SITE_COUNT
};

#define WHIM_BUCKET_ONE(text, limit) +1
enum {
    WHIM_BUCKETS_LATENCY_COUNT = 0 WHIM_BUCKETS_LATENCY(WHIM_BUCKET_ONE),
    WHIM_BUCKETS_SHORT_COUNT = 0 WHIM_BUCKETS_SHORT(WHIM_BUCKET_ONE),
    WHIM_BUCKETS_FINE_COUNT = 0 WHIM_BUCKETS_FINE(WHIM_BUCKET_ONE),
    WHIM_BUCKETS_POWERS_COUNT = 0 WHIM_BUCKETS_POWERS(WHIM_BUCKET_ONE),
};
extern const int64_t whim_buckets_LATENCY[WHIM_BUCKETS_LATENCY_COUNT];
extern const int64_t whim_buckets_SHORT[WHIM_BUCKETS_SHORT_COUNT];
extern const int64_t whim_buckets_FINE[WHIM_BUCKETS_FINE_COUNT];
extern const int64_t whim_buckets_POWERS[WHIM_BUCKETS_POWERS_COUNT];
extern const char *const whim_bucket_texts_LATENCY[WHIM_BUCKETS_LATENCY_COUNT];
extern const char *const whim_bucket_texts_SHORT[WHIM_BUCKETS_SHORT_COUNT];
extern const char *const whim_bucket_texts_FINE[WHIM_BUCKETS_FINE_COUNT];
extern const char *const whim_bucket_texts_POWERS[WHIM_BUCKETS_POWERS_COUNT];

/* Where the cells of each metric begin. A histogram has one for each limit, one for what is above,
 * and its sum. */
enum {
#define METER(id, type, unit, set, name, help) \
    WHIM_CELL_##id, WHIM_CELL_LAST_##id = WHIM_CELL_##id + WHIM_LABEL_##set##_COUNT - 1,
#define HISTOGRAM(id, unit, buckets, name, help) \
    WHIM_CELL_##id, WHIM_CELL_LAST_##id = WHIM_CELL_##id + WHIM_BUCKETS_##buckets##_COUNT + 1,
#include "engine/meters.def"
    WHIM_CELL_COUNT
};
enum {
#define METER(id, type, unit, set, name, help)
#define HISTOGRAM(id, unit, buckets, name, help) \
    WHIM_HISTOGRAM_LIMITS_##id = WHIM_BUCKETS_##buckets##_COUNT,
#include "engine/meters.def"
};

typedef struct whim_meters {
    atomic_llong cells[WHIM_CELL_COUNT];
} whim_meters;

/* --- counting --------------------------------------------------------------------------------- */

static inline void whim_cell_add(atomic_llong *cell, int64_t n)
{
    atomic_fetch_add_explicit(cell, n, memory_order_relaxed);
}

static inline void whim_cell_observe(atomic_llong *cells, const int64_t *limits, int32_t n_limit,
                                     int64_t value)
{
    int32_t i = 0, end = n_limit;
    while (i < end) {
        int32_t middle = (i + end) / 2;
        i = value > limits[middle] ? middle + 1 : i;
        end = value > limits[middle] ? end : middle;
    }
    whim_cell_add(&cells[i], 1);
    whim_cell_add(&cells[n_limit + 1], value > 0 ? value : 0);
}

/* whim_meter_add(meters, TOKENS, WHIM_LABEL_TOKENS_CACHED, 3); the label of a metric without any is
 * 0. */
#define whim_meter_add(meters, ID, label, n) \
    whim_cell_add(&(meters)->cells[WHIM_CELL_##ID + (label)], (n))

/* For what is looked at elsewhere: a gauge, or a counter that somebody else keeps. */
#define whim_meter_set(meters, ID, label, value)                                          \
    atomic_store_explicit(&(meters)->cells[WHIM_CELL_##ID + (label)], (long long)(value), \
                          memory_order_relaxed)
#define whim_meter_get(meters, ID, label)                                      \
    ((int64_t)atomic_load_explicit(&(meters)->cells[WHIM_CELL_##ID + (label)], \
                                   memory_order_relaxed))

/* whim_meter_observe(meters, TTFT, ns); the bucket set is found by the name of the histogram. */
#define whim_meter_observe(meters, ID, value)                                     \
    whim_cell_observe(&(meters)->cells[WHIM_CELL_##ID], whim_meter_limits_##ID(), \
                      WHIM_HISTOGRAM_LIMITS_##ID, (value))
#define METER(id, type, unit, set, name, help)
#define HISTOGRAM(id, unit, buckets, name, help)              \
    static inline const int64_t *whim_meter_limits_##id(void) \
    {                                                         \
        return whim_buckets_##buckets;                        \
    }
#include "engine/meters.def"

/* --- what there is: for the text -------------------------------------------------------------- */

typedef enum whim_meter_type {
    WHIM_METER_COUNTER,
    WHIM_METER_GAUGE,
    WHIM_METER_HISTOGRAM,
} whim_meter_type;

typedef enum whim_meter_unit {
    WHIM_METER_ONE,
    WHIM_METER_SECONDS,
    WHIM_METER_RATIO,
} whim_meter_unit;

#define WHIM_LABEL_SET_NAME(set, label) WHIM_LABEL_SET_##set,
typedef enum whim_label_set {
    WHIM_LABEL_SETS(WHIM_LABEL_SET_NAME) WHIM_LABEL_SET_REASON,
    WHIM_LABEL_SET_HTTP,
    WHIM_LABEL_SET_RANK,
    WHIM_LABEL_SET_RANK_SITE,
} whim_label_set;

typedef struct whim_meter_spec {
    const char *name, *help;
    whim_meter_type type;
    whim_meter_unit unit;
    whim_label_set set;        /* NONE for a histogram */
    int32_t cell;              /* its first */
    int32_t n_cell;            /* labels, or limits of a histogram */
    const char *const *limits; /* [n_cell] of a histogram, as text */
} whim_meter_spec;

enum {
#define METER(id, type, unit, set, name, help) WHIM_METER_##id,
#define HISTOGRAM(id, unit, buckets, name, help) WHIM_METER_##id,
#include "engine/meters.def"
    WHIM_METER_COUNT
};

extern const whim_meter_spec whim_meter_specs[WHIM_METER_COUNT];

/* The name and the i-th text of a set that is not the server's. */
const char *whim_label_name(whim_label_set set);
const char *whim_label_text(whim_label_set set, int32_t i);

/* The label of an HTTP status and of a method. */
int32_t whim_label_of_status(int status);
int32_t whim_label_of_method(const char *method);

/* The label of a collective's site. */
int32_t whim_label_of_site(const char *site);

#endif

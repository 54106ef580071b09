/* SPDX-License-Identifier: Apache-2.0 */
/* meters.def as tables. */
#include "engine/meters.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT(text, limit) INT64_C(limit),
const int64_t whim_buckets_LATENCY[] = {WHIM_BUCKETS_LATENCY(LIMIT)};
const int64_t whim_buckets_SHORT[] = {WHIM_BUCKETS_SHORT(LIMIT)};
const int64_t whim_buckets_FINE[] = {WHIM_BUCKETS_FINE(LIMIT)};
const int64_t whim_buckets_POWERS[] = {WHIM_BUCKETS_POWERS(LIMIT)};

#define LIMIT_TEXT(text, limit) text,
const char *const whim_bucket_texts_LATENCY[] = {WHIM_BUCKETS_LATENCY(LIMIT_TEXT)};
const char *const whim_bucket_texts_SHORT[] = {WHIM_BUCKETS_SHORT(LIMIT_TEXT)};
const char *const whim_bucket_texts_FINE[] = {WHIM_BUCKETS_FINE(LIMIT_TEXT)};
const char *const whim_bucket_texts_POWERS[] = {WHIM_BUCKETS_POWERS(LIMIT_TEXT)};

#define LABEL_TEXT(set, value, text) text,
#define SET_TEXTS(set, label) \
    static const char *const labels_##set[] = {WHIM_LABELS_##set(LABEL_TEXT)};
WHIM_LABEL_SETS(SET_TEXTS)

#define SET_ROW(set, label) {label, labels_##set},
static const struct {
    const char *name;
    const char *const *texts;
} sets[] = {WHIM_LABEL_SETS(SET_ROW)};

const whim_meter_spec whim_meter_specs[] = {
#define METER(id, type_, unit_, set_, name_, help_) \
    {.name = name_,                                 \
     .help = help_,                                 \
     .type = WHIM_METER_##type_,                    \
     .unit = WHIM_METER_##unit_,                    \
     .set = WHIM_LABEL_SET_##set_,                  \
     .cell = WHIM_CELL_##id,                        \
     .n_cell = WHIM_LABEL_##set_##_COUNT},
#define HISTOGRAM(id, unit_, buckets_, name_, help_) \
    {.name = name_,                                  \
     .help = help_,                                  \
     .type = WHIM_METER_HISTOGRAM,                   \
     .unit = WHIM_METER_##unit_,                     \
     .cell = WHIM_CELL_##id,                         \
     .n_cell = WHIM_BUCKETS_##buckets_##_COUNT,      \
     .limits = whim_bucket_texts_##buckets_},
#include "engine/meters.def"
};

const char *whim_label_name(whim_label_set set)
{
    return sets[set].name;
}

const char *whim_label_text(whim_label_set set, int32_t i)
{
    return sets[set].texts[i];
}

int32_t whim_label_of_status(int status)
{
    int32_t i = 0;
    while (i < WHIM_LABEL_STATUS_OTHER && atoi(labels_STATUS[i]) != status) {
        i++;
    }
    return i;
}

int32_t whim_label_of_method(const char *method)
{
    int32_t i = 0;
    while (i < WHIM_LABEL_METHOD_OTHER && strcmp(labels_METHOD[i], method) != 0) {
        i++;
    }
    return i;
}

int32_t whim_label_of_site(const char *site)
{
    int32_t i = 0;
    while (i < WHIM_LABEL_SITE_OTHER && strcmp(labels_SITE[i], site) != 0) {
        i++;
    }
    return i;
}

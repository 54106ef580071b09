/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_compat.def as text. */
#include "base/json.h"
#include "server/metrics/metrics.h"

#include <stdio.h>
#include <string.h>

static const char *const names[WHIM_COMPAT_COUNT] = {"vllm", "sglang", "llamacpp"};

whim_err whim_compat_parse(const char *list, uint32_t *bits, whim_diag *diag)
{
    for (const char *at = list;; at++) {
        size_t n = strcspn(at, ",");
        int32_t i = 0;
        while (i < WHIM_COMPAT_COUNT && (strlen(names[i]) != n || strncmp(at, names[i], n) != 0)) {
            i++;
        }
        if (i == WHIM_COMPAT_COUNT) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "\"%.*s\" is not one of vllm, sglang and llamacpp",
                             n < 40 ? (int)n : 40, at);
        }
        *bits |= UINT32_C(1) << i;
        at += n;
        if (*at == '\0') {
            return WHIM_ERR_OK;
        }
    }
}

/* --- the table -------------------------------------------------------------------------------- */

typedef enum term_kind { TERM_ONE, TERM_CELL, TERM_ALL, TERM_SUM, TERM_COUNT } term_kind;

/* A number made of ours. */
typedef struct term {
    term_kind kind;
    int32_t meter, label;
} term;

typedef enum row_form { ROW_VALUE, ROW_HISTOGRAM, ROW_LABELLED } row_form;

typedef struct row {
    whim_compat server;
    row_form form;
    const char *name, *type, *help;
    term top, bottom;          /* VALUE */
    int32_t meter;             /* HISTOGRAM, LABELLED */
    const char *label;         /* LABELLED */
    const char *const *limits; /* HISTOGRAM: [n_limit] */
    int32_t n_limit;
} row;

#define TERM(...)   \
    {               \
        __VA_ARGS__ \
    }
#define TYPE_COUNTER "counter"
#define TYPE_GAUGE "gauge"
#define ONE TERM(TERM_ONE)
#define CELL(id, label) TERM(TERM_CELL, WHIM_METER_##id, label)
#define ALL(id) TERM(TERM_ALL, WHIM_METER_##id)
#define SUM(id) TERM(TERM_SUM, WHIM_METER_##id)
#define COUNT(id) TERM(TERM_COUNT, WHIM_METER_##id)

static const row rows[] = {
#define VALUE(server, name, type, top, bottom, help) \
    {WHIM_COMPAT_##server, ROW_VALUE, name, TYPE_##type, help, top, bottom},
#define HISTOGRAM(server, name, id, buckets, help) \
    {WHIM_COMPAT_##server,                         \
     ROW_HISTOGRAM,                                \
     name,                                         \
     "histogram",                                  \
     help,                                         \
     .meter = WHIM_METER_##id,                     \
     .limits = whim_bucket_texts_##buckets,        \
     .n_limit = WHIM_BUCKETS_##buckets##_COUNT},
#define LABELLED(server, name, label_, id, help)                         \
    {WHIM_COMPAT_##server,     ROW_LABELLED,   name, TYPE_COUNTER, help, \
     .meter = WHIM_METER_##id, .label = label_},
#include "server/metrics/metrics_compat.def"
};

/* --- values ----------------------------------------------------------------------------------- */

static double sum_cells(const whim_meters *m, int32_t from, int32_t n)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += atomic_load_explicit(&m->cells[from + i], memory_order_relaxed);
    }
    return (double)sum;
}

static double value_of(const whim_meters *m, const term *t)
{
    const whim_meter_spec *spec = &whim_meter_specs[t->meter];
    double unit = spec->unit == WHIM_METER_SECONDS ? 1e-9
                  : spec->unit == WHIM_METER_RATIO ? 1e-3
                                                   : 1;
    switch (t->kind) {
    case TERM_CELL:
        return sum_cells(m, spec->cell + t->label, 1) * unit;
    case TERM_ALL:
        return sum_cells(m, spec->cell, spec->n_cell) * unit;
    case TERM_SUM:
        return sum_cells(m, spec->cell + spec->n_cell + 1, 1) * unit;
    case TERM_COUNT:
        return sum_cells(m, spec->cell, spec->n_cell + 1);
    default:
        return 1;
    }
}

/* --- text ------------------------------------------------------------------------------------- */

static void put_number(whim_str *out, double x)
{
    char text[WHIM_REAL_ROOM];
    whim_format_real(text, x);
    char *end = text + strlen(text);
    if (end - text > 2 && strcmp(end - 2, ".0") == 0) {
        end[-2] = '\0'; /* counts are whole */
    }
    whim_str_printf(out, " %s\n", text);
}

static void put_row(whim_str *out, const whim_meters *m, const row *r, const char *labels)
{
    const whim_meter_spec *spec = &whim_meter_specs[r->meter];
    whim_metrics_put_head(out, r->name, r->type, r->help);
    if (r->form == ROW_HISTOGRAM) {
        whim_metrics_put_histogram(out, m, spec, r->name, labels, r->limits, r->n_limit);
    } else if (r->form == ROW_LABELLED) {
        for (int32_t i = 0; i < spec->n_cell; i++) {
            whim_str_printf(out, "%s{%s%s=\"%s\"}", r->name, labels, r->label,
                            whim_label_text(spec->set, i));
            put_number(out, sum_cells(m, spec->cell + i, 1));
        }
    } else {
        double bottom = value_of(m, &r->bottom);
        int n = (int)strlen(labels) - 1; /* without the comma */
        whim_str_append(out, r->name);
        if (n > 0) {
            whim_str_printf(out, "{%.*s}", n, labels);
        }
        put_number(out, bottom > 0 ? value_of(m, &r->top) / bottom : 0);
    }
}

/* llama.cpp has no labels; the others name the model, and vLLM its engine too. */
static void make_labels(whim_str *out, whim_compat server, const char *model)
{
    whim_str_clear(out);
    if (server != WHIM_COMPAT_LLAMACPP) {
        whim_str_append(out, "model_name=");
        whim_metrics_put_quoted(out, model);
        whim_str_append(out, server == WHIM_COMPAT_VLLM ? ",engine=\"0\"," : ",");
    }
}

void whim_metrics_put_compat(whim_str *out, const whim_meters *m, const whim_metrics_info *info)
{
    whim_str labels = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (info->model != NULL && (info->compat >> rows[i].server & 1) != 0) {
            make_labels(&labels, rows[i].server, info->model);
            put_row(out, m, &rows[i], whim_str_text(&labels));
        }
    }
    out->failed = out->failed || labels.failed;
    whim_str_deinit(&labels);
}

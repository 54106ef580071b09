/* SPDX-License-Identifier: Apache-2.0 */
/* /metrics: the cells of engine/meters as text that Prometheus reads (format 0.0.4), and under the
 * names of other servers where somebody asked for those.
 * Threads: any. */
#ifndef WHIM_SERVER_METRICS_METRICS_H
#define WHIM_SERVER_METRICS_METRICS_H

#include "base/err.h"
#include "base/str.h"
#include "engine/meters.h"
#include "engine/service.h"
#include "http/http.h"

#include <stdbool.h>
#include <stdint.h>

/* Whose names are published beside ours: bits 1 << kind. */
typedef enum whim_compat {
    WHIM_COMPAT_VLLM,
    WHIM_COMPAT_SGLANG,
    WHIM_COMPAT_LLAMACPP,
    WHIM_COMPAT_COUNT,
} whim_compat;

/* One or several of their names with commas between them; adds bits. INVALID names the word that is
 * none. */
WHIM_MUST_CHECK whim_err whim_compat_parse(const char *list, uint32_t *bits, whim_diag *diag);

/* Texts that are labels: the operator's and the build's own. */
typedef struct whim_metrics_info {
    const char *version, *commit;
    const char *model, *isa;        /* NULL: no model yet */
    const char *draft, *draft_kind; /* NULL: there is none */
    bool lookup;                    /* tokens that stood before are proposed */
    uint32_t compat;
} whim_metrics_info;

/* What is looked at only when somebody asks. */
typedef struct whim_metrics_now {
    whim_http_stats http;
    whim_service *service; /* NULL: none */
    int32_t state;         /* WHIM_LABEL_STATE_... */
    int32_t progress;      /* in thousandths */
} whim_metrics_now;
void whim_metrics_look(whim_meters *meters, const whim_metrics_now *now);

/* An HTTP request has its status: its route (a number of the router's), method, and why it was
 * refused, if it was. */
void whim_metrics_count(whim_meters *meters, whim_exchange *ex, int status);

/* Everything as text, appended. */
void whim_metrics_write(const whim_meters *meters, const whim_metrics_info *info, whim_str *out);

/* --- parts of it ------------------------------------------------------------------------------ */

/* A label's value with its quotes. */
void whim_metrics_put_quoted(whim_str *out, const char *text);

void whim_metrics_put_head(whim_str *out, const char *name, const char *type, const char *help);

/* The lines of a histogram; `labels` is "" or `a="b",`. Of its limits, those are shown
 * that are among `limits`, which are in order. */
void whim_metrics_put_histogram(whim_str *out, const whim_meters *meters,
                                const whim_meter_spec *spec, const char *name, const char *labels,
                                const char *const *limits, int32_t n_limit);

/* The same numbers under other names. Nothing before there is a model: its name is a label of
 * theirs. */
void whim_metrics_put_compat(whim_str *out, const whim_meters *meters,
                             const whim_metrics_info *info);

#endif

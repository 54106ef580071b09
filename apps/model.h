/* SPDX-License-Identifier: Apache-2.0 */
/* Models as the commands open them: options, the bar while they load, the memory plan and the
 * context in words.
 * Threads: the main thread, but for load progress, which loader threads report. */
#ifndef WHIM_APPS_MODEL_H
#define WHIM_APPS_MODEL_H

#include "base/report/progress.h"
#include "cmd.h"

#include <pthread.h>

/* What the command line says of a model that answers one request at a time, as `run` has it; and of
 * one that serves. */
whimbrel_model_options model_options(const whim_options *options, const char *path);
whim_library_extra model_extra(const whim_options *options);
whimbrel_model_options serve_options(const whim_options *options, const char *path);
whim_library_extra serve_extra(const whim_options *options);

/* How many ranks --tp, --cp, --dp or --ep asks for; 0: none does. */
int32_t ranks_asked(const whim_options *options);

/* Why a server does not wish for a rank on each memory node; NULL: it does. */
const char *ranks_wished(const whim_options *options);

/* The first for commands that want no more than an engine. */
whim_engine_cfg engine_cfg(const whim_options *options, const char *path);

/* An error of the library, with the option in front that it is about; as a complaint. */
void append_error(whim_str *out, const whimbrel_error *error);
void complain_of(const whimbrel_error *error);

/* Loading shown as a bar on standard error. Caller's storage from open to load. */
typedef struct loader {
    pthread_mutex_t lock;
    whim_progress bar; /* begins with the first report, because only that tells the total */
    const char *label;
    bool quiet, begun;
    int64_t delay_ns; /* loading that takes less is not worth a word */
    int64_t done;     /* reports of several threads may overtake each other */
} loader;

/* Open a model that reports to the loader, unless options have somebody else, and print device and
 * memory plan, unless quiet. Complains and gives NULL on failure. */
whimbrel_model *open_model(const whimbrel_model_options *options, const whim_library_extra *extra,
                           bool quiet, loader *load);

/* The options that would help where a model does not fit for its keys and values, else "". */
const char *fit_hint(const whim_engine *engine, whim_err err);

/* whimbrel_load; complains and gives false on failure. */
bool load_model(whimbrel_model *model, loader *load);

/* The same for an engine alone; the latter also for that of a model whose requests wait. */
whim_engine *open_engine(const whim_engine_cfg *cfg, bool quiet, loader *load);
bool load_engine(whim_engine *engine, loader *load);

/* What these give the engine to report to, for other work on weights; and the end of that. */
void load_report(void *ctx, int64_t done, int64_t total);
void load_finish(loader *load, bool ok);

/* The plan part by part, one line each; as JSON. */
void append_plan(whim_str *out, const whim_memory_plan *plan);
void json_plan(whim_str *out, const whim_memory_plan *plan);

/* Why a context is shorter than the model's own, in words; NULL where it is not. */
const char *context_reason(const whim_options *options, const whim_engine *engine, int64_t ctx);

/* "context 8192 tokens"; where the model has more also how many, and why they are not all there. */
void append_context(whim_str *out, const whim_options *options, const whim_engine *engine,
                    int64_t ctx);

/* What helps when the context is too short. */
void append_context_hint(whim_str *out, const whim_options *options, const whimbrel_info *info);

#endif

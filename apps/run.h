/* SPDX-License-Identifier: Apache-2.0 */
/* The state of one `whimbrel run`, shared by its files: cmd_run.c (prompt and flow) and
 * run_output.c (what is printed). Threads: the main thread. */
#ifndef WHIM_APPS_RUN_H
#define WHIM_APPS_RUN_H

#include "ask.h"
#include "texts.h"

typedef struct run {
    const whim_options *options;
    const char *path;
    whimbrel_model *model;
    const whimbrel_info *info;
    sampling sampling;
    form form;
    whim_str text;    /* the prompt as given; empty with --ids */
    bool by_ids;      /* --ids: ids come out, no text */
    int64_t *raw_ids; /* --ids before they are checked */
    int64_t n_raw_id;
    int32_t *ids; /* and then */
    whimbrel_request *request;
    const int32_t *prompt; /* [n_prompt] its tokens */
    int64_t n_prompt;
    whim_str said;                  /* all text */
    whim_str made, logprobs, calls; /* JSON lists under way */
    whim_str prompt_logprobs;
    int64_t n_made;
    bool terminal; /* standard output is one */
    bool write_failed;
} run;

/* An ask_event_fn: print what came, or keep it for the JSON object. */
void run_event(void *ctx, const whimbrel_event *event);

/* After the end: the rest of the text output, or the JSON object; then the summary if verbose.
 * False when standard output fails. */
bool run_finish(run *r, const asked *got);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of libwhimbrel, for the commands of the program: what they may ask beyond the public
 * header (whimbrel/whimbrel.h), and the parts that a model is made of.
 * Threads: as the public header says; a part's own header says what may be done with it. */
#ifndef WHIM_LIBRARY_LIBRARY_H
#define WHIM_LIBRARY_LIBRARY_H

#include "engine/service.h"
#include "library/grammar_cache.h"
#include "library/text_side.h"

#include <whimbrel/whimbrel.h>

/* {0}: as for any program. */
typedef struct whim_library_extra {
    const char *load_format, *weight_type; /* see whim_engine_cfg */
    const char *record_steps;
    whim_stream_watch *watch;
    int64_t max_outs;    /* rows with logits in one step; 0: 32, or max_parallel if that is more */
    bool no_checkpoints; /* no request returns to what was said */
    bool all_at_longest; /* pages for max_parallel sequences at their longest, whatever it takes */
    const char *kv_dir;
    int64_t request_bytes; /* see whim_engine_cfg */
    bool request_bytes_asked;
    int32_t n_rank;  /* processes that have the model together; 0 or 1: this one alone */
    int32_t n_share; /* parts of them that share prompts; 0 or 1: none */
    int32_t n_deal;  /* how many of them have whole experts; 0 or 1: none */
    bool deal_cut;   /* see whim_engine_cfg */
    const char *deal_rows, *deal_counts; /* see whim_engine_cfg */
    int32_t deal_slots;
    int32_t n_group;   /* groups of them with requests of their own; 0 or 1: none */
    int32_t wish_rank; /* without n_rank: this many, if nothing is lost by it */
    bool may_crowd;    /* also where they outnumber the CPUs */
    const struct whim_nodes_cfg
        *nodes;          /* of which hosts, of which this is node 0; NULL: this one */
    whim_meters *meters; /* what it counts in; outlives it; NULL: nowhere that anybody looks */
} whim_library_extra;

/* What options become for the engine. `extra` may be NULL. */
whim_engine_cfg whim_library_engine_cfg(const whimbrel_model_options *options,
                                        const whim_library_extra *extra);

/* The draft that is next to a model, into out; false: there is none. */
bool whim_library_draft_beside(const char *model, char *out, size_t size);

/* whimbrel_open with more. */
whimbrel_status whim_library_open(const whimbrel_model_options *options,
                                  const whim_library_extra *extra, whimbrel_model **out,
                                  whimbrel_error *error);

/* The second half of whimbrel_load, after whim_engine_load: the thread that answers requests, with
 * what `more` says beyond the model's own (disk, log, limits). Whoever steps the runner by
 * itself does not need it. */
WHIM_MUST_CHECK whim_err whim_library_start(whimbrel_model *model, const whim_service_cfg *more,
                                            whim_diag *diag);

/* End the requests that are left. close does it, too. */
void whim_library_stop(whimbrel_model *model);

whim_engine *whim_library_engine(const whimbrel_model *model);

/* Why it has one rank where more were wished; NULL: none were, or it has them. */
const char *whim_library_ranks_unused(const whimbrel_model *model);
const whim_text_side *whim_library_text(const whimbrel_model *model);
whim_service *whim_library_service(const whimbrel_model *model); /* NULL before it runs */

/* The tokens arranged for grammars; made when it is first asked for. */
WHIM_MUST_CHECK whim_err whim_library_vocab(whimbrel_model *model, const whim_grammar_vocab **out);

/* --- requests ------------------------------------------------------------------------------ */

/* What a server asks beyond whimbrel_request_options. {0}: as for any program; all is borrowed. */
typedef struct whim_request_extra {
    json_t *messages, *tools, *args, *schema; /* instead of the options' texts */
    bool new_turn, is_closed;                 /* see whim_prompt_request */
    /* see whim_answer_rule; NULL: as the options call them */
    const char *schema_at, *tool_schema;
    const int32_t *tool_at;
    bool no_compile;              /* BUSY where a grammar is not known yet */
    const whimbrel_request *like; /* has the same grammar; NULL: none has */
    const int32_t *allowed;       /* [n_allowed] tokens of the vocabulary; see whim_job_cfg */
    int32_t n_allowed;
    const whim_history_rules *history; /* see whim_sample_params; lives until the start */
    int64_t keep_last; /* tokens of the prompt, from its end; 0: all; -1: as many as fit */
    bool from_front;   /* those are kept that it begins with */
} whim_request_extra;

/* whimbrel_prepare with more. `field` (128 bytes) names what is wrong. *out is there also after an
 * error, unless memory was short, with as much of the prompt as was made. */
WHIM_MUST_CHECK whim_err whim_request_make(whimbrel_model *model,
                                           const whimbrel_request_options *options,
                                           const whim_request_extra *extra, whimbrel_request **out,
                                           char *field, whim_diag *diag);

/* Only the prompt, of extra->messages. */
WHIM_MUST_CHECK whim_err whim_request_render(const whimbrel_model *model,
                                             const whimbrel_request_options *options,
                                             const whim_request_extra *extra, whim_prompt *out,
                                             char *field, whim_diag *diag);

/* Start n requests, all or none. `how` may be NULL; of it client, priority_among_all, received_ns,
 * deadline_ns, id and wake count. */
WHIM_MUST_CHECK whim_err whim_requests_start(whimbrel_request *const *requests, int32_t n,
                                             const whim_job_cfg *how, whim_diag *diag);

/* As whim_job_cancel; and as whim_job_get_times, after the last event. */
void whim_request_drop(whimbrel_request *request, whim_job_reason why);
whim_job_times whim_request_times(const whimbrel_request *request);

/* As whim_job_look_at; of one that was not started only n_prompt. */
whim_job_look whim_request_look(const whimbrel_request *request);

/* What tools and a schema must look like at least. INVALID with a message without a subject. */
WHIM_MUST_CHECK whim_err whim_library_check_tools(const json_t *tools, whim_diag *diag);
bool whim_library_has_tool(const json_t *tools, const char *name); /* of those that were checked */
WHIM_MUST_CHECK whim_err whim_library_check_schema(const json_t *schema, whim_diag *diag);

/* One that was not chosen. */
uint64_t whim_library_seed(void);

/* Sampling as the engine has it; `bias` is borrowed. */
whim_sample_params whim_library_params(const whimbrel_sampling *sampling);

#endif

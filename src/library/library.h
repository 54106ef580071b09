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
    bool no_checkpoints; /* nobody comes back to what was said */
    bool all_at_longest; /* pages for max_parallel sequences at their longest, whatever it takes */
    bool kv_disk;
} whim_library_extra;

/* What options become for the engine. `extra` may be NULL. */
whim_engine_cfg whim_library_engine_cfg(const whimbrel_model_options *options,
                                        const whim_library_extra *extra);

/* whimbrel_open with more. */
whimbrel_status whim_library_open(const whimbrel_model_options *options,
                                  const whim_library_extra *extra, whimbrel_model **out,
                                  whimbrel_error *error);

/* The second half of whimbrel_load, after whim_engine_load: the thread that answers requests, with
 * what `more` says beyond the model's own (disk, meters, log, limits). Whoever steps the runner by
 * itself does not need it. */
WHIM_MUST_CHECK whim_err whim_library_start(whimbrel_model *model, const whim_service_cfg *more,
                                            whim_diag *diag);

/* End the requests that are left. close does it, too. */
void whim_library_stop(whimbrel_model *model);

whim_engine *whim_library_engine(const whimbrel_model *model);
const whim_text_side *whim_library_text(const whimbrel_model *model);
whim_service *whim_library_service(const whimbrel_model *model); /* NULL before it runs */

/* The tokens arranged for grammars; made when it is first asked for. */
WHIM_MUST_CHECK whim_err whim_library_vocab(whimbrel_model *model, const whim_grammar_vocab **out);

/* What tools and a schema must look like at least. INVALID with a message without a subject. */
WHIM_MUST_CHECK whim_err whim_library_check_tools(const json_t *tools, whim_diag *diag);
WHIM_MUST_CHECK whim_err whim_library_check_schema(const json_t *schema, whim_diag *diag);

/* Sampling as the engine has it; `bias` is borrowed. */
whim_sample_params whim_library_params(const whimbrel_sampling *sampling);

#endif

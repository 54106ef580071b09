/* SPDX-License-Identifier: Apache-2.0 */
/* How the commands choose tokens: what the model recommends, what the command line says, what a
 * chat changes. Threads: the main thread. */
#ifndef WHIM_APPS_SAMPLING_H
#define WHIM_APPS_SAMPLING_H

#include "cmd.h"

/* {0} before it is chosen; must not move afterwards. */
typedef struct sampling {
    whimbrel_sampling v;
    whimbrel_logit_bias bias[WHIM_OPTION_MAX_STRINGS];
    /* neither the model nor the command line asks for it: not at temperature 0 */
    bool is_penalty_ours;
} sampling;

/* `greedy`: temperature 0 unless the command line says otherwise. False after a complaint. */
bool sampling_choose(sampling *s, const whim_options *options, const whimbrel_model *model,
                     const char *path, bool greedy);

/* Its part that needs no model: --logit-bias. */
bool sampling_read_bias(sampling *s, const whim_options *options);

/* "temperature 0.7, top_p 0.9, seed 5", without what is off; the seed on request. */
void append_params(whim_str *out, const whimbrel_sampling *params, bool seed);

/* Set one parameter by name ("temperature", "top_k", ... as append_params writes them); false with
 * a message in diag when there is none or the value is bad. */
bool set_param(whimbrel_sampling *params, int32_t n_vocab, const char *name, const char *value,
               whim_diag *diag);

/* --repetition-detection, or what the command does without it. */
bool detects_repetition(const whim_options *options, bool otherwise);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* How a model's makers want it sampled: generation_config.json of a directory, or the
 * general.sampling keys of a GGUF file. Where they say nothing at all, whimbrel's own choice holds:
 * temperature 0.8, top_k 40, top_p 0.95, min_p 0.05.
 * Threads: plain data. */
#ifndef WHIM_WEIGHTS_GENERATION_H
#define WHIM_WEIGHTS_GENERATION_H

#include "base/err.h"
#include "weights/ckpt.h"

typedef enum whim_generation_source {
    WHIM_GENERATION_OURS,   /* the model says nothing */
    WHIM_GENERATION_CONFIG, /* generation_config.json */
    WHIM_GENERATION_GGUF,
} whim_generation_source;

typedef struct whim_generation {
    whim_generation_source source;
    double temperature; /* 0: greedy, also when the file has do_sample false */
    int64_t top_k;      /* 0: off */
    double top_p;
    double min_p;
    double repetition_penalty;
} whim_generation;

/* whimbrel's own choice. */
void whim_generation_init(whim_generation *out);

/* Read a generation_config.json. A value that the file leaves out, or has as null, is off
 * (temperature 1); a file without any of them leaves our choice. End ids are
 * whim_config_parse_generation's matter. */
WHIM_MUST_CHECK whim_err whim_generation_parse(whim_generation *out, const char *text, int64_t n,
                                               const char *path, whim_diag *diag);

/* What the model at `model_path`, opened as `ckpt`, says. */
WHIM_MUST_CHECK whim_err whim_generation_open(whim_generation *out, const char *model_path,
                                              const whim_ckpt *ckpt, whim_diag *diag);

/* "generation_config.json", "the GGUF file", "whimbrel": who says so. */
const char *whim_generation_source_name(whim_generation_source source);

#endif

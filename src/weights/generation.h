/* SPDX-License-Identifier: Apache-2.0 */
/* How a model's makers want it used: generation_config.json of a directory, or the general.sampling
 * keys of a GGUF file. Where they say nothing at all of sampling, whimbrel's own choice holds:
 * temperature 0.8, top_k 40, top_p 0.95, min_p 0.05.
 * Threads: plain data. */
#ifndef WHIM_WEIGHTS_GENERATION_H
#define WHIM_WEIGHTS_GENERATION_H

#include "base/err.h"
#include "weights/config.h"

typedef struct whim_gguf whim_gguf;

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
    const char *refused; /* why what is said of sampling cannot be taken; NULL: it can */
} whim_generation;

/* whimbrel's own choice. */
extern const whim_generation whim_generation_ours;

/* Read a generation_config.json. A value that the file leaves out, or has as null, is off
 * (temperature 1); a file without any of them leaves *out as it is. Its end-of-sequence ids join
 * those of `config`; NULL: they are not asked for. What it says of sampling is refused apart from
 * the rest: out->refused is "" then, and all else in *out as it was. */
WHIM_MUST_CHECK whim_err whim_generation_parse(whim_generation *out, whim_config *config,
                                               const char *text, int64_t n, const char *path,
                                               whim_diag *diag);

/* The same of a GGUF file's keys, in which there are no such ids. */
WHIM_MUST_CHECK whim_err whim_generation_read_gguf(whim_generation *out, const whim_gguf *gguf,
                                                   whim_diag *diag);

/* "generation_config.json", "the GGUF file", "whimbrel": who says so. */
const char *whim_generation_source_name(whim_generation_source source);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The same sequences, driven in many ways, must give the same bits. */
#ifndef WHIM_TESTS_INVARIANCE_INVARIANCE_H
#define WHIM_TESTS_INVARIANCE_INVARIANCE_H

#include "support/drive.h"

#include <stdbool.h>
#include <stdint.h>

enum { SET_MAX = 7 };

/* Sequences of random ids, and the logits of their last rows. */
typedef struct sequence_set {
    int32_t n;
    int32_t n_probe; /* the first n_probe are compared; the others only share the batch */
    int64_t n_vocab;
    int64_t n_value; /* floats in logits and expected */
    int32_t *tokens;
    float *logits;   /* of the last drive */
    float *expected; /* of the first */
    drive_job jobs[SET_MAX];
} sequence_set;

/* Sequence i has lengths[i] ids, of which the last outs[i] rows are wanted and all but the last
 * tails[i] (NULL: none) are its prompt. */
bool set_init(sequence_set *set, int32_t n, int32_t n_probe, const int64_t *lengths,
              const int64_t *outs, const int64_t *tails, int64_t n_vocab);
void set_free(sequence_set *set);

/* How one drive is called in messages, and what it is. */
typedef struct named_plan {
    const char *name;
    drive_plan plan;
} named_plan;

/* Drive and compare with the expectation (or make it, the first time). False with a text in
 * diag. */
bool set_check(sequence_set *set, whim_runner *runner, const named_plan *plan, bool first,
               whim_diag *diag);

/* A new folder with a configuration alone, for a model of dummy weights; the name, DUMMY_FOLDER at
 * first, becomes the folder's. False: there is none. */
#define DUMMY_FOLDER "/tmp/whim_dummy_XXXXXX"
bool dummy_folder_make(char folder[static sizeof DUMMY_FOLDER], const char *config);
void dummy_folder_remove(const char *folder);

/* `backend` NULL: on all there are. */
void invariance_tiny(const char *data, bool quick, const char *backend);
void invariance_default(const char *model);
void invariance_long_hybrid(void);

#endif

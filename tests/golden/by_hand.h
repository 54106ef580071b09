/* SPDX-License-Identifier: Apache-2.0 */
/* A model opened step by step, with a definition of the test's own: between the steps the test may
 * change what was found, bound or loaded.
 * Threads: one. */
#ifndef WHIM_TESTS_GOLDEN_BY_HAND_H
#define WHIM_TESTS_GOLDEN_BY_HAND_H

#include "golden/golden.h"
#include "models/model.h"

enum { BY_HAND_CTX = 256 };

/* How to run it. */
typedef struct by_hand_way {
    const char *backend; /* NULL: the first */
    const char *isa;     /* NULL: its best level */
    whim_kv_type kv_type;
    bool graphs;
} by_hand_way;

typedef struct by_hand {
    const whim_model_def *def;
    by_hand_way way;
    whim_ckpt ckpt;
    whim_arena arena;
    whim_binder binder;
    whim_device *device;
    whim_model *model;
    whim_runner *runner;
} by_hand;

/* In this order; by_hand_close in any case. */
WHIM_MUST_CHECK whim_err by_hand_open(by_hand *b, const whim_model_def *def, const by_hand_way *way,
                                      const char *path, whim_diag *diag);
WHIM_MUST_CHECK whim_err by_hand_bind(by_hand *b, whim_diag *diag);
WHIM_MUST_CHECK whim_err by_hand_load(by_hand *b, whim_diag *diag);
WHIM_MUST_CHECK whim_err by_hand_start(by_hand *b, whim_diag *diag);
void by_hand_close(by_hand *b);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A mistake and the means to put it into the engine. */
#ifndef WHIM_TESTS_GOLDEN_PITFALLS_H
#define WHIM_TESTS_GOLDEN_PITFALLS_H

#include "golden/golden.h"
#include "layers/decoder.h"
#include "ops/ops.h"

/* Any of the changes may be NULL. */
typedef struct pitfall {
    const char *name;
    const char *model;                   /* folder of the golden that must notice */
    bool twin;                           /* its GGUF twin is opened */
    void (*config)(whim_config *config); /* what the model is said to be */
    void (*decoder)(whim_decoder *dec);  /* what was bound */
    void (*ops)(whim_ops *ops);          /* how it is computed */
    void (*binder)(whim_binder *binder); /* what was found */
    const char *vector;                  /* vectors whose name has this part ... */
    float (*edit)(float value);          /* ... have their values changed */
    double enough;                       /* tolerances it must move something by, 0: the usual */
} pitfall;

const pitfall *pitfall_list(int32_t *n);
const pitfall *pitfall_hybrid_list(int32_t *n);
const pitfall *pitfall_list_moe(int32_t *n);

/* For ops with a mistake: the model that runs them, and the right ops. */
const whim_decoder *pitfall_decoder(void);
const whim_ops *pitfall_own_ops(void);

#endif

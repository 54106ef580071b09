/* SPDX-License-Identifier: Apache-2.0 */
/* A mixture of experts instead of an MLP:
 *     ids, w = choose(router(x));   y = sum over j of w_j * expert_{id_j}(x)
 * and, where the model has one, a shared expert that every token passes: y += sigmoid(gate(x)) *
 * shared(x).
 * Threads: as the stream. */
#ifndef WHIM_LAYERS_MOE_H
#define WHIM_LAYERS_MOE_H

#include "device/device.h"
#include "layers/batch.h"
#include "layers/ranks/dealt_experts.h"
#include "weights/bind.h"
#include "weights/config.h"

typedef struct whim_moe {
    whim_weight router;    /* [n_expert, d_model], F32: a rounded logit chooses another expert */
    const float *bias;     /* [n_expert] of the choice, or NULL */
    const whim_deal *deal; /* to ranks, which have some of the stacks; NULL: all are here */
    whim_weight gate, up;  /* stacks of [d_expert, d_model] */
    whim_weight down;      /* stack of [d_model, d_expert] */
    whim_weight shared_router;          /* [1, d_model]; n = 0: there is no shared expert */
    whim_weight shared_gate, shared_up; /* [d_shared, d_model] */
    whim_weight shared_down;            /* [d_model, d_shared] */
} whim_moe;

/* Buffers of a pass, reused by every layer. */
typedef struct whim_moe_space {
    float *logits;        /* [n_row, n_expert] */
    float *weights;       /* [n_row, top_k] */
    int32_t *ids;         /* [n_row, top_k] */
    int32_t *routed;      /* the same without padding's; NULL: there is none, or others see to it */
    whim_deal_space deal; /* of experts that are dealt to ranks */
    /* with a shared expert */
    float *shared_gate; /* [n_row] */
    float *shared_act;  /* [n_row, d_shared] */
    float *shared_out;  /* [n_row, d_model] */
} whim_moe_space;

/* Declare the tensors of layer l under "layers.<l>.mlp". */
void whim_moe_bind(whim_moe *moe, const whim_config *config, const whim_deal *deal, int32_t l,
                   whim_binder *binder);

whim_moe_space whim_moe_space_take(whim_bump *bump, const whim_config *config,
                                   const whim_deal *deal, int64_t n_row,
                                   const whim_deal_apart *apart);

/* y = moe(x), both [n_row, d_model] and dense; y has room for whim_deal_rows. */
WHIM_MUST_CHECK whim_err whim_moe_forward(const whim_moe *moe, const whim_moe_config *config,
                                          whim_stream *s, const float *x, int64_t n_row,
                                          const whim_deal_apart *apart, const whim_moe_space *space,
                                          float *y);

#endif

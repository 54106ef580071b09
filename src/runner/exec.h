/* SPDX-License-Identifier: Apache-2.0 */
/* One bound model on one device, with its pages, states and graphs. It runs blocks
 * (runner/step_block.h) and knows no sequences: who has which page is the business of whoever
 * filled the block. Several execs may share the page numbers of one pool (a model and its draft);
 * each has bytes of its own behind a number.
 *
 * A step is submitted and collected later, in the same order; up to cfg.n_flight are under way, and
 * a later one may take its tokens from the results of the one before, on the device. A step without
 * rows runs the whole pass. No memory is allocated inside a step, with one exception: the first
 * step of a graph's bucket records it.
 * Threads: one owner, the thread that steps. */
#ifndef WHIM_RUNNER_EXEC_H
#define WHIM_RUNNER_EXEC_H

#include "base/err.h"
#include "device/device.h"
#include "layers/batch.h"
#include "models/model.h"
#include "runner/step_block.h"
#include "sample/sampler.h"
#include "tensor/rank_key.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_exec whim_exec;

enum { WHIM_EXEC_FLIGHT = 2 };

typedef struct whim_exec_cfg {
    int64_t max_rows; /* tokens in one step */
    int64_t max_seqs; /* sequences in one step */
    int64_t max_outs; /* rows with logits in one step */
    int64_t max_ctx;  /* longest sequence */
    int64_t n_page;   /* KV pages that blocks may name */
    int32_t page_len; /* positions in a page: the device's */
    int64_t n_state;  /* slots of recurrent state; 0 for models that have none */
    int64_t max_kept; /* rows of a step that can be on trial and taken later, with such a model */
    whim_kv_type kv_type;
    bool kv_as_used; /* memory of pages is taken when they are first used, where the device can */
    bool graphs;
    bool drafts;      /* the model has a draft: there are steps with WHIM_STEP_DRAFT */
    bool befores;     /* the model asks for whim_batch.before */
    bool embeds;      /* steps may bring embeddings instead of tokens */
    int32_t n_flight; /* steps under way at most: 1 (or 0) or 2 */
    int32_t n_capture;
    int32_t boundary[WHIM_MAX_CAPTURE];
    bool fetch_hidden;  /* captured rows go to the host with every step */
    const char *kv_dir; /* who follows: where its pages go, instead of the leader's folder */
    /* The rank's seat in its group, the caller's; NULL: it is the only one. Rank 0 leads, others
     * follow (whim_exec_follow). */
    struct whim_comm *comm;
    /* So many parts of ranks, neighbours, have the whole model each, and share the rows of steps;
     * 0: none do. Ranks of a part cut it. With groups these are the parts of each. */
    int32_t n_share;
    /* So many groups of ranks, neighbours, have sequences of their own; 0: all ranks have the same.
     * Limits are those of each. */
    int32_t n_group;
    bool meets; /* in the layers of a pass: they have experts or parts of MLPs for each other */
} whim_exec_cfg;

/* Steps that may be under way, and so the sets of all that the host keeps for one. */
static inline int32_t whim_exec_flights(const whim_exec_cfg *cfg)
{
    return cfg->n_flight > 1 ? WHIM_EXEC_FLIGHT : 1;
}

/* Groups of sequences, at least one, and which of them is this rank's. */
static inline int32_t whim_exec_groups(const whim_exec_cfg *cfg)
{
    return cfg->n_group > 1 ? cfg->n_group : 1;
}
int32_t whim_exec_group(const whim_exec_cfg *cfg);

/* Ranks of a group that is not the only one. A rank by itself, or a plan without a comm: 1. */
int32_t whim_exec_group_ranks(const whim_exec_cfg *cfg);

/* Outputs of all groups in one step, padding included. */
static inline int64_t whim_exec_outs(const whim_exec_cfg *cfg)
{
    return cfg->max_outs * whim_exec_groups(cfg);
}

/* Among whom rows are dealt. */
struct whim_cut_cfg whim_exec_cut_cfg(const whim_exec_cfg *cfg);

/* Memory that an exec takes, by part. Found by a dry run of the largest pass. */
typedef struct whim_exec_plan {
    int64_t kv_bytes;
    int64_t page_bytes;
    int64_t state_bytes; /* all slots of recurrent state */
    int64_t slot_bytes;  /* one of them */
    int64_t kept_bytes;  /* rows on trial, which of them are taken, and rows a draft takes late */
    int64_t activation_bytes;
    int64_t workspace_bytes; /* of the device's ops */
    int64_t batch_bytes;     /* the block: token ids, positions, page lists ... */
    int64_t before_bytes;    /* slots of the positions before rows */
    int64_t cut_bytes;       /* which rows are whose, where ranks share them */
    int64_t output_bytes;    /* logits, best tokens, hidden states and choices on the device */
    int64_t embed_bytes;     /* embeddings that replace tokens */
    int64_t host_bytes;      /* the host's copies of all that travels */
    int64_t most_comm;       /* the largest message between ranks of any step */
} whim_exec_plan;

/* UNSUPPORTED when the device lacks an op of the model; diag names it. */
WHIM_MUST_CHECK whim_err whim_exec_measure(const whim_config *config, const whim_model_def *def,
                                           whim_model *model, whim_device *device,
                                           const whim_exec_cfg *cfg, whim_exec_plan *plan,
                                           whim_diag *diag);

/* Bytes of messages between ranks that a step takes, if experts are chosen evenly: of n_row
 * sequences with a token each, of which the best is wanted, or of so many tokens of one prompt; the
 * same in each group. */
WHIM_MUST_CHECK whim_err whim_exec_step_comm(const whim_config *config, const whim_model_def *def,
                                             whim_model *model, whim_device *device,
                                             const whim_exec_cfg *cfg, int64_t n_row,
                                             bool is_prompt, int64_t *bytes);

/* The model and the device must outlive the exec. */
WHIM_MUST_CHECK whim_err whim_exec_open(const whim_config *config, const whim_model_def *def,
                                        whim_model *model, whim_device *device,
                                        const whim_exec_cfg *cfg, whim_exec **out, whim_diag *diag);
void whim_exec_close(whim_exec *exec);

/* What blocks are held to. */
whim_step_limits whim_exec_limits(const whim_config *config, const whim_exec_cfg *cfg);
const whim_exec_plan *whim_exec_plan_of(const whim_exec *exec);
const whim_exec_cfg *whim_exec_cfg_of(const whim_exec *exec);

/* Queue a step; the block is copied. Of several groups there are as many blocks, one behind the
 * other, with the same flags and padded to the same outputs; a rank runs its own, and all have all
 * outputs, which count group after group. `embeds`: [n_row, d_model] on the host for a block with
 * WHIM_STEP_EMBEDS, or NULL when they lie at whim_exec_embeds already. FULL: n_flight steps are
 * under way; CORRUPT: the block is refused. */
WHIM_MUST_CHECK whim_err whim_exec_submit(whim_exec *exec, const int32_t *block, int64_t n_word,
                                          const float *embeds, whim_diag *diag);

/* For ranks other than 0: do what rank 0's exec does, until that is closed. Outputs stay on the
 * device unless a tap listens. DEVICE: the group ended, and diag says why. */
WHIM_MUST_CHECK whim_err whim_exec_follow(whim_exec *exec, whim_diag *diag);

/* For rank 0, with no step under way: its comm was opened again, with others who follow from the
 * beginning. */
void whim_exec_rejoin(whim_exec *exec);

/* What is chosen from the outputs of the step that is submitted next: one ask for each of its
 * outputs, the caller's until submit returns. INVALID is submit's answer to asks that the step
 * cannot serve. Without asks nothing is chosen, and all outputs are brought to the host; with them
 * only those logits that bring themselves. */
void whim_exec_ask(whim_exec *exec, const whim_sample_ask *asks, int64_t n_ask);

/* Let the device go on by itself with what was submitted: the caller does something else before it
 * collects. */
WHIM_MUST_CHECK whim_err whim_exec_begin(whim_exec *exec, whim_diag *diag);

/* Wait for the oldest step under way. */
WHIM_MUST_CHECK whim_err whim_exec_collect(whim_exec *exec, whim_diag *diag);

int32_t whim_exec_in_flight(const whim_exec *exec);
int32_t whim_exec_room(const whim_exec *exec); /* how many may be */

/* Outputs of the step submitted last that tokens of the next may stand for, and by which number
 * a block names output i of them. */
int64_t whim_exec_results(const whim_exec *exec);
int64_t whim_exec_result_place(const whim_exec *exec, int64_t i);

/* Results of the step that was collected last, valid until the next submit: what was chosen from
 * output i (errors are those of whim_sampled_take), its logits (NULL where they were not brought),
 * or the n_top best of them (then logits are NULL; fewer in a smaller vocabulary), hidden states of
 * row r at capture c where they are fetched. */
whim_step_size whim_exec_size(const whim_exec *exec);
WHIM_MUST_CHECK whim_err whim_exec_sampled(const whim_exec *exec, int64_t i, whim_sampled *out,
                                           whim_diag *diag);
const float *whim_exec_logits(const whim_exec *exec, int64_t i);
whim_ranked whim_exec_best(const whim_exec *exec, int64_t i);
const float *whim_exec_hidden(const whim_exec *exec, int32_t c, int64_t r);

int64_t whim_exec_n_vocab(const whim_exec *exec);

/* A listener that sees all that an exec is asked to do (runner/step_record.h), but for a draft's
 * passes, which change no result; outside of steps, so it may allocate. */
typedef struct whim_exec_tap {
    void *ctx;
    void (*submitted)(void *ctx, const int32_t *block);
    void (*collected)(void *ctx, const whim_exec *exec);
    void (*state_copied)(void *ctx, int32_t from, int32_t to);
    void (*advanced)(void *ctx, const whim_step_take *takes, int64_t n);
} whim_exec_tap;
void whim_exec_set_tap(whim_exec *exec, const whim_exec_tap *tap);

/* Device memory: rows captured at boundary c [max_rows, d_model], and where embeddings are
 * expected. */
float *whim_exec_capture(whim_exec *exec, int32_t c);
float *whim_exec_embeds(whim_exec *exec);

/* Copy a slot of a group's recurrent state to another; the next step sees it. */
WHIM_MUST_CHECK whim_err whim_exec_state_copy(whim_exec *exec, int32_t group, int32_t from,
                                              int32_t to);

/* Let a group's recurrent states advance by rows that were on trial in the last step with
 * WHIM_STEP_KEEP: bit for bit what a step of these rows would leave. It is queued behind that step,
 * which may still be under way. After a step that failed there are none. CORRUPT as
 * whim_step_takes_check. */
WHIM_MUST_CHECK whim_err whim_exec_advance(whim_exec *exec, int32_t group,
                                           const whim_step_take *takes, int64_t n, whim_diag *diag);

/* Of ranks that are all in this call: values[n], a few, become the sums of theirs; wait_ns: how
 * long for others, if that is longer than usual. Alone they stay. */
WHIM_MUST_CHECK whim_err whim_exec_sum(whim_exec *exec, float *values, int64_t n, int64_t wait_ns);

/* What lies on a device beside weights and activations, and can be kept elsewhere. */
typedef enum whim_exec_item {
    WHIM_EXEC_PAGE,  /* of keys and values: page_bytes of the plan */
    WHIM_EXEC_STATE, /* a slot of recurrent state: slot_bytes of it */
} whim_exec_item;
int64_t whim_exec_item_bytes(const whim_exec *exec, whim_exec_item item);

/* An item's bytes to the host and back, of this rank's part: for keeping them elsewhere
 * (runner/page_store.h). */
WHIM_MUST_CHECK whim_err whim_exec_item_read(whim_exec *exec, whim_exec_item item, int32_t number,
                                             void *out);
WHIM_MUST_CHECK whim_err whim_exec_item_write(whim_exec *exec, whim_exec_item item, int32_t number,
                                              const void *bytes);

/* Of ranks that are all in this call: what the ranks of group `from` have there, n_byte bytes,
 * becomes what those with the same place in group `to` have. `most` is the same for all, and no
 * less than any rank's n_byte. */
WHIM_MUST_CHECK whim_err whim_exec_item_send(whim_exec *exec, int32_t from, int32_t to, void *bytes,
                                             int64_t n_byte, int64_t most);

/* Where its pages are kept; NULL: nowhere. Freed with the exec. */
struct whim_page_store **whim_exec_store(whim_exec *exec);

#endif

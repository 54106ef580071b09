/* SPDX-License-Identifier: Apache-2.0 */
/* From a model's name to a runner that is ready to step: find the files, choose model and device,
 * plan the memory, refuse what does not fit, load.
 * Threads: one owner. */
#ifndef WHIM_ENGINE_ENGINE_H
#define WHIM_ENGINE_ENGINE_H

#include "base/err.h"
#include "comm/rank_meters.h"
#include "device/device.h"
#include "engine/memory_plan.h"
#include "engine/proposer.h"
#include "models/model.h"
#include "runner/runner.h"
#include "weights/bind.h"
#include "weights/ckpt.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether steps are replayed as graphs. AUTO: where the device says that it pays. */
typedef enum whim_graph_use {
    WHIM_GRAPHS_OFF,
    WHIM_GRAPHS_ON,
    WHIM_GRAPHS_AUTO,
} whim_graph_use;

/* As the name of a draft: the MTP layer that the model's files hold. */
#define WHIM_DRAFT_OWN "mtp"

/* Sizes that must be the same in all ranks of a model. */
typedef struct whim_engine_sizes {
    int64_t max_seqs, n_state, max_ctx, n_page;
} whim_engine_sizes;

typedef struct whim_engine_cfg {
    const char *model;       /* directory, .gguf file or shape:NAME */
    const char *draft;       /* directory of a draft for it, or WHIM_DRAFT_OWN; NULL: none */
    const char *draft_type;  /* its matrices become this: "q8_0", "q4_0"; NULL: as they are */
    const char *load_format; /* "auto" or "dummy" (NULL: auto) */
    const char *weight_type; /* dummy weights only: type of the matrices, default bf16 */
    const char *backend;     /* NULL: the first of the build */
    bool best_device;        /* without it: a preferred one's, where a device runs the model */
    const char *isa;         /* NULL: best */
    int32_t n_thread;        /* 0: all */
    int64_t ctx;             /* longest sequence; 0: the model's, or what memory gives if less */
    double ctx_share; /* without ctx: part of what weights leave for one sequence; 0: a quarter */
    int64_t kv_mem;   /* bytes for KV pages; 0: max_seqs * ctx tokens, see memory_fit.h */
    int64_t kv_seqs; /* without kv_mem: pages for so many sequences at their longest; 0: max_seqs */
    /* and of that at most this part of what weights and states leave; 0: no limit */
    double kv_share;
    /* recurrent states kept for reuse, where the model has them; fewer in little memory */
    int64_t n_checkpoint;
    /* rows of a step with proposals, where the model has such states; 0: there are none */
    int64_t max_kept;
    bool kv_as_used;    /* take the memory of KV pages when they are first used, not at the start */
    const char *kv_dir; /* full pages go to a disk, and wait for it in memory; NULL: they do not */
    int64_t request_bytes;    /* for what clients send and are sent, at most; 0: not planned */
    bool request_bytes_asked; /* just so many: no less where memory is short */
    const char *kv_type;      /* f32, bf16, f16, q8; NULL: f32 for F32 models, else bf16 */
    int64_t max_seqs;         /* sequences in one step; 0: 1 */
    bool may_lower_seqs;      /* fewer of them where their recurrent states would not fit */
    int64_t max_step_tokens;  /* rows in one step; 0: 512 */
    int64_t max_outs;         /* rows with logits in one step; 0: max_seqs */
    int32_t n_flight;         /* steps under way at most, 1 or 2; 0: 1 */
    int32_t graphs;           /* whim_graph_use */
    whim_stream_watch
        *watch;        /* of the device's streams (ops/trace.h), without graphs; NULL: none */
    bool embeds;       /* steps may bring embeddings instead of tokens */
    int32_t n_capture; /* hidden states to capture, see whim_out */
    int32_t boundary[WHIM_MAX_CAPTURE];
    /* Which of several ranks it is, that have a part of the model each; 0 or 1: it is alone. The
     * comm outlives the engine. */
    int32_t n_rank, rank;
    /* So many parts of them have the model alike and share prompts; 0 or 1: none do. */
    int32_t n_share;
    /* So many groups of them have requests of their own; 0 or 1: all have the same. */
    int32_t n_group;
    int32_t n_deal; /* so many of them have whole experts each, and the rest alike; 0 or 1: none */
    /* With n_deal: the rest is cut over the ranks as if no expert were dealt, and what experts add
     * is summed over all; where there are more ranks, some together have whole experts. */
    bool deal_cut;
    const char *deal_rows; /* as which rows go to experts of other ranks: f32, bf16, int8, fp8; auto
                              or NULL: as products take them */
    int32_t deal_slots;    /* rows of each that go to experts in one message; 0: 64 */
    const char *deal_counts;    /* experts of each, by commas; NULL: as many, or one more */
    int32_t host_first, n_host; /* which of them share this host's CPUs and memory; n 0: all */
    struct whim_comm *comm;
    const struct whim_engine_sizes *sizes; /* what rank 0 has chosen; NULL: choose */
    const char *record_steps;              /* a file for what the runner is given; NULL: none */
    whim_load_progress *on_progress;
    void *progress_ctx;
    const char **wrong; /* prepare puts the field there that it refuses; NULL: not wanted */
} whim_engine_cfg;

typedef struct whim_engine whim_engine;

/* Everything up to the memory plan; weights are not loaded. `inspect` stops here. */
WHIM_MUST_CHECK whim_err whim_engine_prepare(const whim_engine_cfg *cfg, whim_engine **out,
                                             whim_diag *diag);

/* Refuse with NO_FIT when the plan is larger than what there is, else load. */
WHIM_MUST_CHECK whim_err whim_engine_load(whim_engine *engine, whim_diag *diag);

void whim_engine_close(whim_engine *engine);

/* Whoever has the other ranks of a model, and does with them what is done here: begin to load
 * before this rank does, be loaded after it is, end behind it. */
typedef struct whim_engine_peers {
    void *ctx;
    whim_err (*load)(void *ctx, whim_diag *diag);
    whim_err (*loaded)(void *ctx, whim_diag *diag);
    void (*close)(void *ctx);
    /* Whether one of them is lost, and steps fail; and to begin again with others, loaded. `why` is
     * filled where it is wanted (not NULL). */
    bool (*is_apart)(void *ctx, whim_diag *why);
    whim_err (*rejoin)(void *ctx, const whim_engine *engine, whim_diag *diag);
    /* What a rank has counted, also of this one. Any thread. */
    void (*look)(void *ctx, int32_t rank, whim_rank_meters *out);
} whim_engine_peers;

/* After prepare: the others' plans come to so many bytes, which join this one's. */
void whim_engine_set_peers(whim_engine *engine, const whim_engine_peers *peers, int64_t bytes);

/* After a step failed, or while there is none: whether other ranks are lost, with all that pages
 * and states held of them (`why` may be NULL); and to have them again, which takes as long as a
 * load. */
bool whim_engine_is_apart(const whim_engine *engine, whim_diag *why);
WHIM_MUST_CHECK whim_err whim_engine_rejoin(whim_engine *engine, whim_diag *diag);

/* After a step failed: whether its device is there for others. */
WHIM_MUST_CHECK whim_err whim_engine_check(whim_engine *engine, whim_diag *diag);

/* How many ranks have the model, 1 where it is alone; what one of several has counted. Any
 * thread. */
int32_t whim_engine_ranks(const whim_engine *engine);
void whim_engine_look(const whim_engine *engine, int32_t rank, whim_rank_meters *out);

/* End the file of steps, if there is one: an earlier failed write is reported here. */
WHIM_MUST_CHECK whim_err whim_engine_end_record(whim_engine *engine, whim_diag *diag);

/* What was found and planned; valid until close. */
const whim_ckpt *whim_engine_ckpt(const whim_engine *engine);
const whim_config *whim_engine_config(const whim_engine *engine);
const whim_memory_plan *whim_engine_plan(const whim_engine *engine);
const whim_device_caps *whim_engine_caps(const whim_engine *engine);
const char *whim_engine_backend(const whim_engine *engine);
/* Why it is not on a better device, though there seems to be one; NULL: there is none. */
const char *whim_engine_passed(const whim_engine *engine);
const whim_binder *whim_engine_binder(const whim_engine *engine);
whim_kv_type whim_engine_kv_type(const whim_engine *engine);

/* Whether cfg.deal_rows rounds rows that products would take as they are, and how, into out. */
bool whim_engine_dispatch_rounds(const whim_engine *engine, char *out, size_t size);
int64_t whim_engine_ctx(const whim_engine *engine);
double whim_engine_ctx_share(const whim_engine *engine); /* see ctx_share of the cfg */

/* What followers are told. */
whim_engine_sizes whim_engine_sizes_of(const whim_engine *engine);

/* The runner's limits and its share of the plan. */
const whim_exec_cfg *whim_engine_limits(const whim_engine *engine);
const whim_exec_plan *whim_engine_runner_plan(const whim_engine *engine);

/* Its layers, as this rank has them. */
const whim_layer_table *whim_engine_layers(const whim_engine *engine);

/* Where the draft's tensors lie. */
const whim_ckpt *whim_engine_draft_ckpt(const whim_engine *engine);
const whim_binder *whim_engine_draft_binder(const whim_engine *engine);

/* Its draft, what kind of draft that is, and what asks it, after load; NULL without one. */
const whim_draft_config *whim_engine_draft(const whim_engine *engine);
const char *whim_engine_draft_kind(const whim_engine *engine);
const char *whim_engine_draft_type(const whim_engine *engine); /* of its matrices, or "file" */
whim_proposer *whim_engine_proposer(whim_engine *engine);

/* The runner, NULL before load. */
whim_runner *whim_engine_runner(whim_engine *engine);

/* Bytes of weights that a step of n_row tokens reads (all matrices but the embedding's gather, head
 * included; of experts as many as rows choose that know nothing of each other), and the
 * multiply-adds of the matrices for one token: for the shares that `bench` prints. Of several ranks
 * both are of this one's part. */
int64_t whim_engine_weight_bytes(const whim_engine *engine, int64_t n_row);
int64_t whim_engine_token_macs(const whim_engine *engine);

/* Bytes of messages between ranks that a step takes (whim_exec_step_comm). */
WHIM_MUST_CHECK whim_err whim_engine_step_comm(const whim_engine *engine, int64_t n_row,
                                               bool is_prompt, int64_t *bytes);

/* The numbers that the model was trained to. */
int64_t whim_engine_parameters(const whim_engine *engine);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What must be known of an architecture to read its files. Each file of models/ has one of these,
 * and the readers are handed the list: nothing here or beside it knows an architecture by name.
 * Threads: plain data. */
#ifndef WHIM_WEIGHTS_ARCH_H
#define WHIM_WEIGHTS_ARCH_H

#include "base/json.h"
#include "weights/config.h"

/* How a family of models describes its experts, and what the reference assumes where it does
 * not. */
typedef struct whim_moe_keys {
    const char *n_expert; /* key of the number of experts */
    const char *d_expert; /* key of an expert's width */
    int32_t n_expert_default, d_expert_default;
    int32_t top_k_default, d_shared_default; /* d_shared 0: there is no shared expert */
    bool renormalize;                        /* where "norm_topk_prob" is missing */
    bool uniform; /* every layer has experts and their weights are divided, whatever keys say */
} whim_moe_keys;

/* What the reference (transformers' class) assumes where config.json is silent. */
typedef struct whim_arch_defaults {
    int32_t n_vocab, d_model, d_ff, n_layer, n_head;
    int32_t n_kv;   /* 0: as many as n_head */
    int32_t d_head; /* 0: d_model / n_head */
    int32_t max_ctx;
    int32_t eos; /* -1: none */
    double theta;
    bool has_mlp_bias;        /* there is a key "mlp_bias" */
    bool has_windows;         /* some layers may attend to a window only */
    bool windows_by_type;     /* and "layer_types" alone says which */
    bool windows_all;         /* all do, unless "sliding_window" is null; no other key says so */
    bool has_gdn;             /* some layers are gated delta nets; "text_config" may hold it all */
    bool quarter_rotated;     /* the first quarter of a head, unless keys say otherwise */
    const char *rotary_key;   /* key of the number of rotated dimensions, or NULL */
    const whim_moe_keys *moe; /* NULL: no experts */
} whim_arch_defaults;

/* How config.json names it: the entry of "architectures", and "model_type". */
typedef struct whim_arch_class {
    const char *name, *type;
    const whim_arch_defaults *defaults;
    const char *old_type; /* what early files say beside the class, or NULL */
} whim_arch_class;

/* How GGUF files name it, and what they have no key for. */
typedef struct whim_gguf_arch {
    const char *name; /* general.architecture */
    bool qk_paired;
    bool experts;
    bool sigmoid, choice_bias; /* of the experts, unless a key says so */
    bool hybrid;               /* gated delta nets, gated attention, a shared expert */
    bool tiled;                /* see whim_gdn_config */
    bool grouped;              /* fused projections, unless the file has them apart */
    bool windows;              /* the architecture itself reads about windows (gguf_finish) */
} whim_gguf_arch;

/* The two spellings of a tensor's name, or of a part of it. */
typedef struct whim_spelling {
    const char *published, *canonical;
} whim_spelling;

/* What all sizes of a published family share. */
typedef struct whim_shape_family {
    int32_t n_vocab;
    int32_t max_ctx;
    double theta;
    float rms_eps;
    int32_t eos[2];
    int32_t n_eos;
    whim_dtype dtype;
    int32_t rotary_dim; /* 0: all of a head */
    bool is_hybrid;     /* three layers in four are gated delta nets with 16 key heads of 128 */
    whim_moe_config moe;
} whim_shape_family;

/* A published size, for dummy weights: timing and memory planning without a download. */
typedef struct whim_shape {
    const char *name;
    const whim_shape_family *family;
    int32_t n_layer;
    int32_t d_model;
    int32_t n_head;
    int32_t n_kv;
    int32_t d_head;
    int32_t d_ff; /* of an expert, where there are any */
    bool tied_head;
    int32_t n_value; /* value heads of hybrids */
} whim_shape;

struct whim_ckpt;

/* Lists end with an entry without a name; NULL: an empty one. */
struct whim_arch {
    const char *name; /* ours, in messages */
    const whim_arch_class *classes;
    const whim_gguf_arch *gguf;
    const whim_shape *shapes;
    /* Parts of names in safetensors that are other than canonical; each is replaced where it
     * occurs. */
    const whim_spelling *safetensors_names;
    /* GGUF names after "blk.N." that only this architecture has, without their ending. */
    const whim_spelling *gguf_names;
    /* The same of whole names, endings included, in layers or outside of them. */
    const whim_spelling *gguf_whole;
    bool qkv_bias; /* q, k and v always have biases; no key says so */
    /* A draft: its makers take "model_type" and the ends of texts from anywhere, and neither means
     * anything. */
    bool draft;
    /* Keys of config.json that only this architecture has, after all others were read; NULL:
     * none. */
    whim_err (*parse)(whim_config *config, const whim_json_scope *top);
    /* The same of GGUF files, when all tensors are listed. */
    whim_err (*gguf_finish)(struct whim_ckpt *ckpt, whim_diag *diag);
};

/* The architectures that readers look among. */
typedef struct whim_arch_list {
    const whim_arch *const *v;
    int32_t n;
} whim_arch_list;

/* Published shapes by name ("qwen3-8b"); NOT_FOUND lists the known ones in diag. */
WHIM_MUST_CHECK whim_err whim_config_shape(whim_config *config, const whim_arch_list *archs,
                                           const char *name, whim_diag *diag);

/* Parse the text of a config.json. `path` is for messages. */
WHIM_MUST_CHECK whim_err whim_config_parse(whim_config *config, const whim_arch_list *archs,
                                           const char *text, int64_t n, const char *path,
                                           whim_diag *diag);

#endif

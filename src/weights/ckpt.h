/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint: the tensors of a model's files and its configuration, before anything is loaded.
 * safetensors directories and GGUF files end in this one structure; names are the Hugging Face
 * names without the "model." (or longer) prefix, e.g. "layers.3.self_attn.q_proj.weight", whatever
 * the format, so that models bind by one set of names.
 *
 * Invariants after a successful open:
 *  1. every tensor's bytes lie inside its file, and bytes == rows * row_bytes of its type;
 *  2. no two tensors of a file overlap and no name occurs twice;
 *  3. shape[] is in row-major order (GGUF's is reversed on reading), 1 <= n_dim <= 4, all >= 0;
 *     a scalar has shape {1};
 *  4. a tensor that cannot be read is listed with `unsupported` set, so that only a model that
 *     needs it is refused; its dtype is I32 and its shape {0}, which no weight can have.
 * Threads: opened by one thread; after that read-only and shared (tensor bytes by pread). */
#ifndef WHIM_WEIGHTS_CKPT_H
#define WHIM_WEIGHTS_CKPT_H

#include "base/arena.h"
#include "base/err.h"
#include "base/sha256.h"
#include "tensor/dtype.h"
#include "weights/arch.h"
#include "weights/generation.h"
#include "weights/quantised/scheme.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_recipe whim_recipe;

/* How a safetensors file stores a tensor, also one that cannot be loaded: the name of its type, ""
 * where nothing is known or it has more dimensions than this holds. */
enum { WHIM_CKPT_RAW_DIM = 8 };
typedef struct whim_ckpt_raw {
    char type[12];
    int32_t n_dim; /* 0: a scalar */
    int64_t shape[WHIM_CKPT_RAW_DIM];
    int64_t bytes;
} whim_ckpt_raw;

typedef struct whim_ckpt_tensor {
    const char *name;      /* canonical name */
    const char *file_name; /* name as the file spells it, for messages */
    whim_dtype dtype;
    int32_t n_dim;
    int64_t shape[4];
    int32_t file;   /* index into whim_ckpt.files; -1: no bytes, dummy weights */
    int64_t offset; /* from the start of the file */
    int64_t bytes;
    const char *unsupported;   /* NULL, or why not: "has type I64, which ..." after the name */
    whim_ckpt_raw raw;         /* as stored */
    const whim_recipe *recipe; /* NULL, or how its rows are made of quantised parts (recipe.h) */
    bool is_part;              /* of a recipe, or beside one: no weight by itself */
} whim_ckpt_tensor;

typedef struct whim_ckpt_file {
    const char *path;
    int fd; /* open for reading until whim_ckpt_close */
    int64_t bytes;
} whim_ckpt_file;

typedef enum whim_ckpt_format {
    WHIM_CKPT_SAFETENSORS,
    WHIM_CKPT_GGUF,
    WHIM_CKPT_DUMMY,
} whim_ckpt_format;

typedef struct whim_ckpt {
    whim_ckpt_format format;
    const whim_arch_list *archs; /* what it may be */
    whim_arena arena;            /* owns all names and arrays below */
    whim_config config;
    whim_generation generation; /* what its makers say; source OURS: nothing */
    whim_scheme scheme;         /* of quantised safetensors */
    whim_ckpt_tensor *tensors;
    int64_t n_tensor;
    whim_ckpt_file *files;
    int32_t n_file;
    int32_t *index;                        /* open-addressing hash of names -> tensor, -1 empty */
    int64_t index_mask;                    /* size of index - 1 */
    whim_gguf *gguf;                       /* metadata of a GGUF file (see gguf.h), else NULL */
    uint8_t config_sum[WHIM_SHA256_BYTES]; /* of the text of config.json; 0 where there is none */
} whim_ckpt;

/* Open a directory with config.json and *.safetensors, a GGUF file (any part of a split one), or a
 * directory with one of those.
 * `archs` is what the model may be, and outlives the checkpoint.
 * On failure nothing stays open and diag names file and field. */
WHIM_MUST_CHECK whim_err whim_ckpt_open(whim_ckpt *ckpt, const whim_arch_list *archs,
                                        const char *path, whim_diag *diag);

/* The configuration alone, for dummy weights: a directory needs no more than config.json. */
WHIM_MUST_CHECK whim_err whim_ckpt_open_config(whim_ckpt *ckpt, const whim_arch_list *archs,
                                               const char *path, whim_diag *diag);

/* The tensors of an open safetensors checkpoint whose names begin with `prefix`, under the rest of
 * their names. Files stay those of the other, which outlives the view; the configuration is the
 * caller's. */
WHIM_MUST_CHECK whim_err whim_ckpt_view(whim_ckpt *view, const whim_ckpt *of, const char *prefix,
                                        whim_diag *diag);

/* Bytes of memory that the open checkpoint holds. */
int64_t whim_ckpt_memory(const whim_ckpt *ckpt);

/* Close the files and free everything. Legal on a zeroed struct. */
void whim_ckpt_close(whim_ckpt *ckpt);

/* By canonical name, or NULL. */
const whim_ckpt_tensor *whim_ckpt_find(const whim_ckpt *ckpt, const char *name);

/* Read `bytes` at `offset` inside a tensor without a recipe into `dst`; a file that became shorter
 * gives an error, never garbage. */
WHIM_MUST_CHECK whim_err whim_ckpt_read(const whim_ckpt *ckpt, const whim_ckpt_tensor *tensor,
                                        int64_t offset, int64_t bytes, void *dst, whim_diag *diag);

/* Rows of a matrix in the type of the tensor, read or made by its recipe. */
WHIM_MUST_CHECK whim_err whim_ckpt_read_rows(const whim_ckpt *ckpt, const whim_ckpt_tensor *tensor,
                                             int64_t row0, int64_t n_row, void *dst,
                                             whim_diag *diag);

#endif

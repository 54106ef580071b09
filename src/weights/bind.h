/* SPDX-License-Identifier: Apache-2.0 */
/* From named tensors in files to packed weights on a device, in three steps:
 *   1. the model declares what it needs (whim_bind, whim_bind_constant);
 *   2. whim_bind_match finds every declared tensor in the checkpoint and reports all that is
 *      missing, extra or misshapen in one message; afterwards the exact device memory is known;
 *   3. whim_bind_load reads and packs: each loader thread holds one staging buffer of a few MB and
 *      never a second copy of a tensor.
 * Between 2 and 3 the destinations hold offsets instead of addresses, good enough for a dry run.
 * Threads: one owner; step 3 starts threads of its own and joins them. */
#ifndef WHIM_WEIGHTS_BIND_H
#define WHIM_WEIGHTS_BIND_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "device/device.h"
#include "ops/args/linear_args.h"
#include "weights/ckpt.h"
#include "weights/part.h"

#include <stdbool.h>
#include <stdint.h>

/* What becomes of the values of a small tensor on their way. */
typedef enum whim_vector_form {
    WHIM_VECTOR_PLAIN,
    WHIM_VECTOR_PLUS_ONE, /* 1 + w: norms whose weights are stored around 0 */
    WHIM_VECTOR_NEG_EXP,  /* -exp(w) */
} whim_vector_form;

/* Where the experts of a layer may be in a file, after "layers.N.mlp.experts": all in one tensor
 * ".gate_proj.weight" of [n_expert, n, k], with others in one (".gate_up_proj" of [n_expert,
 * fused_rows, k]), or one for each (".7.gate_proj.weight"). */
typedef struct whim_expert_names {
    const char *leaf;              /* "gate_proj" */
    const char *fused;             /* "gate_up_proj" */
    int64_t fused_row, fused_rows; /* our first row there, and its rows for an expert */
} whim_expert_names;

/* Heads that lie elsewhere in the file. Of the rows (or columns) from `first` on, head g * n_per +
 * j, of `size` of them, begins at `at` + (g * group_step + j * head_step) * size there. Size 0: the
 * file's order is ours. */
typedef struct whim_head_order {
    int64_t first, at;
    int64_t size, n_per, group_step, head_step;
    int64_t n_file; /* how many the file has; 0: as many as the parameter */
} whim_head_order;

/* Rows of a tensor that become rows of a parameter. */
typedef struct whim_param_part {
    const whim_ckpt_tensor *tensor;
    int64_t row0; /* in the tensor, leading dimensions taken together */
} whim_param_part;

/* One declared tensor, a stack of them, or one constant that the model computed. */
typedef struct whim_param {
    whim_weight *weight;  /* where it goes, which must outlive the load: a matrix, */
    const float **values; /* or a few values, stored as [n], [n, k] or [n, 1, k] */
    int64_t n, k;         /* k 0 of values: 1 */
    int64_t n_outer;      /* values are stored as [n_outer, n / n_outer, k]; 0: as above */
    whim_vector_form form;
    /* F32 on the device, whatever its type: for matrices that must not be rounded further; values
     * always are */
    bool widen;
    /* rows of a head if the file holds them as adjacent pairs, else 0: file row 2i + s of a head
     * becomes row s * unpair / 2 + i */
    int64_t unpair;
    whim_head_order rows;
    const int32_t *pick; /* [n] the file's rows that it is made of; NULL: all in their order */
    /* Columns can be put in order where a block of the weight's type spans no two heads; match says
     * in *cols_kept whether they stay as they are. */
    whim_head_order cols;
    bool *cols_kept;
    int64_t n_expert; /* a stack [n_expert * pitch(n), k], see ops/args/moe_args.h; else 0 */
    whim_expert_names experts;
    const whim_part *own_experts; /* those that a rank keeps; NULL: all. It is copied. */
    /* What a rank keeps of it (of each expert): runs of rows and of columns, one after the other.
     * NULL: all. Runs of columns are whole blocks (whim_bind_block), and in the order of the file
     * where columns stay as they are. Both lists are copied. */
    const whim_part *row_runs, *col_runs;
    int32_t n_row_run, n_col_run;
    /* filled when it is declared */
    int64_t n_here, k_here; /* rows and columns that are kept; n and k are the file's */
    const char *name;       /* canonical name, see ckpt.h */
    bool vector;            /* it has values */
    const void *constant;
    const void **constant_out;
    /* filled by match */
    whim_param_part *parts; /* [n_part]: one, or one for each expert that is kept */
    int64_t n_part;
    whim_dtype dtype;      /* on the device */
    int64_t offset, bytes; /* place in the weights buffer */
} whim_param;

/* Experts of a stack that are kept. */
int64_t whim_param_experts(const whim_param *param);

/* Rows from one part to the next on the device, and all rows of the weight there. */
int64_t whim_param_pitch(const whim_param *param);
int64_t whim_param_rows(const whim_param *param);

enum whim_skipped { WHIM_SKIPPED_VISION, WHIM_SKIPPED_MTP };

typedef struct whim_binder {
    whim_arena arena;
    whim_param *params;
    int64_t n_param, cap_param;
    bool failed; /* an allocation failed while declaring; match reports it */
    /* Set before match: matrices of floats become codes of this type, Q8_0 or Q4_0, while they are
     * loaded, where their rows are whole blocks. F32: they stay what they are. */
    whim_dtype narrow;
    /* Set before tensors are declared where the model is cut: which of how many ranks this is, and
     * where tensors will be found. 0 or 1 ranks: it is not. */
    int32_t n_rank, rank;
    /* It is cut by heads and by outputs, so that no sum is: ranks gather what they have made. MLPs
     * are whole then. */
    bool whole_sums;
    /* Where MLPs and experts are cut over more ranks than that, those of several groups; else 0. */
    int32_t n_wide, wide_rank;
    int32_t n_share; /* ranks that have of the model what this one has, and share rows of steps */
    int32_t n_deal, deal_rank; /* ranks that have whole experts each; 0 or 1: all are here */
    /* Where the rest is cut: so many ranks have each expert together, and what experts add is
     * summed over all; else 0. */
    int32_t deal_span;
    whim_act deal_rows; /* as which rows go to them, if deal_rows_fixed */
    bool deal_rows_fixed;
    int32_t deal_slots;         /* see whim_deal.n_slot; 0: as many as is usual */
    const int32_t *deal_counts; /* [n_deal] experts of each; NULL: as many, or one more */
    const whim_ckpt *ckpt;
    const struct whim_comm *comm; /* of ranks that load; where that ends, so does the load */
    int64_t bytes;                /* size of the weights buffer */
    /* Tensors that the file has and text does not need (enum whim_skipped). */
    int64_t n_skipped[2], skipped_bytes[2];
    void *buffer; /* device memory, owned; NULL before load */
    whim_device *device;
} whim_binder;

/* The ranks over which MLPs and experts are cut; 1: they are not. */
static inline int32_t whim_binder_wide(const whim_binder *binder, int32_t *rank)
{
    bool wide = binder->n_wide > 1, cut = binder->n_rank > 1 && !binder->whole_sums;
    *rank = wide ? binder->wide_rank : cut ? binder->rank : 0;
    return wide ? binder->n_wide : cut ? binder->n_rank : 1;
}

void whim_binder_init(whim_binder *binder);
void whim_binder_deinit(whim_binder *binder);

/* Declare a tensor by what of `param` is not filled; printf-style name, of experts what comes
 * before the dots: "layers.3.mlp.experts". */
void whim_bind(whim_binder *binder, const whim_param *param, const char *fmt, ...)
    WHIM_PRINTF(3, 4);

/* Columns of a matrix that cannot be told from each other: those of a block of its type in
 * binder->ckpt, 1 if it is not there (match will tell). `param` and name as of whim_bind. `group`,
 * unless NULL, gets the columns whose activations share a scale in products with it: those of types
 * that take int8 rows, else 1. */
int64_t whim_bind_block(const whim_binder *binder, const whim_param *param, int64_t *group,
                        const char *fmt, ...) WHIM_PRINTF(4, 5);

/* Declare bytes that the model computed itself; they are copied now. */
void whim_bind_constant(whim_binder *binder, const void **out, const void *data, int64_t bytes);

/* Step 2. A checkpoint of format DUMMY supplies every tensor: matrices in `ckpt->config.dtype`,
 * vectors in F32. */
WHIM_MUST_CHECK whim_err whim_bind_match(whim_binder *binder, const whim_ckpt *ckpt,
                                         whim_device *device, whim_diag *diag);

/* After step 2, where that costs little: read all that was found, and refuse the first value that
 * is no number, or is too large for what it becomes. */
WHIM_MUST_CHECK whim_err whim_bind_check_values(const whim_binder *binder, const whim_ckpt *ckpt,
                                                int32_t n_thread, whim_diag *diag);

/* Step 3. `on_progress` (may be NULL) is called from loader threads with bytes done of bytes
 * total. */
typedef void whim_load_progress(void *ctx, int64_t done, int64_t total);
WHIM_MUST_CHECK whim_err whim_bind_load(whim_binder *binder, const whim_ckpt *ckpt,
                                        whim_device *device, int32_t n_thread,
                                        whim_load_progress *on_progress, void *ctx,
                                        whim_diag *diag);

/* Memory that whim_bind_load takes while it runs, and gives back. */
int64_t whim_bind_staging_bytes(const whim_binder *binder, const whim_device *device,
                                int32_t n_thread);

/* Matrices whose codes no block type holds, so that they became plain floats: groups out of order,
 * odd rows. */
typedef struct whim_bind_widened {
    int64_t n, bytes, stored; /* in the checkpoint's modules; bytes as floats, and of their codes */
} whim_bind_widened;
whim_bind_widened whim_bind_widened_of(const whim_binder *binder);

/* Read rows row0 .. row0 + n_row - 1 of a matrix's part as the device takes them. `scratch` has
 * whim_rows_scratch_bytes (internal to loading). */
WHIM_MUST_CHECK whim_err whim_rows_read(const whim_ckpt *ckpt, const whim_param *param,
                                        int64_t part, int64_t row0, int64_t n_row, char *dst,
                                        char *scratch, whim_diag *diag);
int64_t whim_rows_scratch_bytes(const whim_param *param, int64_t n_row);

/* The values of a vector, changed as its form says. */
void whim_vector_form_apply(whim_vector_form form, float *x, int64_t n);

/* A vector as F32. */
WHIM_MUST_CHECK whim_err whim_vector_read(const whim_ckpt *ckpt, const whim_param *param,
                                          float *dst, whim_diag *diag);

/* Where row `i` of what is kept is among all rows, and how many from there on follow each other
 * (internal to loading). */
whim_part whim_param_row_run(const whim_param *param, int64_t i);

/* Bytes of a row in the file. */
int64_t whim_rows_file_bytes(const whim_param *param);

/* Find every parameter's tensors, or say in `text` what is wrong, and count it (internal to
 * binding). */
typedef struct whim_bind_report {
    whim_str text;
    int64_t n_problem;
} whim_bind_report;
void whim_bind_find(whim_binder *binder, const whim_ckpt *ckpt, whim_device *device,
                    whim_bind_report *report);

/* The type of a tensor that is found by that name, or of its first expert (internal to binding). */
bool whim_bind_find_type(const whim_ckpt *ckpt, const whim_param *param, const char *name,
                         whim_dtype *out);

/* Point all destinations into a buffer (internal to binding: offsets first, addresses later). */
void whim_bind_point(whim_binder *binder, char *base);

#endif

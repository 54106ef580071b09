/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel is one worker's share of one op. All workers call it with the same arguments; each takes
 * the outputs that its number gives it, so that no sum is ever split between workers. Kernels of
 * all levels give the bits of the law.
 * Threads: a kernel touches its outputs and its worker's scratch only. */
#ifndef WHIM_BACKENDS_CPU_KERNELS_H
#define WHIM_BACKENDS_CPU_KERNELS_H

#include "backends/cpu/packing.h"
#include "ops/ops.h"

#include <stdatomic.h>
#include <stdbool.h>

enum {
    WHIM_CPU_PAGE = 32,            /* positions in a page of keys and values */
    WHIM_CPU_SCRATCH = 256 * 1024, /* bytes of scratch of each worker */
    /* two vectors of this size fit the scratch, with room to spare */
    WHIM_CPU_MAX_HEAD_DIM = 16384,
    /* elements of rows that a worker makes for itself: as floats, and as int8 with a row beside an
     * odd one, or as BF16 */
    WHIM_CPU_OWN_ELEMS = 8192,
    WHIM_CPU_OWN_FLOATS = WHIM_CPU_OWN_ELEMS * 4,
    WHIM_CPU_OWN_NARROW = WHIM_CPU_OWN_ELEMS * 3 + 128,
    WHIM_CPU_OWN_BYTES = WHIM_CPU_OWN_FLOATS + WHIM_CPU_OWN_NARROW,
};

/* Who takes the next run of a command's items; alone on its cache line. */
typedef struct whim_cpu_ticket {
    _Alignas(64) _Atomic uint32_t next;
} whim_cpu_ticket;

typedef struct whim_cpu_worker {
    _Alignas(64) struct whim_cpu_workers *pool;
    int32_t index, count;
    void *scratch; /* WHIM_CPU_SCRATCH bytes, aligned to 64 */
    void *own;     /* WHIM_CPU_OWN_BYTES that stay as they are from one product to the next */
    whim_cpu_ticket *ticket; /* of the command that runs, shared by all workers */
    uint32_t section;        /* barriers passed so far */
} whim_cpu_worker;

/* This worker's part [begin, end) of n equal items. */
static inline void whim_cpu_share(const whim_cpu_worker *w, int64_t n, int64_t *begin, int64_t *end)
{
    *begin = n * w->index / w->count;
    *end = n * (w->index + 1) / w->count;
}

/* A command's items shared by who is free. The first half is split evenly and costs nothing; the
 * rest is handed out by ticket, in rounds of one run for each worker, each round half of what is
 * left, so that a worker that fell behind takes fewer runs and the last ones are single items. Few
 * items (one for each worker at most) are dealt without tickets. All workers claim with the same
 * n_item, once in a command:
 *     whim_cpu_claim c = whim_cpu_claim_open(worker, n_item);
 *     while (whim_cpu_claim_next(&c)) { items c.begin .. c.end - 1 } */
typedef struct whim_cpu_claim {
    int64_t begin, end;      /* the run to work on */
    whim_cpu_ticket *ticket; /* NULL: none left to take */
    int64_t n_item, count;
    int64_t round_begin, run; /* first item of the round and length of its runs */
    int64_t round_ticket;     /* ticket of the round's first run */
    bool own;                 /* begin .. end is the worker's own part, not yet given out */
} whim_cpu_claim;

static inline int64_t whim_cpu_claim_run(int64_t left, int64_t count)
{
    return (left + 2 * count - 1) / (2 * count);
}

static inline whim_cpu_claim whim_cpu_claim_open(const whim_cpu_worker *w, int64_t n_item)
{
    whim_cpu_claim c = {.n_item = n_item, .count = w->count, .own = true};
    if (w->count == 1 || n_item <= w->count) {
        whim_cpu_share(w, n_item, &c.begin, &c.end);
        return c;
    }
    int64_t own = n_item / (2 * c.count);
    c.begin = own * w->index;
    c.end = c.begin + own;
    c.ticket = w->ticket;
    c.round_begin = own * c.count;
    c.run = whim_cpu_claim_run(n_item - c.round_begin, c.count);
    return c;
}

/* The next run of items for this worker; false: none left. */
static inline bool whim_cpu_claim_next(whim_cpu_claim *c)
{
    if (c->own) {
        c->own = false;
        if (c->begin < c->end) {
            return true;
        }
    }
    if (c->ticket == NULL) {
        return false;
    }
    /* Order is the barriers' business. */
    int64_t ticket = atomic_fetch_add_explicit(&c->ticket->next, 1, memory_order_relaxed);
    while (ticket >= c->round_ticket + c->count && c->round_begin < c->n_item) {
        c->round_ticket += c->count;
        c->round_begin += c->run * c->count;
        c->run = whim_cpu_claim_run(c->n_item - c->round_begin, c->count);
    }
    c->begin = c->round_begin + (ticket - c->round_ticket) * c->run;
    c->end = c->begin + c->run;
    if (c->end >= c->n_item) {
        c->end = c->n_item;
        c->ticket = NULL;
    }
    return c->begin < c->end;
}

typedef void whim_cpu_kernel(const void *args, const whim_cpu_worker *worker);

/* Rows of x as int8 or BF16, before the products that take them so. */
typedef struct whim_cpu_quantize_args {
    const void *x; /* [n_row, k] of x_type: F32, BF16 or Q8 */
    int64_t x_stride;
    whim_act x_type;
    void *act; /* whim_cpu_act_bytes, or whim_cpu_bf16_act_bytes */
    int64_t n_row, k;
    const int32_t *rows; /* [n_row]: which row of x is row r; NULL: row r */
} whim_cpu_quantize_args;

/* One of the largest outputs of a row: its rank (tensor/rank_key.h), 0 for none, and its value. */
typedef struct whim_cpu_best {
    uint64_t key;
    float value;
} whim_cpu_best;

/* Few rows of a product, made by every worker for itself from x, because making them again is
 * cheaper than waiting for one worker that makes them for all. */
typedef struct whim_cpu_own {
    const float *delta; /* added to x first, or NULL */
    int64_t delta_stride;
    const float *norm; /* then the norm with these weights, or NULL */
    float eps;
    bool used; /* false: rows are as the other arguments say */
    bool kept; /* the worker has them from the product before */
} whim_cpu_own;

/* `linear` and its fused sisters as their kernel sees them: block types read the rows' int8 form,
 * BF16 their BF16 form on levels that have one, other float types x. The results go to y, or, where
 * `best` is given, each worker's k_top largest of a row go there. */
typedef struct whim_cpu_product_args {
    whim_weight w;
    const void *up; /* a second weight like w: y = silu(x w^T) * (x up^T); or NULL */
    void *act;      /* n_row rows of w.k, or NULL */
    const float *x;
    int64_t x_stride;
    const float *bias, *up_bias; /* [n], or NULL */
    float *y;                    /* [n_row, n] */
    int64_t y_stride;
    int64_t n_row;
    whim_cpu_best *best; /* [workers, n_row, k_top], or NULL */
    int64_t k_top;
    whim_cpu_own own;
} whim_cpu_product_args;

/* The largest of what all workers found. */
typedef struct whim_cpu_merge_args {
    const whim_cpu_best *best; /* [workers, n_row, k_top] */
    float *values;             /* [n_row, k_top] */
    int32_t *ids;              /* [n_row, k_top] */
    int64_t n_row, k_top;
} whim_cpu_merge_args;

/* `sample` as its kernel sees it: workers beyond the slots have nothing to do. */
typedef struct whim_cpu_sample_args {
    whim_sample_args op;
    void *space;    /* n_slot times whim_sample_slot_bytes(n_col) */
    int64_t n_slot; /* how many rows can be worked on at once */
} whim_cpu_sample_args;

/* The commands of moe_experts (moe_cpu.c). One row needs no more than the two of ONE. */
typedef enum whim_cpu_moe_step {
    WHIM_CPU_MOE_ONE_UP,   /* one row's experts: silu(gate) * up */
    WHIM_CPU_MOE_ONE_DOWN, /* and their sum */
    WHIM_CPU_MOE_PLAN,     /* which rows go to which expert */
    WHIM_CPU_MOE_NARROW,   /* rows in expert order, as the product takes them */
    WHIM_CPU_MOE_PRODUCT,  /* of all experts with their rows */
    WHIM_CPU_MOE_SWIGLU,   /* where gate and up are of different types */
    WHIM_CPU_MOE_END,      /* back to the rows that they came from */
    WHIM_CPU_MOE_STEPS
} whim_cpu_moe_step;

/* One instruction level. Kernels take the op's arguments, `linear` and its fused sisters
 * whim_cpu_product_args. */
typedef struct whim_cpu_kernels {
    const char *level;
    whim_cpu_order order;
    whim_cpu_bf16_order bf16_order;
    whim_cpu_kernel *quantize_act, *merge_best;
    whim_cpu_kernel *moe[WHIM_CPU_MOE_STEPS]; /* moe_plan.h */
    whim_cpu_kernel *round_act;               /* rows as BF16; NULL: BF16 weights take F32 rows */
    bool attn_matrix;                         /* attention over BF16 pages is on a matrix unit */
    whim_peak_macs *peak_macs;                /* tmpl/peak_tmpl.h */
#define WHIM_OP(name) whim_cpu_kernel *name;
#define WHIM_COMM(name) /* the same on every level: comm_cpu.c */
#include "ops/ops.def"
#undef WHIM_OP
} whim_cpu_kernels;

#endif

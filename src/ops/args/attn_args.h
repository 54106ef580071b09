/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of attention over paged keys and values. All pointers are device memory.
 *
 * A page holds the keys and values of page_len consecutive positions, aligned to that number, for
 * all layers; position p of a sequence lives in its page p / page_len at place p % page_len. A
 * slot is page * page_len + place. How long a page is the device says (caps.page_len), and no
 * result depends on it. The layout inside a page's layer belongs to the backend: kv_write writes
 * it, kv_read and attn_paged read it, everyone else copies or zeroes whole pages. */
#ifndef WHIM_OPS_ARGS_ATTN_ARGS_H
#define WHIM_OPS_ARGS_ATTN_ARGS_H

#include "tensor/kv_type.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    WHIM_PAGE_LEN_MAX = 512, /* positions in a page: an even number, at most this */
    WHIM_KV_SEGMENT = 512,   /* keys that attention reduces at once, counted from position 0 */
};

/* One layer's keys and values inside the page pool. */
typedef struct whim_kv_view {
    void *pages;          /* page 0 of the pool */
    int64_t page_stride;  /* bytes from page to page (all layers) */
    int64_t layer_offset; /* bytes from a page's start to this layer's part */
    int64_t n_kv, d_head;
    whim_kv_type type;
    int32_t page_len;
} whim_kv_view;

/* Bytes of one layer's part of a page: keys and values, scales included. */
static inline int64_t whim_kv_layer_bytes(int64_t n_kv, int64_t d_head, whim_kv_type type,
                                          int32_t page_len)
{
    return 2 * page_len * n_kv * whim_kv_vector_bytes(type, d_head);
}

/* Store rows of keys and values, rounded to the KV type; out-of-range values saturate to the
 * largest finite ones and NaN becomes 0, so that a masked position can never poison a sum (Q8: see
 * tensor/kv_type.h). A negative slot is padding and is skipped. Slots of a call are distinct. */
typedef struct whim_kv_write_args {
    whim_kv_view kv;
    const float *k;       /* [n_row, n_kv, d_head] */
    const float *v;       /* [n_row, n_kv, d_head] */
    const int32_t *slots; /* [n_row] */
    int64_t n_row;
} whim_kv_write_args;

/* The inverse: rows of stored keys and values as F32; a negative slot gives zeros. */
typedef struct whim_kv_read_args {
    whim_kv_view kv;
    const int32_t *slots; /* [n_row] */
    float *k;             /* [n_row, n_kv, d_head] */
    float *v;             /* [n_row, n_kv, d_head] */
    int64_t n_row;
} whim_kv_read_args;

/* Zero whole pages (all layers); negative ids are skipped. */
typedef struct whim_page_zero_args {
    void *pages;
    int64_t page_bytes;
    const int32_t *ids; /* [n_id] */
    int64_t n_id;
} whim_page_zero_args;

/* Attention of query rows over their sequences' pages (ops/ref/attn_ref.c has the exact order).
 * Rows q_start[s] .. q_start[s+1]-1 belong to sequence s; rows after q_start[n_seq] get zeros.
 * A row at position p sees keys lo .. hi-1 of kv_len[s]: causal: hi = p + 1, else a window reaches
 * as far ahead as back, hi = p + window, or all are seen; lo = max(first, p + 1 - window), or
 * `first` without a window. A row that sees no key gets zeros.
 * KV head of query head h: h / (n_head / n_kv). */
typedef struct whim_attn_paged_args {
    whim_kv_view kv;
    const float *q;            /* [n_row, n_head, d_head] */
    const int32_t *q_start;    /* [n_seq + 1] */
    const int32_t *kv_len;     /* [n_seq]: keys stored, those of this step included */
    const int32_t *positions;  /* [n_row] */
    const int32_t *pages;      /* lists of page ids, one for each sequence that has keys */
    const int32_t *page_start; /* [n_seq]: where in `pages` a sequence's list begins */
    float *out;                /* [n_row, n_head, d_head] */
    float scale;
    bool causal;
    int32_t window; /* 0: none */
    int32_t first;  /* keys before this one are seen by nobody */
    int64_t n_row, n_seq, n_head;
    int64_t max_pages; /* entries that all lists have room for */
} whim_attn_paged_args;

#endif

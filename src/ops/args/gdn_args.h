/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of the gated delta net and of the recurrent states that it keeps. All pointers are
 * device memory; strides are in elements. Counts are 64 bits wide: neither rows nor sequences times
 * heads have a limit of their own.
 *
 * A sequence has one slot of state for all layers. Rows q_start[s] .. q_start[s+1]-1 belong to
 * sequence s, in order, and continue what its slot holds; a sequence whose first row is at position
 * 0 starts from zeros, whatever is in the slot. The bits of a row do not depend on how its sequence
 * was cut into calls. Rows after q_start[n_seq] and rows of a sequence whose slot is outside 0 ..
 * n_slot-1 are padding and get zeros. Slots of a call are distinct.
 *
 * The state after a sequence's last row goes to out_slots[s]; outside 0 .. n_slot-1 it goes
 * nowhere, and the slot that was read stays as it was: the rows can be fed again later, or others
 * in their place. Without out_slots states go back to where they were read. A slot that is written
 * is read by its own sequence or by none. */
#ifndef WHIM_OPS_ARGS_GDN_ARGS_H
#define WHIM_OPS_ARGS_GDN_ARGS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WHIM_GDN_MAX_TAP = 16,   /* taps of the convolution */
    WHIM_GDN_MAX_DIM = 1024, /* values of a key or value head */
};

/* One layer's part of the state slots: F32 at slots + slot * slot_stride + offset. */
typedef struct whim_state_view {
    void *slots;
    int64_t slot_stride; /* bytes from slot to slot (all layers) */
    int64_t offset;      /* bytes from a slot's start to this part */
    int64_t n_slot;
} whim_state_view;

/* The fused products of the layer's input, apart. As they come: qkvz [q | k | v | z] with all heads
 * of each together, ba [b | a]. Grouped (Qwen3-Next): for each key head g its [q | k | v | z], v
 * and z of the n_value / n_key value heads that go with it, and [b | a] of them. A copy, bit for
 * bit. */
typedef struct whim_gdn_split_qkvzba_args {
    const float *qkvz; /* [n_row, 2 n_key d_key + 2 n_value d_value] */
    int64_t qkvz_stride;
    const float *ba; /* [n_row, 2 n_value] */
    int64_t ba_stride;
    bool grouped;
    float *qkv; /* [n_row, 2 n_key d_key + n_value d_value], dense: all q, all k, all v */
    float *z;   /* [n_row, n_value, d_value], dense */
    float *b;   /* [n_row, n_value], dense */
    float *a;   /* [n_row, n_value], dense */
    int64_t n_row, n_key, n_value, d_key, d_value;
} whim_gdn_split_qkvzba_args;

/* y[t] = silu(sum over j of w[j] * x[t - (n_tap-1) + j]), channel by channel: acc = fma(w[j], x,
 * acc) from 0, j in order; silu as swiglu. The state is the last n_tap - 1 rows of x, oldest first:
 * [n_tap - 1, n_chan]. */
typedef struct whim_gdn_conv_args {
    const float *x; /* [n_row, n_chan] */
    int64_t x_stride;
    const float *w; /* [n_chan, n_tap] */
    whim_state_view state;
    const int32_t *q_start;     /* [n_seq + 1] */
    const int32_t *positions;   /* [n_row] */
    const int32_t *state_slots; /* [n_seq] */
    const int32_t *out_slots;   /* [n_seq], or NULL: state_slots */
    float *y;                   /* [n_row, n_chan]; overlaps nothing */
    int64_t y_stride;
    int64_t n_row, n_seq, n_chan, n_tap;
} whim_gdn_conv_args;

/* The gated delta rule, token by token; ops/ref/gdn_ref.c has the exact steps. Value head h goes
 * with key head h / (n_value / n_key). The state is S [n_value, d_key, d_value]. */
typedef struct whim_gdn_scan_args {
    const float *qkv; /* [n_row, 2 n_key d_key + n_value d_value]: all q, all k, all v */
    int64_t qkv_stride;
    const float *b; /* [n_row, n_value] */
    int64_t b_stride;
    const float *a; /* [n_row, n_value] */
    int64_t a_stride;
    const float *rate;    /* [n_value]: -exp(A_log) */
    const float *dt_bias; /* [n_value] */
    whim_state_view state;
    const int32_t *q_start;     /* [n_seq + 1] */
    const int32_t *positions;   /* [n_row] */
    const int32_t *state_slots; /* [n_seq] */
    const int32_t *out_slots;   /* [n_seq], or NULL: state_slots */
    float *out;                 /* [n_row, n_value, d_value], dense; overlaps nothing */
    int64_t n_row, n_seq;
    int32_t n_key, n_value, d_key, d_value;
} whim_gdn_scan_args;

/* y = rmsnorm(x) * w * silu(z): rmsnorm, then swiglu with z as the gate. */
typedef struct whim_rmsnorm_gated_args {
    const float *x; /* [n_row, n_col] */
    int64_t x_stride;
    const float *w; /* [n_col] */
    float eps;
    const float *z; /* [n_row, n_col] */
    int64_t z_stride;
    float *y; /* [n_row, n_col]; may be x */
    int64_t y_stride;
    int64_t n_row, n_col;
} whim_rmsnorm_gated_args;

/* x = x / (1 + exp(-gate)), element by element. */
typedef struct whim_sigmoid_gate_args {
    float *x; /* [n_row, n_col], in and out */
    int64_t x_stride;
    const float *gate; /* [n_row, n_col] */
    int64_t gate_stride;
    int64_t n_row, n_col;
} whim_sigmoid_gate_args;

/* dst[0 .. bytes) = src[0 .. bytes): for states on their way to and from a checkpoint. */
typedef struct whim_copy_bytes_args {
    void *dst; /* overlaps nothing of src */
    const void *src;
    int64_t bytes;
} whim_copy_bytes_args;

#endif

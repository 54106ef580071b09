/* SPDX-License-Identifier: Apache-2.0 */
/* What a case of checkop is made of, and how it is run.
 *
 * A case is a few buffers and a few op calls on them. Every buffer has an image: the rows that the
 * op may see, surrounded (and, where the stride is larger than the row, separated) by canary bytes.
 * The same image exists on the host for the law and in the memory of each device under test; a
 * call's pointers are resolved for the side it runs on. After a run the whole image is looked at:
 *  1. canaries, inputs and packed weights have not changed by one bit;
 *  2. outputs agree with the law within the tolerance of (op, dtype);
 *  3. a row run alone has the bits that it had among the others;
 *  4. one thread gives the bits of many.
 * Device memory is touched by copies and ops only. Threads: one. */
#ifndef CHECKOP_HARNESS_H
#define CHECKOP_HARNESS_H

#include "ops/operands.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CHECKOP_PAD = 256,     /* canary bytes before and after the rows; a multiple of 64 */
    CHECKOP_MAX_BUF = 20,  /* buffers of a case */
    CHECKOP_MAX_CALL = 48, /* calls of a case */
    CHECKOP_MAX_BIND = 12, /* pointers of a call */
    CHECKOP_SIDES = 2,     /* devices under test: all threads, one thread */
    CHECKOP_MANY = 65540,  /* more rows than 16 bits count */
};

typedef struct checkop_rng {
    uint64_t state;
} checkop_rng;

uint64_t checkop_rand(checkop_rng *rng);
/* lo .. hi, both included. */
int64_t checkop_range(checkop_rng *rng, int64_t lo, int64_t hi);
bool checkop_chance(checkop_rng *rng, int64_t one_in);
/* One of the listed numbers. */
#define checkop_pick(rng, ...)                                                            \
    checkop_pick_from(rng, (int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
                      (const int64_t[]){__VA_ARGS__})
int64_t checkop_pick_from(checkop_rng *rng, int64_t n, const int64_t *list);

typedef enum checkop_role {
    CHECKOP_IN,
    CHECKOP_OUT,
    CHECKOP_INOUT,
    CHECKOP_PAGES, /* layout known to the backend only: no look inside, zero at start */
    CHECKOP_SPARE, /* workspace, as much as each side asks for: no look inside, anything at start */
    CHECKOP_WEIGHT, /* packed by the device; the law gets the rows as a file has them */
} checkop_role;

typedef enum checkop_fill {
    CHECKOP_GIVEN, /* the case wrote it */
    CHECKOP_JUNK,  /* the canary pattern */
    CHECKOP_ZERO,
    CHECKOP_SANE,   /* F32 of everyday size */
    CHECKOP_WILD,   /* F32: zeros, denormals, huge values among the others */
    CHECKOP_ANY,    /* wild, infinities and NaN */
    CHECKOP_IDS,    /* I32 from id_lo .. id_hi */
    CHECKOP_FREQS,  /* F64 rotary frequencies */
    CHECKOP_BLOCKS, /* rows of a weight type */
} checkop_fill;

typedef enum checkop_kind { CHECKOP_F32, CHECKOP_I32, CHECKOP_F64, CHECKOP_BYTES } checkop_kind;

typedef struct checkop_buf {
    const char *name;
    checkop_role role;
    checkop_fill fill;
    checkop_kind kind;
    whim_dtype dtype; /* of a weight */
    int64_t rows, row_bytes, stride_bytes;
    int64_t cols;
    int64_t head, bytes; /* of the host image: where row 0 begins, size */
    int32_t id_lo, id_hi;
    bool by_row; /* row r belongs to row r of the op under test */
    uint8_t *init, *law, *full;
    int64_t dev_head[CHECKOP_SIDES], dev_bytes[CHECKOP_SIDES];
    void *dev[CHECKOP_SIDES];
    uint8_t *dev_init[CHECKOP_SIDES]; /* image that goes to the device; `init` but for weights */
    uint8_t *got;                     /* image that came back last */
} checkop_buf;

typedef struct checkop_bind {
    size_t field; /* of the pointer in the argument struct */
    int32_t buf;
    int64_t offset;   /* bytes after row 0 */
    int64_t row_step; /* bytes from row to row of the op; 0: all rows use the same */
} checkop_bind;

typedef struct checkop_call {
    whim_op op;
    union {
        uint8_t bytes[WHIM_OP_ARGS_MAX];
        max_align_t align;
    } args;
    checkop_bind bind[CHECKOP_MAX_BIND];
    int32_t n_bind;
} checkop_call;

typedef struct checkop_case checkop_case;
struct checkop_case {
    char text[240]; /* parameters, for people */
    checkop_rng rng;
    int32_t page_len; /* of the device under test */
    bool has_grids;   /* its kernels depend on how many outputs a product has */
    whim_dtype dtype; /* for the tolerance */
    checkop_buf buf[CHECKOP_MAX_BUF];
    int32_t n_buf;
    checkop_call call[CHECKOP_MAX_CALL];
    int32_t n_call;
    int32_t subject;    /* the call under test */
    int64_t n_row;      /* of it; 0: rows cannot be run alone */
    size_t n_row_field; /* its n_row */
    /* Change a copy of the call under test to row `row` alone; NULL: pointers step by row_step. */
    void (*slice)(const checkop_case *c, int64_t row, checkop_call *call);
    /* New contents of GIVEN buffers for a replay; NULL: they stay. */
    void (*refill)(checkop_case *c);
    int64_t param[12];     /* of the family, for slice and refill */
    const char *skip;      /* why this device cannot run it, or NULL */
    double flops, traffic; /* bench: operations and bytes that must move */
};

/* A family of cases: one for each line of ops.def. */
typedef struct checkop_case_family {
    int32_t n_fixed, n_random, n_random_quick;
    /* Cases 0 .. n_fixed-1 are the mandatory ones, those after them have random shapes. */
    void (*make)(checkop_case *c, int32_t index);
    /* Argument set i: 0 is valid, the others must be refused. Its name, or NULL after the last. */
    const char *(*arguments)(int32_t i, void *args); /* NULL: none */
    /* Bench case i, or false after the last. */
    bool (*bench)(checkop_case *c, int32_t i); /* NULL: none */
} checkop_case_family;

/* A group of cases is an op of ops.def or, after the last of them, programs of several ops that
 * share buffers, and collectives of several ranks. */
enum { CHECKOP_CHAIN = WHIM_OP_COUNT, CHECKOP_RANKS, CHECKOP_GROUPS };
const checkop_case_family *checkop_family(int32_t group);
const char *checkop_name(int32_t group);

/* Type-erased callers. */
whim_err checkop_check(whim_op op, const void *args);
whim_err checkop_invoke(whim_stream *s, whim_op op, const void *args);

/* A pointer that is not NULL, for argument sets; nothing follows it. */
extern float checkop_somewhere[16];
extern const int32_t checkop_some_ids[1];

/* Building a case. Strides and offsets are in elements; the buffer's number comes back. */
int32_t checkop_buf_add(checkop_case *c, checkop_buf b, int64_t offset_bytes);
int32_t checkop_matrix(checkop_case *c, const char *name, checkop_role role, checkop_fill fill,
                       int64_t rows, int64_t cols, int64_t stride, int64_t offset);
int32_t checkop_ids(checkop_case *c, const char *name, int64_t n, int32_t lo, int32_t hi);
int32_t checkop_given(checkop_case *c, const char *name, int64_t n, int32_t **out);
int32_t checkop_bytes(checkop_case *c, const char *name, checkop_role role, checkop_fill fill,
                      int64_t rows, int64_t row_bytes, int64_t stride_bytes, int64_t offset);
int32_t checkop_weight(checkop_case *c, const char *name, whim_dtype dtype, int64_t n, int64_t k);
int32_t *checkop_i32(checkop_case *c, int32_t buf);
void checkop_shuffle(checkop_rng *rng, int32_t *list, int64_t n);

/* A zeroed argument struct inside the case; pointers are bound, not stored. */
checkop_call *checkop_call_add(checkop_case *c, whim_op op);
void checkop_bind_at(checkop_case *c, checkop_call *call, size_t field, int32_t buf,
                     int64_t row_step);
#define CHECKOP_BIND(c, call, op, field, buf, row_step) \
    checkop_bind_at(c, call, offsetof(whim_##op##_args, field), buf, row_step)

/* Buffers for all operands of a call that are not bound yet, as operands.def has them. By now the
 * arguments have sizes and strides. Of their pointers only this counts: an optional operand is
 * there unless it is NULL, and operands with the same pointer lie in the same memory. Inputs have
 * contents of kind `fill`, constants everyday ones; ids are the case's to bind. Rows begin `offset`
 * elements after an aligned address. */
void checkop_operands(checkop_case *c, checkop_call *call, checkop_fill fill, int64_t offset);
/* The number of the buffer that a field is bound to, -1: none. */
int32_t checkop_bound(const checkop_call *call, size_t field);
#define CHECKOP_BUF(c, call, op, field) \
    (&(c)->buf[checkop_bound(call, offsetof(whim_##op##_args, field))])

/* Which call is under test; its rows can be run alone unless `rows` is 0. */
void checkop_subject(checkop_case *c, const checkop_call *call, size_t n_row_field, int64_t n_row);
#define CHECKOP_SUBJECT(c, call, op, rows) \
    checkop_subject(c, call, offsetof(whim_##op##_args, n_row), rows)
void checkop_say(checkop_case *c, const char *fmt, ...) WHIM_PRINTF(2, 3);

/* The workspace of the calls, when there will be no more of them. */
void checkop_space_add(checkop_case *c);

/* Write new contents into every buffer that has a fill. */
void checkop_fill_case(checkop_case *c);
void checkop_fill_blocks(checkop_rng *rng, whim_dtype dtype, uint8_t *dst, int64_t n_block);

/* A device under test and a stream on it. */
typedef struct checkop_side {
    whim_device *dev;
    whim_stream *stream;
} checkop_side;

typedef struct checkop_run {
    checkop_side side[CHECKOP_SIDES];
    int32_t n_side;
    int32_t n_thread; /* of the first side; 0: as many as there are */
    const whim_backend *backend;
    const char *isa; /* of the sides, or NULL */
    whim_stream law;
    const char *place; /* "cpu/dotprod" */
    const char *name;  /* of the group */
    int32_t index;     /* of the case */
    uint64_t seed;
    bool rounds_bf16;  /* the level rounds activations for BF16 weights (rounded.c) */
    bool rounds_first; /* so for linear and what is made of it, and for no other type of weights */
    bool attn_matrix;  /* and adds attention over BF16 pages up on a matrix unit */
} checkop_run;

whim_err checkop_run_open(checkop_run *run, const whim_backend *backend, const char *isa,
                          whim_diag *diag);
void checkop_run_close(checkop_run *run);

/* Make case `index` of a group; allocate and fill it. */
void checkop_case_init(checkop_case *c, const checkop_run *run, int32_t group, int32_t index);
/* Device memory and packed weights; false when the device cannot run it (c->skip) or failed. */
bool checkop_case_upload(checkop_case *c, checkop_run *run);
void checkop_case_free(checkop_case *c, checkop_run *run);

/* Everything that is tested of one case; false and printed lines on failure. */
bool checkop_case_test(checkop_case *c, checkop_run *run, bool quick);
/* The same of a case of ranks, which has devices of its own; and whether they have collectives. */
bool checkop_ranks_run_on(const checkop_run *run);
bool checkop_ranks_test(const checkop_run *run, int32_t index, bool quick);
/* The argument sets of a group; the number of wrong answers. */
int32_t checkop_arguments_test(checkop_run *run, int32_t group, int32_t *n_case);

/* Resolve the pointers of a call: side -1 is the law. */
void checkop_resolve(const checkop_case *c, const checkop_call *call, int32_t side, void *args);
/* Change a copy of the subject to row `row` alone. */
void checkop_slice(const checkop_case *c, int64_t row, checkop_call *call);
/* Put the images of all buffers into device memory; then after the calls bring them back. */
whim_err checkop_images_in(checkop_case *c, checkop_run *run, int32_t side);

/* Largest difference in units of the last place that an output may have. */
int64_t checkop_tolerance(whim_op op, whim_dtype dtype);

/* Times every op that `only` allows on one device. */
int checkop_bench(const whim_backend *backend, const char *isa, const char *only, uint64_t seed);

#endif

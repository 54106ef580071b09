/* SPDX-License-Identifier: Apache-2.0 */
/* What an op reads and writes, as operands.def has it: the words of its rows, and a list of them
 * for given arguments. Who wants another form of the same rows (checks, access lists) includes
 * operands.def with macros of its own.
 * Threads: stateless. */
#ifndef WHIM_OPS_OPERANDS_H
#define WHIM_OPS_OPERANDS_H

#include "ops/ops.h"

/* How an op uses an operand. */
enum {
    WHIM_USE_READS = 1,
    WHIM_USE_WRITES = 2,
    WHIM_USE_CONSTANT = 4, /* no op of a pass writes it: weights, norms, tables of the batch */
    WHIM_USE_OPTIONAL = 8, /* NULL: there is none */
    WHIM_USE_ONE_ROW = 16, /* a stride of 0: the same row for all */
};

/* The words of operands.def. */
enum {
    WHIM_USE_IN = WHIM_USE_READS,
    WHIM_USE_OUT = WHIM_USE_WRITES,
    WHIM_USE_INOUT = WHIM_USE_READS | WHIM_USE_WRITES,
    WHIM_USE_FIXED = WHIM_USE_READS | WHIM_USE_CONSTANT,
    WHIM_USE_MAYBE_FIXED = WHIM_USE_FIXED | WHIM_USE_OPTIONAL,
    WHIM_USE_MAYBE_IN = WHIM_USE_IN | WHIM_USE_OPTIONAL,
    WHIM_USE_MAYBE_OUT = WHIM_USE_OUT | WHIM_USE_OPTIONAL,
    WHIM_USE_IN_OR_ONE = WHIM_USE_IN | WHIM_USE_ONE_ROW,
};

/* Elements: X(name, C type). */
#define WHIM_ELEMS(X)         \
    X(F32, float)             \
    X(F64, double)            \
    X(I32, int32_t)           \
    X(WANT, whim_sample_want) \
    X(TOLD, whim_sample_told) \
    X(BYTE, char)             \
    X(ACT, char)              \
    X(WEIGHT, char)

typedef enum whim_elem {
#define X(name, type) WHIM_ELEM_##name,
    WHIM_ELEMS(X)
#undef X
} whim_elem;

enum {
#define X(name, type) WHIM_ELEM_BYTES_##name = sizeof(type),
    WHIM_ELEMS(X)
#undef X
};

typedef struct whim_operand {
    const char *name; /* of its field */
    uint32_t use;     /* WHIM_USE_ */
    whim_elem elem;
    whim_dtype dtype;          /* of a WEIGHT */
    whim_act act;              /* of an ACT, which is never F32 */
    int64_t field;             /* where its pointer is in the argument struct, in bytes */
    const void *data;          /* that pointer */
    int64_t lead;              /* bytes from there to row 0 */
    int64_t rows, cols;        /* rows are -1 where the op is not told how many there are */
    int64_t row_bytes, stride; /* bytes; a weight's rows are as in a file */
    bool by_row;               /* row r goes with row r of the op */
} whim_operand;

enum { WHIM_OPERANDS_MAX = 16 };

/* The operands of an op with these arguments, which its check has passed; those that are NULL
 * included. Returns how many. */
int32_t whim_operand_list(whim_op op, const void *args, whim_operand out[WHIM_OPERANDS_MAX]);

/* Bytes from the operand's pointer to its end; of pages the first only. */
int64_t whim_operand_extent(const whim_operand *operand);

/* For people: "linear w=Q4_1[576,576] x=F32[4,576] bias=none y=F32[4,576]". */
void whim_op_text(whim_op op, const void *args, char *buf, size_t size);

#endif

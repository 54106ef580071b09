/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF metadata: the keys of a file and their values, typed and bounds-checked. The header stays in
 * memory as long as the checkpoint, and values are decoded from it on demand, so that the tokenizer
 * can read its arrays without parsing the file again.
 *
 * Invariants after a successful read:
 *  1. every value, each element of each array included, lies inside header[0..header_bytes);
 *  2. keys are sorted by name and no name occurs twice.
 * Threads: read-only once read. */
#ifndef WHIM_WEIGHTS_GGUF_GGUF_H
#define WHIM_WEIGHTS_GGUF_GGUF_H

#include "weights/ckpt.h"

/* Value types as the file numbers them. */
typedef enum whim_gguf_type {
    WHIM_GGUF_U8,
    WHIM_GGUF_I8,
    WHIM_GGUF_U16,
    WHIM_GGUF_I16,
    WHIM_GGUF_U32,
    WHIM_GGUF_I32,
    WHIM_GGUF_F32,
    WHIM_GGUF_BOOL,
    WHIM_GGUF_STRING,
    WHIM_GGUF_ARRAY,
    WHIM_GGUF_U64,
    WHIM_GGUF_I64,
    WHIM_GGUF_F64,
    WHIM_GGUF_TYPE_COUNT
} whim_gguf_type;

typedef struct whim_gguf_key {
    const char *name;
    whim_gguf_type type; /* of one element */
    bool is_array;
    int64_t count;  /* elements; 1 for a scalar */
    int64_t offset; /* of the first element in the header */
} whim_gguf_key;

struct whim_gguf {
    const char *path; /* for messages */
    uint8_t *header;
    int64_t header_bytes;
    whim_gguf_key *keys;
    int64_t n_key;
    int64_t n_tensor;  /* as the file counts them */
    int64_t tensors;   /* offset of the first tensor entry in the header */
    int64_t alignment; /* of tensor data */
};

/* "u32", "string", ...: for messages. */
const char *whim_gguf_type_name(whim_gguf_type type);

/* By exact name, or NULL. */
const whim_gguf_key *whim_gguf_find_key(const whim_gguf *gguf, const char *name);

/* Scalars. An absent key leaves the output as it was. Integers of any width are accepted for an
 * integer and floats of either width for a real; a real must be finite. Bounds are inclusive. */
WHIM_MUST_CHECK whim_err whim_gguf_get_int(const whim_gguf *gguf, const char *name, int64_t min,
                                           int64_t max, int64_t *out, whim_diag *diag);
WHIM_MUST_CHECK whim_err whim_gguf_get_real(const whim_gguf *gguf, const char *name, double min,
                                            double max, double *out, whim_diag *diag);
WHIM_MUST_CHECK whim_err whim_gguf_get_bool(const whim_gguf *gguf, const char *name, bool *out,
                                            whim_diag *diag);

/* The text is borrowed from the header and has no NUL at its end; it may hold any bytes. */
WHIM_MUST_CHECK whim_err whim_gguf_get_string(const whim_gguf *gguf, const char *name,
                                              const char **text, int64_t *n, whim_diag *diag);

/* The elements of an array (or of a scalar, as an array of one) in order. Each `next` returns false
 * at the end; the caller has checked `type` first. */
typedef struct whim_gguf_iter {
    const whim_gguf *gguf;
    whim_gguf_type type;
    int64_t left;
    int64_t offset;
} whim_gguf_iter;

whim_gguf_iter whim_gguf_iter_begin(const whim_gguf *gguf, const whim_gguf_key *key);
bool whim_gguf_next_int(whim_gguf_iter *iter, int64_t *out); /* integer types and bool */
bool whim_gguf_next_real(whim_gguf_iter *iter, double *out); /* F32, F64; may be NaN */
bool whim_gguf_next_string(whim_gguf_iter *iter, const char **text, int64_t *n);

/* Whether whim_gguf_next_int can read the type. A U64 beyond int64_t saturates. */
bool whim_gguf_type_is_int(whim_gguf_type type);

/* Open a file, with all its parts if it is split, and fill the whole checkpoint. */
WHIM_MUST_CHECK whim_err whim_gguf_open(whim_ckpt *ckpt, const char *path, whim_diag *diag);

/* Free the header; the keys are in the arena given to the read. */
void whim_gguf_deinit(whim_gguf *gguf);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Element types of tensors and the size of rows of them. All facts come from dtype.def.
 * Threads: stateless. */
#ifndef WHIM_TENSOR_DTYPE_H
#define WHIM_TENSOR_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum whim_dtype {
#define WHIM_DTYPE(name, elems, bytes, gguf_id, kind) WHIM_DTYPE_##name,
#include "tensor/dtype.def"
#undef WHIM_DTYPE
    WHIM_DTYPE_COUNT
} whim_dtype;

typedef enum whim_dtype_kind {
    WHIM_DTYPE_KIND_FLOAT,
    WHIM_DTYPE_KIND_SCALED,
    WHIM_DTYPE_KIND_QUANT,
    WHIM_DTYPE_KIND_INT,
} whim_dtype_kind;

typedef struct whim_dtype_info {
    const char *name;    /* as in dtype.def, e.g. "Q4_1" */
    int32_t block_elems; /* elements of one block, 1 for plain types */
    int32_t block_bytes; /* bytes of one block */
    int32_t gguf_id;     /* type id in GGUF files, or -1 */
    whim_dtype_kind kind;
} whim_dtype_info;

/* Facts of one type. `dtype` must be valid. */
const whim_dtype_info *whim_dtype_get(whim_dtype dtype);

/* Find by name without regard to case ("q4_1"); false when unknown. */
bool whim_dtype_from_name(const char *name, whim_dtype *out);

/* Find by GGUF type id; false when unknown. */
bool whim_dtype_from_gguf(uint32_t gguf_id, whim_dtype *out);

/* Bytes of `n` elements, n a multiple of the block size (the caller has checked). */
int64_t whim_dtype_row_bytes(whim_dtype dtype, int64_t n);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The tensor entries of a GGUF file: dimensions turned round, sizes and places checked, names made
 * canonical, a fused attn_qkv cut into three. */
#include "weights/ckpt_build.h"
#include "weights/gguf/read.h"

#include <stdio.h>
#include <string.h>

enum { TENSOR_NAME_MAX = 255 };

/* Types that exist but cannot be loaded, to call them by name. */
static const char *other_type_name(uint32_t id)
{
    static const struct {
        uint32_t id;
        const char *name;
    } types[] = {
        {9, "Q8_1"}, {15, "Q8_K"},  {19, "IQ1_S"}, {24, "I8"},    {25, "I16"},   {27, "I64"},
        {28, "F64"}, {29, "IQ1_M"}, {34, "TQ1_0"}, {35, "TQ2_0"}, {40, "NVFP4"},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].id == id) {
            return types[i].name;
        }
    }
    return "unknown to this version";
}

static whim_err got(bool got_it, const whim_gguf_cursor *c)
{
    return whim_got(got_it, c->diag, "%s: no memory for its list of tensors", c->gguf->path);
}

static whim_err read_shape(whim_gguf_cursor *c, whim_ckpt_tensor *tensor, int64_t *n_elem)
{
    uint32_t n_dim;
    WHIM_TRY(whim_gguf_take_u32(c, "a number of dimensions", &n_dim));
    if (n_dim > 4) {
        return whim_fail(c->diag, WHIM_ERR_CORRUPT,
                         "%s: tensor \"%.200s\" has %u dimensions, expected at most 4",
                         c->gguf->path, tensor->file_name, n_dim);
    }
    tensor->n_dim = n_dim == 0 ? 1 : (int32_t)n_dim;
    tensor->shape[0] = 1;
    *n_elem = 1;
    for (uint32_t i = 0; i < n_dim; i++) {
        uint64_t size;
        WHIM_TRY(whim_gguf_take_u64(c, "a dimension", &size));
        if (size > INT64_MAX || __builtin_mul_overflow(*n_elem, (int64_t)size, n_elem)) {
            return whim_fail(c->diag, WHIM_ERR_CORRUPT,
                             "%s: the dimensions of tensor \"%.200s\" have a product beyond 64 "
                             "bits",
                             c->gguf->path, tensor->file_name);
        }
        tensor->shape[n_dim - 1 - i] = (int64_t)size;
    }
    return WHIM_ERR_OK;
}

static whim_err read_type(whim_gguf_cursor *c, whim_ckpt *ckpt, whim_ckpt_tensor *tensor,
                          int64_t n_elem)
{
    uint32_t id;
    WHIM_TRY(whim_gguf_take_u32(c, "a tensor type", &id));
    if (!whim_dtype_from_gguf(id, &tensor->dtype)) {
        char reason[96];
        snprintf(reason, sizeof reason, "has GGUF type %u (%s), which cannot be loaded", id,
                 other_type_name(id));
        const char *kept = whim_arena_strndup(&ckpt->arena, reason, (int64_t)strlen(reason));
        WHIM_TRY(got(kept != NULL, c));
        whim_ckpt_mark_unsupported(tensor, kept);
        return WHIM_ERR_OK;
    }
    const whim_dtype_info *info = whim_dtype_get(tensor->dtype);
    int64_t row = tensor->shape[tensor->n_dim - 1];
    if (row % info->block_elems != 0) {
        return whim_fail(c->diag, WHIM_ERR_CORRUPT,
                         "%s: tensor \"%.200s\" has rows of %lld elements, expected a multiple of "
                         "%d for type %s",
                         c->gguf->path, tensor->file_name, (long long)row, info->block_elems,
                         info->name);
    }
    if (__builtin_mul_overflow(n_elem / info->block_elems, info->block_bytes, &tensor->bytes)) {
        return whim_fail(c->diag, WHIM_ERR_CORRUPT,
                         "%s: tensor \"%.200s\" has more bytes than 64 bits can count",
                         c->gguf->path, tensor->file_name);
    }
    return WHIM_ERR_OK;
}

/* The rows of q, k and v as tensors of their own. */
static whim_err add_qkv(const whim_gguf_cursor *c, whim_ckpt *ckpt, const whim_ckpt_tensor *whole,
                        const char *name)
{
    static const char marker[] = ".qkv_proj";
    const whim_config *config = &ckpt->config;
    const int64_t d_head = config->d_head;
    int64_t gated = config->gdn.n_key > 0 ? 2 : 1; /* hybrids have a gate beside each head of q */
    const int64_t rows[3] = {gated * config->n_head * d_head, config->n_kv * d_head,
                             config->n_kv * d_head};
    int64_t total = rows[0] + rows[1] + rows[2];
    const whim_dtype_info *info = whim_dtype_get(whole->dtype);
    if (whole->unsupported == NULL &&
        (whole->shape[0] != total || (whole->n_dim == 1 && info->block_elems != 1))) {
        return whim_fail(c->diag, WHIM_ERR_CORRUPT,
                         "%s: tensor \"%.200s\" has %lld rows of %s, expected %lld for %d heads "
                         "and %d key-value heads of %d",
                         c->gguf->path, whole->file_name, (long long)whole->shape[0], info->name,
                         (long long)total, config->n_head, config->n_kv, config->d_head);
    }
    const char *cut = strstr(name, marker);
    int64_t row_bytes = whole->bytes / total;
    int64_t done = 0;
    for (int i = 0; i < 3; i++) {
        char part_name[WHIM_GGUF_NAME_MAX];
        int n = snprintf(part_name, sizeof part_name, "%.*s.%c_proj%s", (int)(cut - name), name,
                         "qkv"[i], cut + strlen(marker));
        whim_ckpt_tensor part = *whole;
        part.name = whim_arena_strndup(&ckpt->arena, part_name, n);
        WHIM_TRY(got(part.name != NULL, c));
        if (whole->unsupported == NULL) {
            part.shape[0] = rows[i];
            part.offset = whole->offset + done * row_bytes;
            part.bytes = rows[i] * row_bytes;
            done += rows[i];
        }
        WHIM_TRY(whim_ckpt_add_tensor(ckpt, &part, c->diag));
    }
    return WHIM_ERR_OK;
}

/* One entry; offsets stay relative to the data until its start is known. */
static whim_err read_entry(whim_gguf_cursor *c, whim_ckpt *ckpt, int32_t file)
{
    whim_ckpt_tensor tensor = {.file = file};
    int64_t n_elem = 0;
    uint64_t offset;
    WHIM_TRY(
        whim_gguf_take_name(c, &ckpt->arena, "a tensor name", TENSOR_NAME_MAX, &tensor.file_name));
    WHIM_TRY(read_shape(c, &tensor, &n_elem));
    WHIM_TRY(read_type(c, ckpt, &tensor, n_elem));
    WHIM_TRY(whim_gguf_take_u64(c, "a tensor offset", &offset));
    if (offset > (uint64_t)c->file->bytes || offset % (uint64_t)c->gguf->alignment != 0) {
        return whim_fail(c->diag, WHIM_ERR_CORRUPT,
                         "%s: tensor \"%.200s\" has offset %llu, expected a multiple of %lld "
                         "inside the file",
                         c->gguf->path, tensor.file_name, (unsigned long long)offset,
                         (long long)c->gguf->alignment);
    }
    tensor.offset = (int64_t)offset;
    char name[WHIM_GGUF_NAME_MAX];
    whim_gguf_name kind;
    if (!whim_gguf_canonical_name(&ckpt->config, tensor.file_name, name, &kind)) {
        tensor.name = tensor.file_name;
        return whim_ckpt_add_tensor(ckpt, &tensor, c->diag);
    }
    if (kind == WHIM_GGUF_NAME_QKV) {
        return add_qkv(c, ckpt, &tensor, name);
    }
    tensor.name = whim_arena_strndup(&ckpt->arena, name, (int64_t)strlen(name));
    WHIM_TRY(got(tensor.name != NULL, c));
    return whim_ckpt_add_tensor(ckpt, &tensor, c->diag);
}

whim_err whim_gguf_read_tensors(whim_gguf *gguf, whim_ckpt *ckpt, int32_t file, whim_diag *diag)
{
    whim_gguf_cursor c = {
        .gguf = gguf, .file = &ckpt->files[file], .at = gguf->tensors, .diag = diag};
    int64_t first = ckpt->n_tensor;
    for (int64_t i = 0; i < gguf->n_tensor; i++) {
        WHIM_TRY(read_entry(&c, ckpt, file));
    }
    int64_t data = (c.at + gguf->alignment - 1) & ~(gguf->alignment - 1);
    for (int64_t i = first; i < ckpt->n_tensor; i++) {
        whim_ckpt_tensor *tensor = &ckpt->tensors[i];
        tensor->offset += data;
        if (tensor->offset > c.file->bytes || tensor->bytes > c.file->bytes - tensor->offset) {
            return whim_fail(diag, WHIM_ERR_CORRUPT,
                             "%s: tensor \"%.200s\" needs bytes %lld to %lld, but the file has "
                             "%lld; is it complete?",
                             gguf->path, tensor->file_name, (long long)tensor->offset,
                             (long long)(tensor->offset + tensor->bytes), (long long)c.file->bytes);
        }
    }
    return WHIM_ERR_OK;
}

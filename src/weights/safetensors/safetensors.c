/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the header of one safetensors file. */
#include "weights/safetensors/safetensors.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "weights/ckpt_build.h"

#include <stdio.h>
#include <string.h>

enum { HEADER_MAX = 100 * 1000 * 1000 }; /* the limit of the format's own library */

static const whim_json_limits header_limits = {
    .max_bytes = HEADER_MAX, .max_depth = 8, .unique_keys = true}; /* as the format says */

/* One tensor being read; `scope` names it in messages. */
typedef struct reader {
    whim_ckpt *ckpt;
    int32_t file;
    const char *path;
    int64_t data_start;
    int64_t data_bytes;
    whim_diag *diag;
} reader;

/* Types of the format that are listed but cannot be loaded, and their element sizes. A type that is
 * not known at all has size 0: its tensor cannot be checked, only refused by name. */
static int64_t other_type_bytes(const char *name)
{
    static const struct {
        const char *name;
        int64_t bytes;
    } types[] = {
        {"F64", 8},     {"I64", 8},     {"U64", 8},     {"C64", 8}, {"U32", 4},
        {"I16", 2},     {"U16", 2},     {"I8", 1},      {"U8", 1},  {"BOOL", 1},
        {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(name, types[i].name) == 0) {
            return types[i].bytes;
        }
    }
    return 0;
}

static bool plain_dtype(const char *name, whim_dtype *out)
{
    static const whim_dtype types[] = {WHIM_DTYPE_F32, WHIM_DTYPE_F16, WHIM_DTYPE_BF16,
                                       WHIM_DTYPE_I32};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(name, whim_dtype_get(types[i])->name) == 0) {
            *out = types[i];
            return true;
        }
    }
    return false;
}

/* The dimensions and their product; of more than fit none but their number is kept. */
static whim_err read_shape(const reader *r, const whim_json_scope *scope, whim_ckpt_tensor *tensor,
                           int64_t *n_dim, int64_t *n_elem)
{
    const whim_json *shape = NULL;
    WHIM_TRY(whim_json_require(scope, "shape"));
    WHIM_TRY(whim_json_get_array(scope, "shape", &shape));
    *n_dim = whim_json_size(shape);
    *n_elem = 1;
    bool overflow = false;
    for (int64_t i = 0; i < *n_dim; i++) {
        int64_t size;
        if (!whim_json_as_int(whim_json_at(shape, i), &size) || size < 0) {
            return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                             "%s: \"%.200sshape\" holds something other than integers of 0 or more",
                             r->path, scope->prefix);
        }
        overflow = overflow || __builtin_mul_overflow(*n_elem, size, n_elem);
        if (i < 4) {
            tensor->shape[i] = size;
        }
        if (i < WHIM_CKPT_RAW_DIM) {
            tensor->raw.shape[i] = size;
        }
    }
    if (overflow) {
        return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                         "%s: \"%.200sshape\" has a product beyond 64 bits", r->path,
                         scope->prefix);
    }
    tensor->n_dim = (int32_t)(*n_dim > 4 ? 4 : *n_dim);
    if (*n_dim == 0) {
        tensor->n_dim = 1;
        tensor->shape[0] = 1;
    }
    return WHIM_ERR_OK;
}

static whim_err read_place(const reader *r, const whim_json_scope *scope, whim_ckpt_tensor *tensor)
{
    const whim_json *offsets = NULL;
    int64_t begin;
    int64_t end;
    WHIM_TRY(whim_json_require(scope, "data_offsets"));
    WHIM_TRY(whim_json_get_array(scope, "data_offsets", &offsets));
    if (whim_json_size(offsets) != 2 || !whim_json_as_int(whim_json_at(offsets, 0), &begin) ||
        !whim_json_as_int(whim_json_at(offsets, 1), &end)) {
        return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                         "%s: \"%.200sdata_offsets\" is not a pair of integers", r->path,
                         scope->prefix);
    }
    if (begin < 0 || begin > end || end > r->data_bytes) {
        return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                         "%s: \"%.200sdata_offsets\" is [%lld, %lld], expected to rise within "
                         "[0, %lld]; is the file complete?",
                         r->path, scope->prefix, (long long)begin, (long long)end,
                         (long long)r->data_bytes);
    }
    tensor->offset = r->data_start + begin;
    tensor->bytes = end - begin;
    return WHIM_ERR_OK;
}

static whim_err mark_type(const reader *r, whim_ckpt_tensor *tensor, const char *type)
{
    char reason[96];
    snprintf(reason, sizeof reason, "has type %.32s, which cannot be loaded", type);
    const char *kept = whim_arena_strndup(&r->ckpt->arena, reason, (int64_t)strlen(reason));
    WHIM_TRY(whim_got(kept != NULL, r->diag, "%s: no memory for its list of tensors", r->path));
    whim_ckpt_mark_unsupported(tensor, kept);
    return WHIM_ERR_OK;
}

static whim_err read_tensor(const reader *r, const char *name, const whim_json_scope *scope)
{
    whim_ckpt_tensor tensor = {.file = r->file};
    tensor.file_name = whim_arena_strndup(&r->ckpt->arena, name, (int64_t)strlen(name));
    WHIM_TRY(whim_got(tensor.file_name != NULL, r->diag, "%s: no memory for its list of tensors",
                      r->path));
    const char *type = NULL;
    int64_t n_dim;
    int64_t n_elem;
    int64_t bytes = 0;
    WHIM_TRY(whim_json_require(scope, "dtype"));
    WHIM_TRY(whim_json_get_string(scope, "dtype", &type));
    WHIM_TRY(read_shape(r, scope, &tensor, &n_dim, &n_elem));
    WHIM_TRY(read_place(r, scope, &tensor));
    bool plain = plain_dtype(type, &tensor.dtype);
    int64_t size = plain ? whim_dtype_get(tensor.dtype)->block_bytes : other_type_bytes(type);
    if (size > 0 && (__builtin_mul_overflow(n_elem, size, &bytes) || bytes != tensor.bytes)) {
        return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                         "%s: \"%.200sdata_offsets\" spans %lld bytes, expected %lld elements of "
                         "%s",
                         r->path, scope->prefix, (long long)tensor.bytes, (long long)n_elem, type);
    }
    tensor.raw.n_dim = (int32_t)(n_dim <= WHIM_CKPT_RAW_DIM ? n_dim : WHIM_CKPT_RAW_DIM);
    tensor.raw.bytes = tensor.bytes;
    if (size > 0 && n_dim <= WHIM_CKPT_RAW_DIM) {
        snprintf(tensor.raw.type, sizeof tensor.raw.type, "%s", type);
    }
    if (!plain) {
        WHIM_TRY(mark_type(r, &tensor, type));
    } else if (n_dim > 4) {
        whim_ckpt_mark_unsupported(&tensor, "has more than four dimensions");
    }
    return whim_ckpt_add_tensor(r->ckpt, &tensor, r->diag);
}

static whim_err read_entry(const reader *r, const char *name, const whim_json *entry)
{
    char prefix[256];
    if (!whim_json_is_object(entry)) {
        return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                         "%s: tensor \"%.200s\" is %s, expected an object", r->path, name,
                         whim_json_kind(entry));
    }
    snprintf(prefix, sizeof prefix, "%.200s: ", name);
    whim_json_scope scope = {.obj = entry, .path = r->path, .prefix = prefix, .diag = r->diag};
    return read_tensor(r, name, &scope);
}

/* One tensor after the other, so that a header costs no more memory than what is kept of it. */
static whim_err read_entries(const reader *r, whim_json_members *walk)
{
    for (bool more = true;;) {
        WHIM_TRY(whim_json_members_next(walk, &more));
        if (!more) {
            return WHIM_ERR_OK;
        }
        const char *name = whim_str_text(&walk->key);
        if (strcmp(name, "__metadata__") == 0) {
            WHIM_TRY(whim_json_members_value(walk, NULL));
            continue;
        }
        whim_json *entry;
        WHIM_TRY(whim_json_members_value(walk, &entry));
        whim_err err = read_entry(r, name, entry);
        whim_json_free(entry);
        WHIM_TRY(err);
    }
}

whim_err whim_safetensors_read(whim_ckpt *ckpt, int32_t file, whim_diag *diag)
{
    const whim_ckpt_file *f = &ckpt->files[file];
    uint8_t raw[8];
    uint64_t n = 0;
    if (f->bytes < (int64_t)sizeof raw) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: %lld bytes, too short for a safetensors file",
                         f->path, (long long)f->bytes);
    }
    WHIM_TRY(whim_file_read_at(f->fd, 0, sizeof raw, raw, f->path, diag));
    for (int i = 7; i >= 0; i--) {
        n = n << 8 | raw[i];
    }
    if (n > (uint64_t)(f->bytes - 8) || n > HEADER_MAX) {
        const char *other = whim_file_is_stand_in(f->fd);
        if (other != NULL) {
            return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: %s", f->path, other);
        }
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: the header length is %llu, expected at most %lld (the file) and %d; "
                         "is it a safetensors file, and complete?",
                         f->path, (unsigned long long)n, (long long)(f->bytes - 8), HEADER_MAX);
    }
    char *text = whim_alloc((int64_t)n);
    WHIM_TRY(whim_got(text != NULL, diag, "%s: no memory for a header of %llu bytes", f->path,
                      (unsigned long long)n));
    whim_json_members walk = {.text = NULL};
    whim_err err;
    WHIM_TRY_OUT(whim_file_read_at(f->fd, 8, (int64_t)n, text, f->path, diag));
    WHIM_TRY_OUT(whim_json_members_open(&walk, text, (int64_t)n, header_limits, f->path, diag));
    reader r = {.ckpt = ckpt,
                .file = file,
                .path = f->path,
                .data_start = 8 + (int64_t)n,
                .data_bytes = f->bytes - 8 - (int64_t)n,
                .diag = diag};
    WHIM_TRY_OUT(read_entries(&r, &walk));
out:
    whim_json_members_close(&walk);
    whim_free(text);
    return err;
}

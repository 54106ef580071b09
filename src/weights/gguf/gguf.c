/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the keys of a GGUF file of version 2 or 3. */
#include "base/alloc.h"
#include "base/file.h"
#include "weights/ckpt_build.h"
#include "weights/gguf/read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_MAX = 65535, /* bytes of a key name, the format's own limit */
    N_KEY_MAX = 65536,
    ARRAY_DEPTH_MAX = 4,
    ALIGN_DEFAULT = 32,
    ALIGN_MAX = 1 << 20,
};

/* The least bytes that an entry can take; a count is compared with what is left of the file. */
enum { KEY_ENTRY_MIN = 8 + 4 + 1, TENSOR_ENTRY_MIN = 8 + 4 + 4 + 8 };

static whim_err check_count(const whim_gguf_cursor *c, const char *what, uint64_t count,
                            int64_t each, uint64_t max)
{
    int64_t left = c->file->bytes - c->at;
    if (count > max || count > (uint64_t)(left / each)) {
        return whim_fail(c->diag, WHIM_ERR_CORRUPT,
                         "%s: %s is %llu, but at most %lld fit in the rest of the file (limit "
                         "%llu)",
                         c->gguf->path, what, (unsigned long long)count, (long long)(left / each),
                         (unsigned long long)max);
    }
    return WHIM_ERR_OK;
}

static whim_err read_type(whim_gguf_cursor *c, const char *key, whim_gguf_type *out)
{
    uint32_t type;
    WHIM_TRY(whim_gguf_take_u32(c, "a value type", &type));
    if (type >= WHIM_GGUF_TYPE_COUNT) {
        return whim_fail(c->diag, WHIM_ERR_CORRUPT,
                         "%s: key \"%.200s\" has value type %u, expected 0 to %d", c->gguf->path,
                         key, type, WHIM_GGUF_TYPE_COUNT - 1);
    }
    *out = (whim_gguf_type)type;
    return WHIM_ERR_OK;
}

static whim_err skip_values(whim_gguf_cursor *c, const char *key, whim_gguf_type type,
                            int64_t count, int depth);

/* The head of an array: element type and a count that fits in the file. */
static whim_err read_array_head(whim_gguf_cursor *c, const char *key, whim_gguf_type *type,
                                int64_t *count)
{
    uint64_t n;
    WHIM_TRY(read_type(c, key, type));
    WHIM_TRY(whim_gguf_take_u64(c, "an array length", &n));
    int64_t each = *type == WHIM_GGUF_STRING  ? 8
                   : *type == WHIM_GGUF_ARRAY ? 12
                                              : whim_gguf_type_bytes(*type);
    char what[256];
    snprintf(what, sizeof what, "the length of array \"%.200s\"", key);
    WHIM_TRY(check_count(c, what, n, each, INT32_MAX));
    *count = (int64_t)n;
    return WHIM_ERR_OK;
}

static whim_err skip_values(whim_gguf_cursor *c, const char *key, whim_gguf_type type,
                            int64_t count, int depth)
{
    if (depth > ARRAY_DEPTH_MAX) {
        return whim_fail(c->diag, WHIM_ERR_CORRUPT,
                         "%s: key \"%.200s\" has arrays nested deeper than %d levels",
                         c->gguf->path, key, ARRAY_DEPTH_MAX);
    }
    if (type != WHIM_GGUF_STRING && type != WHIM_GGUF_ARRAY) {
        const uint8_t *p;
        return whim_gguf_take(c, count * whim_gguf_type_bytes(type), "a value", &p);
    }
    for (int64_t i = 0; i < count; i++) {
        if (type == WHIM_GGUF_STRING) {
            const char *text;
            int64_t n;
            WHIM_TRY(whim_gguf_take_string(c, "a string", &text, &n));
        } else {
            whim_gguf_type elem;
            int64_t n;
            WHIM_TRY(read_array_head(c, key, &elem, &n));
            WHIM_TRY(skip_values(c, key, elem, n, depth + 1));
        }
    }
    return WHIM_ERR_OK;
}

static whim_err read_key(whim_gguf_cursor *c, whim_arena *arena, whim_gguf_key *key)
{
    WHIM_TRY(whim_gguf_take_name(c, arena, "a key name", KEY_MAX, &key->name));
    WHIM_TRY(read_type(c, key->name, &key->type));
    key->count = 1;
    key->is_array = key->type == WHIM_GGUF_ARRAY;
    if (key->is_array) {
        WHIM_TRY(read_array_head(c, key->name, &key->type, &key->count));
    }
    key->offset = c->at;
    whim_err err = skip_values(c, key->name, key->type, key->count, 1);
    if (err == WHIM_ERR_CORRUPT) {
        whim_diag_prefix(c->diag, "key \"%.200s\" in ", key->name);
    }
    return err;
}

static int key_compare(const void *a, const void *b)
{
    return strcmp(((const whim_gguf_key *)a)->name, ((const whim_gguf_key *)b)->name);
}

static whim_err read_alignment(whim_gguf *gguf, whim_diag *diag)
{
    gguf->alignment = ALIGN_DEFAULT;
    WHIM_TRY(whim_gguf_get_int(gguf, "general.alignment", 1, ALIGN_MAX, &gguf->alignment, diag));
    if ((gguf->alignment & (gguf->alignment - 1)) != 0) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: key \"general.alignment\" is %lld, expected a power of two",
                         gguf->path, (long long)gguf->alignment);
    }
    return WHIM_ERR_OK;
}

static whim_err read_magic(whim_gguf_cursor *c)
{
    const uint8_t *magic;
    uint32_t version;
    WHIM_TRY(whim_gguf_take(c, 4, "the magic", &magic));
    if (memcmp(magic, "GGUF", 4) != 0) {
        const char *other = whim_file_is_stand_in(c->file->fd);
        if (other != NULL) {
            return whim_fail(c->diag, WHIM_ERR_CORRUPT, "%s: %s", c->gguf->path, other);
        }
        return whim_fail(c->diag, WHIM_ERR_CORRUPT, "%s: does not begin with \"GGUF\"",
                         c->gguf->path);
    }
    WHIM_TRY(whim_gguf_take_u32(c, "the version", &version));
    if (version == 1) {
        return whim_fail(c->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: GGUF version 1 is not supported; convert the file to version 3",
                         c->gguf->path);
    }
    /* A version of the other byte order has its small number in the high bytes. */
    if (version != 0 && (version & 0xffff) == 0) {
        return whim_fail(c->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: a big-endian GGUF file; only little-endian ones are supported",
                         c->gguf->path);
    }
    if (version != 2 && version != 3) {
        return whim_fail(c->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: GGUF version %u is not supported, expected 2 or 3", c->gguf->path,
                         version);
    }
    return WHIM_ERR_OK;
}

whim_err whim_gguf_read_keys(whim_gguf *gguf, whim_arena *arena, const whim_ckpt_file *file,
                             whim_diag *diag)
{
    gguf->path = file->path;
    whim_gguf_cursor c = {.gguf = gguf, .file = file, .diag = diag};
    uint64_t n_tensor;
    uint64_t n_key;
    WHIM_TRY(read_magic(&c));
    WHIM_TRY(whim_gguf_take_u64(&c, "the tensor count", &n_tensor));
    WHIM_TRY(whim_gguf_take_u64(&c, "the key count", &n_key));
    WHIM_TRY(check_count(&c, "the tensor count", n_tensor, TENSOR_ENTRY_MIN, WHIM_CKPT_MAX_TENSOR));
    WHIM_TRY(check_count(&c, "the key count", n_key, KEY_ENTRY_MIN, N_KEY_MAX));
    gguf->keys = whim_arena_alloc_array(arena, (int64_t)n_key + 1, sizeof *gguf->keys);
    WHIM_TRY(whim_got(gguf->keys != NULL, diag, "%s: no memory for its keys", gguf->path));
    for (uint64_t i = 0; i < n_key; i++) {
        WHIM_TRY(read_key(&c, arena, &gguf->keys[i]));
    }
    gguf->n_key = (int64_t)n_key;
    gguf->n_tensor = (int64_t)n_tensor;
    gguf->tensors = c.at;
    qsort(gguf->keys, (size_t)n_key, sizeof *gguf->keys, key_compare);
    for (int64_t i = 1; i < gguf->n_key; i++) {
        if (key_compare(&gguf->keys[i - 1], &gguf->keys[i]) == 0) {
            return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: key \"%.200s\" occurs twice", gguf->path,
                             gguf->keys[i].name);
        }
    }
    return read_alignment(gguf, diag);
}

void whim_gguf_deinit(whim_gguf *gguf)
{
    whim_free(gguf->header);
    *gguf = (whim_gguf){0};
}

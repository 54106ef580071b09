/* SPDX-License-Identifier: Apache-2.0 */
/* Finding and decoding GGUF values. All offsets were checked when the header was read. */
#include "weights/gguf/read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int64_t bytes;
} type_table[WHIM_GGUF_TYPE_COUNT] = {
    [WHIM_GGUF_U8] = {"u8", 1},         [WHIM_GGUF_I8] = {"i8", 1},
    [WHIM_GGUF_U16] = {"u16", 2},       [WHIM_GGUF_I16] = {"i16", 2},
    [WHIM_GGUF_U32] = {"u32", 4},       [WHIM_GGUF_I32] = {"i32", 4},
    [WHIM_GGUF_F32] = {"f32", 4},       [WHIM_GGUF_BOOL] = {"bool", 1},
    [WHIM_GGUF_STRING] = {"string", 0}, [WHIM_GGUF_ARRAY] = {"array", 0},
    [WHIM_GGUF_U64] = {"u64", 8},       [WHIM_GGUF_I64] = {"i64", 8},
    [WHIM_GGUF_F64] = {"f64", 8},
};

const char *whim_gguf_type_name(whim_gguf_type type)
{
    return type_table[type].name;
}

int64_t whim_gguf_type_bytes(whim_gguf_type type)
{
    return type_table[type].bytes;
}

bool whim_gguf_type_is_int(whim_gguf_type type)
{
    switch (type) {
    case WHIM_GGUF_U8:
    case WHIM_GGUF_I8:
    case WHIM_GGUF_U16:
    case WHIM_GGUF_I16:
    case WHIM_GGUF_U32:
    case WHIM_GGUF_I32:
    case WHIM_GGUF_U64:
    case WHIM_GGUF_I64:
        return true;
    default:
        return false;
    }
}

static int name_compare(const void *name, const void *key)
{
    return strcmp(name, ((const whim_gguf_key *)key)->name);
}

const whim_gguf_key *whim_gguf_find_key(const whim_gguf *gguf, const char *name)
{
    if (gguf->n_key == 0) {
        return NULL;
    }
    return bsearch(name, gguf->keys, (size_t)gguf->n_key, sizeof *gguf->keys, name_compare);
}

whim_gguf_iter whim_gguf_iter_begin(const whim_gguf *gguf, const whim_gguf_key *key)
{
    return (whim_gguf_iter){
        .gguf = gguf, .type = key->type, .left = key->count, .offset = key->offset};
}

/* The next element of a fixed-size type, or NULL at the end. */
static const uint8_t *iter_step(whim_gguf_iter *iter)
{
    if (iter->left == 0) {
        return NULL;
    }
    const uint8_t *p = iter->gguf->header + iter->offset;
    iter->left--;
    iter->offset += whim_gguf_type_bytes(iter->type);
    return p;
}

bool whim_gguf_next_int(whim_gguf_iter *iter, int64_t *out)
{
    if (!whim_gguf_type_is_int(iter->type) && iter->type != WHIM_GGUF_BOOL) {
        return false;
    }
    const uint8_t *p = iter_step(iter);
    if (p == NULL) {
        return false;
    }
    uint64_t wide;
    switch (iter->type) {
    case WHIM_GGUF_I8:
        *out = (int8_t)p[0];
        return true;
    case WHIM_GGUF_U16:
        *out = (uint16_t)(p[0] | p[1] << 8);
        return true;
    case WHIM_GGUF_I16:
        *out = (int16_t)(p[0] | p[1] << 8);
        return true;
    case WHIM_GGUF_U32:
        *out = whim_gguf_u32(p);
        return true;
    case WHIM_GGUF_I32:
        *out = (int32_t)whim_gguf_u32(p);
        return true;
    case WHIM_GGUF_U64:
        wide = whim_gguf_u64(p);
        *out = wide > INT64_MAX ? INT64_MAX : (int64_t)wide;
        return true;
    case WHIM_GGUF_I64:
        *out = (int64_t)whim_gguf_u64(p);
        return true;
    default:
        *out = p[0];
        return true;
    }
}

bool whim_gguf_next_real(whim_gguf_iter *iter, double *out)
{
    if (iter->type != WHIM_GGUF_F32 && iter->type != WHIM_GGUF_F64) {
        return false;
    }
    const uint8_t *p = iter_step(iter);
    if (p == NULL) {
        return false;
    }
    if (iter->type == WHIM_GGUF_F32) {
        uint32_t bits = whim_gguf_u32(p);
        float value;
        memcpy(&value, &bits, sizeof value);
        *out = value;
    } else {
        uint64_t bits = whim_gguf_u64(p);
        memcpy(out, &bits, sizeof *out);
    }
    return true;
}

bool whim_gguf_next_string(whim_gguf_iter *iter, const char **text, int64_t *n)
{
    if (iter->type != WHIM_GGUF_STRING || iter->left == 0) {
        return false;
    }
    const uint8_t *p = iter->gguf->header + iter->offset;
    *n = (int64_t)whim_gguf_u64(p);
    *text = (const char *)p + 8;
    iter->left--;
    iter->offset += 8 + *n;
    return true;
}

static whim_err wrong_type(const whim_gguf *gguf, const whim_gguf_key *key, const char *expected,
                           whim_diag *diag)
{
    return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: key \"%.200s\" is %s %s, expected %s", gguf->path,
                     key->name, key->is_array ? "an array of type" : "of type",
                     whim_gguf_type_name(key->type), expected);
}

whim_err whim_gguf_get_int(const whim_gguf *gguf, const char *name, int64_t min, int64_t max,
                           int64_t *out, whim_diag *diag)
{
    const whim_gguf_key *key = whim_gguf_find_key(gguf, name);
    if (key == NULL) {
        return WHIM_ERR_OK;
    }
    if (key->is_array || !whim_gguf_type_is_int(key->type)) {
        return wrong_type(gguf, key, "an integer", diag);
    }
    whim_gguf_iter iter = whim_gguf_iter_begin(gguf, key);
    int64_t value = 0;
    whim_gguf_next_int(&iter, &value);
    if (value < min || value > max) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: key \"%.200s\" is %lld, expected an integer between %lld and %lld",
                         gguf->path, name, (long long)value, (long long)min, (long long)max);
    }
    *out = value;
    return WHIM_ERR_OK;
}

whim_err whim_gguf_get_real(const whim_gguf *gguf, const char *name, double min, double max,
                            double *out, whim_diag *diag)
{
    const whim_gguf_key *key = whim_gguf_find_key(gguf, name);
    if (key == NULL) {
        return WHIM_ERR_OK;
    }
    whim_gguf_iter iter = whim_gguf_iter_begin(gguf, key);
    double value;
    if (key->is_array || !whim_gguf_next_real(&iter, &value)) {
        return wrong_type(gguf, key, "a floating-point number", diag);
    }
    if (!(isfinite(value) && value >= min && value <= max)) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: key \"%.200s\" is %g, expected a number between %g and %g",
                         gguf->path, name, value, min, max);
    }
    *out = value;
    return WHIM_ERR_OK;
}

whim_err whim_gguf_get_bool(const whim_gguf *gguf, const char *name, bool *out, whim_diag *diag)
{
    const whim_gguf_key *key = whim_gguf_find_key(gguf, name);
    if (key == NULL) {
        return WHIM_ERR_OK;
    }
    if (key->is_array || key->type != WHIM_GGUF_BOOL) {
        return wrong_type(gguf, key, "a boolean", diag);
    }
    uint8_t value = gguf->header[key->offset];
    if (value > 1) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: key \"%.200s\" is a boolean of value %u, expected 0 or 1", gguf->path,
                         name, value);
    }
    *out = value == 1;
    return WHIM_ERR_OK;
}

whim_err whim_gguf_get_string(const whim_gguf *gguf, const char *name, const char **text,
                              int64_t *n, whim_diag *diag)
{
    const whim_gguf_key *key = whim_gguf_find_key(gguf, name);
    if (key == NULL) {
        return WHIM_ERR_OK;
    }
    whim_gguf_iter iter = whim_gguf_iter_begin(gguf, key);
    if (key->is_array || !whim_gguf_next_string(&iter, text, n)) {
        return wrong_type(gguf, key, "a string", diag);
    }
    return WHIM_ERR_OK;
}

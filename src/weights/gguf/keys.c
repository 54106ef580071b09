/* SPDX-License-Identifier: Apache-2.0 */
/* Finding and decoding GGUF values. All offsets were checked when the header was read. */
#include "base/math/fmath.h"
#include "weights/gguf/read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a type can be read as. */
enum { UNSIGNED = 1, SIGNED = 2, INT = UNSIGNED | SIGNED, REAL = 4, BOOL = 8, TEXT = 16 };

static const struct {
    const char *name;
    int64_t bytes;
    uint32_t kind;
} type_table[WHIM_GGUF_TYPE_COUNT] = {
    [WHIM_GGUF_U8] = {"u8", 1, UNSIGNED},     [WHIM_GGUF_I8] = {"i8", 1, SIGNED},
    [WHIM_GGUF_U16] = {"u16", 2, UNSIGNED},   [WHIM_GGUF_I16] = {"i16", 2, SIGNED},
    [WHIM_GGUF_U32] = {"u32", 4, UNSIGNED},   [WHIM_GGUF_I32] = {"i32", 4, SIGNED},
    [WHIM_GGUF_F32] = {"f32", 4, REAL},       [WHIM_GGUF_BOOL] = {"bool", 1, BOOL},
    [WHIM_GGUF_STRING] = {"string", 0, TEXT}, [WHIM_GGUF_ARRAY] = {"array", 0, 0},
    [WHIM_GGUF_U64] = {"u64", 8, UNSIGNED},   [WHIM_GGUF_I64] = {"i64", 8, SIGNED},
    [WHIM_GGUF_F64] = {"f64", 8, REAL},
};

static bool is_kind(whim_gguf_type type, uint32_t kinds)
{
    return (type_table[type].kind & kinds) != 0;
}

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
    return is_kind(type, INT);
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

/* The bits of the next element, which must be of one of the kinds; false at the end. */
static bool next_bits(whim_gguf_iter *iter, uint32_t kinds, uint64_t *out)
{
    if (!is_kind(iter->type, kinds) || iter->left == 0) {
        return false;
    }
    int64_t n = whim_gguf_type_bytes(iter->type);
    *out = 0;
    for (int64_t i = n; i-- > 0;) {
        *out = *out << 8 | iter->gguf->header[iter->offset + i];
    }
    iter->left--;
    iter->offset += n;
    return true;
}

bool whim_gguf_next_int(whim_gguf_iter *iter, int64_t *out)
{
    uint64_t bits;
    if (!next_bits(iter, INT | BOOL, &bits)) {
        return false;
    }
    int64_t above = 64 - 8 * whim_gguf_type_bytes(iter->type);
    *out = is_kind(iter->type, SIGNED) ? (int64_t)(bits << above) >> above
           : bits > INT64_MAX          ? INT64_MAX
                                       : (int64_t)bits;
    return true;
}

bool whim_gguf_next_real(whim_gguf_iter *iter, double *out)
{
    uint64_t bits;
    if (!next_bits(iter, REAL, &bits)) {
        return false;
    }
    *out = iter->type == WHIM_GGUF_F32 ? (double)whim_f32_from_bits((uint32_t)bits)
                                       : whim_f64_from_bits(bits);
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

/* The value of a key, if it is there: one, and of one of the kinds. */
static whim_err find_one(const whim_gguf *gguf, const char *name, uint32_t kinds,
                         const char *expected, whim_gguf_iter *out, whim_diag *diag)
{
    const whim_gguf_key *key = whim_gguf_find_key(gguf, name);
    *out = key != NULL ? whim_gguf_iter_begin(gguf, key) : (whim_gguf_iter){0};
    if (key == NULL || (!key->is_array && is_kind(key->type, kinds))) {
        return WHIM_ERR_OK;
    }
    return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: key \"%.200s\" is %s %s, expected %s", gguf->path,
                     key->name, key->is_array ? "an array of type" : "of type",
                     whim_gguf_type_name(key->type), expected);
}

whim_err whim_gguf_get_int(const whim_gguf *gguf, const char *name, int64_t min, int64_t max,
                           int64_t *out, whim_diag *diag)
{
    whim_gguf_iter iter;
    int64_t value = 0;
    WHIM_TRY(find_one(gguf, name, INT, "an integer", &iter, diag));
    if (!whim_gguf_next_int(&iter, &value)) {
        return WHIM_ERR_OK;
    }
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
    whim_gguf_iter iter;
    double value;
    WHIM_TRY(find_one(gguf, name, REAL, "a floating-point number", &iter, diag));
    if (!whim_gguf_next_real(&iter, &value)) {
        return WHIM_ERR_OK;
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
    whim_gguf_iter iter;
    int64_t value;
    WHIM_TRY(find_one(gguf, name, BOOL, "a boolean", &iter, diag));
    if (!whim_gguf_next_int(&iter, &value)) {
        return WHIM_ERR_OK;
    }
    if (value > 1) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: key \"%.200s\" is a boolean of value %lld, expected 0 or 1",
                         gguf->path, name, (long long)value);
    }
    *out = value == 1;
    return WHIM_ERR_OK;
}

whim_err whim_gguf_get_string(const whim_gguf *gguf, const char *name, const char **text,
                              int64_t *n, whim_diag *diag)
{
    whim_gguf_iter iter;
    WHIM_TRY(find_one(gguf, name, TEXT, "a string", &iter, diag));
    whim_gguf_next_string(&iter, text, n);
    return WHIM_ERR_OK;
}

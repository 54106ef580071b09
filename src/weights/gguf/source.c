/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of the file's own architecture. */
#include "weights/gguf/read.h"

#include <stdio.h>

const char *whim_gguf_source_name(const whim_gguf_source *s, const char *suffix,
                                  char out[WHIM_GGUF_KEY_MAX])
{
    snprintf(out, WHIM_GGUF_KEY_MAX, "%s.%s", s->arch, suffix);
    return out;
}

bool whim_gguf_source_has(const whim_gguf_source *s, const char *suffix)
{
    char name[WHIM_GGUF_KEY_MAX];
    return whim_gguf_find_key(s->gguf, whim_gguf_source_name(s, suffix, name)) != NULL;
}

whim_err whim_gguf_source_require(const whim_gguf_source *s, const char *suffix)
{
    char name[WHIM_GGUF_KEY_MAX];
    if (whim_gguf_source_has(s, suffix)) {
        return WHIM_ERR_OK;
    }
    return whim_fail(s->diag, WHIM_ERR_CORRUPT, "%s: key \"%s\" is missing", s->gguf->path,
                     whim_gguf_source_name(s, suffix, name));
}

whim_err whim_gguf_source_real(const whim_gguf_source *s, const char *suffix, double min,
                               double max, double *out)
{
    char name[WHIM_GGUF_KEY_MAX];
    return whim_gguf_get_real(s->gguf, whim_gguf_source_name(s, suffix, name), min, max, out,
                              s->diag);
}

whim_err whim_gguf_source_i32(const whim_gguf_source *s, const char *suffix, int32_t min,
                              int32_t max, int32_t *out)
{
    char name[WHIM_GGUF_KEY_MAX];
    int64_t value = *out;
    WHIM_TRY(whim_gguf_get_int(s->gguf, whim_gguf_source_name(s, suffix, name), min, max, &value,
                               s->diag));
    *out = (int32_t)value;
    return WHIM_ERR_OK;
}

whim_err whim_gguf_source_layer_i32(const whim_gguf_source *s, const char *suffix, int32_t n_layer,
                                    int32_t max, int32_t *out)
{
    char name[WHIM_GGUF_KEY_MAX];
    const whim_gguf_key *key = whim_gguf_find_key(s->gguf, whim_gguf_source_name(s, suffix, name));
    if (key == NULL || !key->is_array || !whim_gguf_type_is_int(key->type)) {
        return whim_gguf_source_i32(s, suffix, 1, max, out);
    }
    if (key->count != n_layer) {
        return whim_fail(s->diag, WHIM_ERR_CORRUPT,
                         "%s: key \"%s\" has %lld elements, expected one for each of %d layers",
                         s->gguf->path, name, (long long)key->count, n_layer);
    }
    whim_gguf_iter iter = whim_gguf_iter_begin(s->gguf, key);
    int64_t first = 0;
    int64_t value = 0;
    for (int64_t i = 0; whim_gguf_next_int(&iter, &value); i++) {
        first = i == 0 ? value : first;
        if (value != first) {
            return whim_fail(s->diag, WHIM_ERR_UNSUPPORTED,
                             "%s: key \"%s\" is %lld in layer 0 and %lld in layer %lld; layers of "
                             "different shapes are not supported",
                             s->gguf->path, name, (long long)first, (long long)value, (long long)i);
        }
    }
    if (first < 1 || first > max) {
        return whim_fail(s->diag, WHIM_ERR_CORRUPT,
                         "%s: key \"%s\" holds %lld, expected an integer between 1 and %d",
                         s->gguf->path, name, (long long)first, max);
    }
    *out = (int32_t)first;
    return WHIM_ERR_OK;
}

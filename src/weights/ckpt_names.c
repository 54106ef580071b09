/* SPDX-License-Identifier: Apache-2.0 */
/* Names of files to canonical ones and back: prefixes, and the architecture's own words
 * (whim_arch.safetensors_names). */
#include "weights/ckpt_build.h"
#include "weights/gguf/read.h"

#include <stdio.h>
#include <string.h>

const char *whim_ckpt_strip_prefix(const char *name)
{
    static const char *const prefixes[] = {"model.language_model.", "language_model.model.",
                                           "model."};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t n = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], n) == 0) {
            return name + n;
        }
    }
    return name;
}

/* Write `name` with its first `from` replaced by `to`; false: it has none, or `out` is too
 * small. */
static bool replace(const char *name, const char *from, const char *to, char *out, size_t size)
{
    const char *at = strstr(name, from);
    if (at == NULL) {
        return false;
    }
    int n = snprintf(out, size, "%.*s%s%s", (int)(at - name), name, to, at + strlen(from));
    return n > 0 && (size_t)n < size;
}

static const whim_spelling *spellings(const whim_ckpt *ckpt)
{
    static const whim_spelling none[1];
    const whim_arch *arch = ckpt->config.arch;
    return arch != NULL && arch->safetensors_names != NULL ? arch->safetensors_names : none;
}

/* `name` in the other spelling: itself, or in `out`. */
static const char *respell(const whim_spelling *list, bool to_canonical, const char *name,
                           char out[WHIM_CKPT_NAME_MAX])
{
    char next[WHIM_CKPT_NAME_MAX];
    for (; list->published != NULL; list++) {
        const char *from = to_canonical ? list->published : list->canonical;
        const char *to = to_canonical ? list->canonical : list->published;
        if (replace(name, from, to, next, sizeof next)) {
            memcpy(out, next, sizeof next);
            name = out;
        }
    }
    return name;
}

const char *whim_ckpt_canonical_name(const whim_ckpt *ckpt, const char *file_name,
                                     char out[WHIM_CKPT_NAME_MAX])
{
    return respell(spellings(ckpt), true, whim_ckpt_strip_prefix(file_name), out);
}

const char *whim_ckpt_published_name(const whim_ckpt *ckpt, const char *name,
                                     char out[WHIM_CKPT_NAME_MAX])
{
    const whim_spelling *list = spellings(ckpt);
    bool renamed = false;
    if (ckpt->format == WHIM_CKPT_GGUF) {
        return whim_gguf_file_name(&ckpt->config, name, out) ? out : name;
    }
    /* Newer files of the same model may have the canonical names. */
    for (int64_t i = 0; i < ckpt->n_tensor && list->published != NULL && !renamed; i++) {
        renamed = strstr(ckpt->tensors[i].file_name, list->published) != NULL;
    }
    return renamed ? respell(list, false, name, out) : name;
}

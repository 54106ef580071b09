/* SPDX-License-Identifier: Apache-2.0 */
/* Names of files to canonical ones and back: prefixes, and MiniMax's own words for experts. */
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

/* The two spellings of a part of a name, dots included. */
typedef struct spelling {
    const char *published, *canonical;
} spelling;

static const spelling block = {".block_sparse_moe.", ".mlp."};
static const spelling experts[] = {
    {".w1.", ".gate_proj."}, {".w3.", ".up_proj."}, {".w2.", ".down_proj."}};
enum { N_EXPERT = sizeof experts / sizeof experts[0] };

/* Write `name` with its first `from` replaced by `to`; false: it has none, or `out` is too small. */
static bool replace(const char *name, const char *from, const char *to, char *out, size_t size)
{
    const char *at = strstr(name, from);
    if (at == NULL) {
        return false;
    }
    int n = snprintf(out, size, "%.*s%s%s", (int)(at - name), name, to, at + strlen(from));
    return n > 0 && (size_t)n < size;
}

const char *whim_ckpt_canonical_name(const char *file_name, char out[WHIM_CKPT_NAME_MAX])
{
    const char *name = whim_ckpt_strip_prefix(file_name);
    char half[WHIM_CKPT_NAME_MAX];
    if (!replace(name, block.published, block.canonical, half, sizeof half)) {
        return name;
    }
    for (int i = 0; i < N_EXPERT && strstr(half, ".experts.") != NULL; i++) {
        if (replace(half, experts[i].published, experts[i].canonical, out, WHIM_CKPT_NAME_MAX)) {
            return out;
        }
    }
    memcpy(out, half, sizeof half);
    return out;
}

const char *whim_ckpt_published_name(const whim_ckpt *ckpt, const char *name,
                                     char out[WHIM_CKPT_NAME_MAX])
{
    char half[WHIM_CKPT_NAME_MAX];
    bool renamed = false;
    if (ckpt->format == WHIM_CKPT_GGUF) {
        return whim_gguf_file_name(&ckpt->config, name, out) ? out : name;
    }
    for (int64_t i = 0; i < ckpt->n_tensor && !renamed; i++) {
        renamed = strstr(ckpt->tensors[i].file_name, block.published) != NULL;
    }
    if (!renamed || !replace(name, block.canonical, block.published, half, sizeof half)) {
        return name;
    }
    for (int i = 0; i < N_EXPERT && strstr(half, ".experts.") != NULL; i++) {
        if (replace(half, experts[i].canonical, experts[i].published, out, WHIM_CKPT_NAME_MAX)) {
            return out;
        }
    }
    memcpy(out, half, sizeof half);
    return out;
}

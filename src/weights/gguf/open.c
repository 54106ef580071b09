/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a GGUF model: one file, or the parts of a split one. Part 0 has the metadata; every part
 * has its own tensor entries. */
#include "base/file.h"
#include "weights/ckpt_build.h"
#include "weights/gguf/read.h"

#include <stdio.h>
#include <string.h>

/* "-00001-of-00003.gguf" */
enum { TAIL = 20, SPLIT_MAX = 1024 };

typedef struct split {
    int64_t no;
    int64_t count;
    int64_t n_tensor; /* of all parts; -1 when the file does not say */
} split;

static whim_err read_split(const whim_gguf *gguf, split *out, whim_diag *diag)
{
    *out = (split){.no = 0, .count = 1, .n_tensor = -1};
    WHIM_TRY(whim_gguf_get_int(gguf, "split.count", 0, SPLIT_MAX, &out->count, diag));
    out->count = out->count == 0 ? 1 : out->count;
    WHIM_TRY(whim_gguf_get_int(gguf, "split.no", 0, out->count - 1, &out->no, diag));
    return whim_gguf_get_int(gguf, "split.tensors.count", 0, WHIM_CKPT_MAX_TENSOR, &out->n_tensor,
                             diag);
}

/* The path of part `no`, made from the path of another part. */
static whim_err part_path(whim_ckpt *ckpt, const char *path, const split *given, int64_t no,
                          char **out, whim_diag *diag)
{
    char tail[64];
    int64_t n = (int64_t)strlen(path);
    snprintf(tail, sizeof tail, "-%05lld-of-%05lld.gguf", (long long)given->no + 1,
             (long long)given->count);
    if (n < TAIL || strcmp(path + n - TAIL, tail) != 0) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND,
                         "%s: part %lld of %lld by its keys, expected a name that ends in \"%s\"; "
                         "without it the other parts cannot be found",
                         path, (long long)given->no + 1, (long long)given->count, tail);
    }
    *out = whim_arena_strndup(&ckpt->arena, path, n);
    WHIM_TRY(whim_got(*out != NULL, diag, "%s: no memory for a path", path));
    snprintf(tail, sizeof tail, "-%05lld-of-%05lld.gguf", (long long)no + 1,
             (long long)given->count);
    memcpy(*out + n - TAIL, tail, TAIL);
    return WHIM_ERR_OK;
}

static whim_err add_part(whim_ckpt *ckpt, const char *path, int64_t no, int64_t count,
                         whim_diag *diag)
{
    whim_err err = whim_ckpt_add_file(ckpt, path, diag);
    if (err == WHIM_ERR_NOT_FOUND) {
        return whim_fail(diag, err, "%s: missing; it is part %lld of %lld of a split GGUF model",
                         path, (long long)no + 1, (long long)count);
    }
    return err;
}

/* Keys and tensors of part files[no], with the checks between parts. */
static whim_err read_part(whim_gguf *gguf, whim_ckpt *ckpt, int32_t no, const split *given,
                          int64_t *n_tensor, whim_diag *diag)
{
    split own;
    WHIM_TRY(whim_gguf_read_keys(gguf, &ckpt->arena, &ckpt->files[no], diag));
    WHIM_TRY(read_split(gguf, &own, diag));
    if (own.no != no || own.count != given->count) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: keys \"split.no\" and \"split.count\" say %lld of %lld, expected %d "
                         "of %lld",
                         gguf->path, (long long)own.no, (long long)own.count, no,
                         (long long)given->count);
    }
    if (no == 0) {
        WHIM_TRY(whim_gguf_config(&ckpt->config, ckpt->archs, gguf, diag));
    }
    *n_tensor += gguf->n_tensor;
    return whim_gguf_read_tensors(gguf, ckpt, no, diag);
}

static whim_err read_parts(whim_ckpt *ckpt, const split *given, whim_diag *diag)
{
    int64_t n_tensor = 0;
    for (int32_t no = 0; no < ckpt->n_file; no++) {
        if (no == 0) {
            WHIM_TRY(read_part(ckpt->gguf, ckpt, no, given, &n_tensor, diag));
            continue;
        }
        whim_gguf other = {0};
        whim_err err = read_part(&other, ckpt, no, given, &n_tensor, diag);
        whim_gguf_deinit(&other);
        WHIM_TRY(err);
    }
    if (given->n_tensor >= 0 && given->n_tensor != n_tensor) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: the parts hold %lld tensors, but key \"split.tensors.count\" says "
                         "%lld",
                         ckpt->gguf->path, (long long)n_tensor, (long long)given->n_tensor);
    }
    return WHIM_ERR_OK;
}

/* What the given file says about being split. */
static whim_err peek_split(const char *path, split *out, whim_diag *diag)
{
    whim_ckpt_file file = {.path = path, .fd = -1};
    whim_arena names;
    whim_gguf gguf = {0};
    whim_err err;
    whim_arena_init(&names);
    WHIM_TRY_OUT(whim_file_open(path, &file.fd, &file.bytes, diag));
    WHIM_TRY_OUT(whim_gguf_read_keys(&gguf, &names, &file, diag));
    WHIM_TRY_OUT(read_split(&gguf, out, diag));
out:
    whim_gguf_deinit(&gguf);
    whim_arena_reset(&names);
    whim_file_close(file.fd);
    return err;
}

whim_err whim_gguf_open(whim_ckpt *ckpt, const char *path, whim_diag *diag)
{
    split given;
    ckpt->format = WHIM_CKPT_GGUF;
    WHIM_TRY(peek_split(path, &given, diag));
    ckpt->gguf = whim_arena_alloc(&ckpt->arena, sizeof *ckpt->gguf);
    WHIM_TRY(whim_got(ckpt->gguf != NULL, diag, "%s: no memory for its keys", path));
    for (int64_t no = 0; no < given.count; no++) {
        char *part = NULL;
        if (given.count > 1) {
            WHIM_TRY(part_path(ckpt, path, &given, no, &part, diag));
        }
        WHIM_TRY(add_part(ckpt, part == NULL ? path : part, no, given.count, diag));
    }
    WHIM_TRY(read_parts(ckpt, &given, diag));
    WHIM_TRY(whim_ckpt_finish(ckpt, diag));
    return whim_gguf_config_finish(ckpt, diag);
}

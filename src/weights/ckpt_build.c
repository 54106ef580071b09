/* SPDX-License-Identifier: Apache-2.0 */
/* Filling a checkpoint: growing arrays, overlaps, the index of names. */
#include "weights/ckpt_build.h"

#include "base/alloc.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

static whim_err got(bool got_it, whim_diag *diag, const char *path)
{
    return whim_got(got_it, diag, "%s: no memory for its list of tensors", path);
}

whim_err whim_ckpt_add_file(whim_ckpt *ckpt, const char *path, whim_diag *diag)
{
    if (ckpt->n_file == WHIM_CKPT_MAX_FILE) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED, "%s: a model of more than %d files", path,
                         WHIM_CKPT_MAX_FILE);
    }
    whim_ckpt_file *files = whim_arena_grow(&ckpt->arena, ckpt->files, ckpt->n_file, sizeof *files);
    WHIM_TRY(got(files != NULL, diag, path));
    ckpt->files = files;
    whim_ckpt_file *file = &files[ckpt->n_file];
    file->path = whim_arena_strndup(&ckpt->arena, path, (int64_t)strlen(path));
    WHIM_TRY(got(file->path != NULL, diag, path));
    WHIM_TRY(whim_file_open(path, &file->fd, &file->bytes, diag));
    ckpt->n_file++;
    return WHIM_ERR_OK;
}

void whim_ckpt_mark_unsupported(whim_ckpt_tensor *tensor, const char *reason)
{
    tensor->unsupported = reason;
    tensor->dtype = WHIM_DTYPE_I32;
    tensor->n_dim = 1;
    memset(tensor->shape, 0, sizeof tensor->shape);
    tensor->bytes = 0;
}

static bool is_printable(const char *name)
{
    for (; *name != '\0'; name++) {
        const unsigned char byte = (unsigned char)*name, next = (unsigned char)name[1];
        bool c1 = byte == 0xc2 && next >= 0x80 && next < 0xa0;
        if (byte < 0x20 || byte == 0x7f || c1) {
            return false;
        }
    }
    return true;
}

static const char *tensor_path(const whim_ckpt *ckpt, const whim_ckpt_tensor *tensor)
{
    return tensor->file < 0 ? "dummy weights" : ckpt->files[tensor->file].path;
}

whim_err whim_ckpt_add_tensor(whim_ckpt *ckpt, const whim_ckpt_tensor *tensor, whim_diag *diag)
{
    const char *path = tensor_path(ckpt, tensor);
    if (ckpt->n_tensor == WHIM_CKPT_MAX_TENSOR) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED, "%s: more than %d tensors", path,
                         WHIM_CKPT_MAX_TENSOR);
    }
    if (!is_printable(tensor->file_name)) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: the name of tensor %lld holds a control character", path,
                         (long long)ckpt->n_tensor);
    }
    whim_ckpt_tensor *tensors =
        whim_arena_grow(&ckpt->arena, ckpt->tensors, ckpt->n_tensor, sizeof *tensors);
    WHIM_TRY(got(tensors != NULL, diag, path));
    ckpt->tensors = tensors;
    whim_ckpt_tensor *added = &tensors[ckpt->n_tensor++];
    *added = *tensor;
    if (added->name == NULL) {
        char name[WHIM_CKPT_NAME_MAX];
        added->name = whim_ckpt_canonical_name(ckpt, added->file_name, name);
        if (added->name == name) {
            added->name = whim_arena_strndup(&ckpt->arena, name, (int64_t)strlen(name));
        }
    }
    return got(added->name != NULL, diag, path);
}

static int place_compare(const void *a, const void *b)
{
    const whim_ckpt_tensor *x = *(const whim_ckpt_tensor *const *)a;
    const whim_ckpt_tensor *y = *(const whim_ckpt_tensor *const *)b;
    if (x->file != y->file) {
        return x->file < y->file ? -1 : 1;
    }
    if (x->offset != y->offset) {
        return x->offset < y->offset ? -1 : 1;
    }
    return 0;
}

static whim_err check_overlap(const whim_ckpt *ckpt, const whim_ckpt_tensor **order,
                              whim_diag *diag)
{
    int64_t n = 0;
    for (int64_t i = 0; i < ckpt->n_tensor; i++) {
        if (ckpt->tensors[i].file >= 0 && ckpt->tensors[i].bytes > 0 &&
            ckpt->tensors[i].recipe == NULL) {
            order[n++] = &ckpt->tensors[i];
        }
    }
    qsort(order, (size_t)n, sizeof *order, place_compare);
    for (int64_t i = 1; i < n; i++) {
        const whim_ckpt_tensor *a = order[i - 1];
        const whim_ckpt_tensor *b = order[i];
        if (a->file == b->file && a->offset + a->bytes > b->offset) {
            return whim_fail(diag, WHIM_ERR_CORRUPT,
                             "%s: tensors \"%.200s\" and \"%.200s\" overlap at byte %lld",
                             tensor_path(ckpt, a), a->file_name, b->file_name,
                             (long long)b->offset);
        }
    }
    return WHIM_ERR_OK;
}

static uint64_t name_hash(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name != '\0'; name++) {
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    }
    return hash ^ hash >> 32;
}

/* The slot of a name: its tensor's, or the empty one where it would go. */
static int32_t *index_slot(const whim_ckpt *ckpt, const char *name)
{
    uint64_t mask = (uint64_t)ckpt->index_mask;
    uint64_t at = name_hash(name) & mask;
    while (ckpt->index[at] >= 0 && strcmp(ckpt->tensors[ckpt->index[at]].name, name) != 0) {
        at = (at + 1) & mask;
    }
    return &ckpt->index[at];
}

static whim_err build_index(whim_ckpt *ckpt, whim_diag *diag)
{
    int64_t size = 16;
    while (size < 2 * ckpt->n_tensor) {
        size *= 2;
    }
    ckpt->index = whim_arena_alloc_array(&ckpt->arena, size, sizeof *ckpt->index);
    WHIM_TRY(
        got(ckpt->index != NULL, diag, ckpt->n_file > 0 ? ckpt->files[0].path : "dummy weights"));
    ckpt->index_mask = size - 1;
    memset(ckpt->index, 0xff, (size_t)size * sizeof *ckpt->index);
    for (int64_t i = 0; i < ckpt->n_tensor; i++) {
        const whim_ckpt_tensor *tensor = &ckpt->tensors[i];
        int32_t *slot = index_slot(ckpt, tensor->name);
        if (*slot >= 0) {
            const whim_ckpt_tensor *other = &ckpt->tensors[*slot];
            return whim_fail(diag, WHIM_ERR_CORRUPT,
                             "%s: tensor \"%.200s\" occurs twice, first as \"%.200s\" in %s",
                             tensor_path(ckpt, tensor), tensor->file_name, other->file_name,
                             tensor_path(ckpt, other));
        }
        *slot = (int32_t)i;
    }
    return WHIM_ERR_OK;
}

whim_err whim_ckpt_finish(whim_ckpt *ckpt, whim_diag *diag)
{
    const whim_ckpt_tensor **order = whim_alloc_array(ckpt->n_tensor, sizeof *order);
    WHIM_TRY(got(order != NULL, diag, ckpt->n_file > 0 ? ckpt->files[0].path : "dummy weights"));
    whim_err err = check_overlap(ckpt, order, diag);
    whim_free(order);
    return err != WHIM_ERR_OK ? err : build_index(ckpt, diag);
}

const whim_ckpt_tensor *whim_ckpt_find(const whim_ckpt *ckpt, const char *name)
{
    if (ckpt->index == NULL) {
        return NULL;
    }
    int32_t at = *index_slot(ckpt, name);
    return at < 0 ? NULL : &ckpt->tensors[at];
}

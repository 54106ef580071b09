/* SPDX-License-Identifier: Apache-2.0 */
/* Laying out and writing safetensors files. */
#include "weights/safetensors/write.h"

#include "base/file.h"
#include "weights/ckpt_build.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_ALIGN = 8, NAME_MAX_BYTES = 64 };

static whim_err got(bool got_it, whim_diag *diag)
{
    return whim_got(got_it, diag, "no memory for the list of tensors");
}

/* --- layout ----------------------------------------------------------------------------------- */

static int64_t element_bytes(const whim_ckpt_raw *as)
{
    int64_t n = 1;
    for (int32_t i = 0; i < as->n_dim; i++) {
        n *= as->shape[i];
    }
    return n > 0 ? as->bytes / n : 1;
}

/* Files in the order of the tensors; offsets still without the header. */
static whim_err lay_out(whim_safetensors_writer *w, int64_t max_bytes, whim_diag *diag)
{
    int64_t in_file = 0;
    w->n_file = 0;
    for (int64_t i = 0; i < w->n_entry; i++) {
        whim_safetensors_entry *e = &w->entries[i];
        if (w->n_file == 0 || (in_file > 0 && e->as.bytes > max_bytes - in_file)) {
            w->n_file++;
            in_file = 0;
        }
        e->file = w->n_file - 1;
        in_file += e->as.bytes;
        w->bytes += e->as.bytes;
    }
    if (w->n_file > WHIM_CKPT_MAX_FILE) {
        return whim_fail(diag, WHIM_ERR_INVALID, "%s: %d files of weights, expected at most %d",
                         w->dir, w->n_file, WHIM_CKPT_MAX_FILE);
    }
    w->names = whim_arena_alloc_array(&w->arena, w->n_file, sizeof *w->names);
    w->fds = whim_arena_alloc_array(&w->arena, w->n_file, sizeof *w->fds);
    for (int32_t f = 0; f < w->n_file && w->fds != NULL; f++) {
        w->fds[f] = -1;
    }
    for (int32_t f = 0; f < w->n_file && w->names != NULL && w->fds != NULL; f++) {
        char name[NAME_MAX_BYTES] = "model.safetensors";
        if (w->n_file > 1) {
            snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", f + 1, w->n_file);
        }
        w->names[f] = whim_path_join(&w->arena, w->dir, name);
        WHIM_TRY(got(w->names[f] != NULL, diag));
    }
    return got(w->fds != NULL && w->names != NULL, diag);
}

static int by_file_and_size(const void *a, const void *b)
{
    const whim_safetensors_entry *x = *(whim_safetensors_entry *const *)a;
    const whim_safetensors_entry *y = *(whim_safetensors_entry *const *)b;
    int64_t p = element_bytes(&x->as), q = element_bytes(&y->as);
    return x->file != y->file ? (x->file < y->file ? -1 : 1)
           : p != q           ? (p > q ? -1 : 1)
           : x < y            ? -1
                              : x > y;
}

static json_t *describe(const whim_safetensors_entry *e)
{
    json_t *shape = json_array();
    for (int32_t i = 0; i < e->as.n_dim; i++) {
        json_array_append_new(shape, json_integer((json_int_t)e->as.shape[i]));
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", e->as.type, "shape", shape, "data_offsets",
                     (json_int_t)e->offset, (json_int_t)(e->offset + e->as.bytes));
}

/* One file: header text, then its size on the disk. */
static whim_err create_file(whim_safetensors_writer *w, int32_t file, json_t *header,
                            int64_t data_bytes, int64_t *data, whim_diag *diag)
{
    char *text = json_dumps(header, JSON_COMPACT);
    WHIM_TRY(got(text != NULL, diag));
    int64_t n = (int64_t)strlen(text);
    int64_t padded = (n + HEADER_ALIGN - 1) / HEADER_ALIGN * HEADER_ALIGN;
    uint64_t length = (uint64_t)padded; /* little-endian, as the CPUs that whimbrel runs on */
    const char *path = w->names[file];
    *data = 8 + padded;
    whim_err err;
    WHIM_TRY_OUT(whim_file_create(path, &w->fds[file], diag));
    int full = posix_fallocate(w->fds[file], 0, (off_t)(*data + data_bytes));
    if (full != 0) {
        err = whim_file_write_failed(path, full, diag);
        goto out;
    }
    WHIM_TRY_OUT(whim_file_write_at(w->fds[file], 0, (const char *)&length, 8, path, diag));
    WHIM_TRY_OUT(whim_file_write_at(w->fds[file], 8, text, n, path, diag));
    WHIM_TRY_OUT(whim_file_write_at(w->fds[file], 8 + n, "       ", padded - n, path, diag));
out:
    free(text);
    return err;
}

static whim_err create_files(whim_safetensors_writer *w, whim_diag *diag)
{
    whim_safetensors_entry **order =
        whim_arena_alloc_array(&w->arena, w->n_entry, sizeof(whim_safetensors_entry *));
    WHIM_TRY(got(order != NULL, diag));
    for (int64_t i = 0; i < w->n_entry; i++) {
        order[i] = &w->entries[i];
    }
    qsort(order, (size_t)w->n_entry, sizeof *order, by_file_and_size);
    for (int64_t i = 0, end; i < w->n_entry; i = end) {
        int32_t file = order[i]->file;
        int64_t at = 0, data = 0;
        json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
        for (end = i; end < w->n_entry && order[end]->file == file; end++) {
            order[end]->offset = at;
            at += order[end]->as.bytes;
            json_object_set_new(header, order[end]->name, describe(order[end]));
        }
        whim_err err = json_object_size(header) == (size_t)(end - i) + 1
                           ? create_file(w, file, header, at, &data, diag)
                           : got(false, diag);
        json_decref(header);
        WHIM_TRY(err);
        for (int64_t k = i; k < end; k++) {
            order[k]->offset += data;
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_safetensors_begin(whim_safetensors_writer *writer, const char *dir,
                                whim_safetensors_entry *entries, int64_t n_entry, int64_t max_bytes,
                                whim_diag *diag)
{
    *writer = (whim_safetensors_writer){.dir = dir, .entries = entries, .n_entry = n_entry};
    whim_arena_init(&writer->arena);
    whim_err err = lay_out(writer, max_bytes, diag);
    if (err == WHIM_ERR_OK) {
        err = create_files(writer, diag);
    }
    if (err != WHIM_ERR_OK) {
        whim_safetensors_close(writer);
    }
    return err;
}

whim_err whim_safetensors_put(const whim_safetensors_writer *writer, int64_t entry, int64_t offset,
                              const void *bytes, int64_t n, whim_diag *diag)
{
    const whim_safetensors_entry *e = &writer->entries[entry];
    if (offset < 0 || n < 0 || offset > e->as.bytes || n > e->as.bytes - offset) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "tensor \"%s\": cannot write %lld bytes at %lld of %lld", e->name,
                         (long long)n, (long long)offset, (long long)e->as.bytes);
    }
    return whim_file_write_at(writer->fds[e->file], e->offset + offset, bytes, n,
                              writer->names[e->file], diag);
}

/* --- the end ---------------------------------------------------------------------------------- */

static whim_err write_index(whim_safetensors_writer *w, whim_diag *diag)
{
    json_t *map = json_object();
    for (int64_t i = 0; i < w->n_entry; i++) {
        const whim_safetensors_entry *e = &w->entries[i];
        json_object_set_new(map, e->name, json_string(whim_path_base(w->names[e->file])));
    }
    bool whole = json_object_size(map) == (size_t)w->n_entry;
    json_t *index = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)w->bytes,
                              "weight_map", map);
    char *text = json_dumps(index, JSON_INDENT(2));
    const char *path = whim_path_join(&w->arena, w->dir, "model.safetensors.index.json");
    whim_err err = !whole || text == NULL || path == NULL
                       ? got(false, diag)
                       : whim_file_write_all(path, text, (int64_t)strlen(text), diag);
    json_decref(index);
    free(text);
    return err;
}

whim_err whim_safetensors_finish(whim_safetensors_writer *writer, whim_diag *diag)
{
    for (int32_t f = 0; f < writer->n_file; f++) {
        WHIM_TRY(whim_file_finish(&writer->fds[f], writer->names[f], diag));
    }
    return writer->n_file > 1 ? write_index(writer, diag) : WHIM_ERR_OK;
}

void whim_safetensors_close(whim_safetensors_writer *writer)
{
    for (int32_t f = 0; f < writer->n_file && writer->fds != NULL; f++) {
        whim_file_close(writer->fds[f]);
    }
    whim_arena_reset(&writer->arena);
    *writer = (whim_safetensors_writer){0};
}

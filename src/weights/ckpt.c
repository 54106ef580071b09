/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a checkpoint: what a path is, and which reader it goes to. */
#include "weights/ckpt.h"

#include "base/alloc.h"
#include "base/file.h"
#include "weights/ckpt_build.h"
#include "weights/gguf/gguf.h"
#include "weights/quantised/recipe.h"
#include "weights/safetensors/safetensors.h"

#include <string.h>

enum { CONFIG_MAX = 16 << 20 };

static whim_err got(bool got_it, const char *path, whim_diag *diag)
{
    return whim_got(got_it, diag, "%s: no memory for a path", path);
}

/* config.json, and what it says of quantised weights. */
static whim_err read_config(whim_ckpt *ckpt, const char *dir, whim_diag *diag)
{
    char *text = NULL;
    int64_t n = 0;
    whim_sha256 sum;
    const char *path = whim_path_join(&ckpt->arena, dir, "config.json");
    WHIM_TRY(got(path != NULL, dir, diag));
    WHIM_TRY(whim_file_read_all(path, CONFIG_MAX, &text, &n, diag));
    whim_sha256_init(&sum);
    whim_sha256_add(&sum, text, n);
    whim_sha256_end(&sum, ckpt->config_sum);
    whim_err err = whim_config_parse(&ckpt->config, ckpt->archs, text, n, path, diag);
    if (err == WHIM_ERR_OK) {
        err = whim_scheme_parse(&ckpt->scheme, &ckpt->arena, text, n, path, diag);
    }
    whim_free(text);
    return err;
}

/* What the makers say, in the keys of a GGUF file or in a file beside the weights, which wins. End
 * ids of that file count beside config.json only: a GGUF file has its own. What cannot be taken of
 * it is for whoever samples to refuse. */
static whim_err read_generation(whim_ckpt *ckpt, const char *model, whim_diag *diag)
{
    char *text = NULL;
    int64_t n = 0;
    whim_generation *g = &ckpt->generation;
    whim_diag why = {""};
    whim_err err = WHIM_ERR_OK;
    const char *path = whim_path_join(&ckpt->arena, model, "generation_config.json");
    *g = whim_generation_ours;
    WHIM_TRY(got(path != NULL, model, diag));
    if (whim_path_get_type(path) == WHIM_PATH_FILE) {
        WHIM_TRY(whim_file_read_all(path, CONFIG_MAX, &text, &n, diag));
        whim_config *config = ckpt->gguf == NULL ? &ckpt->config : NULL;
        err = whim_generation_parse(g, config, text, n, path, &why);
        whim_free(text);
        if (config == NULL && err != WHIM_ERR_OK) {
            g->refused = ""; /* beside a GGUF file it is for who samples alone */
        }
    } else if (ckpt->gguf != NULL) {
        err = whim_generation_read_gguf(g, ckpt->gguf, &why);
    }
    if (g->refused == NULL) {
        return err == WHIM_ERR_OK ? err : whim_fail(diag, err, "%s", why.text);
    }
    g->refused = whim_arena_strndup(&ckpt->arena, why.text, (int64_t)strlen(why.text));
    return got(g->refused != NULL, path, diag);
}

/* A config.json without a type: the reference takes that of the first weight with a float type. */
static void infer_dtype(whim_ckpt *ckpt)
{
    for (int64_t i = 0; i < ckpt->n_tensor && !ckpt->config.dtype_given; i++) {
        const whim_ckpt_tensor *tensor = &ckpt->tensors[i];
        if (tensor->unsupported == NULL &&
            whim_dtype_get(tensor->dtype)->kind == WHIM_DTYPE_KIND_FLOAT) {
            ckpt->config.dtype = tensor->dtype;
            ckpt->config.dtype_given = true;
        }
    }
}

/* The names with a suffix: how many, and the first. */
static int64_t count_suffix(char *const *names, int64_t n, const char *suffix, const char **first)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        if (whim_path_has_suffix(names[i], suffix)) {
            *first = count == 0 ? names[i] : *first;
            count++;
        }
    }
    return count;
}

/* A directory of GGUF files: one model, whole or split. The parts of a split model sort together,
 * and opening the first finds the others; a count that differs means a second model. */
static whim_err open_gguf_dir(whim_ckpt *ckpt, const char *dir, const char *first, int64_t n_gguf,
                              whim_diag *diag)
{
    const char *path = whim_path_join(&ckpt->arena, dir, first);
    WHIM_TRY(got(path != NULL, dir, diag));
    if (n_gguf > 1 && strstr(first, "-00001-of-") == NULL) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%s: holds %lld .gguf files; give the path of one, e.g. %s", dir,
                         (long long)n_gguf, path);
    }
    WHIM_TRY(whim_gguf_open(ckpt, path, diag));
    if (ckpt->n_file != n_gguf) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%s: holds %lld .gguf files, and only %d of them belong to %s; give the "
                         "path of one",
                         dir, (long long)n_gguf, ckpt->n_file, first);
    }
    return WHIM_ERR_OK;
}

static whim_err open_dir(whim_ckpt *ckpt, const char *dir, whim_diag *diag)
{
    char **names;
    int64_t n_name;
    const char *config = NULL;
    const char *gguf = NULL;
    const char *weights = NULL;
    WHIM_TRY(whim_dir_list(&ckpt->arena, dir, &names, &n_name, diag));
    for (int64_t i = 0; i < n_name; i++) {
        config = strcmp(names[i], "config.json") == 0 ? names[i] : config;
    }
    int64_t n_gguf = count_suffix(names, n_name, ".gguf", &gguf);
    int64_t n_weights = count_suffix(names, n_name, ".safetensors", &weights) +
                        count_suffix(names, n_name, ".safetensors.index.json", &weights);
    if (n_weights == 0 && n_gguf > 0) {
        return open_gguf_dir(ckpt, dir, gguf, n_gguf, diag);
    }
    if (config == NULL) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND,
                         "%s: no config.json%s; expected a directory with config.json and "
                         "*.safetensors, or a .gguf file",
                         dir, n_weights == 0 ? " and no .gguf file" : "");
    }
    ckpt->format = WHIM_CKPT_SAFETENSORS;
    WHIM_TRY(read_config(ckpt, dir, diag));
    WHIM_TRY(whim_safetensors_open(ckpt, dir, names, n_name, diag));
    WHIM_TRY(whim_assemble(ckpt, diag));
    infer_dtype(ckpt);
    return WHIM_ERR_OK;
}

static whim_err open_path(whim_ckpt *ckpt, const char *path, whim_diag *diag)
{
    switch (whim_path_get_type(path)) {
    case WHIM_PATH_NONE:
        return whim_fail(diag, WHIM_ERR_NOT_FOUND,
                         "%s: no such file or directory; expected a directory with config.json and "
                         "*.safetensors, or a .gguf file (a model on a hub is ORG/NAME)",
                         path);
    case WHIM_PATH_DIR:
        return open_dir(ckpt, path, diag);
    case WHIM_PATH_FILE:
        break;
    default:
        return whim_fail(diag, WHIM_ERR_INVALID, "%s: neither a directory nor a regular file",
                         path);
    }
    if (whim_path_has_suffix(path, ".safetensors") || whim_path_has_suffix(path, ".json")) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%s: a single file of a model; give the directory that holds it and "
                         "config.json",
                         path);
    }
    return whim_gguf_open(ckpt, path, diag);
}

whim_err whim_ckpt_open(whim_ckpt *ckpt, const whim_arch_list *archs, const char *path,
                        whim_diag *diag)
{
    *ckpt = (whim_ckpt){.archs = archs};
    whim_arena_init(&ckpt->arena);
    whim_err err = open_path(ckpt, path, diag);
    if (err == WHIM_ERR_OK) {
        err = whim_rope_divisors_read(ckpt, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = read_generation(ckpt, path, diag);
    }
    if (err != WHIM_ERR_OK) {
        whim_ckpt_close(ckpt);
    }
    return err;
}

whim_err whim_ckpt_open_config(whim_ckpt *ckpt, const whim_arch_list *archs, const char *path,
                               whim_diag *diag)
{
    *ckpt = (whim_ckpt){.archs = archs};
    whim_arena_init(&ckpt->arena);
    char *config = whim_path_join(&ckpt->arena, path, "config.json");
    if (whim_path_get_type(path) != WHIM_PATH_DIR || config == NULL ||
        whim_path_get_type(config) != WHIM_PATH_FILE) {
        whim_ckpt_close(ckpt);
        return whim_ckpt_open(ckpt, archs, path, diag);
    }
    whim_err err = read_config(ckpt, path, diag);
    if (err == WHIM_ERR_OK) {
        err = read_generation(ckpt, path, diag);
    }
    if (err != WHIM_ERR_OK) {
        whim_ckpt_close(ckpt);
    }
    return err;
}

whim_err whim_ckpt_view(whim_ckpt *view, const whim_ckpt *of, const char *prefix, whim_diag *diag)
{
    size_t n = strlen(prefix);
    whim_err err = WHIM_ERR_OK;
    *view = (whim_ckpt){.format = of->format, .archs = of->archs};
    whim_arena_init(&view->arena);
    view->files = of->files; /* n_file stays 0: close leaves them alone */
    for (int64_t i = 0; i < of->n_tensor && err == WHIM_ERR_OK; i++) {
        whim_ckpt_tensor tensor = of->tensors[i];
        if (strncmp(tensor.name, prefix, n) == 0) {
            tensor.name += n;
            err = whim_ckpt_add_tensor(view, &tensor, diag);
        }
    }
    if (err == WHIM_ERR_OK) {
        err = whim_ckpt_finish(view, diag);
    }
    if (err != WHIM_ERR_OK) {
        whim_ckpt_close(view);
    }
    return err;
}

int64_t whim_ckpt_memory(const whim_ckpt *ckpt)
{
    return ckpt->arena.total + (ckpt->gguf != NULL ? ckpt->gguf->header_bytes : 0);
}

void whim_ckpt_close(whim_ckpt *ckpt)
{
    for (int32_t i = 0; i < ckpt->n_file; i++) {
        whim_file_close(ckpt->files[i].fd);
    }
    if (ckpt->gguf != NULL) {
        whim_gguf_deinit(ckpt->gguf);
    }
    whim_arena_reset(&ckpt->arena);
    *ckpt = (whim_ckpt){0};
}

whim_err whim_ckpt_read(const whim_ckpt *ckpt, const whim_ckpt_tensor *tensor, int64_t offset,
                        int64_t bytes, void *dst, whim_diag *diag)
{
    if (tensor->file < 0 || tensor->recipe != NULL || offset < 0 || bytes < 0 ||
        offset > tensor->bytes || bytes > tensor->bytes - offset) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "tensor \"%s\": cannot read %lld bytes at %lld of %lld", tensor->name,
                         (long long)bytes, (long long)offset, (long long)tensor->bytes);
    }
    const whim_ckpt_file *file = &ckpt->files[tensor->file];
    return whim_file_read_at(file->fd, tensor->offset + offset, bytes, dst, file->path, diag);
}

whim_err whim_ckpt_read_rows(const whim_ckpt *ckpt, const whim_ckpt_tensor *tensor, int64_t row0,
                             int64_t n_row, void *dst, whim_diag *diag)
{
    if (tensor->recipe != NULL) {
        return whim_recipe_read(ckpt, tensor, row0, n_row, dst, diag);
    }
    int64_t row_bytes = whim_dtype_row_bytes(tensor->dtype, tensor->shape[tensor->n_dim - 1]);
    return whim_ckpt_read(ckpt, tensor, row0 * row_bytes, n_row * row_bytes, dst, diag);
}

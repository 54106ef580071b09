/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a quantised model: made under another name, renamed when it is whole. */
#include "weights/quantised/quantize.h"

#include "base/alloc.h"
#include "base/file.h"
#include "weights/quantised/quantize_impl.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIDE_FILE_MAX = 256 << 20, CONFIG_MAX = 16 << 20 };

/* Files that belong to a model beside its weights: tokenizer, template, settings, licence. */
static bool is_side_file(const char *name)
{
    static const char *const suffixes[] = {".json", ".jinja", ".txt", ".model", ".md", ".py"};
    if (name[0] == '.' || strcmp(name, "config.json") == 0 ||
        whim_path_has_suffix(name, ".safetensors.index.json") ||
        whim_path_has_suffix(name, ".bin.index.json")) {
        return false;
    }
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        if (whim_path_has_suffix(name, suffixes[i])) {
            return true;
        }
    }
    return strncmp(name, "LICENSE", 7) == 0 || strncmp(name, "NOTICE", 6) == 0;
}

static bool is_same_place(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* --- before ----------------------------------------------------------------------------------- */

static whim_err check_out(const whim_quantize_cfg *cfg, whim_diag *diag)
{
    struct stat st;
    if (lstat(cfg->out, &st) != 0) {
        return WHIM_ERR_OK;
    }
    if (is_same_place(cfg->in, cfg->out)) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%s and %s are the same folder; the quantised model needs one of its own",
                         cfg->in, cfg->out);
    }
    if (!S_ISDIR(st.st_mode)) {
        return whim_fail(diag, WHIM_ERR_INVALID, "%s exists already and is not a folder", cfg->out);
    }
    whim_arena arena;
    char **names;
    int64_t n = 0;
    whim_arena_init(&arena);
    whim_err err = whim_dir_list(&arena, cfg->out, &names, &n, diag);
    whim_arena_reset(&arena);
    return err != WHIM_ERR_OK || n == 0
               ? err
               : whim_fail(diag, WHIM_ERR_INVALID,
                           "%s is not empty; give a folder that is empty or not there", cfg->out);
}

whim_err whim_quantize_check(const whim_ckpt *ckpt, const whim_quantize_cfg *cfg, whim_diag *diag)
{
    if (ckpt->format != WHIM_CKPT_SAFETENSORS) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "%s is not a folder of safetensors; quantize reads a model as its makers "
                         "published it (config.json and *.safetensors). A GGUF file is quantised "
                         "already, or llama.cpp's llama-quantize makes another of it",
                         cfg->in);
    }
    if (ckpt->scheme.method != WHIM_SCHEME_NONE) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "%s is quantised already (config.json has a quantization_config); take "
                         "the model that it was made from",
                         cfg->in);
    }
    return check_out(cfg, diag);
}

/* --- the folder ------------------------------------------------------------------------------- */

typedef struct folder {
    const whim_quantize_cfg *cfg;
    whim_arena arena;
    char *path; /* OUT.part */
    char *out;  /* without slashes at its end */
    whim_diag *diag;
} folder;

static whim_err got(bool got_it, const folder *f)
{
    return whim_got(got_it, f->diag, "%s: no memory for a path", f->cfg->out);
}

static whim_err folder_make(folder *f)
{
    int64_t n = (int64_t)strlen(f->cfg->out);
    while (n > 1 && f->cfg->out[n - 1] == '/') {
        n--;
    }
    f->out = whim_arena_strndup(&f->arena, f->cfg->out, n);
    f->path = whim_arena_alloc(&f->arena, n + (int64_t)sizeof ".part");
    WHIM_TRY(got(f->out != NULL && f->path != NULL, f));
    snprintf(f->path, (size_t)n + sizeof ".part", "%s.part", f->out);
    if (mkdir(f->path, 0777) == 0) {
        return WHIM_ERR_OK;
    }
    int error = errno;
    f->path = NULL; /* not ours to remove */
    return error == EEXIST
               ? whim_fail(f->diag, WHIM_ERR_BUSY,
                           "%s.part exists already: another quantize is writing it, or one was "
                           "broken off; if none is running, remove that folder",
                           f->out)
               : whim_fail(f->diag, WHIM_ERR_IO, "%s.part cannot be made: %s", f->out,
                           strerror(error));
}

/* Takes no memory of ours: that may be what has run out. */
static void folder_remove(folder *f)
{
    DIR *dir = f->path != NULL ? opendir(f->path) : NULL;
    if (dir != NULL) {
        for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
            unlinkat(dirfd(dir), e->d_name, 0); /* "." and ".." stay */
        }
        closedir(dir);
        rmdir(f->path);
    }
}

static whim_err read_file(folder *f, const char *name, int64_t max, char **text, int64_t *n,
                          const char **path)
{
    *path = whim_path_join(&f->arena, f->cfg->in, name);
    WHIM_TRY(got(*path != NULL, f));
    return whim_file_read_all(*path, max, text, n, f->diag);
}

static whim_err write_file(folder *f, const char *name, const char *text, int64_t n)
{
    const char *path = whim_path_join(&f->arena, f->path, name);
    WHIM_TRY(got(path != NULL, f));
    return whim_file_write_all(path, text, n, f->diag);
}

static whim_err copy_side_files(folder *f)
{
    char **names;
    int64_t n_name;
    WHIM_TRY(whim_dir_list(&f->arena, f->cfg->in, &names, &n_name, f->diag));
    for (int64_t i = 0; i < n_name; i++) {
        const char *path = whim_path_join(&f->arena, f->cfg->in, names[i]);
        char *text = NULL;
        int64_t n = 0;
        WHIM_TRY(got(path != NULL, f));
        if (!is_side_file(names[i]) || whim_path_get_type(path) != WHIM_PATH_FILE) {
            continue;
        }
        WHIM_TRY(read_file(f, names[i], SIDE_FILE_MAX, &text, &n, &path));
        whim_err err = write_file(f, names[i], text, n);
        whim_free(text);
        WHIM_TRY(err);
    }
    return WHIM_ERR_OK;
}

/* The last file: without it the folder is no model. */
static whim_err write_config(folder *f, const whim_quantize_plan *plan)
{
    char *text = NULL, *made = NULL;
    const char *path;
    int64_t n = 0;
    WHIM_TRY(read_file(f, "config.json", CONFIG_MAX, &text, &n, &path));
    whim_err err = whim_quantize_config(plan, text, n, path, &made, f->diag);
    if (err == WHIM_ERR_OK) {
        err = write_file(f, "config.json", made, (int64_t)strlen(made));
    }
    whim_free(text);
    whim_free(made);
    return err;
}

static whim_err folder_fill(folder *f, const whim_ckpt *ckpt, whim_quantize_plan *plan)
{
    whim_safetensors_writer writer;
    whim_err err;
    WHIM_TRY(whim_safetensors_begin(&writer, f->path, plan->entries, plan->n_entry,
                                    f->cfg->shard_bytes, f->diag));
    WHIM_TRY_OUT(whim_quantize_slabs(plan, ckpt, f->cfg, &writer, f->diag));
    WHIM_TRY_OUT(whim_safetensors_finish(&writer, f->diag));
    WHIM_TRY_OUT(copy_side_files(f));
    WHIM_TRY_OUT(write_config(f, plan));
    if (rename(f->path, f->out) != 0) {
        err = whim_fail(f->diag, WHIM_ERR_IO, "%s cannot become %s: %s", f->path, f->out,
                        strerror(errno));
    }
out:
    whim_safetensors_close(&writer);
    return err;
}

whim_err whim_quantize(const whim_ckpt *ckpt, const whim_binder *binder,
                       const whim_quantize_cfg *cfg, whim_quantize_result *result, whim_diag *diag)
{
    whim_quantize_plan plan;
    folder f = {.cfg = cfg, .diag = diag};
    whim_arena_init(&f.arena);
    WHIM_TRY(whim_quantize_check(ckpt, cfg, diag));
    whim_err err = whim_quantize_plan_make(&plan, ckpt, binder, cfg->kind, diag);
    if (err == WHIM_ERR_OK) {
        err = folder_make(&f);
    }
    if (err == WHIM_ERR_OK) {
        err = folder_fill(&f, ckpt, &plan);
        if (err != WHIM_ERR_OK) {
            folder_remove(&f);
        }
    }
    *result = plan.result;
    whim_quantize_plan_free(&plan);
    whim_arena_reset(&f.arena);
    return err;
}

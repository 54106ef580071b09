/* SPDX-License-Identifier: Apache-2.0 */
/* The safetensors files of a model directory: one file, or shards with an index. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "weights/ckpt_build.h"
#include "weights/safetensors/safetensors.h"

#include <string.h>

static const char single_name[] = "model.safetensors";
static const char index_name[] = "model.safetensors.index.json";
static const whim_json_limits index_limits = {.max_bytes = 256 << 20, .max_depth = 8};

static bool list_has(char *const *names, int64_t n, const char *name)
{
    for (int64_t i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static whim_err add_and_read(whim_ckpt *ckpt, const char *dir, const char *name, whim_diag *diag)
{
    const char *path = whim_path_join(&ckpt->arena, dir, name);
    WHIM_TRY(whim_got(path != NULL, diag, "%s: no memory for a path", dir));
    WHIM_TRY(whim_ckpt_add_file(ckpt, path, diag));
    return whim_safetensors_read(ckpt, ckpt->n_file - 1, diag);
}

/* The file of a shard name, or -1. Names of one shard follow each other, so the newest is first. */
static int32_t find_shard(const whim_ckpt *ckpt, const char *name)
{
    for (int32_t i = ckpt->n_file - 1; i >= 0; i--) {
        if (strcmp(whim_path_base(ckpt->files[i].path), name) == 0) {
            return i;
        }
    }
    return -1;
}

/* What is done with one line of the map: a tensor's name and its file's. */
typedef struct map_reader {
    whim_ckpt *ckpt;
    const char *dir, *path;
    whim_diag *diag;
} map_reader;
typedef whim_err map_line(const map_reader *r, const char *tensor, const char *shard);

static whim_err open_shard(const map_reader *r, const char *tensor, const char *shard)
{
    if (find_shard(r->ckpt, shard) >= 0) {
        return WHIM_ERR_OK;
    }
    whim_err err = add_and_read(r->ckpt, r->dir, shard, r->diag);
    if (err == WHIM_ERR_NOT_FOUND) {
        return whim_fail(r->diag, err,
                         "%s/%s: missing, but %s lists it for \"%.200s\"; is the download "
                         "complete?",
                         r->dir, shard, index_name, tensor);
    }
    return err;
}

/* Every tensor of the map must be where the map says. */
static whim_err check_line(const map_reader *r, const char *key, const char *shard)
{
    char name[WHIM_CKPT_NAME_MAX];
    const whim_ckpt_tensor *tensor =
        whim_ckpt_find(r->ckpt, whim_ckpt_canonical_name(r->ckpt, key, name));
    if (tensor == NULL || tensor->file != find_shard(r->ckpt, shard)) {
        return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                         "%s: \"weight_map.%.200s\" says %.200s, but that file has no such "
                         "tensor",
                         r->path, key, shard);
    }
    return WHIM_ERR_OK;
}

static whim_err read_line(const map_reader *r, const char *key, const whim_json *value,
                          map_line *take)
{
    const char *shard = NULL;
    if (!whim_json_as_string(value, &shard)) {
        return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                         "%s: \"weight_map.%.200s\" is %s, expected a file name", r->path, key,
                         whim_json_kind(value));
    }
    if (!whim_path_is_plain_name(shard)) {
        return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                         "%s: \"weight_map.%.200s\" is \"%.200s\", expected the plain name of "
                         "a file beside the index",
                         r->path, key, shard);
    }
    return take(r, key, shard);
}

static whim_err read_map(const map_reader *r, whim_json_members *walk, map_line *take)
{
    WHIM_TRY(whim_json_members_enter(walk));
    for (bool more = true;;) {
        whim_json *value;
        WHIM_TRY(whim_json_members_next(walk, &more));
        if (!more) {
            return WHIM_ERR_OK;
        }
        WHIM_TRY(whim_json_members_value(walk, &value));
        whim_err err = read_line(r, whim_str_text(&walk->key), value, take);
        whim_json_free(value);
        WHIM_TRY(err);
    }
}

/* Go through the index, line by line of its map: it may have a hundred thousand. */
static whim_err read_index(const map_reader *r, whim_json_members *walk, map_line *take)
{
    for (bool more = true, found = false;;) {
        WHIM_TRY(whim_json_members_next(walk, &more));
        if (!more) {
            return found ? WHIM_ERR_OK
                         : whim_fail(r->diag, WHIM_ERR_CORRUPT, "%s: \"weight_map\" is missing",
                                     r->path);
        }
        bool is_map = strcmp(whim_str_text(&walk->key), "weight_map") == 0;
        if (is_map && found) {
            return whim_fail(r->diag, WHIM_ERR_CORRUPT, "%s: \"weight_map\" occurs twice", r->path);
        }
        found |= is_map;
        WHIM_TRY(is_map ? read_map(r, walk, take) : whim_json_members_value(walk, NULL));
    }
}

static whim_err open_sharded(whim_ckpt *ckpt, const char *dir, whim_diag *diag)
{
    whim_json_members walk = {.text = NULL};
    char *text = NULL;
    int64_t n = 0;
    whim_err err;
    const char *path = whim_path_join(&ckpt->arena, dir, index_name);
    WHIM_TRY(whim_got(path != NULL, diag, "%s: no memory for a path", dir));
    const map_reader r = {.ckpt = ckpt, .dir = dir, .path = path, .diag = diag};
    WHIM_TRY(whim_file_read_all(path, index_limits.max_bytes, &text, &n, diag));
    WHIM_TRY_OUT(whim_json_members_open(&walk, text, n, index_limits, path, diag));
    WHIM_TRY_OUT(read_index(&r, &walk, open_shard));
    WHIM_TRY_OUT(whim_ckpt_finish(ckpt, diag));
    whim_json_members_close(&walk);
    WHIM_TRY_OUT(whim_json_members_open(&walk, text, n, index_limits, path, diag));
    WHIM_TRY_OUT(read_index(&r, &walk, check_line));
out:
    whim_json_members_close(&walk);
    whim_free(text);
    return err;
}

whim_err whim_safetensors_open(whim_ckpt *ckpt, const char *dir, char *const *names, int64_t n_name,
                               whim_diag *diag)
{
    const char *name = NULL;
    if (list_has(names, n_name, single_name)) {
        name = single_name;
    } else if (list_has(names, n_name, index_name)) {
        return open_sharded(ckpt, dir, diag);
    } else {
        for (int64_t i = 0; i < n_name; i++) {
            if (!whim_path_has_suffix(names[i], ".safetensors")) {
                continue;
            }
            if (name != NULL) {
                return whim_fail(diag, WHIM_ERR_NOT_FOUND,
                                 "%s: holds %s, %s and perhaps more, but no %s that says which "
                                 "belong to the model",
                                 dir, name, names[i], index_name);
            }
            name = names[i];
        }
    }
    if (name == NULL) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND, "%s: no *.safetensors file in it", dir);
    }
    WHIM_TRY(add_and_read(ckpt, dir, name, diag));
    return whim_ckpt_finish(ckpt, diag);
}

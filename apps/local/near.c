/* SPDX-License-Identifier: Apache-2.0 */
/* What may have been meant by the name of a model that leads nowhere: files beside it, those of
 * whimbrel's cache, short names, and models of the hub's cache. */
#include "base/arena.h"
#include "base/file.h"
#include "hub/shelf.h"
#include "hub_model.h"
#include "local/catalogue.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NEAR = 4 };

/* Names so far, with commas between them. */
typedef struct near_list {
    whim_str text;
    int32_t n;
} near_list;

/* Whether a name, or its part before the first '-' or '.', resembles what was typed. */
static bool is_near(const char *name, const char *typed)
{
    char stem[256], low[256];
    snprintf(stem, sizeof stem, "%.*s", (int)strcspn(name, "-."), name);
    snprintf(low, sizeof low, "%s", typed);
    for (char *at = stem; *at != '\0'; at++) {
        *at = (char)tolower((unsigned char)*at);
    }
    for (char *at = low; *at != '\0'; at++) {
        *at = (char)tolower((unsigned char)*at);
    }
    return strcasestr(name, typed) != NULL || strcasestr(typed, name) != NULL ||
           whim_name_distance(typed, name) < WHIM_NAME_FAR ||
           (stem[0] != '\0' && whim_name_distance(low, stem) < WHIM_NAME_FAR);
}

static void add(near_list *list, const char *folder, const char *name)
{
    bool here = strcmp(folder, ".") == 0;
    if (list->n < MAX_NEAR) {
        whim_str_printf(&list->text, "%s%s%s%s", list->n > 0 ? ", " : "", here ? "" : folder,
                        here ? "" : "/", name);
        list->n++;
    }
}

/* Whether it could be a model: a file of weights, or a folder with a model's settings. A draft is
 * none. */
static bool is_model(const char *folder, const char *name)
{
    char path[MODEL_PATH_MAX];
    if (whim_path_has_suffix(name, ".draft")) {
        return false;
    }
    return whim_path_has_suffix(name, ".gguf") || whim_path_has_suffix(name, ".safetensors") ||
           (snprintf(path, sizeof path, "%s/%s/config.json", folder, name) < (int)sizeof path &&
            whim_path_get_type(path) == WHIM_PATH_FILE);
}

static void near_in_folder(near_list *list, const char *folder, const char *typed)
{
    whim_arena arena;
    char **names = NULL;
    int64_t n_name = 0;
    whim_diag diag;
    whim_arena_init(&arena);
    if (whim_dir_list(&arena, folder, &names, &n_name, &diag) == WHIM_ERR_OK) {
        for (int64_t i = 0; i < n_name; i++) {
            if (names[i][0] != '.' && is_near(names[i], typed) && is_model(folder, names[i])) {
                add(list, folder, names[i]);
            }
        }
    }
    whim_arena_reset(&arena);
}

/* Where the default model is. */
static void near_in_cache(near_list *list, const char *folder, const char *typed)
{
    char cache[MODEL_PATH_MAX];
    if (cache_find(default_model_name(), cache, sizeof cache)) {
        *strrchr(cache, '/') = '\0';
        if (strcmp(cache, folder) != 0) {
            near_in_folder(list, cache, typed);
        }
    }
}

/* Models of the hub's cache whose names, with their organisation or without, are near. */
static void near_on_shelf(near_list *list, const char *model, const char *typed)
{
    hub_visit visit = {.quiet = true};
    whim_arena arena;
    char **ids;
    int64_t n = 0;
    whim_diag diag;
    whim_arena_init(&arena);
    if (hub_settings_read(&visit) &&
        whim_hub_shelf_ids(&arena, visit.cache, &ids, &n, &diag) == WHIM_ERR_OK) {
        for (int64_t i = 0; i < n; i++) {
            const char *name = strchr(ids[i], '/') + 1;
            if (is_near(ids[i], model) || is_near(name, typed)) {
                add(list, ".", ids[i]);
            }
        }
    }
    whim_arena_reset(&arena);
}

static void near_names(near_list *list, const char *model)
{
    char folder[MODEL_PATH_MAX], typed[256];
    int len = (int)strnlen(model, sizeof folder - 1);
    while (len > 1 && model[len - 1] == '/') {
        len--;
    }
    snprintf(folder, sizeof folder, "%.*s", len, model);
    char *slash = strrchr(folder, '/');
    snprintf(typed, sizeof typed, "%.255s", slash != NULL ? slash + 1 : folder);
    if (slash == NULL) {
        snprintf(folder, sizeof folder, ".");
    } else {
        slash[slash == folder] = '\0';
    }
    if (typed[0] == '\0') {
        return;
    }
    near_in_folder(list, folder, typed);
    near_on_shelf(list, model, typed);
    if (slash == NULL && list->n < MAX_NEAR) {
        whim_str names = {0};
        int32_t n = catalogue_near(&names, typed, MAX_NEAR - list->n);
        if (n > 0) {
            add(list, ".", whim_str_text(&names));
        }
        whim_str_deinit(&names);
    }
    near_in_cache(list, folder, typed);
}

void complain_no_model(const char *model, const char *as_name)
{
    near_list list = {.n = 0};
    near_names(&list, model);
    const char *what = list.n > 0 ? "; similar names: " : "", *near = whim_str_text(&list.text);
    if (as_name[0] != '\0') {
        complain(
            EXIT_FAILED,
            "there is no model \"%s\". As a path: nothing is there%s%s. As a name on the hub: %s",
            model, what, near, as_name);
    } else {
        complain(EXIT_FAILED, "there is no model \"%s\"%s%s%s", model, what, near,
                 list.n > 0
                     ? ""
                     : "; a model is a directory with config.json and *.safetensors, a .gguf file, "
                       "ORG/NAME as the hub calls it, or a short name such as qwen3:4b (without a "
                       "name the default model is taken)");
    }
    whim_str_deinit(&list.text);
}

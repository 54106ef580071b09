/* SPDX-License-Identifier: Apache-2.0 */
/* `whimbrel list`: the models in the caches, how large they are, and whether they run here. */
#include "hub/shelf.h"
#include "hub_model.h"
#include "local/catalogue.h"
#include "local/running.h"
#include "local/table.h"
#include "model.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* One row: an item of the hub's cache, or the default model. */
typedef struct listed {
    const char *name, *path, *missing;
    int64_t bytes, used;
    char short_name[CATALOGUE_TEXT_MAX]; /* "": none */
    bool running;
    whim_diag why; /* it would not run here; empty: it would */
} listed;

/* The short name whose row this is. */
static void find_short_name(listed *row)
{
    int32_t n;
    const catalogue_row *rows = catalogue_rows(&n);
    char canonical[2 * CATALOGUE_TEXT_MAX];
    for (int32_t i = 0; i < n; i++) {
        snprintf(canonical, sizeof canonical, "%s:%s", rows[i].repo, rows[i].pick);
        if (strcmp(canonical, row->name) == 0) {
            catalogue_name(&rows[i], row->short_name);
        }
    }
}

/* Its plan is made as for `run`, without reading a weight. */
static void check(listed *row, const whim_options *options)
{
    whim_engine *engine = NULL;
    whim_engine_cfg cfg = engine_cfg(options, row->path);
    if (row->missing[0] != '\0') {
        snprintf(row->why.text, sizeof row->why.text, "not whole: %s", row->missing);
        return;
    }
    if (whim_engine_prepare(&cfg, &engine, &row->why) == WHIM_ERR_OK &&
        whim_memory_plan_check(whim_engine_plan(engine), &row->why) == WHIM_ERR_OK) {
        row->why.text[0] = '\0';
    }
    whim_engine_close(engine);
}

static const char *runs_in_words(const listed *row)
{
    return row->running ? "yes, and is served now" : row->why.text[0] == '\0' ? "yes" : NULL;
}

static void put_row(text_table *table, const listed *row)
{
    char size[32], used[64] = "-", runs[128];
    whim_format_bytes(size, sizeof size, row->bytes);
    if (row->used > 0) {
        char age[32];
        format_age(age, sizeof age, (int64_t)time(NULL) - row->used);
        snprintf(used, sizeof used, "%s ago", age);
    }
    const char *words = runs_in_words(row);
    if (words == NULL) {
        const char *sentence = row->why.text;
        size_t n = strlen(row->path);
        if (n > 0 && strncmp(sentence, row->path, n) == 0) {
            sentence += n + strspn(sentence + n, ": /"); /* the row says which */
        }
        snprintf(runs, sizeof runs, "no: %.120s", sentence);
    } else {
        snprintf(runs, sizeof runs, "%s", words);
    }
    text_table_add(table, (const char *const[]){row->name,
                                                row->short_name[0] != '\0' ? row->short_name : "-",
                                                size, used, runs});
}

static void json_row(whim_str *out, const listed *row)
{
    const struct {
        const char *key, *value;
    } texts[] = {{"name", row->name},
                 {"short_name", row->short_name},
                 {"path", row->path},
                 {"why_not", row->why.text}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        whim_str_printf(out, "%s\"%s\":", i == 0 ? "{" : ",", texts[i].key);
        json_text(out, texts[i].value);
    }
    whim_str_printf(out, ",\"bytes\":%lld,\"used\":%lld,\"complete\":%s,\"runs\":%s,\"served\":%s}",
                    (long long)row->bytes, (long long)row->used,
                    row->missing[0] == '\0' ? "true" : "false",
                    row->why.text[0] == '\0' ? "true" : "false", row->running ? "true" : "false");
}

typedef struct listing {
    const whim_options *options;
    running_list running;
    text_table table;
    whim_str json;
    int64_t n, bytes;
} listing;

static bool is_served(const listing *l, const char *path)
{
    for (int32_t i = 0; i < l->running.n; i++) {
        if (running_has(&l->running.v[i], path)) {
            return true;
        }
    }
    return false;
}

static void add(listing *l, listed *row)
{
    check(row, l->options);
    row->running = row->path[0] != '\0' && is_served(l, row->path);
    find_short_name(row);
    if (l->options->json) {
        whim_str_append(&l->json, l->n > 0 ? "," : "");
        json_row(&l->json, row);
    } else {
        put_row(&l->table, row);
    }
    l->n++;
    l->bytes += row->bytes;
}

/* The default model is in whimbrel's own cache. */
static void add_default(listing *l)
{
    char path[MODEL_PATH_MAX];
    struct stat st;
    if (cache_find(default_model_name(), path, sizeof path) && stat(path, &st) == 0) {
        listed row = {.name = default_model_name(),
                      .path = path,
                      .missing = "",
                      .bytes = (int64_t)st.st_size,
                      .used = (int64_t)st.st_atime,
                      .short_name = "the default"};
        add(l, &row);
    }
}

static bool print_list(listing *l, const char *cache)
{
    whim_str out = {0};
    char bytes[32];
    whim_format_bytes(bytes, sizeof bytes, l->bytes);
    if (l->options->json) {
        whim_str_printf(&out, "[%s]\n", whim_str_text(&l->json));
    } else if (l->n == 0) {
        whim_str_printf(
            &out, "no models in %s; \"whimbrel pull qwen3:4b\" fetches one, for instance\n", cache);
    } else {
        text_table_write(&l->table, &out);
        whim_str_printf(&out, "%lld model%s, %s; those by name in %s\n", (long long)l->n,
                        l->n == 1 ? "" : "s", bytes, cache);
    }
    bool ok = print_out(&out);
    whim_str_deinit(&out);
    return ok;
}

int cmd_list(const whim_options *options)
{
    static listing l;
    hub_visit visit = {.quiet = true};
    whim_hub_shelf shelf;
    whim_diag diag = {""};
    if (!hub_settings_read(&visit)) {
        return EXIT_FAILED;
    }
    l.options = options;
    running_find(&l.running);
    text_table_init(&l.table,
                    (const char *const[]){"MODEL", "SHORT", "SIZE", "READ", "RUNS HERE", NULL});
    whim_err err = whim_hub_shelf_read(&shelf, visit.cache, &diag);
    add_default(&l);
    for (int64_t i = 0; i < shelf.n && err == WHIM_ERR_OK; i++) {
        const whim_hub_item *item = &shelf.items[i];
        listed row = {.name = item->name,
                      .path = item->path,
                      .missing = item->missing,
                      .bytes = item->bytes,
                      .used = item->used};
        add(&l, &row);
    }
    bool ok = err == WHIM_ERR_OK ? print_list(&l, visit.cache)
                                 : complain(EXIT_FAILED, "%s", diag.text) == EXIT_OK;
    whim_hub_shelf_deinit(&shelf);
    text_table_deinit(&l.table);
    whim_str_deinit(&l.json);
    return ok ? EXIT_OK : EXIT_FAILED;
}

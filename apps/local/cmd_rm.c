/* SPDX-License-Identifier: Apache-2.0 */
/* `whimbrel rm`: a model out of the hub's cache. */
#include "base/file.h"
#include "base/os/facts.h"
#include "hub/shelf.h"
#include "hub_model.h"
#include "local/catalogue.h"
#include "local/running.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is to go. */
typedef struct removal {
    const char *name; /* as it was typed */
    whim_hub_ref ref;
    whim_hub_repo repo;
    bool all;         /* revisions and files of the repository */
    int64_t n, bytes; /* models */
    whim_hub_shelf shelf;
} removal;

/* Whether an item is among what the name stands for. */
static bool is_meant(const removal *r, const whim_hub_item *item)
{
    whim_hub_ref own;
    whim_diag ignored;
    char path[WHIM_HUB_PATH_MAX];
    if (whim_hub_ref_parse(&own, item->name, &ignored) != WHIM_ERR_OK ||
        strcmp(own.id, r->ref.id) != 0) {
        return false;
    }
    if (r->all) {
        return true;
    }
    if (strcmp(own.rev, r->ref.rev) != 0) {
        return false;
    }
    return r->ref.pick[0] == '\0' ||
           (whim_hub_cached(r->repo.cache, &r->ref, false, path, &ignored) == WHIM_ERR_OK &&
            strcmp(path, item->path) == 0);
}

/* What the cache has, after such words, or "". The caller frees it. */
static whim_str cache_has(const whim_hub_shelf *shelf, const char *words)
{
    whim_str text = {0};
    for (int64_t i = 0; i < shelf->n; i++) {
        whim_str_printf(&text, "%s%s", i > 0 ? ", " : words, shelf->items[i].name);
    }
    return text;
}

/* False after a complaint: nothing is called so, or it is in use. */
static bool find_items(removal *r)
{
    static running_list running;
    running_find(&running);
    r->all = r->ref.pick[0] == '\0' && strcmp(r->ref.rev, "main") == 0;
    for (int64_t i = 0; i < r->shelf.n; i++) {
        const whim_hub_item *item = &r->shelf.items[i];
        if (!is_meant(r, item)) {
            continue;
        }
        for (int32_t k = 0; k < running.n; k++) {
            if (running_has(&running.v[k], item->path)) {
                complain(EXIT_FAILED,
                         "%s is in use by the server at %s (process %lld); stop it first",
                         item->name, running.v[k].url, (long long)running.v[k].pid);
                return false;
            }
        }
        r->n++;
        r->bytes += item->bytes;
    }
    if (r->n == 0) {
        whim_str others = cache_has(&r->shelf, "; it has ");
        complain(EXIT_FAILED, "the cache %s has no \"%s\"%s", r->repo.cache, r->name,
                 whim_str_text(&others));
        whim_str_deinit(&others);
    }
    return r->n > 0;
}

/* Asked on a terminal only: a script says -y. False: no, which was said. */
static bool is_sure(const removal *r, const whim_options *options)
{
    char size[32], line[64] = "";
    if (options->yes) {
        return true;
    }
    if (!whim_os_term_is(STDIN_FILENO) || !whim_os_term_is(STDERR_FILENO)) {
        complain(EXIT_USAGE, "rm asks before it deletes, and there is no terminal: give -y to say "
                             "yes");
        return false;
    }
    whim_format_bytes(size, sizeof size, r->bytes);
    for (int64_t i = 0; i < r->shelf.n; i++) {
        if (is_meant(r, &r->shelf.items[i])) {
            fprintf(stderr, "  %s\n", r->shelf.items[i].name);
        }
    }
    fprintf(stderr, "delete %s, %s? [y/N] ", r->n == 1 ? "this" : "these", size);
    bool yes = fgets(line, sizeof line, stdin) != NULL && (line[0] == 'y' || line[0] == 'Y');
    if (!yes) {
        fprintf(stderr, "nothing was deleted\n");
    }
    return yes;
}

static int remove_it(removal *r, const whim_options *options)
{
    whim_diag diag = {""};
    int64_t freed;
    char size[32];
    whim_str out = {0};
    if (whim_hub_remove(r->repo.cache, &r->ref, r->all, &freed, &diag) != WHIM_ERR_OK) {
        return complain(EXIT_FAILED, "%s", diag.text);
    }
    whim_format_bytes(size, sizeof size, freed);
    if (options->json) {
        whim_str_append(&out, "{\"removed\":");
        json_text(&out, r->name);
        whim_str_printf(&out, ",\"models\":%lld,\"freed_bytes\":%lld}\n", (long long)r->n,
                        (long long)freed);
    } else if (!options->quiet) {
        whim_str_printf(&out, "deleted %s; %s are free again\n", r->name, size);
    }
    bool ok = print_out(&out);
    whim_str_deinit(&out);
    return ok ? EXIT_OK : EXIT_FAILED;
}

int cmd_rm(const whim_options *options)
{
    static removal r;
    hub_visit visit = {.quiet = true};
    whim_diag diag = {""};
    int code = EXIT_FAILED;
    if (options->model == NULL) {
        return complain(EXIT_USAGE, "rm what? \"whimbrel list\" shows what there is");
    }
    if (!hub_settings_read(&visit)) {
        return EXIT_FAILED;
    }
    r.name = options->model;
    if (whim_hub_shelf_read(&r.shelf, visit.cache, &diag) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
    } else if (hub_ref_read(&r.ref, options->model, &diag) != WHIM_ERR_OK) {
        whim_str others = cache_has(&r.shelf, "; the cache has ");
        code = complain(
            EXIT_USAGE,
            "%s%s; other files, such as the default model, are deleted with your system's rm",
            diag.text, whim_str_text(&others));
        whim_str_deinit(&others);
    } else if (whim_hub_repo_init(&r.repo, visit.cache, &r.ref, &diag) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
    } else if (find_items(&r)) {
        bool sure = is_sure(&r, options);
        code = sure                                            ? remove_it(&r, options)
               : options->yes || whim_os_term_is(STDIN_FILENO) ? EXIT_FAILED
                                                               : EXIT_USAGE;
    }
    whim_hub_shelf_deinit(&r.shelf);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* From the folder to the file. A server that runs may have the folder open: files there are only
 * ever appended to. */
#include "base/alloc.h"
#include "base/clock.h"
#include "kv/disk_folder.h"
#include "kv/kv.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct exporting {
    kv_model *model;
    whim_archive archive;
    whim_archive_part parts[WHIM_ARCHIVE_PARTS];
    int32_t part;
    kv_pages pages; /* of --prompts; else all are taken */
    whim_progress bar;
    whim_diag diag;
} exporting;

static whim_err put_item(void *ctx, whim_disk_kind kind, const whim_prefix_key *key,
                         const int32_t *tokens, const void *item)
{
    exporting *e = ctx;
    const whim_archive_item record = {
        .part = e->part, .kind = kind, .key = *key, .tokens = tokens, .item = item};
    whim_progress_add(&e->bar, e->parts[e->part].item_bytes[kind]);
    return whim_archive_add(&e->archive, &record, &e->diag);
}

/* What there is, or that there is nothing. */
static bool parts_find(exporting *e)
{
    kv_model *m = e->model;
    for (int32_t i = 0; i < m->n_part; i++) {
        whim_archive_part *part = &e->parts[i];
        kv_part_space(m, i, part->space);
        whim_disk_space space = {.text = part->space};
        if (!whim_disk_space_find(m->dir, &space)) {
            whim_str list = {0};
            whim_disk_space_list(m->dir, &list);
            complain(EXIT_FAILED,
                     "%s has no pages of this model under the name\n  %s\n%s%s"
                     "a server keeps them there once it has answered something",
                     m->dir, part->space, list.len > 0 ? "but under\n" : "", whim_str_text(&list));
            whim_str_deinit(&list);
            return false;
        }
        part->page_len = space.page_len;
        part->item_bytes[WHIM_DISK_PAGE] = space.page_bytes;
        part->item_bytes[WHIM_DISK_STATE] = space.state_bytes;
    }
    return true;
}

static whim_err part_open(exporting *e, whim_disk_tier **tier)
{
    const whim_archive_part *part = &e->parts[e->part];
    const whim_disk_tier_cfg cfg = {
        .dir = e->model->dir,
        .space = part->space,
        .page_bytes = part->item_bytes[WHIM_DISK_PAGE],
        .state_bytes = part->item_bytes[WHIM_DISK_STATE],
        .page_len = part->page_len,
        .read_only = true,
    };
    return whim_disk_tier_open(&cfg, tier, &e->diag);
}

/* Those of the prompts that are there. */
static whim_err chosen_write(exporting *e, whim_disk_tier *tier, whim_disk_kind kind)
{
    whim_err err = WHIM_ERR_OK;
    void *item = whim_alloc(e->parts[e->part].item_bytes[kind]);
    if (item == NULL) {
        return whim_fail(&e->diag, WHIM_ERR_NO_MEMORY, "no memory for a page");
    }
    for (int64_t i = 0; i < e->pages.n && err == WHIM_ERR_OK; i++) {
        const kv_page *page = &e->pages.v[i];
        const int32_t *tokens = e->pages.tokens + page->tokens_at;
        if (whim_disk_tier_get(tier, kind, &page->key, tokens, item)) {
            err = put_item(e, kind, &page->key, tokens, item);
        }
    }
    whim_free(item);
    return err;
}

static whim_err part_write(exporting *e)
{
    whim_disk_tier *tier;
    whim_err err = WHIM_ERR_OK;
    WHIM_TRY(part_open(e, &tier));
    for (int k = 0; k < WHIM_DISK_KINDS && err == WHIM_ERR_OK; k++) {
        whim_disk_kind kind = (whim_disk_kind)k;
        if (e->parts[e->part].item_bytes[k] > 0) {
            err = e->pages.n > 0 ? chosen_write(e, tier, kind)
                                 : whim_disk_tier_each(tier, kind, put_item, e, &e->diag);
        }
    }
    whim_disk_tier_close(tier);
    return err;
}

static whim_err all_write(exporting *e)
{
    const kv_model *m = e->model;
    WHIM_TRY(whim_archive_create(&e->archive, m->file, e->parts, m->n_part, &e->diag));
    whim_err err = WHIM_ERR_OK;
    for (e->part = 0; e->part < m->n_part && err == WHIM_ERR_OK; e->part++) {
        err = part_write(e);
    }
    if (err == WHIM_ERR_OK && e->parts[0].n[WHIM_DISK_PAGE] == 0) {
        err = whim_fail(&e->diag, WHIM_ERR_NOT_FOUND,
                        "%s has no pages of %s yet: a server writes them when it is idle and when "
                        "it ends, and \"whimbrel warm\" computes them",
                        m->dir, e->pages.n > 0 ? "these prompts" : "this model");
    }
    if (err == WHIM_ERR_OK) {
        err = whim_archive_finish(&e->archive, &e->diag);
    }
    if (err != WHIM_ERR_OK) {
        whim_archive_close(&e->archive);
    }
    return err;
}

int kv_export(kv_model *m)
{
    static exporting e;
    whim_str out = {0};
    e.model = m;
    e.archive.fd = -1;
    if (m->n_part > WHIM_ARCHIVE_PARTS) {
        return complain(EXIT_FAILED,
                        "pages of %d ranks cannot be exported, only those of at most %d", m->n_part,
                        WHIM_ARCHIVE_PARTS);
    }
    if (!parts_find(&e) ||
        (m->own.kv_prompts != NULL && !kv_pages_read(m, e.parts[0].page_len, &e.pages))) {
        kv_pages_deinit(&e.pages);
        return EXIT_FAILED;
    }
    whim_progress_init(&e.bar, &(whim_progress_cfg){.label = "exporting",
                                                    .bytes = true,
                                                    .delay_ns = WHIM_NS_PER_S,
                                                    .fd = STDERR_FILENO,
                                                    .mode = m->own.quiet ? WHIM_PROGRESS_QUIET
                                                                         : WHIM_PROGRESS_AUTO});
    whim_err err = all_write(&e);
    whim_progress_finish(&e.bar, err == WHIM_ERR_OK);
    int64_t n_wanted = e.pages.n;
    kv_pages_deinit(&e.pages);
    if (err != WHIM_ERR_OK) {
        return complain(EXIT_FAILED, "%s", e.diag.text);
    }
    kv_append_counts(&out, e.parts, m->n_part);
    if (n_wanted > e.parts[0].n[WHIM_DISK_PAGE]) {
        whim_str_printf(&out, " (of the %lld pages of these prompts; the others were not computed)",
                        (long long)n_wanted);
    }
    whim_str_printf(&out, ", to %s; it reveals what was said\n", m->file);
    bool ok = print_out(&out);
    whim_str_deinit(&out);
    return ok ? EXIT_OK : EXIT_FAILED;
}

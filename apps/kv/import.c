/* SPDX-License-Identifier: Apache-2.0 */
/* From the file to the folder. Each record is put as a server puts its own, within the limit. */
#include "base/clock.h"
#include "kv/disk_folder.h"
#include "kv/kv.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct importing {
    kv_model *model;
    whim_archive archive;
    whim_disk_tier *tiers[WHIM_ARCHIVE_PARTS];
    whim_progress bar;
    whim_diag diag;
} importing;

/* Ours, by the sizes that a server of this model has. Those of its other ranks are not known here,
 * but the tokens of a page are. */
static whim_err sizes_check(importing *in)
{
    const whim_engine *engine = whim_library_engine(in->model->model);
    const whim_exec_plan *plan = whim_engine_runner_plan(engine);
    const whim_archive_part *part = &in->archive.parts[0];
    int32_t page_len = whim_engine_limits(engine)->page_len;
    bool same = part->item_bytes[WHIM_DISK_PAGE] == plan->page_bytes &&
                part->item_bytes[WHIM_DISK_STATE] == plan->slot_bytes;
    for (int32_t i = 0; same && i < in->archive.n_part; i++) {
        part = &in->archive.parts[i];
        same = part->page_len == page_len;
    }
    if (same) {
        return WHIM_ERR_OK;
    }
    return whim_fail(&in->diag, WHIM_ERR_INVALID,
                     "%s has pages of %d tokens and %lld bytes and states of %lld, here they are "
                     "of %d, %lld and %lld: use the same version of whimbrel on both machines",
                     in->archive.path, part->page_len, (long long)part->item_bytes[WHIM_DISK_PAGE],
                     (long long)part->item_bytes[WHIM_DISK_STATE], page_len,
                     (long long)plan->page_bytes, (long long)plan->slot_bytes);
}

/* Whether the file is of this model, as this machine's server would have it. */
static whim_err names_check(importing *in)
{
    const kv_model *m = in->model;
    char own[WHIM_ARCHIVE_SPACE];
    whim_str why = {0};
    for (int32_t i = 0; i < in->archive.n_part && why.len == 0; i++) {
        kv_part_space(m, i < m->n_part ? i : 0, own);
        kv_difference(in->archive.parts[i].space, own, &why);
        if (why.len == 0 &&
            strcmp(in->archive.parts[i].space, own) != 0) { /* no export wrote that */
            whim_str_printf(&why, "the order of what they are named by");
        }
    }
    if (why.len == 0 && in->archive.n_part != m->n_part) {
        whim_str_printf(&why,
                        "the number of parts: %d in the file, %d here (give both the same "
                        "--tp, --cp, --dp and --ep)",
                        in->archive.n_part, m->n_part);
    }
    whim_err err = WHIM_ERR_OK;
    if (why.len > 0) {
        err = whim_fail(&in->diag, WHIM_ERR_INVALID,
                        "this model cannot use %s here; what differs: %s", in->archive.path,
                        whim_str_text(&why));
    }
    whim_str_deinit(&why);
    return err;
}

/* Of a page and a state. Those of other ranks are as the file says: any number. */
static int64_t record_sum_of(const whim_archive_part *part)
{
    int64_t bytes = 0;
    for (int k = 0; k < WHIM_DISK_KINDS; k++) {
        bytes += part->item_bytes[k] > 0
                     ? whim_disk_record_bytes(part->item_bytes[k], part->page_len)
                     : 0;
    }
    return bytes;
}

static int64_t all_records(const importing *in)
{
    int64_t all = 0;
    for (int32_t i = 0; i < in->model->n_part; i++) {
        all += record_sum_of(&in->archive.parts[i]);
    }
    return all;
}

/* Opening a tier makes room by removing the oldest files, whichever model wrote them. So what does
 * not fit is refused first. */
static whim_err room_check(importing *in)
{
    const kv_model *m = in->model;
    char bytes[2][32];
    int64_t needed = 0;
    int64_t limit = m->own.kv_dir_size > 0 ? m->own.kv_dir_size : whim_disk_folder_limit(m->dir);
    bool fits = true;
    for (int32_t i = 0; i < m->n_part; i++) {
        const whim_archive_part *part = &in->archive.parts[i];
        int64_t own = whim_archive_part_bytes(part);
        needed += own;
        fits = fits && own <= whim_disk_share(limit, record_sum_of(part), all_records(in));
    }
    if (limit == 0 || (fits && needed <= limit)) { /* 0: to open it tells more */
        return WHIM_ERR_OK;
    }
    whim_format_bytes(bytes[0], sizeof bytes[0], needed);
    whim_format_bytes(bytes[1], sizeof bytes[1], limit);
    return whim_fail(&in->diag, WHIM_ERR_INVALID,
                     "%s has %s of pages, and %s may take %s: allow more with --kv-dir-size, here "
                     "and for the server",
                     in->archive.path, bytes[0], m->dir, bytes[1]);
}

static whim_err tiers_open(importing *in)
{
    const kv_model *m = in->model;
    char about[256];
    snprintf(about, sizeof about, "%.250s\n", whimbrel_get_info(m->model)->name);
    for (int32_t i = 0; i < m->n_part; i++) {
        const whim_archive_part *part = &in->archive.parts[i];
        char text[sizeof about + WHIM_ARCHIVE_SPACE];
        snprintf(text, sizeof text, "%s%s", about, part->space);
        const whim_disk_tier_cfg cfg = {
            .dir = m->dir,
            .space = part->space,
            .about = text,
            .page_bytes = part->item_bytes[WHIM_DISK_PAGE],
            .state_bytes = part->item_bytes[WHIM_DISK_STATE],
            .page_len = part->page_len,
            .max_bytes = m->own.kv_dir_size,
            .part = record_sum_of(part),
            .parts = all_records(in),
        };
        whim_err err = whim_disk_tier_open(&cfg, &in->tiers[i], &in->diag);
        if (err == WHIM_ERR_BUSY) {
            char why[sizeof in->diag.text];
            memcpy(why, in->diag.text, sizeof why);
            return whim_fail(&in->diag, err,
                             "%s (a server of this model must end before an import, and finds the "
                             "pages when it starts again)",
                             why);
        }
        WHIM_TRY(err);
    }
    return WHIM_ERR_OK;
}

static whim_err put_item(importing *in, const whim_archive_item *item)
{
    whim_disk_tier *tier = in->tiers[item->part];
    while (!whim_disk_tier_put(tier, item->kind, &item->key, item->tokens, item->item)) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS); /* its queue is full */
    }
    whim_disk_tier_stats stats = whim_disk_tier_get_stats(tier);
    whim_progress_add(&in->bar, in->archive.parts[item->part].item_bytes[item->kind]);
    return stats.n_error == 0 ? WHIM_ERR_OK
                              : whim_fail(&in->diag, WHIM_ERR_IO,
                                          "%s: the disk is full or failed; what was written stays",
                                          in->model->dir);
}

/* All that waits is on the disk. */
static whim_err tiers_settle(importing *in)
{
    for (int32_t i = 0; i < in->model->n_part; i++) {
        whim_disk_tier_stats stats;
        while (stats = whim_disk_tier_get_stats(in->tiers[i]), stats.queued > 0) {
            whim_clock_sleep_ns(WHIM_NS_PER_MS);
        }
        if (stats.n_error > 0) {
            return whim_fail(&in->diag, WHIM_ERR_IO,
                             "%s: the disk is full or failed; what was written stays",
                             in->model->dir);
        }
    }
    return WHIM_ERR_OK;
}

/* The last pages of the file may have pushed out some of it that the folder had before. */
static whim_err all_check(importing *in)
{
    bool more = true;
    int64_t n_gone = 0;
    whim_archive_close(&in->archive);
    WHIM_TRY(whim_archive_open(&in->archive, in->model->file, &in->diag));
    while (more) {
        whim_archive_item item;
        WHIM_TRY(whim_archive_next(&in->archive, &item, &more, &in->diag));
        n_gone += more && !whim_disk_tier_has(in->tiers[item.part], item.kind, &item.key);
    }
    return n_gone == 0 ? WHIM_ERR_OK
                       : whim_fail(&in->diag, WHIM_ERR_FULL,
                                   "%lld pages and states of %s found no room in %s: "
                                   "--kv-dir-size, here and of the server, gives more",
                                   (long long)n_gone, in->archive.path, in->model->dir);
}

static whim_err all_read(importing *in)
{
    bool more = true;
    WHIM_TRY(whim_archive_open(&in->archive, in->model->file, &in->diag));
    WHIM_TRY(names_check(in));
    WHIM_TRY(sizes_check(in));
    WHIM_TRY(room_check(in));
    WHIM_TRY(tiers_open(in));
    while (more) {
        whim_archive_item item;
        WHIM_TRY(whim_archive_next(&in->archive, &item, &more, &in->diag));
        if (more) {
            WHIM_TRY(put_item(in, &item));
        }
    }
    WHIM_TRY(tiers_settle(in));
    return all_check(in);
}

int kv_import(kv_model *m)
{
    static importing in;
    whim_str out = {0};
    in.model = m;
    in.archive.fd = -1;
    whim_progress_init(&in.bar, &(whim_progress_cfg){.label = "importing",
                                                     .bytes = true,
                                                     .delay_ns = WHIM_NS_PER_S,
                                                     .fd = STDERR_FILENO,
                                                     .mode = m->own.quiet ? WHIM_PROGRESS_QUIET
                                                                          : WHIM_PROGRESS_AUTO});
    whim_err err = all_read(&in);
    whim_progress_finish(&in.bar, err == WHIM_ERR_OK);
    for (int32_t i = 0; i < WHIM_ARCHIVE_PARTS; i++) {
        whim_disk_tier_close(in.tiers[i]);
    }
    if (err == WHIM_ERR_OK) {
        kv_append_counts(&out, in.archive.parts, m->n_part);
        whim_str_printf(&out, ", to %s\n", m->dir);
    }
    whim_archive_close(&in.archive);
    bool ok = err == WHIM_ERR_OK ? print_out(&out) : complain(EXIT_FAILED, "%s", in.diag.text) == 0;
    whim_str_deinit(&out);
    return ok ? EXIT_OK : EXIT_FAILED;
}

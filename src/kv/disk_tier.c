/* SPDX-License-Identifier: Apache-2.0 */
/* The disk tier: index and files under one lock, and a thread that writes what is queued. The lock
 * is never held while something is written, nor while files are made and removed. */
#include "kv/disk_tier.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/heap/budget.h"
#include "kv/disk_tier_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_QUEUE (INT64_C(64) << 20)

static int64_t tokens_bytes(const whim_disk_tier *t)
{
    return t->cfg.page_len * (int64_t)sizeof(int32_t);
}

/* --- old files -------------------------------------------------------------------------------- */

static const whim_disk_segment *segment_find(const whim_disk_tier *t, int32_t number)
{
    for (int32_t i = 0; i < t->n_segment; i++) {
        if (t->segments[i].number == number) {
            return &t->segments[i];
        }
    }
    return NULL;
}

/* Take over an old file; a bad one is left to be the oldest, with a line in the log, and an empty
 * one goes. */
static void segment_adopt(whim_disk_tier *t, whim_disk_kind kind, int32_t number)
{
    whim_diag diag = {""};
    whim_disk_segment s;
    char name[32];
    bool torn = false;
    int32_t damaged = 0;
    whim_disk_segment_name(kind, number, name, sizeof name);
    if (t->n_segment == WHIM_DISK_SEGMENTS - 1) {
        return; /* somebody else's doing: more than the limit makes */
    }
    if (whim_disk_segment_open(&s, t->dir_fd, number, &t->forms[kind], t->cfg.read_only, &torn,
                               &diag) != WHIM_ERR_OK) {
        whim_log_warn(t->cfg.log, "kv_dir", whim_log_text("ignored", diag.text));
        return;
    }
    if (s.n_record == 0 && !t->cfg.read_only) {
        unlinkat(t->dir_fd, name, 0);
        whim_disk_segment_close(&s);
        return;
    }
    for (int32_t i = 0; i < s.n_record; i++) {
        whim_disk_place place = {.segment = number, .record = i};
        if (!whim_disk_segment_key(&s, i, &place.key) ||
            whim_disk_index_put(&t->index[kind], &place) != WHIM_ERR_OK) {
            damaged++;
        }
    }
    if (damaged > 0) {
        whim_log_warn(t->cfg.log, "kv_dir", whim_log_int("file", number),
                      whim_log_int("damaged_pages", damaged), whim_log_int("torn_end", torn));
    } else if (torn) { /* a kill leaves that; nothing is wrong */
        whim_log_debug(t->cfg.log, "kv_dir", whim_log_int("file", number),
                       whim_log_int("torn_end", torn));
    }
    t->segments[t->n_segment++] = s;
    t->bytes += whim_disk_segment_bytes(&s);
}

static int by_number(const void *a, const void *b)
{
    const whim_disk_segment *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

/* Numbers are given in order, to pages and states alike. */
static whim_err segments_adopt(whim_disk_tier *t, whim_diag *diag)
{
    whim_arena arena;
    char **names = NULL;
    int64_t n = 0;
    whim_disk_kind kind;
    whim_arena_init(&arena);
    char *path = whim_path_join(&arena, t->cfg.dir, t->space);
    whim_err err = whim_got(path != NULL, diag, "no memory for the disk tier");
    if (err == WHIM_ERR_OK) {
        err = whim_dir_list(&arena, path, &names, &n, diag);
    }
    for (int64_t i = 0; err == WHIM_ERR_OK && i < n; i++) {
        int32_t number = whim_disk_segment_number(names[i], &kind);
        if (number >= 0 && number < INT32_MAX) {
            /* also past files that are not ours */
            t->next_number = number >= t->next_number ? number + 1 : t->next_number;
            if (kind == WHIM_DISK_PAGE || t->cfg.state_bytes > 0) {
                segment_adopt(t, kind, number);
            }
        }
    }
    qsort(t->segments, (size_t)t->n_segment, sizeof *t->segments, by_number);
    whim_arena_reset(&arena);
    return err;
}

/* --- life ------------------------------------------------------------------------------------- */

/* For who looks into the folder, and for who wants to know which model it is of. */
static void about_write(const whim_disk_tier *t)
{
    const char *about = t->cfg.about != NULL ? t->cfg.about : t->cfg.space;
    char sizes[WHIM_DISK_SIZES];
    whim_disk_space_sizes(&(whim_disk_space){.page_len = t->cfg.page_len,
                                             .page_bytes = t->cfg.page_bytes,
                                             .state_bytes = t->cfg.state_bytes},
                          sizes);
    int fd = openat(t->dir_fd, WHIM_DISK_ABOUT,
                    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        (void)!write(fd, about, strlen(about));
        (void)!write(fd, sizes, strlen(sizes));
        (void)!write(fd, "\n", 1);
        close(fd);
    }
}

static whim_err limit_check(const whim_disk_tier *t, whim_diag *diag)
{
    int64_t least = 0;
    for (int k = 0; k < WHIM_DISK_KINDS; k++) {
        if (k == WHIM_DISK_PAGE || t->cfg.state_bytes > 0) {
            least += 2 * (whim_disk_tier_record(t, (whim_disk_kind)k) + 64);
        }
    }
    if (least <= t->own) {
        return WHIM_ERR_OK;
    }
    if (t->cfg.max_bytes > 0) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "--kv-dir-size %lld is too small for pages of %lld bytes",
                         (long long)t->cfg.max_bytes, (long long)(least / 2));
    }
    return whim_fail(diag, WHIM_ERR_INVALID,
                     "--kv-dir %s: a tenth of the free disk, %lld bytes, is too small for pages of "
                     "%lld bytes; --kv-dir-size gives them more",
                     t->cfg.dir, (long long)t->limit, (long long)(least / 2));
}

static whim_err tier_fill(whim_disk_tier *t, whim_diag *diag)
{
    WHIM_TRY(whim_disk_space_open(t->cfg.dir, t->space, t->cfg.lock_ns, &t->dir_fd,
                                  t->cfg.read_only ? NULL : &t->lock_fd, diag));
    WHIM_TRY(segments_adopt(t, diag));
    if (t->cfg.read_only) {
        return WHIM_ERR_OK;
    }
    about_write(t);
    pthread_mutex_lock(&t->lock);
    whim_disk_look(t);
    whim_err err = limit_check(t, diag);
    if (err == WHIM_ERR_OK) {
        (void)whim_disk_make_room(t, 0);
    }
    pthread_mutex_unlock(&t->lock);
    WHIM_TRY(err);
    WHIM_TRY(whim_thread_create(&t->thread, "kv-disk", whim_disk_write_all, t, diag));
    t->running = true;
    return WHIM_ERR_OK;
}

static int64_t queue_at_least(int64_t bytes, int64_t page_bytes, int64_t state_bytes,
                              int32_t page_len)
{
    int64_t least = 4 * whim_disk_record_bytes(page_bytes, page_len);
    least += state_bytes > 0 ? 2 * whim_disk_record_bytes(state_bytes, page_len) : 0;
    return bytes > least ? bytes : least;
}

int64_t whim_disk_queue_bytes(int64_t page_bytes, int64_t state_bytes, int32_t page_len,
                              int32_t n_rank)
{
    return queue_at_least(DEFAULT_QUEUE / n_rank, page_bytes, state_bytes, page_len);
}

static void space_choose(whim_disk_tier *t)
{
    whim_disk_form form = {.page_len = t->cfg.page_len};
    const whim_disk_space space = {.text = t->cfg.space,
                                   .page_len = t->cfg.page_len,
                                   .page_bytes = t->cfg.page_bytes,
                                   .state_bytes = t->cfg.state_bytes};
    whim_disk_space_sum(&space, form.space);
    whim_disk_space_name(form.space, t->space);
    for (int k = 0; k < WHIM_DISK_KINDS; k++) {
        t->forms[k] = form;
        t->forms[k].kind = (whim_disk_kind)k;
        t->forms[k].item_bytes = k == WHIM_DISK_PAGE ? t->cfg.page_bytes : t->cfg.state_bytes;
    }
}

whim_err whim_disk_tier_open(const whim_disk_tier_cfg *cfg, whim_disk_tier **out, whim_diag *diag)
{
    whim_disk_tier *t = whim_alloc(sizeof *t);
    WHIM_TRY(whim_got(t != NULL, diag, "no memory for the disk tier"));
    t->cfg = *cfg;
    t->cfg.queue_bytes = queue_at_least(cfg->queue_bytes > 0 ? cfg->queue_bytes : DEFAULT_QUEUE,
                                        cfg->page_bytes, cfg->state_bytes, cfg->page_len);
    space_choose(t);
    t->dir_fd = t->lock_fd = -1;
    pthread_mutex_init(&t->lock, NULL);
    whim_cond_init(&t->more);
    whim_err err = tier_fill(t, diag);
    if (err != WHIM_ERR_OK) {
        whim_disk_tier_close(t);
        return err;
    }
    *out = t;
    return WHIM_ERR_OK;
}

void whim_disk_tier_close(whim_disk_tier *t)
{
    if (t == NULL) {
        return;
    }
    if (t->running) {
        pthread_mutex_lock(&t->lock);
        t->closing = true;
        pthread_cond_signal(&t->more);
        pthread_mutex_unlock(&t->lock);
        whim_thread_join(&t->thread);
    }
    for (int32_t i = 0; i < t->n_segment; i++) {
        whim_disk_segment_close(&t->segments[i]);
    }
    for (int k = 0; k < WHIM_DISK_KINDS; k++) {
        whim_disk_index_deinit(&t->index[k]);
    }
    whim_file_close(t->dir_fd);
    whim_file_close(t->lock_fd); /* the lock goes with it */
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->more);
    whim_free(t);
}

/* --- items ------------------------------------------------------------------------------------ */

static const whim_disk_waiting *queue_find(const whim_disk_tier *t, whim_disk_kind kind,
                                           const whim_prefix_key *key)
{
    const whim_disk_waiting *w = t->first;
    while (w != NULL && (w->kind != kind || memcmp(&w->key, key, sizeof *key) != 0)) {
        w = w->next;
    }
    return w;
}

/* Whether an item lies in a file that will soon be dropped: one that is still in use is worth a new
 * copy. */
static bool is_going(const whim_disk_tier *t, const whim_disk_place *place)
{
    bool is_nearly_full =
        t->bytes > t->own / 4 * 3 || t->bytes + t->others.bytes > t->limit / 4 * 3;
    return is_nearly_full && t->n_segment > 2 &&
           place->segment <= t->segments[t->n_segment / 4].number;
}

/* Where an item lies; NULL: nowhere, or what lay there was damaged. */
static whim_disk_place *place_find(const whim_disk_tier *t, whim_disk_kind kind,
                                   const whim_prefix_key *key)
{
    whim_disk_place *place = whim_disk_index_find(&t->index[kind], key);
    return place != NULL && place->record >= 0 ? place : NULL;
}

static bool is_known(const whim_disk_tier *t, whim_disk_kind kind, const whim_prefix_key *key)
{
    const whim_disk_place *place = place_find(t, kind, key);
    return (place != NULL && !is_going(t, place)) || queue_find(t, kind, key) != NULL;
}

bool whim_disk_tier_knows(whim_disk_tier *t, whim_disk_kind kind, const whim_prefix_key *key)
{
    pthread_mutex_lock(&t->lock);
    bool known = is_known(t, kind, key);
    pthread_mutex_unlock(&t->lock);
    return known;
}

/* Whether an item is to be queued; *done is the answer of put where it is not. */
static bool is_wanted(whim_disk_tier *t, whim_disk_kind kind, const whim_prefix_key *key,
                      bool *done)
{
    pthread_mutex_lock(&t->lock);
    bool known = is_known(t, kind, key);
    bool paused = t->cfg.read_only || whim_clock_ns() < t->paused_ns;
    bool room = t->queued + whim_disk_tier_record(t, kind) <= t->cfg.queue_bytes;
    t->stats.n_dropped += !known && (paused || !room);
    pthread_mutex_unlock(&t->lock);
    *done = known || paused;
    return !known && !paused && room;
}

bool whim_disk_tier_put(whim_disk_tier *t, whim_disk_kind kind, const whim_prefix_key *key,
                        const int32_t *tokens, const void *item)
{
    int64_t item_bytes = t->forms[kind].item_bytes;
    bool done;
    if (!is_wanted(t, kind, key, &done)) {
        return done;
    }
    whim_disk_waiting *w = whim_alloc((int64_t)sizeof *w + tokens_bytes(t) + item_bytes);
    if (w == NULL) {
        return true; /* to try again would be in vain */
    }
    /* The plan has the queue's memory apart from that of requests. */
    whim_budget_count(-whim_disk_tier_record(t, kind));
    w->kind = kind;
    w->key = *key;
    memcpy(w->tokens, tokens, (size_t)tokens_bytes(t));
    w->item = memcpy(w->tokens + t->cfg.page_len, item, (size_t)item_bytes);
    pthread_mutex_lock(&t->lock);
    if (t->last != NULL) {
        t->last->next = w;
    } else {
        t->first = w;
    }
    t->last = w;
    t->queued += whim_disk_tier_record(t, kind);
    pthread_cond_signal(&t->more);
    pthread_mutex_unlock(&t->lock);
    return true;
}

bool whim_disk_tier_has(whim_disk_tier *t, whim_disk_kind kind, const whim_prefix_key *key)
{
    pthread_mutex_lock(&t->lock);
    bool has = queue_find(t, kind, key) != NULL || place_find(t, kind, key) != NULL;
    pthread_mutex_unlock(&t->lock);
    return has;
}

bool whim_disk_tier_get(whim_disk_tier *t, whim_disk_kind kind, const whim_prefix_key *key,
                        const int32_t *tokens, void *item)
{
    bool got = false;
    pthread_mutex_lock(&t->lock);
    const whim_disk_waiting *w = queue_find(t, kind, key);
    whim_disk_place *place = place_find(t, kind, key);
    if (w != NULL) {
        got = memcmp(w->tokens, tokens, (size_t)tokens_bytes(t)) == 0;
        if (got) {
            memcpy(item, w->item, (size_t)t->forms[kind].item_bytes);
        }
    } else if (place != NULL) {
        const whim_disk_segment *s = segment_find(t, place->segment);
        got = s != NULL && whim_disk_segment_read(s, place->record, key, tokens, item);
        if (!got) {
            place->record = -1; /* the next one that is put takes its place */
        }
    }
    t->stats.n_got += got;
    t->stats.n_refused += !got && (w != NULL || place != NULL);
    pthread_mutex_unlock(&t->lock);
    return got;
}

static whim_disk_tier_stats stats_of(const whim_disk_tier *t)
{
    whim_disk_tier_stats stats = t->stats;
    stats.n_page = t->index[WHIM_DISK_PAGE].n;
    stats.n_state = t->index[WHIM_DISK_STATE].n;
    stats.bytes = t->bytes;
    stats.queued = t->queued;
    stats.limit = t->limit;
    return stats;
}

whim_disk_tier_stats whim_disk_tier_get_stats(whim_disk_tier *t)
{
    pthread_mutex_lock(&t->lock);
    whim_disk_tier_stats stats = stats_of(t);
    pthread_mutex_unlock(&t->lock);
    return stats;
}

bool whim_disk_tier_try_stats(whim_disk_tier *t, whim_disk_tier_stats *out)
{
    if (pthread_mutex_trylock(&t->lock) != 0) {
        return false;
    }
    *out = stats_of(t);
    pthread_mutex_unlock(&t->lock);
    return true;
}

whim_err whim_disk_tier_each(whim_disk_tier *t, whim_disk_kind kind, whim_disk_item_fn *fn,
                             void *ctx, whim_diag *diag)
{
    whim_err err = WHIM_ERR_OK;
    int32_t *tokens = whim_alloc(tokens_bytes(t));
    void *item = whim_alloc(t->forms[kind].item_bytes + 1);
    if (tokens == NULL || item == NULL) {
        err = whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for a page");
    }
    for (int64_t i = 0; i < t->index[kind].size && err == WHIM_ERR_OK; i++) {
        const whim_disk_place *place = &t->index[kind].slots[i];
        const whim_disk_segment *s = place->segment < 0 ? NULL : segment_find(t, place->segment);
        whim_prefix_key key;
        if (s != NULL && whim_disk_segment_get(s, place->record, &key, tokens, item) &&
            memcmp(&key, &place->key, sizeof key) == 0) {
            err = fn(ctx, kind, &key, tokens, item);
        }
    }
    whim_free(tokens);
    whim_free(item);
    return err;
}

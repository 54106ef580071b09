/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that writes. Only it moves segments, so one that it works on stays where it is while
 * the lock is open. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/heap/budget.h"
#include "kv/disk_tier_inner.h"

#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* So many files share the limit: dropping the oldest frees a small part. */
enum { N_SEGMENT = 32 };

#define LOOK_NS WHIM_NS_PER_S         /* what others do is seen after so long, when writing */
#define IDLE_NS (60 * WHIM_NS_PER_S)  /* and else: a disk that others fill gets room back */
#define PAUSE_NS (10 * WHIM_NS_PER_S) /* after an error */

static void failed(whim_disk_tier *t, const char *what)
{
    int64_t held;
    t->stats.n_error++;
    t->paused_ns = whim_clock_ns() + (t->cfg.pause_ns > 0 ? t->cfg.pause_ns : PAUSE_NS);
    if (whim_log_allow(&t->quiet, 60 * WHIM_NS_PER_S, &held)) {
        whim_log_warn(t->cfg.log, "kv_dir", whim_log_text("error", what),
                      whim_log_int("errors", t->stats.n_error));
    }
}

/* --- what goes -------------------------------------------------------------------------------- */

/* What was put into a file since it was opened, and has no newer copy. */
static int64_t count_new(const whim_disk_tier *t, const whim_disk_segment *s)
{
    const whim_disk_index *index = &t->index[s->form.kind];
    int64_t n = 0;
    for (int64_t i = 0; i < index->size; i++) {
        n += index->slots[i].segment == s->number && index->slots[i].record >= s->n_old;
    }
    return n;
}

/* Forget a file, which is the caller's then. */
static whim_disk_segment segment_forget(whim_disk_tier *t, int32_t at)
{
    whim_disk_segment gone = t->segments[at];
    t->stats.n_lost += count_new(t, &gone);
    t->bytes -= whim_disk_segment_bytes(&gone);
    if (whim_disk_index_drop_segment(&t->index[gone.form.kind], gone.number) != WHIM_ERR_OK) {
        t->stats.n_error++; /* entries that lead nowhere are found out when they are read */
    }
    memmove(t->segments + at, t->segments + at + 1,
            (size_t)(--t->n_segment - at) * sizeof *t->segments);
    return gone;
}

static void segment_drop(whim_disk_tier *t, int32_t at)
{
    char name[32];
    whim_disk_segment gone = segment_forget(t, at);
    pthread_mutex_unlock(&t->lock);
    whim_disk_segment_name(gone.form.kind, gone.number, name, sizeof name);
    unlinkat(t->dir_fd, name, 0);
    whim_disk_segment_close(&gone);
    pthread_mutex_lock(&t->lock);
}

static int64_t written_ns(const whim_disk_segment *s)
{
    struct stat st;
    return fstat(s->fd, &st) == 0 ? st.st_mtim.tv_sec * WHIM_NS_PER_S + st.st_mtim.tv_nsec : 0;
}

/* Files that another process removed, because they were the oldest, take room until they are
 * closed. */
static void removed_forget(whim_disk_tier *t)
{
    for (int32_t i = t->n_segment - 1; i >= 0; i--) {
        struct stat st;
        if (fstat(t->segments[i].fd, &st) == 0 && st.st_nlink == 0) {
            whim_disk_segment gone = segment_forget(t, i);
            whim_disk_segment_close(&gone);
        }
    }
}

int64_t whim_disk_share(int64_t limit, int64_t part, int64_t parts)
{
    return parts > 0 ? (int64_t)((__int128)limit * part / parts) : limit;
}

void whim_disk_look(whim_disk_tier *t)
{
    int64_t used = t->bytes;
    pthread_mutex_unlock(&t->lock);
    whim_disk_others others = whim_disk_folder_others(t->cfg.dir, t->space);
    int64_t limit = t->cfg.max_bytes > 0 ? t->cfg.max_bytes
                                         : whim_disk_folder_default(t->dir_fd, used + others.bytes);
    pthread_mutex_lock(&t->lock);
    removed_forget(t);
    t->others = others;
    t->limit = limit;
    t->own = whim_disk_share(limit, t->cfg.part, t->cfg.parts);
    t->looked_ns = whim_clock_ns();
}

bool whim_disk_make_room(whim_disk_tier *t, int64_t n)
{
    if (t->looked_ns == 0 || whim_clock_ns() - t->looked_ns > LOOK_NS) {
        whim_disk_look(t);
    }
    for (;;) {
        bool all_fits = t->bytes + t->others.bytes + n <= t->limit;
        if (all_fits && t->bytes + n <= t->own) {
            return true;
        }
        bool has_others = !all_fits && t->others.oldest.name[0] != '\0';
        if (has_others &&
            (t->n_segment == 0 || t->others.oldest.written_ns < written_ns(&t->segments[0]))) {
            whim_disk_file oldest = t->others.oldest;
            pthread_mutex_unlock(&t->lock);
            whim_disk_folder_remove(t->cfg.dir, &oldest);
            pthread_mutex_lock(&t->lock);
            int64_t before = t->others.bytes;
            whim_disk_look(t);
            if (t->others.bytes >= before) { /* it cannot be removed: it is not ours */
                return false;
            }
        } else if (t->n_segment > 0) {
            segment_drop(t, 0);
        } else {
            return false;
        }
    }
}

/* --- writing ---------------------------------------------------------------------------------- */

static whim_disk_segment *segment_begin(whim_disk_tier *t, whim_disk_kind kind)
{
    whim_diag diag = {""};
    whim_disk_segment made;
    int32_t number = t->next_number++;
    pthread_mutex_unlock(&t->lock);
    whim_err err = whim_disk_segment_create(&made, t->dir_fd, number, &t->forms[kind], &diag);
    pthread_mutex_lock(&t->lock);
    if (err != WHIM_ERR_OK) {
        failed(t, diag.text);
        return NULL;
    }
    t->segments[t->n_segment++] = made;
    t->bytes += whim_disk_segment_bytes(&made);
    return &t->segments[t->n_segment - 1];
}

/* The newest file of a kind. */
static whim_disk_segment *segment_last(whim_disk_tier *t, whim_disk_kind kind)
{
    for (int32_t i = t->n_segment - 1; i >= 0; i--) {
        if (t->segments[i].form.kind == kind) {
            return &t->segments[i];
        }
    }
    return NULL;
}

/* The file to write to, with room for one more record within the limit; NULL when there is none. */
static whim_disk_segment *segment_for_writing(whim_disk_tier *t, whim_disk_kind kind)
{
    int64_t each = whim_disk_tier_record(t, kind);
    if (!whim_disk_make_room(t, each + 64)) {
        failed(t, "the disk is nearly full: a page was not kept");
        return NULL;
    }
    whim_disk_segment *last = segment_last(t, kind);
    if (last != NULL && last->n_record < INT32_MAX &&
        (last->n_record == 0 || whim_disk_segment_bytes(last) + each <= t->own / N_SEGMENT)) {
        return last;
    }
    if (t->n_segment == WHIM_DISK_SEGMENTS) {
        segment_drop(t, 0);
    }
    return segment_begin(t, kind);
}

static void item_write(whim_disk_tier *t, const whim_disk_waiting *w)
{
    whim_disk_segment *s = segment_for_writing(t, w->kind);
    if (s == NULL) {
        return;
    }
    whim_disk_segment copy = *s;
    pthread_mutex_unlock(&t->lock);
    whim_err err = whim_disk_segment_add(&copy, &w->key, w->tokens, w->item);
    pthread_mutex_lock(&t->lock);
    if (err != WHIM_ERR_OK) {
        failed(t, err == WHIM_ERR_FULL ? "the disk is full: a page was not kept"
                                       : "a page could not be written");
        if (s->n_record == 0) {
            segment_drop(t, (int32_t)(s - t->segments));
        }
        return;
    }
    whim_disk_place place = {.key = w->key, .segment = s->number, .record = copy.n_record - 1};
    t->bytes += whim_disk_tier_record(t, w->kind);
    s->n_record = copy.n_record;
    t->stats.n_put++;
    if (whim_disk_index_put(&t->index[w->kind], &place) != WHIM_ERR_OK) {
        failed(t, "out of memory");
    }
}

/* What waited when the disk failed is dropped with it. */
static void first_write(whim_disk_tier *t)
{
    whim_disk_waiting *w = t->first;
    if (t->paused_ns == 0 || whim_clock_ns() >= t->paused_ns) {
        item_write(t, w);
    } else {
        t->stats.n_dropped++;
    }
    t->first = w->next;
    t->last = t->first == NULL ? NULL : t->last;
    t->queued -= whim_disk_tier_record(t, w->kind);
    whim_budget_count(whim_disk_tier_record(t, w->kind)); /* as was taken off when it was put */
    whim_free(w);
}

void whim_disk_write_all(void *tier)
{
    whim_disk_tier *t = tier;
    pthread_mutex_lock(&t->lock);
    for (;;) {
        if (t->first != NULL) {
            first_write(t);
        } else if (t->closing) {
            break;
        } else {
            struct timespec until = whim_clock_after(IDLE_NS);
            pthread_cond_timedwait(&t->more, &t->lock, &until);
            if (t->first == NULL && whim_clock_ns() - t->looked_ns > IDLE_NS / 2) {
                (void)whim_disk_make_room(t, 0);
            }
        }
    }
    pthread_mutex_unlock(&t->lock);
}

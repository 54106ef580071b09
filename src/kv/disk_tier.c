/* SPDX-License-Identifier: Apache-2.0 */
/* The disk tier: index and files under one lock, and a thread that writes what is queued. The lock
 * is never held while something is written, nor while files are made and removed. */
#include "kv/disk_tier.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "kv/disk_index.h"
#include "kv/disk_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* So many files share max_bytes: dropping the oldest frees an eighth. */
enum { N_SEGMENT = 8, MAX_SEGMENTS = 64 };
#define DEFAULT_QUEUE (INT64_C(64) << 20)
#define SPACE_SEED UINT64_C(0x57484d)

/* A page that waits to be written. */
typedef struct waiting {
    struct waiting *next;
    whim_prefix_key key;
    const char *page;
    int32_t tokens[]; /* and the page behind them */
} waiting;

struct whim_disk_tier {
    whim_disk_tier_cfg cfg;
    uint64_t space;
    int dir_fd, lock_fd;
    int32_t segment_records; /* a file holds no more */
    whim_thread thread;
    bool running;
    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t more;
    waiting *first, *last; /* the first is being written */
    int64_t queued;
    bool closing;
    whim_disk_index index;
    whim_disk_segment segments[MAX_SEGMENTS]; /* oldest first; the last may be written to */
    int32_t n_segment, next_number;
    bool last_is_ours; /* the last segment was made by this process */
    int64_t bytes;
    whim_disk_tier_stats stats;
    whim_log_limit quiet;
};

static int64_t record_bytes(const whim_disk_tier *t)
{
    return whim_disk_record_bytes(t->cfg.page_bytes, t->cfg.page_len);
}

static int64_t tokens_bytes(const whim_disk_tier *t)
{
    return t->cfg.page_len * (int64_t)sizeof(int32_t);
}

/* --- files ------------------------------------------------------------------------------------ */

/* Forget the oldest file, which is the caller's then. */
static whim_disk_segment segment_forget(whim_disk_tier *t)
{
    whim_disk_segment oldest = t->segments[0];
    t->bytes -= whim_disk_segment_bytes(&oldest);
    if (whim_disk_index_drop_segment(&t->index, oldest.number) != WHIM_ERR_OK) {
        t->stats.n_error++; /* entries that lead nowhere are found out when they are read */
    }
    memmove(t->segments, t->segments + 1, (size_t)(--t->n_segment) * sizeof *t->segments);
    return oldest;
}

static void segment_remove(const whim_disk_tier *t, whim_disk_segment *s)
{
    char name[32];
    whim_disk_segment_name(s->number, name, sizeof name);
    unlinkat(t->dir_fd, name, 0);
    whim_disk_segment_close(s);
}

/* Before anybody else knows of it. */
static void segment_drop(whim_disk_tier *t)
{
    whim_disk_segment oldest = segment_forget(t);
    segment_remove(t, &oldest);
}

static whim_disk_segment *segment_find(whim_disk_tier *t, int32_t number)
{
    for (int32_t i = 0; i < t->n_segment; i++) {
        if (t->segments[i].number == number) {
            return &t->segments[i];
        }
    }
    return NULL;
}

/* Take over an old file; a bad one is left where it is, with a line in the log. */
static void segment_adopt(whim_disk_tier *t, int32_t number)
{
    whim_diag diag = {""};
    whim_disk_segment s;
    bool torn = false;
    int32_t damaged = 0;
    if (t->n_segment == MAX_SEGMENTS - 1) {
        segment_drop(t);
    }
    if (whim_disk_segment_open(&s, t->dir_fd, number, t->space, t->cfg.page_bytes, t->cfg.page_len,
                               &torn, &diag) != WHIM_ERR_OK) {
        whim_log_warn(t->cfg.log, "kv_dir", whim_log_text("ignored", diag.text));
        return;
    }
    for (int32_t i = 0; i < s.n_record; i++) {
        whim_disk_place place = {.segment = number, .record = i};
        if (!whim_disk_segment_key(&s, i, &place.key) ||
            whim_disk_index_put(&t->index, &place) != WHIM_ERR_OK) {
            damaged++;
        }
    }
    if (torn || damaged > 0) {
        whim_log_warn(t->cfg.log, "kv_dir", whim_log_int("file", number),
                      whim_log_int("damaged_pages", damaged), whim_log_int("torn_end", torn));
    }
    t->segments[t->n_segment++] = s;
    t->bytes += whim_disk_segment_bytes(&s);
}

/* Old files in the order of their numbers, which is that of their names. */
static whim_err segments_adopt(whim_disk_tier *t, const char *path, whim_diag *diag)
{
    whim_arena arena;
    char **names = NULL;
    int64_t n = 0;
    whim_arena_init(&arena);
    whim_err err = whim_dir_list(&arena, path, &names, &n, diag);
    for (int64_t i = 0; err == WHIM_ERR_OK && i < n; i++) {
        int32_t number = whim_disk_segment_number(names[i]);
        if (number >= 0 && number < INT32_MAX) {
            t->next_number = number + 1; /* also past files that are not ours */
            segment_adopt(t, number);
        }
    }
    whim_arena_reset(&arena);
    return err;
}

static void failed(whim_disk_tier *t, const char *what)
{
    int64_t held;
    t->stats.n_error++;
    if (whim_log_allow(&t->quiet, INT64_C(60) * 1000 * 1000 * 1000, &held)) {
        whim_log_warn(t->cfg.log, "kv_dir", whim_log_text("error", what),
                      whim_log_int("errors", t->stats.n_error));
    }
}

/* Called and returns under the lock, as what follows. */
static void oldest_drop(whim_disk_tier *t)
{
    whim_disk_segment oldest = segment_forget(t);
    pthread_mutex_unlock(&t->lock);
    segment_remove(t, &oldest);
    pthread_mutex_lock(&t->lock);
}

static whim_disk_segment *segment_begin(whim_disk_tier *t)
{
    whim_diag diag = {""};
    whim_disk_segment made;
    int32_t number = t->next_number++;
    pthread_mutex_unlock(&t->lock);
    whim_err err = whim_disk_segment_create(&made, t->dir_fd, number, t->space, t->cfg.page_bytes,
                                            t->cfg.page_len, &diag);
    pthread_mutex_lock(&t->lock);
    if (err != WHIM_ERR_OK) {
        failed(t, diag.text);
        return NULL;
    }
    t->segments[t->n_segment++] = made;
    t->last_is_ours = true;
    t->bytes += whim_disk_segment_bytes(&made);
    return &t->segments[t->n_segment - 1];
}

/* The file to write to, with room for one more record within the limit; NULL when there is none. */
static whim_disk_segment *segment_for_writing(whim_disk_tier *t)
{
    int64_t each = record_bytes(t);
    whim_disk_segment *last = t->n_segment > 0 ? &t->segments[t->n_segment - 1] : NULL;
    bool fresh = last == NULL || !t->last_is_ours || last->n_record >= t->segment_records;
    while (t->n_segment > (fresh ? 0 : 1) && t->bytes + each + 64 > t->cfg.max_bytes) {
        oldest_drop(t);
    }
    if (!fresh) {
        return &t->segments[t->n_segment - 1];
    }
    if (t->n_segment == MAX_SEGMENTS) {
        oldest_drop(t);
    }
    return segment_begin(t);
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Write the first of the queue. The lock is open while the disk works: only this thread moves
 * segments, so the one that it writes to stays. */
static void write_first(whim_disk_tier *t)
{
    waiting *w = t->first;
    whim_disk_segment *s = segment_for_writing(t);
    if (s != NULL) {
        whim_disk_segment copy = *s;
        pthread_mutex_unlock(&t->lock);
        whim_err err = whim_disk_segment_add(&copy, &w->key, w->tokens, w->page);
        pthread_mutex_lock(&t->lock);
        if (err != WHIM_ERR_OK) {
            failed(t, "a page could not be written");
            t->last_is_ours = false; /* do not trust the file's end again */
        } else {
            whim_disk_place place = {
                .key = w->key, .segment = s->number, .record = copy.n_record - 1};
            t->bytes += record_bytes(t);
            s->n_record = copy.n_record;
            t->stats.n_put++;
            if (whim_disk_index_put(&t->index, &place) != WHIM_ERR_OK) {
                failed(t, "out of memory");
            }
        }
    }
    t->first = w->next;
    t->last = t->first == NULL ? NULL : t->last;
    t->queued -= record_bytes(t);
    whim_free(w);
}

static void writer(void *ctx)
{
    whim_disk_tier *t = ctx;
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (t->first == NULL && !t->closing) {
            pthread_cond_wait(&t->more, &t->lock);
        }
        if (t->first == NULL) {
            break;
        }
        write_first(t);
    }
    pthread_mutex_unlock(&t->lock);
}

/* --- life ------------------------------------------------------------------------------------- */

/* Whoever has it may be about to end. */
static bool lock_take(const whim_disk_tier *t)
{
    int64_t until = whim_clock_ns() + t->cfg.lock_ns;
    bool taken = flock(t->lock_fd, LOCK_EX | LOCK_NB) == 0;
    while (!taken && whim_clock_ns() < until) {
        whim_clock_sleep_ns(10 * WHIM_NS_PER_MS);
        taken = flock(t->lock_fd, LOCK_EX | LOCK_NB) == 0;
    }
    return taken;
}

static whim_err folder_open(whim_disk_tier *t, char *path, int64_t n, whim_diag *diag)
{
    if (mkdir(t->cfg.dir, 0700) != 0 && errno != EEXIST) {
        return whim_fail(diag, WHIM_ERR_IO, "--kv-dir %s: %s", t->cfg.dir, strerror(errno));
    }
    t->space = whim_disk_sum(SPACE_SEED, t->cfg.space, (int64_t)strlen(t->cfg.space));
    if (snprintf(path, (size_t)n, "%s/%016llx", t->cfg.dir, (unsigned long long)t->space) >= n) {
        return whim_fail(diag, WHIM_ERR_INVALID, "--kv-dir %s: the name is too long", t->cfg.dir);
    }
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return whim_fail(diag, WHIM_ERR_IO, "%s: %s", path, strerror(errno));
    }
    t->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (t->dir_fd < 0) {
        return whim_fail(diag, WHIM_ERR_IO, "%s: %s", path, strerror(errno));
    }
    t->lock_fd = openat(t->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (t->lock_fd < 0 || !lock_take(t)) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%s is in use by another whimbrel with this model; give this one another "
                         "--kv-dir",
                         path);
    }
    return WHIM_ERR_OK;
}

static whim_err tier_fill(whim_disk_tier *t, whim_diag *diag)
{
    char path[4096];
    if (2 * record_bytes(t) > t->cfg.max_bytes) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "--kv-dir-size %lld is too small for pages of %lld bytes",
                         (long long)t->cfg.max_bytes, (long long)t->cfg.page_bytes);
    }
    WHIM_TRY(folder_open(t, path, sizeof path, diag));
    WHIM_TRY(segments_adopt(t, path, diag));
    while (t->n_segment > 0 && t->bytes > t->cfg.max_bytes) {
        segment_drop(t);
    }
    WHIM_TRY(whim_thread_create(&t->thread, "kv-disk", writer, t, diag));
    t->running = true;
    return WHIM_ERR_OK;
}

static int64_t queue_at_least(int64_t bytes, int64_t page_bytes, int32_t page_len)
{
    int64_t least = 4 * whim_disk_record_bytes(page_bytes, page_len);
    return bytes > least ? bytes : least;
}

int64_t whim_disk_queue_bytes(int64_t page_bytes, int32_t page_len, int32_t n_rank)
{
    return queue_at_least(DEFAULT_QUEUE / n_rank, page_bytes, page_len);
}

whim_err whim_disk_tier_open(const whim_disk_tier_cfg *cfg, whim_disk_tier **out, whim_diag *diag)
{
    whim_disk_tier *t = whim_alloc(sizeof *t);
    WHIM_TRY(whim_got(t != NULL, diag, "no memory for the disk tier"));
    t->cfg = *cfg;
    t->cfg.max_bytes = cfg->max_bytes > 0 ? cfg->max_bytes : WHIM_DISK_DEFAULT_BYTES;
    t->cfg.queue_bytes = queue_at_least(cfg->queue_bytes > 0 ? cfg->queue_bytes : DEFAULT_QUEUE,
                                        cfg->page_bytes, cfg->page_len);
    int64_t records = t->cfg.max_bytes / N_SEGMENT / record_bytes(t);
    t->segment_records = records < 1 ? 1 : records > INT32_MAX ? INT32_MAX : (int32_t)records;
    t->dir_fd = t->lock_fd = -1;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->more, NULL);
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
    whim_disk_index_deinit(&t->index);
    whim_file_close(t->dir_fd);
    whim_file_close(t->lock_fd); /* the lock goes with it */
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->more);
    whim_free(t);
}

/* --- pages ------------------------------------------------------------------------------------ */

static const waiting *queue_find(const whim_disk_tier *t, const whim_prefix_key *key)
{
    const waiting *w = t->first;
    while (w != NULL && memcmp(&w->key, key, sizeof *key) != 0) {
        w = w->next;
    }
    return w;
}

/* Whether a page lies in a file that will soon be dropped: a page that is still in use is worth a
 * new copy. */
static bool is_going(const whim_disk_tier *t, const whim_disk_place *place)
{
    return t->bytes > t->cfg.max_bytes / 4 * 3 && t->n_segment > 2 &&
           place->segment <= t->segments[t->n_segment / 4].number;
}

/* Where a page lies; NULL: nowhere, or what lay there was damaged. */
static whim_disk_place *place_find(const whim_disk_tier *t, const whim_prefix_key *key)
{
    whim_disk_place *place = whim_disk_index_find(&t->index, key);
    return place != NULL && place->record >= 0 ? place : NULL;
}

/* Under the lock. */
static bool is_known(whim_disk_tier *t, const whim_prefix_key *key)
{
    const whim_disk_place *place = place_find(t, key);
    return (place != NULL && !is_going(t, place)) || queue_find(t, key) != NULL;
}

bool whim_disk_tier_knows(whim_disk_tier *t, const whim_prefix_key *key)
{
    pthread_mutex_lock(&t->lock);
    bool known = is_known(t, key);
    pthread_mutex_unlock(&t->lock);
    return known;
}

bool whim_disk_tier_put(whim_disk_tier *t, const whim_prefix_key *key, const int32_t *tokens,
                        const void *page)
{
    int64_t each = record_bytes(t);
    pthread_mutex_lock(&t->lock);
    bool known = is_known(t, key);
    bool room = t->queued + each <= t->cfg.queue_bytes;
    t->stats.n_dropped += !known && !room;
    pthread_mutex_unlock(&t->lock);
    if (known || !room) {
        return known;
    }
    waiting *w = whim_alloc((int64_t)sizeof *w + tokens_bytes(t) + t->cfg.page_bytes);
    if (w == NULL) {
        return true; /* to try again would be in vain */
    }
    w->key = *key;
    memcpy(w->tokens, tokens, (size_t)tokens_bytes(t));
    w->page = memcpy(w->tokens + t->cfg.page_len, page, (size_t)t->cfg.page_bytes);
    pthread_mutex_lock(&t->lock);
    if (t->last != NULL) {
        t->last->next = w;
    } else {
        t->first = w;
    }
    t->last = w;
    t->queued += each;
    pthread_cond_signal(&t->more);
    pthread_mutex_unlock(&t->lock);
    return true;
}

bool whim_disk_tier_has(whim_disk_tier *t, const whim_prefix_key *key)
{
    pthread_mutex_lock(&t->lock);
    bool has = queue_find(t, key) != NULL || place_find(t, key) != NULL;
    pthread_mutex_unlock(&t->lock);
    return has;
}

bool whim_disk_tier_get(whim_disk_tier *t, const whim_prefix_key *key, const int32_t *tokens,
                        void *page)
{
    bool got = false;
    pthread_mutex_lock(&t->lock);
    const waiting *w = queue_find(t, key);
    whim_disk_place *place = place_find(t, key);
    if (w != NULL) {
        got = memcmp(w->tokens, tokens, (size_t)tokens_bytes(t)) == 0;
        if (got) {
            memcpy(page, w->page, (size_t)t->cfg.page_bytes);
        }
    } else if (place != NULL) {
        const whim_disk_segment *s = segment_find(t, place->segment);
        got = s != NULL && whim_disk_segment_read(s, place->record, key, tokens, page);
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
    stats.n_page = t->index.n;
    stats.bytes = t->bytes;
    stats.queued = t->queued;
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

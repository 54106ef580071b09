/* SPDX-License-Identifier: Apache-2.0 */
/* Every rank does the same with its part: the leader after it has told the others, they when they
 * are told. */
#include "runner/page_store.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/comm.h"
#include "kv/disk_segment.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A disk may keep a rank much longer than a step does; one that is dead is noticed otherwise. */
#define OPEN_NS (600 * WHIM_NS_PER_S) /* reads the heads of all pages */
#define PAGE_NS (60 * WHIM_NS_PER_S)  /* a slow disk is no lost rank */
#define LOCK_NS (5 * WHIM_NS_PER_S)   /* followers of a leader that was killed end by themselves */
#define FLUSH_NS (60 * WHIM_NS_PER_S) /* for the disks, at the end */

#define NO_PART "a rank cannot open its part of the pages"

enum { N_DIGIT = 4, DIGIT_BITS = 12 }; /* sums of so many bits are exact for all ranks */

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int32_t n_rank_of(whim_exec *x)
{
    const whim_comm *comm = whim_exec_cfg_of(x)->comm;
    return comm != NULL ? comm->n_rank : 1;
}

/* Of several groups the first keeps what all have. */
static bool keeps(whim_exec *x)
{
    return whim_exec_group(whim_exec_cfg_of(x)) == 0;
}

static bool is_own(whim_exec *x, const whim_store_page *p)
{
    return whim_exec_group(whim_exec_cfg_of(x)) == p->group;
}

static whim_err tell(whim_exec *x, whim_letter_kind kind, const void *words, int64_t bytes,
                     whim_diag *diag)
{
    return whim_ranks_tell(whim_exec_ranks(x), kind, false, words, bytes / (int64_t)sizeof(int32_t),
                           diag);
}

/* What the leader began is not ended: nobody knows what the others did. */
static void failed(whim_exec *x, const char *why)
{
    whim_ranks_failed(whim_exec_ranks(x), why);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Bytes of all ranks' records of a page. */
static whim_err parts_sum(whim_exec *x, int64_t own, int64_t *all, whim_diag *diag)
{
    float digits[N_DIGIT];
    for (int32_t i = 0; i < N_DIGIT; i++) {
        digits[i] = (float)((own >> (DIGIT_BITS * i)) & ((1 << DIGIT_BITS) - 1));
    }
    whim_err err = whim_exec_sum(x, digits, N_DIGIT, OPEN_NS);
    if (err != WHIM_ERR_OK) {
        return whim_fail(diag, err, "--kv-dir: %s", whim_exec_cfg_of(x)->comm->diag.text);
    }
    *all = 0;
    for (int32_t i = 0; i < N_DIGIT; i++) {
        *all += (int64_t)digits[i] << (DIGIT_BITS * i);
    }
    return WHIM_ERR_OK;
}

/* A record of each kind: limits are shared out by these, so that all have as many pages. */
static int64_t part_bytes(int64_t page_bytes, int64_t state_bytes, int32_t page_len)
{
    int64_t bytes = whim_disk_record_bytes(page_bytes, page_len);
    return bytes + (state_bytes > 0 ? whim_disk_record_bytes(state_bytes, page_len) : 0);
}

static whim_err part_open(whim_exec *x, whim_page_store *st, whim_diag *diag)
{
    const whim_exec_cfg *cfg = whim_exec_cfg_of(x);
    int64_t page_bytes = whim_exec_plan_of(x)->page_bytes;
    int64_t state_bytes = whim_exec_plan_of(x)->slot_bytes;
    int64_t part = keeps(x) ? part_bytes(page_bytes, state_bytes, cfg->page_len) : 0;
    int32_t n_rank = whim_exec_group_ranks(cfg);
    WHIM_TRY(parts_sum(x, part, &st->parts_bytes, diag));
    if (st->tier != NULL) { /* the leader's, which others join */
        return WHIM_ERR_OK;
    }
    if (st->order.max_bytes > 0 && 2 * st->parts_bytes > st->order.max_bytes) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "--kv-dir-size %lld is too small for pages of %lld bytes",
                         (long long)st->order.max_bytes, (long long)st->parts_bytes);
    }
    int64_t most = page_bytes > state_bytes ? page_bytes : state_bytes;
    st->item = st->item != NULL ? st->item : whim_alloc(most > 0 ? most : 1);
    WHIM_TRY(whim_got(st->item != NULL, diag, "no memory for a page"));
    if (!keeps(x)) {
        return WHIM_ERR_OK;
    }
    snprintf(st->space, sizeof st->space, "%s", st->order.space);
    if (n_rank > 1) {
        size_t used = strlen(st->space);
        snprintf(st->space + used, sizeof st->space - used, ", rank %d of %d", cfg->comm->rank,
                 n_rank);
    }
    snprintf(st->about, sizeof st->about, "%s\n%s", st->order.about, st->space);
    bool follows = whim_exec_ranks(x)->follows;
    whim_disk_tier_cfg tier = {
        .dir = follows && cfg->kv_dir != NULL ? cfg->kv_dir : st->order.dir,
        .space = st->space,
        .about = st->about,
        .page_bytes = page_bytes,
        .state_bytes = state_bytes,
        .page_len = cfg->page_len,
        .max_bytes = st->order.max_bytes,
        .part = part,
        .parts = st->parts_bytes,
        .queue_bytes = whim_disk_queue_bytes(page_bytes, state_bytes, cfg->page_len, n_rank_of(x)),
        .lock_ns = follows ? LOCK_NS : 0,
        .log = st->log,
    };
    return whim_disk_tier_open(&tier, &st->tier, diag);
}

/* Tell others to open theirs, and open this one. */
static whim_err parts_open(whim_exec *x, whim_page_store *st, whim_diag *diag)
{
    WHIM_TRY(tell(x, WHIM_LETTER_STORE_OPEN, &st->order, sizeof st->order, diag));
    whim_err err = part_open(x, st, diag);
    float lacking = err != WHIM_ERR_OK;
    whim_err voted = whim_exec_sum(x, &lacking, 1, OPEN_NS);
    if (err != WHIM_ERR_OK && (st->order.is_first || voted != WHIM_ERR_OK)) {
        failed(x, diag->text);
        return err;
    }
    if (voted == WHIM_ERR_OK && lacking > 0 && st->order.is_first) {
        voted = whim_exec_sum(x, &lacking, 1, OPEN_NS); /* which ends with that rank's reason */
    }
    if (voted != WHIM_ERR_OK) {
        return whim_fail(diag, voted, "%s", whim_exec_cfg_of(x)->comm->diag.text);
    }
    st->is_off = err != WHIM_ERR_OK || lacking > 0; /* alone, nobody sums up */
    return WHIM_ERR_OK;
}

static whim_err order_make(whim_store_order *order, const whim_page_store_cfg *cfg, whim_diag *diag)
{
    *order = (whim_store_order){
        .max_bytes = cfg->max_bytes,
        .is_first = !cfg->may_fail,
        .is_json = cfg->log != NULL && cfg->log->is_json,
        .is_journal = cfg->log != NULL && cfg->log->is_journal,
    };
    if (strlen(cfg->dir) >= sizeof order->dir || strlen(cfg->space) >= sizeof order->space) {
        return whim_fail(diag, WHIM_ERR_INVALID, "--kv-dir %s: the name is too long", cfg->dir);
    }
    snprintf(order->dir, sizeof order->dir, "%s", cfg->dir);
    snprintf(order->space, sizeof order->space, "%s", cfg->space);
    snprintf(order->about, sizeof order->about, "%s", cfg->about != NULL ? cfg->about : "");
    return WHIM_ERR_OK;
}

whim_err whim_exec_store_open(whim_exec *x, const whim_page_store_cfg *cfg, whim_diag *diag)
{
    whim_page_store *st = whim_alloc(sizeof *st);
    WHIM_TRY(whim_got(st != NULL, diag, "no memory for the disk tier"));
    st->log = cfg->log;
    int64_t words = (int64_t)sizeof(whim_store_page) / 4 + whim_exec_cfg_of(x)->page_len;
    st->letter = whim_alloc_array(words, sizeof *st->letter);
    whim_err err = whim_got(st->letter != NULL, diag, "no memory for the disk tier");
    if (err == WHIM_ERR_OK) {
        err = order_make(&st->order, cfg, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = parts_open(x, st, diag);
    }
    if (err != WHIM_ERR_OK) {
        whim_page_store_free(st);
        return err;
    }
    st->order.is_first = false;
    *whim_exec_store(x) = st;
    if (st->is_off) {
        whim_exec_store_close(x);
        return diag->text[0] != '\0' ? WHIM_ERR_IO : whim_fail(diag, WHIM_ERR_IO, NO_PART);
    }
    return WHIM_ERR_OK;
}

void whim_exec_store_rejoin(whim_exec *x)
{
    whim_page_store *st = *whim_exec_store(x);
    whim_diag diag = {""};
    if (st == NULL) {
        return;
    }
    st->is_off = parts_open(x, st, &diag) != WHIM_ERR_OK || st->is_off;
    if (st->is_off) {
        whim_log_warn(st->log, "kv_dir",
                      whim_log_text("unused", diag.text[0] != '\0' ? diag.text : NO_PART));
    }
}

static void part_close(whim_exec *x)
{
    whim_page_store_free(*whim_exec_store(x));
    *whim_exec_store(x) = NULL;
}

static whim_err obey_open(whim_exec *x, const whim_store_order *order, whim_diag *diag)
{
    whim_page_store *st = whim_alloc(sizeof *st);
    WHIM_TRY(whim_got(st != NULL, diag, "no memory for the disk tier"));
    part_close(x);
    *whim_exec_store(x) = st;
    whim_log_init(&st->own_log, STDERR_FILENO, WHIM_LOG_WARN);
    st->own_log.is_json = order->is_json;
    st->own_log.is_journal = order->is_journal;
    st->log = &st->own_log;
    st->order = *order;
    st->order.dir[sizeof order->dir - 1] = st->order.space[sizeof order->space - 1] = '\0';
    st->order.about[sizeof order->about - 1] = '\0';
    whim_err err = part_open(x, st, diag);
    float lacking = err != WHIM_ERR_OK;
    whim_err voted = whim_exec_sum(x, &lacking, 1, OPEN_NS);
    if (err != WHIM_ERR_OK && order->is_first) {
        return err;
    }
    if (err != WHIM_ERR_OK) {
        whim_log_warn(st->log, "kv_dir", whim_log_text("error", diag->text));
    }
    return voted;
}

/* --- pages ------------------------------------------------------------------------------------ */

void whim_store_tell(whim_exec *x)
{
    whim_page_store *st = *whim_exec_store(x);
    whim_disk_tier_stats now;
    if (st == NULL || st->tier == NULL || !whim_exec_ranks(x)->follows ||
        !whim_disk_tier_try_stats(st->tier, &now)) { /* the next letter may find them */
        return;
    }
    const int64_t disk[WHIM_RANK_DISK_COUNT] = {
        [WHIM_RANK_DISK_BYTES] = now.bytes,
        [WHIM_RANK_DISK_ERRORS] = now.n_error - st->told.n_error,
        [WHIM_RANK_DISK_WRITTEN] = now.n_put - st->told.n_put,
        [WHIM_RANK_DISK_DROPPED] = now.n_dropped - st->told.n_dropped,
    };
    whim_comm_disk_told(whim_exec_cfg_of(x)->comm, disk);
    st->told = now;
}

static const int32_t *tokens_of(const whim_store_page *p)
{
    return (const int32_t *)(const void *)(p + 1);
}

static whim_exec_item item_of(const whim_store_page *p)
{
    return p->kind == WHIM_DISK_STATE ? WHIM_EXEC_STATE : WHIM_EXEC_PAGE;
}

/* Of a state some ranks may have no part: they have none of it to keep or to miss. */
static bool keeps_some(whim_exec *x, const whim_store_page *p)
{
    return keeps(x) && whim_exec_item_bytes(x, item_of(p)) > 0;
}

static whim_err part_put(whim_exec *x, whim_page_store *st, const whim_store_page *p, bool *all)
{
    int64_t bytes = whim_exec_item_bytes(x, item_of(p));
    if (is_own(x, p)) {
        WHIM_TRY(whim_exec_item_read(x, item_of(p), p->number, st->item));
    }
    WHIM_TRY(whim_exec_item_send(x, p->group, 0, st->item, bytes, st->parts_bytes));
    float dropped = keeps_some(x, p) && !whim_disk_tier_put(st->tier, (whim_disk_kind)p->kind,
                                                            &p->key, tokens_of(p), st->item);
    if (p->is_asked) {
        whim_store_tell(x);
        WHIM_TRY(whim_exec_sum(x, &dropped, 1, PAGE_NS));
    }
    *all = dropped == 0;
    return WHIM_ERR_OK;
}

/* Nothing is written before all have said that they have it. */
static whim_err part_get(whim_exec *x, whim_page_store *st, const whim_store_page *p, bool *all)
{
    bool own = keeps_some(x, p) && whim_disk_tier_get(st->tier, (whim_disk_kind)p->kind, &p->key,
                                                      tokens_of(p), st->item);
    float missing = keeps_some(x, p) && !own;
    whim_store_tell(x); /* before the vote: who asks behind it finds it */
    WHIM_TRY(whim_exec_sum(x, &missing, 1, PAGE_NS));
    *all = missing == 0;
    st->n_halved += own && !*all;
    if (*all) {
        WHIM_TRY(whim_exec_item_send(x, 0, p->group, st->item, whim_exec_item_bytes(x, item_of(p)),
                                     st->parts_bytes));
    }
    return *all && is_own(x, p) ? whim_exec_item_write(x, item_of(p), p->number, st->item)
                                : WHIM_ERR_OK;
}

/* The vote carries what each disk has come to: meters of other hosts arrive later. */
static whim_err part_flush(whim_exec *x, whim_page_store *st, bool *all)
{
    whim_disk_tier_stats own = {0};
    if (keeps(x)) {
        own = whim_disk_tier_get_stats(st->tier);
    }
    float votes[] = {own.queued > 0, own.n_error > 0, own.n_lost > 0};
    whim_store_tell(x);
    WHIM_TRY(whim_exec_sum(x, votes, sizeof votes / sizeof *votes, PAGE_NS));
    *all = votes[0] == 0;
    st->n_failing = max_of(st->n_failing, (int64_t)votes[1]);
    st->n_losing = max_of(st->n_losing, (int64_t)votes[2]);
    return WHIM_ERR_OK;
}

static const whim_store_page *letter_make(whim_page_store *st, const whim_store_page *head,
                                          const int32_t *tokens, int32_t page_len)
{
    memcpy(st->letter, head, sizeof *head);
    memcpy(st->letter + sizeof *head / sizeof *st->letter, tokens,
           (size_t)page_len * sizeof *tokens);
    return (const whim_store_page *)(const void *)st->letter;
}

static int64_t letter_bytes(whim_exec *x)
{
    return (int64_t)sizeof(whim_store_page) +
           whim_exec_cfg_of(x)->page_len * (int64_t)sizeof(int32_t);
}

bool whim_exec_store_put(whim_exec *x, int32_t group, whim_disk_kind kind, int32_t number,
                         const whim_prefix_key *key, const int32_t *tokens, bool wait)
{
    whim_page_store *st = *whim_exec_store(x);
    /* What the leader alone keeps need not be read, nor travel to it, again. */
    bool is_whole = whim_exec_group_ranks(whim_exec_cfg_of(x)) == 1;
    if (st == NULL || st->is_off || (is_whole && whim_disk_tier_knows(st->tier, kind, key))) {
        return true;
    }
    const whim_store_page head = {
        .group = group, .number = number, .is_asked = wait, .kind = (int32_t)kind, .key = *key};
    const whim_store_page *p = letter_make(st, &head, tokens, whim_exec_cfg_of(x)->page_len);
    if (tell(x, WHIM_LETTER_STORE_PUT, p, letter_bytes(x), NULL) != WHIM_ERR_OK) {
        return true; /* ranks are lost, and with them what the page held */
    }
    bool all = true;
    if (part_put(x, st, p, &all) != WHIM_ERR_OK) {
        failed(x, "a page could not be read");
    }
    return all;
}

bool whim_exec_store_has(whim_exec *x, whim_disk_kind kind, const whim_prefix_key *key)
{
    whim_page_store *st = *whim_exec_store(x);
    return st != NULL && !st->is_off && whim_disk_tier_has(st->tier, kind, key);
}

bool whim_exec_store_get(whim_exec *x, int32_t group, whim_disk_kind kind, int32_t number,
                         const whim_prefix_key *key, const int32_t *tokens)
{
    whim_page_store *st = *whim_exec_store(x);
    if (!whim_exec_store_has(x, kind, key)) {
        return false;
    }
    const whim_store_page head = {
        .group = group, .number = number, .kind = (int32_t)kind, .key = *key};
    const whim_store_page *p = letter_make(st, &head, tokens, whim_exec_cfg_of(x)->page_len);
    if (tell(x, WHIM_LETTER_STORE_GET, p, letter_bytes(x), NULL) != WHIM_ERR_OK) {
        return false;
    }
    bool all = false;
    if (part_get(x, st, p, &all) != WHIM_ERR_OK) {
        failed(x, "a page could not be written");
        return false;
    }
    return all;
}

/* A letter may have come from another host. */
static bool letter_is_good(whim_exec *x, whim_letter_kind kind, const int32_t *words,
                           int64_t n_word)
{
    int64_t bytes = n_word * (int64_t)sizeof *words;
    if (kind == WHIM_LETTER_STORE_OPEN) {
        return bytes == (int64_t)sizeof(whim_store_order);
    }
    if (kind == WHIM_LETTER_STORE_PUT || kind == WHIM_LETTER_STORE_GET) {
        const whim_store_page *p = (const whim_store_page *)(const void *)words;
        const whim_exec_cfg *cfg = whim_exec_cfg_of(x);
        return bytes == letter_bytes(x) && p->group >= 0 && p->group < whim_exec_groups(cfg) &&
               p->kind >= 0 && p->kind < WHIM_DISK_KINDS && p->number >= 0 &&
               p->number < (p->kind == WHIM_DISK_PAGE ? cfg->n_page : cfg->n_state);
    }
    return bytes == 0;
}

whim_err whim_store_obey(whim_exec *x, whim_letter_kind kind, const int32_t *words, int64_t n_word,
                         whim_diag *diag)
{
    whim_page_store *st = *whim_exec_store(x);
    const whim_store_page *p = (const whim_store_page *)(const void *)words;
    bool ignored;
    if (!letter_is_good(x, kind, words, n_word)) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "a message of %lld words about pages on disk is not of kind %d",
                         (long long)n_word, (int)kind);
    }
    if (kind == WHIM_LETTER_STORE_OPEN) {
        return obey_open(x, (const whim_store_order *)(const void *)words, diag);
    }
    if (kind == WHIM_LETTER_STORE_CLOSE) {
        part_close(x);
        return WHIM_ERR_OK;
    }
    if (st == NULL || (keeps(x) && st->tier == NULL)) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "there are pages to write, but no disk is open");
    }
    whim_err err = kind == WHIM_LETTER_STORE_PUT   ? part_put(x, st, p, &ignored)
                   : kind == WHIM_LETTER_STORE_GET ? part_get(x, st, p, &ignored)
                                                   : part_flush(x, st, &ignored);
    return err == WHIM_ERR_OK
               ? err
               : whim_fail(diag, err, "a page between device and disk: %s", whim_err_text(err));
}

/* --- the end ---------------------------------------------------------------------------------- */

bool whim_exec_store_is_written(whim_exec *x)
{
    whim_page_store *st = *whim_exec_store(x);
    bool all = st == NULL || whim_disk_tier_get_stats(st->tier).queued == 0;
    if (st == NULL || st->is_off || n_rank_of(x) == 1 || !all) {
        return all;
    }
    whim_err err = tell(x, WHIM_LETTER_STORE_FLUSH, NULL, 0, NULL);
    if (err == WHIM_ERR_OK && part_flush(x, st, &all) != WHIM_ERR_OK) {
        failed(x, "ranks do not say what is on their disks");
        err = WHIM_ERR_DEVICE;
    }
    if (err != WHIM_ERR_OK) { /* with a rank that is lost went what waited for its disk */
        st->n_failing++;
        return true;
    }
    return all;
}

void whim_exec_store_close(whim_exec *x)
{
    whim_page_store *st = *whim_exec_store(x);
    int64_t until = whim_clock_ns() + FLUSH_NS;
    bool all = st == NULL || st->is_off || n_rank_of(x) == 1;
    while (!all && whim_clock_ns() < until &&
           tell(x, WHIM_LETTER_STORE_FLUSH, NULL, 0, NULL) == WHIM_ERR_OK &&
           part_flush(x, st, &all) == WHIM_ERR_OK && !all) {
        whim_clock_sleep_ns(5 * WHIM_NS_PER_MS);
    }
    whim_err told = tell(x, WHIM_LETTER_STORE_CLOSE, NULL, 0, NULL);
    (void)told; /* where ranks are lost, so is what they had open */
    part_close(x);
}

void whim_page_store_free(whim_page_store *st)
{
    if (st == NULL) {
        return;
    }
    whim_disk_tier_close(st->tier);
    if (st->log == &st->own_log) {
        whim_log_deinit(&st->own_log);
    }
    whim_free(st->letter);
    whim_free(st->item);
    whim_free(st);
}

whim_disk_tier_stats whim_exec_store_stats(whim_exec *x)
{
    whim_page_store *st = *whim_exec_store(x);
    whim_disk_tier_stats stats = whim_disk_tier_get_stats(st->tier);
    for (int32_t r = 1; r < whim_exec_group_ranks(whim_exec_cfg_of(x)); r++) {
        whim_rank_meters of;
        whim_rank_meters_of(whim_exec_cfg_of(x)->comm, r, &of);
        stats.bytes += of.disk[WHIM_RANK_DISK_BYTES];
        stats.n_error += of.disk[WHIM_RANK_DISK_ERRORS];
        stats.n_put = min_of(stats.n_put, of.disk[WHIM_RANK_DISK_WRITTEN]);
        stats.n_dropped = max_of(stats.n_dropped, of.disk[WHIM_RANK_DISK_DROPPED]);
    }
    stats.n_error = max_of(stats.n_error, st->n_failing);
    stats.n_lost = max_of(stats.n_lost, st->n_losing);
    stats.n_got -= st->n_halved;
    stats.n_refused += st->n_halved;
    return stats;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Pages between the pool and the disk. */
#include "engine/service/disk.h"

#include "base/clock.h"
#include "runner/page_store.h"

/* What is left of a prompt after so long is computed, unless the service is told another time. */
#define FETCH_NS (2 * WHIM_NS_PER_S)
/* At the end; what is left then is computed again. */
#define SAVE_NS (20 * WHIM_NS_PER_S)
/* Between two looks at what else is to be done. */
#define SLICE_NS (5 * WHIM_NS_PER_MS)

static whim_exec *exec_of(const whim_group *g)
{
    return whim_runner_exec(g->service->runner);
}

whim_err whim_service_disk_open(whim_service *s, whim_diag *diag)
{
    if (s->cfg.kv_dir == NULL) {
        return WHIM_ERR_OK;
    }
    whim_page_store_cfg cfg = {
        .dir = s->cfg.kv_dir,
        .space = s->cfg.kv_space,
        .about = s->cfg.kv_about,
        .max_bytes = s->cfg.kv_dir_bytes,
        .may_fail = s->cfg.kv_dir_may_fail,
        .log = s->cfg.log,
    };
    whim_err err = whim_exec_store_open(whim_runner_exec(s->runner), &cfg, diag);
    if (err != WHIM_ERR_OK && s->cfg.kv_dir_may_fail) {
        whim_log_warn(s->cfg.log, "kv_dir", whim_log_text("unused", diag->text));
        return WHIM_ERR_OK;
    }
    s->has_disk = err == WHIM_ERR_OK;
    return err;
}

/* --- keeping ---------------------------------------------------------------------------------- */

/* False: a queue is full. */
static bool keep(const whim_group *g, int32_t page, int32_t state, const whim_prefix_key *key,
                 const int32_t *tokens, bool wait)
{
    return whim_exec_store_put(exec_of(g), g->index, WHIM_DISK_PAGE, page, key, tokens, wait) &&
           (state < 0 ||
            whim_exec_store_put(exec_of(g), g->index, WHIM_DISK_STATE, state, key, tokens, wait));
}

void whim_service_keep_page(void *ctx, int32_t page, int32_t state, const whim_prefix_key *key,
                            const int32_t *tokens)
{
    (void)keep(ctx, page, state, key, tokens, false);
}

/* What a queue that is full does not take is for another time. */
typedef struct saving {
    const whim_group *group;
    bool kept;
} saving;

static void save_new(void *ctx, int32_t page, int32_t state, const whim_prefix_key *key,
                     const int32_t *tokens)
{
    saving *s = ctx;
    s->kept = keep(s->group, page, state, key, tokens, false);
}

bool whim_service_disk_save(whim_service *s)
{
    int64_t until = whim_clock_ns() + SLICE_NS;
    for (int32_t i = 0; i < s->n_group && s->has_disk; i++) {
        saving save = {.group = &s->groups[i]};
        while (whim_prefix_tree_first_new(s->groups[i].tree, save_new, &save)) {
            if (!save.kept) {
                return false;
            }
            whim_prefix_tree_first_seen(s->groups[i].tree);
            if (whim_clock_ns() >= until) {
                return true;
            }
        }
    }
    if (!atomic_load(&s->is_saved) &&
        (!s->has_disk || whim_exec_store_is_written(whim_runner_exec(s->runner)))) {
        whim_service_publish(s); /* who hears that all is saved asks what came of it */
        atomic_store(&s->is_saved, true);
    }
    return false;
}

typedef struct last_saving {
    const whim_group *group;
    int64_t until, n_left;
} last_saving;

/* At the end nobody else waits for us: wait for the disk. */
static void save_page(void *ctx, int32_t page, int32_t state, const whim_prefix_key *key,
                      const int32_t *tokens)
{
    last_saving *s = ctx;
    while (whim_clock_ns() < s->until) {
        if (keep(s->group, page, state, key, tokens, true)) {
            return;
        }
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    s->n_left++;
}

/* Pages that were saved before are known to be there. */
void whim_service_disk_close(whim_service *s)
{
    int64_t until = whim_clock_ns() + (s->cfg.save_ns > 0 ? s->cfg.save_ns : SAVE_NS);
    int64_t n_left = 0;
    for (int32_t i = 0; i < s->n_group && s->has_disk; i++) {
        if (s->groups[i].tree != NULL) { /* it was opened */
            last_saving save = {.group = &s->groups[i], .until = until};
            whim_prefix_tree_each(s->groups[i].tree, save_page, &save);
            n_left += save.n_left;
        }
    }
    if (n_left > 0) {
        whim_log_warn(s->cfg.log, "kv_dir", whim_log_int("pages_left_out", n_left),
                      whim_log_text("reason", "the disk is too slow to wait for it any longer"));
    }
    if (s->has_disk) {
        whim_exec_store_close(whim_runner_exec(s->runner));
        s->has_disk = false;
    }
}

/* --- finding ---------------------------------------------------------------------------------- */

/* The key of the first n pages. */
static whim_prefix_key key_after(const int32_t *tokens, int64_t n, int32_t page_len)
{
    whim_prefix_key key = {{0}};
    for (int64_t i = 0; i < n; i++) {
        key = whim_prefix_key_next(i == 0 ? NULL : &key, tokens + i * page_len, page_len);
    }
    return key;
}

static int32_t page_len_of(const whim_group *g)
{
    return whim_runner_pool_of(g->service->runner, g->index)->page_len;
}

static int64_t fetch_pages(void *ctx, const int32_t *tokens, int64_t n_page, int64_t max,
                           int32_t *pages)
{
    const whim_group *g = ctx;
    whim_service *s = g->service;
    whim_page_pool *pool = whim_runner_pool_of(s->runner, g->index);
    int32_t len = pool->page_len;
    int64_t n = 0;
    whim_prefix_key key = key_after(tokens, n_page, len);
    int64_t until = whim_clock_ns() + (s->cfg.fetch_ns > 0 ? s->cfg.fetch_ns : FETCH_NS);
    while (n < max && whim_clock_ns() < until) {
        atomic_store(&s->heartbeat_ns, whim_clock_ns());
        const int32_t *own = tokens + (n_page + n) * len;
        key = whim_prefix_key_next(n_page + n == 0 ? NULL : &key, own, len);
        int32_t page = whim_page_pool_take(pool);
        if (page < 0) {
            break;
        }
        if (!whim_exec_store_get(exec_of(g), g->index, WHIM_DISK_PAGE, page, &key, own)) {
            whim_page_pool_give(pool, page);
            break;
        }
        pages[n++] = page;
    }
    s->counts.disk_hit_tokens += n * len;
    return n;
}

static int64_t known_pages(void *ctx, const int32_t *tokens, int64_t n_page, int64_t max)
{
    const whim_group *g = ctx;
    int32_t len = page_len_of(g);
    whim_prefix_key key = key_after(tokens, n_page, len);
    int64_t n = 0;
    for (; n < max; n++) {
        key = whim_prefix_key_next(n_page + n == 0 ? NULL : &key, tokens + (n_page + n) * len, len);
        if (!whim_exec_store_has(exec_of(g), WHIM_DISK_PAGE, &key)) {
            break;
        }
    }
    return n;
}

static int64_t known_state(void *ctx, const int32_t *tokens, int64_t n_min, int64_t n_max)
{
    const whim_group *g = ctx;
    int32_t len = page_len_of(g);
    whim_prefix_key key = key_after(tokens, n_min, len);
    int64_t found = 0;
    for (int64_t n = n_min; n < n_max; n++) {
        key = whim_prefix_key_next(n == 0 ? NULL : &key, tokens + n * len, len);
        found = whim_exec_store_has(exec_of(g), WHIM_DISK_STATE, &key) ? n + 1 : found;
    }
    return found;
}

static bool fetch_state(void *ctx, const int32_t *tokens, int64_t n_page, int32_t slot)
{
    const whim_group *g = ctx;
    int32_t len = page_len_of(g);
    whim_prefix_key key = key_after(tokens, n_page, len);
    atomic_store(&g->service->heartbeat_ns, whim_clock_ns());
    return whim_exec_store_get(exec_of(g), g->index, WHIM_DISK_STATE, slot, &key,
                               tokens + (n_page - 1) * len);
}

whim_sched_store whim_service_store(whim_group *g)
{
    if (!g->service->has_disk) {
        return (whim_sched_store){0};
    }
    return (whim_sched_store){.ctx = g,
                              .fetch = fetch_pages,
                              .known = known_pages,
                              .known_state = known_state,
                              .fetch_state = fetch_state};
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Pages between the pool and the disk. */
#include "engine/service/disk.h"

#include "base/clock.h"
#include "runner/page_store.h"

/* What is left of a prompt after so long is computed, unless the service is told another time. */
#define FETCH_NS (2 * WHIM_NS_PER_S)

whim_err whim_service_check_disk(const whim_engine *engine, const char *kv_dir, whim_diag *diag)
{
    if (kv_dir != NULL && whim_engine_limits(engine)->n_state > 0) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "--kv-dir keeps keys and values only, and a model with recurrent states "
                         "cannot go on from those; leave it out");
    }
    return WHIM_ERR_OK;
}

whim_err whim_service_disk_open(whim_service *s, whim_diag *diag)
{
    if (s->cfg.kv_dir == NULL) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(whim_service_check_disk(s->cfg.engine, s->cfg.kv_dir, diag));
    whim_page_store_cfg cfg = {
        .dir = s->cfg.kv_dir,
        .space = s->cfg.kv_space,
        .max_bytes = s->cfg.kv_dir_bytes,
        .log = s->cfg.log,
    };
    WHIM_TRY(whim_exec_store_open(whim_runner_exec(s->runner), &cfg, diag));
    s->has_disk = true;
    return WHIM_ERR_OK;
}

/* At the end the queue may fill: wait for the disk, for nobody else waits for us. */
static void save_page(void *ctx, int32_t page, const whim_prefix_key *key, const int32_t *tokens)
{
    const whim_group *g = ctx;
    whim_exec *exec = whim_runner_exec(g->service->runner);
    while (!whim_exec_store_put(exec, g->index, page, key, tokens, true)) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
}

void whim_service_disk_close(whim_service *s)
{
    for (int32_t i = 0; i < s->n_group && s->has_disk; i++) {
        if (s->groups[i].tree != NULL) { /* it was opened */
            whim_prefix_tree_each(s->groups[i].tree, save_page, &s->groups[i]);
        }
    }
    if (s->has_disk) {
        whim_exec_store_close(whim_runner_exec(s->runner));
        s->has_disk = false;
    }
}

void whim_service_keep_page(void *ctx, int32_t page, const whim_prefix_key *key,
                            const int32_t *tokens)
{
    const whim_group *g = ctx;
    (void)whim_exec_store_put(whim_runner_exec(g->service->runner), g->index, page, key, tokens,
                              false);
}

int64_t whim_service_fetch_pages(void *ctx, const int32_t *tokens, int64_t n_page, int64_t max,
                                 int32_t *pages)
{
    const whim_group *g = ctx;
    whim_service *s = g->service;
    whim_page_pool *pool = whim_runner_pool_of(s->runner, g->index);
    whim_prefix_key key;
    int32_t len = pool->page_len;
    int64_t n = 0;
    for (int64_t i = 0; i < n_page; i++) {
        key = whim_prefix_key_next(i == 0 ? NULL : &key, tokens + i * len, len);
    }
    int64_t until = whim_clock_ns() + (s->cfg.fetch_ns > 0 ? s->cfg.fetch_ns : FETCH_NS);
    while (n < max && whim_clock_ns() < until) {
        atomic_store(&s->heartbeat_ns, whim_clock_ns());
        const int32_t *own = tokens + (n_page + n) * len;
        key = whim_prefix_key_next(n_page + n == 0 ? NULL : &key, own, len);
        int32_t page = whim_page_pool_take(pool);
        if (page < 0) {
            break;
        }
        if (!whim_exec_store_get(whim_runner_exec(s->runner), g->index, page, &key, own)) {
            whim_page_pool_give(pool, page);
            break;
        }
        pages[n++] = page;
    }
    s->counts.disk_hit_tokens += n * len;
    return n;
}

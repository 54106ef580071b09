/* SPDX-License-Identifier: Apache-2.0 */
/* A look whether there is a hub at all, before something is offered that would come from it. */
#include "base/clock.h"
#include "base/thread.h"
#include "hub/hub.h"
#include "hub/transfer.h"

#include <stdatomic.h>

static const int64_t look_ns = 20 * WHIM_NS_PER_MS;

typedef struct reach {
    const whim_hub_cfg *cfg;
    atomic_bool stop, done;
    bool answered;
} reach;

static void reach_main(void *ctx)
{
    reach *r = ctx;
    whim_hub_conn *conn = NULL;
    whim_hub_reply reply = {0};
    whim_diag ignored;
    whim_str url = {0};
    whim_str_printf(&url, "%s/", r->cfg->endpoint);
    whim_hub_request request = {.url = whim_str_text(&url), .head = true};
    if (whim_hub_conn_create(r->cfg, &r->stop, &conn, &ignored) == WHIM_ERR_OK) {
        whim_err err = whim_hub_try(conn, &request, &reply, &ignored);
        r->answered = err == WHIM_ERR_OK || reply.status > 0;
    }
    whim_hub_conn_destroy(conn);
    whim_str_deinit(&url);
    atomic_store(&r->done, true);
}

bool whim_hub_reaches(const whim_hub_cfg *cfg, double seconds)
{
    reach r = {.cfg = cfg};
    whim_thread thread;
    whim_diag ignored;
    int64_t until = whim_clock_ns() + (int64_t)(seconds * (double)WHIM_NS_PER_S);
    if (cfg->offline ||
        whim_thread_create(&thread, "hub", reach_main, &r, &ignored) != WHIM_ERR_OK) {
        return false;
    }
    while (!atomic_load(&r.done) && whim_clock_ns() < until) {
        whim_clock_sleep_ns(look_ns);
    }
    atomic_store(&r.stop, true);
    whim_thread_join(&thread);
    return r.answered;
}

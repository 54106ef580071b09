/* SPDX-License-Identifier: Apache-2.0 */
/* A machine that is not node 0: it has no clients, and runs what node 0 asks for. */
#include "ranks/agent.h"
#include "base/clock.h"
#include "hub_model.h"
#include "serve/serve.h"
#include "serve/signals.h"

#include <string.h>

typedef struct agent_thread {
    serve *serve;
    whim_agent_cfg cfg;
    whim_thread thread;
    atomic_bool stop, done;
    whim_err err;
    whim_diag diag;
} agent_thread;

static void on_event(void *ctx, const char *event, const char *text)
{
    agent_thread *a = ctx;
    bool joined = strcmp(event, "joined") == 0;
    whim_log_at(&a->serve->log, joined ? WHIM_LOG_INFO : WHIM_LOG_WARN, event,
                whim_log_int("node", a->cfg.nodes.node),
                whim_log_text(joined ? "leader" : "reason", text));
    if (joined) {
        whim_os_notify_send(&a->serve->notify.link, "READY=1\nSTATUS=Joined node 0");
    }
}

static void agent_main(void *ctx)
{
    agent_thread *a = ctx;
    a->err = whim_agent_run(&a->cfg, &a->diag);
    atomic_store(&a->done, true);
}

/* What node 0 has by the same options; `draft` is room for the path of its draft. False: complained
 * of. */
static bool agent_engine(const whim_options *o, const char *path, char draft[MODEL_PATH_MAX],
                         whim_agent_cfg *cfg)
{
    whimbrel_model_options options = serve_options(o, path);
    whim_library_extra extra = serve_extra(o);
    if (options.draft != NULL) {
        options.draft = hub_draft_path(options.draft, true, draft);
        if (options.draft == NULL) {
            return false;
        }
    } else if (whim_library_draft_beside(path, draft, MODEL_PATH_MAX)) {
        options.draft = draft;
        cfg->draft_found = true;
    }
    extra.request_bytes = 0; /* clients ask node 0 */
    cfg->engine = whim_library_engine_cfg(&options, &extra);
    cfg->engine.n_rank = ranks_asked(o);
    cfg->engine.n_share = (int32_t)o->cp;
    cfg->engine.n_deal = (int32_t)o->ep;
    cfg->engine.deal_cut = o->tp > 0;
    cfg->engine.deal_rows = o->ep_dispatch;
    cfg->engine.deal_counts = o->ep_experts;
    cfg->engine.deal_slots = (int32_t)o->ep_slots;
    cfg->engine.n_group = (int32_t)o->dp;
    return true;
}

bool serve_agent_run(serve *s)
{
    char buf[MODEL_PATH_MAX], draft[MODEL_PATH_MAX];
    agent_thread a = {.serve = s};
    if (!signals_start()) {
        return false;
    }
    notify_fetching(s);
    const char *path = serve_default_fetch(s) ? choose_model(s->options, buf) : NULL;
    notify_fetched(s);
    if (path == NULL) {
        return false;
    }
    signals_loaded();
    a.cfg = (whim_agent_cfg){.nodes = s->nodes.cfg,
                             .may_crowd = s->options->oversubscribe,
                             .stop = &a.stop,
                             .tell = on_event,
                             .ctx = &a};
    if (!agent_engine(s->options, path, draft, &a.cfg)) {
        return false;
    }
    if (whim_thread_create(&a.thread, "agent", agent_main, &a, &a.diag) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", a.diag.text);
        return false;
    }
    for (signal_wish wish = SIGNAL_NONE;
         !atomic_load(&a.done) && (wish == SIGNAL_NONE || wish == SIGNAL_RELOAD);
         wish = signals_wait()) {
        notify_alive(s, 0);
    }
    atomic_store(&a.stop, true);
    whim_thread_join(&a.thread);
    if (a.err != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", a.diag.text);
    }
    return a.err == WHIM_ERR_OK;
}

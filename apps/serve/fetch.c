/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the model when the port is already ours; the default one may have to be fetched first. */
#include "local/fetch.h"
#include "hub_model.h"
#include "serve/serve.h"
#include "serve/signals.h"

/* A long download shows on /readyz, and a supervisor must not take it for a hang. Loading begins at
 * 0 again. */
static void on_fetch(void *ctx, double share)
{
    serve *s = ctx;
    whim_server_set_progress(s->server, share);
    notify_progress(s, share);
}

const char *serve_model_find(serve *s, char *buf)
{
    const whim_options *o = s->options;
    if (!fetch_default(o, signals_child_wait)) {
        return NULL;
    }
    hub_listen((hub_listener){.log = s->log.is_json || s->log.is_journal ? &s->log : NULL,
                              .progress = on_fetch,
                              .ctx = s});
    return choose_model(o, buf);
}

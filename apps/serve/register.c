/* SPDX-License-Identifier: Apache-2.0 */
/* What other commands of this user are told about this server, see local/running.h. */
#include "serve/serve.h"

#include <stdlib.h>
#include <string.h>

void serve_register(serve *s, const char *path)
{
    const char *host = s->options->host.n > 0 ? s->options->host.v[0] : "127.0.0.1";
    bool wide = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
    running_server about = {
        .started = s->created,
        .port = whim_server_port(s->server),
        .tls = s->options->tls_cert != NULL,
        .needs_key = s->keys.n > 0,
    };
    whim_str url = {0};
    serve_url(s, &url);
    snprintf(about.url, sizeof about.url, "%s", whim_str_text(&url));
    whim_str_deinit(&url);
    snprintf(about.host, sizeof about.host, "%s", wide ? "127.0.0.1" : host);
    snprintf(about.model, sizeof about.model, "%s", s->name);
    char *whole = path != NULL ? realpath(path, NULL) : NULL;
    snprintf(about.path, sizeof about.path, "%s", whole != NULL ? whole : "");
    free(whole);
    if (s->service != NULL) {
        const whim_engine *engine = whim_library_engine(s->model);
        const whim_memory_plan *plan = whim_engine_plan(engine);
        about.device_bytes = plan->apart ? plan->total : 0;
        snprintf(about.device, sizeof about.device, "%s", whimbrel_get_info(s->model)->device);
    }
    running_tell(&s->running, &about);
}

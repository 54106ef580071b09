/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the model when the port is already ours; the default one may have to be fetched first. */
#include "local/fetch.h"
#include "base/thread.h"
#include "hub_model.h"
#include "serve/serve.h"
#include "serve/signals.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A long download shows on /readyz, and a supervisor must not take it for a hang. Loading begins at
 * 0 again. */
static void on_fetch(void *ctx, double share)
{
    serve *s = ctx;
    whim_server_set_progress(s->server, share);
    notify_progress(s, share);
}

/* A log that programs read has the downloads' words in lines of its own. */
static bool is_for_programs(const serve *s)
{
    return s->log.is_json || s->log.is_journal;
}

typedef struct teller {
    whim_log *log;
    int fd; /* where the words come from */
} teller;

static void tell_lines(void *ctx)
{
    const teller *t = ctx;
    char line[1024];
    FILE *words = fdopen(t->fd, "r");
    while (words != NULL && fgets(line, sizeof line, words) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] != '\0') {
            whim_log_info(t->log, "fetch", whim_log_text("text", line));
        }
    }
    if (words != NULL) {
        fclose(words);
    } else {
        close(t->fd);
    }
}

bool serve_default_fetch(serve *s)
{
    teller t = {.log = &s->log};
    whim_thread thread;
    whim_diag ignored;
    int ends[2];
    if (!is_for_programs(s) || pipe2(ends, O_CLOEXEC) != 0) {
        return fetch_default(s->options, (fetch_how){.wait = signals_child_wait});
    }
    t.fd = ends[0];
    bool tells = whim_thread_create(&thread, "fetch", tell_lines, &t, &ignored) == WHIM_ERR_OK;
    bool ok = fetch_default(s->options,
                            (fetch_how){.wait = signals_child_wait, .out = tells ? ends[1] : 0});
    close(ends[1]);
    if (tells) {
        whim_thread_join(&thread);
    } else {
        close(ends[0]);
    }
    return ok;
}

const char *serve_model_find(serve *s, char *buf)
{
    if (!serve_default_fetch(s)) {
        return NULL;
    }
    hub_listen(
        (hub_listener){.log = is_for_programs(s) ? &s->log : NULL, .progress = on_fetch, .ctx = s});
    return choose_model(s->options, buf);
}

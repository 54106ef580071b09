/* SPDX-License-Identifier: Apache-2.0 */
/* What the service manager is told: loading, ready, reloading, stopping, and that the engine still
 * beats. */
#include "base/clock.h"
#include "serve/serve.h"

#include <stdio.h>
#include <time.h>

/* While the model loads, each report of progress buys more time; without one the manager's limit
 * stands. */
enum { TELL_EVERY_S = 2, FETCH_EVERY_S = 20, LOADING_S = 60, STOPPING_S = 60 };

void notify_open(serve *s)
{
    const char *name = env_notify_socket();
    whim_diag diag = {""};
    s->notify.link.fd = -1;
    s->notify.watchdog_ns = env_watchdog_ns();
    if (name != NULL && whim_os_notify_open(&s->notify.link, name, &diag) != WHIM_ERR_OK) {
        whim_log_warn(&s->log, "notify", whim_log_text("error", diag.text));
    }
}

void notify_close(serve *s)
{
    whim_os_notify_close(&s->notify.link);
}

void notify_progress(serve *s, double share)
{
    char text[128];
    long long now = whim_clock_ns(), due = atomic_load(&s->notify.progress_ns);
    if (s->notify.link.fd < 0 || now < due ||
        !atomic_compare_exchange_strong(&s->notify.progress_ns, &due,
                                        now + TELL_EVERY_S * WHIM_NS_PER_S)) {
        return; /* several threads load: one of them tells */
    }
    snprintf(text, sizeof text, "EXTEND_TIMEOUT_USEC=%d000000\nSTATUS=Loading the model: %.0f %%",
             LOADING_S, share * 100);
    whim_os_notify_send(&s->notify.link, text);
}

/* A download shows its progress to people, not to us, and gives up by itself when nothing comes. So
 * this asks for more time until it is over. */
static void fetch_loop(void *ctx)
{
    serve *s = ctx;
    notifier *n = &s->notify;
    pthread_mutex_lock(&n->lock);
    while (n->is_fetching) {
        struct timespec until;
        whim_os_notify_send(&n->link, "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=Finding the model");
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += FETCH_EVERY_S;
        pthread_cond_timedwait(&n->change, &n->lock, &until);
    }
    pthread_mutex_unlock(&n->lock);
}

void notify_fetching(serve *s)
{
    notifier *n = &s->notify;
    whim_diag ignored;
    if (n->link.fd >= 0) {
        pthread_mutex_init(&n->lock, NULL);
        pthread_cond_init(&n->change, NULL);
        n->is_fetching = true;
        n->has_thread = whim_thread_create(&n->thread, "notify", fetch_loop, s, &ignored) ==
                        WHIM_ERR_OK; /* without it the manager's limit stands */
    }
}

void notify_fetched(serve *s)
{
    notifier *n = &s->notify;
    if (n->has_thread) {
        pthread_mutex_lock(&n->lock);
        n->is_fetching = false;
        pthread_cond_broadcast(&n->change);
        pthread_mutex_unlock(&n->lock);
        whim_thread_join(&n->thread);
        pthread_cond_destroy(&n->change);
        pthread_mutex_destroy(&n->lock);
    }
}

void notify_ready(serve *s)
{
    char text[512];
    whim_str url = {0};
    serve_url(s, &url);
    snprintf(text, sizeof text, "READY=1\nSTATUS=Serving %.250s on %.150s", s->name,
             whim_str_text(&url));
    whim_str_deinit(&url);
    if (s->notify.link.fd >= 0 && !whim_os_notify_send(&s->notify.link, text)) {
        whim_log_warn(&s->log, "notify",
                      whim_log_text("error", "the service manager did not take READY=1"));
    }
}

void notify_reloading(serve *s)
{
    char text[96];
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%lld",
             (long long)(whim_clock_ns() / 1000));
    whim_os_notify_send(&s->notify.link, text);
}

void notify_stopping(serve *s, int64_t n_left)
{
    char text[160];
    snprintf(text, sizeof text,
             "STOPPING=1\nEXTEND_TIMEOUT_USEC=%.0f\nSTATUS=Stopping, %lld requests to finish",
             (s->options->drain + STOPPING_S) * 1e6, (long long)n_left);
    whim_os_notify_send(&s->notify.link, text);
}

void notify_alive(serve *s, int64_t quiet_ns)
{
    int64_t now = whim_clock_ns();
    int64_t half = s->notify.watchdog_ns / 2;
    if (s->notify.watchdog_ns > 0 && quiet_ns < half && now >= s->notify.alive_ns) {
        s->notify.alive_ns = now + half / 2;
        whim_os_notify_send(&s->notify.link, "WATCHDOG=1");
    }
}

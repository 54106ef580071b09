/* SPDX-License-Identifier: Apache-2.0 */
/* Models by name, for every command. */
#include "hub_model.h"

#include "base/clock.h"
#include "base/file.h"
#include "local/catalogue.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LOG_EVERY_S = 10 };

/* Writing to a connection that was closed, or past ulimit -f, is to fail and not to end the
 * process. */
static void signals_ignore(bool ignore)
{
    static struct sigaction old_pipe, old_size;
    struct sigaction none = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, ignore ? &none : &old_pipe, ignore ? &old_pipe : NULL);
    sigaction(SIGXFSZ, ignore ? &none : &old_size, ignore ? &old_size : NULL);
}

/* A model in many parts has as many files and locks open at once. */
static void files_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static hub_listener listener;

void hub_listen(hub_listener who)
{
    listener = who;
}

static void say(hub_visit *visit, const char *line)
{
    if (listener.log != NULL) {
        whim_log_info(listener.log, "fetch", whim_log_text("text", line));
    } else if (!visit->quiet) {
        if (visit->begun) {
            whim_progress_hide(&visit->bar);
        }
        fprintf(stderr, "%s\n", line);
    }
}

static void on_say(void *ctx, const char *line)
{
    hub_visit *visit = ctx;
    visit->found = true;
    if (visit->given != NULL) { /* before anything comes */
        char text[2 * HUB_TEXT_MAX];
        snprintf(text, sizeof text, "%.200s is %s", visit->given, visit->name);
        visit->given = NULL;
        say(visit, text);
    }
    say(visit, line);
}

static void on_progress(void *ctx, int64_t done, int64_t total)
{
    hub_visit *visit = ctx;
    if (listener.progress != NULL) {
        listener.progress(listener.ctx, total > 0 ? (double)done / (double)total : 1);
    }
    if (listener.log != NULL) {
        int64_t now = whim_clock_ns();
        if (now >= visit->log_ns || done == total) {
            whim_log_info(listener.log, "fetch", whim_log_int("done", done),
                          whim_log_int("total", total));
            visit->log_ns = now + LOG_EVERY_S * WHIM_NS_PER_S;
        }
        return;
    }
    if (!visit->begun) {
        whim_progress_init(&visit->bar,
                           &(whim_progress_cfg){
                               .label = visit->label,
                               .total = total,
                               .bytes = true,
                               .fd = STDERR_FILENO,
                               .mode = visit->quiet ? WHIM_PROGRESS_QUIET : WHIM_PROGRESS_AUTO,
                           });
        visit->begun = true;
    }
    whim_progress_add(&visit->bar, done - visit->done);
    visit->done = done;
}

whim_err hub_ref_read(whim_hub_ref *ref, const char *given, whim_diag *diag)
{
    char canonical[CATALOGUE_TEXT_MAX];
    bool known = catalogue_find(given, canonical) != NULL;
    return whim_hub_ref_parse(ref, known ? canonical : given, diag);
}

/* Whether it has the form of something that hub_ref_read takes. */
static bool looks_like_name(const char *given)
{
    char canonical[CATALOGUE_TEXT_MAX];
    return whim_hub_ref_looks(given) || catalogue_find(given, canonical) != NULL;
}

bool hub_visit_open(hub_visit *visit, const whim_hub_ref *ref, const char *given, bool quiet)
{
    memset(visit, 0, sizeof *visit);
    if (!hub_settings_read(visit)) {
        return false;
    }
    visit->quiet = quiet;
    bool is_main = strcmp(ref->rev, "main") == 0;
    snprintf(visit->name, sizeof visit->name, "%s%s%s%s%.*s", ref->id, is_main ? "" : "@",
             is_main ? "" : ref->rev, ref->pick[0] != '\0' ? ":" : "", HUB_TEXT_MAX / 2, ref->pick);
    visit->given = strncmp(given, ref->id, strlen(ref->id)) != 0 ? given : NULL;
    snprintf(visit->label, sizeof visit->label, "fetch %s", ref->id);
    visit->cfg.say = on_say;
    visit->cfg.progress = on_progress;
    visit->cfg.ctx = visit;
    files_raise();
    signals_ignore(true);
    return true;
}

void hub_visit_close(hub_visit *visit, bool ok)
{
    if (visit->begun) {
        whim_progress_finish(&visit->bar, ok);
    }
    signals_ignore(false);
}

void hub_visit_blame(const hub_visit *visit, whim_err err, whim_diag *diag)
{
    if (err != WHIM_ERR_OK && visit->given != NULL) { /* else it was said already */
        whim_diag_prefix(diag, "%.200s is %s: ", visit->given, visit->name);
    }
}

/* The folder or file that a name stands for. *known: the hub or the cache has the name, so it is
 * not to blame for what went wrong. False with an empty diag: it has complained already. */
static bool by_name(const char *name, bool quiet, char *buf, bool *known, whim_diag *diag)
{
    whim_hub_ref ref;
    hub_visit visit = {.found = false};
    whim_err err = hub_ref_read(&ref, name, diag);
    if (err == WHIM_ERR_OK) {
        if (!hub_visit_open(&visit, &ref, name, quiet)) {
            return false;
        }
        err = whim_hub_get(&visit.cfg, &ref, buf, diag);
        hub_visit_close(&visit, err == WHIM_ERR_OK);
        hub_visit_blame(&visit, err, diag);
    }
    *known = visit.found || visit.given != NULL || strstr(name, "://") != NULL;
    return err == WHIM_ERR_OK;
}

const char *hub_model_path(const whim_options *options, char buf[MODEL_PATH_MAX])
{
    whim_diag diag = {""};
    bool known = false;
    if (!looks_like_name(options->model)) {
        complain_no_model(options->model, "");
        return NULL;
    }
    if (by_name(options->model, options->quiet, buf, &known, &diag)) {
        return buf;
    }
    if (known) {
        complain(EXIT_FAILED, "%s", diag.text);
    } else if (diag.text[0] != '\0') {
        complain_no_model(options->model, diag.text);
    }
    return NULL;
}

/* Whether a name on the hub is meant, and no path. */
static bool is_name(const char *given)
{
    return given != NULL && looks_like_name(given) && whim_path_get_type(given) == WHIM_PATH_NONE;
}

const char *hub_draft_path(const char *draft, bool quiet, char buf[MODEL_PATH_MAX])
{
    whim_diag diag = {""};
    bool known;
    if (!is_name(draft)) {
        return draft;
    }
    if (by_name(draft, quiet, buf, &known, &diag)) {
        return buf;
    }
    if (diag.text[0] != '\0') {
        complain(EXIT_FAILED, "--draft: nothing is at \"%s\". As a name on the hub: %s", draft,
                 diag.text);
    }
    return NULL;
}

bool hub_model_cached(const char *given, char buf[MODEL_PATH_MAX])
{
    whim_hub_ref ref;
    hub_visit visit = {.quiet = true};
    whim_diag ignored;
    return is_name(given) && hub_ref_read(&ref, given, &ignored) == WHIM_ERR_OK &&
           hub_settings_read(&visit) &&
           whim_hub_cached(visit.cache, &ref, true, buf, &ignored) == WHIM_ERR_OK;
}

bool hub_name(const char *given, char *buf, int64_t n)
{
    whim_hub_ref ref;
    whim_diag ignored;
    if (!is_name(given) || hub_ref_read(&ref, given, &ignored) != WHIM_ERR_OK) {
        return false;
    }
    return snprintf(buf, (size_t)n, "%s", ref.id) < n;
}

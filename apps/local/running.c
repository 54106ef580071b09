/* SPDX-License-Identifier: Apache-2.0 */
/* The register of running servers. A file is written under another name, locked, and only then
 * renamed: whoever sees its name sees a whole file with its lock. */
#include "local/running.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/os/facts.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 16 << 10, MAX_PORT = 65535 };
static const char folder_name[] = "running";
static const double ask_seconds = 1;
static const whim_json_limits limits = {.max_bytes = FILE_MAX, .max_depth = 4};

/* A home folder may be shared by machines, whose processes are not ours to see. */
static void own_host(char *buf, size_t n)
{
    if (gethostname(buf, n) != 0) {
        snprintf(buf, n, "localhost");
    }
    buf[n - 1] = '\0';
}

/* --- writing ---------------------------------------------------------------------------------- */

static void put_text(whim_str *out, const char *key, const char *value)
{
    whim_str_printf(out, ",\"%s\":", key);
    json_text(out, value);
}

static void describe(whim_str *out, const running_server *s, const char *host)
{
    whim_str_printf(out, "{\"pid\":%ld,\"started\":%lld,\"port\":%d,\"tls\":%s,\"needs_key\":%s",
                    (long)getpid(), (long long)s->started, s->port, s->tls ? "true" : "false",
                    s->needs_key ? "true" : "false");
    whim_str_printf(out, ",\"device_bytes\":%lld", (long long)s->device_bytes);
    put_text(out, "machine", host);
    put_text(out, "url", s->url);
    put_text(out, "host", s->host);
    put_text(out, "model", s->model);
    put_text(out, "path", s->path);
    put_text(out, "device", s->device);
    whim_str_append(out, "}\n");
}

/* running/PID.MACHINE.json, made of what is harmless in a name. */
static bool entry_path(running_entry *entry, const char *host)
{
    char name[RUNNING_TEXT_MAX], plain[64];
    snprintf(plain, sizeof plain, "%.63s", host);
    for (char *at = plain; *at != '\0'; at++) {
        *at = isalnum((unsigned char)*at) ? *at : '-';
    }
    snprintf(name, sizeof name, "%s/%ld.%s.json", folder_name, (long)getpid(), plain);
    return cache_path(name, entry->path, sizeof entry->path);
}

void running_tell(running_entry *entry, const running_server *about)
{
    char host[RUNNING_TEXT_MAX], fresh[MODEL_PATH_MAX + 8];
    whim_str text = {0};
    own_host(host, sizeof host);
    if (entry->path[0] == '\0' && !entry_path(entry, host)) {
        return;
    }
    describe(&text, about, host);
    snprintf(fresh, sizeof fresh, "%s.new", entry->path);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0 && !text.failed &&
              write(fd, whim_str_text(&text), (size_t)text.len) == (ssize_t)text.len;
    if (ok) {
        (void)!flock(fd, LOCK_EX | LOCK_NB); /* without locks the process itself is looked for */
        ok = rename(fresh, entry->path) == 0;
    }
    if (ok) {
        whim_file_close(entry->fd);
        entry->fd = fd;
    } else if (fd >= 0) {
        unlink(fresh);
        close(fd);
    }
    whim_str_deinit(&text);
}

void running_forget(running_entry *entry)
{
    if (entry->fd >= 0) {
        unlink(entry->path);
        close(entry->fd);
    }
    entry->fd = -1;
}

/* --- reading ---------------------------------------------------------------------------------- */

static void take_text(const whim_json_scope *scope, const char *key, char *buf, size_t n)
{
    const char *text = "";
    if (whim_json_get_string(scope, key, &text) == WHIM_ERR_OK) {
        snprintf(buf, n, "%s", text);
    }
}

static bool parse(const char *text, int64_t n, const char *path, running_server *s)
{
    char host[RUNNING_TEXT_MAX], machine[RUNNING_TEXT_MAX] = "";
    whim_json *json;
    whim_diag diag;
    if (whim_json_parse(&json, text, n, limits, path, &diag) != WHIM_ERR_OK) {
        return false;
    }
    whim_json_scope scope = {.obj = json, .path = path, .prefix = "", .diag = &diag};
    bool ok = whim_json_get_int(&scope, "pid", 1, INT32_MAX, &s->pid) == WHIM_ERR_OK &&
              whim_json_get_int(&scope, "started", 0, INT64_MAX / 2, &s->started) == WHIM_ERR_OK &&
              whim_json_get_int32(&scope, "port", 1, MAX_PORT, &s->port) == WHIM_ERR_OK &&
              whim_json_get_int(&scope, "device_bytes", 0, INT64_MAX / 2, &s->device_bytes) ==
                  WHIM_ERR_OK &&
              whim_json_get_bool(&scope, "tls", &s->tls) == WHIM_ERR_OK &&
              whim_json_get_bool(&scope, "needs_key", &s->needs_key) == WHIM_ERR_OK;
    take_text(&scope, "machine", machine, sizeof machine);
    take_text(&scope, "url", s->url, sizeof s->url);
    take_text(&scope, "host", s->host, sizeof s->host);
    take_text(&scope, "model", s->model, sizeof s->model);
    take_text(&scope, "path", s->path, sizeof s->path);
    take_text(&scope, "device", s->device, sizeof s->device);
    whim_json_free(json);
    own_host(host, sizeof host);
    return ok && s->pid > 0 && s->port > 0 && strcmp(machine, host) == 0;
}

/* Whether nobody holds the lock of this file any more. */
static bool is_left_over(int fd, const running_server *s)
{
    if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
        return true;
    }
    return errno != EWOULDBLOCK && kill((pid_t)s->pid, 0) != 0 && errno == ESRCH;
}

/* Delete it, unless another file has the name by now. */
static void sweep(int fd, const char *path)
{
    struct stat held, named;
    if (fstat(fd, &held) == 0 && stat(path, &named) == 0 && held.st_ino == named.st_ino) {
        unlink(path);
    }
}

static bool take_file(const char *path, running_server *s)
{
    char *text;
    int64_t n;
    whim_diag ignored;
    *s = (running_server){.pid = 0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || whim_file_read_all(path, FILE_MAX, &text, &n, &ignored) != WHIM_ERR_OK) {
        whim_file_close(fd);
        return false;
    }
    bool ok = parse(text, n, path, s);
    whim_free(text);
    if (ok && is_left_over(fd, s)) {
        sweep(fd, path);
        ok = false;
    }
    close(fd);
    return ok;
}

static void take_folder(const char *folder, running_list *list)
{
    whim_arena arena;
    char **names, path[MODEL_PATH_MAX];
    int64_t n = 0;
    whim_diag ignored;
    whim_arena_init(&arena);
    if (whim_dir_list(&arena, folder, &names, &n, &ignored) != WHIM_ERR_OK) {
        n = 0;
    }
    for (int64_t i = 0; i < n && list->n < RUNNING_MAX; i++) {
        int len = snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (len < (int)sizeof path && whim_path_has_suffix(path, ".json") &&
            take_file(path, &list->v[list->n])) {
            running_server *s = &list->v[list->n++];
            s->resident_bytes = whim_os_process_family_bytes((int32_t)s->pid);
        }
    }
    whim_arena_reset(&arena);
}

static int newest_first(const void *a, const void *b)
{
    const running_server *x = a, *y = b;
    if (x->started != y->started) {
        return x->started > y->started ? -1 : 1;
    }
    return x->pid > y->pid ? -1 : x->pid < y->pid;
}

void running_find(running_list *list)
{
    char folder[MODEL_PATH_MAX], path[MODEL_PATH_MAX + sizeof folder_name + 1];
    list->n = 0;
    for (int32_t i = 0; cache_folder_at(i, folder); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, folder_name);
        if (folder[0] != '\0') {
            take_folder(path, list);
        }
    }
    qsort(list->v, (size_t)list->n, sizeof list->v[0], newest_first);
}

/* --- asking ----------------------------------------------------------------------------------- */

static running_state state_of(const char *status)
{
    return strcmp(status, "ready") == 0      ? RUNNING_READY
           : strcmp(status, "draining") == 0 ? RUNNING_DRAINING
                                             : RUNNING_LOADING; /* also "restarting" */
}

/* Numbers that a server does not tell stay 0. */
static void take_health(const whim_json_scope *scope, running_server *s)
{
    const struct {
        const char *key;
        int64_t *out;
    } fields[] = {{"uptime_s", &s->uptime_s},
                  {"connections", &s->n_connection},
                  {"requests_total", &s->n_request},
                  {"running", &s->n_running},
                  {"waiting", &s->n_waiting}};
    const char *status = "", *who = "", *model = NULL;
    whim_err err = whim_json_get_string(scope, "server", &who);
    if (err != WHIM_ERR_OK || strcmp(who, "whimbrel") != 0 ||
        whim_json_get_string(scope, "status", &status) != WHIM_ERR_OK) {
        return; /* another program has the port by now */
    }
    s->state = state_of(status);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0] && err == WHIM_ERR_OK; i++) {
        err = whim_json_get_int(scope, fields[i].key, 0, INT64_MAX / 2, fields[i].out);
    }
    s->n_connection -= s->n_connection > 0 ? 1 : 0; /* ours, which asks */
    if (err == WHIM_ERR_OK) {
        err = whim_json_get_real(scope, "progress", 0, 1, &s->progress);
    }
    if (err == WHIM_ERR_OK && whim_json_get_string(scope, "model", &model) == WHIM_ERR_OK &&
        model != NULL) {
        snprintf(s->model, sizeof s->model, "%s", model);
    }
}

void running_ask(running_server *s)
{
    whim_str body = {0};
    whim_json *json;
    whim_diag diag;
    s->state = s->tls ? RUNNING_SECURED : RUNNING_SILENT;
    if (!s->tls && local_ask(s->host, s->port, "/health", ask_seconds, &body) &&
        whim_json_parse(&json, whim_str_text(&body), body.len, limits, s->url, &diag) ==
            WHIM_ERR_OK) {
        whim_json_scope scope = {.obj = json, .path = s->url, .prefix = "", .diag = &diag};
        take_health(&scope, s);
        whim_json_free(json);
    }
    whim_str_deinit(&body);
}

const running_server *running_newest(running_list *list)
{
    for (int32_t i = 0; i < list->n; i++) {
        running_ask(&list->v[i]);
        if (list->v[i].state == RUNNING_READY) {
            return &list->v[i];
        }
    }
    return NULL;
}

bool running_has(const running_server *server, const char *path)
{
    char *whole = path[0] != '\0' ? realpath(path, NULL) : NULL;
    bool has = whole != NULL && strcmp(whole, server->path) == 0;
    free(whole);
    return has;
}

const char *running_state_name(running_state state)
{
    static const char *const names[] = {[RUNNING_SILENT] = "no answer",
                                        [RUNNING_LOADING] = "loading",
                                        [RUNNING_READY] = "ready",
                                        [RUNNING_DRAINING] = "stopping",
                                        [RUNNING_SECURED] = "not asked (TLS)"};
    return names[state];
}

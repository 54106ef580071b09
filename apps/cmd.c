/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands share. */
#include "cmd.h"

#include "base/file.h"
#include "base/utf8.h"
#include "hub_model.h"
#include "local/fetch.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static whim_log *complaint_log;
static complaint_fn *complaint_hear;
static void *complaint_ctx;

void complain_to(whim_log *log)
{
    complaint_log = log;
}

void complain_by(complaint_fn *hear, void *ctx)
{
    complaint_hear = hear;
    complaint_ctx = ctx;
}

int complain(int code, const char *fmt, ...)
{
    va_list ap;
    whim_str text = {0};
    fflush(stdout);
    va_start(ap, fmt);
    whim_str_vprintf(&text, fmt, ap);
    va_end(ap);
    if (complaint_log != NULL) {
        whim_log_error(complaint_log, "failed", whim_log_text("error", whim_str_text(&text)));
    } else if (complaint_hear != NULL) {
        complaint_hear(complaint_ctx, whim_str_text(&text));
    } else {
        fprintf(stderr, "whimbrel: %s\n", whim_str_text(&text));
    }
    whim_str_deinit(&text);
    return code;
}

void warn_of(const char *event, const char *fmt, ...)
{
    va_list ap;
    whim_str text = {0};
    va_start(ap, fmt);
    whim_str_vprintf(&text, fmt, ap);
    va_end(ap);
    if (complaint_log != NULL) {
        whim_log_warn(complaint_log, event, whim_log_text("reason", whim_str_text(&text)));
    } else {
        fprintf(stderr, "whimbrel: %s\n", whim_str_text(&text));
    }
    whim_str_deinit(&text);
}

void tell_of(const char *event, const char *fmt, ...)
{
    va_list ap;
    whim_str text = {0};
    va_start(ap, fmt);
    whim_str_vprintf(&text, fmt, ap);
    va_end(ap);
    if (complaint_log != NULL) {
        whim_log_info(complaint_log, event, whim_log_text("text", whim_str_text(&text)));
    } else {
        fprintf(stderr, "%s\n", whim_str_text(&text));
    }
    whim_str_deinit(&text);
}

bool print_out(whim_str *text)
{
    bool ok = !text->failed;
    if (!ok) {
        complain(EXIT_FAILED, "out of memory while writing the output");
    } else if (fwrite(whim_str_text(text), 1, (size_t)text->len, stdout) != (size_t)text->len ||
               fflush(stdout) != 0) {
        complain(EXIT_FAILED, "cannot write to standard output: %s", strerror(errno));
        ok = false;
    }
    whim_str_clear(text);
    return ok;
}

/* --- the model -------------------------------------------------------------------------------- */

bool terminal_can_edit(void)
{
    const char *term = getenv("TERM");
    return term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0;
}

bool terminal_has_color(void)
{
    const char *no_color = getenv("NO_COLOR");
    return terminal_can_edit() && (no_color == NULL || no_color[0] == '\0');
}

bool terminal_reflows(void)
{
    const char *term = getenv("TERM");
    return env_is_set("TMUX") ||
           (!env_is_set("XTERM_VERSION") && (term == NULL || strcmp(term, "linux") != 0));
}

bool env_is_set(const char *name)
{
    return getenv(name) != NULL;
}

/* NULL where it is not set, or empty. */
static const char *env_text(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

const char *env_notify_socket(void)
{
    return env_text("NOTIFY_SOCKET");
}

int64_t env_watchdog_ns(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    int64_t value = usec != NULL ? strtoll(usec, NULL, 10) : 0;
    bool is_ours = pid == NULL || strtoll(pid, NULL, 10) == (long long)getpid();
    return is_ours && value > 0 && value < INT64_MAX / 1000 ? value * 1000 : 0;
}

bool env_is_journal(int fd)
{
    const char *stream = getenv("JOURNAL_STREAM"); /* "device:inode" of what it gave us */
    struct stat file;
    char own[64];
    if (stream == NULL || fstat(fd, &file) != 0) {
        return false;
    }
    snprintf(own, sizeof own, "%llu:%llu", (unsigned long long)file.st_dev,
             (unsigned long long)file.st_ino);
    return strcmp(own, stream) == 0;
}

bool env_credential(const char *name, char *buf, int64_t n)
{
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    int len = folder == NULL ? -1 : snprintf(buf, (size_t)n, "%s/%s", folder, name);
    return len > 0 && len < n && whim_path_get_type(buf) == WHIM_PATH_FILE;
}

const char *env_kv_dir(void)
{
    return getenv("WHIMBREL_KV_DIR");
}

const char *env_api_key(void)
{
    return env_text("WHIMBREL_API_KEY");
}

const char *env_join_secret(void)
{
    return env_text("WHIMBREL_JOIN_SECRET");
}

const char *env_launcher(const char *name)
{
    return env_text(name);
}

const char *env_ssh_server(void)
{
    /* SSH_CONNECTION is "client port server port". */
    static char server[64];
    const char *ssh = getenv("SSH_CONNECTION");
    return ssh != NULL && sscanf(ssh, "%*s %*s %63s", server) == 1 ? server : NULL;
}

const char *env_user(void)
{
    const char *user = env_text("USER");
    return user != NULL ? user : "you";
}

bool env_is_ci(void)
{
    const char *ci = env_text("CI");
    return ci != NULL && strcmp(ci, "false") != 0 && strcmp(ci, "0") != 0;
}

bool env_is_container(void)
{
    /* systemd-nspawn, podman */
    return env_text("container") != NULL || getenv("KUBERNETES_SERVICE_HOST") != NULL ||
           access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0;
}

/* --- models ----------------------------------------------------------------------------------- */

const char *choose_model(const whim_options *options, char *buf)
{
    if (options->model != NULL) {
        if (strncmp(options->model, "shape:", 6) != 0 &&
            whim_path_get_type(options->model) == WHIM_PATH_NONE) {
            return hub_model_path(options, buf);
        }
        return options->model;
    }
    whim_str why = {0};
    if (cache_find(default_model_name(), buf, MODEL_PATH_MAX)) {
        return buf;
    }
    if (cache_place(default_model_name(), buf, MODEL_PATH_MAX, &why)) {
        complain(EXIT_FAILED, "no MODEL was given, and the default model is not at %s: %s", buf,
                 fetch_ways(options));
    } else {
        complain(EXIT_FAILED, "no MODEL was given, and the default model has no place: %s",
                 whim_str_text(&why));
    }
    whim_str_deinit(&why);
    return NULL;
}

/* --- JSON ------------------------------------------------------------------------------------- */

void json_text(whim_str *out, const char *text)
{
    json_text_n(out, text, (int64_t)strlen(text));
}

void json_text_n(whim_str *out, const char *text, int64_t bytes)
{
    const unsigned char *end = (const unsigned char *)text + bytes;
    whim_str_append_char(out, '"');
    for (const unsigned char *at = (const unsigned char *)text; at < end;) {
        int32_t n = whim_utf8_char_length((const char *)at, end - at);
        if (n == 0) {
            whim_str_append(out, "\\ufffd");
            n = 1;
        } else if (*at == '"' || *at == '\\') {
            whim_str_printf(out, "\\%c", *at);
        } else if (*at == '\n') {
            whim_str_append(out, "\\n");
        } else if (*at < 0x20) {
            whim_str_printf(out, "\\u%04x", *at);
        } else {
            whim_str_append_n(out, (const char *)at, n);
        }
        at += n;
    }
    whim_str_append_char(out, '"');
}

void json_number(whim_str *out, double value)
{
    if (isfinite(value)) {
        whim_str_printf(out, "%.10g", value);
    } else {
        whim_str_append(out, "null");
    }
}

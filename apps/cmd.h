/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands share: their entry points, messages, the default model, JSON texts. The
 * environment is read in cmd.c, cache.c and hub_env.c and nowhere else (tools/check-names).
 * Threads: the main thread. */
#ifndef WHIM_APPS_CMD_H
#define WHIM_APPS_CMD_H

#include "base/err.h"
#include "base/report/log.h"
#include "base/str.h"
#include "library/library.h"
#include "options/options.h"

#include <stdbool.h>
#include <stdint.h>

/* Exit codes. */
enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

/* cmd_run, cmd_inspect, ...: do the command, return the exit code. */
#define WHIM_COMMAND(name, NAME, operand, summary) int cmd_##name(const whim_options *options);
#include "options/options.def"

/* "whimbrel: text" on standard error; returns `code`, so that a failing command ends with
 * `return complain(EXIT_FAILED, ...)`. */
int complain(int code, const char *fmt, ...) WHIM_PRINTF(2, 3);

/* Likewise of what continues all the same; `event` is its name in a log. */
void warn_of(const char *event, const char *fmt, ...) WHIM_PRINTF(2, 3);

/* Likewise what is good to know. */
void tell_of(const char *event, const char *fmt, ...) WHIM_PRINTF(2, 3);

/* From now on complaints are events of this log, level error, and warnings are its warnings; NULL:
 * for people again. */
void complain_to(whim_log *log);

/* From now on complaints go to this function instead of standard error, so that chat can show them
 * like its other lines; NULL: to standard error again. */
typedef void complaint_fn(void *ctx, const char *text);
void complain_by(complaint_fn *hear, void *ctx);

/* Write a text to standard output and empty it; false when that fails, said on standard error. */
bool print_out(whim_str *text);

enum { MODEL_PATH_MAX = 4096 };

/* --- the cache folder (cache.c) --------------------------------------------------------------- */

/* A file that is in one of the cache folders: WHIMBREL_CACHE or, when that is not set,
 * CACHE_DIRECTORY, $XDG_CACHE_HOME/whimbrel, ~/.cache/whimbrel; false when none has it. */
bool cache_find(const char *name, char *buf, int64_t n);

/* The i-th of these folders into `buf` (MODEL_PATH_MAX bytes), "" where others could write in it;
 * false: there are no more. */
bool cache_folder_at(int32_t i, char *buf);

/* Where a new file goes: into the first of them that can be written. False when there is none:
 * `why` says for each what is in the way, and what to do. */
bool cache_place(const char *name, char *buf, int64_t n, whim_str *why);

/* The same, with the folder made. */
bool cache_path(const char *name, char *buf, int64_t n);

/* The file there in which sums of weights are remembered; false: there is no place for it. */
bool weights_memory(char *buf, int64_t n);

const char *default_model_name(void);
/* Whether a path is that of the model in the cache. */
bool default_model_is(const char *path);

/* Where it is or would be. */
bool default_model_path(char *buf, int64_t n, whim_str *why);

/* --- the environment -------------------------------------------------------------------------- */

/* What the environment says about the terminal: whether colours are wanted (NO_COLOR, TERM),
 * whether it is more than a teletype, and whether it breaks rows anew when its width changes. */
bool terminal_has_color(void);
bool terminal_can_edit(void);
bool terminal_reflows(void);

/* The service manager: NOTIFY_SOCKET, or NULL; WATCHDOG_USEC if it is meant for this process, else
 * 0; whether this descriptor goes to its journal (JOURNAL_STREAM). */
const char *env_notify_socket(void);
int64_t env_watchdog_ns(void);
bool env_is_journal(int fd);

/* The path of a credential that the service manager has for us (CREDENTIALS_DIRECTORY); false when
 * there is none. */
bool env_credential(const char *name, char *buf, int64_t n);

/* WHIMBREL_KV_DIR, which may be empty, or NULL when it is not there. */
const char *env_kv_dir(void);

/* Whether a library's own variable is there, empty or not. */
bool env_is_set(const char *name);

/* WHIMBREL_API_KEY, or NULL when it is not there or empty. */
const char *env_api_key(void);

/* WHIMBREL_JOIN_SECRET, and what a launcher says of its machines; NULL where there is none. */
const char *env_join_secret(void);
const char *env_launcher(const char *name);

/* The address by which an ssh session reached this machine, or NULL; the user's name for it; and
 * whether this is a container. */
const char *env_ssh_server(void);
const char *env_user(void);
bool env_is_container(void);

/* Whether no person uses this terminal, because a test machine runs the command (CI). */
bool env_is_ci(void);

/* The operand, or the default model, or (by hub_model.h) what ORG/NAME stands for, which may take a
 * download. `buf` (MODEL_PATH_MAX bytes) is for a path that is not the operand. NULL after a
 * complaint when there is none; one about an unknown name shows similar names. */
const char *choose_model(const whim_options *options, char *buf);

/* Complain that a MODEL leads nowhere (local/near.c). The complaint lists similar names among
 * files, short names and models in the cache. `as_name`, unless "", is what the hub said about
 * it. */
void complain_no_model(const char *model, const char *as_name);

/* Bytes of the control character at `text`, 0 when it is none: what a model says must not steer a
 * terminal. C0 but tab and newline, DEL, and the C1 characters, which are 0xc2 0x80 .. 0x9f in
 * UTF-8. */
static inline int64_t terminal_control_length(const char *text, int64_t left)
{
    unsigned char c = (unsigned char)text[0];
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
        return 1;
    }
    return c == 0xc2 && left > 1 && (unsigned char)text[1] < 0xa0 ? 2 : 0;
}

/* JSON: a quoted string (bytes that are not UTF-8 become U+FFFD), a number (null when not finite).
 * The text is NUL-terminated; with a length it may hold NULs too. */
void json_text(whim_str *out, const char *text);
void json_text_n(whim_str *out, const char *text, int64_t bytes);
void json_number(whim_str *out, double value);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The log line about fields that change nothing: what no reader of the route looked at. */
#include "server/body/body.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NAMES = 8, MAX_NAME_BYTES = 64 };

/* What is known to have no effect and is not worth a line: who asks, what is kept where, and what
 * holds anyway. Each with a blank before and behind it. */
static const char idle[] =
    " metadata modalities model prompt_cache_key prompt_cache_options prompt_cache_retention "
    "safety_identifier service_tier store stream_options.include_obfuscation user ";

/* The same of some routes. */
static const struct {
    const char *path, *names;
} idle_of[] = {
    {"/responses", " include reasoning.generate_summary reasoning.summary stream_options "
                   "text.format.description text.format.name text.format.strict "},
    {"/messages", " cache_control "},
    {"/api/", " keep_alive options.embedding_only options.f16_kv options.logits_all "
              "options.low_vram options.main_gpu options.num_batch options.num_ctx "
              "options.num_gpu options.num_keep options.num_thread options.numa "
              "options.use_mlock options.use_mmap options.vocab_only "},
};

/* Those of other servers that have no effect: all values, or those that say what holds anyway. */
static const struct {
    const char *name;
    bool all;
    double lo, hi;
} foreign[] = {
#define FOREIGN_FORM(name, kind)
#define FOREIGN_REFUSED(name, lo, hi, why)
#define FOREIGN_IDLE(name) {name, true, 0, 0},
#define FOREIGN_TOLD(name, lo, hi) {name, false, lo, hi},
#include "server/body/foreign.def"
#undef FOREIGN_FORM
#undef FOREIGN_REFUSED
#undef FOREIGN_IDLE
#undef FOREIGN_TOLD
};

static bool is_in(const char *list, const char *name)
{
    size_t n = strlen(name);
    bool found = false;
    for (const char *at = list; n > 0 && strchr(name, ' ') == NULL && !found; at++) {
        at = strstr(at, name);
        if (at == NULL) {
            break;
        }
        found = at[-1] == ' ' && at[n] == ' ';
    }
    return found;
}

static bool is_idle(const char *path, const char *name, const json_t *value)
{
    static const char options[] = "options.";
    const char *of_others =
        strncmp(name, options, sizeof options - 1) == 0 ? name + sizeof options - 1 : name;
    bool found = is_in(idle, name);
    for (size_t i = 0; i < sizeof idle_of / sizeof idle_of[0] && !found; i++) {
        found = strstr(path, idle_of[i].path) != NULL && is_in(idle_of[i].names, name);
    }
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0] && !found; i++) {
        found = strcmp(of_others, foreign[i].name) == 0 &&
                (foreign[i].all || whim_value_is_off(value, foreign[i].lo, foreign[i].hi));
    }
    return found;
}

/* Names come from outside: only plain characters reach the log. */
static void add_name(whim_str *names, const char *name)
{
    whim_str_append(names, names->len > 0 ? "," : "");
    for (int i = 0; i < MAX_NAME_BYTES && name[i] != '\0'; i++) {
        bool plain = name[i] > ' ' && name[i] < 0x7F && strchr("\"\\=,", name[i]) == NULL;
        whim_str_append_char(names, plain ? name[i] : '?');
    }
}

/* The names in an object that nobody looked at. */
typedef struct unknown {
    const whim_looked_at *at;
    const char *path;
    whim_str names;
    int64_t n;
} unknown;

static void add_unknown(unknown *u, const json_t *object, const char *prefix)
{
    const char *key;
    json_t *value;
    char name[WHIM_FIELD_PREFIX + MAX_NAME_BYTES + 1];
    json_object_foreach((json_t *)object, key, value)
    {
        snprintf(name, sizeof name, "%s%s", prefix, key);
        if (!json_is_null(value) && !whim_field_is_looked_at(u->at, object, key) &&
            !is_idle(u->path, name, value) && u->n++ < MAX_NAMES) {
            add_name(&u->names, name);
        }
    }
}

void whim_unknown_fields_log(whim_log *log, const json_t *body, const whim_looked_at *at,
                             const char *path, const char *request_id)
{
    unknown u = {.at = at, .path = path};
    if (log == NULL || log->level < WHIM_LOG_INFO) {
        return;
    }
    add_unknown(&u, body, "");
    for (int32_t i = 0; i < at->n_inside; i++) {
        add_unknown(&u, at->inside[i].obj, at->inside[i].prefix);
    }
    if (u.n > 0) {
        whim_log_info(log, "unknown_fields", whim_log_text("id", request_id),
                      whim_log_int("n", u.n), whim_log_text("names", whim_str_text(&u.names)));
    }
    whim_str_deinit(&u.names);
}

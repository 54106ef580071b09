/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers the events of a parser as one text, neighbours of a kind joined, and checks what must
 * hold at every event: arguments so far begin valid JSON (by a second, recursive reader), a
 * complete call is an object, numbers of calls count up. */
#ifndef WHIM_TESTS_CHAT_EVENTS_H
#define WHIM_TESTS_CHAT_EVENTS_H

#include "base/str.h"
#include "chat/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct chat_log {
    whim_str text; /* r[..] c[..] call:name args[..] end */
    whim_str args;
    int last; /* kind of the last event, -1 at the start */
    int32_t n_call;
    bool open;
    bool wrong; /* something that must hold did not */
} chat_log;

typedef enum json_look { LOOK_BAD, LOOK_CUT, LOOK_WHOLE } json_look;

static json_look look_value(const char **s, int depth);

static const char *look_space(const char *s)
{
    return s + strspn(s, " \t\r\n");
}

static json_look look_string(const char **s)
{
    for ((*s)++; **s != '"'; (*s)++) {
        if (**s == '\0') {
            return LOOK_CUT;
        }
        if ((unsigned char)**s < 0x20) {
            return LOOK_BAD;
        }
        if (**s == '\\') {
            char c = *++*s;
            if (c == '\0') {
                return LOOK_CUT;
            }
            for (int i = 0; c == 'u' && i < 4; i++) {
                c = *++*s;
                if (c == '\0') {
                    return LOOK_CUT;
                }
                if (strchr("0123456789abcdefABCDEF", c) == NULL) {
                    return LOOK_BAD;
                }
                c = 'u';
            }
            if (strchr("\"\\/bfnrtu", c) == NULL) {
                return LOOK_BAD;
            }
        }
    }
    (*s)++;
    return LOOK_WHOLE;
}

static json_look look_list(const char **s, bool object, int depth)
{
    const char close = object ? '}' : ']';
    for (bool first = true;; first = false) {
        *s = look_space(*s + 1);
        if (**s == '\0') {
            return LOOK_CUT;
        }
        if (first && **s == close) {
            break;
        }
        json_look look = LOOK_WHOLE;
        if (object) {
            look = **s == '"' ? look_string(s) : LOOK_BAD;
            *s = look == LOOK_WHOLE ? look_space(*s) : *s;
            if (look == LOOK_WHOLE && **s != ':') {
                look = **s == '\0' ? LOOK_CUT : LOOK_BAD;
            }
            *s += look == LOOK_WHOLE;
        }
        look = look == LOOK_WHOLE ? look_value(s, depth + 1) : look;
        if (look != LOOK_WHOLE) {
            return look;
        }
        *s = look_space(*s);
        if (**s != ',') {
            if (**s == close) {
                break;
            }
            return **s == '\0' ? LOOK_CUT : LOOK_BAD;
        }
    }
    (*s)++;
    return LOOK_WHOLE;
}

static json_look look_value(const char **s, int depth)
{
    static const char *const words[] = {"true", "false", "null"};
    *s = look_space(*s);
    if (**s == '\0' || depth > 500) {
        return **s == '\0' ? LOOK_CUT : LOOK_BAD;
    }
    if (**s == '"') {
        return look_string(s);
    }
    if (**s == '{' || **s == '[') {
        return look_list(s, **s == '{', depth);
    }
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(words[i]), given = strnlen(*s, n);
        if (strncmp(*s, words[i], given) == 0) {
            *s += given;
            return given == n ? LOOK_WHOLE : LOOK_CUT;
        }
    }
    /* A number: cut wherever the text ends; else what strtod takes, without the forms that JSON
     * lacks. */
    size_t n = strspn(*s, "-+.eE0123456789");
    char buf[400];
    if (n == 0 || strchr("+.eE", **s) != NULL) {
        return LOOK_BAD;
    }
    if (n >= sizeof buf) { /* too long to look at closely */
        *s += n;
        return **s == '\0' ? LOOK_CUT : LOOK_WHOLE;
    }
    snprintf(buf, sizeof buf, "%.*s", (int)n, *s);
    *s += n;
    if (**s == '\0') {
        strcat(buf, strchr("-+.eE", buf[n - 1]) != NULL ? "0" : "");
    }
    const char *digits = buf + (buf[0] == '-');
    const char *point = strchr(buf, '.');
    char *end;
    (void)strtod(buf, &end);
    bool good = *end == '\0' && digits[0] >= '0' && digits[0] <= '9' &&
                !(digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9') &&
                (point == NULL || (point[1] >= '0' && point[1] <= '9'));
    return !good ? LOOK_BAD : **s == '\0' ? LOOK_CUT : LOOK_WHOLE;
}

/* Whether a text begins valid JSON that is an object. */
static bool begins_object(const char *text)
{
    const char *s = look_space(text);
    if (*s != '\0' && *s != '{') {
        return false;
    }
    json_look look = look_value(&s, 0);
    return look == LOOK_CUT || (look == LOOK_WHOLE && *look_space(s) == '\0');
}

static void chat_log_close(chat_log *log)
{
    if (log->last == WHIM_CHAT_REASONING || log->last == WHIM_CHAT_CONTENT ||
        log->last == WHIM_CHAT_CALL_ARGS) {
        whim_str_append(&log->text, "]");
    }
    log->last = -1;
}

static void chat_log_event(void *ctx, const whim_chat_event *event)
{
    static const char *const words[] = {"r[", "c[", "", "args[", " end"};
    chat_log *log = ctx;
    if (log->last != (int)event->kind) {
        chat_log_close(log);
        whim_str_append(&log->text, words[event->kind]);
    }
    log->last = (int)event->kind;
    if (event->kind == WHIM_CHAT_CALL_BEGIN) {
        whim_str_printf(&log->text, " %d:", event->call);
        log->wrong = log->wrong || event->call != log->n_call || event->n == 0;
        log->n_call++;
        log->open = true;
        whim_str_clear(&log->args);
    } else if (event->kind == WHIM_CHAT_CALL_END) {
        json_t *json = json_loadb(whim_str_text(&log->args), (size_t)log->args.len,
                                  JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
        /* What jansson cannot hold (1e999, half a pair) is still JSON. */
        log->wrong = log->wrong || event->n != 0 || !log->open ||
                     !(json_is_object(json) || begins_object(whim_str_text(&log->args)));
        log->open = false;
        json_decref(json);
    } else {
        log->wrong = log->wrong || event->n <= 0;
    }
    if (event->kind == WHIM_CHAT_CALL_ARGS) {
        whim_str_append_n(&log->args, event->text, event->n);
        log->wrong = log->wrong || !log->open || event->call != log->n_call - 1 ||
                     !begins_object(whim_str_text(&log->args));
    }
    whim_str_append_n(&log->text, event->text, event->n);
}

static void chat_log_deinit(chat_log *log)
{
    whim_str_deinit(&log->text);
    whim_str_deinit(&log->args);
}

/* Parse in pieces that end at cuts[0..n_cut) and at the end; the log is new. False without
 * memory. */
static bool chat_log_parse(chat_log *log, const whim_chat_parser_cfg *cfg, const char *text,
                           int64_t n, const int64_t *cuts, int64_t n_cut)
{
    whim_chat_parser *p;
    *log = (chat_log){.last = -1};
    if (whim_chat_parser_create(cfg, &p) != WHIM_ERR_OK) {
        return false;
    }
    int64_t at = 0;
    for (int64_t i = 0; i <= n_cut; i++) {
        int64_t to = i < n_cut ? cuts[i] : n;
        /* A copy of its own, so that a read beyond the piece is seen. */
        char *piece = malloc((size_t)(to - at) + 1);
        memcpy(piece, text + at, (size_t)(to - at));
        piece = realloc(piece, (size_t)(to - at) + (to == at));
        whim_chat_parser_push(p, piece, to - at, chat_log_event, log);
        free(piece);
        at = to;
    }
    whim_chat_parser_finish(p, chat_log_event, log);
    chat_log_close(log);
    whim_chat_parser_destroy(p);
    return true;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of replies. */
#include "client/server_reply.h"

#include "base/alloc.h"
#include "base/json.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    MAX_HEAD = 64 << 10,
    MAX_EVENT = 4 << 20,
    MAX_BODY = 16 << 20, /* the tokens of a long prompt */
    MAX_DEPTH = 64,
};

static const char where[] = "the answer";

void server_reply_reset(server_reply *a)
{
    server_reply old = *a;
    *a = (server_reply){.head = old.head,
                        .line = old.line,
                        .data = old.data,
                        .on_chunk = old.on_chunk,
                        .ctx = old.ctx,
                        .times = old.times,
                        .max_time = old.max_time};
    whim_str_clear(&a->head);
    whim_str_clear(&a->line);
    whim_str_clear(&a->data);
}

void server_reply_deinit(server_reply *a)
{
    whim_str_deinit(&a->head);
    whim_str_deinit(&a->line);
    whim_str_deinit(&a->data);
    whim_free(a->times);
    *a = (server_reply){0};
}

void server_reply_fail(server_reply *a, server_fault fault, const char *message)
{
    if (a->fault == SERVER_FAULT_NONE) {
        a->fault = fault;
        snprintf(a->message, sizeof a->message, "%s", message);
    }
    a->stage = SERVER_STAGE_COMPLETE;
}

/* --- events ----------------------------------------------------------------------------------- */

static void add_time(server_reply *a, int64_t now)
{
    if (!whim_grow(&a->times, a->n_time + 1, &a->max_time, sizeof *a->times)) {
        server_reply_fail(a, SERVER_FAULT_MEMORY, "");
        return;
    }
    a->times[a->n_time++] = now;
}

/* The text of an error as servers write it: {"error": {"message": ...}}, {"error": ...} or
 * {"message": ...}. */
static const char *error_text(const whim_json *obj)
{
    whim_json_scope scope = {obj, where, "", NULL};
    const whim_json *error = whim_json_get(&scope, "error");
    const char *text = "";
    if (whim_json_is_object(error)) {
        scope.obj = error;
    } else if (whim_json_as_string(error, &text)) {
        return text;
    }
    return whim_json_get_string(&scope, "message", &text) == WHIM_ERR_OK ? text : "";
}

/* Whether this field of the object is a text; *filled when it is more than "". */
static bool has_text(const whim_json *obj, const char *key, bool *filled)
{
    whim_json_scope scope = {obj, where, "", NULL};
    const char *text = NULL;
    if (whim_json_get_string(&scope, key, &text) != WHIM_ERR_OK || text == NULL) {
        return false;
    }
    *filled = *filled || text[0] != '\0';
    return true;
}

/* A choice brings a token when it brings text. Tokens without text (an end token that is ignored,
 * half a character) come as "", which must be told from the first chunk, which only says that the
 * stream is there, and the last, with a reason. */
static void read_choice(server_reply *a, const whim_json *choice, int64_t now)
{
    whim_json_scope scope = {choice, where, "", NULL};
    const whim_json *delta = NULL;
    bool filled = false, ends = whim_json_has(&scope, "finish_reason");
    bool any = has_text(choice, "text", &filled), begins = !a->begun;
    if (whim_json_get_object(&scope, "delta", &delta) == WHIM_ERR_OK && delta != NULL) {
        scope.obj = delta;
        begins = begins || whim_json_has(&scope, "role");
        any = has_text(delta, "content", &filled) || any;
        any = has_text(delta, "reasoning_content", &filled) || any;
        any = has_text(delta, "reasoning", &filled) || any;
    }
    a->finished = a->finished || ends;
    a->begun = true;
    if (filled || (any && !begins && !ends)) {
        add_time(a, now);
    }
}

static void read_usage(server_reply *a, const whim_json *usage)
{
    whim_json_scope scope = {usage, where, "", NULL};
    int64_t prompt = -1, gen = -1, cached = 0;
    const whim_json *details = NULL;
    if (whim_json_get_int(&scope, "prompt_tokens", 0, INT32_MAX, &prompt) != WHIM_ERR_OK ||
        whim_json_get_int(&scope, "completion_tokens", 0, INT32_MAX, &gen) != WHIM_ERR_OK ||
        prompt < 0 || gen < 0) {
        return;
    }
    if (whim_json_get_object(&scope, "prompt_tokens_details", &details) == WHIM_ERR_OK &&
        details != NULL) {
        scope.obj = details;
        if (whim_json_get_int(&scope, "cached_tokens", 0, INT32_MAX, &cached) != WHIM_ERR_OK) {
            cached = 0;
        }
    }
    a->has_usage = true;
    a->prompt_tokens = prompt;
    a->gen_tokens = gen;
    a->cached_tokens = cached;
}

static void read_document(server_reply *a, const whim_json *json, int64_t now)
{
    whim_json_scope scope = {json, where, "", NULL};
    const whim_json *choices = NULL, *usage = NULL;
    if (a->on_chunk != NULL) {
        a->on_chunk(a->ctx, json);
    }
    if (whim_json_has(&scope, "error")) {
        server_reply_fail(a, SERVER_FAULT_STREAM, error_text(json));
        return;
    }
    if (whim_json_get_array(&scope, "choices", &choices) == WHIM_ERR_OK && choices != NULL &&
        whim_json_is_object(whim_json_at(choices, 0))) {
        read_choice(a, whim_json_at(choices, 0), now);
    }
    if (whim_json_get_object(&scope, "usage", &usage) == WHIM_ERR_OK && usage != NULL) {
        read_usage(a, usage);
    }
}

/* An empty line: the event is whole. */
static void end_event(server_reply *a, int64_t now)
{
    const char *text = whim_str_text(&a->data);
    whim_json *json = NULL;
    if (!a->has_data) {
        return;
    }
    a->has_data = false;
    if (strcmp(text, "[DONE]") == 0) {
        a->done = true;
    } else if (whim_json_parse(&json, text, a->data.len, (whim_json_limits){MAX_EVENT, MAX_DEPTH},
                               where, NULL) != WHIM_ERR_OK) {
        server_reply_fail(a, SERVER_FAULT_PROTOCOL, "an event that is no JSON object");
    } else {
        read_document(a, json, now);
    }
    whim_json_free(json);
    whim_str_clear(&a->data);
}

static void event_line(server_reply *a, const char *line, int64_t n, int64_t now)
{
    static const char field[] = "data:";
    const int64_t n_field = sizeof field - 1;
    if (n == 0) {
        end_event(a, now);
        return;
    }
    if (n < n_field || memcmp(line, field, (size_t)n_field) != 0) {
        return; /* comments keep the connection alive; names of events say nothing new */
    }
    int64_t skip = n_field + (n > n_field && line[n_field] == ' ');
    if (a->has_data) {
        whim_str_append_char(&a->data, '\n');
    }
    if (a->data.len + n > MAX_EVENT) {
        server_reply_fail(a, SERVER_FAULT_PROTOCOL, "an event of more than 4 MiB");
        return;
    }
    whim_str_append_n(&a->data, line + skip, n - skip);
    a->has_data = true;
}

/* --- HTTP ------------------------------------------------------------------------------------- */

static bool is_header(const char *line, const char *name, const char **value)
{
    size_t n = strlen(name);
    if (strncasecmp(line, name, n) != 0 || line[n] != ':') {
        return false;
    }
    *value = line + n + 1 + strspn(line + n + 1, " \t");
    return true;
}

/* Digits of base 10 or 16 up to the end of the text or one of `ends`; -1 when there are none or too
 * many. */
static int64_t read_number(const char *text, int base, const char *ends)
{
    int64_t value = 0, n = 0;
    for (; n < 15; n++, text++) {
        int digit = whim_hex_value(*text);
        if (digit < 0 || digit >= base) {
            break;
        }
        value = value * base + digit;
    }
    return n > 0 && strchr(ends, *text) != NULL ? value : -1;
}

static void status_line(server_reply *a, const char *line)
{
    int64_t status =
        strncmp(line, "HTTP/1.", 7) == 0 && line[7] != '\0' && line[8] == ' ' /* 1.0 or 1.1 */
            ? read_number(line + 9, 10, " ")
            : -1;
    if (status < 100 || status > 999) {
        server_reply_fail(a, SERVER_FAULT_PROTOCOL, "no HTTP/1.1 status line");
        return;
    }
    a->status = (int32_t)status;
    a->left = -1;
    a->chunked = a->is_events = false;
    a->stage = SERVER_STAGE_HEADERS;
}

static void header_line(server_reply *a, const char *line)
{
    const char *value;
    if (is_header(line, "transfer-encoding", &value)) {
        a->chunked = strcasecmp(value, "chunked") == 0;
        if (!a->chunked) {
            server_reply_fail(a, SERVER_FAULT_PROTOCOL, "an unknown transfer encoding");
        }
    } else if (is_header(line, "content-length", &value)) {
        a->left = read_number(value, 10, " ");
        if (a->left < 0) {
            server_reply_fail(a, SERVER_FAULT_PROTOCOL, "a content length that is no number");
        }
    } else if (is_header(line, "content-type", &value)) {
        a->is_events = strncasecmp(value, "text/event-stream", 17) == 0;
    }
}

static void end_headers(server_reply *a)
{
    if (a->status < 200) {
        a->stage = SERVER_STAGE_STATUS; /* 100 Continue and its kind: the reply follows */
        return;
    }
    a->is_events = a->is_events && a->status == 200;
    a->stage = a->chunked     ? SERVER_STAGE_CHUNK_SIZE
               : a->left == 0 ? SERVER_STAGE_COMPLETE
                              : SERVER_STAGE_BODY;
}

static void chunk_size_line(server_reply *a, const char *line)
{
    a->left = read_number(line, 16, "; \t");
    if (a->left < 0) {
        server_reply_fail(a, SERVER_FAULT_PROTOCOL, "a chunk size that is no number");
        return;
    }
    a->n_head = 0;
    a->stage = a->left == 0 ? SERVER_STAGE_TRAILERS : SERVER_STAGE_CHUNK;
}

/* A line outside the body is whole. */
static void head_line(server_reply *a, const char *line)
{
    bool empty = line[0] == '\0';
    switch (a->stage) {
    case SERVER_STAGE_STATUS:
        status_line(a, line);
        break;
    case SERVER_STAGE_HEADERS:
        if (empty) {
            end_headers(a);
        } else {
            header_line(a, line);
        }
        break;
    case SERVER_STAGE_CHUNK_SIZE:
        chunk_size_line(a, line);
        break;
    case SERVER_STAGE_CHUNK_END:
        a->stage = SERVER_STAGE_CHUNK_SIZE;
        if (!empty) {
            server_reply_fail(a, SERVER_FAULT_PROTOCOL, "a chunk longer than it says");
        }
        break;
    default: /* trailers mean nothing here */
        a->stage = empty ? SERVER_STAGE_COMPLETE : SERVER_STAGE_TRAILERS;
        break;
    }
}

/* Take bytes up to and with the next line end; true when that was there and the line is whole. */
static bool take_line(whim_str *line, const char **at, const char *end)
{
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    whim_str_append_n(line, *at, (stop != NULL ? stop : end) - *at);
    *at = stop != NULL ? stop + 1 : end;
    if (stop != NULL && line->len > 0 && line->text[line->len - 1] == '\r') {
        line->text[--line->len] = '\0';
    }
    return stop != NULL;
}

static void head_bytes(server_reply *a, const char **at, const char *end)
{
    const char *from = *at;
    bool whole = take_line(&a->head, at, end);
    a->n_head += *at - from;
    if (a->n_head > MAX_HEAD) {
        server_reply_fail(a, SERVER_FAULT_PROTOCOL, "more than 64 KiB of headers");
    } else if (whole) {
        head_line(a, whim_str_text(&a->head));
        whim_str_clear(&a->head);
    }
}

static void body_bytes(server_reply *a, const char *at, const char *end, int64_t now)
{
    if (!a->is_events) {
        int64_t room = MAX_BODY - a->data.len;
        whim_str_append_n(&a->data, at, end - at < room ? end - at : room);
        return;
    }
    while (at < end && a->stage != SERVER_STAGE_COMPLETE) {
        bool whole = take_line(&a->line, &at, end);
        if (a->line.len > MAX_EVENT + !whole) { /* the byte more may be a '\r' */
            server_reply_fail(a, SERVER_FAULT_PROTOCOL, "an event of more than 4 MiB");
        } else if (whole) {
            event_line(a, whim_str_text(&a->line), a->line.len, now);
            whim_str_clear(&a->line);
        }
    }
}

void server_reply_feed(server_reply *a, const char *bytes, int64_t n, int64_t now)
{
    const char *at = bytes, *end = bytes + n;
    while (at < end && a->stage != SERVER_STAGE_COMPLETE) {
        if (a->stage != SERVER_STAGE_BODY && a->stage != SERVER_STAGE_CHUNK) {
            head_bytes(a, &at, end);
            continue;
        }
        int64_t piece = a->left >= 0 && a->left < end - at ? a->left : end - at;
        body_bytes(a, at, at + piece, now);
        at += piece;
        a->left -= a->left >= 0 ? piece : 0;
        if (a->left == 0 && a->stage != SERVER_STAGE_COMPLETE) {
            a->stage = a->chunked ? SERVER_STAGE_CHUNK_END : SERVER_STAGE_COMPLETE;
        }
    }
    if (a->head.failed || a->line.failed || a->data.failed) {
        server_reply_fail(a, SERVER_FAULT_MEMORY, "");
    }
}

/* --- the end ---------------------------------------------------------------------------------- */

/* What a server says with a status that is not 200: its message, or the beginning of whatever it
 * sent. */
static void fail_status(server_reply *a)
{
    whim_json *json = NULL;
    const char *text = whim_str_text(&a->data), *message = "";
    if (whim_json_parse(&json, text, a->data.len, (whim_json_limits){MAX_BODY, MAX_DEPTH}, where,
                        NULL) == WHIM_ERR_OK) {
        message = error_text(json);
    }
    server_reply_fail(a, SERVER_FAULT_STATUS, message[0] != '\0' ? message : text);
    whim_json_free(json);
}

void server_reply_end(server_reply *a, bool wants_stream)
{
    bool whole =
        a->stage == SERVER_STAGE_COMPLETE || (a->stage == SERVER_STAGE_BODY && a->left < 0);
    if (a->fault != SERVER_FAULT_NONE) {
        return;
    }
    if (a->status != 0 && a->status != 200 && a->stage >= SERVER_STAGE_BODY) {
        fail_status(a);
    } else if (a->is_events && (a->done || a->finished)) {
        whole = true; /* the reply says that it is whole; only the end of HTTP is missing */
    }
    if (!whole || (a->is_events && !a->done && !a->finished)) {
        server_reply_fail(a, SERVER_FAULT_CUT, "");
    } else if (wants_stream && !a->is_events) {
        server_reply_fail(a, SERVER_FAULT_NO_STREAM, "");
    } else if (wants_stream && a->n_time == 0) {
        server_reply_fail(a, SERVER_FAULT_EMPTY, "");
    }
    a->stage = SERVER_STAGE_COMPLETE;
}

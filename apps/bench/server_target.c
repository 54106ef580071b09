/* SPDX-License-Identifier: Apache-2.0 */
/* The server to measure: its URL, its address, its model's name, and the requests that it gets. */
#include "base/clock.h"
#include "base/json.h"
#include "base/math/rng.h"
#include "bench/server.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* Short and common, so that nearly every tokenizer has one token for each with the blank before
 * it. */
static const char *const words[] = {
    "the",   "of",     "and",   "to",     "in",    "is",     "for",    "that",    "with",
    "as",    "are",    "on",    "by",     "from",  "this",   "or",     "be",      "it",
    "at",    "an",     "can",   "not",    "have",  "has",    "was",    "which",   "more",
    "will",  "also",   "their", "but",    "one",   "about",  "other",  "they",    "we",
    "these", "all",    "its",   "such",   "may",   "when",   "time",   "some",    "into",
    "most",  "like",   "used",  "than",   "many",  "been",   "first",  "two",     "were",
    "how",   "people", "new",   "what",   "only",  "over",   "up",     "who",     "out",
    "there", "if",     "so",    "water",  "make",  "years",  "well",   "way",     "work",
    "world", "use",    "could", "then",   "them",  "where",  "life",   "each",    "would",
    "our",   "should", "much",  "after",  "any",   "small",  "both",   "between", "important",
    "often", "high",   "same",  "need",   "good",  "help",   "part",   "take",    "day",
    "long",  "even",   "under", "great",  "food",  "system", "number", "through", "state",
    "form",  "before", "level", "health", "light", "house",  "school", "story",   "music",
    "river", "red",    "white", "money",  "city",  "night",  "paper",  "field",   "group",
    "point", "learn",
};
enum { N_WORD = sizeof words / sizeof words[0], HTTP_PORT = 80 };

/* --- the URL ---------------------------------------------------------------------------------- */

static whim_err bad_url(const char *url, const char *why, whim_diag *diag)
{
    return whim_fail(diag, WHIM_ERR_INVALID,
                     "--serve: \"%.200s\" %s; expected is http://HOST[:PORT][/PATH], such as "
                     "http://127.0.0.1:8080 (without a path /v1 is taken)",
                     url, why);
}

static whim_err copy_part(char *out, size_t size, const char *from, size_t n, const char *url,
                          const char *what, whim_diag *diag)
{
    if (n >= size) {
        return bad_url(url, what, diag);
    }
    memcpy(out, from, n);
    out[n] = '\0';
    return WHIM_ERR_OK;
}

/* host, host:port, [v6] or [v6]:port */
static whim_err read_authority(server_target *t, const char *url, const char *at, size_t n,
                               whim_diag *diag)
{
    const char *end = at + n, *host_end, *colon;
    bool bracket = n > 0 && *at == '[';
    host_end = memchr(at, bracket ? ']' : ':', n);
    if (bracket && host_end == NULL) {
        return bad_url(url, "has a bracket that does not end", diag);
    }
    host_end = host_end != NULL ? host_end : end;
    WHIM_TRY(copy_part(t->host, sizeof t->host, at + bracket, (size_t)(host_end - at - bracket),
                       url, "has a host name too long", diag));
    colon = host_end + bracket;
    if (t->host[0] == '\0') {
        return bad_url(url, "names no host", diag);
    }
    snprintf(t->port, sizeof t->port, "%d", HTTP_PORT);
    if (colon < end) {
        size_t digits = strspn(colon + 1, "0123456789");
        if (*colon != ':' || digits == 0 || digits > 5 || colon + 1 + digits != end) {
            return bad_url(url, "has a port that is no number", diag);
        }
        WHIM_TRY(copy_part(t->port, sizeof t->port, colon + 1, digits, url, "has no port", diag));
    }
    return copy_part(t->authority, sizeof t->authority, at, n, url, "has a host name too long",
                     diag);
}

static whim_err read_url(server_target *t, const char *url, whim_diag *diag)
{
    if (strncasecmp(url, "https://", 8) == 0) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "--serve: https is not spoken here; put a proxy on this machine that "
                         "does (socat, stunnel, nginx) in front of %.200s, and give its http:// "
                         "address",
                         url);
    }
    if (strncasecmp(url, "http://", 7) != 0) {
        return bad_url(url, "does not begin with http://", diag);
    }
    for (const char *c = url; *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~' || strchr("?#@\\\"", *c) != NULL) {
            return bad_url(url, "has a character that does not belong there", diag);
        }
    }
    const char *at = url + 7;
    size_t n = strcspn(at, "/");
    WHIM_TRY(read_authority(t, url, at, n, diag));
    const char *path = at + n;
    size_t n_path = strlen(path);
    while (n_path > 0 && path[n_path - 1] == '/') {
        n_path--;
    }
    return n_path == 0
               ? copy_part(t->base, sizeof t->base, "/v1", 3, url, "", diag)
               : copy_part(t->base, sizeof t->base, path, n_path, url, "has a path too long", diag);
}

/* --- requests --------------------------------------------------------------------------------- */

static void append_words(uint64_t key, int64_t n, bool first, whim_str *out)
{
    for (int64_t i = 0; i < n; i++) {
        const char *word = words[whim_rng_at(key, (uint64_t)i) % N_WORD];
        whim_str_append(out, i == 0 && first ? "" : " ");
        whim_str_append(out, word);
    }
}

/* ignore_eos makes all answers equally long on servers that know it. */
static void append_body(const server_target *t, int64_t number, whim_str *out)
{
    int64_t shared = t->options->prefix_tokens;
    whim_str_append(out, "{\"model\":");
    json_text(out, t->model);
    whim_str_append(out, t->chat ? ",\"messages\":[{\"role\":\"user\",\"content\":\""
                                 : ",\"prompt\":\"");
    append_words(whim_rng_key(t->seed, 0), shared, true, out);
    append_words(whim_rng_key(t->seed, (uint64_t)number + 1), t->prompt_words, shared == 0, out);
    whim_str_append(out, t->chat ? "\"}]" : "\"");
    whim_str_printf(
        out,
        ",\"max_tokens\":%lld,\"ignore_eos\":true,"
        "\"temperature\":%g,\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
        (long long)t->tokens, t->options->server_temp);
}

static void append_head(const server_target *t, const char *method, const char *path,
                        int64_t n_body, whim_str *out)
{
    whim_str_printf(out,
                    "%s %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: whimbrel-bench\r\n"
                    "Connection: close\r\n",
                    method, t->base, path, t->authority);
    if (t->options->server_key != NULL) {
        whim_str_printf(out, "Authorization: Bearer %s\r\n", t->options->server_key);
    }
    if (n_body > 0) {
        whim_str_printf(out,
                        "Accept: text/event-stream\r\nContent-Type: application/json\r\n"
                        "Content-Length: %lld\r\n",
                        (long long)n_body);
    }
    whim_str_append(out, "\r\n");
}

void server_request_append(const server_target *t, int64_t number, whim_str *out)
{
    whim_str body = {0};
    append_body(t, number, &body);
    append_head(t, "POST", t->chat ? "/chat/completions" : "/completions", body.len, out);
    whim_str_append_n(out, whim_str_text(&body), body.len);
    out->failed = out->failed || body.failed;
    whim_str_deinit(&body);
}

void server_get_append(const server_target *t, const char *path, whim_str *out)
{
    append_head(t, "GET", path, 0, out);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* The name of the first model that the server lists; a server that lists none gets a name of ours,
 * which those with one model take. */
static void name_model(server_target *t, const server_reply *a)
{
    whim_json *json = NULL;
    const whim_json *data = NULL;
    const char *id = NULL;
    snprintf(t->model, sizeof t->model, "default");
    if (a->fault != SERVER_FAULT_NONE ||
        whim_json_parse(&json, whim_str_text(&a->data), a->data.len,
                        (whim_json_limits){1 << 20, 32}, t->authority, NULL) != WHIM_ERR_OK) {
        return;
    }
    whim_json_scope scope = {json, t->authority, "", NULL};
    if (whim_json_get_array(&scope, "data", &data) == WHIM_ERR_OK && data != NULL &&
        whim_json_is_object(whim_json_at(data, 0))) {
        scope.obj = whim_json_at(data, 0);
        if (whim_json_get_string(&scope, "id", &id) == WHIM_ERR_OK && id != NULL) {
            snprintf(t->model, sizeof t->model, "%s", id);
        }
    }
    whim_json_free(json);
}

/* The first address that takes a connection is the one to measure. */
static whim_err find_address(server_target *t, const struct addrinfo *list, whim_diag *diag)
{
    whim_err err = WHIM_ERR_NOT_FOUND;
    server_reply a = {0};
    for (const struct addrinfo *at = list; at != NULL && err != WHIM_ERR_OK; at = at->ai_next) {
        memcpy(&t->address, at->ai_addr, at->ai_addrlen);
        t->address_bytes = at->ai_addrlen;
        err = server_get(t, "/models", &a, diag);
    }
    if (err == WHIM_ERR_OK && t->options->server_model == NULL) {
        name_model(t, &a);
    }
    server_reply_deinit(&a);
    return err;
}

whim_err server_target_open(server_target *t, const whim_options *options, whim_diag *diag)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    struct timespec now;
    *t = (server_target){.options = options, .chat = strcmp(options->endpoint, "chat") == 0};
    t->prompt_words = options->prompt_tokens;
    t->tokens = options->tokens;
    clock_gettime(CLOCK_REALTIME, &now);
    t->seed = (uint64_t)now.tv_sec * (uint64_t)WHIM_NS_PER_S + (uint64_t)now.tv_nsec;
    if (options->server_model != NULL) {
        snprintf(t->model, sizeof t->model, "%s", options->server_model);
    }
    WHIM_TRY(read_url(t, options->serve, diag));
    int failed = getaddrinfo(t->host, t->port, &hints, &list);
    if (failed != 0) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND, "--serve: the host \"%s\" is not known: %s",
                         t->host, gai_strerror(failed));
    }
    whim_err err = find_address(t, list, diag);
    freeaddrinfo(list);
    return err;
}

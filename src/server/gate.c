/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, Host, Origin and CORS. */
#include "server/gate.h"

#include "base/alloc.h"
#include "base/arena.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

typedef struct texts {
    const char **at;
    int32_t n;
} texts;

struct whim_gate {
    whim_arena arena; /* of all texts */
    whim_api_key *keys;
    int32_t n_key;
    texts hosts, origins;
    char machine[256]; /* its host name, "" when unknown */
    whim_http_error_body *error_body;
    void *ctx;
};

/* --- lifetime --------------------------------------------------------------------------------- */

static bool texts_copy(whim_arena *arena, texts *to, const char *const *from, int32_t n)
{
    to->at = whim_arena_alloc_array(arena, n, sizeof *to->at);
    bool ok = to->at != NULL;
    for (; ok && to->n < n; to->n++) {
        to->at[to->n] = whim_arena_strndup(arena, from[to->n], (int64_t)strlen(from[to->n]));
        ok = to->at[to->n] != NULL;
    }
    return ok;
}

static bool keys_copy(whim_gate *gate, const whim_api_key *from, int32_t n)
{
    gate->keys = whim_arena_alloc_array(&gate->arena, n, sizeof *gate->keys);
    bool ok = gate->keys != NULL;
    for (; ok && gate->n_key < n; gate->n_key++) {
        whim_api_key *key = &gate->keys[gate->n_key];
        *key = from[gate->n_key];
        key->text = whim_arena_strndup(&gate->arena, key->text, (int64_t)strlen(key->text));
        ok = key->text != NULL;
    }
    return ok;
}

whim_err whim_gate_create(const whim_gate_cfg *cfg, whim_gate **out, whim_diag *diag)
{
    *out = NULL;
    for (int32_t i = 0; i < cfg->n_key; i++) {
        const char *c = cfg->keys[i].text;
        while (*c > ' ' && *c < 0x7F) {
            c++;
        }
        if (cfg->keys[i].text[0] == '\0' || *c != '\0') {
            return whim_fail(
                diag, WHIM_ERR_INVALID,
                "an API key is empty or has a space or a character that is not ASCII; use "
                "letters, digits and signs");
        }
    }
    whim_gate *gate = whim_alloc(sizeof *gate);
    if (gate != NULL) {
        whim_arena_init(&gate->arena);
    }
    if (gate == NULL || !keys_copy(gate, cfg->keys, cfg->n_key) ||
        !texts_copy(&gate->arena, &gate->hosts, cfg->hosts, cfg->n_host) ||
        !texts_copy(&gate->arena, &gate->origins, cfg->origins, cfg->n_origin)) {
        whim_gate_destroy(gate);
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the rules of who may ask");
    }
    if (gethostname(gate->machine, sizeof gate->machine - 1) != 0) {
        gate->machine[0] = '\0';
    }
    gate->error_body = cfg->error_body;
    gate->ctx = cfg->ctx;
    *out = gate;
    return WHIM_ERR_OK;
}

void whim_gate_destroy(whim_gate *gate)
{
    if (gate != NULL) {
        whim_arena_reset(&gate->arena);
        whim_free(gate);
    }
}

/* --- keys ------------------------------------------------------------------------------------- */

/* The time depends on the length of what was sent, which its sender knows, and on nothing else. */
static bool same_secret(const char *sent, const char *key)
{
    size_t n_sent = strlen(sent), n_key = strlen(key);
    volatile size_t differ = n_sent ^ n_key;
    for (size_t i = 0, k = 0; i < n_sent; i++) {
        differ |= (size_t)((unsigned char)sent[i] ^ (unsigned char)key[k]);
        k = k < n_key ? k + 1 : 0; /* stays inside the key, its NUL included */
    }
    return differ == 0;
}

bool whim_gate_key_matches(const whim_gate *gate, const char *authorization, const char *x_api_key,
                           int32_t *key)
{
    const char *bearer = NULL;
    if (authorization != NULL && strncasecmp(authorization, "Bearer ", 7) == 0) {
        bearer = authorization + 7 + strspn(authorization + 7, " ");
    }
    *key = -1;
    for (int32_t i = 0; i < gate->n_key; i++) {
        const char *text = gate->keys[i].text;
        bool is_bearer = bearer != NULL && same_secret(bearer, text);
        bool is_header = x_api_key != NULL && same_secret(x_api_key, text);
        *key = is_bearer | is_header ? i : *key;
    }
    return gate->n_key == 0 || *key >= 0;
}

bool whim_gate_is_open(const char *method, const char *path)
{
    static const char *const paths[] = {"/livez", "/readyz",    "/health",
                                        "/",      "/dashboard", "/favicon.ico"};
    static const char *const endings[] = {".js", ".css", ".svg", ".png", ".ico", ".woff2"};
    if (strcmp(method, "OPTIONS") == 0) {
        return true;
    }
    if (strcmp(method, "GET") != 0 || path[0] != '/') {
        return false;
    }
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        if (strcmp(path, paths[i]) == 0) {
            return true;
        }
    }
    /* The page's files have one name each, right under the root or in /assets; no route of the API
     * has such an ending. */
    const char *name = strncmp(path, "/assets/", 8) == 0 ? path + 8 : path + 1;
    const char *dot = strrchr(name, '.');
    for (size_t i = 0;
         dot != NULL && strchr(name, '/') == NULL && i < sizeof endings / sizeof endings[0]; i++) {
        if (strcmp(dot, endings[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* --- Host ------------------------------------------------------------------------------------- */

typedef struct span {
    const char *at;
    size_t n;
} span;

static bool span_is(span s, const char *text)
{
    return strlen(text) == s.n && strncasecmp(s.at, text, s.n) == 0;
}

static bool ends_with(span s, const char *end)
{
    size_t n = strlen(end);
    return s.n > n && strncasecmp(s.at + s.n - n, end, n) == 0;
}

/* Split "name:port" or "[address]:port"; false when it is neither. */
static bool split_authority(const char *text, span *name, span *port)
{
    size_t n;
    if (text[0] == '[') {
        n = strcspn(text, "]");
        if (text[n] != ']') {
            return false;
        }
        n++;
    } else {
        n = strcspn(text, ":");
    }
    *name = (span){text, n};
    *port = (span){text + n, 0};
    if (text[n] == ':') {
        *port = (span){text + n + 1, strlen(text + n + 1)};
        return n > 0 && port->n <= 5 && strspn(port->at, "0123456789") == port->n;
    }
    return n > 0 && text[n] == '\0';
}

static bool is_address(span name)
{
    char text[INET6_ADDRSTRLEN + 1];
    struct in6_addr address;
    bool is_v6 = name.n > 2 && name.at[0] == '[';
    size_t n = is_v6 ? name.n - 2 : name.n;
    if (n >= sizeof text) {
        return false;
    }
    memcpy(text, name.at + (is_v6 ? 1 : 0), n);
    text[n] = '\0';
    return inet_pton(is_v6 ? AF_INET6 : AF_INET, text, &address) == 1;
}

bool whim_gate_host_allowed(const whim_gate *gate, const char *host)
{
    static const char *const known[] = {"localhost", "host.docker.internal",
                                        "host.containers.internal"};
    span name, port;
    if (!split_authority(host, &name, &port)) {
        return false;
    }
    if (is_address(name)) {
        return true;
    }
    if (name.n > 1 && name.at[name.n - 1] == '.') {
        name.n--; /* a name may be written with the root's dot */
    }
    if (ends_with(name, ".localhost") ||
        (gate->machine[0] != '\0' && span_is(name, gate->machine))) {
        return true;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (span_is(name, known[i])) {
            return true;
        }
    }
    for (int32_t i = 0; i < gate->hosts.n; i++) {
        if (strcmp(gate->hosts.at[i], "*") == 0 || span_is(name, gate->hosts.at[i])) {
            return true;
        }
    }
    return false;
}

/* --- Origin ----------------------------------------------------------------------------------- */

static bool same_span(span a, span b)
{
    return a.n == b.n && strncasecmp(a.at, b.at, a.n) == 0;
}

/* Whether a page of http(s)://authority is this server's own. The scheme is not compared: a proxy
 * may speak TLS for us. */
static bool is_same_origin(const char *authority, const char *usual_port, const char *host)
{
    span name, port, own_name, own_port;
    if (host == NULL || !split_authority(authority, &name, &port) ||
        !split_authority(host, &own_name, &own_port) || !same_span(name, own_name)) {
        return false;
    }
    span usual = {usual_port, strlen(usual_port)};
    return same_span(port.n == 0 ? usual : port, own_port.n == 0 ? usual : own_port);
}

bool whim_gate_origin_allowed(const whim_gate *gate, const char *origin, const char *host)
{
    static const char *const apps[] = {"app://", "tauri://", "vscode-webview://"};
    for (int32_t i = 0; i < gate->origins.n; i++) {
        if (strcmp(gate->origins.at[i], "*") == 0 || strcasecmp(gate->origins.at[i], origin) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof apps / sizeof apps[0]; i++) {
        if (strncasecmp(origin, apps[i], strlen(apps[i])) == 0) {
            return true;
        }
    }
    bool is_https = strncasecmp(origin, "https://", 8) == 0;
    if (!is_https && strncasecmp(origin, "http://", 7) != 0) {
        return false;
    }
    const char *authority = origin + (is_https ? 8 : 7);
    span name, port;
    if (!split_authority(authority, &name, &port)) {
        return false;
    }
    return span_is(name, "localhost") || span_is(name, "127.0.0.1") || span_is(name, "[::1]") ||
           is_same_origin(authority, is_https ? "443" : "80", host);
}

/* --- the check -------------------------------------------------------------------------------- */

static int refuse(const whim_gate *gate, whim_exchange *ex, int status, const char *message)
{
    const whim_http_request *r = whim_exchange_request(ex);
    whim_str body = {0};
    status = gate->error_body(gate->ctx, r->path, status, message, r->request_id, &body);
    whim_exchange_reply_json(ex, status, &body);
    whim_str_deinit(&body);
    return 1;
}

/* `origin` is allowed, or NULL. */
static int answer_options(whim_exchange *ex, const char *origin)
{
    const char *wanted = whim_exchange_header(ex, "access-control-request-headers");
    if (origin != NULL) {
        whim_exchange_add_header(ex, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
        whim_exchange_add_header(ex, "Access-Control-Max-Age", "600");
        if (wanted != NULL) {
            whim_exchange_add_header(ex, "Access-Control-Allow-Headers", wanted);
        }
    }
    whim_exchange_reply(ex, 204, NULL, NULL, 0);
    return 1;
}

/* FNV-1a over a text and its NUL, so that no two pairs of texts run into each other. */
static uint64_t hash_text(uint64_t h, const char *text)
{
    const char *end = text + strlen(text) + 1;
    for (; text < end; text++) {
        h = (h ^ (uint8_t)*text) * UINT64_C(1099511628211);
    }
    return h;
}

/* Fairness is between keys, wherever they are used, and without keys between addresses. */
static void note_client(const whim_gate *gate, whim_exchange *ex, int32_t key)
{
    whim_exchange_notes *notes = whim_exchange_get_notes(ex);
    uint64_t h = hash_text(UINT64_C(14695981039346656037), key >= 0 ? "key" : "address");
    notes->client =
        hash_text(h, key >= 0 ? gate->keys[key].text : whim_exchange_request(ex)->client);
    notes->may_pass = key >= 0 && gate->keys[key].priority;
}

int whim_gate_check(const whim_gate *gate, whim_exchange *ex)
{
    const whim_http_request *r = whim_exchange_request(ex);
    const char *host = whim_exchange_header(ex, "host");
    const char *origin = whim_exchange_header(ex, "origin");
    if (host != NULL && !whim_gate_host_allowed(gate, host)) {
        return refuse(
            gate, ex, 403,
            "this server does not answer to that host name; allow it with --allow-host NAME");
    }
    if (origin != NULL) {
        if (!whim_gate_origin_allowed(gate, origin, host)) {
            return refuse(
                gate, ex, 403,
                "pages of this origin may not use the server; allow it with --cors-origin ORIGIN");
        }
        whim_exchange_add_header(ex, "Access-Control-Allow-Origin", origin);
        whim_exchange_add_header(ex, "Vary", "Origin");
        whim_exchange_add_header(ex, "Access-Control-Expose-Headers",
                                 "x-request-id, request-id, retry-after");
    }
    if (strcmp(r->method, "OPTIONS") == 0) {
        return answer_options(ex, origin);
    }
    int32_t key;
    if (!whim_gate_key_matches(gate, whim_exchange_header(ex, "authorization"),
                               whim_exchange_header(ex, "x-api-key"), &key) &&
        !whim_gate_is_open(r->method, r->path)) {
        whim_exchange_add_header(ex, "WWW-Authenticate", "Bearer");
        return refuse(gate, ex, 401,
                      "the API key is missing or wrong; send it as \"Authorization: Bearer KEY\"");
    }
    note_client(gate, ex, key);
    return 0;
}

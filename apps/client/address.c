/* SPDX-License-Identifier: Apache-2.0 */
/* URLs, addresses, heads of requests. */
#include "client/address.h"

#include "base/clock.h"
#include "base/json.h"
#include "client/link.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { HTTP_PORT = 80, HTTPS_PORT = 443 };

/* --- the URL ---------------------------------------------------------------------------------- */

static whim_err bad_url(const server_address *a, const char *url, const char *why, whim_diag *diag)
{
    return whim_fail(diag, WHIM_ERR_INVALID,
                     "%s: \"%.200s\" %s; write http://HOST[:PORT][/PATH] or https://..., such as "
                     "http://127.0.0.1:8080 (without a path /v1 is taken)",
                     a->option, url, why);
}

static whim_err copy_part(const server_address *a, char *out, size_t size, const char *from,
                          size_t n, const char *url, const char *what, whim_diag *diag)
{
    if (n >= size) {
        return bad_url(a, url, what, diag);
    }
    memcpy(out, from, n);
    out[n] = '\0';
    return WHIM_ERR_OK;
}

/* host, host:port, [v6] or [v6]:port */
static whim_err read_authority(server_address *a, const char *url, const char *at, size_t n,
                               int port, whim_diag *diag)
{
    const char *end = at + n, *host_end, *colon;
    bool bracket = n > 0 && *at == '[';
    host_end = memchr(at, bracket ? ']' : ':', n);
    if (bracket && host_end == NULL) {
        return bad_url(a, url, "has a bracket that does not end", diag);
    }
    host_end = host_end != NULL ? host_end : end;
    WHIM_TRY(copy_part(a, a->host, sizeof a->host, at + bracket, (size_t)(host_end - at - bracket),
                       url, "has a host name too long", diag));
    colon = host_end + bracket;
    if (a->host[0] == '\0') {
        return bad_url(a, url, "names no host", diag);
    }
    snprintf(a->port, sizeof a->port, "%d", port);
    if (colon < end) {
        size_t digits = strspn(colon + 1, "0123456789");
        if (*colon != ':' || digits == 0 || digits > 5 || colon + 1 + digits != end) {
            return bad_url(a, url, "has a port that is no number", diag);
        }
        WHIM_TRY(
            copy_part(a, a->port, sizeof a->port, colon + 1, digits, url, "has no port", diag));
    }
    return copy_part(a, a->authority, sizeof a->authority, at, n, url, "has a host name too long",
                     diag);
}

whim_err server_address_read(server_address *a, const server_place *place, whim_diag *diag)
{
    const char *url = place->url;
    bool https = strncasecmp(url, "https://", 8) == 0;
    *a = (server_address){.option = place->option, .key = place->key};
    if (!https && strncasecmp(url, "http://", 7) != 0) {
        return bad_url(a, url, "does not begin with http:// or https://", diag);
    }
    for (const char *c = url; *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~' || strchr("?#@\\\"", *c) != NULL) {
            return bad_url(a, url, "has a character that does not belong there", diag);
        }
    }
    const char *at = url + (https ? 8 : 7);
    size_t n = strcspn(at, "/");
    WHIM_TRY(read_authority(a, url, at, n, https ? HTTPS_PORT : HTTP_PORT, diag));
    const char *path = at + n;
    size_t n_path = strlen(path);
    while (n_path > 0 && path[n_path - 1] == '/') {
        n_path--;
    }
    WHIM_TRY(n_path == 0 ? copy_part(a, a->base, sizeof a->base, "/v1", 3, url, "", diag)
                         : copy_part(a, a->base, sizeof a->base, path, n_path, url,
                                     "has a path too long", diag));
    return https ? secure_create(place->ca_file, &a->tls, diag) : WHIM_ERR_OK;
}

void server_address_deinit(server_address *a)
{
    secure_destroy(a->tls);
    a->tls = NULL;
}

/* --- requests --------------------------------------------------------------------------------- */

void server_head_append(const server_address *a, const char *method, const char *path,
                        int64_t n_body, whim_str *out)
{
    whim_str_printf(out,
                    "%s %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: whimbrel\r\n"
                    "Connection: close\r\n",
                    method, a->base, path, a->authority);
    if (a->key != NULL) {
        whim_str_printf(out, "Authorization: Bearer %s\r\n", a->key);
    }
    if (n_body > 0) {
        whim_str_printf(out,
                        "Accept: text/event-stream\r\nContent-Type: application/json\r\n"
                        "Content-Length: %lld\r\n",
                        (long long)n_body);
    }
    whim_str_append(out, "\r\n");
}

/* --- finding it ------------------------------------------------------------------------------- */

static void get(server_address *a, const char *path, double timeout_s, server_reply *reply)
{
    server_link link = {.fd = -1};
    link.end_ns = whim_clock_ns() + (int64_t)(timeout_s * (double)WHIM_NS_PER_S);
    server_head_append(a, "GET", path, 0, &link.out);
    server_exchange(&link, a, timeout_s, NULL);
    server_reply_deinit(reply);
    *reply = link.reply;
    link.reply = (server_reply){.stage = SERVER_STAGE_COMPLETE};
    server_link_deinit(&link);
}

whim_err server_address_find(server_address *a, const char *path, double timeout_s,
                             server_reply *reply, whim_diag *diag)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    int failed = getaddrinfo(a->host, a->port, &hints, &list);
    if (failed != 0) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND, "%s: the host \"%s\" is not known: %s",
                         a->option, a->host, gai_strerror(failed));
    }
    whim_err err = WHIM_ERR_NOT_FOUND;
    for (const struct addrinfo *at = list; at != NULL && err == WHIM_ERR_NOT_FOUND;
         at = at->ai_next) {
        memcpy(&a->at, at->ai_addr, at->ai_addrlen);
        a->n_at = at->ai_addrlen;
        get(a, path, timeout_s, reply);
        err = WHIM_ERR_OK;
        if (reply->fault == SERVER_FAULT_CONNECT) {
            err = whim_fail(diag, WHIM_ERR_NOT_FOUND, "no connection to %s: %s", a->authority,
                            reply->message);
        } else if (reply->fault == SERVER_FAULT_TLS) {
            err = whim_fail(diag, WHIM_ERR_INVALID, "no https with %s: %s", a->authority,
                            reply->message);
        }
    }
    freeaddrinfo(list);
    return err;
}

/* What one entry of the list says, as our own server and others call it. */
static bool read_model(const whim_json *entry, server_model *out)
{
    static const char *const contexts[] = {"max_model_len", "context_length", "max_context_length"};
    whim_json_scope scope = {entry, "the list of models", "", NULL};
    const char *id = NULL;
    if (!whim_json_is_object(entry) || whim_json_get_string(&scope, "id", &id) != WHIM_ERR_OK ||
        id == NULL || strlen(id) >= sizeof out->name) {
        return false;
    }
    *out = (server_model){.context = 0};
    memcpy(out->name, id, strlen(id));
    for (size_t i = 0; i < sizeof contexts / sizeof contexts[0] && out->context == 0; i++) {
        if (whim_json_get_int(&scope, contexts[i], 0, INT32_MAX, &out->context) != WHIM_ERR_OK) {
            out->context = 0;
        }
    }
    return true;
}

bool server_model_find(const server_reply *models, const char *name, server_model *out,
                       whim_str *names)
{
    whim_json *json = NULL;
    const whim_json *data = NULL;
    server_model model;
    bool found = false;
    if (models->fault != SERVER_FAULT_NONE || models->status != 200 ||
        whim_json_parse(&json, whim_str_text(&models->data), models->data.len,
                        (whim_json_limits){1 << 20, 32}, "the list of models",
                        NULL) != WHIM_ERR_OK) {
        return false;
    }
    whim_json_scope scope = {json, "the list of models", "", NULL};
    if (whim_json_get_array(&scope, "data", &data) != WHIM_ERR_OK) {
        data = NULL;
    }
    for (int64_t i = 0; data != NULL && i < whim_json_size(data); i++) {
        if (!read_model(whim_json_at(data, i), &model)) {
            continue;
        }
        if (!found && (name == NULL || strcmp(model.name, name) == 0)) {
            *out = model;
            found = true;
        }
        if (names != NULL) {
            whim_str_printf(names, "%s%s", names->len > 0 ? ", " : "", model.name);
        }
    }
    whim_json_free(json);
    return found;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Requests by libcurl. */
#include "hub/transfer.h"
#include "hub/listing.h"

#include <stddef.h>

#ifdef WHIM_HUB

#include "base/alloc.h"
#include "base/clock.h"
#include "hub/curl_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_HOPS = 8, CONNECT_S = 20, ORIGIN_MAX = 512 };

struct whim_hub_conn {
    const whim_hub_cfg *cfg;
    const atomic_bool *also_stop;
    const whim_curl *curl;
    CURL *easy;
    char origin[ORIGIN_MAX]; /* "https://host:443" of the endpoint */
    bool reached;            /* an answer came once */
    /* Of the request under way. */
    const whim_hub_request *request;
    whim_hub_reply *reply;
    whim_diag *diag;
    whim_err sink_err;
};

/* "scheme://host:port", lower-case, the port always there; false when the text is no such
 * address. */
static bool origin_of(const whim_curl *curl, const char *url, char origin[ORIGIN_MAX])
{
    char *scheme = NULL, *host = NULL, *port = NULL;
    CURLU *parts = curl->url();
    bool ok = parts != NULL && curl->url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
              curl->url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
              curl->url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
              curl->url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
              (strcasecmp(scheme, "http") == 0 || strcasecmp(scheme, "https") == 0);
    if (ok) {
        ok = snprintf(origin, ORIGIN_MAX, "%s://%s:%s", scheme, host, port) < ORIGIN_MAX;
        for (char *at = origin; *at != '\0'; at++) {
            *at = *at >= 'A' && *at <= 'Z' ? (char)(*at + 32) : *at;
        }
    }
    curl->free(scheme);
    curl->free(host);
    curl->free(port);
    curl->url_cleanup(parts);
    return ok;
}

/* --- a connection ----------------------------------------------------------------------------- */

whim_err whim_hub_conn_create(const whim_hub_cfg *cfg, const atomic_bool *also_stop,
                              whim_hub_conn **out, whim_diag *diag)
{
    const whim_curl *curl;
    *out = NULL;
    WHIM_TRY(whim_curl_load(&curl, diag));
    whim_hub_conn *conn = whim_alloc(sizeof *conn);
    CURL *easy = curl->easy_init();
    if (conn == NULL || easy == NULL) {
        whim_free(conn);
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory");
    }
    *conn = (whim_hub_conn){.cfg = cfg, .also_stop = also_stop, .curl = curl, .easy = easy};
    if (!origin_of(curl, cfg->endpoint, conn->origin)) {
        whim_hub_conn_destroy(conn);
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "HF_ENDPOINT is \"%.200s\" and not an address such as "
                         "https://huggingface.co",
                         cfg->endpoint);
    }
    *out = conn;
    return WHIM_ERR_OK;
}

void whim_hub_conn_destroy(whim_hub_conn *conn)
{
    if (conn != NULL) {
        conn->curl->easy_cleanup(conn->easy);
        whim_free(conn);
    }
}

static bool is_stopped(const whim_hub_conn *conn)
{
    return (conn->cfg->stop != NULL && atomic_load(conn->cfg->stop)) ||
           (conn->also_stop != NULL && atomic_load(conn->also_stop));
}

/* --- what the library calls ------------------------------------------------------------------- */

static int on_progress(void *ctx, curl_off_t total, curl_off_t now, curl_off_t up_total,
                       curl_off_t up_now)
{
    (void)total, (void)now, (void)up_total, (void)up_now;
    return is_stopped(ctx);
}

/* The value of a header when the line has this name. */
static bool header_is(const char *line, size_t n, const char *name, char *value, size_t room)
{
    size_t m = strlen(name);
    if (n <= m || strncasecmp(line, name, m) != 0 || line[m] != ':') {
        return false;
    }
    const char *at = line + m + 1, *end = line + n;
    while (at < end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    while (end > at && strchr(" \t\r\n", end[-1]) != NULL) {
        end--;
    }
    snprintf(value, room, "%.*s", (int)(end - at), at);
    for (char *c = value; *c != '\0'; c++) {
        *c = (unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c; /* it may go to a terminal */
    }
    return true;
}

/* An etag without its weakness and quotes. */
static void etag_take(char *out, size_t room, const char *value)
{
    value += strncmp(value, "W/", 2) == 0 ? 2 : 0;
    value += *value == '"';
    snprintf(out, room, "%.*s", (int)strcspn(value, "\""), value);
}

static int64_t number_take(const char *text)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    return end != text && value >= 0 && value <= WHIM_HUB_SIZE_MAX ? value : -1;
}

static size_t on_header(char *line, size_t size, size_t n, void *ctx)
{
    whim_hub_conn *conn = ctx;
    whim_hub_reply *reply = conn->reply;
    char value[256];
    (void)size;
    if (n > 5 && strncmp(line, "HTTP/", 5) == 0) { /* an answer begins; those before do not count */
        *reply =
            (whim_hub_reply){.bytes = -1, .range_from = -1, .range_total = -1, .linked_bytes = -1};
        const char *status = memchr(line, ' ', n);
        reply->status = status != NULL ? (int32_t)number_take(status + 1) : 0;
        conn->reached = true;
    } else if (header_is(line, n, "Content-Length", value, sizeof value)) {
        reply->bytes = number_take(value);
    } else if (header_is(line, n, "Content-Range", value, sizeof value)) {
        const char *slash = strchr(value, '/');
        reply->range_from = strncasecmp(value, "bytes ", 6) == 0 ? number_take(value + 6) : -1;
        reply->range_total = slash != NULL ? number_take(slash + 1) : -1;
    } else if (header_is(line, n, "ETag", value, sizeof value)) {
        etag_take(reply->etag, sizeof reply->etag, value);
    } else if (header_is(line, n, "X-Linked-ETag", value, sizeof value)) {
        etag_take(reply->linked_etag, sizeof reply->linked_etag, value);
    } else if (header_is(line, n, "X-Linked-Size", value, sizeof value)) {
        reply->linked_bytes = number_take(value);
    } else if (!header_is(line, n, "X-Error-Code", reply->error_code, sizeof reply->error_code)) {
        header_is(line, n, "X-Error-Message", reply->error_text, sizeof reply->error_text);
    }
    return n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *ctx)
{
    whim_hub_conn *conn = ctx;
    int32_t status = conn->reply->status;
    (void)size;
    if ((status != 200 && status != 206) || conn->request->sink == NULL) {
        return n; /* the body of a refusal; its headers say enough */
    }
    conn->sink_err =
        conn->request->sink(conn->request->ctx, conn->reply, bytes, (int64_t)n, conn->diag);
    return conn->sink_err == WHIM_ERR_OK ? n : n + 1;
}

/* --- one request ------------------------------------------------------------------------------ */

static void set_up(whim_hub_conn *conn, const char *url, struct curl_slist *headers)
{
    const whim_curl *curl = conn->curl;
    const whim_hub_cfg *cfg = conn->cfg;
    const whim_hub_request *request = conn->request;
    CURL *easy = conn->easy;
    char range[64];
    curl->easy_reset(easy);
    curl->easy_setopt(easy, CURLOPT_URL, url);
    curl->easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl->easy_setopt(easy, CURLOPT_USERAGENT, "whimbrel/" WHIM_VERSION);
    curl->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl->easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl->easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)(cfg->stall_s < 1 ? 1 : cfg->stall_s));
    curl->easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L << 10);
    curl->easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl->easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl->easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl->easy_setopt(easy, CURLOPT_XFERINFODATA, conn);
    curl->easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl->easy_setopt(easy, CURLOPT_HEADERDATA, conn);
    curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl->easy_setopt(easy, CURLOPT_WRITEDATA, conn);
    if (cfg->ca_file != NULL) {
        curl->easy_setopt(easy, CURLOPT_CAINFO, cfg->ca_file);
    }
    if (cfg->ca_dir != NULL) {
        curl->easy_setopt(easy, CURLOPT_CAPATH, cfg->ca_dir);
    }
    if (request->head) {
        curl->easy_setopt(easy, CURLOPT_NOBODY, 1L);
    }
    if (request->small) {
        curl->easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "");
    }
    if (request->to > 0) {
        snprintf(range, sizeof range, "%lld-%lld", (long long)request->from,
                 (long long)request->to - 1);
        curl->easy_setopt(easy, CURLOPT_RANGE, range); /* the library copies it */
    }
}

static whim_err transfer_failed(whim_hub_conn *conn, CURLcode code, const char *origin)
{
    const char *text = conn->curl->easy_strerror(code);
    whim_hub_reply *reply = conn->reply;
    reply->may_retry = true;
    switch (code) {
    case CURLE_ABORTED_BY_CALLBACK:
        reply->may_retry = false;
        return whim_fail(conn->diag, WHIM_ERR_IO, "stopped");
    case CURLE_WRITE_ERROR:
        reply->may_retry = conn->sink_err == WHIM_ERR_CORRUPT;
        return conn->sink_err;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
        reply->is_unreached = !conn->reached;
        return whim_fail(conn->diag, WHIM_ERR_IO,
                         "%s cannot be reached: %s; is there a network, and a proxy to name in "
                         "https_proxy?",
                         origin, text);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
        reply->may_retry = false;
        return whim_fail(conn->diag, WHIM_ERR_IO,
                         "%s: its certificate is not trusted: %s; the authorities come from the "
                         "package ca-certificates, or from the file that SSL_CERT_FILE names",
                         origin, text);
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_OUT_OF_MEMORY:
        reply->may_retry = false;
        return whim_fail(conn->diag, WHIM_ERR_IO, "%s: %s", origin, text);
    case CURLE_OPERATION_TIMEDOUT:
        return whim_fail(conn->diag, WHIM_ERR_IO, "%s: no data arrived for a while", origin);
    default:
        return whim_fail(conn->diag, WHIM_ERR_IO, "%s: the transfer broke off: %s", origin, text);
    }
}

/* One hop. *next is where a redirect leads, "" when this was the end. */
static whim_err hop(whim_hub_conn *conn, const char *url, char next[WHIM_HUB_URL_MAX])
{
    char origin[ORIGIN_MAX], header[1024];
    struct curl_slist *headers = NULL;
    const char *where = NULL;
    *next = '\0';
    if (!origin_of(conn->curl, url, origin)) {
        return whim_fail(conn->diag, WHIM_ERR_CORRUPT, "\"%.200s\" is not a web address", url);
    }
    if (conn->cfg->token != NULL && strcmp(origin, conn->origin) == 0) {
        int n = snprintf(header, sizeof header, "Authorization: Bearer %s", conn->cfg->token);
        headers = n < (int)sizeof header ? conn->curl->slist_append(NULL, header) : NULL;
        if (headers == NULL) {
            return whim_fail(conn->diag, WHIM_ERR_INVALID, "the token is too long");
        }
    }
    set_up(conn, url, headers);
    CURLcode code = conn->curl->easy_perform(conn->easy);
    whim_hub_reply *reply = conn->reply;
    whim_err err = WHIM_ERR_OK;
    snprintf(reply->url, sizeof reply->url, "%s", url);
    if (code != CURLE_OK) {
        err = transfer_failed(conn, code, origin);
    } else if (reply->status >= 300 && reply->status < 400 && !conn->request->head) {
        conn->curl->easy_getinfo(conn->easy, CURLINFO_REDIRECT_URL, &where);
        if (where != NULL && strlen(where) < WHIM_HUB_URL_MAX) {
            strcpy(next, where);
            for (char *c = next; *c != '\0'; c++) {
                *c = *c <= 0x20 || *c >= 0x7f ? '?' : *c; /* no address has those */
            }
        }
        if (strncmp(url, "https:", 6) == 0 && strncasecmp(next, "https:", 6) != 0) {
            err =
                whim_fail(conn->diag, WHIM_ERR_CORRUPT,
                          "%s redirects from https to \"%.200s\", which is refused", origin, next);
        }
    }
    curl_off_t wait = 0;
    conn->curl->easy_getinfo(conn->easy, CURLINFO_RETRY_AFTER, &wait);
    reply->retry_after_s = (int64_t)wait;
    conn->curl->slist_free_all(headers);
    return err;
}

whim_err whim_hub_try(whim_hub_conn *conn, const whim_hub_request *request, whim_hub_reply *reply,
                      whim_diag *diag)
{
    char url[WHIM_HUB_URL_MAX], next[WHIM_HUB_URL_MAX];
    *reply = (whim_hub_reply){.bytes = -1};
    conn->request = request;
    conn->reply = reply;
    conn->diag = diag;
    conn->sink_err = WHIM_ERR_OK;
    snprintf(url, sizeof url, "%s", request->url);
    for (int i = 0; i < MAX_HOPS; i++) {
        WHIM_TRY(hop(conn, url, next));
        if (next[0] == '\0') {
            reply->may_retry = whim_hub_status_may_pass(reply->status);
            return WHIM_ERR_OK;
        }
        memcpy(url, next, sizeof url);
    }
    return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: more than %d redirects", conn->origin, MAX_HOPS);
}

/* --- trying again ----------------------------------------------------------------------------- */

bool whim_hub_back_off(whim_hub_conn *conn, int32_t n_try, const whim_hub_reply *reply)
{
    int64_t wait_ns = (250 * WHIM_NS_PER_MS) << (n_try < 6 ? n_try - 1 : 5);
    /* Several connections that failed together should not come back together. */
    wait_ns += (int64_t)(((uintptr_t)conn >> 6) % 100) * wait_ns / 400;
    if (reply->retry_after_s > WHIM_HUB_WAIT_MAX_S) {
        return false;
    }
    if (reply->retry_after_s * WHIM_NS_PER_S > wait_ns) {
        wait_ns = reply->retry_after_s * WHIM_NS_PER_S;
    }
    for (int64_t until = whim_clock_ns() + wait_ns; whim_clock_ns() < until;) {
        if (is_stopped(conn)) {
            return false;
        }
        whim_clock_sleep_ns(20 * WHIM_NS_PER_MS);
    }
    return true;
}

#else

struct whim_hub_conn {
    int none;
};

whim_err whim_hub_conn_create(const whim_hub_cfg *cfg, const atomic_bool *also_stop,
                              whim_hub_conn **out, whim_diag *diag)
{
    (void)cfg, (void)also_stop;
    *out = NULL;
    return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                     "this build of whimbrel cannot download: it was made without libcurl and "
                     "OpenSSL (Debian: libcurl4-openssl-dev libssl-dev); it finds what other tools "
                     "put into the Hugging Face cache");
}

void whim_hub_conn_destroy(whim_hub_conn *conn)
{
    (void)conn;
}

whim_err whim_hub_try(whim_hub_conn *conn, const whim_hub_request *request, whim_hub_reply *reply,
                      whim_diag *diag)
{
    (void)conn, (void)request, (void)reply;
    return whim_fail(diag, WHIM_ERR_UNSUPPORTED, "this build cannot download");
}

bool whim_hub_back_off(whim_hub_conn *conn, int32_t n_try, const whim_hub_reply *reply)
{
    (void)conn, (void)n_try, (void)reply;
    return false;
}

#endif

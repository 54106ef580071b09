/* SPDX-License-Identifier: Apache-2.0 */
/* The pages' routes: headers, ETags, and which of the two encodings goes out. */
#include "server/page.h"

#include "http/parse.h"
#include "server/api.h"
#include "server/router.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* What tools/embed-page made: the bytes, and the table `files`. */
#include "page.inc"

static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify";

const whim_page_file *whim_page_files(int32_t *n)
{
    *n = (int32_t)(sizeof files / sizeof files[0]);
    return files;
}

const whim_page_file *whim_page_find(const char *path)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (strcmp(files[i].path, path) == 0) {
            return &files[i];
        }
    }
    return NULL;
}

/* --- what the request says -------------------------------------------------------------------- */

/* Whether the parameters after an encoding's name refuse it: a weight of zero. */
static bool refuses(const char *item, size_t n)
{
    const char *q = memchr(item, ';', n);
    if (q == NULL) {
        return false;
    }
    q += 1 + strspn(q + 1, " \t");
    if (strncasecmp(q, "q=0", 3) != 0) {
        return false;
    }
    q += 3;
    if (*q == '.') {
        q++;
        q += strspn(q, "0");
    }
    return *q < '0' || *q > '9';
}

bool whim_page_takes_gzip(const char *accept)
{
    const char *item;
    size_t n;
    bool any = false;
    while (accept != NULL && whim_http_list_next(&accept, &item, &n)) {
        size_t name = strcspn(item, ";, \t");
        if (name == 4 && strncasecmp(item, "gzip", 4) == 0) {
            return !refuses(item, n);
        }
        any |= name == 1 && item[0] == '*' && !refuses(item, n);
    }
    return any;
}

bool whim_page_etag_matches(const char *list, const char *etag)
{
    const char *item;
    size_t n, want = strlen(etag);
    while (list != NULL && whim_http_list_next(&list, &item, &n)) {
        if (n == 1 && item[0] == '*') {
            return true;
        }
        if (n > 2 && strncmp(item, "W/", 2) == 0) {
            item += 2;
            n -= 2;
        }
        if (n == want && memcmp(item, etag, n) == 0) {
            return true;
        }
    }
    return false;
}

bool whim_page_host_is_loopback(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; host != NULL && i < sizeof names / sizeof names[0]; i++) {
        size_t n = strlen(names[i]);
        if (strncasecmp(host, names[i], n) == 0 && (host[n] == '\0' || host[n] == ':')) {
            return true;
        }
    }
    return false;
}

/* --- the answer ------------------------------------------------------------------------------- */

static void add_headers(whim_exchange *ex, const whim_page_file *file)
{
    whim_exchange_add_header(ex, "X-Content-Type-Options", "nosniff");
    whim_exchange_add_header(ex, "Referrer-Policy", "no-referrer");
    whim_exchange_add_header(ex, "Vary", "Accept-Encoding");
    whim_exchange_add_header(ex, "Cache-Control",
                             file->fixed ? "public, max-age=31536000, immutable" : "no-cache");
    whim_exchange_add_header(ex, "Content-Security-Policy", policy);
    whim_exchange_add_header(ex, "X-DNS-Prefetch-Control", "off");
    /* Elsewhere browsers ignore it and write an error into their console. */
    if (whim_exchange_request(ex)->is_tls ||
        whim_page_host_is_loopback(whim_exchange_header(ex, "host"))) {
        whim_exchange_add_header(ex, "Cross-Origin-Opener-Policy", "same-origin");
    }
}

/* A page brings two dozen files with it, which tell the reader of the log nothing more. */
static void log_page(const whim_api *api, whim_exchange *ex, const whim_page_file *file, int status)
{
    if (!file->fixed) {
        whim_request_log(api->log, ex, status, NULL);
    }
}

static void refuse(const whim_api *api, whim_exchange *ex)
{
    whim_fault fault;
    whim_fault_set(&fault, WHIM_FAULT_NO_ROUTE, NULL,
                   "there is no file %.200s; an old page may ask for it: reload the page",
                   whim_exchange_request(ex)->path);
    whim_api_refuse(api, ex, &fault);
}

void whim_route_page(const whim_api *api, whim_exchange *ex)
{
    const whim_http_request *r = whim_exchange_request(ex);
    const whim_page_file *file = whim_page_find(r->path);
    size_t n_raw = strlen(r->raw_path);
    char etag[80];
    if (file == NULL) {
        refuse(api, ex);
        return;
    }
    if (r->path[1] != '\0' && n_raw > 0 && r->raw_path[n_raw - 1] == '/') {
        /* The page's own addresses are relative: after a slash they would lead elsewhere. */
        char to[128];
        snprintf(to, sizeof to, "..%.100s", r->path);
        whim_exchange_add_header(ex, "Location", to);
        whim_request_log(api->log, ex, 308, NULL);
        whim_exchange_reply(ex, 308, NULL, NULL, 0);
        return;
    }
    bool gzip =
        file->n_gzip > 0 && whim_page_takes_gzip(whim_exchange_header(ex, "accept-encoding"));
    snprintf(etag, sizeof etag, "\"%s%s\"", file->hash, gzip ? "-gz" : "");
    add_headers(ex, file);
    whim_exchange_add_header(ex, "ETag", etag);
    if (whim_page_etag_matches(whim_exchange_header(ex, "if-none-match"), etag)) {
        log_page(api, ex, file, 304);
        whim_exchange_reply(ex, 304, NULL, NULL, 0);
        return;
    }
    if (gzip) {
        whim_exchange_add_header(ex, "Content-Encoding", "gzip");
    }
    log_page(api, ex, file, 200);
    whim_exchange_reply(ex, 200, file->type, gzip ? file->gzip : file->plain,
                        gzip ? file->n_gzip : file->n_plain);
}

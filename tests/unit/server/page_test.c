/* SPDX-License-Identifier: Apache-2.0 */
/* The page's files: what the build put together, headers, ETags and encodings. The exchange here
 * keeps what is written to it. */
#include "server/page.h"

#include "server/api.h"
#include "server/router.h"
#include "support/cmocka.h"

#include <string.h>
#include <strings.h>

struct whim_exchange {
    whim_http_request request;
    const char *host, *accept, *match;
    whim_str headers;
    int status;
    const char *type, *body;
    int64_t n_body;
};

const whim_http_request *whim_exchange_request(const whim_exchange *ex)
{
    return &ex->request;
}
const char *whim_exchange_header(const whim_exchange *ex, const char *name)
{
    return strcmp(name, "host") == 0              ? ex->host
           : strcmp(name, "accept-encoding") == 0 ? ex->accept
           : strcmp(name, "if-none-match") == 0   ? ex->match
                                                  : NULL;
}
void whim_exchange_add_header(whim_exchange *ex, const char *name, const char *value)
{
    whim_str_printf(&ex->headers, "%s: %s\n", name, value);
}
void whim_exchange_reply(whim_exchange *ex, int status, const char *content_type, const char *body,
                         int64_t n)
{
    assert_int_equal(ex->status, 0);
    ex->status = status;
    ex->type = content_type;
    ex->body = body;
    ex->n_body = n;
}
void whim_request_log(whim_log *log, whim_exchange *ex, int status, const whim_log_field *more)
{
    (void)log, (void)ex, (void)status, (void)more;
}
bool whim_fault_set(whim_fault *f, whim_fault_kind kind, const char *param, const char *fmt, ...)
{
    (void)param, (void)fmt;
    f->kind = kind;
    return false;
}
void whim_api_refuse(const whim_api *api, whim_exchange *ex, const whim_fault *fault)
{
    (void)api;
    assert_int_equal(fault->kind, WHIM_FAULT_NO_ROUTE);
    ex->status = 404;
}

static whim_exchange ex;

static const char *get(const char *path, const char *host, const char *accept, const char *match)
{
    static const whim_api api;
    static char trimmed[256];
    size_t n = (size_t)snprintf(trimmed, sizeof trimmed, "%s", path);
    while (n > 1 && trimmed[n - 1] == '/') {
        trimmed[--n] = '\0';
    }
    whim_str_deinit(&ex.headers);
    ex = (whim_exchange){
        .request = {.method = "GET", .path = trimmed, .raw_path = path, .query = ""},
        .host = host,
        .accept = accept,
        .match = match};
    whim_route_page(&api, &ex);
    return whim_str_text(&ex.headers);
}

static int teardown(void **state)
{
    (void)state;
    whim_str_deinit(&ex.headers);
    return 0;
}

static void has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" is not in: %s", part, text);
    }
}

static void the_page_has_its_headers(void **state)
{
    (void)state;
    const char *headers = get("/", "127.0.0.1:8080", NULL, NULL);
    assert_int_equal(ex.status, 200);
    assert_string_equal(ex.type, "text/html; charset=utf-8");
    has(headers,
        "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
        "img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types dompurify\n");
    has(headers, "X-Content-Type-Options: nosniff\n");
    has(headers, "Referrer-Policy: no-referrer\n");
    has(headers, "X-DNS-Prefetch-Control: off\n");
    has(headers, "Cache-Control: no-cache\n");
    has(headers, "Vary: Accept-Encoding\n");
    has(headers, "Cross-Origin-Opener-Policy: same-origin\n");
    has(headers, "ETag: \"");
    assert_null(strstr(headers, "Content-Encoding"));
    assert_int_equal(strncasecmp(ex.body, "<!doctype html>", 15), 0);
}

static void the_opener_policy_is_for_trusted_origins(void **state)
{
    (void)state;
    assert_null(strstr(get("/", "192.168.1.7:8080", NULL, NULL), "Opener"));
    assert_null(strstr(get("/", NULL, NULL, NULL), "Opener"));
    assert_true(whim_page_host_is_loopback("LocalHost"));
    assert_true(whim_page_host_is_loopback("[::1]:80"));
    assert_false(whim_page_host_is_loopback("localhost.example.org"));
    assert_false(whim_page_host_is_loopback("127.0.0.1.example.org"));
}

/* Names of /assets that a text holds must be files, and nothing may come from elsewhere or be
 * inline. */
static void check_text(const whim_page_file *file)
{
    static const char *const marks[] = {"assets/", "\"./"};
    for (int m = 0; m < 2; m++) {
        for (const char *at = file->plain; (at = strstr(at, marks[m])) != NULL;) {
            char path[128] = "/assets/";
            at += strlen(marks[m]);
            size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz_-.0123456789");
            if (n > 0 && n < 100 && at[n] == '"') {
                memcpy(path + 8, at, n);
                if (whim_page_find(path) == NULL) {
                    fail_msg("%s names %s, which is no file", file->path, path);
                }
            }
        }
    }
    if (strstr(file->type, "html") != NULL) {
        assert_null(strstr(file->plain, " style="));
        assert_null(strstr(file->plain, " onclick="));
        assert_null(strstr(file->plain, "<style"));
        assert_null(strstr(file->plain, "src=\"http"));
        assert_null(strstr(file->plain, "=\"/")); /* relative: the page may lie under a prefix */
    }
}

static void every_file_is_whole(void **state)
{
    (void)state;
    int32_t n;
    const whim_page_file *files = whim_page_files(&n);
    assert_true(n >= 4);
    for (int32_t i = 0; i < n; i++) {
        const whim_page_file *file = &files[i];
        assert_ptr_equal(whim_page_find(file->path), file);
        assert_true(file->n_plain > 0 && file->n_gzip > 20);
        assert_int_equal((unsigned char)file->gzip[0], 0x1F);
        assert_int_equal((unsigned char)file->gzip[1], 0x8B);
        assert_int_equal(file->plain[file->n_plain], 0);
        bool is_asset = strncmp(file->path, "/assets/", 8) == 0;
        assert_true(file->fixed == is_asset);
        if (strncmp(file->type, "text/", 5) == 0 &&
            file->n_plain < 60000) { /* libraries are larger */
            check_text(file);
        }
        const char *headers = get(file->path, "localhost", NULL, NULL);
        assert_int_equal(ex.status, 200);
        assert_int_equal(ex.n_body, file->n_plain);
        has(headers, is_asset ? "Cache-Control: public, max-age=31536000, immutable\n"
                              : "Cache-Control: no-cache\n");
        has(headers, "nosniff");
    }
    assert_non_null(whim_page_find("/"));
    assert_non_null(whim_page_find("/favicon.ico"));
}

static void gzip_goes_to_those_who_take_it(void **state)
{
    (void)state;
    has(get("/", NULL, "deflate, gzip;q=0.8, br", NULL), "Content-Encoding: gzip\n");
    assert_int_equal((unsigned char)ex.body[0], 0x1F);
    assert_true(whim_page_takes_gzip("GZIP"));
    assert_true(whim_page_takes_gzip("*"));
    assert_true(whim_page_takes_gzip("br , gzip"));
    assert_true(whim_page_takes_gzip("gzip; q=0.001"));
    assert_false(whim_page_takes_gzip("gzip;q=0, *"));
    assert_false(whim_page_takes_gzip("gzip;q=0.000"));
    assert_false(whim_page_takes_gzip("br;q=1, *;q=0"));
    assert_false(whim_page_takes_gzip("identity, gzipped"));
    assert_false(whim_page_takes_gzip(""));
    assert_false(whim_page_takes_gzip(NULL));
}

static void what_did_not_change_is_not_sent(void **state)
{
    (void)state;
    char etag[96];
    snprintf(etag, sizeof etag, "\"%s\"", whim_page_find("/")->hash);
    has(get("/", NULL, NULL, etag), etag);
    assert_int_equal(ex.status, 304);
    assert_int_equal(ex.n_body, 0);
    get("/", NULL, "gzip", etag); /* another encoding is another entity */
    assert_int_equal(ex.status, 200);
    assert_true(whim_page_etag_matches("\"a\", W/\"b\" ,\"c\"", "\"b\""));
    assert_true(whim_page_etag_matches("*", "\"b\""));
    assert_true(whim_page_etag_matches("\"c\"", "\"c\""));
    assert_false(whim_page_etag_matches("\"bb\"", "\"b\""));
    assert_false(whim_page_etag_matches("", "\"b\""));
    assert_false(whim_page_etag_matches(NULL, "\"b\""));
}

static void other_paths_are_refused(void **state)
{
    (void)state;
    get("/assets/none.js", NULL, NULL, NULL);
    assert_int_equal(ex.status, 404);
    has(get("/favicon.ico/", NULL, NULL, NULL), "Location: ../favicon.ico\n");
    assert_int_equal(ex.status, 308);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_has_its_headers),
        cmocka_unit_test(the_opener_policy_is_for_trusted_origins),
        cmocka_unit_test(every_file_is_whole),
        cmocka_unit_test(gzip_goes_to_those_who_take_it),
        cmocka_unit_test(what_did_not_change_is_not_sent),
        cmocka_unit_test(other_paths_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}

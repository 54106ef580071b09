/* SPDX-License-Identifier: Apache-2.0 */
/* The whole server, with a real model, when one allocation fails: the first, the second, and so on
 * through a request of every route, on whichever thread it is. Each time the client is told an
 * error or has the right answer, and is closed on without a word only where there is no connection
 * yet; and the next request is as if nothing had been. */
#include "base/heap/faults.h"
#include "base/json.h"
#include "server/server.h"

#include "unit/library/library_fixture.h"

#include "library/library.h"
#include "server/router.h"
#include "text/tokenizer_impl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

/* TEST_QUICK, for emulators and sanitizers: each place at first, then fewer. */
enum { EACH = 40, SPREAD = 6 };

/* The connection and its exchange, without which nothing can be said, and what threads still do of
 * the request before. */
enum { BEFORE_REQUEST = 4 };

typedef struct row {
    const char *name, *method, *path, *body;
    const char *at; /* what stands before the texts of the answer, which are in quotes */
    bool is_stream;
    bool varies;    /* its length does; else it is compared where there are no texts */
    bool is_fresh;  /* its grammar is compiled each time: the schema has another title */
    bool is_kept;   /* about a response that is made before each time, whose id is put into it */
    bool is_linked; /* a file that the page asks for, whose name is put into it */
    bool is_large;  /* blanks are sent behind it: it is read and answered by threads for that */
    int status;     /* that is right; 0: 200 */
} row;

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]"
#define FEW "\"temperature\":0,\"max_tokens\":5,\"ignore_eos\":true"
#define QUIET "\"chat_template_kwargs\":{\"enable_thinking\":false}"
#define TITLE "-title-"
#define ID "resp_of_before" /* where the id of a response is put */
enum { ID_MAX = 80 };
enum { BLANKS = (1 << 20) + 1 };
#define OBJECT                                                                                \
    "{\"title\":\"" TITLE "\",\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"a\"]}}," \
    "\"required\":[\"k\"],\"additionalProperties\":false}"
#define TOOL                                                                                   \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":" \
    "\"object\",\"properties\":{},\"additionalProperties\":false}}}]"

static const row rows[] = {
    {"completions", "POST", "/v1/completions", "{\"prompt\":\"hello\"," FEW "}",
     "\"text\":", false},
    {"echo", "POST", "/v1/completions",
     "{\"prompt\":\"hello\",\"echo\":true,\"logprobs\":2," FEW "}", "\"text\":", false},
    {"chat", "POST", "/v1/chat/completions",
     "{" HI "," FEW ",\"logprobs\":true,\"top_logprobs\":3,\"n\":2,\"stop\":[\"zz\"]}",
     "\"content\":", false},
    {"chat stream", "POST", "/v1/chat/completions", "{" HI "," FEW ",\"stream\":true}",
     "\"content\":", true},
    {"completions stream", "POST", "/v1/completions",
     "{\"prompt\":\"hello\"," FEW ",\"stream\":true,\"logprobs\":2,\"n\":2}",
     "\"token_logprobs\":", true},
    {"call", "POST", "/v1/chat/completions",
     "{" HI "," TOOL "," QUIET ",\"tool_choice\":\"required\",\"temperature\":0,\"max_tokens\":60}",
     "\"name\":", false},
    {"schema", "POST", "/v1/chat/completions",
     "{" HI "," QUIET
     ",\"temperature\":0,\"max_tokens\":30,\"response_format\":{\"type\":\"json_schema\","
     "\"json_schema\":{\"name\":\"x\",\"schema\":{\"enum\":[\"a\",\"b\"]}}}}",
     "\"content\":", false},
    {"fresh schema", "POST", "/v1/chat/completions",
     "{" HI "," QUIET
     ",\"temperature\":0,\"max_tokens\":60,\"response_format\":{\"type\":\"json_schema\","
     "\"json_schema\":{\"name\":\"x\",\"strict\":true,\"schema\":" OBJECT "}}}",
     "\"content\":", .is_fresh = true},
    {"fresh call", "POST", "/v1/chat/completions",
     "{" HI "," QUIET
     ",\"temperature\":0,\"max_tokens\":60,\"tool_choice\":\"required\",\"tools\":[{\"type\":"
     "\"function\",\"function\":{\"name\":\"f\",\"strict\":true,\"parameters\":" OBJECT "}}]}",
     "\"arguments\":", .is_fresh = true},
    {"responses", "POST", "/v1/responses",
     "{\"input\":\"hello\",\"temperature\":0,\"max_output_tokens\":5,\"ignore_eos\":true}",
     "\"text\":", false},
    {"responses stream", "POST", "/v1/responses",
     "{\"input\":\"hello\",\"temperature\":0,\"max_output_tokens\":5,\"ignore_eos\":true,"
     "\"stream\":true}",
     "\"delta\":", true},
    {"response kept", "GET", "/v1/responses/" ID, "", "\"text\":", .is_kept = true},
    {"response gone", "DELETE", "/v1/responses/" ID, "", NULL, .is_kept = true},
    {"responses go on", "POST", "/v1/responses",
     "{\"previous_response_id\":\"" ID "\",\"input\":\"hello\",\"temperature\":0,"
     "\"max_output_tokens\":5,\"ignore_eos\":true}",
     "\"text\":", .is_kept = true},
    {"messages", "POST", "/v1/messages", "{" HI "," FEW "}", "\"text\":", false},
    {"responses large", "POST", "/v1/responses",
     "{\"input\":\"hello\",\"temperature\":0,\"max_output_tokens\":5,\"ignore_eos\":true}",
     "\"text\":", .is_large = true},
    {"responses large stream", "POST", "/v1/responses",
     "{\"input\":\"hello\",\"temperature\":0,\"max_output_tokens\":5,\"ignore_eos\":true,"
     "\"stream\":true}",
     "\"delta\":", true, .is_large = true},
    {"messages stream", "POST", "/v1/messages", "{" HI "," FEW ",\"stream\":true}",
     "\"text\":", true},
    {"messages call", "POST", "/v1/messages",
     "{" HI "," QUIET
     ",\"temperature\":0,\"max_tokens\":60,\"tool_choice\":{\"type\":\"any\"},\"tools\":[{"
     "\"name\":\"f\",\"input_schema\":{\"type\":\"object\",\"properties\":{},"
     "\"additionalProperties\":false}}]}",
     "\"name\":", false},
    {"count", "POST", "/v1/messages/count_tokens", "{" HI "}", NULL, false},
    {"ollama chat", "POST", "/api/chat",
     "{" HI ",\"stream\":false,\"options\":{\"temperature\":0,\"num_predict\":5}}",
     "\"content\":", false},
    {"ollama generate", "POST", "/api/generate",
     "{\"prompt\":\"hello\",\"stream\":false,\"options\":{\"temperature\":0,\"num_predict\":5}}",
     "\"response\":", false},
    {"ollama chat stream", "POST", "/api/chat",
     "{" HI ",\"options\":{\"temperature\":0,\"num_predict\":5}}", "\"content\":", true},
    {"ollama generate stream", "POST", "/api/generate",
     "{\"prompt\":\"hello\",\"options\":{\"temperature\":0,\"num_predict\":5}}",
     "\"response\":", true},
    {"completion stream", "POST", "/completion",
     "{\"prompt\":\"hello\",\"n_predict\":5,\"temperature\":0,\"stream\":true}",
     "\"content\":", true},
    {"infill", "POST", "/infill",
     "{\"input_prefix\":\"hello\",\"input_suffix\":\"you\",\"input_extra\":[{\"filename\":\"a\","
     "\"text\":\"b\"}],\"n_predict\":5,\"temperature\":0}",
     "\"content\":", false},
    {"infill stream", "POST", "/infill",
     "{\"input_prefix\":\"hello\",\"input_suffix\":\"you\",\"n_predict\":5,\"temperature\":0,"
     "\"stream\":true}",
     "\"content\":", true},
    {"completion", "POST", "/completion",
     "{\"prompt\":\"hello\",\"n_predict\":5,\"temperature\":0,\"n_probs\":2}",
     "\"content\":", false},
    {"tokenize", "POST", "/tokenize", "{\"content\":\"hello\",\"with_pieces\":true}",
     "\"piece\":", false},
    {"tokenize chat", "POST", "/tokenize", "{" HI "," TOOL "}", NULL, false},
    {"detokenize", "POST", "/detokenize", "{\"tokens\":[7,4,11,11,14]}", "\"content\":", false},
    {"template", "POST", "/apply-template", "{" HI "}", "\"prompt\":", false},
    {"models", "GET", "/v1/models", "", NULL, false},
    {"model", "GET", "/v1/models/tiny", "", NULL, false},
    {"ps", "GET", "/api/ps", "", NULL, .varies = true},
    {"ollama version", "GET", "/api/version", "", NULL, false},
    {"tags", "GET", "/api/tags", "", NULL, false},
    {"show", "POST", "/api/show", "{\"model\":\"tiny\"}", NULL, false},
    {"props", "GET", "/props", "", NULL, false},
    {"slots", "GET", "/slots", "", NULL, false},
    {"tokenizer", "GET", "/tokenizer_info", "", NULL, false},
    {"requests", "GET", "/requests", "", NULL, false},
    {"metrics", "GET", "/metrics", "", NULL, .varies = true},
    {"history", "GET", "/metrics/history", "", NULL, .varies = true},
    {"openapi", "GET", "/openapi.json", "", NULL, false},
    {"version", "GET", "/version", "", NULL, false},
    {"page", "GET", "/", "", NULL, false},
    {"health", "GET", "/health", "", NULL, .varies = true},
    {"livez", "GET", "/livez", "", NULL, false},
    {"readyz", "GET", "/readyz", "", NULL, false},
    {"dashboard", "GET", "/dashboard", "", NULL, false},
    {"icon", "GET", "/favicon.ico", "", NULL, false},
    {"asset", "GET", "/assets/" ID, "", NULL, .is_linked = true},
    {"assets", "GET", "/assets", "", NULL, .status = 404},
    {"options", "OPTIONS", "/v1/models", "", NULL, .status = 204},
    {"unknown", "GET", "/nowhere", "", NULL, .status = 404},
};
enum { N_ROW = sizeof rows / sizeof rows[0] };

static whim_log log_of;
static whim_server *server;

/* --- the server ------------------------------------------------------------------------------- */

static int open_all(void **state)
{
    static const char *const hosts[] = {"127.0.0.1"};
    whim_json_count_memory();
    whim_log_init(&log_of, STDERR_FILENO, WHIM_LOG_ERROR);
    open_tiny(state);
    /* The letters are marks of a gap, too, for /infill. */
    whim_tokenizer *tok = whim_library_text(model)->tok;
    tok->fim = (whim_fim){.prefix = 0, .suffix = 1, .middle = 2, .pad = -1, .repo = 3, .file = 4};
    tok->has_fim = true;
    whim_diag diag = {""};
    const whim_server_cfg cfg = {.http = {.hosts = hosts, .n_host = 1, .log = &log_of}};
    assert_int_equal(whim_server_open(&cfg, &server, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_server_start(server, &diag), WHIM_ERR_OK);
    whim_api api = {.model = model,
                    .tok = whim_library_text(model)->tok,
                    .n_vocab = whimbrel_get_info(model)->n_vocab,
                    .name = "tiny",
                    .fingerprint = "fp_0",
                    .ctx = whim_service_ctx(whim_library_service(model)),
                    .n_slot = 4,
                    .sampling = {.size = sizeof api.sampling},
                    .version = "1",
                    .commit = "c",
                    .isa = "i",
                    .log = &log_of};
    whimbrel_get_sampling(model, &api.sampling);
    whim_server_set_ready(server, &api);
    return 0;
}

static int close_all(void **state)
{
    whim_server_detach(server);
    whim_library_stop(model);
    whim_server_close(server);
    whim_log_deinit(&log_of);
    return close_tiny(state);
}

/* --- one request ------------------------------------------------------------------------------ */

typedef struct answer {
    char bytes[1 << 19];
    size_t n;
    char texts[1 << 16]; /* those behind row.at, joined */
    size_t n_body;
    int status;    /* 0: closed without an answer */
    bool is_whole; /* as far as its length or its end says */
} answer;

static void read_texts(answer *a, const char *at)
{
    size_t n = 0;
    a->texts[0] = '\0';
    for (const char *p = a->bytes; at != NULL && (p = strstr(p, at)) != NULL;) {
        p += strlen(at);
        p += *p == ' ';
        for (p += *p == '"';
             *p != '\0' && (*p != '"' || p[-1] == '\\') && n + 2 < sizeof a->texts;) {
            a->texts[n++] = *p++;
        }
        a->texts[n] = '\0';
    }
}

static char kept[ID_MAX]; /* the id of the response that was made last */

/* Write all of `with` into `text` where ID stands in it. */
static void put_id(char *text, size_t cap, const char *with)
{
    static char rest[4096];
    char *at = strstr(text, ID);
    if (at != NULL) {
        snprintf(rest, sizeof rest, "%s", at + strlen(ID));
        snprintf(at, cap - (size_t)(at - text), "%s%s", with, rest);
    }
}

/* Everything until the server closes; it is stuck where that takes a minute. */
static void ask(const row *r, answer *a)
{
    static char request[4096];
    static char path[256], content[4096], blanks[BLANKS];
    snprintf(path, sizeof path, "%s", r->path);
    snprintf(content, sizeof content, "%s", r->body);
    put_id(path, sizeof path, kept);
    put_id(content, sizeof content, kept);
    memset(blanks, ' ', sizeof blanks);
    const size_t n_blank = r->is_large ? sizeof blanks : 0;
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)whim_server_port(server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval minute = {.tv_sec = 60};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ssize_t got;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof minute);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    int n = snprintf(request, sizeof request,
                     "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     r->method, path, strlen(content) + n_blank, content);
    assert_true(n < (int)sizeof request);
    if (r->is_fresh) {
        char title[16];
        static unsigned number;
        snprintf(title, sizeof title, "%07u", ++number % 10000000);
        memcpy(strstr(request, TITLE), title, sizeof TITLE - 1);
    }
    (void)send(fd, request, (size_t)n, MSG_NOSIGNAL);
    (void)send(fd, blanks, n_blank, MSG_NOSIGNAL);
    a->n = 0;
    while ((got = recv(fd, a->bytes + a->n, sizeof a->bytes - 1 - a->n, 0)) > 0) {
        a->n += (size_t)got;
    }
    if (got < 0 && errno != ECONNRESET) {
        fail_msg("%s: no end of the answer (%s)", r->name, strerror(errno));
    }
    close(fd);
    a->bytes[a->n] = '\0';
    a->status = strncmp(a->bytes, "HTTP/1.1 ", 9) == 0 ? atoi(a->bytes + 9) : 0;
    const char *body = strstr(a->bytes, "\r\n\r\n"), *length = strstr(a->bytes, "Content-Length: ");
    a->n_body = body != NULL ? a->n - (size_t)(body + 4 - a->bytes) : 0;
    if (body == NULL || a->status == 204) {
        a->is_whole = body != NULL && a->n_body == 0;
    } else if (length != NULL && length < body) {
        a->is_whole = a->n_body == (size_t)atoll(length + 16);
    } else {
        a->is_whole = strstr(body, "\r\n0\r\n\r\n") != NULL;
    }
    read_texts(a, r->at);
}

/* What is being told in a stream; members of this name that are null say nothing. */
static bool tells_error(const row *r, const answer *a)
{
    return r->is_stream &&
           (strstr(a->bytes, "\"error\":{") != NULL || strstr(a->bytes, "\"error\":\"") != NULL);
}

static bool is_like(const row *r, const answer *a, const answer *right)
{
    if (r->at != NULL) {
        return strcmp(a->texts, right->texts) == 0;
    }
    const bool is_bare = a->n_body == 0 && a->status >= 400; /* an error that is its status alone */
    return r->varies || is_bare || a->n_body == right->n_body;
}

/* What is left of memory runs out for nobody: an error says so, and is no fault of the request. */
static void check(const row *r, const answer *a, const answer *right, int64_t n)
{
    const bool is_early = n <= BEFORE_REQUEST && a->status == 0;
    const bool is_cut = r->is_stream && a->status == 200 && !a->is_whole;
    bool is_error = is_early || is_cut || a->status == 503 || a->status == 529 || tells_error(r, a);
    bool is_right = a->is_whole && a->status == right->status && is_like(r, a, right);
    if (!is_error && !is_right) {
        fail_msg("%s, allocation %lld: status %d, expected an error that says why, or \"%s\": %s",
                 r->name, (long long)n, a->status, right->texts, a->bytes);
    }
}

static void is_idle(const row *r, int64_t n)
{
    for (int i = 0; i < 30000 && whim_server_active(server) > 0; i++) {
        usleep(1000);
    }
    if (whim_server_active(server) > 0) {
        fail_msg("%s, allocation %lld: something is stuck", r->name, (long long)n);
    }
}

/* --- the sweep -------------------------------------------------------------------------------- */

/* Ask while no allocation fails, and keep what stands behind `mark`, up to a quotation mark. */
static void keep(const row *maker, const char *mark)
{
    static answer made;
    ask(maker, &made);
    const char *at = strstr(made.bytes, mark);
    assert_non_null(at);
    at += strlen(mark);
    snprintf(kept, sizeof kept, "%.*s", (int)strcspn(at, "\""), at);
    is_idle(maker, 0);
}

/* What the row is about: a response that can be asked for, gone on from and deleted, or a file of
 * the page. */
static void prepare(const row *r)
{
    static const row response = {.name = "the response of before",
                                 .method = "POST",
                                 .path = "/v1/responses",
                                 .body = "{\"input\":\"hello\",\"temperature\":0,"
                                         "\"max_output_tokens\":5,\"ignore_eos\":true}"};
    static const row page = {.name = "the page", .method = "GET", .path = "/", .body = ""};
    if (r->is_kept) {
        keep(&response, "\"id\":\"");
    } else if (r->is_linked) {
        keep(&page, "\"assets/");
    }
}

static void sweep(const row *r)
{
    static answer right, a;
    const bool is_quick = getenv("TEST_QUICK") != NULL;
    prepare(r);
    ask(r, &right); /* a first time, for what is made once */
    prepare(r);
    whim_alloc_fail_nth(INT64_MAX);
    ask(r, &right);
    is_idle(r, 0);
    int64_t n = 1, seen = whim_alloc_seen();
    if (right.status != (r->status > 0 ? r->status : 200) || !right.is_whole ||
        (r->at != NULL && right.texts[0] == '\0')) {
        fail_msg("%s: %s", r->name, right.bytes);
    }
    for (; n <= seen; n += !is_quick || n < EACH ? 1 : 1 + n / SPREAD) {
        prepare(r);
        whim_alloc_fail_nth(n);
        ask(r, &a);
        is_idle(r, n);
        whim_alloc_fail_nth(0);
        check(r, &a, &right, n);
    }
    assert_true(n > 2);
    prepare(r);
    ask(r, &a);
    assert_int_equal(a.status, right.status);
    assert_string_equal(a.texts, right.texts);
}

static void every_route(void **state)
{
    (void)state;
    for (int i = 0; i < N_ROW; i++) {
        sweep(&rows[i]);
    }
}

/* Whether a row asks for the same route, with an id behind its path or without. */
static bool has_row(const whim_route *route, bool has_id)
{
    whim_fault fault;
    const char *allow;
    bool found = false;
    for (int i = 0; i < N_ROW && !found; i++) {
        const row *r = &rows[i];
        found = whim_router_find(r->method, r->path, &allow, &fault) == route &&
                (strlen(r->path) > strlen(route->path)) == has_id;
    }
    return found;
}

/* A route that comes gets a row above: each method of it, with an id and without. */
static void no_route_is_left_out(void **state)
{
    (void)state;
    static const char *const methods[] = {"GET", "POST", "DELETE"};
    const char *path;
    int n_route = 0;
    for (int32_t number = 1; (path = whim_router_path(number)) != NULL; number++) {
        bool is_probe = true; /* which the gate answers */
        for (size_t i = 0; i < 2 * sizeof methods / sizeof methods[0]; i++) {
            char asked[128];
            whim_fault fault;
            const char *allow, *method = methods[i / 2];
            const bool has_id = i % 2 == 1;
            snprintf(asked, sizeof asked, "%s%s", path, has_id ? "/x" : "");
            const whim_route *route = whim_router_find(method, asked, &allow, &fault);
            is_probe = is_probe && route == NULL;
            n_route += route != NULL;
            if (route != NULL && strcmp(route->path, path) == 0 && !has_row(route, has_id)) {
                fail_msg("%s %s has no row", method, asked);
            }
        }
        for (int i = 0; i < N_ROW && is_probe; i++) {
            is_probe = strcmp(rows[i].path, path) != 0;
        }
        if (is_probe) {
            fail_msg("%s has no row", path);
        }
    }
    assert_true(n_route > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_route_is_left_out),
        cmocka_unit_test(every_route),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}

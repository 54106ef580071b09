/* SPDX-License-Identifier: Apache-2.0 */
/* The server as a whole, over sockets, with scripted jobs: loading, ready, the gate, an answer,
 * health. */
#include "server/metrics/metrics.h"
#include "server/server.h"

#include "unit/server/fake_jobs.h"
#include "unit/text/text_fixture.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

static whim_server *server;
static whim_api api;

static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)whim_server_port(server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void tell(int fd, const char *request)
{
    assert_int_equal(send(fd, request, strlen(request), 0), (ssize_t)strlen(request));
}

/* All that comes until the server closes. */
static const char *hear(int fd)
{
    static char answer[1 << 18];
    size_t n = 0;
    ssize_t got;
    while ((got = recv(fd, answer + n, sizeof answer - 1 - n, 0)) > 0) {
        n += (size_t)got;
    }
    close(fd);
    answer[n] = '\0';
    return answer;
}

/* The whole answer to a request that closes its connection. */
static const char *ask(const char *request)
{
    int fd = dial();
    tell(fd, request);
    return hear(fd);
}

#define HEADERS " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
static const char *get(const char *path)
{
    char request[512];
    snprintf(request, sizeof request, "GET %s" HEADERS "\r\n", path);
    return ask(request);
}

static const char *post(const char *path, const char *body)
{
    char request[1024];
    snprintf(request, sizeof request, "POST %s" HEADERS "Content-Length: %zu\r\n\r\n%s", path,
             strlen(body), body);
    return ask(request);
}

static void expect(const char *answer, int status, const char *words)
{
    char line[32];
    snprintf(line, sizeof line, "HTTP/1.1 %d ", status);
    if (strncmp(answer, line, strlen(line)) != 0 || strstr(answer, words) == NULL) {
        fail_msg("expected %d with %s: %s", status, words, answer);
    }
}

static void while_loading_health_is_answered(void **state)
{
    (void)state;
    whim_server_set_progress(server, 0.4);
    expect(get("/livez"), 200, "{\"status\":\"ok\"}");
    expect(get("/readyz"), 503, "{\"status\":\"loading\",\"progress\":0.400}");
    expect(get("/health"), 503, "\"model\":null");
    expect(get("/v1/models"), 503, "\"code\":\"model_loading\"");
    expect(get("/v1/models"), 503, "Retry-After: 5\r\n");
    expect(post("/v1/messages", "{}"), 529, "\"overloaded_error\"");
    expect(get("/nowhere"), 404, "the nearest is");
    expect(get("/version"), 200, "\"version\":\"");
    expect(get("/openapi.json"), 200, "\"openapi\"");
    const char *metrics = get("/metrics");
    expect(metrics, 200, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
    expect(metrics, 200, "\nwhimbrel:state{state=\"loading\"} 1\n");
    expect(metrics, 200, "\nwhimbrel:load_progress_ratio 0.400\n");
    expect(metrics, 200, "\nwhimbrel:requests_rejected_total{reason=\"loading\"} 3\n");
    assert_null(strstr(metrics, "\nwhimbrel:model_info{"));
    assert_null(strstr(metrics, "nowhere"));
}

static void the_gate_refuses(void **state)
{
    (void)state;
    expect(ask("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"), 403,
           "--allow-host");
    expect(ask("GET /v1/models" HEADERS "Origin: http://evil.example\r\n\r\n"), 403,
           "--cors-origin");
    expect(ask("DELETE /v1/chat/completions" HEADERS "\r\n"), 405, "Allow: POST, OPTIONS\r\n");
    expect(post("/livez", "{}"), 405, "Allow: GET, HEAD, OPTIONS\r\n");
    const char *metrics = get("/metrics");
    expect(metrics, 200, "\nwhimbrel:requests_rejected_total{reason=\"forbidden\"} 2\n");
    expect(metrics, 200, "\nwhimbrel:requests_rejected_total{reason=\"method\"} 2\n");
    expect(metrics, 200, "{route=\"/v1/chat/completions\",method=\"other\",status=\"405\"} 1\n");
    expect(metrics, 200, "{route=\"/livez\",method=\"POST\",status=\"405\"} 1\n");
}

static void a_model_that_is_ready_answers(void **state)
{
    static const whim_job_event events[] = {ADMITTED, TOKEN(0, 97, "a"), END_TOKEN(0),
                                            CHOICE_END(0, WHIM_END_EOS)};
    (void)state;
    script = events;
    n_script = N_OF(events);
    whim_server_set_ready(server, &api);
    expect(get("/readyz"), 200, "{\"status\":\"ready\"}");
    expect(get("/health"), 200,
           "\"model\":\"tiny\",\"running\":1,\"waiting\":2,\"kv_pages_used\":3,"
           "\"kv_pages_cached\":4,\"kv_pages_total\":5,\"preempted_total\":6}");
    expect(get("/v1/models/tiny/"), 200, "\"id\":\"tiny\"");
    expect(get("/models?x=y"), 200, "\"first_id\":\"tiny\"");
    expect(get("/version"), 200, "\"isa\":\"i\"");
    expect(get("/props"), 200, "\"build_info\":\"whimbrel-0.0\"");
    expect(get("/props"), 200, "\"model_path\":\"tiny\"");
    const char *answer = ask("HEAD /v1/models" HEADERS "\r\n");
    expect(answer, 200, "Content-Length: ");
    assert_null(strchr(strstr(answer, "\r\n\r\n"), '{'));
    expect(post("/v1/completions", "{\"prompt\":[1,2]}"), 200, "\"text\":\"a\"");
    answer = post("/completions/", "{\"prompt\":[1,2],\"stream\":true}");
    expect(answer, 200, "Content-Type: text/event-stream; charset=utf-8\r\n");
    expect(answer, 200, "data: [DONE]\n\n");
    expect(post("/v1/completions", "{\"prompt\":[1,2],\"regex\":\"a\"}"), 200, "\"text\":\"a\"");
    expect(post("/v1/completions", "{\"prompt\":[1,2],\"regex\":\"(\"}"), 400, "not closed");
    expect(post("/v1/completions", "{"), 400, "not valid JSON");
    expect(post("/v1/chat/completions", "{}"), 400, "\"param\":\"messages\"");
}

static void metrics_of_a_model(void **state)
{
    (void)state;
    const char *metrics = get("/metrics/");
    expect(metrics, 200, "\nwhimbrel:state{state=\"ready\"} 1\n");
    expect(metrics, 200, "\nwhimbrel:requests_running 1\n");
    expect(metrics, 200, "\nwhimbrel:requests_waiting 2\n");
    expect(metrics, 200, "\nwhimbrel:preemptions_total{cause=\"fair_share\"} 6\n");
    expect(metrics, 200, "\nwhimbrel:model_info{model=\"tiny\",isa=\"i\"} 1\n");
    expect(metrics, 200, "\nvllm:num_requests_running{model_name=\"tiny\",engine=\"0\"} 1\n");
    assert_null(strstr(metrics, "sglang:"));
    const char *head = ask("HEAD /metrics" HEADERS "\r\n");
    expect(head, 200, "Content-Length: ");
    assert_null(strstr(head, "whimbrel:"));
    expect(post("/metrics", "{}"), 405, "Allow: GET, HEAD, OPTIONS\r\n");
    whim_server_tidy(server); /* takes a sample */
    whim_server_tidy(server); /* not again at once */
    const char *history = get("/metrics/history");
    expect(history, 200, "\"whimbrel:requests_running\"");
    expect(history, 200, "\"rows\":[[");
    assert_null(strstr(history, "],["));
    expect(get("/requests"), 200, "{\"object\":\"list\",\"data\":[]}");
}

/* Every path of the document is a route or health, and what it says of the methods is so. */
static void the_document_names_real_routes(void **state)
{
    (void)state;
    const char *body = strstr(get("/openapi.json"), "\r\n\r\n") + 4;
    json_t *doc = json_loads(body, 0, NULL), *item;
    const char *path;
    assert_non_null(doc);
    assert_true(json_object_size(json_object_get(doc, "paths")) >= 15);
    json_object_foreach(json_object_get(doc, "paths"), path, item)
    {
        bool is_get = json_object_get(item, "get") != NULL;
        char real[128];
        bool is_kept = strcmp(path, "/v1/responses/{id}") == 0; /* nobody has one of that name */
        if (strcmp(path, "/slots") == 0) {
            continue; /* it asks a model's service: tests/server/test_llamacpp.py */
        }
        snprintf(real, sizeof real, "%s", strstr(path, "models/{id}") ? "/v1/models/tiny" : path);
        const char *answer = is_get ? get(real) : post(real, "no JSON");
        const char *status = is_kept ? "HTTP/1.1 404 " : is_get ? "HTTP/1.1 200 " : "HTTP/1.1 400 ";
        if (strstr(answer, status) != answer) {
            fail_msg("%s: %s", path, answer);
        }
    }
    json_decref(doc);
}

static void a_silent_loop_is_told(void **state)
{
    (void)state;
    heartbeat_age_ns = 61 * WHIM_NS_PER_S;
    expect(get("/livez"), 503, "\"stalled\"");
    heartbeat_age_ns = 0;
    expect(get("/livez"), 200, "ok");
}

static void keys_are_asked_for_after_a_reload(void **state)
{
    static const whim_api_key keys[] = {{"secret", false}};
    whim_diag diag = {{0}};
    (void)state;
    assert_int_equal(whim_server_reload(server, keys, 1, &diag), WHIM_ERR_OK);
    expect(get("/v1/models"), 401, "WWW-Authenticate: Bearer\r\n");
    expect(get("/v1/models"), 401, "\"code\":\"invalid_api_key\"");
    expect(get("/metrics"), 401, "\"code\":\"invalid_api_key\"");
    expect(post("/v1/messages", "{}"), 401, "\"authentication_error\"");
    expect(get("/readyz"), 200, "ready");
    expect(ask("GET /v1/models" HEADERS "x-api-key: secret\r\n\r\n"), 200, "tiny");
}

/* Of the server's own limits: not the model's state, and in each dialect's words. */
/* Only connections with a request under way keep their seats: a body is awaited on these. */
static void too_many_connections_is_overloaded(void **state)
{
    int fds[4];
    (void)state;
    for (int i = 0; i < 4; i++) {
        fds[i] = dial();
        char answer[2048];
        static const char begun[] = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                                    "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n";
        assert_int_equal(send(fds[i], begun, strlen(begun), 0), (ssize_t)strlen(begun));
        assert_true(recv(fds[i], answer, sizeof answer, 0) > 0);
    }
    expect(get("/v1/models"), 503,
           "\"type\":\"server_error\",\"param\":null,\"code\":\"overloaded\"");
    expect(get("/v1/models"), 503, "Retry-After: 1\r\n");
    expect(post("/v1/messages", ""), 529, "\"type\":\"overloaded_error\"");
    expect(post("/v1/messages", ""), 529, "Retry-After: 1\r\n");
    expect(get("/livez"), 200, "ok");
    expect(get("/metrics"), 200, "whimbrel:http_connections 5\n");
    for (int i = 0; i < 4; i++) {
        close(fds[i]);
    }
}

/* A handler may come back after its client has heard the answer. */
static bool active_becomes(int64_t want)
{
    for (int i = 0; i < 60000 && whim_server_active(server) != want; i++) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    return whim_server_active(server) == want;
}

static void a_server_that_drains_says_so(void **state)
{
    (void)state;
    /* Let in before it drains: answered, and waited for. */
    int fd = dial();
    tell(fd, "POST /v1/completions" HEADERS
             "x-api-key: secret\r\nExpect: 100-continue\r\nContent-Length: 16\r\n\r\n");
    char told[64] = "";
    assert_true(recv(fd, told, sizeof told - 1, 0) > 0);
    assert_non_null(strstr(told, "100 Continue"));
    whim_server_drain(server);
    assert_true(active_becomes(1));
    whim_clock_sleep_ns(50 * WHIM_NS_PER_MS);
    expect(ask("GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"), 503,
           "{\"status\":\"draining\"}");
    expect(get("/livez"), 200, "ok");
    const char *answer =
        ask("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nx-api-key: secret\r\n\r\n");
    expect(answer, 503, "\"code\":\"draining\"");
    expect(answer, 503, "\r\nConnection: close\r\n");
    expect(ask("GET /metrics" HEADERS "x-api-key: secret\r\n\r\n"), 200,
           "\nwhimbrel:state{state=\"draining\"} 1\n");
    tell(fd, "{\"prompt\":[1,2]}");
    expect(hear(fd), 200, "\"text\":\"a\"");
}

static int setup(void **state)
{
    static const char *const hosts[] = {"127.0.0.1"};
    whim_server_cfg cfg = {.http = {.hosts = hosts,
                                    .n_host = 1,
                                    .limits = {.max_connections = 8, .kept_for_health = 4}},
                           .compat = 1 << WHIM_COMPAT_VLLM};
    whim_diag diag = {{0}};
    (void)state;
    whim_tokenizer *tok = open_file("cat tests/data/text/tiny/llama3.json");
    api = (whim_api){.model = fake_model_open(tok),
                     .tok = tok,
                     .n_vocab = 277,
                     .name = "tiny",
                     .version = "0.0",
                     .fingerprint = "fp_0",
                     .ctx = 100,
                     .sampling = {.size = sizeof api.sampling,
                                  .temperature = 1,
                                  .top_p = 1,
                                  .repetition_penalty = 1},
                     .isa = "i"};
    return whim_server_open(&cfg, &server, &diag) != WHIM_ERR_OK ||
           whim_server_start(server, &diag) != WHIM_ERR_OK;
}

static int teardown(void **state)
{
    (void)state;
    whim_server_detach(server);
    bool is_idle = active_becomes(0);
    whim_server_close(server);
    fake_model_close();
    return !is_idle;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(while_loading_health_is_answered),
        cmocka_unit_test(the_gate_refuses),
        cmocka_unit_test(a_model_that_is_ready_answers),
        cmocka_unit_test(metrics_of_a_model),
        cmocka_unit_test(the_document_names_real_routes),
        cmocka_unit_test(a_silent_loop_is_told),
        cmocka_unit_test(too_many_connections_is_overloaded),
        cmocka_unit_test(keys_are_asked_for_after_a_reload),
        cmocka_unit_test(a_server_that_drains_says_so),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

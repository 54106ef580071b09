/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of the table of errors, in both dialects, with its headers. */
#include "unit/server/server_fixture.h"

typedef struct row {
    whim_fault_kind kind;
    int status;
    const char *openai; /* type and code */
    int anthropic_status;
    const char *anthropic, *header;
} row;

#define OAI(type, code) "\"type\":\"" type "\",\"param\":\"p\",\"code\":" code "}"
static const row rows[] = {
    {WHIM_FAULT_BAD_REQUEST, 400, OAI("invalid_request_error", "null"), 400,
     "invalid_request_error", ""},
    {WHIM_FAULT_BAD_VALUE, 400, OAI("invalid_request_error", "\"invalid_value\""), 400,
     "invalid_request_error", ""},
    {WHIM_FAULT_CONTEXT, 400, OAI("invalid_request_error", "\"context_length_exceeded\""), 400,
     "invalid_request_error", ""},
    {WHIM_FAULT_KEY, 401, OAI("invalid_request_error", "\"invalid_api_key\""), 401,
     "authentication_error", "WWW-Authenticate: Bearer\n"},
    {WHIM_FAULT_FORBIDDEN, 403, OAI("permission_error", "null"), 403, "permission_error", ""},
    {WHIM_FAULT_NO_ROUTE, 404, OAI("invalid_request_error", "null"), 404, "not_found_error", ""},
    {WHIM_FAULT_NO_MODEL, 404, OAI("invalid_request_error", "\"model_not_found\""), 404,
     "not_found_error", ""},
    {WHIM_FAULT_METHOD, 405, OAI("invalid_request_error", "null"), 405, "invalid_request_error",
     ""},
    {WHIM_FAULT_TOO_LARGE, 413, OAI("invalid_request_error", "\"request_too_large\""), 413,
     "request_too_large", ""},
    {WHIM_FAULT_ENCODING, 415, OAI("invalid_request_error", "null"), 415, "invalid_request_error",
     ""},
    {WHIM_FAULT_QUEUE_FULL, 429, OAI("rate_limit_error", "\"rate_limit_exceeded\""), 529,
     "overloaded_error", "Retry-After: 1\n"},
    {WHIM_FAULT_OVERLOADED, 503, OAI("server_error", "\"overloaded\""), 529, "overloaded_error",
     "Retry-After: 1\n"},
    {WHIM_FAULT_LOADING, 503, OAI("server_error", "\"model_loading\""), 529, "overloaded_error",
     "Retry-After: 5\n"},
    {WHIM_FAULT_DRAINING, 503, OAI("server_error", "\"draining\""), 529, "overloaded_error",
     "Retry-After: 5\n"},
    {WHIM_FAULT_INTERNAL, 500, OAI("server_error", "null"), 500, "api_error",
     "x-should-retry: false\n"},
};

static void reply(const whim_fault *fault, whim_dialect dialect)
{
    whim_str_deinit(&exchange.headers);
    whim_str_deinit(&exchange.body);
    exchange = (whim_exchange){.request = {.request_id = "r\"1"}};
    whim_fault_reply(&exchange, fault, dialect);
}

static void rows_are_as_the_table_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const row *r = &rows[i];
        char want[512];
        whim_fault fault;
        assert_false(whim_fault_set(&fault, r->kind, "p", "say \"%d\"", 5));
        reply(&fault, WHIM_DIALECT_OPENAI);
        snprintf(want, sizeof want,
                 "{\"error\":{\"message\":\"say \\\"5\\\"\",%s,\"request_id\":\"r\\\"1\"}",
                 r->openai);
        assert_string_equal(whim_str_text(&exchange.body), want);
        assert_int_equal(exchange.status, r->status);
        assert_string_equal(whim_str_text(&exchange.headers), r->header);
        reply(&fault, WHIM_DIALECT_ANTHROPIC);
        snprintf(want, sizeof want,
                 "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"say \\\"5\\\"\"},"
                 "\"request_id\":\"r\\\"1\"}",
                 r->anthropic);
        assert_string_equal(whim_str_text(&exchange.body), want);
        assert_int_equal(exchange.status, r->anthropic_status);
    }
}

static void a_prompt_too_long_has_each_dialects_words(void **state)
{
    whim_fault fault;
    (void)state;
    whim_fault_context(&fault, 9000, 8192);
    reply(&fault, WHIM_DIALECT_OPENAI);
    assert_non_null(strstr(whim_str_text(&exchange.body), "maximum context length is 8192 tokens"));
    assert_non_null(strstr(whim_str_text(&exchange.body), "9000 tokens"));
    assert_non_null(strstr(whim_str_text(&exchange.body), "--ctx"));
    assert_non_null(strstr(whim_str_text(&exchange.body), "\"param\":null"));
    reply(&fault, WHIM_DIALECT_ANTHROPIC);
    assert_non_null(strstr(whim_str_text(&exchange.body),
                           "\"message\":\"prompt is too long: 9000 tokens > 8191 maximum"));
}

/* Memory may be there another time: clients are asked to come again. */
static void no_memory_is_no_fault_of_ours(void **state)
{
    whim_fault fault;
    (void)state;
    assert_false(whim_fault_no_memory(&fault));
    reply(&fault, WHIM_DIALECT_OPENAI);
    assert_int_equal(exchange.status, 503);
    assert_string_equal(whim_str_text(&exchange.headers), "Retry-After: 1\n");
    reply(&fault, WHIM_DIALECT_ANTHROPIC);
    assert_int_equal(exchange.status, 529);
}

static void paths_and_statuses_have_a_dialect_and_a_kind(void **state)
{
    (void)state;
    assert_int_equal(whim_dialect_of("/v1/messages"), WHIM_DIALECT_ANTHROPIC);
    assert_int_equal(whim_dialect_of("/v1/messages/count_tokens"), WHIM_DIALECT_ANTHROPIC);
    assert_int_equal(whim_dialect_of("/v1/v1/messages"), WHIM_DIALECT_ANTHROPIC);
    assert_int_equal(whim_dialect_of("/messages"), WHIM_DIALECT_ANTHROPIC);
    assert_int_equal(whim_dialect_of("/v1messages"), WHIM_DIALECT_OPENAI);
    assert_int_equal(whim_dialect_of("/v1/messagesx"), WHIM_DIALECT_OPENAI);
    assert_int_equal(whim_dialect_of("/v1/models"), WHIM_DIALECT_OPENAI);
    assert_int_equal(whim_fault_of_status(413), WHIM_FAULT_TOO_LARGE);
    assert_int_equal(whim_fault_of_status(403), WHIM_FAULT_FORBIDDEN);
    assert_int_equal(whim_fault_of_status(503), WHIM_FAULT_OVERLOADED);
    assert_int_equal(whim_fault_of_status(431), WHIM_FAULT_HEADERS);
    assert_int_equal(whim_fault_of_status(418), WHIM_FAULT_BAD_REQUEST);
    assert_int_equal(whim_fault_of_status(599), WHIM_FAULT_INTERNAL);
}

/* Half a JSON document is none: without memory for the body its status comes alone. */
static void no_half_bodies(void **state)
{
    (void)state;
    whim_fault fault;
    bool was_alone = false;
    for (int64_t n = 0;; n++) {
        whim_str_deinit(&exchange.headers);
        whim_str_deinit(&exchange.body);
        exchange = (whim_exchange){.request = {.request_id = "r"}};
        whim_str_append_n(&exchange.body, (const char[2048]){0}, 2048); /* the client's */
        whim_str_clear(&exchange.body);
        whim_fault_set(&fault, WHIM_FAULT_NO_ROUTE, NULL, "%0300d", 1);
        whim_alloc_fail_after(n);
        whim_fault_reply(&exchange, &fault, WHIM_DIALECT_OPENAI);
        whim_alloc_fail_after(-1);
        assert_int_equal(exchange.status, 404);
        if (exchange.body.len > 0) {
            assert_int_equal(exchange.body.text[exchange.body.len - 1], '}');
            assert_int_equal(exchange.body.text[exchange.body.len - 2], '"');
            break;
        }
        was_alone = true;
    }
    assert_true(was_alone);
}

/* Who is refused as its share of the memory is used up is told so. */
static void a_used_up_share_is_told(void **state)
{
    (void)state;
    whim_fault fault;
    whim_str_deinit(&exchange.headers);
    whim_str_deinit(&exchange.body);
    exchange = (whim_exchange){.request = {.request_id = "r"}};
    whim_budget_set(8 << 20);
    void *others = whim_alloc(6 << 20);
    int32_t had = whim_budget_share(5);
    assert_null(whim_alloc(1));
    whim_fault_no_memory(&fault);
    whim_fault_reply(&exchange, &fault, WHIM_DIALECT_OPENAI);
    assert_int_equal(whim_budget_share(had), 5);
    whim_free(others);
    whim_budget_set(0);
    assert_int_equal(exchange.status, 503);
    assert_non_null(strstr(whim_str_text(&exchange.body), "out of memory"));
    assert_non_null(strstr(whim_str_text(&exchange.headers), "Retry-After: 1"));
}

/* Nor does one get a reply that would not fit for as long as nobody reads it. */
static void a_reply_must_fit(void **state)
{
    (void)state;
    whim_str body = {0};
    enum { SHARE = 5, LEN = 300 << 10, LEFT = 400 << 10 }; /* the copy takes 512 KiB */
    char *text = whim_alloc(LEN);
    assert_non_null(text);
    for (int is_short = 0; is_short < 2; is_short++) {
        whim_str_deinit(&exchange.headers);
        whim_str_deinit(&exchange.body);
        exchange = (whim_exchange){.request = {.request_id = "r", .path = "/detokenize"}};
        whim_budget_set(WHIM_BUDGET_WHOLE << 20);
        whim_str_append_n(&body, text, LEN);
        assert_true(!body.failed && body.len < LEFT && body.cap > LEFT);
        const int64_t left = is_short ? LEFT : 2 * LEFT;
        char *others = whim_alloc(((int64_t)SHARE << 20) - whim_budget_used() - left);
        assert_non_null(others);
        int32_t had = whim_budget_share(SHARE);
        whim_api_reply(&api, &exchange, &body);
        whim_budget_share(had);
        whim_free(others);
        whim_str_deinit(&body);
        whim_budget_set(0);
        assert_int_equal(exchange.status, is_short ? 503 : 200);
    }
    whim_free(text);
    assert_non_null(strstr(whim_str_text(&exchange.headers), "Retry-After: 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_as_the_table_says),
        cmocka_unit_test(a_prompt_too_long_has_each_dialects_words),
        cmocka_unit_test(no_memory_is_no_fault_of_ours),
        cmocka_unit_test(no_half_bodies),
        cmocka_unit_test(a_used_up_share_is_told),
        cmocka_unit_test(a_reply_must_fit),
        cmocka_unit_test(paths_and_statuses_have_a_dialect_and_a_kind),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}

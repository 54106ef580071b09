/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies: what JSON is taken, what is repaired, what is refused; and JSON out. */
#include "server/body/body.h"

#include "base/alloc.h"
#include "support/cmocka.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

static json_t *parse(const char *text, size_t n, whim_fault *fault)
{
    char *copy = malloc(n + 1); /* exactly as long: a sanitizer sees a step beyond */
    memcpy(copy, text, n);
    copy[n] = '\0';
    json_t *json = whim_body_parse(copy, (int64_t)n, fault);
    free(copy);
    return json;
}

/* The body, written again. */
static void expect(const char *text, const char *want)
{
    whim_fault fault = {0};
    whim_str out = {0};
    json_t *json = parse(text, strlen(text), &fault);
    if (json == NULL) {
        fail_msg("%s: %s", text, fault.message);
    }
    whim_put_json(&out, json);
    assert_string_equal(whim_str_text(&out), want);
    whim_str_deinit(&out);
    json_decref(json);
}

static void refuse(const char *text, size_t n, const char *why)
{
    whim_fault fault = {0};
    json_t *json = parse(text, n, &fault);
    if (json != NULL || strstr(fault.message, why) == NULL) {
        fail_msg("%.60s: %s", text, fault.message);
    }
    assert_int_equal(fault.kind, WHIM_FAULT_BAD_REQUEST);
}
#define REFUSE(text, why) refuse(text, sizeof(text) - 1, why)

static void bodies_are_taken(void **state)
{
    (void)state;
    expect("{\"z\":1,\"a\":2,\"m\":3}", "{\"z\":1,\"a\":2,\"m\":3}");
    expect("\xEF\xBB\xBF{\"a\":1}", "{\"a\":1}");
    expect("{\"a\":1,\"a\":2}", "{\"a\":2}");
    expect("{\"a\":\"x\\u0000y\"}", "{\"a\":\"x\\u0000y\"}");
    expect(" {\"a\" : [ 1.5 , -9223372036854775808 ] } \n", "{\"a\":[1.5,-9223372036854775808]}");
}

static void halves_of_characters_are_repaired(void **state)
{
    (void)state;
#define BAD "\xEF\xBF\xBD"
    expect("{\"a\":\"\\ud83e\\udd8a\"}", "{\"a\":\"\xF0\x9F\xA6\x8A\"}");
    expect("{\"a\":\"x\\ud83e\"}", "{\"a\":\"x" BAD "\"}");
    expect("{\"a\":\"\\udd8ax\"}", "{\"a\":\"" BAD "x\"}");
    expect("{\"a\":\"\\uD83E\\uD83E\\uDD8A\"}", "{\"a\":\"" BAD "\xF0\x9F\xA6\x8A\"}");
    expect("{\"a\":\"\\\\ud83e\"}", "{\"a\":\"\\\\ud83e\"}");
    expect("{\"\\ud83e\":\"\\ud83e\\n\"}", "{\"" BAD "\":\"" BAD "\\n\"}");
}

static void an_integer_field_refuses(const char *body)
{
    whim_fault fault = {0};
    json_t *json = parse(body, strlen(body), &fault);
    whim_fields f = {json, "", &fault};
    int64_t out = 7;
    assert_non_null(json);
    assert_false(whim_field_int(&f, "a", INT64_MIN, INT64_MAX, &out));
    assert_string_equal(fault.param, "a");
    assert_int_equal(fault.kind, WHIM_FAULT_BAD_VALUE);
    assert_int_equal(out, 7);
    json_decref(json);
}

static void a_real_field_refuses(const char *body)
{
    whim_fault fault = {0};
    json_t *json = parse(body, strlen(body), &fault);
    whim_fields f = {json, "", &fault};
    float out = 7;
    assert_non_null(json);
    assert_false(whim_field_real(&f, "a", -(double)FLT_MAX, (double)FLT_MAX, &out));
    assert_string_equal(fault.param, "a");
    assert_true(out == 7);
    json_decref(json);
}

#define MARK "1.7976931348623155e+308" /* of what no double holds */

static void numbers_too_large_become_doubles(void **state)
{
    char body[1300], zeros[401];
    (void)state;
    expect("{\"a\":[9223372036854775807,-9223372036854775808]}",
           "{\"a\":[9223372036854775807,-9223372036854775808]}");
    expect("{\"a\":[9223372036854775808,-12345678901234567890123]}",
           "{\"a\":[9.223372036854776e+18,-1.2345678901234568e+22]}");
    expect("{\"a\":[1e999,-1E+999 , 9e308,0.5e-999,1.5e308]}",
           "{\"a\":[" MARK ",-" MARK "," MARK ",0.0,1.5e+308]}");
    expect("{\"a\":\"1e999 9223372036854775808\"}", "{\"a\":\"1e999 9223372036854775808\"}");
    memset(zeros, '0', 400);
    zeros[400] = '\0';
    snprintf(body, sizeof body, "{\"a\":[1%s,-1%s.5,0.%s1]}", zeros, zeros, zeros);
    expect(body, "{\"a\":[" MARK ",-" MARK ",0.0]}");
    an_integer_field_refuses("{\"a\":9223372036854775808}");
    an_integer_field_refuses("{\"a\":1e999}");
    an_integer_field_refuses("{\"a\":NaN}");
    a_real_field_refuses("{\"a\":NaN}");
    a_real_field_refuses("{\"a\":-Infinity}");
    a_real_field_refuses("{\"a\":1e999}");
    /* What is no number stays none. */
    REFUSE("{\"a\":1.e999}", "not valid JSON");
    REFUSE("{\"a\":1e+}", "not valid JSON");
    REFUSE("{\"a\":-e999}", "not valid JSON");
    REFUSE("{\"a\":01e999}", "not valid JSON");
    REFUSE("{\"a\":012345678901234567890}", "not valid JSON");
    REFUSE("{\"a\":1e999", "not valid JSON");
    REFUSE("{\"a\":-", "not valid JSON");
    REFUSE("{\"a\":1.", "not valid JSON");
}

static void zeros_in_keys_are_repaired(void **state)
{
    (void)state;
    expect("{\"a\\u0000\":1}", "{\"a" BAD "\":1}");
    expect("{\"x\":[{\"b\":[\"\\u0000\",\"\\u0000\"], \"\\u0000c\" : \"\\u0000\"}]}",
           "{\"x\":[{\"b\":[\"\\u0000\",\"\\u0000\"],\"" BAD "c\":\"\\u0000\"}]}");
    REFUSE("]]]{\"a\\u0000\":1}", "not valid JSON");
}

static void bodies_are_refused(void **state)
{
    (void)state;
    REFUSE("", "empty");
    REFUSE("\xEF\xBB\xBF", "empty");
    REFUSE("[1]", "must be a JSON object, not an array");
    REFUSE("{\"a\":1}x", "not valid JSON");
    REFUSE("{\"a\":", "not valid JSON");
    REFUSE("{\"a\":\"\\ud83", "not valid JSON");
    REFUSE("{\"a\":\"\\", "not valid JSON");
    REFUSE("{'a':1}", "not valid JSON");
    REFUSE("{\"a\":\"\x01\"}", "not valid JSON");
    REFUSE("{\"a\":\"\xFF\"}", "not UTF-8: byte 6");
    REFUSE("{\"a\":\"\xED\xA0\x80\"}", "not UTF-8");
    REFUSE("\0", "not valid JSON");
    char deep[4096] = "{\"a\":";
    memset(deep + 5, '[', WHIM_JSON_DEPTH);
    refuse(deep, 5 + WHIM_JSON_DEPTH, "deeper than 128");
    memset(deep + 5, '[', WHIM_JSON_DEPTH - 1);
    memset(deep + 4 + WHIM_JSON_DEPTH, ']', WHIM_JSON_DEPTH - 1);
    strcpy(deep + 3 + 2 * WHIM_JSON_DEPTH, "}");
    whim_fault fault;
    json_t *json = parse(deep, strlen(deep), &fault);
    assert_non_null(json);
    json_decref(json);
}

static bool have_memory;

static void *some_malloc(size_t n)
{
    return have_memory ? malloc(n) : NULL;
}

/* The server is at its end then, not the body. */
static void no_memory_is_no_bad_request(void **state)
{
    static const char body[] = "{\"a\":[1,\"x\"]}";
    (void)state;
    for (int ours = 0; ours < 2; ours++) {
        whim_fault fault = {0};
        have_memory = ours;
        json_set_alloc_funcs(some_malloc, free);
        whim_alloc_fail_after(ours ? 0 : -1);
        json_t *json = whim_body_parse(body, sizeof body - 1, &fault);
        whim_alloc_fail_after(-1);
        json_set_alloc_funcs(malloc, free);
        assert_null(json);
        assert_int_equal(fault.kind, WHIM_FAULT_OVERLOADED);
        assert_int_equal(whim_fault_status(&fault, WHIM_DIALECT_OPENAI), 503);
        assert_string_equal(fault.message, "out of memory");
    }
}

/* Small in bytes and large in memory. */
static void bodies_of_many_values_are_refused(void **state)
{
    (void)state;
    enum { GROUPS = WHIM_JSON_VALUES / WHIM_JSON_GROUP, IDS = WHIM_JSON_VALUES - 100 };
    char *body = malloc(2 * WHIM_JSON_VALUES + 100);
    assert_non_null(body);
    char *at = stpcpy(body, "{\"x\":[{}");
    for (int i = 0; i < GROUPS; i++) {
        at = stpcpy(at, ",{}");
    }
    at = stpcpy(at, "]}");
    refuse(body, at - body, "more than 2097152 values");
    refuse(body, at - body, "send less at once");
    at = stpcpy(body, "{\"prompt\":[1");
    for (int i = 0; i < IDS; i++) {
        at = stpcpy(at, ",1");
    }
    at = stpcpy(at, "]}");
    whim_fault fault;
    json_t *json = parse(body, (size_t)(at - body), &fault);
    assert_non_null(json);
    json_decref(json);
    free(body);
}

static void texts_are_written(void **state)
{
    whim_str out = {0};
    char id[48], other[48];
    (void)state;
    whim_put_text(&out, "a\"\\\n\r\t\x01\x7f\xC3\xA9\0b", 12);
    whim_put_text(&out, "\xFFx\xE4\xB8", 4);
    whim_put_cstr(&out, NULL);
    whim_put_real(&out, -1.5);
    whim_put_real(&out, -(double)__builtin_inf());
    assert_string_equal(whim_str_text(&out),
                        "\"a\\\"\\\\\\n\\r\\t\\u0001\x7f\xC3\xA9\\u0000b\"\"" BAD "x" BAD
                        "\"null-1.5-9999.0");
    whim_str_deinit(&out);
    whim_make_id(id, "call_");
    whim_make_id(other, "call_");
    assert_int_equal(strlen(id), 29);
    assert_memory_equal(id, "call_", 5);
    assert_string_not_equal(id, other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_are_taken),
        cmocka_unit_test(halves_of_characters_are_repaired),
        cmocka_unit_test(numbers_too_large_become_doubles),
        cmocka_unit_test(zeros_in_keys_are_repaired),
        cmocka_unit_test(bodies_are_refused),
        cmocka_unit_test(no_memory_is_no_bad_request),
        cmocka_unit_test(bodies_of_many_values_are_refused),
        cmocka_unit_test(texts_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

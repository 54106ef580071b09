/* SPDX-License-Identifier: Apache-2.0 */
/* Limits, messages and typed getters of the JSON layer. */
#include <stdint.h>

#include "base/json.h"
#include "support/cmocka.h"

#include <string.h>

static const whim_json_limits limits = {.max_bytes = 1000, .max_depth = 4};

static void expect_refused(const char *text, const char *needle)
{
    whim_json *json;
    whim_diag diag = {{0}};
    assert_int_equal(
        whim_json_parse(&json, text, (int64_t)strlen(text), limits, "some.json", &diag),
        WHIM_ERR_CORRUPT);
    assert_null(json);
    assert_non_null(strstr(diag.text, "some.json: "));
    if (strstr(diag.text, needle) == NULL) {
        fail_msg("\"%s\" is not in: %s", needle, diag.text);
    }
}

static void refuses_what_is_not_json(void **state)
{
    (void)state;
    expect_refused("", "line 1");
    expect_refused("{\n  \"a\": }", "line 2 column 8");
    expect_refused("[1]", "an array");
    expect_refused("{\"a\": 1} x", "line 1");
    expect_refused("{\"a\": nan}", "line 1 column 7");
    expect_refused("{\"a\": -Infinit}", "line 1");
    expect_refused("{\"\xC3\xA9\": \"\x01\"}", "line 1 column 8: a control character");
    expect_refused("{\"a\": [[[[1]]]]}", "4 levels");
    char big[1200];
    memset(big, ' ', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    expect_refused(big, "1000");
}

static void depth_counts_only_structure(void **state)
{
    (void)state;
    static const char text[] = "{\"a[[[[[[\\\"[[[\": [[[1]]], \"b\": {\"c\": [[]]}}";
    whim_json *json;
    assert_int_equal(whim_json_parse(&json, text, sizeof text - 1, limits, "x", NULL), WHIM_ERR_OK);
    whim_json_free(json);
}

static void getters_check_and_name_fields(void **state)
{
    (void)state;
    static const char text[] = "{\"i\": 7, \"e\": 1e3, \"r\": 0.5, \"b\": true, \"s\": \"x\","
                               "\"n\": null, \"o\": {\"k\": -1}, \"a\": [1, \"y\"]}";
    whim_json *json;
    whim_diag diag = {{0}};
    assert_int_equal(whim_json_parse(&json, text, sizeof text - 1, limits, "f", &diag),
                     WHIM_ERR_OK);
    whim_json_scope top = {.obj = json, .path = "f", .prefix = "", .diag = &diag};
    int64_t i = 42;
    double r = 0.0;
    bool b = false;
    const char *s = NULL;
    const whim_json *o = NULL;
    assert_int_equal(whim_json_get_int(&top, "absent", 0, 1, &i), WHIM_ERR_OK);
    assert_int_equal(whim_json_get_int(&top, "n", 0, 1, &i), WHIM_ERR_OK);
    assert_int_equal(i, 42);
    assert_int_equal(whim_json_get_int(&top, "i", 7, 7, &i), WHIM_ERR_OK);
    assert_int_equal(i, 7);
    assert_int_equal(whim_json_get_int(&top, "e", 0, 2000, &i), WHIM_ERR_OK);
    assert_int_equal(i, 1000);
    assert_int_equal(whim_json_get_int(&top, "i", 8, 9, &i), WHIM_ERR_CORRUPT);
    assert_string_equal(diag.text, "f: \"i\" is 7, expected an integer between 8 and 9");
    assert_int_equal(whim_json_get_int(&top, "s", 8, 9, &i), WHIM_ERR_CORRUPT);
    assert_string_equal(diag.text, "f: \"s\" is a string, expected an integer between 8 and 9");
    assert_int_equal(whim_json_get_int(&top, "r", 0, 9, &i), WHIM_ERR_CORRUPT);
    assert_int_equal(i, 1000);
    assert_int_equal(whim_json_get_real(&top, "r", 0.0, 1.0, &r), WHIM_ERR_OK);
    assert_true(r == 0.5);
    assert_int_equal(whim_json_get_real(&top, "i", 0.0, 1.0, &r), WHIM_ERR_CORRUPT);
    assert_int_equal(whim_json_get_bool(&top, "b", &b), WHIM_ERR_OK);
    assert_true(b);
    assert_int_equal(whim_json_get_bool(&top, "i", &b), WHIM_ERR_CORRUPT);
    assert_int_equal(whim_json_get_string(&top, "s", &s), WHIM_ERR_OK);
    assert_string_equal(s, "x");
    assert_int_equal(whim_json_get_array(&top, "o", &o), WHIM_ERR_CORRUPT);
    assert_int_equal(whim_json_get_object(&top, "o", &o), WHIM_ERR_OK);
    whim_json_scope inner = {.obj = o, .path = "f", .prefix = "o.", .diag = &diag};
    assert_int_equal(whim_json_get_int(&inner, "k", 0, 9, &i), WHIM_ERR_CORRUPT);
    assert_string_equal(diag.text, "f: \"o.k\" is -1, expected an integer between 0 and 9");
    assert_int_equal(whim_json_require(&inner, "z"), WHIM_ERR_CORRUPT);
    assert_string_equal(diag.text, "f: \"o.z\" is missing");
    assert_true(whim_json_has(&top, "i") && !whim_json_has(&top, "n"));
    assert_true(whim_json_is_null(&top, "n") && !whim_json_is_null(&top, "absent"));
    whim_json_iter iter = {.obj = json};
    char keys[16] = "";
    while (whim_json_next(&iter)) {
        strcat(keys, iter.key);
    }
    assert_string_equal(keys, "ierbsnoa");
    whim_json_free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_is_not_json),
        cmocka_unit_test(depth_counts_only_structure),
        cmocka_unit_test(getters_check_and_name_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

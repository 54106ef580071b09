/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing JSON: what Python's json takes, limits, memory that runs out, numbers that
 * read back the same. */
#include <stdint.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/math/rng.h"
#include "support/cmocka.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const whim_json_limits limits = {.max_bytes = 1 << 20, .max_depth = 8};

/* Read from memory of exactly its size, so that a sanitizer sees a step beyond. */
static whim_err read_text(whim_json **out, const char *text, size_t n, whim_json_limits within,
                          whim_diag *diag)
{
    char *copy = malloc(n > 0 ? n : 1);
    memcpy(copy, text, n);
    whim_err err = whim_json_read(out, copy, (int64_t)n, within, diag);
    free(copy);
    return err;
}

/* The text, written again. */
static void expect_n(const char *text, size_t n, const char *want)
{
    whim_json *json;
    whim_diag diag = {{0}};
    whim_str out = {0};
    if (read_text(&json, text, n, limits, &diag) != WHIM_ERR_OK) {
        fail_msg("%s: %s", text, diag.text);
    }
    whim_json_write(&out, json);
    assert_string_equal(whim_str_text(&out), want);
    whim_str_deinit(&out);
    whim_json_free(json);
}

static void expect(const char *text, const char *want)
{
    expect_n(text, strlen(text), want);
}

#define MARK "1.7976931348623155e+308"

static void reads_what_python_reads(void **state)
{
    (void)state;
    expect("[1000000000000000019884624838656, -9223372036854775808, 9223372036854775808]",
           "[1e+30,-9223372036854775808,9.223372036854776e+18]");
    expect("[NaN, Infinity, -Infinity, 1e999, -1E999]",
           "[" MARK "," MARK ",-" MARK "," MARK ",-" MARK "]");
    expect("\xEF\xBB\xBF {\"a\": 1}", "{\"a\":1}");
    expect("{\"a\": 1, \"b\": {\"c\": 2, \"c\": []}, \"a\": \"last\"}",
           "{\"a\":\"last\",\"b\":{\"c\":[]}}");
    expect("\"\\u0000\\/\\b\\f\\n\\r\\t\\\"\\\\\\u00e9\\u20AC\\ud83e\\udd8a\"",
           "\"\\u0000/\\u0008\\u000c\\n\\r\\t\\\"\\\\\xC3\xA9\xE2\x82\xAC\xF0\x9F\xA6\x8A\"");
    expect("\"\\ud83e\\ud83ex\\udd8a\"", "\"\xEF\xBF\xBD\xEF\xBF\xBDx\xEF\xBF\xBD\"");
    expect("{\"\\u0000k\": true, \"\": null}", "{\"\xEF\xBF\xBDk\":true,\"\":null}");
    expect(" -0 ", "0");
    expect("-0.0", "-0.0");
    expect("[0.2,1e-06,5e-324,100.0,1e22,0.1e1,1.7976931348623157e308,123456789.123456789]",
           "[0.2,1e-06,5e-324,100.0,1e+22,1.0,1.7976931348623157e+308,123456789.12345679]");
}

/* What was NaN in a file is refused where a field wants a number, by the field's name. */
static void used_fields_have_a_range(void **state)
{
    (void)state;
    static const char text[] = "{\"eps\": NaN, \"n\": 1000000000000000019884624838656, "
                               "\"s\": \"a\\u0000b\"}";
    whim_json *json;
    whim_diag diag = {{0}};
    double eps = 0.5;
    int64_t n = 5;
    const char *s = NULL;
    assert_int_equal(whim_json_parse(&json, text, sizeof text - 1, limits, "f", &diag),
                     WHIM_ERR_OK);
    whim_json_scope top = {.obj = json, .path = "f", .prefix = "", .diag = &diag};
    assert_int_equal(whim_json_get_real(&top, "eps", 0, 1e300, &eps), WHIM_ERR_CORRUPT);
    assert_string_equal(diag.text, "f: \"eps\" is NaN, infinite or too large for a double, "
                                   "expected a number");
    assert_int_equal(whim_json_get_int(&top, "n", 0, INT64_MAX, &n), WHIM_ERR_CORRUPT);
    assert_non_null(strstr(diag.text, "\"n\""));
    assert_int_equal(whim_json_get_string(&top, "s", &s), WHIM_ERR_CORRUPT);
    assert_string_equal(diag.text, "f: \"s\" is a string with U+0000 in it, expected a string");
    assert_true(eps == 0.5 && n == 5 && s == NULL);
    whim_json_free(json);
}

/* Whoever hands a number on is told that it is another one. */
static void a_changed_number_is_noted(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_changed;
        double largest;
    } rows[] = {
        {"[9223372036854775807, -9223372036854775808, 1.5, 1e308, 1e-400]", false, 1e308},
        {"{\"a\": [9223372036854775808]}", true, 0x1p63},
        {"[[], -1e24, 1e3]", false, 1e24},
        {"{\"a\": {\"b\": NaN}}", true, WHIM_JSON_BEYOND},
        {"[-Infinity]", true, WHIM_JSON_BEYOND},
        {"1e999", true, WHIM_JSON_BEYOND},
        {"\"1e999\"", false, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool is_changed = false;
        whim_json_limits within = limits;
        whim_json *json;
        within.is_changed = &is_changed;
        assert_int_equal(
            whim_json_read(&json, rows[i].text, (int64_t)strlen(rows[i].text), within, NULL),
            WHIM_ERR_OK);
        if (is_changed != rows[i].is_changed || whim_json_largest_real(json) != rows[i].largest) {
            fail_msg("%s: %d, %g", rows[i].text, is_changed, whim_json_largest_real(json));
        }
        whim_json_free(json);
    }
}

/* 1e308 is a number like others. */
static void large_numbers_are_told_as_they_are(void **state)
{
    (void)state;
    static const char text[] = "{\"p\": 1e308}";
    whim_json *json;
    whim_diag diag = {{0}};
    double p = 0.5;
    assert_int_equal(whim_json_parse(&json, text, sizeof text - 1, limits, "f", &diag),
                     WHIM_ERR_OK);
    whim_json_scope top = {.obj = json, .path = "f", .prefix = "", .diag = &diag};
    assert_int_equal(whim_json_get_real(&top, "p", 0, 1, &p), WHIM_ERR_CORRUPT);
    assert_string_equal(diag.text, "f: \"p\" is 1e+308, expected a number between 0 and 1");
    whim_json_free(json);
}

static void keys_may_have_to_be_unique(void **state)
{
    (void)state;
    static const char text[] = "{\"a\": {\"b\": 1}, \"b\": 2, \"a\": 3}";
    whim_json_limits strict = limits;
    whim_diag diag = {{0}};
    whim_json *json;
    strict.unique_keys = true;
    assert_int_equal(whim_json_read(&json, text, sizeof text - 1, strict, &diag), WHIM_ERR_CORRUPT);
    assert_non_null(strstr(diag.text, "duplicate"));
    assert_null(json);
}

/* One number of values for several texts. */
static void values_are_counted(void **state)
{
    (void)state;
    int64_t left = 30;
    whim_json_limits few = limits;
    whim_diag diag = {{0}};
    whim_json *json;
    few.values_left = &left;
    assert_int_equal(whim_json_read(&json, "[1,2,{}]", 8, few, &diag), WHIM_ERR_OK);
    whim_json_free(json);
    assert_int_equal(left, 30 - 2 * WHIM_JSON_GROUP - 2);
    assert_int_equal(whim_json_read(&json, "[1,2,3,4,5]", 11, few, &diag), WHIM_ERR_CORRUPT);
    assert_null(json);
    assert_true(left < 0);
    assert_non_null(strstr(diag.text, "more than 12 values"));
}

/* Without a bound of its own a file may hold WHIM_JSON_VALUES. */
static void files_are_bounded(void **state)
{
    (void)state;
    const whim_json_limits large = {.max_bytes = INT64_MAX, .max_depth = 8};
    whim_str text = {0};
    whim_diag diag = {{0}};
    whim_json *json;
    whim_str_append(&text, "{\"a\":[");
    for (int i = 0; i < WHIM_JSON_VALUES / WHIM_JSON_GROUP; i++) {
        whim_str_append(&text, "{},");
    }
    whim_str_append(&text, "{}]}");
    assert_int_equal(whim_json_parse(&json, text.text, text.len, large, "f", &diag),
                     WHIM_ERR_CORRUPT);
    assert_non_null(strstr(diag.text, "more than 2097152 values"));
    whim_str_deinit(&text);
}

/* The members of an object and of one inside, as text. */
static whim_err walk(const char *text, whim_str *out, whim_diag *diag)
{
    whim_json_members w;
    bool more = true;
    whim_err err = whim_json_members_open(&w, text, (int64_t)strlen(text), limits, "f", diag);
    for (int32_t depth = 1; err == WHIM_ERR_OK && depth > 0;) {
        err = whim_json_members_next(&w, &more);
        if (err != WHIM_ERR_OK || !more) {
            whim_str_append(out, "}");
            depth--;
            continue;
        }
        const char *key = whim_str_text(&w.key);
        whim_str_append(out, key);
        if (strcmp(key, "in") == 0) {
            err = whim_json_members_enter(&w);
            depth++;
        } else if (key[0] == '_') {
            err = whim_json_members_value(&w, NULL);
        } else {
            whim_json *value;
            err = whim_json_members_value(&w, &value);
            if (err == WHIM_ERR_OK) {
                whim_json_write(out, value);
            }
            whim_json_free(value);
        }
    }
    whim_json_members_close(&w);
    return err;
}

static void objects_are_walked(void **state)
{
    (void)state;
    static const char *const good[][2] = {
        {"{}", "}"},
        {" { } ", "}"},
        {"{\"a\": [1, {\"b\": 2}], \"\\u0062\" : null}", "a[1,{\"b\":2}]bnull}"},
        {"{\"in\":{\"a\":1,\"_\":[{\"x\":[\"\\n\"]},2]},\"b\":2}", "ina1_}b2}"},
        {"{\"in\":{},\"_\":-1.5e3}", "in}_}"},
    };
    static const char *const wrong[][2] = {
        {"", "top level"},
        {"[]", "top level"},
        {"{", "key"},
        {"{\"a\"", "\":\""},
        {"{\"a\":", "a value is expected"},
        {"{\"a\":1", "\"}\""},
        {"{\"a\":1,}", "key"},
        {"{\"a\":1 \"b\":2}", "\",\""},
        {"{\"a\":1}x", "after the end"},
        {"{\"in\":3}", "\"in\" is expected to be an object"},
        {"{\"in\":{}", "\"}\""},
        {"{\"_\":[1,}", "line 1 column 9"},
        {"{\"_\":\"\\x\"}", "escape"},
        {"{\"_\":[[[[[[[[[]]]]]]]]]}", "deeper"},
        {"{\"_\":01}", "number"},
        {"{\"\x01\":1}", "control"},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        whim_str out = {0};
        whim_diag diag = {{0}};
        if (walk(good[i][0], &out, &diag) != WHIM_ERR_OK) {
            fail_msg("%s: %s", good[i][0], diag.text);
        }
        assert_string_equal(whim_str_text(&out), good[i][1]);
        whim_str_deinit(&out);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        whim_str out = {0};
        whim_diag diag = {{0}};
        whim_err err = walk(wrong[i][0], &out, &diag);
        if (err != WHIM_ERR_CORRUPT || strstr(diag.text, wrong[i][1]) == NULL) {
            fail_msg("%s: %s: %s", wrong[i][0], whim_err_name(err), diag.text);
        }
        whim_str_deinit(&out);
    }
}

static const char *pick(uint64_t *at, const char *const *list, size_t n)
{
    return list[whim_rng_at(7, (*at)++) % n];
}

/* Random texts of JSON's own words: jansson takes the same, and reads the same values. */
static void agrees_with_jansson(void **state)
{
    static const char *const words[] = {"{",       "}",       "[",      "]",    ",",      ":",
                                        "\"a\"",   "1",       "-2.5",   "true", "null",   " ",
                                        "\"\\n\"", "{\"k\":", "3]",     "[1,",  "\"b\":", "0",
                                        "1e2,",    "false}",  "\"\\u00"};
    (void)state;
    uint64_t at = 0;
    int64_t n_good = 0;
    for (int round = 0; round < 200000; round++) {
        char text[128] = "";
        for (int k = (int)(whim_rng_at(8, (uint64_t)round) % 9); k >= 0; k--) {
            strcat(text, pick(&at, words, sizeof words / sizeof words[0]));
        }
        whim_json *json;
        json_t *want = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        whim_err err = read_text(&json, text, strlen(text), limits, NULL);
        if ((err == WHIM_ERR_OK) != (want != NULL) || (want != NULL && !json_equal(json, want))) {
            fail_msg("%s: %s", text, whim_err_name(err));
        }
        n_good += want != NULL;
        json_decref(want);
        whim_json_free(json);
    }
    assert_true(n_good > 1000);
}

static void doubles_read_back_the_same(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t bits = whim_rng_at(3, i);
        double x, y = (double)(bits % 100000) / 1000, back;
        char text[WHIM_REAL_ROOM], shorter[WHIM_REAL_ROOM];
        memcpy(&x, &bits, sizeof x);
        whim_format_real(text, x);
        assert_true(!isfinite(x) || strtod(text, NULL) == x);
        whim_format_real(text, y);
        snprintf(shorter, sizeof shorter, "%.3f", y); /* three digits are all that it has */
        back = strtod(text, NULL);
        assert_true(back == y && strlen(text) <= strlen(shorter));
    }
}

static int n_digit(const char *text)
{
    int n = 0, last = 0;
    for (; *text != '\0' && *text != 'e'; text++) {
        bool digit = *text >= '0' && *text <= '9';
        n += digit && (n > 0 || *text != '0');
        last = digit && *text != '0' ? n : last;
    }
    return last;
}

/* Where the neighbours below are nearer than those above. Python's repr needs 17 digits for 801 of
 * them. */
static void powers_of_two_are_short(void **state)
{
    (void)state;
    int n_long = 0;
    char text[WHIM_REAL_ROOM];
    for (int k = -1074; k < 1024; k++) {
        whim_format_real(text, ldexp(1, k));
        assert_true(strtod(text, NULL) == ldexp(1, k));
        n_long += n_digit(text) == 17;
    }
    assert_int_equal(n_long, 801);
    expect("[7.120236347223045e-307,-5.282945311356653e+269,9007199254740992.0,0.0001220703125]",
           "[7.120236347223045e-307,-5.282945311356653e+269,9007199254740992.0,0.0001220703125]");
}

/* --- memory ----------------------------------------------------------------------------------- */

static int64_t n_left;

static void *some_malloc(size_t n)
{
    return n_left-- > 0 ? malloc(n) : NULL;
}

/* Whichever allocation fails, ours or the library's, it is told as that and not as bad JSON. */
static void no_memory_is_told(void **state)
{
    static const char text[] = "{\"a\": [1, 2.5, \"x\\n\", \"y\"], \"b\": {\"c\": true}, \"d\": "
                               "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], \"e\": 12345678901234567890}";
    (void)state;
    for (int ours = 0; ours < 2; ours++) {
        int64_t n = 0;
        for (whim_err err = WHIM_ERR_NO_MEMORY; err != WHIM_ERR_OK; n++) {
            whim_json *json;
            whim_diag diag = {{0}};
            n_left = ours ? INT64_MAX : n;
            json_set_alloc_funcs(some_malloc, free);
            whim_alloc_fail_after(ours ? n : -1);
            err = whim_json_parse(&json, text, sizeof text - 1, limits, "f", &diag);
            whim_alloc_fail_after(-1);
            json_set_alloc_funcs(malloc, free);
            assert_true(err == WHIM_ERR_OK || err == WHIM_ERR_NO_MEMORY);
            if (err != WHIM_ERR_OK) {
                assert_string_equal(diag.text, "f: out of memory while reading JSON");
                assert_null(json);
            }
            whim_json_free(json);
        }
        assert_true(n > (ours ? 1 : 10));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_python_reads),
        cmocka_unit_test(used_fields_have_a_range),
        cmocka_unit_test(keys_may_have_to_be_unique),
        cmocka_unit_test(a_changed_number_is_noted),
        cmocka_unit_test(powers_of_two_are_short),
        cmocka_unit_test(large_numbers_are_told_as_they_are),
        cmocka_unit_test(values_are_counted),
        cmocka_unit_test(files_are_bounded),
        cmocka_unit_test(objects_are_walked),
        cmocka_unit_test(agrees_with_jansson),
        cmocka_unit_test(doubles_read_back_the_same),
        cmocka_unit_test(no_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

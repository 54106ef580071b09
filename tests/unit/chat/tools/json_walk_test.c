/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over JSON against jansson: whole values, what may not come, and that every beginning of
 * a value is taken. */
#include <stdint.h>

#include "chat/tools/json_walk.h"
#include "support/cmocka.h"

#include <jansson.h>
#include <string.h>

/* How many bytes are taken; *whole tells whether they are a value. */
static size_t walk(const char *text, size_t n, bool *whole)
{
    whim_json_walk w = {0};
    size_t at = 0;
    while (at < n && whim_json_walk_step(&w, text[at])) {
        at++;
    }
    *whole = whim_json_walk_is_whole(&w);
    return at;
}

static void values(void **state)
{
    (void)state;
    static const char *const good[] = {"{}",
                                       " [ ] ",
                                       "{\"a\": [1, -0.5e+3, {\"b\": null}], \"c\": true}",
                                       "\"\\u00e9\\n\\/\"",
                                       "0",
                                       "-0",
                                       "12",
                                       "1.5",
                                       "1E5",
                                       "false",
                                       "[[[]]]",
                                       "\"é\"",
                                       "[1,2]"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        bool whole;
        assert_int_equal(walk(good[i], strlen(good[i]), &whole), strlen(good[i]));
        assert_true(whole);
    }
    static const struct {
        const char *text;
        size_t taken;
    } bad[] = {{"{,}", 1},      {"{\"a\" 1}", 5},   {"[1,]", 3},   {"01", 1},   {"1.", 2},
               {"1.e", 2},      {"-", 1},           {"-a", 1},     {"tru", 3},  {"trux", 3},
               {"\"\\x\"", 2},  {"\"\\u12g4\"", 5}, {"\"\n\"", 1}, {"{a}", 1},  {"[}", 1},
               {"{]", 1},       {"{\"a\":1]", 6},   {"1e+", 3},    {"{} x", 3}, {"", 0},
               {"{\"a\":}", 5}, {"[1 2]", 3},       {"nul1", 3},   {"[1e]", 3}, {"{\"a\"}", 4}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bool whole;
        size_t taken = walk(bad[i].text, strlen(bad[i].text), &whole);
        if (taken != bad[i].taken || (taken == strlen(bad[i].text) && whole)) {
            fail_msg("%s: %zu bytes taken", bad[i].text, taken);
        }
    }
}

static void depth_is_limited(void **state)
{
    (void)state;
    char text[2 * WHIM_JSON_WALK_DEPTH + 2];
    bool whole;
    memset(text, '[', WHIM_JSON_WALK_DEPTH + 1);
    assert_int_equal(walk(text, WHIM_JSON_WALK_DEPTH + 1, &whole), WHIM_JSON_WALK_DEPTH);
    memset(text + WHIM_JSON_WALK_DEPTH, ']', WHIM_JSON_WALK_DEPTH);
    assert_int_equal(walk(text, 2 * WHIM_JSON_WALK_DEPTH, &whole), 2 * WHIM_JSON_WALK_DEPTH);
    assert_true(whole);
}

/* Random texts of JSON's own bytes: jansson takes what the walk calls whole, and nothing else. */
static void agrees_with_jansson(void **state)
{
    (void)state;
    static const char *const parts[] = {"{", "}",  "[",  "]",     ",",      ":",    "\"a\"",
                                        "1", "-",  ".",  "e",     "0",      "true", "null",
                                        " ", "\"", "\\", "u00e9", "\"k\":", "[1"};
    uint64_t seed = 5;
    int n_whole = 0;
    for (int round = 0; round < 60000; round++) {
        char text[64] = "";
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        for (int i = 1 + (int)(seed >> 61); i > 0; i--) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            strcat(text, parts[(seed >> 33) % (sizeof parts / sizeof parts[0])]);
        }
        bool whole;
        size_t n = strlen(text);
        bool all = walk(text, n, &whole) == n && whole;
        json_t *json = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        if (all != (json != NULL)) {
            fail_msg("[%s]: the walk says %d", text, all);
        }
        n_whole += all;
        json_decref(json);
    }
    assert_true(n_whole > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(agrees_with_jansson),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Responses that are kept: conversations as wholes, within their bounds. */
#include "server/responses/store.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <string.h>

static whim_response_store *store;
static char missing[WHIM_RESPONSE_ID_MOST];

static void put_of(uint64_t client, const char *id, const char *before, const char *items)
{
    whim_str text = {0};
    whim_str_append(&text, items);
    whim_str answer = {0};
    whim_str_printf(&answer, "<%s>", id);
    whim_response_store_put(store, client, id, before, &text, &answer);
    whim_str_deinit(&text);
    whim_str_deinit(&answer);
}

static void put(const char *id, const char *before, const char *items)
{
    put_of(7, id, before, items);
}

static bool has(const char *id)
{
    whim_str text = {0};
    bool found = whim_response_store_items(store, id, &text, missing);
    whim_str_deinit(&text);
    return found;
}

static void assert_items(const char *id, const char *want)
{
    whim_str text = {0};
    assert_true(whim_response_store_items(store, id, &text, missing));
    assert_string_equal(whim_str_text(&text), want);
    whim_str_deinit(&text);
}

static void assert_lost(const char *id, const char *want)
{
    whim_str text = {0};
    assert_false(whim_response_store_items(store, id, &text, missing));
    assert_string_equal(missing, want);
    assert_int_equal(text.len, 0);
}

static void conversations_come_whole(void **state)
{
    (void)state;
    store = whim_response_store_create(WHIM_RESPONSES_BYTES);
    assert_lost("a", "a");
    assert_lost("", "");
    put("a", NULL, "1,2");
    put("x", NULL, "9");
    put("b", "a", "3");
    put("c", "b", "4,5");
    put("d", "b", "6"); /* another way to go on */
    assert_items("a", "[1,2]");
    assert_items("c", "[1,2,3,4,5]");
    assert_items("d", "[1,2,3,6]");
    assert_items("x", "[9]");
    assert_items("c", "[1,2,3,4,5]");
    put("f", "e", "7"); /* that one is not kept */
    assert_lost("f", "e");
    static char half[WHIM_CONVERSATION_BYTES / 2 + 2];
    memset(half, '7', sizeof half - 1);
    put("g", NULL, half);
    put("h", "g", half);
    assert_true(has("g"));
    assert_lost("h", ""); /* both together are too long */
    assert_items("a", "[1,2]");
    whim_response_store_destroy(store);
}

static void answers_come_back_and_go(void **state)
{
    whim_str text = {0};
    (void)state;
    store = whim_response_store_create(WHIM_RESPONSES_BYTES);
    put("a", NULL, "1");
    put("b", "a", "2");
    put("c", "b", "3");
    assert_true(whim_response_store_answer(store, "b", &text));
    assert_string_equal(whim_str_text(&text), "<b>");
    whim_str_deinit(&text);
    assert_true(whim_response_store_remove(store, "b"));
    assert_false(whim_response_store_remove(store, "b"));
    assert_false(whim_response_store_answer(store, "b", &text));
    assert_int_equal(text.len, 0);
    assert_lost("c", "b"); /* it went on from that one */
    assert_items("a", "[1]");
    whim_response_store_destroy(store);
}

static void the_last_used_stay(void **state)
{
    static char large[4000];
    char id[16];
    (void)state;
    memset(large, '7', sizeof large - 1);
    store = whim_response_store_create(10 * 4096);
    put("a", NULL, "1");
    put("b", "a", "2");
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "r%d", i);
        put(id, NULL, large);
        assert_items("b", "[1,2]"); /* which uses both */
    }
    assert_true(has("r99") && has("r95") && !has("r80"));
    for (int i = 0; i < 20; i++) {
        snprintf(id, sizeof id, "s%d", i);
        put(id, NULL, large);
    }
    assert_false(has("a") || has("b"));
    char too_large[10 * 4096 + 1];
    memset(too_large, '7', sizeof too_large - 1);
    too_large[sizeof too_large - 1] = '\0';
    put("t", NULL, too_large);
    assert_true(has("s19") && !has("t")); /* it takes nobody's place */
    whim_response_store_destroy(store);
    store = whim_response_store_create(WHIM_RESPONSES_BYTES);
    for (int i = 0; i <= WHIM_RESPONSES_KEPT; i++) {
        snprintf(id, sizeof id, "r%d", i);
        put(id, NULL, "1");
    }
    assert_true(!has("r0") && has("r1"));
    whim_response_store_destroy(store);
}

/* Who has most gives way, also where others were here before. */
static void clients_share_it(void **state)
{
    static char large[4000];
    char id[16];
    (void)state;
    memset(large, '7', sizeof large - 1);
    store = whim_response_store_create(10 * 4096);
    put_of(1, "a", NULL, "1");
    put_of(1, "b", "a", large);
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "r%d", i);
        put_of(2, id, NULL, large);
    }
    assert_true(has("r99") && !has("r0") && has("b"));
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "s%d", i);
        put_of(3, id, NULL, large);
    }
    assert_true(has("b") && has("r99") && has("r97") && has("s99") && has("s97"));
    assert_false(has("r90") || has("s90"));
    whim_response_store_destroy(store);
}

/* Where there is little memory for requests, less of it is for what is kept. */
static void a_limit_may_come_later(void **state)
{
    static char large[4000];
    char id[16];
    (void)state;
    memset(large, '7', sizeof large - 1);
    store = whim_response_store_create(WHIM_RESPONSES_BYTES);
    for (int i = 0; i < 20; i++) {
        snprintf(id, sizeof id, "r%d", i);
        put(id, NULL, large);
    }
    assert_true(has("r0"));
    whim_response_store_limit(store, INT64_MAX);
    assert_true(has("r1"));
    whim_response_store_limit(store, 4 * 4096 + 2048);
    assert_true(has("r1") && has("r0") && has("r19") && has("r18") && !has("r17"));
    put("s", NULL, large);
    assert_true(has("s") && !has("r1"));
    whim_response_store_destroy(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversations_come_whole), cmocka_unit_test(answers_come_back_and_go),
        cmocka_unit_test(the_last_used_stay),       cmocka_unit_test(clients_share_it),
        cmocka_unit_test(a_limit_may_come_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

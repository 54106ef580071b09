/* SPDX-License-Identifier: Apache-2.0 */
/* The dashboard's hour: what was counted comes back to the number, the oldest goes, gaps stay. */
#include "server/metrics/history.h"

#include "base/clock.h"
#include "support/cmocka.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static whim_meters meters;
static whim_history *history;

static int setup(void **state)
{
    (void)state;
    memset(&meters, 0, sizeof meters);
    history = whim_history_create();
    assert_non_null(history);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    whim_history_destroy(history);
    return 0;
}

static json_t *told(int64_t now_ns)
{
    whim_str out = {0};
    json_error_t error;
    whim_history_write(history, now_ns, &out);
    assert_false(out.failed);
    json_t *all = json_loads(whim_str_text(&out), 0, &error);
    if (all == NULL) {
        fail_msg("%s: %.200s", error.text, whim_str_text(&out));
    }
    whim_str_deinit(&out);
    return all;
}

/* A number of row `row`, as far as differences lead to it. */
static int64_t number(const json_t *all, size_t row, const char *column)
{
    const json_t *columns = json_object_get(all, "columns"), *rows = json_object_get(all, "rows");
    size_t at = 0, n = json_array_size(columns);
    int64_t sum = 0;
    while (at < n && strcmp(json_string_value(json_array_get(columns, at)), column) != 0) {
        at++;
    }
    assert_in_range(at, 0, n - 1);
    for (size_t i = 0; i <= row; i++) {
        assert_int_equal(json_array_size(json_array_get(rows, i)), 1 + n);
        sum += json_integer_value(json_array_get(json_array_get(rows, i), 1 + at));
    }
    return sum;
}

static int64_t age(const json_t *all, size_t row)
{
    return json_integer_value(json_array_get(json_array_get(json_object_get(all, "rows"), row), 0));
}

static size_t n_row(const json_t *all)
{
    return json_array_size(json_object_get(all, "rows"));
}

static void nothing_yet(void **state)
{
    (void)state;
    json_t *all = told(0);
    assert_int_equal(n_row(all), 0);
    assert_true(json_array_size(json_object_get(all, "columns")) > 100);
    assert_int_equal(json_integer_value(json_object_get(all, "step_s")), WHIM_HISTORY_STEP_S);
    json_decref(all);
}

static void numbers_come_back(void **state)
{
    (void)state;
    whim_meter_add(&meters, TOKENS, WHIM_LABEL_TOKENS_GENERATED, 7);
    whim_meter_set(&meters, KV_BYTES, WHIM_LABEL_KV_USED, INT64_C(1) << 40);
    whim_meter_observe(&meters, TTFT, 2520 * WHIM_NS_PER_MS);
    whim_history_take(history, &meters, 100 * WHIM_NS_PER_S);
    whim_meter_add(&meters, TOKENS, WHIM_LABEL_TOKENS_GENERATED, 5);
    whim_meter_set(&meters, KV_BYTES, WHIM_LABEL_KV_USED, 3);
    whim_meter_observe(&meters, TTFT, 700 * WHIM_NS_PER_S);
    whim_meter_observe(&meters, STEP_SEQS, 3);
    whim_history_take(history, &meters, 125 * WHIM_NS_PER_S); /* the machine slept */
    json_t *all = told(126 * WHIM_NS_PER_S);
    assert_int_equal(n_row(all), 2);
    assert_int_equal(age(all, 0), 26000);
    assert_int_equal(age(all, 1), 1000);
    const char *made = "whimbrel:tokens_total{kind=\"generated\"}";
    assert_int_equal(number(all, 0, made), 7);
    assert_int_equal(number(all, 1, made), 12);
    assert_int_equal(number(all, 0, "whimbrel:kv_bytes{state=\"used\"}"), INT64_C(1) << 40);
    assert_int_equal(number(all, 1, "whimbrel:kv_bytes{state=\"used\"}"), 3);
#define TTFT_LE(limit) "whimbrel:time_to_first_token_seconds_bucket{le=\"" limit "\"}"
    assert_int_equal(number(all, 0, TTFT_LE("2.5")), 0);
    assert_int_equal(number(all, 0, TTFT_LE("3")), 1);
    assert_int_equal(number(all, 1, TTFT_LE("600")), 1);
    assert_int_equal(number(all, 1, TTFT_LE("+Inf")), 2);
    assert_int_equal(number(all, 1, "whimbrel:time_to_first_token_seconds_count"), 2);
    assert_int_equal(number(all, 1, "whimbrel:step_sequences_sum"), 3);
    json_decref(all);
}

static void the_oldest_goes(void **state)
{
    (void)state;
    const char *made = "whimbrel:tokens_total{kind=\"generated\"}";
    for (int64_t i = 0; i < WHIM_HISTORY_SAMPLES + 10; i++) {
        int64_t now = i * WHIM_HISTORY_STEP_S * WHIM_NS_PER_S;
        assert_true(whim_history_is_due(history, now));
        whim_meter_add(&meters, TOKENS, WHIM_LABEL_TOKENS_GENERATED, 1);
        whim_history_take(history, &meters, now);
        assert_false(whim_history_is_due(history, now + WHIM_NS_PER_S));
    }
    json_t *all = told((WHIM_HISTORY_SAMPLES + 9) * WHIM_HISTORY_STEP_S * WHIM_NS_PER_S);
    assert_int_equal(n_row(all), WHIM_HISTORY_SAMPLES);
    assert_int_equal(age(all, 0), (WHIM_HISTORY_SAMPLES - 1) * WHIM_HISTORY_STEP_S * 1000);
    assert_int_equal(age(all, WHIM_HISTORY_SAMPLES - 1), 0);
    assert_int_equal(number(all, 0, made), 11);
    assert_int_equal(number(all, WHIM_HISTORY_SAMPLES - 1, made), WHIM_HISTORY_SAMPLES + 10);
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_yet, setup, teardown),
        cmocka_unit_test_setup_teardown(numbers_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(the_oldest_goes, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

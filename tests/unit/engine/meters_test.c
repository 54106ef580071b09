/* SPDX-License-Identifier: Apache-2.0 */
/* The table of meters keeps the rules of Prometheus, and cells count. With --bench: what one update
 * costs. */
#include "engine/meters.h"

#include "base/clock.h"
#include "support/cmocka.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static void names_keep_the_rules(void **state)
{
    (void)state;
    for (int32_t i = 0; i < WHIM_METER_COUNT; i++) {
        const whim_meter_spec *spec = &whim_meter_specs[i];
        assert_true(strncmp(spec->name, "whimbrel:", 9) == 0 ||
                    strncmp(spec->name, "process_", 8) == 0);
        for (const char *c = spec->name; *c != '\0'; c++) {
            assert_true(islower((unsigned char)*c) || isdigit((unsigned char)*c) || *c == '_' ||
                        *c == ':');
        }
        assert_int_equal(ends_with(spec->name, "_total"), spec->type == WHIM_METER_COUNTER);
        if (spec->unit == WHIM_METER_SECONDS) {
            assert_non_null(strstr(spec->name, "_seconds"));
        }
        assert_true(strlen(spec->help) > 10 && ends_with(spec->help, "."));
        assert_null(strpbrk(spec->help, "\\\n"));
        for (int32_t j = 0; j < i; j++) {
            assert_string_not_equal(spec->name, whim_meter_specs[j].name);
        }
    }
}

/* Limits go up, and the text of each says the same as its number. */
static void limits_are_sound(void **state)
{
    (void)state;
    const int64_t *sets[] = {whim_buckets_LATENCY, whim_buckets_SHORT, whim_buckets_FINE,
                             whim_buckets_POWERS};
    const int32_t counts[] = {WHIM_BUCKETS_LATENCY_COUNT, WHIM_BUCKETS_SHORT_COUNT,
                              WHIM_BUCKETS_FINE_COUNT, WHIM_BUCKETS_POWERS_COUNT};
    for (int32_t s = 0; s < 4; s++) {
        for (int32_t i = 1; i < counts[s]; i++) {
            assert_true(sets[s][i] > sets[s][i - 1]);
        }
    }
    assert_int_equal(whim_buckets_LATENCY[0], WHIM_NS_PER_MS);
    assert_int_equal(whim_buckets_LATENCY[WHIM_BUCKETS_LATENCY_COUNT - 1], 600 * WHIM_NS_PER_S);
    const whim_meter_spec *specs[] = {
        &whim_meter_specs[WHIM_METER_QUEUE_TIME], &whim_meter_specs[WHIM_METER_STEP_TIME],
        &whim_meter_specs[WHIM_METER_TTFT], &whim_meter_specs[WHIM_METER_STEP_SEQS]};
    for (int32_t s = 0; s < 4; s++) {
        double scale = s < 3 ? 1e9 : 1;
        assert_int_equal(specs[s]->n_cell, counts[s]);
        for (int32_t i = 0; i < counts[s]; i++) {
            assert_int_equal((int64_t)(strtod(specs[s]->limits[i], NULL) * scale + 0.5),
                             sets[s][i]);
        }
    }
}

static bool is_limit(const whim_meter_spec *spec, const char *limit)
{
    bool found = false;
    for (int32_t i = 0; i < spec->n_cell && !found; i++) {
        found = strcmp(spec->limits[i], limit) == 0;
    }
    return found;
}

/* So that who asks for the number up to a limit of the coarse sets is still told it. */
static void fine_limits_have_all_others(void **state)
{
    (void)state;
    const whim_meter_spec *fine = &whim_meter_specs[WHIM_METER_TTFT];
    for (int32_t i = 0; i < WHIM_BUCKETS_LATENCY_COUNT; i++) {
        assert_true(is_limit(fine, whim_bucket_texts_LATENCY[i]));
    }
    for (int32_t i = 0; i < WHIM_BUCKETS_SHORT_COUNT; i++) {
        assert_true(is_limit(fine, whim_bucket_texts_SHORT[i]));
    }
    for (int32_t i = 1; i < fine->n_cell; i++) { /* a quarter apart at most */
        assert_true(4 * whim_buckets_FINE[i] <= 5 * whim_buckets_FINE[i - 1]);
    }
}

static void cells_lie_one_after_the_other(void **state)
{
    (void)state;
    int32_t at = 0;
    for (int32_t i = 0; i < WHIM_METER_COUNT; i++) {
        const whim_meter_spec *spec = &whim_meter_specs[i];
        assert_int_equal(spec->cell, at);
        at += spec->n_cell + (spec->type == WHIM_METER_HISTOGRAM ? 2 : 0);
    }
    assert_int_equal(at, WHIM_CELL_COUNT);
}

static void values_fall_into_their_buckets(void **state)
{
    (void)state;
    static whim_meters m;
    static const int64_t values[] = {
        -5, 0, 500000, 500001, 600 * WHIM_NS_PER_S, 600 * WHIM_NS_PER_S + 1};
    int64_t sum = 0;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        whim_meter_observe(&m, TTFT, values[i]);
        sum += values[i] > 0 ? values[i] : 0;
    }
    assert_int_equal(whim_meter_get(&m, TTFT, 0), 3);
    assert_int_equal(whim_meter_get(&m, TTFT, 1), 1);
    assert_int_equal(whim_meter_get(&m, TTFT, WHIM_BUCKETS_FINE_COUNT - 1), 1);
    assert_int_equal(whim_meter_get(&m, TTFT, WHIM_BUCKETS_FINE_COUNT), 1);
    assert_int_equal(whim_meter_get(&m, TTFT, WHIM_BUCKETS_FINE_COUNT + 1), sum);
    assert_int_equal(whim_meter_get(&m, QUEUE_TIME, WHIM_BUCKETS_LATENCY_COUNT + 1), 0);
    assert_int_equal(whim_meter_get(&m, ITL, 0), 0);
}

static void labels_of_what_comes(void **state)
{
    (void)state;
    assert_int_equal(whim_label_of_status(200), WHIM_LABEL_STATUS_S200);
    assert_int_equal(whim_label_of_status(529), WHIM_LABEL_STATUS_S529);
    assert_int_equal(whim_label_of_status(418), WHIM_LABEL_STATUS_OTHER);
    assert_int_equal(whim_label_of_method("HEAD"), WHIM_LABEL_METHOD_HEAD);
    assert_int_equal(whim_label_of_method("get"), WHIM_LABEL_METHOD_OTHER);
    assert_string_equal(whim_label_text(WHIM_LABEL_SET_TOKENS, WHIM_LABEL_TOKENS_CACHED), "cached");
    assert_string_equal(whim_label_name(WHIM_LABEL_SET_TOKENS), "kind");
}

/* Nanoseconds of an update, best of five. */
static void bench(void)
{
    enum { N = 10 * 1000 * 1000 };
    static whim_meters m;
    int64_t add = INT64_MAX, observe = INT64_MAX;
    for (int32_t k = 0; k < 5; k++) {
        int64_t begun = whim_clock_ns();
        for (int32_t i = 0; i < N; i++) {
            whim_meter_add(&m, TOKENS, WHIM_LABEL_TOKENS_GENERATED, 1);
        }
        int64_t middle = whim_clock_ns();
        for (int32_t i = 0; i < N; i++) {
            whim_meter_observe(&m, ITL, (i & 63) * WHIM_NS_PER_MS);
        }
        int64_t end = whim_clock_ns();
        add = middle - begun < add ? middle - begun : add;
        observe = end - middle < observe ? end - middle : observe;
    }
    printf("counter %.1f ns, histogram %.1f ns\n", (double)add / N, (double)observe / N);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_keep_the_rules),
        cmocka_unit_test(limits_are_sound),
        cmocka_unit_test(fine_limits_have_all_others),
        cmocka_unit_test(cells_lie_one_after_the_other),
        cmocka_unit_test(values_fall_into_their_buckets),
        cmocka_unit_test(labels_of_what_comes),
    };
    if (argc == 2 && strcmp(argv[1], "--bench") == 0) {
        bench();
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

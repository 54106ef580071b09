/* SPDX-License-Identifier: Apache-2.0 */
/* The text of metrics: every line has the form that Prometheus reads, labels are quoted, numbers
 * are exact. */
#include "server/metrics/metrics.h"

#include "base/clock.h"
#include "server/router.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <string.h>

static whim_meters meters;
static whim_metrics_info info = {.version = "1", .commit = "c"};

static const char *text(void)
{
    static whim_str out;
    whim_str_deinit(&out);
    whim_metrics_write(&meters, &info, &out);
    assert_false(out.failed);
    return whim_str_text(&out);
}

static void expect(const char *line)
{
    char whole[256];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    const char *got = text();
    if (strstr(got, whole) == NULL) {
        fail_msg("not there: %s", line);
    }
}

static int fresh(void **state)
{
    (void)state;
    memset(&meters, 0, sizeof meters);
    info = (whim_metrics_info){.version = "1", .commit = "c"};
    return 0;
}

static void units_are_exact(void **state)
{
    (void)state;
    whim_meter_set(&meters, BUSY, 0, 12 * WHIM_NS_PER_S + 34);
    expect("whimbrel:engine_busy_seconds_total 12.000000034");
    whim_meter_set(&meters, BUSY, 0, 12 * WHIM_NS_PER_S);
    expect("whimbrel:engine_busy_seconds_total 12");
    whim_meter_set(&meters, PROGRESS, 0, 57);
    expect("whimbrel:load_progress_ratio 0.057");
    whim_meter_set(&meters, KV_CAPACITY, 0, INT64_C(1) << 53);
    expect("whimbrel:kv_capacity_bytes 9007199254740992");
    whim_meter_set(&meters, HEARTBEAT, 0, -3); /* clocks of two threads */
    expect("whimbrel:heartbeat_age_seconds 0");
}

/* A dashboard takes another start for a restart, and two readings of the clocks differ by a
 * little. */
static void the_start_is_read_once(void **state)
{
    (void)state;
    whim_metrics_look(&meters, &(whim_metrics_now){0});
    assert_true(whim_meter_get(&meters, PROCESS_START, 0) > 0);
    whim_meter_set(&meters, PROCESS_START, 0, 5 * WHIM_NS_PER_S);
    whim_metrics_look(&meters, &(whim_metrics_now){0});
    expect("process_start_time_seconds 5");
}

static void a_histogram_adds_up(void **state)
{
    (void)state;
    whim_meter_observe(&meters, STEP_SEQS, 1);
    whim_meter_observe(&meters, STEP_SEQS, 3);
    whim_meter_observe(&meters, STEP_SEQS, 1000000);
    expect("whimbrel:step_sequences_bucket{le=\"1\"} 1");
    expect("whimbrel:step_sequences_bucket{le=\"2\"} 1");
    expect("whimbrel:step_sequences_bucket{le=\"4\"} 2");
    expect("whimbrel:step_sequences_bucket{le=\"131072\"} 2");
    expect("whimbrel:step_sequences_bucket{le=\"+Inf\"} 3");
    expect("whimbrel:step_sequences_sum 1000004");
    expect("whimbrel:step_sequences_count 3");
}

static void labels_are_quoted(void **state)
{
    (void)state;
    info.model = "a\"b\\c\nd";
    info.isa = "x";
    expect("whimbrel:model_info{model=\"a\\\"b\\\\c\\nd\",isa=\"x\"} 1");
    info.compat = 1 << WHIM_COMPAT_SGLANG;
    whim_meter_set(&meters, RUNNING, 0, 7);
    expect("sglang:num_running_reqs{model_name=\"a\\\"b\\\\c\\nd\"} 7");
}

static void who_proposes_is_told(void **state)
{
    (void)state;
    info.draft = "d";
    info.draft_kind = "dflash";
    assert_null(strstr(text(), "\nwhimbrel:proposer_info{")); /* no model yet */
    info.model = "m";
    expect("whimbrel:proposer_info{draft=\"d\",kind=\"dflash\",lookup=\"off\"} 1");
    info.draft = info.draft_kind = NULL;
    assert_null(strstr(text(), "\nwhimbrel:proposer_info{"));
    info.lookup = true;
    expect("whimbrel:proposer_info{draft=\"\",kind=\"\",lookup=\"on\"} 1");
}

static void others_names_tell_our_numbers(void **state)
{
    (void)state;
    info.compat = 1 << WHIM_COMPAT_VLLM | 1 << WHIM_COMPAT_LLAMACPP;
    assert_null(strstr(text(), "vllm:")); /* no model yet */
    info.model = "m";
    whim_meter_set(&meters, KV_CAPACITY, 0, 200);
    whim_meter_set(&meters, KV_BYTES, WHIM_LABEL_KV_USED, 50);
    whim_meter_add(&meters, FINISHED, WHIM_LABEL_FINISH_LENGTH, 2);
    whim_meter_observe(&meters, PREFILL_TIME, WHIM_NS_PER_S / 2);
    whim_meter_add(&meters, TOKENS, WHIM_LABEL_TOKENS_PREFILL, 30);
    expect("vllm:kv_cache_usage_perc{model_name=\"m\",engine=\"0\"} 0.25");
    expect(
        "vllm:request_success_total{model_name=\"m\",engine=\"0\",finished_reason=\"length\"} 2");
    expect("vllm:request_prefill_time_seconds_bucket{model_name=\"m\",engine=\"0\",le=\"0.5\"} 1");
    expect("vllm:request_prefill_time_seconds_sum{model_name=\"m\",engine=\"0\"} 0.500000000");
    expect("vllm:request_prefill_time_seconds_count{model_name=\"m\",engine=\"0\"} 1");
    expect("llamacpp:prompt_seconds_total 0.5");
    expect("llamacpp:prompt_tokens_seconds 60");
    expect("llamacpp:n_busy_slots_per_decode 0"); /* of no steps */
}

/* Boards of other servers have rows for the limits that these have; ours are finer. */
static void others_buckets_stay_theirs(void **state)
{
    (void)state;
    info.compat = 1 << WHIM_COMPAT_VLLM;
    info.model = "m";
    whim_meter_observe(&meters, TTFT, 2520 * WHIM_NS_PER_MS);
    whim_meter_observe(&meters, ITL, 16 * WHIM_NS_PER_MS);
    expect("whimbrel:time_to_first_token_seconds_bucket{le=\"2.5\"} 0");
    expect("whimbrel:time_to_first_token_seconds_bucket{le=\"3\"} 1");
    expect("whimbrel:time_to_first_token_seconds_bucket{le=\"600\"} 1");
    expect("vllm:time_to_first_token_seconds_bucket{model_name=\"m\",engine=\"0\",le=\"2\"} 0");
    expect("vllm:time_to_first_token_seconds_bucket{model_name=\"m\",engine=\"0\",le=\"5\"} 1");
    expect("vllm:time_to_first_token_seconds_bucket{model_name=\"m\",engine=\"0\",le=\"600\"} 1");
    expect("vllm:inter_token_latency_seconds_bucket{model_name=\"m\",engine=\"0\",le=\"0.015\"} 0");
    expect("vllm:inter_token_latency_seconds_bucket{model_name=\"m\",engine=\"0\",le=\"30\"} 1");
    assert_null(strstr(text(), "engine=\"0\",le=\"2.5\""));
}

static void names_of_servers(void **state)
{
    (void)state;
    whim_diag diag = {""};
    uint32_t bits = 0;
    assert_int_equal(whim_compat_parse("sglang,vllm", &bits, &diag), WHIM_ERR_OK);
    assert_int_equal(bits, 3);
    static const char *const bad[] = {"",    "vllm,", ",vllm",        "vllmx",
                                      "vll", "VLLM",  "vllm llamacpp"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(whim_compat_parse(bad[i], &bits, &diag), WHIM_ERR_INVALID);
        assert_non_null(strstr(diag.text, "not one of vllm, sglang and llamacpp"));
    }
}

static void routes_are_a_closed_set(void **state)
{
    (void)state;
    int32_t n = 0;
    while (whim_router_path(n) != NULL) {
        n++;
    }
    assert_in_range(n, 10, WHIM_LABEL_ROUTE_COUNT);
    assert_string_equal(whim_router_path(whim_router_number("/models/any/thing")), "/v1/models");
    assert_int_equal(whim_router_number("/v1/responses/x"), whim_router_number("/v1/responses"));
    assert_string_equal(whim_router_path(whim_router_number("/health")), "/health");
    assert_string_equal(whim_router_path(whim_router_number("/v1/none")), "other");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(units_are_exact, fresh),
        cmocka_unit_test_setup(the_start_is_read_once, fresh),
        cmocka_unit_test_setup(a_histogram_adds_up, fresh),
        cmocka_unit_test_setup(labels_are_quoted, fresh),
        cmocka_unit_test_setup(who_proposes_is_told, fresh),
        cmocka_unit_test_setup(others_names_tell_our_numbers, fresh),
        cmocka_unit_test_setup(others_buckets_stay_theirs, fresh),
        cmocka_unit_test_setup(names_of_servers, fresh),
        cmocka_unit_test_setup(routes_are_a_closed_set, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

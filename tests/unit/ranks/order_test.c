/* SPDX-License-Identifier: Apache-2.0 */
/* What a follower is told: all that shapes its engine arrives, and what is no order is refused. */
#include "ranks/order.h"
#include "support/cmocka.h"

#include <string.h>

static whim_engine_cfg leader(void)
{
    return (whim_engine_cfg){
        .model = "/models/a",
        .draft = "mtp",
        .draft_type = "q4_0",
        .weight_type = "q8_0",
        .load_format = "dummy",
        .isa = "neon",
        .kv_type = "q8",
        .kv_dir = "/var/cache/kv",
        .n_thread = 3,
        .max_step_tokens = 77,
        .max_outs = 9,
        .max_kept = 5,
        .n_flight = 2,
        .graphs = WHIM_GRAPHS_ON,
        .kv_as_used = true,
        .embeds = true,
        .n_rank = 4,
        .n_share = 4,
        .n_group = 2,
        .n_deal = 3,
        .deal_rows = "bf16",
        .deal_counts = "1,2,3",
        .deal_slots = 6,
    };
}

static void all_of_it_arrives(void **state)
{
    (void)state;
    whim_diag diag = {""};
    whim_engine_cfg cfg = leader(), got;
    whim_engine_sizes sizes = {8, 6, 4096, 300};
    static whim_follower_order order;
    assert_int_equal(whim_follower_order_make(&order, &cfg, &sizes, 2, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_follower_order_read(&order, sizeof order, &got, &diag), WHIM_ERR_OK);
    assert_string_equal(got.model, cfg.model);
    assert_string_equal(got.draft, cfg.draft);
    assert_string_equal(got.draft_type, cfg.draft_type);
    assert_string_equal(got.weight_type, cfg.weight_type);
    assert_string_equal(got.load_format, cfg.load_format);
    assert_string_equal(got.isa, cfg.isa);
    assert_string_equal(got.kv_type, cfg.kv_type);
    assert_string_equal(got.kv_dir, cfg.kv_dir);
    assert_string_equal(got.deal_rows, cfg.deal_rows);
    assert_string_equal(got.deal_counts, cfg.deal_counts);
    assert_int_equal(got.deal_slots, 6);
    assert_null(got.backend);
    assert_memory_equal(got.sizes, &sizes, sizeof sizes);
    assert_true(got.rank == 2 && got.n_rank == 4 && got.n_share == 4 && got.n_group == 2 &&
                got.n_deal == 3 && got.n_thread == 3);
    assert_true(got.max_step_tokens == 77 && got.max_outs == 9 && got.max_kept == 5);
    assert_true(got.n_flight == 2 && got.graphs == WHIM_GRAPHS_ON);
    assert_true(got.kv_as_used && got.embeds && got.max_seqs == 8);
}

static void what_is_no_order_is_refused(void **state)
{
    (void)state;
    whim_diag diag = {""};
    whim_engine_cfg cfg = leader(), got;
    whim_engine_sizes sizes = {8, 6, 4096, 300};
    static whim_follower_order good, bad;
    assert_int_equal(whim_follower_order_make(&good, &cfg, &sizes, 2, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_follower_order_read(&good, sizeof good - 1, &got, &diag),
                     WHIM_ERR_CORRUPT);
    bad = good;
    bad.magic++;
    assert_int_equal(whim_follower_order_read(&bad, sizeof bad, &got, &diag), WHIM_ERR_CORRUPT);
    bad = good;
    bad.version[0]++;
    assert_int_equal(whim_follower_order_read(&bad, sizeof bad, &got, &diag), WHIM_ERR_CORRUPT);
    assert_non_null(strstr(diag.text, WHIM_VERSION));
    bad = good;
    memset(bad.isa, 'x', sizeof bad.isa);
    assert_int_equal(whim_follower_order_read(&bad, sizeof bad, &got, &diag), WHIM_ERR_CORRUPT);
    static char path[WHIM_ORDER_PATH + 1];
    memset(path, 'p', sizeof path - 1);
    cfg.model = path;
    assert_int_equal(whim_follower_order_make(&bad, &cfg, &sizes, 2, &diag), WHIM_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it_arrives),
        cmocka_unit_test(what_is_no_order_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

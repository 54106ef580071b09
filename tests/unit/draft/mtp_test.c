/* SPDX-License-Identifier: Apache-2.0 */
/* Tiny models with an MTP layer in their files against a PyTorch implementation
 * (tools/golden/make_serial_golden.py): the tokens that it proposes after a prompt and after some
 * accepted tokens, however the rows before them were fed. */
#include "unit/draft/draft_fixture.h"

static void proposals_are_the_reference_s(void **state)
{
    (void)state;
    follows_the_reference("qwen35-f32-mtp", expect_score);
    follows_the_reference("qwen35-moe-mtp", expect_score);
    follows_the_reference("qwen3next-f32-mtp", expect_score);
}

static void graphs_propose_the_same(void **state)
{
    (void)state;
    draft_wish = (whim_engine_cfg){.backend = "guard", .graphs = WHIM_GRAPHS_ON};
    follows_the_reference("qwen35-f32-mtp", expect_score);
    draft_wish = (whim_engine_cfg){0};
}

/* Its tensors are not among those that are left alone, and the model is not larger without it. */
static void it_is_loaded_when_asked_for(void **state)
{
    (void)state;
    whim_engine_cfg cfg = {.model = "tests/data/drafts/qwen35-f32-mtp", .n_thread = 1};
    whim_engine *engine;
    assert_int_equal(whim_engine_prepare(&cfg, &engine, &diag), WHIM_ERR_OK);
    assert_true(whim_engine_binder(engine)->n_skipped[WHIM_SKIPPED_MTP] > 10);
    assert_int_equal(whim_engine_draft_binder(engine)->bytes, 0);
    assert_null(whim_engine_draft(engine));
    whim_engine_close(engine);
    cfg.draft = WHIM_DRAFT_OWN;
    assert_int_equal(whim_engine_prepare(&cfg, &engine, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_engine_binder(engine)->n_skipped[WHIM_SKIPPED_MTP], 0);
    assert_true(whim_engine_draft_binder(engine)->bytes > 0);
    whim_engine_close(engine);
}

static void models_without_one_are_refused(void **state)
{
    (void)state;
    expect_refused("tests/data/golden/llama-f32", WHIM_DRAFT_OWN, NULL, "mtp.fc.weight");
    expect_refused("tests/data/twins/qwen35-f32.gguf", WHIM_DRAFT_OWN, NULL, "mtp.fc.weight");
    /* It has two tensors of one. */
    expect_refused("tests/data/golden/qwen35-f32", WHIM_DRAFT_OWN, NULL,
                   "missing mtp.layers.0.self_attn.q_proj.weight");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proposals_are_the_reference_s),
        cmocka_unit_test(graphs_propose_the_same),
        cmocka_unit_test(it_is_loaded_when_asked_for),
        cmocka_unit_test(models_without_one_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

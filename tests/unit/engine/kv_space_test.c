/* SPDX-License-Identifier: Apache-2.0 */
/* Names of pages on disk: another for all that keys and values depend on, drafts included, which
 * answers do not depend on. */
#include "engine/kv_space.h"

#include "support/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const whim_kv_weights unknown;

static whim_kv_space space_over(int32_t n_rank, const char *draft, const char *type,
                                const char *kv_type)
{
    whim_engine_cfg cfg = {.model = "tests/data/golden/llama-f32",
                           .draft = draft,
                           .draft_type = type,
                           .kv_type = kv_type,
                           .n_rank = n_rank,
                           .n_thread = 1,
                           .ctx = 64};
    whim_engine *engine;
    whim_kv_space space = {""};
    whim_diag diag = {""};
    assert_int_equal(whim_engine_prepare(&cfg, &engine, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_kv_space_make(engine, &unknown, &space, &diag), WHIM_ERR_OK);
    whim_engine_close(engine);
    return space;
}

static whim_kv_space space_of(const char *draft, const char *type, const char *kv_type)
{
    return space_over(0, draft, type, kv_type);
}

static void drafts_and_their_types_have_names(void **state)
{
    (void)state;
    static const char first[] = "tests/data/drafts/llama-f32-dflash";
    static const char second[] = "tests/data/drafts/llama-f32-dflash-window";
    const whim_kv_space spaces[] = {
        space_of(NULL, NULL, NULL),    space_of(first, NULL, NULL),  space_of(first, "q8_0", NULL),
        space_of(first, "q4_0", NULL), space_of(second, NULL, NULL),
    };
    enum { N = sizeof spaces / sizeof spaces[0] };
    for (int i = 0; i < N; i++) {
        assert_true(strlen(spaces[i].name) < sizeof spaces[i].name - 1); /* nothing is cut off */
        assert_true(spaces[i].answers == spaces[0].answers);
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(spaces[i].name, spaces[k].name);
        }
    }
    assert_string_equal(space_of(first, "q4_0", NULL).name, spaces[3].name);
}

static void other_bits_are_another_space(void **state)
{
    (void)state;
    whim_kv_space plain = space_of(NULL, NULL, NULL), narrow = space_of(NULL, NULL, "bf16");
    assert_string_not_equal(plain.name, narrow.name);
    assert_true(plain.answers != narrow.answers);
    whim_kv_space one = space_over(1, NULL, NULL, NULL), two = space_over(2, NULL, NULL, NULL);
    assert_string_equal(plain.name, one.name);
    assert_string_not_equal(plain.name, two.name);
    assert_true(plain.answers == one.answers && plain.answers != two.answers);
    assert_true(two.answers != space_over(3, NULL, NULL, NULL).answers);
}

/* With groups of two, MLPs are summed over the ranks of all: other bits than of two ranks. */
static void groups_are_another_space(void **state)
{
    (void)state;
    whim_kv_space two = space_over(2, NULL, NULL, NULL);
    whim_engine_cfg cfg = {.model = "tests/data/golden/llama-f32",
                           .n_rank = 4,
                           .n_group = 2,
                           .n_thread = 1,
                           .ctx = 64};
    whim_engine *engine;
    whim_kv_space space = {""};
    whim_diag diag = {""};
    assert_int_equal(whim_engine_prepare(&cfg, &engine, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_kv_space_make(engine, &unknown, &space, &diag), WHIM_ERR_OK);
    whim_engine_close(engine);
    assert_true(space.answers != two.answers);
}

/* Ranks that have whole experts split no sum: answers are those of one rank, but of a page each has
 * its heads, where all share memory. */
static void dealt_heads_are_the_same_answers(void **state)
{
    (void)state;
    static const struct {
        int32_t n_rank, n_share, n_here;
    } cases[] = {{1, 0, 0}, {2, 0, 0}, {3, 0, 0}, {2, 2, 0}, {2, 0, 1}};
    enum { N = sizeof cases / sizeof cases[0] };
    whim_kv_space spaces[N] = {{""}};
    for (int i = 0; i < N; i++) {
        whim_engine_cfg cfg = {.model = "tests/data/golden/qwen3moe-f32",
                               .n_rank = cases[i].n_rank,
                               .n_deal = cases[i].n_rank,
                               .n_share = cases[i].n_share,
                               .n_host = cases[i].n_here,
                               .n_thread = 1,
                               .ctx = 64};
        whim_engine *engine;
        whim_diag diag = {""};
        assert_int_equal(whim_engine_prepare(&cfg, &engine, &diag), WHIM_ERR_OK);
        assert_int_equal(whim_kv_space_make(engine, &unknown, &spaces[i], &diag), WHIM_ERR_OK);
        whim_engine_close(engine);
        assert_true(spaces[i].answers == spaces[0].answers);
        bool heads = i == 1 || i == 2;
        assert_int_equal(strstr(spaces[i].name, ", heads of ") != NULL, heads);
    }
    assert_string_not_equal(spaces[1].name, spaces[2].name);
    assert_string_equal(spaces[3].name, spaces[0].name);
    assert_string_equal(spaces[4].name, spaces[0].name);
}

/* What was loaded meanwhile may be the old bytes under the new bytes' name, or parts of both. */
static void a_file_that_is_written_to_is_refused(void **state)
{
    (void)state;
    char folder[] = "/tmp/whim_space_XXXXXX", command[256];
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command, "cp tests/data/golden/llama-f32/* %s", folder);
    assert_int_equal(system(command), 0);
    whim_engine_cfg cfg = {.model = folder, .n_thread = 1, .ctx = 64};
    for (int32_t i = 0; i < 2; i++) {
        whim_engine *engine;
        whim_kv_weights weights;
        whim_diag diag = {""};
        assert_int_equal(whim_engine_prepare(&cfg, &engine, &diag), WHIM_ERR_OK);
        whim_kv_weights_begin(&weights, engine, NULL, 1);
        if (i == 1) {
            snprintf(command, sizeof command, "touch -d tomorrow %s/*.safetensors", folder);
            assert_int_equal(system(command), 0);
        }
        assert_int_equal(whim_kv_weights_end(&weights, &diag),
                         i == 0 ? WHIM_ERR_OK : WHIM_ERR_CORRUPT);
        assert_true(i == 0 || strstr(diag.text, "written to while it was loaded") != NULL);
        whim_kv_weights_cancel(&weights);
        whim_engine_close(engine);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_is_written_to_is_refused),
        cmocka_unit_test(drafts_and_their_types_have_names),
        cmocka_unit_test(other_bits_are_another_space),
        cmocka_unit_test(groups_are_another_space),
        cmocka_unit_test(dealt_heads_are_the_same_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What two names of pages differ in is told with an option that makes it the same, where there is
 * one. */
#include "kv/kv.h"
#include "support/cmocka.h"

#include <string.h>

#define START "numerics 3, weights 0123456789abcdef0123456789abcdef, "
#define NAME START "cpu avx2, kv BF16"

typedef struct pair {
    const char *theirs, *ours, *what, *help;
} pair;

static const pair pairs[] = {
    {NAME, "numerics 4, weights 0123456789abcdef0123456789abcdef, cpu avx2, kv BF16",
     "the version of whimbrel: ", "the same one"},
    {NAME, "numerics 3, weights 1, cpu avx2, kv BF16", "the weights: ", "the same files"},
    {NAME, START "cpu avx512, kv BF16", "the instruction level: ", "--isa"},
    {START "cpu dotprod, kv BF16", START "cpu neon, kv BF16", "the instruction level: ", "--isa"},
    {NAME, START "cpu neon, kv BF16", "the family of the CPU: ", "only by CPUs of the same family"},
    {START "cpu bf16, kv BF16", START "cpu avx512bf16, kv BF16",
     "the family of the CPU: ", "only by CPUs of the same family"},
    {NAME, START "cuda sm_90, kv BF16", "the backend: ", "--backend"},
    {START "cuda sm_90, kv BF16", START "cuda sm_80, kv BF16",
     "the level of the GPU: ", "only by GPUs of the same level"},
    {NAME, START "cpu avx2, kv F32", "the type of keys and values: ", "--kv-dtype"},
    {NAME ", draft 01 as Q4_0", NAME, "the draft: ", "--no-draft"},
    {NAME ", rows 3", NAME, "the form in which rows are sent to experts: ", "--ep-dispatch"},
    {NAME, NAME ", experts of 4 0123456789abcdef",
     "how many experts each process has: ", "--ep-experts"},
    {NAME ", ranks 2 by 2", NAME ", ranks 4 by 2", "the ranks: ", "--tp"},
    {NAME ", MLPs over 4", NAME, "the ranks: ", "--dp"},
};

static void each_cause_has_its_help(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        whim_str out = {0};
        kv_difference(pairs[i].theirs, pairs[i].ours, &out);
        const char *text = whim_str_text(&out);
        if (strncmp(text, pairs[i].what, strlen(pairs[i].what)) != 0 ||
            strstr(text, pairs[i].help) == NULL) {
            fail_msg("told: %s", text);
        }
        whim_str_deinit(&out);
    }
}

static void the_same_names_differ_in_nothing(void **state)
{
    (void)state;
    whim_str out = {0};
    kv_difference(NAME ", rows 3, draft 01 as Q4_0", NAME ", rows 3, draft 01 as Q4_0", &out);
    assert_int_equal(out.len, 0);
    whim_str_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cause_has_its_help),
        cmocka_unit_test(the_same_names_differ_in_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

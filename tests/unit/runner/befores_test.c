/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of the positions before a step's rows. */
#include "runner/befores.h"
#include "runner/fill.h"
#include "support/cmocka.h"

#include <string.h>

enum { P = 32, N_BLOCK = 512 };

static void each_row_knows_the_place_before_it(void **state)
{
    (void)state;
    int32_t block[N_BLOCK], got[8], tokens[8] = {0};
    int32_t a_pages[] = {2, 7}, b_pages[] = {5}, c_pages[] = {9, 4};
    whim_sequence a = {.pages = a_pages, .n_page = 2, .page_len = P, .len = 34, .state = -1};
    whim_sequence b = {.pages = b_pages, .n_page = 1, .page_len = P, .len = 2, .state = -1};
    whim_sequence c = {.pages = c_pages, .n_page = 2, .page_len = P, .len = P + 1, .state = -1};
    /* a goes from its first page into its second, b begins, c begins a page behind a full one */
    whim_step_part parts[] = {{&a, tokens, 3, 0}, {&b, tokens, 2, 0}, {&c, tokens, 1, 0}};
    whim_step_size bucket = {8, 4, 4, 1};
    whim_step_fill(parts, 3, &bucket, 0, block);
    memset(got, 0x5a, sizeof got);
    whim_befores_fill(block, P, got);
    const int32_t wanted[] = {2 * P + 30, 2 * P + 31, 7 * P, -1, 5 * P, 9 * P + 31, -1, -1};
    assert_memory_equal(got, wanted, sizeof wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_knows_the_place_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The table of places against a plain list: growing, replacing, dropping a file. */
#include "kv/disk_index.h"
#include "support/cmocka.h"

enum { N = 3000, SEGMENTS = 5 };

/* Few different first bytes, so that keys collide. */
static whim_prefix_key key_of(int32_t i)
{
    return (whim_prefix_key){{(uint8_t)(i % 97), [8] = (uint8_t)i, (uint8_t)(i >> 8)}};
}

static void finds_what_was_put(void **state)
{
    (void)state;
    whim_disk_index index = {0};
    whim_prefix_key none = {{1, [31] = 1}};
    assert_null(whim_disk_index_find(&index, &none));
    assert_int_equal(whim_disk_index_drop_segment(&index, 0), WHIM_ERR_OK);
    for (int32_t i = 0; i < N; i++) {
        whim_disk_place place = {.key = key_of(i), .segment = i % SEGMENTS, .record = i};
        assert_int_equal(whim_disk_index_put(&index, &place), WHIM_ERR_OK);
    }
    assert_int_equal(index.n, N);
    assert_null(whim_disk_index_find(&index, &none));
    whim_disk_place again = {.key = key_of(7), .segment = 4, .record = -7};
    assert_int_equal(whim_disk_index_put(&index, &again), WHIM_ERR_OK);
    assert_int_equal(index.n, N);
    assert_int_equal(whim_disk_index_drop_segment(&index, 2), WHIM_ERR_OK);
    assert_int_equal(index.n, N - N / SEGMENTS + 1); /* 7 had moved from 2 to 4 */
    for (int32_t i = 0; i < N; i++) {
        whim_prefix_key key = key_of(i);
        const whim_disk_place *place = whim_disk_index_find(&index, &key);
        if (i % SEGMENTS == 2 && i != 7) {
            assert_null(place);
        } else {
            assert_non_null(place);
            assert_int_equal(place->record, i == 7 ? -7 : i);
        }
    }
    whim_disk_index_deinit(&index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_what_was_put)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The heap: always the smallest on top, whatever is put in, taken out or moved. */
#include "base/heap.h"
#include "support/cmocka.h"

#include "base/alloc.h"
#include "base/math/rng.h"
#include "support/death.h"

enum { N = 60 };

static whim_heap_node *smallest(whim_heap_node *nodes)
{
    whim_heap_node *best = NULL;
    for (int i = 0; i < N; i++) {
        if (nodes[i].at != 0 && (best == NULL || whim_heap_before(&nodes[i], best))) {
            best = &nodes[i];
        }
    }
    return best;
}

static void the_smallest_is_on_top(void **state)
{
    (void)state;
    whim_heap heap = {0};
    whim_heap_node nodes[N] = {{0}};
    assert_int_equal(whim_heap_reserve(&heap, N), WHIM_ERR_OK);
    assert_null(whim_heap_top(&heap));
    for (uint64_t t = 0; t < 5000; t++) {
        whim_heap_node *node = &nodes[whim_rng_at(1, t) % N];
        int64_t key = (int64_t)(whim_rng_at(2, t) % 20); /* many are equal: order decides */
        if (node->at == 0) {
            node->key = key;
            node->order = (int64_t)t;
            whim_heap_push(&heap, node);
        } else if (whim_rng_at(3, t) % 2 == 0) {
            whim_heap_move(&heap, node, key);
        } else {
            whim_heap_remove(&heap, node);
            assert_int_equal(node->at, 0);
        }
        assert_ptr_equal(whim_heap_top(&heap), smallest(nodes));
    }
    whim_heap_deinit(&heap);
}

static void room_grows_and_keeps_what_is_there(void **state)
{
    (void)state;
    whim_heap heap = {0};
    whim_heap_node nodes[N] = {{0}};
    for (int i = 0; i < N; i++) {
        nodes[i].key = N - i;
        assert_int_equal(whim_heap_reserve(&heap, i + 1), WHIM_ERR_OK);
        whim_heap_push(&heap, &nodes[i]);
        assert_ptr_equal(whim_heap_top(&heap), &nodes[i]);
    }
    whim_alloc_fail_after(0);
    assert_int_equal(whim_heap_reserve(&heap, heap.room + 1), WHIM_ERR_NO_MEMORY);
    whim_alloc_fail_after(-1);
    assert_int_equal(heap.n, N);
    whim_heap_deinit(&heap);
}

static void push_too_many(void *ctx)
{
    whim_heap heap = {0};
    whim_heap_node nodes[2] = {{0}};
    if (whim_heap_reserve(&heap, 1) == WHIM_ERR_OK) {
        for (int i = 0; i < *(int *)ctx; i++) {
            whim_heap_push(&heap, &nodes[i]);
        }
    }
    whim_heap_deinit(&heap);
}

static void more_than_the_room_ends_the_process(void **state)
{
    (void)state;
    int one = 1, two = 2;
    assert_int_equal(death_signal(push_too_many, &one), 0);
    assert_int_equal(death_signal(push_too_many, &two), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_is_on_top),
        cmocka_unit_test(room_grows_and_keeps_what_is_there),
        cmocka_unit_test(more_than_the_room_ends_the_process),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Packed weights: what goes in comes out, for every type and both orders. */
#include "backends/cpu/cpu.h"
#include "base/alloc.h"
#include "base/math/rng.h"
#include "tensor/half.h"
#include "tensor/quant.h"

#include "support/cmocka.h"

#include <string.h>

enum { N = 37, K = 512 }; /* two tiles and a part; two blocks of every type */

typedef struct packed {
    whim_cpu_kernels level;
    whim_cpu_device dev;
    char *rows, *tiles;
    int64_t row_bytes, tile_bytes;
} packed;

/* Random bytes; where a type has a 16-bit scale any bits but NaN and inf are fine. */
static void make(packed *p, whim_dtype dtype, whim_cpu_order order, whim_cpu_bf16_order bf16)
{
    memset(p, 0, sizeof *p);
    p->level = (whim_cpu_kernels){.level = "test", .order = order, .bf16_order = bf16};
    p->dev.kernels = &p->level;
    p->row_bytes = whim_dtype_row_bytes(dtype, K);
    p->tile_bytes = whim_cpu_tile_bytes(&p->level, dtype, K);
    p->rows = whim_alloc(N * p->row_bytes);
    p->tiles = whim_alloc(whim_cpu_weight_bytes(&p->dev.base, dtype, N, K));
    assert_non_null(p->rows);
    assert_non_null(p->tiles);
    for (int64_t i = 0; i < N * p->row_bytes; i++) {
        p->rows[i] = (char)(whim_rng_at(7, (uint64_t)i) & 0x37);
    }
    /* In two slabs, as the loader does. */
    for (int64_t row0 = 0; row0 < N; row0 += 32) {
        assert_int_equal(
            whim_cpu_pack_weight(&p->dev.base, &(whim_pack){.dtype = dtype,
                                                            .n = N,
                                                            .k = K,
                                                            .row0 = row0,
                                                            .n_row = N - row0 < 32 ? N - row0 : 32,
                                                            .src = p->rows + row0 * p->row_bytes,
                                                            .dst = p->tiles}),
            WHIM_ERR_OK);
    }
}

static void drop(packed *p)
{
    whim_free(p->rows);
    whim_free(p->tiles);
}

static void groups_come_back(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < WHIM_DTYPE_COUNT; dtype++) {
        const whim_cpu_form *form = whim_cpu_form_of((whim_dtype)dtype);
        for (int order = 0; form != NULL && order < 2; order++) {
            packed p;
            make(&p, (whim_dtype)dtype, (whim_cpu_order)order, WHIM_CPU_BF16_LANES);
            for (int64_t row = 0; row < N; row++) {
                for (int64_t g = 0; g < K / WHIM_GROUP; g++) {
                    whim_quant_group want, got;
                    whim_quant_unpack((whim_dtype)dtype, p.rows + row * p.row_bytes, g, &want);
                    whim_cpu_unpack_group(form, (whim_cpu_order)order,
                                          p.tiles + row / WHIM_CPU_TILE * p.tile_bytes,
                                          (int)(row % WHIM_CPU_TILE), g, &got);
                    assert_memory_equal(&got, &want, sizeof want);
                }
            }
            drop(&p);
        }
    }
}

static void rows_come_back(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < WHIM_DTYPE_COUNT; dtype++) {
        if (whim_dtype_get((whim_dtype)dtype)->kind == WHIM_DTYPE_KIND_INT) {
            continue;
        }
        for (int order = 0; order < 3; order++) {
            packed p;
            make(&p, (whim_dtype)dtype, order > 0 ? WHIM_CPU_ORDER_PAIR : WHIM_CPU_ORDER_QUAD,
                 (whim_cpu_bf16_order)order);
            whim_weight w = {.dtype = (whim_dtype)dtype, .n = N, .k = K, .data = p.tiles};
            for (int64_t row = 0; row < N; row++) {
                float want[K], got[K];
                whim_dequant_row((whim_dtype)dtype, p.rows + row * p.row_bytes, want, K);
                whim_cpu_unpack_row(&p.level, &w, row, got);
                assert_memory_equal(got, want, sizeof want);
            }
            drop(&p);
        }
    }
}

/* Every code of every width is at its place: all 512 places hold different things in turn. */
static void places_are_a_permutation(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        bool taken[WHIM_CPU_CODES] = {false};
        for (int o = 0; o < WHIM_CPU_TILE; o++) {
            for (int k = 0; k < WHIM_GROUP; k++) {
                int place = whim_cpu_code_place((whim_cpu_order)order, o, k);
                assert_in_range(place, 0, WHIM_CPU_CODES - 1);
                assert_false(taken[place]);
                taken[place] = true;
            }
        }
    }
}

static void wrong_slabs_are_refused(void **state)
{
    (void)state;
    packed p;
    make(&p, WHIM_DTYPE_Q4_0, WHIM_CPU_ORDER_QUAD, WHIM_CPU_BF16_LANES);
    whim_pack slab = {.dtype = WHIM_DTYPE_Q4_0, .n = N, .k = K, .src = p.rows, .dst = p.tiles};
    slab.row0 = 8; /* not where a tile begins */
    slab.n_row = 8;
    assert_int_equal(whim_cpu_pack_weight(&p.dev.base, &slab), WHIM_ERR_INVALID);
    slab.row0 = 32;
    slab.n_row = 6; /* past the end */
    assert_int_equal(whim_cpu_pack_weight(&p.dev.base, &slab), WHIM_ERR_INVALID);
    assert_int_equal(whim_cpu_weight_bytes(&p.dev.base, WHIM_DTYPE_Q4_K, N, 96), -1);
    drop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_come_back),
        cmocka_unit_test(rows_come_back),
        cmocka_unit_test(places_are_a_permutation),
        cmocka_unit_test(wrong_slabs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

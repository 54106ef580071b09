/* SPDX-License-Identifier: Apache-2.0 */
/* Products of many rows with BF16 matrices on the unit of mma_wide.cuh: the order of mma.cuh, and its
 * bits. Two blocks of a cluster have 128 outputs each and the same rows, of which each brings one half
 * for both, so that the cache behind them is read less often. A block stays on its multiprocessor and
 * takes item after item: four warps ask for weights and rows by bulk copies through a ring of stages
 * while two groups of four warps multiply, also while they store what the last item gave.
 *
 * Weights lie in shared memory as in device memory, tile after tile of 16 outputs: [k / 8][16]
 * vectors. A group of warps has 8 outputs of each of the 8 tiles, because those are equally far apart.
 * Rows lie in tiles of as many as an item has, [k / 8][rows] (whim_cuda_tiles_args). k is a multiple
 * of a stage. */
#pragma once
#include "mma_wide.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

enum {
    BULK_BLOCKS = 2, /* of a cluster */
    BULK_GROUPS = 2, /* of warps that multiply, in a block */
    BULK_THREADS = 128 * (BULK_GROUPS + 1),
    BULK_TILE_BYTES = WHIM_CUDA_TILE * WHIM_CUDA_MM_K * 2,
};

template <int N_ROW> struct bulk_form {
    enum {
        ROWS = N_ROW,
        SUMS = ROWS / 2,
        STAGES = WHIM_CUDA_BULK_STAGES(N_ROW),
        TILE_BYTES = BULK_TILE_BYTES, /* in a stage */
        W_BYTES = MM_TILES * TILE_BYTES,
        X_BYTES = ROWS * WHIM_CUDA_MM_K * 2,
        STAGE_BYTES = W_BYTES + X_BYTES,
    };

    static int64_t tile_bytes(int64_t k) /* with all its k */
    {
        return k / WHIM_CUDA_MM_K * TILE_BYTES;
    }
};

/* --- what a block does ------------------------------------------------------------------------ */

/* Where a block is in its ring. */
template <class Form> struct bulk_ring {
    uint32_t stages, full, empty; /* barriers of 8 bytes for each stage */
    int at, parity;

    bulk_ring()
    {
        DYNAMIC_SHARED(128, memory);
        stages = (uint32_t)__cvta_generic_to_shared(memory);
        full = stages + Form::STAGES * Form::STAGE_BYTES;
        empty = full + Form::STAGES * 8;
        at = parity = 0;
    }

    uint32_t stage() const
    {
        return stages + at * Form::STAGE_BYTES;
    }

    void next()
    {
        parity ^= at + 1 == Form::STAGES;
        at = at + 1 == Form::STAGES ? 0 : at + 1;
    }
};

template <class Form> static int bulk_n_item(const whim_cuda_few_args &a)
{
    int n_out = 0;
    for (int i = 0; i < (a.swiglu ? 1 : a.n_matrix); i++) {
        n_out += (mm_n_block(a, i) + BULK_BLOCKS - 1) / BULK_BLOCKS;
    }
    return n_out * (((int)a.n_row + Form::ROWS - 1) / Form::ROWS);
}

/* Copies are asked for one after the other, which takes a warp longer than the unit needs for a stage,
 * so four warps ask for some of them each: two tiles of weights, and a quarter of the half of the rows
 * that this block brings. The first tells how much will come. A tile beyond the last is the last. */
enum { BULK_BRINGERS = 4 };

template <class Form>
static void bulk_bring(const whim_cuda_few_args &a, const mm_place &p, bulk_ring<Form> *ring,
                       int rank)
{
    enum { EACH = MM_TILES / BULK_BRINGERS, PART = Form::X_BYTES / BULK_BLOCKS / BULK_BRINGERS };
    int warp = threadIdx.x / WARP % BULK_BRINGERS, lane = threadIdx.x % WARP;
    int in_block = warp * EACH + lane % EACH, tile = p.tile + (a.swiglu ? in_block / 2 : in_block);
    int last = ((int)p.m->n - 1) / WHIM_CUDA_TILE, x_at = (rank * BULK_BRINGERS + warp) * PART;
    const char *w = (const char *)p.m[a.swiglu ? in_block % 2 : 0].data +
                    (tile < last ? tile : last) * Form::tile_bytes(a.k);
    const char *x =
        (const char *)a.tiles + (int64_t)(p.row / Form::ROWS) * p.n_stage * Form::X_BYTES + x_at;
    for (int s = 0; s < p.n_stage; s++, ring->next()) {
        uint32_t stage = ring->stage(), full = ring->full + ring->at * 8;
        bulk_wait(ring->empty + ring->at * 8, ring->parity ^ 1);
        if (warp == 0 && lane == 0) {
            bulk_expect(full, Form::STAGE_BYTES);
        }
        __syncwarp();
        if (lane < EACH) {
            bulk_copy(stage + in_block * Form::TILE_BYTES, w + (int64_t)s * Form::TILE_BYTES,
                      Form::TILE_BYTES, full);
        }
        __syncwarp(); /* copies take their operands from registers that all lanes share */
        if (lane == EACH) {
            bulk_copy_all<BULK_BLOCKS>(stage + Form::W_BYTES + x_at,
                                       x + (int64_t)s * Form::X_BYTES, PART, full);
        }
        __syncwarp();
    }
}

/* A stage's weights: parts of 8 x 8 are 256 bytes apart along k and a tile along the outputs. */
static uint64_t bulk_weights(uint32_t at)
{
    return (uint64_t)(at >> 4 & 0x3fff) | (uint64_t)(256 >> 4) << 16 |
           (uint64_t)(BULK_TILE_BYTES >> 4) << 32;
}

/* This warp needs a stage no more, and says so to both blocks. Each does for itself: one that a
 * group's first spoke for could fall behind by a whole ring and wait for a phase that is long over. */
static void bulk_free(uint32_t empty)
{
    if (threadIdx.x % WARP < BULK_BLOCKS) {
        bulk_arrive(empty, threadIdx.x % WARP);
    }
}

/* A chunk's sums, n stages. A stage is given back when the one after it has been begun with. */
template <class Form>
static void bulk_add_chunk(int n, bulk_ring<Form> *ring, float (&c)[Form::SUMS])
{
    uint32_t before = 0;
    for (int s = 0; s < n; s++, ring->next()) {
        uint64_t w = bulk_weights(ring->stage() + threadIdx.x / 128 * 128);
        uint64_t x = wide_operand(ring->stage() + Form::W_BYTES, Form::ROWS);
        bulk_wait(ring->full + ring->at * 8, ring->parity);
        wide_begin();
#pragma unroll
        for (int k = 0; k < WHIM_CUDA_MM_K / 16; k++) {
            wide_mma(c, w + k * (2 * 256 >> 4), x + k * (2 * Form::ROWS * 16 >> 4));
        }
        wide_commit();
        wide_wait<1>(c);
        if (s > 0) {
            bulk_free(before);
        }
        before = ring->empty + ring->at * 8;
    }
    wide_wait<0>(c);
    bulk_free(before);
}

/* The sums of an item, of chunks in order. */
template <int N_ROW>
static void bulk_add(const whim_cuda_few_args &a, const mm_place &p,
                     bulk_ring<bulk_form<N_ROW>> *ring, float (&total)[N_ROW / 2])
{
    typedef bulk_form<N_ROW> Form;
    for (int s = 0; s < p.n_stage; s += p.chunk) {
        float c[Form::SUMS] = {};
        bulk_add_chunk<Form>(s + p.chunk < p.n_stage ? p.chunk : p.n_stage - s, ring, c);
#pragma unroll
        for (int i = 0; i < Form::SUMS; i++) {
            total[i] = s == 0 ? c[i] : total[i] + c[i];
        }
    }
}

/* each(part, sums) for parts of 8 rows, of which a thread has four sums, the first of all that are
 * left: a loop over them all at once is more instructions than the multiprocessor holds. */
template <int N, class Each> static void bulk_parts(float (&total)[N], Each each)
{
    enum { AT_ONCE = 4 };
#pragma unroll 1
    for (int part = 0; part < N / 4; part += AT_ONCE) {
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            each(part + i, &total[i * 4]);
        }
#pragma unroll
        for (int i = 0; i + AT_ONCE * 4 < N; i++) {
            total[i] = total[i + AT_ONCE * 4];
        }
    }
}

/* Outputs of a thread: of tiles 2 w and 2 w + 1 of warp w, rows 2 j and 2 j + 1 of each 8. */
template <class Form>
static void bulk_store(const whim_cuda_few_args &a, const mm_place &p, float (&total)[Form::SUMS])
{
    int warp = threadIdx.x / WARP % 4, lane = threadIdx.x % WARP, first = p.row + lane % 4 * 2;
    int n = (p.tile + warp * 2) * WHIM_CUDA_TILE + threadIdx.x / 128 * 8 + lane / 4;
    const float *bias = p.m->bias;
    bool is_there[2] = {n < p.m->n, n + WHIM_CUDA_TILE < p.m->n};
    float add[2] = {bias != NULL && is_there[0] ? bias[n] : 0.0f,
                    bias != NULL && is_there[1] ? bias[n + WHIM_CUDA_TILE] : 0.0f};
    float *y = p.m->y + first * p.m->y_stride + n;
    bulk_parts(total, [&](int part, const float *c) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int row = part * 8 + i % 2;
            if (is_there[i / 2] && first + row < a.n_row) {
                y[row * p.m->y_stride + i / 2 * WHIM_CUDA_TILE] =
                    bias != NULL ? c[i] + add[i / 2] : c[i];
            }
        }
    });
}

/* The same where tiles of gate and up alternate. */
template <class Form>
static void bulk_store_swiglu(const whim_cuda_few_args &a, const mm_place &p,
                              float (&total)[Form::SUMS])
{
    const whim_cuda_matrix &gate = p.m[0], &up = p.m[1];
    int warp = threadIdx.x / WARP % 4, lane = threadIdx.x % WARP;
    int first = p.row + lane % 4 * 2;
    int n = (p.tile + warp) * WHIM_CUDA_TILE + threadIdx.x / 128 * 8 + lane / 4;
    if (n >= up.n) {
        return;
    }
    float *y = up.y + first * up.y_stride + n;
    float g_add = gate.bias != NULL ? gate.bias[n] : 0.0f;
    float u_add = up.bias != NULL ? up.bias[n] : 0.0f;
    bulk_parts(total, [&](int part, const float *c) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float g = gate.bias != NULL ? c[i] + g_add : c[i];
            float u = up.bias != NULL ? c[i + 2] + u_add : c[i + 2];
            if (first + part * 8 + i < a.n_row) {
                y[(part * 8 + i) * up.y_stride] = g / (1.0f + whim_expf(-g)) * u;
            }
        }
    });
}

template <class Form> static void bulk_run(const whim_cuda_few_args &a)
{
    bulk_ring<Form> ring;
    int rank = blockIdx.x % BULK_BLOCKS, n_item = bulk_n_item<Form>(a);
    int first = blockIdx.x / BULK_BLOCKS, by = gridDim.x / BULK_BLOCKS;
    let_next_start();
    if (threadIdx.x == 0) {
        for (int i = 0; i < Form::STAGES; i++) {
            bulk_barrier_init(ring.full + i * 8, 1);
            bulk_barrier_init(ring.empty + i * 8, BULK_BLOCKS * BULK_GROUPS * 4);
        }
        bulk_barriers_made();
    }
    wait_for_last();
    cluster_sync();
    if (threadIdx.x >= 128 * BULK_GROUPS) {
        registers_leave<40>();
        for (int i = first; i < n_item; i += by) {
            bulk_bring<Form>(a, mm_place_of(a, i, Form::ROWS, BULK_BLOCKS, rank), &ring, rank);
        }
    } else {
        registers_take<232>();
        for (int i = first; i < n_item; i += by) {
            mm_place p = mm_place_of(a, i, Form::ROWS, BULK_BLOCKS, rank);
            float total[Form::SUMS];
            bulk_add(a, p, &ring, total); /* of either form */
            if (a.swiglu) {
                bulk_store_swiglu<Form>(a, p, total);
            } else {
                bulk_store<Form>(a, p, total);
            }
        }
    }
    __syncwarp();
    cluster_sync(); /* nobody leaves while the other still writes to it */
}

#define BULK(rows)                                                                               \
    KERNEL_IN_CLUSTERS(BULK_BLOCKS, BULK_THREADS, 1, k_mm_bulk_##rows)(ARGS(whim_cuda_few_args)) \
    {                                                                                            \
        bulk_run<bulk_form<rows>>(a);                                                            \
    }
#else
/* Never started. */
#define BULK(rows)                                 \
    KERNEL k_mm_bulk_##rows(ARGS(whim_cuda_few_args)) \
    {                                              \
    }
#endif
BULK(128)
BULK(192)

/* SPDX-License-Identifier: Apache-2.0 */
/* Products of rows with the experts that they chose, in BF16, on the unit of mma_wide.cuh, for any
 * number of rows: experts.cuh has sorted them. The order is this file's own: rows are rounded to
 * BF16, and all of k is added up from 0 in steps of 16, so that a row has the same bits wherever it
 * is and whoever is beside it.
 *
 * Blocks stay on their multiprocessors and take item after item as in mma_bulk.cuh, an item being
 * some tiles of outputs of an expert for a stretch of its rows. Few rows: a block has 8 tiles and up
 * to 64 rows. Many: two blocks of a cluster have the same 16 tiles, of which each brings one half for
 * both, and up to 160 rows each. The unit has instructions for any 8 rows more, of which one is taken
 * that leaves little to do for nobody. */
#pragma once
#include "mma_rows.cuh"
#include "moe/experts.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* LINES times 64 outputs for each of two groups of warps. */
template <int N_LINE, int N_BLOCK, int N_ROW> struct experts_form {
    enum {
        LINES = N_LINE,
        BLOCKS = N_BLOCK,
        TILES = MM_TILES * LINES,
        TILE_BYTES = BULK_TILE_BYTES,
        W_BYTES = TILES * TILE_BYTES,
        ROW_BYTES = WHIM_CUDA_MM_K * 2,
        STAGE_BYTES = W_BYTES + N_ROW * ROW_BYTES,
        STAGES = WHIM_CUDA_EX_STAGES(N_ROW),
    };
};

typedef experts_form<1, 1, WHIM_CUDA_EX_FEW> experts_few;
typedef experts_form<2, 2, WHIM_CUDA_EX_MANY> experts_many;

/* What a block has to do: its part of an item, the first of its tiles of outputs (of gate and up the
 * same ones), and stages of k. */
struct experts_place {
    int expert, first, n, tile, n_stage;
};

/* The plan is read past the cache of the multiprocessor, which may still have the last one: down
 * reads it before it waits. */
template <class Form, bool SWIGLU> struct experts_walk {
    enum { OWN = SWIGLU ? Form::TILES / 2 : Form::TILES };
    const whim_cuda_experts_args &a;
    int rank, n_out, n_item;

    experts_walk(const whim_cuda_experts_args &args) : a(args)
    {
        rank = blockIdx.x % Form::BLOCKS;
        n_out = ((int)a.n / WHIM_CUDA_TILE + OWN - 1) / OWN;
        n_item = *(const volatile int *)a.plan.n_item * n_out;
    }

    experts_place at(int i) const
    {
        const volatile whim_cuda_experts_item *item = &a.plan.items[i / n_out];
        int n = item->n;
        return experts_place{item->expert, item->first + rank * n, n, i % n_out * OWN,
                             (int)a.k / WHIM_CUDA_MM_K};
    }
};

/* Where a warp that brings is: each asks for two tiles of weights and a quarter of the rows. */
template <class Form, bool SWIGLU> struct experts_bringer {
    enum { EACH = Form::TILES / Form::BLOCKS / BULK_BRINGERS };
    const experts_walk<Form, SWIGLU> &walk;
    bulk_ring<Form> ring;
    experts_place p;
    const char *w, *x;
    int item, by, s, bytes, in_block;

    experts_bringer(const experts_walk<Form, SWIGLU> &all, const bulk_ring<Form> &from)
        : walk(all), ring(from)
    {
        int warp = threadIdx.x / WARP % BULK_BRINGERS, lane = threadIdx.x % WARP;
        in_block = (walk.rank * BULK_BRINGERS + warp) * EACH + lane % EACH;
        item = blockIdx.x / Form::BLOCKS;
        by = gridDim.x / Form::BLOCKS;
        place();
    }

    bool is_there() const
    {
        return item < walk.n_item;
    }

    void place()
    {
        const whim_cuda_experts_args &a = walk.a;
        s = 0;
        if (!is_there()) {
            return;
        }
        p = walk.at(item);
        int tile = p.tile + (SWIGLU ? in_block / 2 : in_block);
        int last = (int)a.n / WHIM_CUDA_TILE - 1;
        bytes = p.n * Form::ROW_BYTES;
        w = (const char *)a.w[SWIGLU ? in_block % 2 : 0] +
            (p.expert * a.n_unit + (tile < last ? tile : last)) * p.n_stage * Form::TILE_BYTES;
        x = (const char *)a.tiles + (int64_t)p.first * a.k * 2 +
            threadIdx.x / WARP % BULK_BRINGERS * (bytes / BULK_BRINGERS);
    }

    void next()
    {
        ring.next();
        if (++s == p.n_stage) {
            item += by;
            place();
        }
    }

    void weights(uint64_t policy) const
    {
        int lane = threadIdx.x % WARP;
        uint32_t to = ring.stage() + in_block * Form::TILE_BYTES, full = ring.full + ring.at * 8;
        const char *from = w + (int64_t)s * Form::TILE_BYTES;
        if (threadIdx.x / WARP % BULK_BRINGERS == 0 && lane == 0) {
            bulk_expect(full, Form::W_BYTES + bytes);
        }
        __syncwarp();
        if (lane < EACH && Form::BLOCKS > 1) {
            bulk_copy_all<BULK_BLOCKS>(to, from, Form::TILE_BYTES, full);
        } else if (lane < EACH) {
            bulk_copy_once(to, from, Form::TILE_BYTES, full, policy);
        }
        __syncwarp(); /* copies take their operands from registers that all lanes share */
    }

    void rows() const
    {
        int part = bytes / BULK_BRINGERS;
        if (threadIdx.x % WARP == 0) {
            bulk_copy(ring.stage() + Form::W_BYTES +
                          threadIdx.x / WARP % BULK_BRINGERS * part,
                      x + (int64_t)s * bytes, part, ring.full + ring.at * 8);
        }
        __syncwarp();
    }
};

/* Down knows its experts before gate and up have ended: its first weights come beside them. */
template <class Form, bool SWIGLU>
static void experts_bring(const experts_walk<Form, SWIGLU> &walk, const bulk_ring<Form> &ring)
{
    experts_bringer<Form, SWIGLU> b(walk, ring), late = b;
    uint64_t policy = cache_policy(true);
    int ahead = 0;
    for (; !SWIGLU && ahead < Form::STAGES && b.is_there(); ahead++, b.next()) {
        b.weights(policy);
    }
    wait_for_last();
    for (; ahead > 0; ahead--, late.next()) {
        late.rows();
    }
    for (; b.is_there(); b.next()) {
        bulk_wait(b.ring.empty + b.ring.at * 8, b.ring.parity ^ 1);
        b.weights(policy);
        b.rows();
    }
}

template <class Form> static void experts_free(uint32_t empty)
{
    if (Form::BLOCKS > 1) {
        bulk_free(empty);
    } else if (threadIdx.x % WARP == 0) {
        bulk_arrive_here(empty);
    }
}

/* Sums of all k. A group of warps has 8 outputs of each of 8 tiles; where it has two lines, both
 * halves of its own tiles. */
template <class Form, int N>
static void experts_add(const experts_place &p, bulk_ring<Form> *ring,
                        float (&c)[Form::LINES][N / 2])
{
    int group = threadIdx.x / 128;
    int from = Form::LINES == 1 ? group * 128 : group * MM_TILES * Form::TILE_BYTES;
    uint32_t before = 0;
    for (int s = 0; s < p.n_stage; s++, ring->next()) {
        uint64_t w = bulk_weights(ring->stage() + from);
        uint64_t x = wide_operand(ring->stage() + Form::W_BYTES, N);
        bulk_wait(ring->full + ring->at * 8, ring->parity);
        wide_begin();
#pragma unroll
        for (int k = 0; k < WHIM_CUDA_MM_K / 16; k++) {
#pragma unroll
            for (int line = 0; line < Form::LINES; line++) {
                wide_mma(c[line], w + k * (2 * 256 >> 4) + line * (128 >> 4),
                         x + k * (2 * N * 16 >> 4));
            }
        }
        wide_commit();
        wide_wait<1>(c[0]);
        if (s > 0) {
            experts_free<Form>(before);
        }
        before = ring->empty + ring->at * 8;
    }
#pragma unroll
    for (int line = 0; line < Form::LINES; line++) {
        wide_wait<0>(c[line]);
    }
    experts_free<Form>(before);
}

/* x / (1 + e^-x) by the unit's own functions: their last bits are gone when it is BF16. */
static float experts_silu(float x)
{
    return x * reciprocal_fast(1.0f + exp2_fast(x * -0x1.715476p0f));
}

/* SwiGLU of two rows beside each other, for output n: threads with n and n + 1 have them together,
 * and each writes both outputs of one row. */
static void experts_put_swiglu(uint16_t *tile, int n_row, int n, int row, const float *c)
{
    uint32_t y[2], odd = n % 2;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        y[i] = whim_f32_to_bf16(experts_silu(c[i]) * c[i + 2]);
    }
    uint32_t other = __shfl_xor_sync(ALL_LANES, odd ? y[0] : y[1], 4);
    int at = (n / 8 * n_row + row + (int)odd) * 8 + n % 8 - (int)odd;
    *(uint32_t *)(tile + at) = odd ? other | y[1] << 16 : y[0] | other << 16;
}

/* Outputs n and n + 16 of two rows, which belong to these pairs. */
static void experts_put(const whim_cuda_experts_args &a, const int *pair, int n, const float *c)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float *y = a.y + (int64_t)pair[i] * a.n + n;
        if (pair[i] >= 0) {
            y[0] = c[i];
            if (n + WHIM_CUDA_TILE < a.n) {
                y[WHIM_CUDA_TILE] = c[i + 2];
            }
        }
    }
}

/* Outputs of a thread: of tiles 2 w and 2 w + 1 of warp w, rows 2 j and 2 j + 1 of each 8. */
template <class Form, bool SWIGLU, int N>
static void experts_item(const whim_cuda_experts_args &a, const experts_place &p,
                         bulk_ring<Form> *ring)
{
    enum { PARTS = N / 8, AT_ONCE = PARTS % 4 == 0 ? 4 : PARTS % 2 == 0 ? 2 : 1 };
    float c[Form::LINES][N / 2] = {};
    int warp = threadIdx.x / WARP % 4, lane = threadIdx.x % WARP, group = threadIdx.x / 128;
    int tile = p.tile + warp * (SWIGLU ? 1 : 2), n;
    tile += Form::LINES == 1 ? 0 : group * (SWIGLU ? MM_TILES / 2 : MM_TILES);
    n = tile * WHIM_CUDA_TILE + lane / 4 + (Form::LINES == 1 ? group * 8 : 0);
    experts_add<Form, N>(p, ring, c);
    if (n >= a.n) {
        return;
    }
#pragma unroll 1
    for (int part = 0; part < PARTS; part += AT_ONCE) {
        int pairs[AT_ONCE][2];
#pragma unroll
        for (int i = 0; i < AT_ONCE && !SWIGLU; i++) {
            const int *from = &a.plan.pair[p.first + (part + i) * 8 + lane % 4 * 2];
            pairs[i][0] = from[0];
            pairs[i][1] = from[1];
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int row = (part + i) * 8 + lane % 4 * 2;
#pragma unroll
            for (int line = 0; line < Form::LINES; line++) {
                if (SWIGLU) {
                    experts_put_swiglu(a.left + p.first * a.n, N, n + line * 8, row,
                                       &c[line][i * 4]);
                } else {
                    experts_put(a, pairs[i], n + line * 8, &c[line][i * 4]);
                }
            }
        }
#pragma unroll
        for (int line = 0; line < Form::LINES; line++) {
#pragma unroll
            for (int i = 0; i + AT_ONCE * 4 < N / 2; i++) {
                c[line][i] = c[line][i + AT_ONCE * 4];
            }
        }
    }
}

#define EXPERTS_ROWS(rows)                         \
    case rows:                                     \
        experts_item<Form, SWIGLU, rows>(a, p, ring); \
        break;

template <bool SWIGLU>
static void experts_item_of(const whim_cuda_experts_args &a, const experts_place &p,
                            bulk_ring<experts_few> *ring)
{
    typedef experts_few Form;
    switch (p.n) {
        EXPERTS_ROWS(8)
        EXPERTS_ROWS(16)
        EXPERTS_ROWS(32)
        EXPERTS_ROWS(48)
        EXPERTS_ROWS(64)
    }
}

template <bool SWIGLU>
static void experts_item_of(const whim_cuda_experts_args &a, const experts_place &p,
                            bulk_ring<experts_many> *ring)
{
    typedef experts_many Form;
    switch (p.n) {
        EXPERTS_ROWS(16)
        EXPERTS_ROWS(32)
        EXPERTS_ROWS(48)
        EXPERTS_ROWS(64)
        EXPERTS_ROWS(80)
        EXPERTS_ROWS(96)
        EXPERTS_ROWS(112)
        EXPERTS_ROWS(128)
        EXPERTS_ROWS(144)
        EXPERTS_ROWS(160)
    }
}

template <class Form> static void experts_sync()
{
    if (Form::BLOCKS > 1) {
        cluster_sync();
    } else {
        __syncthreads();
    }
}

/* Down comes when all blocks of gate and up know that the plan is there. */
template <class Form, bool SWIGLU> static void experts_run(const whim_cuda_experts_args &a)
{
    bulk_ring<Form> ring;
    if (threadIdx.x == 0) {
        for (int i = 0; i < Form::STAGES; i++) {
            bulk_barrier_init(ring.full + i * 8, 1);
            bulk_barrier_init(ring.empty + i * 8, Form::BLOCKS * BULK_GROUPS * 4);
        }
        bulk_barriers_made();
    }
    if (SWIGLU) {
        wait_for_last();
    }
    let_next_start();
    experts_sync<Form>();
    experts_walk<Form, SWIGLU> walk(a);
    if (threadIdx.x >= 128 * BULK_GROUPS) {
        registers_leave<40>();
        experts_bring(walk, ring);
    } else {
        registers_take<232>();
        wait_for_last();
        for (int i = blockIdx.x / Form::BLOCKS; i < walk.n_item; i += gridDim.x / Form::BLOCKS) {
            experts_item_of<SWIGLU>(a, walk.at(i), &ring);
        }
    }
    __syncwarp();
    experts_sync<Form>(); /* nobody leaves while the other still writes to it */
}

#define EXPERTS(name, Form, swiglu)                                            \
    KERNEL_BOUNDED(WHIM_CUDA_EX_THREADS, 1) name(ARGS(whim_cuda_experts_args)) \
    {                                                                          \
        experts_run<Form, swiglu>(a);                                          \
    }
#define EXPERTS_OF_TWO(name, Form, swiglu)                                                       \
    KERNEL_IN_CLUSTERS(BULK_BLOCKS, WHIM_CUDA_EX_THREADS, 1, name)(ARGS(whim_cuda_experts_args)) \
    {                                                                                            \
        experts_run<Form, swiglu>(a);                                                            \
    }
#else
/* Never started. */
#define EXPERTS(name, Form, swiglu)           \
    KERNEL name(ARGS(whim_cuda_experts_args)) \
    {                                         \
    }
#define EXPERTS_OF_TWO EXPERTS
#endif
EXPERTS(k_experts_few_up, experts_few, true)
EXPERTS(k_experts_few_down, experts_few, false)
EXPERTS_OF_TWO(k_experts_many_up, experts_many, true)
EXPERTS_OF_TWO(k_experts_many_down, experts_many, false)

/* SPDX-License-Identifier: Apache-2.0 */
/* Products of more than a few rows with groups of 32 integers on the unit of mma_wide.cuh: the law's
 * bits. Codes of weights and rows are F16 there, whose products and the sum of a group's are exact in
 * F32, and each dot joins its sum by one fma, groups in order. A group of four warps has some tens of
 * outputs: it opens codes on their way to the unit's first operand in registers, and while the unit
 * works on the next dots it adds those that have come. Another warp brings weights as they lie in
 * memory and rows as k_tiles_q8 (mma_quant_open.cuh) makes them, by bulk copies through a ring of
 * stages. */
#pragma once
#include "mma_bulk.cuh"
#include "quant/mma_quant_open.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* --- what a block has ------------------------------------------------------------------------- */

/* WGS groups of four warps that multiply, each with 64 outputs and N_ROW rows. */
template <class Weights, int WGS, int N_ROW> struct quant_wide_form {
    typedef Weights W;
    enum {
        GROUPS_MUL = WGS,
        ROWS = N_ROW,
        SUMS = ROWS / 2, /* of a thread */
        TILES = WGS * 4,
        GROUPS = WHIM_CUDA_QW_GROUPS, /* of k in a stage */
        STAGES = WHIM_CUDA_QW_STAGES(TILES),
        W_BYTES = TILES * GROUPS * group_place<W>::BYTES,
        X_GROUP = ROWS * (W::HAS_MIN ? 72 : 68),
        X_BYTES = GROUPS * X_GROUP,
        STAGE_BYTES = W_BYTES + X_BYTES,
    };
};

struct quant_place {
    const whim_cuda_matrix *m;
    int tile, row;
};

static int quant_n_out(const whim_cuda_matrix &m, int tiles)
{
    return ((int)m.n + tiles * WHIM_CUDA_TILE - 1) / (tiles * WHIM_CUDA_TILE);
}

template <class Form> static int quant_n_item(const whim_cuda_few_args &a)
{
    int n_out = 0;
    for (int i = 0; i < a.n_matrix; i++) {
        n_out += quant_n_out(a.matrix[i], Form::TILES);
    }
    return n_out * (((int)a.n_row + Form::ROWS - 1) / Form::ROWS);
}

/* As mm_place_of. */
template <class Form> static quant_place quant_place_of(const whim_cuda_few_args &a, int item)
{
    int n_row = ((int)a.n_row + Form::ROWS - 1) / Form::ROWS, i = 0;
    int n_out = quant_n_item<Form>(a) / n_row, group = item / (n_out * MM_GROUP);
    int rows = n_row - group * MM_GROUP < MM_GROUP ? n_row - group * MM_GROUP : MM_GROUP;
    int in_group = item - group * n_out * MM_GROUP, out = in_group / rows;
    int row = (group * MM_GROUP + in_group % rows) * Form::ROWS;
    for (; out >= quant_n_out(a.matrix[i], Form::TILES); i++) {
        out -= quant_n_out(a.matrix[i], Form::TILES);
    }
    return quant_place{&a.matrix[i], out * Form::TILES, row};
}

/* --- the warp that brings --------------------------------------------------------------------- */

template <class Form> struct quant_bringer {
    enum { BYTES = group_place<typename Form::W>::BYTES, TILE_BYTES = Form::GROUPS * BYTES };
    const char *w, *x; /* of this lane */
    int n_stage, x_group;

    quant_bringer(const whim_cuda_few_args &a, int item)
    {
        quant_place p = quant_place_of<Form>(a, item);
        int n_group = (int)(a.k / WHIM_GROUP), lane = threadIdx.x % WARP;
        int last = ((int)p.m->n - 1) / WHIM_CUDA_TILE, tile = p.tile + lane % Form::TILES;
        x_group = whim_cuda_qw_group_bytes(Form::ROWS);
        n_stage = n_group / Form::GROUPS;
        w = (const char *)p.m->data + (int64_t)(tile < last ? tile : last) * n_group * BYTES;
        x = (const char *)a.tiles +
            ((int64_t)(p.row / Form::ROWS) * n_group + lane % Form::GROUPS) * x_group;
    }

    void weights(const bulk_ring<Form> &ring, int s) const
    {
        int lane = threadIdx.x % WARP;
        uint32_t full = ring.full + ring.at * 8;
        if (lane == 0) {
            bulk_expect(full, Form::STAGE_BYTES);
        }
        __syncwarp();
        if (lane < Form::TILES) {
            bulk_copy(ring.stage() + lane * TILE_BYTES, w + (int64_t)s * TILE_BYTES, TILE_BYTES,
                      full);
        }
        __syncwarp();
    }

    void rows(const bulk_ring<Form> &ring, int s) const
    {
        int lane = threadIdx.x % WARP;
        if (lane < Form::GROUPS) {
            bulk_copy(ring.stage() + Form::W_BYTES + lane * Form::X_GROUP,
                      x + (int64_t)s * Form::GROUPS * x_group, Form::X_GROUP,
                      ring.full + ring.at * 8);
        }
        __syncwarp();
    }
};

/* The first weights are asked for before the rows are there. */
template <class Form> static void quant_bring(const whim_cuda_few_args &a, bulk_ring<Form> ring)
{
    int n_item = quant_n_item<Form>(a), first = blockIdx.x, ahead = 0;
    if (first < n_item) {
        quant_bringer<Form> b(a, first);
        bulk_ring<Form> early = ring;
        for (; ahead < Form::STAGES && ahead < b.n_stage; ahead++, early.next()) {
            b.weights(early, ahead);
        }
    }
    wait_for_last();
    for (int item = first; item < n_item; item += gridDim.x) {
        quant_bringer<Form> b(a, item);
        for (int s = 0; s < b.n_stage; s++, ring.next()) {
            if (ahead > 0) {
                ahead--;
            } else {
                bulk_wait(ring.empty + ring.at * 8, ring.parity ^ 1);
                b.weights(ring, s);
            }
            b.rows(ring, s);
        }
    }
}

/* --- the warps that multiply ------------------------------------------------------------------ */

/* Until at most N units are under way; those that gave `c` are not. */
template <int N, int SUMS> static void quant_wait(float (&c)[SUMS])
{
    wide_until<N>();
    wide_added(c);
}

/* Outputs of a thread beside each other: what their groups have. */
struct quant_heads {
    float d[2], m[2];
};

/* The first scales of a group, which are loaded while its dots are awaited. */
template <class Form> struct quant_early {
    enum { N = Form::SUMS / 8 < 2 ? Form::SUMS / 8 : 2 };
    float4 s[N];

    quant_early(uint32_t at)
    {
#pragma unroll
        for (int i = 0; i < N; i++) {
            s[i] = load_shared_float4(at + i * 64);
        }
    }
};

/* Dots of a group join the sums; `at` is where this thread's scales of the rows are. */
template <class Form>
static void quant_join(float (&acc)[Form::SUMS], const float (&dot)[Form::SUMS],
                       const quant_heads &head, const quant_early<Form> &early, uint32_t at)
{
#pragma unroll
    for (int i = 0; i < Form::SUMS; i += 8, at += 64) {
        float4 s4 = i / 8 < quant_early<Form>::N ? early.s[i / 8] : load_shared_float4(at);
        float4 t4 = {};
        if (Form::W::HAS_MIN) {
            t4 = load_shared_float4(at + Form::ROWS * 4);
        }
        float s[4] = {s4.x, s4.y, s4.z, s4.w}, t[4] = {t4.x, t4.y, t4.z, t4.w};
#pragma unroll
        for (int j = 0; j < 8; j++) {
            int row = j / 4 * 2 + j % 2, out = j % 4 / 2;
            acc[i + j] = whim_fmaf(dot[i + j], head.d[out] * s[row], acc[i + j]);
            if (Form::W::HAS_MIN) {
                acc[i + j] = whim_fmaf(head.m[out], t[row], acc[i + j]);
            }
        }
    }
}

/* A group of this warp's tile at `from`. */
template <class W> static void quant_load(uint32_t (*to)[4], quant_heads *head, const char *from)
{
    uint32_t v[2 * W::VECTORS];
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < 2 * W::VECTORS; i++) {
        v[i] = ((const uint32_t *)from)[i * WARP + lane];
    }
    quant_open<W>(to, v);
#pragma unroll
    for (int o = 0; o < 2; o++) {
        const char *at = from + group_place<W>::CODES + (lane / 4 + o * 8) * W::HEAD;
        typename few_head<W>::type h = few_head<W>::get(at);
        head->d[o] = few_head<W>::d(h);
        head->m[o] = W::HAS_MIN ? few_head<W>::m(h) : 0.0f;
    }
}

/* All that a thread has of an item while it goes through k. */
template <class Form> struct quant_sums {
    typedef typename Form::W W;
    enum { BYTES = group_place<W>::BYTES };
    float acc[Form::SUMS], dot[2][Form::SUMS];
    uint32_t w[2][2][4];
    quant_heads head[2];

    /* Group G of a stage is begun with. `codes` is this warp's tile's, and `rows` all rows'. */
    template <int G> void begin(const char *codes, uint32_t rows)
    {
        enum { AT = G % 2, STEP = 2 * Form::ROWS * 16 >> 4 };
        quant_load<W>(w[AT], &head[AT], codes + G * BYTES);
        uint64_t x = wide_operand(rows + G * Form::X_GROUP, Form::ROWS);
        wide_begin();
        wide_mma_f16<0>(dot[AT], w[AT][0], x);
        wide_mma_f16<1>(dot[AT], w[AT][1], x + STEP);
        wide_commit();
    }

    /* It ends while LATER ones are under way. */
    template <int G, int LATER> void end(uint32_t rows)
    {
        uint32_t at = rows + G * Form::X_GROUP + Form::ROWS * 64 + threadIdx.x % 4 * 16;
        quant_early<Form> early(at);
        quant_wait<LATER>(dot[G % 2]);
        quant_join<Form>(acc, dot[G % 2], head[G % 2], early, at);
    }

    /* The groups of a stage that are left, of which G is begun with: dots that are under way when a
     * stage is left would let the compiler wait for each. */
    template <int G> void groups(const char *codes, uint32_t rows)
    {
        if constexpr (G + 1 < Form::GROUPS) {
            begin<G + 1>(codes, rows);
            end<G, 1>(rows);
            groups<G + 1>(codes, rows);
        } else {
            end<G, 0>(rows);
        }
    }
};

/* The sums of an item. */
template <class Form>
static void quant_add(quant_sums<Form> *sums, int n_stage, bulk_ring<Form> *ring)
{
    enum { TILE_BYTES = Form::GROUPS * group_place<typename Form::W>::BYTES };
    DYNAMIC_SHARED(128, memory);
    for (int s = 0; s < n_stage; s++, ring->next()) {
        const char *codes =
            memory + ring->at * Form::STAGE_BYTES + threadIdx.x / WARP * TILE_BYTES;
        uint32_t rows = ring->stage() + Form::W_BYTES;
        bulk_wait(ring->full + ring->at * 8, ring->parity);
        sums->template begin<0>(codes, rows);
        sums->template groups<0>(codes, rows);
        __syncwarp();
        if (threadIdx.x % WARP == 0) {
            bulk_arrive_here(ring->empty + ring->at * 8);
        }
    }
}

template <class Form>
static void quant_store(const whim_cuda_few_args &a, const quant_place &p,
                        const quant_sums<Form> &sums)
{
    int lane = threadIdx.x % WARP;
    int n = (p.tile + threadIdx.x / WARP) * WHIM_CUDA_TILE + lane / 4;
    bool is_there[2] = {n < p.m->n, n + 8 < p.m->n};
    const float *bias = p.m->bias;
    float add[2] = {bias != NULL && is_there[0] ? bias[n] : 0.0f,
                    bias != NULL && is_there[1] ? bias[n + 8] : 0.0f};
#pragma unroll
    for (int i = 0; i < Form::SUMS; i++) {
        int row = p.row + i / 4 * 8 + lane % 4 * 2 + i % 2, out = i % 4 / 2;
        if (is_there[out] && row < a.n_row) {
            p.m->y[row * p.m->y_stride + n + out * 8] =
                bias != NULL ? sums.acc[i] + add[out] : sums.acc[i];
        }
    }
}

template <class Form> static void quant_multiply(const whim_cuda_few_args &a, bulk_ring<Form> ring)
{
    int n_item = quant_n_item<Form>(a);
    wait_for_last();
    for (int item = blockIdx.x; item < n_item; item += gridDim.x) {
        quant_sums<Form> sums = {};
        quant_add(&sums, (int)(a.k / WHIM_GROUP) / Form::GROUPS, &ring);
        quant_store(a, quant_place_of<Form>(a, item), sums);
    }
}

template <class Form> static void quant_run(const whim_cuda_few_args &a)
{
    enum { MULTIPLY = Form::GROUPS_MUL * 128 };
    bulk_ring<Form> ring;
    let_next_start();
    if (threadIdx.x == 0) {
        for (int i = 0; i < Form::STAGES; i++) {
            bulk_barrier_init(ring.full + i * 8, 1);
            bulk_barrier_init(ring.empty + i * 8, Form::GROUPS_MUL * 4);
        }
        bulk_barriers_made();
    }
    __syncthreads();
    if (threadIdx.x >= MULTIPLY) {
        if (Form::GROUPS_MUL > 1) {
            registers_leave<24>();
        }
        if (threadIdx.x < MULTIPLY + WARP) {
            quant_bring<Form>(a, ring);
        }
    } else {
        if (Form::GROUPS_MUL > 1) {
            registers_take<240>();
        }
        quant_multiply<Form>(a, ring);
    }
}

#define QUANT_WIDE(name, rows, wgs, threads, blocks)                               \
    KERNEL_BOUNDED(threads, blocks) k_mm_##name##_##rows(ARGS(whim_cuda_few_args)) \
    {                                                                              \
        quant_run<quant_wide_form<name##_weights, wgs, rows>>(a);                  \
    }
#else
/* Never started. */
#define QUANT_WIDE(name, rows, wgs, threads, blocks)      \
    KERNEL k_mm_##name##_##rows(ARGS(whim_cuda_few_args)) \
    {                                                     \
    }
#endif
#define QUANT_WIDES(name)                              \
    QUANT_WIDE(name, 32, 1, WHIM_CUDA_QW_THREADS_1, 3) \
    QUANT_WIDE(name, 64, 1, WHIM_CUDA_QW_THREADS_1, 2) \
    QUANT_WIDE(name, 128, 2, WHIM_CUDA_QW_THREADS_2, 1)
QUANT_WIDES(q4_0)
QUANT_WIDES(q4_1)
QUANT_WIDES(q8_0)

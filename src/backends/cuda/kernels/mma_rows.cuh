/* SPDX-License-Identifier: Apache-2.0 */
/* Products of 9 to 64 rows with BF16 matrices on the unit of mma_wide.cuh: the order of mma.cuh, and
 * its bits. Reading weights is what counts, so each multiprocessor has one block, with as much to read
 * as any other, and a ring of stages in nearly all of its shared memory, whose weights are asked for
 * by bulk copies before the kernel waits for its rows. Here rows are the operand with 64 lines, of
 * which those beyond the last are whatever lies there, and outputs the other: 8 of each of NT tiles
 * for either of two groups of four warps, because those are equally far apart.
 *
 * Tiles of outputs are counted through all matrices. Whole: a block goes through items of NT tiles
 * with all their k. Split: the blocks of a cluster have a chunk of k each, of one item, and add up
 * each other's sums. k is a multiple of a stage. */
#pragma once
#include "mma_bulk.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

enum {
    MR_MOST = 16, /* stages of a ring */
    MR_SPARE = 1024 + MR_MOST * 16, /* what the unit may read beyond the last stage, and barriers */
};

/* A tile of outputs; m is NULL beyond the last. */
struct mr_tile {
    const whim_cuda_matrix *m;
    int tile;
};

static mr_tile mr_tile_of(const whim_cuda_few_args &a, int tile)
{
    for (int i = 0; i < a.n_matrix; i++) {
        int n = ((int)a.matrix[i].n + WHIM_CUDA_TILE - 1) / WHIM_CUDA_TILE;
        if (a.swiglu) {
            return tile / 2 < n ? mr_tile{&a.matrix[tile % 2], tile / 2} : mr_tile{};
        }
        if (tile < n) {
            return mr_tile{&a.matrix[i], tile};
        }
        tile -= n;
    }
    return mr_tile{};
}

static int mr_n_tile(const whim_cuda_few_args &a)
{
    int n = 0;
    for (int i = 0; i < a.n_matrix; i++) {
        n += ((int)a.matrix[i].n + WHIM_CUDA_TILE - 1) / WHIM_CUDA_TILE;
    }
    return n;
}

/* What mma_fp8_rows.cuh has otherwise: bytes of a tile in a stage and with all its k, warps that
 * multiply and that bring, and stages of a chunk. */
template <int NT> struct mr_form {
    enum { TILES = NT, TILE_BYTES = BULK_TILE_BYTES, WARPS = 8, BRINGERS = 2 };

    static int64_t tile_bytes(int64_t k)
    {
        return k / WHIM_CUDA_MM_K * TILE_BYTES;
    }

    static int chunk(int n_stage)
    {
        return (n_stage + WHIM_CUDA_MM_CHUNKS - 1) / WHIM_CUDA_MM_CHUNKS;
    }
};

/* What a block has to do, and where it is in its ring. */
template <class Form> struct mr_block {
    enum { NT = Form::TILES };
    const whim_cuda_few_args &a;
    int rows;                /* of a tile of rows */
    int item, by, n_item;    /* the first item, and from one to the next */
    int first, end, chunk;   /* stages of k */
    int stage_bytes, n_ring; /* of the ring */
    uint32_t ring, full, empty;
    int at, parity;

    mr_block(const whim_cuda_few_args &args, bool split) : a(args)
    {
        DYNAMIC_SHARED(128, memory);
        int n_stage = (int)a.k / WHIM_CUDA_MM_K, rank = blockIdx.x % WHIM_CUDA_MR_BLOCKS;
        chunk = Form::chunk(n_stage);
        first = split ? rank * chunk : 0;
        end = split && first + chunk < n_stage ? first + chunk : n_stage;
        first = first < end ? first : end;
        item = split ? blockIdx.x / WHIM_CUDA_MR_BLOCKS : blockIdx.x;
        by = split ? gridDim.x / WHIM_CUDA_MR_BLOCKS : gridDim.x;
        n_item = (mr_n_tile(a) + NT - 1) / NT;
        rows = ((int)a.n_row + WHIM_CUDA_TILE - 1) / WHIM_CUDA_TILE * WHIM_CUDA_TILE;
        stage_bytes = NT * Form::TILE_BYTES + rows * WHIM_CUDA_MM_K * 2;
        n_ring = (WHIM_CUDA_MR_BYTES - MR_SPARE) / stage_bytes;
        n_ring = n_ring < MR_MOST ? n_ring : MR_MOST;
        ring = (uint32_t)__cvta_generic_to_shared(memory);
        full = ring + WHIM_CUDA_MR_BYTES - MR_MOST * 16;
        empty = full + MR_MOST * 8;
        at = parity = 0;
    }

    uint32_t stage() const
    {
        return ring + at * stage_bytes;
    }

    void next()
    {
        parity ^= at + 1 == n_ring;
        at = at + 1 == n_ring ? 0 : at + 1;
    }
};

/* The last warps ask for some tiles of weights each, see bulk_bring, and the last of them for the
 * rows, which for the stages that find room at once come after the wait. A tile beyond the last is the
 * first. */
template <class Form> static void mr_bring(mr_block<Form> b)
{
    enum { NT = Form::TILES, BYTES = Form::TILE_BYTES, BY = Form::BRINGERS, ROWS = NT / BY + 1 };
    const whim_cuda_few_args &a = b.a;
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP - Form::WARPS, ahead = 0;
    int own = lane * BY + warp, x_bytes = b.rows * WHIM_CUDA_MM_K * 2;
    const char *x = (const char *)a.tiles;
    uint64_t policy = cache_policy(true);
    bool brings_rows = warp == BY - 1, waits = brings_rows;
    auto rows = [&](int n) { /* of the stages that are asked for already */
        wait_for_last();
        for (int i = 0, s = b.first; i < n && lane == ROWS; i++) {
            bulk_copy(b.ring + i * b.stage_bytes + NT * BYTES, x + (int64_t)s * x_bytes, x_bytes,
                      b.full + i * 8);
            s = s + 1 == b.end ? b.first : s + 1;
        }
        waits = false;
    };
    for (int item = b.item; item < b.n_item; item += b.by) {
        mr_tile t = mr_tile_of(a, item * NT + (own < NT ? own : 0));
        t = t.m != NULL ? t : mr_tile{&a.matrix[0], 0};
        const char *w = (const char *)t.m->data + t.tile * Form::tile_bytes(a.k);
        for (int s = b.first; s < b.end; s++, b.next()) {
            uint32_t stage = b.stage(), full = b.full + b.at * 8;
            if (waits && ahead == b.n_ring) {
                rows(ahead);
            }
            bulk_wait(b.empty + b.at * 8, b.parity ^ 1);
            if (warp == 0 && lane == 0) {
                bulk_expect(full, b.stage_bytes);
            }
            __syncwarp();
            if (own < NT) {
                bulk_copy_once(stage + own * BYTES, w + (int64_t)s * BYTES, BYTES, full, policy);
            }
            __syncwarp(); /* see bulk_bring */
            if (lane == ROWS && brings_rows && !waits) {
                bulk_copy(stage + NT * BYTES, x + (int64_t)s * x_bytes, x_bytes, full);
            }
            __syncwarp();
            ahead++;
        }
    }
    if (waits) {
        rows(ahead);
    }
}

/* A chunk's sums, n stages. A stage is given back when the one after it has been begun with. */
template <int NT> static void mr_add_chunk(int n, mr_block<mr_form<NT>> *b, float (&c)[NT * 4])
{
    uint32_t before = 0;
    bool tells = threadIdx.x % WARP == 0; /* each warp for itself, see bulk_free */
    for (int s = 0; s < n; s++, b->next()) {
        uint64_t w = bulk_weights(b->stage() + threadIdx.x / 128 * 128);
        uint64_t x = wide_operand(b->stage() + NT * BULK_TILE_BYTES, b->rows);
        bulk_wait(b->full + b->at * 8, b->parity);
        wide_begin();
#pragma unroll
        for (int k = 0; k < WHIM_CUDA_MM_K / 16; k++) {
            wide_mma(c, x + k * 2 * b->rows, w + k * (2 * 256 >> 4));
        }
        wide_commit();
        wide_wait<1>(c);
        if (s > 0 && tells) {
            bulk_arrive_here(before);
        }
        before = b->empty + b->at * 8;
    }
    wide_wait<0>(c);
    if (n > 0 && tells) {
        bulk_arrive_here(before);
    }
}

static void mr_put(float *y, float a, float b, bool both, bool wide)
{
    if (both && wide) {
        *(float2 *)y = make_float2(a, b);
    } else {
        y[0] = a;
        if (both) {
            y[1] = b;
        }
    }
}

/* A thread's four sums of one tile: outputs n and n + 1 of rows r and r + 8. */
static void mr_store_tile(const whim_cuda_few_args &a, const mr_tile &t, const float *c)
{
    int lane = threadIdx.x % WARP, r = threadIdx.x / WARP % 4 * 16 + lane / 4;
    int n = t.tile * WHIM_CUDA_TILE + threadIdx.x / 128 * 8 + lane % 4 * 2;
    if (t.m == NULL || n >= t.m->n) {
        return;
    }
    bool both = n + 1 < t.m->n, wide = ((uintptr_t)t.m->y | (uintptr_t)t.m->y_stride * 4) % 8 == 0;
    const float *bias = t.m->bias;
    float b0 = bias != NULL ? bias[n] : 0.0f, b1 = bias != NULL && both ? bias[n + 1] : 0.0f;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (r + i * 8 < a.n_row) {
            float v0 = bias != NULL ? c[i * 2] + b0 : c[i * 2];
            float v1 = bias != NULL ? c[i * 2 + 1] + b1 : c[i * 2 + 1];
            mr_put(t.m->y + (r + i * 8) * t.m->y_stride + n, v0, v1, both, wide);
        }
    }
}

static float mr_swiglu(const whim_cuda_few_args &a, int n, float g, float u)
{
    g = a.matrix[0].bias != NULL ? g + a.matrix[0].bias[n] : g;
    u = a.matrix[1].bias != NULL ? u + a.matrix[1].bias[n] : u;
    return g / (1.0f + whim_expf(-g)) * u;
}

/* The same of a tile of gate and of up, which t is. */
static void mr_store_swiglu(const whim_cuda_few_args &a, const mr_tile &t, const float *c)
{
    int lane = threadIdx.x % WARP, r = threadIdx.x / WARP % 4 * 16 + lane / 4;
    int n = t.tile * WHIM_CUDA_TILE + threadIdx.x / 128 * 8 + lane % 4 * 2;
    if (t.m == NULL || n >= t.m->n) {
        return;
    }
    bool both = n + 1 < t.m->n, wide = ((uintptr_t)t.m->y | (uintptr_t)t.m->y_stride * 4) % 8 == 0;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int row = r + i * 8;
        if (row < a.n_row) {
            float v0 = mr_swiglu(a, n, c[i * 2], c[4 + i * 2]);
            float v1 = mr_swiglu(a, both ? n + 1 : n, c[i * 2 + 1], c[4 + i * 2 + 1]);
            mr_put(t.m->y + row * t.m->y_stride + n, v0, v1, both, wide);
            if (a.left.tiles != NULL) { /* both, because columns are whole stages then */
                int64_t at = whim_cuda_tiles_at(a.left.rows, t.m->n, row, n);
                *(uint32_t *)(a.left.tiles + at) =
                    whim_f32_to_bf16(v0) | (uint32_t)whim_f32_to_bf16(v1) << 16;
            }
        }
    }
}

/* Two tiles at a time, the first that are left: see bulk_parts. */
template <int NT> static void mr_store(const whim_cuda_few_args &a, int item, float (&total)[NT * 4])
{
    if (threadIdx.x / WARP % 4 * 16 >= a.n_row) {
        return;
    }
#pragma unroll 1
    for (int tile = item * NT; tile < (item + 1) * NT; tile += 2) {
        if (a.swiglu) {
            mr_store_swiglu(a, mr_tile_of(a, tile + 1), total);
        } else {
            mr_store_tile(a, mr_tile_of(a, tile), total);
            mr_store_tile(a, mr_tile_of(a, tile + 1), total + 4);
        }
#pragma unroll
        for (int i = 0; i + 8 < NT * 4; i++) {
            total[i] = total[i + 8];
        }
    }
}

template <class Form> static void mr_begin(const mr_block<Form> &b)
{
    let_next_start();
    if (threadIdx.x == 0) {
        for (int i = 0; i < b.n_ring; i++) {
            bulk_barrier_init(b.full + i * 8, 1);
            bulk_barrier_init(b.empty + i * 8, Form::WARPS);
        }
        bulk_barriers_made();
    }
    __syncthreads();
}

template <int NT> static void mr_whole(const whim_cuda_few_args &a)
{
    mr_block<mr_form<NT>> b(a, false);
    mr_begin(b);
    if (threadIdx.x >= 256) {
        mr_bring(b);
        return;
    }
    for (int item = b.item; item < b.n_item; item += b.by) {
        float total[NT * 4];
        for (int s = 0; s < b.end; s += b.chunk) {
            float c[NT * 4] = {};
            mr_add_chunk<NT>(s + b.chunk < b.end ? b.chunk : b.end - s, &b, c);
#pragma unroll
            for (int i = 0; i < NT * 4; i++) {
                total[i] = s == 0 ? c[i] : total[i] + c[i];
            }
        }
        mr_store<NT>(a, item, total);
    }
}

/* A block adds up the sums of every fourth of the tiles. */
template <int NT> static void mr_split(const whim_cuda_few_args &a)
{
    DYNAMIC_SHARED(128, memory);
    mr_block<mr_form<NT>> b(a, true);
    float4 *kept = (float4 *)memory + threadIdx.x; /* [tile][256]: where the ring was */
    mr_begin(b);
    if (threadIdx.x >= 256) {
        mr_bring(b);
    } else {
        float c[NT * 4] = {};
        mr_add_chunk<NT>(b.end - b.first, &b, c);
        crew_sync<256>();
#pragma unroll
        for (int i = 0; i < NT; i++) {
            kept[i * 256] = make_float4(c[i * 4], c[i * 4 + 1], c[i * 4 + 2], c[i * 4 + 3]);
        }
    }
    __syncwarp();
    cluster_sync();
    int n_stage = (int)a.k / WHIM_CUDA_MM_K, rank = blockIdx.x % WHIM_CUDA_MR_BLOCKS;
    if (threadIdx.x < 256 && threadIdx.x / WARP % 4 * 16 < a.n_row) {
#pragma unroll 1
        for (int i = rank; i < NT; i += WHIM_CUDA_MR_BLOCKS) {
            uint32_t at = (uint32_t)__cvta_generic_to_shared(kept + i * 256);
            float4 v[WHIM_CUDA_MR_BLOCKS];
            float sum[4];
#pragma unroll
            for (int from = 0; from < WHIM_CUDA_MR_BLOCKS; from++) {
                v[from] = cluster_load(at, from);
            }
#pragma unroll
            for (int from = 0; from < WHIM_CUDA_MR_BLOCKS; from++) {
                if (from * b.chunk < n_stage) {
                    sum[0] = from == 0 ? v[from].x : sum[0] + v[from].x;
                    sum[1] = from == 0 ? v[from].y : sum[1] + v[from].y;
                    sum[2] = from == 0 ? v[from].z : sum[2] + v[from].z;
                    sum[3] = from == 0 ? v[from].w : sum[3] + v[from].w;
                }
            }
            mr_store_tile(a, mr_tile_of(a, b.item * NT + i), sum);
        }
    }
    __syncwarp();
    cluster_sync(); /* nobody leaves while others read what it has */
}

#define MR_WHOLE(NT)                                                                 \
    KERNEL_BOUNDED(WHIM_CUDA_MR_THREADS, 1) k_mm_rows_##NT(ARGS(whim_cuda_few_args)) \
    {                                                                                \
        mr_whole<NT>(a);                                                             \
    }
#define MR_SPLIT(NT)                                                                       \
    KERNEL_IN_CLUSTERS(WHIM_CUDA_MR_BLOCKS, WHIM_CUDA_MR_THREADS, 1, k_mm_rows_split_##NT) \
        (ARGS(whim_cuda_few_args))                                                         \
    {                                                                                      \
        mr_split<NT>(a);                                                                   \
    }
#else
/* Never started. */
#define MR_WHOLE(NT)                                \
    KERNEL k_mm_rows_##NT(ARGS(whim_cuda_few_args)) \
    {                                               \
    }
#define MR_SPLIT(NT)                                      \
    KERNEL k_mm_rows_split_##NT(ARGS(whim_cuda_few_args)) \
    {                                                     \
    }
#endif
MR_WHOLE(4)
MR_WHOLE(12)
MR_SPLIT(4)
MR_SPLIT(9)
MR_SPLIT(13)

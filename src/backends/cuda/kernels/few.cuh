/* SPDX-License-Identifier: Apache-2.0 */
/* Products of few rows, where reading the weights is all that counts. The law has one chain of sums
 * for each output, k in order; what can be done beside it is: a block takes one tile of 16 outputs,
 * all its threads fetch weights well ahead, and a thread for each output and row walks the chain.
 * The first weights are asked for before the kernel waits for those that make its rows.
 *
 * Groups of integers: warps take groups in turn and leave their exact dots, made by the matrix unit
 * (16 outputs x 8 rows x 32 k is one instruction), in shared memory; the chain is over the groups.
 * Plain floats: weights and rows come through a ring of stages in shared memory. */
#pragma once
#include "linear.cuh"

/* A product that one launch makes: some outputs of some matrix. */
struct few_place {
    int64_t item, stretch;
    int matrix;
};

struct few_walk {
    int64_t n_item, n_stretch;
    int n_matrix; /* that an item needs: gate and up, or one */
};

static few_walk few_walk_of(const whim_cuda_few_args &a, int64_t n_stretch)
{
    few_walk walk = {0, n_stretch > 0 ? n_stretch : 1, a.swiglu ? 2 : 1};
    for (int i = 0; i < (a.swiglu ? 1 : a.n_matrix); i++) {
        walk.n_item += (a.matrix[i].n + WHIM_CUDA_TILE - 1) / WHIM_CUDA_TILE;
    }
    return walk;
}

static few_place few_next(const few_walk &walk, few_place p)
{
    if (++p.stretch == walk.n_stretch) {
        p.stretch = 0;
        if (++p.matrix == walk.n_matrix) {
            p.matrix = 0;
            p.item += gridDim.x;
        }
    }
    return p;
}

/* The matrix of an item, and which of its tiles. */
static const whim_cuda_matrix &few_matrix(const whim_cuda_few_args &a, const few_place &p,
                                          int64_t *tile)
{
    int i = p.matrix;
    *tile = p.item;
    while (!a.swiglu && i + 1 < a.n_matrix) {
        int64_t n_tile = (a.matrix[i].n + WHIM_CUDA_TILE - 1) / WHIM_CUDA_TILE;
        if (*tile < n_tile) {
            break;
        }
        *tile -= n_tile;
        i++;
    }
    return a.matrix[i];
}

/* A finished sum of a chain; `gate` keeps that of the first of two matrices. */
static void few_store(const whim_cuda_few_args &a, const few_place &p, int lane, int64_t row,
                      float sum, float *gate)
{
    int64_t tile;
    const whim_cuda_matrix &m = few_matrix(a, p, &tile);
    int64_t n = tile * WHIM_CUDA_TILE + lane;
    if (n >= m.n || row >= a.n_row) {
        return;
    }
    float y = m.bias != NULL ? sum + m.bias[n] : sum;
    if (a.swiglu && p.matrix == 0) {
        *gate = y;
        return;
    }
    if (a.swiglu) {
        y = *gate / (1.0f + whim_expf(-*gate)) * y;
    }
    m.y[row * m.y_stride + n] = y;
}

#define FEW(name, how, W, threads, more, blocks)                                      \
    KERNEL_BOUNDED(threads, blocks) k_few_##name##_1(ARGS(whim_cuda_few_args))        \
    {                                                                                 \
        how<W, 1>::run(a);                                                            \
    }                                                                                 \
    KERNEL_BOUNDED(threads + more, blocks) k_few_##name##_8(ARGS(whim_cuda_few_args)) \
    {                                                                                 \
        how<W, WHIM_CUDA_FEW>::run(a);                                                \
    }

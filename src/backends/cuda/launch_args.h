/* SPDX-License-Identifier: Apache-2.0 */
/* What host and device code both know: the form of packed weights and of pages, and the arguments
 * of kernels that get more than their op's. Read by the compiler of either side.
 *
 * A packed matrix is tiles of 16 outputs with all their k, so that half a warp, a thread for each
 * output, reads memory in one stream. In a tile:
 *   FLOAT   [k / V][16] vectors of 16 bytes, V elements each; the last may be partly empty
 *   SCALED  vectors of 16 codes as threads of the matrix unit take them (whim_cuda_scaled_at), then
 *           [k / 128][16] scales in F32, then for each output 0, or NaN if one of its codes is
 *   QUANT   for each group of 32: [vectors of its codes][16], then [16] heads
 * Groups of Q4_0, Q4_1 and Q8_0 are as in the file, apart in codes and head. Those of other types
 * are opened: whim_cuda_wide_head and 32 codes of a byte.
 *
 * A layer's part of a page: keys [n_kv][d_head][page_len], values [n_kv][page_len][d_head], then
 * for Q8 the scales [K|V][n_kv][page_len]. */
#ifndef WHIM_BACKENDS_CUDA_LAUNCH_ARGS_H
#define WHIM_BACKENDS_CUDA_LAUNCH_ARGS_H

#include "ops/args/attn_args.h"
#include "ops/args/draft_args.h"
#include "ops/args/gdn_args.h"
#include "ops/args/linear_args.h"
#include "ops/args/moe_args.h"
#include "ops/args/rope_args.h"
#include "ops/args/row_args.h"
#include "ops/args/sample_args.h"

enum {
    WHIM_CUDA_TILE = 16,   /* outputs of a tile: half a warp, as experts begin at multiples of 16 */
    WHIM_CUDA_VECTOR = 16, /* bytes that a thread loads at once */
    WHIM_CUDA_PAGE = 64,   /* positions in a page */
    WHIM_CUDA_MAX_HEAD = 2048, /* values of a head that attention takes */
    WHIM_CUDA_SCALED_BLOCK = 128,
    WHIM_CUDA_SCAN_FLOATS = 8192,   /* of state in shared memory */
    WHIM_CUDA_PIECE = 1024,         /* columns of a row that a block takes of element-wise ops */
    WHIM_CUDA_FEW = 8,              /* rows of products that few.cuh takes */
    WHIM_CUDA_FEW_K = 16384,        /* columns of a row that it narrows by itself */
    WHIM_CUDA_FEW_THREADS = 160,    /* of a block for one row of plain floats; 32 more for more */
    WHIM_CUDA_MATRICES = 4,         /* products of the same rows in one launch */
    WHIM_CUDA_ATTN_RING = 1 << 16,  /* dynamic shared memory of attention of few rows */
    WHIM_CUDA_ATTN_ITEMS = 1 << 14, /* pairs of row and head of such, at most */
    WHIM_CUDA_ATTN_ENDED = 4 << 14, /* and blocks that count: four of a pair at most */
    WHIM_CUDA_MM_OUTPUTS = 128,     /* outputs that a block of mma.cuh has */
    WHIM_CUDA_MM_K = 64,            /* and columns of a stage */
    WHIM_CUDA_MM_CHUNKS = 4,        /* of k, whose sums are added in order */
    WHIM_CUDA_MQ_ROWS = 64,         /* of a block of many_quant.cuh */
    WHIM_CUDA_MQ_THREADS = 256,     /* and its threads, at most */
    WHIM_CUDA_QW_GROUPS = 4,        /* of a stage of mma_quant.cuh */
    WHIM_CUDA_QW_ROWS = 128,        /* of a block there, of many */
    WHIM_CUDA_QW_THREADS_1 = 160,   /* and its threads, with one group of warps that multiply */
    WHIM_CUDA_QW_THREADS_2 = 384,   /* and with two */
    WHIM_CUDA_MF_ROWS = 8,          /* rows that mma_few.cuh takes */
    WHIM_CUDA_MF_K = 32,            /* and columns of a stage of its */
    WHIM_CUDA_MF_BYTES = 16 << 20,  /* of weights, from which on it is faster than mma.cuh */
    WHIM_CUDA_MR_BYTES = 204 << 10, /* dynamic shared memory of mma_rows.cuh: a norm fits beside */
    WHIM_CUDA_MR_THREADS = 320,     /* and threads of a block */
    WHIM_CUDA_MR_BLOCKS = 4,        /* of a cluster there, one for each chunk of k */
    WHIM_CUDA_PF_THREADS = 256,     /* of a block of mma_fp8_few.cuh */
    WHIM_CUDA_PR_TILES = 12,        /* of a block of mma_fp8_rows.cuh */
    WHIM_CUDA_PR_THREADS = 512,     /* and its threads */
    WHIM_CUDA_MADE = 1 << 20,       /* elements of rows that an op may leave as tiles */
    WHIM_CUDA_MADE_ROWS = 64,       /* and rows: no more than the few that wait for each kernel */
    WHIM_CUDA_TILES_UNIT = 384,     /* of more rows: whole items of 128 and 192 */
    WHIM_CUDA_MOE_FEW = 512,        /* experts of which a warp chooses a row's */
    WHIM_CUDA_MOE_THREADS = 128,    /* of a block that chooses */
    WHIM_CUDA_MF32_TILES = 8,       /* of a block of many_float.cuh */
    WHIM_CUDA_MF32_ROWS = 32,       /* and its rows */
    WHIM_CUDA_EX_FEW = 64,          /* rows of a part of an expert's in mma_experts.cuh */
    WHIM_CUDA_EX_MANY = 160,        /* and of each of two parts there, where rows are many */
    WHIM_CUDA_EX_PAIRS = 128,       /* of row and expert, that every block sorts for itself */
    WHIM_CUDA_EX_SORTERS = 256,     /* threads of it */
    WHIM_CUDA_EX_CHOICES = 8,       /* rows whose experts it chooses, too */
    WHIM_CUDA_EX_THREADS = 384,     /* and threads of a block */
    WHIM_CUDA_SPLIT_THREADS = 256,  /* of a block of split.cuh */
    WHIM_CUDA_SPLIT_ROWS = 128,     /* from which on its keys are put together */
    WHIM_CUDA_MX_HEAD = 128,        /* values of a head that attn_mma.cuh takes */
    WHIM_CUDA_MX_GROUP = 16,        /* heads that share keys, for few rows */
    WHIM_CUDA_MX_PAIRS = 64,        /* pairs of row and head of a block, for many */
    WHIM_CUDA_MW_PAIRS = 128,       /* and of attn_wide.cuh */
    WHIM_CUDA_MW_THREADS = 384,     /* of a block there */
    WHIM_CUDA_MW_STAGES = 4,        /* pages in its shared memory */
    /* Dynamic shared memory of attention by attn_mma.cuh, with heads of up to 128 and 64. */
    WHIM_CUDA_MX_BYTES_128 = 4 * 2 * WHIM_CUDA_PAGE * 128 + 16 * 2 * WHIM_CUDA_PAGE * 2 + 544,
    WHIM_CUDA_MX_BYTES_64 = 4 * 2 * WHIM_CUDA_PAGE * 64 + 16 * 2 * WHIM_CUDA_PAGE * 2 + 544,
    /* Blocks that share a segment in attn_cluster.cuh, and the dynamic shared memory of each. */
    WHIM_CUDA_MC_BLOCKS = 4,
    WHIM_CUDA_MC_BYTES_128 = 2 * 2 * WHIM_CUDA_PAGE * 128 + 512 * 32 * 2 + 2 * 16 * 16 * 4,
    WHIM_CUDA_MC_BYTES_64 = 2 * 2 * WHIM_CUDA_PAGE * 64 + 512 * 16 * 2 + 2 * 16 * 16 * 4,
    /* Dynamic shared memory of few products with plain floats, for one row and for more: 4 stages
     * of weights and of rows. */
    WHIM_CUDA_FEW_STAGES_1 = 4 * (64 * 256 + (64 * 8 + 4) * 4),
    WHIM_CUDA_FEW_STAGES_8 = 4 * (32 * 256 + 8 * (32 * 8 + 4) * 4),
};

/* Columns of a stage of a block of many_float.cuh, its stages, threads and dynamic shared memory;
 * rows have four columns more there. Many GPUs give a block no more than 99 KB. */
#define WHIM_CUDA_MF32_K(n_tile) ((n_tile) == 1 ? 256 : 64)
#define WHIM_CUDA_MF32_STAGES(n_tile) ((n_tile) == 1 ? 4 : 2)
#define WHIM_CUDA_MF32_THREADS(n_tile) ((n_tile) == 1 ? 128 : 256)
#define WHIM_CUDA_MF32_BYTES(n_tile, n_row) \
    (WHIM_CUDA_MF32_STAGES(n_tile) *        \
     ((n_tile)*WHIM_CUDA_MF32_K(n_tile) * 64 + (n_row) * (WHIM_CUDA_MF32_K(n_tile) + 4) * 4))

typedef struct whim_cuda_wide_head {
    float d, m;
    int16_t sc[2], mn[2];
} whim_cuda_wide_head;

/* How groups of a QUANT type are in a tile. */
typedef struct whim_cuda_group_form {
    int32_t head_bytes, code_bytes;
} whim_cuda_group_form;

static inline whim_cuda_group_form whim_cuda_group_form_of(whim_dtype dtype)
{
    whim_cuda_group_form form = {(int32_t)sizeof(whim_cuda_wide_head), 32};
    if (dtype == WHIM_DTYPE_Q4_0 || dtype == WHIM_DTYPE_Q8_0) {
        form.head_bytes = 2;
    } else if (dtype == WHIM_DTYPE_Q4_1) {
        form.head_bytes = 4;
    }
    if (dtype == WHIM_DTYPE_Q4_0 || dtype == WHIM_DTYPE_Q4_1) {
        form.code_bytes = 16;
    }
    return form;
}

/* Groups of a stage of many_quant.cuh, and its stages, by the bytes of a tile's group: so that two
 * blocks have room on a multiprocessor, and one on GPUs where a block may have 99 KB. A row of a
 * group takes 60 bytes. */
#define WHIM_CUDA_MQ_GROUPS(bytes) ((bytes) > 544 ? 2 : 4)
#define WHIM_CUDA_MQ_STAGES(bytes) ((bytes) > 544 ? 5 : (bytes) > 288 ? 3 : 4)

static inline int32_t whim_cuda_mq_bytes(whim_dtype dtype, int32_t threads)
{
    whim_cuda_group_form form = whim_cuda_group_form_of(dtype);
    int32_t bytes = (form.head_bytes + form.code_bytes) * WHIM_CUDA_TILE;
    return WHIM_CUDA_MQ_GROUPS(bytes) * WHIM_CUDA_MQ_STAGES(bytes) *
           (WHIM_CUDA_MQ_ROWS * 60 + threads / 32 * bytes);
}

/* Rows as mma_quant.cuh takes them, in tiles of `rows`: for each group [4][rows] vectors of 8 codes
 * in F16, then [rows] scales and [rows] times a scale and the sum of its codes. */
static inline int32_t whim_cuda_qw_group_bytes(int32_t rows)
{
    return rows * (64 + 2 * 4);
}

static inline int32_t whim_cuda_qw_rows(int64_t n_row)
{
    return n_row <= 32 ? 32 : n_row <= 64 ? 64 : WHIM_CUDA_QW_ROWS;
}

static inline int64_t whim_cuda_qw_tiles_bytes(int64_t n_row, int64_t k)
{
    int64_t rows = whim_cuda_qw_rows(n_row);
    return (n_row + rows - 1) / rows * (k / 32) * whim_cuda_qw_group_bytes((int32_t)rows);
}

/* Stages of a block there, by its tiles: two or three blocks have room on a multiprocessor, or one.
 * And its dynamic shared memory, with two barriers for each stage. */
#define WHIM_CUDA_QW_STAGES(n_tile) ((n_tile) == 4 ? 3 : 4)

static inline int32_t whim_cuda_qw_bytes(whim_dtype dtype, int32_t tiles, int32_t rows)
{
    whim_cuda_group_form form = whim_cuda_group_form_of(dtype);
    int32_t bytes = (form.head_bytes + form.code_bytes) * WHIM_CUDA_TILE;
    int32_t x_bytes = rows * (dtype == WHIM_DTYPE_Q4_1 ? 72 : 68);
    return WHIM_CUDA_QW_STAGES(tiles) * (WHIM_CUDA_QW_GROUPS * (tiles * bytes + x_bytes) + 2 * 8);
}

/* Where column i of lane `lane` of a tile of plain floats lies, in bytes. */
static inline int64_t whim_cuda_float_at(int64_t elem_bytes, int64_t lane, int64_t i)
{
    int64_t per = WHIM_CUDA_VECTOR / elem_bytes;
    return (i / per * WHIM_CUDA_TILE + lane) * WHIM_CUDA_VECTOR + i % per * elem_bytes;
}

/* Bytes of a tile of FP8. */
static inline int64_t whim_cuda_scaled_bytes(int64_t k)
{
    return k / WHIM_CUDA_SCALED_BLOCK * WHIM_CUDA_TILE * (WHIM_CUDA_SCALED_BLOCK + 4) +
           WHIM_CUDA_TILE * 4;
}

/* Where the code of column i of lane `lane` is in a tile of FP8. In 64 columns a thread q of four
 * has those that it gives to the matrix unit, four of each 16: 2 q, 2 q + 1, and these + 8. They
 * are a word, in which the first two are bytes 1 and 3, the others 0 and 2: the upper halves of two
 * numbers of 16 bits, as they are or moved by 8. */
static inline int64_t whim_cuda_scaled_at(int64_t lane, int64_t i)
{
    int64_t in_16 = i % 16, q = in_16 % 8 / 2;
    return ((i / 64 * WHIM_CUDA_TILE + lane) * 4 + q) * WHIM_CUDA_VECTOR + i % 64 / 16 * 4 +
           in_16 % 2 * 2 + (in_16 < 8);
}

/* Stages of a warp's ring in mma_few.cuh, by the tiles of an item, and the dynamic shared memory of
 * a block. Deep (where there is mma_wide.cuh): nearly all that a multiprocessor has, so that no two
 * blocks meet on one, and much of the weights comes while the kernel before still runs. Elsewhere
 * less is to be had. */
#define WHIM_CUDA_MF_STAGES(n_tile, deep) \
    ((deep) ? (n_tile) == 2 ? 20 : (n_tile) == 3 ? 14 : 11 : (n_tile) == 2 ? 7 : 5)

static inline int32_t whim_cuda_mf_bytes(int32_t n_tile, bool deep)
{
    return WHIM_CUDA_MM_CHUNKS * WHIM_CUDA_MF_STAGES(n_tile, deep) * WHIM_CUDA_MF_K *
           (n_tile * WHIM_CUDA_TILE + WHIM_CUDA_MF_ROWS) * 2;
}

/* The same of mma_fp8_few.cuh, whose stages are blocks with their scales, of half of the tiles.
 * Only two tiles fit where it is not deep. */
#define WHIM_CUDA_PF_STAGES(n_tile, deep) ((deep) ? (n_tile) == 2 ? 6 : 4 : 2)

static inline int32_t whim_cuda_pf_bytes(int32_t n_tile, bool deep)
{
    return WHIM_CUDA_PF_THREADS / 32 * WHIM_CUDA_PF_STAGES(n_tile, deep) *
           ((n_tile + 1) / 2 * WHIM_CUDA_TILE * (WHIM_CUDA_SCALED_BLOCK + 4) +
            WHIM_CUDA_SCALED_BLOCK * WHIM_CUDA_MF_ROWS * 2);
}

/* Of attn_wide.cuh: pages, their barriers and sums, and what may be lost at the beginning. */
static inline int32_t whim_cuda_mw_bytes(int32_t d_head)
{
    return WHIM_CUDA_MW_STAGES * (4 * WHIM_CUDA_PAGE * d_head + 16) +
           WHIM_CUDA_MW_PAIRS * d_head * 4 + 1024;
}

/* The same of mma_bulk.cuh, by the rows of an item, with two barriers for each stage. */
#define WHIM_CUDA_BULK_STAGES(n_row) ((n_row) == 192 ? 5 : 6)

static inline int32_t whim_cuda_bulk_bytes(int32_t n_row)
{
    return WHIM_CUDA_BULK_STAGES(n_row) *
           ((WHIM_CUDA_MM_OUTPUTS + n_row) * WHIM_CUDA_MM_K * 2 + 2 * 8);
}

/* And of mma_fp8_bulk.cuh, which keeps sums of 256 threads beside them. */
#define WHIM_CUDA_PB_STAGES 6

static inline int32_t whim_cuda_pb_bytes(int32_t n_row)
{
    return WHIM_CUDA_PB_STAGES * ((WHIM_CUDA_MM_OUTPUTS + 2 * n_row) * WHIM_CUDA_MM_K + 2 * 8) +
           256 * n_row / 2 * 4;
}

/* Dynamic shared memory of a block of mma.cuh that has n_col rows: stages of weights and rows. */
static inline int32_t whim_cuda_mm_bytes(int32_t n_col)
{
    int32_t n_stage = n_col <= 16 ? 5 : n_col <= 64 ? 4 : 3;
    return n_stage * (WHIM_CUDA_MM_OUTPUTS + n_col) * WHIM_CUDA_MM_K * 2;
}

/* Columns of a value head's state that a block of the scan holds in WHIM_CUDA_SCAN_FLOATS. */
static inline int64_t whim_cuda_scan_columns(int64_t d_key)
{
    return d_key <= WHIM_CUDA_SCAN_FLOATS / 32 ? 32 : WHIM_CUDA_SCAN_FLOATS / WHIM_GDN_MAX_DIM;
}

typedef struct whim_cuda_linear_args {
    whim_linear_args op;
    const whim_q8_block *blocks; /* [n_row, k / 32]: the rows, for QUANT types */
} whim_cuda_linear_args;

/* Where an op leaves its rows as tiles, too (whim_cuda_made), and the rows of a tile. */
typedef struct whim_cuda_left {
    uint16_t *tiles; /* or NULL */
    int32_t rows;
} whim_cuda_left;

typedef struct whim_cuda_rmsnorm_args {
    whim_rmsnorm_args op;
    whim_cuda_left left;
} whim_cuda_rmsnorm_args;

typedef struct whim_cuda_add_rmsnorm_args {
    whim_add_rmsnorm_args op;
    whim_cuda_left left;
} whim_cuda_add_rmsnorm_args;

/* A split whose k and v are stored at once, or (split.cuh) not: without slots. */
typedef struct whim_cuda_split_args {
    whim_split_qkv_rmsnorm_rope_args split;
    whim_kv_write_args store;
} whim_cuda_split_args;

/* Attention of few rows. */
typedef struct whim_cuda_attn_args {
    whim_attn_paged_args op;
    whim_cuda_left left;
    float *parts;      /* [n_row * n_head, n_segment, 2 + d_head] */
    int32_t *ended;    /* [WHIM_CUDA_ATTN_ENDED] zeros, which are zeros again afterwards */
    int64_t n_segment; /* that there is room for */
} whim_cuda_attn_args;

/* Products of the same rows with some matrices of one form: few rows, or with BF16 any. */
typedef struct whim_cuda_matrix {
    const void *data;
    const float *bias; /* [n], or NULL */
    float *y;          /* [n_row, n] */
    int64_t y_stride, n;
} whim_cuda_matrix;

typedef struct whim_cuda_few_args {
    whim_cuda_matrix matrix[WHIM_CUDA_MATRICES];
    int32_t n_matrix;
    int32_t swiglu;  /* two matrices, gate and up; y of the second is silu(gate) * up */
    int32_t has_min; /* groups of a QUANT type */
    const float *x;
    const whim_q8_block *blocks; /* [n_row, k / 32] for QUANT types, but for one row */
    void *tiles;                 /* the rows as whim_cuda_tiles_args makes them, for BF16, or
                                  * for mma_quant.cuh (whim_cuda_qw_group_bytes) */
    whim_cuda_left left;         /* of what SwiGLU gives */
    int64_t x_stride, n_row, k;
} whim_cuda_few_args;

/* Rows as BF16, in tiles of 16 as matrices of that type: [n_row / 16][k / 8][16] vectors of 8, or
 * for mma_bulk.cuh and mma_rows.cuh of as many as an item has. k is filled up to a multiple of
 * WHIM_CUDA_MM_K with zeros; rows beyond the last have any values. */
typedef struct whim_cuda_tiles_args {
    const float *x;
    int64_t x_stride, n_row, k;
    void *tiles;
    int32_t rows; /* of a tile */
} whim_cuda_tiles_args;

/* Where column i of row r is in tiles of `rows`, in elements. */
static inline int64_t whim_cuda_tiles_at(int32_t rows, int64_t k, int32_t r, int32_t i)
{
    int64_t n_octet = (k + WHIM_CUDA_MM_K - 1) / WHIM_CUDA_MM_K * (WHIM_CUDA_MM_K / 8);
    return ((r / rows * n_octet + i / 8) * rows + r % rows) * 8 + i % 8;
}

static inline int64_t whim_cuda_tiles_bytes(int64_t n_row, int64_t k)
{
    int64_t unit = n_row > WHIM_CUDA_MADE_ROWS ? WHIM_CUDA_TILES_UNIT : WHIM_CUDA_TILE;
    int64_t rows = (n_row + unit - 1) / unit * unit;
    return rows * ((k + WHIM_CUDA_MM_K - 1) / WHIM_CUDA_MM_K) * WHIM_CUDA_MM_K * 2;
}

/* Products of rows with experts of a stack: y[p] = row p / per of x times expert ids[p]. Pairs with
 * an id outside 0 .. n_expert - 1 are left alone. */
typedef struct whim_cuda_pairs_args {
    whim_weight w; /* the stack */
    const void *x; /* rows of F32, or for QUANT types blocks, dense */
    int64_t x_stride;
    const int32_t *ids; /* [n_pair] */
    float *y;           /* [n_pair, n], dense */
    int64_t n_pair, per, n_expert;
    int64_t n; /* outputs of an expert */
} whim_cuda_pairs_args;

/* Experts by mma_experts.cuh. Pairs of row and expert get slots, an expert's beside each other, and
 * are cut into items of `blocks` parts with n rows each; the last ones may be nobody's. A part's
 * rows are a tile [k / 8][n] of vectors of 8, first * k elements from the beginning. */
typedef struct whim_cuda_experts_item {
    int32_t expert, first, n; /* the first of its slots, and rows of a part */
    int32_t unused;           /* to 16 bytes */
} whim_cuda_experts_item;

typedef struct whim_cuda_experts_plan {
    int32_t *n_item;
    whim_cuda_experts_item *items;
    int32_t *pair; /* of each slot, or -1 */
    int32_t blocks;
} whim_cuda_experts_plan;

typedef struct whim_cuda_experts_args {
    whim_cuda_experts_plan plan;
    const int32_t *ids; /* [n_pair] */
    int64_t n_pair, per, n_expert;
    const float *x; /* rows, for pairs p / per */
    int64_t x_stride;
    const void *w[2];      /* stacks: gate and up, or down alone */
    const uint16_t *tiles; /* of the product's rows */
    uint16_t *left;        /* of what SwiGLU gives */
    float *y;              /* [n_pair, n], dense: of down */
    int64_t k, n, n_unit;  /* n outputs; n_unit tiles from an expert to the next */
} whim_cuda_experts_args;

/* With the choice that is still to be made; none: n_row is 0. */
typedef struct whim_cuda_experts_sort_args {
    whim_cuda_experts_args experts;
    whim_moe_topk_args choice;
} whim_cuda_experts_sort_args;

/* Rows of a part that n of them are filled up to. */
static inline int32_t whim_cuda_experts_rows(int32_t n)
{
    return n <= 8 ? 8 : (n + 15) / 16 * 16;
}

/* Items and slots, at most. */
static inline int64_t whim_cuda_experts_items(int64_t n_pair, int64_t n_expert)
{
    return (n_pair < n_expert ? n_pair : n_expert) + n_pair / WHIM_CUDA_EX_FEW;
}

static inline int64_t whim_cuda_experts_slots(int64_t n_pair, int64_t n_expert)
{
    return n_pair + 2 * 16 * whim_cuda_experts_items(n_pair, n_expert);
}

/* Stages of a block there, and its dynamic shared memory: weights and rows, two barriers each. */
#define WHIM_CUDA_EX_STAGES(n_row) ((n_row) == WHIM_CUDA_EX_FEW ? 8 : 4)

static inline int32_t whim_cuda_experts_bytes_of(int32_t n_row)
{
    int32_t outputs = WHIM_CUDA_MM_OUTPUTS * (n_row == WHIM_CUDA_EX_FEW ? 1 : 2);
    return WHIM_CUDA_EX_STAGES(n_row) * ((outputs + n_row) * WHIM_CUDA_MM_K * 2 + 2 * 8);
}

/* What the experts of rows gave, added up. */
typedef struct whim_cuda_moe_sum_args {
    whim_moe_experts_args op;
    const float *out; /* [n_row, k_top, d] */
} whim_cuda_moe_sum_args;

typedef struct whim_cuda_sample_args {
    whim_sample_args op;
    void *space; /* whim_sample_slot_bytes(n_col) for each block; rows take turns */
} whim_cuda_sample_args;

#endif

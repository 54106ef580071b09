/* SPDX-License-Identifier: Apache-2.0 */
/* How moe_experts is cut into work. A pair is a row and one of its experts. Pairs are put in the
 * order of their experts; each has a place there. Places of one expert form segments of at most
 * `chunk` rows, which are multiplied with the expert's tiles together; a segment begins at an even
 * place, because int8 rows may are in twos.
 *
 * The op's workspace holds the plan, then three regions by place:
 *   wide  [place, d_model]            rows of x as the product takes them; later the results of
 *   down act   [place, d_ff]               silu(gate) * up
 *   side  [place, d_ff]               act as the product takes it; before that the up product, if
 *   apart
 * Threads: the plan is made by one worker; after a barrier it is read-only. */
#ifndef WHIM_BACKENDS_CPU_MOE_PLAN_H
#define WHIM_BACKENDS_CPU_MOE_PLAN_H

#include "backends/cpu/kernels.h"

typedef struct whim_moe_segment {
    int32_t expert, rows;
    int32_t place; /* of its first row */
    int32_t block; /* blocks of WHIM_MOE_BLOCK rows before it */
    int64_t cost;  /* of one tile of all segments before it */
} whim_moe_segment;

enum { WHIM_MOE_BLOCK = 16 };

typedef struct whim_moe_plan {
    int64_t n_segment, n_block;
    int64_t cost; /* of one tile of all segments */
} whim_moe_plan;

/* What a command of moe_experts gets. */
typedef struct whim_cpu_moe_args {
    whim_moe_experts_args op;
    void *space; /* whim_cpu_moe_space_bytes */
    /* of PRODUCT and NARROW */
    uint8_t of;      /* whim_moe_of: which product */
    bool apart;      /* gate and up one after the other, because their types differ */
    uint16_t unused; /* keeps the size a multiple of the alignment */
} whim_cpu_moe_args;

/* Bytes of scratch for one narrow row of k: int8 with its twin, or BF16. */
#define WHIM_CPU_MOE_ONE(k) (((k) + 31) / 32 * 32 * 4 + 128)

typedef enum whim_moe_of { WHIM_MOE_GATE, WHIM_MOE_UP, WHIM_MOE_DOWN } whim_moe_of;

/* Where everything is in the workspace. */
typedef struct whim_moe_regions {
    whim_moe_plan *plan;
    whim_moe_segment *segments;
    int32_t *place;  /* [n_row, k_top]: of each pair, -1 for none */
    int32_t *source; /* [places]: row of x */
    float *wide, *act, *side;
} whim_moe_regions;

whim_moe_regions whim_moe_regions_of(const whim_cpu_moe_args *m);

/* Places of pairs at most, with room to fill up every expert's to an even number. */
int64_t whim_moe_places(const whim_moe_experts_args *a);

/* Bytes of workspace for all of them. */
int64_t whim_cpu_moe_space_bytes(const whim_moe_experts_args *a);

/* Make the plan. `count`: n_expert numbers of the caller's. */
void whim_moe_plan_make(const whim_cpu_moe_args *m, int64_t chunk, int32_t *count);

/* The segment that unit `unit` of the work on `n_step` steps of tiles for each segment is in: the
 * last that begins at or before it. */
int64_t whim_moe_segment_at(const whim_moe_regions *space, int64_t n_step, int64_t unit);

/* The same for a block of rows. */
int64_t whim_moe_segment_of_block(const whim_moe_regions *space, int64_t block);

/* What a step of tiles costs: multiplying `rows` rows, and fetching the tile, which is worth about
 * eight. */
static inline int64_t whim_moe_cost(const whim_moe_segment *s)
{
    return s->rows + 8;
}

#endif

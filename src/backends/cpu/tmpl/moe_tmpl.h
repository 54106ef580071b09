/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of moe_experts, shared by all levels: the products are those of product_tmpl.h, on
 * the rows of one expert at a time. moe_plan.h says how the work is cut. Included once per level
 * after product_tmpl.h. */
#include "backends/cpu/moe_plan.h"

/* y += weight * x */
static void moe_join(float weight, const float *x, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = whim_fmaf(weight, x[i], y[i]);
    }
}

/* One of the three products for an expert. */
static const whim_weight *moe_stack(const whim_moe_experts_args *op, whim_moe_of of)
{
    return of == WHIM_MOE_GATE ? &op->gate : of == WHIM_MOE_UP ? &op->up : &op->down;
}

static int64_t moe_outputs(const whim_moe_experts_args *op, whim_moe_of of)
{
    return of == WHIM_MOE_DOWN ? op->gate.k : op->down.k;
}

/* The product of `rows` rows with expert e, without its rows; y is what the caller makes it. */
static whim_cpu_product_args moe_product(const whim_moe_experts_args *op, whim_moe_of of,
                                         bool joined, int64_t e, int64_t rows)
{
    const whim_weight *w = moe_stack(op, of);
    int64_t n = moe_outputs(op, of), tile = e * whim_moe_pitch(n) / WHIM_CPU_TILE;
    int64_t at = tile * whim_cpu_tile_bytes(&LEVEL_TABLE, w->dtype, w->k);
    return (whim_cpu_product_args){
        .w = {.dtype = w->dtype, .n = n, .k = w->k, .data = (const char *)w->data + at},
        .up = joined ? (const char *)op->up.data + at : NULL,
        .y_stride = n,
        .n_row = rows,
    };
}

/* --- one row ---------------------------------------------------------------------------------- */

/* Where narrow rows are in a worker's scratch: after what products use themselves. */
enum { MOE_ONE_AT = 2 * (int)OUT_BYTES + (int)FP8_ROOM };
_Static_assert((int)MOE_ONE_AT <= WHIM_CPU_SCRATCH / 2, "the other half is for narrow rows");

/* One row as a product takes it: in `memory`, or as it is. */
static product_source moe_one_source(const whim_weight *w, const void *x, whim_act x_type,
                                     void *memory)
{
    product_source from = {.x = x_type == WHIM_ACT_F32 ? x : NULL, .x_stride = w->k};
    whim_cpu_quantize_args narrow = {
        .x = x, .x_stride = w->k, .x_type = x_type, .n_row = 1, .k = w->k};
    if (whim_cpu_form_of(w->dtype) != NULL) {
        from.act = whim_cpu_act_at(PRODUCT_ORDER, memory, 1, w->k);
        act_quantize(&narrow, &from.act, 0, act_items(&narrow));
    } else if (takes_bf16(w->dtype)) {
        from.bf16 = memory;
        act_round(&narrow, memory, 0, whim_cpu_bf16_steps(w->k));
    } else if (x_type != WHIM_ACT_F32) {
        from.x = act_floats(&narrow, 0, 0, w->k, memory);
    }
    return from;
}

/* The row's experts that exist, by their place in its list. */
static int64_t moe_one_valid(const whim_moe_experts_args *op, int32_t valid[WHIM_TOPK_MAX])
{
    int64_t n = 0;
    for (int32_t j = 0; j < op->k_top; j++) {
        if (op->ids[j] >= 0 && op->ids[j] < op->n_expert) {
            valid[n++] = j;
        }
    }
    return n;
}

/* Every worker makes the narrow row for itself and takes a share of the tiles of all its
 * experts. */
static void moe_one_up_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_cpu_moe_args *m = args;
    const whim_moe_experts_args *op = &m->op;
    whim_moe_regions space = whim_moe_regions_of(m);
    int32_t valid[WHIM_TOPK_MAX];
    int64_t n_valid = moe_one_valid(op, valid);
    char *memory = (char *)worker->scratch + MOE_ONE_AT;
    product_source from = moe_one_source(&op->gate, op->x, op->x_type, memory);
    whim_cpu_product_args any = moe_product(op, WHIM_MOE_GATE, true, 0, 1);
    product_items items = product_items_of(&any);
    whim_cpu_claim claim = whim_cpu_claim_open(worker, n_valid * items.n_step);
    while (whim_cpu_claim_next(&claim)) {
        for (int64_t at = claim.begin, n; at < claim.end; at += n) {
            int64_t i = at / items.n_step, step = at % items.n_step;
            n = items.n_step - step < claim.end - at ? items.n_step - step : claim.end - at;
            whim_cpu_product_args p = moe_product(op, WHIM_MOE_GATE, true, op->ids[valid[i]], 1);
            p.y = space.act + i * op->down.k;
            product_job job = product_job_of(&p, &from, worker);
            product_run(&p, &items, &from, &job, NULL, step, step + n);
        }
    }
    PRODUCT_END();
}

enum {
    MOE_RUN = 32
}; /* steps of one expert before the next: long enough to read memory in one stream */

/* Outputs of steps begin .. end - 1: the experts one after the other, added up in their order. */
static void moe_one_sum(const whim_moe_experts_args *op, const int32_t *valid, int64_t n_valid,
                        const product_source *from, const product_items *items, int64_t begin,
                        int64_t end, const whim_cpu_worker *worker)
{
    int64_t width = items->tiles * WHIM_CPU_TILE, n0 = begin * width;
    int64_t n = op->gate.k - n0 < (end - begin) * width ? op->gate.k - n0 : (end - begin) * width;
    float out[2 * MOE_RUN * WHIM_CPU_TILE], *y = op->y + n0;
    bool apart = op->weights == NULL;
    for (int64_t j = 0; j < (apart ? op->k_top : 1); j++) {
        memset(y + j * op->gate.k, 0, (size_t)n * sizeof *y);
    }
    for (int64_t i = 0; i < n_valid; i++) {
        whim_cpu_product_args p = moe_product(op, WHIM_MOE_DOWN, false, op->ids[valid[i]], 1);
        p.w.data = (const char *)p.w.data + begin * items->tiles * items->tile_bytes;
        p.w.n = n;
        p.y = apart ? y + valid[i] * op->gate.k : out;
        product_items part = product_items_of(&p);
        product_job job = product_job_of(&p, &from[i], worker);
        product_run(&p, &part, &from[i], &job, NULL, 0, end - begin);
        if (!apart) {
            moe_join(op->weights[valid[i]], out, y, n);
        }
    }
}

static void moe_one_down_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_cpu_moe_args *m = args;
    const whim_moe_experts_args *op = &m->op;
    whim_moe_regions space = whim_moe_regions_of(m);
    int32_t valid[WHIM_TOPK_MAX];
    product_source from[WHIM_TOPK_MAX];
    int64_t n_valid = moe_one_valid(op, valid);
    for (int64_t i = 0; i < n_valid; i++) {
        char *memory = (char *)worker->scratch + MOE_ONE_AT + i * WHIM_CPU_MOE_ONE(op->down.k);
        from[i] = moe_one_source(&op->down, space.act + i * op->down.k, WHIM_ACT_F32, memory);
    }
    whim_cpu_product_args any = moe_product(op, WHIM_MOE_DOWN, false, 0, 1);
    product_items items = product_items_of(&any);
    whim_cpu_claim claim = whim_cpu_claim_open(worker, items.n_step);
    while (whim_cpu_claim_next(&claim)) {
        for (int64_t at = claim.begin; at < claim.end; at += MOE_RUN) {
            int64_t end = claim.end - at < MOE_RUN ? claim.end : at + MOE_RUN;
            moe_one_sum(op, valid, n_valid, from, &items, at, end, worker);
        }
    }
    PRODUCT_END();
}

/* --- many rows -------------------------------------------------------------------------------- */

static void moe_plan_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_cpu_moe_args *m = args;
    if (worker->index != 0) {
        return;
    }
    int64_t chunk = CHUNK_ROWS;
    for (int of = WHIM_MOE_GATE; of <= WHIM_MOE_DOWN; of++) {
        whim_cpu_product_args p = moe_product(&m->op, (whim_moe_of)of, false, 0, 1);
        int64_t rows = chunk_rows(&p);
        chunk = rows < chunk ? rows : chunk;
    }
    whim_moe_plan_make(m, chunk, worker->scratch);
}

/* Rows from `place` on as a product takes them. */
static product_source moe_source(const whim_moe_experts_args *op, whim_moe_of of,
                                 const whim_moe_regions *space, int64_t place)
{
    const whim_weight *w = moe_stack(op, of);
    char *memory = (char *)(of == WHIM_MOE_DOWN ? space->side : space->wide);
    float *plain = of == WHIM_MOE_DOWN ? space->act : space->wide;
    product_source from = {.x = plain + place * w->k, .x_stride = w->k};
    if (whim_cpu_form_of(w->dtype) != NULL) {
        int64_t places = whim_moe_places(op);
        whim_cpu_act act = whim_cpu_act_at(PRODUCT_ORDER, memory, places + places % 2, w->k);
        from.act.q = act.q + place * w->k;
        from.act.meta = act.meta + place * (w->k / WHIM_GROUP);
    } else if (takes_bf16(w->dtype)) {
        from.bf16 = (uint16_t *)memory + place * whim_cpu_bf16_steps(w->k) * WHIM_GROUP;
    }
    return from;
}

/* Rows r0 .. r1 - 1 of a segment, r0 a multiple of 16. */
static void moe_narrow_rows(const whim_moe_experts_args *op, whim_moe_of of,
                            const whim_moe_regions *space, const whim_moe_segment *seg, int64_t r0,
                            int64_t r1)
{
    int64_t k = moe_stack(op, of)->k;
    product_source to = moe_source(op, of, space, seg->place);
    whim_cpu_quantize_args from = {.x = op->x,
                                   .x_stride = op->x_stride,
                                   .x_type = op->x_type,
                                   .n_row = seg->rows,
                                   .k = k,
                                   .rows = space->source + seg->place};
    if (of == WHIM_MOE_DOWN) {
        from.x = space->act + seg->place * k;
        from.x_stride = k;
        from.x_type = WHIM_ACT_F32;
        from.rows = NULL;
    }
    if (to.act.q != NULL) {
        int64_t n_group = k / WHIM_GROUP;
        act_quantize(&from, &to.act, r0 / ACT_ROWS * n_group,
                     (r1 + ACT_ROWS - 1) / ACT_ROWS * n_group);
    } else if (to.bf16 != NULL) {
        int64_t steps = whim_cpu_bf16_steps(k);
        act_round(&from, (uint16_t *)to.bf16, r0 * steps, r1 * steps);
    } else {
        for (int64_t r = r0; r < r1; r++) {
            float *row = (float *)to.x + r * k;
            if (from.x_type == WHIM_ACT_F32) {
                memcpy(row, act_source(&from, r, 0), (size_t)k * sizeof *row);
            } else {
                whim_act_load(from.x_type, act_source(&from, r, 0), row, k);
            }
        }
    }
}

static void moe_narrow_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_cpu_moe_args *m = args;
    whim_moe_regions space = whim_moe_regions_of(m);
    whim_cpu_claim claim = whim_cpu_claim_open(worker, space.plan->n_block);
    while (whim_cpu_claim_next(&claim)) {
        int64_t s = whim_moe_segment_of_block(&space, claim.begin);
        for (int64_t block = claim.begin; block < claim.end; block++) {
            const whim_moe_segment *seg = &space.segments[s];
            int64_t r0 = (block - seg->block) * WHIM_MOE_BLOCK, r1 = r0 + WHIM_MOE_BLOCK;
            moe_narrow_rows(&m->op, (whim_moe_of)m->of, &space, seg, r0,
                            r1 < seg->rows ? r1 : seg->rows);
            s += r1 >= seg->rows;
        }
    }
}

static int64_t moe_ceil(int64_t a, int64_t b)
{
    return a <= 0 ? 0 : (a + b - 1) / b;
}

/* Steps begin .. end - 1 of a segment's product. */
static void moe_product_steps(const whim_cpu_moe_args *m, const whim_moe_regions *space,
                              const whim_moe_segment *seg, int64_t begin, int64_t end,
                              const whim_cpu_worker *worker)
{
    whim_moe_of of = (whim_moe_of)m->of;
    bool joined = of == WHIM_MOE_GATE && !m->apart;
    whim_cpu_product_args p = moe_product(&m->op, of, joined, seg->expert, seg->rows);
    float *y = of == WHIM_MOE_GATE ? space->act : of == WHIM_MOE_UP ? space->side : space->wide;
    p.y = y + seg->place * p.y_stride;
    product_source from = moe_source(&m->op, of, space, seg->place);
    product_items items = product_items_of(&p);
    product_job job = product_job_of(&p, &from, worker);
    product_run(&p, &items, &from, &job, NULL, begin, end);
}

/* Shared by what steps cost: a step is done by who holds the unit that it begins at. */
static void moe_product_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_cpu_moe_args *m = args;
    whim_moe_regions space = whim_moe_regions_of(m);
    bool joined = m->of == WHIM_MOE_GATE && !m->apart;
    whim_cpu_product_args any = moe_product(&m->op, (whim_moe_of)m->of, joined, 0, 1);
    int64_t n_step = product_items_of(&any).n_step;
    whim_cpu_claim claim = whim_cpu_claim_open(worker, space.plan->cost * n_step);
    while (whim_cpu_claim_next(&claim)) {
        int64_t s = whim_moe_segment_at(&space, n_step, claim.begin);
        for (; s < space.plan->n_segment; s++) {
            const whim_moe_segment *seg = &space.segments[s];
            int64_t cost = whim_moe_cost(seg), unit = seg->cost * n_step;
            if (unit >= claim.end) {
                break;
            }
            int64_t begin = moe_ceil(claim.begin - unit, cost),
                    end = moe_ceil(claim.end - unit, cost);
            end = end < n_step ? end : n_step;
            if (begin < end) {
                moe_product_steps(m, &space, seg, begin, end, worker);
            }
        }
    }
    PRODUCT_END();
}

static void moe_swiglu_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_cpu_moe_args *m = args;
    whim_moe_regions space = whim_moe_regions_of(m);
    int64_t ff = m->op.down.k;
    whim_cpu_claim claim = whim_cpu_claim_open(worker, space.plan->n_segment);
    while (whim_cpu_claim_next(&claim)) {
        for (int64_t s = claim.begin; s < claim.end; s++) {
            const whim_moe_segment *seg = &space.segments[s];
            float *gate = space.act + seg->place * ff;
            swiglu_row(gate, space.side + seg->place * ff, gate, seg->rows * ff);
        }
    }
}

/* A row's results: added up, or each for itself. */
static void moe_end_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_cpu_moe_args *m = args;
    const whim_moe_experts_args *op = &m->op;
    whim_moe_regions space = whim_moe_regions_of(m);
    enum { PIECE = 512 };
    bool apart = op->weights == NULL;
    int64_t d = op->gate.k, pieces = (d + PIECE - 1) / PIECE, begin, end;
    whim_cpu_share(worker, op->n_row * pieces, &begin, &end);
    for (int64_t item = begin; item < end; item++) {
        int64_t r = item / pieces, at = item % pieces * PIECE;
        int64_t n = d - at < PIECE ? d - at : PIECE;
        float *y = op->y + r * op->y_stride + at;
        for (int64_t j = 0; j < op->k_top; j++) {
            int64_t pair = r * op->k_top + j, place = space.place[pair];
            const float *out = space.wide + place * d + at;
            if (apart || j == 0) {
                memset(y + j * d, 0, (size_t)n * sizeof *y);
            }
            if (place >= 0 && apart) {
                memcpy(y + j * d, out, (size_t)n * sizeof *y);
            } else if (place >= 0) {
                moe_join(op->weights[pair], out, y, n);
            }
        }
    }
}

#define MOE_KERNELS                                                                           \
    [WHIM_CPU_MOE_ONE_UP] = moe_one_up_kernel, [WHIM_CPU_MOE_ONE_DOWN] = moe_one_down_kernel, \
    [WHIM_CPU_MOE_PLAN] = moe_plan_kernel, [WHIM_CPU_MOE_NARROW] = moe_narrow_kernel,         \
    [WHIM_CPU_MOE_PRODUCT] = moe_product_kernel, [WHIM_CPU_MOE_SWIGLU] = moe_swiglu_kernel,   \
    [WHIM_CPU_MOE_END] = moe_end_kernel

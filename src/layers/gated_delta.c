/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors and pass of a gated delta net. */
#include "layers/gated_delta.h"

#include "layers/projection.h"
#include "layers/ranks/cut_rows.h"
#include "ops/ops.h"

static int64_t key_width(const whim_gdn_config *c)
{
    return (int64_t)c->n_key * c->d_key;
}

static int64_t value_width(const whim_gdn_config *c)
{
    return (int64_t)c->n_value * c->d_value;
}

/* Value heads of a key head; 0 on a rank without heads. */
static int64_t values_per_key(const whim_gdn_config *c)
{
    return c->n_key > 0 ? c->n_value / c->n_key : 0;
}

static int64_t conv_width(const whim_gdn_config *c)
{
    return 2 * key_width(c) + value_width(c);
}

/* A layer's part of a slot: S, then the rows of the convolution. */
static int64_t scan_bytes(const whim_gdn_config *c)
{
    return value_width(c) * c->d_key * (int64_t)sizeof(float);
}

whim_gdn_config whim_gated_delta_cut(const whim_gdn_config *c, int32_t n_rank, int32_t rank)
{
    whim_gdn_config own = *c;
    if (c->n_key > 0) {
        own.n_key = (int32_t)whim_part_of(c->n_key, n_rank, rank).n;
        own.n_value = c->n_value / c->n_key * own.n_key;
    }
    return own;
}

int64_t whim_gated_delta_state_bytes(const whim_gdn_config *c)
{
    int64_t bytes = scan_bytes(c) + (c->n_tap - 1) * conv_width(c) * (int64_t)sizeof(float);
    return whim_aligned(bytes > 0 ? bytes : 1);
}

int64_t whim_gated_delta_kept_bytes(const whim_gdn_config *c, int64_t n_row)
{
    int64_t row = n_row * (int64_t)sizeof(float);
    return whim_aligned(row * conv_width(c)) + 2 * whim_aligned(row * c->n_value);
}

/* After "layers.N.linear_attn."; lists end with one without a name. */
typedef struct named_param {
    const char *name;
    whim_param param;
    const whim_part *runs; /* rows that the rank has, where the model is cut; NULL: all */
    int32_t n_run;
} named_param;

/* Rows that the binder's rank has, by what a row is of. */
typedef struct gdn_rows {
    whim_part conv[3]; /* q, k and v */
    whim_part values;  /* value heads' rows */
    whim_part heads;   /* value heads */
    whim_part qkvz;    /* of a fused tensor, by key head */
    whim_part ba;      /* the same */
} gdn_rows;

static gdn_rows rows_of(const whim_gdn_config *c, const whim_binder *binder)
{
    int32_t n_rank = binder->n_rank > 1 ? binder->n_rank : 1;
    int64_t per = c->n_value / c->n_key, group = 2 * c->d_key + 2 * per * c->d_value;
    whim_part keys = whim_part_of(c->n_key, n_rank, binder->rank);
    whim_part q = whim_part_times(keys, c->d_key), v = whim_part_times(keys, per * c->d_value);
    int64_t wide = key_width(c);
    return (gdn_rows){.conv = {q, {wide + q.at, q.n}, {2 * wide + v.at, v.n}},
                      .values = v,
                      .heads = whim_part_times(keys, per),
                      .qkvz = whim_part_times(keys, group),
                      .ba = whim_part_times(keys, 2 * per)};
}

/* Value heads of `size` rows from row `first` on, as the file has them. */
static whim_head_order value_order(const whim_gdn_config *c, int64_t first, int64_t size)
{
    return (whim_head_order){.first = first,
                             .at = first,
                             .size = c->tiled ? size : 0,
                             .n_per = values_per_key(c),
                             .group_step = 1,
                             .head_step = c->n_key};
}

/* b or a out of one tensor that has, for each key head, b of its value heads and then a of them. */
static whim_head_order ba_order(const whim_gdn_config *c, int64_t part)
{
    int64_t n = values_per_key(c);
    return (whim_head_order){.at = part * n,
                             .size = 1,
                             .n_per = n,
                             .group_step = 2 * n,
                             .head_step = 1,
                             .n_file = 2 * c->n_value};
}

static void bind_list(const named_param *list, int32_t l, whim_binder *binder)
{
    for (; list->name != NULL; list++) {
        whim_param param = list->param;
        if (binder->n_rank > 1) {
            param.row_runs = list->runs;
            param.n_row_run = list->n_run;
        }
        whim_bind(binder, &param, "layers.%d.linear_attn.%s", l, list->name);
    }
}

/* The columns of `out` that the binder's rank keeps. Tiled columns of a type whose blocks span
 * heads stay as they are: then heads with the same place in their groups are a run. */
static void cols_make(whim_gated_delta *g, const whim_config *config, int32_t l,
                      whim_binder *binder)
{
    const whim_gdn_config *c = &config->gdn;
    int64_t per = values_per_key(c), d = c->d_value;
    g->cols = (whim_own_cols){.width = value_width(c)};
    g->whole = NULL;
    if (binder->n_rank <= 1) {
        return;
    }
    whim_param out = {.n = config->d_model, .k = value_width(c)};
    whim_col_runs cols = {.n_rank = binder->n_rank, .rank = binder->rank};
    cols.block =
        whim_bind_block(binder, &out, &cols.group, "layers.%d.linear_attn.out_proj.weight", l);
    bool stay = c->tiled && d % cols.block != 0;
    cols.n_run = stay ? (int32_t)per : 1;
    int64_t n_all = (int64_t)cols.n_rank * cols.n_run;
    whim_part *runs = whim_arena_alloc_array(&binder->arena, n_all, sizeof *runs);
    for (int32_t i = 0; runs != NULL && i < n_all; i++) {
        whim_part keys = whim_part_of(c->n_key, cols.n_rank, i / cols.n_run);
        whim_part tile = {i % cols.n_run * c->n_key + keys.at, keys.n};
        runs[i] = stay ? whim_part_times(tile, d) : whim_part_times(keys, per * d);
    }
    cols.runs = runs;
    if (binder->whole_sums) {
        g->whole = whim_whole_rows_make(runs, cols.n_run, config->d_model, binder);
        g->cols.width = per * d * whim_part_of(c->n_key, cols.n_rank, cols.rank).n;
        return;
    }
    binder->failed |=
        runs == NULL || whim_own_cols_make(&g->cols, &cols, &binder->arena) != WHIM_ERR_OK;
}

static void bind_products(whim_gated_delta *g, const whim_config *config, bool grouped,
                          const gdn_rows *r, int32_t l, whim_binder *binder)
{
    const whim_gdn_config *c = &config->gdn;
    int64_t d = config->d_model, v = value_width(c), n = c->n_value, wide = conv_width(c);
    whim_head_order b = c->apart ? ba_order(c, 0) : value_order(c, 0, 1);
    whim_head_order a = c->apart ? ba_order(c, 1) : value_order(c, 0, 1);
    whim_head_order heads = value_order(c, 0, c->d_value);
    whim_head_order behind = value_order(c, 2 * key_width(c), c->d_value);
    const char *b_name = c->apart ? "in_proj_ba.weight" : "in_proj_b.weight";
    const char *a_name = c->apart ? "in_proj_ba.weight" : "in_proj_a.weight";
    const named_param plain[] = {
        {"in_proj_qkv.weight", {&g->qkv, .n = wide, .k = d, .rows = behind}, r->conv, 3},
        {"in_proj_z.weight", {&g->z, .n = v, .k = d, .rows = heads}, &r->values, 1},
        {b_name, {&g->b, .n = n, .k = d, .rows = b}, &r->heads, 1},
        {a_name, {&g->a, .n = n, .k = d, .rows = a}, &r->heads, 1},
        {0}};
    const named_param fused[] = {
        {"in_proj_qkvz.weight", {&g->qkv, .n = wide + v, .k = d}, &r->qkvz, 1},
        {"in_proj_ba.weight", {&g->b, .n = 2 * n, .k = d}, &r->ba, 1},
        {0}};
    whim_param out = {&g->out,
                      .n = d,
                      .k = v,
                      .cols = heads,
                      .cols_kept = c->tiled ? &g->out_tiled : NULL,
                      .col_runs = g->cols.held,
                      .n_col_run = g->cols.n_run};
    const whim_part *own = g->whole != NULL ? &g->whole->own : NULL;
    bind_list(grouped ? fused : plain, l, binder);
    bind_list((named_param[]){{"out_proj.weight", out, own, own != NULL}, {0}}, l, binder);
}

void whim_gated_delta_bind(whim_gated_delta *g, const whim_config *config, bool grouped, int32_t l,
                           whim_binder *binder)
{
    const whim_gdn_config *c = &config->gdn;
    int64_t n = c->n_value;
    const gdn_rows r = rows_of(c, binder);
    whim_head_order heads = value_order(c, 0, 1);
    whim_head_order behind = value_order(c, 2 * key_width(c), c->d_value);
    whim_vector_form rate = c->folded ? WHIM_VECTOR_PLAIN : WHIM_VECTOR_NEG_EXP;
    const named_param vectors[] = {
        {"conv1d.weight",
         {.values = &g->conv, .n = conv_width(c), .k = c->n_tap, .rows = behind},
         r.conv,
         3},
        {"A_log", {.values = &g->rate, .n = n, .form = rate, .rows = heads}, &r.heads, 1},
        {"dt_bias", {.values = &g->dt_bias, .n = n, .rows = heads}, &r.heads, 1},
        {"norm.weight", {.values = &g->norm, .n = c->d_value}, NULL, 0},
        {0}};
    cols_make(g, config, l, binder);
    bind_products(g, config, grouped, &r, l, binder);
    bind_list(vectors, l, binder);
    int32_t n_rank = binder->n_rank > 1 ? binder->n_rank : 1;
    whim_gdn_config own = whim_gated_delta_cut(c, n_rank, binder->rank);
    g->qkv_cols = whim_cut_cols(conv_width(&own), binder);
    g->head_cols = whim_cut_cols(own.n_value, binder);
}

void whim_gated_delta_pass_init(whim_gated_delta_pass *p, const whim_gdn_config *c, bool grouped,
                                int64_t out_cols, int64_t cut, int64_t n_row, whim_bump *bump)
{
    *p = (whim_gated_delta_pass){0};
    p->qkvz = grouped ? whim_bump_rows(bump, n_row, conv_width(c) + value_width(c)) : NULL;
    p->ba = grouped ? whim_bump_rows(bump, n_row, 2 * c->n_value) : NULL;
    p->qkv = whim_bump_rows(bump, n_row, conv_width(c));
    p->conv = whim_bump_rows(bump, n_row, conv_width(c));
    p->z = whim_bump_rows(bump, n_row, value_width(c));
    p->o = whim_bump_rows(bump, n_row, value_width(c));
    /* What `out` reads: the convolution's output is of no use any more. */
    p->y = out_cols <= conv_width(c) ? p->conv : whim_bump_rows(bump, n_row, out_cols);
    p->cut = whim_bump_rows(bump, n_row, cut);
    p->b = whim_bump_rows(bump, n_row, c->n_value);
    p->a = whim_bump_rows(bump, n_row, c->n_value);
}

/* The pass, with what a state is made from in the layer's part of the kept rows, where there are
 * such. All layers have parts of one size, of a slot and of kept rows. */
static whim_gated_delta_pass pass_of(const whim_gated_delta_pass *p, const whim_gdn_config *c,
                                     int64_t state_at, const whim_batch *batch)
{
    whim_gated_delta_pass own = *p;
    if (batch->kept != NULL) {
        int64_t layer = state_at / whim_gated_delta_state_bytes(c), n = batch->max_kept;
        int64_t bytes = whim_gated_delta_kept_bytes(c, n);
        whim_bump part = {.base = (char *)batch->kept + layer * bytes, .size = bytes};
        own.qkv = whim_bump_rows(&part, n, conv_width(c));
        own.b = whim_bump_rows(&part, n, c->n_value);
        own.a = whim_bump_rows(&part, n, c->n_value);
    }
    return own;
}

/* q k v, z, b and a of the rows. */
static whim_err project(const whim_gated_delta *g, const whim_gdn_config *c, bool grouped,
                        const whim_gated_delta_pass *p, whim_stream *s, const float *x,
                        int64_t n_row)
{
    if (!grouped) {
        WHIM_TRY(whim_product(s, &g->qkv, x, n_row, p->qkv));
        WHIM_TRY(whim_product(s, &g->z, x, n_row, p->z));
        WHIM_TRY(whim_product(s, &g->b, x, n_row, p->b));
        return whim_product(s, &g->a, x, n_row, p->a);
    }
    WHIM_TRY(whim_product(s, &g->qkv, x, n_row, p->qkvz));
    WHIM_TRY(whim_product(s, &g->b, x, n_row, p->ba));
    return whim_op_gdn_split_qkvzba(s, &(whim_gdn_split_qkvzba_args){
                                           .qkvz = p->qkvz,
                                           .qkvz_stride = g->qkv.n,
                                           .ba = p->ba,
                                           .ba_stride = g->b.n,
                                           .grouped = true,
                                           .qkv = p->qkv,
                                           .z = p->z,
                                           .b = p->b,
                                           .a = p->a,
                                           .n_row = n_row,
                                           .n_key = c->n_key,
                                           .n_value = c->n_value,
                                           .d_key = c->d_key,
                                           .d_value = c->d_value,
                                       });
}

/* conv = silu(conv(qkv)), o = the delta rule; both go on from the sequences' slots. */
static whim_err recur(const whim_gated_delta *g, const whim_gdn_config *c, int64_t state_at,
                      const whim_gated_delta_pass *p, whim_stream *s, const whim_batch *batch)
{
    int64_t width = conv_width(c);
    whim_state_view state = batch->state, conv_state = batch->state;
    state.offset += state_at;
    conv_state.offset += state_at + scan_bytes(c);
    WHIM_TRY(whim_op_gdn_conv(s, &(whim_gdn_conv_args){
                                     .x = p->qkv,
                                     .x_stride = width,
                                     .w = g->conv,
                                     .state = conv_state,
                                     .q_start = batch->q_start,
                                     .positions = batch->positions,
                                     .state_slots = batch->state_slots,
                                     .out_slots = batch->state_outs,
                                     .y = p->conv,
                                     .y_stride = width,
                                     .n_row = batch->n_row,
                                     .n_seq = batch->n_seq,
                                     .n_chan = width,
                                     .n_tap = c->n_tap,
                                 }));
    return whim_op_gdn_scan(s, &(whim_gdn_scan_args){
                                   .qkv = p->conv,
                                   .qkv_stride = width,
                                   .b = p->b,
                                   .b_stride = c->n_value,
                                   .a = p->a,
                                   .a_stride = c->n_value,
                                   .rate = g->rate,
                                   .dt_bias = g->dt_bias,
                                   .state = state,
                                   .q_start = batch->q_start,
                                   .positions = batch->positions,
                                   .state_slots = batch->state_slots,
                                   .out_slots = batch->state_outs,
                                   .out = p->o,
                                   .n_row = batch->n_row,
                                   .n_seq = batch->n_seq,
                                   .n_key = c->n_key,
                                   .n_value = c->n_value,
                                   .d_key = c->d_key,
                                   .d_value = c->d_value,
                               });
}

/* The same of rows that were dealt to ranks: all ranks run the recurrence over all rows, in order,
 * and each keeps what it gives for its own. */
static whim_err recur_all(const whim_gated_delta *g, const whim_gdn_config *c, int64_t state_at,
                          const whim_gated_delta_pass *p, whim_stream *s, const whim_batch *batch)
{
    const whim_gated_delta_pass all = pass_of(p->whole, c, state_at, batch);
    WHIM_TRY(whim_cut_join(s, batch, g->qkv_cols, p->qkv, p->gathered, all.qkv, conv_width(c),
                           "recurrence"));
    WHIM_TRY(
        whim_cut_join(s, batch, g->head_cols, p->b, p->gathered, all.b, c->n_value, "recurrence"));
    WHIM_TRY(
        whim_cut_join(s, batch, g->head_cols, p->a, p->gathered, all.a, c->n_value, "recurrence"));
    WHIM_TRY(recur(g, c, state_at, &all, s, batch));
    return whim_cut_select(s, batch, all.o, p->o, value_width(c));
}

/* Heads x0, x0 + x_step, ... of the scan, which go to the columns y0, y0 + y_step, ... of what
 * `out` reads. */
typedef struct head_run {
    int64_t x0, x_step, y0, y_step, n;
} head_run;

/* y = norm(o) * silu(z) of some heads */
static whim_err norm_heads(const whim_gated_delta *g, const whim_config *config,
                           const whim_gated_delta_pass *p, whim_stream *s, head_run run)
{
    int64_t d = config->gdn.d_value;
    return whim_op_rmsnorm_gated(s, &(whim_rmsnorm_gated_args){
                                        .x = p->o + run.x0 * d,
                                        .x_stride = run.x_step * d,
                                        .w = g->norm,
                                        .eps = config->rms_eps,
                                        .z = p->z + run.x0 * d,
                                        .z_stride = run.x_step * d,
                                        .y = p->y + run.y0,
                                        .y_stride = run.y_step,
                                        .n_row = run.n,
                                        .n_col = d,
                                    });
}

/* The column of `out` that head h of the rank begins at. */
static int64_t head_at(const whim_gated_delta *g, const whim_gdn_config *c, int64_t h)
{
    int64_t per = values_per_key(c), d = c->d_value;
    if (g->cols.n_run == 0) {
        return g->out_tiled ? (h % per * c->n_key + h / per) * d : h * d;
    }
    return g->out_tiled ? g->cols.own[h % per].at + h / per * d : g->cols.own[0].at + h * d;
}

/* The same where heads lie in another order, or others' columns beside them. Of one token the heads
 * with the same place in their groups are a run, of more each head of all tokens is. */
static whim_err norm_placed(const whim_gated_delta *g, const whim_config *config,
                            const whim_gated_delta_pass *p, whim_stream *s, int64_t n_row)
{
    const whim_gdn_config *c = &config->gdn;
    int64_t n = c->n_value, per = values_per_key(c), width = g->cols.width;
    for (int64_t j = 0; j < per && n_row == 1; j++) {
        int64_t at = head_at(g, c, j);
        int64_t step = c->n_key > 1 ? head_at(g, c, per + j) - at : c->d_value;
        WHIM_TRY(norm_heads(g, config, p, s, (head_run){j, per, at, step, c->n_key}));
    }
    for (int64_t h = 0; h < n && n_row > 1; h++) {
        WHIM_TRY(norm_heads(g, config, p, s, (head_run){h, n, head_at(g, c, h), width, n_row}));
    }
    return g->cols.padded ? whim_own_cols_clear(&g->cols, s, p->y, n_row) : WHIM_ERR_OK;
}

whim_err whim_gated_delta_forward(const whim_gated_delta *g, const whim_config *config,
                                  bool grouped, int64_t state_at, const whim_gated_delta_pass *pass,
                                  whim_stream *s, const whim_batch *batch, const float *x, float *y)
{
    const whim_gdn_config *c = &config->gdn;
    bool cut = batch->cut != NULL;
    int64_t n = cut ? batch->cut->n_row : batch->n_row;
    const whim_gated_delta_pass own = cut ? *pass : pass_of(pass, c, state_at, batch), *p = &own;
    const head_run all = {0, 1, 0, c->d_value, n * c->n_value};
    WHIM_TRY(project(g, c, grouped, p, s, x, n));
    WHIM_TRY((cut ? recur_all : recur)(g, c, state_at, p, s, batch));
    WHIM_TRY(g->out_tiled || g->cols.padded ? norm_placed(g, config, p, s, n)
                                            : norm_heads(g, config, p, s, all));
    if (g->whole != NULL) {
        return whim_whole_rows_project(g->whole, s, &(whim_projection){.w = g->out}, p->y, n,
                                       p->joint, y);
    }
    WHIM_TRY(whim_own_cols_mend(&g->cols, s, p->y, p->cut, n));
    return whim_product(s, &g->out, p->y, n, y);
}

whim_err whim_gated_delta_advance(const whim_gated_delta *g, const whim_gdn_config *c,
                                  int64_t state_at, const whim_gated_delta_pass *pass,
                                  whim_stream *s, const whim_batch *batch)
{
    const whim_gated_delta_pass own = pass_of(pass, c, state_at, batch);
    return recur(g, c, state_at, &own, s, batch);
}

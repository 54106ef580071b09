/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors and pass of a gated delta net. */
#include "layers/gated_delta.h"

#include "ops/ops.h"

static int64_t key_width(const whim_gdn_config *c)
{
    return (int64_t)c->n_key * c->d_key;
}

static int64_t value_width(const whim_gdn_config *c)
{
    return (int64_t)c->n_value * c->d_value;
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

int64_t whim_gated_delta_state_bytes(const whim_gdn_config *c)
{
    int64_t bytes = scan_bytes(c) + (c->n_tap - 1) * conv_width(c) * (int64_t)sizeof(float);
    return (bytes + 63) / 64 * 64;
}

typedef struct matrix_spec {
    whim_weight *out;
    int64_t n, k;
    const char *name;
} matrix_spec;

void whim_gated_delta_bind(whim_gated_delta *g, const whim_config *config, bool grouped, int32_t l,
                           whim_binder *binder)
{
    const whim_gdn_config *c = &config->gdn;
    int64_t d = config->d_model, v = value_width(c), n = c->n_value;
    const matrix_spec plain[] = {{&g->qkv, conv_width(c), d, "in_proj_qkv"},
                                 {&g->z, v, d, "in_proj_z"},
                                 {&g->b, n, d, "in_proj_b"},
                                 {&g->a, n, d, "in_proj_a"},
                                 {&g->out, d, v, "out_proj"},
                                 {0}};
    const matrix_spec fused[] = {{&g->qkv, conv_width(c) + v, d, "in_proj_qkvz"},
                                 {&g->b, 2 * n, d, "in_proj_ba"},
                                 {&g->out, d, v, "out_proj"},
                                 {0}};
    for (const matrix_spec *m = grouped ? fused : plain; m->out != NULL; m++) {
        whim_bind_matrix(binder, &(whim_bind_matrix_spec){.out = m->out, .n = m->n, .k = m->k},
                         "layers.%d.linear_attn.%s.weight", l, m->name);
    }
    whim_bind_values(binder,
                     &(whim_bind_vector_spec){.out = &g->conv, .n = conv_width(c), .k = c->n_tap},
                     "layers.%d.linear_attn.conv1d.weight", l);
    whim_bind_values(binder,
                     &(whim_bind_vector_spec){
                         .out = &g->rate,
                         .n = n,
                         .form = c->folded ? WHIM_VECTOR_PLAIN : WHIM_VECTOR_NEG_EXP,
                     },
                     "layers.%d.linear_attn.A_log", l);
    whim_bind_vector(binder, &g->dt_bias, n, 0, "layers.%d.linear_attn.dt_bias", l);
    whim_bind_vector(binder, &g->norm, c->d_value, 0, "layers.%d.linear_attn.norm.weight", l);
}

static float *take(whim_bump *bump, int64_t n_row, int64_t n_col)
{
    return whim_bump_take(bump, n_row * n_col * (int64_t)sizeof(float));
}

void whim_gated_delta_pass_init(whim_gated_delta_pass *p, const whim_gdn_config *c, bool grouped,
                                int64_t n_row, whim_bump *bump)
{
    p->qkvz = grouped ? take(bump, n_row, conv_width(c) + value_width(c)) : NULL;
    p->ba = grouped ? take(bump, n_row, 2 * c->n_value) : NULL;
    p->qkv = take(bump, n_row, conv_width(c));
    p->conv = take(bump, n_row, conv_width(c));
    p->z = take(bump, n_row, value_width(c));
    p->o = take(bump, n_row, value_width(c));
    p->b = take(bump, n_row, c->n_value);
    p->a = take(bump, n_row, c->n_value);
}

static whim_err product(whim_stream *s, const whim_weight *w, const float *x, float *y,
                        int64_t n_row)
{
    return whim_op_linear(
        s, &(whim_linear_args){
               .w = *w, .x = x, .x_stride = w->k, .y = y, .y_stride = w->n, .n_row = n_row});
}

/* q k v, z, b and a of the rows. */
static whim_err project(const whim_gated_delta *g, const whim_gdn_config *c, bool grouped,
                        const whim_gated_delta_pass *p, whim_stream *s, const float *x,
                        int64_t n_row)
{
    if (!grouped) {
        WHIM_TRY(product(s, &g->qkv, x, p->qkv, n_row));
        WHIM_TRY(product(s, &g->z, x, p->z, n_row));
        WHIM_TRY(product(s, &g->b, x, p->b, n_row));
        return product(s, &g->a, x, p->a, n_row);
    }
    WHIM_TRY(product(s, &g->qkv, x, p->qkvz, n_row));
    WHIM_TRY(product(s, &g->b, x, p->ba, n_row));
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
static whim_err recur(const whim_gated_delta *g, const whim_gdn_config *c,
                      const whim_gated_delta_pass *p, whim_stream *s, const whim_batch *batch,
                      whim_state_view state)
{
    int64_t width = conv_width(c);
    whim_state_view conv_state = state;
    conv_state.offset += scan_bytes(c);
    WHIM_TRY(whim_op_gdn_conv(s, &(whim_gdn_conv_args){
                                     .x = p->qkv,
                                     .x_stride = width,
                                     .w = g->conv,
                                     .state = conv_state,
                                     .q_start = batch->q_start,
                                     .positions = batch->positions,
                                     .state_slots = batch->state_slots,
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
                                   .out = p->o,
                                   .n_row = batch->n_row,
                                   .n_seq = batch->n_seq,
                                   .n_key = c->n_key,
                                   .n_value = c->n_value,
                                   .d_key = c->d_key,
                                   .d_value = c->d_value,
                               });
}

whim_err whim_gated_delta_forward(const whim_gated_delta *g, const whim_config *config,
                                  bool grouped, int32_t index, const whim_gated_delta_pass *p,
                                  whim_stream *s, const whim_batch *batch, const float *x, float *y)
{
    const whim_gdn_config *c = &config->gdn;
    whim_state_view state = batch->state;
    state.offset += index * whim_gated_delta_state_bytes(c);
    WHIM_TRY(project(g, c, grouped, p, s, x, batch->n_row));
    WHIM_TRY(recur(g, c, p, s, batch, state));
    WHIM_TRY(whim_op_rmsnorm_gated(s, &(whim_rmsnorm_gated_args){
                                          .x = p->o,
                                          .x_stride = c->d_value,
                                          .w = g->norm,
                                          .eps = config->rms_eps,
                                          .z = p->z,
                                          .z_stride = c->d_value,
                                          .y = p->o,
                                          .y_stride = c->d_value,
                                          .n_row = batch->n_row * c->n_value,
                                          .n_col = c->d_value,
                                      }));
    return product(s, &g->out, p->o, y, batch->n_row);
}

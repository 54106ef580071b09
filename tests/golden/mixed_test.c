/* SPDX-License-Identifier: Apache-2.0 */
/* A model in which no two layers are alike (tools/golden/mixed.py makes it and its golden rows):
 * windows on every other layer, two head sizes, two rotary bases and none, every norm of q and k, a
 * gate, biases here and there, experts in one layer. Its table is written out below, and each entry
 * that is wrong must be noticed. */
#include "golden/by_hand.h"
#include "layers/decoder.h"
#include "support/tally.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_LAYER = 4, ENOUGH = 10 /* tolerances that a wrong entry must move something by */ };

static const whim_layer_row right[N_LAYER] = {
    {.n_head = 4, .n_kv = 2, .d_head = 16, .window = 5, .qkv_bias = true, .d_ff = 52},
    {.n_head = 3,
     .n_kv = 1,
     .d_head = 32,
     .rope = 1,
     .qk_norm = WHIM_QK_NORM_HEADS,
     .o_bias = true,
     .mlp = WHIM_MLP_EXPERTS},
    {.n_head = 6,
     .n_kv = 3,
     .d_head = 16,
     .window = 40,
     .qk_norm = WHIM_QK_NORM_WHOLE,
     .d_ff = 36,
     .mlp_bias = true},
    {.n_head = 2,
     .n_kv = 2,
     .d_head = 32,
     .rope = WHIM_NO_ROPE,
     .qk_norm = WHIM_QK_NORM_HEADS,
     .gated = true,
     .d_ff = 68},
};

struct whim_model {
    whim_decoder *decoder;
};

static whim_err mixed_bind(const whim_model_def *def, const whim_config *config, whim_arena *arena,
                           whim_binder *binder, whim_model **out, whim_diag *diag)
{
    whim_layer_table table;
    *out = whim_arena_alloc(arena, sizeof **out);
    if (*out == NULL || whim_layer_table_make(&table, config, &def->traits, arena) != WHIM_ERR_OK) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory");
    }
    memcpy(table.rows, right, sizeof right);
    table.n_rope = 2;
    table.ropes[1] = table.ropes[0];
    table.ropes[1].theta = 1e6;
    table.ropes[1].rotary_dim = 12;
    return whim_decoder_bind(config, &def->traits, &table, NULL, arena, binder, &(*out)->decoder,
                             diag);
}

static const whim_layer_table *mixed_layers(const whim_model *model)
{
    return &model->decoder->table;
}

static whim_err mixed_forward(whim_model *model, whim_stream *s, const whim_batch *batch,
                              whim_out *out)
{
    return whim_decoder_forward(model->decoder, s, batch, out);
}

static const whim_model_def mixed_def = {.arch = {.name = "mixed"},
                                         .bind = mixed_bind,
                                         .layers = mixed_layers,
                                         .forward = mixed_forward};

static const int64_t whole[] = {BY_HAND_CTX};
static const int64_t uneven[] = {5, 16, 3, 1, 1, 37, 2, 1, 64, 8};
static const drive_plan plan_whole = {.n_at_once = 1, .chunks = whole, .n_chunk = 1};
static const drive_plan plan_uneven = {.n_at_once = 2, .chunks = uneven, .n_chunk = 10};

/* The largest error of the golden rows, with some entry of the bound table changed (or NULL);
 * negative after a failure. */
static double error_of(const golden *g, const by_hand_way *way, const drive_plan *plan,
                       void (*change)(whim_layer_table *table), whim_diag *diag)
{
    drive_job jobs[GOLDEN_MAX_PROMPTS];
    by_hand b;
    float *logits = golden_jobs(g, 0, jobs);
    whim_err err = by_hand_open(&b, &mixed_def, way, g->dir, diag);
    err = err == WHIM_ERR_OK ? by_hand_bind(&b, diag) : err;
    err = err == WHIM_ERR_OK ? by_hand_load(&b, diag) : err;
    if (err == WHIM_ERR_OK && change != NULL) {
        change(&b.model->decoder->table);
    }
    err = err == WHIM_ERR_OK ? by_hand_start(&b, diag) : err;
    if (err == WHIM_ERR_OK && logits != NULL) {
        err = drive_run(b.runner, g->vocab, jobs, g->n_prompt, plan, diag);
    }
    double worst = -1;
    if (err == WHIM_ERR_OK && logits != NULL) {
        worst = golden_compare(g, g->rows, logits, 0).max;
    }
    free(logits);
    by_hand_close(&b);
    return worst;
}

static void check_way(const golden *g, const by_hand_way *way)
{
    whim_diag diag = {{0}};
    for (int i = 0; i < 2; i++) {
        char name[128];
        double off = error_of(g, way, i == 0 ? &plan_whole : &plan_uneven, NULL, &diag);
        snprintf(name, sizeof name, "mixed layers/%s%s%s%s %s", way->backend,
                 way->isa != NULL ? "-" : "", way->isa != NULL ? way->isa : "",
                 way->graphs ? "-graphs" : "", i == 0 ? "whole" : "in pieces");
        tally_check(off >= 0 && off <= g->tolerance, name, "largest %.3g of %.3g %s", off,
                    g->tolerance, diag.text);
    }
}

static void check_backend(const golden *g, const char *backend)
{
    char levels[128], level[32];
    whim_diag diag = {{0}};
    if (!drive_levels(backend, levels, sizeof levels, &diag)) {
        tally_check(false, backend, "%s", diag.text);
        return;
    }
    bool named = levels[0] != '\0';
    for (int32_t i = 0; named ? drive_word(levels, i, level, sizeof level) : i == 0; i++) {
        for (int graphs = named && drive_is_between(levels, i); graphs < 2; graphs++) {
            check_way(g, &(by_hand_way){.backend = backend,
                                        .isa = named ? level : NULL,
                                        .kv_type = WHIM_KV_F32,
                                        .graphs = graphs != 0});
        }
    }
}

/* --- wrong entries ---------------------------------------------------------------------------- */

static void window_none(whim_layer_table *t)
{
    t->rows[0].window = 0;
}

static void window_other(whim_layer_table *t)
{
    t->rows[2].window = t->rows[0].window;
}

static void window_one_more(whim_layer_table *t)
{
    t->rows[0].window++;
}

static void window_one_less_of_two_pages(whim_layer_table *t)
{
    t->rows[2].window--;
}

static void window_in_a_full_layer(whim_layer_table *t)
{
    t->rows[1].window = t->rows[2].window;
}

static void norm_of_heads(whim_layer_table *t)
{
    t->rows[2].qk_norm = WHIM_QK_NORM_HEADS;
}

static void rope_where_none_is(whim_layer_table *t)
{
    t->rows[3].rope = 1;
}

static void rope_forgotten(whim_layer_table *t)
{
    t->rows[0].rope = WHIM_NO_ROPE;
}

static void rope_of_another(whim_layer_table *t)
{
    t->rows[1].rope = 0;
}

static void check_wrong_entries(const golden *g)
{
    static const struct {
        const char *name;
        void (*change)(whim_layer_table *table);
    } wrong[] = {
        {"no window", window_none},
        {"another layer's window", window_other},
        {"a window of one more", window_one_more},
        {"a window of one less over two pages", window_one_less_of_two_pages},
        {"a window where none is", window_in_a_full_layer},
        {"heads normalised by themselves", norm_of_heads},
        {"rotated where no layer is", rope_where_none_is},
        {"not rotated", rope_forgotten},
        {"another layer's rotary table", rope_of_another},
    };
    const by_hand_way way = {.kv_type = WHIM_KV_F32};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char name[128];
        whim_diag diag = {{0}};
        double off = error_of(g, &way, &plan_whole, wrong[i].change, &diag);
        snprintf(name, sizeof name, "mixed layers with %s", wrong[i].name);
        tally_check(off > ENOUGH * g->tolerance, name, "moves %.3g, %.0f tolerances %s", off,
                    off / g->tolerance, diag.text);
    }
}

/* Layers of different sizes lie one after the other in a page, in every KV type. */
static void check_places(void)
{
    whim_layer_row rows[N_LAYER];
    memcpy(rows, right, sizeof right);
    rows[1].mixer = WHIM_MIXER_GATED_DELTA; /* keeps nothing there */
    const whim_layer_table table = {.n_layer = N_LAYER, .rows = rows};
    int64_t at[N_LAYER];
    int64_t bytes = whim_layer_table_place(&table, WHIM_KV_F32, 32, at);
    const int64_t unit = 2 * 32 * (int64_t)sizeof(float);
    bool good = at[0] == 0 && at[1] == 0 && at[2] == unit * 2 * 16 && at[3] == unit * 5 * 16 &&
                bytes == unit * (5 * 16 + 2 * 32) &&
                whim_layer_table_place(&table, WHIM_KV_BF16, 32, NULL) == bytes / 2;
    tally_check(good, "mixed layers have their places in a page", "%lld %lld %lld of %lld",
                (long long)at[0], (long long)at[2], (long long)at[3], (long long)bytes);
}

void golden_mixed_test(const golden_options *options)
{
    char dir[600];
    golden g;
    whim_diag diag = {{0}};
    snprintf(dir, sizeof dir, "%.500s/../mixed", options->data);
    check_places();
    if (golden_read(&g, dir, &diag) != WHIM_ERR_OK) {
        tally_check(false, "mixed layers", "%s", diag.text);
        return;
    }
    for (int32_t b = 0; b < whim_backend_count(); b++) {
        const char *backend = whim_backend_at(b)->name;
        bool wanted = options->backend == NULL || strcmp(options->backend, backend) == 0;
        if (wanted && whim_backend_at(b)->device_count() > 0) {
            check_backend(&g, backend);
        }
    }
    if (!options->quick) {
        check_wrong_entries(&g);
    }
    golden_free(&g);
}

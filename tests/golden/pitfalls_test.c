/* SPDX-License-Identifier: Apache-2.0 */
/* The mistakes that are easily made with these models, put in on purpose: each must move the golden
 * rows far out of tolerance, or the golden tests would not notice it.
 * tools/golden/check_pitfalls.py does the same with an implementation of its own; here it is the
 * engine that is made wrong: its configuration, its bound weights, or the arguments of its ops. */
#include "golden/by_hand.h"
#include "golden/pitfalls.h"

#include "layers/rope.h"
#include "support/tally.h"
#include "tensor/quant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENOUGH = 10 /* tolerances that a mistake must move something by */ };

/* --- one model, opened by hand ---------------------------------------------------------------- */

/* The model of this file: the decoder, and the mistake it is run with. */
struct whim_model {
    whim_decoder *decoder;
    const pitfall *mistake;
    whim_ops ops;        /* with the mistake in it */
    const whim_ops *own; /* the stream's */
};

/* The model that runs; ops have no other way to it. */
static whim_model *running;

const whim_decoder *pitfall_decoder(void)
{
    return running->decoder;
}

const whim_ops *pitfall_own_ops(void)
{
    return running->own;
}

static whim_err wrong_configure(const whim_config *config, whim_diag *diag)
{
    (void)config, (void)diag;
    return WHIM_ERR_OK;
}

static whim_err wrong_bind(const whim_model_def *def, const whim_config *config, whim_arena *arena,
                           whim_binder *binder, whim_model **out, whim_diag *diag)
{
    (void)def;
    const whim_model_def *right;
    whim_layer_table table;
    WHIM_TRY(whim_model_find(config->arch->name, &right, diag));
    *out = whim_arena_alloc(arena, sizeof **out);
    if (*out == NULL ||
        whim_layer_table_make(&table, config, &right->traits, arena) != WHIM_ERR_OK) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory");
    }
    return whim_decoder_bind(config, &right->traits, &table, NULL, arena, binder, &(*out)->decoder,
                             diag);
}

static const whim_layer_table *wrong_layers(const whim_model *model)
{
    return &model->decoder->table;
}

static whim_err wrong_forward(whim_model *model, whim_stream *s, const whim_batch *batch,
                              whim_out *out)
{
    running = model;
    model->own = s->ops;
    if (model->mistake != NULL && model->mistake->ops != NULL && s->vt != NULL) {
        model->ops = *s->ops;
        model->mistake->ops(&model->ops);
        s->ops = &model->ops;
    }
    whim_err err = whim_decoder_forward(model->decoder, s, batch, out);
    s->ops = model->own;
    return err;
}

static const whim_model_def wrong_def = {
    .arch = {.name = "wrong"},
    .configure = wrong_configure,
    .bind = wrong_bind,
    .layers = wrong_layers,
    .forward = wrong_forward,
};

/* Replace the values of a vector of the checkpoint by edited ones: it becomes a constant. */
static whim_err vectors_edit(whim_binder *binder, const whim_ckpt *ckpt, const pitfall *p,
                             whim_diag *diag)
{
    for (int64_t i = 0; i < binder->n_param; i++) {
        whim_param *param = &binder->params[i];
        if (!param->vector || strstr(param->name, p->vector) == NULL) {
            continue;
        }
        const whim_ckpt_tensor *tensor = param->parts[0].tensor;
        char *raw = whim_arena_alloc(&binder->arena, tensor->bytes);
        float *values = whim_arena_alloc_array(&binder->arena, param->n, sizeof *values);
        if (raw == NULL || values == NULL) {
            return WHIM_ERR_NO_MEMORY;
        }
        WHIM_TRY(whim_ckpt_read(ckpt, tensor, 0, tensor->bytes, raw, diag));
        whim_dequant_row(tensor->dtype, raw, values, param->n);
        for (int64_t j = 0; j < param->n; j++) {
            values[j] = p->edit(values[j]);
        }
        param->vector = false;
        param->constant = values;
        param->constant_out = (const void **)param->values;
        param->values = NULL;
    }
    return WHIM_ERR_OK;
}

static whim_err open_with(by_hand *b, const golden *g, bool twin, const pitfall *p, whim_diag *diag)
{
    char path[1200], level[32];
    by_hand_way way = {.isa = drive_exact_level(whim_backend_at(0)->name, level, sizeof level),
                       .kv_type = WHIM_KV_F32};
    golden_model_path(g, path, sizeof path);
    if (twin) {
        const char *name = strrchr(g->dir, '/') + 1;
        snprintf(path, sizeof path, "%.500s/../../twins/%.100s.gguf", g->dir, name);
    }
    WHIM_TRY(by_hand_open(b, &wrong_def, &way, path, diag));
    if (p != NULL && p->config != NULL) {
        p->config(&b->ckpt.config);
    }
    WHIM_TRY(by_hand_bind(b, diag));
    if (p != NULL && p->binder != NULL) {
        p->binder(&b->binder);
    }
    if (p != NULL && p->vector != NULL) {
        WHIM_TRY(vectors_edit(&b->binder, &b->ckpt, p, diag));
    }
    WHIM_TRY(by_hand_load(b, diag));
    if (p != NULL && p->decoder != NULL) {
        p->decoder(b->model->decoder);
    }
    b->model->mistake = p;
    return by_hand_start(b, diag);
}

/* The largest error of a golden's rows with one mistake (NULL: none); negative after a failure. */
static double error_with(const golden *g, bool twin, const pitfall *p, whim_diag *diag)
{
    static const int64_t whole[] = {BY_HAND_CTX};
    drive_job jobs[GOLDEN_MAX_PROMPTS];
    by_hand b = {0};
    float *logits = golden_jobs(g, 0, jobs);
    whim_err err = logits != NULL ? open_with(&b, g, twin, p, diag) : WHIM_ERR_NO_MEMORY;
    if (err == WHIM_ERR_OK) {
        err = drive_run(b.runner, g->vocab, jobs, g->n_prompt,
                        &(drive_plan){.n_at_once = 1, .chunks = whole, .n_chunk = 1}, diag);
    }
    double worst = -1;
    if (err == WHIM_ERR_OK) {
        const float *rows = g->rows_q8 != NULL ? g->rows_q8 : g->rows;
        worst = golden_compare(g, rows, logits, 0).max;
    }
    free(logits);
    by_hand_close(&b);
    return worst;
}

/* --- the table -------------------------------------------------------------------------------- */

static void check_pitfall(const char *data, const pitfall *p)
{
    char dir[600], name[192];
    golden g;
    whim_diag diag = {{0}};
    snprintf(dir, sizeof dir, "%s/%s", data, p->model);
    snprintf(name, sizeof name, "pitfall %s%s/%s", p->model, p->twin ? " in GGUF" : "", p->name);
    if (golden_read(&g, dir, &diag) != WHIM_ERR_OK) {
        tally_check(false, name, "%s", diag.text);
        return;
    }
    double tolerance = g.rows_q8 != NULL ? g.tolerance_q8 : g.tolerance;
    double wanted = (p->enough > 0 ? p->enough : ENOUGH) * tolerance;
    double right = error_with(&g, p->twin, NULL, &diag);
    double wrong = error_with(&g, p->twin, p, &diag);
    if (right < 0 || wrong < 0) {
        tally_check(false, name, "%s", diag.text);
    } else if (right > tolerance) {
        tally_check(false, name, "without the mistake it is %.3g off, tolerance %.3g", right,
                    tolerance);
    } else {
        tally_check(wrong > wanted, name, "moves %.3g, %.0f tolerances", wrong, wrong / tolerance);
    }
    golden_free(&g);
}

void golden_pitfalls_test(const golden_options *options)
{
    static const struct {
        const pitfall *(*get)(int32_t *n);
    } lists[] = {{pitfall_list}, {pitfall_list_moe}, {pitfall_hybrid_list}};
    for (int which = 0; which < 3; which++) {
        int32_t n;
        const pitfall *list = lists[which].get(&n);
        for (int32_t i = 0; i < n; i++) {
            check_pitfall(options->data, &list[i]);
        }
    }
}

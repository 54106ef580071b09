/* SPDX-License-Identifier: Apache-2.0 */
/* Every tiny model, on every backend and instruction level, eagerly and by graphs, against the
 * golden rows: log-probabilities, greedy ids, hidden states, KV types. */
#include "golden/golden.h"
#include "support/tally.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CTX = 256, MAX_ROWS = 256, MAX_SEQS = 2, QUICK_PROMPTS = 3, MAX_MODELS = 64 };

static const double F32_TOLERANCE = 1e-4;

/* What narrowed K and V may move a log-probability of an F32 checkpoint, whose own KV type
 * is F32: three times the largest seen. */
typedef struct kv_case {
    const char *type;
    double tolerance;
} kv_case;
static const kv_case kv_cases[] = {{"bf16", 0.25}, {"f16", 0.03}, {"q8", 0.7}};

/* One way to run a model. */
typedef struct variant {
    const char *backend, *isa, *kv_type;
    bool graphs;
} variant;

static const int64_t ones[] = {1};
/* As a chat does: the prompt, then token by token. */
static const drive_plan plan_whole = {
    .n_at_once = 1, .prompt_whole = true, .chunks = ones, .n_chunk = 1};
/* Uneven steps of two sequences: many buckets, each met several times. */
static const int64_t uneven[] = {5, 16, 3, 1, 1, 37, 2, 1, 64, 8};
static const drive_plan plan_uneven = {.n_at_once = 2, .chunks = uneven, .n_chunk = 10};

static void variant_name(char *name, size_t size, const golden *g, const variant *v)
{
    snprintf(name, size, "%s/%s%s%s%s%s-%s", g->name, v->backend, v->isa != NULL ? "-" : "",
             v->isa != NULL ? v->isa : "", v->kv_type != NULL ? "-kv-" : "",
             v->kv_type != NULL ? v->kv_type : "", v->graphs ? "graphs" : "eager");
}

static whim_engine *variant_open(const golden *g, const variant *v, whim_diag *diag)
{
    char path[1024];
    golden_model_path(g, path, sizeof path);
    whim_engine_cfg cfg = {
        .model = path,
        .backend = v->backend,
        .isa = v->isa,
        .kv_type = v->kv_type,
        .ctx = CTX,
        .max_seqs = MAX_SEQS,
        .max_step_tokens = MAX_ROWS,
        .max_outs = MAX_ROWS,
        .graphs = v->graphs,
    };
    return drive_open(&cfg, diag);
}

/* The logits of all rows (free them), or NULL after a FAIL line. */
static float *variant_logits(const golden *g, const variant *v, int32_t n_prompt, const char *name)
{
    whim_diag diag = {{0}};
    drive_job jobs[GOLDEN_MAX_PROMPTS];
    float *logits = golden_jobs(g, n_prompt, jobs);
    whim_engine *engine = logits != NULL ? variant_open(g, v, &diag) : NULL;
    whim_err err = WHIM_ERR_NO_MEMORY;
    if (engine != NULL) {
        err = drive_run(whim_engine_runner(engine), g->vocab, jobs, n_prompt,
                        v->graphs ? &plan_uneven : &plan_whole, &diag);
    }
    whim_engine_close(engine);
    if (err != WHIM_ERR_OK) {
        tally_check(false, name, "%s", diag.text);
        free(logits);
        return NULL;
    }
    return logits;
}

static void check_tolerance(const char *name, const char *what, const golden_error *e,
                            double tolerance, double tolerance_rms)
{
    char full[256];
    snprintf(full, sizeof full, "%s %s", name, what);
    bool good = e->max <= tolerance && (tolerance_rms == 0 || e->rms <= tolerance_rms);
    tally_check(good, full, "largest %.3g of %.3g, rms %.3g of %.3g", e->max, tolerance, e->rms,
                tolerance_rms);
}

/* Exact ids for F32 models; for the others an id may differ where the reference itself is undecided
 * within what the narrower types move a log-probability. */
static void check_greedy(const golden *g, const char *name, const float *logits, int32_t n_prompt)
{
    char full[256];
    int64_t other;
    int64_t misses = golden_greedy_misses(g, logits, n_prompt, 2 * g->gap, &other);
    snprintf(full, sizeof full, "%s greedy", name);
    tally_check(misses == 0, full, "%lld wrong ids, %lld undecided ones", (long long)misses,
                (long long)(other - misses));
}

/* Most rows are close. */
static void check_close(const golden *g, const char *name, const char *what, const golden_error *e,
                        int32_t n_prompt)
{
    char full[256];
    snprintf(full, sizeof full, "%s close %s", name, what);
    /* A share of all rows; a part of the prompts has its own. */
    double least = n_prompt == g->n_prompt ? g->close_rows_share : 0.5 * g->close_rows_share;
    tally_check(e->close >= least, full, "%.3f of the rows within %g, wanted %.3f", e->close,
                g->close_row, least);
}

/* FP8 weights, whose rows some levels round: only golden data of these states close rows and no
 * int8 ones. */
static bool is_fp8(const golden *g)
{
    return g->close_row > 0 && g->rows_q8 == NULL;
}

static void check_variant(const golden *g, const variant *v, int32_t n_prompt)
{
    char name[192];
    variant_name(name, sizeof name, g, v);
    float *logits = variant_logits(g, v, n_prompt, name);
    if (logits == NULL) {
        return;
    }
    golden_error e = golden_compare(g, g->rows, logits, n_prompt);
    if (is_fp8(g) && drive_rounds(v->backend, v->isa)) {
        check_close(g, name, "rows", &e, n_prompt);
        if (strcmp(v->backend, "cuda") == 0) {
            goto out; /* of close rows some choose otherwise: it has no level that shows them exact */
        }
    } else {
        check_tolerance(name, "rows", &e, g->tolerance, g->tolerance_rms);
    }
    check_greedy(g, name, logits, n_prompt);
    if (g->rows_q8 != NULL && v->kv_type != NULL && strcmp(v->kv_type, "f32") == 0) {
        e = golden_compare(g, g->rows_q8, logits, n_prompt);
        check_tolerance(name, "int8 rows", &e, g->tolerance_q8, g->tolerance_q8_rms);
        if (drive_rounds(v->backend, v->isa)) {
            goto out; /* its BF16 products are not those of the int8 rows */
        }
        check_close(g, name, "int8 rows", &e, n_prompt);
    }
out:
    free(logits);
}

/* BF16 and F16 weights with F32 activations, K and V: nothing is narrowed, so that F32's tolerance
 * holds. */
static void check_exact(const golden *g, const char *backend, const char *isa, int32_t n_prompt)
{
    variant v = {.backend = backend, .isa = isa, .kv_type = "f32"};
    char name[192];
    variant_name(name, sizeof name, g, &v);
    float *logits = variant_logits(g, &v, n_prompt, name);
    if (logits != NULL) {
        golden_error e = golden_compare(g, g->rows, logits, n_prompt);
        check_tolerance(name, "exact rows", &e, F32_TOLERANCE, 0);
        free(logits);
    }
}

/* Other KV types of an F32 model: the paths work, within what their bits allow. */
static void check_kv_types(const golden *g, const char *backend, int32_t n_prompt)
{
    for (size_t i = 0; i < sizeof kv_cases / sizeof kv_cases[0]; i++) {
        variant v = {.backend = backend, .kv_type = kv_cases[i].type};
        char name[192];
        variant_name(name, sizeof name, g, &v);
        float *logits = variant_logits(g, &v, n_prompt, name);
        if (logits != NULL) {
            golden_error e = golden_compare(g, g->rows, logits, n_prompt);
            check_tolerance(name, "rows", &e, kv_cases[i].tolerance, 0);
            /* If nothing moved, the type was not used. */
            snprintf(name, sizeof name, "%s/%s-kv-%s is used", g->name, backend, kv_cases[i].type);
            tally_check(e.max > g->tolerance, name, "moves %.3g", e.max);
            free(logits);
        }
    }
}

static void compare_hidden(const golden *g, whim_runner *runner, const char *name)
{
    double worst = 0;
    for (int32_t b = 0; b <= (int32_t)g->layers; b++) {
        for (int64_t row = 0; row < 7; row++) {
            const float *got = whim_exec_hidden(whim_runner_exec(runner), b, row);
            const float *want = g->hidden_rows + (b * 7 + row) * g->hidden;
            double diff = 0, size = 0;
            for (int64_t i = 0; i < g->hidden; i++) {
                double d = (double)got[i] - want[i];
                diff += d * d;
                size += (double)want[i] * want[i];
            }
            double off = sqrt(diff / size);
            worst = off <= worst ? worst : off;
        }
    }
    tally_check(worst <= 1e-4, name, "largest relative error of a row %.3g of 1e-4", worst);
}

/* Hidden states at every boundary, eagerly and out of a graph's padded bucket. */
static void check_hidden(const golden *g, const char *backend, const char *isa, bool graphs)
{
    char name[192], path[1024];
    whim_diag diag = {{0}};
    const golden_prompt *prompt = NULL;
    snprintf(name, sizeof name, "%s/%s-%s hidden", g->name, backend, graphs ? "graphs" : "eager");
    for (int32_t i = 0; i < g->n_prompt; i++) {
        prompt = g->prompts[i].n_prompt == 7 ? &g->prompts[i] : prompt;
    }
    golden_model_path(g, path, sizeof path);
    whim_engine_cfg cfg = {
        .model = path,
        .backend = backend,
        .isa = isa,
        .ctx = CTX,
        .max_step_tokens = 16,
        .graphs = graphs,
        .n_capture = (int32_t)g->layers + 1,
    };
    for (int32_t b = 0; b < cfg.n_capture; b++) {
        cfg.boundary[b] = b;
    }
    whim_engine *engine = drive_open(&cfg, &diag);
    whim_sequence *seq = NULL;
    whim_err err = WHIM_ERR_NOT_FOUND;
    if (engine != NULL && prompt != NULL) {
        err = whim_runner_sequence_create(whim_engine_runner(engine), &seq);
    }
    if (err == WHIM_ERR_OK) {
        whim_step_part part = {.seq = seq, .tokens = prompt->tokens, .n_tok = 7};
        err = whim_runner_step(whim_engine_runner(engine), &part, 1, &diag);
    }
    if (err == WHIM_ERR_OK) {
        compare_hidden(g, whim_engine_runner(engine), name);
    } else {
        tally_check(false, name, "%s", diag.text);
    }
    if (seq != NULL) {
        whim_runner_sequence_destroy(whim_engine_runner(engine), seq);
    }
    whim_engine_close(engine);
}

static void check_backend(const golden *g, const char *backend, int32_t n_prompt)
{
    char levels[128], level[32], exact_level[32];
    const char *exact = drive_exact_level(backend, exact_level, sizeof exact_level);
    whim_diag diag = {{0}};
    if (!drive_levels(backend, levels, sizeof levels, &diag)) {
        tally_check(false, backend, "%s", diag.text);
        return;
    }
    bool named = levels[0] != '\0';
    for (int32_t i = 0; named ? drive_word(levels, i, level, sizeof level) : i == 0; i++) {
        for (int graphs = named && drive_is_between(levels, i); graphs < 2; graphs++) {
            variant v = {.backend = backend, .isa = named ? level : NULL, .graphs = graphs != 0};
            check_variant(g, &v, n_prompt);
            if (g->rows_q8 != NULL) {
                v.kv_type = "f32";
                check_variant(g, &v, n_prompt);
            }
        }
    }
    if (g->f32 && !g->experts) {
        check_kv_types(g, backend, n_prompt);
    } else if (!g->f32 && g->rows_q8 == NULL && (exact != NULL || !named)) {
        check_exact(g, backend, exact, n_prompt);
    }
    const char *isa = is_fp8(g) ? exact : NULL;
    bool rounds = is_fp8(g) && drive_rounds(backend, isa);
    if (g->f32 && g->hidden_rows != NULL && !rounds) {
        check_hidden(g, backend, isa, false);
        check_hidden(g, backend, isa, true);
    }
}

/* A device with no more ops than a Llama needs runs one, and refuses other models by the name of
 * the first that it lacks. */
static void check_first_ops(const golden *g, const char *first_missing, int32_t n_prompt)
{
    variant v = {.backend = "guard", .isa = "llama"};
    if (first_missing == NULL) {
        check_variant(g, &v, n_prompt);
        return;
    }
    char name[192];
    whim_diag diag = {{0}};
    snprintf(name, sizeof name, "%s/guard-llama is refused by name", g->name);
    whim_engine *engine = variant_open(g, &v, &diag);
    tally_check(engine == NULL && strstr(diag.text, first_missing) != NULL, name, "%s", diag.text);
    whim_engine_close(engine);
}

static const struct {
    const char *model, *first_missing;
} first_ops[] = {
    {"llama-f32", NULL}, {"qwen35-f32", "lacks: gdn_conv "}, {"qwen3moe-f32", "lacks: moe_topk "}};

static bool wanted(const golden_options *options, const char *backend)
{
    return options->backend == NULL || strcmp(options->backend, backend) == 0;
}

void golden_models_test(const golden_options *options)
{
    static char names[MAX_MODELS][64];
    int32_t n = golden_list(options->data, names, MAX_MODELS);
    tally_check(n > 0, "golden models", "%d folders in %s", n, options->data);
    for (int32_t i = 0; i < n; i++) {
        char dir[600];
        golden g;
        whim_diag diag = {{0}};
        snprintf(dir, sizeof dir, "%.500s/%.63s", options->data, names[i]);
        if (golden_read(&g, dir, &diag) != WHIM_ERR_OK) {
            tally_check(false, names[i], "%s", diag.text);
            continue;
        }
        int32_t few = g.n_prompt < QUICK_PROMPTS ? g.n_prompt : QUICK_PROMPTS;
        for (int32_t b = 0; b < whim_backend_count(); b++) {
            const char *backend = whim_backend_at(b)->name;
            if (wanted(options, backend) && whim_backend_at(b)->device_count() > 0) {
                check_backend(&g, backend, options->quick ? few : g.n_prompt);
            }
        }
        for (size_t j = 0; j < sizeof first_ops / sizeof first_ops[0]; j++) {
            if (strcmp(names[i], first_ops[j].model) == 0 && wanted(options, "guard")) {
                check_first_ops(&g, first_ops[j].first_missing, few);
            }
        }
        golden_free(&g);
    }
}

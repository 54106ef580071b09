/* SPDX-License-Identifier: Apache-2.0 */
/* The loop from tokens to text. */
#include "engine/generate.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "sample/repetition.h"
#include "sample/stop.h"
#include "text/detokenizer.h"

#include <string.h>

/* Steps of a prompt: small at first, then as large as fits between a quick and a slow one. */
enum { FIRST_CHUNK = 32, QUICK_NS = 100 * 1000 * 1000, SLOW_NS = 300 * 1000 * 1000 };

struct whim_generator {
    whim_generator_cfg cfg;
    whim_sequence *seq;
    whim_sampler *sampler;
    int32_t *fed;  /* [ctx] tokens whose keys and values are in the sequence */
    int32_t *made; /* [ctx + 1] of the last request; the last one may not have been fed */
    int64_t n_made;
};

/* One request under way. */
typedef struct job {
    whim_generator *gen;
    const whim_generate_request *req;
    whim_detokenizer detok;
    whim_stop stop;
    whim_repetition repetition;
    whim_str piece, shown; /* text of a token, and what of it may be shown */
    whim_generated out;
    int32_t n_best; /* logits that decide a token; 0: all */
    int64_t row;    /* of the last step's outputs: the one to choose from */
    bool ended;
} job;

whim_err whim_generator_create(const whim_generator_cfg *cfg, whim_generator **out)
{
    whim_generator *gen = whim_alloc(sizeof *gen);
    if (gen == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    gen->cfg = *cfg;
    gen->fed = whim_alloc_array(cfg->ctx, (int64_t)sizeof *gen->fed);
    gen->made = whim_alloc_array(cfg->ctx + 1, (int64_t)sizeof *gen->made);
    whim_err err = gen->fed != NULL && gen->made != NULL ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY;
    if (err == WHIM_ERR_OK) {
        err = whim_sampler_create(cfg->config->n_vocab, &gen->sampler);
    }
    if (err == WHIM_ERR_OK) {
        err = whim_runner_sequence_create(cfg->runner, &gen->seq);
    }
    if (err != WHIM_ERR_OK) {
        whim_generator_destroy(gen);
        return err;
    }
    *out = gen;
    return WHIM_ERR_OK;
}

void whim_generator_destroy(whim_generator *gen)
{
    if (gen == NULL) {
        return;
    }
    whim_runner_sequence_destroy(gen->cfg.runner, gen->seq);
    whim_sampler_destroy(gen->sampler);
    whim_free(gen->fed);
    whim_free(gen->made);
    whim_free(gen);
}

const char *whim_end_name(whim_end end)
{
    static const char *const names[] = {"eos",     "stop",      "length",    "context",
                                        "context", "interrupt", "repetition"};
    return names[end];
}

static double seconds_since(int64_t start)
{
    return (double)(whim_clock_ns() - start) / (double)WHIM_NS_PER_S;
}

static bool interrupted(const job *j)
{
    return j->req->interrupt != NULL && *j->req->interrupt != 0;
}

static void end_with(job *j, whim_end end)
{
    j->out.end = end;
    j->ended = true;
}

/* --- the prompt --------------------------------------------------------------------------------- */

/* Keep what the sequence has in common with the prompt; at least its last token is fed again, for logits. */
static void prompt_reuse(job *j)
{
    whim_generator *gen = j->gen;
    const whim_generate_request *req = j->req;
    int64_t same = 0;
    if (req->events.on_prompt_row == NULL) {
        while (same < gen->seq->len && same < req->n_prompt - 1 &&
               gen->fed[same] == req->prompt[same]) {
            same++;
        }
    }
    j->out.n_reused = whim_runner_sequence_cut(gen->cfg.runner, gen->seq, same);
}

static whim_err feed(whim_generator *gen, const int32_t *tokens, int64_t n, int64_t n_out,
                     int32_t n_top, whim_diag *diag)
{
    int64_t at = gen->seq->len;
    whim_step_part part = {gen->seq, tokens, n, n_out, n_top};
    WHIM_TRY(whim_runner_step(gen->cfg.runner, &part, 1, diag));
    memcpy(gen->fed + at, tokens, (size_t)n * sizeof *tokens);
    return WHIM_ERR_OK;
}

/* Rows of the step that began at `at`, each of which predicts the token after it. */
static void report_rows(const job *j, int64_t at, int64_t n)
{
    const whim_generate_request *req = j->req;
    for (int64_t i = 0; i < n && at + i + 1 < req->n_prompt; i++) {
        req->events.on_prompt_row(req->events.ctx, at + i + 1, req->prompt[at + i + 1],
                                  whim_runner_logits(j->gen->cfg.runner, i));
    }
}

/* The size of the next step of a prompt that can be interrupted: twice the last one while that was quick,
 * half of it when it was slow. How a prompt is cut changes no bit of its result. */
static int64_t next_chunk(int64_t last, int64_t limit, int64_t took_ns)
{
    int64_t chunk = took_ns < QUICK_NS ? last * 2 : took_ns > SLOW_NS && last > 1 ? last / 2 : last;
    return chunk < limit ? chunk : limit;
}

static whim_err prompt_feed(job *j, whim_diag *diag)
{
    whim_generator *gen = j->gen;
    const whim_generate_request *req = j->req;
    bool rows = req->events.on_prompt_row != NULL;
    int64_t limit = gen->cfg.max_step_tokens;
    if (rows && gen->cfg.max_outs < limit) {
        limit = gen->cfg.max_outs;
    }
    int64_t chunk = req->interrupt != NULL && limit > FIRST_CHUNK ? FIRST_CHUNK : limit;
    for (int64_t at = gen->seq->len; at < req->n_prompt; at = gen->seq->len) {
        int64_t n = req->n_prompt - at < chunk ? req->n_prompt - at : chunk;
        if (interrupted(j)) {
            end_with(j, WHIM_END_INTERRUPT);
            return WHIM_ERR_OK;
        }
        int64_t n_out = rows ? n : at + n == req->n_prompt;
        int64_t start = whim_clock_ns();
        whim_err err = feed(gen, req->prompt + at, n, n_out, rows ? 0 : j->n_best, diag);
        if (err == WHIM_ERR_FULL) {
            return whim_fail(diag, err,
                             "the prompt of %lld tokens does not fit into the memory for keys and "
                             "values; --kv-mem gives more",
                             (long long)req->n_prompt);
        }
        WHIM_TRY(err);
        if (rows) {
            report_rows(j, at, n);
        }
        j->row = n_out - 1;
        if (req->interrupt != NULL) {
            chunk = next_chunk(chunk, limit, whim_clock_ns() - start);
        }
    }
    return WHIM_ERR_OK;
}

/* --- the answer --------------------------------------------------------------------------------- */

static whim_err show(job *j)
{
    const whim_generate_events *events = &j->req->events;
    if (j->shown.failed || j->piece.failed) {
        return WHIM_ERR_NO_MEMORY;
    }
    if (j->shown.len > 0 && events->on_text != NULL) {
        events->on_text(events->ctx, j->shown.text, j->shown.len);
    }
    whim_str_clear(&j->shown);
    return WHIM_ERR_OK;
}

static whim_err text_push(job *j, int32_t id)
{
    if (j->gen->cfg.tok == NULL) {
        return WHIM_ERR_OK;
    }
    whim_str_clear(&j->piece);
    whim_detokenizer_push(&j->detok, id, &j->piece);
    if (whim_stop_push(&j->stop, whim_str_text(&j->piece), j->piece.len, &j->shown)) {
        end_with(j, WHIM_END_STOP);
        j->out.stop = j->stop.matched;
    }
    return show(j);
}

/* What was held back; after a match nothing of it is shown. */
static whim_err text_end(job *j)
{
    if (j->gen->cfg.tok == NULL || j->out.stop >= 0) {
        return WHIM_ERR_OK;
    }
    whim_str_clear(&j->piece);
    whim_detokenizer_flush(&j->detok, &j->piece);
    if (whim_stop_push(&j->stop, whim_str_text(&j->piece), j->piece.len, &j->shown)) {
        end_with(j, WHIM_END_STOP);
        j->out.stop = j->stop.matched;
    }
    whim_stop_flush(&j->stop, &j->shown);
    return show(j);
}

static bool is_stop_id(const whim_generate_request *req, int32_t id)
{
    for (int32_t i = 0; i < req->n_stop_id; i++) {
        if (req->stop_ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* Choose one token and look whether it is the last. */
static whim_err token_make(job *j, whim_diag *diag)
{
    whim_generator *gen = j->gen;
    const whim_generate_request *req = j->req;
    whim_sampled token;
    whim_sample_row row = {
        .logits = whim_runner_logits(gen->cfg.runner, j->row),
        .best = whim_runner_best(gen->cfg.runner, j->row),
        .prompt = req->prompt,
        .n_prompt = req->n_prompt,
        .output = gen->made,
        .n_output = gen->n_made,
    };
    whim_err err = whim_sampler_pick(gen->sampler, req->params, &row, &token, diag);
    if (err != WHIM_ERR_OK) {
        whim_diag_prefix(diag, "after %lld tokens: ", (long long)gen->seq->len);
        return err;
    }
    gen->made[gen->n_made++] = token.id;
    if (req->events.on_token != NULL) {
        req->events.on_token(req->events.ctx, &token);
    }
    if (is_stop_id(req, token.id)) {
        end_with(j, WHIM_END_EOS);
        return WHIM_ERR_OK;
    }
    WHIM_TRY(text_push(j, token.id));
    if (j->ended) {
        return WHIM_ERR_OK;
    }
    if (gen->n_made == req->max_tokens) {
        end_with(j, WHIM_END_LENGTH);
    } else if (req->max_repeated > 0 &&
               whim_repetition_push(&j->repetition, gen->made, gen->n_made, req->max_repeated)) {
        end_with(j, WHIM_END_REPETITION);
    }
    return WHIM_ERR_OK;
}

static whim_err answer_make(job *j, whim_diag *diag)
{
    whim_generator *gen = j->gen;
    int64_t start = whim_clock_ns();
    while (!j->ended) {
        WHIM_TRY(token_make(j, diag));
        j->out.gen_s = seconds_since(start);
        if (j->ended) {
            break;
        }
        if (interrupted(j)) {
            end_with(j, WHIM_END_INTERRUPT);
        } else if (gen->seq->len == gen->cfg.ctx) {
            end_with(j, WHIM_END_CONTEXT);
        } else {
            whim_err err = feed(gen, &gen->made[gen->n_made - 1], 1, 1, j->n_best, diag);
            j->row = 0;
            if (err == WHIM_ERR_FULL) {
                end_with(j, WHIM_END_KV);
            } else {
                WHIM_TRY(err);
            }
        }
    }
    return text_end(j);
}

static whim_err job_run(job *j, whim_diag *diag)
{
    const whim_generate_request *req = j->req;
    int64_t start = whim_clock_ns();
    if (req->n_prompt < 1) {
        return whim_fail(diag, WHIM_ERR_INVALID, "a prompt needs at least one token");
    }
    if (req->n_prompt > j->gen->cfg.ctx) {
        return whim_fail(diag, WHIM_ERR_FULL,
                         "the prompt has %lld tokens, more than the context of %lld",
                         (long long)req->n_prompt, (long long)j->gen->cfg.ctx);
    }
    WHIM_TRY(whim_sample_params_check(req->params, j->gen->cfg.config->n_vocab, diag));
    j->n_best = whim_sample_best_needed(req->params, j->gen->cfg.config->n_vocab);
    prompt_reuse(j);
    WHIM_TRY(prompt_feed(j, diag));
    j->out.prompt_s = seconds_since(start);
    if (!j->ended) {
        WHIM_TRY(answer_make(j, diag));
    }
    return WHIM_ERR_OK;
}

whim_err whim_generate(whim_generator *gen, const whim_generate_request *request,
                       whim_generated *out, whim_diag *diag)
{
    job j = {.gen = gen, .req = request, .out = {.stop = -1}};
    gen->n_made = 0;
    if (gen->cfg.tok != NULL) {
        whim_detokenizer_init(&j.detok, gen->cfg.tok, request->show_special);
    }
    whim_stop_init(&j.stop, request->stops, request->n_stop);
    whim_err err = job_run(&j, diag);
    whim_stop_deinit(&j.stop);
    whim_str_deinit(&j.piece);
    whim_str_deinit(&j.shown);
    if (err == WHIM_ERR_NO_MEMORY) {
        whim_fail(diag, err, "out of memory while generating");
    }
    j.out.ids = gen->made;
    j.out.n_id = gen->n_made;
    j.out.n_context = gen->seq->len;
    *out = j.out;
    return err;
}

static int32_t id_add(int32_t *out, int32_t n, int32_t max, int32_t id)
{
    for (int32_t i = 0; i < n; i++) {
        if (out[i] == id) {
            return n;
        }
    }
    if (n < max) {
        out[n++] = id;
    }
    return n;
}

int32_t whim_stop_ids(const whim_config *config, const whim_tokenizer *tok, int32_t *out,
                      int32_t max)
{
    int32_t own[64], n = 0;
    int32_t n_own = tok != NULL ? whim_tokenizer_stop_ids(tok, own, 64) : 0;
    for (int32_t i = 0; i < config->n_eos; i++) {
        n = id_add(out, n, max, config->eos[i]);
    }
    for (int32_t i = 0; i < n_own; i++) {
        n = id_add(out, n, max, own[i]);
    }
    return n;
}

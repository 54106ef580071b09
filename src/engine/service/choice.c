/* SPDX-License-Identifier: Apache-2.0 */
/* One answer of a job: which token comes, what text that makes, and when it is over. */
#include "base/alloc.h"
#include "base/clock.h"
#include "engine/service/inner.h"

#include <string.h>

/* Room for an answer at first; few are as long as the context lets them be, and many choices may be
 * there at once. */
enum { FIRST_TOKENS = 32 };

bool whim_choice_reserve(whim_choice *c, int64_t n)
{
    if (n <= c->cap_tok) {
        return true;
    }
    int64_t size = sizeof *c->tokens, cap = n < c->max_tok ? n : c->max_tok;
    int32_t *grown = whim_realloc(c->tokens, c->cap_tok * size, cap * size);
    if (grown == NULL) {
        return false;
    }
    c->tokens = grown;
    c->cap_tok = cap;
    if (c->req != NULL) {
        whim_sched_move_tokens(c->req, grown);
    }
    return true;
}

whim_err whim_choice_init(whim_choice *c, whim_job *job, int32_t index)
{
    whim_service *s = job->service;
    const whim_job_cfg *cfg = &job->cfg;
    int64_t room = s->ctx - cfg->n_prompt;
    c->job = job;
    c->index = index;
    c->max_tok = cfg->n_prompt + (cfg->max_tokens > 0 && cfg->max_tokens < room ? cfg->max_tokens
                                  : cfg->max_tokens < 0                         ? 1
                                                                                : room);
    c->think = (whim_think){.open = cfg->think_open, .over = cfg->think_budget == 0};
    whim_stop_init(&c->stop, cfg->stops, cfg->n_stop);
    if (s->cfg.tok != NULL) {
        whim_detokenizer_init(&c->detok, s->cfg.tok, cfg->show_special);
        c->detok.shown = cfg->shown;
        c->detok.n_shown = cfg->n_shown;
    }
    if (!whim_choice_reserve(c, cfg->n_prompt + FIRST_TOKENS)) {
        return WHIM_ERR_NO_MEMORY;
    }
    memcpy(c->tokens, cfg->prompt, (size_t)cfg->n_prompt * sizeof *c->tokens);
    if (cfg->grammar != NULL) {
        WHIM_TRY(whim_grammar_state_create(cfg->grammar, cfg->vocab, &c->grammar));
    }
    if (cfg->grammar != NULL || cfg->min_tokens > 0 || job->allowed != NULL) {
        c->mask = whim_arena_alloc_array(&job->arena, s->n_mask_word, (int64_t)sizeof *c->mask);
        if (c->mask == NULL) {
            return WHIM_ERR_NO_MEMORY;
        }
    }
    return WHIM_ERR_OK;
}

void whim_choice_deinit(whim_choice *c)
{
    whim_grammar_state_destroy(c->grammar);
    whim_stop_deinit(&c->stop);
    whim_lookup_deinit(&c->lookup);
    whim_free(c->tokens);
}

/* The text that a token completes, as far as it may be shown; true when a stop string has
 * matched. */
static bool text_push(whim_choice *c, int32_t id)
{
    whim_service *s = c->job->service;
    whim_str_clear(&s->piece);
    whim_str_clear(&s->shown);
    if (s->cfg.tok == NULL) {
        return false;
    }
    whim_detokenizer_push(&c->detok, id, &s->piece);
    return whim_stop_push(&c->stop, whim_str_text(&s->piece), s->piece.len, &s->shown);
}

static const whim_job_logprob *tops_of(whim_service *s, const whim_sampled *token)
{
    for (int32_t i = 0; i < token->n_top; i++) {
        s->top[i] = (whim_job_logprob){token->top_id[i], token->top_logprob[i]};
    }
    return s->top;
}

static void report(whim_choice *c, const whim_sampled *token, bool is_end)
{
    whim_service *s = c->job->service;
    bool with = c->job->cfg.params.want_logprob;
    whim_job_push(c->job, &(whim_job_event){
                              .kind = WHIM_JOB_TOKEN,
                              .choice = c->index,
                              .id = token->id,
                              .is_end = is_end,
                              .text = is_end ? "" : whim_str_text(&s->shown),
                              .n_text = is_end ? 0 : s->shown.len,
                              .has_logprob = with,
                              .logprob = token->logprob,
                              .top = tops_of(s, token),
                              .n_top = with ? token->n_top : 0,
                          });
}

/* A request that gave its memory up is read again; that is no news. */
void whim_choice_fed(whim_choice *c, int64_t n_tok)
{
    whim_job *job = c->job;
    int64_t n = n_tok < job->cfg.n_prompt ? n_tok : job->cfg.n_prompt;
    if (c->index > 0 || n <= atomic_load_explicit(&job->n_read, memory_order_relaxed)) {
        return;
    }
    atomic_store_explicit(&job->n_read, n, memory_order_relaxed);
    if (job->cfg.tell_progress) {
        whim_job_push(job, &(whim_job_event){.kind = WHIM_JOB_PROGRESS, .position = n});
    }
}

/* Not before min_tokens, like the model's own ends. */
static bool goes_in_circles(whim_choice *c)
{
    const whim_job_cfg *cfg = &c->job->cfg;
    return cfg->max_repeated > 0 &&
           whim_repetition_push(&c->repetition, c->tokens + cfg->n_prompt, c->n_made,
                                cfg->max_repeated) &&
           c->n_made >= cfg->min_tokens;
}

/* For the mask of this step, or for the token that was taken. */
static bool lacks_memory(const whim_choice *c)
{
    return c->grammar != NULL && whim_grammar_lacks_memory(c->grammar);
}

whim_err whim_choice_pick(whim_choice *c, int64_t out, int32_t *token, whim_diag *diag)
{
    whim_job *job = c->job;
    whim_sampled *sampled = &job->service->sampled;
    if (job->cfg.max_tokens < 0) {
        whim_choice_end(c, WHIM_END_LENGTH);
        return WHIM_ERR_OK;
    }
    if (lacks_memory(c)) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory");
    }
    if (c->grammar != NULL && whim_grammar_is_stuck(c->grammar)) {
        job->unfit = "the vocabulary of this model cannot write what the grammar asks for, or the "
                     "grammar can be read in too many ways";
        return whim_fail(diag, WHIM_ERR_INVALID, "%s", job->unfit);
    }
    whim_err err = whim_exec_sampled(whim_runner_exec(job->service->runner), out, sampled, diag);
    if (err == WHIM_ERR_INVALID && job->allowed != NULL) {
        job->unfit = "the tokens that are allowed cannot write what the answer is held to";
    }
    WHIM_TRY(err);
    *token = sampled->id;
    whim_choice_count(c);
    int64_t at = job->cfg.n_prompt + c->n_made++;
    c->tokens[at] = sampled->id;
    /* For the next one already: the scheduler appends also what a failed choice would have been. */
    if (at + 1 == c->cap_tok && at + 1 < c->max_tok && !whim_choice_reserve(c, 2 * c->cap_tok)) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory");
    }
    job->times.n_made++;
    if (whim_choice_ends_by(c, sampled->id)) {
        report(c, sampled, true);
        whim_choice_end(c, WHIM_END_EOS);
        return WHIM_ERR_OK;
    }
    if (!whim_choice_walk(c, at - job->cfg.n_prompt, sampled->id)) {
        if (lacks_memory(c)) {
            return whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory");
        }
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "token %d was chosen against the grammar's mask; this is a bug",
                         sampled->id);
    }
    bool stopped = text_push(c, sampled->id);
    if (job->service->piece.failed || job->service->shown.failed) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory");
    }
    report(c, sampled, false);
    if (stopped) {
        whim_choice_end(c, WHIM_END_STOP);
    } else if (c->grammar != NULL && whim_grammar_must_end(c->grammar)) {
        whim_choice_end(c, WHIM_END_EOS);
    } else if (c->n_made == job->cfg.max_tokens) {
        whim_choice_end(c, WHIM_END_LENGTH);
    } else if (at + 1 == c->max_tok) {
        whim_choice_end(c, job->service->has_few_pages ? WHIM_END_KV : WHIM_END_CONTEXT);
    } else if (goes_in_circles(c)) {
        whim_choice_end(c, WHIM_END_REPETITION);
    }
    return WHIM_ERR_OK;
}

void whim_choice_prompt_rows(whim_choice *c, int64_t out, int64_t at, int64_t n)
{
    whim_job *job = c->job;
    whim_service *s = job->service;
    whim_sampled *row = &s->sampled;
    if (c->n_prompt_told == 0) {
        whim_job_push(job,
                      &(whim_job_event){.kind = WHIM_JOB_PROMPT_TOKEN, .id = job->cfg.prompt[0]});
        c->n_prompt_told = 1;
    }
    for (int64_t i = 0; i < n && at + i + 1 < job->cfg.n_prompt; i++) {
        int64_t position = at + i + 1;
        if (position < c->n_prompt_told) {
            continue; /* fed again after a preemption */
        }
        /* A row that makes no sense is told as it is, NaN; the row that the answer begins with ends
         * the job. */
        whim_diag ignored;
        (void)!whim_exec_sampled(whim_runner_exec(s->runner), out + i, row, &ignored);
        whim_job_push(job, &(whim_job_event){
                               .kind = WHIM_JOB_PROMPT_TOKEN,
                               .id = job->cfg.prompt[position],
                               .position = position,
                               .has_logprob = true,
                               .logprob = row->logprob,
                               .top = tops_of(s, row),
                               .n_top = row->n_top,
                           });
        c->n_prompt_told = position + 1;
    }
}

/* What was held back; after a stop string nothing of it is shown. */
static whim_end text_end(whim_choice *c, whim_end end)
{
    whim_service *s = c->job->service;
    whim_str_clear(&s->piece);
    whim_str_clear(&s->shown);
    if (c->stop.matched >= 0 || s->cfg.tok == NULL) {
        return end;
    }
    whim_detokenizer_flush(&c->detok, &s->piece);
    if (whim_stop_push(&c->stop, whim_str_text(&s->piece), s->piece.len, &s->shown)) {
        return WHIM_END_STOP;
    }
    whim_stop_flush(&c->stop, &s->shown);
    return end;
}

void whim_choice_end(whim_choice *c, whim_end end)
{
    static const whim_job_reason reasons[] = {
        [WHIM_END_EOS] = WHIM_REASON_STOP,
        [WHIM_END_STOP] = WHIM_REASON_STOP,
        [WHIM_END_LENGTH] = WHIM_REASON_LENGTH,
        [WHIM_END_CONTEXT] = WHIM_REASON_LENGTH,
        [WHIM_END_KV] = WHIM_REASON_LENGTH,
        [WHIM_END_INTERRUPT] = WHIM_REASON_INTERRUPT,
        [WHIM_END_REPETITION] = WHIM_REASON_REPETITION,
    };
    whim_job *job = c->job;
    whim_service *s = job->service;
    end = text_end(c, end);
    whim_lookup_deinit(&c->lookup); /* nothing is proposed any more */
    if (s->piece.failed || s->shown.failed) {
        whim_job_lose(job); /* an end without its last text is none */
    }
    c->ended = true;
    job->n_ended++;
    job->times.reason = reasons[end];
    whim_job_push(job, &(whim_job_event){
                           .kind = WHIM_JOB_CHOICE_END,
                           .choice = c->index,
                           .text = whim_str_text(&s->shown),
                           .n_text = s->shown.len,
                           .end = end,
                           .stop = c->stop.matched,
                       });
}

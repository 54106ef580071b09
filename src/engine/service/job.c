/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: their copies of what was asked, their life, and the queue of events between the service and
 * a reader. */
#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/heap/budget.h"
#include "chat/reasoning.h"
#include "engine/service/inner.h"

#include <string.h>

/* What may wait for a reader when the memory for requests is all taken. */
enum { SHORT_BYTES = 256 << 10 };

/* One event in a queue: this, its alternatives, its text, and padding to 8 bytes. */
typedef struct record {
    whim_job_event event;
    int64_t bytes;
} record;

static void *copy(whim_arena *arena, const void *src, int64_t n, int64_t size, bool *ok)
{
    if (n <= 0) {
        return NULL;
    }
    void *dst = whim_arena_alloc_array(arena, n, size);
    if (dst == NULL) {
        *ok = false;
        return NULL;
    }
    memcpy(dst, src, (size_t)(n * size));
    return dst;
}

static void history_copy(whim_sample_params *params, whim_arena *a, bool *ok)
{
    whim_history_rules *h = copy(a, params->history, params->history != NULL, sizeof *h, ok);
    params->history = h;
    if (h != NULL) {
        h->dry_breakers = copy(a, h->dry_breakers, h->n_breaker_word, sizeof *h->dry_breakers, ok);
        h->bans = copy(a, h->bans, h->n_ban, sizeof *h->bans, ok);
        h->ban_ids = copy(a, h->ban_ids, h->n_ban_id, sizeof *h->ban_ids, ok);
    }
}

/* Everything that the caller may free after submit. */
static bool copies_make(whim_job *job)
{
    whim_job_cfg *c = &job->cfg;
    whim_arena *a = &job->arena;
    bool ok = true;
    c->prompt = copy(a, c->prompt, c->n_prompt, (int64_t)sizeof *c->prompt, &ok);
    c->prediction = copy(a, c->prediction, c->n_prediction, (int64_t)sizeof *c->prediction, &ok);
    c->stop_ids = copy(a, c->stop_ids, c->n_stop_id, (int64_t)sizeof *c->stop_ids, &ok);
    c->shown = copy(a, c->shown, c->n_shown, (int64_t)sizeof *c->shown, &ok);
    c->params.bias =
        copy(a, c->params.bias, c->params.n_bias, (int64_t)sizeof *c->params.bias, &ok);
    history_copy(&c->params, a, &ok);
    const char **stops = copy(a, c->stops, c->n_stop, (int64_t)sizeof *c->stops, &ok);
    for (int32_t i = 0; ok && i < c->n_stop; i++) {
        stops[i] = whim_arena_strndup(a, stops[i], (int64_t)strlen(stops[i]));
        ok = stops[i] != NULL;
    }
    c->stops = stops;
    return ok && (c->n_prediction == 0 ||
                  whim_lookup_grow(&job->predicted, c->prediction, c->n_prediction));
}

/* A text as tokens, in the job's memory. */
static whim_err tokens_make(whim_job *job, const char *text, const int32_t **out, int64_t *n,
                            whim_diag *diag)
{
    whim_ids ids = {0};
    whim_encode_opts opts = {.parse_special = true};
    bool ok = true;
    whim_err err = whim_tokenizer_encode(job->service->cfg.tok, text, (int64_t)strlen(text), &opts,
                                         &ids, diag);
    if (err == WHIM_ERR_OK) {
        *out = copy(&job->arena, ids.ids, ids.n, (int64_t)sizeof *ids.ids, &ok);
        *n = ids.n;
    }
    whim_ids_deinit(&ids);
    return ok ? err : WHIM_ERR_NO_MEMORY;
}

/* Where the reasoning with a budget begins and ends: what opens it is one token or several. */
static whim_err tags_make(whim_job *job, whim_diag *diag)
{
    const whim_tokenizer *tok = job->service->cfg.tok;
    const whim_think_words *words =
        job->cfg.think_words != NULL ? job->cfg.think_words : &whim_think_words_known[0];
    int32_t whole = whim_tokenizer_find(tok, words->open);
    job->closer = whim_tokenizer_find(tok, words->close);
    if (whole < 0) {
        return tokens_make(job, words->open, &job->opener, &job->n_opener, diag);
    }
    bool ok = true;
    job->opener = copy(&job->arena, &whole, 1, (int64_t)sizeof whole, &ok);
    job->n_opener = ok;
    return ok ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY;
}

static whim_err think_make(whim_job *job, whim_diag *diag)
{
    whim_job_cfg *c = &job->cfg;
    if (c->think_budget <= 0 || c->think_end == NULL) {
        c->think_budget = 0;
        return WHIM_ERR_OK;
    }
    whim_err err = tokens_make(job, c->think_end, &job->forced, &job->n_forced, diag);
    c->think_end = NULL; /* the caller's */
    return err == WHIM_ERR_OK ? tags_make(job, diag) : err;
}

static bool allowed_make(whim_job *job)
{
    const whim_job_cfg *c = &job->cfg;
    if (c->allowed == NULL) {
        return true;
    }
    job->allowed = whim_arena_alloc_array(&job->arena, job->service->n_mask_word,
                                          (int64_t)sizeof *job->allowed);
    for (int32_t i = 0; job->allowed != NULL && i < c->n_allowed; i++) {
        job->allowed[c->allowed[i] / 32] |= UINT32_C(1) << c->allowed[i] % 32;
    }
    return job->allowed != NULL;
}

static whim_err job_fill(whim_job *job, whim_diag *diag)
{
    if (!copies_make(job) || !allowed_make(job)) {
        return WHIM_ERR_NO_MEMORY;
    }
    whim_sample_params_init(&job->prompt_params);
    job->prompt_params.want_logprob = true;
    job->prompt_params.n_logprob = job->cfg.prompt_logprobs;
    WHIM_TRY(think_make(job, diag));
    job->choices =
        whim_arena_alloc_array(&job->arena, job->cfg.n_choice, (int64_t)sizeof *job->choices);
    if (job->choices == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    for (int32_t i = 0; i < job->cfg.n_choice; i++) {
        WHIM_TRY(whim_choice_init(&job->choices[i], job, i));
    }
    return WHIM_ERR_OK;
}

static void job_destroy(whim_job *job)
{
    for (int32_t i = 0; job->choices != NULL && i < job->cfg.n_choice; i++) {
        whim_choice_deinit(&job->choices[i]);
    }
    whim_grammar_unref(job->cfg.grammar);
    whim_lookup_deinit(&job->predicted);
    whim_arena_reset(&job->arena);
    whim_str_deinit(&job->pending);
    whim_str_deinit(&job->reading);
    pthread_mutex_destroy(&job->lock);
    whim_free(job);
}

static void job_unref(whim_job *job)
{
    if (atomic_fetch_sub_explicit(&job->refs, 1, memory_order_acq_rel) == 1) {
        job_destroy(job);
    }
}

whim_err whim_job_create(whim_service *service, const whim_job_cfg *cfg, whim_job **out,
                         whim_diag *diag)
{
    whim_job *job = whim_alloc(sizeof *job);
    WHIM_TRY(whim_got(job != NULL, diag, "no memory for a request"));
    job->service = service;
    job->cfg = *cfg;
    job->reader_idle = true;
    job->times.submitted = whim_clock_ns();
    job->cfg.received_ns = cfg->received_ns > 0 ? cfg->received_ns : job->times.submitted;
    job->times.n_prompt = cfg->n_prompt;
    atomic_init(&job->n_known, -1);
    atomic_init(&job->refs, 1);
    whim_arena_init(&job->arena);
    pthread_mutex_init(&job->lock, NULL);
    if (cfg->grammar != NULL) {
        whim_grammar_ref(cfg->grammar);
    }
    whim_err err = job_fill(job, diag);
    if (err != WHIM_ERR_OK) {
        job_unref(job);
        return err == WHIM_ERR_NO_MEMORY ? whim_fail(diag, err, "no memory for a request") : err;
    }
    *out = job;
    return WHIM_ERR_OK;
}

/* The queue has something new. The lock is held, and is given up. */
static void unlock_and_wake(whim_job *job)
{
    bool wake = job->reader_idle;
    job->reader_idle = false;
    pthread_mutex_unlock(&job->lock);
    if (wake && job->cfg.wake != NULL) {
        job->cfg.wake(job->cfg.wake_ctx, job);
    }
}

void whim_job_lose(whim_job *job)
{
    job->lost = true;
    whim_job_cancel(job, WHIM_REASON_NO_MEMORY);
}

/* An event is in the queue whole or not at all; after one that is missing none comes but the
 * last. */
void whim_job_push(whim_job *job, const whim_job_event *event)
{
    static const char zeros[8];
    int64_t n_top = event->n_top * (int64_t)sizeof *event->top;
    int64_t bytes = (int64_t)sizeof(record) + n_top + event->n_text;
    int64_t pad = 8 - (bytes & 7); /* a NUL at least */
    record r = {*event, bytes + pad};
    whim_str *queue = &job->pending;
    if (job->lost) {
        return;
    }
    pthread_mutex_lock(&job->lock);
    int64_t n_whole = queue->len;
    whim_str_append_n(queue, (const char *)&r, (int64_t)sizeof r);
    whim_str_append_n(queue, (const char *)event->top, n_top);
    whim_str_append_n(queue, event->text, event->n_text);
    whim_str_append_n(queue, zeros, pad);
    if (queue->failed) {
        queue->len = n_whole;
        whim_job_lose(job);
    } else if (queue->len > job->service->cfg.max_queued_bytes) {
        whim_job_cancel(job, WHIM_REASON_TOO_SLOW);
    } else if (queue->len > SHORT_BYTES && whim_budget_is_over(WHIM_BUDGET_WHOLE)) {
        whim_job_cancel(job, WHIM_REASON_SHORT_MEMORY);
    }
    unlock_and_wake(job);
}

void whim_job_finish(whim_job *job, whim_err err, const char *message)
{
    pthread_mutex_lock(&job->service->lock);
    whim_queue_leave(&job->service->queue, job);
    pthread_mutex_unlock(&job->service->lock);
    job->times.ended = whim_clock_ns();
    if (job->times.reason == WHIM_REASON_NONE) {
        job->times.reason = WHIM_REASON_FAILED;
    }
    whim_service_count_ended(job->service, job, err == WHIM_ERR_OK);
    pthread_mutex_lock(&job->lock);
    job->last = (whim_job_event){
        .kind = err == WHIM_ERR_OK ? WHIM_JOB_DONE : WHIM_JOB_FAILED,
        .err = err,
        .message = message, /* a literal */
        .detail = job->trouble.text,
        .n_cached = job->times.n_cached,
    };
    job->has_last = true;
    unlock_and_wake(job);
    job_unref(job);
}

/* Take over what the service has written, and after all of that the last event; false when there is
 * nothing. */
static bool queue_swap(whim_job *job, bool *is_last)
{
    pthread_mutex_lock(&job->lock);
    whim_str_clear(&job->reading);
    bool any = job->pending.len > 0;
    *is_last = !any && job->has_last;
    if (any) {
        whim_str empty = job->reading;
        job->reading = job->pending;
        job->pending = empty;
    } else if (*is_last) {
        job->has_last = false;
    } else {
        job->reader_idle = true;
    }
    pthread_mutex_unlock(&job->lock);
    job->read_at = 0;
    return any || *is_last;
}

bool whim_job_next(whim_job *job, whim_job_event *out)
{
    bool is_last = false;
    if (job->read_at == job->reading.len && !queue_swap(job, &is_last)) {
        return false;
    }
    if (is_last) {
        *out = job->last;
        return true;
    }
    whim_check(job->reading.len - job->read_at >= (int64_t)sizeof(record));
    const char *at = job->reading.text + job->read_at;
    record r;
    memcpy(&r, at, sizeof r);
    *out = r.event;
    out->top = (const whim_job_logprob *)(at + sizeof r);
    out->text = at + sizeof r + (int64_t)out->n_top * (int64_t)sizeof *out->top;
    job->read_at += r.bytes;
    return true;
}

whim_job_reason whim_job_failure(whim_err err)
{
    return err == WHIM_ERR_NO_MEMORY ? WHIM_REASON_NO_MEMORY : WHIM_REASON_FAILED;
}

void whim_job_cancel(whim_job *job, whim_job_reason why)
{
    int none = WHIM_REASON_NONE;
    atomic_compare_exchange_strong(&job->cancel, &none, (int)why);
}

void whim_job_stop_choice(whim_job *job, int32_t choice)
{
    whim_check(choice >= 0 && choice < job->cfg.n_choice);
    atomic_store(&job->choices[choice].enough, true);
}

whim_job_times whim_job_get_times(const whim_job *job)
{
    return job->times;
}

whim_job_look whim_job_look_at(const whim_job *job)
{
    int64_t known = atomic_load_explicit(&job->n_known, memory_order_relaxed);
    return (whim_job_look){
        .is_running = known >= 0,
        .n_prompt = job->cfg.n_prompt,
        .n_cached = known > 0 ? known : 0,
        .n_read = atomic_load_explicit(&job->n_read, memory_order_relaxed),
        .n_made = atomic_load_explicit(&job->n_said, memory_order_relaxed),
        .submitted = job->times.submitted,
    };
}

void whim_job_release(whim_job *job)
{
    if (job != NULL) {
        whim_job_cancel(job, WHIM_REASON_RELEASED);
        job_unref(job);
    }
}

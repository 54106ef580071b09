/* SPDX-License-Identifier: Apache-2.0 */
/* The service: its thread, its intake, its end. */
#include "engine/service.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/service/disk.h"
#include "engine/service/enter.h"
#include "engine/service/groups.h"
#include "engine/service/step.h"
#include "runner/page_store.h"

#include <time.h>

enum {
    DEFAULT_WAITING = 128,
    DEFAULT_QUEUED_BYTES = 4 << 20,
    IDLE_NS = 100 * 1000 * 1000,
};

/* --- the loop --------------------------------------------------------------------------------- */

static void beat(whim_service *s)
{
    atomic_store(&s->heartbeat_ns, whim_clock_ns());
}

/* Take over the jobs that were submitted; waits for one when there is nothing else to do. */
static whim_job *intake_take(whim_service *s, bool wait)
{
    pthread_mutex_lock(&s->lock);
    if (wait && s->intake_first == NULL && !s->stopping) {
        struct timespec until = whim_clock_after(IDLE_NS);
        pthread_cond_timedwait(&s->more, &s->lock, &until);
        s->woken_ns = whim_clock_ns();
    }
    whim_job *first = s->intake_first;
    s->intake_first = s->intake_last = NULL;
    pthread_mutex_unlock(&s->lock);
    return first;
}

static void intake_enter(whim_service *s, whim_job *job)
{
    while (job != NULL) {
        whim_job *next = job->next;
        atomic_store(&s->is_saved, false);
        job->next = s->active;
        s->active = job;
        whim_service_enter(s, &job->choices[0]);
        job = next;
    }
}

/* Choices that someone has seen enough of. */
static void stop_choices(whim_service *s, whim_job *job)
{
    for (int32_t i = 0; i < job->cfg.n_choice; i++) {
        whim_choice *c = &job->choices[i];
        if (!c->ended && atomic_load(&c->enough)) {
            whim_choice_end(c, WHIM_END_STOP);
            whim_choice_leave(c);
        }
    }
    if (job->choices[0].ended) { /* before its prompt was in the tree: nobody waits for that now */
        whim_service_followers_enter(s, job);
    }
}

/* Why a job that was cancelled failed: as an error, and in words for its client. */
static whim_err error_of(const whim_job *job, whim_job_reason why, const char **message)
{
    if (job->unfit != NULL) {
        *message = job->unfit;
        return WHIM_ERR_INVALID;
    }
    if (why == WHIM_REASON_NO_MEMORY) {
        *message = whim_job_reason_name(why);
        return WHIM_ERR_NO_MEMORY;
    }
    if (why == WHIM_REASON_QUEUE_FULL || why == WHIM_REASON_SHORT_MEMORY) {
        *message = whim_job_reason_name(why);
        return WHIM_ERR_FULL;
    }
    bool failed = whim_job_reason_is_failure(why);
    *message = failed ? "the model failed on this request" : "the request was ended";
    return failed ? WHIM_ERR_DEVICE : WHIM_ERR_FULL;
}

/* True when the job is over and has left. */
static bool job_settle(whim_service *s, whim_job *job, int64_t now)
{
    whim_job_reason why = (whim_job_reason)atomic_load(&job->cancel);
    if (why == WHIM_REASON_NONE && job->cfg.deadline_ns > 0 && now > job->cfg.deadline_ns) {
        why = WHIM_REASON_DEADLINE;
    }
    if (why != WHIM_REASON_NONE) {
        const char *message;
        bool failed = whim_job_reason_is_failure(why);
        s->counts.n_failed += failed;
        s->counts.n_cancelled += !failed;
        whim_err err = error_of(job, why, &message);
        whim_job_fail(job, err, why, message);
        return true;
    }
    stop_choices(s, job);
    if (job->n_ended < job->cfg.n_choice) {
        return false;
    }
    s->counts.n_done++;
    s->counts.n_prompt_tokens += job->times.n_prompt;
    s->counts.n_cached_tokens += job->times.n_cached;
    s->counts.n_made_tokens += job->times.n_made;
    whim_job_finish(job, WHIM_ERR_OK, NULL);
    return true;
}

static void jobs_settle(whim_service *s)
{
    int64_t now = whim_clock_ns();
    whim_job **at = &s->active;
    while (*at != NULL) {
        whim_job *job = *at;
        whim_job *next = job->next; /* the job may be freed */
        if (job_settle(s, job, now)) {
            *at = next;
            atomic_fetch_sub(&s->n_active, 1);
        } else {
            at = &job->next;
        }
    }
}

/* All its fields are numbers of one size: they go out one by one, so that a reader never waits. */
void whim_service_publish(whim_service *s)
{
    whim_service_stats stats = s->counts;
    stats.sched = whim_groups_stats(s);
    stats.n_step = atomic_load(&s->n_step);
    stats.page_bytes = whim_engine_runner_plan(s->cfg.engine)->page_bytes;
    if (s->has_disk) {
        whim_disk_tier_stats disk = whim_exec_store_stats(whim_runner_exec(s->runner));
        stats.disk_bytes = disk.bytes;
        stats.disk_errors = disk.n_error;
        stats.disk_lost = disk.n_lost;
        stats.disk_written = disk.n_put;
        stats.disk_read = disk.n_got;
        stats.disk_dropped = disk.n_dropped;
        stats.disk_refused = disk.n_refused;
        stats.disk_limit = disk.limit;
    }
    int64_t words[sizeof stats / sizeof(int64_t)];
    memcpy(words, &stats, sizeof stats);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        atomic_store_explicit(&s->stats[i], words[i], memory_order_relaxed);
    }
}

static bool is_stopping(whim_service *s)
{
    pthread_mutex_lock(&s->lock);
    bool stopping = s->stopping;
    pthread_mutex_unlock(&s->lock);
    return stopping;
}

static void loop(void *ctx)
{
    whim_service *s = ctx;
    bool busy = false;
    while (!is_stopping(s)) {
        beat(s);
        intake_enter(s, intake_take(s, !busy));
        jobs_settle(s);
        busy = whim_service_step(s);
        if (busy) {
            jobs_settle(s);
        } else {
            busy = whim_service_disk_save(s);
        }
        whim_service_publish(s);
        whim_service_count_rate(s);
    }
    whim_service_land(s);
    intake_enter(s, intake_take(s, false));
    for (whim_job *job = s->active; job != NULL; job = job->next) {
        whim_job_cancel(job, WHIM_REASON_STOPPING);
    }
    jobs_settle(s);
}

/* --- life ------------------------------------------------------------------------------------- */

static void *take(whim_service *s, int64_t n, int64_t size, bool *ok)
{
    void *array = whim_arena_alloc_array(&s->arena, n, size);
    *ok = *ok && array != NULL;
    return array;
}

static whim_err service_fill(whim_service *s, whim_diag *diag)
{
    int64_t n = s->cfg.max_seqs * whim_exec_groups(whim_engine_limits(s->cfg.engine));
    bool ok = true;
    s->drafts.wanted = take(s, n, sizeof *s->drafts.wanted, &ok);
    bool drafts = !s->cfg.no_draft && s->cfg.propose == NULL;
    s->drafts.model = drafts ? whim_engine_draft(s->cfg.engine) : NULL;
    s->drafts.choices = take(s, n, sizeof *s->drafts.choices, &ok);
    s->drafts.asks = take(s, n, sizeof *s->drafts.asks, &ok);
    s->drafts.widths = take(s, n, sizeof *s->drafts.widths, &ok);
    if (!ok) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the service");
    }
    const whim_exec_cfg *limits = whim_engine_limits(s->cfg.engine);
    s->goes_ahead = limits->n_flight > 1;
    s->has_states = whim_runner_states(s->runner)->n_page > 0;
    bool has_source = !s->cfg.no_lookup || s->cfg.propose != NULL || s->drafts.model != NULL;
    s->proposes = has_source && (!s->has_states || limits->max_kept > 0);
    WHIM_TRY(whim_service_disk_open(s, diag));
    return whim_groups_open(s, diag);
}

static void service_free(whim_service *s)
{
    whim_groups_end(s);
    whim_service_disk_close(s);
    whim_groups_close(s);
    whim_str_deinit(&s->piece);
    whim_str_deinit(&s->shown);
    whim_arena_reset(&s->arena);
    pthread_cond_destroy(&s->more);
    pthread_mutex_destroy(&s->lock);
    whim_free(s);
}

/* A sequence never has more positions than the pages hold, and the last token of an answer needs
 * none. */
static void ctx_choose(whim_service *s)
{
    int64_t ctx = whim_engine_ctx(s->cfg.engine);
    const whim_exec_cfg *limits = whim_engine_limits(s->cfg.engine);
    int64_t room = limits->n_page * limits->page_len;
    s->has_few_pages = room < ctx;
    ctx = s->has_few_pages ? room : ctx;
    s->ctx = s->cfg.ctx == 0 ? ctx : s->cfg.ctx < ctx + 1 ? s->cfg.ctx : ctx + 1;
}

whim_err whim_service_create(const whim_service_cfg *cfg, whim_service **out, whim_diag *diag)
{
    whim_service *s = whim_alloc(sizeof *s);
    WHIM_TRY(whim_got(s != NULL, diag, "no memory for the service"));
    s->cfg = *cfg;
    s->cfg.max_waiting = cfg->max_waiting > 0 ? cfg->max_waiting : DEFAULT_WAITING;
    s->cfg.max_queued_bytes =
        cfg->max_queued_bytes > 0 ? cfg->max_queued_bytes : DEFAULT_QUEUED_BYTES;
    s->runner = whim_engine_runner(cfg->engine);
    s->config = whim_engine_config(cfg->engine);
    ctx_choose(s);
    s->n_mask_word = s->config->n_vocab / 32 + 1;
    s->meters = cfg->meters != NULL ? cfg->meters : &s->own_meters;
    whim_cond_init(&s->more);
    pthread_mutex_init(&s->lock, NULL);
    beat(s);
    whim_err err = service_fill(s, diag);
    if (err == WHIM_ERR_OK) {
        whim_service_publish(s); /* how many pages there are is known before the first step */
        err = whim_thread_create(&s->thread, "engine", loop, s, diag);
    }
    if (err != WHIM_ERR_OK) {
        service_free(s);
        return err;
    }
    *out = s;
    return WHIM_ERR_OK;
}

void whim_service_drain(whim_service *s)
{
    pthread_mutex_lock(&s->lock);
    s->draining = true;
    pthread_mutex_unlock(&s->lock);
}

bool whim_service_is_saved(const whim_service *s)
{
    return atomic_load(&s->is_saved);
}

bool whim_service_is_draining(whim_service *s)
{
    pthread_mutex_lock(&s->lock);
    bool draining = s->draining;
    pthread_mutex_unlock(&s->lock);
    return draining;
}

void whim_service_destroy(whim_service *s)
{
    if (s == NULL) {
        return;
    }
    pthread_mutex_lock(&s->lock);
    s->draining = s->stopping = true;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    whim_thread_join(&s->thread);
    service_free(s);
}

/* --- from other threads ----------------------------------------------------------------------- */

static whim_err fits(const whim_service *s, const whim_job_cfg *cfg, whim_diag *diag)
{
    if (cfg->n_prompt < 1) {
        return whim_fail(diag, WHIM_ERR_INVALID, "a prompt needs at least one token");
    }
    if (cfg->n_prompt >= s->ctx && s->has_few_pages) {
        return whim_fail(diag, WHIM_ERR_NO_FIT,
                         "the prompt of %lld tokens does not fit into the memory for keys and "
                         "values",
                         (long long)cfg->n_prompt);
    }
    if (cfg->n_prompt >= s->ctx) {
        return whim_fail(diag, WHIM_ERR_NO_FIT, "the prompt has %lld tokens, the context is %lld",
                         (long long)cfg->n_prompt, (long long)s->ctx);
    }
    for (int64_t i = 0; i < cfg->n_prompt; i++) {
        if (cfg->prompt[i] < 0 || cfg->prompt[i] >= s->config->n_vocab) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "token id %d of the prompt is outside the vocabulary of %d",
                             cfg->prompt[i], s->config->n_vocab);
        }
    }
    return whim_sample_params_check(&cfg->params, s->config->n_vocab, diag);
}

/* Queue jobs, which are linked, or refuse them: draining, or too many waiting. */
static whim_err intake_put(whim_service *s, whim_job *const *jobs, int32_t n, whim_diag *diag)
{
    whim_err err;
    pthread_mutex_lock(&s->lock);
    long long waiting = atomic_load(&s->queue.n);
    if (s->draining) {
        err = whim_fail(diag, WHIM_ERR_FULL, "the server is stopping");
    } else if ((err = whim_queue_take(&s->queue, jobs, n, s->cfg.max_waiting)) != WHIM_ERR_OK) {
        whim_fail(diag, err, "%lld requests are waiting already", waiting);
    } else {
        atomic_fetch_add(&s->n_active, n);
        if (s->intake_last != NULL) {
            s->intake_last->next = jobs[0];
        } else {
            s->intake_first = jobs[0];
        }
        s->intake_last = jobs[n - 1];
        pthread_cond_signal(&s->more);
    }
    pthread_mutex_unlock(&s->lock);
    return err;
}

whim_err whim_service_submit(whim_service *s, const whim_job_cfg *cfgs, int32_t n, whim_job **out,
                             whim_diag *diag)
{
    int32_t n_made = 0;
    whim_err err = WHIM_ERR_OK;
    for (; n_made < n; n_made++) {
        WHIM_TRY_OUT(fits(s, &cfgs[n_made], diag));
        WHIM_TRY_OUT(whim_job_create(s, &cfgs[n_made], &out[n_made], diag));
        atomic_fetch_add(&out[n_made]->refs, 1); /* the service's, given back by whim_job_finish */
        if (n_made > 0) {
            out[n_made - 1]->next = out[n_made];
        }
    }
    err = intake_put(s, out, n, diag);
    if (err == WHIM_ERR_OK) {
        atomic_fetch_add(&s->n_jobs, n);
        return WHIM_ERR_OK;
    }
    atomic_fetch_add(&s->n_refused, n);
out:
    for (int32_t i = 0; i < n_made; i++) {
        atomic_fetch_sub(&out[i]->refs, 1);
        whim_job_release(out[i]);
        out[i] = NULL;
    }
    return err;
}

int64_t whim_service_ctx(const whim_service *s)
{
    return s->ctx;
}

int64_t whim_service_active(const whim_service *s)
{
    return atomic_load(&s->n_active);
}

const char *whim_service_lost(const whim_service *s)
{
    return atomic_load(&s->is_lost) ? s->lost.text : NULL;
}

bool whim_service_is_apart(const whim_service *s)
{
    return atomic_load(&s->is_apart);
}

/* Starting ranks again takes as long as a load; that is no hang. Between two attempts the loop
 * goes on. */
int64_t whim_service_heartbeat_ns(const whim_service *s)
{
    return atomic_load(&s->rejoins) ? whim_clock_ns() : atomic_load(&s->heartbeat_ns);
}

void whim_service_describe(const whim_service *s, whim_str *out)
{
    whim_str_printf(
        out, "steps=%lld rows=%lld sequences=%lld active=%lld waiting=%lld quiet_ms=%lld",
        atomic_load(&s->n_step), atomic_load(&s->step_rows), atomic_load(&s->step_items),
        atomic_load(&s->n_active), atomic_load(&s->queue.n),
        (whim_clock_ns() - atomic_load(&s->heartbeat_ns)) / WHIM_NS_PER_MS);
}

whim_service_stats whim_service_get_stats(whim_service *s)
{
    whim_service_stats stats;
    int64_t words[sizeof stats / sizeof(int64_t)];
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        words[i] = atomic_load_explicit(&s->stats[i], memory_order_relaxed);
    }
    memcpy(&stats, words, sizeof stats);
    stats.n_refused = atomic_load(&s->n_refused);
    stats.n_jobs = atomic_load(&s->n_jobs);
    return stats;
}

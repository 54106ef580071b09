/* SPDX-License-Identifier: Apache-2.0 */
/* What the service counts: once for a step, a token, an admission and an end, in cells that anybody
 * may read. */
#include "base/clock.h"
#include "comm/rank_meters.h"
#include "engine/service/inner.h"

void whim_service_count_admitted(whim_service *s, const whim_job *job)
{
    const whim_job_times *t = &job->times;
    int32_t result = t->n_cached > 0 ? WHIM_LABEL_CACHE_HIT : WHIM_LABEL_CACHE_MISS;
    whim_meter_observe(s->meters, QUEUE_TIME, t->admitted - t->submitted);
    whim_meter_add(s->meters, PROMPT_TOKENS, 0, t->n_prompt);
    whim_meter_add(s->meters, TOKENS, WHIM_LABEL_TOKENS_CACHED, t->n_cached);
    whim_meter_add(s->meters, PREFIX_CACHE, result, 1);
}

void whim_service_count_step(whim_service *s, int64_t n_item, int64_t n_row, int64_t n_prefill,
                             int64_t took_ns)
{
    whim_meter_observe(s->meters, STEP_TIME, took_ns);
    whim_meter_observe(s->meters, STEP_SEQS, n_item);
    whim_meter_observe(s->meters, STEP_TOKENS, n_row);
    whim_meter_add(s->meters, TOKENS, WHIM_LABEL_TOKENS_PREFILL, n_prefill);
}

_Static_assert((int)WHIM_LABEL_PLACE_COUNT == (int)WHIM_WIDTH_MOST, "a label for each place");

void whim_service_count_block(whim_service *s, int64_t n, int64_t n_right)
{
    if (n > 0) {
        whim_meter_observe(s->meters, BLOCK_TOKENS, n_right + 1);
    }
    for (int32_t i = 0; i < n_right; i++) {
        whim_meter_add(s->meters, RIGHT_AT, i, 1);
    }
}

void whim_service_count_rate(whim_service *s)
{
    int64_t now = whim_clock_ns(), took = now - s->rate_ns;
    if (took < WHIM_NS_PER_S) {
        return;
    }
    int64_t tokens = whim_meter_get(s->meters, TOKENS, WHIM_LABEL_TOKENS_GENERATED);
    double rate = (double)(tokens - s->rate_tokens) * 1e9 / (double)took;
    whim_meter_set(s->meters, RATE, 0, rate * 1000);
    s->rate_ns = now;
    s->rate_tokens = tokens;
}

void whim_choice_count(whim_choice *c)
{
    whim_job *job = c->job;
    whim_service *s = job->service;
    int64_t now = s->step_end_ns;
    if (job->times.first_token == 0) {
        job->times.first_token = now;
        whim_meter_observe(s->meters, TTFT, now - job->cfg.received_ns);
        whim_meter_observe(s->meters, PREFILL_TIME, now - job->times.admitted);
    }
    if (c->last_ns != 0) {
        whim_meter_observe(s->meters, ITL, now - c->last_ns);
    }
    c->last_ns = now;
    atomic_fetch_add_explicit(&job->n_said, 1, memory_order_relaxed);
    whim_meter_add(s->meters, TOKENS, WHIM_LABEL_TOKENS_GENERATED, 1);
}

/* The label of a job that somebody wanted the end of. */
static int32_t cancel_label(whim_job_reason why)
{
    switch (why) {
    case WHIM_REASON_CLIENT_GONE:
    case WHIM_REASON_CLIENT_GONE_OR_SLOW:
        return WHIM_LABEL_CANCEL_CLIENT_GONE;
    case WHIM_REASON_TOO_SLOW:
        return WHIM_LABEL_CANCEL_TOO_SLOW;
    case WHIM_REASON_DEADLINE:
        return WHIM_LABEL_CANCEL_DEADLINE;
    case WHIM_REASON_STOPPING:
        return WHIM_LABEL_CANCEL_STOPPING;
    case WHIM_REASON_SHORT_MEMORY:
        return WHIM_LABEL_CANCEL_SHORT_MEMORY;
    case WHIM_REASON_QUEUE_FULL:
        return WHIM_LABEL_CANCEL_QUEUE_FULL;
    default:
        return WHIM_LABEL_CANCEL_OTHER;
    }
}

void whim_service_count_ended(whim_service *s, const whim_job *job, bool ok)
{
    const whim_job_times *t = &job->times;
    int64_t longest = t->n_prompt;
    for (int32_t i = 0; i < job->cfg.n_choice; i++) {
        int64_t n = t->n_prompt + job->choices[i].n_made;
        longest = n > longest ? n : longest;
    }
    if (t->admitted != 0 && longest > whim_meter_get(s->meters, LONGEST, 0)) {
        whim_meter_set(s->meters, LONGEST, 0, longest);
    }
    if (t->first_token != 0) {
        whim_meter_observe(s->meters, DECODE_TIME, t->ended - t->first_token);
    }
    if (ok) {
        int32_t finish = t->reason == WHIM_REASON_STOP         ? WHIM_LABEL_FINISH_STOP
                         : t->reason == WHIM_REASON_REPETITION ? WHIM_LABEL_FINISH_REPETITION
                                                               : WHIM_LABEL_FINISH_LENGTH;
        whim_meter_add(s->meters, FINISHED, finish, 1);
        whim_meter_observe(s->meters, E2E, t->ended - job->cfg.received_ns);
        whim_meter_observe(s->meters, PROMPT_LENGTH, t->n_prompt);
        whim_meter_observe(s->meters, ANSWER_LENGTH, t->n_made);
    } else if (whim_job_reason_is_failure(t->reason)) {
        whim_meter_add(s->meters, FAILED, 0, 1);
    } else {
        whim_meter_add(s->meters, CANCELLED, cancel_label(t->reason), 1);
    }
}

_Static_assert((int)WHIM_LABEL_RANK_COUNT == (int)WHIM_COMM_MAX_RANK, "a label for each rank");

void whim_service_look_ranks(const whim_service *s, whim_meters *m)
{
    int32_t n_rank = whim_engine_ranks(s->cfg.engine);
    whim_meter_set(m, RANKS, 0, n_rank);
    for (int32_t r = 0; r < n_rank && n_rank > 1; r++) {
        int64_t waited[WHIM_LABEL_SITE_COUNT] = {0};
        whim_rank_meters of;
        whim_engine_look(s->cfg.engine, r, &of);
        for (int32_t i = 0; i < of.n_site; i++) {
            waited[whim_label_of_site(of.sites[i].name)] += of.sites[i].waited_ns;
        }
        for (int32_t i = 0; i < WHIM_LABEL_SITE_COUNT; i++) {
            whim_meter_set(m, RANK_WAIT, r * WHIM_LABEL_SITE_COUNT + i, waited[i]);
        }
        whim_meter_set(m, RANK_STEP_AGE, r, of.step_ns > 0 ? whim_clock_ns() - of.step_ns : 0);
        if (r == 0) { /* it is in every collective, and sends every letter */
            whim_meter_set(m, RANK_BYTES, WHIM_LABEL_LINK_MEMORY, of.n_byte);
            whim_meter_set(m, RANK_BYTES, WHIM_LABEL_LINK_UCX, of.n_link_byte);
        }
    }
}

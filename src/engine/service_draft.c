/* SPDX-License-Identifier: Apache-2.0 */
/* Lookup: what follows in a prediction of the answer, or what followed the last tokens of a request
 * where they stood in it before. */
#include "engine/service_draft.h"

/* Finding a proposal takes less than a microsecond. */
#define LOOKUP_NS 500.0

static bool may_propose(const whim_choice *c)
{
    const whim_job_cfg *cfg = &c->job->cfg;
    return c->req != NULL && !c->ended && c->n_made > 0 && cfg->max_tokens >= 0 &&
           cfg->prompt_logprobs < 0;
}

/* How many of n proposals are tokens at all. */
static int64_t sensible(const int32_t *ids, int64_t n, int64_t n_vocab)
{
    int64_t i = 0;
    while (i < n && ids[i] >= 0 && ids[i] < n_vocab) {
        i++;
    }
    return i;
}

/* Tokens that may follow in c->found; returns how many. */
static int64_t look_up(whim_choice *c)
{
    const whim_job *job = c->job;
    const whim_service_cfg *cfg = &job->service->cfg;
    int64_t n = job->cfg.n_prompt + c->n_made;
    if (cfg->propose != NULL) {
        int64_t found = cfg->propose(cfg->propose_ctx, c->tokens, n, c->found, WHIM_WIDTH_MOST);
        return sensible(c->found, found, job->service->config->n_vocab);
    }
    int64_t found = whim_follow_propose(&c->follow, &job->predicted, job->cfg.prediction, c->found,
                                        WHIM_WIDTH_MOST);
    if (found > 0) {
        return sensible(c->found, found, job->service->config->n_vocab);
    }
    return whim_lookup_grow(&c->lookup, c->tokens, n)
               ? whim_lookup_find(&c->lookup, c->tokens, c->tokens, n, c->found, WHIM_WIDTH_MOST)
               : 0;
}

/* The choices that bring proposals, and how many of them are worth it; returns the sum. */
static int64_t widths_choose(whim_service *s)
{
    whim_drafts *d = &s->drafts;
    int64_t n_row = 0, sum = 0;
    d->n = 0;
    for (whim_job *job = s->active; job != NULL; job = job->next) {
        for (int32_t i = 0; i < job->cfg.n_choice; i++) {
            whim_choice *c = &job->choices[i];
            n_row += c->let_in && !c->ended;
            if (c->n_found > 0 && c->req != NULL && !c->ended && d->n < s->cfg.max_seqs) {
                d->asks[d->n] = (whim_width_ask){&c->hits, c->n_found, c->n_sure};
                d->widths[d->n] = c->n_found;
                d->choices[d->n++] = c;
            }
        }
    }
    if (d->n > 0 && !s->cfg.propose_all) {
        whim_width_choose(&s->costs, d->asks, d->n, n_row, LOOKUP_NS, d->widths);
    }
    for (int64_t i = 0; i < d->n; i++) {
        sum += d->widths[i];
    }
    return sum;
}

bool whim_service_would_propose(whim_service *s)
{
    return s->proposes && widths_choose(s) > 0;
}

void whim_service_propose(whim_service *s)
{
    if (!s->proposes || widths_choose(s) == 0) {
        return;
    }
    const whim_drafts *d = &s->drafts;
    for (int64_t i = 0; i < d->n; i++) {
        whim_choice *c = d->choices[i];
        int64_t n = c->job->cfg.n_prompt + c->n_made;
        if (d->widths[i] > 0 && whim_choice_reserve(c, n + d->widths[i] + 1)) {
            whim_sched_propose(s->sched, c->req, c->found, d->widths[i]);
        }
    }
}

void whim_choice_proposed(whim_choice *c, int64_t n, int64_t n_right)
{
    whim_service *s = c->job->service;
    whim_job *job = c->job;
    s->counts.n_proposed += n;
    s->counts.n_right += n_right;
    job->times.n_proposed += n;
    job->times.n_right += n_right;
    whim_service_count_block(s, n, n_right);
    if (job->cfg.n_prediction > 0) {
        int64_t before = c->follow.n_right;
        whim_follow_take(&c->follow, &job->predicted, job->cfg.prediction,
                         c->tokens + job->cfg.n_prompt, c->n_made);
        job->times.n_predicted += c->follow.n_right - before;
    }
    c->n_found = 0;
    if (s->proposes) {
        whim_hits_learn(&c->hits, n, n_right);
        c->n_found = !may_propose(c)
                         ? 0
                         : whim_choice_cut(c, c->found, look_up(c), WHIM_WIDTH_MOST, &c->n_sure);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A group's share of a step: from its plan to parts, from results to its commit. */
#include "engine/service/draft.h"
#include "engine/service/enter.h"

#include <string.h>

/* Whether the rows of a choice's prompt are told. */
static bool tells_prompt(const whim_choice *c)
{
    return c->job->cfg.prompt_logprobs >= 0 && c->index == 0;
}

void whim_group_parts_make(whim_group *g, whim_flight *f)
{
    whim_sample_ask *asks = g->asks;
    for (int64_t i = 0; i < f->plan.n_item; i++) {
        const whim_plan_item *item = &f->plan.items[i];
        whim_choice *c = whim_sched_req_user(item->req);
        memset(asks, 0, (size_t)item->n_out * sizeof *asks);
        if (tells_prompt(c)) {
            int64_t at = item->seq->len + item->n_tok - item->n_out;
            whim_choice_prepare_prompt(c, at, item->n_out, asks);
        }
        if (item->chooses && c->job->cfg.max_tokens >= 0) {
            whim_sample_ask *first = &asks[item->n_out - 1 - item->n_proposed];
            whim_choice_prepare(c, item->n_proposed,
                                &g->masks[(first - g->asks) * g->service->n_mask_word], first);
        }
        whim_choice_admit(c);
        f->choices[i] = c;
        f->parts[i] = (whim_step_part){
            .seq = item->seq,
            .tokens = item->tokens,
            .n_tok = item->n_tok,
            .n_out = item->n_out,
            .asks = asks,
            .keeps_state = g->service->has_states && item->n_proposed > 0,
        };
        asks += item->n_out;
    }
}

/* The result of the step before that each item of a plan ahead begins with. Both have their items
 * in the same order. */
void whim_group_parts_make_ahead(whim_group *g, const whim_flight *before, whim_flight *f)
{
    int64_t out = 0, at = 0;
    for (int64_t i = 0; i < before->plan.n_item && at < f->plan.n_item; i++) {
        const whim_plan_item *item = &f->plan.items[at];
        out += before->plan.items[i].n_out;
        if (before->plan.items[i].req == item->req) {
            whim_choice_prepare_next(before->choices[i], &g->asks[at]);
            f->token[at] = whim_step_result_token(before->first_out + out - 1);
            f->choices[at] = before->choices[i];
            f->parts[at] = (whim_step_part){.seq = item->seq,
                                            .tokens = &f->token[at],
                                            .n_tok = 1,
                                            .n_out = 1,
                                            .asks = &g->asks[at]};
            at++;
        }
    }
}

/* Take what was chosen from the rows of an item that chooses: proposals are right as long as each
 * row chose the one after it, and the first row that did not has the token that comes. */
static whim_err tokens_take(whim_choice *c, const whim_plan_item *item, int64_t out,
                            int32_t *tokens, int64_t *n, whim_diag *diag)
{
    whim_err err = WHIM_ERR_OK;
    bool goes_on = true;
    int64_t n_asked = item->n_proposed > 0 ? c->n_asked : 0;
    for (*n = 0; goes_on && *n <= n_asked; ++*n) {
        int64_t at = c->job->cfg.n_prompt + c->n_made;
        int32_t proposed = *n < n_asked ? c->tokens[at] : -1;
        err = whim_choice_pick(c, out + *n, &tokens[*n], diag);
        goes_on = err == WHIM_ERR_OK && !c->ended && tokens[*n] == proposed;
    }
    whim_choice_proposed(c, item->n_proposed, *n - 1);
    return err;
}

/* Choose for every item that does. A choice whose logits make no sense ends its job, and only
 * that. */
void whim_group_results_take(whim_group *g, const whim_flight *f)
{
    int64_t out = 0;
    for (int64_t i = 0; i < f->plan.n_item; i++) {
        const whim_plan_item *item = &f->plan.items[i];
        whim_choice *c = f->choices[i];
        whim_diag diag = {""};
        int32_t *tokens = &g->token[out];
        tokens[0] = 0;
        g->made[i] = (whim_sched_made){.tokens = tokens};
        out += item->n_out;
        if (item->req == NULL) {
            continue; /* it has ended while the step was under way */
        }
        whim_choice_fed(c, f->len[i] + item->n_tok);
        if (item->n_out > 0 && tells_prompt(c)) {
            int64_t at = f->len[i] + item->n_tok - item->n_out;
            whim_choice_prompt_rows(c, f->first_out + out - item->n_out, at, item->n_out);
        }
        whim_err err = item->chooses
                           ? tokens_take(c, item, f->first_out + out - 1 - item->n_proposed, tokens,
                                         &g->made[i].n, &diag)
                           : WHIM_ERR_OK;
        if (err != WHIM_ERR_OK) {
            whim_diag_prefix(&diag, "after %lld tokens: ", (long long)item->seq->len);
            c->job->trouble = diag;
            whim_log_error(g->service->cfg.log, "choose", whim_log_text("id", c->job->cfg.id),
                           whim_log_text("error", diag.text));
            whim_job_cancel(c->job, whim_job_failure(err));
            g->made[i].n = 0;
            g->made[i].ended = true;
        }
        g->made[i].ended = g->made[i].ended || c->ended;
    }
}

whim_err whim_group_states_advance(whim_group *g, const whim_flight *f, whim_diag *diag)
{
    int64_t n = 0;
    for (int64_t i = 0; g->service->has_states && i < f->plan.n_item; i++) {
        const whim_plan_item *item = &f->plan.items[i];
        if (item->req != NULL && item->n_proposed > 0) {
            g->taken[n++] = (whim_taken){item->seq, g->made[i].n > 0 ? g->made[i].n : 1};
        }
    }
    return n > 0 ? whim_runner_advance(g->service->runner, g->taken, n, diag) : WHIM_ERR_OK;
}

/* Commit. Forget requests that it took out; let the other choices of a job in when its first has
 * made a token. */
void whim_group_commit(whim_group *g, const whim_flight *f)
{
    for (int64_t i = 0; i < f->plan.n_item; i++) {
        if (f->plan.items[i].req == NULL) {
            f->choices[i] = NULL; /* gone, perhaps with its job */
        }
    }
    whim_sched_commit(g->sched, &f->plan, g->made);
    for (int64_t i = 0; i < f->plan.n_item; i++) {
        whim_choice *c = f->choices[i];
        if (c != NULL && g->made[i].ended) {
            c->req = NULL; /* commit took it out */
        }
        if (c != NULL && (c->n_made > 0 || c->ended)) {
            whim_service_followers_enter(g->service, c->job);
        }
    }
}

bool whim_group_may_go_ahead(whim_group *g, const whim_flight *f)
{
    for (int64_t i = 0; i < f->plan.n_item; i++) {
        const whim_plan_item *item = &f->plan.items[i];
        const whim_choice *c = f->choices[i];
        g->over[i] = item->req != NULL && item->chooses && whim_choice_is_last(c);
        if (item->req != NULL && !g->over[i] && !whim_choice_may_follow(c)) {
            return false;
        }
    }
    return true;
}

enum { MOST_APART = 2 }; /* a request that was in so many lost steps may be why they were */

void whim_group_failed(whim_group *g, const whim_flight *f, bool begin_again, const whim_diag *why)
{
    for (int64_t i = 0; i < f->plan.n_item; i++) {
        const whim_plan_item *item = &f->plan.items[i];
        whim_choice *c = item->req != NULL ? f->choices[i] : NULL;
        if (c == NULL) {
            continue;
        }
        item->seq->state_at = -1;
        whim_runner_sequence_cut(g->service->runner, item->seq, f->len[i]);
        if (!begin_again || ++c->n_apart >= MOST_APART) {
            c->job->trouble = *why;
            whim_job_cancel(c->job, WHIM_REASON_FAILED);
        }
    }
    whim_sched_abort(g->sched, &f->plan);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Where proposals come from: a prediction of the answer and lookup first, which cost nothing, then
 * the model's draft. */
#include "engine/service/draft.h"

#include "base/clock.h"
#include "parallel/groups.h"

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
    if (cfg->no_lookup) {
        return 0;
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

/* --- the model's draft ------------------------------------------------------------------------ */

/* What its pass takes of a step of one row, before it was timed. */
#define DRAFT_SHARE 0.3

/* How many proposals, at most n, have places for their rows with no more than n_free pages. */
static int64_t rows_in_pages(const whim_drafts *d, const whim_sequence *seq, int64_t n,
                             int64_t n_free)
{
    while (n > 0 && whim_sequence_pages_needed(seq, whim_propose_rows(d->model, n)) > n_free) {
        n--;
    }
    return n > 0 ? n : 0;
}

/* Tokens that it can propose for a choice: none where lookup has some, or where its sequence lacks
 * rows. */
static int64_t draft_room(const whim_service *s, const whim_choice *c)
{
    const whim_drafts *d = &s->drafts;
    if (d->model == NULL || d->asked || c->n_found > 0 || !may_propose(c)) {
        return 0;
    }
    const whim_sequence *seq = whim_sched_at_last(c->req);
    int64_t left = c->max_tok - c->job->cfg.n_prompt - c->n_made - 1;
    int64_t most = whim_draft_most(d->model);
    most = most < WHIM_WIDTH_MOST ? most : WHIM_WIDTH_MOST;
    most = most < left ? most : left;
    int64_t n_free = whim_runner_pool_of(s->runner, c->group->index)->n_free;
    return seq != NULL ? rows_in_pages(d, seq, most, n_free) : 0;
}

/* What a pass of the draft is thought to cost where nothing is known of it. */
static double draft_guess(const whim_service *s)
{
    return DRAFT_SHARE * whim_step_costs_of(&s->costs, 1);
}

void whim_service_not_drafted(whim_service *s)
{
    if (s->drafts.model != NULL) {
        whim_step_costs_doubt(&s->drafts.costs, draft_guess(s));
    }
}

static double draft_cost(const whim_service *s, int64_t n_row)
{
    double known = whim_step_costs_of(&s->drafts.costs, n_row);
    return known > 0 ? known : draft_guess(s);
}

/* At most n proposals, as many as fit in what is left of a pass's outputs and rows. */
static int64_t left_of_pass(const whim_drafts *d, int64_t n, int64_t n_out, int64_t n_row)
{
    int64_t most = n_row - whim_propose_rows(d->model, 0);
    most = most < n_out ? most : n_out;
    return n < most ? n : most;
}

/* What a group's share of a pass leaves to those who come. */
typedef struct pass_room {
    const whim_group *group;
    int64_t n_row, n_out, n_free;
} pass_room;

static pass_room room_of(const whim_service *s, const whim_group *group)
{
    const whim_exec_cfg *limits = whim_engine_limits(s->cfg.engine);
    return (pass_room){.group = group,
                       .n_row = limits->max_rows,
                       .n_out = limits->max_outs,
                       .n_free = whim_runner_pool_of(s->runner, group->index)->n_free};
}

/* The most choices, and the most rows, that a group has in a pass: groups take theirs at the same
 * time, so these tell what it costs. */
typedef struct pass_size {
    int64_t n_choice, n_row;
} pass_size;

/* What the draft is asked for, at the front of the list; returns for how many choices. Who comes
 * when little is left gets a narrower block. */
static int64_t draft_wanted(whim_service *s, pass_size *largest)
{
    whim_drafts *d = &s->drafts;
    int64_t n_wanted = 0;
    pass_room left = {0};
    pass_size size = {0};
    for (int64_t i = 0; i < d->n; i++) {
        whim_choice *c = d->choices[i];
        whim_sequence *seq = whim_sched_at_last(c->req);
        if (c->group != left.group) {
            left = room_of(s, c->group);
            size = (pass_size){0};
        }
        int64_t n = left_of_pass(d, d->widths[i], left.n_out, left.n_row);
        n = c->n_found > 0 ? 0 : rows_in_pages(d, seq, n, left.n_free);
        if (n == 0) {
            continue;
        }
        int64_t rows = whim_propose_rows(d->model, n);
        left.n_free -= whim_sequence_pages_needed(seq, rows);
        d->wanted[n_wanted] = (whim_proposal){
            .seq = seq,
            .last = c->tokens[c->job->cfg.n_prompt + c->n_made - 1],
            .n = n,
            .out = c->found,
            .sure = c->sure,
        };
        d->choices[n_wanted++] = c;
        left.n_out -= n;
        left.n_row -= rows;
        size.n_row += rows;
        size.n_choice++;
        largest->n_row = size.n_row > largest->n_row ? size.n_row : largest->n_row;
        largest->n_choice = size.n_choice > largest->n_choice ? size.n_choice : largest->n_choice;
    }
    return n_wanted;
}

/* What the draft found for a choice. */
static void drafted_take(whim_choice *c, int64_t n)
{
    for (int64_t k = n; k < WHIM_WIDTH_MOST; k++) { /* tokens that must come may follow */
        c->sure[k] = 1.0f;
    }
    n = sensible(c->found, n, c->job->service->config->n_vocab);
    c->by_draft = true;
    c->n_found = whim_choice_cut(c, c->found, n, WHIM_WIDTH_MOST, &c->n_sure);
}

/* Passes for n choices took so long. Those of a serial draft have a row for each choice of a group,
 * and are as many as the most that one wants. */
static void costs_learn(whim_drafts *d, int64_t n, pass_size largest, int64_t ns)
{
    int64_t most = 1;
    for (int64_t i = 0; i < n; i++) {
        most = d->wanted[i].n > most ? d->wanted[i].n : most;
    }
    bool serial = d->model->serial;
    whim_step_costs_learn(&d->costs, serial ? largest.n_choice : largest.n_row,
                          serial ? ns / most : ns);
}

/* One may have been in the way when a rank was lost. */
enum { MOST_FAILED = 2 };

static void draft_ask(whim_service *s)
{
    whim_drafts *d = &s->drafts;
    pass_size largest = {0};
    int64_t n = draft_wanted(s, &largest), begun = whim_clock_ns();
    whim_diag diag = {""};
    d->asked = true;
    if (n == 0) {
        return;
    }
    whim_err err = whim_propose(whim_engine_proposer(s->cfg.engine), d->wanted, n, &diag);
    if (err == WHIM_ERR_OK) {
        d->n_failed = 0;
        d->spent_ns = whim_clock_ns() - begun;
        costs_learn(d, n, largest, d->spent_ns);
        for (int64_t i = 0; i < n; i++) {
            drafted_take(d->choices[i], d->wanted[i].n);
        }
    } else if (err != WHIM_ERR_FULL &&
               (!whim_engine_is_apart(s->cfg.engine, NULL) || ++d->n_failed >= MOST_FAILED)) {
        /* Where no page is free there are just no proposals; where ranks were lost the next step
         * tells, and the draft is there again when they are, unless it may be why. */
        whim_log_error(s->cfg.log, "draft", whim_log_text("error", diag.text));
        d->model = NULL;
    }
}

/* --- how many --------------------------------------------------------------------------------- */

/* What one choice may bring; false: nothing. */
static bool ask_make(const whim_service *s, const whim_choice *c, whim_width_ask *ask)
{
    int64_t room = draft_room(s, c);
    if (room > 0) {
        bool serial = s->drafts.model->serial;
        *ask = (whim_width_ask){
            .hits = &c->draft_hits,
            .n_found = room,
            .once_ns = serial ? 0 : draft_cost(s, whim_propose_rows(s->drafts.model, room)),
            .each_ns = serial ? draft_cost(s, 1) : 0};
    } else {
        *ask = (whim_width_ask){.hits = c->by_draft ? &c->draft_hits : &c->hits,
                                .n_found = c->n_found,
                                .n_sure = c->n_sure,
                                .sure = c->by_draft ? c->sure : NULL};
    }
    return ask->n_found > 0;
}

/* Passes of a serial draft are shared by all of a group that ask it, from `first` on. */
static void each_share(whim_service *s, int64_t first)
{
    whim_drafts *d = &s->drafts;
    int64_t n = 0;
    for (int64_t i = first; i < d->n; i++) {
        n += d->asks[i].each_ns > 0;
    }
    for (int64_t i = first; i < d->n && n > 1; i++) {
        d->asks[i].each_ns = d->asks[i].each_ns > 0 ? draft_cost(s, n) / (double)n : 0;
    }
}

/* The choices of a group that may bring proposals; returns its rows without them. Who has no row
 * in the next plan, for the sake of other clients, leaves its place to proposals of those who
 * do. */
static int64_t asks_make(whim_service *s, const whim_group *group)
{
    whim_drafts *d = &s->drafts;
    int64_t n_row = 0, most = d->n + s->cfg.max_seqs;
    whim_sched_foresee(group->sched);
    for (whim_job *job = s->active; job != NULL; job = job->next) {
        for (int32_t i = 0; i < job->cfg.n_choice; i++) {
            whim_choice *c = &job->choices[i];
            bool is_left = c->req != NULL && whim_sched_is_left(group->sched, c->req);
            if (c->group != group || c->ended || is_left) {
                continue;
            }
            n_row += c->let_in;
            if (c->req != NULL && d->n < most && ask_make(s, c, &d->asks[d->n])) {
                d->widths[d->n] = d->asks[d->n].n_found;
                d->choices[d->n++] = c;
            }
        }
    }
    return n_row;
}

/* Those of all groups, and how many of them are worth it; returns the sum. */
static int64_t widths_choose(whim_service *s)
{
    whim_drafts *d = &s->drafts;
    whim_width_group groups[WHIM_GROUPS_MAX];
    int64_t sum = 0;
    d->n = 0;
    for (int32_t i = 0; i < s->n_group; i++) {
        int64_t before = d->n, n_row = asks_make(s, &s->groups[i]);
        groups[i] = (whim_width_group){d->n - before, n_row};
        each_share(s, before);
    }
    if (d->n > 0 && !s->cfg.propose_all) {
        whim_width_choose_groups(&s->costs, groups, s->n_group, d->asks, LOOKUP_NS, d->widths);
    }
    for (int64_t i = 0; i < d->n; i++) {
        sum += d->widths[i];
    }
    return sum;
}

bool whim_service_would_propose(whim_service *s)
{
    s->drafts.asked = false;
    return s->proposes && widths_choose(s) > 0;
}

void whim_service_propose(whim_service *s)
{
    whim_drafts *d = &s->drafts;
    d->asked = false;
    if (!s->proposes || widths_choose(s) == 0) {
        return;
    }
    if (d->model != NULL) {
        draft_ask(s);
        widths_choose(s);
    }
    for (int64_t i = 0; i < d->n; i++) {
        whim_choice *c = d->choices[i];
        int64_t n = c->job->cfg.n_prompt + c->n_made;
        if (d->widths[i] > 0 && whim_choice_reserve(c, n + d->widths[i] + 1)) {
            whim_sched_propose(c->group->sched, c->req, c->found, d->widths[i]);
        }
    }
}

void whim_choice_propose_init(whim_choice *c)
{
    const whim_drafts *d = &c->job->service->drafts;
    whim_hits_init(&c->hits, &d->hits);
    whim_hits_init(&c->draft_hits, &d->draft_hits);
}

/* What came says something of whoever proposes, also where proposals of lookup were found and not
 * tried. A draft that was asked in vain was wrong: nothing of what it said may come, it was not
 * sure enough, or there was no room; else it would be asked so for ever. */
static void hits_learn(whim_choice *c, int64_t n, int64_t n_right)
{
    whim_drafts *d = &c->job->service->drafts;
    bool tried = n > 0, found = !tried && !c->by_draft && c->n_found > 0;
    bool in_vain = !tried && c->by_draft && !c->ended;
    if (found || in_vain) {
        n = 1;
        n_right = found && c->found[0] == c->tokens[c->job->cfg.n_prompt + c->n_made - 1];
    }
    whim_hits *own[] = {&c->hits, &c->draft_hits}, *all[] = {&d->hits, &d->draft_hits};
    for (int i = 0; i < 2; i++) {
        bool is_source = c->by_draft == (i == 1);
        whim_hits_learn(own[i], is_source ? n : 0, n_right);
        whim_hits_learn(all[i], is_source ? n : 0, n_right);
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
    job->times.n_block += n > 0;
    job->times.n_four += n == 3;
    job->times.n_four_right += n == 3 ? n_right : 0;
    whim_service_count_block(s, n, n_right);
    if (job->cfg.n_prediction > 0) {
        int64_t before = c->follow.n_right;
        whim_follow_take(&c->follow, &job->predicted, job->cfg.prediction,
                         c->tokens + job->cfg.n_prompt, c->n_made);
        job->times.n_predicted += c->follow.n_right - before;
    }
    if (s->proposes) {
        hits_learn(c, n, n_right);
        c->by_draft = false;
        c->n_found = !may_propose(c)
                         ? 0
                         : whim_choice_cut(c, c->found, look_up(c), WHIM_WIDTH_MOST, &c->n_sure);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Pools, sequences and the checks of a step. */
#include "runner/runner.h"

#include "base/alloc.h"
#include "ops/args/row_args.h"
#include "runner/graphs.h"
#include "runner/sampling.h"

struct whim_runner {
    whim_exec *exec;
    whim_exec_cfg cfg;
    int64_t n_vocab;
    int64_t max_words; /* of a row's lists */
    bool has_states;
    int32_t n_group;
    whim_page_pool *pools, *states; /* [n_group] */
    int32_t *block;                 /* those of all groups, one behind the other */
    whim_sample_ask *asks;          /* [whim_exec_outs] of a step */
    int64_t n_step;                 /* steps so far, refused ones included */
    int64_t n_result;               /* of the one submitted last, that tokens may stand for */
    int64_t n_trial;       /* number of the last step that kept rows on trial; 0: none, or lost */
    whim_step_take *takes; /* [max_seqs] */
};

static whim_err pools_open(whim_runner *r, int32_t group, whim_diag *diag)
{
    if (whim_page_pool_init(&r->pools[group], r->cfg.n_page, r->cfg.page_len) != WHIM_ERR_OK) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for a list of %lld KV pages",
                         (long long)r->cfg.n_page);
    }
    int64_t n_state = r->has_states ? r->cfg.n_state : 0;
    if (whim_page_pool_init(&r->states[group], n_state, 1) != WHIM_ERR_OK) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for a list of %lld states",
                         (long long)r->cfg.n_state);
    }
    return WHIM_ERR_OK;
}

static whim_err host_buffers_open(whim_runner *r, const whim_exec_plan *plan, whim_diag *diag)
{
    r->has_states = plan->slot_bytes > 0;
    r->block = whim_alloc_array(r->n_group, plan->batch_bytes);
    r->asks = whim_alloc_array(whim_exec_outs(&r->cfg), (int64_t)sizeof *r->asks);
    r->takes = whim_alloc_array(r->cfg.max_seqs, (int64_t)sizeof *r->takes);
    r->pools = whim_alloc_array(r->n_group, sizeof *r->pools);
    r->states = whim_alloc_array(r->n_group, sizeof *r->states);
    WHIM_TRY(whim_got(r->block != NULL && r->asks != NULL && r->takes != NULL && r->pools != NULL &&
                          r->states != NULL,
                      diag, "no memory for the arrays of a step"));
    for (int32_t g = 0; g < r->n_group; g++) {
        WHIM_TRY(pools_open(r, g, diag));
    }
    return WHIM_ERR_OK;
}

whim_err whim_runner_open(const whim_config *config, const whim_model_def *def, whim_model *model,
                          whim_device *device, const whim_exec_cfg *cfg, whim_runner **out,
                          whim_diag *diag)
{
    whim_runner *r = whim_alloc(sizeof *r);
    WHIM_TRY(whim_got(r != NULL, diag, "no memory for a runner"));
    r->cfg = *cfg;
    r->n_group = whim_exec_groups(cfg);
    r->n_vocab = config->n_vocab;
    r->max_words = whim_sampling_words(config, cfg);
    whim_err err = whim_exec_open(config, def, model, device, cfg, &r->exec, diag);
    if (err == WHIM_ERR_OK) {
        err = host_buffers_open(r, whim_exec_plan_of(r->exec), diag);
    }
    if (err != WHIM_ERR_OK) {
        whim_runner_close(r);
        return err;
    }
    *out = r;
    return WHIM_ERR_OK;
}

void whim_runner_close(whim_runner *r)
{
    if (r == NULL) {
        return;
    }
    whim_exec_close(r->exec);
    for (int32_t g = 0; r->pools != NULL && r->states != NULL && g < r->n_group; g++) {
        whim_page_pool_deinit(&r->pools[g]);
        whim_page_pool_deinit(&r->states[g]);
    }
    whim_free(r->pools);
    whim_free(r->states);
    whim_free(r->block);
    whim_free(r->asks);
    whim_free(r->takes);
    whim_free(r);
}

/* An id outside the vocabulary would be taken for padding and give a wrong answer. */
static whim_err tokens_check(const whim_runner *r, const whim_step_part *part, whim_diag *diag)
{
    int64_t n_vocab = r->n_vocab, n_result = r->n_result;
    for (int64_t i = 0; i < part->n_tok; i++) {
        int64_t result = whim_step_result_of(part->tokens[i]);
        if (result >= 0 ? result >= n_result : part->tokens[i] < 0 || part->tokens[i] >= n_vocab) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "token id %d is outside the vocabulary of %lld ids", part->tokens[i],
                             (long long)n_vocab);
        }
    }
    return WHIM_ERR_OK;
}

/* What the outputs of a step are: logits as soon as one needs them; otherwise the best one, or as
 * many as there can be, so that the graphs are few. */
static int64_t step_top(const whim_runner *r, const whim_step_part *parts, int64_t n_part)
{
    int64_t most = 0;
    for (int64_t p = 0; p < n_part; p++) {
        for (int64_t i = 0; i < parts[p].n_out; i++) {
            const whim_sample_ask *ask = parts[p].asks != NULL ? &parts[p].asks[i] : NULL;
            int64_t n =
                ask != NULL ? whim_sample_best_needed(ask, (int32_t)r->n_vocab) : parts[p].n_top;
            if (n == 0) {
                return 0;
            }
            most = n > most ? n : most;
        }
    }
    return most > 1 ? WHIM_TOPK_MAX : most;
}

/* Hand the asks of all parts on. Where some have asks, the outputs of the others bring their
 * logits. */
static void asks_pass(whim_runner *r, const whim_step_part *parts, int64_t n_part,
                      const whim_step_size *size)
{
    const whim_sample_ask none = {.brings_logits = size->n_top == 0};
    bool any = false;
    int64_t n = 0;
    for (int64_t p = 0; p < n_part; p++) {
        for (int64_t i = 0; i < parts[p].n_out; i++) {
            r->asks[n++] = parts[p].asks != NULL ? parts[p].asks[i] : none;
            any = any || parts[p].asks != NULL;
        }
    }
    whim_exec_ask(r->exec, any ? r->asks : NULL, any ? n : 0);
}

/* Whether rows of a step are kept, because a part is on trial. */
static bool keeps_rows(const whim_runner *r, const whim_step_part *parts, int64_t n_part)
{
    bool any = false;
    for (int64_t i = 0; i < n_part; i++) {
        any = any || parts[i].keeps_state;
    }
    return any && r->has_states && r->cfg.max_kept > 0;
}

/* The parts of one group, which stand together. */
typedef struct group_parts {
    const whim_step_part *parts;
    int64_t n_part;
} group_parts;

static group_parts parts_of(const whim_step_part *parts, int64_t n_part, int32_t group)
{
    group_parts of = {.parts = parts};
    for (int64_t i = 0; i < n_part && parts[i].seq->group <= group; i++) {
        if (parts[i].seq->group < group) {
            of.parts = &parts[i + 1];
        } else {
            of.n_part++;
        }
    }
    return of;
}

/* Refuse a step that breaks a limit before anything changes: what one group has of it. A draft has
 * no recurrent states, and those of its sequences stay where they are. */
static whim_err group_check(const whim_runner *r, int32_t group, const group_parts *of, bool drafts,
                            whim_step_size *size, whim_diag *diag)
{
    int64_t pages = 0, n_part = of->n_part;
    *size = (whim_step_size){.n_seq = n_part};
    for (int64_t i = 0; i < n_part; i++) {
        const whim_step_part *part = &of->parts[i];
        if (part->n_tok < 1 || part->n_out < 0 || part->n_out > part->n_tok || part->n_top < 0 ||
            part->n_top > WHIM_TOPK_MAX) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "part %lld of a step has %lld tokens and asks for %lld outputs of %d",
                             (long long)i, (long long)part->n_tok, (long long)part->n_out,
                             part->n_top);
        }
        if (part->seq->step ==
            r->n_step) { /* its second part would get the positions of the first */
            return whim_fail(diag, WHIM_ERR_INVALID, "a sequence occurs twice in one step");
        }
        part->seq->step = r->n_step;
        if (part->seq->len + part->n_tok > r->cfg.max_ctx) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "a sequence of %lld tokens cannot take %lld more: the context is %lld",
                             (long long)part->seq->len, (long long)part->n_tok,
                             (long long)r->cfg.max_ctx);
        }
        if (!drafts && r->has_states && part->seq->state_at != part->seq->len &&
            part->seq->len > 0) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "a sequence of %lld tokens has the recurrent state of %lld",
                             (long long)part->seq->len, (long long)part->seq->state_at);
        }
        WHIM_TRY(tokens_check(r, part, diag));
        for (int64_t k = 0; k < part->n_out && part->asks != NULL; k++) {
            WHIM_TRY(whim_sample_words_check(&part->asks[k], r->max_words, diag));
        }
        size->n_row += part->n_tok;
        size->n_out += part->n_out;
        pages += whim_sequence_pages_needed(part->seq, part->n_tok);
    }
    if (size->n_row > r->cfg.max_rows || n_part > r->cfg.max_seqs ||
        size->n_out > r->cfg.max_outs) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "a step of %lld tokens, %lld sequences and %lld outputs is larger than "
                         "the limits %lld, %lld and %lld",
                         (long long)size->n_row, (long long)n_part, (long long)size->n_out,
                         (long long)r->cfg.max_rows, (long long)r->cfg.max_seqs,
                         (long long)r->cfg.max_outs);
    }
    if (keeps_rows(r, of->parts, n_part) && size->n_row > r->cfg.max_kept) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "a step with rows on trial has %lld rows, %lld can be kept",
                         (long long)size->n_row, (long long)r->cfg.max_kept);
    }
    if (pages > r->pools[group].n_free) {
        return whim_fail(diag, WHIM_ERR_FULL, "a step needs %lld KV pages, %lld are free",
                         (long long)pages, (long long)r->pools[group].n_free);
    }
    return WHIM_ERR_OK;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static whim_err order_check(const whim_runner *r, const whim_step_part *parts, int64_t n_part,
                            whim_diag *diag)
{
    for (int64_t i = 0; i < n_part; i++) {
        int32_t group = parts[i].seq->group, before = i > 0 ? parts[i - 1].seq->group : 0;
        if (group < before || group >= r->n_group) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "part %lld of a step, of group %d, is out of the order of %d groups",
                             (long long)i, group, r->n_group);
        }
    }
    return WHIM_ERR_OK;
}

/* The same of all groups; `most` is what the largest has. */
static whim_err step_check(const whim_runner *r, const whim_step_part *parts, int64_t n_part,
                           bool drafts, whim_step_size *most, whim_diag *diag)
{
    WHIM_TRY(order_check(r, parts, n_part, diag));
    *most = (whim_step_size){.n_top = step_top(r, parts, n_part)};
    for (int32_t g = 0; g < r->n_group; g++) {
        whim_step_size size;
        group_parts of = parts_of(parts, n_part, g);
        WHIM_TRY(group_check(r, g, &of, drafts, &size, diag));
        most->n_row = larger(most->n_row, size.n_row);
        most->n_seq = larger(most->n_seq, size.n_seq);
        most->n_out = larger(most->n_out, size.n_out);
    }
    return WHIM_ERR_OK;
}

/* Whose state the sequences have from now on: that of all their tokens, or, after a failure,
 * none. */
static void states_set(const whim_step_part *parts, int64_t n_part, bool known)
{
    for (int64_t i = 0; i < n_part; i++) {
        if (!parts[i].keeps_state) {
            parts[i].seq->state_at = known ? parts[i].seq->len : -1;
        }
    }
}

/* Note who has rows of this step on trial. */
static void trials_set(whim_runner *r, const whim_step_part *parts, int64_t n_part)
{
    int64_t row = 0;
    for (int64_t i = 0; i < n_part; i++) {
        whim_sequence *seq = parts[i].seq;
        row = i > 0 && seq->group != parts[i - 1].seq->group ? 0 : row;
        seq->trial = r->n_step;
        seq->trial_row = row;
        seq->n_trial = parts[i].keeps_state ? parts[i].n_tok : 0;
        row += parts[i].n_tok;
    }
}

/* Whether a part names results of the step before. */
static bool comes_after(const whim_step_part *parts, int64_t n_part)
{
    bool any = false;
    for (int64_t p = 0; p < n_part; p++) {
        for (int64_t i = 0; i < parts[p].n_tok; i++) {
            any = any || whim_step_result_of(parts[p].tokens[i]) >= 0;
        }
    }
    return any;
}

/* Results of the step before by the numbers that they have when those of groups are gathered. */
static void results_place(const whim_runner *r, int32_t *block)
{
    const whim_step_head *head = whim_step_head_of(block);
    whim_step_size bucket = whim_step_bucket(block);
    int32_t *tokens = block + whim_step_layout_of(&bucket).tokens;
    for (int32_t i = 0; i < head->n_row; i++) {
        int64_t result = whim_step_result_of(tokens[i]);
        if (result >= 0) {
            tokens[i] = whim_step_result_token(whim_exec_result_place(r->exec, result));
        }
    }
}

static int64_t rows_of(const group_parts *of)
{
    int64_t n = 0;
    for (int64_t i = 0; i < of->n_part; i++) {
        n += of->parts[i].n_tok;
    }
    return n;
}

/* The blocks of all groups, whose outputs are padded to the most that one has; where graphs are
 * replayed all else is, too, but rows that are kept. How many words they are. */
static int64_t blocks_fill(whim_runner *r, const whim_step_part *parts, int64_t n_part,
                           const whim_step_size *most, int32_t flags)
{
    int64_t n_word = 0;
    for (int32_t g = 0; g < r->n_group; g++) {
        int32_t *block = r->block + n_word;
        group_parts of = parts_of(parts, n_part, g);
        bool keeps = keeps_rows(r, of.parts, of.n_part);
        int32_t own_flags = flags | (keeps ? WHIM_STEP_KEEP : 0);
        whim_step_size bucket = *most;
        if (!r->cfg.graphs || keeps) { /* fewer rows can be kept than another group may have */
            bucket.n_row = rows_of(&of);
        }
        if (r->cfg.graphs) {
            whim_graphs_bucket(&bucket, own_flags, &r->cfg);
        } else {
            bucket.n_seq = of.n_part;
        }
        whim_step_fill(of.parts, of.n_part, &bucket, own_flags, block);
        results_place(r, block);
        n_word += whim_step_head_of(block)->n_word;
    }
    return n_word;
}

static whim_err queue(whim_runner *r, const whim_step_part *parts, int64_t n_part,
                      const whim_step_size *most, int32_t flags, whim_diag *diag)
{
    flags |= comes_after(parts, n_part) ? WHIM_STEP_AFTER : 0;
    for (int64_t i = 0; i < n_part; i++) {
        WHIM_TRY(whim_sequence_grow(parts[i].seq, whim_runner_pool_of(r, parts[i].seq->group),
                                    parts[i].n_tok));
    }
    int64_t n_word = blocks_fill(r, parts, n_part, most, flags);
    if ((flags & WHIM_STEP_DRAFT) == 0) {
        trials_set(r, parts, n_part);
    }
    r->n_trial = keeps_rows(r, parts, n_part) ? r->n_step : r->n_trial;
    asks_pass(r, parts, n_part, most);
    return whim_exec_submit(r->exec, r->block, n_word, NULL, diag);
}

/* After a failure there is nothing that a later step or whim_runner_advance could build on. */
static void step_lost(whim_runner *r)
{
    r->n_result = 0;
    r->n_trial = 0;
}

whim_err whim_runner_submit(whim_runner *r, const whim_step_part *parts, int64_t n_part,
                            whim_diag *diag)
{
    r->n_step++;
    whim_step_size size;
    if (whim_exec_in_flight(r->exec) >= whim_exec_flights(&r->cfg)) {
        return whim_fail(diag, WHIM_ERR_FULL, "%d steps are running already",
                         whim_exec_in_flight(r->exec));
    }
    WHIM_TRY(step_check(r, parts, n_part, false, &size, diag));
    whim_err err = queue(r, parts, n_part, &size, 0, diag);
    states_set(parts, n_part, err == WHIM_ERR_OK);
    if (err != WHIM_ERR_OK) {
        step_lost(r);
        return err;
    }
    r->n_result = whim_exec_results(r->exec);
    return WHIM_ERR_OK;
}

whim_err whim_runner_collect(whim_runner *r, whim_diag *diag)
{
    whim_err err = whim_exec_collect(r->exec, diag);
    if (err != WHIM_ERR_OK) {
        step_lost(r);
    }
    return err;
}

whim_err whim_runner_step(whim_runner *r, const whim_step_part *parts, int64_t n_part,
                          whim_diag *diag)
{
    WHIM_TRY(whim_runner_submit(r, parts, n_part, diag));
    whim_err err = whim_runner_collect(r, diag);
    if (err != WHIM_ERR_OK) {
        states_set(parts, n_part, false);
    }
    return err;
}

whim_err whim_runner_draft(whim_runner *r, const whim_step_part *parts, int64_t n_part,
                           whim_diag *diag)
{
    whim_step_size size;
    r->n_step++;
    WHIM_TRY(step_check(r, parts, n_part, true, &size, diag));
    whim_err err = queue(r, parts, n_part, &size, WHIM_STEP_DRAFT, diag);
    if (err == WHIM_ERR_OK) {
        err = whim_runner_collect(r, diag);
    }
    r->n_result = 0;
    return err;
}

whim_err whim_runner_advance(whim_runner *r, const whim_taken *taken, int64_t n, whim_diag *diag)
{
    if (n > r->cfg.max_seqs) {
        return whim_fail(diag, WHIM_ERR_INVALID, "rows of %lld sequences are taken of %lld",
                         (long long)n, (long long)r->cfg.max_seqs);
    }
    int32_t group = n > 0 ? taken[0].seq->group : 0;
    for (int64_t i = 0; i < n; i++) {
        const whim_sequence *seq = taken[i].seq;
        int64_t n_row = taken[i].n_row;
        bool kept = r->n_trial > 0 && seq->trial == r->n_trial && seq->group == group;
        if (!kept || n_row < 1 || n_row > seq->n_trial) {
            return whim_fail(diag, WHIM_ERR_INVALID, "%lld rows are taken, %lld are on trial",
                             (long long)n_row, (long long)(kept ? seq->n_trial : 0));
        }
        r->takes[i] = (whim_step_take){.slot = seq->state,
                                       .position = (int32_t)seq->state_at,
                                       .row = (int32_t)seq->trial_row,
                                       .n_row = (int32_t)n_row};
    }
    whim_err err = whim_exec_advance(r->exec, group, r->takes, n, diag);
    if (err == WHIM_ERR_CORRUPT) { /* refused, and nothing has changed */
        return err;
    }
    for (int64_t i = 0; i < n; i++) {
        whim_sequence *seq = taken[i].seq;
        seq->state_at = err == WHIM_ERR_OK ? seq->state_at + taken[i].n_row : -1;
        seq->n_trial = 0;
    }
    return err;
}

whim_err whim_runner_sequence_create(whim_runner *r, whim_sequence **out)
{
    return whim_runner_sequence_create_in(r, 0, out);
}

whim_err whim_runner_sequence_create_in(whim_runner *r, int32_t group, whim_sequence **out)
{
    whim_sequence *seq = whim_alloc(sizeof *seq);
    if (seq == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    whim_err err = whim_sequence_init(seq, r->cfg.max_ctx, r->cfg.page_len);
    seq->group = group;
    if (err == WHIM_ERR_OK) {
        err = whim_sequence_take_state(seq, &r->states[group]);
    }
    if (err != WHIM_ERR_OK) {
        whim_sequence_deinit(seq, &r->pools[group]);
        whim_free(seq);
        return err;
    }
    *out = seq;
    return WHIM_ERR_OK;
}

void whim_runner_sequence_destroy(whim_runner *r, whim_sequence *seq)
{
    if (seq != NULL) {
        whim_sequence_give_state(seq, &r->states[seq->group]);
        whim_sequence_deinit(seq, &r->pools[seq->group]);
        whim_free(seq);
    }
}

int64_t whim_runner_sequence_cut(whim_runner *r, whim_sequence *seq, int64_t len)
{
    bool stale = r->has_states && seq->state_at != len;
    whim_sequence_cut(seq, &r->pools[seq->group], stale ? 0 : len);
    return seq->len;
}

whim_exec *whim_runner_exec(whim_runner *r)
{
    return r->exec;
}

whim_page_pool *whim_runner_states(whim_runner *r)
{
    return &r->states[0];
}

whim_page_pool *whim_runner_states_of(whim_runner *r, int32_t group)
{
    return &r->states[group];
}

whim_page_pool *whim_runner_pool(whim_runner *r)
{
    return &r->pools[0];
}

whim_page_pool *whim_runner_pool_of(whim_runner *r, int32_t group)
{
    return &r->pools[group];
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A step: its block is checked, told to those who follow, queued and waited for. */
#include "base/alloc.h"
#include "base/check.h"
#include "comm/comm.h"
#include "comm/rank_meters.h"
#include "ops/ops.h"
#include "runner/exec/inner.h"

#include <string.h>

/* The block: its arrays, the fresh pages behind them, and what is new in the page lists. */
static whim_err block_send(whim_exec *x, const whim_exec_flight *f, const int32_t *block)
{
    const whim_step_head *head = whim_step_head_of(f->block);
    int64_t arrays = whim_step_lists(f->block) - f->block, word = sizeof(int32_t);
    WHIM_TRY(whim_page_table_send(&x->pages, x->stream, block, f->block));
    WHIM_TRY(whim_stream_copy_in(x->stream, x->block, f->block, arrays * word));
    return whim_stream_copy_in(x->stream, x->block + arrays, whim_step_fresh(f->block),
                               head->n_fresh * word);
}

static whim_err results_put(whim_exec *x, const whim_step_head *head, const whim_batch *batch)
{
    const whim_sampling_out *chosen = &x->sampling.out_device;
    return whim_op_result_tokens(
        x->stream, &(whim_result_tokens_args){
                       .refs = batch->tokens,
                       .results = x->last_chose ? chosen->tokens : whim_outputs_ids(&x->outputs),
                       .result_stride = x->last_chose ? 1 : x->last.n_top,
                       .tokens = (int32_t *)batch->tokens,
                       .n_row = head->n_row,
                       .n_result = x->last.n_out,
                   });
}

/* Tokens that only the device knows, and of several ranks only the first one's: groups are told
 * what it chose, others what that makes of their common rows. */
static whim_err tokens_fill(whim_exec *x, const whim_step_head *head, const whim_step_size *bucket)
{
    whim_batch batch;
    whim_step_view(x->block, &x->limits, bucket, &batch);
    if (whim_exec_groups(&x->cfg) > 1) {
        WHIM_TRY(whim_outputs_share(&x->outputs, x->stream, x->sampling.out_device.tokens,
                                    x->last_chose ? x->last.n_out : 0));
        return results_put(x, head, &batch);
    }
    if (!x->ranks.follows) {
        WHIM_TRY(results_put(x, head, &batch));
    }
    return whim_op_broadcast(x->stream, &(whim_broadcast_args){
                                            .x = (int32_t *)batch.tokens,
                                            .bytes = head->n_row * (int64_t)sizeof(int32_t),
                                            .among = WHIM_AMONG_ALL,
                                            .site = "tokens of the step before",
                                        });
}

/* What a step needs on the device before its pass, in the order in which it is needed. */
static whim_err prepare(whim_exec *x, const whim_exec_flight *f, const int32_t *block, int32_t set)
{
    const whim_step_head *head = whim_step_head_of(f->block);
    whim_step_size bucket = whim_step_bucket(f->block);
    WHIM_TRY(block_send(x, f, block));
    WHIM_TRY(whim_befores_send(&x->befores, x->stream, block, x->cfg.page_len, set));
    WHIM_TRY(whim_sampling_begin(&x->sampling, set, x->stream, x->asks, x->n_ask));
    if ((head->flags & WHIM_STEP_AFTER) != 0) {
        WHIM_TRY(tokens_fill(x, head, &bucket));
    }
    return whim_op_page_zero(x->stream,
                             &(whim_page_zero_args){
                                 .pages = x->kv,
                                 .page_bytes = x->plan.page_bytes,
                                 .ids = x->block + (whim_step_lists(f->block) - f->block),
                                 .n_id = head->n_fresh,
                             });
}

/* The work of a step; of several groups with what is gathered of their outputs. */
static whim_step_size outputs_of(const whim_exec *x, const int32_t *block)
{
    whim_step_size work = whim_step_work(block);
    int32_t n_group = whim_exec_groups(&x->cfg);
    work.n_out = n_group > 1 ? whim_step_head_of(block)->bucket_out * n_group : work.n_out;
    return work;
}

/* What decides how a step's rows are dealt. */
static whim_cut_step cut_step_of(const int32_t *block)
{
    const whim_step_head *head = whim_step_head_of(block);
    whim_step_size bucket = whim_step_bucket(block);
    whim_step_layout at = whim_step_layout_of(&bucket);
    return (whim_cut_step){
        .n_row = head->n_row,
        .bucket_row = head->bucket_row,
        .bucket_seq = head->bucket_seq,
        .q_start = block + at.q_start,
        .kv_len = block + at.kv_len,
        .page_start = block + at.page_start,
        .positions = block + at.positions,
        .slots = block + at.slots,
    };
}

/* Rows that each rank has of a step that is dealt; 0: it is not, being small, or the draft's. */
static int64_t dealt_rows(const whim_exec *x, const int32_t *block)
{
    whim_cut_step step = cut_step_of(block);
    bool drafts = (whim_step_head_of(block)->flags & WHIM_STEP_DRAFT) != 0;
    int64_t n = drafts ? 0 : whim_cut_rows(&x->cut, &step);
    return n > 0 && x->cfg.graphs ? whim_graphs_round(n, whim_cut_max_rows(&x->cut.cfg)) : n;
}

/* Deal the rows of a step; how many each rank has. The block is the device's, whose page lists are
 * where the table has them. */
static whim_err deal(whim_exec *x, const int32_t *block, int32_t set, int64_t *own_rows)
{
    whim_cut_step step = cut_step_of(block);
    *own_rows = dealt_rows(x, block);
    return *own_rows > 0 ? whim_cut_send(&x->cut, x->stream, &step, *own_rows, set) : WHIM_ERR_OK;
}

/* Rows of a pass of a group: each of its ranks has these. */
static int64_t pass_rows(const whim_exec *x, const int32_t *block)
{
    int64_t dealt = dealt_rows(x, block);
    return dealt > 0 ? dealt : whim_step_head_of(block)->bucket_row;
}

static whim_err queue(whim_exec *x, whim_exec_flight *f, const int32_t *block, int32_t set,
                      bool embeds_given)
{
    whim_step_size work = outputs_of(x, f->block), bucket = whim_step_bucket(f->block);
    bool listens = x->tap.collected != NULL;
    WHIM_TRY(prepare(x, f, block, set));
    if (embeds_given) {
        WHIM_TRY(whim_stream_copy_in(x->stream, x->embeds, f->embeds,
                                     work.n_row * x->config->d_model * (int64_t)sizeof(float)));
    }
    whim_graph_key key = {.bucket = bucket,
                          .flags = whim_step_head_of(f->block)->flags,
                          .meet_rows = x->cfg.meets ? f->groups.most_rows : 0};
    WHIM_TRY(whim_late_begin(&x->late, x->stream, block, x->cfg.page_len, set, &key.late));
    WHIM_TRY(deal(x, f->block, set, &key.own_rows));
    WHIM_TRY(whim_exec_pass(x, &key));
    WHIM_TRY(whim_outputs_gather(&x->outputs, x->stream, bucket.n_out, bucket.n_top));
    whim_out out = {0};
    whim_outputs_view(&x->outputs, bucket.n_top, &out);
    /* The pass is over, and its memory free. */
    WHIM_TRY(whim_sampling_end(&x->sampling, x->stream, &out));
    if (!x->ranks.follows || listens) {
        WHIM_TRY(whim_outputs_fetch(&x->outputs, set, x->stream, &work, listens ? NULL : x->asks));
    }
    return whim_stream_record(x->stream, &f->done);
}

/* Of several ranks none can go on: the others have done the step, or wait in the midst of it. */
static whim_err step_failed(whim_exec *x, whim_err err, whim_diag *diag)
{
    bool ranks_ended = x->cfg.comm != NULL && x->cfg.comm->diag.text[0] != '\0';
    const whim_device_vt *vt = x->device->vt;
    whim_diag lost = {""};
    bool is_lost = vt->check != NULL && vt->check(x->device, &lost) != WHIM_ERR_OK;
    const char *why = ranks_ended ? x->cfg.comm->diag.text
                      : is_lost   ? lost.text
                                  : whim_err_text(err);
    x->last = (whim_step_size){0};
    x->kept_groups = (whim_groups){0};
    x->kept.n_row = 0; /* it may have written over some of them */
    whim_page_table_forget(&x->pages);
    whim_late_forget(&x->late);
    whim_ranks_failed(&x->ranks, why);
    return whim_fail(diag, err, "a step failed on the device: %s", why);
}

/* Results of the step before that lie on the device. */
static int64_t results_there(const whim_exec *x)
{
    return x->last_chose || x->last.n_top > 0 ? x->last.n_out : 0;
}

/* The blocks of all groups; what each has, and which is this rank's. */
static whim_err blocks_check(const whim_exec *x, const int32_t *blocks, int64_t n_word,
                             whim_groups *groups, const int32_t **own, whim_diag *diag)
{
    const whim_step_head *first = whim_step_head_of(blocks);
    int32_t n_group = whim_exec_groups(&x->cfg);
    *groups = (whim_groups){.n_group = n_group};
    for (int32_t g = 0; g < n_group; g++) {
        WHIM_TRY(whim_step_check(blocks, n_word, &x->limits, results_there(x), diag));
        const whim_step_head *head = whim_step_head_of(blocks);
        bool alike = ((head->flags ^ first->flags) & ~WHIM_STEP_KEEP) == 0; /* each for itself */
        if (!alike || head->bucket_out != first->bucket_out || head->n_top != first->n_top) {
            return whim_fail(diag, WHIM_ERR_CORRUPT,
                             "group %d of a step has flags %d and %d outputs of %d, the first has "
                             "%d, %d and %d",
                             g, head->flags, head->bucket_out, head->n_top, first->flags,
                             first->bucket_out, first->n_top);
        }
        *own = g == whim_exec_group(&x->cfg) ? blocks : *own;
        groups->n_row[g] = head->n_row;
        groups->n_out[g] = head->n_out;
        int64_t n_row = pass_rows(x, blocks);
        groups->most_rows = n_row > groups->most_rows ? n_row : groups->most_rows;
        blocks += head->n_word;
        n_word -= head->n_word;
    }
    return WHIM_ERR_OK;
}

/* Refuse before anything changes. */
static whim_err submit_check(const whim_exec *x, const int32_t *block, int64_t n_word,
                             const float *embeds, whim_groups *groups, const int32_t **own,
                             whim_diag *diag)
{
    if (whim_exec_in_flight(x) >= whim_exec_flights(&x->cfg)) {
        return whim_fail(diag, WHIM_ERR_FULL, "%d steps are running already",
                         whim_exec_in_flight(x));
    }
    WHIM_TRY(blocks_check(x, block, n_word, groups, own, diag));
    if ((whim_step_head_of(block)->flags & WHIM_STEP_DRAFT) != 0 && !x->cfg.drafts) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "a step of a draft was sent to a model without one");
    }
    bool wanted = (whim_step_head_of(block)->flags & WHIM_STEP_EMBEDS) != 0;
    if ((wanted && !x->cfg.embeds) || (!wanted && embeds != NULL)) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         wanted ? "a step has embeddings, but the model was opened without"
                                : "embeddings come with a step that has tokens");
    }
    if (wanted && x->ranks.leads) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED, "embeddings cannot be sent to other ranks");
    }
    int64_t n_out = whim_groups_outs(groups);
    if (x->asks != NULL && x->n_ask != n_out) {
        return whim_fail(diag, WHIM_ERR_INVALID, "%lld choices are asked of a step of %lld outputs",
                         (long long)x->n_ask, (long long)n_out);
    }
    return whim_sampling_check(&x->sampling, x->asks, x->n_ask, whim_step_work(block).n_top, diag);
}

static int64_t words_of(const int32_t *blocks, int32_t n_group)
{
    int64_t n_word = 0;
    for (int32_t g = 0; g < n_group; g++) {
        n_word += whim_step_head_of(blocks + n_word)->n_word;
    }
    return n_word;
}

/* The asks of several groups, where their outputs lie when they are gathered. */
static void asks_place(whim_exec *x, const whim_groups *groups, int64_t n_place)
{
    if (groups->n_group == 1 || x->asks == NULL) {
        return;
    }
    for (int64_t i = 0; i < n_place; i++) {
        x->placed[i] = (whim_sample_ask){0};
    }
    for (int64_t i = 0; i < x->n_ask; i++) {
        x->placed[whim_groups_place(groups, i)] = x->asks[i];
    }
    whim_exec_ask(x, x->placed, n_place);
}

void whim_exec_ask(whim_exec *x, const whim_sample_ask *asks, int64_t n_ask)
{
    x->asks = asks;
    x->n_ask = n_ask;
}

/* Which rows can be taken later, of this rank's group and of the others. */
static void kept_note(whim_exec *x, const int32_t *blocks, const whim_step_head *own)
{
    if ((own->flags & WHIM_STEP_KEEP) != 0) {
        x->kept.n_row = own->n_row;
    }
    for (int32_t g = 0; g < whim_exec_groups(&x->cfg); g++) {
        const whim_step_head *head = whim_step_head_of(blocks);
        if ((head->flags & WHIM_STEP_KEEP) != 0) {
            x->kept_groups.n_row[g] = head->n_row;
        }
        blocks += head->n_word;
    }
}

static whim_err submit(whim_exec *x, const int32_t *blocks, int64_t n_word, const float *embeds,
                       whim_diag *diag)
{
    whim_groups groups;
    const int32_t *block = NULL;
    WHIM_TRY(submit_check(x, blocks, n_word, embeds, &groups, &block, diag));
    const whim_step_head *head = whim_step_head_of(block);
    whim_step_size work = outputs_of(x, block);
    bool chose = x->ranks.follows ? x->ranks.chose : x->n_ask > 0;
    WHIM_TRY(whim_ranks_tell(&x->ranks, WHIM_LETTER_SUBMIT, chose, blocks,
                             words_of(blocks, groups.n_group), diag));
    asks_place(x, &groups, work.n_out);
    int32_t set = (int32_t)(x->n_submitted % whim_exec_flights(&x->cfg));
    whim_exec_flight *f = &x->flights[set];
    f->groups = groups;
    f->letter = whim_mail_number(&x->ranks.mail);
    memcpy(f->block, block, (size_t)head->n_word * sizeof *block);
    if (embeds != NULL) {
        memcpy(f->embeds, embeds, (size_t)(head->n_row * x->config->d_model) * sizeof *embeds);
    }
    whim_alloc_guard_enter();
    whim_err err = queue(x, f, block, set, embeds != NULL);
    whim_alloc_guard_leave();
    if (err != WHIM_ERR_OK) {
        /* What is queued of it reads the host's block, which the next step will overwrite. */
        whim_err ignored = whim_stream_sync(x->stream);
        (void)ignored;
        return step_failed(x, err, diag);
    }
    x->last = work;
    x->last_groups = groups;
    x->last_chose = chose;
    x->n_submitted++;
    kept_note(x, blocks, head);
    if (x->tap.submitted != NULL && (head->flags & WHIM_STEP_DRAFT) == 0) {
        x->tap.submitted(x->tap.ctx, block);
    }
    return WHIM_ERR_OK;
}

whim_err whim_exec_submit(whim_exec *x, const int32_t *block, int64_t n_word, const float *embeds,
                          whim_diag *diag)
{
    whim_err err = submit(x, block, n_word, embeds, diag);
    whim_exec_ask(x, NULL, 0);
    return err;
}

whim_err whim_exec_begin(whim_exec *x, whim_diag *diag)
{
    return whim_stream_begin(x->stream, diag);
}

whim_err whim_exec_collect(whim_exec *x, whim_diag *diag)
{
    whim_check(whim_exec_in_flight(x) > 0);
    int32_t set = (int32_t)(x->n_collected++ % whim_exec_flights(&x->cfg));
    whim_err err = whim_stream_wait(x->stream, x->flights[set].done);
    if (err == WHIM_ERR_OK && x->n_collected <= x->n_lost) {
        err = WHIM_ERR_DEVICE;
    }
    if (err != WHIM_ERR_OK) {
        return step_failed(x, err, diag);
    }
    if (x->cfg.comm != NULL) {
        whim_comm_step_done(x->cfg.comm);
    }
    if (x->ranks.leads || x->ranks.follows) {
        whim_mail_ended(&x->ranks.mail, x->flights[set].letter);
    }
    bool drafted = (whim_step_head_of(x->flights[set].block)->flags & WHIM_STEP_DRAFT) != 0;
    if (x->tap.collected != NULL && !drafted) {
        x->tap.collected(x->tap.ctx, x);
    }
    return WHIM_ERR_OK;
}

void whim_exec_set_tap(whim_exec *x, const whim_exec_tap *tap)
{
    x->tap = *tap;
}

int64_t whim_exec_results(const whim_exec *x)
{
    return results_there(x) > 0 ? whim_groups_outs(&x->last_groups) : 0;
}

int64_t whim_exec_result_place(const whim_exec *x, int64_t i)
{
    return whim_groups_place(&x->last_groups, i);
}

int32_t whim_exec_in_flight(const whim_exec *x)
{
    return (int32_t)(x->n_submitted - x->n_collected);
}

int32_t whim_exec_room(const whim_exec *x)
{
    return whim_exec_flights(&x->cfg);
}

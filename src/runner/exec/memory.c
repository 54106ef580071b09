/* SPDX-License-Identifier: Apache-2.0 */
/* States and pages outside of steps, and what ranks say to each other of them. */
#include "base/alloc.h"
#include "base/check.h"
#include "comm/comm.h"
#include "ops/ops.h"
#include "runner/exec/inner.h"

#include <string.h>

/* Wait for all that is queued. */
static whim_err settle(whim_exec *x)
{
    whim_err err = whim_stream_sync(x->stream);
    if (err != WHIM_ERR_OK) { /* a step under way may be what failed; its own wait tells no more */
        x->n_lost = x->n_submitted;
    }
    return err;
}

static char *slot_at(const whim_exec *x, int32_t slot)
{
    whim_check(slot >= 0 && slot < x->cfg.n_state);
    return (char *)x->state + slot * x->plan.slot_bytes;
}

/* Whether a group's states are those of another rank alone. */
static bool is_other_s(const whim_exec *x, int32_t group)
{
    return whim_exec_groups(&x->cfg) > 1 && group != whim_exec_group(&x->cfg);
}

whim_err whim_exec_state_copy(whim_exec *x, int32_t group, int32_t from, int32_t to)
{
    const int32_t slots[] = {from, to};
    WHIM_TRY(whim_ranks_tell_group(&x->ranks, WHIM_LETTER_STATE_COPY, group, slots, 2, NULL));
    if (is_other_s(x, group)) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(whim_op_copy_bytes(x->stream, &(whim_copy_bytes_args){
                                               .dst = slot_at(x, to),
                                               .src = slot_at(x, from),
                                               .bytes = x->plan.slot_bytes,
                                           }));
    if (x->tap.state_copied != NULL) {
        x->tap.state_copied(x->tap.ctx, from, to);
    }
    return settle(x);
}

static whim_err advance(whim_exec *x, const whim_step_take *takes, int64_t n)
{
    whim_batch batch = {.state = whim_exec_states(x)};
    whim_bump bump = {.base = x->activations, .size = x->plan.activation_bytes};
    if (x->n_collected <=
        x->kept.n_submitted_then) { /* the arrays of the last call may still be read */
        WHIM_TRY(whim_stream_sync(x->stream));
    }
    x->kept.n_submitted_then = x->n_submitted;
    WHIM_TRY(whim_kept_take(&x->kept, x->stream, takes, n, &batch));
    return x->def->advance(x->model, x->stream, &batch, &bump);
}

whim_err whim_exec_advance(whim_exec *x, int32_t group, const whim_step_take *takes, int64_t n,
                           whim_diag *diag)
{
    bool others = is_other_s(x, group);
    int64_t n_row = others ? x->kept_groups.n_row[group] : x->kept.n_row;
    int64_t n_kept = x->kept.rows != NULL ? n_row : 0;
    if (x->ranks.follows && x->kept.rows == NULL) { /* this rank has no part of the states */
        return WHIM_ERR_OK;
    }
    WHIM_TRY(whim_step_takes_check(takes, n, &x->limits, n_kept, diag));
    if (n == 0) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(whim_ranks_tell_group(&x->ranks, WHIM_LETTER_ADVANCE, group, takes,
                                   n * WHIM_TAKE_WORDS, diag));
    if (others) {
        return WHIM_ERR_OK;
    }
    whim_alloc_guard_enter();
    whim_err err = advance(x, takes, n);
    whim_alloc_guard_leave();
    if (err != WHIM_ERR_OK) {
        whim_ranks_failed(&x->ranks, "states could not be continued");
        return whim_fail(diag, err, "states could not be continued: %s", whim_err_text(err));
    }
    if (x->tap.advanced != NULL) {
        x->tap.advanced(x->tap.ctx, takes, n);
    }
    return WHIM_ERR_OK;
}

static char *page_at(const whim_exec *x, int32_t page)
{
    whim_check(page >= 0 && page < x->cfg.n_page);
    return (char *)x->kv + page * x->plan.page_bytes;
}

static char *item_at(const whim_exec *x, whim_exec_item item, int32_t number)
{
    return item == WHIM_EXEC_PAGE ? page_at(x, number) : slot_at(x, number);
}

int64_t whim_exec_item_bytes(const whim_exec *x, whim_exec_item item)
{
    return item == WHIM_EXEC_PAGE ? x->plan.page_bytes : x->plan.slot_bytes;
}

whim_err whim_exec_item_read(whim_exec *x, whim_exec_item item, int32_t number, void *out)
{
    WHIM_TRY(whim_stream_copy_out(x->stream, out, item_at(x, item, number),
                                  whim_exec_item_bytes(x, item)));
    return settle(x);
}

whim_err whim_exec_item_write(whim_exec *x, whim_exec_item item, int32_t number, const void *bytes)
{
    if (item == WHIM_EXEC_PAGE) {
        whim_late_drop_page(&x->late, number, x->cfg.page_len);
    }
    WHIM_TRY(whim_stream_copy_in(x->stream, item_at(x, item, number), bytes,
                                 whim_exec_item_bytes(x, item)));
    return settle(x);
}

whim_err whim_exec_item_send(whim_exec *x, int32_t from, int32_t to, void *bytes, int64_t n_byte,
                             int64_t most)
{
    char *there = x->activations; /* free between two passes */
    int32_t own = whim_exec_group(&x->cfg);
    /* Ranks send as many pieces as all others, whatever the sizes of their parts of page and pass:
     * the residual stream of the largest pass has room everywhere. */
    int64_t room = x->cfg.max_rows * x->config->d_model * (int64_t)sizeof(float);
    whim_check(room <= x->plan.activation_bytes && n_byte <= most);
    for (int64_t at = 0; at < most && from != to; at += room) {
        int64_t left = at < n_byte ? n_byte - at : 0, n = room < left ? room : left;
        char *piece = (char *)bytes + (n > 0 ? at : 0);
        /* only one of the two: while a copy is under way, nobody else has its memory */
        WHIM_TRY(whim_stream_copy_in(x->stream, there, piece, own == from ? n : 0));
        WHIM_TRY(whim_op_broadcast(x->stream, &(whim_broadcast_args){.x = there,
                                                                     .bytes = n,
                                                                     .root = from,
                                                                     .among = WHIM_AMONG_ACROSS,
                                                                     .site = "page of a group"}));
        WHIM_TRY(whim_stream_copy_out(x->stream, piece, there, own == to ? n : 0));
        WHIM_TRY(settle(x));
    }
    return WHIM_ERR_OK;
}

/* --- sums of a few numbers -------------------------------------------------------------------- */

enum { MAX_SUM = 8 };

static whim_err sum(whim_exec *x, float *values, int64_t n)
{
    float sums[MAX_SUM];           /* while copies are under way, nobody else has their memory */
    float *there = x->activations; /* free between two passes */
    int64_t bytes = n * (int64_t)sizeof *values;
    whim_check(n <= MAX_SUM && bytes <= x->plan.activation_bytes);
    WHIM_TRY(whim_stream_copy_in(x->stream, there, values, bytes));
    WHIM_TRY(whim_op_all_reduce(
        x->stream,
        &(whim_all_reduce_args){
            .x = there, .n_row = 1, .n_col = n, .site = "a vote", .among = WHIM_AMONG_ALL}));
    WHIM_TRY(whim_stream_copy_out(x->stream, sums, there, bytes));
    WHIM_TRY(settle(x));
    memcpy(values, sums, (size_t)bytes);
    return WHIM_ERR_OK;
}

whim_err whim_exec_sum(whim_exec *x, float *values, int64_t n, int64_t wait_ns)
{
    if (!x->ranks.leads && !x->ranks.follows) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(settle(x)); /* a step under way would wait as long */
    int64_t usual = x->cfg.comm->wait_ns;
    x->cfg.comm->wait_ns = wait_ns > usual ? wait_ns : usual;
    whim_err err = sum(x, values, n);
    x->cfg.comm->wait_ns = usual;
    return err;
}

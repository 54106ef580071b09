/* SPDX-License-Identifier: Apache-2.0 */
/* States before pages: a sequence cannot do without its state, and pages make do with what is left.
 * Of pages, those of one sequence at its longest go before those of many at once. */
#include "engine/memory_fit.h"

#include "kv/sequence.h"

int64_t whim_state_fit_choose(whim_state_fit *fit, int64_t left)
{
    int64_t slot = fit->slot_bytes;
    fit->n_state = 0;
    if (slot == 0) {
        return left;
    }
    int64_t most = left / 2 / slot > 1 ? left / 2 / slot : 1;
    if (fit->may_lower && fit->max_seqs > most) {
        fit->max_seqs = most;
    }
    left -= fit->max_seqs * slot;
    int64_t room = left < 2 * slot ? 0 : left / 8 / slot > 2 ? left / 8 / slot : 2;
    int64_t n_checkpoint = fit->n_checkpoint < room ? fit->n_checkpoint : room;
    fit->n_state = fit->max_seqs + n_checkpoint;
    return left - n_checkpoint * slot;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void whim_page_fit_choose(whim_page_fit *fit, int64_t left)
{
    bool is_asked = fit->asked_ctx > 0;
    fit->ctx = is_asked ? fit->asked_ctx : fit->model_ctx;
    if (fit->page_bytes == 0) { /* a rank without heads, whom others tell how many they have */
        fit->n_page = fit->n_seq * whim_kv_pages(fit->ctx, fit->page_len);
        return;
    }
    if (fit->asked_bytes > 0) {
        fit->n_page = fit->asked_bytes / fit->page_bytes;
        return;
    }
    left = most(left, 0);
    int64_t one = whim_kv_pages(fit->ctx, fit->page_len);
    if (!is_asked) {
        int64_t given = (int64_t)((double)left * fit->one_share) / fit->page_bytes;
        given = most(
            given, least(left / fit->page_bytes, whim_kv_pages(WHIM_FIT_USUAL_CTX, fit->page_len)));
        one = least(one, most(given, whim_kv_pages(WHIM_FIT_LEAST_CTX, fit->page_len)));
    }
    fit->n_page = fit->n_seq * whim_kv_pages(fit->ctx, fit->page_len);
    if (fit->share > 0 || !is_asked) {
        int64_t shared = (int64_t)((double)left * fit->share) / fit->page_bytes;
        fit->n_page = least(fit->n_page, most(shared, one));
    }
    int64_t room = fit->n_page * fit->page_len;
    if (!is_asked && room < fit->ctx) {
        fit->ctx = most(room / WHIM_FIT_ROUND_CTX, 1) * WHIM_FIT_ROUND_CTX;
    }
}

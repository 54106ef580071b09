/* SPDX-License-Identifier: Apache-2.0 */
/* One sequence at its longest goes before many at once. */
#include "engine/page_fit.h"

#include "kv/sequence.h"

#include <stdbool.h>

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
    if (fit->asked_bytes > 0) {
        fit->n_page = fit->asked_bytes / fit->page_bytes;
        return;
    }
    left = most(left, 0);
    int64_t one = whim_kv_pages(fit->ctx);
    if (!is_asked) {
        int64_t given = (int64_t)((double)left * fit->one_share) / fit->page_bytes;
        one = most(least(one, given), whim_kv_pages(least(fit->ctx, WHIM_FIT_LEAST_CTX)));
    }
    fit->n_page = fit->n_seq * whim_kv_pages(fit->ctx);
    if (fit->share > 0 || !is_asked) {
        int64_t shared = (int64_t)((double)left * fit->share) / fit->page_bytes;
        fit->n_page = least(fit->n_page, most(shared, one));
    }
    int64_t room = fit->n_page * WHIM_KV_PAGE;
    if (!is_asked && room < fit->ctx) {
        fit->ctx = most(room / WHIM_FIT_ROUND_CTX, 1) * WHIM_FIT_ROUND_CTX;
    }
}

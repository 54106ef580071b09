/* SPDX-License-Identifier: Apache-2.0 */
/* Repetitions and words in a history, as pairs for the logit bias. */
#include "sample/history.h"

#include <string.h>

/* Prompt and output as one. */
typedef struct history {
    const int32_t *prompt, *output;
    int64_t n_prompt, n;
} history;

static int32_t token_at(const history *h, int64_t i)
{
    return i < h->n_prompt ? h->prompt[i] : h->output[i - h->n_prompt];
}

/* --- DRY -------------------------------------------------------------------------------------- */

static bool breaks(const whim_history_rules *r, int32_t id)
{
    return id >= 0 && id / 32 < r->n_breaker_word && (r->dry_breakers[id / 32] >> id % 32 & 1) != 0;
}

/* Tokens at the end that a match may have: none of them breaks it. */
static int64_t longest_match(const whim_history_rules *r, const history *h, int64_t first)
{
    int64_t most = (int64_t)r->dry_allowed + WHIM_DRY_MATCH, n = 0;
    while (n < most && h->n - 1 - n >= first && !breaks(r, token_at(h, h->n - 1 - n))) {
        n++;
    }
    return n;
}

/* Tokens before place i that equal those at the end. */
static int64_t match_at(const history *h, int64_t i, int64_t first, int64_t most)
{
    int64_t n = 0;
    while (n < most && i - 1 - n >= first && token_at(h, i - 1 - n) == token_at(h, h->n - 1 - n)) {
        n++;
    }
    return n;
}

static float penalty_of(const whim_history_rules *r, int64_t match)
{
    float penalty = r->dry_multiplier;
    for (int64_t i = r->dry_allowed; i < match && penalty < -WHIM_BANNED; i++) {
        penalty *= r->dry_base;
    }
    return penalty < -WHIM_BANNED ? penalty : -WHIM_BANNED;
}

/* Keep the heaviest penalty of a token. */
static int32_t pair_put(whim_logit_bias *out, int32_t n, int32_t id, float bias)
{
    int32_t i = 0;
    while (i < n && out[i].id != id) {
        i++;
    }
    if (i == WHIM_DRY_TOKENS) {
        return n;
    }
    if (i == n || bias < out[i].bias) {
        out[i] = (whim_logit_bias){id, bias};
    }
    return i == n ? n + 1 : n;
}

static int32_t dry_bias(const whim_history_rules *r, const history *h, whim_logit_bias *out)
{
    int64_t last = r->dry_last < 0 || r->dry_last > WHIM_DRY_LAST ? WHIM_DRY_LAST : r->dry_last;
    int64_t first = h->n > last ? h->n - last : 0;
    int64_t most = longest_match(r, h, first);
    int32_t n = 0;
    for (int64_t i = h->n - 1; i > first && most >= r->dry_allowed; i--) {
        int64_t match = match_at(h, i, first, most);
        if (match >= r->dry_allowed && !breaks(r, token_at(h, i))) {
            n = pair_put(out, n, token_at(h, i), -penalty_of(r, match));
        }
    }
    return n;
}

/* --- words ------------------------------------------------------------------------------------ */

static int32_t ban_bias(const whim_history_rules *r, const int32_t *output, int64_t n_output,
                        whim_logit_bias *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < r->n_ban; i++) {
        const int32_t *word = r->ban_ids + r->bans[i].at;
        int32_t n_before = r->bans[i].n - 1;
        if (n_before <= n_output &&
            (n_before == 0 ||
             memcmp(word, output + (n_output - n_before), (size_t)n_before * sizeof *word) == 0)) {
            out[n++] = (whim_logit_bias){.id = word[n_before], .bias = WHIM_BANNED};
        }
    }
    return n;
}

int32_t whim_history_bias(const whim_history_rules *r, const int32_t *prompt, int64_t n_prompt,
                          const int32_t *output, int64_t n_output, whim_logit_bias *out)
{
    const history h = {prompt, output, n_prompt, n_prompt + n_output};
    int32_t n = r->dry_multiplier > 0.0f ? dry_bias(r, &h, out) : 0;
    return n + ban_bias(r, output, n_output, out + n);
}

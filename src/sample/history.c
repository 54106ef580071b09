/* SPDX-License-Identifier: Apache-2.0 */
/* Repetitions and words in a history, as pairs for the logit bias. */
#include "sample/history.h"

#include <assert.h>
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

static_assert(WHIM_DRY_LAST <= UINT16_MAX && WHIM_DRY_TOKENS == 256, "the sizes below");

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

/* z[j] = how many tokens equal those at the end, of those that end j tokens before it; z[0] is not
 * set. Of the match that reaches farthest back so far, what lies inside is known already, so that a
 * text of one token alone takes no longer than any other. */
static void matches_find(const history *h, int64_t n, uint16_t *z)
{
    int64_t from = 0, to = 0; /* places of that match, counted from the end */
    int64_t end = h->n - 1;
    for (int64_t j = 1; j < n; j++) {
        int64_t m = j < to && z[j - from] < to - j ? z[j - from] : j < to ? to - j : 0;
        while (j + m < n && token_at(h, end - j - m) == token_at(h, end - m)) {
            m++;
        }
        z[j] = (uint16_t)m;
        if (j + m > to) {
            from = j;
            to = j + m;
        }
    }
}

static float penalty_of(const whim_history_rules *r, int64_t match)
{
    float penalty = r->dry_multiplier;
    for (int64_t i = r->dry_allowed; i < match && penalty < -WHIM_BANNED; i++) {
        penalty *= r->dry_base;
    }
    return penalty < -WHIM_BANNED ? penalty : -WHIM_BANNED;
}

/* Pairs, and where that of a token is among them. */
typedef struct dry_pairs {
    whim_logit_bias *out;
    int32_t n;
    uint16_t places[4 * WHIM_DRY_TOKENS]; /* from a token's own on: that of its pair + 1; 0: none */
} dry_pairs;

/* Keep the heaviest penalty of a token. */
static void pair_put(dry_pairs *p, int32_t id, float bias)
{
    uint32_t i = (uint32_t)id * UINT32_C(2654435761) >> 22;
    while (p->places[i] != 0 && p->out[p->places[i] - 1].id != id) {
        i = (i + 1) % (4 * WHIM_DRY_TOKENS);
    }
    if (p->places[i] == 0 && p->n < WHIM_DRY_TOKENS) {
        p->out[p->n++] = (whim_logit_bias){id, bias};
        p->places[i] = (uint16_t)p->n;
    } else if (p->places[i] != 0 && bias < p->out[p->places[i] - 1].bias) {
        p->out[p->places[i] - 1].bias = bias;
    }
}

static int32_t dry_bias(const whim_history_rules *r, const history *h, whim_logit_bias *out)
{
    int64_t last = r->dry_last < 0 || r->dry_last > WHIM_DRY_LAST ? WHIM_DRY_LAST : r->dry_last;
    int64_t first = h->n > last ? h->n - last : 0;
    int64_t most = longest_match(r, h, first);
    if (most < r->dry_allowed) {
        return 0;
    }
    uint16_t z[WHIM_DRY_LAST];
    dry_pairs pairs = {.out = out};
    matches_find(h, h->n - first, z);
    for (int64_t i = h->n - 1; i > first; i--) {
        int64_t match = z[h->n - i] < most ? z[h->n - i] : most;
        if (match >= r->dry_allowed && !breaks(r, token_at(h, i))) {
            pair_put(&pairs, token_at(h, i), -penalty_of(r, match));
        }
    }
    return pairs.n;
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

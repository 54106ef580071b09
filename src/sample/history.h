/* SPDX-License-Identifier: Apache-2.0 */
/* What the tokens so far say about the next one, beyond the penalties that count them: tokens that
 * would continue with a repetition (DRY), and those that would end a word that must not come. Both
 * become pairs of a token and what is added to its logit, found again for each row from its own
 * history, so that neither the batch nor a proposal can change them.
 *
 * DRY: let m be the number of tokens up to the row's place that equal those before an earlier
 * token t, counted backwards from both until they differ, one is a breaker, or m is allowed +
 * WHIM_DRY_MATCH. Of the largest m of each t that is no breaker, where m is at least `allowed`, the
 * logit of t loses multiplier * base^(m - allowed), at most -WHIM_BANNED.
 * Threads: stateless. */
#ifndef WHIM_SAMPLE_HISTORY_H
#define WHIM_SAMPLE_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WHIM_DRY_LAST = 16384, /* tokens that are looked at, at most */
    WHIM_DRY_MATCH = 128,  /* a match longer by more than this counts like this */
    WHIM_DRY_TOKENS = 256, /* tokens that are made less likely: those that came last */
    WHIM_MAX_BANS = 512,
    WHIM_HISTORY_PAIRS = WHIM_DRY_TOKENS + WHIM_MAX_BANS,
};

/* Added to the logit of a token that must not come: others win, unless none is left. */
#define WHIM_BANNED (-1e9f)

typedef struct whim_logit_bias {
    int32_t id;
    float bias;
} whim_logit_bias;

/* A word of one token or more that must not come; its tokens are in `ban_ids`. */
typedef struct whim_ban {
    int32_t at, n;
} whim_ban;

typedef struct whim_history_rules {
    float dry_multiplier; /* 0: off */
    float dry_base;
    int32_t dry_allowed;          /* tokens that may repeat */
    int32_t dry_last;             /* tokens that are looked at; -1: as many as can be */
    const uint32_t *dry_breakers; /* [n_breaker_word] bit i: token i breaks a repetition */
    int64_t n_breaker_word;
    const whim_ban *bans; /* [n_ban] at most WHIM_MAX_BANS */
    int32_t n_ban;
    const int32_t *ban_ids; /* [n_ban_id] */
    int64_t n_ban_id;
} whim_history_rules;

/* Pairs for the token that follows prompt and output, at most WHIM_HISTORY_PAIRS; a word is looked
 * for in the output only. Returns how many. */
int32_t whim_history_bias(const whim_history_rules *rules, const int32_t *prompt, int64_t n_prompt,
                          const int32_t *output, int64_t n_output, whim_logit_bias *out);

#endif

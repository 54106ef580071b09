/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that split no sum: those that share the rows of steps, that have sequences of their own, and
 * that have whole experts each. They have the bits of one rank. */
#include "backends/cpu/cpu.h"
#include "golden/ranks.h"
#include "support/tally.h"

#include <stdio.h>
#include <string.h>

enum { FEW_SLOTS = 8 };

void ranks_check_same(const char *model, const rank_member *one, rank_member like, int32_t n_rank)
{
    char name[224];
    rank_member members[RANKS_MAX] = {0};
    snprintf(name, sizeof name, "%s/%s-%s-%s%s%s%s%d-%s%s", model, like.backend,
             like.isa != NULL ? like.isa : "best",
             like.span == 2   ? "twos-"
             : like.span == 3 ? "threes-"
                              : "",
             like.shares && like.groups ? "dpcp"
             : like.shares              ? "cp"
             : like.groups              ? "dp"
                                        : "",
             like.deals ? "ep" : "", like.deal_counts != NULL ? "-uneven" : "", n_rank,
             like.graphs ? "graphs" : "eager", like.slots > 0 ? "-few-slots" : "");
    like.g = one->g;
    bool good = ranks_run(members, n_rank, &like);
    size_t bytes = (size_t)one->n_value * sizeof(float);
    int32_t n_same = 0, n_plan = like.uneven ? 1 : RANKS_PLANS;
    for (int32_t i = RANKS_PLANS - n_plan; i < RANKS_PLANS && good; i++) {
        n_same += memcmp(members[0].logits[i], one->logits[0], bytes) == 0;
    }
    tally_check(good && n_same == n_plan, name, "%d of %d plans have the same bits%s", n_same,
                n_plan, like.diag.text);
    bool law = strcmp(like.backend, "guard") == 0; /* no step of its plan has more than 64 rows */
    if (good && like.deals && (law || like.slots > 0)) {
        bool apart = members[0].sent_apart;
        tally_check(apart == (like.slots > 0), name, "choices go %s rows",
                    apart ? "before" : "with");
    }
    ranks_free(members, n_rank);
}

/* --- what ranks are held to ------------------------------------------------------------------- */

/* Some of a model's prompts, and what one rank, or one part of several, makes of them. */
typedef struct alone {
    golden g;
    rank_member one;
} alone;

/* Prompts by their numbers, of 7, 65 and 200 tokens. */
enum { SHORT = 1, NEAR = 3, FAR = 4, ANSWER = 8 };

typedef struct models_own {
    alone far;  /* steps of hundreds of rows; for the CPU */
    alone near; /* of up to 64; for the law, which is slow */
} models_own;

static bool alone_run(alone *a, const golden *g, int32_t second, rank_member *like, int32_t n_rank)
{
    rank_member members[3] = {0}, with = *like;
    a->g = *g;
    a->g.prompts[0] = g->prompts[SHORT];
    a->g.prompts[1] = g->prompts[second];
    a->g.prompts[0].n_greedy = a->g.prompts[1].n_greedy = ANSWER;
    with.g = &a->g;
    with.once = true;
    bool good = ranks_run(members, n_rank, &with);
    like->diag = with.diag;
    a->one = members[0];
    return good;
}

static void own_free(models_own *own)
{
    ranks_free(&own->far.one, 1);
    ranks_free(&own->near.one, 1);
}

/* False: told. */
static bool own_run(models_own *own, const char *model, rank_member like, int32_t n_rank)
{
    const golden *g = like.g;
    memset(own, 0, sizeof *own);
    bool good = alone_run(&own->far, g, FAR, &like, n_rank) &&
                alone_run(&own->near, g, NEAR, &like, n_rank);
    if (!good) {
        tally_check(false, model, "%s", like.diag.text);
        own_free(own);
    }
    return good;
}

/* --- a model of each kind --------------------------------------------------------------------- */

/* The law takes the plan that has steps of all sizes. */
static void check_on_guard(const char *model, const alone *a, rank_member like, int32_t n_rank)
{
    like.backend = "guard";
    like.isa = NULL;
    like.graphs = true;
    like.uneven = true;
    ranks_check_same(model, &a->one, like, n_rank);
}

static void check_on_both(const char *model, const models_own *own, rank_member like,
                          int32_t n_rank)
{
    ranks_check_same(model, &own->far.one, like, n_rank);
    check_on_guard(model, &own->near, like, n_rank);
}

/* Parts of several ranks, which cut the model and share rows with the other parts: no sum is split
 * that one part alone would not split. */
static void check_parts(const char *model, rank_member like, int32_t deal_span)
{
    models_own part;
    bool odd = strcmp(model, "llama-f32") == 0;
    int32_t span = odd ? 3 : 2; /* its heads are dealt unevenly */
    like.deals = deal_span > 0;
    like.deal_span = deal_span;
    if (!own_run(&part, model, like, span)) {
        return;
    }
    like.shares = true;
    like.span = span;
    check_on_both(model, &part, like, 2 * span);
    if (!odd) {
        ranks_check_same(model, &part.far.one, like, 3 * span);
        like.groups = true;
        like.cut = span;
        like.span = 2 * span;
        check_on_both(model, &part, like, 4 * span);
    }
    own_free(&part);
}

/* Ranks that share rows, and ranks with sequences of their own. */
static void check_sizes(const char *model, const models_own *own, rank_member like)
{
    for (int32_t n = 2; n <= 4; n++) {
        for (int32_t groups = 0; groups <= 1; groups++) {
            like.groups = groups == 1;
            like.shares = groups == 0;
            check_on_both(model, own, like, n);
        }
    }
}

/* Groups with sequences of their own, whose ranks share rows. */
static void check_groups_that_share(const char *model, const models_own *own, rank_member like)
{
    like.shares = like.groups = true;
    like.span = 2;
    check_on_both(model, own, like, 4);
    like.span = 3;
    ranks_check_same(model, &own->far.one, like, 6);
}

/* Experts of ranks that have the same rows, that share them, and that have rows of their own. In
 * long steps the choices go before the rows; with few slots they do so in most. */
static void check_dealt(const char *model, const models_own *own, rank_member like)
{
    like.deals = true;
    check_on_both(model, own, like, 2);
    check_on_both(model, own, like, 3);
    for (int32_t slots = 0; slots <= FEW_SLOTS; slots += FEW_SLOTS) {
        like.slots = slots;
        like.shares = true;
        check_on_both(model, own, like, 2);
        check_on_both(model, own, like, 3);
        check_groups_that_share(model, own, like);
        like.shares = false;
        like.groups = true;
        check_on_both(model, own, like, 2);
        check_on_both(model, own, like, 4);
        like.groups = false;
    }
}

static void check_kind(const char *model, rank_member like)
{
    models_own own;
    check_parts(model, like, 0);
    if (!own_run(&own, model, like, 1)) {
        return;
    }
    check_sizes(model, &own, like);
    check_groups_that_share(model, &own, like);
    if (ranks_has_experts(model)) {
        check_parts(model, like, 1);
        check_dealt(model, &own, like);
    }
    own_free(&own);
}

/* --- all models ------------------------------------------------------------------------------- */

/* They differ in what no rank can tell: one size does. */
static void check_other(const char *model, const rank_member *one, rank_member like, int32_t n)
{
    like.groups = true;
    ranks_check_same(model, one, like, n);
    like.groups = false;
    like.shares = true;
    ranks_check_same(model, one, like, n);
}

static void check_other_dealt(const char *model, const rank_member *one, rank_member like)
{
    like.deals = true;
    for (int32_t n = 2; n <= 3; n++) {
        like.shares = false;
        ranks_check_same(model, one, like, n);
        like.shares = true;
        ranks_check_same(model, one, like, n);
    }
    like.shares = false;
    like.groups = true;
    ranks_check_same(model, one, like, 2);
}

/* On the best level that this machine has: rows travel as its products take them. */
static void check_best(const char *model, rank_member like)
{
    const char *levels[8];
    int32_t n = whim_cpu_levels(levels, 8);
    rank_member one = {0};
    like.isa = levels[n - 1];
    if (ranks_run(&one, 1, &like)) {
        like.deals = true;
        ranks_check_same(model, &one, like, 2);
        like.groups = true;
        ranks_check_same(model, &one, like, 2);
    } else {
        tally_check(false, model, "%s", like.diag.text);
    }
    ranks_free(&one, 1);
}

bool ranks_has_experts(const char *model)
{
    static const char *const with_experts[] = {"moe", "minimax", "dummy-qwen3_5", "next"};
    bool has = false;
    for (size_t i = 0; i < sizeof with_experts / sizeof with_experts[0]; i++) {
        has = has || strstr(model, with_experts[i]) != NULL;
    }
    return has;
}

static bool is_kind(const char *model)
{
    static const char *const kinds[] = {"llama-f32", "qwen3moe-f32", "minimax-f32", "qwen35-moe"};
    bool is = false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        is = is || strcmp(model, kinds[i]) == 0;
    }
    return is;
}

/* One model of each kind over 2, 3 and 4 ranks, and on the guard with graphs; the others over one
 * of these sizes. */
void ranks_same_test(const char *model, const rank_member *one, rank_member like)
{
    static int32_t n_seen;
    int32_t chosen = 2 + n_seen % 3;
    bool deals = ranks_has_experts(model), real = like.weight_type == NULL;
    like.speaks = false;
    n_seen += real;
    if (is_kind(model)) {
        check_kind(model, like);
    } else if (real) {
        check_other(model, one, like, chosen);
    }
    if (deals && !is_kind(model)) {
        check_other_dealt(model, one, like);
    }
    if (deals && real) {
        check_best(model, like);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that split no sum: those that share the rows of steps, that have sequences of their own, and
 * that have whole experts each. They have the bits of one rank. */
#include "backends/cpu/cpu.h"
#include "golden/ranks.h"
#include "support/tally.h"

#include <stdio.h>
#include <string.h>

static void check_same(const char *model, const rank_member *one, rank_member like, int32_t n_rank)
{
    char name[192];
    rank_member members[RANKS_MAX] = {0};
    snprintf(name, sizeof name, "%s/%s-%s-%s%s%s%d-%s", model, like.backend,
             like.isa != NULL ? like.isa : "best",
             like.span == 2   ? "twos-"
             : like.span == 3 ? "threes-"
                              : "",
             like.shares && like.groups ? "dpcp"
             : like.shares              ? "cp"
             : like.groups              ? "dp"
                                        : "",
             like.deals ? "ep" : "", n_rank, like.graphs ? "graphs" : "eager");
    bool good = ranks_run(members, n_rank, &like);
    size_t bytes = (size_t)one->n_value * sizeof(float);
    int32_t n_same = 0, n_plan = like.uneven ? 1 : RANKS_PLANS;
    for (int32_t i = RANKS_PLANS - n_plan; i < RANKS_PLANS && good; i++) {
        n_same += memcmp(members[0].logits[i], one->logits[0], bytes) == 0;
    }
    tally_check(good && n_same == n_plan, name, "%d of %d plans have the same bits%s", n_same,
                n_plan, like.diag.text);
    ranks_free(members, n_rank);
}

/* The law is slow: it takes the plan that has steps of all sizes. */
static void check_on_guard(const char *model, const rank_member *one, rank_member like,
                           int32_t n_rank)
{
    like.backend = "guard";
    like.isa = NULL;
    like.graphs = true;
    like.uneven = true;
    check_same(model, one, like, n_rank);
}

static bool is_any(const char *model, const char *const *list, size_t n)
{
    bool found = false;
    for (size_t i = 0; i < n; i++) {
        found = found || strcmp(model, list[i]) == 0;
    }
    return found;
}

/* Parts of several ranks, which cut the model and share rows with the other parts: no sum is split
 * that one part alone would not split. */
static void check_parts(const char *model, rank_member like, int32_t deal_span)
{
    rank_member part[3] = {0};
    like.deals = deal_span > 0;
    like.deal_span = deal_span;
    bool odd = strcmp(model, "llama-f32") == 0;
    int32_t span = odd ? 3 : 2; /* its heads are dealt unevenly */
    if (ranks_run(part, span, &like)) {
        like.shares = true;
        like.span = span;
        check_same(model, &part[0], like, 2 * span);
        check_on_guard(model, &part[0], like, 2 * span);
        if (!odd) {
            check_same(model, &part[0], like, 3 * span);
            like.groups = true;
            like.cut = span;
            like.span = 2 * span;
            check_same(model, &part[0], like, 4 * span);
            check_on_guard(model, &part[0], like, 4 * span);
        }
    } else {
        tally_check(false, model, "%s", like.diag.text);
    }
    ranks_free(part, span);
}

/* Groups with sequences of their own, whose ranks share rows. */
static void check_groups_that_share(const char *model, const rank_member *one, rank_member like)
{
    like.shares = like.groups = true;
    like.span = 2;
    check_same(model, one, like, 4);
    check_on_guard(model, one, like, 4);
    like.span = 3;
    check_same(model, one, like, 6);
}

/* One model of each kind over 2, 3 and 4 ranks, and on the guard with graphs; the others, which
 * differ in what no rank can tell, over one of these sizes. */
static void check_whole(const char *model, const rank_member *one, rank_member like)
{
    static const char *const kinds[] = {"llama-f32", "qwen3moe-f32", "minimax-f32", "qwen35-moe"};
    static int32_t n_seen;
    bool of_kind = is_any(model, kinds, sizeof kinds / sizeof kinds[0]);
    if (of_kind) {
        check_parts(model, like, 0);
        check_groups_that_share(model, one, like);
    }
    if (of_kind && ranks_has_experts(model)) {
        check_parts(model, like, 1);
    }
    for (int32_t n = 2; n <= 4; n++) {
        bool chosen = n == 2 + n_seen % 3;
        for (int32_t groups = 0; groups <= 1; groups++) {
            like.groups = groups == 1;
            like.shares = groups == 0;
            if (of_kind || chosen) {
                check_same(model, one, like, n);
            }
            if (of_kind && chosen) {
                check_on_guard(model, one, like, n);
            }
        }
    }
    n_seen++;
}

/* Experts of ranks with sequences of their own. */
static void check_dealt_groups(const char *model, const rank_member *one, rank_member like,
                               bool of_kind)
{
    like.groups = true;
    check_same(model, one, like, 2);
    if (of_kind) {
        check_same(model, one, like, 4);
        check_on_guard(model, one, like, 2);
        check_on_guard(model, one, like, 4);
    }
}

/* Models with experts, over 2 and 3 ranks, alone and with prompts that they share, and over 2 and 4
 * with sequences of their own; families also on the guard with graphs. */
static void check_dealt(const char *model, const rank_member *one, rank_member like)
{
    static const char *const kinds[] = {"qwen3moe-f32", "minimax-f32", "qwen35-moe"};
    bool of_kind = is_any(model, kinds, sizeof kinds / sizeof kinds[0]);
    like.deals = true;
    for (int32_t n = 2; n <= 3; n++) {
        like.shares = false;
        check_same(model, one, like, n);
        if (of_kind) {
            check_on_guard(model, one, like, n);
        }
        like.shares = true;
        check_same(model, one, like, n);
    }
    if (of_kind) {
        check_on_guard(model, one, like, 2);
        check_groups_that_share(model, one, like);
    }
    like.shares = false;
    check_dealt_groups(model, one, like, of_kind);
}

/* Dealt experts on a level of this machine: rows travel as its products take them. */
static void check_dealt_on(const char *model, const char *isa, bool also_alone, rank_member like)
{
    rank_member one = {0};
    like.isa = isa;
    if (ranks_run(&one, 1, &like)) {
        like.deals = true;
        if (also_alone) {
            check_same(model, &one, like, 2);
        }
        like.groups = true;
        check_same(model, &one, like, 2);
    } else {
        tally_check(false, model, "%s", like.diag.text);
    }
    ranks_free(&one, 1);
}

/* On the best level that this machine has, and with dummy weights, which are of all types, on those
 * below it. */
static void check_dealt_on_levels(const char *model, rank_member like)
{
    const char *levels[8];
    int32_t n = whim_cpu_levels(levels, 8);
    for (int32_t i = like.weight_type != NULL ? 0 : n - 1; i < n; i++) {
        check_dealt_on(model, levels[i], i == n - 1, like);
    }
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

void ranks_same_test(const char *model, const rank_member *one, rank_member like)
{
    like.speaks = false;
    if (like.weight_type == NULL) {
        check_whole(model, one, like);
    }
    if (ranks_has_experts(model)) {
        check_dealt(model, one, like);
        check_dealt_on_levels(model, like);
    }
}

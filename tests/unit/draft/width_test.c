/* SPDX-License-Identifier: Apache-2.0 */
/* The policy on cost tables: against a search through all widths, what it never does, how it leaves
 * wrong proposals alone and comes back. */
#include "draft/width.h"
#include "support/cmocka.h"

#include "base/math/rng.h"

#include <stdbool.h>
#include <string.h>

enum { MOST = WHIM_WIDTH_MOST };

/* What steps of the default model cost, in thousandths of one row. */
static void costs_make(whim_step_costs *c)
{
    static const int64_t ns[] = {0, 1000, 1330, 1720, 1810, 2100, 2340, 2600, 2830};
    *c = (whim_step_costs){{0}};
    for (int64_t i = 1; i < 9; i++) {
        whim_step_costs_learn(c, i, ns[i]);
    }
}

static void hits_set(whim_hits *h, double chance)
{
    for (int i = 0; i < MOST; i++) {
        h->chance[i] = chance;
    }
}

static double tokens_of(const whim_width_ask *ask, int64_t width)
{
    double tokens = 1, chance = 1;
    for (int64_t k = 0; k < width; k++) {
        chance *= ask->hits->chance[k];
        tokens += chance;
    }
    return tokens;
}

static void one_request_gets_the_best_width(void **state)
{
    (void)state;
    whim_step_costs costs;
    costs_make(&costs);
    for (int percent = 0; percent <= 100; percent += 5) {
        whim_hits hits;
        hits_set(&hits, percent / 100.0);
        whim_width_ask ask = {&hits, 7};
        int64_t width = -1;
        whim_width_choose(&costs, &ask, 1, 1, 0, &width);
        double got = whim_step_costs_of(&costs, 1 + width) / tokens_of(&ask, width);
        double plain = whim_step_costs_of(&costs, 1);
        assert_true(width == 0 || got * 1.019 < plain);
        for (int64_t w = 1; w <= 7; w++) {
            double other = whim_step_costs_of(&costs, 1 + w) / tokens_of(&ask, w);
            assert_true(got <= other + 1e-9 || plain / other < 1.02 + 1e-9);
        }
        assert_true(percent < 95 || width == 7);
        assert_true(percent > 30 || width == 0);
    }
}

/* What has to be found first, at a price for each, is wanted as far as that pays. */
static void finding_has_its_price(void **state)
{
    (void)state;
    whim_step_costs costs;
    whim_hits hits;
    int64_t before = 8;
    costs_make(&costs);
    hits_set(&hits, 0.8);
    for (int64_t ns = 0; ns <= 700; ns += 50) {
        whim_width_ask ask = {.hits = &hits, .n_found = 7, .each_ns = (double)ns};
        int64_t width = -1, best = 0;
        double least = whim_step_costs_of(&costs, 1) / 1.02;
        for (int64_t w = 1; w <= 7; w++) {
            double cost = whim_step_costs_of(&costs, 1 + w) + (double)(ns * w);
            best = cost / tokens_of(&ask, w) < least ? w : best;
            least = best == w ? cost / tokens_of(&ask, w) : least;
        }
        whim_width_choose(&costs, &ask, 1, 1, 0, &width);
        assert_int_equal(width, best);
        assert_true(width <= before);
        before = width;
    }
    assert_int_equal(before, 0);
}

/* What a step of two groups, of which the second has two rows without proposals, costs a token. */
static double groups_cost(const whim_step_costs *costs, const whim_width_ask *asks, int64_t a,
                          int64_t b)
{
    int64_t rows = 1 + a > 2 + b ? 1 + a : 2 + b;
    return whim_step_costs_of(costs, rows) / (tokens_of(&asks[0], a) + tokens_of(&asks[1], b) + 1);
}

/* Groups take a step side by side: against all pairs of widths, and rows that cost nothing are
 * never left out. */
static void groups_pay_for_the_largest(void **state)
{
    (void)state;
    whim_step_costs costs;
    costs_make(&costs);
    static const whim_width_group groups[] = {{1, 1}, {1, 2}};
    int64_t n_free = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        whim_hits hits[2];
        whim_width_ask asks[2];
        int64_t widths[2];
        for (int i = 0; i < 2; i++) {
            hits_set(&hits[i], (double)(1 + whim_rng_at(seed, (uint64_t)i) % 98) / 99.0);
            asks[i] = (whim_width_ask){&hits[i], 5};
        }
        whim_width_choose_groups(&costs, groups, 2, asks, 0, widths);
        double got = groups_cost(&costs, asks, widths[0], widths[1]);
        double plain = groups_cost(&costs, asks, 0, 0);
        for (int64_t a = 0; a <= 5; a++) {
            for (int64_t b = 0; b <= 5; b++) {
                double other = groups_cost(&costs, asks, a, b);
                assert_true(got <= other + 1e-9 || plain / other < 1.02 + 1e-9);
            }
        }
        n_free += widths[0] == 1 && widths[1] == 0;
    }
    assert_true(n_free > 20);
}

/* Drafts of groups work at the same time: two groups that are alike propose what one alone does. */
static void groups_draft_at_once(void **state)
{
    (void)state;
    whim_step_costs costs;
    costs_make(&costs);
    static const whim_width_group groups[] = {{1, 1}, {1, 1}};
    int64_t sum = 0;
    for (int64_t ns = 0; ns <= 700; ns += 50) {
        whim_hits hits;
        hits_set(&hits, 0.8);
        whim_width_ask one = {.hits = &hits, .n_found = 7, .once_ns = 100, .each_ns = (double)ns};
        whim_width_ask asks[] = {one, one};
        int64_t alone = -1, widths[2];
        whim_width_choose(&costs, &one, 1, 1, 0, &alone);
        whim_width_choose_groups(&costs, groups, 2, asks, 0, widths);
        assert_int_equal(widths[0], alone);
        assert_int_equal(widths[1], alone);
        sum += alone;
    }
    assert_true(sum > 7);
}

/* A group without rows, or without anything to propose, is in no other's way. */
static void empty_groups_change_nothing(void **state)
{
    (void)state;
    whim_step_costs costs;
    costs_make(&costs);
    static const whim_width_group groups[] = {{0, 0}, {1, 1}, {0, 1}};
    for (int percent = 1; percent <= 100; percent += 9) {
        whim_hits hits;
        hits_set(&hits, percent / 100.0);
        whim_width_ask ask = {&hits, 7};
        int64_t alone = -1, beside = -1;
        whim_width_choose(&costs, &ask, 1, 1, 0, &alone);
        whim_width_choose_groups(&costs, groups, 2, &ask, 0, &beside);
        assert_int_equal(beside, alone);
        whim_width_choose_groups(&costs, groups, 3, &ask, 0, &beside);
        assert_true(beside <= alone); /* a token comes anyway, and waits for the others */
    }
}

/* Two requests: against all pairs of widths. */
static void two_requests_share_the_rows(void **state)
{
    (void)state;
    whim_step_costs costs;
    costs_make(&costs);
    for (uint64_t seed = 0; seed < 200; seed++) {
        whim_hits hits[2];
        whim_width_ask asks[2];
        int64_t widths[2];
        for (int i = 0; i < 2; i++) {
            for (int k = 0; k < MOST; k++) {
                hits[i].chance[k] =
                    (double)(whim_rng_at(seed, (uint64_t)(i * MOST + k)) % 100) / 99.0;
            }
            asks[i] = (whim_width_ask){&hits[i], 1 + (int64_t)(whim_rng_at(seed, 99) % 3)};
        }
        whim_width_choose(&costs, asks, 2, 2, 0, widths);
        double got = whim_step_costs_of(&costs, 2 + widths[0] + widths[1]) /
                     (tokens_of(&asks[0], widths[0]) + tokens_of(&asks[1], widths[1]));
        double plain = whim_step_costs_of(&costs, 2) / 2;
        assert_true(widths[0] <= asks[0].n_found && widths[1] <= asks[1].n_found);
        for (int64_t a = 0; a <= asks[0].n_found; a++) {
            for (int64_t b = 0; b <= asks[1].n_found; b++) {
                double other = whim_step_costs_of(&costs, 2 + a + b) /
                               (tokens_of(&asks[0], a) + tokens_of(&asks[1], b));
                assert_true(got <= other + 1e-9 || plain / other < 1.02 + 1e-9);
            }
        }
    }
}

static void nothing_known_is_nothing_proposed(void **state)
{
    (void)state;
    whim_step_costs costs = {{0}};
    whim_hits hits;
    hits_set(&hits, 1);
    int64_t width = -1;
    whim_width_choose(&costs, &(whim_width_ask){&hits, 5}, 1, 1, 0, &width);
    assert_int_equal(width, 0);
    /* One size of step is enough to begin with. */
    whim_step_costs_learn(&costs, 1, 3000000);
    whim_width_choose(&costs, &(whim_width_ask){&hits, 5}, 1, 1, 0, &width);
    assert_true(width > 0);
    /* Rows that cost as much as steps do are never worth it. */
    for (int64_t i = 1; i < 20; i++) {
        whim_step_costs_learn(&costs, i, 3000000 * i);
    }
    whim_width_choose(&costs, &(whim_width_ask){&hits, 15}, 1, 1, 0, &width);
    assert_int_equal(width, 0);
    /* Nor are proposals that take as long as a step. */
    costs_make(&costs);
    whim_width_choose(&costs, &(whim_width_ask){&hits, 5}, 1, 1, 1000, &width);
    assert_int_equal(width, 0);
    /* More rows than are kept apart: nothing. */
    whim_width_choose(&costs, &(whim_width_ask){&hits, 5}, 1, WHIM_WIDTH_COSTS + 9, 0, &width);
    assert_int_equal(width, 0);
}

/* Whoever proposes may be less sure than it was right so far, and never widens a block by it. */
static void doubts_narrow_a_block(void **state)
{
    (void)state;
    whim_step_costs costs;
    whim_hits hits;
    int64_t width = -1;
    float sure[] = {0.9f, 0.95f, 0.02f, 0.99f, 0.99f};
    costs_make(&costs);
    hits_set(&hits, 0.95);
    whim_width_ask ask = {.hits = &hits, .n_found = 5, .sure = sure};
    whim_width_choose(&costs, &ask, 1, 1, 0, &width);
    assert_int_equal(width, 2);
    ask.n_sure = 3; /* tokens that must come are beyond doubt */
    whim_width_choose(&costs, &ask, 1, 1, 0, &width);
    assert_int_equal(width, 5);
    ask = (whim_width_ask){.hits = &hits, .n_found = 5, .sure = sure + 3};
    hits_set(&hits, 0.05);
    ask.n_found = 2;
    whim_width_choose(&costs, &ask, 1, 1, 0, &width);
    assert_int_equal(width, 0);
}

static void wrong_proposals_end_soon_and_are_tried_again(void **state)
{
    (void)state;
    whim_step_costs costs;
    costs_make(&costs);
    whim_hits hits;
    whim_hits_init(&hits, NULL);
    whim_width_ask ask = {&hits, MOST};
    int64_t n_tried = 0, last = -1, width;
    for (int64_t step = 0; step < 200; step++) { /* each is wrong */
        whim_width_choose(&costs, &ask, 1, 1, 0, &width);
        whim_hits_learn(&hits, width, 0);
        n_tried += width > 0;
        last = width > 0 ? step : last;
    }
    assert_true(n_tried > 2 && n_tried < 30);
    assert_true(last > 150);
    int64_t made = 0, spent = 0;
    for (int64_t step = 0; step < 60; step++) { /* now each is right */
        whim_width_choose(&costs, &ask, 1, 1, 0, &width);
        whim_hits_learn(&hits, width, width);
        made += step < 40 ? 0 : 1 + width;
        spent += step < 40 ? 0 : (int64_t)whim_step_costs_of(&costs, 1 + width);
    }
    assert_true(made * 1000 > 2 * spent);
}

/* After proposals that were all right, or none, each is wrong: within 50 tokens hardly any step has
 * proposals, whatever they cost. Counted, because a time would be that of the machine. */
static void adversaries_are_left_alone_within_50_tokens(void **state)
{
    (void)state;
    static const whim_width_ask sources[] = {
        {.n_found = MOST},                /* they cost nothing: lookup */
        {.n_found = 4, .once_ns = 165},   /* a block at once */
        {.n_found = 7, .each_ns = 120.0}, /* one after the other */
    };
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        for (int64_t n_good = 0; n_good <= 200; n_good += 100) {
            whim_step_costs costs;
            whim_hits hits;
            whim_width_ask ask = sources[i];
            int64_t width, n_early = 0, n_later = 0;
            costs_make(&costs);
            whim_hits_init(&hits, NULL);
            ask.hits = &hits;
            for (int64_t step = 0; step < n_good; step++) {
                whim_width_choose(&costs, &ask, 1, 1, 0, &width);
                whim_hits_learn(&hits, width, width);
            }
            for (int64_t token = 0; token < 150; token++) { /* each step brings one */
                whim_width_choose(&costs, &ask, 1, 1, 0, &width);
                whim_hits_learn(&hits, width, 0);
                n_early += token < 50 && width > 0;
                n_later += token >= 50 && width > 0;
            }
            assert_in_range(n_early, 1, 25);
            assert_in_range(n_later, 1, 6); /* of 100: it is tried again now and then */
        }
    }
}

static void costs_between_those_seen(void **state)
{
    (void)state;
    whim_step_costs c = {{0}};
    assert_true(whim_step_costs_of(&c, 1) == 0 && whim_step_costs_of(&c, 500) == 0);
    whim_step_costs_learn(&c, 0, 5);
    whim_step_costs_learn(&c, WHIM_WIDTH_COSTS + 1, 5);
    assert_true(whim_step_costs_of(&c, 1) == 0);
    whim_step_costs_learn(&c, 2, 1330);
    assert_true(whim_step_costs_of(&c, 2) == 1330);
    assert_true(whim_step_costs_of(&c, 1) > 999 && whim_step_costs_of(&c, 1) < 1001);
    whim_step_costs_learn(&c, 6, 2340);
    whim_step_costs_learn(&c, WHIM_WIDTH_COSTS, 30000); /* the largest that is kept apart */
    for (int64_t n = 1; n < WHIM_WIDTH_COSTS + 20; n++) {
        assert_true(whim_step_costs_of(&c, n) < whim_step_costs_of(&c, n + 1) + 1e-9);
    }
}

/* A busy machine is slower for all steps: what pays on a quiet one pays there, and no more. */
static void load_makes_no_row_cheap(void **state)
{
    (void)state;
    whim_step_costs c;
    costs_make(&c);
    double quiet = whim_step_costs_of(&c, 2) / whim_step_costs_of(&c, 1);
    for (int64_t step = 0; step < 300;
         step++) { /* only plain steps are seen, now at half the speed */
        whim_step_costs_learn(&c, 1, 2000);
    }
    double busy = whim_step_costs_of(&c, 2) / whim_step_costs_of(&c, 1);
    assert_true(busy > 0.8 * quiet && busy < 1.2 * quiet);
    costs_make(&c);
    for (int64_t step = 0; step < 300; step++) { /* one in ten was interrupted for long */
        whim_step_costs_learn(&c, 1, step % 10 == 0 ? 50000 : 1000);
    }
    busy = whim_step_costs_of(&c, 2) / whim_step_costs_of(&c, 1);
    assert_true(busy > 0.9 * quiet && busy < 1.1 * quiet);
    assert_true(whim_step_costs_of(&c, 1) < 1200);
}

/* A size that was seen while the machine was slow does not stay dearer than a larger one: the step
 * without proposals would, if it is not seen again because proposals look cheap. */
static void fewer_rows_cost_no_more(void **state)
{
    (void)state;
    whim_step_costs c;
    costs_make(&c);
    for (int64_t step = 0; step < 100; step++) {
        whim_step_costs_learn(&c, 1, 2000);
    }
    for (int64_t step = 0; step < 20; step++) {
        whim_step_costs_learn(&c, 2, 1330);
    }
    assert_true(whim_step_costs_of(&c, 1) < 0.9 * whim_step_costs_of(&c, 2));
    for (int64_t step = 0; step < 100; step++) {
        whim_step_costs_learn(&c, 2, 4000);
    }
    for (int64_t n = 1; n < 8; n++) {
        assert_true(whim_step_costs_of(&c, n) <= whim_step_costs_of(&c, n + 1));
    }
}

/* One step of a size that took ten times as long by chance does not end proposals for good; a size
 * that is dear indeed is soon known to be. */
static void chance_is_forgiven(void **state)
{
    (void)state;
    whim_step_costs c;
    whim_hits hits;
    int64_t width;
    hits_set(&hits, 0.97);
    for (int64_t n = 2; n < 9; n++) { /* of a size that was known, and of one that was not */
        for (int known = 0; known < 2; known++) {
            c = (whim_step_costs){.n_step = 0};
            if (known) {
                costs_make(&c);
            }
            for (int64_t step = 0; step < 100; step++) {
                whim_step_costs_learn(&c, 1, 1000);
            }
            whim_step_costs_learn(&c, n, 28300);
            for (int64_t step = 0; step < 50; step++) {
                whim_step_costs_learn(&c, 1, 1000);
            }
            whim_width_choose(&c, &(whim_width_ask){&hits, 15}, 1, 1, 0, &width);
            assert_true(width > 0);
        }
    }
    for (int64_t step = 0; step < 600; step++) {
        whim_step_costs_learn(&c, 1, 1000);
    }
    assert_true(whim_step_costs_of(&c, 8) < 1.2 * 2830);
    for (int64_t step = 0; step < 200; step++) {
        whim_step_costs_learn(&c, step % 50 == 0 ? 8 : 1, step % 50 == 0 ? 8000 : 1000);
    }
    assert_true(whim_step_costs_of(&c, 8) > 6000);
}

/* Tokens a time against those without proposals, where a proposal is right so often: a text of 300
 * tokens, many times, with a draft that takes 165 thousandths of a step. Texts may begin with what
 * was seen of those before. */
static double speed_at(int percent, int64_t n_token, bool from_others)
{
    double spent = 0, made = 0;
    uint64_t draws = 0;
    whim_step_costs costs;
    whim_hits all;
    costs_make(&costs);
    whim_hits_init(&all, NULL);
    for (int text = 0; text < 100; text++) {
        whim_hits hits;
        whim_hits_init(&hits, from_others ? &all : NULL);
        whim_width_ask ask = {.hits = &hits, .n_found = 5, .once_ns = 165};
        for (int64_t n = 0, width, right; n < n_token; n += 1 + right, made += 1 + (double)right) {
            whim_width_choose(&costs, &ask, 1, 1, 0, &width);
            for (right = 0; right < width; right++) {
                if ((int)(whim_rng_at(7, draws++) % 100) >= percent) {
                    break;
                }
            }
            spent += whim_step_costs_of(&costs, 1 + width) + (width > 0 ? 165 : 0);
            whim_hits_learn(&hits, width, right);
            whim_hits_learn(&all, width, right);
        }
    }
    return made * whim_step_costs_of(&costs, 1) / spent;
}

static void a_draft_costs_little_and_gains_much(void **state)
{
    (void)state;
    static const struct {
        int percent;
        double least;
    } cases[] = {{0, 0.988}, {20, 0.988}, {40, 0.988}, {50, 0.99}, {60, 1.02},
                 {70, 1.15}, {80, 1.4},   {90, 1.8},   {100, 2.3}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(speed_at(cases[i].percent, 300, false) > cases[i].least);
    }
}

/* Short texts lose less, and gain more, where those before them were alike. */
static void what_others_saw_begins_a_text(void **state)
{
    (void)state;
    for (int percent = 0; percent <= 30; percent += 10) {
        assert_true(speed_at(percent, 100, true) > 0.99);
        assert_true(speed_at(percent, 100, true) > speed_at(percent, 100, false) + 0.005);
    }
    assert_true(speed_at(85, 100, true) > speed_at(85, 100, false));
}

/* But what was bad for others does not keep a text from being tried, however short it is. */
static void bad_times_end(void **state)
{
    (void)state;
    enum { TEXT = 60, BAD = 50 };
    whim_step_costs costs;
    whim_hits all, hits;
    int64_t n_step = 0, n_waited = 0, width;
    costs_make(&costs);
    whim_hits_init(&all, NULL);
    for (int text = 0; text < BAD + 8; text++) {
        whim_hits_init(&hits, &all);
        whim_width_ask ask = {.hits = &hits, .n_found = 5, .once_ns = 165};
        for (int64_t n = 0; n < TEXT; n += text < BAD ? 1 : 1 + width) {
            whim_width_choose(&costs, &ask, 1, 1, 0, &width);
            whim_hits_learn(&hits, width, text < BAD ? 0 : width);
            whim_hits_learn(&all, width, text < BAD ? 0 : width);
            n_waited += text >= BAD && n_step == 0 && width == 0;
            n_step += text >= BAD && width > 0;
        }
    }
    assert_true(n_waited < 200 && n_step > 30);
}

/* What is measured of one number of rows is learnt, whatever was thought of it. */
static void shapes_are_learnt(void **state)
{
    (void)state;
    whim_step_costs c;
    costs_make(&c);
    for (int64_t step = 0; step < 400; step++) {
        whim_step_costs_learn(&c, 1, 1000);
        whim_step_costs_learn(&c, 4, 3000);
    }
    assert_true(whim_step_costs_of(&c, 1) > 900 && whim_step_costs_of(&c, 1) < 1100);
    assert_true(whim_step_costs_of(&c, 4) > 2700 && whim_step_costs_of(&c, 4) < 3300);
}

/* Tokens a time against those without proposals, and when steps with them are found to pay, where
 * all proposals are right and steps of some sizes take `late` times as long as they do. */
typedef struct trial {
    int64_t n_late; /* so many of the first steps with proposals */
    int64_t every;  /* and every so many of all steps; 0: none */
    double late;
    double slope;  /* a row more costs this share of a step; 0: as the default model */
    double speed;  /* out */
    int64_t found; /* out: tokens before the first 8 steps in a row with proposals; -1: never */
} trial;

static double true_cost(const trial *t, int64_t n_row)
{
    static const double usual[] = {0, 1.0, 1.33, 1.72, 1.81, 2.1, 2.34, 2.6, 2.83};
    double plain = n_row < 9 ? usual[n_row] : 2.83 + 0.23 * (double)(n_row - 8);
    return 1000 * (t->slope > 0 ? 1 + t->slope * (double)(n_row - 1) : plain);
}

static void trial_run(trial *t, int64_t n_token)
{
    whim_step_costs costs = {{0}};
    whim_hits hits;
    double spent = 0;
    int64_t n_block = 0, in_row = 0, begun = 0, made = 0;
    whim_hits_init(&hits, NULL);
    t->found = -1;
    for (int64_t step = 0, width; made < n_token; step++, made += 1 + width) {
        whim_width_choose(&costs, &(whim_width_ask){&hits, 7}, 1, 1, 0, &width);
        double took = true_cost(t, 1 + width);
        bool is_late = (width > 0 && n_block < t->n_late) ||
                       (t->every > 0 && whim_rng_at(3, (uint64_t)step) % t->every == 0);
        n_block += width > 0;
        spent += took; /* what makes a step late is not the policy's doing */
        whim_step_costs_learn(&costs, 1 + width, (int64_t)(is_late ? took * t->late : took));
        whim_hits_learn(&hits, width, width);
        in_row = width > 0 ? in_row + 1 : 0;
        begun = in_row == 1 ? made : begun;
        t->found = t->found < 0 && in_row == 8 ? begun : t->found;
    }
    t->speed = (double)made * 1000 / spent;
}

static void late_steps_are_forgiven_within_50_tokens(void **state)
{
    (void)state;
    for (int64_t n_late = 0; n_late <= 2; n_late++) {
        for (double late = 1.5; late < 100; late *= 2) {
            trial t = {.n_late = n_late, .late = late};
            trial_run(&t, 400);
            assert_in_range(t.found, 1, 50);
            assert_true(t.speed > 1.9);
        }
    }
    trial now_and_then = {.every = 12, .late = 20};
    trial_run(&now_and_then, 2000);
    assert_true(now_and_then.speed > 1.9);
}

/* Where rows cost as much as steps, or more, that is found out for little. */
static void dear_rows_are_tried_seldom(void **state)
{
    (void)state;
    static const double slopes[] = {1.0, 1.1, 1.3, 2.0};
    for (size_t i = 0; i < sizeof slopes / sizeof slopes[0]; i++) {
        trial t = {.slope = slopes[i]};
        trial_run(&t, 2000);
        assert_int_equal(t.found, -1);
        assert_true(t.speed > 0.985);
    }
}

/* A step that was interrupted says nothing of larger ones that were seen lately. */
static void a_late_step_moves_no_larger_one(void **state)
{
    (void)state;
    whim_step_costs c;
    costs_make(&c);
    for (int64_t step = 0; step < 40; step++) {
        whim_step_costs_learn(&c, step % 2 == 0 ? 1 : 4, step % 2 == 0 ? 1000 : 1810);
    }
    double four = whim_step_costs_of(&c, 4);
    whim_step_costs_learn(&c, 2, 90000);
    assert_true(whim_step_costs_of(&c, 4) == four && whim_step_costs_of(&c, 2) <= four);
}

/* What a draft's pass cost once, and it was not asked again. */
static void a_late_pass_is_doubted(void **state)
{
    (void)state;
    whim_step_costs c = {{0}};
    whim_step_costs_learn(&c, 5, 30000);
    for (int64_t step = 0; step < 50; step++) {
        whim_step_costs_doubt(&c, 300);
    }
    assert_true(whim_step_costs_of(&c, 5) < 800);
    for (int64_t n = 0; n < 20; n++) { /* it is dear indeed: asked less and less */
        int64_t waited = 0;
        for (; whim_step_costs_of(&c, 5) > 400 && waited < 5000; waited++) {
            whim_step_costs_doubt(&c, 300);
        }
        whim_step_costs_learn(&c, 5, 900);
        assert_true(n < 8 || waited > 200);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_request_gets_the_best_width),
        cmocka_unit_test(finding_has_its_price),
        cmocka_unit_test(load_makes_no_row_cheap),
        cmocka_unit_test(chance_is_forgiven),
        cmocka_unit_test(fewer_rows_cost_no_more),
        cmocka_unit_test(a_draft_costs_little_and_gains_much),
        cmocka_unit_test(what_others_saw_begins_a_text),
        cmocka_unit_test(bad_times_end),
        cmocka_unit_test(shapes_are_learnt),
        cmocka_unit_test(late_steps_are_forgiven_within_50_tokens),
        cmocka_unit_test(dear_rows_are_tried_seldom),
        cmocka_unit_test(a_late_step_moves_no_larger_one),
        cmocka_unit_test(a_late_pass_is_doubted),
        cmocka_unit_test(two_requests_share_the_rows),
        cmocka_unit_test(groups_pay_for_the_largest),
        cmocka_unit_test(groups_draft_at_once),
        cmocka_unit_test(empty_groups_change_nothing),
        cmocka_unit_test(nothing_known_is_nothing_proposed),
        cmocka_unit_test(doubts_narrow_a_block),
        cmocka_unit_test(wrong_proposals_end_soon_and_are_tried_again),
        cmocka_unit_test(adversaries_are_left_alone_within_50_tokens),
        cmocka_unit_test(costs_between_those_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

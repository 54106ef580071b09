/* SPDX-License-Identifier: Apache-2.0 */
/* The rounds of comm/shared.h in every order that three ranks can take, on one host and on two, to
 * which bridges (comm/bridge.h) carry what the others tell: nobody ever reads a piece that was
 * written over. Fewer pieces in turn would not do, and the walk must see that. */
#include "comm/shared.h"
#include "support/cmocka.h"

#include <string.h>

/* What a rank does, one step at a time: for each round it reads the pieces of its peers or the sums
 * in them, adds up what they gave (its slice of it: the sum lies in its own piece, and is told with
 * the round), gives its piece, tells, and waits. */
typedef enum step { READ, TAKE, ADD, GIVE, TELL, WAIT, STEPS } step;

/* For each round: whether a piece is given in it, how many rounds ago those were given that it
 * reads, and of which it takes or makes sums (0: none), and how many rounds before the one that it
 * told it waits for. As in reduce.c. */
typedef struct round_rule {
    bool gives;
    int32_t reads, takes, adds, waits;
} round_rule;

enum { RANKS = 3, HOSTS = 2, MAX_TURNS = 6, NOTHING = 0xff, TABLE = 1 << 22 };

typedef struct world {
    uint8_t round[RANKS], at[RANKS];        /* where each rank is */
    uint8_t told[HOSTS][RANKS];             /* as each host's memory has it */
    uint8_t given[HOSTS][RANKS][MAX_TURNS]; /* the round whose values are in a piece */
    uint8_t sums[HOSTS][RANKS][MAX_TURNS];
} world;

static const round_rule *rules;
static int32_t n_round, n_turn, n_host;
static uint64_t seen[TABLE];
static int64_t n_world;
static bool clash;

static bool is_new(const world *w)
{
    uint64_t hash = 14695981039346656037u;
    const unsigned char *bytes = (const unsigned char *)w;
    for (size_t i = 0; i < sizeof *w; i++) {
        hash = (hash ^ bytes[i]) * 1099511628211u;
    }
    hash |= 1;
    for (uint64_t i = hash >> 20;; i++) {
        uint64_t *slot = &seen[i % TABLE];
        if (*slot == hash) {
            return false;
        }
        if (*slot == 0) {
            *slot = hash;
            assert_true(++n_world < TABLE / 2);
            return true;
        }
    }
}

/* The last rank is alone on the other host, if there is one. */
static int32_t home_of(int32_t r)
{
    return n_host > 1 && r == RANKS - 1 ? 1 : 0;
}

/* What a rank told last and is not on the other host yet goes there, as late as that may be: its
 * piece is read when it is written there. false: there is nothing. */
static bool carry(world *w, int32_t r)
{
    int32_t home = home_of(r), away = 1 - home;
    uint8_t round = w->told[away][r];
    if (n_host == 1 || w->told[home][r] == round) {
        return false;
    }
    uint8_t summed = (uint8_t)(round - rules[round].adds);
    if (rules[round].gives) {
        clash = clash || w->given[home][r][round % n_turn] != round;
        w->given[away][r][round % n_turn] = w->given[home][r][round % n_turn];
    }
    if (rules[round].adds > 0) {
        clash = clash || w->sums[home][r][summed % n_turn] != summed;
        w->sums[away][r][summed % n_turn] = w->sums[home][r][summed % n_turn];
    }
    w->told[away][r]++;
    return true;
}

/* Every rank's piece of a round is looked at. */
static void look(uint8_t pieces[RANKS][MAX_TURNS], int32_t round)
{
    for (int32_t p = 0; p < RANKS; p++) {
        clash = clash || pieces[p][round % n_turn] != round;
    }
}

/* Who gives writes over what was given and summed there. */
static void give(world *w, int32_t r, uint8_t round)
{
    w->given[home_of(r)][r][round % n_turn] = round;
    w->sums[home_of(r)][r][round % n_turn] = NOTHING;
}

static bool all_told(const world *w, int32_t home, int32_t round)
{
    for (int32_t p = 0; p < RANKS; p++) {
        if (w->told[home][p] <= round) {
            return false;
        }
    }
    return true;
}

/* One step of a rank; false: it waits, or has ended. */
static bool advance(world *w, int32_t r)
{
    int32_t home = home_of(r);
    uint8_t round = w->round[r];
    if (round == n_round) {
        return false;
    }
    const round_rule *rule = &rules[round];
    switch ((step)w->at[r]) {
    case READ:
        if (rule->reads > 0) {
            look(w->given[home], round - rule->reads);
        }
        break;
    case TAKE:
        if (rule->takes > 0) {
            look(w->sums[home], round - rule->takes);
        }
        break;
    case ADD:
        if (rule->adds > 0) {
            look(w->given[home], round - rule->adds);
            w->sums[home][r][(round - rule->adds) % n_turn] = (uint8_t)(round - rule->adds);
        }
        break;
    case GIVE:
        if (rule->gives) {
            give(w, r, round);
        }
        break;
    case TELL:
        w->told[home][r] = (uint8_t)(round + 1);
        break;
    default:
        if (!all_told(w, home, round - rule->waits)) {
            return false;
        }
        w->round[r]++;
    }
    w->at[r] = (uint8_t)((w->at[r] + 1) % STEPS);
    return true;
}

static void walk(const world *w)
{
    if (clash || !is_new(w)) {
        return;
    }
    bool moved = false, ended = true;
    for (int32_t r = 0; r < RANKS; r++) {
        world next = *w;
        if (advance(&next, r)) {
            moved = true;
            walk(&next);
        }
        next = *w;
        if (carry(&next, r)) {
            moved = true;
            walk(&next);
        }
        ended = ended && w->round[r] == n_round;
    }
    assert_true(moved || ended || clash); /* nobody waits for ever */
}

static bool clashes_on(int32_t hosts, const round_rule *some, int32_t n, int32_t turns)
{
    world w;
    memset(&w, 0, sizeof w);
    memset(w.given, NOTHING, sizeof w.given);
    memset(w.sums, NOTHING, sizeof w.sums);
    memset(seen, 0, sizeof seen);
    rules = some;
    n_round = n;
    n_turn = turns;
    n_host = hosts;
    n_world = 0;
    clash = false;
    walk(&w);
    return clash;
}

/* Sums that each makes for itself; of one piece, of two, and of more, with waits for the round
 * before the one that was told, and something direct behind them. */
static const round_rule direct[] = {{.gives = true},
                                    {.gives = true, .reads = 1},
                                    {.gives = true, .reads = 1},
                                    {.gives = true, .reads = 1},
                                    {.reads = 1}};
static const round_rule one_piece[] = {
    {.gives = true}, {.adds = 1}, {.gives = true, .takes = 2}, {.adds = 1}, {.takes = 2}};
static const round_rule two_pieces[] = {{.gives = true},
                                        {.gives = true, .adds = 1},
                                        {.adds = 1, .takes = 2},
                                        {.gives = true, .takes = 2},
                                        {.gives = true, .adds = 1},
                                        {.adds = 1, .takes = 2}};
static const round_rule many_pieces[] = {{.gives = true, .waits = 0},
                                         {.gives = true, .waits = 1},
                                         {.gives = true, .waits = 1, .adds = 2},
                                         {.gives = true, .waits = 1, .adds = 2},
                                         {.gives = true, .waits = 1, .adds = 2, .takes = 4},
                                         {.gives = true, .waits = 1, .adds = 2, .takes = 4},
                                         {.gives = true, .waits = 1, .adds = 2, .takes = 4},
                                         {.waits = 1, .adds = 2, .takes = 4},
                                         {.adds = 2, .takes = 4},
                                         {.gives = true, .takes = 4},
                                         {.gives = true, .reads = 1},
                                         {.reads = 1}};
#define RULES(of) (of), (int32_t)(sizeof(of) / sizeof(of)[0])

static void no_order_clashes(void **state)
{
    (void)state;
    for (int32_t hosts = 1; hosts <= HOSTS; hosts++) {
        assert_false(clashes_on(hosts, RULES(direct), WHIM_COMM_TURNS));
        assert_false(clashes_on(hosts, RULES(one_piece), WHIM_COMM_TURNS));
        assert_false(clashes_on(hosts, RULES(two_pieces), WHIM_COMM_TURNS));
        assert_false(clashes_on(hosts, RULES(many_pieces), WHIM_COMM_TURNS));
        assert_true(n_world > 1000);
    }
}

static void fewer_pieces_would(void **state)
{
    (void)state;
    for (int32_t hosts = 1; hosts <= HOSTS; hosts++) {
        assert_true(clashes_on(hosts, RULES(direct), 1));
        assert_false(clashes_on(hosts, RULES(direct), 2));
        assert_true(clashes_on(hosts, RULES(two_pieces), 2));
        assert_false(clashes_on(hosts, RULES(two_pieces), 3));
        assert_true(clashes_on(hosts, RULES(many_pieces), WHIM_COMM_TURNS - 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_order_clashes),
        cmocka_unit_test(fewer_pieces_would),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

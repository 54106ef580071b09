/* SPDX-License-Identifier: Apache-2.0 */
/* The rounds of comm/shared.h in every order that three ranks can take, on one host and on two, to
 * which bridges (comm/bridge.h) carry what the others tell: nobody ever reads a piece that was
 * written over. Two pieces in turn would not do, and the walk must see that. */
#include "comm/shared.h"
#include "support/cmocka.h"

#include <string.h>

/* What a rank does, one step at a time: for each round it writes its piece (or leaves it), tells,
 * waits, and reads its peers' pieces of this round or of the one before. */
typedef enum step { WRITE, TELL, WAIT, READ, STEPS } step;

/* For each round: whether pieces are written in it, and how many rounds back is read. As in
 * reduce.c: direct sums read the round itself; long ones are rounds that are written and read, of
 * which each reads the piece before, too, and one that is told only and reads the last again. */
typedef struct round_rule {
    bool writes;
    int32_t back;
} round_rule;

enum { RANKS = 3, HOSTS = 2, MAX_ROUND = 8, MAX_TURNS = 3, TABLE = 1 << 22 };

typedef struct world {
    uint8_t round[RANKS], at[RANKS], peer[RANKS]; /* where each rank is */
    uint8_t told[HOSTS][RANKS];                   /* as each host's memory has it */
    uint8_t written[HOSTS][RANKS][MAX_TURNS];     /* the round whose value is in a piece */
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

/* The round whose piece is read in `round`. */
static uint8_t source_of(int32_t round)
{
    return (uint8_t)(round - rules[round].back);
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
    if (rules[round].writes) {
        clash = clash || w->written[home][r][round % n_turn] != round;
        w->written[away][r][round % n_turn] = w->written[home][r][round % n_turn];
    }
    w->told[away][r]++;
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
    switch ((step)w->at[r]) {
    case WRITE:
        if (rules[round].writes) {
            w->written[home][r][round % n_turn] = round;
        }
        w->at[r] = TELL;
        return true;
    case TELL:
        w->told[home][r] = (uint8_t)(round + 1);
        w->at[r] = WAIT;
        return true;
    case WAIT:
        for (int32_t p = 0; p < RANKS; p++) {
            if (w->told[home][p] <= round) {
                return false;
            }
        }
        w->at[r] = READ;
        return true;
    default: /* one peer at a time */
        if (w->peer[r] < RANKS) {
            uint8_t from = source_of(round);
            clash = clash || w->written[home][w->peer[r]][from % n_turn] != from;
            w->peer[r]++;
            return true;
        }
        w->peer[r] = 0;
        w->at[r] = WRITE;
        w->round[r]++;
        return true;
    }
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
    memset(w.written, 0xff, sizeof w.written);
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

static bool clashes(const round_rule *some, int32_t n, int32_t turns)
{
    return clashes_on(1, some, n, turns);
}

static const round_rule direct[] = {{true, 0}, {true, 0}, {true, 0}, {true, 0}, {true, 0}};
static const round_rule one_piece[] = {{true, 0}, {false, 1}, {true, 0}, {false, 1}, {true, 0}};
static const round_rule pieces[] = {{true, 0}, {true, 1}, {true, 1}, {false, 1}, {true, 0}};
static const round_rule mixed[] = {{true, 0}, {true, 0}, {false, 1},
                                   {true, 0}, {true, 0}, {false, 1}};

static void no_order_clashes(void **state)
{
    (void)state;
    assert_false(clashes(direct, 5, WHIM_COMM_TURNS));
    assert_true(n_world > 1000);
    assert_false(clashes(one_piece, 5, WHIM_COMM_TURNS));
    assert_false(clashes(pieces, 5, WHIM_COMM_TURNS));
    assert_false(clashes(mixed, 6, WHIM_COMM_TURNS));
}

static void no_order_on_two_hosts_clashes(void **state)
{
    (void)state;
    assert_false(clashes_on(2, direct, 5, WHIM_COMM_TURNS));
    assert_false(clashes_on(2, one_piece, 5, WHIM_COMM_TURNS));
    assert_false(clashes_on(2, pieces, 5, WHIM_COMM_TURNS));
    assert_false(clashes_on(2, mixed, 6, WHIM_COMM_TURNS));
    assert_true(clashes_on(2, direct, 5, 1));
    assert_true(clashes_on(2, pieces, 5, 2));
}

static void fewer_pieces_would(void **state)
{
    (void)state;
    assert_true(clashes(direct, 5, 1));
    assert_false(clashes(direct, 5, 2));
    assert_true(clashes(one_piece, 5, 2));
    assert_true(clashes(pieces, 5, 2));
    assert_true(clashes(mixed, 6, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_order_clashes),
        cmocka_unit_test(no_order_on_two_hosts_clashes),
        cmocka_unit_test(fewer_pieces_would),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Comms of some ranks, in between calls of all: against plain loops, bit for bit, with blocks that
 * have messages of other sizes; and what is told where a rank of a block goes by. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "comm/shared.h"
#include "support/cmocka.h"

#include <string.h>

enum { MAX_RANKS = 12, WAIT_S = 60, MOST = 80000 };

typedef struct rank_ctx {
    whim_comm all;
    whim_comm_cuts cuts;
    int32_t span, reach;
    void (*fn)(struct rank_ctx *rank);
    float *x; /* [MOST] */
    whim_err err;
    whim_thread thread;
} rank_ctx;

static void rank_run(void *ctx)
{
    rank_ctx *rank = ctx;
    rank->fn(rank);
}

static void ranks_run(rank_ctx *ranks, int32_t n_rank, int32_t span, int32_t reach, int64_t wait_ns,
                      void (*fn)(rank_ctx *rank))
{
    whim_comm_memory memory;
    whim_diag diag = {""};
    assert_int_equal(whim_comm_memory_make(n_rank, &memory, &diag), WHIM_ERR_OK);
    for (int32_t r = 0; r < n_rank; r++) {
        ranks[r] = (rank_ctx){.span = span, .reach = reach, .fn = fn};
        ranks[r].x = whim_alloc_array(MOST, sizeof(float));
        assert_non_null(ranks[r].x);
        whim_comm_open(&ranks[r].all, &memory,
                       &(whim_comm_cfg){.rank = r, .wait_ns = wait_ns, .crowded = true});
        whim_comm_split(&ranks[r].all, span, reach, &ranks[r].cuts);
    }
    for (int32_t r = 0; r < n_rank; r++) {
        assert_int_equal(whim_thread_create(&ranks[r].thread, "rank", rank_run, &ranks[r], &diag),
                         WHIM_ERR_OK);
    }
    for (int32_t r = 0; r < n_rank; r++) {
        whim_thread_join(&ranks[r].thread);
        whim_free(ranks[r].x);
    }
    whim_comm_memory_close(&memory);
}

/* Sums of these depend on their order. */
static float value(int32_t rank, int64_t i)
{
    static const float big[] = {1e8f, -1e8f, 3.25f, -0.0f, 1.0f / 3};
    return big[(rank + i) % 5] + (float)((rank * 31 + i * 7) % 101) / 7;
}

/* A sum over ranks first, first + stride .. */
static whim_err sum_check(rank_ctx *rank, whim_comm *comm, int32_t first, int32_t stride, int64_t n,
                          const char *site)
{
    for (int64_t i = 0; i < n; i++) {
        rank->x[i] = value(rank->all.rank, i);
    }
    WHIM_TRY(whim_comm_all_reduce(comm, NULL, rank->x, n, site));
    for (int64_t i = 0; i < n; i++) {
        float sum = value(first, i);
        for (int32_t r = 1; r < comm->n_rank; r++) {
            sum += value(first + r * stride, i);
        }
        if (memcmp(&sum, &rank->x[i], sizeof sum) != 0) {
            return whim_fail(&rank->all.diag, WHIM_ERR_CORRUPT, "%s: element %lld of %lld is wrong",
                             site, (long long)i, (long long)n);
        }
    }
    return WHIM_ERR_OK;
}

/* Each rank of a comm tells its number among all. */
static whim_err gather_check(rank_ctx *rank, whim_comm *comm, int32_t first, int32_t stride)
{
    int64_t bytes[MAX_RANKS];
    int32_t told[MAX_RANKS], own = rank->all.rank;
    for (int32_t r = 0; r < comm->n_rank; r++) {
        bytes[r] = sizeof own;
    }
    WHIM_TRY(whim_comm_all_gather(comm, &own, bytes, told, "numbers"));
    for (int32_t r = 0; r < comm->n_rank; r++) {
        if (told[r] != first + r * stride) {
            return whim_fail(&rank->all.diag, WHIM_ERR_CORRUPT, "rank %d is said to be %d", r,
                             told[r]);
        }
    }
    return WHIM_ERR_OK;
}

static whim_err mix(rank_ctx *rank)
{
    static const int64_t sizes[] = {0, 1, 17, 2048, 2049, 40000};
    int32_t span = rank->span, block = rank->all.rank / span, place = rank->all.rank % span;
    int32_t alike = span * rank->reach, group = rank->all.rank / alike;
    int32_t beside = group * alike + place, across = rank->all.rank % alike;
    for (int32_t i = 0; i < 60; i++) {
        int64_t n = sizes[(i + group) % 6] * (1 + group % 2); /* groups need not agree */
        WHIM_TRY(sum_check(rank, &rank->cuts.block, block * span, 1, n, "block"));
        if (i % 3 == 0) {
            WHIM_TRY(sum_check(rank, &rank->all, 0, 1, sizes[i % 6], "all"));
        }
        if (i % 4 == 1) {
            int64_t m = sizes[(i + across) % 6];
            WHIM_TRY(sum_check(rank, &rank->cuts.across, across, alike, m, "across"));
        }
        if (i % 5 == 2) {
            int64_t m = sizes[(i + place + group) % 6];
            WHIM_TRY(sum_check(rank, &rank->cuts.beside, beside, span, m, "beside"));
        }
        WHIM_TRY(gather_check(rank, &rank->cuts.block, block * span, 1));
        WHIM_TRY(gather_check(rank, &rank->cuts.beside, beside, span));
        WHIM_TRY(gather_check(rank, &rank->cuts.across, across, alike));
    }
    return WHIM_ERR_OK;
}

static void mix_all(rank_ctx *rank)
{
    rank->err = mix(rank);
}

static void each_set_sums_its_own_ranks(void **state)
{
    (void)state;
    static const int32_t shapes[][3] = {{4, 2, 1}, {6, 3, 1}, {6, 2, 1}, {3, 1, 1},  {3, 3, 1},
                                        {4, 2, 2}, {6, 1, 3}, {8, 2, 2}, {12, 2, 3}, {12, 3, 2}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        rank_ctx ranks[MAX_RANKS];
        int32_t n = shapes[s][0];
        ranks_run(ranks, n, shapes[s][1], shapes[s][2], WAIT_S * WHIM_NS_PER_S, mix_all);
        for (int32_t r = 0; r < n; r++) {
            if (ranks[r].err != WHIM_ERR_OK) {
                fail_msg("rank %d of %d: %s", r, n, ranks[r].all.diag.text);
            }
        }
    }
}

static void count_some(rank_ctx *rank)
{
    rank->err = whim_comm_all_reduce(&rank->cuts.block, NULL, rank->x, 100, "block");
    if (rank->err == WHIM_ERR_OK) {
        rank->err = whim_comm_all_reduce(&rank->cuts.across, NULL, rank->x, 10, "across");
    }
    if (rank->err == WHIM_ERR_OK) {
        rank->err = whim_comm_all_reduce(&rank->all, NULL, rank->x, 1, "all");
    }
}

static void the_comm_of_all_counts_for_its_parts(void **state)
{
    (void)state;
    rank_ctx ranks[MAX_RANKS];
    ranks_run(ranks, 4, 2, 1, WAIT_S * WHIM_NS_PER_S, count_some);
    for (int32_t r = 0; r < 4; r++) {
        assert_int_equal(ranks[r].err, WHIM_ERR_OK);
        assert_int_equal(ranks[r].all.n_byte, 111 * sizeof(float));
    }
}

/* Rank 3 of 4 goes by what its block calls. */
static void leave_out(rank_ctx *rank)
{
    if (rank->all.rank != 3) {
        rank->err = whim_comm_all_reduce(&rank->cuts.block, NULL, rank->x, 5, "mixer");
    }
    if (rank->err == WHIM_ERR_OK) {
        rank->err = whim_comm_all_reduce(&rank->all, NULL, rank->x, 7, "outputs of groups");
    }
}

/* The same the other way round. */
static void leave_out_of_all(rank_ctx *rank)
{
    if (rank->all.rank != 3) {
        rank->err = whim_comm_all_reduce(&rank->all, NULL, rank->x, 5, "mixer");
    }
    if (rank->err == WHIM_ERR_OK) {
        rank->err = whim_comm_all_reduce(&rank->cuts.block, NULL, rank->x, 7, "outputs of groups");
    }
}

static void one_that_goes_by_is_told_with_both_places(void **state)
{
    (void)state;
    for (int32_t i = 0; i < 2; i++) {
        rank_ctx ranks[MAX_RANKS];
        /* calls are compared: nobody waits for so long */
        ranks_run(ranks, 4, 2, 1, WAIT_S * WHIM_NS_PER_S, i == 0 ? leave_out : leave_out_of_all);
        for (int32_t r = 0; r < 4; r++) {
            assert_int_equal(ranks[r].err, WHIM_ERR_DEVICE);
            const char *why = ranks[r].all.diag.text;
            assert_non_null(strstr(why, "ranks disagree"));
            assert_non_null(strstr(why, "\"mixer\""));
            assert_non_null(strstr(why, "\"outputs of groups\""));
            assert_non_null(strstr(why, "rank 3"));
        }
    }
}

static void stay_away(rank_ctx *rank)
{
    rank->err =
        rank->all.rank == 3   ? whim_comm_all_reduce(&rank->cuts.across, NULL, rank->x, 1, "across")
        : rank->all.rank == 2 ? WHIM_ERR_OK
                              : whim_comm_all_reduce(&rank->cuts.block, NULL, rank->x, 1, "block");
    if (rank->all.rank < 2 && rank->err == WHIM_ERR_OK) {
        rank->err = whim_comm_all_reduce(&rank->cuts.across, NULL, rank->x, 1, "across");
    }
}

/* Rank 0 waits for 2, which never comes; all are told by its number among all. */
static void absent_ranks_are_named_as_of_all(void **state)
{
    (void)state;
    rank_ctx ranks[MAX_RANKS];
    ranks_run(ranks, 4, 2, 1, 2 * WHIM_NS_PER_S, stay_away);
    assert_int_equal(ranks[0].err, WHIM_ERR_DEVICE);
    assert_non_null(strstr(ranks[0].all.diag.text, "rank 2 did not reach all_reduce of 1 at"));
}

/* The group of ranks 2 and 3 goes by what the other calls across, after calls of its own. */
static void leave_out_across(rank_ctx *rank)
{
    bool goes_by = rank->all.rank >= 2;
    for (int32_t i = 0; i < 3 && goes_by && rank->err == WHIM_ERR_OK; i++) {
        rank->err = whim_comm_all_reduce(&rank->cuts.block, NULL, rank->x, 1, "block");
    }
    if (!goes_by) {
        rank->err = whim_comm_all_reduce(&rank->cuts.across, NULL, rank->x, 1, "a page");
    }
    if (rank->err == WHIM_ERR_OK) {
        rank->err = whim_comm_all_reduce(&rank->all, NULL, rank->x, 1, "a vote");
    }
}

/* The same the other way round. */
static void leave_out_a_vote(rank_ctx *rank)
{
    if (rank->all.rank < 2) {
        rank->err = whim_comm_all_reduce(&rank->all, NULL, rank->x, 1, "a vote");
    }
    if (rank->err == WHIM_ERR_OK) {
        rank->err = whim_comm_all_reduce(&rank->cuts.across, NULL, rank->x, 1, "a page");
    }
}

/* Groups need not make the same calls among themselves; those that all make are compared. */
static void a_group_that_goes_by_is_told_with_both_places(void **state)
{
    (void)state;
    for (int32_t i = 0; i < 2; i++) {
        rank_ctx ranks[MAX_RANKS];
        ranks_run(ranks, 4, 2, 1, WAIT_S * WHIM_NS_PER_S,
                  i == 0 ? leave_out_across : leave_out_a_vote);
        const char *why = ranks[0].all.diag.text;
        assert_int_equal(ranks[0].err, WHIM_ERR_DEVICE);
        assert_non_null(strstr(why, "ranks disagree"));
        assert_non_null(strstr(why, "\"a page\""));
        assert_non_null(strstr(why, "\"a vote\""));
    }
}

/* From another host come rounds and calls, but no counts of wide calls: those of this rank, which
 * grow for days, must not pass for one that is behind. */
static void groups_of_other_hosts_are_not_compared(void **state)
{
    (void)state;
    whim_comm_memory memory;
    whim_comm all;
    whim_comm_cuts cuts;
    char site[32];
    whim_diag diag = {""};
    assert_int_equal(whim_comm_memory_make(4, &memory, &diag), WHIM_ERR_OK);
    whim_comm_open(&all, &memory, &(whim_comm_cfg){.rank = 0, .wait_ns = WHIM_NS_PER_S});
    whim_comm_split(&all, 2, 1, &cuts);
    atomic_store(&memory.shared->seats[0].wide.n_call, UINT32_C(0x80000001));
    assert_false(whim_comm_passed_by(&all, 2, 1, site));
    whim_comm_memory_close(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_set_sums_its_own_ranks),
        cmocka_unit_test(the_comm_of_all_counts_for_its_parts),
        cmocka_unit_test(one_that_goes_by_is_told_with_both_places),
        cmocka_unit_test(absent_ranks_are_named_as_of_all),
        cmocka_unit_test(a_group_that_goes_by_is_told_with_both_places),
        cmocka_unit_test(groups_of_other_hosts_are_not_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

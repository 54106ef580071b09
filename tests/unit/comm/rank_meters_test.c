/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks count: bytes once for each message, waits by place, and all of it goes on in the next
 * group. */
#include "comm/rank_meters.h"

#include "base/clock.h"
#include "base/thread.h"
#include "comm/shared.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <string.h>

static whim_comm_memory memory;

/* Rank 1 comes to one place when rank 0 sleeps for it there, and to another in time. */
static void rank_1(void *ctx)
{
    whim_comm *comm = ctx;
    float x[4] = {1, 2, 3, 4};
    while (atomic_load(&memory.shared->seats[1].sleepers) == 0) {
        whim_clock_sleep_ns(100000);
    }
    assert_int_equal(whim_comm_all_reduce(comm, NULL, x, 4, "late here"), WHIM_ERR_OK);
    assert_int_equal(whim_comm_barrier(comm, "here"), WHIM_ERR_OK);
    whim_comm_step_done(comm);
}

static int64_t waited(const whim_rank_meters *m, const char *site)
{
    for (int32_t i = 0; i < m->n_site; i++) {
        if (strcmp(m->sites[i].name, site) == 0) {
            return m->sites[i].waited_ns;
        }
    }
    return 0;
}

static void group_make(int32_t n, whim_comm *comms)
{
    whim_diag diag = {""};
    assert_int_equal(whim_comm_memory_make(n, &memory, &diag), WHIM_ERR_OK);
    for (int32_t r = 0; r < n; r++) {
        whim_comm_open(&comms[r], &memory,
                       &(whim_comm_cfg){.rank = r, .wait_ns = WHIM_NS_PER_S * 60});
    }
}

static void ranks_count_what_they_do(void **state)
{
    (void)state;
    static whim_comm comms[2];
    whim_diag diag = {""};
    whim_thread thread;
    whim_rank_meters m;
    whim_mail mail;
    float x[4] = {1, 2, 3, 4};
    group_make(2, comms);
    whim_rank_meters_look(&memory, 1, &m);
    assert_true(m.step_ns == 0 && m.n_byte == 0 && m.n_site == 0);
    assert_int_equal(whim_thread_create(&thread, "rank", rank_1, &comms[1], &diag), WHIM_ERR_OK);
    assert_int_equal(whim_comm_all_reduce(&comms[0], NULL, x, 4, "late here"), WHIM_ERR_OK);
    assert_int_equal(whim_comm_barrier(&comms[0], "here"), WHIM_ERR_OK);
    whim_thread_join(&thread);
    whim_mail_open(&mail, &comms[0]);
    assert_int_equal(whim_mail_send(&mail, x, sizeof x, x, 8, &diag), WHIM_ERR_OK);
    whim_rank_meters_look(&memory, 0, &m);
    assert_int_equal(m.n_byte, (int64_t)sizeof x + (int64_t)sizeof x + 8);
    assert_true(waited(&m, "late here") > 0);
    assert_true(waited(&m, "late here") + waited(&m, "here") == comms[0].waited_ns);
    assert_int_equal(m.step_ns, 0);
    whim_rank_meters_look(&memory, 1, &m);
    assert_true(m.step_ns > 0 && m.step_ns <= whim_clock_ns());
    assert_int_equal(m.n_byte, sizeof x); /* it has sent no letter */
    whim_comm_memory_close(&memory);
}

/* Names beyond the table count with the last; what was counted is the next group's beginning. */
static void places_are_few_and_stay(void **state)
{
    (void)state;
    static whim_comm comms[3];
    whim_rank_meters was, is;
    group_make(3, comms);
    for (int32_t i = 0; i < WHIM_COMM_SITES + 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "place %d %s", i, "of a name that is too long for it");
        whim_comm_count_wait(memory.shared, 2, name, 10);
        whim_comm_count_wait(memory.shared, 2, name, 1);
    }
    whim_comm_count_bytes(&comms[2], 5);
    whim_comm_count_letter(memory.shared, 2, 7);
    whim_comm_count_link(memory.shared, 100);
    whim_comm_step_done(&comms[2]);
    whim_rank_meters_look(&memory, 2, &was);
    assert_int_equal(was.n_site, WHIM_COMM_SITES);
    assert_string_equal(was.sites[1].name, "place 1 of a name that is too l");
    assert_int_equal(was.sites[1].waited_ns, 11);
    assert_int_equal(was.sites[WHIM_COMM_SITES - 1].waited_ns, 4 * 11);
    whim_comm_memory before = memory;
    group_make(3, comms);
    whim_rank_meters_carry(&memory, &before);
    whim_rank_meters_look(&memory, 2, &is);
    assert_memory_equal(&is, &was, sizeof is);
    whim_comm_count_link(memory.shared, 11);
    whim_rank_meters_look(&memory, 0, &is);
    assert_int_equal(is.n_link_byte, 111);
    whim_comm_count_wait(memory.shared, 2, was.sites[1].name, 1);
    whim_comm_count_bytes(&comms[2], 1);
    whim_rank_meters_look(&memory, 2, &is);
    assert_int_equal(is.sites[1].waited_ns, 12);
    assert_int_equal(is.n_byte, 13);
    whim_comm_memory_close(&before);
    whim_comm_memory_close(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_count_what_they_do),
        cmocka_unit_test(places_are_few_and_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Letters from one rank to the others: in order, of all lengths, ahead of readers that are slow, and
 * ended with the group. */
#include "base/clock.h"
#include "base/thread.h"
#include "comm/mail.h"
#include "support/cmocka.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_RANK = 4, N_LETTER = 400 };

typedef struct reader {
    const whim_comm_memory *memory;
    int32_t rank;
    whim_thread thread;
    whim_err err;
    whim_diag diag;
    int64_t n_read;
    bool slow, polls;
} reader;

static void mail_make(whim_mail *mail, const whim_comm_memory *memory, int32_t rank,
                      int64_t wait_ns)
{
    whim_comm comm;
    whim_comm_open(&comm, memory,
                   &(whim_comm_cfg){.rank = rank, .wait_ns = wait_ns, .crowded = true});
    whim_mail_open(mail, &comm);
}

static int64_t bytes_of(int64_t n)
{
    return n % 50 == 7 ? WHIM_MAIL_BYTES - 8 : n * 13 % 3000;
}

static whim_err letter_check(const void *text, int64_t bytes, int64_t n)
{
    int64_t number = -1;
    bool good = bytes == 8 + bytes_of(n);
    memcpy(&number, text, 8);
    for (int64_t i = 8; i < bytes; i += 1 + bytes / 50) {
        good = good && ((const unsigned char *)text)[i] == (unsigned char)n;
    }
    return good && number == n ? WHIM_ERR_OK : WHIM_ERR_CORRUPT;
}

static void reader_main(void *ctx)
{
    reader *r = ctx;
    whim_mail mail;
    mail_make(&mail, r->memory, r->rank, 0);
    while (r->n_read < N_LETTER && r->err == WHIM_ERR_OK) {
        const void *text;
        int64_t bytes = 0;
        r->err = whim_mail_take(&mail, !r->polls, &text, &bytes, &r->diag);
        if (r->err != WHIM_ERR_OK || text == NULL) {
            continue;
        }
        if (r->slow && r->n_read % 16 == 0) {
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
        r->err = letter_check(text, bytes, r->n_read);
        r->n_read += r->err == WHIM_ERR_OK;
        whim_mail_done(&mail);
    }
}

static void readers_begin(reader *readers, const whim_comm_memory *memory, bool polls)
{
    whim_diag diag = {""};
    for (int32_t r = 1; r < N_RANK; r++) {
        readers[r] =
            (reader){.memory = memory, .rank = r, .slow = r == 2, .polls = polls && r == 3};
        assert_int_equal(
            whim_thread_create(&readers[r].thread, "reader", reader_main, &readers[r], &diag),
            WHIM_ERR_OK);
    }
}

static void letters_come_in_order(void **state)
{
    (void)state;
    whim_comm_memory memory;
    whim_mail mail;
    whim_diag diag = {""};
    reader readers[N_RANK];
    char *body = malloc(WHIM_MAIL_BYTES);
    assert_non_null(body);
    assert_int_equal(whim_comm_memory_make(N_RANK, &memory, &diag), WHIM_ERR_OK);
    mail_make(&mail, &memory, 0, 60 * WHIM_NS_PER_S);
    readers_begin(readers, &memory, true);
    for (int64_t n = 0; n < N_LETTER; n++) {
        memset(body, (int)(n & 255), (size_t)bytes_of(n));
        if (whim_mail_send(&mail, &n, sizeof n, body, bytes_of(n), &diag) != WHIM_ERR_OK) {
            fail_msg("%s", diag.text);
        }
    }
    assert_int_equal(whim_mail_send(&mail, body, 9, body, WHIM_MAIL_BYTES - 8, &diag),
                     WHIM_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "4194305 bytes"));
    for (int32_t r = 1; r < N_RANK; r++) {
        whim_thread_join(&readers[r].thread);
        assert_int_equal(readers[r].n_read, N_LETTER);
    }
    whim_comm_memory_close(&memory);
    free(body);
}

/* Nobody waits for readers before the slots are full; then one that stays away is named. */
static void readers_may_stay_away_for_a_while(void **state)
{
    (void)state;
    whim_comm_memory memory;
    whim_mail mail, other;
    whim_diag diag = {""};
    assert_int_equal(whim_comm_memory_make(2, &memory, &diag), WHIM_ERR_OK);
    mail_make(&mail, &memory, 0, 20 * 1000 * 1000);
    for (int64_t n = 0; n < WHIM_MAIL_SLOTS; n++) {
        assert_int_equal(whim_mail_send(&mail, &n, sizeof n, NULL, 0, &diag), WHIM_ERR_OK);
    }
    assert_int_equal(whim_mail_send(&mail, &diag, 8, NULL, 0, &diag), WHIM_ERR_DEVICE);
    assert_non_null(strstr(diag.text, "rank 1 has read none of the last 8"));
    const void *text;
    int64_t bytes;
    mail_make(&other, &memory, 1, 0);
    for (int64_t n = 0; n < WHIM_MAIL_SLOTS; n++) { /* what was sent is there all the same */
        assert_int_equal(whim_mail_take(&other, true, &text, &bytes, &diag), WHIM_ERR_OK);
        assert_memory_equal(text, &n, 8);
        whim_mail_done(&other);
    }
    assert_int_equal(whim_mail_take(&other, true, &text, &bytes, &diag), WHIM_ERR_DEVICE);
    assert_int_equal(whim_mail_send(&mail, &diag, 8, NULL, 0, &diag), WHIM_ERR_DEVICE);
    whim_comm_memory_close(&memory);
}

/* Rank 0 waits for rank 1 in a call; the other has followed its one letter to the end, or not. */
static void wait_for_one(bool has_ended, int64_t wait_ns, const char *why)
{
    whim_comm_memory memory;
    whim_comm comm;
    whim_mail mail, other;
    whim_diag diag = {""};
    const void *text;
    int64_t bytes;
    assert_int_equal(whim_comm_memory_make(2, &memory, &diag), WHIM_ERR_OK);
    mail_make(&other, &memory, 1, wait_ns);
    whim_comm_open(&comm, &memory, &(whim_comm_cfg){.rank = 0, .wait_ns = wait_ns});
    whim_mail_open(&mail, &comm);
    assert_int_equal(whim_mail_send(&mail, &diag, 8, NULL, 0, &diag), WHIM_ERR_OK);
    whim_mail_begin(&mail);
    assert_int_equal(whim_mail_take(&other, true, &text, &bytes, &diag), WHIM_ERR_OK);
    whim_mail_begin(&other);
    if (has_ended) {
        whim_mail_ended(&other, whim_mail_number(&other));
    }
    whim_mail_done(&other);
    assert_int_equal(whim_comm_barrier(&comm, "the last"), WHIM_ERR_DEVICE);
    assert_non_null(strstr(comm.diag.text, "\"the last\""));
    assert_non_null(strstr(comm.diag.text, why));
    whim_comm_memory_close(&memory);
}

/* Its call was left out: nothing behind it would tell before the deadline. */
static void who_has_followed_is_not_waited_for(void **state)
{
    (void)state;
    wait_for_one(true, 60 * WHIM_NS_PER_S, "rank 1 has ended the step behind \"no call\"");
    wait_for_one(false, 20 * WHIM_NS_PER_MS, "rank 1 did not reach");
}

/* Who sleeps is woken by the end of the group. */
static void the_end_wakes_readers(void **state)
{
    (void)state;
    whim_comm_memory memory;
    whim_diag diag = {""};
    reader readers[N_RANK];
    assert_int_equal(whim_comm_memory_make(N_RANK, &memory, &diag), WHIM_ERR_OK);
    readers_begin(readers, &memory, false);
    nanosleep(&(struct timespec){.tv_nsec = 30 * 1000 * 1000}, NULL);
    whim_comm_abort(&memory, "rank 0 was killed");
    for (int32_t r = 1; r < N_RANK; r++) {
        whim_thread_join(&readers[r].thread);
        assert_int_equal(readers[r].err, WHIM_ERR_DEVICE);
        assert_string_equal(readers[r].diag.text, "rank 0 was killed");
    }
    whim_comm_memory_close(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_come_in_order),
        cmocka_unit_test(readers_may_stay_away_for_a_while),
        cmocka_unit_test(who_has_followed_is_not_waited_for),
        cmocka_unit_test(the_end_wakes_readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of letters with one writer. A slot is written anew when all ranks have told that they read
 * what lay in it. */
#include "comm/mail.h"

#include "base/clock.h"
#include "base/os/futex.h"
#include "comm/shared.h"

#include <stdio.h>
#include <string.h>

enum { TURNS_PER_LOOK = 64, NAP_NS = 100000000 };

void whim_mail_open(whim_mail *mail, const whim_comm *comm)
{
    *mail = (whim_mail){.shared = comm->shared,
                        .rank = comm->rank,
                        .n_rank = comm->n_rank,
                        .wait_ns = comm->wait_ns,
                        .spin_ns = comm->spin_ns};
}

/* Counts are compared as far as they fit a futex's word. */
static bool has_come(whim_comm_count *count, uint64_t n)
{
    return (int32_t)(atomic_load_explicit(&count->n, memory_order_acquire) - (uint32_t)n) >= 0;
}

/* As of shared.c: counted before the look, told before the look at the count. */
static void nap(whim_comm_count *count, uint64_t n)
{
    atomic_fetch_add(&count->sleepers, 1);
    uint32_t now = atomic_load(&count->n);
    if ((int32_t)(now - (uint32_t)n) < 0) {
        whim_os_futex_wait_shared(&count->n, now, NAP_NS);
    }
    atomic_fetch_sub(&count->sleepers, 1);
}

static void tell(const whim_mail *mail, whim_comm_count *count)
{
    whim_comm_tell(mail->shared, &count->n, &count->sleepers, mail->n);
}

/* Until the count of a peer has come to n. FULL: it is too late; of rank 0, which has nothing to
 * tell, never. */
static whim_err wait_count(const whim_mail *mail, whim_comm_count *count, uint64_t n, int32_t peer,
                           whim_diag *diag)
{
    whim_comm_wait wait = {0};
    while (!has_come(count, n)) {
        for (int i = 0; i < TURNS_PER_LOOK && !has_come(count, n); i++) {
            whim_os_cpu_relax();
        }
        int64_t waited = whim_comm_wait_look(&wait, whim_clock_ns());
        if (whim_comm_has_ended(mail->shared)) {
            return whim_comm_why(mail->shared, diag);
        }
        if (peer != 0 && whim_comm_wait_is_over(&wait, mail->shared, peer, mail->wait_ns)) {
            return WHIM_ERR_FULL;
        }
        if (waited > mail->spin_ns) {
            nap(count, n);
        }
    }
    return WHIM_ERR_OK;
}

/* The slot of the next letter: all have read what lay there. */
static whim_err slot_wait(const whim_mail *mail, whim_diag *diag)
{
    for (int32_t r = 1; r < mail->n_rank; r++) {
        whim_comm_count *read = &mail->shared->seats[r].read;
        whim_err err = mail->n < WHIM_MAIL_SLOTS
                           ? WHIM_ERR_OK
                           : wait_count(mail, read, mail->n + 1 - WHIM_MAIL_SLOTS, r, diag);
        if (err == WHIM_ERR_FULL) {
            char why[128];
            snprintf(why, sizeof why, "rank %d has read none of the last %d steps within %.3g s", r,
                     WHIM_MAIL_SLOTS, (double)mail->wait_ns / 1e9);
            whim_mail_end(mail, why);
            return whim_comm_why(mail->shared, diag);
        }
        WHIM_TRY(err);
    }
    return WHIM_ERR_OK;
}

whim_err whim_mail_send(whim_mail *mail, const void *head, int64_t head_bytes, const void *body,
                        int64_t body_bytes, whim_diag *diag)
{
    if (head_bytes + body_bytes > WHIM_MAIL_BYTES) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "a message to other ranks has %lld bytes; it may have %d",
                         (long long)(head_bytes + body_bytes), WHIM_MAIL_BYTES);
    }
    if (whim_comm_has_ended(mail->shared)) {
        return whim_comm_why(mail->shared, diag);
    }
    WHIM_TRY(slot_wait(mail, diag));
    whim_comm_letter *l = whim_comm_letter_at(mail->shared, mail->n);
    l->bytes = head_bytes + body_bytes;
    memcpy(l->text, head, (size_t)head_bytes);
    if (body_bytes > 0) {
        memcpy(l->text + head_bytes, body, (size_t)body_bytes);
    }
    whim_comm_count_letter(mail->shared, mail->rank, l->bytes);
    mail->n++;
    tell(mail, &mail->shared->sent);
    return WHIM_ERR_OK;
}

whim_err whim_mail_take(whim_mail *mail, bool wait, const void **out, int64_t *bytes,
                        whim_diag *diag)
{
    *out = NULL;
    if (!wait && !has_come(&mail->shared->sent, mail->n + 1)) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(wait_count(mail, &mail->shared->sent, mail->n + 1, 0, diag));
    const whim_comm_letter *l = whim_comm_letter_at(mail->shared, mail->n);
    *out = l->text;
    *bytes = l->bytes;
    return WHIM_ERR_OK;
}

void whim_mail_done(whim_mail *mail)
{
    mail->n++;
    tell(mail, &mail->shared->seats[mail->rank].read);
}

uint64_t whim_mail_number(const whim_mail *mail)
{
    return mail->n + (mail->rank != 0);
}

void whim_mail_begin(const whim_mail *mail)
{
    atomic_store_explicit(&mail->shared->seats[mail->rank].begun, (uint32_t)whim_mail_number(mail),
                          memory_order_relaxed);
}

/* Told behind all rounds of it. */
void whim_mail_ended(const whim_mail *mail, uint64_t n)
{
    atomic_store_explicit(&mail->shared->seats[mail->rank].ended, (uint32_t)n,
                          memory_order_release);
}

bool whim_comm_has_followed(const whim_comm *comm, int32_t rank)
{
    whim_comm_seat *seats = comm->shared->seats;
    uint32_t begun = atomic_load_explicit(&seats[whim_comm_number(comm, comm->rank)].begun,
                                          memory_order_relaxed);
    uint32_t ended =
        atomic_load_explicit(&seats[whim_comm_number(comm, rank)].ended, memory_order_acquire);
    return begun != 0 && (int32_t)(ended - begun) >= 0;
}

void whim_mail_end(const whim_mail *mail, const char *why)
{
    whim_comm_shared_end(mail->shared, why);
}

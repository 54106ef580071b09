/* SPDX-License-Identifier: Apache-2.0 */
/* Letters from rank 0 to all others of its group, in order, beside the collectives: nobody waits
 * for whoever has not read yet, unless WHIM_MAIL_SLOTS letters lie there. A group that ended ends
 * this, too, and the other way round.
 * Threads: a whim_mail belongs to one thread of its rank, which need not be the one that has the
 * rank's whim_comm. */
#ifndef WHIM_COMM_MAIL_H
#define WHIM_COMM_MAIL_H

#include "comm/comm.h"

enum {
    WHIM_MAIL_SLOTS = 8,
    WHIM_MAIL_BYTES = 4 * 1024 * 1024, /* of the longest letter; memory is taken as it is used */
};

typedef struct whim_mail {
    struct whim_comm_shared *shared;
    int32_t rank, n_rank;
    uint64_t n;      /* letters that this rank has written, or read */
    int64_t wait_ns; /* how long rank 0 waits for a slot */
    int64_t spin_ns; /* of any wait, without sleep */
} whim_mail;

/* The mail of a group, by the seat of a rank, which it does not keep. */
void whim_mail_open(whim_mail *mail, const whim_comm *comm);

/* Rank 0: a letter, of two pieces one behind the other. UNSUPPORTED: it is too long. */
WHIM_MUST_CHECK whim_err whim_mail_send(whim_mail *mail, const void *head, int64_t head_bytes,
                                        const void *body, int64_t body_bytes, whim_diag *diag);

/* The others: the next letter, which lies where it is until whim_mail_done. Without `wait`, *out is
 * NULL where there is none yet; else whoever has nothing to do waits for as long as it takes. */
WHIM_MUST_CHECK whim_err whim_mail_take(whim_mail *mail, bool wait, const void **out,
                                        int64_t *bytes, whim_diag *diag);
void whim_mail_done(whim_mail *mail);

/* What this rank calls from now on follows from its newest letter; what it calls because of letters
 * up to number n, counted from 1, has ended. Whoever waits for a call of a rank that has ended what
 * makes both call knows that it was left out. */
void whim_mail_begin(const whim_mail *mail);
void whim_mail_ended(const whim_mail *mail, uint64_t n);

/* The number of that letter: written, or taken and not done. */
uint64_t whim_mail_number(const whim_mail *mail);

/* End the group from any rank; the first reason counts. */
void whim_mail_end(const whim_mail *mail, const char *why);

#endif

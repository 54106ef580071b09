/* SPDX-License-Identifier: Apache-2.0 */
/* What the answer thread knows about an answer beside what forms see, and the core's calls. The
 * core (answer.c) turns events into parts and calls of the form, and knows no threads;
 * what forms ask of it lies in forms.c; thread.c has the thread and the queue.
 * Threads: the answer thread's, but for `slot` (thread.c says). */
#ifndef WHIM_SERVER_ANSWER_RUN_H
#define WHIM_SERVER_ANSWER_RUN_H

#include "server/answer/answer.h"

struct answer_slot;

typedef struct whim_answer_run {
    struct answer_slot *slot;
    whim_answer *next;   /* among the active ones, or those with a large reply */
    int32_t n_open;      /* requests whose last event has not come */
    int32_t n_admitted;  /* requests */
    int64_t n_entry;     /* log-probabilities that the reply tells */
    int64_t n_held;      /* bytes, when it was last looked at */
    bool listed;         /* among the active ones */
    bool mute;           /* nothing more is written: the client is gone, or the route has refused */
    bool refused;        /* the answer could not start: there is nothing to tell or to log */
    bool had_large_body; /* which is dropped by now */
    bool over;           /* finish was called, or only fail can be */
    bool failed;
    whim_fault fault;     /* when failed */
    whim_job_reason why;  /* the requests were dropped */
    int64_t last_ns;      /* of the last write */
    whim_job_times times; /* sums and first times of the requests that ended */
} whim_answer_run;

/* NULL without memory; `task` is taken and `ex` referenced only on success. */
whim_answer *whim_answer_create(const whim_api *api, whim_exchange *ex,
                                const whim_answer_form *form, whim_task *task);
void whim_answer_destroy(whim_answer *a);

/* Forget its tokens, and keep the room for as many. */
void whim_answer_tokens_clear(whim_answer_tokens *list);

/* Open the stream, if it is one, and write its first events. Before the answer thread has it. */
void whim_answer_begin(whim_answer *a);

/* One event of the request of prompt `p`. */
void whim_answer_take(whim_answer *a, int32_t p, const whimbrel_event *ev);

/* All requests have ended: the last events, or the reply. */
void whim_answer_end(whim_answer *a);

/* Whether whim_answer_end will take long. */
bool whim_answer_is_large(const whim_answer *a);

/* After 10 s of silence. */
void whim_answer_keep_alive(whim_answer *a, int64_t now_ns);

/* Cancel what still runs. */
void whim_answer_cancel(whim_answer *a, whim_job_reason why);

/* --- memory (held.c) ------------------------------------------------------------------- */

/* When so many eighths of the memory for requests are used, answers are ended one after the other.
 * One that holds less than the second number of bytes is never ended. */
enum { WHIM_ANSWER_SHARE = 7, WHIM_ANSWER_LEAST_HELD = 256 << 10 };

bool whim_answers_hold_too_much(void);

/* The next one to end, of a list of active ones; NULL: none holds much. */
whim_answer *whim_answer_greediest(whim_answer *first);

/* End it: what it holds is given back at once, and its client learns why. */
void whim_answer_give_up(whim_answer *a);

#endif

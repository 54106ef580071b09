/* SPDX-License-Identifier: Apache-2.0 */
/* A process of this program that has one part of a model, or carries messages between hosts:
 * started with a socket and the group's memory, told what to do, listened to, ended. One on another
 * host (ranks/nodes.h) is a socket as well; its agent does the rest.
 * Threads: one owner at a time. */
#ifndef WHIM_RANKS_PROCESS_H
#define WHIM_RANKS_PROCESS_H

#include "base/thread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    WHIM_RANK_END_MS = 2000, /* for a process to end by itself */
    WHIM_RANK_HOW = 256,     /* bytes that tell how one ended */
    WHIM_RANK_LOOK_MS = 100, /* between looks at one that is to answer */
};

/* A process elsewhere: whoever hears of its end writes how, then that. */
typedef struct whim_rank_far {
    atomic_bool ended;
    char how[WHIM_RANK_HOW];
} whim_rank_far;

/* Looks at a process that has not answered yet. They are counted and not timed: while all of a
 * machine stands still, so does the count. */
typedef struct whim_rank_looks {
    int64_t cpu_ticks;
    int32_t n_still, n_stopped; /* of looks in a row: it used no CPU time, it was stopped */
} whim_rank_looks;

/* Stays where it is from start to end. */
typedef struct whim_rank_process {
    char name[32];            /* "rank 3" */
    pid_t pid;                /* 0: not started, gone, or elsewhere */
    int socket;               /* -1: none */
    const whim_rank_far *far; /* NULL: it is no process elsewhere, or its end was told */
    whim_rank_looks looks;
    bool is_kept;
    struct whim_rank_keeper {
        whim_thread thread;
        pthread_mutex_t lock;
        pthread_cond_t news;
        const char *program, *word;
        int socket, memory; /* what the process begins with */
        bool is_done;       /* it was started, or not, for this error: */
        int error;
        pid_t pid;
    } keeper;
} whim_rank_process;

/* A descriptor that no other child inherits, away from those that followers begin with; -1: errno
 * says why there is none. */
int whim_rank_fd(int fd);

/* Runs `program word` with a socket to it and the memory. On failure there is no process. Whichever
 * thread calls may end before the process does. */
WHIM_MUST_CHECK whim_err whim_rank_start(whim_rank_process *p, const char *program,
                                         const char *word, int memory, whim_diag *diag);

WHIM_MUST_CHECK whim_err whim_rank_send(whim_rank_process *p, const void *order, size_t bytes,
                                        whim_diag *diag);

/* Waits for a whole message, for as long as the process works for it. DEVICE: it ended, was
 * stopped, does nothing, or answers something else. */
WHIM_MUST_CHECK whim_err whim_rank_hear(whim_rank_process *p, void *reply, size_t bytes,
                                        whim_diag *diag);

/* One look at a process here that is to answer: whether nothing will come of it, and why.
 * looks = {0} begins again. */
bool whim_rank_hangs(whim_rank_process *p, char *how, size_t size);

/* How it ended, in words; false: it runs, or was not started. */
bool whim_rank_ended(whim_rank_process *p, char *text, size_t size);

/* Closes the socket, which tells it to end, and kills it if it has not by then. */
void whim_rank_end(whim_rank_process *p, int64_t until);

#endif

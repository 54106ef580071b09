/* SPDX-License-Identifier: Apache-2.0 */
/* The worker threads. The thread that runs a list is worker 0; the others sleep between lists. All
 * workers walk the same list of commands and meet at a barrier where a command says so.
 * Each worker keeps to its own cores (whim_os_topology_slice). Worker 0 is a thread of the caller,
 * perhaps of an application: it keeps to its cores while it runs a list and gets its mask back, and
 * not even that when its owner has confined it elsewhere. (Measured: beside another process that
 * kept one of two CPUs busy, two pinned workers were 1.5 times as fast as two that the system
 * placed, and pinning all but worker 0 gained nothing.)
 * A wait spins, for a millisecond at most, then sleeps: short steps stay fast, an idle process
 * burns nothing, and a busy machine gets its cores back.
 * Threads: workers_run from one thread at a time (a lock makes sure). */
#ifndef WHIM_BACKENDS_CPU_WORKERS_H
#define WHIM_BACKENDS_CPU_WORKERS_H

#include "backends/cpu/kernels.h"
#include "base/err.h"
#include "base/os/topology.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct whim_cpu_command {
    whim_cpu_kernel *kernel;
    bool barrier; /* needs what earlier commands of the list wrote */
    _Alignas(16) char args[WHIM_OP_ARGS_MAX];
} whim_cpu_command;

enum { WHIM_CPU_TICKETS = 64 }; /* commands without a barrier between them; then one is put in */

typedef struct whim_cpu_workers {
    int32_t count, part, n_part;
    whim_thread *threads;     /* [count - 1] */
    whim_cpu_worker *workers; /* [count] */
    void *scratch, *own;
    bool pinned;          /* workers have cores of their own */
    bool crowded;         /* there are more workers than CPUs */
    whim_os_mask lead;    /* those of worker 0 */
    pthread_mutex_t lock; /* held while a list runs */
    const whim_cpu_command *commands;
    int64_t n_command;
    _Atomic uint32_t list; /* number of the list to run; changes to start one */
    _Atomic uint64_t last; /* of that list, 1 << 32 | the section that is to be its last; 0: all */
    /* Each in a cache line of its own: who arrives must not take away the line that the others look
     * at. */
    _Alignas(64) _Atomic uint32_t arrived; /* workers at the barrier */
    _Alignas(64) _Atomic uint32_t phase;   /* changes when a barrier opens */
    _Alignas(64) _Atomic uint32_t sleepers;
    _Atomic uint32_t stop;
    /* One ticket for each command since the last barrier. Sections between barriers use the two
     * rows in turn, and a row goes back to zero while the other is in use: nobody can be holding
     * one of it. */
    whim_cpu_ticket tickets[2][WHIM_CPU_TICKETS];
} whim_cpu_workers;

/* On part `part` of n_part of the CPUs; 0 of 1: all of them. */
WHIM_MUST_CHECK whim_err whim_cpu_workers_init(whim_cpu_workers *w, int32_t count, int32_t part,
                                               int32_t n_part, whim_diag *diag);
void whim_cpu_workers_deinit(whim_cpu_workers *w);

/* A barrier within a command, which all workers come to. */
void whim_cpu_meet(const whim_cpu_worker *worker);

/* The list ends with the section that runs now, for all workers: a command of worker 0 failed. */
void whim_cpu_list_stop(const whim_cpu_worker *worker);

/* Run the commands in order on all workers; returns when all are done, or the list was stopped. */
void whim_cpu_workers_run(whim_cpu_workers *w, const whim_cpu_command *commands, int64_t n_command);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* How long is too long. What a rank works at between two collectives grows with the model and the
 * prompt, so no fixed time tells a hang from work; but whoever hangs, sleeps or was stopped neither
 * uses CPU time nor waits for it. It costs nothing before a wait is long. */
#include "base/os/facts.h"
#include "comm/shared.h"

#include <unistd.h>

enum { LOOKS = 4 }; /* at the other's process, while the limit passes */

/* No work between two collectives or letters takes so long. */
#define MOST_NS INT64_C(60000000000)

/* Its process, where it has one of its own on this host; else 0. */
static int32_t process_of(struct whim_comm_shared *shared, int32_t rank)
{
    int32_t pid = atomic_load_explicit(&shared->seats[rank].pid, memory_order_relaxed);
    return pid != (int32_t)getpid() ? pid : 0;
}

int64_t whim_comm_ticks(struct whim_comm_shared *shared, int32_t rank)
{
    whim_comm_seat *seat = &shared->seats[rank];
    int32_t pid = atomic_load_explicit(&seat->pid, memory_order_relaxed);
    whim_os_process process;
    if (pid == 0) { /* it is on another host, whose bridge tells of all its work */
        return atomic_load_explicit(&seat->ticks, memory_order_relaxed);
    }
    return pid != (int32_t)getpid() && whim_os_process_get(pid, &process) ? process.cpu_ticks : 0;
}

/* Whoever is far behind still comes: each round and letter counts, also those of its block that
 * the one who waits is not in. */
static bool has_moved(whim_comm_wait *wait, struct whim_comm_shared *shared, int32_t peer)
{
    whim_comm_seat *seats = &shared->seats[peer % shared->n_rank];
    uint32_t round = 0, read = atomic_load_explicit(&seats->read.n, memory_order_relaxed);
    for (int32_t set = 0; set < WHIM_COMM_SETS; set++) {
        round += atomic_load_explicit(&seats[set * shared->n_rank].n_round, memory_order_relaxed);
    }
    bool moved = round != wait->moved_round || read != wait->moved_read;
    wait->moved_round = round;
    wait->moved_read = read;
    return moved;
}

bool whim_comm_is_busy(struct whim_comm_shared *shared, int32_t rank)
{
    int32_t pid = process_of(shared, rank);
    return pid != 0 && whim_os_process_is_busy(pid);
}

static void peer_look(whim_comm_wait *wait, struct whim_comm_shared *shared, int32_t peer)
{
    int64_t ticks = whim_comm_ticks(shared, peer);
    wait->looked_ns = wait->waited_ns;
    if (has_moved(wait, shared, peer)) {
        wait->moved_ns = wait->waited_ns;
    }
    if (ticks > wait->worked_ticks || whim_comm_is_busy(shared, peer)) {
        wait->worked_ticks = ticks;
        wait->worked_ns = wait->waited_ns;
    }
}

bool whim_comm_wait_is_over(whim_comm_wait *wait, struct whim_comm_shared *shared, int32_t peer,
                            int64_t limit_ns)
{
    if (wait->waited_ns - wait->looked_ns > limit_ns / LOOKS) {
        peer_look(wait, shared, peer);
    }
    bool works = wait->waited_ns - wait->worked_ns <= limit_ns / 2 &&
                 wait->waited_ns - wait->moved_ns < MOST_NS;
    return wait->waited_ns > limit_ns && !works;
}

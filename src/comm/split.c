/* SPDX-License-Identifier: Apache-2.0 */
/* Comms of some ranks: seats and pieces of another set in the same memory. */
#include "base/check.h"
#include "comm/shared.h"

#include <stdio.h>
#include <unistd.h>

/* The ranks first, first + stride .. of comm's, of which this rank is number `rank`. */
static void part_open(whim_comm *comm, whim_comm_set set, int32_t stride, int32_t n_rank,
                      whim_comm *out)
{
    int32_t rank = comm->rank / stride % n_rank, first = comm->rank - rank * stride;
    *out = (whim_comm){.shared = comm->shared,
                       .rank = rank,
                       .n_rank = n_rank,
                       .seat = (int32_t)set * comm->n_rank + first,
                       .stride = stride,
                       .set = (int32_t)set,
                       .alike = comm->alike,
                       .of = comm,
                       .wait_ns = comm->wait_ns,
                       .spin_ns = comm->spin_ns,
                       .yields = comm->yields};
    atomic_store(&whim_comm_seat_of(out, out->rank)->pid, (int32_t)getpid());
}

void whim_comm_split(whim_comm *comm, int32_t span, int32_t reach, whim_comm_cuts *cuts)
{
    whim_check(comm->of == NULL && span > 0 && reach > 0 && comm->n_rank % (span * reach) == 0);
    comm->alike = span * reach;
    part_open(comm, WHIM_COMM_BLOCK, 1, span, &cuts->block);
    part_open(comm, WHIM_COMM_BESIDE, span, reach, &cuts->beside);
    part_open(comm, WHIM_COMM_ACROSS, comm->alike, comm->n_rank / comm->alike, &cuts->across);
    cuts->block.cuts = cuts;
}

static whim_comm_seat *first_seat(const whim_comm *comm, int32_t rank)
{
    return &comm->shared->seats[whim_comm_number(comm, rank)];
}

static void tell(whim_comm_place *place, int32_t set, const char *site)
{
    uint64_t words[4] = {0};
    snprintf((char *)words, sizeof words, "%s", site);
    for (int32_t i = 0; i < 4; i++) {
        atomic_store_explicit(&place->site[i], words[i], memory_order_release);
    }
    atomic_store_explicit(&place->set, set, memory_order_release);
    uint32_t n = atomic_load_explicit(&place->n_call, memory_order_relaxed);
    atomic_store_explicit(&place->n_call, n + 1, memory_order_release);
}

/* Whether the ranks of all groups are in calls of a comm. */
static bool is_wide(const whim_comm *comm)
{
    return comm->set == WHIM_COMM_ALL || comm->set == WHIM_COMM_ACROSS;
}

void whim_comm_place_tell(const whim_comm *comm, const char *site)
{
    if (comm->alike == 0) {
        return;
    }
    whim_comm_seat *own = first_seat(comm, comm->rank);
    tell(&own->place, comm->set, site);
    if (is_wide(comm)) {
        tell(&own->wide, comm->set, site);
    }
}

static void site_read(whim_comm_place *place, char site[32])
{
    uint64_t words[4];
    for (int32_t i = 0; i < 4; i++) {
        words[i] = atomic_load_explicit(&place->site[i], memory_order_acquire);
    }
    memcpy(site, words, sizeof words);
    site[sizeof words - 1] = '\0';
}

bool whim_comm_last_site(const whim_comm *comm, int32_t rank, char site[32])
{
    whim_comm_seat *seat = whim_comm_seat_of(comm, rank);
    site[0] = '\0';
    if (comm->alike > 0) {
        site_read(&first_seat(comm, rank)->place, site);
    }
    if (site[0] == '\0') { /* nor do ranks of other hosts tell of places */
        /* It writes there again when it is some rounds further, and it waits for this rank. */
        int32_t behind = (int32_t)((uint32_t)comm->n_round - atomic_load(&seat->n_round));
        uint64_t round = comm->n_round - (uint64_t)behind;
        snprintf(site, 32, "%.31s", seat->calls[round % WHIM_COMM_TURNS].site);
    }
    return site[0] != '\0';
}

/* Ranks of a group make the same calls of all comms in the same order; those of other groups need
 * not, but for calls that all groups of this host make. Whoever has gone on from this very call had
 * told its round before, so that is looked at last. */
bool whim_comm_passed_by(const whim_comm *comm, int32_t rank, uint32_t round, char site[32])
{
    int32_t own = whim_comm_number(comm, comm->rank), its = whim_comm_number(comm, rank);
    if (comm->alike == 0) {
        return false;
    }
    bool near = own / comm->alike == its / comm->alike;
    whim_comm_seat *seat = first_seat(comm, rank);
    if (!near && atomic_load_explicit(&seat->pid, memory_order_relaxed) == 0) {
        return false; /* of its calls nothing comes from another host but their rounds */
    }
    whim_comm_place *other = near ? &seat->place : &seat->wide;
    const whim_comm_place *mine =
        near ? &first_seat(comm, comm->rank)->place : &first_seat(comm, comm->rank)->wide;
    uint32_t n_call = atomic_load_explicit(&other->n_call, memory_order_acquire);
    int32_t ahead = (int32_t)(n_call - atomic_load_explicit(&mine->n_call, memory_order_relaxed));
    int32_t set = atomic_load_explicit(&other->set, memory_order_acquire);
    site_read(other, site);
    bool elsewhere = ahead > 0 || (ahead == 0 && set != comm->set);
    return elsewhere && (int32_t)(atomic_load(&whim_comm_seat_of(comm, rank)->n_round) - round) < 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Comms of some ranks: seats and pieces of another set in the same memory. */
#include "base/check.h"
#include "comm/shared.h"

#include <stdio.h>
#include <unistd.h>

static void part_open(whim_comm *comm, whim_comm_set set, whim_comm *out)
{
    bool across = set == WHIM_COMM_ACROSS;
    int32_t span = comm->span, block = comm->rank / span, place = comm->rank % span;
    int32_t first = across ? place : block * span;
    *out = (whim_comm){.shared = comm->shared,
                       .rank = across ? block : place,
                       .n_rank = across ? comm->n_rank / span : span,
                       .seat = (int32_t)set * comm->n_rank + first,
                       .stride = across ? span : 1,
                       .set = (int32_t)set,
                       .span = span,
                       .of = comm,
                       .wait_ns = comm->wait_ns,
                       .spin_ns = comm->spin_ns,
                       .yields = comm->yields};
    atomic_store(&whim_comm_seat_of(out, out->rank)->pid, (int32_t)getpid());
}

void whim_comm_split(whim_comm *comm, int32_t span, whim_comm *block, whim_comm *across)
{
    whim_check(comm->of == NULL && span > 0 && comm->n_rank % span == 0);
    comm->span = span;
    part_open(comm, WHIM_COMM_BLOCK, block);
    part_open(comm, WHIM_COMM_ACROSS, across);
    block->across = across;
}

static whim_comm_place *place_of(const whim_comm *comm, int32_t rank)
{
    return &comm->shared->seats[whim_comm_number(comm, rank)].place;
}

void whim_comm_place_tell(const whim_comm *comm, const char *site)
{
    if (comm->span == 0) {
        return;
    }
    whim_comm_place *place = place_of(comm, comm->rank);
    uint64_t words[4] = {0};
    snprintf((char *)words, sizeof words, "%s", site);
    for (int32_t i = 0; i < 4; i++) {
        atomic_store_explicit(&place->site[i], words[i], memory_order_release);
    }
    atomic_store_explicit(&place->set, comm->set, memory_order_release);
    uint32_t n = atomic_load_explicit(&place->n_call, memory_order_relaxed);
    atomic_store_explicit(&place->n_call, n + 1, memory_order_release);
}

/* Ranks of a block make the same calls of all comms in the same order; those of other blocks need
 * not. Whoever has gone on from this very call had told its round before, so that is looked at
 * last. */
bool whim_comm_passed_by(const whim_comm *comm, int32_t rank, uint32_t round, char site[32])
{
    int32_t own = whim_comm_number(comm, comm->rank), its = whim_comm_number(comm, rank);
    if (comm->span == 0 || own / comm->span != its / comm->span) {
        return false;
    }
    const whim_comm_place *mine = place_of(comm, comm->rank);
    whim_comm_place *other = place_of(comm, rank);
    uint64_t words[4];
    uint32_t n_call = atomic_load_explicit(&other->n_call, memory_order_acquire);
    int32_t ahead = (int32_t)(n_call - atomic_load_explicit(&mine->n_call, memory_order_relaxed));
    int32_t set = atomic_load_explicit(&other->set, memory_order_acquire);
    for (int32_t i = 0; i < 4; i++) {
        words[i] = atomic_load_explicit(&other->site[i], memory_order_acquire);
    }
    memcpy(site, words, sizeof words);
    site[sizeof words - 1] = '\0';
    bool elsewhere = ahead > 0 || (ahead == 0 && set != comm->set);
    return elsewhere && (int32_t)(atomic_load(&whim_comm_seat_of(comm, rank)->n_round) - round) < 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/rank_meters.h"

#include "base/clock.h"
#include "comm/shared.h"

#include <stdio.h>
#include <string.h>

/* Each number has one writer, so that a load and a store are enough. */
static void count(_Atomic int64_t *number, int64_t n)
{
    int64_t now = atomic_load_explicit(number, memory_order_relaxed);
    int64_t sum = (int64_t)((uint64_t)now + (uint64_t)n); /* what others tell may be any number */
    atomic_store_explicit(number, sum, memory_order_relaxed);
}

void whim_comm_step_done(const whim_comm *comm)
{
    whim_comm_tally *t = &comm->shared->seats[comm->rank].tally;
    atomic_store_explicit(&t->step_ns, whim_clock_ns(), memory_order_relaxed);
}

void whim_comm_count_bytes(whim_comm *comm, int64_t n)
{
    whim_comm *all = comm->of != NULL ? comm->of : comm;
    all->n_byte += n;
    count(&all->shared->seats[all->rank].tally.n_byte, n);
}

void whim_comm_count_letter(struct whim_comm_shared *shared, int32_t rank, int64_t n)
{
    count(&shared->seats[rank].tally.n_letter_byte, n);
}

void whim_comm_count_link(struct whim_comm_shared *shared, int64_t n)
{
    count(&shared->n_link_byte, n);
}

void whim_comm_count_disk(struct whim_comm_shared *shared, int32_t rank, whim_rank_disk which,
                          int64_t n)
{
    _Atomic int64_t *number = &shared->seats[rank].tally.disk[which];
    if (which == WHIM_RANK_DISK_BYTES) {
        atomic_store_explicit(number, n, memory_order_relaxed);
    } else {
        count(number, n);
    }
}

void whim_comm_disk_told(const whim_comm *comm, const int64_t disk[WHIM_RANK_DISK_COUNT])
{
    for (int32_t i = 0; i < WHIM_RANK_DISK_COUNT; i++) {
        whim_comm_count_disk(comm->shared, comm->rank, (whim_rank_disk)i, disk[i]);
    }
}

void whim_comm_count_wait(struct whim_comm_shared *shared, int32_t rank, const char *site,
                          int64_t ns)
{
    whim_comm_tally *t = &shared->seats[rank].tally;
    uint32_t n = atomic_load_explicit(&t->n_site, memory_order_relaxed), i = 0;
    while (i < n && strncmp(t->sites[i].name, site, WHIM_COMM_SITE_NAME - 1) != 0) {
        i++;
    }
    if (i == n && n < WHIM_COMM_SITES) {
        snprintf(t->sites[i].name, sizeof t->sites[i].name, "%s", site);
        atomic_store_explicit(&t->n_site, n + 1, memory_order_release);
    }
    count(&t->sites[i < WHIM_COMM_SITES ? i : WHIM_COMM_SITES - 1].waited_ns, ns);
}

static void look(struct whim_comm_shared *shared, int32_t rank, whim_rank_meters *out)
{
    whim_comm_tally *t = &shared->seats[rank].tally;
    uint32_t n = atomic_load_explicit(&t->n_site, memory_order_acquire);
    *out = (whim_rank_meters){
        .step_ns = atomic_load_explicit(&t->step_ns, memory_order_relaxed),
        .n_byte = atomic_load_explicit(&t->n_byte, memory_order_relaxed) +
                  atomic_load_explicit(&t->n_letter_byte, memory_order_relaxed),
        .n_link_byte =
            rank == 0 ? atomic_load_explicit(&shared->n_link_byte, memory_order_relaxed) : 0,
        .n_site = (int32_t)(n < WHIM_COMM_SITES ? n : WHIM_COMM_SITES),
    };
    for (int32_t i = 0; i < WHIM_RANK_DISK_COUNT; i++) {
        out->disk[i] = atomic_load_explicit(&t->disk[i], memory_order_relaxed);
    }
    for (int32_t i = 0; i < out->n_site; i++) {
        snprintf(out->sites[i].name, sizeof out->sites[i].name, "%.*s", WHIM_COMM_SITE_NAME - 1,
                 t->sites[i].name);
        out->sites[i].waited_ns =
            atomic_load_explicit(&t->sites[i].waited_ns, memory_order_relaxed);
    }
}

void whim_rank_meters_of(const whim_comm *comm, int32_t rank, whim_rank_meters *out)
{
    look(comm->shared, rank, out);
}

void whim_rank_meters_look(const whim_comm_memory *memory, int32_t rank, whim_rank_meters *out)
{
    look(memory->shared, rank, out);
}

void whim_rank_meters_carry(const whim_comm_memory *to, const whim_comm_memory *from)
{
    atomic_store(&to->shared->n_link_byte, atomic_load(&from->shared->n_link_byte));
    for (int32_t r = 0; r < to->shared->n_rank && r < from->shared->n_rank; r++) {
        whim_comm_tally *t = &to->shared->seats[r].tally;
        whim_rank_meters was;
        whim_rank_meters_look(from, r, &was);
        atomic_store(&t->step_ns, was.step_ns);
        atomic_store(&t->n_byte, was.n_byte);
        for (int32_t i = 0; i < WHIM_RANK_DISK_COUNT; i++) {
            atomic_store(&t->disk[i], was.disk[i]);
        }
        for (int32_t i = 0; i < was.n_site; i++) {
            memcpy(t->sites[i].name, was.sites[i].name, sizeof t->sites[i].name);
            atomic_store(&t->sites[i].waited_ns, was.sites[i].waited_ns);
        }
        atomic_store(&t->n_site, (uint32_t)was.n_site);
    }
}

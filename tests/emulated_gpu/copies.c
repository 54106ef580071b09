/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory as numbers, and what is copied to it while threads go on: a thread's own copies, and
 * bulk copies with the barriers that count their bytes. */
#include "emulated_gpu/inside.h"

#include <stdlib.h>
#include <string.h>

/* --- shared memory ---------------------------------------------------------------------------- */

enum { RANK_SHIFT = 24 };

char *gpu_dynamic(void)
{
    return gpu_self->warp->block->window + GPU_FIRST;
}

char *gpu_flag(void)
{
    return gpu_self->warp->block->flag;
}

uint32_t gpu_shared_at(const void *p)
{
    int64_t at = (const char *)p - gpu_self->warp->block->window;
    if (at < GPU_FIRST || at > GPU_WINDOW) {
        gpu_fault("%p is no place in dynamic shared memory", p);
    }
    return (uint32_t)at;
}

uint32_t gpu_cluster_at(uint32_t at, int rank)
{
    return (at & ((1u << RANK_SHIFT) - 1)) | (uint32_t)(rank + 1) << RANK_SHIFT;
}

char *gpu_shared(uint32_t at, int bytes)
{
    int rank = (int)(at >> RANK_SHIFT) - 1;
    gpu_block_state *b = rank < 0 ? gpu_self->warp->block : gpu_block_of(rank);
    int64_t first = (int64_t)(at & ((1u << RANK_SHIFT) - 1)) - GPU_FIRST;
    if (b == NULL) {
        gpu_fault("its cluster has no block %d", rank);
    }
    if (first < 0 || first + bytes > (int64_t)gpu_shared_bytes()) {
        gpu_fault("%d bytes at %lld of %u of dynamic shared memory", bytes, (long long)first,
                  gpu_shared_bytes());
    }
    return b->window + GPU_FIRST + first;
}

/* --- a thread's own copies -------------------------------------------------------------------- */

static void copy_now(const gpu_one_copy *c)
{
    memcpy(c->to, c->from, (size_t)c->bytes);
    memset(c->to + c->bytes, 0, (size_t)(c->n - c->bytes));
}

static void *more_room(void *items, int *room, size_t each)
{
    *room = *room > 0 ? 2 * *room : 64;
    items = realloc(items, (size_t)*room * each);
    if (items == NULL) {
        abort();
    }
    return items;
}

void gpu_copy(char *to, const void *from, int n, int bytes)
{
    gpu_fiber *f = gpu_self;
    gpu_one_copy c = {to, from, n, bytes, f->n_group};
    if (((uintptr_t)to | (uintptr_t)(bytes > 0 ? from : NULL)) % (uintptr_t)n != 0) {
        gpu_fault("a copy of %d bytes from %p to %p, one of which is not aligned", n, from, to);
    }
    if (gpu_draw() % 2 == 0) {
        copy_now(&c);
        return;
    }
    if (f->n_copy == f->room) {
        f->copies = more_room(f->copies, &f->room, sizeof *f->copies);
    }
    f->copies[f->n_copy++] = c;
}

void gpu_copies_commit(void)
{
    gpu_self->n_group++;
}

static void copies_until(gpu_fiber *f, int64_t group)
{
    int n = 0;
    while (n < f->n_copy && f->copies[n].group < group) {
        copy_now(&f->copies[n++]);
    }
    f->n_copy -= n;
    memmove(f->copies, f->copies + n, (size_t)f->n_copy * sizeof *f->copies);
}

void gpu_copies_wait(int n)
{
    if (!gpu_is_without("copies_wait")) {
        copies_until(gpu_self, gpu_self->n_group - n);
    }
}

void gpu_copies_end(gpu_fiber *f)
{
    copies_until(f, INT64_MAX);
}

/* --- barriers of phases ----------------------------------------------------------------------- */

typedef struct phases {
    int32_t bytes; /* that were announced and have not come; negative where they came first */
    uint16_t parity : 1, left : 15; /* arrivals of this phase */
    uint16_t count;
} phases;

_Static_assert(sizeof(phases) == 8, "it has 8 bytes of shared memory");

static phases *phases_at(uint32_t at)
{
    return (phases *)(void *)gpu_shared(at, sizeof(phases));
}

void gpu_phases_init(uint32_t at, int count)
{
    *phases_at(at) = (phases){.left = (uint16_t)count, .count = (uint16_t)count};
}

static void phases_look(phases *p)
{
    if (p->left == 0 && p->bytes == 0) {
        p->left = p->count;
        p->parity ^= 1;
        gpu_wake_phase((const char *)p, !p->parity);
    }
}

void gpu_phases_arrive(uint32_t at, int bytes)
{
    phases *p = phases_at(at);
    if (p->left == 0) {
        gpu_fault("an arrival at a barrier at which all have arrived");
    }
    p->bytes += bytes;
    p->left--;
    phases_look(p);
}

void gpu_phases_wait(uint32_t at, int parity)
{
    phases *p = phases_at(at);
    if (p->parity == (unsigned)parity && !gpu_is_without("bulk_wait")) {
        gpu_self->phase = (const char *)p;
        gpu_self->parity = parity;
        gpu_wait("a barrier of phases");
    }
}

/* --- bulk copies ------------------------------------------------------------------------------ */

typedef struct bulk {
    char *to;
    const void *from;
    int bytes;
    phases *barrier;
} bulk;

static struct {
    bulk *items;
    int n, room;
} all;

static void bulk_do(const bulk *b)
{
    memcpy(b->to, b->from, (size_t)b->bytes);
    b->barrier->bytes -= b->bytes;
    phases_look(b->barrier);
}

int gpu_bulk_under_way(void)
{
    return all.n;
}

bool gpu_bulk_one(void)
{
    if (all.n == 0) {
        return false;
    }
    int i = (int)(gpu_draw() % (uint32_t)all.n);
    bulk b = all.items[i];
    all.items[i] = all.items[--all.n];
    bulk_do(&b);
    return true;
}

void gpu_bulk_forget(void)
{
    all.n = 0;
}

void gpu_bulk_copy(uint32_t to, const void *from, int bytes, uint32_t barrier, int n_block)
{
    if (((uintptr_t)from | to | (uintptr_t)bytes) % 16 != 0) {
        gpu_fault("a bulk copy of %d bytes from %p to %u, which are no multiples of 16", bytes,
                  from, to);
    }
    for (int i = 0; i < (n_block > 0 ? n_block : 1); i++) {
        bulk b = {gpu_shared(n_block > 0 ? gpu_cluster_at(to, i) : to, bytes), from, bytes,
                  phases_at(n_block > 0 ? gpu_cluster_at(barrier, i) : barrier)};
        if (all.n == all.room) {
            all.items = more_room(all.items, &all.room, sizeof *all.items);
        }
        all.items[all.n++] = b;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a grid, a cluster after the other in an order that is drawn. */
#include "emulated_gpu/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

unsigned gpu_shared_bytes(void)
{
    return gpu_now.launch->shared_bytes;
}

gpu_block_state *gpu_block_of(int rank)
{
    return rank >= 0 && rank < gpu_now.n_block ? gpu_now.blocks[rank] : NULL;
}

static void block_make(gpu_block_state *b, unsigned n_thread)
{
    b->n_thread = (int)n_thread;
    b->n_warp = (b->n_thread + GPU_WARP - 1) / GPU_WARP;
    memset(b->barriers, 0, sizeof b->barriers);
    for (int i = 0; i < b->n_thread; i++) {
        gpu_fiber *f = &b->fibers[i];
        f->at = (gpu_dim){(unsigned)i, 0, 0};
        f->warp = &b->warps[i / GPU_WARP];
        f->lane = i % GPU_WARP;
        f->state = GPU_READY;
        f->barrier = -1;
        f->phase = NULL;
        f->arrived = -1;
        f->n_copy = 0;
        f->n_group = 0;
    }
    for (int i = 0; i < b->n_warp; i++) {
        gpu_warp *w = &b->warps[i];
        int left = b->n_thread - i * GPU_WARP;
        w->block = b;
        w->number = i;
        w->fibers = &b->fibers[i * GPU_WARP];
        w->arrived = 0;
        w->n_wide = 0;
        w->n_group = 0;
        w->ready = left < GPU_WARP ? (1u << left) - 1 : ~0u;
        w->listed = gpu_now.n_ready;
        gpu_now.ready[gpu_now.n_ready++] = w;
    }
    memset(b->window + GPU_FIRST, 0xff, gpu_now.launch->shared_bytes);
}

/* What the threads wait for, when nothing can go on. */
static void tell_why(void)
{
    const char *words[8];
    int counts[8], n = 0, n_ended = 0;
    for (int b = 0; b < gpu_now.n_block; b++) {
        for (int i = 0; i < gpu_now.blocks[b]->n_thread; i++) {
            const gpu_fiber *f = &gpu_now.blocks[b]->fibers[i];
            int at = 0;
            while (f->state == GPU_WAITS && at < n && strcmp(words[at], f->word) != 0) {
                at++;
            }
            if (f->state == GPU_WAITS && at == n && n < 8) {
                words[n] = f->word;
                counts[n++] = 0;
            }
            n_ended += f->state == GPU_ENDED;
            if (f->state == GPU_WAITS && at < n) {
                counts[at]++;
            }
        }
    }
    int used = snprintf(gpu_now.why, sizeof gpu_now.why,
                        "%s, block (%u, %u): no thread can go on:", gpu_now.launch->kernel->name,
                        gpu_now.blocks[0]->at.x, gpu_now.blocks[0]->at.y);
    for (int i = 0; i < n; i++) {
        used += snprintf(gpu_now.why + used, sizeof gpu_now.why - (size_t)used, " %d wait at %s,",
                         counts[i], words[i]);
    }
    snprintf(gpu_now.why + used, sizeof gpu_now.why - (size_t)used, " %d have ended", n_ended);
    gpu_now.failed = true;
}

static void cluster_walk(void)
{
    while (gpu_now.n_alive > 0 && !gpu_now.failed) {
        gpu_fiber *f = gpu_next();
        if (gpu_bulk_under_way() > 0 && (f == NULL || gpu_draw() % 2 == 0)) {
            gpu_bulk_one();
        }
        if (f != NULL) {
            gpu_switch_to(&gpu_now.home, f);
        } else if (gpu_now.n_ready == 0 && gpu_bulk_under_way() == 0 && gpu_now.n_alive > 0) {
            tell_why();
        }
    }
    while (!gpu_now.failed &&
           gpu_bulk_one()) { /* into blocks that have ended: a fault of its own */
        snprintf(gpu_now.why, sizeof gpu_now.why, "%s: a bulk copy comes to a block that has ended",
                 gpu_now.launch->kernel->name);
        gpu_now.failed = true;
    }
}

/* Threads of a grid that failed have theirs. */
static void stacks_gather(void)
{
    for (int b = 0; b < gpu_now.n_block; b++) {
        for (int i = 0; i < gpu_now.blocks[b]->n_thread; i++) {
            if (gpu_now.blocks[b]->fibers[i].stack != NULL) {
                gpu_stack_leave(&gpu_now.blocks[b]->fibers[i]);
            }
        }
    }
}

static void block_find(gpu_block_state **b, int rank)
{
    if (*b == NULL) {
        *b = calloc(1, sizeof **b);
        char *window =
            mmap(NULL, GPU_WINDOW, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (*b == NULL || window == MAP_FAILED) {
            abort();
        }
        (*b)->window = window;
    }
    (*b)->rank = rank;
}

bool gpu_run(const gpu_launch *l, char *why, size_t size)
{
    int64_t n = (int64_t)l->grid.x * l->grid.y / l->kernel->cluster;
    gpu_now.launch = l;
    gpu_now.failed = false;
    gpu_now.random = (gpu_wish.seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    gpu_wish.seed++;
    gpu_now.is_without = strcmp(gpu_wish.without_kernel, l->kernel->name) == 0;
    gpu_threads = l->block;
    gpu_blocks = l->grid;
    memset(l->of->shared, 0xff, (size_t)(l->of->shared_end - l->of->shared));
    int64_t first = n > 0 ? gpu_draw() % n : 0, step = gpu_draw() % 2 != 0 ? 1 : n - 1;
    for (int64_t i = 0, at = first; i < n && !gpu_now.failed; i++, at = (at + step) % n) {
        gpu_now.n_block = l->kernel->cluster;
        gpu_now.n_ready = gpu_now.cluster_arrived = 0;
        gpu_now.cluster_phase = 0;
        gpu_now.now = NULL;
        gpu_now.n_alive = gpu_now.n_block * (int)l->block.x;
        gpu_bulk_forget();
        for (int b = 0; b < gpu_now.n_block; b++) {
            int64_t block = at * gpu_now.n_block + b;
            block_find(&gpu_now.blocks[b], b);
            gpu_now.blocks[b]->at =
                (gpu_dim){(unsigned)(block % l->grid.x), (unsigned)(block / l->grid.x), 0};
            block_make(gpu_now.blocks[b], l->block.x);
        }
        cluster_walk();
        if (gpu_now.failed) {
            stacks_gather();
        }
    }
    snprintf(why, size, "%s", gpu_now.failed ? gpu_now.why : "");
    gpu_now.launch = NULL;
    gpu_self = NULL;
    return !gpu_now.failed;
}

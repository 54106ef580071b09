/* SPDX-License-Identifier: Apache-2.0 */
/* Where threads wait for each other: barriers of blocks and clusters, and words that a warp says
 * together. */
#include "emulated_gpu/inside.h"

void gpu_barrier(const char *word, int id, int n)
{
    gpu_block_state *b = gpu_self->warp->block;
    if (gpu_is_without(word)) {
        return;
    }
    n = n > 0 ? n : b->n_thread;
    if (b->barriers[id].arrived > 0 && b->barriers[id].n != n) {
        gpu_fault("%s of %d threads, where others wait for %d", word, n, b->barriers[id].n);
    }
    b->barriers[id].n = n;
    if (++b->barriers[id].arrived < n) {
        gpu_self->barrier = id;
        gpu_wait(word);
        return;
    }
    b->barriers[id].arrived = 0;
    for (int i = 0; i < b->n_thread; i++) {
        gpu_fiber *f = &b->fibers[i];
        if (f->state == GPU_WAITS && f->barrier == id) {
            f->barrier = -1;
            gpu_wake(f);
        }
    }
}

void gpu_meet(gpu_warp_word word, uint32_t mask, void *own)
{
    gpu_warp *w = gpu_self->warp;
    uint32_t bit = 1u << gpu_self->lane;
    const char *name = gpu_warp_acts[word].name;
    if (gpu_is_without(name)) {
        return;
    }
    if ((mask & bit) == 0) {
        gpu_fault("%s without this lane in its mask %08x", name, mask);
    }
    if (w->arrived == 0) {
        w->word = word;
        w->mask = mask;
    } else if (w->word != word || w->mask != mask) {
        gpu_fault("%s (mask %08x), where lanes of its warp are at %s (%08x)", name, mask,
                  gpu_warp_acts[w->word].name, w->mask);
    }
    w->own[gpu_self->lane] = own;
    w->arrived |= bit;
    if (w->arrived != mask) {
        gpu_wait(name);
        return;
    }
    w->arrived = 0;
    if (gpu_warp_acts[word].act != NULL) {
        gpu_warp_acts[word].act(w, w->own, mask);
    }
    for (uint32_t left = mask & ~bit; left != 0; left &= left - 1) {
        gpu_wake(&w->fibers[__builtin_ctz(left)]);
    }
}

void gpu_cluster_meet(void)
{
    if (gpu_now.cluster_arrived == 0 || gpu_now.cluster_arrived < gpu_now.n_alive) {
        return;
    }
    gpu_now.cluster_arrived = 0;
    gpu_now.cluster_phase++;
    for (int b = 0; b < gpu_now.n_block; b++) {
        for (int i = 0; i < gpu_now.blocks[b]->n_thread; i++) {
            gpu_fiber *f = &gpu_now.blocks[b]->fibers[i];
            if (f->state == GPU_WAITS && f->barrier == GPU_BARRIERS) {
                f->barrier = -1;
                gpu_wake(f);
            }
        }
    }
}

void gpu_cluster_arrive(void)
{
    if (!gpu_is_without("cluster_sync")) {
        if (gpu_self->arrived == gpu_now.cluster_phase) {
            gpu_fault("it arrives twice at a barrier of the cluster");
        }
        gpu_self->arrived = gpu_now.cluster_phase;
        gpu_now.cluster_arrived++;
        gpu_cluster_meet();
    }
}

void gpu_cluster_wait(void)
{
    if (!gpu_is_without("cluster_sync") && gpu_self->arrived == gpu_now.cluster_phase) {
        gpu_self->barrier = GPU_BARRIERS;
        gpu_wait("a barrier of the cluster");
    }
}

void gpu_wake_phase(const char *phase, int parity)
{
    for (int b = 0; b < gpu_now.n_block; b++) {
        for (int i = 0; i < gpu_now.blocks[b]->n_thread; i++) {
            gpu_fiber *f = &gpu_now.blocks[b]->fibers[i];
            if (f->state == GPU_WAITS && f->phase == phase && f->parity == parity) {
                f->phase = NULL;
                gpu_wake(f);
            }
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the emulated GPU know of each other: threads, warps and blocks that run. */
#ifndef EMULATED_GPU_INSIDE_H
#define EMULATED_GPU_INSIDE_H

#include "emulated_gpu/gpu.h"

enum {
    GPU_WARP = 32,
    GPU_MAX_THREADS = 1024, /* of a block */
    GPU_MAX_WARPS = GPU_MAX_THREADS / GPU_WARP,
    GPU_MAX_CLUSTER = 4,
    GPU_BARRIERS = 16,
    GPU_WINDOW = 256 << 10, /* of shared memory, of which a block has what is asked for */
    GPU_FIRST = 1152,       /* where dynamic shared memory begins: a multiple of 128 alone */
};

typedef enum gpu_state { GPU_READY, GPU_WAITS, GPU_ENDED } gpu_state;

typedef struct gpu_one_copy {
    char *to;
    const void *from;
    int n, bytes;
    int64_t group;
} gpu_one_copy;

typedef struct gpu_warp gpu_warp;

typedef struct gpu_fiber {
    void *sp;
    char *stack; /* its end; NULL: it has not begun, or has ended */
    gpu_dim at;
    gpu_warp *warp;
    int lane;
    gpu_state state;
    const char *word;  /* that it waits in */
    int barrier;       /* its number, or -1 */
    const char *phase; /* the barrier of phases, or NULL */
    int parity;
    int64_t arrived; /* at which barrier of the cluster it was last */
    gpu_one_copy *copies;
    int n_copy, room;
    int64_t n_group;
} gpu_fiber;

/* Something for the unit, when the warp asked for it: what lanes have in registers is read then. */
typedef struct gpu_wide_item {
    float *c[GPU_WARP];
    uint32_t a[GPU_WARP][4];
    gpu_wide form;
    int64_t group;
} gpu_wide_item;

typedef struct gpu_block_state gpu_block_state;

struct gpu_warp {
    gpu_block_state *block;
    int number; /* in its block */
    gpu_fiber *fibers;
    uint32_t ready;
    int listed; /* where in the list of those with ready lanes, or -1 */
    gpu_warp_word word;
    uint32_t mask, arrived;
    void *own[GPU_WARP];
    gpu_wide_item *wide;
    int n_wide, wide_room;
    int64_t n_group;
};

struct gpu_block_state {
    gpu_dim at;
    int rank, n_warp, n_thread;
    char *window;
    char flag[16];
    struct {
        int arrived, n;
    } barriers[GPU_BARRIERS];
    gpu_warp warps[GPU_MAX_WARPS];
    gpu_fiber fibers[GPU_MAX_THREADS];
};

/* The launch and cluster that run. */
typedef struct gpu_running {
    const gpu_launch *launch;
    gpu_block_state *blocks[GPU_MAX_CLUSTER];
    int n_block, n_alive, n_ready;
    gpu_warp *ready[GPU_MAX_CLUSTER * GPU_MAX_WARPS];
    gpu_warp *now;
    int64_t cluster_phase;
    int cluster_arrived;
    bool is_without; /* this kernel lacks a barrier */
    bool failed;
    void *home; /* of the thread that runs all this */
    uint64_t random;
    char why[512];
} gpu_running;
extern gpu_running gpu_now;

/* The thread that runs. */
extern gpu_fiber *gpu_self;

/* A number that is drawn. */
uint32_t gpu_draw(void);

/* Whether this barrier of this kernel is taken away. */
bool gpu_is_without(const char *word);

/* units.c: what the lanes of a warp do together, each with its own of `own`; those that need shared
 * memory read it now. */
extern const struct gpu_warp_act {
    const char *name;
    void (*act)(gpu_warp *w, void *const *own, uint32_t mask);
} gpu_warp_acts[GPU_WARP_WORDS];

/* wide.c */
void gpu_wide_ask(gpu_warp *w, void *const *own, uint32_t mask);
void gpu_wide_commit(gpu_warp *w, void *const *own, uint32_t mask);
void gpu_wide_until(gpu_warp *w, void *const *own, uint32_t mask);

/* copies.c */
void gpu_copies_end(gpu_fiber *f);
bool gpu_bulk_one(void); /* of those under way; false: there is none */
void gpu_bulk_forget(void);
int gpu_bulk_under_way(void);

/* fibers.c: let others run until this one is ready; make it so. Who is next, mostly of the same warp
 * (NULL: nobody is ready), and going there, or home. A stack is given back. */
void gpu_wait(const char *word);
void gpu_wake(gpu_fiber *f);
gpu_fiber *gpu_next(void);
void gpu_switch_to(void **from, gpu_fiber *next);
void gpu_stack_leave(gpu_fiber *f);

/* barriers.c: a thread has ended, or a phase. */
void gpu_cluster_meet(void);
void gpu_wake_phase(const char *phase, int parity);

/* blocks.c */
gpu_block_state *gpu_block_of(int rank);
unsigned gpu_shared_bytes(void); /* that a block has of this launch */

#endif

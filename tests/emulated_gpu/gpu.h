/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU that is not there: kernels.cu compiled for the CPU (kernels.cc), whose threads are fibers
 * (blocks.c), behind the functions of a driver (driver.c). All blocks of a cluster run at once and
 * each thread as far as it can before another does; who is next is drawn, so that what a barrier
 * should order comes in another order some time. What a real GPU may do late is done at once or as
 * late as it may be, which is drawn, too: copies and the unit of wide_unit.cuh. A barrier that some
 * do not reach, a lane that is missing and a phase that does not end are told as faults.
 * Threads: a launch at a time (driver.c has a lock). */
#ifndef EMULATED_GPU_GPU_H
#define EMULATED_GPU_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gpu_dim {
    unsigned x, y, z;
} gpu_dim;

/* A kernel: `run` is one thread. `cluster`: blocks of one. */
typedef struct gpu_kernel {
    const char *name;
    void (*run)(const void *args);
    size_t arg_bytes;
    int cluster;
} gpu_kernel;

/* All kernels as one capability has them, and their variables in shared memory. */
typedef struct gpu_kernels {
    const gpu_kernel *kernels;
    int n;
    char *shared, *shared_end;
} gpu_kernels;

extern const gpu_kernels gpu_kernels_80, gpu_kernels_90;

typedef struct gpu_launch {
    const gpu_kernels *of;
    const gpu_kernel *kernel;
    gpu_dim grid, block;
    unsigned shared_bytes;
    const void *args;
} gpu_launch;

/* Run a grid to its end; false: `why` says what went wrong. */
bool gpu_run(const gpu_launch *launch, char *why, size_t size);

/* Barriers that a test takes away: `word` is one of the kernel's; NULL: none. */
typedef struct gpu_wishes {
    uint64_t seed;
    char without_word[32], without_kernel[64];
} gpu_wishes;
extern gpu_wishes gpu_wish;

/* Where a fault of memory happened; empty outside of kernels. */
void gpu_place(char *text, size_t size);

/* --- what words.h makes words of: called by the threads ---------------------------------------- */

extern gpu_dim gpu_thread, gpu_block, gpu_threads, gpu_blocks;

__attribute__((noreturn, format(printf, 1, 2))) void gpu_fault(const char *fmt, ...);

/* Barrier `id` of a block, for n threads (0: all). */
void gpu_barrier(const char *word, int id, int n);

/* Words that all lanes of a mask say together; `own` is what the lane gives and gets. */
typedef enum gpu_warp_word {
    GPU_SYNCWARP,
    GPU_SHUFFLE,
    GPU_VOTE,
    GPU_REDUCE_ADD,
    GPU_REDUCE_MAX,
    GPU_REDUCE_MIN,
    GPU_REDUCE_UMAX,
    GPU_LOAD_PARTS2,
    GPU_LOAD_PARTS4,
    GPU_LOAD_TURNED4,
    GPU_MMA_BF16,
    GPU_MMA_S8,
    GPU_MMA_S8_HALF,
    GPU_WIDE_MMA,
    GPU_WIDE_COMMIT,
    GPU_WIDE_UNTIL,
    GPU_WARP_WORDS
} gpu_warp_word;
void gpu_meet(gpu_warp_word word, uint32_t mask, void *own);

typedef struct gpu_shuffle {
    uint64_t in, out;
    int from;
} gpu_shuffle;

typedef struct gpu_number { /* a vote or a reduction */
    uint32_t in, out;
} gpu_number;

typedef struct gpu_parts {
    uint32_t at, r[4];
} gpu_parts;

typedef struct gpu_mma { /* c is floats or integers */
    void *c;
    const uint32_t *a;
    uint32_t b[2];
    int begin;
} gpu_mma;

/* The first operand is in registers, or where a_at says; TURNED: the second is lines of columns. */
typedef struct gpu_wide {
    float *c;
    const uint32_t *a;
    uint64_t a_at, b_at;
    int n;
    bool is_f16, adds, turned;
} gpu_wide;

/* Shared memory: the dynamic part as a pointer; a place as a number and back. */
char *gpu_dynamic(void);
uint32_t gpu_shared_at(const void *p);
char *gpu_shared(uint32_t at, int bytes);
char *gpu_flag(void);

/* Copies of this thread: `bytes` of `n` are there, the others become zeros. */
void gpu_copy(char *to, const void *from, int n, int bytes);
void gpu_copies_commit(void);
void gpu_copies_wait(int n);

void gpu_cluster_arrive(void);
void gpu_cluster_wait(void);
uint32_t gpu_cluster_at(uint32_t at, int rank);

void gpu_phases_init(uint32_t at, int count);
void gpu_phases_arrive(uint32_t at, int bytes);
void gpu_phases_wait(uint32_t at, int parity);
void gpu_bulk_copy(uint32_t to, const void *from, int bytes, uint32_t barrier, int n_block);

#ifdef __cplusplus
}
#endif
#endif

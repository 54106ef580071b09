/* SPDX-License-Identifier: Apache-2.0 */
/* Threads as fibers with a stack each, and who of them is next. */
#include "emulated_gpu/inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STACK_BYTES = 128 << 10, GUARD_BYTES = 4096 };
enum { MOVE_ON = 8, BULK_COMES = 32 }; /* one in so many times */

gpu_dim gpu_thread, gpu_block, gpu_threads, gpu_blocks;
gpu_running gpu_now;
gpu_fiber *gpu_self;
gpu_wishes gpu_wish;

uint32_t gpu_draw(void)
{
    gpu_now.random ^= gpu_now.random << 13;
    gpu_now.random ^= gpu_now.random >> 7;
    gpu_now.random ^= gpu_now.random << 17;
    return (uint32_t)(gpu_now.random >> 16);
}

bool gpu_is_without(const char *word)
{
    return gpu_now.is_without && strcmp(gpu_wish.without_word, word) == 0;
}

/* --- switching -------------------------------------------------------------------------------- */

/* Keep the registers that a call keeps, and go on with another stack. */
void gpu_switch(void **from, void *to);
#if defined __x86_64__
__asm__(".text\n.globl gpu_switch\n.hidden gpu_switch\n.type gpu_switch, @function\n"
        "gpu_switch:\n"
        "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
        "  mov %rsp, (%rdi)\n  mov %rsi, %rsp\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
        "  ret\n.size gpu_switch, .-gpu_switch\n");
enum { KEPT_WORDS = 6, LINK_WORD = 6 };
#elif defined __aarch64__
__asm__(".text\n.globl gpu_switch\n.hidden gpu_switch\n.type gpu_switch, %function\n"
        "gpu_switch:\n"
        "  stp x19, x20, [sp, #-160]!\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n"
        "  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
        "  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n  ldp x25, x26, [sp, #48]\n"
        "  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n  ldp d8, d9, [sp, #96]\n"
        "  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
        "  ldp x19, x20, [sp], #160\n"
        "  ret\n.size gpu_switch, .-gpu_switch\n");
enum { KEPT_WORDS = 20, LINK_WORD = 11 };
#else
#error "no switch of stacks for this family of CPUs"
#endif

static void fiber_start(gpu_fiber *f)
{
    gpu_self = f;
    gpu_thread = f->at;
    gpu_block = f->warp->block->at;
    gpu_now.now = f->warp;
}

/* Who is next: mostly of the same warp. NULL: nobody is ready. */
gpu_fiber *gpu_next(void)
{
    if (gpu_now.n_ready == 0) {
        return NULL;
    }
    uint32_t drawn = gpu_draw();
    if (gpu_now.now == NULL || gpu_now.now->ready == 0 || drawn % MOVE_ON == 0) {
        gpu_now.now = gpu_now.ready[drawn / MOVE_ON % (uint32_t)gpu_now.n_ready];
    }
    gpu_warp *w = gpu_now.now;
    uint32_t by = drawn >> 27, turned = w->ready >> by | (by != 0 ? w->ready << (32 - by) : 0);
    int lane = (int)((uint32_t)__builtin_ctz(turned) + by) % GPU_WARP;
    w->ready &= ~(1u << lane);
    if (w->ready == 0) {
        gpu_now.ready[w->listed] = gpu_now.ready[--gpu_now.n_ready];
        gpu_now.ready[w->listed]->listed = w->listed;
        w->listed = -1;
    }
    return &w->fibers[lane];
}

void gpu_wake(gpu_fiber *f)
{
    gpu_warp *w = f->warp;
    f->state = GPU_READY;
    if (w->ready == 0) {
        w->listed = gpu_now.n_ready;
        gpu_now.ready[gpu_now.n_ready++] = w;
    }
    w->ready |= 1u << f->lane;
}

/* Stacks that nobody has: the last that was given back is the first to be taken. */
static struct {
    char *items[GPU_MAX_CLUSTER * GPU_MAX_THREADS];
    int n, n_made;
} stacks;

static char *stack_make(void)
{
    enum { LINE = 64, COLOURS = 61 }; /* so that not all lie in the same lines of a cache */
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, GUARD_BYTES, PROT_NONE) != 0) {
        abort();
    }
    return stack + STACK_BYTES - stacks.n_made++ % COLOURS * LINE;
}

static void fiber_begin(void);

/* A thread that has not begun, which will on a stack of its own. */
static void stack_take(gpu_fiber *f)
{
    f->stack = stacks.n > 0 ? stacks.items[--stacks.n] : stack_make();
    uint64_t *top = (uint64_t *)(void *)f->stack - 2 - KEPT_WORDS;
    memset(top, 0, (KEPT_WORDS + 2) * sizeof *top);
    top[LINK_WORD] = (uint64_t)(uintptr_t)fiber_begin;
    f->sp = top;
}

void gpu_stack_leave(gpu_fiber *f)
{
    stacks.items[stacks.n++] = f->stack;
    f->stack = NULL;
}

static gpu_fiber *next_or_bulk(void)
{
    bool bulk_comes = gpu_bulk_under_way() > 0 && gpu_draw() % BULK_COMES == 0;
    return bulk_comes ? NULL : gpu_next();
}

/* To another thread, or home where there is none. */
void gpu_switch_to(void **from, gpu_fiber *next)
{
    void *to = gpu_now.home;
    if (next != NULL) {
        fiber_start(next);
        if (next->stack == NULL) {
            stack_take(next);
        }
        to = next->sp;
    }
    gpu_switch(from, to);
}

void gpu_wait(const char *word)
{
    gpu_fiber *self = gpu_self;
    self->state = GPU_WAITS;
    self->word = word;
    gpu_switch_to(&self->sp, next_or_bulk());
}

void gpu_fault(const char *fmt, ...)
{
    gpu_block_state *b = gpu_self->warp->block;
    int n = snprintf(gpu_now.why, sizeof gpu_now.why,
                     "%s, block (%u, %u), thread %u: ", gpu_now.launch->kernel->name, b->at.x,
                     b->at.y, gpu_self->at.x);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(gpu_now.why + n, sizeof gpu_now.why - (size_t)n, fmt, ap);
    va_end(ap);
    gpu_now.failed = true;
    gpu_switch(&gpu_self->sp, gpu_now.home);
    abort(); /* nobody comes back */
}

void gpu_place(char *text, size_t size)
{
    text[0] = '\0';
    if (gpu_now.launch != NULL && gpu_self != NULL) {
        snprintf(text, size, "%s, block (%u, %u), thread %u", gpu_now.launch->kernel->name,
                 gpu_block.x, gpu_block.y, gpu_thread.x);
    }
}

/* A thread that ends leaves its stack to one that has not begun, if that is the next. */
static void fiber_begin(void)
{
    for (;;) {
        gpu_now.launch->kernel->run(gpu_now.launch->args);
        gpu_fiber *self = gpu_self;
        gpu_copies_end(self);
        self->state = GPU_ENDED;
        gpu_now.n_alive--;
        gpu_now.cluster_arrived -= self->arrived == gpu_now.cluster_phase;
        gpu_cluster_meet();
        gpu_fiber *next = next_or_bulk();
        if (next != NULL && next->stack == NULL) {
            next->stack = self->stack;
            self->stack = NULL;
            fiber_start(next);
            continue;
        }
        gpu_stack_leave(self);
        gpu_switch_to(&self->sp, next);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Worker threads, their barrier and their sleep. */
#include "backends/cpu/workers.h"

#include "backends/cpu/float_env.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/os/futex.h"

#include <stdio.h>

/* How long a wait spins before it sleeps. A virtual machine takes 50 to 400 microseconds to bring
 * 15 sleepers back. Workers that gave up sooner than that were asleep again when the last of them
 * arrived, and so at every barrier. */
enum {
    SPIN_STEP_NS = 1000000, /* at a barrier: work is under way */
    SPIN_LIST_NS = 200000,  /* between lists: perhaps nothing comes */
    /* when workers share CPUs: who spins may hold up the worker that it waits for */
    SPIN_CROWDED_NS = 20000,
    SPIN_TURNS_PER_LOOK = 32, /* looks at the word between looks at the clock */
/* Tests run side by side on all CPUs: who spins takes one from another test. */
#ifdef WHIM_DEBUG
    BESIDE_OTHERS = true,
#else
    BESIDE_OTHERS = false,
#endif
};

/* Wait until *word is no longer `old`: spin, then sleep. Nothing yields in between: on a busy
 * machine a yield gives the core to another program for a whole time slice, while a sleeping
 * worker runs again as soon as it is woken. */
static void wait_change(whim_cpu_workers *w, _Atomic uint32_t *word, uint32_t old, int64_t spin_ns)
{
    spin_ns = w->crowded ? SPIN_CROWDED_NS : spin_ns;
    int64_t start = whim_clock_ns();
    do {
        for (int i = 0; i < SPIN_TURNS_PER_LOOK; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != old) {
                return;
            }
            whim_os_cpu_relax();
        }
    } while (whim_clock_ns() - start < spin_ns);
    /* The sleeper is counted before it looks again and the waker changes the word before it looks
     * at the count; both in one total order, so one of the two sees the other. */
    atomic_fetch_add(&w->sleepers, 1);
    while (atomic_load(word) == old) {
        whim_os_futex_wait(word, old, -1);
    }
    atomic_fetch_sub(&w->sleepers, 1);
}

static void change(whim_cpu_workers *w, _Atomic uint32_t *word)
{
    atomic_fetch_add(word, 1);
    if (atomic_load(&w->sleepers) > 0) {
        whim_os_futex_wake_all(word);
    }
}

static void barrier(whim_cpu_workers *w)
{
    if (w->count == 1) {
        return;
    }
    uint32_t phase = atomic_load_explicit(&w->phase, memory_order_relaxed);
    uint32_t before = atomic_fetch_add_explicit(&w->arrived, 1, memory_order_acq_rel);
    if (before + 1 == (uint32_t)w->count) {
        atomic_store_explicit(&w->arrived, 0, memory_order_relaxed);
        change(w, &w->phase);
    } else {
        wait_change(w, &w->phase, phase, SPIN_STEP_NS);
    }
}

void whim_cpu_meet(const whim_cpu_worker *self)
{
    barrier(self->pool);
}

/* The end of a section of n_ticket commands: its tickets go back to zero after the barrier, by the
 * last worker, because the first gets the odd items. */
static void section_end(whim_cpu_workers *w, whim_cpu_worker *self, int32_t n_ticket)
{
    barrier(w);
    if (self->index == self->count - 1) {
        for (int32_t i = 0; i < n_ticket; i++) {
            atomic_store_explicit(&w->tickets[self->section & 1][i].next, 0, memory_order_relaxed);
        }
    }
    self->section++;
}

/* Workers look when they have left a section, perhaps while worker 0 is in the next one: so the
 * word says which it was, and all stop behind the same. */
static uint64_t last_word(uint32_t section)
{
    return UINT64_C(1) << 32 | section;
}

void whim_cpu_list_stop(const whim_cpu_worker *self)
{
    atomic_store_explicit(&self->pool->last, last_word(self->section), memory_order_relaxed);
}

static bool is_stopped(whim_cpu_workers *w, const whim_cpu_worker *self)
{
    return atomic_load_explicit(&w->last, memory_order_relaxed) == last_word(self->section - 1);
}

static void walk(whim_cpu_workers *w, whim_cpu_worker *self)
{
    const whim_cpu_command *commands = w->commands;
    int64_t n = w->n_command;
    int32_t n_ticket = 0;
    for (int64_t i = 0; i < n; i++) {
        if (commands[i].barrier || n_ticket == WHIM_CPU_TICKETS) {
            section_end(w, self, n_ticket);
            n_ticket = 0;
            if (is_stopped(w, self)) {
                break; /* to the last barrier: nobody begins the next list before all have looked */
            }
        }
        self->ticket = &w->tickets[self->section & 1][n_ticket++];
        commands[i].kernel(commands[i].args, self);
    }
    section_end(w, self, n_ticket);
}

/* The CPUs that a worker keeps to; false: all that the process has. */
static bool own_cpus(const whim_cpu_workers *w, int32_t index, int32_t count, whim_os_mask *out)
{
    const whim_os_topology *t = whim_os_topology_get();
    int32_t begin, end;
    whim_os_topology_slice(t, w->part * count + index, w->n_part * count, &begin, &end);
    whim_os_topology_mask(t, begin, end, out);
    return end - begin < t->n_cpu;
}

static void worker_main(void *ctx)
{
    whim_cpu_worker *self = ctx;
    whim_cpu_workers *w = self->pool;
    uint32_t seen = 0;
    whim_os_mask own;
    if (own_cpus(w, self->index, self->count, &own)) {
        (void)whim_os_thread_set_mask(&own); /* a refusal: slower, not wrong */
    }
    whim_float_env_enter();
    for (;;) {
        wait_change(w, &w->list, seen, SPIN_LIST_NS);
        seen++;
        if (atomic_load(&w->stop)) {
            return;
        }
        walk(w, self);
    }
}

whim_err whim_cpu_workers_init(whim_cpu_workers *w, int32_t count, int32_t part, int32_t n_part,
                               whim_diag *diag)
{
    *w = (whim_cpu_workers){.count = 1, .part = part, .n_part = n_part};
    pthread_mutex_init(&w->lock, NULL);
    w->threads = whim_alloc_array(count, sizeof *w->threads);
    w->workers = whim_alloc_array(count, sizeof *w->workers);
    w->scratch = whim_alloc_array(count, WHIM_CPU_SCRATCH);
    w->own = whim_alloc_array(count, WHIM_CPU_OWN_BYTES);
    if (w->threads == NULL || w->workers == NULL || w->scratch == NULL || w->own == NULL) {
        whim_cpu_workers_deinit(w);
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for %d worker threads", count);
    }
    for (int32_t i = 0; i < count; i++) {
        w->workers[i] = (whim_cpu_worker){
            .pool = w,
            .index = i,
            .count = count,
            .scratch = (char *)w->scratch + (int64_t)i * WHIM_CPU_SCRATCH,
            .own = (char *)w->own + (int64_t)i * WHIM_CPU_OWN_BYTES,
        };
    }
    w->pinned = own_cpus(w, 0, count, &w->lead);
    w->crowded = BESIDE_OTHERS || (int64_t)count * n_part > whim_os_topology_get()->n_cpu;
    for (int32_t i = 1; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "whim-cpu-%d", i);
        whim_err err =
            whim_thread_create(&w->threads[i - 1], name, worker_main, &w->workers[i], diag);
        if (err != WHIM_ERR_OK) {
            whim_cpu_workers_deinit(w);
            return err;
        }
        w->count = i + 1;
    }
    return WHIM_ERR_OK;
}

void whim_cpu_workers_deinit(whim_cpu_workers *w)
{
    atomic_store(&w->stop, 1);
    change(w, &w->list);
    for (int32_t i = 1; i < w->count; i++) {
        whim_thread_join(&w->threads[i - 1]);
    }
    pthread_mutex_destroy(&w->lock);
    whim_free(w->threads);
    whim_free(w->workers);
    whim_free(w->scratch);
    whim_free(w->own);
    *w = (whim_cpu_workers){0};
}

/* Narrow the calling thread to worker 0's CPUs; false: it stays as it is. */
static bool lead_pin(const whim_cpu_workers *w, whim_os_mask *before)
{
    return w->pinned && whim_os_thread_mask(before) && whim_os_mask_covers(before, &w->lead) &&
           !whim_os_mask_covers(&w->lead, before) && whim_os_thread_set_mask(&w->lead);
}

void whim_cpu_workers_run(whim_cpu_workers *w, const whim_cpu_command *commands, int64_t n_command)
{
    if (n_command == 0) {
        return;
    }
    pthread_mutex_lock(&w->lock);
    w->commands = commands;
    w->n_command = n_command;
    atomic_store_explicit(&w->last, 0, memory_order_relaxed);
    if (w->count > 1) {
        change(w, &w->list);
    }
    whim_os_mask mask;
    bool pinned = lead_pin(w, &mask);
    uint64_t before = whim_float_env_enter();
    walk(w, &w->workers[0]);
    whim_float_env_leave(before);
    if (pinned) {
        (void)whim_os_thread_set_mask(&mask);
    }
    pthread_mutex_unlock(&w->lock);
}

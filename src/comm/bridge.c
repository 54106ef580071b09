/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a bridge, and how it waits. */
#include "comm/bridge_inner.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/os/futex.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    TURNS_PER_LOOK = 64, /* looks for news between looks at the clock */
    SPIN_NS = 50000,     /* without news, then it sleeps */
    NAP_MS = 100,
    WORK_MS = 100,        /* between looks whether ranks work; some fit into any deadline */
    LEAVE_NS = 300000000, /* for others to hear that it leaves */
};

/* --- the bell --------------------------------------------------------------------------------- */

static void listener_main(void *ctx)
{
    whim_bridge *b = ctx;
    uint32_t heard = atomic_load(&b->shared->bell.n);
    while (!atomic_load(&b->is_closing)) {
        whim_os_futex_wait_shared(&b->shared->bell.n, heard, NAP_MS * WHIM_NS_PER_MS);
        uint32_t now = atomic_load(&b->shared->bell.n);
        if (now != heard) {
            heard = now;
            (void)eventfd_write(b->bell, 1);
        }
    }
}

/* Until there is news, from here or elsewhere. Counted before the look, as in shared.c. */
static void sleep_by(whim_bridge *b)
{
    eventfd_t ignored;
    atomic_fetch_add(&b->shared->bell.sleepers, 1);
    bool awake = whim_bridge_has_news(b) || atomic_load(&b->shared->state) != WHIM_COMM_GOOD ||
                 atomic_load(&b->is_stopped);
    int fd = awake ? -1 : b->ops->arm(b->link);
    if (fd >= 0) {
        struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = b->bell, .events = POLLIN}};
        if (poll(fds, 2, NAP_MS) > 0 && fds[1].revents != 0) {
            (void)eventfd_read(b->bell, &ignored);
        }
    }
    atomic_fetch_sub(&b->shared->bell.sleepers, 1);
}

/* One look at everything, and a nap when there was nothing for a while. */
typedef struct watch {
    int64_t idle_since_ns;
    int32_t n_turn;
} watch;

static void turn(whim_bridge *b, watch *w, bool gives)
{
    bool any = gives && whim_bridge_give(b);
    any = b->ops->poll(b->link) || any;
    if (any) {
        *w = (watch){0};
        return;
    }
    if (b->yields) { /* who has news may wait for this CPU */
        sched_yield();
    } else if (++w->n_turn % TURNS_PER_LOOK != 0) {
        whim_os_cpu_relax();
        return;
    }
    int64_t now = whim_clock_ns();
    if (w->idle_since_ns == 0) {
        w->idle_since_ns = now;
    } else if (now - w->idle_since_ns > SPIN_NS) {
        if (gives && now >= b->work_at) { /* it reads files: not while news may come at once */
            b->work_at = now + WORK_MS * WHIM_NS_PER_MS;
            whim_bridge_give_work(b);
            whim_bridge_give_meters(b);
        }
        sleep_by(b);
        *w = (watch){0};
    }
}

/* --- a group ---------------------------------------------------------------------------------- */

static bool all_left(const whim_bridge *b)
{
    for (int32_t i = 0; i < b->n_node; i++) {
        if (i != b->node && b->nodes[i].is_there && !b->nodes[i].has_left) {
            return false;
        }
    }
    return true;
}

/* The other nodes hear of the end, and answer: what was sent before has arrived then. */
static void leave(whim_bridge *b)
{
    whim_link_head head = {.kind = WHIM_LINK_BYE};
    whim_diag diag = {""};
    if (whim_comm_has_ended(b->shared)) {
        (void)whim_comm_why(b->shared, &diag);
        head.kind = WHIM_LINK_END;
        head.bytes = snprintf(b->said, sizeof b->said, "%s", diag.text);
    }
    for (int32_t i = 0; i < b->n_node; i++) {
        if (i != b->node && !b->nodes[i].was_told) {
            b->nodes[i].was_told = true;
            whim_bridge_send(b, i, head, b->said);
        }
    }
    int64_t until = whim_clock_ns() + LEAVE_NS;
    while ((!all_left(b) || b->ops->n_waiting(b->link) > 0) && whim_clock_ns() < until) {
        if (!b->ops->poll(b->link)) {
            whim_clock_sleep_ns(20000);
        }
    }
}

void whim_bridge_run(whim_bridge *b)
{
    watch w = {0};
    while (!whim_comm_has_ended(b->shared) && !atomic_load(&b->is_stopped)) {
        turn(b, &w, true);
    }
    if (!whim_comm_has_ended(b->shared)) {
        whim_bridge_give(b); /* the last letter may be why it is stopped */
    }
    leave(b);
}

void whim_bridge_stop(whim_bridge *b)
{
    atomic_store(&b->is_stopped, true);
    (void)eventfd_write(b->bell, 1);
}

int64_t whim_bridge_n_stale(const whim_bridge *b)
{
    return b->n_stale;
}

static int32_t first_missing(const whim_bridge *b)
{
    int32_t i = 0;
    while (i < b->n_node && (i == b->node || b->nodes[i].is_there)) {
        i++;
    }
    return i;
}

static whim_err hear_all(whim_bridge *b, int64_t wait_ns, whim_diag *diag)
{
    watch w = {0};
    int64_t until = whim_clock_ns() + wait_ns;
    int32_t missing;
    while ((missing = first_missing(b)) < b->n_node) {
        if (whim_comm_has_ended(b->shared)) {
            return whim_comm_why(b->shared, diag);
        }
        if (atomic_load(&b->is_stopped)) {
            return whim_fail(diag, WHIM_ERR_DEVICE, "node %d was stopped before all were there",
                             b->node);
        }
        if (whim_clock_ns() > until) {
            return whim_fail(diag, WHIM_ERR_DEVICE,
                             "node %d sent nothing to node %d within %.3g s: do their "
                             "hosts reach each other through the interface that was named?",
                             missing, b->node, (double)wait_ns / 1e9);
        }
        turn(b, &w, false);
    }
    return WHIM_ERR_OK;
}

whim_err whim_bridge_connect(whim_bridge *b, const whim_link_address *addresses, int64_t wait_ns,
                             whim_diag *diag)
{
    WHIM_TRY(b->ops->connect(b->link, addresses, diag));
    for (int32_t i = 0; i < b->n_node; i++) {
        if (i != b->node) {
            whim_bridge_send(b, i, (whim_link_head){.kind = WHIM_LINK_HELLO}, NULL);
        }
    }
    whim_err err = hear_all(b, wait_ns, diag);
    if (err != WHIM_ERR_OK) { /* those that are there hear why nothing becomes of it */
        whim_comm_shared_end(b->shared, diag->text);
        leave(b);
    }
    return err;
}

/* --- the beginning and the end ---------------------------------------------------------------- */

static whim_err cfg_check(const whim_bridge_cfg *cfg, whim_diag *diag)
{
    bool good = cfg->n_node >= 2 && cfg->n_node <= WHIM_LINK_MAX_NODE && cfg->node >= 0 &&
                cfg->node < cfg->n_node && cfg->rank_first[0] == 0 &&
                cfg->rank_first[cfg->n_node] == cfg->memory->shared->n_rank;
    for (int32_t i = 0; good && i < cfg->n_node; i++) {
        good = cfg->rank_first[i] < cfg->rank_first[i + 1];
    }
    return good ? WHIM_ERR_OK
                : whim_fail(diag, WHIM_ERR_INVALID,
                            "%d ranks on %d nodes do not match what node %d was told",
                            cfg->memory->shared->n_rank, cfg->n_node, cfg->node);
}

static void take_over(whim_bridge *b, const whim_bridge_cfg *cfg)
{
    b->shared = cfg->memory->shared;
    b->comm = (whim_comm){.shared = b->shared, .n_rank = b->shared->n_rank, .stride = 1};
    b->ops = cfg->ops;
    b->generation = cfg->generation;
    b->node = cfg->node;
    b->n_node = cfg->n_node;
    memcpy(b->rank_first, cfg->rank_first, sizeof b->rank_first[0] * (size_t)(cfg->n_node + 1));
    b->first = b->rank_first[b->node];
    b->end = b->rank_first[b->node + 1];
    b->yields = cfg->crowded;
    for (int32_t r = 0; r < b->shared->n_rank; r++) {
        b->ranks[r].n_round = cfg->first_round;
    }
}

static whim_err link_open(whim_bridge *b, const char *device, whim_link_address *address,
                          whim_diag *diag)
{
    b->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (b->bell < 0) {
        return whim_fail(diag, WHIM_ERR_IO, "no descriptor for a bridge: %s", strerror(errno));
    }
    WHIM_TRY(whim_thread_create(&b->listener, "bell", listener_main, b, diag));
    b->listens = true;
    whim_link_cfg cfg = {.node = b->node,
                         .n_node = b->n_node,
                         .device = device,
                         .hands = {b, whim_bridge_place, whim_bridge_came, whim_bridge_lost}};
    return b->ops->open(&cfg, &b->link, address, diag);
}

whim_err whim_bridge_open(const whim_bridge_cfg *cfg, whim_bridge **out, whim_link_address *address,
                          whim_diag *diag)
{
    WHIM_TRY(cfg_check(cfg, diag));
    int32_t n_rank = cfg->memory->shared->n_rank;
    whim_bridge *b = whim_alloc(sizeof *b);
    WHIM_TRY(whim_got(b != NULL, diag, "no memory for a bridge"));
    b->bell = -1;
    b->ranks = whim_alloc_array(n_rank, sizeof *b->ranks);
    whim_err err = whim_got(b->ranks != NULL, diag, "no memory for a bridge of %d ranks", n_rank);
    if (err == WHIM_ERR_OK) {
        take_over(b, cfg);
        err = link_open(b, cfg->device, address, diag);
    }
    if (err != WHIM_ERR_OK) {
        whim_bridge_close(b);
        return err;
    }
    *out = b;
    return WHIM_ERR_OK;
}

void whim_bridge_close(whim_bridge *b)
{
    if (b == NULL) {
        return;
    }
    if (b->link != NULL) {
        b->ops->close(b->link);
    }
    if (b->listens) {
        atomic_store(&b->is_closing, true);
        atomic_fetch_add(&b->shared->bell.n, 1);
        whim_os_futex_wake_all_shared(&b->shared->bell.n);
        whim_thread_join(&b->listener);
    }
    if (b->bell >= 0) {
        close(b->bell);
    }
    whim_free(b->ranks);
    whim_free(b);
}

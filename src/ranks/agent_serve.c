/* SPDX-License-Identifier: Apache-2.0 */
/* An agent that has joined: what its leader asks for, and what comes of it. */
#include "base/clock.h"
#include "ranks/agent_inner.h"
#include "ranks/bridge_order.h"
#include "ranks/order.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    LOOK_MS = 20,   /* between looks at processes that may have ended */
    END_S = 60,     /* for them to go; large ones take long */
    GIVE_MS = 5000, /* for one to take what it is told */
};

/* A sign of life, where something takes long; what comes meanwhile waits. A connection that fails
 * here fails where it is used next, and of a frame that is taken in part the rest is not lost. */
static void stay_alive(whim_agent *a)
{
    whim_diag diag;
    whim_err ignored = whim_wire_say(&a->wire, whim_clock_ns(), &diag);
    (void)ignored;
}

/* --- a generation ----------------------------------------------------------------------------- */

static bool all_ended(whim_agent *a)
{
    char how[WHIM_RANK_HOW];
    bool all = true;
    for (int32_t i = 0; i <= a->n; i++) {
        whim_rank_process *p = &a->processes[i];
        all = (p->pid == 0 || whim_rank_ended(p, how, sizeof how)) && all;
    }
    return all;
}

static void generation_end(whim_agent *a)
{
    int64_t until = whim_clock_ns() + END_S * WHIM_NS_PER_S;
    for (int32_t i = 0; i <= a->n; i++) {
        if (a->processes[i].pid != 0) {
            kill(a->processes[i].pid, SIGKILL);
        }
    }
    while (!all_ended(a)) {
        if (whim_clock_ns() < until) { /* beyond, the leader is to know that something is wrong */
            stay_alive(a);
        }
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    for (int32_t i = 0; i <= a->n; i++) {
        whim_rank_end(&a->processes[i], whim_clock_ns());
    }
    if (a->is_begun) {
        whim_comm_memory_close(&a->group);
        a->is_begun = false;
    }
}

static whim_err generation_begin(whim_agent *a, uint64_t generation, whim_diag *diag)
{
    generation_end(a);
    WHIM_TRY(whim_comm_memory_make(a->cfg->engine.n_rank, &a->group, diag));
    a->group.fd = whim_rank_fd(a->group.fd);
    a->is_begun = true;
    a->generation = generation;
    return WHIM_ERR_OK;
}

static int32_t channel_of(const whim_agent *a, int32_t place)
{
    return place == a->n ? WHIM_WIRE_BRIDGE : a->first + place;
}

static whim_err tell_leader(whim_agent *a, int32_t place, whim_wire_kind kind, const void *data,
                            size_t bytes, whim_diag *diag)
{
    whim_wire_head head = {.kind = kind,
                           .bytes = (uint32_t)bytes,
                           .generation = a->generation,
                           .channel = channel_of(a, place)};
    return whim_wire_send(&a->wire, head, data, diag);
}

/* --- to processes ----------------------------------------------------------------------------- */

/* One that has ended is no error here: its end is told when it is seen. */
static whim_err give(whim_agent *a, whim_rank_process *p, const void *data, size_t bytes,
                     whim_diag *diag)
{
    struct pollfd room = {.fd = p->socket, .events = POLLOUT};
    if (p->socket < 0) {
        return WHIM_ERR_OK;
    }
    ssize_t n = send(p->socket, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    for (int32_t ms = 0; n < 0 && errno == EAGAIN && ms < GIVE_MS; ms++) {
        stay_alive(a);
        (void)poll(&room, 1, 1);
        n = send(p->socket, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (n == (ssize_t)bytes || errno == EPIPE || errno == ECONNRESET) {
        return WHIM_ERR_OK;
    }
    return whim_fail(diag, WHIM_ERR_IO, "%s takes no orders: %s", p->name, strerror(errno));
}

/* What is this host's own: where the model lies, threads, the interface. */
static void order_fit(const whim_agent *a, whim_follower_order *order)
{
    const whim_engine_cfg *own = &a->cfg->engine;
    snprintf(order->model, sizeof order->model, "%s", own->model);
    snprintf(order->draft, sizeof order->draft, "%s", a->draft != NULL ? a->draft : "");
    if (own->kv_dir != NULL && order->kv_dir[0] != '\0') {
        snprintf(order->kv_dir, sizeof order->kv_dir, "%s", own->kv_dir);
    }
    order->n_thread = own->n_thread;
    order->crowded |= a->crowded;
}

static void bridge_order_fit(const whim_agent *a, whim_bridge_order *order)
{
    const char *device = a->cfg->nodes.device;
    snprintf(order->device, sizeof order->device, "%s", device != NULL ? device : "");
    order->crowded |= a->crowded;
}

/* The first message to a process is its order. */
static whim_err process_start(whim_agent *a, int32_t place, const void *data, uint32_t bytes,
                              whim_diag *diag)
{
    union {
        whim_follower_order rank;
        whim_bridge_order bridge;
    } order;
    bool is_bridge = place == a->n;
    size_t size = is_bridge ? sizeof order.bridge : sizeof order.rank;
    whim_rank_process *p = &a->processes[place];
    if (bytes != size) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "the leader's order for %s has %u bytes, not %zu",
                         p->name, bytes, size);
    }
    memcpy(&order, data, size);
    if (is_bridge) {
        bridge_order_fit(a, &order.bridge);
    } else {
        order_fit(a, &order.rank);
    }
    WHIM_TRY(whim_rank_start(p, whim_agent_program(a), is_bridge ? "bridge" : "rank", a->group.fd,
                             diag));
    return give(a, p, &order, size, diag);
}

static whim_err message_give(whim_agent *a, const whim_wire_head *head, const void *data,
                             whim_diag *diag)
{
    int32_t place = head->channel == WHIM_WIRE_BRIDGE ? a->n : head->channel - a->first;
    if (place < 0 || place > a->n || (place == a->n) != (head->channel == WHIM_WIRE_BRIDGE)) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "the leader wants rank %d here, not %d to %d",
                         head->channel, a->first, a->first + a->n - 1);
    }
    whim_rank_process *p = &a->processes[place];
    whim_diag why = {""};
    whim_err err = p->pid == 0 ? process_start(a, place, data, head->bytes, &why)
                               : give(a, p, data, head->bytes, &why);
    a->is_asked[place] = err == WHIM_ERR_OK;
    p->looks = (whim_rank_looks){0};
    if (err != WHIM_ERR_OK) { /* one process fails, not the connection */
        char how[WHIM_RANK_HOW];
        snprintf(how, sizeof how, "%.*s", (int)sizeof how - 1, why.text);
        return tell_leader(a, place, WHIM_WIRE_ENDED, how, strlen(how), diag);
    }
    return WHIM_ERR_OK;
}

static whim_err on_frame(void *ctx, const whim_wire_head *head, const void *data, whim_diag *diag)
{
    whim_agent *a = ctx;
    bool is_ours = a->is_begun && head->generation == a->generation;
    switch (head->kind) {
    case WHIM_WIRE_BEGIN:
        return generation_begin(a, head->generation, diag);
    case WHIM_WIRE_DATA: /* what belongs to another generation is nobody's */
        return is_ours ? message_give(a, head, data, diag) : WHIM_ERR_OK;
    case WHIM_WIRE_END:
        if (is_ours) {
            generation_end(a);
        }
        return WHIM_ERR_OK;
    default:
        return WHIM_ERR_OK;
    }
}

/* --- from processes --------------------------------------------------------------------------- */

/* All that it has said goes to the leader before the news of its end. */
static whim_err messages_take(whim_agent *a, int32_t place, whim_diag *diag)
{
    char data[WHIM_WIRE_MOST];
    whim_rank_process *p = &a->processes[place];
    while (p->socket >= 0) {
        ssize_t n = recv(p->socket, data, sizeof data, MSG_DONTWAIT);
        if (n > 0) {
            a->is_asked[place] = false;
            WHIM_TRY(tell_leader(a, place, WHIM_WIRE_DATA, data, (size_t)n, diag));
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            close(p->socket);
            p->socket = -1;
        } else {
            return WHIM_ERR_OK;
        }
    }
    return WHIM_ERR_OK;
}

/* One that will not answer is as good as gone; the leader, who waits for it, cannot see that. */
static bool has_ended(whim_agent *a, int32_t place, bool looks, char *how, size_t size)
{
    whim_rank_process *p = &a->processes[place];
    if (whim_rank_ended(p, how, size)) {
        return true;
    }
    bool hangs = looks && a->is_asked[place] && whim_rank_hangs(p, how, size);
    a->is_asked[place] = a->is_asked[place] && !hangs;
    return hangs;
}

static whim_err processes_look(whim_agent *a, whim_diag *diag)
{
    char how[WHIM_RANK_HOW];
    int64_t now = whim_clock_ns();
    bool looks = now >= a->look_at_ns;
    a->look_at_ns = looks ? now + WHIM_RANK_LOOK_MS * WHIM_NS_PER_MS : a->look_at_ns;
    for (int32_t i = 0; a->is_begun && i <= a->n; i++) {
        bool ended = has_ended(a, i, looks, how, sizeof how);
        WHIM_TRY(messages_take(a, i, diag));
        if (ended) {
            whim_comm_abort(&a->group, how);
            WHIM_TRY(tell_leader(a, i, WHIM_WIRE_ENDED, how, strlen(how), diag));
        }
    }
    return WHIM_ERR_OK;
}

/* --- until the leader is lost ----------------------------------------------------------------- */

static bool wait_for_any(whim_agent *a)
{
    for (int32_t i = 0; i <= a->n; i++) {
        a->polls[i] = (struct pollfd){.fd = a->processes[i].socket, .events = POLLIN};
    }
    a->polls[a->n + 1] = (struct pollfd){.fd = a->wire.fd, .events = POLLIN};
    (void)poll(a->polls, (nfds_t)a->n + 2, LOOK_MS);
    return a->polls[a->n + 1].revents != 0;
}

static whim_err turn(whim_agent *a, whim_diag *diag)
{
    if (wait_for_any(a)) {
        WHIM_TRY(whim_wire_take(&a->wire, on_frame, a, diag));
    }
    WHIM_TRY(processes_look(a, diag));
    return whim_wire_beat(&a->wire, whim_clock_ns(), diag);
}

whim_err whim_agent_serve(whim_agent *a, whim_diag *diag)
{
    whim_err err = WHIM_ERR_OK;
    while (err == WHIM_ERR_OK && !atomic_load(a->cfg->stop)) {
        err = turn(a, diag);
    }
    generation_end(a);
    whim_wire_close(&a->wire);
    return err;
}

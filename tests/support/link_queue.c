/* SPDX-License-Identifier: Apache-2.0 */
#include "support/link_queue.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/math/rng.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { INBOX = 512 };

typedef struct message {
    int32_t from; /* -1: from outside */
    whim_link_head head;
    const void *bytes;
} message;

struct whim_link {
    whim_link_cfg cfg;
    message inbox[INBOX];
    int32_t n_message, n_sent; /* n_sent: of its own that nobody has taken */
    bool is_open, is_cut;
    bool knows_cut[WHIM_LINK_QUEUE_NODES];
    int fd;
};

/* One lock for all: what a test needs is orders, not speed. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static whim_link links[WHIM_LINK_QUEUE_NODES];
static bool wild;
static uint64_t dice_seed, n_dice;

static uint64_t dice(void)
{
    return whim_rng_at(dice_seed, n_dice++);
}

void whim_link_queue_reset(bool is_wild, uint64_t seed)
{
    pthread_mutex_lock(&lock);
    memset(links, 0, sizeof links);
    wild = is_wild;
    dice_seed = seed;
    pthread_mutex_unlock(&lock);
}

static void put(whim_link *to, int32_t from, const whim_link_head *head, const void *bytes)
{
    whim_check(to->n_message < INBOX);
    to->inbox[to->n_message++] = (message){from, *head, bytes};
    if (from >= 0) {
        links[from].n_sent++;
    }
    if (to->is_open) {
        (void)eventfd_write(to->fd, 1);
    }
}

void whim_link_queue_inject(int32_t node, const whim_link_head *head, const void *bytes)
{
    pthread_mutex_lock(&lock);
    put(&links[node], -1, head, bytes);
    pthread_mutex_unlock(&lock);
}

/* What it sent and nobody took is lost. */
static void cut(whim_link *gone)
{
    int32_t node = (int32_t)(gone - links);
    gone->is_cut = true;
    for (int32_t i = 0; i < WHIM_LINK_QUEUE_NODES; i++) {
        whim_link *l = &links[i];
        int32_t kept = 0;
        for (int32_t m = 0; m < l->n_message; m++) {
            if (l->inbox[m].from != node) {
                l->inbox[kept++] = l->inbox[m];
            }
        }
        l->n_message = kept;
        if (l->is_open) {
            (void)eventfd_write(l->fd, 1);
        }
    }
    gone->n_sent = 0;
}

void whim_link_queue_cut(int32_t node)
{
    pthread_mutex_lock(&lock);
    cut(&links[node]);
    pthread_mutex_unlock(&lock);
}

/* --- the link --------------------------------------------------------------------------------- */

static whim_err queue_open(const whim_link_cfg *cfg, whim_link **out, whim_link_address *address,
                           whim_diag *diag)
{
    whim_link *l = &links[cfg->node];
    (void)diag;
    pthread_mutex_lock(&lock);
    l->cfg = *cfg;
    l->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    l->is_open = true;
    pthread_mutex_unlock(&lock);
    address->bytes = 0;
    *out = l;
    return WHIM_ERR_OK;
}

static whim_err queue_connect(whim_link *l, const whim_link_address *addresses, whim_diag *diag)
{
    (void)l;
    (void)addresses;
    (void)diag;
    return WHIM_ERR_OK;
}

static void queue_send(whim_link *l, int32_t node, const whim_link_head *head, const void *bytes)
{
    pthread_mutex_lock(&lock);
    if (!l->is_cut && !links[node].is_cut) {
        put(&links[node], l->cfg.node, head, bytes);
    }
    pthread_mutex_unlock(&lock);
}

/* The next message, or a node that fell silent (*lost). */
static bool take(whim_link *l, message *out, int32_t *lost)
{
    bool any = false;
    pthread_mutex_lock(&lock);
    if (l->n_message > 0) {
        int32_t i = wild ? (int32_t)(dice() % (uint64_t)l->n_message) : 0;
        *out = l->inbox[i];
        l->n_message--;
        memmove(&l->inbox[i], &l->inbox[i + 1], sizeof *out * (size_t)(l->n_message - i));
        any = true;
    }
    for (int32_t n = 0; n < l->cfg.n_node && !any && *lost < 0; n++) {
        if (n != l->cfg.node && (links[n].is_cut || l->is_cut) && !l->knows_cut[n]) {
            l->knows_cut[n] = true;
            *lost = n;
        }
    }
    pthread_mutex_unlock(&lock);
    return any;
}

static void wait_a_while(void)
{
    pthread_mutex_lock(&lock);
    uint64_t d = wild ? dice() : 1;
    pthread_mutex_unlock(&lock);
    if (d % 16 == 0) {
        whim_clock_sleep_ns((int64_t)(d % 200000));
    }
}

static bool queue_poll(whim_link *l)
{
    message m;
    int32_t lost = -1;
    if (!take(l, &m, &lost)) {
        if (lost >= 0) {
            l->cfg.hands.lost(l->cfg.hands.ctx, lost, "cut");
        }
        return lost >= 0;
    }
    wait_a_while();
    void *to = l->cfg.hands.place(l->cfg.hands.ctx, &m.head);
    if (to != NULL) {
        whim_comm_copy(to, m.bytes, m.head.bytes);
        l->cfg.hands.came(l->cfg.hands.ctx, &m.head);
    }
    if (m.from >= 0) {
        pthread_mutex_lock(&lock);
        links[m.from].n_sent -= links[m.from].is_cut ? 0 : 1;
        pthread_mutex_unlock(&lock);
    }
    return true;
}

static int queue_arm(whim_link *l)
{
    eventfd_t ignored;
    pthread_mutex_lock(&lock);
    bool any = l->n_message > 0;
    (void)eventfd_read(l->fd, &ignored);
    pthread_mutex_unlock(&lock);
    return any ? -1 : l->fd;
}

static int64_t queue_n_waiting(const whim_link *l)
{
    pthread_mutex_lock(&lock);
    int64_t n = l->n_sent;
    pthread_mutex_unlock(&lock);
    return n;
}

static void queue_close(whim_link *l)
{
    pthread_mutex_lock(&lock);
    cut(l);
    l->is_open = false;
    close(l->fd);
    pthread_mutex_unlock(&lock);
}

const whim_link_ops whim_link_queue = {
    .version = WHIM_VERSION,
    .head_bytes = sizeof(whim_link_head),
    .open = queue_open,
    .connect = queue_connect,
    .send = queue_send,
    .poll = queue_poll,
    .arm = queue_arm,
    .n_waiting = queue_n_waiting,
    .close = queue_close,
};

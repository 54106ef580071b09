/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks of other hosts count (comm/rank_meters.h), for node 0, which is asked for it. Each
 * number is a head without bytes, for those are copied when they are sent. Counts begin anew with a
 * group and node 0's go on, so it adds what a number has grown by. */
#include "base/clock.h"
#include "comm/bridge_inner.h"

static bool is_now(int32_t part)
{
    return part == WHIM_BRIDGE_STEP || part == WHIM_BRIDGE_DISK + WHIM_RANK_DISK_BYTES;
}

static void send_meter(whim_bridge *b, int32_t rank, int32_t part, int64_t number, const char *site)
{
    whim_link_head head = {
        .kind = WHIM_LINK_METER, .rank = rank, .part = part, .count = (uint64_t)number};
    memcpy(head.call.site, site, strlen(site));
    whim_bridge_send(b, 0, head, NULL);
}

/* If it is another than was told. */
static void give(whim_bridge *b, int32_t rank, int32_t part, int64_t number, const char *site)
{
    int64_t *told = &b->ranks[rank].meters[part];
    if (*told != number) {
        *told = number;
        send_meter(b, rank, part, number, site);
    }
}

static void give_rank(whim_bridge *b, int32_t rank)
{
    whim_rank_meters m;
    int64_t *step = &b->ranks[rank].meters[WHIM_BRIDGE_STEP];
    whim_rank_meters_of(&b->comm, rank, &m);
    for (int32_t i = 0; i < m.n_site; i++) {
        give(b, rank, i, m.sites[i].waited_ns, m.sites[i].name);
    }
    for (int32_t i = 0; i < WHIM_RANK_DISK_COUNT; i++) {
        give(b, rank, WHIM_BRIDGE_DISK + i, m.disk[i], "");
    }
    if (*step != m.step_ns) { /* hosts have clocks of their own: how long ago it was */
        *step = m.step_ns;
        send_meter(b, rank, WHIM_BRIDGE_STEP, whim_clock_ns() - m.step_ns, "");
    }
}

/* What was sent goes last: it counts itself, so that nothing is left to tell. */
void whim_bridge_give_meters(whim_bridge *b)
{
    if (b->node == 0) {
        return;
    }
    for (int32_t r = b->first; r < b->end; r++) {
        give_rank(b, r);
    }
    int64_t sent = atomic_load_explicit(&b->shared->n_link_byte, memory_order_relaxed);
    if (sent != b->ranks[b->first].meters[WHIM_BRIDGE_SENT]) {
        give(b, b->first, WHIM_BRIDGE_SENT, sent + (int64_t)sizeof(whim_link_head), "");
    }
}

/* Numbers that grow come in any order; one that is overtaken is told no more. */
bool whim_bridge_meter_is(const whim_bridge *b, const whim_link_head *h)
{
    return h->part >= 0 && h->part < WHIM_BRIDGE_METERS && h->count <= INT64_MAX &&
           (h->part != WHIM_BRIDGE_SENT || h->rank == b->rank_first[h->node]) &&
           memchr(h->call.site, '\0', sizeof h->call.site) != NULL;
}

static void add(whim_bridge *b, const whim_link_head *h, int64_t more)
{
    if (h->part < WHIM_BRIDGE_STEP) {
        whim_comm_count_wait(b->shared, h->rank, h->call.site, more);
    } else if (h->part == WHIM_BRIDGE_SENT) {
        whim_comm_count_link(b->shared, more);
    } else {
        whim_comm_count_disk(b->shared, h->rank, (whim_rank_disk)(h->part - WHIM_BRIDGE_DISK),
                             more);
    }
}

void whim_bridge_came_meter(whim_bridge *b, const whim_link_head *h)
{
    int64_t number = (int64_t)h->count, *told = &b->ranks[h->rank].meters[h->part];
    if (h->part == WHIM_BRIDGE_STEP) {
        int64_t now = whim_clock_ns();
        atomic_store_explicit(&b->shared->seats[h->rank].tally.step_ns,
                              number < now ? now - number : 1, memory_order_relaxed);
    } else if (is_now(h->part)) {
        add(b, h, number);
    } else if (number > *told) {
        add(b, h, number - *told);
        *told = number;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks of this host tell, to the other nodes. Bytes are sent from where they lie: a rank
 * writes there again when all others have told a round that they could not have begun without them,
 * and a letter's slot when all have read it. */
#include "comm/bridge_inner.h"

typedef struct span {
    int64_t at, bytes;
    int32_t back;
} span;

void whim_bridge_send(whim_bridge *b, int32_t node, whim_link_head head, const void *bytes)
{
    bool is_last = head.kind == WHIM_LINK_END || head.kind == WHIM_LINK_BYE;
    if (b->nodes[node].has_left && !is_last) {
        return;
    }
    head.generation = b->generation;
    head.node = b->node;
    b->ops->send(b->link, node, &head, bytes);
    whim_comm_count_link(b->shared, (int64_t)sizeof head + head.bytes);
}

static void send_all(whim_bridge *b, whim_link_head head, const void *bytes)
{
    for (int32_t node = 0; node < b->n_node; node++) {
        if (node != b->node) {
            whim_bridge_send(b, node, head, bytes);
        }
    }
}

/* Of what a rank wrote, what a node needs: of a long sum the slices of its ranks. Returns how many
 * spans; an empty one is among them when there is nothing else. */
static int32_t spans_for(const whim_bridge *b, int32_t node, int32_t rank, whim_comm_wrote wrote,
                         span *out)
{
    int64_t begin, end, unused;
    int32_t n = 0, n_rank = b->shared->n_rank;
    out[0] = (span){.bytes = wrote.bytes};
    if (wrote.given > 0) {
        whim_comm_slice(n_rank, b->rank_first[node], wrote.given, &begin, &unused);
        whim_comm_slice(n_rank, b->rank_first[node + 1] - 1, wrote.given, &unused, &end);
        out[0] = (span){.at = begin * 4, .bytes = (end - begin) * 4};
    }
    n += out[0].bytes > 0;
    if (wrote.summed > 0) {
        whim_comm_slice(n_rank, rank, wrote.summed, &begin, &end);
        if (begin < end) {
            out[n++] = (span){.at = begin * 4, .bytes = (end - begin) * 4, .back = wrote.back};
        }
    }
    return n > 0 ? n : 1;
}

static void give_round(whim_bridge *b, int32_t rank, uint64_t round)
{
    const whim_comm_seat *seat = &b->shared->seats[rank];
    uint64_t turn = round % WHIM_COMM_TURNS;
    whim_link_head head = {
        .kind = WHIM_LINK_ROUND, .rank = rank, .count = round, .call = seat->calls[turn]};
    for (int32_t node = 0; node < b->n_node; node++) {
        span spans[WHIM_BRIDGE_PARTS];
        if (node == b->node) {
            continue;
        }
        head.n_part = spans_for(b, node, rank, seat->wrote[turn], spans);
        for (head.part = 0; head.part < head.n_part; head.part++) {
            const span *s = &spans[head.part];
            head.at = (int32_t)s->at;
            head.bytes = (int32_t)s->bytes;
            head.back = s->back;
            whim_bridge_send(b, node, head,
                             whim_comm_piece(&b->comm, rank, round - (uint64_t)s->back) + s->at);
        }
    }
}

static bool give_rounds(whim_bridge *b, int32_t rank)
{
    whim_bridge_rank *r = &b->ranks[rank];
    uint32_t now = atomic_load_explicit(&b->shared->seats[rank].n_round, memory_order_acquire);
    bool any = now != (uint32_t)r->n_round;
    while (now != (uint32_t)r->n_round) {
        give_round(b, rank, ++r->n_round);
    }
    return any;
}

static bool give_letters(whim_bridge *b)
{
    uint32_t now = atomic_load_explicit(&b->shared->sent.n, memory_order_acquire);
    bool any = now != (uint32_t)b->n_letter;
    while (now != (uint32_t)b->n_letter) {
        whim_comm_letter *l = whim_comm_letter_at(b->shared, b->n_letter);
        b->n_letter++;
        send_all(b,
                 (whim_link_head){
                     .kind = WHIM_LINK_LETTER, .count = b->n_letter, .bytes = (int32_t)l->bytes},
                 l->text);
    }
    return any;
}

static bool give_read(whim_bridge *b, int32_t rank)
{
    uint32_t now = atomic_load_explicit(&b->shared->seats[rank].read.n, memory_order_acquire);
    if (now == b->ranks[rank].n_read) {
        return false;
    }
    b->ranks[rank].n_read = now;
    whim_bridge_send(b, 0, (whim_link_head){.kind = WHIM_LINK_READ, .rank = rank, .count = now},
                     NULL);
    return true;
}

bool whim_bridge_give(whim_bridge *b)
{
    bool any = b->node == 0 && give_letters(b);
    for (int32_t r = b->first; r < b->end; r++) {
        any = give_rounds(b, r) || any;
        any = (b->node != 0 && give_read(b, r)) || any;
    }
    return any;
}

/* Behind all rounds that the rank has told for them. */
static void give_ended(whim_bridge *b, int32_t r)
{
    whim_bridge_rank *rank = &b->ranks[r];
    uint32_t ended = atomic_load_explicit(&b->shared->seats[r].ended, memory_order_acquire);
    if (ended != rank->ended) {
        rank->ended = ended;
        give_rounds(b, r);
        send_all(b,
                 (whim_link_head){.kind = WHIM_LINK_ENDED,
                                  .rank = r,
                                  .count = ended,
                                  .call = {.size = (int64_t)rank->n_round}},
                 NULL);
    }
}

void whim_bridge_give_work(whim_bridge *b)
{
    for (int32_t r = b->first; r < b->end; r++) {
        give_ended(b, r);
        whim_bridge_rank *rank = &b->ranks[r];
        int64_t ticks = whim_comm_ticks(b->shared, r);
        if (ticks > rank->ticks || whim_comm_is_busy(b->shared, r)) {
            rank->ticks = ticks;
            rank->n_work++;
            send_all(b, (whim_link_head){.kind = WHIM_LINK_WORK, .rank = r, .count = rank->n_work},
                     NULL);
        }
    }
}

bool whim_bridge_has_news(const whim_bridge *b)
{
    struct whim_comm_shared *s = b->shared;
    bool any = b->node == 0 && atomic_load(&s->sent.n) != (uint32_t)b->n_letter;
    for (int32_t r = b->first; r < b->end && !any; r++) {
        any = atomic_load(&s->seats[r].n_round) != (uint32_t)b->ranks[r].n_round ||
              (b->node != 0 && atomic_load(&s->seats[r].read.n) != b->ranks[r].n_read);
    }
    return any;
}

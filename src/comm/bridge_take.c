/* SPDX-License-Identifier: Apache-2.0 */
/* What other nodes tell, in the place of their ranks. Heads are outside bytes: every number is
 * looked at before anything is written. */
#include "comm/bridge_inner.h"

#include <inttypes.h>
#include <stdio.h>

enum { AHEAD = 4 }; /* rounds of a rank that may be under way: see shared.h */

static void *refuse(whim_bridge *b, const whim_link_head *h, const char *what)
{
    char why[256];
    snprintf(why, sizeof why,
             "node %d was sent what no bridge sends: %s (kind %d, node %d, rank %d, count %" PRIu64
             ", %d bytes at %d)",
             b->node, what, h->kind, h->node, h->rank, h->count, h->bytes, h->at);
    whim_comm_shared_end(b->shared, why);
    return NULL;
}

static bool is_rank_of(const whim_bridge *b, int32_t rank, int32_t node)
{
    return rank >= b->rank_first[node] && rank < b->rank_first[node + 1];
}

/* Of the parts of a round, those that a message is. */
static uint8_t parts_of(const whim_link_head *h)
{
    return (uint8_t)(h->n_part == 1 ? (1 << WHIM_BRIDGE_PARTS) - 1 : 1 << h->part);
}

/* What was given a place comes once: bytes may be under way for long. */
static void *place_round(whim_bridge *b, const whim_link_head *h)
{
    if (!is_rank_of(b, h->rank, h->node)) {
        return refuse(b, h, "a round of a rank that is not there");
    }
    whim_bridge_rank *r = &b->ranks[h->rank];
    uint64_t turn = h->count % WHIM_COMM_TURNS;
    if (h->count - r->n_round - 1 >= AHEAD) {
        return refuse(b, h, "a round that cannot be next");
    }
    if (h->n_part < 1 || h->n_part > WHIM_BRIDGE_PARTS || h->part < 0 || h->part >= h->n_part ||
        (r->placed[turn] & parts_of(h)) != 0) {
        return refuse(b, h, "a part of a round that there is not");
    }
    if (h->at < 0 || h->at > WHIM_COMM_PIECE || h->bytes > WHIM_COMM_PIECE - h->at || h->back < 0 ||
        h->back > WHIM_COMM_MOST_BACK) {
        return refuse(b, h, "bytes outside of a piece");
    }
    r->placed[turn] |= parts_of(h);
    return whim_comm_piece(&b->comm, h->rank, h->count - (uint64_t)h->back) + h->at;
}

/* Not before the rounds, which may come later: who waits for them would take them for missing. */
static void tell_ended(whim_bridge *b, int32_t rank)
{
    whim_bridge_rank *r = &b->ranks[rank];
    if ((int64_t)(r->n_round - r->ended_round) >= 0) {
        atomic_store_explicit(&b->shared->seats[rank].ended, r->ended, memory_order_release);
    }
}

/* Rounds are told in order, whatever came first. */
static void came_round(whim_bridge *b, const whim_link_head *h)
{
    whim_bridge_rank *r = &b->ranks[h->rank];
    whim_comm_seat *seat = &b->shared->seats[h->rank];
    uint64_t turn = h->count % WHIM_COMM_TURNS;
    seat->calls[turn] = h->call;
    r->came[turn] |= parts_of(h);
    for (turn = (r->n_round + 1) % WHIM_COMM_TURNS; r->came[turn] == (1 << WHIM_BRIDGE_PARTS) - 1;
         turn = (turn + 1) % WHIM_COMM_TURNS) {
        r->came[turn] = r->placed[turn] = 0;
        r->n_round++;
        whim_comm_tell(b->shared, &seat->n_round, &seat->sleepers, r->n_round);
    }
    tell_ended(b, h->rank);
}

static void *place_letter(whim_bridge *b, const whim_link_head *h)
{
    if (h->node != 0 || h->bytes > WHIM_MAIL_BYTES) {
        return refuse(b, h, "a letter that nobody can write");
    }
    bool *placed = &b->placed[(h->count - 1) % WHIM_MAIL_SLOTS];
    if (h->count - b->n_letter - 1 >= WHIM_MAIL_SLOTS || *placed) {
        return refuse(b, h, "a letter that cannot be next");
    }
    *placed = true;
    return whim_comm_letter_at(b->shared, h->count - 1)->text;
}

static void came_letter(whim_bridge *b, const whim_link_head *h)
{
    whim_comm_letter_at(b->shared, h->count - 1)->bytes = h->bytes;
    b->came[(h->count - 1) % WHIM_MAIL_SLOTS] = true;
    bool *came = &b->came[b->n_letter % WHIM_MAIL_SLOTS];
    while (*came) {
        *came = b->placed[b->n_letter % WHIM_MAIL_SLOTS] = false;
        b->n_letter++;
        whim_comm_tell(b->shared, &b->shared->sent.n, &b->shared->sent.sleepers, b->n_letter);
        came = &b->came[b->n_letter % WHIM_MAIL_SLOTS];
    }
}

static void *place_read(whim_bridge *b, const whim_link_head *h)
{
    if (b->node != 0 || !is_rank_of(b, h->rank, h->node) || h->count > UINT32_MAX ||
        (int32_t)((uint32_t)b->n_letter - (uint32_t)h->count) < 0) {
        return refuse(b, h, "letters read that were not sent");
    }
    return b->heard;
}

static void came_read(whim_bridge *b, const whim_link_head *h)
{
    whim_bridge_rank *r = &b->ranks[h->rank];
    whim_comm_count *read = &b->shared->seats[h->rank].read;
    if ((int32_t)((uint32_t)h->count - r->n_read) > 0) {
        r->n_read = (uint32_t)h->count;
        whim_comm_tell(b->shared, &read->n, &read->sleepers, r->n_read);
    }
}

static void *place_work(whim_bridge *b, const whim_link_head *h)
{
    if (!is_rank_of(b, h->rank, h->node) || h->count > INT64_MAX) {
        return refuse(b, h, "work of a rank that is not there");
    }
    return b->heard;
}

static void came_work(whim_bridge *b, const whim_link_head *h)
{
    _Atomic int64_t *ticks = &b->shared->seats[h->rank].ticks;
    if ((int64_t)h->count > atomic_load_explicit(ticks, memory_order_relaxed)) {
        atomic_store_explicit(ticks, (int64_t)h->count, memory_order_relaxed);
    }
}

static void *place_ended(whim_bridge *b, const whim_link_head *h)
{
    if (!is_rank_of(b, h->rank, h->node) || h->count > UINT32_MAX) {
        return refuse(b, h, "letters followed by a rank that is not there");
    }
    /* The rounds may still be under way; so may letters, but not to the node that sends them. */
    int64_t ahead = (int64_t)((uint64_t)h->call.size - b->ranks[h->rank].n_round);
    bool is_sent = b->node != 0 || (int32_t)((uint32_t)b->n_letter - (uint32_t)h->count) >= 0;
    if (ahead > AHEAD || !is_sent) {
        return refuse(b, h, "an end of letters or rounds that nobody has told of");
    }
    return b->heard;
}

static void came_ended(whim_bridge *b, const whim_link_head *h)
{
    whim_bridge_rank *r = &b->ranks[h->rank];
    if ((int32_t)((uint32_t)h->count - r->ended) > 0) {
        r->ended = (uint32_t)h->count;
        r->ended_round = (uint64_t)h->call.size;
        tell_ended(b, h->rank);
    }
}

static void *place_meter(whim_bridge *b, const whim_link_head *h)
{
    if (b->node != 0 || !is_rank_of(b, h->rank, h->node) || !whim_bridge_meter_is(b, h)) {
        return refuse(b, h, "a number that no rank counts");
    }
    return b->heard;
}

void *whim_bridge_place(void *ctx, const whim_link_head *h)
{
    whim_bridge *b = ctx;
    if (h->generation != b->generation) {
        b->n_stale++;
        return NULL;
    }
    if (h->node < 0 || h->node >= b->n_node || h->node == b->node) {
        return refuse(b, h, "a message of no node");
    }
    if (h->bytes < 0) {
        return refuse(b, h, "another number of bytes than the message has");
    }
    bool has_bytes = h->kind == WHIM_LINK_ROUND || h->kind == WHIM_LINK_LETTER;
    if (!has_bytes && h->bytes >= (h->kind == WHIM_LINK_END ? (int32_t)sizeof b->heard : 1)) {
        return refuse(b, h, "more bytes than there may be");
    }
    switch (h->kind) {
    case WHIM_LINK_ROUND:
        return place_round(b, h);
    case WHIM_LINK_LETTER:
        return place_letter(b, h);
    case WHIM_LINK_READ:
        return place_read(b, h);
    case WHIM_LINK_WORK:
        return place_work(b, h);
    case WHIM_LINK_METER:
        return place_meter(b, h);
    case WHIM_LINK_ENDED:
        return place_ended(b, h);
    case WHIM_LINK_HELLO:
    case WHIM_LINK_END:
    case WHIM_LINK_BYE:
        return b->heard;
    }
    return refuse(b, h, "a message of an unknown kind");
}

static void came_bye(whim_bridge *b, int32_t node)
{
    b->nodes[node].has_left = true;
    if (!b->nodes[node].was_told) { /* it waits for an answer */
        b->nodes[node].was_told = true;
        whim_bridge_send(b, node, (whim_link_head){.kind = WHIM_LINK_BYE}, NULL);
    }
}

void whim_bridge_came(void *ctx, const whim_link_head *h)
{
    whim_bridge *b = ctx;
    b->nodes[h->node].is_there = true; /* whatever overtook its hello */
    switch (h->kind) {
    case WHIM_LINK_ROUND:
        came_round(b, h);
        break;
    case WHIM_LINK_LETTER:
        came_letter(b, h);
        break;
    case WHIM_LINK_READ:
        came_read(b, h);
        break;
    case WHIM_LINK_WORK:
        came_work(b, h);
        break;
    case WHIM_LINK_METER:
        whim_bridge_came_meter(b, h);
        break;
    case WHIM_LINK_ENDED:
        came_ended(b, h);
        break;
    case WHIM_LINK_HELLO:
        break;
    case WHIM_LINK_END:
        b->heard[h->bytes] = '\0';
        b->nodes[h->node].has_left = true;
        whim_comm_shared_end(b->shared, b->heard);
        break;
    default:
        came_bye(b, h->node);
    }
}

void whim_bridge_lost(void *ctx, int32_t node, const char *why)
{
    whim_bridge *b = ctx;
    char text[512];
    if (!b->nodes[node].has_left) {
        b->nodes[node].has_left = true;
        snprintf(text, sizeof text, "node %d with ranks %d to %d cannot be reached any more: %s",
                 node, b->rank_first[node], b->rank_first[node + 1] - 1, why);
        whim_comm_shared_end(b->shared, text);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of messages from another host, one after the other: a bridge gives them places inside of
 * what is their rank's, or refuses them. Of the generation the last byte counts only, so that not
 * all are dropped. */
#include "comm/bridge_inner.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { N_RANK = 4 };

static const int32_t rank_first[] = {0, 1, 3, N_RANK};

static whim_err no_open(const whim_link_cfg *cfg, whim_link **out, whim_link_address *address,
                        whim_diag *diag)
{
    (void)cfg;
    (void)address;
    (void)diag;
    *out = NULL;
    return WHIM_ERR_OK;
}

static void no_send(whim_link *link, int32_t node, const whim_link_head *head, const void *bytes)
{
    (void)link;
    (void)node;
    (void)head;
    (void)bytes;
}

static const whim_link_ops no_ops = {.open = no_open, .send = no_send};

/* Opened once for each node; every input begins with a new group. */
static whim_bridge *bridge_for(int32_t node)
{
    static whim_comm_memory memory[3];
    static whim_bridge *bridges[3];
    whim_link_address address;
    whim_bridge_cfg cfg = {.memory = &memory[node],
                           .ops = &no_ops,
                           .node = node,
                           .n_node = 3,
                           .rank_first = rank_first};
    if (bridges[node] == NULL &&
        (whim_comm_memory_make(N_RANK, &memory[node], NULL) != WHIM_ERR_OK ||
         whim_bridge_open(&cfg, &bridges[node], &address, NULL) != WHIM_ERR_OK)) {
        abort();
    }
    whim_bridge *b = bridges[node];
    atomic_store(&b->shared->state, WHIM_COMM_GOOD);
    memset(b->ranks, 0, sizeof *b->ranks * N_RANK);
    memset(b->nodes, 0, sizeof b->nodes);
    memset(b->placed, 0, sizeof b->placed);
    memset(b->came, 0, sizeof b->came);
    b->n_letter = node == 0 ? 3 : 0; /* sent */
    return b;
}

static bool is_within(const char *at, int32_t bytes, const char *begin, int64_t size)
{
    return at >= begin && at - begin <= size && bytes <= size - (at - begin);
}

static bool has_place(whim_bridge *b, const whim_link_head *h, const char *at)
{
    bool good = h->bytes == 0 || is_within(at, h->bytes, b->heard, sizeof b->heard - 1);
    for (uint64_t turn = 0; h->kind == WHIM_LINK_ROUND && turn < WHIM_COMM_TURNS; turn++) {
        bool is_remote = h->rank < b->first || h->rank >= b->end;
        good = good ||
               (is_remote &&
                is_within(at, h->bytes, whim_comm_piece(&b->comm, h->rank, turn), WHIM_COMM_PIECE));
    }
    for (uint64_t i = 0; h->kind == WHIM_LINK_LETTER && i < WHIM_MAIL_SLOTS; i++) {
        good = good ||
               is_within(at, h->bytes, whim_comm_letter_at(b->shared, i)->text, WHIM_MAIL_BYTES);
    }
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    whim_link_head head;
    whim_bridge *b = bridge_for(n > 0 ? data[0] % 3 : 0);
    for (size_t at = 1; at < n && n - at >= sizeof head; at += sizeof head) {
        memcpy(&head, data + at, sizeof head);
        head.generation &= 1;
        char *place = whim_bridge_place(b, &head);
        if (place == NULL) {
            if (head.generation == 0 && !whim_comm_has_ended(b->shared)) {
                abort();
            }
            continue;
        }
        if (head.bytes < 0 || !has_place(b, &head, place)) {
            abort();
        }
        if (head.bytes > 0) {
            place[0] = place[head.bytes - 1] = 1;
        }
        whim_bridge_came(b, &head);
    }
    return 0;
}

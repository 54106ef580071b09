/* SPDX-License-Identifier: Apache-2.0 */
#include "support/hosts.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/math/rng.h"

#include <stdlib.h>
#include <string.h>

static void rank_main(void *ctx)
{
    whim_hosts_rank *rank = ctx;
    rank->of->fn(rank);
}

static void bridge_main(void *ctx)
{
    whim_host *h = ctx;
    h->err = whim_bridge_connect(h->bridge, h->of->addresses, WHIM_HOSTS_WAIT_S * WHIM_NS_PER_S,
                                 &h->diag);
    if (h->err == WHIM_ERR_OK) {
        whim_bridge_run(h->bridge);
    }
}

static void thread_begin(whim_thread *thread, void (*fn)(void *), void *ctx)
{
    whim_diag diag = {""};
    whim_check(whim_thread_create(thread, "test", fn, ctx, &diag) == WHIM_ERR_OK);
}

void whim_host_open(whim_hosts *g, int32_t node)
{
    whim_host *h = &g->hosts[node];
    whim_diag diag = {""};
    int32_t n_rank = g->rank_first[g->n_node];
    *h = (whim_host){.of = g, .node = node};
    whim_check(whim_comm_memory_make(n_rank, &h->memory, &diag) == WHIM_ERR_OK);
    for (int32_t r = 0; r < n_rank; r++) {
        atomic_store(&h->memory.shared->seats[r].n_round, (uint32_t)g->first_round);
    }
    for (int32_t r = g->rank_first[node]; r < g->rank_first[node + 1]; r++) {
        whim_hosts_rank *rank = &g->ranks[r];
        *rank = (whim_hosts_rank){.of = g};
        whim_comm_open(&rank->comm, &h->memory,
                       &(whim_comm_cfg){.rank = r, .wait_ns = g->wait_ns, .crowded = true});
        rank->comm.n_round = g->first_round;
        whim_mail_open(&rank->mail, &rank->comm);
    }
    whim_bridge_cfg cfg = {.memory = &h->memory,
                           .ops = g->ops,
                           .device = g->device,
                           .generation = WHIM_HOSTS_GENERATION,
                           .node = node,
                           .n_node = g->n_node,
                           .rank_first = g->rank_first,
                           .crowded = true,
                           .first_round = g->first_round};
    if (g->n_node > 1) {
        whim_check(whim_bridge_open(&cfg, &h->bridge, &g->addresses[node], &diag) == WHIM_ERR_OK);
    }
}

void whim_hosts_begin(whim_hosts *g, const int32_t *n_rank, void (*fn)(whim_hosts_rank *rank))
{
    g->fn = fn;
    g->wait_ns = g->wait_ns > 0 ? g->wait_ns : WHIM_HOSTS_WAIT_S * WHIM_NS_PER_S;
    for (g->n_node = 0; n_rank[g->n_node] > 0; g->n_node++) {
        g->rank_first[g->n_node + 1] = g->rank_first[g->n_node] + n_rank[g->n_node];
    }
    for (int32_t i = 0; i < g->n_node; i++) {
        whim_host_open(g, i);
    }
    for (int32_t i = 0; i < g->n_node && g->n_node > 1; i++) {
        thread_begin(&g->hosts[i].thread, bridge_main, &g->hosts[i]);
    }
    for (int32_t r = 0; r < g->rank_first[g->n_node]; r++) {
        thread_begin(&g->ranks[r].thread, rank_main, &g->ranks[r]);
    }
}

void whim_hosts_await_round(whim_hosts *g, uint32_t round)
{
    for (int32_t i = 0; i < g->n_node; i++) {
        for (int32_t r = 0; r < g->rank_first[g->n_node]; r++) {
            whim_comm_seat *seat = &g->hosts[i].memory.shared->seats[r];
            while ((int32_t)(atomic_load(&seat->n_round) - round) < 0) {
                whim_clock_sleep_ns(100000);
            }
        }
    }
}

void whim_hosts_join_ranks(whim_hosts *g)
{
    for (int32_t r = 0; r < g->rank_first[g->n_node]; r++) {
        whim_thread_join(&g->ranks[r].thread);
    }
}

/* Node 0 is stopped first, and the others as whoever started them would. */
void whim_hosts_stop(whim_hosts *g)
{
    for (int32_t i = 0; i < g->n_node && g->n_node > 1; i++) {
        whim_bridge_stop(g->hosts[i].bridge);
        whim_thread_join(&g->hosts[i].thread);
    }
}

void whim_hosts_close(whim_hosts *g)
{
    for (int32_t i = 0; i < g->n_node; i++) {
        whim_bridge_close(g->hosts[i].bridge);
        whim_comm_memory_close(&g->hosts[i].memory);
    }
}

void whim_hosts_run(whim_hosts *g, const int32_t *n_rank, void (*fn)(whim_hosts_rank *rank))
{
    whim_hosts_begin(g, n_rank, fn);
    whim_hosts_join_ranks(g);
    whim_hosts_stop(g);
    whim_hosts_close(g);
}

/* --- what ranks do ---------------------------------------------------------------------------- */

static void hash_in(whim_hosts_rank *rank, const void *bytes, int64_t n)
{
    uint64_t hash = rank->hash;
    for (int64_t i = 0; i < n; i++) {
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
    }
    rank->hash = hash;
}

/* Sums of these depend on their order. */
static void fill(whim_hosts_rank *rank, float *x, int64_t n)
{
    static const float big[] = {1e8f, -1e8f, 3.25f, -0.0f, 1.0f / 3};
    int32_t r = rank->comm.rank;
    for (int64_t i = 0; i < n; i++) {
        x[i] = big[(r + i) % 5] + (float)((r * 31 + i * 7) % 101) / 7;
    }
}

enum { MOST = 300000, MOST_LETTER = 70000, ROWS = 23 };

static whim_err sums(whim_hosts_rank *rank, float *x, float *y, int64_t n)
{
    whim_comm *c = &rank->comm;
    int64_t parts[WHIM_HOSTS_RANKS], n_row = 1 + n / 50000;
    fill(rank, x, n);
    WHIM_TRY(whim_comm_all_reduce(c, NULL, x, n, "sum"));
    hash_in(rank, x, n * 4);
    fill(rank, x, n);
    for (int32_t r = 0; r < c->n_rank; r++) {
        parts[r] = n / n_row / c->n_rank * (r % 3) / 2;
    }
    WHIM_TRY(whim_comm_reduce_scatter_rows(c, NULL, x, parts, n_row, y, "scatter"));
    hash_in(rank, y, n_row * parts[c->rank] * 4);
    return WHIM_ERR_OK;
}

static whim_err moves(whim_hosts_rank *rank, float *x, float *y, int64_t n)
{
    whim_comm *c = &rank->comm;
    int32_t keys[2 * ROWS], firsts[WHIM_HOSTS_RANKS + 1];
    int64_t take[WHIM_HOSTS_RANKS], total = 0;
    for (int32_t r = 0; r <= c->n_rank; r++) {
        firsts[r] = r;
    }
    for (int32_t i = 0; i < 2 * ROWS; i++) {
        keys[i] = (int32_t)((i * 5 + n) % (c->n_rank + 2)) - 1;
    }
    fill(rank, x, n);
    const whim_comm_rows rows = {.x = (char *)x,
                                 .n = ROWS,
                                 .row_bytes = n * 4 / ROWS,
                                 .keys = keys,
                                 .firsts = firsts,
                                 .n_key = 2};
    WHIM_TRY(whim_comm_exchange(c, NULL, &rows, "rows"));
    hash_in(rank, x, n * 4);
    for (int32_t r = 0; r < c->n_rank; r++) {
        take[r] = r == 1 ? 0 : n * 4 / (c->n_rank + r);
        total += take[r];
    }
    WHIM_TRY(whim_comm_all_gather(c, x, take, y, "gather"));
    hash_in(rank, y, total);
    WHIM_TRY(whim_comm_broadcast(c, x, n * 4, (int32_t)(n % c->n_rank), "root"));
    hash_in(rank, x, n * 4);
    return whim_comm_barrier(c, "barrier");
}

whim_err whim_hosts_letter(whim_hosts_rank *rank, const void *body, int64_t bytes)
{
    const void *text;
    int64_t got;
    if (rank->comm.rank == 0) {
        return whim_mail_send(&rank->mail, &bytes, sizeof bytes, body, bytes, &rank->diag);
    }
    WHIM_TRY(whim_mail_take(&rank->mail, true, &text, &got, &rank->diag));
    hash_in(rank, text, got);
    whim_mail_done(&rank->mail);
    return WHIM_ERR_OK;
}

static whim_err all_of(whim_hosts_rank *rank, float *x, float *y)
{
    static const int64_t sizes[] = {0, 1, 17, 1000, 2048, 2049, 70001, 131072, MOST};
    int32_t n_size = sizeof sizes / sizeof sizes[0] - (getenv("TEST_QUICK") != NULL ? 2 : 0);
    for (int32_t i = 0; i < n_size; i++) {
        int64_t n = sizes[i];
        WHIM_TRY(whim_hosts_letter(rank, y, whim_comm_min(n * 4, MOST_LETTER)));
        WHIM_TRY(sums(rank, x, y, n));
        WHIM_TRY(whim_hosts_letter(rank, x, n % 100));
        WHIM_TRY(moves(rank, x, y, n));
        uint64_t dice =
            whim_rng_at(rank->of->seed, (uint64_t)(i * WHIM_HOSTS_RANKS + rank->comm.rank));
        if (dice % 4 == 0) {
            whim_clock_sleep_ns((int64_t)(dice % 2000000));
        }
    }
    unsigned char two[2 * WHIM_HOSTS_RANKS] = {0}; /* the shortest */
    int64_t bytes[WHIM_HOSTS_RANKS];
    for (int32_t r = 0; r < rank->comm.n_rank; r++) {
        bytes[r] = 2;
    }
    unsigned char own[2] = {(unsigned char)rank->comm.rank, 9};
    WHIM_TRY(whim_comm_all_gather(&rank->comm, own, bytes, two, "two"));
    hash_in(rank, two, 2 * rank->comm.n_rank);
    return WHIM_ERR_OK;
}

void whim_hosts_all(whim_hosts_rank *rank)
{
    float *x = whim_alloc((MOST + 1) * 4), *y = whim_alloc((MOST + 1) * 4 * 2);
    rank->err = all_of(rank, x, y);
    whim_free(x);
    whim_free(y);
}

whim_err whim_hosts_same(whim_hosts *g, const int32_t *n_rank, whim_diag *diag)
{
    static whim_hosts one;
    int32_t all[2] = {0};
    for (int32_t i = 0; n_rank[i] > 0; i++) {
        all[0] += n_rank[i];
    }
    one = (whim_hosts){.first_round = g->first_round, .seed = g->seed};
    whim_hosts_run(&one, all, whim_hosts_all);
    whim_hosts_run(g, n_rank, whim_hosts_all);
    for (int32_t r = 0; r < all[0]; r++) {
        const whim_hosts_rank *rank = &g->ranks[r];
        if (rank->err != WHIM_ERR_OK || one.ranks[r].err != WHIM_ERR_OK) {
            return whim_fail(diag, WHIM_ERR_DEVICE, "rank %d failed: %.900s%.900s", r,
                             rank->comm.diag.text, rank->diag.text);
        }
        if (rank->hash != one.ranks[r].hash) {
            return whim_fail(diag, WHIM_ERR_CORRUPT, "rank %d got other bytes than on one host", r);
        }
    }
    return WHIM_ERR_OK;
}

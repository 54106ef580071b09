/* SPDX-License-Identifier: Apache-2.0 */
/* Turns with TLS handshakes, which cost the I/O thread a signature each: others would wait for a
 * flood of them. So one step is taken between two looks at everything else, each address has its
 * turn, and in all they take half of the thread's time at most, over some milliseconds: the wait
 * for sockets ends at whole ones, so that a step on time may be a step too late. */
#include "base/clock.h"
#include "http/internal.h"

#define ALLOWANCE_NS (8 * WHIM_NS_PER_MS) /* what steps may have from time without any */

/* Whether a's step comes before b's. */
static bool is_before(const whim_http *http, const whim_conn *a, const whim_conn *b)
{
    const int64_t last_a = http->shook[a->place], last_b = http->shook[b->place];
    return last_a != last_b ? last_a < last_b : a->waits_from < b->waits_from;
}

whim_conn *whim_http_next_shake(const whim_http *http)
{
    whim_conn *best = NULL;
    for (whim_conn *conn = http->conns; conn != NULL; conn = conn->next) {
        if (conn->is_shaking && (best == NULL || is_before(http, conn, best))) {
            best = conn;
        }
    }
    return best;
}

void whim_http_want_shake(whim_http *http, whim_conn *conn)
{
    conn->is_shaking = true;
    conn->waits_from = ++http->n_waits;
    http->n_shaking++;
}

int64_t whim_http_shake_again(int64_t again_ns, int64_t begin_ns, int64_t took_ns)
{
    const int64_t least = begin_ns - ALLOWANCE_NS;
    return (again_ns > least ? again_ns : least) + 2 * took_ns;
}

void whim_http_shake(whim_http *http)
{
    const int64_t begin = whim_clock_ns();
    whim_conn *conn =
        http->n_shaking > 0 && begin >= http->shake_again_ns ? whim_http_next_shake(http) : NULL;
    if (conn != NULL) {
        http->shook[conn->place] = ++http->n_shook;
        whim_conn_shake(http, conn);
        const int64_t took = whim_clock_ns() - begin;
        http->shake_again_ns = whim_http_shake_again(http->shake_again_ns, begin, took);
    }
}

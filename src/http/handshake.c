/* SPDX-License-Identifier: Apache-2.0 */
/* Turns with TLS handshakes, which cost the I/O thread a signature each: others would wait for a
 * flood of them. So one step is taken between two looks at everything else, each address has its
 * turn, and in all they take half of the thread's time at most. */
#include "base/clock.h"
#include "http/internal.h"

whim_conn *whim_http_next_shake(const whim_http *http)
{
    whim_conn *best = NULL;
    for (whim_conn *conn = http->conns; conn != NULL; conn = conn->next) {
        const int64_t last = http->shook[conn->place];
        const int64_t least = best == NULL ? INT64_MAX : http->shook[best->place];
        if (conn->is_shaking && (last < least || (last == least && conn->number < best->number))) {
            best = conn;
        }
    }
    return best;
}

void whim_http_shake(whim_http *http)
{
    const int64_t begin = whim_clock_ns();
    whim_conn *conn =
        http->n_shaking > 0 && begin >= http->shake_again_ns ? whim_http_next_shake(http) : NULL;
    if (conn != NULL) {
        http->shook[conn->place] = ++http->n_shook;
        whim_conn_shake(http, conn);
        const int64_t end = whim_clock_ns();
        http->shake_again_ns = end + (end - begin);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What comes over the join port: the three messages of joining, and frames behind them. Nobody who
 * does not know the secret is let in, and no frame is longer than the bytes that came. */
#include "ranks/join.h"
#include "ranks/wire.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void frames(const uint8_t *data, int64_t n)
{
    whim_diag diag;
    whim_wire_head head;
    int64_t used = 1;
    while (used > 0 && whim_wire_parse(data, n, &head, &used, &diag) == WHIM_ERR_OK) {
        if (used > n || used > (int64_t)sizeof head + WHIM_WIRE_MOST) {
            abort();
        }
        data += used;
        n -= used;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const whim_join_secret secret = {"a secret of this job", 20};
    const whim_join_facts own = {.n_node = 2, .n_rank = 2, .isa = "avx2"};
    struct {
        whim_join_hello hello;
        whim_join_challenge challenge;
        whim_join_answer answer;
    } in;
    whim_join_hello made;
    whim_diag diag = {""};
    if (n > 0 && data[0] == 'f') {
        frames(data + 1, (int64_t)n - 1);
        return 0;
    }
    memset(&in, 0, sizeof in);
    memcpy(&in, data, n < sizeof in ? n : sizeof in);
    if (whim_join_hello_check(&in.challenge, &in.hello, &own, secret, &diag) == WHIM_ERR_OK ||
        whim_join_answer_check(&in.challenge, &in.hello, &in.answer, secret, &diag) ==
            WHIM_ERR_OK) {
        abort();
    }
    (void)!whim_join_hello_make(&in.challenge, &own, 1, &in.hello.room, secret, &made, &diag);
    (void)!whim_join_compare(&own, &in.hello.facts, in.hello.node, &diag);
    return 0;
}

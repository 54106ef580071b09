/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of a wire takes nothing for a while: what has no data is not waited for, and all
 * comes in order. */
#include "ranks/wire.h"
#include "support/cmocka.h"

#include <string.h>
#include <sys/socket.h>

static whim_wire near, far;
static int32_t n_data, kinds[WHIM_WIRE_HEADS], n_kind;

static whim_err on_frame(void *ctx, const whim_wire_head *head, const void *data, whim_diag *diag)
{
    int32_t number;
    (void)ctx;
    (void)diag;
    if (head->kind == WHIM_WIRE_DATA) {
        assert_int_equal(n_kind, 0);
        memcpy(&number, data, sizeof number);
        assert_int_equal(number, n_data++);
    } else {
        kinds[n_kind++] = head->kind;
    }
    return WHIM_ERR_OK;
}

static void data_send(int32_t number)
{
    static char data[WHIM_WIRE_MOST];
    whim_diag diag = {""};
    memcpy(data, &number, sizeof number);
    whim_wire_head head = {.kind = WHIM_WIRE_DATA, .bytes = sizeof data};
    assert_int_equal(whim_wire_send(&near, head, data, &diag), WHIM_ERR_OK);
}

static void ends_and_beginnings_wait_behind_orders(void **state)
{
    (void)state;
    int pair[2];
    int32_t n_sent = 0;
    whim_diag diag = {""};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    whim_wire_open(&near, pair[0], 0);
    whim_wire_open(&far, pair[1], 0);
    while (near.n_out == 0) {
        data_send(n_sent++);
    }
    for (int32_t i = 0; i + 1 < WHIM_WIRE_HEADS; i++) {
        whim_wire_head head = {.kind = i % 2 == 0 ? WHIM_WIRE_END : WHIM_WIRE_BEGIN};
        assert_int_equal(whim_wire_send(&near, head, NULL, &diag), WHIM_ERR_OK);
    }
    while (near.n_out > 0) {
        assert_int_equal(whim_wire_take(&far, on_frame, NULL, &diag), WHIM_ERR_OK);
        assert_int_equal(whim_wire_flush(&near, &diag), WHIM_ERR_OK);
    }
    assert_int_equal(whim_wire_take(&far, on_frame, NULL, &diag), WHIM_ERR_OK);
    assert_int_equal(n_data, n_sent);
    assert_int_equal(n_kind, WHIM_WIRE_HEADS - 1);
    for (int32_t i = 0; i < n_kind; i++) {
        assert_int_equal(kinds[i], i % 2 == 0 ? WHIM_WIRE_END : WHIM_WIRE_BEGIN);
    }
    whim_wire_close(&near);
    whim_wire_close(&far);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_and_beginnings_wait_behind_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

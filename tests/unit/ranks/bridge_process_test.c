/* SPDX-License-Identifier: Apache-2.0 */
/* The process of a bridge as its parent sees it: what it answers to orders that are none, where
 * there is no module, and that it ends with its parent's end of the socket. */
#include "comm/comm.h"
#include "ranks/bridge_order.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void set_unless_set(const char *name, const char *value)
{
    setenv(name, value, 0);
}

/* A child with the socket and the memory where it expects them; returns the parent's end. */
static int child_begin(const whim_comm_memory *memory, pid_t *pid)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    *pid = fork();
    assert_true(*pid >= 0);
    if (*pid == 0) {
        int far = dup2(pair[1], 20), shared = dup2(memory->fd, 21);
        close(pair[0]); /* one of the two here would keep the socket open */
        close(pair[1]);
        dup2(far, WHIM_BRIDGE_SOCKET);
        dup2(shared, WHIM_BRIDGE_MEMORY);
        close(far);
        _exit(whim_bridge_main(_exit, set_unless_set));
    }
    close(pair[1]);
    return pair[0];
}

static int child_end(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static whim_bridge_order order_make(void)
{
    return (whim_bridge_order){.magic = WHIM_BRIDGE_MAGIC,
                               .bytes = sizeof(whim_bridge_order),
                               .version = WHIM_VERSION,
                               .generation = 1,
                               .n_node = 2,
                               .rank_first = {0, 1, 2}};
}

static void says(const whim_comm_memory *memory, const void *order, size_t bytes, int32_t err,
                 const char *text)
{
    pid_t pid;
    whim_bridge_reply reply;
    int socket = child_begin(memory, &pid);
    assert_int_equal(send(socket, order, bytes, 0), bytes);
    assert_int_equal(recv(socket, &reply, sizeof reply, 0), sizeof reply);
    assert_int_equal(reply.magic, WHIM_BRIDGE_MAGIC);
    assert_int_equal(reply.err, err);
    assert_non_null(strstr(reply.diag.text, text));
    /* It ends by itself; a socket that closes before would end it, too, but in peace. */
    assert_int_equal(child_end(pid), EXIT_FAILURE);
    close(socket);
}

static void wrong_orders_are_refused(void **state)
{
    (void)state;
    whim_comm_memory memory;
    whim_diag diag = {""};
    assert_int_equal(whim_comm_memory_make(2, &memory, &diag), WHIM_ERR_OK);
    const char *none = "the order for a bridge does not come from whimbrel";
    whim_bridge_order order = order_make();
    says(&memory, &order, sizeof order - 1, WHIM_ERR_CORRUPT, none);
    order.version[0] = 'x';
    says(&memory, &order, sizeof order, WHIM_ERR_CORRUPT, none);
    order = order_make();
    order.n_node = WHIM_BRIDGE_MAX_NODE + 1;
    says(&memory, &order, sizeof order, WHIM_ERR_CORRUPT, none);
    order = order_make();
    memset(order.device, 'x', sizeof order.device);
    says(&memory, &order, sizeof order, WHIM_ERR_CORRUPT, none);
    /* beside this test there is no module */
    order = order_make();
    says(&memory, &order, sizeof order, WHIM_ERR_UNSUPPORTED, "libucx-dev");
    whim_comm_memory_close(&memory);
}

static void nobody_orders(void **state)
{
    (void)state;
    whim_comm_memory memory;
    whim_diag diag = {""};
    pid_t pid;
    assert_int_equal(whim_comm_memory_make(2, &memory, &diag), WHIM_ERR_OK);
    int socket = child_begin(&memory, &pid);
    close(socket);
    assert_int_equal(child_end(pid), EXIT_FAILURE);
    whim_comm_memory_close(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_orders_are_refused),
        cmocka_unit_test(nobody_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

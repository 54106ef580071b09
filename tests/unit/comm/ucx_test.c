/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts that are joined by the real module, over the loopback interface; and what is said where
 * there is none. */
#include "base/clock.h"
#include "support/cmocka.h"
#include "support/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void set_unless_set(const char *name, const char *value)
{
    setenv(name, value, 0);
}

/* The module of this build lies beside its program: build/X/tests/unit/comm/ucx_test. */
static const whim_link_ops *module(void)
{
    char path[4096 + 32];
    whim_diag diag = {""};
    const whim_link_ops *ops = NULL;
    ssize_t n = readlink("/proc/self/exe", path, 4096);
    assert_true(n > 0);
    path[n] = '\0';
    for (int32_t i = 0; i < 4; i++) {
        *strrchr(path, '/') = '\0';
    }
    strcat(path, "/whimbrel-ucx.so");
    if (access(path, R_OK) != 0) {
        print_message("skipped: no whimbrel-ucx.so; it is built where libucx-dev is installed\n");
        skip();
    }
    if (whim_link_load(path, set_unless_set, &ops, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    return ops;
}

static whim_hosts *group_new(void)
{
    static whim_hosts g;
    memset(&g, 0, sizeof g);
    g.ops = module();
    g.device = "lo";
    return &g;
}

static void hosts_do_as_one(void **state)
{
    (void)state;
    whim_diag diag = {""};
    if (whim_hosts_same(group_new(), (const int32_t[]){1, 2, 0}, &diag) != WHIM_ERR_OK ||
        whim_hosts_same(group_new(), (const int32_t[]){1, 1, 1, 0}, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
}

static void barriers(whim_hosts_rank *rank)
{
    while (rank->err == WHIM_ERR_OK) {
        rank->err = whim_comm_barrier(&rank->comm, "again");
    }
}

/* The end and its reason travel, however long the reason is. */
static void ends_are_everywhere(void **state)
{
    (void)state;
    char why[1500];
    memset(why, 'x', sizeof why);
    why[sizeof why - 1] = '\0';
    whim_hosts *g = group_new();
    whim_hosts_begin(g, (const int32_t[]){1, 1, 0}, barriers);
    whim_hosts_await_round(g, 1);
    whim_comm_abort(&g->hosts[1].memory, why);
    whim_hosts_join_ranks(g);
    whim_hosts_stop(g);
    whim_hosts_close(g);
    assert_string_equal(g->ranks[0].comm.diag.text, why);
}

static void wrong_interfaces_are_named(void **state)
{
    (void)state;
    whim_comm_memory memory;
    whim_bridge *bridge;
    whim_link_address address;
    whim_diag diag = {""};
    const int32_t rank_first[] = {0, 1, 2};
    const whim_link_ops *ops = module();
    assert_int_equal(whim_comm_memory_make(2, &memory, &diag), WHIM_ERR_OK);
    whim_bridge_cfg cfg = {
        .memory = &memory, .ops = ops, .device = "nothing0", .n_node = 2, .rank_first = rank_first};
    assert_int_equal(whim_bridge_open(&cfg, &bridge, &address, &diag), WHIM_ERR_IO);
    assert_non_null(strstr(diag.text, "UCX cannot begin on the interface nothing0: "));
    whim_comm_memory_close(&memory);
}

static void without_a_module_the_package_is_named(void **state)
{
    (void)state;
    const whim_link_ops *ops;
    whim_diag diag = {""};
    assert_int_equal(whim_link_load(NULL, set_unless_set, &ops, &diag), WHIM_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "install the package libucx-dev"));
    assert_int_equal(whim_link_load("/dev/null", set_unless_set, &ops, &diag),
                     WHIM_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "libucx0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_do_as_one),
        cmocka_unit_test(ends_are_everywhere),
        cmocka_unit_test(wrong_interfaces_are_named),
        cmocka_unit_test(without_a_module_the_package_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Control group limits, read from made-up trees of files. */
#include "base/os/cgroup.h"
#include "support/cmocka.h"
#include "support/tree.h"

#include <stdint.h>

static void test_nothing(void **state)
{
    (void)state;
    assert_int_equal(whim_os_cgroup_cpus(tree_root), INT32_MAX);
    assert_int_equal(whim_os_cgroup_mem_left(tree_root), INT64_MAX);
}

static void test_v2(void **state)
{
    (void)state;
    tree_put("/proc/self/mountinfo", "20 1 0:1 / / rw - ext4 /dev/x rw\n"
                                     "30 20 0:2 / /cg rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
    tree_put("/proc/self/cgroup", "0::/a/b\n");
    tree_put("/cg/a/b/cpu.max", "max 100000\n");
    tree_put("/cg/a/b/memory.max", "max\n");
    tree_put("/cg/a/b/memory.current", "500\n");
    assert_int_equal(whim_os_cgroup_cpus(tree_root), INT32_MAX);
    assert_int_equal(whim_os_cgroup_mem_left(tree_root), INT64_MAX);
    /* A parent's limit holds too. */
    tree_put("/cg/a/cpu.max", "250000 100000\n");
    tree_put("/cg/a/memory.max", "10000\n");
    tree_put("/cg/a/memory.current", "6000\n");
    assert_int_equal(whim_os_cgroup_cpus(tree_root), 3);
    assert_int_equal(whim_os_cgroup_mem_left(tree_root), 4000);
    tree_put("/cg/a/memory.stat", "anon 10\nfile 3000\nactive_file 2000\ninactive_file 1000\n");
    assert_int_equal(whim_os_cgroup_mem_left(tree_root), 5000);
    tree_put("/cg/a/b/cpu.max", "100000 100000\n");
    tree_put("/cg/a/b/memory.max", "700\n");
    assert_int_equal(whim_os_cgroup_cpus(tree_root), 1);
    assert_int_equal(whim_os_cgroup_mem_left(tree_root), 200);
    tree_put("/cg/a/b/memory.current", "800\n"); /* over the limit */
    assert_int_equal(whim_os_cgroup_mem_left(tree_root), 0);
    tree_put("/cg/a/b/cpu.max", "1000 100000\n");
    assert_int_equal(whim_os_cgroup_cpus(tree_root), 1);
}

static void test_v1(void **state)
{
    (void)state;
    tree_put("/proc/self/mountinfo",
             "31 20 0:3 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
             "32 20 0:4 /docker/x /cg/memory rw - cgroup cgroup rw,memory\n"
             "33 20 0:5 / /cg/unified rw - cgroup2 cgroup2 rw\n");
    tree_put("/proc/self/cgroup",
             "4:memory:/docker/x/y\n2:cpuset:/no\n1:cpu,cpuacct:/docker/x\n0::/\n");
    tree_put("/cg/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "-1\n");
    tree_put("/cg/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
    tree_put("/cg/memory/y/memory.limit_in_bytes", "9223372036854771712\n");
    tree_put("/cg/memory/y/memory.usage_in_bytes", "1000\n");
    assert_int_equal(whim_os_cgroup_cpus(tree_root), INT32_MAX);
    assert_int_equal(whim_os_cgroup_mem_left(tree_root), INT64_MAX);
    tree_put("/cg/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "400000\n");
    tree_put("/cg/memory/y/memory.limit_in_bytes", "5000\n");
    tree_put("/cg/memory/y/memory.stat", "inactive_file 1\ntotal_inactive_file 100\n");
    assert_int_equal(whim_os_cgroup_cpus(tree_root), 4);
    assert_int_equal(whim_os_cgroup_mem_left(tree_root), 4100);
}

/* A container whose own group looks like the top: the path in /proc/self/cgroup is the host's. */
static void test_v1_container(void **state)
{
    (void)state;
    tree_put("/proc/self/mountinfo",
             "32 20 0:4 /docker/x /cg/memory rw - cgroup cgroup rw,memory\n");
    tree_put("/proc/self/cgroup", "4:memory:/other\n");
    tree_put("/cg/memory/memory.limit_in_bytes", "5000\n");
    tree_put("/cg/memory/memory.usage_in_bytes", "1000\n");
    assert_int_equal(whim_os_cgroup_mem_left(tree_root), 4000);
}

static void test_malformed(void **state)
{
    (void)state;
    tree_put("/proc/self/mountinfo", "\nx\n - \n30 20 0:2 / /cg rw - cgroup2\n"
                                     "30 20 0:2 / /cg rw - cgroup2 cgroup2 rw\n");
    tree_put("/proc/self/cgroup", "\n:\n0\n0::/\n");
    tree_put("/cg/cpu.max", "fast\n");
    tree_put("/cg/memory.max", "lots\n");
    assert_int_equal(whim_os_cgroup_cpus(tree_root), INT32_MAX);
    assert_int_equal(whim_os_cgroup_mem_left(tree_root), INT64_MAX);
    tree_put("/cg/cpu.max", "100 0\n");
    assert_int_equal(whim_os_cgroup_cpus(tree_root), INT32_MAX);
    tree_put("/cg/cpu.max", "9223372036854775807 1\n");
    assert_int_equal(whim_os_cgroup_cpus(tree_root), INT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(test_v2, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(test_v1, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(test_v1_container, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(test_malformed, tree_setup, tree_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

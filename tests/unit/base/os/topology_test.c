/* SPDX-License-Identifier: Apache-2.0 */
/* Cores and nodes: from a made-up /sys, from hwloc's made-up machines, from this machine;
 * slices. */
#include "base/os/topology.h"
#include "support/cmocka.h"
#include "support/tree.h"

static whim_os_topology topology, other; /* large */

static whim_os_mask mask_of(int32_t begin, int32_t end)
{
    whim_os_mask mask = {{0}};
    for (int32_t cpu = begin; cpu < end; cpu++) {
        whim_os_mask_add(&mask, cpu);
    }
    return mask;
}

/* Two nodes, four cores of two CPUs each; siblings are 4 apart, nodes take turns, as on real
 * machines. */
static void put_machine(void)
{
    for (int cpu = 0; cpu < 8; cpu++) {
        char path[128], list[32];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 cpu);
        snprintf(list, sizeof list, "%d,%d\n", cpu % 4, cpu % 4 + 4);
        tree_put(path, list);
    }
    tree_put("/sys/devices/system/node/online", "0,2\n");
    tree_put("/sys/devices/system/node/node0/cpulist", "0,2,4,6\n");
    tree_put("/sys/devices/system/node/node2/cpulist", "1,3,5,7\n");
}

static void assert_cpus(const whim_os_topology *t, const int32_t (*expected)[3], int32_t n)
{
    assert_int_equal(t->n_cpu, n);
    for (int32_t i = 0; i < n; i++) {
        assert_int_equal(t->cpus[i].cpu, expected[i][0]);
        assert_int_equal(t->cpus[i].core, expected[i][1]);
        assert_int_equal(t->cpus[i].node, expected[i][2]);
    }
}

static void test_sysfs(void **state)
{
    (void)state;
    const int32_t all[8][3] = {{0, 0, 0}, {4, 0, 0}, {2, 1, 0}, {6, 1, 0},
                               {1, 2, 2}, {5, 2, 2}, {3, 3, 2}, {7, 3, 2}};
    const int32_t some[3][3] = {{4, 0, 0}, {6, 1, 0}, {5, 2, 2}};
    whim_os_mask mask = mask_of(0, 8);
    assert_false(whim_os_topology_sysfs(tree_root, &mask, &topology)); /* nothing there */
    put_machine();
    assert_true(whim_os_topology_sysfs(tree_root, &mask, &topology));
    assert_cpus(&topology, all, 8);
    assert_int_equal(topology.n_core, 4);
    assert_int_equal(topology.n_node, 2);
    assert_int_equal(whim_os_topology_even_nodes(&topology), 2);
    mask = mask_of(4, 7); /* a mask that leaves one CPU of each core, and no core 3 */
    assert_true(whim_os_topology_sysfs(tree_root, &mask, &topology));
    assert_cpus(&topology, some, 3);
    assert_int_equal(topology.n_node, 2);
    assert_int_equal(whim_os_topology_even_nodes(&topology), 1); /* two cores and one */
    assert_int_equal(topology.n_core, 3);
    mask = mask_of(4, 9); /* a CPU of which nothing is told */
    assert_false(whim_os_topology_sysfs(tree_root, &mask, &topology));
    mask = mask_of(0, 0);
    assert_false(whim_os_topology_sysfs(tree_root, &mask, &topology));
}

static void test_sysfs_lists(void **state)
{
    (void)state;
    const int32_t expected[3][3] = {{1, 0, 0}, {2, 0, 0}, {3, 0, 0}};
    whim_os_mask mask = mask_of(1, 4);
    for (int cpu = 1; cpu < 4; cpu++) {
        char path[128];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 cpu);
        tree_put(path, cpu == 1 ? "0-3" : cpu == 2 ? "0-2,3\n" : "0,1-99999999999\n");
    }
    assert_true(whim_os_topology_sysfs(tree_root, &mask, &topology)); /* and no nodes: one */
    assert_cpus(&topology, expected, 3);
    assert_int_equal(topology.n_node, 1);
    tree_put("/sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "what\n");
    assert_false(whim_os_topology_sysfs(tree_root, &mask, &topology));
}

static void slice_is(int32_t index, int32_t count, int32_t begin, int32_t end)
{
    int32_t b, e;
    whim_os_topology_slice(&topology, index, count, &b, &e);
    assert_int_equal(b, begin);
    assert_int_equal(e, end);
}

static void test_slices(void **state)
{
    (void)state;
    whim_os_mask mask = mask_of(0, 8), part;
    put_machine();
    assert_true(whim_os_topology_sysfs(tree_root, &mask, &topology));
    slice_is(0, 1, 0, 8);
    slice_is(0, 2, 0, 4); /* a node each */
    slice_is(1, 2, 4, 8);
    slice_is(0, 3, 0, 2); /* whole cores */
    slice_is(1, 3, 2, 4);
    slice_is(2, 3, 4, 8);
    for (int32_t i = 0; i < 4; i++) {
        slice_is(i, 4, 2 * i, 2 * i + 2);
    }
    for (int32_t i = 0; i < 8; i++) {
        slice_is(i, 8, i, i + 1);
        slice_is(i, 9, 0, 8); /* too many for one each */
    }
    int32_t nodes[8];
    assert_int_equal(whim_os_topology_nodes(&topology, 0, 1, nodes), 2);
    assert_true(nodes[0] == 0 && nodes[1] == 2);
    assert_int_equal(whim_os_topology_nodes(&topology, 2, 3, nodes), 1);
    assert_int_equal(nodes[0], 2);
    whim_os_topology_mask(&topology, 2, 4, &part);
    assert_true(whim_os_mask_has(&part, 2) && whim_os_mask_has(&part, 6));
    assert_true(whim_os_mask_covers(&mask, &part));
    assert_false(whim_os_mask_has(&part, 0) || whim_os_mask_has(&part, 1));
}

/* hwloc makes up the machine that its variable names. */
static void test_hwloc(void **state)
{
    (void)state;
    whim_os_mask mask = mask_of(0, 8);
    const int32_t expected[8][3] = {{0, 0, 0}, {1, 0, 0}, {2, 1, 0}, {3, 1, 0},
                                    {4, 2, 1}, {5, 2, 1}, {6, 3, 1}, {7, 3, 1}};
    setenv("HWLOC_SYNTHETIC", "numa:2 core:2 pu:2", 1);
    bool told = whim_os_topology_hwloc(&mask, &topology);
    unsetenv("HWLOC_SYNTHETIC");
    if (!told) {
        skip(); /* built without it */
    }
    assert_cpus(&topology, expected, 8);
    assert_string_equal(topology.source, "hwloc");
}

/* Both readers tell the same of this machine, and it is what is used. */
static void test_here(void **state)
{
    (void)state;
    const whim_os_topology *t = whim_os_topology_get();
    assert_int_equal(t->n_cpu, whim_os_cpu_mask_count());
    assert_true(t->n_core >= 1 && t->n_core <= t->n_cpu && t->n_node >= 1);
    if (whim_os_topology_hwloc(whim_os_cpu_mask(), &topology) &&
        whim_os_topology_sysfs("", whim_os_cpu_mask(), &other)) {
        assert_int_equal(topology.n_cpu, other.n_cpu);
        assert_int_equal(topology.n_core, other.n_core);
        assert_memory_equal(topology.cpus, other.cpus,
                            (size_t)topology.n_cpu * sizeof topology.cpus[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sysfs, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(test_sysfs_lists, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(test_slices, tree_setup, tree_teardown),
        cmocka_unit_test(test_hwloc),
        cmocka_unit_test(test_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* CPU counts, pins and names. */
#include "base/os/cpu.h"
#include "support/cmocka.h"
#include "support/death.h"

#include <sched.h>
#include <string.h>

#include <stdint.h>

/* The first test of all: the mask is read once, so a child with a narrow one must come before. */
static void count_under_narrow_mask(void *ctx)
{
    (void)ctx;
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &one);
            break;
        }
    }
    if (sched_setaffinity(0, sizeof one, &one) != 0 || whim_os_cpu_count() != 1) {
        _exit(1);
    }
}

static void test_mask_counts(void **state)
{
    (void)state;
    assert_int_equal(death_signal(count_under_narrow_mask, NULL), 0);
}

static void test_count(void **state)
{
    (void)state;
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    assert_int_equal(whim_os_cpu_mask_count(), CPU_COUNT(&set));
    assert_true(whim_os_cpu_count() >= 1);
    assert_true(whim_os_cpu_count() <= whim_os_cpu_mask_count());
}

static void test_thread_mask(void **state)
{
    (void)state;
    whim_os_mask before, one = {{0}}, now;
    int32_t n = whim_os_cpu_mask_count();
    assert_true(whim_os_thread_mask(&before));
    for (int32_t cpu = 0; cpu < WHIM_OS_CPUS_MAX; cpu++) {
        if (whim_os_mask_has(&before, cpu)) {
            one = (whim_os_mask){{0}};
            whim_os_mask_add(&one, cpu);
            assert_true(whim_os_thread_set_mask(&one));
            assert_true(whim_os_thread_mask(&now));
            assert_memory_equal(&now, &one, sizeof one);
            assert_int_equal(whim_os_cpu_mask_count(), n); /* the process's stays */
        }
    }
    assert_false(whim_os_thread_set_mask(&(whim_os_mask){{0}}));
    whim_os_thread_unpin();
    assert_true(whim_os_thread_mask(&now));
    assert_memory_equal(&now, &before, sizeof now);
}

static void test_mask(void **state)
{
    (void)state;
    whim_os_mask a = {{0}}, b = {{0}};
    assert_true(whim_os_mask_covers(&a, &b));
    whim_os_mask_add(&a, 0);
    whim_os_mask_add(&a, WHIM_OS_CPUS_MAX - 1);
    whim_os_mask_add(&a, WHIM_OS_CPUS_MAX); /* beyond: not kept */
    whim_os_mask_add(&a, -1);
    assert_true(whim_os_mask_has(&a, 0) && whim_os_mask_has(&a, WHIM_OS_CPUS_MAX - 1));
    assert_false(whim_os_mask_has(&a, 1) || whim_os_mask_has(&a, WHIM_OS_CPUS_MAX) ||
                 whim_os_mask_has(&a, -1));
    assert_true(whim_os_mask_covers(&a, &b));
    assert_false(whim_os_mask_covers(&b, &a));
    whim_os_mask_add(&b, 64);
    assert_false(whim_os_mask_covers(&a, &b));
}

static const char *model_of(const char *cpuinfo)
{
    static char name[64];
    whim_os_cpu_model_parse(cpuinfo, name, sizeof name);
    return name;
}

static void test_model(void **state)
{
    (void)state;
    assert_string_equal(
        model_of("processor\t: 0\nmodel\t\t: 143\nmodel name\t: Maker(R) 8480+\nx : y\n"),
        "Maker(R) 8480+");
    assert_string_equal(model_of("CPU implementer\t: 0x41\nCPU part\t: 0xd40\n"), "Neoverse-V1");
    assert_string_equal(model_of("CPU implementer\t: 0x41\nCPU part\t: 0xd08"), "Cortex-A72");
    assert_string_equal(model_of("CPU implementer\t: 0x61\nCPU part\t: 0x022\n"), "Apple M1");
    assert_string_equal(model_of("CPU implementer\t: 0x41\nCPU part\t: 0xeee\n"),
                        "Arm part 0xeee of maker 0x41");
    assert_string_equal(model_of("CPU implementer\t: 0x41\n"), "unknown CPU");
    assert_string_equal(model_of("model name\t:\nCPU implementer:"), "unknown CPU");
    assert_string_equal(model_of(""), "unknown CPU");
    char name[128], cut[4];
    whim_os_cpu_model(name, sizeof name);
    assert_true(strlen(name) > 0);
    whim_os_cpu_model(cut, sizeof cut);
    assert_true(strlen(cut) < sizeof cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mask_counts), cmocka_unit_test(test_count),
        cmocka_unit_test(test_thread_mask), cmocka_unit_test(test_mask),
        cmocka_unit_test(test_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

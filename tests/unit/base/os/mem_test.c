/* SPDX-License-Identifier: Apache-2.0 */
/* Amounts of memory, and pages. */
#include "base/os/mem.h"
#include "base/os/procfile.h"
#include "base/os/topology.h"
#include "support/cmocka.h"
#include "support/death.h"
#include "support/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <stdint.h>

static void test_nodes(void **state)
{
    (void)state;
    assert_int_equal(whim_os_mem_node_available(tree_root, 2), -1);
    tree_put("/sys/devices/system/node/node2/meminfo", "Node 2 MemTotal:  1000 kB\n"
                                                       "Node 2 MemFree:   100 kB\n"
                                                       "Node 2 Active(file): 20 kB\n"
                                                       "Node 2 Inactive(file):  3 kB\n");
    assert_int_equal(whim_os_mem_node_available(tree_root, 2), 123 * 1024);
}

static void test_amounts(void **state)
{
    (void)state;
    int64_t total = whim_os_mem_total(), available = whim_os_mem_available();
    int64_t resident = whim_os_mem_anon_resident();
    assert_true(total > INT64_C(16) << 20);
    assert_true(available > 0 && available <= total);
    assert_true(resident > 0 && resident < total);
    int64_t page = whim_os_page_bytes();
    assert_true(page >= 4096 && (page & (page - 1)) == 0);
}

/* Large blocks that were freed are nobody's, however many of them there were before, and whatever
 * was taken after them. */
static void test_little_is_kept(void **state)
{
    (void)state;
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    enum { N = 8, EACH = 8 << 20 };
    char *blocks[N], *after[N];
    whim_os_mem_keep_little();
    int64_t before = whim_os_mem_anon_resident();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            blocks[i] = malloc(EACH);
            assert_non_null(blocks[i]);
            memset(blocks[i], 1, EACH);
            after[i] = malloc(1000);
        }
        for (int i = 0; i < N; i++) {
            free(blocks[i]);
        }
        assert_true(whim_os_mem_anon_resident() - before < N * (int64_t)EACH / 4);
        for (int i = 0; i < N; i++) {
            free(after[i]);
        }
    }
#else
    skip(); /* another allocator */
#endif
}

static void test_pages(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 4096, 100000, INT64_C(9) << 20, (INT64_C(64) << 20) + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *p = whim_os_pages_alloc(sizes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % (uintptr_t)whim_os_page_bytes(), 0);
        if (sizes[i] >= INT64_C(8) << 20) {
            assert_int_equal((uintptr_t)p % (UINT64_C(2) << 20), 0);
        }
        assert_int_equal(p[0], 0);
        assert_int_equal(p[sizes[i] - 1], 0);
        p[0] = 1;
        p[sizes[i] - 1] = 1;
        whim_os_pages_free(p, sizes[i]);
    }
    assert_null(whim_os_pages_alloc(0));
    assert_null(whim_os_pages_alloc(-1));
    assert_null(whim_os_pages_alloc(INT64_MAX));
    assert_null(whim_os_pages_alloc(INT64_C(1) << 60));
    whim_os_pages_free(NULL, 10);
}

static void test_commit(void **state)
{
    (void)state;
    int64_t bytes = INT64_C(32) << 20, before = whim_os_mem_anon_resident();
    char *p = whim_os_pages_alloc(bytes);
    assert_non_null(p);
    p[5] = 7;
    whim_os_pages_commit(p, bytes);
    assert_true(whim_os_mem_anon_resident() >= before + bytes * 9 / 10);
    assert_int_equal(p[5], 7);
    assert_int_equal(p[bytes - 1], 0);
    whim_os_pages_free(p, bytes);
}

/* Whether the system puts memory behind pages in one call: old kernels and emulators do not. */
static bool populates(void)
{
    unsigned char is_there = 0;
    char *p = whim_os_pages_alloc(whim_os_page_bytes());
    assert_non_null(p);
#ifdef MADV_POPULATE_WRITE
    (void)madvise(p, (size_t)whim_os_page_bytes(), MADV_POPULATE_WRITE);
#endif
    assert_int_equal(mincore(p, (size_t)whim_os_page_bytes(), &is_there), 0);
    whim_os_pages_free(p, whim_os_page_bytes());
    return (is_there & 1) != 0;
}

/* A page that is read before it is written would be asked for twice. */
static void test_commit_asks_once(void **state)
{
    (void)state;
    int64_t bytes = INT64_C(4) << 20, n = bytes / whim_os_page_bytes();
    struct rusage before, after;
    if (!populates()) {
        skip();
    }
    char *p = whim_os_pages_alloc(bytes);
    assert_non_null(p);
    getrusage(RUSAGE_SELF, &before);
    whim_os_pages_commit(p, bytes);
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_minflt - before.ru_minflt < n * 3 / 2);
    whim_os_pages_free(p, bytes);
}

static void test_pages_go_back(void **state)
{
    (void)state;
    int64_t bytes = INT64_C(64) << 20, before = whim_os_mem_anon_resident();
    char *p = whim_os_pages_alloc(bytes);
    assert_non_null(p);
    memset(p, 1, (size_t)bytes);
    assert_true(whim_os_mem_anon_resident() >= before + bytes / 2);
    whim_os_pages_free(p, bytes);
    assert_true(whim_os_mem_anon_resident() < before + bytes / 2);
}

static int64_t mapped_kb(void)
{
    char text[8192];
    int64_t kb = 0;
    assert_true(whim_os_file_text("/proc/self/status", text, sizeof text) > 0);
    assert_true(whim_os_text_number(text, "VmSize:", &kb));
    return kb;
}

/* Aligning a block cuts off its edges; they must not stay mapped. */
static void test_no_addresses_leak(void **state)
{
    (void)state;
    int64_t before = mapped_kb();
    for (int i = 0; i < 32; i++) {
        int64_t bytes = (INT64_C(9) << 20) + i * whim_os_page_bytes();
        char *p = whim_os_pages_alloc(bytes);
        assert_non_null(p);
        whim_os_pages_free(p, bytes);
    }
    assert_true(mapped_kb() < before + 4096);
}

static void touch(void *ctx)
{
    *(volatile char *)ctx = 1;
}

static void test_protect(void **state)
{
    (void)state;
    int64_t page = whim_os_page_bytes();
    char *p = whim_os_pages_alloc(2 * page);
    assert_non_null(p);
    p[0] = 7;
    assert_true(whim_os_pages_protect(p, page, WHIM_OS_CLOSED));
    assert_int_equal(death_signal(touch, p), SIGSEGV);
    assert_int_equal(death_signal(touch, p + page - 1), SIGSEGV);
    assert_int_equal(death_signal(touch, p + page), 0);
    assert_true(whim_os_pages_protect(p, page, WHIM_OS_OPEN));
    assert_int_equal(death_signal(touch, p), 0);
    assert_int_equal(p[0], 7);
    whim_os_pages_free(p, 2 * page);
    assert_false(whim_os_pages_protect((void *)(uintptr_t)1, page, WHIM_OS_CLOSED));
}

/* One node must be there, whatever its number; here the policy only has to be taken, and the pages
 * to work. */
static void test_interleave(void **state)
{
    (void)state;
    const whim_os_topology *t = whim_os_topology_get();
    int64_t bytes = 3 * whim_os_page_bytes() + 1;
    char *p = whim_os_pages_alloc(bytes);
    assert_non_null(p);
    errno = 0;
    bool spread = whim_os_pages_interleave(p, bytes, &t->cpus[0].node, 1);
    if (!spread && errno == ENOSYS) { /* an emulator without the call */
        whim_os_pages_free(p, bytes);
        skip();
    }
    assert_true(spread);
    whim_os_pages_commit(p, bytes);
    p[bytes - 1] = 5;
    assert_int_equal(p[0], 0);
    assert_false(whim_os_pages_interleave(p, bytes, &(int32_t){-1}, 1));
    assert_false(whim_os_pages_interleave(p, bytes, &(int32_t){1 << 20}, 1));
    whim_os_pages_free(p, bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_amounts),
        cmocka_unit_test(test_little_is_kept),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_pages_go_back),
        cmocka_unit_test(test_no_addresses_leak),
        cmocka_unit_test(test_protect),
        cmocka_unit_test(test_commit),
        cmocka_unit_test(test_commit_asks_once),
        cmocka_unit_test(test_interleave),
        cmocka_unit_test_setup_teardown(test_nodes, tree_setup, tree_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

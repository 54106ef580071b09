/* SPDX-License-Identifier: Apache-2.0 */
/* The disk tier: pages come back after a restart and after a kill -9 in the middle of writing; the
 * limit holds; other spaces, other processes, foreign files and a disk that stands still do no
 * harm. */
#include "base/clock.h"
#include "kv/disk_tier.h"
#include "support/cmocka.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE_LEN = 32, PAGE = 4096 };

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/whim_tier_XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static whim_disk_tier *open_tier(const char *space, int64_t max_bytes)
{
    whim_disk_tier *tier;
    whim_diag diag = {""};
    whim_disk_tier_cfg cfg = {.dir = folder,
                              .space = space,
                              .page_bytes = PAGE,
                              .page_len = PAGE_LEN,
                              .max_bytes = max_bytes};
    if (whim_disk_tier_open(&cfg, &tier, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    return tier;
}

static void fill(int32_t i, whim_prefix_key *key, int32_t *tokens, char *page)
{
    *key = (whim_prefix_key){{(uint64_t)i * 7919, (uint64_t)i}};
    for (int32_t k = 0; k < PAGE_LEN; k++) {
        tokens[k] = i + k;
    }
    for (int32_t k = 0; k < PAGE; k++) {
        page[k] = (char)(i * 31 + k);
    }
}

static void put(whim_disk_tier *tier, int32_t i)
{
    whim_prefix_key key;
    int32_t tokens[PAGE_LEN];
    char page[PAGE];
    fill(i, &key, tokens, page);
    whim_disk_tier_put(tier, &key, tokens, page);
}

static bool get(whim_disk_tier *tier, int32_t i)
{
    whim_prefix_key key;
    int32_t tokens[PAGE_LEN];
    char page[PAGE], got[PAGE];
    fill(i, &key, tokens, page);
    bool there = whim_disk_tier_get(tier, &key, tokens, got);
    assert_true(!there || memcmp(page, got, PAGE) == 0);
    tokens[0] = -1;
    assert_false(whim_disk_tier_get(tier, &key, tokens, got));
    return there;
}

static void pages_survive_a_restart(void **state)
{
    (void)state;
    whim_disk_tier *tier = open_tier("a", 0);
    for (int32_t i = 0; i < 40; i++) {
        put(tier, i);
        put(tier, i);              /* once is enough */
        assert_true(get(tier, i)); /* from the queue or from the disk */
    }
    assert_false(get(tier, 40));
    whim_disk_tier_close(tier);
    for (int32_t round = 0; round < 2; round++) {
        tier = open_tier("a", 0);
        assert_int_equal(whim_disk_tier_get_stats(tier).n_page, 40 + round);
        for (int32_t i = 0; i < 40; i++) {
            assert_true(get(tier, i));
        }
        put(tier, 100 + round);
        whim_disk_tier_close(tier);
    }
    tier = open_tier("b", 0);
    assert_false(get(tier, 3));
    whim_disk_tier_close(tier);
}

static void one_process_at_a_time(void **state)
{
    (void)state;
    whim_disk_tier *tier = open_tier("a", 0), *second;
    whim_diag diag = {""};
    whim_disk_tier_cfg cfg = {
        .dir = folder, .space = "a", .page_bytes = PAGE, .page_len = PAGE_LEN};
    assert_int_equal(whim_disk_tier_open(&cfg, &second, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "in use"));
    whim_disk_tier_close(tier);
}

static void the_limit_holds(void **state)
{
    (void)state;
    const int64_t limit = 100 * 1024;
    whim_disk_tier *tier = open_tier("a", limit);
    for (int32_t i = 0; i < 200; i++) {
        put(tier, i);
        put(tier, 0); /* in use all the time */
        assert_true(whim_disk_tier_get_stats(tier).bytes <= limit);
        while (whim_disk_tier_get_stats(tier).queued > 0) {
            usleep(100); /* let the disk keep up */
        }
    }
    whim_disk_tier_close(tier);
    tier = open_tier("a", limit);
    assert_true(get(tier, 199));
    assert_true(get(tier, 0));
    assert_false(get(tier, 5));
    whim_disk_tier_close(tier);
    tier = open_tier("a", limit / 2);
    assert_true(whim_disk_tier_get_stats(tier).bytes <= limit / 2);
    whim_disk_tier_close(tier);
}

static void a_kill_loses_only_cache(void **state)
{
    (void)state;
    for (int32_t round = 0; round < 5; round++) {
        int ready[2];
        assert_int_equal(pipe(ready), 0);
        pid_t pid = fork();
        if (pid == 0) {
            whim_disk_tier *tier = open_tier("a", 0);
            (void)!write(ready[1], "x", 1);
            for (int32_t i = 0;; i++) {
                put(tier, round * 100000 + i);
            }
        }
        char x;
        assert_int_equal(read(ready[0], &x, 1), 1);
        usleep((useconds_t)(1000 + 3000 * round));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(ready[0]);
        close(ready[1]);
        whim_disk_tier *tier = open_tier("a", 0);
        int32_t n = 0;
        while (get(tier, round * 100000 + n)) {
            n++;
        }
        assert_true(whim_disk_tier_get_stats(tier).n_page >= n);
        put(tier, 50000000 + round);
        whim_disk_tier_close(tier);
        tier = open_tier("a", 0);
        assert_true(get(tier, 50000000 + round));
        whim_disk_tier_close(tier);
    }
}

static void foreign_files_are_left_alone(void **state)
{
    (void)state;
    char command[256];
    whim_disk_tier *tier = open_tier("a", 0);
    put(tier, 1);
    whim_disk_tier_close(tier);
    snprintf(
        command, sizeof command,
        "cd %s/* && echo hello > pages-00000009.kv && echo x > other && mkdir pages-00000010.kv",
        folder);
    assert_int_equal(system(command), 0);
    tier = open_tier("a", 0);
    assert_true(get(tier, 1));
    put(tier, 2);
    whim_disk_tier_close(tier);
    tier = open_tier("a", 0);
    assert_true(get(tier, 1) && get(tier, 2));
    whim_disk_tier_close(tier);
}

/* --- a disk that stands still ----------------------------------------------------------------- */

static atomic_bool stands_still, is_kept;

/* In place of the library's: whoever makes a file is kept as long as the disk stands still. */
int openat(int dir, const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    int mode = (flags & O_CREAT) != 0 ? va_arg(more, int) : 0;
    va_end(more);
    while ((flags & O_EXCL) != 0 && atomic_load(&stands_still)) {
        atomic_store(&is_kept, true);
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    return (int)syscall(SYS_openat, dir, path, flags, mode);
}

static void who_puts_a_page_waits_for_no_disk(void **state)
{
    (void)state;
    whim_disk_tier_stats stats;
    whim_disk_tier *tier = open_tier("a", 0);
    atomic_store(&stands_still, true);
    put(tier, 1);
    while (!atomic_load(&is_kept)) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    bool free = whim_disk_tier_try_stats(tier, &stats);
    if (free) { /* else it would be waited for for ever */
        put(tier, 2);
        free = get(tier, 1) && get(tier, 2);
    }
    atomic_store(&stands_still, false);
    whim_disk_tier_close(tier);
    assert_true(free);
    tier = open_tier("a", 0);
    assert_true(get(tier, 1) && get(tier, 2));
    whim_disk_tier_close(tier);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(pages_survive_a_restart),
        IN_FOLDER(one_process_at_a_time),
        IN_FOLDER(the_limit_holds),
        IN_FOLDER(a_kill_loses_only_cache),
        IN_FOLDER(foreign_files_are_left_alone),
        IN_FOLDER(who_puts_a_page_waits_for_no_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

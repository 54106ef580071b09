/* SPDX-License-Identifier: Apache-2.0 */
/* The disk tier: pages come back after a restart and after a kill -9 in the middle of writing; the
 * limit holds; other spaces, other processes, foreign files and a disk that stands still do no
 * harm. */
#include "base/clock.h"
#include "base/heap/budget.h"
#include "kv/disk_folder.h"
#include "kv/disk_tier.h"
#include "support/cmocka.h"

#include <errno.h>
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
    *key = (whim_prefix_key){{0}};
    memcpy(key->byte + 5, &i, sizeof i);
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
    whim_disk_tier_put(tier, WHIM_DISK_PAGE, &key, tokens, page);
}

static bool get(whim_disk_tier *tier, int32_t i)
{
    whim_prefix_key key;
    int32_t tokens[PAGE_LEN];
    char page[PAGE], got[PAGE];
    fill(i, &key, tokens, page);
    bool there = whim_disk_tier_get(tier, WHIM_DISK_PAGE, &key, tokens, got);
    assert_true(!there || memcmp(page, got, PAGE) == 0);
    tokens[0] = -1;
    assert_false(whim_disk_tier_get(tier, WHIM_DISK_PAGE, &key, tokens, got));
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
    assert_int_equal(whim_disk_tier_open(&cfg, &second, &diag), WHIM_ERR_BUSY);
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
    /* what went was put by it, but for a page that was put again */
    assert_int_equal(whim_disk_tier_get_stats(tier).n_lost,
                     200 - whim_disk_tier_get_stats(tier).n_page);
    whim_disk_tier_close(tier);
    tier = open_tier("a", limit);
    assert_true(get(tier, 199));
    assert_true(get(tier, 0));
    assert_false(get(tier, 5));
    whim_disk_tier_close(tier);
    tier = open_tier("a", limit / 2);
    assert_true(whim_disk_tier_get_stats(tier).bytes <= limit / 2);
    assert_int_equal(whim_disk_tier_get_stats(tier).n_lost, 0); /* it was another's */
    whim_disk_tier_close(tier);
}

/* --- limits over all spaces ------------------------------------------------------------------- */

typedef struct found {
    int64_t bytes, n;
} found;

static void add_file(void *ctx, const whim_disk_file *file)
{
    found *f = ctx;
    f->bytes += file->bytes;
    f->n++;
}

static found find_all(void)
{
    found f = {0};
    whim_disk_folder_each(folder, add_file, &f);
    return f;
}

static void settle(whim_disk_tier *tier)
{
    while (whim_disk_tier_get_stats(tier).queued > 0) {
        usleep(100);
    }
}

static int64_t n_got(whim_disk_tier *tier, int32_t first, int32_t n)
{
    int64_t there = 0;
    for (int32_t i = first; i < first + n; i++) {
        there += get(tier, i);
    }
    return there;
}

/* Models that are used no more give way, the oldest first; their folders go when they are empty. */
static void the_limit_is_that_of_all_models(void **state)
{
    (void)state;
    const int64_t limit = 120 * 1024;
    static const char *const spaces[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        whim_disk_tier *tier = open_tier(spaces[i], limit);
        for (int32_t k = 0; k < 12; k++) {
            put(tier, k);
            settle(tier);
            assert_true(find_all().bytes <= limit);
        }
        assert_int_equal(n_got(tier, 0, 12), 12);
        whim_disk_tier_close(tier);
        usleep(20000); /* clocks of files are coarse */
    }
    whim_disk_tier *tier = open_tier("b", limit);
    assert_true(n_got(tier, 0, 12) == 12);
    whim_disk_tier_close(tier);
    tier = open_tier("a", limit);
    assert_in_range(n_got(tier, 0, 12), 0, 4); /* what three times twelve leave of the oldest */
    for (int32_t k = 100; k < 124; k++) {
        put(tier, k);
        settle(tier);
    }
    assert_int_equal(n_got(tier, 100, 24), 24);
    assert_true(find_all().bytes <= limit);
    whim_disk_tier_close(tier);
    tier = open_tier("a", limit / 2);
    assert_true(find_all().bytes <= limit / 2);
    whim_disk_tier_close(tier);
    tier = open_tier("b", limit / 2);
    assert_int_equal(n_got(tier, 0, 12), 0);
    whim_disk_tier_close(tier);
}

/* Two models that are served at once share the limit; who is idle lets go of what was removed. */
static void models_at_once(void **state)
{
    (void)state;
    const int64_t limit = 100 * 1024;
    whim_disk_tier *a = open_tier("a", limit), *b = open_tier("b", limit);
    for (int32_t k = 0; k < 18; k++) {
        put(a, k);
        settle(a);
    }
    usleep(1100000); /* b looks again at what others have */
    for (int32_t k = 0; k < 18; k++) {
        put(b, k);
        settle(b);
    }
    assert_int_equal(n_got(b, 0, 18), 18);
    assert_true(find_all().bytes <= limit);
    int64_t before = whim_disk_tier_get_stats(a).bytes;
    usleep(1100000);
    put(a, 50); /* it looks, too */
    settle(a);
    assert_true(whim_disk_tier_get_stats(a).bytes < before);
    assert_true(get(a, 50));
    assert_false(get(a, 0));
    whim_disk_tier_close(a);
    whim_disk_tier_close(b);
}

/* States lie beside pages under the same key, and share the limit. */
static void states_are_kept_with_pages(void **state)
{
    (void)state;
    enum { STATE = 9000 };
    static char sent[STATE], came[STATE];
    whim_disk_tier_cfg cfg = {.dir = folder,
                              .space = "hybrid",
                              .page_bytes = PAGE,
                              .state_bytes = STATE,
                              .page_len = PAGE_LEN,
                              .max_bytes = 200 * 1024};
    whim_disk_tier *tier;
    whim_prefix_key key;
    int32_t tokens[PAGE_LEN];
    char page[PAGE];
    for (int32_t round = 0; round < 3; round++) {
        assert_int_equal(whim_disk_tier_open(&cfg, &tier, NULL), WHIM_ERR_OK);
        for (int32_t i = 0; i < 20; i++) {
            fill(i, &key, tokens, page);
            memset(sent, i, sizeof sent);
            bool odd = i % 2 != 0;
            if (round == 0) {
                put(tier, i);
                assert_true(!odd || whim_disk_tier_put(tier, WHIM_DISK_STATE, &key, tokens, sent));
                settle(tier);
            }
            assert_true(get(tier, i));
            assert_int_equal(whim_disk_tier_has(tier, WHIM_DISK_STATE, &key), odd);
            assert_int_equal(whim_disk_tier_get(tier, WHIM_DISK_STATE, &key, tokens, came), odd);
            assert_true(!odd || memcmp(sent, came, STATE) == 0);
        }
        whim_disk_tier_close(tier);
    }
    assert_int_equal(whim_disk_tier_open(&cfg, &tier, NULL), WHIM_ERR_OK);
    for (int32_t i = 100; i < 160; i++) {
        fill(i, &key, tokens, page);
        put(tier, i);
        whim_disk_tier_put(tier, WHIM_DISK_STATE, &key, tokens, sent);
        settle(tier);
        assert_true(find_all().bytes <= cfg.max_bytes);
    }
    assert_true(whim_disk_tier_has(tier, WHIM_DISK_STATE, &key));
    whim_disk_tier_close(tier);
}

/* Many short lives fill one file after the other, and make no crowd of them. */
static void files_go_on_after_a_restart(void **state)
{
    (void)state;
    for (int32_t i = 0; i < 70; i++) {
        whim_disk_tier *tier = open_tier("a", 8 << 20);
        put(tier, i);
        whim_disk_tier_close(tier);
    }
    assert_in_range(find_all().n, 1, 3);
    whim_disk_tier *tier = open_tier("a", 8 << 20);
    assert_int_equal(n_got(tier, 0, 70), 70);
    whim_disk_tier_close(tier);
}

/* --- a disk that is full ---------------------------------------------------------------------- */

static atomic_int disk_left = -1; /* bytes; -1: enough */

/* In place of the library's: a disk with so much room. */
ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    int left = atomic_load(&disk_left);
    if (left == 0) {
        errno = ENOSPC;
        return -1;
    }
    if (left > 0) {
        n = n < (size_t)left ? n : (size_t)left;
        atomic_store(&disk_left, left - (int)n);
    }
    return syscall(SYS_pwrite64, fd, bytes, n, at);
}

/* Pages that find no room leave nothing behind, cost none of those that are there, and are kept
 * when there is room again. */
static void a_full_disk_loses_nothing(void **state)
{
    (void)state;
    whim_disk_tier *tier;
    whim_disk_tier_cfg cfg = {.dir = folder,
                              .space = "a",
                              .page_bytes = PAGE,
                              .page_len = PAGE_LEN,
                              .max_bytes = 8 << 20,
                              .pause_ns = 1};
    assert_int_equal(whim_disk_tier_open(&cfg, &tier, NULL), WHIM_ERR_OK);
    for (int32_t i = 0; i < 10; i++) {
        put(tier, i);
    }
    settle(tier);
    found before = find_all();
    for (int32_t left = 0; left < 6000; left += 50) { /* also where half a page fits */
        atomic_store(&disk_left, left < 4096 + 56 + 128 ? left : 0);
        put(tier, 1000 + left);
        settle(tier);
    }
    assert_true(whim_disk_tier_get_stats(tier).n_error >= 100);
    assert_int_equal(find_all().n, before.n);
    assert_int_equal(find_all().bytes, before.bytes);
    assert_int_equal(n_got(tier, 0, 10), 10);
    whim_disk_tier_close(tier);
    atomic_store(&disk_left, 70); /* a new space begins on a full disk */
    cfg.space = "b";
    assert_int_equal(whim_disk_tier_open(&cfg, &tier, NULL), WHIM_ERR_OK);
    for (int32_t i = 0; i < 100; i++) {
        put(tier, i);
        settle(tier);
    }
    assert_int_equal(find_all().n, before.n);
    atomic_store(&disk_left, -1);
    put(tier, 5);
    settle(tier);
    assert_true(get(tier, 5));
    whim_disk_tier_close(tier);
    tier = open_tier("a", 8 << 20);
    assert_int_equal(n_got(tier, 0, 10), 10);
    whim_disk_tier_close(tier);
}

static void who_only_looks_changes_nothing(void **state)
{
    (void)state;
    whim_disk_tier *tier = open_tier("a", 0), *looks;
    whim_disk_tier_cfg cfg = {
        .dir = folder, .space = "a", .page_bytes = PAGE, .page_len = PAGE_LEN, .read_only = true};
    put(tier, 1);
    settle(tier);
    assert_int_equal(whim_disk_tier_open(&cfg, &looks, NULL), WHIM_ERR_OK);
    put(looks, 2);
    assert_true(get(looks, 1));
    assert_false(get(looks, 2));
    whim_disk_tier_close(looks);
    put(tier, 3);
    settle(tier);
    assert_true(get(tier, 1) && get(tier, 3));
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

/* What it leaves is no news: neither a file without its head nor half a page. */
static void a_kill_is_not_complained_of(void **state)
{
    (void)state;
    static const int cuts[] = {0, 10, 64, 65, 64 + 4000};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        char command[256], said[1];
        whim_log log;
        whim_disk_tier *tier = open_tier("a", 0);
        put(tier, 1);
        whim_disk_tier_close(tier);
        snprintf(command, sizeof command, "truncate -s %d %s/*/pages-00000000.kv", cuts[i], folder);
        assert_int_equal(system(command), 0);
        FILE *file = tmpfile();
        whim_log_init(&log, fileno(file), WHIM_LOG_INFO);
        whim_disk_tier_cfg cfg = {
            .dir = folder, .space = "a", .page_bytes = PAGE, .page_len = PAGE_LEN, .log = &log};
        assert_int_equal(whim_disk_tier_open(&cfg, &tier, NULL), WHIM_ERR_OK);
        put(tier, 2);
        whim_disk_tier_close(tier);
        whim_log_deinit(&log);
        assert_int_equal(pread(fileno(file), said, 1, 0), 0);
        fclose(file);
        snprintf(command, sizeof command, "rm -r %s/*", folder);
        assert_int_equal(system(command), 0);
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

/* The queue has its own place in the plan: what waits is no memory of requests. */
static void what_waits_is_no_memory_of_requests(void **state)
{
    (void)state;
    whim_disk_tier *tier = open_tier("a", 0);
    atomic_store(&is_kept, false);
    atomic_store(&stands_still, true);
    put(tier, 0);
    while (!atomic_load(&is_kept)) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    int64_t before = whim_budget_used();
    for (int32_t i = 1; i < 200; i++) {
        put(tier, i);
    }
    int64_t more = whim_budget_used() - before;
    bool all_wait = whim_disk_tier_get_stats(tier).queued >= 200 * PAGE;
    atomic_store(&stands_still, false);
    whim_disk_tier_close(tier);
    assert_true(all_wait);
    assert_in_range(more + WHIM_BUDGET_LATE, 0, 2 * WHIM_BUDGET_LATE);
    int64_t after = whim_budget_used(); /* nor is anything taken off that was not given back */
    assert_in_range(after - before + 2 * WHIM_BUDGET_LATE, 0, 4 * WHIM_BUDGET_LATE);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(pages_survive_a_restart),
        IN_FOLDER(one_process_at_a_time),
        IN_FOLDER(the_limit_holds),
        IN_FOLDER(the_limit_is_that_of_all_models),
        IN_FOLDER(models_at_once),
        IN_FOLDER(states_are_kept_with_pages),
        IN_FOLDER(files_go_on_after_a_restart),
        IN_FOLDER(a_full_disk_loses_nothing),
        IN_FOLDER(who_only_looks_changes_nothing),
        IN_FOLDER(a_kill_loses_only_cache),
        IN_FOLDER(a_kill_is_not_complained_of),
        IN_FOLDER(foreign_files_are_left_alone),
        IN_FOLDER(who_puts_a_page_waits_for_no_disk),
        IN_FOLDER(what_waits_is_no_memory_of_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Progress into a pipe: how often it speaks, what it says, and that it ends its line. */
#include "base/clock.h"
#include "base/report/progress.h"
#include "base/thread.h"
#include "support/cmocka.h"

#include <string.h>
#include <unistd.h>

#include <stdint.h>

typedef struct fixture {
    int fds[2];
    char text[65536];
    whim_progress progress;
} fixture;

/* Time passes when a test says so. */
static int64_t time_ns;

static int64_t now(void)
{
    return time_ns;
}

static void start(fixture *f, whim_progress_mode mode, int64_t total, bool bytes)
{
    assert_int_equal(pipe(f->fds), 0);
    whim_progress_init(&f->progress, &(whim_progress_cfg){.label = "load",
                                                          .total = total,
                                                          .bytes = bytes,
                                                          .fd = f->fds[1],
                                                          .mode = mode,
                                                          .now = now});
}

static void finish(fixture *f, bool ok)
{
    whim_progress_finish(&f->progress, ok);
    close(f->fds[1]);
    ssize_t n, len = 0;
    while ((n = read(f->fds[0], f->text + len, sizeof f->text - 1 - (size_t)len)) > 0) {
        len += n;
    }
    f->text[len] = '\0';
    close(f->fds[0]);
}

static int count(const char *text, char c)
{
    int n = 0;
    for (; *text != '\0'; text++) {
        n += *text == c;
    }
    return n;
}

static void test_lines(void **state)
{
    (void)state;
    static fixture f;
    start(&f, WHIM_PROGRESS_AUTO, 4096, true); /* a pipe is no terminal */
    for (int i = 0; i < 4096; i++) {
        whim_progress_add(&f.progress, 1);
    }
    time_ns += 40 * WHIM_NS_PER_MS;
    finish(&f, true);
    assert_int_equal(count(f.text, '\n'), 2); /* the first and the last */
    assert_int_equal(count(f.text, '\r'), 0);
    assert_memory_equal(f.text, "load:   0%  0 B of 4.00 KiB\n", 28);
    assert_non_null(strstr(f.text, "load: 100%  4.00 KiB of 4.00 KiB  100.00 KiB/s  in 0.0 s\n"));
}

static void test_lines_between(void **state)
{
    (void)state;
    static fixture f;
    start(&f, WHIM_PROGRESS_LINES, 10, false);
    time_ns += 10 * WHIM_NS_PER_S;
    whim_progress_add(&f.progress, 5); /* due */
    whim_progress_add(&f.progress, 1); /* too soon */
    finish(&f, false);
    assert_int_equal(count(f.text, '\n'), 3);
    assert_non_null(strstr(f.text, "\nload:  50%  5 of 10  0/s  10 s left\n"));
    assert_non_null(strstr(f.text, "\nload: stopped at  60%  6 of 10  0/s  in 10 s\n"));
}

static void test_bar(void **state)
{
    (void)state;
    static fixture f;
    start(&f, WHIM_PROGRESS_BAR, 100, false);
    for (int i = 0; i < 50; i++) {
        whim_progress_add(&f.progress, 1); /* faster than 10 a second: not drawn */
    }
    time_ns += WHIM_NS_PER_S;
    whim_progress_add(&f.progress, 0);
    finish(&f, true);
    assert_int_equal(count(f.text, '\n'), 1);
    assert_int_equal(f.text[strlen(f.text) - 1], '\n');
    assert_non_null(strstr(f.text, "\rload  [........................................]   0%"));
    char *half = strstr(f.text, "\rload  [####");
    assert_non_null(half);
    size_t full = strspn(half + 8, "#"), rest = strspn(half + 8 + full, ".");
    assert_true(full >= 5 && rest - full <= 1 && half[8 + full + rest] == ']');
    assert_true(strchr(half + 1, '\r') - half <= 80); /* never wraps */
    /* Two drawn, one wiped (goes back twice). */
    assert_int_equal(count(f.text, '\r'), 4);
    assert_non_null(strstr(f.text, " \rload:  50%"));
}

static void test_bar_hides(void **state)
{
    (void)state;
    static fixture f;
    start(&f, WHIM_PROGRESS_BAR, 0, true);
    whim_progress_hide(&f.progress);
    whim_progress_hide(&f.progress); /* nothing is there any more */
    whim_progress_hide(NULL);
    whim_progress_add(NULL, 1);
    assert_int_equal(f.progress.shown, 0);
    whim_progress_add(&f.progress, 2048);
    finish(&f, true);
    assert_memory_equal(f.text, "\rload  0 B\r         \rload: 2.00 KiB  ", 37);
    assert_int_equal(count(f.text, '%'), 0); /* no total, no share of it */
}

static void test_quiet(void **state)
{
    (void)state;
    static fixture f;
    start(&f, WHIM_PROGRESS_QUIET, 10, false);
    whim_progress_add(&f.progress, 10);
    whim_progress_hide(&f.progress);
    finish(&f, true);
    assert_string_equal(f.text, "");
}

static whim_err add_one(void *ctx, int64_t item, int32_t worker)
{
    (void)item;
    (void)worker;
    fixture *f = ctx;
    f->progress.next_ns = 0; /* everyone wants to draw */
    whim_progress_add(&f->progress, 1);
    return WHIM_ERR_OK;
}

static void test_threads(void **state)
{
    (void)state;
    static fixture f;
    start(&f, WHIM_PROGRESS_LINES, 200, false);
    assert_int_equal(whim_parallel_for(4, 200, add_one, &f), WHIM_ERR_OK);
    finish(&f, true);
    assert_int_equal(f.progress.done, 200);
    assert_non_null(strstr(f.text, "\nload: 100%  200 of 200"));
    for (char *line = f.text; *line != '\0'; line = strchr(line, '\n') + 1) {
        assert_memory_equal(line, "load: ", 6); /* whole lines only */
    }
}

static void quick_work_shows_nothing(void **state)
{
    whim_progress p;
    int fds[2];
    char text[512];
    (void)state;
    for (int32_t late = 0; late < 2; late++) {
        assert_int_equal(pipe(fds), 0);
        whim_progress_init(&p, &(whim_progress_cfg){.label = "load",
                                                    .total = 10,
                                                    .delay_ns = WHIM_NS_PER_S,
                                                    .fd = fds[1],
                                                    .mode = WHIM_PROGRESS_LINES,
                                                    .now = now});
        time_ns += WHIM_NS_PER_S - 1;
        whim_progress_add(&p, 5);
        time_ns += late;
        whim_progress_add(&p, 5);
        whim_progress_finish(&p, true);
        close(fds[1]);
        ssize_t n = read(fds[0], text, sizeof text - 1);
        text[n > 0 ? n : 0] = '\0';
        close(fds[0]);
        assert_int_equal(n > 0, late);
        assert_true(!late || strstr(text, "100%") != NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quick_work_shows_nothing),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_lines_between),
        cmocka_unit_test(test_bar),
        cmocka_unit_test(test_bar_hides),
        cmocka_unit_test(test_quiet),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

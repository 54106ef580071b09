/* SPDX-License-Identifier: Apache-2.0 */
/* The log: lines that cannot be forged, levels, values, and the limit. */
#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"
#include "support/cmocka.h"

#include <fcntl.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <stdint.h>

typedef struct fixture {
    int fds[2];
    char text[16384];
    whim_log log;
} fixture;

static void start(fixture *f, whim_log_level level)
{
    assert_int_equal(pipe(f->fds), 0);
    whim_log_init(&f->log, f->fds[1], level);
}

static void finish(fixture *f)
{
    whim_log_deinit(&f->log);
    close(f->fds[1]);
    ssize_t n = read(f->fds[0], f->text, sizeof f->text - 1);
    f->text[n > 0 ? n : 0] = '\0';
    close(f->fds[0]);
}

static int matches(const char *text, const char *pattern)
{
    regex_t regex;
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    int found = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return found;
}

static void test_line(void **state)
{
    (void)state;
    static fixture f;
    start(&f, WHIM_LOG_INFO);
    whim_log_info(&f.log, "model_loaded layers=%d", 12);
    whim_log_debug(&f.log, "not_shown");
    whim_log_error(&f.log, "second");
    whim_log_warn(NULL, "nowhere");
    finish(&f);
    assert_true(matches(f.text,
                        "^time=20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z "
                        "level=info event=model_loaded layers=12\n"
                        "time=[^ ]+ level=error event=second\n$"));
}

static void test_no_forgery(void **state)
{
    (void)state;
    static fixture f;
    start(&f, WHIM_LOG_WARN);
    whim_log_warn(&f.log, "bad text=%s", "a\ntime=x\r\x1b[2J\x7f");
    finish(&f);
    assert_true(matches(f.text, "text=a\\\\ntime=x\\\\x0d\\\\x1b\\[2J\\\\x7f\n$"));
    assert_ptr_equal(strchr(f.text, '\n'), f.text + strlen(f.text) - 1);
}

/* U+0080 to U+009F are control characters too: a terminal may take U+009B for an escape sequence. */
static void test_c1(void **state)
{
    (void)state;
    static fixture f;
    start(&f, WHIM_LOG_WARN);
    whim_log_warn(&f.log, "bad text=%s", "\xc2\x80|\xc2\x9b|\xc2\x9f|\xc2\xa0|\xc3\x9b|\xc2");
    finish(&f);
    assert_non_null(
        strstr(f.text, "text=\\xc2\\x80|\\xc2\\x9b|\\xc2\\x9f|\xc2\xa0|\xc3\x9b|\xc2\n"));
}

/* A reader that has stopped costs lines, never time. */
static void test_stalled_reader(void **state)
{
    (void)state;
    static fixture f;
    enum { LINES = 3000 };
    int64_t n_read = 0;
    start(&f, WHIM_LOG_INFO);
    alarm(20); /* a write that waits would wait for ever */
    for (int i = 0; i < LINES; i++) {
        whim_log_info(&f.log, "tick %0100d", i);
    }
    alarm(0);
    assert_int_equal(fcntl(f.fds[0], F_SETFL, O_NONBLOCK), 0);
    for (ssize_t n; (n = read(f.fds[0], f.text, sizeof f.text)) > 0;) {
        for (ssize_t i = 0; i < n; i++) {
            n_read += f.text[i] == '\n';
        }
    }
    assert_true(n_read > 100 && n_read < LINES);
    whim_log_info(&f.log, "back");
    whim_log_info(&f.log, "again");
    finish(&f);
    char want[64];
    snprintf(want, sizeof want, "event=back dropped=%d\n", (int)(LINES - n_read));
    assert_non_null(strstr(f.text, want));
    assert_non_null(strstr(f.text, "event=again\n"));
}

/* A line that is cut off by a full disk or socket does not run into the next one. */
static void test_torn_line(void **state)
{
    (void)state;
    static char big[4000];
    whim_log log;
    memset(big, 'x', sizeof big - 1);
    char path[] = "/tmp/whim-log-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 1000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    whim_log_init(&log, fd, WHIM_LOG_INFO);
    whim_log_info(&log, "big text=%s", big);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    whim_log_info(&log, "next");
    whim_log_deinit(&log);
    ssize_t n = pread(fd, big, sizeof big - 1, 0);
    assert_true(n > 1000);
    big[n] = '\0';
    assert_memory_equal(big + 999, "x\ntime=", 7);
    assert_non_null(strstr(big, "event=next dropped=1\n"));
    close(fd);
    unlink(path);
}

static void test_long_line(void **state)
{
    (void)state;
    static fixture f;
    static char big[10000];
    memset(big, 'x', sizeof big - 1);
    start(&f, WHIM_LOG_INFO);
    whim_log_info(&f.log, "big text=%s", big);
    memset(big, '\n', 3000); /* grows when escaped */
    big[3000] = '\0';
    whim_log_info(&f.log, "big text=%s", big);
    finish(&f);
    char *second = strchr(f.text, '\n') + 1;
    assert_true(second - f.text <= 4096);
    assert_memory_equal(second - 8, "x cut=1\n", 8);
    assert_true(strlen(second) <= 4096);
    assert_string_equal(second + strlen(second) - 9, "\\n cut=1\n");
}

static void test_value(void **state)
{
    (void)state;
    char buf[16];
    const char *plain = "/a/b.gguf";
    assert_ptr_equal(whim_log_value(buf, sizeof buf, plain), plain);
    assert_string_equal(whim_log_value(buf, sizeof buf, ""), "\"\"");
    assert_string_equal(whim_log_value(buf, sizeof buf, "a b"), "\"a b\"");
    assert_string_equal(whim_log_value(buf, sizeof buf, "a\"b\\"), "\"a\\\"b\\\\\"");
    assert_string_equal(whim_log_value(buf, sizeof buf, "0123456 89abcdefgh"), "\"0123456 89abc\"");
    assert_string_equal(whim_log_value(buf, 2, "a b"), "");
    /* An escape is never cut in two. */
    assert_string_equal(whim_log_value(buf, 6, "a \"\""), "\"a \"");
}

static void test_levels(void **state)
{
    (void)state;
    whim_log_level level = WHIM_LOG_ERROR;
    assert_true(whim_log_level_parse("Debug", &level));
    assert_int_equal(level, WHIM_LOG_DEBUG);
    assert_true(whim_log_level_parse("error", &level));
    assert_int_equal(level, WHIM_LOG_ERROR);
    assert_false(whim_log_level_parse("loud", &level));
    assert_false(whim_log_level_parse("", &level));
}

static void test_limit(void **state)
{
    (void)state;
    whim_log_limit limit = {0};
    int64_t held = -1;
    assert_true(whim_log_allow(&limit, WHIM_NS_PER_S * 1000, &held));
    assert_int_equal(held, 0);
    assert_false(whim_log_allow(&limit, WHIM_NS_PER_S * 1000, &held));
    assert_false(whim_log_allow(&limit, WHIM_NS_PER_S * 1000, &held));
    limit.next_ns = whim_clock_ns(); /* the interval is over */
    assert_true(whim_log_allow(&limit, WHIM_NS_PER_S * 1000, &held));
    assert_int_equal(held, 2);
}

static void test_bar_makes_room(void **state)
{
    (void)state;
    static fixture f;
    start(&f, WHIM_LOG_INFO);
    whim_progress bar;
    whim_progress_init(
        &bar, &(whim_progress_cfg){.label = "l", .fd = f.fds[1], .mode = WHIM_PROGRESS_BAR});
    whim_log_attach(&f.log, &bar);
    whim_log_info(&f.log, "one");
    whim_log_attach(&f.log, NULL);
    whim_progress_finish(&bar, true);
    finish(&f);
    assert_true(matches(f.text, "^\rl  0\r    \rtime=[^ ]+ level=info event=one\nl: 0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line),           cmocka_unit_test(test_no_forgery),
        cmocka_unit_test(test_long_line),      cmocka_unit_test(test_value),
        cmocka_unit_test(test_levels),         cmocka_unit_test(test_limit),
        cmocka_unit_test(test_bar_makes_room), cmocka_unit_test(test_c1),
        cmocka_unit_test(test_stalled_reader), cmocka_unit_test(test_torn_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The log: lines that cannot be forged, levels, values, and the limit. */
#include "base/clock.h"
#include "base/report/log.h"
#include "base/report/progress.h"
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
    whim_log_info(&f.log, "model_loaded", whim_log_int("layers", 12));
    whim_log_debug(&f.log, "not_shown", whim_log_int("n", 1));
    whim_log_error(&f.log, "second", whim_log_int("n", 1));
    whim_log_warn(NULL, "nowhere", whim_log_int("n", 1));
    finish(&f);
    assert_true(matches(f.text,
                        "^time=20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z "
                        "level=info event=model_loaded layers=12\n"
                        "time=[^ ]+ level=error event=second n=1\n$"));
}

/* A reader that has stopped costs lines, never time. */
static void test_stalled_reader(void **state)
{
    (void)state;
    static fixture f;
    enum { LINES = 3000 };
    char zeros[100];
    int64_t n_read = 0;
    memset(zeros, '0', sizeof zeros);
    start(&f, WHIM_LOG_INFO);
    alarm(20); /* a write that waits would wait for ever */
    for (int i = 0; i < LINES; i++) {
        whim_log_info(&f.log, "tick", whim_log_text_n("t", zeros, sizeof zeros),
                      whim_log_int("i", i));
    }
    alarm(0);
    assert_int_equal(fcntl(f.fds[0], F_SETFL, O_NONBLOCK), 0);
    for (ssize_t n; (n = read(f.fds[0], f.text, sizeof f.text)) > 0;) {
        for (ssize_t i = 0; i < n; i++) {
            n_read += f.text[i] == '\n';
        }
    }
    assert_true(n_read > 100 && n_read < LINES);
    whim_log_info(&f.log, "back", whim_log_int("n", 1));
    whim_log_info(&f.log, "again", whim_log_int("n", 1));
    finish(&f);
    char want[64];
    snprintf(want, sizeof want, "event=back n=1 dropped=%d\n", (int)(LINES - n_read));
    assert_non_null(strstr(f.text, want));
    assert_non_null(strstr(f.text, "event=again n=1\n"));
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
    whim_log_info(&log, "big", whim_log_text("text", big));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    whim_log_info(&log, "next", whim_log_int("n", 1));
    whim_log_deinit(&log);
    ssize_t n = pread(fd, big, sizeof big - 1, 0);
    assert_true(n > 1000);
    big[n] = '\0';
    assert_memory_equal(big + 999, "x\ntime=", 7);
    assert_non_null(strstr(big, "event=next n=1 dropped=1\n"));
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
    whim_log_info(&f.log, "big", whim_log_text("text", big));
    memset(big, '\n', 3000); /* grows when escaped */
    big[3000] = '\0';
    whim_log_info(&f.log, "big", whim_log_text("text", big));
    f.log.is_json = true;
    whim_log_info(&f.log, "big", whim_log_text("text", big), whim_log_int("left_out", 1));
    finish(&f);
    char *second = strchr(f.text, '\n') + 1;
    assert_true(second - f.text <= 4096);
    assert_memory_equal(second - 8, "x cut=1\n", 8);
    assert_true(second - f.text > 4000);
    char *third = strchr(second, '\n') + 1;
    assert_true(strlen(third) <= 4096);
    assert_string_equal(third + strlen(third) - 13, "\\n\",\"cut\":1}\n");
    third[0] = '\0';
    assert_true(strlen(second) <= 4096);
    assert_string_equal(second + strlen(second) - 10, "\\n\" cut=1\n");
}

/* What one text becomes in a line. */
static const char *shown(const char *text, int64_t n, bool is_json)
{
    static fixture f;
    start(&f, WHIM_LOG_INFO);
    f.log.is_json = is_json;
    whim_log_info(&f.log, "e", whim_log_text_n("t", text, n));
    finish(&f);
    char *value = strstr(f.text, is_json ? "\"t\":" : " t=");
    assert_non_null(value);
    value[strlen(value) - 1] = '\0'; /* the line break */
    return value + (is_json ? 4 : 3);
}

static void test_values(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t n;
        const char *words, *json;
    } rows[] = {
        {"/a/b.gguf", 9, "/a/b.gguf", "\"/a/b.gguf\"}"},
        {"", 0, "\"\"", "\"\"}"},
        {NULL, 0, "-", "null}"},
        {"a b", 3, "\"a b\"", "\"a b\"}"},
        {"a=b", 3, "\"a=b\"", "\"a=b\"}"},
        {"a\"b\\", 4, "\"a\\\"b\\\\\"", "\"a\\\"b\\\\\"}"},
        {"a\nlevel=x", 9, "\"a\\nlevel=x\"", "\"a\\nlevel=x\"}"},
        {"\r\x1b[2J\x7f", 6, "\"\\x0d\\x1b[2J\\x7f\"", "\"\\u000d\\u001b[2J\\u007f\"}"},
        {"a\0b", 3, "\"a\\x00b\"", "\"a\\u0000b\"}"},
        /* U+0080 to U+009F are control characters too: a terminal may take U+009B for an escape
         * sequence */
        {"\xc2\x9b|\xc2\xa0", 5, "\"\\xc2\\x9b|\xc2\xa0\"", "\"\\u009b|\xc2\xa0\"}"},
        {"\xc3\xbc\xe2\x82\xac\xf0\x9f\x90\xa6", 9, "\xc3\xbc\xe2\x82\xac\xf0\x9f\x90\xa6",
         "\"\xc3\xbc\xe2\x82\xac\xf0\x9f\x90\xa6\"}"},
        /* no UTF-8: a byte alone, one cut off, an overlong one, a surrogate */
        {"a\xff", 2, "\"a\\xff\"", "\"a\\ufffd\"}"},
        {"a\xe2\x82", 3, "\"a\\xe2\\x82\"", "\"a\\ufffd\\ufffd\"}"},
        {"\xc0\xaf", 2, "\"\\xc0\\xaf\"", "\"\\ufffd\\ufffd\"}"},
        {"\xed\xa0\x80", 3, "\"\\xed\\xa0\\x80\"", "\"\\ufffd\\ufffd\\ufffd\"}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(shown(rows[i].text, rows[i].n, false), rows[i].words);
        assert_string_equal(shown(rows[i].text, rows[i].n, true), rows[i].json);
    }
}

static void test_json_line(void **state)
{
    (void)state;
    static fixture f;
    start(&f, WHIM_LOG_INFO);
    f.log.is_json = true;
    whim_log_warn(&f.log, "ready", whim_log_text("model", "m"), whim_log_int("port", -8080),
                  whim_log_real("ms", 1.25, 1), whim_log_real("none", 0.0 / 0.0, 1));
    finish(&f);
    assert_true(matches(f.text,
                        "^[{]\"time\":\"20[0-9T:.-]+Z\",\"level\":\"warn\",\"event\":\"ready\","
                        "\"model\":\"m\",\"port\":-8080,\"ms\":1.2,\"none\":null}\n$"));
}

/* The journal takes the level from the front of a line. */
static void test_journal(void **state)
{
    (void)state;
    static fixture f;
    start(&f, WHIM_LOG_DEBUG);
    f.log.is_journal = true;
    whim_log_error(&f.log, "a", whim_log_int("n", 1));
    whim_log_warn(&f.log, "b", whim_log_int("n", 1));
    whim_log_info(&f.log, "c", whim_log_int("n", 1));
    f.log.is_json = true;
    whim_log_debug(&f.log, "d", whim_log_int("n", 1));
    finish(&f);
    assert_true(matches(f.text, "^<3>time=[^\n]*=a n=1\n<4>time=[^\n]*=b n=1\n<6>time=[^\n]*=c "
                                "n=1\n<7>[{]\"time\":[^\n]*\"d\",\"n\":1}\n$"));
}

/* Every part is a whole line, and together they are the text. */
static void test_long_text(void **state)
{
    (void)state;
    static fixture f;
    char text[1500];
    for (size_t i = 0; i < sizeof text; i += 3) {
        memcpy(text + i, "\xe2\x82\xac", 3);
    }
    start(&f, WHIM_LOG_INFO);
    whim_log_long_text(&f.log, WHIM_LOG_INFO, "content", "r1", text, sizeof text);
    finish(&f);
    assert_non_null(strstr(f.text, "event=content id=r1 part=1 parts=3 text=\xe2\x82\xac"));
    assert_null(strstr(f.text, "\\x"));
    assert_null(strstr(f.text, "cut="));
    size_t n = 0;
    for (const char *at = f.text; (at = strstr(at, "\xe2\x82\xac")) != NULL; at += 3) {
        n++;
    }
    assert_int_equal(n, sizeof text / 3);
    start(&f, WHIM_LOG_INFO);
    memset(text, 1, sizeof text); /* each takes six bytes */
    f.log.is_json = true;
    whim_log_long_text(&f.log, WHIM_LOG_INFO, "content", "r1", text, sizeof text);
    finish(&f);
    assert_null(strstr(f.text, "cut"));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line),           cmocka_unit_test(test_values),
        cmocka_unit_test(test_json_line),      cmocka_unit_test(test_journal),
        cmocka_unit_test(test_long_line),      cmocka_unit_test(test_long_text),
        cmocka_unit_test(test_levels),         cmocka_unit_test(test_limit),
        cmocka_unit_test(test_stalled_reader), cmocka_unit_test(test_torn_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

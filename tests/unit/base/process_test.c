/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that print, fail, die, flood, or do not exist; arguments that a shell would change. */
#include "base/process.h"
#include "support/cmocka.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int32_t n_wait;

static void count_waits(void *ctx)
{
    ++*(int32_t *)ctx;
}

static whim_process run(const char *const *argv, whim_err want)
{
    whim_process p = {.argv = argv, .max_out = 100000, .on_wait = count_waits, .ctx = &n_wait};
    whim_diag diag = {{0}};
    if (whim_process_run(&p, &diag) != want) {
        fail_msg("%s", diag.text);
    }
    return p;
}

static void output_and_status_are_taken(void **state)
{
    (void)state;
    const char *argv[] = {"sh", "-c", "echo one; echo two >&2; sleep 0.3; exit 7", NULL};
    n_wait = 0;
    whim_process p = run(argv, WHIM_ERR_OK);
    assert_string_equal(whim_str_text(&p.out), "one\n");
    assert_string_equal(whim_str_text(&p.err), "two\n");
    assert_int_equal(p.exit_code, 7);
    assert_int_equal(p.signal, 0);
    assert_true(n_wait >= 2);
    whim_process_deinit(&p);
}

static void arguments_arrive_as_they_are(void **state)
{
    (void)state;
    const char *argv[] = {"printf", "%s|", "a b", "$HOME", "`id`", "*", "", NULL};
    whim_process p = run(argv, WHIM_ERR_OK);
    assert_string_equal(whim_str_text(&p.out), "a b|$HOME|`id`|*||");
    whim_process_deinit(&p);
}

static void a_signal_is_told(void **state)
{
    (void)state;
    const char *argv[] = {"sh", "-c", "cat; kill -9 $$", NULL}; /* cat: its input is empty */
    whim_process p = run(argv, WHIM_ERR_OK);
    assert_int_equal(p.signal, SIGKILL);
    whim_process_deinit(&p);
}

static void only_the_end_of_errors_is_kept(void **state)
{
    (void)state;
    const char *argv[] = {"sh", "-c", "seq 1 40000 >&2", NULL};
    whim_process p = run(argv, WHIM_ERR_OK);
    assert_true(p.err.len >= 7000 && p.err.len <= 2 * WHIM_PROCESS_ERR_BYTES);
    assert_string_equal(whim_str_text(&p.err) + p.err.len - 7, "\n40000\n");
    whim_process_deinit(&p);
}

static void a_flood_is_refused(void **state)
{
    (void)state;
    const char *argv[] = {"yes", NULL};
    whim_process p = run(argv, WHIM_ERR_CORRUPT);
    assert_int_equal(p.signal, SIGPIPE);
    whim_process_deinit(&p);
}

static void what_does_not_start_is_named(void **state)
{
    (void)state;
    char path[] = "/tmp/whim_process_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    const char *const programs[] = {"/no/such/program", "no-such-program-anywhere", path};
    const char *const texts[] = {"no such program", "no such program", "executable"};
    for (int i = 0; i < 3; i++) {
        const char *argv[] = {programs[i], NULL};
        whim_process p = {.argv = argv, .max_out = 10};
        whim_diag diag = {{0}};
        whim_err err = whim_process_run(&p, &diag);
        if (err != WHIM_ERR_NOT_FOUND && (i < 2 || err != WHIM_ERR_IO)) {
            fail_msg("%s: error %d (%s), status %d, signal %d, it said \"%s\"", programs[i], err,
                     diag.text, p.exit_code, p.signal, whim_str_text(&p.err));
        }
        if (strstr(diag.text, texts[i]) == NULL || strstr(diag.text, programs[i]) == NULL) {
            fail_msg("%s", diag.text);
        }
        whim_process_deinit(&p);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_and_status_are_taken),
        cmocka_unit_test(arguments_arrive_as_they_are),
        cmocka_unit_test(a_signal_is_told),
        cmocka_unit_test(only_the_end_of_errors_is_kept),
        cmocka_unit_test(a_flood_is_refused),
        cmocka_unit_test(what_does_not_start_is_named),
    };
    return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}

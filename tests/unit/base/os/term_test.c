/* SPDX-License-Identifier: Apache-2.0 */
/* Terminals, with a pseudo-terminal as the sample. */
#include "base/os/facts.h"
#include "support/cmocka.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <stdint.h>

static void test_pipe(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_false(whim_os_term_is(fds[1]));
    assert_int_equal(whim_os_term_width(fds[1]), 80);
    close(fds[0]);
    close(fds[1]);
    assert_false(whim_os_term_is(-1));
    assert_int_equal(whim_os_term_width(-1), 80);
}

static void test_terminal(void **state)
{
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
        skip();
    }
    int fd = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(fd >= 0);
    assert_true(whim_os_term_is(fd));
    struct winsize size = {.ws_row = 24, .ws_col = 132};
    assert_int_equal(ioctl(fd, TIOCSWINSZ, &size), 0);
    assert_int_equal(whim_os_term_width(fd), 132);
    size.ws_col = 0;
    assert_int_equal(ioctl(fd, TIOCSWINSZ, &size), 0);
    assert_int_equal(whim_os_term_width(fd), 80);
    close(fd);
    close(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

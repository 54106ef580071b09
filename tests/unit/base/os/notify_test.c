/* SPDX-License-Identifier: Apache-2.0 */
/* Words to a service manager: both kinds of names, names that are none, a manager that is gone. */
#include "base/os/notify.h"
#include "support/cmocka.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A manager's socket under a name, "@..." in the abstract space. */
static int listen_at(const char *name)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    memcpy(addr.sun_path, name, len);
    if (name[0] == '@') {
        addr.sun_path[0] = '\0';
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    assert_true(fd >= 0);
    socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (name[0] == '/'));
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, n), 0);
    return fd;
}

static void heard(int fd, const char *want)
{
    char got[256];
    ssize_t n = recv(fd, got, sizeof got - 1, MSG_DONTWAIT);
    got[n > 0 ? n : 0] = '\0';
    assert_string_equal(got, want);
}

static void talk(const char *name)
{
    whim_diag diag = {""};
    whim_os_notify notify;
    int fd = listen_at(name);
    assert_int_equal(whim_os_notify_open(&notify, name, &diag), WHIM_ERR_OK);
    assert_true(whim_os_notify_send(&notify, "READY=1\nSTATUS=here"));
    assert_true(whim_os_notify_send(&notify, "WATCHDOG=1"));
    heard(fd, "READY=1\nSTATUS=here");
    heard(fd, "WATCHDOG=1");
    close(fd);
    assert_false(whim_os_notify_send(&notify, "WATCHDOG=1")); /* it is gone; we live */
    whim_os_notify_close(&notify);
    assert_int_equal(notify.fd, -1);
    assert_false(whim_os_notify_send(&notify, "WATCHDOG=1"));
}

static void test_path(void **state)
{
    (void)state;
    char folder[] = "/tmp/whim-notify-XXXXXX", name[64];
    assert_non_null(mkdtemp(folder));
    snprintf(name, sizeof name, "%s/socket", folder);
    talk(name);
    unlink(name);
    rmdir(folder);
}

static void test_abstract(void **state)
{
    (void)state;
    char name[64];
    snprintf(name, sizeof name, "@whim-notify-%d", (int)getpid());
    talk(name);
}

static void test_refused(void **state)
{
    (void)state;
    char name[200];
    static const char *const wrong[] = {"", "/", "@", "relative", "vsock:2:1234"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        whim_os_notify notify = {.fd = 7};
        whim_diag diag = {""};
        assert_int_equal(whim_os_notify_open(&notify, wrong[i], &diag), WHIM_ERR_INVALID);
        assert_non_null(strstr(diag.text, "expected"));
        assert_int_equal(notify.fd, -1);
    }
    whim_os_notify notify;
    whim_diag diag = {""};
    memset(name, 'x', sizeof name);
    name[0] = '/';
    name[sizeof name - 1] = '\0';
    assert_int_equal(whim_os_notify_open(&notify, name, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "199 bytes"));
    assert_int_equal(whim_os_notify_open(&notify, "/nonexistent/socket", &diag), WHIM_ERR_IO);
    assert_non_null(strstr(diag.text, "/nonexistent/socket"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path),
        cmocka_unit_test(test_abstract),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

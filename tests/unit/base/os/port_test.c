/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of a port: ourselves, and nobody. */
#include "base/os/facts.h"
#include "support/cmocka.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int listen_anywhere(int32_t *port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof addr;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, n), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &n), 0);
    *port = ntohs(addr.sin_port);
    return fd;
}

static void test_owner(void **state)
{
    (void)state;
    int32_t port, pid = 0;
    char name[32], small[4];
    int fd = listen_anywhere(&port);
    assert_false(whim_os_port_owner(port, &pid, name, sizeof name)); /* bound, does not listen */
    assert_int_equal(listen(fd, 1), 0);
    if (!whim_os_port_owner(port, &pid, name, sizeof name)) {
        skip(); /* an emulator does not show its own files */
    }
    assert_int_equal(pid, getpid());
    assert_true(strncmp(name, "port_test", 9) == 0 || strstr(name, "ld.so") != NULL ||
                strncmp(name, "qemu-", 5) == 0);
    assert_true(whim_os_port_owner(port, &pid, small, sizeof small));
    assert_int_equal(strlen(small), 3);
    close(fd);
    assert_false(whim_os_port_owner(port, &pid, name, sizeof name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_owner)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

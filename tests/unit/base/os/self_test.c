/* SPDX-License-Identifier: Apache-2.0 */
/* What the system says of this process agrees with what it does. */
#include "base/os/facts.h"

#include "base/clock.h"
#include "support/cmocka.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void numbers_move(void **state)
{
    enum { MORE = 64 << 20 };
    whim_os_self before, after;
    (void)state;
    whim_os_self_get(&before);
    int fd = open("/dev/null", O_RDONLY);
    char *memory = malloc(MORE);
    assert_non_null(memory);
    memset(memory, 1, MORE);
    whim_os_self_get(&after);
    assert_int_equal(after.n_fd, before.n_fd + 1);
    assert_true(after.resident_bytes >= before.resident_bytes + MORE / 2);
    assert_true(after.virtual_bytes >= after.resident_bytes);
    assert_true(after.cpu_ns > before.cpu_ns);
    assert_true(after.max_fd >= after.n_fd);
    free(memory);
    close(fd);
}

static void it_started_lately(void **state)
{
    whim_os_self self;
    struct timespec now;
    (void)state;
    whim_os_self_get(&self);
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t age = now.tv_sec * WHIM_NS_PER_S - self.start_ns;
    assert_true(age > -2 * WHIM_NS_PER_S && age < 600 * WHIM_NS_PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_move),
        cmocka_unit_test(it_started_lately),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

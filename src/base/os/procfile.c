/* SPDX-License-Identifier: Apache-2.0 */
/* Small text files, read whole. */
#include "base/os/procfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t whim_os_file_text(const char *path, char *buf, int64_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    int64_t len = 0;
    while (len < cap - 1) {
        ssize_t n = read(fd, buf + len, (size_t)(cap - 1 - len));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            len = -1;
        }
        if (n <= 0) {
            break;
        }
        len += n;
    }
    close(fd);
    buf[len < 0 ? 0 : len] = '\0';
    return len;
}

bool whim_os_text_number(const char *text, const char *key, int64_t *out)
{
    size_t key_len = strlen(key);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, key, key_len) == 0) {
            char *end;
            const char *digits = line + key_len;
            long long value = strtoll(digits, &end, 10);
            if (end != digits) {
                *out = value;
                return true;
            }
        }
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of tests that is packed, for what takes much room and is never read by people. */
#ifndef WHIM_TESTS_SUPPORT_PACKED_JSON_H
#define WHIM_TESTS_SUPPORT_PACKED_JSON_H

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* What is in a file, or in one that ends in .xz once it is unpacked; NULL: it cannot be had. */
static inline json_t *packed_json(const char *path, json_error_t *error)
{
    const char *end = strrchr(path, '.');
    char command[4096];
    if (end == NULL || strcmp(end, ".xz") != 0) {
        return json_load_file(path, JSON_ALLOW_NUL, error);
    }
    snprintf(command, sizeof command, "xz -dc '%s'", path);
    FILE *file = popen(command, "r");
    json_t *json = file != NULL ? json_loadf(file, JSON_ALLOW_NUL, error) : NULL;
    return file != NULL && pclose(file) == 0 ? json : NULL;
}

#endif

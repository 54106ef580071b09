/* SPDX-License-Identifier: Apache-2.0 */
/* What a folder of pages is of: a text and sizes, which give it its name and stand in a file in it.
 * Who wrote that file is not known, so nothing in it is believed.
 * Threads: stateless. */
#ifndef WHIM_KV_DISK_ABOUT_H
#define WHIM_KV_DISK_ABOUT_H

#include "base/sha256.h"

#include <stdbool.h>
#include <stdint.h>

enum { WHIM_DISK_SPACE_NAME = 33 };

/* What a space is of: all that its pages depend on, and their sizes. */
typedef struct whim_disk_space {
    const char *text;
    int32_t page_len;
    int64_t page_bytes, state_bytes;
} whim_disk_space;

/* The line about its sizes, beginning with a newline; and the sum of both. */
enum { WHIM_DISK_SIZES = 96 };
void whim_disk_space_sizes(const whim_disk_space *space, char out[WHIM_DISK_SIZES]);
void whim_disk_space_sum(const whim_disk_space *space, uint8_t out[WHIM_SHA256_BYTES]);

/* A space's folder: the first half of its sum, in hex. */
void whim_disk_space_name(const uint8_t space[WHIM_SHA256_BYTES], char name[WHIM_DISK_SPACE_NAME]);

/* A file in it that says in words what the space is: lines of its owner, its text, its sizes. */
#define WHIM_DISK_ABOUT "about.txt"

/* Read such a file's text, and change it: the space's text is cut out of it. False: it has no sizes
 * that pages can have, or a text that no space has. */
bool whim_disk_about_parse(char *about, whim_disk_space *space);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What identifies a folder of pages: a text and sizes. They give the folder its name, and a file in
 * it repeats them. Anybody may have written that file, so nothing in it is trusted.
 * Threads: stateless. */
#ifndef WHIM_KV_DISK_ABOUT_H
#define WHIM_KV_DISK_ABOUT_H

#include "base/sha256.h"

#include <stdbool.h>
#include <stdint.h>

enum { WHIM_DISK_SPACE_NAME = 33 };

/* What identifies a space: all that its pages depend on, and their sizes. */
typedef struct whim_disk_space {
    const char *text;
    int32_t page_len;
    int64_t page_bytes, state_bytes;
} whim_disk_space;

/* The line about its sizes, which begins with a newline; and the SHA-256 of text and line. */
enum { WHIM_DISK_SIZES = 96 };
void whim_disk_space_sizes(const whim_disk_space *space, char out[WHIM_DISK_SIZES]);
void whim_disk_space_sum(const whim_disk_space *space, uint8_t out[WHIM_SHA256_BYTES]);

/* The name of a space's folder: the first half of its sum, in hex. */
void whim_disk_space_name(const uint8_t space[WHIM_SHA256_BYTES], char name[WHIM_DISK_SPACE_NAME]);

/* A file in it for people, with lines about the space: its owner, its text, its sizes. */
#define WHIM_DISK_ABOUT "about.txt"

/* Read such a file's text. This changes it: the space's text is cut out of it. False if the sizes
 * are impossible, or no space can have the text. */
bool whim_disk_about_parse(char *about, whim_disk_space *space);

#endif

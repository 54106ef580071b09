/* SPDX-License-Identifier: Apache-2.0 */
/* Stop strings that may span tokens: text is let through only as far as it cannot be the beginning
 * of a stop string; at a match the rest is dropped.
 * Threads: one owner. */
#ifndef WHIM_SAMPLE_STOP_H
#define WHIM_SAMPLE_STOP_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_stop {
    const char *const *stops; /* [n_stop], borrowed */
    int32_t n_stop;
    whim_str held;   /* text that may still become a stop string */
    int32_t matched; /* index of the stop string that matched, or -1 */
} whim_stop;

void whim_stop_init(whim_stop *stop, const char *const *stops, int32_t n_stop);
void whim_stop_deinit(whim_stop *stop);

/* Take new text, append to `out` what may be shown. True once a stop string has matched. */
bool whim_stop_push(whim_stop *stop, const char *text, int64_t n, whim_str *out);

/* No more text comes: append what is held back. */
void whim_stop_flush(whim_stop *stop, whim_str *out);

#endif

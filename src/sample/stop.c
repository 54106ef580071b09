/* SPDX-License-Identifier: Apache-2.0 */
/* Stop strings. The match that ends first counts, and of those that end together the longest,
 * because that is the one rule that does not depend on how the text was cut into pieces. */
#include "sample/stop.h"

#include <string.h>

void whim_stop_init(whim_stop *stop, const char *const *stops, int32_t n_stop)
{
    *stop = (whim_stop){.stops = stops, .n_stop = n_stop, .matched = -1};
}

void whim_stop_deinit(whim_stop *stop)
{
    whim_str_deinit(&stop->held);
}

/* Whether the held text ends with the first n bytes of `text`. */
static bool held_ends_with(const whim_str *held, const char *text, int64_t n)
{
    return n <= held->len && memcmp(held->text + held->len - n, text, (size_t)n) == 0;
}

/* The stop string that the held text ends with: the longest. */
static int32_t stop_find(const whim_stop *stop)
{
    int32_t found = -1;
    for (int32_t i = 0; i < stop->n_stop; i++) {
        size_t n = strlen(stop->stops[i]);
        if (n > 0 && held_ends_with(&stop->held, stop->stops[i], (int64_t)n) &&
            (found < 0 || n > strlen(stop->stops[found]))) {
            found = i;
        }
    }
    return found;
}

/* How many bytes at the end of the held text may still become a stop string. */
static int64_t stop_begun(const whim_stop *stop)
{
    int64_t most = 0;
    for (int32_t i = 0; i < stop->n_stop; i++) {
        for (int64_t n = (int64_t)strlen(stop->stops[i]) - 1; n > most; n--) {
            if (held_ends_with(&stop->held, stop->stops[i], n)) {
                most = n;
            }
        }
    }
    return most;
}

/* Let all but the last `keep` bytes out. */
static void held_release(whim_stop *stop, int64_t keep, whim_str *out)
{
    whim_str *held = &stop->held;
    int64_t n = held->len - keep;
    if (n > 0) {
        whim_str_append_n(out, held->text, n);
        memmove(held->text, held->text + n, (size_t)keep + 1);
        held->len = keep;
    }
}

bool whim_stop_push(whim_stop *stop, const char *text, int64_t n, whim_str *out)
{
    if (stop->n_stop == 0) {
        whim_str_append_n(out, text, n);
        return false;
    }
    for (int64_t i = 0; i < n && stop->matched < 0; i++) {
        whim_str_append_char(&stop->held, text[i]);
        if (stop->held.failed) {
            out->failed = true;
            return false;
        }
        stop->matched = stop_find(stop);
        if (stop->matched >= 0) {
            held_release(stop, (int64_t)strlen(stop->stops[stop->matched]), out);
            whim_str_clear(&stop->held);
        } else {
            held_release(stop, stop_begun(stop), out);
        }
    }
    return stop->matched >= 0;
}

void whim_stop_flush(whim_stop *stop, whim_str *out)
{
    held_release(stop, 0, out);
}

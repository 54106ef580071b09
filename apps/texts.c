/* SPDX-License-Identifier: Apache-2.0 */
/* Texts and ids from people. */
#include "texts.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool check_utf8(const char *text, const char *what)
{
    int64_t n = (int64_t)strlen(text), good = whim_utf8_valid_prefix(text, n);
    if (good < n) {
        complain(EXIT_FAILED, "%s is not UTF-8: byte %lld (0x%02x) belongs to no character", what,
                 (long long)good + 1, (unsigned char)text[good]);
    }
    return good == n;
}

bool check_stops(const whim_options *options)
{
    for (int32_t i = 0; i < options->stop.n; i++) {
        if (options->stop.v[i][0] == '\0') {
            complain(EXIT_FAILED, "--stop: an empty text would stop at once");
            return false;
        }
        if (!check_utf8(options->stop.v[i], "the text of --stop")) {
            return false;
        }
    }
    return true;
}

bool read_stdin(whim_str *text, const char *what)
{
    char buf[65536];
    size_t n;
    while ((n = fread(buf, 1, sizeof buf, stdin)) > 0) {
        whim_str_append_n(text, buf, (int64_t)n);
        if (text->len > MAX_PROMPT_BYTES) {
            complain(EXIT_USAGE, "%s: more than %d MiB on standard input", what,
                     MAX_PROMPT_BYTES >> 20);
            return false;
        }
    }
    if (ferror(stdin) || text->failed) {
        complain(EXIT_USAGE, "%s: cannot read standard input: %s", what,
                 text->failed ? "out of memory" : strerror(errno));
        return false;
    }
    return true;
}

bool parse_ids(const char *text, int64_t n, int64_t **ids, int64_t *n_id)
{
    static const char between[] = ", \t\r\n";
    int64_t cap = n / 2 + 1;
    if ((int64_t)strlen(text) != n) {
        complain(EXIT_USAGE, "--ids: the input has a NUL byte; expected numbers as text");
        return false;
    }
    *ids = whim_alloc_array(cap, (int64_t)sizeof **ids);
    if (*ids == NULL) {
        complain(EXIT_USAGE, "--ids: out of memory");
        return false;
    }
    for (const char *at = text + strspn(text, between); *at != '\0'; at += strspn(at, between)) {
        char *end = NULL;
        errno = 0;
        long long id = strtoll(at, &end, 10);
        if (end == at || errno != 0 || strcspn(end, between) != 0) {
            complain(EXIT_USAGE,
                     "--ids: \"%.*s\" is not a token id; expected whole numbers with commas or "
                     "spaces between them",
                     (int)(strcspn(at, between) < 32 ? strcspn(at, between) : 32), at);
            return false;
        }
        (*ids)[(*n_id)++] = id;
        at = end;
    }
    if (*n_id == 0) {
        complain(EXIT_USAGE, "--ids: the prompt needs at least one token id");
        return false;
    }
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Texts and ids that come from the command line and from standard input, checked before they get
 * lost on the way. All complain and give false. Threads: the main thread. */
#ifndef WHIM_APPS_TEXTS_H
#define WHIM_APPS_TEXTS_H

#include "cmd.h"

enum { MAX_PROMPT_BYTES = 64 << 20 };

/* Refuse bytes that are no text; `what` is for the message. */
bool check_utf8(const char *text, const char *what);
bool check_stops(const whim_options *options);

/* Standard input to its end, at most MAX_PROMPT_BYTES; `what` is for messages. */
bool read_stdin(whim_str *text, const char *what);

/* The value of --ids: numbers with commas or blanks between them, added to what the caller has
 * (none: 0 of them); to be freed with whim_free, also after a complaint. */
bool parse_ids(const char *text, int64_t n, int64_t **ids, int64_t *n_id);

#endif

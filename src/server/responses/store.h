/* SPDX-License-Identifier: Apache-2.0 */
/* Responses that a later request may go on from (`previous_response_id`), while the process lives.
 * Each is kept with its own items and the id of the one before it; the bound is in bytes and in
 * number, and those of the client that has most that were used longest ago go first. Using one uses
 * all that it continues from, so that a conversation goes as a whole, from its beginning.
 * Threads: any. */
#ifndef WHIM_SERVER_RESPONSES_STORE_H
#define WHIM_SERVER_RESPONSES_STORE_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    WHIM_RESPONSES_KEPT = 4096,
    WHIM_RESPONSES_BYTES = 64 << 20,
    WHIM_CONVERSATION_BYTES = 256 << 10, /* beyond it a request is long, and must be sent as one */
    WHIM_RESPONSE_ID_MOST = 48,          /* with its NUL */
};

typedef struct whim_response_store whim_response_store;

/* NULL without memory. */
whim_response_store *whim_response_store_create(int64_t max_bytes);
/* Keep at most this many bytes, or WHIM_RESPONSES_BYTES where that is less, from now on. */
void whim_response_store_limit(whim_response_store *store, int64_t max_bytes);
void whim_response_store_destroy(whim_response_store *store); /* NULL is allowed */

/* Keep a response of a client: its own items, those of its request first, as JSON with commas
 * between them, and all of it as it was answered; `before` is the id of the one that it continues
 * from, or NULL. One that is larger than the store, or that there is no memory for, is not kept. */
void whim_response_store_put(whim_response_store *store, uint64_t client, const char *id,
                             const char *before, const whim_str *items, const whim_str *answer);

/* Append a response as it was answered; false: it is not kept. */
bool whim_response_store_answer(whim_response_store *store, const char *id, whim_str *out);

/* Forget a response, so that nothing can continue from it; false: it is not kept. */
bool whim_response_store_remove(whim_response_store *store, const char *id);

/* Append the items of a conversation up to this response, as a JSON list. False: it, or one that it
 * continues from, is not kept, and `missing` is the id of that; or they are more than
 * WHIM_CONVERSATION_BYTES, and `missing` is empty. */
bool whim_response_store_items(whim_response_store *store, const char *id, whim_str *out,
                               char missing[WHIM_RESPONSE_ID_MOST]);

#endif

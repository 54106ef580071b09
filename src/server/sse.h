/* SPDX-License-Identifier: Apache-2.0 */
/* A named server-sent event whose data is an object with the same name as its "type".
 * Threads: stateless. */
#ifndef WHIM_SERVER_SSE_H
#define WHIM_SERVER_SSE_H

#include "server/body/body.h"

/* Up to and with the type; members follow, each begun with a comma. */
static inline void whim_sse_begin(whim_str *out, const char *name)
{
    whim_put_form(out, "event: %s\ndata: {'type':%q", name, name);
}

static inline void whim_sse_end(whim_str *out)
{
    whim_str_append(out, "}\n\n");
}

#endif

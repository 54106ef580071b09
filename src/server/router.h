/* SPDX-License-Identifier: Apache-2.0 */
/* Which route a path means. Trailing slashes and queries are gone already; OpenAI routes also work without /v1.
 * Threads: stateless. */
#ifndef WHIM_SERVER_ROUTER_H
#define WHIM_SERVER_ROUTER_H

#include "server/fault.h"
#include "server/routes.h"

typedef struct whim_route {
    const char *method; /* "GET" or "POST" */
    const char *path;   /* with /v1 */
    bool short_too;     /* also without /v1 */
    bool has_id;        /* also path/{id}, slashes included */
    whim_route_fn *handle;
    bool
        early; /* needs no model: answered while it loads, with an api that has only version and log */
} whim_route;

/* The route, or NULL with the fault set: NO_ROUTE (which names the nearest one), or METHOD (then *allow is the value of
 * the Allow header). HEAD comes as GET. */
const whim_route *whim_router_find(const char *method, const char *path, const char **allow,
                                   whim_fault *fault);

#endif

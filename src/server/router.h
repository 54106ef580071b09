/* SPDX-License-Identifier: Apache-2.0 */
/* Which route a path means. Trailing slashes and queries are gone already; OpenAI routes also work
 * without /v1.
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
    bool early; /* needs no model: also answered while it loads and at the end, with an api that has
                   only version, log and metrics */
} whim_route;

/* The route, or NULL with the fault set: NO_ROUTE (which names the nearest one), or METHOD (then
 * *allow is the value of the Allow header). HEAD comes as GET. */
const whim_route *whim_router_find(const char *method, const char *path, const char **allow,
                                   whim_fault *fault);

/* Paths as a closed set, for the metrics: 0 is "other", then the probes, then the routes, whatever
 * the method. NULL: there is no such number. */
int32_t whim_router_number(const char *path);
const char *whim_router_path(int32_t number);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Who may ask: keys, the Host and Origin of a request, CORS. Meant to be called first in the gate
 * of server/http.
 *
 * Without a key any page in a browser and any name that resolves to this machine could use the
 * server, so a request with an unknown Origin or an unknown Host is refused whether keys are set or
 * not. Order: Host, Origin, OPTIONS, key. Keys are compared in constant time and never written
 * anywhere.
 * Threads: any; a whim_access does not change. */
#ifndef WHIM_SERVER_ACCESS_H
#define WHIM_SERVER_ACCESS_H

#include "http/http.h"

typedef struct whim_access whim_access;

typedef struct whim_api_key {
    const char *text;
    bool priority; /* its requests may go before those of others by their priority */
} whim_api_key;

/* Texts are copied. */
typedef struct whim_access_cfg {
    const whim_api_key *keys; /* none: any key or no key is accepted */
    int32_t n_key;
    const char *const *hosts; /* --allow-host: names beside the built-in ones; "*": any */
    int32_t n_host;
    const char *const *origins; /* --cors-origin: "https://page.example"; "*": any */
    int32_t n_origin;
    whim_http_error_body *error_body;
    void *ctx; /* of error_body */
} whim_access_cfg;

/* INVALID with a message for an empty key, or one that no header can carry. */
WHIM_MUST_CHECK whim_err whim_access_create(const whim_access_cfg *cfg, whim_access **out,
                                            whim_diag *diag);
void whim_access_destroy(whim_access *access);

/* 0: go on (the CORS headers of the answer are added, and the exchange's notes say who it is); 1:
 * replied: 401, 403, or 204 to OPTIONS. */
int whim_access_check(const whim_access *access, whim_exchange *ex);

/* --- its rules (for tests) -------------------------------------------------------------------- */

/* Health probes and the page's own files: a browser cannot send a key when it opens a page. */
bool whim_access_is_open(const char *method, const char *path);

/* `host` as in the header: a name or an address, with or without a port. */
bool whim_access_host_allowed(const whim_access *access, const char *host);

/* `host`: of the same request, NULL when it has none. */
bool whim_access_origin_allowed(const whim_access *access, const char *origin, const char *host);

/* Either value may be NULL. *key: the key's number, -1 where none is asked for. */
bool whim_access_key_matches(const whim_access *access, const char *authorization,
                             const char *x_api_key, int32_t *key);

#endif

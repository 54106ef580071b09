/* SPDX-License-Identifier: Apache-2.0 */
/* Who may ask: keys, the Host and Origin of a request, CORS. Meant to be called first in the gate
 * of server/http.
 *
 * Without a key any page in a browser and any name that resolves to this machine could use the
 * server, so a request with an unknown Origin or an unknown Host is refused whether keys are set or
 * not. Order: Host, Origin, OPTIONS, key. Keys are compared in constant time and never written
 * anywhere.
 * Threads: any; a whim_gate does not change. */
#ifndef WHIM_SERVER_GATE_H
#define WHIM_SERVER_GATE_H

#include "http/http.h"

typedef struct whim_gate whim_gate;

typedef struct whim_api_key {
    const char *text;
    bool priority; /* its requests may go before those of others by their priority */
} whim_api_key;

/* Texts are copied. */
typedef struct whim_gate_cfg {
    const whim_api_key *keys; /* none: any key or no key is accepted */
    int32_t n_key;
    const char *const *hosts; /* --allow-host: names beside the built-in ones; "*": any */
    int32_t n_host;
    const char *const *origins; /* --cors-origin: "https://page.example"; "*": any */
    int32_t n_origin;
    whim_http_error_body *error_body;
    void *ctx; /* of error_body */
} whim_gate_cfg;

/* INVALID with a message for an empty key, or one that no header can carry. */
WHIM_MUST_CHECK whim_err whim_gate_create(const whim_gate_cfg *cfg, whim_gate **out,
                                          whim_diag *diag);
void whim_gate_destroy(whim_gate *gate);

/* 0: go on (the CORS headers of the answer are added, and the exchange's notes say who it is); 1:
 * replied: 401, 403, or 204 to OPTIONS. */
int whim_gate_check(const whim_gate *gate, whim_exchange *ex);

/* --- its rules (for tests) -------------------------------------------------------------------- */

/* Health probes and the page's own files: a browser cannot send a key when it opens a page. */
bool whim_gate_is_open(const char *method, const char *path);

/* `host` as in the header: a name or an address, with or without a port. */
bool whim_gate_host_allowed(const whim_gate *gate, const char *host);

/* `host`: of the same request, NULL when it has none. */
bool whim_gate_origin_allowed(const whim_gate *gate, const char *origin, const char *host);

/* Either value may be NULL. *key: the key's number, -1 where none is asked for. */
bool whim_gate_key_matches(const whim_gate *gate, const char *authorization, const char *x_api_key,
                           int32_t *key);

#endif

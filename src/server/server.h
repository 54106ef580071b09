/* SPDX-License-Identifier: Apache-2.0 */
/* The server: sockets, the gate (keys, Host, Origin), the routes and the answer thread in one. It
 * listens from the start and says how far loading is; set_ready gives it the model.
 *
 * Order of a life: open (binds), start, set_progress*, set_ready, ..., drain, then the owner waits
 * for whim_server_active() == 0 or its limit, calls detach, destroys the service (which ends what
 * is left), then close.
 * Threads: the owner's, but for set_progress and active, which any thread may call. */
#ifndef WHIM_SERVER_SERVER_H
#define WHIM_SERVER_SERVER_H

#include "base/err.h"
#include "base/report/log.h"
#include "http/http.h"
#include "server/api.h"
#include "server/gate.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_server whim_server;

/* All but the keys stays until close. */
typedef struct whim_server_cfg {
    whim_http_cfg http;       /* its calls, and what they are given, are the server's */
    const whim_api_key *keys; /* none: every key is accepted */
    int32_t n_key;
    const char *const *origins; /* --cors-origin, beside the defaults */
    int32_t n_origin;
    const char *const *allow_hosts; /* --allow-host, beside the defaults */
    int32_t n_allow_host;
    int64_t stale_ns;   /* /livez is 503 when the step loop was silent for longer; 0: 60 s */
    const char *commit; /* of the program; NULL: unknown */
    uint32_t compat;    /* whose names /metrics tells beside ours: see metrics.h */
} whim_server_cfg;

/* Binds, so that a taken port is reported before a model loads. */
WHIM_MUST_CHECK whim_err whim_server_open(const whim_server_cfg *cfg, whim_server **out,
                                          whim_diag *diag);

/* From now on: /livez 200, /readyz 503 "loading", everything else 503 model_loading, but for
 * /metrics, /version and /openapi.json. */
WHIM_MUST_CHECK whim_err whim_server_start(whim_server *server, whim_diag *diag);
int32_t whim_server_port(const whim_server *server);

/* What the server counts in, until close: for whim_library_extra. */
whim_meters *whim_server_meters(whim_server *server);

/* Loading: 0 to 1. */
void whim_server_set_progress(whim_server *server, double progress);

/* The model is there. `api` is copied but for what it points to, which stays until close;
 * api->answer_thread is set here. */
void whim_server_set_ready(whim_server *server, const whim_api *api);

/* /readyz 503 "draining", new requests 503 + Connection: close, running ones continue. */
void whim_server_drain(whim_server *server);

/* No route uses the service from now on, and none runs: it may be destroyed. Drains if that was not
 * done. */
void whim_server_detach(whim_server *server);

/* Requests being read and answers under way. */
int64_t whim_server_active(whim_server *server);

/* Now and then, on a thread that no request waits for: see whim_http_tidy; and a sample for the
 * dashboard. */
void whim_server_tidy(whim_server *server);

/* Certificate and keys again (SIGHUP). The old keys stop working at once. Also when the certificate
 * cannot be read: that error leaves the new keys in force. */
WHIM_MUST_CHECK whim_err whim_server_reload(whim_server *server, const whim_api_key *keys,
                                            int32_t n_key, whim_diag *diag);

/* After the service was destroyed: waits for the last answers to be written, closes all
 * connections. */
void whim_server_close(whim_server *server);

#endif

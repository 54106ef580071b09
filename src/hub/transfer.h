/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP request after another on one connection to a hub. Redirects are followed here and not by
 * the library, so that these hold: 1. the token goes to the endpoint's own scheme, host and port
 * and to no other; 2. nothing leads from https to http, or to another kind of address.
 * Threads: a connection belongs to one thread; its configuration may be shared. */
#ifndef WHIM_HUB_TRANSFER_H
#define WHIM_HUB_TRANSFER_H

#include "base/err.h"
#include "hub/hub.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { WHIM_HUB_URL_MAX = 8192, WHIM_HUB_WAIT_MAX_S = 300 };

/* What came back, as far as it is known. */
typedef struct whim_hub_reply {
    int32_t status;                  /* 0: nothing */
    int64_t bytes;                   /* Content-Length, -1: not given */
    int64_t range_from, range_total; /* Content-Range; -1: not given */
    int64_t linked_bytes;            /* X-Linked-Size; -1 */
    int64_t retry_after_s;           /* 0: not given */
    char etag[80], linked_etag[80];
    char error_code[64], error_text[256]; /* X-Error-Code, X-Error-Message */
    char url[WHIM_HUB_URL_MAX];           /* where it came from in the end */
    bool may_retry;                       /* the failure may pass */
    bool is_unreached;                    /* there was no answer at all: no name, no connection */
} whim_hub_reply;

/* Takes a piece of the body of an answer with status 200 or 206; an error ends the transfer and is
 * its result. */
typedef whim_err (*whim_hub_sink)(void *ctx, const whim_hub_reply *reply, const char *bytes,
                                  int64_t n, whim_diag *diag);

typedef struct whim_hub_request {
    const char *url;
    bool head;        /* the headers of the first answer, redirect or not */
    bool small;       /* text: may come compressed */
    int64_t from, to; /* bytes from .. to-1; to <= 0: the whole */
    whim_hub_sink sink;
    void *ctx;
} whim_hub_request;

typedef struct whim_hub_conn whim_hub_conn;

/* *stop and *also_stop (may be NULL) end what is under way. Destroy takes NULL. */
WHIM_MUST_CHECK whim_err whim_hub_conn_create(const whim_hub_cfg *cfg, const atomic_bool *also_stop,
                                              whim_hub_conn **out, whim_diag *diag);
void whim_hub_conn_destroy(whim_hub_conn *conn);

/* One try. OK when an answer came whole, whatever its status; else reply->may_retry says what kind
 * of failure it was. */
WHIM_MUST_CHECK whim_err whim_hub_try(whim_hub_conn *conn, const whim_hub_request *request,
                                      whim_hub_reply *reply, whim_diag *diag);

/* Whether a status may pass: too many requests, or the server's own troubles. */
bool whim_hub_status_may_pass(int32_t status);

/* Wait before try number `n_try` (from 1): longer each time, at least what the reply asks for.
 * False when stopped, or when the hub asks for more than WHIM_HUB_WAIT_MAX_S. */
bool whim_hub_back_off(whim_hub_conn *conn, int32_t n_try, const whim_hub_reply *reply);

/* Why an answer is a refusal, and what to do. `what` is the file or "" for the model itself. */
whim_err whim_hub_refusal(const whim_hub_cfg *cfg, const whim_hub_ref *ref, const char *what,
                          const whim_hub_reply *reply, whim_diag *diag);

/* Text percent-encoded for a URL's path; slashes stay when `slashes`. */
void whim_hub_url_encode(whim_str *out, const char *text, bool slashes);

#endif

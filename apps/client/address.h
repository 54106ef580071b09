/* SPDX-License-Identifier: Apache-2.0 */
/* Where a server of the OpenAI dialect answers, and what a request to it begins with.
 * Threads: the main thread. */
#ifndef WHIM_APPS_CLIENT_ADDRESS_H
#define WHIM_APPS_CLIENT_ADDRESS_H

#include "base/err.h"
#include "base/str.h"
#include "client/secure.h"
#include "client/server_reply.h"

#include <sys/socket.h>

typedef struct server_address {
    const char *option;         /* which gave the URL, for messages: "--url" */
    const char *key;            /* sent as a bearer token; NULL: none */
    char host[256], port[8];    /* host without brackets */
    char authority[272];        /* as the Host header has it */
    char base[512];             /* path before /completions and /models */
    secure *tls;                /* https; NULL: http */
    struct sockaddr_storage at; /* once it was found */
    socklen_t n_at;
} server_address;

/* What an address is made from; all of it is borrowed. */
typedef struct server_place {
    const char *option;  /* which gave the URL, for messages: "--url" */
    const char *url;     /* http[s]://HOST[:PORT][/PATH]; without a path it is /v1 */
    const char *key;     /* NULL: none */
    const char *ca_file; /* for https: the authorities to trust; NULL: the system's */
} server_place;

/* The caller deinits it, also after a failure. */
WHIM_MUST_CHECK whim_err server_address_read(server_address *a, const server_place *place,
                                             whim_diag *diag);
void server_address_deinit(server_address *a);

/* "https" or "http". */
static inline const char *server_address_scheme(const server_address *a)
{
    return a->tls != NULL ? "https" : "http";
}

/* Look its host up and GET a path there, such as "/models". The first address that takes a
 * connection stays; its reply, of any status, is in `reply`, which the caller deinits, and must be
 * whole after `timeout_s`. NOT_FOUND: there is none. INVALID: there is no TLS with it. */
WHIM_MUST_CHECK whim_err server_address_find(server_address *a, const char *path, double timeout_s,
                                             server_reply *reply, whim_diag *diag);

typedef struct server_model {
    char name[256];
    int64_t context; /* 0: the server does not tell */
} server_model;

/* The model of this name in such a reply, or with NULL the first; false where there is none. The
 * names of all of them, with commas, are appended to `names` unless that is NULL. */
bool server_model_find(const server_reply *models, const char *name, server_model *out,
                       whim_str *names);

/* The head of a request; `n_body` bytes of JSON follow it. */
void server_head_append(const server_address *a, const char *method, const char *path,
                        int64_t n_body, whim_str *out);

#endif

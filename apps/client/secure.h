/* SPDX-License-Identifier: Apache-2.0 */
/* TLS towards a server, by OpenSSL where it is linked (WHIM_TLS); elsewhere opening refuses. The
 * certificate must be signed by an authority that is trusted here and be made for the host.
 * Threads: the main thread. */
#ifndef WHIM_APPS_CLIENT_SECURE_H
#define WHIM_APPS_CLIENT_SECURE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct secure secure;           /* which authorities are trusted */
typedef struct secure_conn secure_conn; /* one connection */

/* Trust the authorities of this PEM file alone; with NULL those of the system. */
WHIM_MUST_CHECK whim_err secure_create(const char *ca_file, secure **out, whim_diag *diag);
void secure_destroy(secure *s);

/* TLS over a non-blocking socket, which stays the caller's; NULL: no memory. */
secure_conn *secure_open(secure *s, int fd, const char *host);
/* Say that nothing follows, as far as that is possible at once, and forget the connection. */
void secure_close(secure_conn *c);

enum {
    SECURE_END = 0,         /* the server said that nothing follows */
    SECURE_WANT_READ = -1,  /* again when the socket can be read */
    SECURE_WANT_WRITE = -2, /* ... written */
    SECURE_CUT = -3,        /* the connection ended without that */
    SECURE_BROKEN = -4,
};

/* Bytes, or one of the above. The greeting is a part of the first write. */
int64_t secure_write(secure_conn *c, const char *bytes, int64_t n);
int64_t secure_read(secure_conn *c, char *bytes, int64_t n);

/* The greeting is done: there may be something to read. */
bool secure_is_greeted(const secure_conn *c);

/* Why it is broken. True: the socket itself failed, and it is errno's text. False: TLS did. */
bool secure_explain(const secure_conn *c, char *out, size_t size);

#endif

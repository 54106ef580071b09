/* SPDX-License-Identifier: Apache-2.0 */
/* TLS over a non-blocking socket, by OpenSSL where it is linked (WHIM_TLS); elsewhere opening
 * refuses by name.
 * Threads: whim_tls_load from any; a whim_tls_conn on the I/O thread only, where SIGPIPE is
 * blocked. */
#ifndef WHIM_HTTP_TLS_H
#define WHIM_HTTP_TLS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_tls whim_tls;    /* certificate and key */
typedef struct ssl_st whim_tls_conn; /* one connection: an SSL of OpenSSL */

/* What a call on a connection says beside a count of bytes. */
enum {
    WHIM_TLS_END = 0,         /* the client said that nothing follows */
    WHIM_TLS_WANT_READ = -1,  /* again when the socket can be read */
    WHIM_TLS_WANT_WRITE = -2, /* ... written */
    WHIM_TLS_BROKEN = -3,
    WHIM_TLS_NOT_TLS = -4, /* the client speaks plain HTTP */
};

/* From now on all that OpenSSL takes in this process is on the account of base/heap/budget.h. For
 * programs, not for libraries in them; before anybody uses OpenSSL, false: it is too late. */
bool whim_tls_count_memory(void);

/* So much it has taken since. */
int64_t whim_tls_bytes(void);

WHIM_MUST_CHECK whim_err whim_tls_create(const char *cert, const char *key, whim_tls **out,
                                         whim_diag *diag);
void whim_tls_destroy(whim_tls *tls);
/* Both files again; connections that are open keep what they have. On failure the old ones stay. */
WHIM_MUST_CHECK whim_err whim_tls_load(whim_tls *tls, const char *cert, const char *key,
                                       whim_diag *diag);

whim_tls_conn *whim_tls_conn_create(whim_tls *tls, int fd);
void whim_tls_conn_destroy(whim_tls_conn *conn);
/* Shut: say that nothing follows. */
typedef enum whim_tls_op {
    WHIM_TLS_HANDSHAKE,
    WHIM_TLS_READ,
    WHIM_TLS_WRITE,
    WHIM_TLS_SHUT
} whim_tls_op;
/* Bytes read or written, 1 when the handshake is done, or one of the above. */
int64_t whim_tls_run(whim_tls_conn *conn, whim_tls_op op, char *bytes, int64_t n);

#endif

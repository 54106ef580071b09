/* SPDX-License-Identifier: Apache-2.0 */
/* TLS by OpenSSL, or the refusal of it. */
#include "http/tls.h"

#ifdef WHIM_TLS

#include "base/alloc.h"
#include "base/heap/budget.h"

#include <limits.h>
#include <malloc.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>

struct whim_tls {
    pthread_mutex_t lock;
    SSL_CTX *ctx; /* under lock: replaced by a reload */
};

static atomic_llong n_taken; /* by OpenSSL */

static int64_t size_of(void *ptr)
{
    return (int64_t)malloc_usable_size(ptr);
}

static void *take(size_t bytes, const char *file, int line)
{
    (void)file, (void)line;
    void *ptr = whim_alloc_plain(bytes);
    atomic_fetch_add_explicit(&n_taken, size_of(ptr), memory_order_relaxed);
    return ptr;
}

static void give(void *ptr, const char *file, int line)
{
    (void)file, (void)line;
    atomic_fetch_sub_explicit(&n_taken, size_of(ptr), memory_order_relaxed);
    whim_free(ptr);
}

static void *grow(void *old, size_t bytes, const char *file, int line)
{
    if (bytes == 0) { /* it means free */
        give(old, file, line);
        return NULL;
    }
    int64_t had = size_of(old);
    void *ptr = whim_realloc_plain(old, bytes);
    if (ptr != NULL) {
        atomic_fetch_add_explicit(&n_taken, size_of(ptr) - had, memory_order_relaxed);
    }
    return ptr;
}

int64_t whim_tls_bytes(void)
{
    return atomic_load_explicit(&n_taken, memory_order_relaxed);
}

bool whim_tls_count_memory(void)
{
    return CRYPTO_set_mem_functions(take, grow, give) == 1;
}

/* 1.2 is the oldest that clients should still speak. Sessions are resumed by tickets, which cost no
 * memory here. */
static SSL_CTX *make_ctx(const char *cert, const char *key, whim_diag *diag)
{
    ERR_clear_error();
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    const char *what = NULL;
    if (ctx == NULL || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1) {
        what = "OpenSSL";
    } else if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1) {
        what = cert;
    } else if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1 ||
               SSL_CTX_check_private_key(ctx) != 1) {
        what = key;
    }
    if (what != NULL) {
        char reason[256];
        ERR_error_string_n(ERR_peek_last_error(), reason, sizeof reason);
        whim_fail(diag, WHIM_ERR_INVALID,
                  "%s: cannot be used for TLS (%s); a certificate chain and its key in PEM form "
                  "are needed",
                  what, reason);
        SSL_CTX_free(ctx);
        ERR_clear_error();
        return NULL;
    }
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    return ctx;
}

whim_err whim_tls_create(const char *cert, const char *key, whim_tls **out, whim_diag *diag)
{
    whim_tls *tls = whim_alloc(sizeof *tls);
    if (tls == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for TLS");
    }
    tls->ctx = make_ctx(cert, key, diag);
    if (tls->ctx == NULL) {
        whim_free(tls);
        return WHIM_ERR_INVALID;
    }
    pthread_mutex_init(&tls->lock, NULL);
    *out = tls;
    return WHIM_ERR_OK;
}

void whim_tls_destroy(whim_tls *tls)
{
    if (tls != NULL) {
        SSL_CTX_free(tls->ctx);
        pthread_mutex_destroy(&tls->lock);
        whim_free(tls);
    }
}

whim_err whim_tls_load(whim_tls *tls, const char *cert, const char *key, whim_diag *diag)
{
    SSL_CTX *fresh = make_ctx(cert, key, diag);
    if (fresh == NULL) {
        return WHIM_ERR_INVALID;
    }
    pthread_mutex_lock(&tls->lock);
    SSL_CTX *old = tls->ctx;
    tls->ctx = fresh;
    pthread_mutex_unlock(&tls->lock);
    SSL_CTX_free(old); /* counted: open connections keep it */
    return WHIM_ERR_OK;
}

whim_tls_conn *whim_tls_conn_create(whim_tls *tls, int fd)
{
    pthread_mutex_lock(&tls->lock);
    SSL *ssl = SSL_new(tls->ctx);
    pthread_mutex_unlock(&tls->lock);
    if (ssl == NULL || SSL_set_fd(ssl, fd) != 1) {
        SSL_free(ssl);
        return NULL;
    }
    SSL_set_accept_state(ssl);
    return ssl;
}

void whim_tls_conn_destroy(whim_tls_conn *conn)
{
    SSL_free(conn);
}

static int64_t outcome(whim_tls_conn *conn, int result)
{
    int64_t what;
    switch (SSL_get_error(conn, result)) {
    case SSL_ERROR_WANT_READ:
        what = WHIM_TLS_WANT_READ;
        break;
    case SSL_ERROR_WANT_WRITE:
        what = WHIM_TLS_WANT_WRITE;
        break;
    case SSL_ERROR_ZERO_RETURN:
        what = WHIM_TLS_END;
        break;
    case SSL_ERROR_SSL:
        what = ERR_GET_REASON(ERR_peek_error()) == SSL_R_HTTP_REQUEST ? WHIM_TLS_NOT_TLS
                                                                      : WHIM_TLS_BROKEN;
        break;
    default:
        what = WHIM_TLS_BROKEN;
        break;
    }
    ERR_clear_error();
    return what;
}

int64_t whim_tls_run(whim_tls_conn *conn, whim_tls_op op, char *bytes, int64_t n)
{
    int most = n > INT_MAX ? INT_MAX : (int)n;
    ERR_clear_error();
    int done = op == WHIM_TLS_READ    ? SSL_read(conn, bytes, most)
               : op == WHIM_TLS_WRITE ? SSL_write(conn, bytes, most)
               : op == WHIM_TLS_SHUT  ? SSL_shutdown(conn)
                                      : SSL_do_handshake(conn);
    return done > 0 ? done : outcome(conn, done);
}

#else /* built without TLS: nothing but the refusal is ever reached */

#include <stddef.h>

bool whim_tls_count_memory(void)
{
    return true;
}

int64_t whim_tls_bytes(void)
{
    return 0;
}

whim_err whim_tls_create(const char *cert, const char *key, whim_tls **out, whim_diag *diag)
{
    (void)cert, (void)key, (void)out;
    return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                     "--tls-cert and --tls-key: this build has no TLS; build where OpenSSL is "
                     "installed (libssl-dev), or put a proxy in front");
}

void whim_tls_destroy(whim_tls *tls)
{
    (void)tls;
}

whim_err whim_tls_load(whim_tls *tls, const char *cert, const char *key, whim_diag *diag)
{
    return whim_tls_create(cert, key, &tls, diag);
}

whim_tls_conn *whim_tls_conn_create(whim_tls *tls, int fd)
{
    (void)tls, (void)fd;
    return NULL;
}

void whim_tls_conn_destroy(whim_tls_conn *conn)
{
    (void)conn;
}

int64_t whim_tls_run(whim_tls_conn *conn, whim_tls_op op, char *bytes, int64_t n)
{
    (void)conn, (void)op, (void)bytes, (void)n;
    return WHIM_TLS_BROKEN;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* TLS towards a server: whom to trust, the greeting, what went wrong in it. */
#include "client/secure.h"

#ifdef WHIM_TLS

#include "base/alloc.h"
#include "cmd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct secure {
    SSL_CTX *ctx;
    BIO_METHOD *socket;
    char ca_file[256]; /* empty: the system's */
};

struct secure_conn {
    SSL *ssl;
    const secure *of;
    int fd;
    int error;  /* errno of the socket; 0: it works */
    bool heard; /* the server has sent something */
    bool broken;
    unsigned long why; /* what OpenSSL says of a broken connection; 0: nothing */
    char host[256];
};

/* --- the socket ------------------------------------------------------------------------------- */

/* OpenSSL's own sockets raise SIGPIPE, which would end the program. */
static int socket_write(BIO *bio, const char *bytes, int n)
{
    secure_conn *c = BIO_get_data(bio);
    ssize_t done = send(c->fd, bytes, (size_t)n, MSG_NOSIGNAL);
    BIO_clear_retry_flags(bio);
    if (done < 0 && (errno == EAGAIN || errno == EINTR)) {
        BIO_set_retry_write(bio);
    } else if (done < 0 && c->heard && (errno == EPIPE || errno == ECONNRESET)) {
        return n; /* the server reads no more; it may have said why, which is read next */
    } else if (done < 0) {
        c->error = errno;
    }
    return (int)done;
}

static int socket_read(BIO *bio, char *bytes, int n)
{
    secure_conn *c = BIO_get_data(bio);
    ssize_t done = recv(c->fd, bytes, (size_t)n, 0);
    BIO_clear_retry_flags(bio);
    if (done < 0 && (errno == EAGAIN || errno == EINTR)) {
        BIO_set_retry_read(bio);
    } else if (done < 0) {
        c->error = errno;
    }
    c->heard = c->heard || done > 0;
    return (int)done;
}

static long socket_control(BIO *bio, int what, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return what == BIO_CTRL_FLUSH;
}

static int socket_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

static BIO_METHOD *socket_method(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    if (m != NULL) {
        BIO_meth_set_write(m, socket_write);
        BIO_meth_set_read(m, socket_read);
        BIO_meth_set_ctrl(m, socket_control);
        BIO_meth_set_create(m, socket_create);
    }
    return m;
}

/* --- whom to trust ---------------------------------------------------------------------------- */

/* A program from an archive has the paths of the system that built it: where they are not here, the
 * usual ones are tried. */
static void trust_system(SSL_CTX *ctx)
{
    static const char *const usual[] = {"/etc/ssl/certs/ca-certificates.crt",
                                        "/etc/pki/tls/certs/ca-bundle.crt",
                                        "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};
    SSL_CTX_set_default_verify_paths(ctx);
    bool is_set = env_is_set(X509_get_default_cert_file_env()) ||
                  env_is_set(X509_get_default_cert_dir_env()) ||
                  access(X509_get_default_cert_file(), R_OK) == 0 ||
                  access(X509_get_default_cert_dir(), R_OK) == 0;
    for (size_t i = 0; !is_set && i < sizeof usual / sizeof usual[0]; i++) {
        is_set = SSL_CTX_load_verify_locations(ctx, usual[i], NULL) == 1;
    }
}

static whim_err trust_file(SSL_CTX *ctx, const char *file, whim_diag *diag)
{
    if (access(file, R_OK) != 0) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND, "--ca-file %s: %s", file, strerror(errno));
    }
    if (SSL_CTX_load_verify_locations(ctx, file, NULL) != 1) {
        return whim_fail(
            diag, WHIM_ERR_INVALID,
            "--ca-file %s: there is no certificate in it; a file in PEM form is needed, "
            "with lines that say BEGIN CERTIFICATE",
            file);
    }
    /* A server's own certificate may stand there, too. */
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ctx), X509_V_FLAG_PARTIAL_CHAIN);
    return WHIM_ERR_OK;
}

whim_err secure_create(const char *ca_file, secure **out, whim_diag *diag)
{
    secure *s = whim_alloc(sizeof *s);
    if (s == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for TLS");
    }
    *s = (secure){.ctx = SSL_CTX_new(TLS_client_method()), .socket = socket_method()};
    whim_err err = WHIM_ERR_OK;
    if (s->ctx == NULL || s->socket == NULL) {
        err = whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for TLS");
    } else if (ca_file != NULL) {
        snprintf(s->ca_file, sizeof s->ca_file, "%s", ca_file);
        err = trust_file(s->ctx, ca_file, diag);
    } else {
        trust_system(s->ctx);
    }
    ERR_clear_error();
    if (err != WHIM_ERR_OK) {
        secure_destroy(s);
        return err;
    }
    SSL_CTX_set_min_proto_version(s->ctx, TLS1_2_VERSION);
    SSL_CTX_set_verify(s->ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(s->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    *out = s;
    return WHIM_ERR_OK;
}

void secure_destroy(secure *s)
{
    if (s != NULL) {
        SSL_CTX_free(s->ctx);
        BIO_meth_free(s->socket);
        whim_free(s);
    }
}

/* --- a connection ----------------------------------------------------------------------------- */

/* The certificate must be for this name or address; names are also said in the greeting. */
static bool set_host(SSL *ssl, const char *host)
{
    struct in6_addr any;
    if (inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    }
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

secure_conn *secure_open(secure *s, int fd, const char *host)
{
    secure_conn *c = whim_alloc(sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    *c = (secure_conn){.ssl = SSL_new(s->ctx), .of = s, .fd = fd};
    snprintf(c->host, sizeof c->host, "%s", host);
    BIO *bio = c->ssl != NULL && set_host(c->ssl, host) ? BIO_new(s->socket) : NULL;
    if (bio == NULL) {
        secure_close(c);
        return NULL;
    }
    BIO_set_data(bio, c);
    SSL_set_bio(c->ssl, bio, bio);
    SSL_set_connect_state(c->ssl);
    return c;
}

void secure_close(secure_conn *c)
{
    if (c != NULL) {
        if (c->ssl != NULL && !c->broken && secure_is_greeted(c)) {
            SSL_shutdown(c->ssl);
        }
        SSL_free(c->ssl);
        ERR_clear_error();
        whim_free(c);
    }
}

bool secure_is_greeted(const secure_conn *c)
{
    return SSL_is_init_finished(c->ssl) == 1;
}

/* Newer versions of OpenSSL have a reason of its own for an end that was not announced. */
static bool is_cut(unsigned long why)
{
#ifdef SSL_R_UNEXPECTED_EOF_WHILE_READING
    return ERR_GET_REASON(why) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
#else
    (void)why;
    return false;
#endif
}

static int64_t outcome(secure_conn *c, int result)
{
    switch (SSL_get_error(c->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        return SECURE_WANT_READ;
    case SSL_ERROR_WANT_WRITE:
        return SECURE_WANT_WRITE;
    case SSL_ERROR_ZERO_RETURN:
        return SECURE_END;
    default:
        c->why = ERR_peek_error();
        c->broken = true;
        return (c->why == 0 && c->error == 0) || is_cut(c->why) ? SECURE_CUT : SECURE_BROKEN;
    }
}

int64_t secure_write(secure_conn *c, const char *bytes, int64_t n)
{
    ERR_clear_error();
    int done = SSL_write(c->ssl, bytes, n > INT_MAX ? INT_MAX : (int)n);
    return done > 0 ? done : outcome(c, done);
}

int64_t secure_read(secure_conn *c, char *bytes, int64_t n)
{
    ERR_clear_error();
    int done = SSL_read(c->ssl, bytes, n > INT_MAX ? INT_MAX : (int)n);
    return done > 0 ? done : outcome(c, done);
}

/* --- what went wrong -------------------------------------------------------------------------- */

static void explain_certificate(const secure_conn *c, long code, char *out, size_t size)
{
    const char *ca = c->of->ca_file;
    const char *text = X509_verify_cert_error_string(code);
    switch (code) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        snprintf(out, size, "its certificate has expired");
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        snprintf(out, size,
                 "its certificate is not valid yet; is the clock of this machine right?");
        break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        snprintf(out, size,
                 "its certificate is not for %.100s; use a name that the certificate has", c->host);
        break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        if (ca[0] != '\0') {
            snprintf(out, size, "its certificate is not signed by an authority of %.100s (%s)", ca,
                     text);
        } else {
            snprintf(out, size,
                     "its certificate is not signed by an authority that this machine knows (%s); "
                     "--ca-file FILE names one that you trust",
                     text);
        }
        break;
    default:
        snprintf(out, size, "its certificate is refused: %s", text);
        break;
    }
}

bool secure_explain(const secure_conn *c, char *out, size_t size)
{
    long code = SSL_get_verify_result(c->ssl);
    const char *reason = ERR_reason_error_string(c->why);
    if (code != X509_V_OK) {
        explain_certificate(c, code, out, size);
    } else if (c->error != 0) {
        snprintf(out, size, "%s", strerror(c->error));
        return true;
    } else if (!c->heard) {
        snprintf(out, size,
                 "it closed the connection at the greeting of TLS; does it speak https?");
    } else if (!secure_is_greeted(c)) {
        snprintf(out, size,
                 "it does not speak TLS as it is spoken here (%s); is its address http://?",
                 reason != NULL ? reason : "the connection ended");
    } else {
        snprintf(out, size, "%s", reason != NULL ? reason : "the connection ended");
    }
    return false;
}

#else /* built without TLS: nothing but the refusal is ever reached */

whim_err secure_create(const char *ca_file, secure **out, whim_diag *diag)
{
    (void)ca_file, (void)out;
    return whim_fail(
        diag, WHIM_ERR_UNSUPPORTED,
        "this build has no TLS; build where OpenSSL is installed (libssl-dev), or put a "
        "proxy on this machine (socat, stunnel, nginx) and give its http:// address");
}

void secure_destroy(secure *s)
{
    (void)s;
}

secure_conn *secure_open(secure *s, int fd, const char *host)
{
    (void)s, (void)fd, (void)host;
    return NULL;
}

void secure_close(secure_conn *c)
{
    (void)c;
}

int64_t secure_write(secure_conn *c, const char *bytes, int64_t n)
{
    (void)c, (void)bytes, (void)n;
    return SECURE_BROKEN;
}

int64_t secure_read(secure_conn *c, char *bytes, int64_t n)
{
    (void)c, (void)bytes, (void)n;
    return SECURE_BROKEN;
}

bool secure_is_greeted(const secure_conn *c)
{
    (void)c;
    return false;
}

bool secure_explain(const secure_conn *c, char *out, size_t size)
{
    (void)c;
    if (size > 0) {
        out[0] = '\0';
    }
    return false;
}

#endif

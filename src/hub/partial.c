/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are half there, and locks. */
#include "hub/partial.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STORE_STEP = 256 << 10, MAX_PIECES = 1 << 20 };

typedef struct table_head {
    char magic[8];
    int64_t bytes, piece_bytes;
} table_head;

static const char magic[8] = "whimprt1";

static int64_t table_bytes(const whim_hub_partial *p)
{
    return (int64_t)sizeof(table_head) + p->n_piece * (int64_t)sizeof(int64_t);
}

static whim_err write_failed(const char *path, int error, whim_diag *diag)
{
    if (error == ENOSPC || error == EDQUOT) {
        return whim_fail(
            diag, WHIM_ERR_FULL,
            "%s: %s; what was fetched is kept: free some space (or set HF_HUB_CACHE to a "
            "folder on another disk) and pull again",
            path, error == EDQUOT ? "the disk quota is used up" : "the disk is full");
    }
    if (error == EFBIG) {
        return whim_fail(diag, WHIM_ERR_FULL,
                         "%s: the file system or a limit (ulimit -f) allows no file of this size",
                         path);
    }
    return whim_fail(diag, WHIM_ERR_IO, "%s: cannot write: %s", path, strerror(error));
}

static whim_err write_at(int fd, int64_t offset, const void *bytes, int64_t n, const char *path,
                         whim_diag *diag)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t wrote = pwrite(fd, at, (size_t)n, (off_t)offset);
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote <= 0) {
            return write_failed(path, wrote < 0 ? errno : EIO, diag);
        }
        at += wrote;
        offset += wrote;
        n -= wrote;
    }
    return WHIM_ERR_OK;
}

int64_t whim_hub_partial_start(const whim_hub_partial *p, int32_t piece)
{
    return piece * p->piece_bytes;
}

int64_t whim_hub_partial_end(const whim_hub_partial *p, int32_t piece)
{
    int64_t end = (piece + 1) * p->piece_bytes;
    return end < p->bytes ? end : p->bytes;
}

static int64_t piece_size(const whim_hub_partial *p, int32_t piece)
{
    return whim_hub_partial_end(p, piece) - whim_hub_partial_start(p, piece);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Whether the file has a table for these pieces; it is read then. */
static bool table_read(whim_hub_partial *p)
{
    struct stat st;
    table_head head;
    whim_diag ignored;
    int64_t n = p->n_piece * (int64_t)sizeof *p->good;
    if (fstat(p->fd, &st) != 0 || st.st_size != p->bytes + table_bytes(p) ||
        whim_file_read_at(p->fd, p->bytes, sizeof head, &head, p->path, &ignored) != WHIM_ERR_OK ||
        memcmp(head.magic, magic, sizeof magic) != 0 || head.bytes != p->bytes ||
        head.piece_bytes != p->piece_bytes ||
        whim_file_read_at(p->fd, p->bytes + (int64_t)sizeof head, n, p->good, p->path, &ignored) !=
            WHIM_ERR_OK) {
        return false;
    }
    for (int32_t i = 0; i < p->n_piece; i++) {
        if (p->good[i] < 0 || p->good[i] > piece_size(p, i)) {
            p->good[i] = 0;
        }
        p->stored[i] = p->good[i];
    }
    return true;
}

whim_err whim_hub_partial_reset(whim_hub_partial *p, whim_diag *diag)
{
    table_head head = {.bytes = p->bytes, .piece_bytes = p->piece_bytes};
    memcpy(head.magic, magic, sizeof magic);
    pthread_rwlock_wrlock(&p->seal_lock);
    pthread_mutex_lock(&p->lock);
    p->sealed = false;
    memset(p->good, 0, (size_t)p->n_piece * sizeof *p->good);
    memset(p->stored, 0, (size_t)p->n_piece * sizeof *p->stored);
    bool ok = ftruncate(p->fd, 0) == 0 && ftruncate(p->fd, (off_t)(p->bytes + table_bytes(p))) == 0;
    whim_err err = ok ? write_at(p->fd, p->bytes, &head, sizeof head, p->path, diag)
                      : write_failed(p->path, errno, diag);
    pthread_mutex_unlock(&p->lock);
    pthread_rwlock_unlock(&p->seal_lock);
    return err;
}

whim_err whim_hub_partial_open(whim_hub_partial *p, const char *path, int64_t bytes,
                               int64_t piece_bytes, whim_diag *diag)
{
    int64_t n = (bytes + piece_bytes - 1) / piece_bytes;
    *p = (whim_hub_partial){.fd = -1, .path = path, .bytes = bytes, .piece_bytes = piece_bytes};
    if (n > MAX_PIECES) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED, "%s: %lld bytes are too many", path,
                         (long long)bytes);
    }
    p->n_piece = (int32_t)n;
    p->good = whim_alloc_array(n, sizeof *p->good);
    p->stored = whim_alloc_array(n, sizeof *p->stored);
    pthread_rwlock_init(&p->seal_lock, NULL);
    pthread_mutex_init(&p->lock, NULL);
    if (p->good == NULL || p->stored == NULL) {
        whim_hub_partial_close(p);
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory");
    }
    p->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (p->fd < 0) {
        whim_err err = write_failed(path, errno, diag);
        whim_hub_partial_close(p);
        return err;
    }
    whim_err err = table_read(p) ? WHIM_ERR_OK : whim_hub_partial_reset(p, diag);
    if (err != WHIM_ERR_OK) {
        whim_hub_partial_close(p);
    }
    return err;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Lock held. */
static whim_err table_store(whim_hub_partial *p, int32_t piece, whim_diag *diag)
{
    p->stored[piece] = p->good[piece];
    return write_at(p->fd,
                    p->bytes + (int64_t)sizeof(table_head) + piece * (int64_t)sizeof *p->good,
                    &p->good[piece], sizeof *p->good, p->path, diag);
}

/* What the bytes add to the pieces that they lie in. Lock held. */
static whim_err table_advance(whim_hub_partial *p, int64_t offset, int64_t n, int64_t *fresh,
                              whim_diag *diag)
{
    for (int32_t i = (int32_t)(offset / p->piece_bytes);
         i < p->n_piece && whim_hub_partial_start(p, i) < offset + n; i++) {
        int64_t start = whim_hub_partial_start(p, i), end = whim_hub_partial_end(p, i);
        int64_t reach = (offset + n < end ? offset + n : end) - start;
        if (offset <= start + p->good[i] && reach > p->good[i]) {
            *fresh += reach - p->good[i];
            p->good[i] = reach;
            if (reach == end - start || reach - p->stored[i] >= STORE_STEP) {
                WHIM_TRY(table_store(p, i, diag));
            }
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_hub_partial_write(whim_hub_partial *p, int64_t offset, const char *bytes, int64_t n,
                                int64_t *fresh, whim_diag *diag)
{
    whim_err err = WHIM_ERR_OK;
    *fresh = 0;
    pthread_rwlock_rdlock(&p->seal_lock);
    if (n > 0 && !p->sealed) {
        err = write_at(p->fd, offset, bytes, n, p->path, diag);
        if (err == WHIM_ERR_OK) {
            pthread_mutex_lock(&p->lock);
            err = table_advance(p, offset, n, fresh, diag);
            pthread_mutex_unlock(&p->lock);
        }
    }
    pthread_rwlock_unlock(&p->seal_lock);
    return err;
}

int64_t whim_hub_partial_good(whim_hub_partial *p, int32_t piece)
{
    pthread_mutex_lock(&p->lock);
    int64_t good = p->good[piece];
    pthread_mutex_unlock(&p->lock);
    return good;
}

int64_t whim_hub_partial_total(whim_hub_partial *p)
{
    int64_t total = 0;
    pthread_mutex_lock(&p->lock);
    for (int32_t i = 0; i < p->n_piece; i++) {
        total += p->good[i];
    }
    pthread_mutex_unlock(&p->lock);
    return total;
}

/* --- ending ----------------------------------------------------------------------------------- */

void whim_hub_partial_seal(whim_hub_partial *p)
{
    pthread_rwlock_wrlock(&p->seal_lock);
    p->sealed = true;
    pthread_rwlock_unlock(&p->seal_lock);
}

static void file_done(whim_hub_partial *p)
{
    whim_file_close(p->fd);
    p->fd = -1;
}

whim_err whim_hub_partial_publish(whim_hub_partial *p, const char *path, whim_diag *diag)
{
    if (ftruncate(p->fd, (off_t)p->bytes) != 0 || fdatasync(p->fd) != 0) {
        return write_failed(p->path, errno, diag);
    }
    if (rename(p->path, path) != 0) {
        return whim_fail(diag, WHIM_ERR_IO, "%s: cannot be renamed to %s: %s", p->path, path,
                         strerror(errno));
    }
    file_done(p);
    return WHIM_ERR_OK;
}

void whim_hub_partial_discard(whim_hub_partial *p)
{
    unlink(p->path);
    file_done(p);
}

void whim_hub_partial_close(whim_hub_partial *p)
{
    whim_diag ignored;
    for (int32_t i = 0; p->fd >= 0 && !p->sealed && i < p->n_piece; i++) {
        if (p->good[i] != p->stored[i] && table_store(p, i, &ignored) != WHIM_ERR_OK) {
            break; /* the next one fetches a little more */
        }
    }
    whim_file_close(p->fd);
    if (p->path != NULL) {
        pthread_rwlock_destroy(&p->seal_lock);
        pthread_mutex_destroy(&p->lock);
    }
    whim_free(p->good);
    whim_free(p->stored);
    *p = (whim_hub_partial){.fd = -1};
}

/* Whether the file that was locked still has its name: some tools delete theirs when they are done
 * with it. */
static bool has_name(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

whim_err whim_hub_lock(const char *path, int *fd, const atomic_bool *stop,
                       void (*waiting)(void *ctx), void *ctx, whim_diag *diag)
{
    for (bool told = false;;) {
        *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0664);
        if (*fd < 0) {
            return whim_fail(diag, WHIM_ERR_IO, "%s: cannot open the lock: %s", path,
                             strerror(errno));
        }
        int error = flock(*fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
        if (error == 0 && has_name(*fd)) {
            return WHIM_ERR_OK;
        }
        close(*fd);
        *fd = -1;
        if (error == ENOLCK || error == ENOTSUP || error == ENOSYS) {
            return WHIM_ERR_OK;
        }
        if (error != 0 && error != EWOULDBLOCK && error != EINTR) {
            return whim_fail(diag, WHIM_ERR_IO, "%s: cannot lock: %s", path, strerror(error));
        }
        if (stop != NULL && atomic_load(stop)) {
            return whim_fail(diag, WHIM_ERR_IO, "stopped");
        }
        if (error == EWOULDBLOCK) {
            if (!told && waiting != NULL) {
                waiting(ctx);
            }
            told = true;
            whim_clock_sleep_ns(50 * WHIM_NS_PER_MS);
        }
    }
}

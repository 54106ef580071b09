/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks/wire.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SEND_MS = 300 }; /* without a byte taken */

whim_err whim_wire_parse(const void *data, int64_t n, whim_wire_head *head, int64_t *used,
                         whim_diag *diag)
{
    *used = 0;
    if (n < (int64_t)sizeof *head) {
        return WHIM_ERR_OK;
    }
    memcpy(head, data, sizeof *head);
    bool has_data = head->kind == WHIM_WIRE_DATA || head->kind == WHIM_WIRE_ENDED;
    if (head->magic != WHIM_WIRE_MAGIC || head->kind < 0 || head->kind >= WHIM_WIRE_KINDS ||
        head->bytes > WHIM_WIRE_MOST || (head->bytes > 0) != has_data ||
        head->channel < WHIM_WIRE_BRIDGE || head->channel >= WHIM_COMM_MAX_RANK) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "the bytes received are not a frame of whimbrel");
    }
    if (n >= (int64_t)sizeof *head + head->bytes) {
        *used = (int64_t)sizeof *head + head->bytes;
    }
    return WHIM_ERR_OK;
}

void whim_wire_open(whim_wire *wire, int fd, int64_t limit_ns)
{
    wire->fd = fd;
    wire->limit_ns = limit_ns > 0 ? limit_ns : WHIM_WIRE_LIMIT_MS * WHIM_NS_PER_MS;
    wire->beat_at_ns = 0;
    wire->quiet = (whim_comm_wait){0};
    wire->n_in = wire->n_out = 0;
}

void whim_wire_close(whim_wire *wire)
{
    if (wire->fd >= 0) {
        close(wire->fd);
        wire->fd = -1;
    }
}

whim_err whim_wire_write(int fd, const void *data, int64_t bytes, int64_t wait_ns, whim_diag *diag)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t n = send(fd, at, (size_t)bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            bytes -= n;
        } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            struct pollfd room = {.fd = fd, .events = POLLOUT};
            if (poll(&room, 1, (int)(wait_ns / WHIM_NS_PER_MS)) == 0) {
                return whim_fail(diag, WHIM_ERR_IO, "it no longer accepts data");
            }
        } else if (n == 0 || errno != EINTR) {
            return whim_fail(diag, WHIM_ERR_IO, "%s", strerror(errno));
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_wire_flush(whim_wire *wire, whim_diag *diag)
{
    while (wire->n_out > 0) {
        ssize_t n = send(wire->fd, wire->out + wire->out_at, (size_t)wire->n_out,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return WHIM_ERR_OK;
        }
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return whim_fail(diag, WHIM_ERR_IO, "%s", strerror(errno));
        }
        wire->out_at += n > 0 ? n : 0;
        wire->n_out -= n > 0 ? n : 0;
    }
    return WHIM_ERR_OK;
}

/* Behind a frame that is not taken yet there is room for a few heads. */
static bool has_room(const whim_wire *wire, int64_t bytes)
{
    int64_t left = (int64_t)sizeof wire->out - wire->n_out;
    return wire->n_out == 0 || bytes <= whim_comm_min(left, (int64_t)sizeof(whim_wire_head));
}

static whim_err room_wait(whim_wire *wire, int64_t bytes, whim_diag *diag)
{
    struct pollfd room = {.fd = wire->fd, .events = POLLOUT};
    WHIM_TRY(whim_wire_flush(wire, diag));
    while (!has_room(wire, bytes)) {
        if (poll(&room, 1, SEND_MS) == 0) {
            return whim_fail(diag, WHIM_ERR_IO, "it no longer accepts data");
        }
        WHIM_TRY(whim_wire_flush(wire, diag));
    }
    return WHIM_ERR_OK;
}

whim_err whim_wire_send(whim_wire *wire, whim_wire_head head, const void *data, whim_diag *diag)
{
    head.magic = WHIM_WIRE_MAGIC;
    wire->beat_at_ns = whim_clock_ns() + WHIM_WIRE_BEAT_MS * WHIM_NS_PER_MS;
    WHIM_TRY(room_wait(wire, (int64_t)sizeof head + head.bytes, diag));
    memmove(wire->out, wire->out + wire->out_at, (size_t)wire->n_out);
    wire->out_at = 0;
    memcpy(wire->out + wire->n_out, &head, sizeof head);
    if (head.bytes > 0) {
        memcpy(wire->out + wire->n_out + sizeof head, data, head.bytes);
    }
    wire->n_out += (int64_t)sizeof head + head.bytes;
    return whim_wire_flush(wire, diag);
}

/* The frames that have come, and what is left of the next to the front. */
static whim_err frames_give(whim_wire *wire, whim_wire_fn *on_frame, void *ctx, whim_diag *diag)
{
    int64_t at = 0, used = 0;
    do {
        whim_wire_head head;
        WHIM_TRY(whim_wire_parse(wire->in + at, wire->n_in - at, &head, &used, diag));
        if (used > 0) {
            WHIM_TRY(on_frame(ctx, &head, wire->in + at + sizeof head, diag));
        }
        at += used;
    } while (used > 0);
    wire->n_in -= at;
    memmove(wire->in, wire->in + at, (size_t)wire->n_in);
    return WHIM_ERR_OK;
}

whim_err whim_wire_take(whim_wire *wire, whim_wire_fn *on_frame, void *ctx, whim_diag *diag)
{
    for (;;) {
        size_t room = sizeof wire->in - (size_t)wire->n_in; /* never 0: a whole frame was given */
        ssize_t n = recv(wire->fd, wire->in + wire->n_in, room, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return WHIM_ERR_OK;
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return whim_fail(diag, WHIM_ERR_IO, "%s",
                             n == 0 ? "it closed the connection" : strerror(errno));
        }
        wire->quiet = (whim_comm_wait){0};
        wire->n_in += n;
        WHIM_TRY(frames_give(wire, on_frame, ctx, diag));
        if (wire->fd < 0) { /* whoever was given a frame has closed it */
            return WHIM_ERR_OK;
        }
    }
}

whim_err whim_wire_say(whim_wire *wire, int64_t now_ns, whim_diag *diag)
{
    WHIM_TRY(whim_wire_flush(wire, diag));
    if (now_ns < wire->beat_at_ns || wire->n_out > 0) {
        return WHIM_ERR_OK;
    }
    return whim_wire_send(wire, (whim_wire_head){.kind = WHIM_WIRE_BEAT}, NULL, diag);
}

whim_err whim_wire_beat(whim_wire *wire, int64_t now_ns, whim_diag *diag)
{
    int64_t quiet = whim_comm_wait_look(&wire->quiet, now_ns);
    if (quiet > wire->limit_ns) {
        return whim_fail(diag, WHIM_ERR_IO, "nothing was heard of it for %lld ms",
                         (long long)(quiet / WHIM_NS_PER_MS));
    }
    return whim_wire_say(wire, now_ns, diag);
}

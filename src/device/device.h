/* SPDX-License-Identifier: Apache-2.0 */
/* The seam between the engine and the hardware: backend -> device -> stream.
 *
 * A backend is one kind of hardware; a device is one opened instance with memory and caps; a stream
 * is an ordered queue of copies and ops on it. Queued work runs at any time between the call and
 * the next sync, on any thread; its errors surface at wait and sync. Device memory is only ever
 * touched by ops and copies: the host must not follow a pointer from buf_alloc.
 *
 * Threads: a device may be shared (pack_weight is called by several loader threads at once); a
 * stream belongs to one thread. */
#ifndef WHIM_DEVICE_DEVICE_H
#define WHIM_DEVICE_DEVICE_H

#include "base/alloc.h"
#include "base/err.h"
#include "tensor/act.h"
#include "tensor/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct whim_device whim_device;
typedef struct whim_stream whim_stream;
typedef struct whim_graph whim_graph; /* defined by each backend */
struct whim_ops;                      /* ops/ops.h */
struct whim_comm;                     /* comm/comm.h */

typedef struct whim_device_cfg {
    int32_t n_thread; /* 0: as many as the CPU mask and quota allow; more than that is refused */
    const char *isa;  /* highest instruction level to use, NULL: the best there is */
    /* If others share the machine: this device has part `part` of n_part equal parts, with its
     * own CPUs and memory. 0 of 0: all of the machine. */
    int32_t part, n_part;
} whim_device_cfg;

/* Do about `rounds` short rounds of the fastest multiply-adds that products with weights of a type
 * can be made of, on registers and on the calling thread; returns how many multiply-adds that
 * was. */
typedef int64_t whim_peak_macs(whim_dtype dtype, int64_t rounds);

typedef struct whim_device_caps {
    char summary[192];        /* for people: "Neoverse-V1, 2 threads, level dotprod" */
    char isa[32];             /* level in use */
    char levels[128];         /* levels that could be used, lowest first, by spaces */
    char note[256];           /* what people should know of the build or machine, "" usually */
    int32_t n_thread;         /* workers, 1 for devices that have none */
    int32_t n_loader;         /* threads of the host that make its weights ready */
    int32_t page_len;         /* positions in a page of keys and values */
    int64_t pack_row_granule; /* slabs given to pack_weight start at a multiple of this row */
    int64_t workspace_bytes;  /* what the device and one stream take for themselves */
    bool graph_capture;       /* capture and replay pay off here */
    whim_act acts[WHIM_DTYPE_COUNT]; /* what products with weights of a type work on */
    bool narrows; /* the device makes that from rows of F32 itself, and may take no others */
    whim_peak_macs *peak_macs; /* the arithmetic's ceiling, see engine/machine.h; NULL: not known */
} whim_device_caps;

/* A slab of a weight matrix [n, k]: rows row0 .. row0 + n_row - 1, as the file stores them, row
 * after row, at `src`. The device writes them in its own layout into the region `dst`, which has
 * weight_bytes(dtype, n, k) bytes. */
typedef struct whim_pack {
    whim_dtype dtype;
    int64_t n, k;
    int64_t row0, n_row;
    const void *src; /* host memory, aligned to the element of float types */
    void *dst;       /* device memory */
} whim_pack;

typedef struct whim_device_vt {
    /* All buffers and streams of the device are gone by then. */
    void (*close)(whim_device *dev);

    /* Memory aligned to 64 bytes and zeroed; buf_free gets the same size. */
    whim_err (*buf_alloc)(whim_device *dev, int64_t bytes, void **out, whim_diag *diag);
    void (*buf_free)(whim_device *dev, void *ptr, int64_t bytes);
    /* The same, but memory is taken only when it is first touched; NULL where a device cannot do
     * that. */
    whim_err (*buf_reserve)(whim_device *dev, int64_t bytes, void **out, whim_diag *diag);

    /* Memory of the host, zeroed, that copies reach without a detour (pinned); host_free gets the
     * same size. NULL, both, where any memory is as good. */
    whim_err (*host_alloc)(whim_device *dev, int64_t bytes, void **out, whim_diag *diag);
    void (*host_free)(whim_device *dev, void *ptr, int64_t bytes);

    /* What buffers may take now, in bytes. NULL where they are in the host's memory. */
    int64_t (*mem_available)(whim_device *dev);

    /* Does the device still answer? Asked after work has failed; on a lost device all work fails
     * from then on. NULL where a device cannot be lost. */
    whim_err (*check)(whim_device *dev, whim_diag *diag);

    /* Bytes of a packed weight, or -1 when the device has no kernel for the type. */
    int64_t (*weight_bytes)(whim_device *dev, whim_dtype dtype, int64_t n, int64_t k);
    whim_err (*pack_weight)(whim_device *dev, const whim_pack *pack);

    whim_err (*stream_open)(whim_device *dev, whim_stream **out, whim_diag *diag);

    /* Asked in the dry run of a model with its own ops (whim_op of ops/ops.h, checked arguments).
     * Does the device run this one itself? If not, a fused op runs as its composition, and a model
     * that needs a primitive is refused. */
    bool (*op_accepts)(whim_device *dev, int32_t op, const void *args);
    /* And how many bytes of workspace does it take then? It must not take less for more rows,
     * because only the largest pass is asked about. */
    int64_t (*op_workspace)(whim_device *dev, int32_t op, const void *args);
} whim_device_vt;

/* Told of every stream that is opened (ops/trace.h). */
typedef struct whim_stream_watch {
    void (*opened)(struct whim_stream_watch *watch, whim_stream *s);
} whim_stream_watch;

struct whim_device {
    const whim_device_vt *vt;
    whim_device_caps caps;
    whim_stream_watch *watch; /* or NULL */
};

/* A place in a stream's work, behind all that was queued before it; counted from 1. */
typedef int64_t whim_event;

enum { WHIM_STREAM_EVENTS = 2 };

typedef struct whim_stream_vt {
    void (*close)(whim_stream *s);

    /* The host's side (`src` of copy_in, `dst` of copy_out) belongs to the copy until that is
     * done: the caller neither moves nor changes it. `dst` is valid after a wait. */
    whim_err (*copy_in)(whim_stream *s, void *dst, const void *src, int64_t bytes);
    whim_err (*copy_out)(whim_stream *s, void *dst, const void *src, int64_t bytes);
    whim_err (*sync)(whim_stream *s);

    /* Work in parts: record ends one with an event, wait returns when that part and all before
     * it are done. If a part fails, those after it fail, too; each reports it at its own wait.
     * Up to WHIM_STREAM_EVENTS may be open; one more waits for the oldest. begin lets the device
     * start on work that has an event behind it, if it would otherwise start only when somebody
     * waits. */
    whim_err (*record)(whim_stream *s, whim_event *event);
    whim_err (*wait)(whim_stream *s, whim_event event);
    whim_err (*begin)(whim_stream *s, whim_diag *diag);

    /* Between begin and end, ops are recorded instead of run; copies and syncs are refused. A graph
     * replays with the same args: what changes lives in device memory that the args point to. */
    whim_err (*capture_begin)(whim_stream *s);
    whim_err (*capture_end)(whim_stream *s, whim_graph **out);
    whim_err (*replay)(whim_stream *s, whim_graph *graph);
    void (*graph_free)(whim_stream *s, whim_graph *graph);
} whim_stream_vt;

/* Device memory that ops take while they are queued. The next op may have the same memory,
 * because work runs in order. The dry run finds out how much is needed; no caller passes any. */
typedef struct whim_workspace {
    char *base; /* aligned to 64; freed with the stream */
    int64_t bytes, used, peak;
} whim_workspace;

struct whim_stream {
    const whim_stream_vt *vt;
    const struct whim_ops *ops; /* every slot filled */
    whim_device *device;
    whim_workspace workspace;
    /* The stream's seat among the ranks of a group, for collectives; NULL: it is the only one. Set
     * before the first op; what runs the stream's work is the comm's owner from then on. */
    struct whim_comm *comm;
};

typedef struct whim_backend {
    const char *name;
    bool preferred; /* to the first of the build, where nobody names a backend */
    int32_t (*device_count)(void);
    whim_err (*device_open)(int32_t index, const whim_device_cfg *cfg, whim_device **out,
                            whim_diag *diag);
} whim_backend;

/* All backends of this build, in order of preference. */
int32_t whim_backend_count(void);
const whim_backend *whim_backend_at(int32_t i);

/* By name, or NULL. */
const whim_backend *whim_backend_find(const char *name);

/* Static-inline callers. */
static inline void whim_device_close(whim_device *dev)
{
    if (dev != NULL) {
        dev->vt->close(dev);
    }
}

WHIM_MUST_CHECK static inline whim_err whim_device_alloc(whim_device *dev, int64_t bytes,
                                                         void **out, whim_diag *diag)
{
    return dev->vt->buf_alloc(dev, bytes, out, diag);
}

/* For a buffer of which perhaps little is ever used. The same as whim_device_alloc if the device
 * cannot take memory later. */
WHIM_MUST_CHECK static inline whim_err whim_device_reserve(whim_device *dev, int64_t bytes,
                                                           void **out, whim_diag *diag)
{
    return (dev->vt->buf_reserve != NULL ? dev->vt->buf_reserve : dev->vt->buf_alloc)(dev, bytes,
                                                                                      out, diag);
}

static inline void whim_device_free(whim_device *dev, void *ptr, int64_t bytes)
{
    if (ptr != NULL) {
        dev->vt->buf_free(dev, ptr, bytes);
    }
}

/* For what every step copies. */
WHIM_MUST_CHECK static inline whim_err whim_device_host_alloc(whim_device *dev, int64_t bytes,
                                                              void **out, whim_diag *diag)
{
    if (dev->vt->host_alloc != NULL) {
        return dev->vt->host_alloc(dev, bytes, out, diag);
    }
    *out = whim_alloc(bytes);
    return *out != NULL ? WHIM_ERR_OK
                        : whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for %lld bytes of a step",
                                    (long long)bytes);
}

static inline void whim_device_host_free(whim_device *dev, void *ptr, int64_t bytes)
{
    if (ptr != NULL && dev->vt->host_free != NULL) {
        dev->vt->host_free(dev, ptr, bytes);
    } else {
        whim_free(ptr);
    }
}

static inline int64_t whim_device_weight_bytes(whim_device *dev, whim_dtype dtype, int64_t n,
                                               int64_t k)
{
    return dev->vt->weight_bytes(dev, dtype, n, k);
}

WHIM_MUST_CHECK static inline whim_err whim_device_pack(whim_device *dev, const whim_pack *pack)
{
    return dev->vt->pack_weight(dev, pack);
}

WHIM_MUST_CHECK static inline whim_err whim_stream_open(whim_device *dev, whim_stream **out,
                                                        whim_diag *diag)
{
    WHIM_TRY(dev->vt->stream_open(dev, out, diag));
    if (dev->watch != NULL) {
        dev->watch->opened(dev->watch, *out);
    }
    return WHIM_ERR_OK;
}

/* Give the stream its workspace, before its first op. */
WHIM_MUST_CHECK static inline whim_err whim_stream_reserve(whim_stream *s, int64_t bytes,
                                                           whim_diag *diag)
{
    void *base;
    int64_t rounded = (bytes + 63) / 64 * 64;
    WHIM_TRY(whim_device_alloc(s->device, rounded, &base, diag));
    s->workspace = (whim_workspace){.base = base, .bytes = rounded};
    return WHIM_ERR_OK;
}

static inline void whim_stream_close(whim_stream *s)
{
    if (s != NULL) {
        whim_workspace w = s->workspace;
        whim_device *dev = s->device;
        s->vt->close(s);
        whim_device_free(dev, w.base, w.bytes);
    }
}

/* Take some of it, aligned to 64, until the op that asks is queued (whim_op_<name>). NO_MEMORY: the
 * op was not in the dry run, or took less there. */
WHIM_MUST_CHECK static inline whim_err whim_workspace_take(whim_stream *s, int64_t bytes,
                                                           void **out)
{
    whim_workspace *w = &s->workspace;
    int64_t rounded = (bytes + 63) / 64 * 64;
    if (bytes < 0 || rounded > w->bytes - w->used) {
        return WHIM_ERR_NO_MEMORY;
    }
    *out = w->base + w->used;
    w->used += rounded;
    w->peak = w->used > w->peak ? w->used : w->peak;
    return WHIM_ERR_OK;
}

WHIM_MUST_CHECK static inline whim_err whim_stream_copy_in(whim_stream *s, void *dst,
                                                           const void *src, int64_t bytes)
{
    return s->vt->copy_in(s, dst, src, bytes);
}

WHIM_MUST_CHECK static inline whim_err whim_stream_copy_out(whim_stream *s, void *dst,
                                                            const void *src, int64_t bytes)
{
    return s->vt->copy_out(s, dst, src, bytes);
}

WHIM_MUST_CHECK static inline whim_err whim_stream_sync(whim_stream *s)
{
    return s->vt->sync(s);
}

WHIM_MUST_CHECK static inline whim_err whim_stream_record(whim_stream *s, whim_event *event)
{
    return s->vt->record(s, event);
}

WHIM_MUST_CHECK static inline whim_err whim_stream_wait(whim_stream *s, whim_event event)
{
    return s->vt->wait(s, event);
}

WHIM_MUST_CHECK static inline whim_err whim_stream_begin(whim_stream *s, whim_diag *diag)
{
    return s->vt->begin(s, diag);
}

#endif

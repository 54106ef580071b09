/* SPDX-License-Identifier: Apache-2.0 */
/* The guard device: memory that the host cannot touch. */
#include "backends/guard/guard.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/os/mem.h"

#include <stdio.h>
#include <string.h>

enum { BUF_ALIGN = 64 };

struct guard_buf {
    guard_buf *next;
    char *pages;        /* whole pages, then the one that is never open */
    int64_t page_bytes; /* without that one */
    char *data;         /* what the caller has; ends where the last page begins */
    int64_t bytes;
    bool is_host;
    whim_os_rights rights;     /* while nothing runs */
    const whim_stream *holder; /* of a pinned buffer: whose copies it belongs to, or NULL */
    whim_event until;
};

static int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static void buf_protect(guard_buf *buf, whim_os_rights rights)
{
    whim_check(buf->page_bytes == 0 || whim_os_pages_protect(buf->pages, buf->page_bytes, rights));
}

/* The buffer of that kind that holds [ptr, ptr + bytes), or NULL. Lock held. */
static guard_buf *buf_find(guard_device *dev, const void *ptr, int64_t bytes, bool is_host)
{
    uintptr_t at = (uintptr_t)ptr;
    for (guard_buf *buf = dev->bufs; buf != NULL; buf = buf->next) {
        uintptr_t start = (uintptr_t)buf->data;
        uintptr_t end = start + (uintptr_t)buf->bytes;
        if (buf->is_host == is_host && at >= start && at <= end && bytes >= 0 &&
            (uintptr_t)bytes <= end - at) {
            return buf;
        }
    }
    return NULL;
}

bool whim_guard_owns(guard_device *dev, const void *ptr, int64_t bytes)
{
    pthread_mutex_lock(&dev->lock);
    bool found = buf_find(dev, ptr, bytes, false) != NULL;
    pthread_mutex_unlock(&dev->lock);
    return found;
}

bool whim_guard_hold(guard_device *dev, const whim_stream *s, const void *ptr, int64_t bytes,
                     whim_event event, bool is_written)
{
    pthread_mutex_lock(&dev->lock);
    guard_buf *buf = buf_find(dev, ptr, bytes, true);
    if (buf != NULL) {
        whim_check((buf->holder == NULL || buf->holder == s) && "pinned memory of two streams");
        buf->holder = s;
        buf->until = event;
        buf->rights = is_written || buf->rights == WHIM_OS_CLOSED ? WHIM_OS_CLOSED : WHIM_OS_READ;
        buf_protect(buf, buf->rights);
    }
    pthread_mutex_unlock(&dev->lock);
    return buf != NULL;
}

void whim_guard_release(guard_device *dev, const whim_stream *s, whim_event event)
{
    pthread_mutex_lock(&dev->lock);
    for (guard_buf *buf = dev->bufs; buf != NULL; buf = buf->next) {
        if (buf->holder == s && buf->until <= event) {
            buf->holder = NULL;
            buf->rights = WHIM_OS_OPEN;
            buf_protect(buf, buf->rights);
        }
    }
    pthread_mutex_unlock(&dev->lock);
}

void whim_guard_open_memory(guard_device *dev, bool open)
{
    for (guard_buf *buf = dev->bufs; buf != NULL; buf = buf->next) {
        if (buf->rights != WHIM_OS_OPEN) {
            buf_protect(buf, open ? WHIM_OS_OPEN : buf->rights);
        }
    }
}

static whim_err alloc(guard_device *dev, bool is_host, int64_t bytes, void **out, whim_diag *diag)
{
    int64_t page = whim_os_page_bytes();
    if (bytes < 0 || bytes > INT64_MAX / 4) {
        return whim_fail(diag, WHIM_ERR_INVALID, "a buffer of %lld bytes was asked for",
                         (long long)bytes);
    }
    guard_buf *buf = whim_alloc(sizeof *buf);
    WHIM_TRY(whim_got(buf != NULL, diag, "no memory for a buffer's record"));
    buf->bytes = bytes;
    buf->is_host = is_host;
    buf->rights = is_host ? WHIM_OS_OPEN : WHIM_OS_CLOSED;
    buf->page_bytes = round_up(bytes, page);
    buf->pages = whim_os_pages_alloc(buf->page_bytes + page);
    if (buf->pages == NULL) {
        whim_free(buf);
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for a buffer of %lld bytes",
                         (long long)bytes);
    }
    buf->data = buf->pages + buf->page_bytes - round_up(bytes, BUF_ALIGN);
    whim_check(whim_os_pages_protect(buf->pages, buf->page_bytes + page, WHIM_OS_CLOSED));
    buf_protect(buf, buf->rights);
    pthread_mutex_lock(&dev->lock);
    buf->next = dev->bufs;
    dev->bufs = buf;
    pthread_mutex_unlock(&dev->lock);
    *out = buf->data;
    return WHIM_ERR_OK;
}

static whim_err guard_buf_alloc(whim_device *base, int64_t bytes, void **out, whim_diag *diag)
{
    return alloc((guard_device *)base, false, bytes, out, diag);
}

static whim_err guard_host_alloc(whim_device *base, int64_t bytes, void **out, whim_diag *diag)
{
    return alloc((guard_device *)base, true, bytes, out, diag);
}

static void guard_buf_free(whim_device *base, void *ptr, int64_t bytes)
{
    guard_device *dev = (guard_device *)base;
    pthread_mutex_lock(&dev->lock);
    guard_buf **link = &dev->bufs;
    while (*link != NULL && (*link)->data != ptr) {
        link = &(*link)->next;
    }
    guard_buf *buf = *link;
    whim_check(buf != NULL && "freed what is no buffer");
    whim_check(buf->bytes == bytes && "freed with another size");
    *link = buf->next;
    pthread_mutex_unlock(&dev->lock);
    whim_os_pages_free(buf->pages, buf->page_bytes + whim_os_page_bytes());
    whim_free(buf);
}

static int64_t guard_weight_bytes(whim_device *base, whim_dtype dtype, int64_t n, int64_t k)
{
    (void)base;
    const whim_dtype_info *info = whim_dtype_get(dtype);
    int64_t bytes;
    if (info->kind == WHIM_DTYPE_KIND_INT || n < 0 || k < 0 || k % info->block_elems != 0 ||
        __builtin_mul_overflow(n, whim_dtype_row_bytes(dtype, k), &bytes)) {
        return -1;
    }
    return bytes;
}

/* The law's layout: rows as in the file. */
static whim_err guard_pack_weight(whim_device *base, const whim_pack *pack)
{
    guard_device *dev = (guard_device *)base;
    int64_t bytes = guard_weight_bytes(base, pack->dtype, pack->n, pack->k);
    if (bytes < 0 || pack->row0 < 0 || pack->n_row < 0 || pack->row0 > pack->n ||
        pack->n_row > pack->n - pack->row0) {
        return WHIM_ERR_INVALID;
    }
    int64_t row_bytes = whim_dtype_row_bytes(pack->dtype, pack->k);
    pthread_mutex_lock(&dev->lock);
    guard_buf *buf = buf_find(dev, pack->dst, bytes, false);
    whim_check(buf != NULL && "packed into what is not device memory");
    buf_protect(buf, WHIM_OS_OPEN);
    if (pack->n_row * row_bytes > 0) {
        memcpy((char *)pack->dst + pack->row0 * row_bytes, pack->src,
               (size_t)(pack->n_row * row_bytes));
    }
    buf_protect(buf, buf->rights);
    pthread_mutex_unlock(&dev->lock);
    return WHIM_ERR_OK;
}

static void guard_close(whim_device *base)
{
    guard_device *dev = (guard_device *)base;
    whim_check(dev->bufs == NULL && "device closed before its buffers were freed");
    whim_check(dev->n_stream == 0 && "device closed before its streams");
    pthread_mutex_destroy(&dev->lock);
    whim_free(dev);
}

static bool guard_op_accepts(whim_device *base, int32_t op, const void *args)
{
    (void)args;
    return whim_ops_has(&((guard_device *)base)->ops, (whim_op)op);
}

static int64_t guard_op_workspace(whim_device *base, int32_t op, const void *args)
{
    (void)base;
    return whim_law_workspace((whim_op)op, args);
}

/* Little, so that a plan shows whose memory it asked for. */
static int64_t guard_mem_available(whim_device *base)
{
    (void)base;
    return INT64_C(1) << 30;
}

static const whim_device_vt guard_device_vt = {
    .close = guard_close,
    .buf_alloc = guard_buf_alloc,
    .buf_free = guard_buf_free,
    .host_alloc = guard_host_alloc,
    .host_free = guard_buf_free,
    .mem_available = guard_mem_available,
    .weight_bytes = guard_weight_bytes,
    .pack_weight = guard_pack_weight,
    .stream_open = whim_guard_stream_open,
    .op_accepts = guard_op_accepts,
    .op_workspace = guard_op_workspace,
};

/* Two, each with memory of its own: what is given to the wrong one is refused like the host's. */
enum { N_DEVICE = 2 };

static int32_t guard_device_count(void)
{
    return N_DEVICE;
}

/* What a backend may differ in. Only the first is what one gets unasked. */
typedef struct guard_level {
    const char *name;
    int32_t page_len;
    bool llama_only;
} guard_level;

static const guard_level *level_find(const char *name)
{
    static const guard_level levels[] = {
        {"law", 32, false}, {"llama", 32, true}, {"page64", 64, false}, {"page128", 128, false}};
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        if (name == NULL || strcmp(name, levels[i].name) == 0) {
            return &levels[i];
        }
    }
    return NULL;
}

static whim_err guard_device_open(int32_t index, const whim_device_cfg *cfg, whim_device **out,
                                  whim_diag *diag)
{
    if (index < 0 || index >= N_DEVICE) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND, "guard devices have the numbers 0 to %d; not %d",
                         N_DEVICE - 1, (int)index);
    }
    const guard_level *level = level_find(cfg->isa);
    if (level == NULL) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "the guard device has the levels law, llama, page64 and page128, not %s",
                         cfg->isa);
    }
    guard_device *dev = whim_alloc(sizeof *dev);
    WHIM_TRY(whim_got(dev != NULL, diag, "no memory for a device"));
    dev->base.vt = &guard_device_vt;
    dev->base.caps = (whim_device_caps){
        .summary = "guard: the law, run late, on memory that the host cannot touch",
        .n_thread = 1,
        .n_loader = 1,
        .page_len = level->page_len,
        .pack_row_granule = 1,
        .graph_capture = true,
    };
    pthread_mutex_init(&dev->lock, NULL);
    for (int32_t t = 0; t < WHIM_DTYPE_COUNT; t++) {
        bool in_blocks = whim_dtype_get((whim_dtype)t)->kind == WHIM_DTYPE_KIND_QUANT;
        dev->base.caps.acts[t] = in_blocks ? WHIM_ACT_Q8 : WHIM_ACT_F32;
    }
    snprintf(dev->base.caps.isa, sizeof dev->base.caps.isa, "%s", level->name);
    whim_guard_ops_init(&dev->ops, level->llama_only);
    whim_ops_fill(&dev->ops);
    *out = &dev->base;
    return WHIM_ERR_OK;
}

const whim_backend whim_backend_guard = {
    .name = "guard",
    .device_count = guard_device_count,
    .device_open = guard_device_open,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU as a device: memory, caps, opening. */
#include "backends/cpu/cpu.h"
#include "base/alloc.h"
#include "base/os/cpu.h"
#include "base/os/mem.h"
#include "base/os/topology.h"

#include <stdio.h>
#include <string.h>

static int32_t cpu_device_count(void)
{
    return 1;
}

enum { COMMIT_SLAB = 32 << 20 };

typedef struct commit {
    char *base;
    int64_t bytes;
} commit;

static whim_err commit_slab(void *ctx, int64_t item, int32_t worker)
{
    (void)worker;
    const commit *c = ctx;
    int64_t at = item * COMMIT_SLAB, left = c->bytes - at;
    whim_os_pages_commit(c->base + at, left < COMMIT_SLAB ? left : COMMIT_SLAB);
    return WHIM_ERR_OK;
}

/* On a machine with several memory nodes, spread the buffer over those of the workers: any worker
 * may read any part of it, and all nodes together are the fastest. */
static void spread(const whim_cpu_workers *w, void *ptr, int64_t bytes)
{
    const whim_os_topology *t = whim_os_topology_get();
    int32_t nodes[WHIM_OS_CPUS_MAX], n = whim_os_topology_nodes(t, w->part, w->n_part, nodes);
    if (n > 1) {
        (void)whim_os_pages_interleave(ptr, bytes, nodes, n); /* a refusal: slower, not wrong */
    }
}

static whim_err refused(int64_t bytes, whim_diag *diag)
{
    return whim_fail(diag, WHIM_ERR_NO_MEMORY, "the system refused %lld bytes of memory",
                     (long long)bytes);
}

static whim_err cpu_buf_reserve(whim_device *dev, int64_t bytes, void **out, whim_diag *diag)
{
    int64_t size = bytes > 0 ? bytes : 1;
    *out = whim_os_pages_alloc(size);
    if (*out == NULL) {
        return refused(bytes, diag);
    }
    spread(&((whim_cpu_device *)dev)->workers, *out, size);
    return WHIM_ERR_OK;
}

/* Memory is taken now, by several threads, and not page by page in later steps: what was planned is
 * held from the start, and a lack of it shows here. */
static whim_err cpu_buf_alloc(whim_device *base, int64_t bytes, void **out, whim_diag *diag)
{
    whim_cpu_device *dev = (whim_cpu_device *)base;
    void *ptr;
    WHIM_TRY(cpu_buf_reserve(base, bytes, &ptr, diag));
    commit c = {.base = ptr, .bytes = bytes > 0 ? bytes : 1};
    if (whim_parallel_for(dev->workers.count, (c.bytes + COMMIT_SLAB - 1) / COMMIT_SLAB,
                          commit_slab, &c) != WHIM_ERR_OK) {
        whim_os_pages_free(ptr, c.bytes);
        return refused(bytes, diag);
    }
    *out = ptr;
    return WHIM_ERR_OK;
}

static void cpu_buf_free(whim_device *dev, void *ptr, int64_t bytes)
{
    (void)dev;
    whim_os_pages_free(ptr, bytes > 0 ? bytes : 1);
}

static void cpu_close(whim_device *base)
{
    whim_cpu_device *dev = (whim_cpu_device *)base;
    whim_cpu_workers_deinit(&dev->workers);
    whim_free(dev);
}

static const whim_device_vt device_vt = {
    .close = cpu_close,
    .buf_alloc = cpu_buf_alloc,
    .buf_free = cpu_buf_free,
    .buf_reserve = cpu_buf_reserve,
    .weight_bytes = whim_cpu_weight_bytes,
    .pack_weight = whim_cpu_pack_weight,
    .stream_open = whim_cpu_stream_open,
    .op_accepts = whim_cpu_op_accepts,
    .op_workspace = whim_cpu_op_workspace,
};

static void levels_text(char *buf, size_t size)
{
    const char *names[8];
    int32_t n = whim_cpu_levels(names, 8);
    buf[0] = '\0';
    for (int32_t i = 0; i < n; i++) {
        size_t at = strlen(buf);
        snprintf(buf + at, size - at, "%s%s", i > 0 ? " " : "", names[i]);
    }
}

static void caps_fill(whim_cpu_device *dev, int32_t n_thread)
{
    whim_device_caps *caps = &dev->base.caps;
    char model[64];
    whim_os_cpu_model(model, sizeof model);
    caps->n_thread = n_thread;
    caps->n_loader = n_thread;
    caps->page_len = WHIM_CPU_PAGE;
    caps->pack_row_granule = WHIM_CPU_TILE;
    caps->workspace_bytes =
        whim_cpu_stream_bytes() + (int64_t)n_thread * (WHIM_CPU_SCRATCH + WHIM_CPU_OWN_BYTES);
    caps->narrows = true;
    for (int32_t t = 0; t < WHIM_DTYPE_COUNT; t++) {
        bool rounds = dev->kernels->round_act != NULL && whim_cpu_wants_bf16((whim_dtype)t);
        caps->acts[t] = whim_cpu_form_of((whim_dtype)t) != NULL ? WHIM_ACT_Q8
                        : rounds                                ? WHIM_ACT_BF16
                                                                : WHIM_ACT_F32;
    }
    caps->graph_capture = false; /* padding rows cost more than recording a pass */
    caps->peak_macs = dev->kernels->peak_macs;
    snprintf(caps->isa, sizeof caps->isa, "%s", dev->kernels->level);
    levels_text(caps->levels, sizeof caps->levels);
    const char *left_out = whim_cpu_levels_left_out();
    if (left_out[0] != '\0') {
        snprintf(
            caps->note, sizeof caps->note,
            "left out, because the compiler of this build cannot make them: %s (a newer gcc can)",
            left_out);
    }
    const char *lowest;
    bool slow = whim_cpu_levels(&lowest, 1) == 1 && strcmp(lowest, caps->isa) == 0;
    snprintf(caps->summary, sizeof caps->summary, "%s, %d thread%s, level %s%s", model, n_thread,
             n_thread == 1 ? "" : "s", caps->isa,
             slow ? " (the lowest: slow, but every CPU has it)" : "");
}

/* One worker for each core that the quota allows: the second CPU of a core brings no second
 * multiplier and no second path to memory, and makes every barrier dearer. */
static int32_t default_threads(int32_t usable, int32_t n_part)
{
    int32_t n_core = whim_os_topology_get()->n_core;
    int32_t n = (n_core > 0 && n_core < usable ? n_core : usable) / n_part;
    return n > 0 ? n : 1;
}

static whim_err cpu_device_open(int32_t index, const whim_device_cfg *cfg, whim_device **out,
                                whim_diag *diag)
{
    if (index != 0) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND, "there is one CPU device, number 0; not %d",
                         index);
    }
    const whim_cpu_kernels *kernels = whim_cpu_level_find(cfg->isa);
    if (kernels == NULL) {
        char known[64];
        levels_text(known, sizeof known);
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "instruction level '%s' is not available here; this machine has: %s",
                         cfg->isa, known);
    }
    int32_t usable = whim_os_cpu_count(), n_part = cfg->n_part > 0 ? cfg->n_part : 1;
    int32_t n_thread = cfg->n_thread > 0 ? cfg->n_thread : default_threads(usable, n_part);
    if (n_thread > usable) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%d threads were asked for, but this process may use %d CPU%s; more "
                         "would only wait for each other",
                         n_thread, usable, usable == 1 ? "" : "s");
    }
    whim_cpu_device *dev = whim_alloc(sizeof *dev);
    WHIM_TRY(whim_got(dev != NULL, diag, "no memory for the CPU device"));
    dev->base.vt = &device_vt;
    dev->kernels = kernels;
    whim_cpu_ops_init(&dev->ops);
    whim_ops_fill(&dev->ops);
    whim_err err = whim_cpu_workers_init(&dev->workers, n_thread, cfg->part, n_part, diag);
    if (err != WHIM_ERR_OK) {
        whim_free(dev);
        return err;
    }
    caps_fill(dev, n_thread);
    *out = &dev->base;
    return WHIM_ERR_OK;
}

const whim_backend whim_backend_cpu = {
    .name = "cpu",
    .device_count = cpu_device_count,
    .device_open = cpu_device_open,
};

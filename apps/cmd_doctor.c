/* SPDX-License-Identifier: Apache-2.0 */
/* whimbrel doctor: what this machine has, what of it will be used, and what is missing. Fails when
 * something is missing without which nothing runs. */
#include "base/clock.h"
#include "base/file.h"
#include "base/os/cgroup.h"
#include "base/os/cpu.h"
#include "base/os/mem.h"
#include "base/os/topology.h"
#include "cmd.h"
#include "device/device.h"
#include "engine/machine.h"
#include "local/fetch.h"
#include "ops/ops.h"
#include "server/api.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

enum { MAX_BACKENDS = 8, N_PEAK = 3 };

/* One type for each kind of unit. */
static const struct {
    whim_dtype type;
    const char *text, *key;
} peak_types[N_PEAK] = {
    {WHIM_DTYPE_F32, "F32", "peak_gflops"},
    {WHIM_DTYPE_BF16, "BF16", "peak_bf16_gflops"},
    {WHIM_DTYPE_Q8_0, "int8", "peak_int8_gflops"},
};

/* One backend and the first of its devices. */
typedef struct finding {
    const whim_backend *backend;
    int32_t n_device;
    whim_device *device; /* NULL: none could be opened, see why */
    whim_diag why;
    bool composed[WHIM_OP_COUNT]; /* ops that run as a composition of others */
} finding;

typedef struct health {
    char cpu[128];
    struct utsname system;
    int32_t n_cpu, n_mask, n_quota; /* usable; in the mask; in the quota, INT32_MAX: none */
    int64_t mem_total, mem_available, mem_limit; /* limit: what is left of it, INT64_MAX: none */
    finding backends[MAX_BACKENDS];
    int32_t n_backend;
    int32_t n_thread; /* that are measured */
    double read_one, read_all;
    double peak_one[N_PEAK],
        peak_all[N_PEAK]; /* of peak_types, at the first usable device's level */
    char model[MODEL_PATH_MAX];
    bool has_model_path, has_model;
    int64_t model_bytes;
    char warning[512], failure[512];
} health;

/* --- looking ---------------------------------------------------------------------------------- */

/* Which ops have no kernel of their own. Closes the device when it has no stream. */
static void look_at_ops(finding *f)
{
    whim_stream *stream;
    if (whim_stream_open(f->device, &stream, &f->why) != WHIM_ERR_OK) {
        whim_device_close(f->device);
        f->device = NULL;
        return;
    }
    for (int32_t op = 0; op < WHIM_OP_COUNT; op++) {
        f->composed[op] = whim_op_is_fused((whim_op)op) && !whim_ops_has(stream->ops, (whim_op)op);
    }
    whim_stream_close(stream);
}

static void look_at_backends(health *h, const whim_options *options)
{
    bool usable = false;
    whim_device_cfg cfg = {.n_thread = (int32_t)options->threads, .isa = options->isa};
    for (int32_t i = 0; i < whim_backend_count() && i < MAX_BACKENDS; i++) {
        finding *f = &h->backends[h->n_backend++];
        f->backend = whim_backend_at(i);
        f->n_device = f->backend->device_count();
        /* A backend without devices says why. */
        if (f->backend->device_open(0, &cfg, &f->device, &f->why) != WHIM_ERR_OK) {
            f->device = NULL;
        } else {
            look_at_ops(f);
        }
        usable |= f->device != NULL;
    }
    if (!usable) {
        snprintf(h->failure, sizeof h->failure, "no backend can be used: %.400s",
                 h->n_backend == 0 ? "this build has none" : h->backends[0].why.text);
    }
}

static void look_at_model(health *h, const whim_options *options)
{
    int fd = -1;
    whim_str why = {0};
    h->has_model_path = default_model_path(h->model, sizeof h->model, &why);
    if (h->has_model_path && whim_file_open(h->model, &fd, &h->model_bytes, NULL) == WHIM_ERR_OK) {
        h->has_model = true;
        whim_file_close(fd);
    }
    if (!h->has_model_path) {
        snprintf(h->warning, sizeof h->warning, "the default model has no place: %s",
                 whim_str_text(&why));
    } else if (!h->has_model) {
        snprintf(h->warning, sizeof h->warning, "the default model is missing; %s",
                 fetch_ways(options));
    }
    whim_str_deinit(&why);
}

static whim_err measure(health *h, double seconds, whim_diag *diag)
{
    const whim_device_caps *caps = NULL;
    double each = seconds / (2 + 2 * N_PEAK);
    for (int32_t i = h->n_backend - 1; i >= 0; i--) {
        caps = h->backends[i].device != NULL ? &h->backends[i].device->caps : caps;
    }
    WHIM_TRY(whim_machine_read_gbs(1, each, &h->read_one, diag));
    WHIM_TRY(whim_machine_read_gbs(h->n_thread, each, &h->read_all, diag));
    for (int i = 0; i < N_PEAK; i++) {
        WHIM_TRY(whim_machine_peak_gflops(caps, peak_types[i].type, 1, each, &h->peak_one[i]));
        WHIM_TRY(
            whim_machine_peak_gflops(caps, peak_types[i].type, h->n_thread, each, &h->peak_all[i]));
    }
    return WHIM_ERR_OK;
}

static whim_err examine(health *h, const whim_options *options, whim_diag *diag)
{
    whim_os_cpu_model(h->cpu, sizeof h->cpu);
    uname(&h->system);
    h->n_cpu = whim_os_cpu_count();
    h->n_mask = whim_os_cpu_mask_count();
    h->n_quota = whim_os_cgroup_cpus("");
    h->mem_total = whim_os_mem_total();
    h->mem_available = whim_os_mem_available();
    h->mem_limit = whim_os_cgroup_mem_left("");
    /* More threads than CPUs are refused by the backend; measuring them would only burn time. */
    h->n_thread =
        options->threads > 0 && options->threads < h->n_cpu ? (int32_t)options->threads : h->n_cpu;
    look_at_backends(h, options);
    look_at_model(h, options);
    return measure(h, options->seconds, diag);
}

/* --- text ------------------------------------------------------------------------------------- */

static void append_machine(whim_str *out, const health *h)
{
    char total[32], available[32], left[32];
    whim_str_printf(out, "version        whimbrel " WHIM_VERSION ", %s, compiled with %s %s\n",
                    h->system.machine,
#ifdef __clang__
                    "clang",
#else
                    "gcc",
#endif
                    __VERSION__);
    whim_str_printf(out, "system         %s %s\n", h->system.sysname, h->system.release);
    whim_str_printf(out, "cpu            %s\n", h->cpu);
    whim_str_printf(out, "cpus           %d usable (%d in the affinity mask, ", h->n_cpu,
                    h->n_mask);
    if (h->n_quota == INT32_MAX) {
        whim_str_append(out, "no quota)\n");
    } else {
        whim_str_printf(out, "quota of %d)\n", h->n_quota);
    }
    const whim_os_topology *t = whim_os_topology_get();
    whim_str_printf(out, "cores          %d, %s, on %d memory node%s (%s)\n", t->n_core,
                    t->n_core < t->n_cpu ? "some with several CPUs" : "each with one CPU",
                    t->n_node, t->n_node == 1 ? "" : "s",
                    strcmp(t->source, "none") == 0 ? "not told by the system: guessed" : t->source);
    whim_format_bytes(total, sizeof total, h->mem_total);
    whim_format_bytes(available, sizeof available, h->mem_available);
    whim_format_bytes(left, sizeof left, h->mem_limit);
    whim_str_printf(out, "memory         %s, %s available (%s%s)\n", total, available,
                    h->mem_limit == INT64_MAX ? "no control group limit" : left,
                    h->mem_limit == INT64_MAX ? "" : " left below the control group's limit");
    whim_str_printf(out, "read           %.1f GB/s with 1 thread, %.1f GB/s with %d\n", h->read_one,
                    h->read_all, h->n_thread);
    for (int i = 0; i < N_PEAK; i++) {
        whim_str_printf(out,
                        "multiply-add   %-4s %.1f GFLOP/s with 1 thread, %.1f GFLOP/s with %d\n",
                        peak_types[i].text, h->peak_one[i], h->peak_all[i], h->n_thread);
    }
}

/* Which CPUs the workers of a device keep to: those of one worker by commas, workers by bars. */
static void append_workers(whim_str *out, int32_t n_worker)
{
    const whim_os_topology *t = whim_os_topology_get();
    for (int32_t w = 0; w < n_worker; w++) {
        int32_t begin, end;
        whim_os_topology_slice(t, w, n_worker, &begin, &end);
        if (end - begin == t->n_cpu) {
            whim_str_append(out, "any");
            return;
        }
        for (int32_t i = begin; i < end; i++) {
            whim_str_printf(out, "%s%d", i > begin ? "," : w > 0 ? " | " : "", t->cpus[i].cpu);
        }
    }
}

/* Packed bytes of a small matrix of a type, -1 when the device has no kernel for it. */
static int64_t packed_bytes(const finding *f, whim_dtype dtype, int64_t side)
{
    return whim_device_weight_bytes(f->device, dtype, side, side);
}

enum { SIDE = 1024 }; /* a multiple of every block size */

/* What a product with weights of a type makes of its activations. */
static void append_weights(whim_str *out, const finding *f)
{
    for (int32_t t = 0; t < WHIM_DTYPE_COUNT; t++) {
        const whim_dtype_info *info = whim_dtype_get((whim_dtype)t);
        if (info->kind == WHIM_DTYPE_KIND_INT) {
            continue;
        }
        int64_t packed = packed_bytes(f, (whim_dtype)t, SIDE);
        if (packed < 0) {
            whim_str_printf(out, "    %-8s no kernel\n", info->name);
            continue;
        }
        double file_bits = 8.0 * info->block_bytes / info->block_elems;
        whim_str_printf(
            out, "    %-8s level %s, %s activations, %.2f bits a weight (%.2f in the file)\n",
            info->name, f->device->caps.isa, whim_act_name(f->device->caps.acts[t]),
            8.0 * (double)packed / ((double)SIDE * SIDE), file_bits);
    }
}

static void append_ops(whim_str *out, const finding *f)
{
    const char *before = "; as compositions of others: ";
    whim_str_printf(out, "  ops          %d", WHIM_OP_COUNT);
    for (int32_t op = 0; op < WHIM_OP_COUNT; op++) {
        if (f->composed[op]) {
            whim_str_printf(out, "%s%s", before, whim_op_name((whim_op)op));
            before = ", ";
        }
    }
    whim_str_append(out, before[0] == ';' ? ", all by kernels\n" : "\n");
}

/* What `serve` holds clients to. */
static void append_limits(whim_str *out)
{
    whim_http_limits l = {0};
    whim_http_limits_fill(&l);
    whim_str_printf(
        out,
        "\nserving limits (docs/api.md)\n"
        "  body %lld MiB, headers %lld KiB, request line %lld KiB\n"
        "  head within %lld s, body within %lld s, idle connections %lld s\n"
        "  connections %d, %d of them kept for health; prompts times n %d, stops %d, tools %d\n",
        (long long)l.max_body >> 20, (long long)l.max_headers >> 10, (long long)l.max_line >> 10,
        (long long)(l.header_ns / WHIM_NS_PER_S), (long long)(l.body_ns / WHIM_NS_PER_S),
        (long long)(l.idle_ns / WHIM_NS_PER_S), l.max_connections, l.kept_for_health,
        WHIM_MAX_CHOICES, WHIM_MAX_STOPS, WHIM_MAX_TOOLS);
}

/* What is used where nobody names a backend: a preferred one, or the first of the build. NULL: that
 * cannot be used. */
static const finding *best_of(const health *h)
{
    for (int32_t i = 0; i < h->n_backend; i++) {
        if (h->backends[i].backend->preferred && h->backends[i].device != NULL) {
            return &h->backends[i];
        }
    }
    return h->n_backend > 0 && h->backends[0].device != NULL ? &h->backends[0] : NULL;
}

static void append_text(whim_str *out, const health *h)
{
    append_machine(out, h);
    for (int32_t i = 0; i < h->n_backend; i++) {
        const finding *f = &h->backends[i];
        whim_str_printf(out, "\nbackend        %s", f->backend->name);
        if (f->device == NULL) {
            whim_str_printf(out, ": %s\n", f->why.text);
            continue;
        }
        const whim_device_caps *caps = &f->device->caps;
        whim_str_printf(out, ": %s\n  levels       %s; used: %s%s%s\n", caps->summary, caps->levels,
                        caps->isa, caps->note[0] != '\0' ? "; " : "", caps->note);
        if (f->n_device > 1) {
            whim_str_printf(out,
                            "  devices      %d, this is the first; --backend %s:1 is the next\n",
                            f->n_device, f->backend->name);
        }
        whim_str_printf(out, "  workers      %d, on CPU ", caps->n_thread);
        append_workers(out, caps->n_thread);
        whim_str_append_char(out, '\n');
        append_ops(out, f);
        whim_str_append(out, "  weights\n");
        append_weights(out, f);
    }
    const finding *best = best_of(h);
    if (best != NULL) {
        whim_str_printf(out, "\ndefault device %s: %s\n", best->backend->name,
                        best->device->caps.summary);
    }
    append_limits(out);
    if (h->has_model) {
        char size[32];
        whim_format_bytes(size, sizeof size, h->model_bytes);
        whim_str_printf(out, "\ndefault model  %s (%s)\n", h->model, size);
    } else if (h->has_model_path) {
        whim_str_printf(out, "\ndefault model  %s: not there\n", h->model);
    }
    if (h->warning[0] != '\0') {
        whim_str_printf(out, "warning: %s\n", h->warning);
    }
    if (h->failure[0] != '\0') {
        whim_str_printf(out, "failure: %s\n", h->failure);
    }
    whim_str_append(out, h->failure[0] == '\0' ? "ready\n" : "not ready\n");
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void json_key_number(whim_str *out, const char *key, double value)
{
    whim_str_printf(out, ",\"%s\":", key);
    json_number(out, value);
}

static void json_key_string(whim_str *out, const char *key, const char *value)
{
    whim_str_printf(out, ",\"%s\":", key);
    json_text(out, value);
}

static void json_levels(whim_str *out, const char *levels)
{
    whim_str_append(out, ",\"levels\":[");
    for (const char *at = levels; *at != '\0';) {
        int n = (int)strcspn(at, " ");
        whim_str_printf(out, "%s\"%.*s\"", at == levels ? "" : ",", n, at);
        at += n;
        at += strspn(at, " ");
    }
    whim_str_append_char(out, ']');
}

static void json_backend(whim_str *out, const finding *f)
{
    whim_str_append(out, "{\"name\":");
    json_text(out, f->backend->name);
    whim_str_printf(out, ",\"devices\":%d,\"usable\":%s", f->n_device,
                    f->device != NULL ? "true" : "false");
    if (f->device == NULL) {
        json_key_string(out, "why", f->why.text);
        whim_str_append_char(out, '}');
        return;
    }
    json_key_string(out, "summary", f->device->caps.summary);
    whim_str_append(out, ",\"workers\":\"");
    append_workers(out, f->device->caps.n_thread);
    whim_str_append_char(out, '"');
    json_key_string(out, "isa", f->device->caps.isa);
    json_levels(out, f->device->caps.levels);
    whim_str_printf(out, ",\"threads\":%d,\"ops\":%d,\"compositions\":[", f->device->caps.n_thread,
                    WHIM_OP_COUNT);
    bool first = true;
    for (int32_t op = 0; op < WHIM_OP_COUNT; op++) {
        if (f->composed[op]) {
            whim_str_printf(out, "%s\"%s\"", first ? "" : ",", whim_op_name((whim_op)op));
            first = false;
        }
    }
    whim_str_append(out, "],\"weights\":{");
    first = true;
    for (int32_t t = 0; t < WHIM_DTYPE_COUNT; t++) {
        int64_t packed = packed_bytes(f, (whim_dtype)t, SIDE);
        if (whim_dtype_get((whim_dtype)t)->kind != WHIM_DTYPE_KIND_INT && packed >= 0) {
            whim_str_printf(out, "%s\"%s\":%.4f", first ? "" : ",",
                            whim_dtype_get((whim_dtype)t)->name,
                            8.0 * (double)packed / ((double)SIDE * SIDE));
            first = false;
        }
    }
    whim_str_append(out, "}}");
}

static void append_json(whim_str *out, const health *h)
{
    whim_str_append(out, "{\"version\":\"" WHIM_VERSION "\"");
    json_key_string(out, "compiler", __VERSION__);
    json_key_string(out, "machine", h->system.machine);
    json_key_string(out, "cpu", h->cpu);
    whim_str_printf(out, ",\"cpus\":%d,\"cpus_mask\":%d,\"cpus_quota\":", h->n_cpu, h->n_mask);
    whim_str_printf(out, h->n_quota == INT32_MAX ? "null" : "%d", h->n_quota);
    const whim_os_topology *t = whim_os_topology_get();
    whim_str_printf(out, ",\"cores\":%d,\"nodes\":%d", t->n_core, t->n_node);
    json_key_string(out, "topology", t->source);
    whim_str_printf(out, ",\"mem_total\":%lld,\"mem_available\":%lld,\"mem_limit_left\":",
                    (long long)h->mem_total, (long long)h->mem_available);
    whim_str_printf(out, h->mem_limit == INT64_MAX ? "null" : "%lld", (long long)h->mem_limit);
    whim_str_printf(out, ",\"threads\":%d", h->n_thread);
    json_key_number(out, "read_gbs_1", h->read_one);
    json_key_number(out, "read_gbs", h->read_all);
    for (int i = 0; i < N_PEAK; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s_1", peak_types[i].key);
        json_key_number(out, key, h->peak_one[i]);
        json_key_number(out, peak_types[i].key, h->peak_all[i]);
    }
    whim_str_append(out, ",\"backends\":[");
    for (int32_t i = 0; i < h->n_backend; i++) {
        whim_str_append(out, i == 0 ? "" : ",");
        json_backend(out, &h->backends[i]);
    }
    whim_str_append_char(out, ']');
    json_key_string(out, "default_backend", best_of(h) != NULL ? best_of(h)->backend->name : "");
    json_key_string(out, "default_model", h->model);
    whim_str_printf(out, ",\"default_model_there\":%s", h->has_model ? "true" : "false");
    json_key_string(out, "warning", h->warning);
    json_key_string(out, "failure", h->failure);
    whim_str_printf(out, ",\"ready\":%s}\n", h->failure[0] == '\0' ? "true" : "false");
}

int cmd_doctor(const whim_options *options)
{
    static health h; /* holds a message for each backend: large */
    whim_diag diag = {""};
    whim_str out = {0};
    whim_err err = examine(&h, options, &diag);
    if (err != WHIM_ERR_OK) {
        snprintf(h.failure, sizeof h.failure, "%.500s",
                 diag.text[0] != '\0' ? diag.text : whim_err_text(err));
    }
    if (options->json) {
        append_json(&out, &h);
    } else {
        append_text(&out, &h);
    }
    bool ok = print_out(&out) && h.failure[0] == '\0';
    whim_str_deinit(&out);
    for (int32_t i = 0; i < h.n_backend; i++) {
        whim_device_close(h.backends[i].device);
    }
    return ok ? EXIT_OK : EXIT_FAILED;
}

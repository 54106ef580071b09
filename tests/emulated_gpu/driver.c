/* SPDX-License-Identifier: Apache-2.0 */
/* libcuda.so.1 of the emulated GPU: what driver.def lists. After a fault every call fails, and the
 * driver's words for it are the fault's. Wishes come in EMULATED_GPU, separated by commas:
 *   capability=90         (or 80)
 *   seed=N                of all that is drawn
 *   without=WORD@KERNEL   take a barrier out of a kernel
 *   log=FILE              add the names of the kernels that ran */
#include "emulated_gpu/memory.h"
#include "emulated_gpu/queue.h"

#include "backends/cuda/driver.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define WHIM_CUDA_CALL(name, args) EXPORT int name args;
#include "backends/cuda/driver.def"
#undef WHIM_CUDA_CALL

enum { INVALID = 1, NOT_FOUND = 500, MULTIPROCESSORS = 8, MOST_KERNELS = 256 };
enum { ATTR_MULTIPROCESSORS = 16, ATTR_MAJOR = 75, ATTR_MINOR = 76, FUNC_MAX_SHARED = 8 };
/* 8.0 has 163 KB for a block; it stands here for 8.6 and 8.9, too, which have the same kernels. */
enum { SHARED_BYTES = 48 << 10, SHARED_MOST_80 = 99 << 10, SHARED_MOST_90 = 227 << 10 };

/* A kernel of the module. */
typedef struct function {
    const gpu_kernel *kernel;
    int max_shared;
    bool has_run;
} function;

static struct {
    pthread_mutex_t lock;
    int capability;
    char log[256];
    function functions[MOST_KERNELS];
} the = {.lock = PTHREAD_MUTEX_INITIALIZER, .capability = 90};

/* Calls take turns: begin() is what an earlier fault makes of this one, end() is its status. */
static int begin(void)
{
    pthread_mutex_lock(&the.lock);
    return gpu_queue_status();
}

static int end(int status)
{
    pthread_mutex_unlock(&the.lock);
    return status;
}

/* --- beginning --------------------------------------------------------------------------------- */

static void fault_tell(int sig, siginfo_t *info, void *context)
{
    char text[128], all[256];
    (void)context;
    gpu_place(text, sizeof text);
    int n = snprintf(all, sizeof all, "emulated GPU: %s: no memory of the GPU at %p\n",
                     text[0] != '\0' ? text : "the host", info->si_addr);
    n = (int)write(2, all, (size_t)n);
    signal(sig, n >= 0 ? SIG_DFL : SIG_IGN);
}

static void log_write(void)
{
    FILE *f = the.log[0] != '\0' ? fopen(the.log, "a") : NULL;
    for (int i = 0; f != NULL && the.functions[i].kernel != NULL; i++) {
        if (the.functions[i].has_run) {
            fprintf(f, "%s\n", the.functions[i].kernel->name);
        }
    }
    if (f != NULL) {
        fclose(f);
    }
}

static void wishes_read(const char *text)
{
    char copy[600], *save = NULL;
    snprintf(copy, sizeof copy, "%s", text != NULL ? text : "");
    for (char *w = strtok_r(copy, ",", &save); w != NULL; w = strtok_r(NULL, ",", &save)) {
        unsigned long long number;
        if (sscanf(w, "capability=%d", &the.capability) == 1 ||
            sscanf(w, "log=%255s", the.log) == 1 ||
            sscanf(w, "without=%31[^@]@%63s", gpu_wish.without_word, gpu_wish.without_kernel) ==
                2) {
            continue;
        }
        if (sscanf(w, "seed=%llu", &number) != 1) {
            fprintf(stderr, "emulated GPU: no such wish: %s\n", w);
            abort();
        }
        gpu_wish.seed = (uint64_t)number << 32;
    }
}

static const gpu_kernels *kernels(void)
{
    return the.capability >= 90 ? &gpu_kernels_90 : &gpu_kernels_80;
}

int cuInit(unsigned flags)
{
    struct sigaction act = {.sa_sigaction = fault_tell, .sa_flags = SA_SIGINFO};
    (void)flags;
    wishes_read(getenv("EMULATED_GPU"));
    for (int i = 0; i < kernels()->n; i++) {
        the.functions[i] = (function){&kernels()->kernels[i], SHARED_BYTES, false};
    }
    atexit(log_write);
    return sigaction(SIGSEGV, &act, NULL);
}

int cuDriverGetVersion(int *version)
{
    *version = 12040;
    return 0;
}

int cuGetErrorString(int status, const char **text)
{
    *text = status == GPU_LOST                ? gpu_queue_why()
            : status == WHIM_CU_OUT_OF_MEMORY ? "out of memory"
                                              : "a wrong call";
    return 0;
}

int cuDeviceGetCount(int *count)
{
    *count = 1;
    return 0;
}

int cuDeviceGet(int *device, int index)
{
    *device = index;
    return 0;
}

int cuDeviceGetName(char *name, int size, int device)
{
    (void)device;
    snprintf(name, (size_t)size, "emulated GPU");
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == ATTR_MULTIPROCESSORS ? MULTIPROCESSORS
             : attribute == ATTR_MAJOR         ? the.capability / 10
             : attribute == ATTR_MINOR         ? the.capability % 10
                                               : -1;
    return *value < 0 ? INVALID : 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = GPU_MEMORY_BYTES;
    return 0;
}

int cuDevicePrimaryCtxRetain(whim_cu_handle *context, int device)
{
    (void)device;
    *context = &the;
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    return 0;
}

int cuCtxSetCurrent(whim_cu_handle context)
{
    (void)context;
    return gpu_queue_status();
}

int cuModuleLoadData(whim_cu_handle *module, const void *image)
{
    (void)image;
    *module = &the;
    return 0;
}

int cuModuleUnload(whim_cu_handle module)
{
    (void)module;
    return 0;
}

int cuModuleGetFunction(whim_cu_handle *found, whim_cu_handle module, const char *name)
{
    (void)module;
    for (int i = 0; i < kernels()->n; i++) {
        if (strcmp(kernels()->kernels[i].name, name) == 0) {
            *found = &the.functions[i];
            return 0;
        }
    }
    return NOT_FOUND;
}

int cuFuncSetAttribute(whim_cu_handle f, int attribute, int value)
{
    if (attribute == FUNC_MAX_SHARED) {
        if (value > (the.capability >= 90 ? SHARED_MOST_90 : SHARED_MOST_80)) {
            return INVALID;
        }
        ((function *)f)->max_shared = value;
    }
    return 0;
}

int cuOccupancyMaxActiveClusters(int *n_cluster, whim_cu_handle f, const whim_cu_launch_config *c)
{
    (void)c;
    *n_cluster = MULTIPROCESSORS / ((function *)f)->kernel->cluster;
    return 0;
}

/* --- memory ------------------------------------------------------------------------------------ */

int cuMemGetInfo_v2(size_t *left, size_t *total)
{
    int status = begin();
    *left = gpu_memory_left();
    *total = GPU_MEMORY_BYTES;
    return end(status);
}

int cuMemAlloc_v2(uint64_t *ptr, size_t bytes)
{
    int status = begin();
    *ptr = status == 0 ? gpu_memory_alloc(bytes) : 0;
    return end(status != 0 ? status : *ptr == 0 ? WHIM_CU_OUT_OF_MEMORY : 0);
}

/* It waits for all that is under way. */
int cuMemFree_v2(uint64_t ptr)
{
    int status = begin();
    status = status != 0 ? status : gpu_streams_run();
    return end(status != 0 ? status : gpu_memory_free(ptr) ? 0 : INVALID);
}

int cuMemHostAlloc(void **ptr, size_t bytes, unsigned flags)
{
    (void)flags;
    *ptr = aligned_alloc(256, (bytes + 255) / 256 * 256);
    return *ptr != NULL ? 0 : WHIM_CU_OUT_OF_MEMORY;
}

int cuMemFreeHost(void *ptr)
{
    free(ptr);
    return 0;
}

/* Now where there is no stream. Device memory is one allocation's. */
static int item_do(gpu_stream *s, gpu_item i, bool has_to, bool has_from)
{
    int status = begin();
    if ((has_to && !gpu_memory_has((uint64_t)(uintptr_t)i.to, i.bytes)) ||
        (has_from && !gpu_memory_has((uint64_t)(uintptr_t)i.from, i.bytes))) {
        return end(INVALID);
    }
    return end(status != 0 ? status : s != NULL ? gpu_stream_add(s, i) : gpu_item_now(i));
}

static char *bytes_at(uint64_t at)
{
    return (char *)(uintptr_t)at;
}

int cuMemsetD8Async(uint64_t ptr, unsigned char value, size_t n, whim_cu_handle s)
{
    gpu_item i = {.kind = GPU_ITEM_FILL, .to = bytes_at(ptr), .value = value, .bytes = n};
    return item_do(s, i, true, false);
}

int cuMemsetD8_v2(uint64_t ptr, unsigned char value, size_t n)
{
    return cuMemsetD8Async(ptr, value, n, NULL);
}

int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t n, whim_cu_handle s)
{
    gpu_item i = {.kind = GPU_ITEM_COPY, .to = bytes_at(dst), .from = src, .bytes = n};
    return item_do(s, i, true, false);
}

int cuMemcpyHtoD_v2(uint64_t dst, const void *src, size_t n)
{
    return cuMemcpyHtoDAsync_v2(dst, src, n, NULL);
}

int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t n, whim_cu_handle s)
{
    gpu_item i = {.kind = GPU_ITEM_COPY, .to = dst, .from = bytes_at(src), .bytes = n};
    return item_do(s, i, false, true);
}

int cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t n, whim_cu_handle s)
{
    gpu_item i = {.kind = GPU_ITEM_COPY, .to = bytes_at(dst), .from = bytes_at(src), .bytes = n};
    return item_do(s, i, true, true);
}

/* --- streams, events, graphs ------------------------------------------------------------------- */

int cuStreamCreate(whim_cu_handle *s, unsigned flags)
{
    int status = begin();
    (void)flags;
    *s = gpu_stream_new();
    return end(status != 0 ? status : *s == NULL ? WHIM_CU_OUT_OF_MEMORY : 0);
}

int cuStreamDestroy_v2(whim_cu_handle s)
{
    int status = begin();
    gpu_stream_free(s);
    return end(status);
}

/* Without a stream: those that this backend makes do not count. */
int cuStreamSynchronize(whim_cu_handle s)
{
    int status = begin();
    return end(status != 0 || s == NULL ? status : gpu_stream_run(s));
}

int cuEventCreate(whim_cu_handle *e, unsigned flags)
{
    (void)flags;
    *e = calloc(1, sizeof(gpu_event));
    return *e == NULL ? WHIM_CU_OUT_OF_MEMORY : 0;
}

int cuEventDestroy_v2(whim_cu_handle e)
{
    int status = begin();
    status = status != 0 ? status : gpu_streams_run();
    free(e);
    return end(status);
}

int cuEventRecord(whim_cu_handle e, whim_cu_handle s)
{
    int status = begin();
    return end(status != 0 ? status : gpu_event_record(e, s));
}

int cuEventSynchronize(whim_cu_handle e)
{
    int status = begin();
    return end(status != 0 ? status : gpu_event_await(e));
}

int cuStreamBeginCapture_v2(whim_cu_handle s, int mode)
{
    int status = begin();
    (void)mode;
    gpu_capture_begin(s);
    return end(status);
}

int cuStreamEndCapture(whim_cu_handle s, whim_cu_handle *graph)
{
    int status = begin();
    *graph = gpu_capture_end(s);
    return end(status);
}

int cuGraphInstantiateWithFlags(whim_cu_handle *exec, whim_cu_handle graph,
                                unsigned long long flags)
{
    int status = begin();
    (void)flags;
    *exec = gpu_list_copy(graph);
    return end(status);
}

int cuGraphLaunch(whim_cu_handle exec, whim_cu_handle s)
{
    int status = begin();
    return end(status != 0 ? status : gpu_list_launch(exec, s));
}

int cuGraphExecDestroy(whim_cu_handle exec)
{
    int status = begin();
    gpu_list_free(exec);
    return end(status);
}

int cuGraphDestroy(whim_cu_handle graph)
{
    return cuGraphExecDestroy(graph);
}

/* --- kernels ----------------------------------------------------------------------------------- */

static bool is_possible(const whim_cu_launch_config *c, const function *f)
{
    return (int)c->shared_bytes <= f->max_shared && c->block[0] > 0 && c->block[0] <= 1024 &&
           c->block[1] == 1 && c->block[2] == 1 && c->grid[0] > 0 && c->grid[1] > 0 &&
           c->grid[2] == 1 && c->grid[0] % (unsigned)f->kernel->cluster == 0;
}

int cuLaunchKernelEx(const whim_cu_launch_config *c, whim_cu_handle handle, void **args,
                     void **extra)
{
    function *f = handle;
    gpu_launch l = {.of = kernels(),
                    .kernel = f->kernel,
                    .grid = {c->grid[0], c->grid[1], c->grid[2]},
                    .block = {c->block[0], c->block[1], c->block[2]},
                    .shared_bytes = c->shared_bytes,
                    .args = args[0]};
    int status = begin();
    (void)extra;
    if (status != 0 || !is_possible(c, f)) {
        return end(status != 0 ? status : INVALID);
    }
    f->has_run = true;
    l.args = gpu_args_copy(&l);
    return end(gpu_stream_add(c->stream, (gpu_item){.kind = GPU_ITEM_LAUNCH, .launch = l}));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A libcuda.so.1 without a GPU: memory is the host's, and kernels do nothing. FAKE_CUDA says what is
 * wrong with it, as words NAME=NUMBER: driver (its version, 12040), count (of GPUs), major
 * and minor (of their capability, 9.0), retain and init (what these calls return), free (bytes of memory) and lost
 * (kernels until all calls fail). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *handle;

static long wish(const char *name, long fallback)
{
    const char *all = getenv("FAKE_CUDA");
    size_t n = strlen(name);
    for (const char *at = all; at != NULL && *at != '\0'; at += strcspn(at, " ")) {
        at += strspn(at, " ");
        if (strncmp(at, name, n) == 0 && at[n] == '=') {
            return strtol(at + n + 1, NULL, 0);
        }
    }
    return fallback;
}

static long n_launch;

/* What a call returns that a fault would end, too. */
static int done(void)
{
    long lost = wish("lost", -1);
    return lost >= 0 && n_launch > lost ? 719 : 0;
}

int cuInit(unsigned flags)
{
    (void)flags;
    return (int)wish("init", 0);
}

int cuDriverGetVersion(int *version)
{
    *version = (int)wish("driver", 12040);
    return 0;
}

int cuGetErrorString(int status, const char **text)
{
    *text = status == 719 ? "unspecified launch failure"
            : status == 2 ? "out of memory"
                          : "an error of the fake driver";
    return 0;
}

int cuDeviceGetCount(int *count)
{
    *count = (int)wish("count", 1);
    return 0;
}

int cuDeviceGet(int *device, int index)
{
    *device = index;
    return 0;
}

int cuDeviceGetName(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "Fake GPU %d", device);
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == 75   ? (int)wish("major", 9)
             : attribute == 76 ? (int)wish("minor", 0)
             : attribute == 16 ? 4
                               : 0;
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = (size_t)8 << 30;
    return 0;
}

/* Of the first GPU only: others are free. */
int cuDevicePrimaryCtxRetain(handle *context, int device)
{
    *context = &n_launch;
    return device == 0 ? (int)wish("retain", 0) : 0;
}

int cuMemGetInfo_v2(size_t *left, size_t *total)
{
    *left = (size_t)wish("free", 4L << 30);
    *total = (size_t)8 << 30;
    return done();
}

int cuMemAlloc_v2(uint64_t *ptr, size_t bytes)
{
    *ptr = (uint64_t)(uintptr_t)malloc(bytes);
    return *ptr != 0 ? done() : 2;
}

int cuMemFree_v2(uint64_t ptr)
{
    free((void *)(uintptr_t)ptr);
    return 0;
}

int cuMemHostAlloc(void **ptr, size_t bytes, unsigned flags)
{
    (void)flags;
    *ptr = malloc(bytes);
    return *ptr != NULL ? done() : 2;
}

int cuMemFreeHost(void *ptr)
{
    free(ptr);
    return 0;
}

int cuMemsetD8_v2(uint64_t ptr, unsigned char value, size_t n)
{
    memset((void *)(uintptr_t)ptr, value, n);
    return done();
}

int cuMemsetD8Async(uint64_t ptr, unsigned char value, size_t n, handle stream)
{
    (void)stream;
    return cuMemsetD8_v2(ptr, value, n);
}

int cuMemcpyHtoD_v2(uint64_t dst, const void *src, size_t bytes)
{
    memcpy((void *)(uintptr_t)dst, src, bytes);
    return done();
}

int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t bytes, handle stream)
{
    (void)stream;
    return cuMemcpyHtoD_v2(dst, src, bytes);
}

int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t bytes, handle stream)
{
    (void)stream;
    memcpy(dst, (const void *)(uintptr_t)src, bytes);
    return done();
}

int cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t bytes, handle stream)
{
    (void)stream;
    memmove((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes);
    return done();
}

int cuModuleGetFunction(handle *function, handle module, const char *name)
{
    (void)module;
    (void)name;
    *function = &n_launch;
    return 0;
}

int cuOccupancyMaxActiveClusters(int *n, handle function, const void *config)
{
    (void)function;
    (void)config;
    *n = 1;
    return done();
}

int cuLaunchKernelEx(const void *config, handle function, void **args, void **extra)
{
    (void)config;
    (void)function;
    (void)args;
    (void)extra;
    n_launch++;
    return done();
}

/* A graph is one kernel. */
int cuGraphLaunch(handle exec, handle stream)
{
    return cuLaunchKernelEx(exec, stream, NULL, NULL);
}

#define MAKES(name, rest)      \
    int name(handle *out rest) \
    {                          \
        *out = &n_launch;      \
        return done();         \
    }
#define COMMA ,
MAKES(cuModuleLoadData, COMMA const void *image __attribute__((unused)))
MAKES(cuStreamCreate, COMMA unsigned flags __attribute__((unused)))
MAKES(cuEventCreate, COMMA unsigned flags __attribute__((unused)))

int cuStreamEndCapture(handle stream, handle *graph)
{
    *graph = stream;
    return done();
}

int cuGraphInstantiateWithFlags(handle *exec, handle graph, unsigned long long flags)
{
    (void)flags;
    *exec = graph;
    return done();
}

/* No block may have more shared memory than GPUs of the capability give it. */
int cuFuncSetAttribute(handle function, int attribute, int value)
{
    const long major = wish("major", 9), minor = wish("minor", 0);
    const int most = major == 9 || major == 10  ? 227 << 10
                     : minor == 0 && major == 8 ? 163 << 10
                                                : 99 << 10;
    (void)function;
    return attribute == 8 && value > most ? 1 : done();
}

#define DOES(name, args) \
    int name args        \
    {                    \
        return done();   \
    }
DOES(cuDevicePrimaryCtxRelease_v2, (int device __attribute__((unused))))
DOES(cuCtxSetCurrent, (handle context __attribute__((unused))))
DOES(cuModuleUnload, (handle module __attribute__((unused))))
DOES(cuStreamDestroy_v2, (handle stream __attribute__((unused))))
DOES(cuStreamSynchronize, (handle stream __attribute__((unused))))
DOES(cuEventDestroy_v2, (handle event __attribute__((unused))))
DOES(cuEventRecord, (handle event __attribute__((unused)), handle stream __attribute__((unused))))
DOES(cuEventSynchronize, (handle event __attribute__((unused))))
DOES(cuStreamBeginCapture_v2,
     (handle stream __attribute__((unused)), int mode __attribute__((unused))))
DOES(cuGraphExecDestroy, (handle exec __attribute__((unused))))
DOES(cuGraphDestroy, (handle graph __attribute__((unused))))

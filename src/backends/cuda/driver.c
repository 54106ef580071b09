/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the driver's library. */
#include "backends/cuda/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

static const char hint[] = "install NVIDIA's driver, version 525 or newer, or use --backend cpu";

const char *whim_cu_error_text(const whim_cu_driver *cu, int status)
{
    const char *text = NULL;
    return cu->cuGetErrorString(status, &text) == 0 && text != NULL ? text : "unknown error";
}

static whim_err symbols_find(void *lib, const char *library, whim_cu_driver *out, whim_diag *diag)
{
    static const struct {
        const char *name;
        size_t at;
    } symbols[] = {
#define WHIM_CUDA_CALL(name, args) {#name, offsetof(whim_cu_driver, name)},
#include "backends/cuda/driver.def"
#undef WHIM_CUDA_CALL
    };
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *found = dlsym(lib, symbols[i].name);
        if (found == NULL) {
            return whim_fail(diag, WHIM_ERR_UNSUPPORTED, "%s has no function %s: %s", library,
                             symbols[i].name, hint);
        }
        memcpy((char *)out + symbols[i].at, &found, sizeof found);
    }
    return WHIM_ERR_OK;
}

static whim_err driver_start(const char *library, whim_cu_driver *cu, whim_diag *diag)
{
    int version = 0, count = 0, status = cu->cuInit(0);
    if (cu->cuDriverGetVersion(&version) == 0 && version < WHIM_CU_OLDEST) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "the driver here is for CUDA %d.%d, and 12.0 is the oldest that will do: "
                         "%s",
                         version / 1000, version % 1000 / 10, hint);
    }
    status = status != 0 ? status : cu->cuDeviceGetCount(&count);
    if (status == WHIM_CU_NO_DEVICE || (status == 0 && count == 0)) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "there is a driver, but it shows no GPU: in a container, hand the device "
                         "in; CUDA_VISIBLE_DEVICES may hide it");
    }
    if (status != 0) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED, "%s does not start: %s (%d)", library,
                         whim_cu_error_text(cu, status), status);
    }
    cu->version = version;
    cu->n_device = count;
    return WHIM_ERR_OK;
}

/* Nobody misses a driver that is not there, but one whose file, or what it needs, is damaged. */
static whim_err library_refused(const char *library, const char *said, whim_diag *diag)
{
    bool none = strstr(said, library) != NULL && strstr(said, strerror(ENOENT)) != NULL;
    return none ? whim_fail(diag, WHIM_ERR_NOT_FOUND, "no driver: %s; %s", said, hint)
                : whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                            "there is a driver, but its library cannot be loaded: %s; %s", said,
                            hint);
}

whim_err whim_cu_driver_load(const char *library, whim_cu_driver *out, whim_diag *diag)
{
    void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL) {
        return library_refused(library, dlerror(), diag);
    }
    whim_err err = symbols_find(lib, library, out, diag);
    err = err != WHIM_ERR_OK ? err : driver_start(library, out, diag);
    if (err != WHIM_ERR_OK) {
        dlclose(lib);
    }
    return err;
}

/* The library stays open: the driver has threads of its own. */
static struct {
    pthread_once_t once;
    whim_cu_driver driver;
    whim_diag why;
    whim_err err;
} the = {.once = PTHREAD_ONCE_INIT};

static void load_once(void)
{
    the.err = whim_cu_driver_load("libcuda.so.1", &the.driver, &the.why);
}

whim_err whim_cu_driver_get(const whim_cu_driver **out, whim_diag *diag)
{
    pthread_once(&the.once, load_once);
    *out = &the.driver;
    return the.err == WHIM_ERR_OK ? WHIM_ERR_OK : whim_fail(diag, the.err, "%s", the.why.text);
}

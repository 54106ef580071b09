/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's library, opened when the first device is asked for: no headers and no toolkit are
 * needed to build, and a machine without a driver runs everything else.
 * Threads: any. */
#ifndef WHIM_BACKENDS_CUDA_DRIVER_H
#define WHIM_BACKENDS_CUDA_DRIVER_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef void *whim_cu_handle;

/* The driver's own structs. */
enum { WHIM_CU_LAUNCH_PROGRAMMATIC = 6 };

typedef struct whim_cu_launch_attribute {
    int id, pad;
    int value[16];
} whim_cu_launch_attribute;

typedef struct whim_cu_launch_config {
    unsigned grid[3], block[3], shared_bytes;
    whim_cu_handle stream;
    whim_cu_launch_attribute *attributes;
    unsigned n_attribute;
} whim_cu_launch_config;

/* A table of the calls by their symbols' names. */
typedef struct whim_cu_driver {
#define WHIM_CUDA_CALL(name, args) int(*name) args;
#include "backends/cuda/driver.def"
#undef WHIM_CUDA_CALL
    int32_t n_device;
    int32_t version; /* as the driver tells it: 12040 for 12.4 */
} whim_cu_driver;

enum {
    WHIM_CU_OLDEST = 12000, /* driver 525 */
    WHIM_CU_NO_DEVICE = 100,
    WHIM_CU_OUT_OF_MEMORY = 2,
    WHIM_CU_UNAVAILABLE = 46,
    WHIM_CU_IN_USE = 216,
};

/* The one table, or a sentence about what is missing. */
WHIM_MUST_CHECK whim_err whim_cu_driver_get(const whim_cu_driver **out, whim_diag *diag);

/* Fill a table from a library of that name: whim_cu_driver_get without its memory. */
WHIM_MUST_CHECK whim_err whim_cu_driver_load(const char *library, whim_cu_driver *out,
                                             whim_diag *diag);

/* The driver's words for a status. */
const char *whim_cu_error_text(const whim_cu_driver *cu, int status);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the CPU backend: instruction levels, workers, the command list.
 * Threads: stated at each part. */
#ifndef WHIM_BACKENDS_CPU_CPU_H
#define WHIM_BACKENDS_CPU_CPU_H

#include "backends/cpu/kernels.h"
#include "backends/cpu/workers.h"
#include "device/device.h"
#include "ops/ops.h"

/* Names of the levels that this machine can run, lowest first; returns how many. */
int32_t whim_cpu_levels(const char **names, int32_t max);

/* The levels that the compiler of this build could not make, with blanks between them; ""
 * usually. */
const char *whim_cpu_levels_left_out(void);

/* The level named, or the best for NULL; NULL when the machine or the build lacks it. */
const whim_cpu_kernels *whim_cpu_level_find(const char *name);

typedef struct whim_cpu_device {
    whim_device base;
    const whim_cpu_kernels *kernels;
    whim_ops ops;
    whim_cpu_workers workers;
} whim_cpu_device;

/* Packed weights (packing.c): the device's slots, bytes of one tile, and one row back as F32. */
int64_t whim_cpu_weight_bytes(whim_device *dev, whim_dtype dtype, int64_t n, int64_t k);
whim_err whim_cpu_pack_weight(whim_device *dev, const whim_pack *pack);

/* The stream and the table of ops that push commands to it (stream.c, ops_cpu.c). */
whim_err whim_cpu_stream_open(whim_device *dev, whim_stream **out, whim_diag *diag);
int64_t whim_cpu_stream_bytes(void); /* memory of one stream */
void whim_cpu_ops_init(whim_ops *ops);
bool whim_cpu_op_accepts(whim_device *dev, int32_t op, const void *args);
int64_t whim_cpu_op_workspace(whim_device *dev, int32_t op, const void *args);

#endif

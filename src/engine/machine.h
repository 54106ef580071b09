/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine itself can do, measured: how fast memory is read, and how fast the multiply-adds
 * go that products with a type of weights are made of, at the instruction level in use. These are
 * the ceilings that `doctor` shows and `bench` divides by; a share above 1 means that this file
 * measures badly.
 * Threads: one caller at a time, or they disturb each other. */
#ifndef WHIM_ENGINE_MACHINE_H
#define WHIM_ENGINE_MACHINE_H

#include "base/err.h"
#include "device/device.h"

#include <stdint.h>

/* Bytes read per second, in 1e9, from a buffer that no cache holds: the best pass within about
 * `seconds`. */
WHIM_MUST_CHECK whim_err whim_machine_read_gbs(int32_t n_thread, double seconds, double *gbs,
                                               whim_diag *diag);

/* Multiply-adds per second on registers, in 1e9 operations of which each counts two (integer ones
 * too): the best round within about `seconds`. `caps` tells the units (peak_macs); where it is NULL
 * or does not tell, F32 multiply-adds in the build's baseline instructions stand for them. */
WHIM_MUST_CHECK whim_err whim_machine_peak_gflops(const whim_device_caps *caps, whim_dtype dtype,
                                                  int32_t n_thread, double seconds, double *gflops);

#endif

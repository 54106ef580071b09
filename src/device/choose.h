/* SPDX-License-Identifier: Apache-2.0 */
/* The device that people name: a backend, or with a number (NAME:1) one of its devices.
 * Threads: any. */
#ifndef WHIM_DEVICE_CHOOSE_H
#define WHIM_DEVICE_CHOOSE_H

#include "device/device.h"

/* The backend that "NAME" or "NAME:NUMBER" names, and which of its devices: the first, or that
 * number from 0 on. NULL: there is no such backend, or the text is neither. */
const whim_backend *whim_backend_choose(const char *text, int32_t *index);

/* Whether there is a device of a preferred backend. */
bool whim_backend_preferred(void);

#endif

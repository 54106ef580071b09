/* SPDX-License-Identifier: Apache-2.0 */
/* The guard device, private parts. It exists in test builds only and is made to be unforgiving.
 * Invariants:
 *  1. Its memory is closed, to every thread, unless queued work or packing runs; a touch by
 *     the host is a fault. A page that is never open follows each buffer, whose end is
 *     aligned to 64 bytes, so that running over the end is a fault as well.
 *  2. Nothing runs before somebody waits; then it runs in order, on another thread, by the law, as
 *     far as the wait asks or further, as a coin falls. Copies read the host's memory only then.
 *     From a copy on until its event is waited for, a write to its pinned memory is a fault, and so
 *     is a read where the copy writes: whoever does not wait is caught, though all may have run.
 *  3. It has no kernel for a fused op: compositions are proved on a device that runs later.
 *  4. Level "llama" has no more primitives than a Llama needs: other models are refused by the name
 *     of the first. Levels "page64" and "page128" have longer pages.
 *  5. Pointers in args and copies that are not in its memory, and buffers or streams left at close,
 *     end the process: on real hardware they are faults or leaks that come late and say nothing. */
#ifndef WHIM_BACKENDS_GUARD_GUARD_H
#define WHIM_BACKENDS_GUARD_GUARD_H

#include "ops/ops.h"

#include <pthread.h>

typedef struct guard_buf guard_buf;

typedef struct guard_device {
    whim_device base;
    whim_ops ops;
    pthread_mutex_t lock; /* for what follows, and held while memory is open */
    guard_buf *bufs;
    int32_t n_stream;
    int64_t n_opened; /* streams so far */
} guard_device;

/* Is [ptr, ptr + bytes) in one buffer? An empty range may be at a buffer's end. Takes the lock. */
bool whim_guard_owns(guard_device *dev, const void *ptr, int64_t bytes);

/* The pinned buffer that holds [ptr, ptr + bytes) belongs to a copy of stream `s` until `event`;
 * false if there is none. Takes the lock, as does release. */
bool whim_guard_hold(guard_device *dev, const whim_stream *s, const void *ptr, int64_t bytes,
                     whim_event event, bool is_written);
/* The host has waited for that event of `s`, and those before it. */
void whim_guard_release(guard_device *dev, const whim_stream *s, whim_event event);

/* Open all memory, or close it again. Lock held. */
void whim_guard_open_memory(guard_device *dev, bool open);

/* The slots of all primitives, or of those that a Llama needs: what a new backend begins with. */
void whim_guard_ops_init(whim_ops *ops, bool llama_only);

whim_err whim_guard_stream_open(whim_device *dev, whim_stream **out, whim_diag *diag);

#endif

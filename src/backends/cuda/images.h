/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels as the build compiled them, one image for each kind of GPU and one in the driver's
 * assembly for those that came later. In the program they lie one after the other, each with a head
 * of two 64-bit numbers (kind, bytes) and filled up to 16 bytes; a kind of 0 ends them. A build
 * without the compiler has the end alone.
 * Threads: stateless. */
#ifndef WHIM_BACKENDS_CUDA_IMAGES_H
#define WHIM_BACKENDS_CUDA_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

/* Of an image: 2 * capability (86 for 8.6), and 1 more for assembly. */
typedef struct whim_cu_image {
    int64_t kind, bytes;
    const void *data;
} whim_cu_image;

/* All of this build. */
const void *whim_cu_images(void);

/* The next image at `*at`, which moves on; false at the end. */
bool whim_cu_image_next(const void **at, whim_cu_image *out);

/* The best for a GPU: machine code of its own generation and at most its own capability, the newest
 * of those, or else assembly that is not newer. False: none. */
bool whim_cu_image_choose(const void *images, int32_t capability, whim_cu_image *out);

#endif

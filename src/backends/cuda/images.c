/* SPDX-License-Identifier: Apache-2.0 */
/* The images inside the program, and the choice among them. */
#include "backends/cuda/images.h"

#include "kernel_images.inc"

/* Read-only data of the program, straight from the build's file. */
__asm__(".pushsection .rodata.whim_cu_images_data,\"a\"\n"
        ".balign 64\n"
        ".hidden whim_cu_images_data\n"
        ".globl whim_cu_images_data\n"
        "whim_cu_images_data:\n"
        ".incbin \"" WHIM_KERNEL_IMAGES "\"\n"
        ".popsection\n");
extern const int64_t whim_cu_images_data[] __attribute__((visibility("hidden")));

const void *whim_cu_images(void)
{
    return whim_cu_images_data;
}

bool whim_cu_image_next(const void **at, whim_cu_image *out)
{
    const int64_t *head = *at;
    if (head[0] == 0) {
        return false;
    }
    *out = (whim_cu_image){head[0], head[1], head + 2};
    *at = (const char *)(head + 2) + (head[1] + 15) / 16 * 16;
    return true;
}

bool whim_cu_image_choose(const void *images, int32_t capability, whim_cu_image *out)
{
    whim_cu_image image;
    *out = (whim_cu_image){0};
    while (whim_cu_image_next(&images, &image)) {
        int64_t made_for = image.kind / 2;
        bool is_assembly = image.kind % 2 != 0;
        bool fits = made_for <= capability && (is_assembly || made_for / 10 == capability / 10);
        bool better = out->kind == 0 || (out->kind % 2 != 0 && !is_assembly) ||
                      (out->kind % 2 == is_assembly && image.kind > out->kind);
        if (fits && better) {
            *out = image;
        }
    }
    return out->kind != 0;
}

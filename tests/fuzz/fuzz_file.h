/* SPDX-License-Identifier: Apache-2.0 */
/* Input bytes as a file in memory, so that targets go through the same calls as users. */
#ifndef WHIM_TESTS_FUZZ_FILE_H
#define WHIM_TESTS_FUZZ_FILE_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before any include: memfd_create"
#endif

#include "weights/ckpt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FUZZ_CHECK(cond)                                               \
    do {                                                               \
        if (!(cond)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
            abort();                                                   \
        }                                                              \
    } while (0)

/* The path of a file that holds just these bytes, until the next call. */
static inline const char *fuzz_file(const uint8_t *data, size_t n)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        FUZZ_CHECK(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    FUZZ_CHECK(ftruncate(fd, 0) == 0);
    FUZZ_CHECK(pwrite(fd, data, n, 0) == (ssize_t)n);
    return path;
}

/* The invariants of an opened checkpoint, and its first and last bytes. */
static inline void fuzz_check_ckpt(const whim_ckpt *ckpt)
{
    for (int64_t i = 0; i < ckpt->n_tensor; i++) {
        const whim_ckpt_tensor *t = &ckpt->tensors[i];
        FUZZ_CHECK(t->name != NULL && t->file_name != NULL && t->file >= 0);
        FUZZ_CHECK(t->n_dim >= 1 && t->n_dim <= 4 && t->offset >= 0 && t->bytes >= 0);
        FUZZ_CHECK(t->offset + t->bytes <= ckpt->files[t->file].bytes);
        FUZZ_CHECK(whim_ckpt_find(ckpt, t->name) == t);
        int64_t n = 1;
        for (int32_t d = 0; d < t->n_dim; d++) {
            FUZZ_CHECK(t->shape[d] >= 0);
            n *= t->shape[d];
        }
        FUZZ_CHECK(t->bytes == whim_dtype_row_bytes(t->dtype, n));
        if (t->bytes > 0) {
            uint8_t byte;
            FUZZ_CHECK(whim_ckpt_read(ckpt, t, 0, 1, &byte, NULL) == WHIM_ERR_OK);
            FUZZ_CHECK(whim_ckpt_read(ckpt, t, t->bytes - 1, 1, &byte, NULL) == WHIM_ERR_OK);
        }
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Reading rope_freqs.weight. */
#include "weights/ckpt_build.h"

#include <math.h>
#include <stddef.h>

whim_err whim_rope_divisors_read(whim_ckpt *ckpt, whim_diag *diag)
{
    const whim_ckpt_tensor *tensor = whim_ckpt_find(ckpt, WHIM_ROPE_DIVISORS_NAME);
    if (tensor == NULL) {
        return WHIM_ERR_OK;
    }
    const char *path = ckpt->files[tensor->file].path;
    int64_t n = ckpt->config.rope.rotary_dim / 2;
    if (tensor->dtype != WHIM_DTYPE_F32 || tensor->n_dim != 1 || tensor->shape[0] != n) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: tensor %s must be F32 with %lld values, half the rotary dimensions",
                         path, tensor->file_name, (long long)n);
    }
    float *divisors = whim_arena_alloc_array(&ckpt->arena, n, sizeof *divisors);
    WHIM_TRY(whim_got(divisors != NULL, diag, "%s: no memory for rope divisors", path));
    WHIM_TRY(whim_ckpt_read(ckpt, tensor, 0, tensor->bytes, divisors, diag));
    for (int64_t i = 0; i < n; i++) {
        if (!(isfinite(divisors[i]) && divisors[i] > 0.0f)) {
            return whim_fail(diag, WHIM_ERR_CORRUPT,
                             "%s: tensor %s: value %lld is %g, expected a positive number", path,
                             tensor->file_name, (long long)i, (double)divisors[i]);
        }
    }
    ckpt->config.rope.divisors = divisors;
    return WHIM_ERR_OK;
}

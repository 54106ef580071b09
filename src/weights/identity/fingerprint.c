/* SPDX-License-Identifier: Apache-2.0 */
/* Naming a checkpoint by its contents. */
#include "weights/identity/fingerprint.h"

#include "base/math/rng.h"
#include "weights/quantised/recipe.h"

#include <string.h>

/* Bytes from the beginning, the middle and the end of each tensor. */
enum { SAMPLE = 256, N_SAMPLE = 3 };

static uint64_t mix_bytes(uint64_t hash, const void *bytes, int64_t n)
{
    const char *at = bytes;
    for (; n > 0; n -= 8, at += 8) {
        uint64_t word = 0;
        memcpy(&word, at, (size_t)(n < 8 ? n : 8));
        hash = whim_rng_key(hash, word);
    }
    return hash;
}

static uint64_t mix_int(uint64_t hash, int64_t value)
{
    return whim_rng_key(hash, (uint64_t)value);
}

static whim_err mix_samples(uint64_t *hash, const whim_ckpt *ckpt, const whim_ckpt_tensor *t,
                            whim_diag *diag)
{
    char sample[SAMPLE];
    t = t->recipe != NULL ? &t->recipe->codes : t;
    int64_t n = t->bytes < SAMPLE ? t->bytes : SAMPLE;
    for (int64_t i = 0; i < N_SAMPLE && t->file >= 0; i++) {
        int64_t offset = (t->bytes - n) / (N_SAMPLE - 1) * i;
        WHIM_TRY(whim_ckpt_read(ckpt, t, offset, n, sample, diag));
        *hash = mix_bytes(*hash, sample, n);
    }
    return WHIM_ERR_OK;
}

whim_err whim_ckpt_fingerprint(const whim_ckpt *ckpt, uint64_t *out, whim_diag *diag)
{
    uint64_t hash = mix_int(0, ckpt->n_tensor);
    for (int64_t i = 0; i < ckpt->n_tensor; i++) {
        const whim_ckpt_tensor *t = &ckpt->tensors[i];
        hash = mix_bytes(hash, t->name, (int64_t)strlen(t->name));
        hash = mix_int(hash, t->dtype);
        for (int32_t d = 0; d < t->n_dim; d++) {
            hash = mix_int(hash, t->shape[d]);
        }
        WHIM_TRY(mix_samples(&hash, ckpt, t, diag));
    }
    *out = hash;
    return WHIM_ERR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens that a draft may propose, where its head has fewer than the model: a tensor of its
 * file, ids in ascending order, or how far each is from its own place. */
#include "draft/draft.h"

#include <string.h>

/* 32-bit ids. */
static whim_err ids_read(const whim_ckpt *ckpt, const whim_ckpt_tensor *tensor, int64_t n,
                         int32_t *out, const char *path, whim_diag *diag)
{
    int64_t bytes = n * (int64_t)sizeof *out, n_vocab = ckpt->config.n_vocab;
    if (tensor->dtype != WHIM_DTYPE_I32 || tensor->bytes != bytes) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: \"draft_tokens\" is not a tensor of %lld 32-bit integers", path,
                         (long long)n);
    }
    WHIM_TRY(whim_ckpt_read(ckpt, tensor, 0, bytes, out, diag));
    for (int64_t i = 0; i < n; i++) {
        if (out[i] < 0 || out[i] >= n_vocab || (i > 0 && out[i] <= out[i - 1])) {
            return whim_fail(diag, WHIM_ERR_CORRUPT,
                             "%s: \"draft_tokens[%lld]\" is %d, expected ascending ids below %lld",
                             path, (long long)i, out[i], (long long)n_vocab);
        }
    }
    return WHIM_ERR_OK;
}

/* 64-bit differences, as EAGLE3 has them: id i of the draft is token i + d2t[i]. */
static whim_err differences_read(const whim_ckpt *ckpt, const whim_ckpt_tensor *tensor, int64_t n,
                                 int32_t *out, const char *path, whim_diag *diag)
{
    enum { PIECE = 512 };
    int64_t pieces[PIECE], n_vocab = ckpt->config.n_vocab;
    whim_ckpt_tensor raw = *tensor; /* a type that no weight has */
    raw.bytes = tensor->raw.bytes;
    if (strcmp(tensor->raw.type, "I64") != 0 || raw.bytes != n * (int64_t)sizeof *pieces) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: \"d2t\" is not a tensor of %lld 64-bit integers, as "
                         "\"draft_vocab_size\" says",
                         path, (long long)n);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t left = n - i < PIECE ? n - i : PIECE, size = sizeof *pieces;
        if (i % PIECE == 0) {
            WHIM_TRY(whim_ckpt_read(ckpt, &raw, i * size, left * size, pieces, diag));
        }
        int64_t by = pieces[i % PIECE];
        if (by < -i || by >= n_vocab - i) {
            return whim_fail(diag, WHIM_ERR_CORRUPT,
                             "%s: \"d2t[%lld]\" is %lld, which leads outside the vocabulary of "
                             "%lld tokens",
                             path, (long long)i, (long long)by, (long long)n_vocab);
        }
        out[i] = (int32_t)(i + by);
    }
    return WHIM_ERR_OK;
}

whim_err whim_draft_tokens_read(const whim_ckpt *ckpt, const char *path, whim_arena *arena,
                                int32_t **out, whim_diag *diag)
{
    int64_t n = ckpt->config.draft.n_token;
    const whim_ckpt_tensor *ids = whim_ckpt_find(ckpt, "draft_tokens");
    const whim_ckpt_tensor *differences = whim_ckpt_find(ckpt, "d2t");
    *out = NULL;
    if (n == 0 || (n == ckpt->config.n_vocab && ids == NULL && differences == NULL)) {
        return WHIM_ERR_OK;
    }
    if (ids == NULL && differences == NULL) {
        return whim_fail(
            diag, WHIM_ERR_CORRUPT,
            "%s: the draft proposes %lld of %d tokens, and no tensor \"%s\" says which", path,
            (long long)n, ckpt->config.n_vocab, ckpt->config.draft.serial ? "d2t" : "draft_tokens");
    }
    *out = whim_arena_alloc_array(arena, n, sizeof **out);
    WHIM_TRY(whim_got(*out != NULL, diag, "no memory for a draft's tokens"));
    return ids != NULL ? ids_read(ckpt, ids, n, *out, path, diag)
                       : differences_read(ckpt, differences, n, *out, path, diag);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a safetensors file, and its tensors as those of a quantised checkpoint of every
 * scheme. Input that begins with "{" gets the length of its header put in front, so that changing
 * the JSON does not need a change of the length at the same time. */
#include "fuzz_file.h"
#include "weights/ckpt_build.h"
#include "weights/quantised/recipe.h"
#include "weights/safetensors/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char *input_file(const uint8_t *data, size_t n)
{
    if (n == 0 || data[0] != '{') {
        return fuzz_file(data, n);
    }
    const uint8_t *end = memrchr(data, '}', n);
    uint64_t header = end == NULL ? n : (uint64_t)(end - data) + 1;
    uint8_t *whole = malloc(n + 8);
    FUZZ_CHECK(whole != NULL);
    for (int i = 0; i < 8; i++) {
        whole[i] = (uint8_t)(header >> 8 * i);
    }
    memcpy(whole + 8, data, n);
    const char *path = fuzz_file(whole, n + 8);
    free(whole);
    return path;
}

/* What was assembled has rows: the first and the last one are read. */
static void check_weights(const whim_ckpt *ckpt)
{
    static char row[1 << 16];
    for (int64_t i = 0; i < ckpt->n_tensor; i++) {
        const whim_ckpt_tensor *t = &ckpt->tensors[i];
        if (t->recipe == NULL) {
            continue;
        }
        FUZZ_CHECK(t->n_dim == 2 && t->unsupported == NULL);
        int64_t row_bytes = whim_dtype_row_bytes(t->dtype, t->shape[1]);
        FUZZ_CHECK(t->bytes == t->shape[0] * row_bytes);
        if (t->shape[0] > 0 && row_bytes <= (int64_t)sizeof row) {
            FUZZ_CHECK(whim_recipe_read(ckpt, t, 0, 1, row, NULL) == WHIM_ERR_OK);
            FUZZ_CHECK(whim_recipe_read(ckpt, t, t->shape[0] - 1, 1, row, NULL) == WHIM_ERR_OK);
        }
    }
}

static void check_scheme(const char *path, const whim_scheme *scheme)
{
    whim_ckpt ckpt = {.scheme = *scheme};
    whim_diag diag = {{0}};
    FUZZ_CHECK(whim_ckpt_add_file(&ckpt, path, &diag) == WHIM_ERR_OK);
    whim_err err = whim_safetensors_read(&ckpt, 0, &diag);
    if (err == WHIM_ERR_OK) {
        err = whim_ckpt_finish(&ckpt, &diag);
    }
    if (err == WHIM_ERR_OK) {
        fuzz_check_ckpt(&ckpt);
        err = whim_assemble(&ckpt, &diag);
        if (err == WHIM_ERR_OK) {
            check_weights(&ckpt);
        } else {
            FUZZ_CHECK(diag.text[0] != '\0');
        }
    } else {
        FUZZ_CHECK(strstr(diag.text, path) != NULL);
    }
    whim_ckpt_close(&ckpt);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const whim_scheme schemes[] = {
        {.method = WHIM_SCHEME_NONE},
        {.method = WHIM_SCHEME_FP8},
        {.method = WHIM_SCHEME_FP8, .tile = {4, 8}},
        {.method = WHIM_SCHEME_COMPRESSED},
        {.method = WHIM_SCHEME_GPTQ, .bits = 4, .zero_offset = 1},
        {.method = WHIM_SCHEME_GPTQ, .bits = 8},
        {.method = WHIM_SCHEME_AWQ, .bits = 4},
    };
    const char *path = input_file(data, n);
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        check_scheme(path, &schemes[i]);
    }
    return 0;
}

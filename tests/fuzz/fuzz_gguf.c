/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a GGUF file. */
#include "fuzz_file.h"
#include "models/model.h"
#include "weights/gguf/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Touch every value that the file holds; the sum keeps the reads. */
static uint64_t walk_keys(const whim_gguf *gguf)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < gguf->n_key; i++) {
        const whim_gguf_key *key = &gguf->keys[i];
        FUZZ_CHECK(whim_gguf_find_key(gguf, key->name) == key);
        whim_gguf_iter iter = whim_gguf_iter_begin(gguf, key);
        const char *text;
        int64_t number;
        double real;
        int64_t seen = 0;
        while (whim_gguf_next_string(&iter, &text, &number)) {
            sum += number > 0 ? (uint8_t)text[0] + (uint64_t)(uint8_t)text[number - 1] : 0;
            seen++;
        }
        while (whim_gguf_next_int(&iter, &number) || whim_gguf_next_real(&iter, &real)) {
            seen++;
        }
        FUZZ_CHECK(seen == key->count || key->type == WHIM_GGUF_ARRAY);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    whim_ckpt ckpt;
    whim_diag diag = {{0}};
    const char *path = fuzz_file(data, n);
    if (whim_ckpt_open(&ckpt, whim_model_archs(), path, &diag) != WHIM_ERR_OK) {
        FUZZ_CHECK(strstr(diag.text, path) != NULL);
        return 0;
    }
    FUZZ_CHECK(whim_config_check(&ckpt.config, path, &diag) == WHIM_ERR_OK);
    FUZZ_CHECK(walk_keys(ckpt.gguf) < UINT64_MAX);
    fuzz_check_ckpt(&ckpt);
    whim_ckpt_close(&ckpt);
    return 0;
}

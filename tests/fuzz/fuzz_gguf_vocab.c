/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a GGUF file, for its vocabulary. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "fuzz_file.h"
#include "fuzz_tokenizer.h"
#include "models/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    whim_ckpt ckpt;
    whim_diag diag = {{0}};
    const char *path = fuzz_file(data, n);
    if (whim_ckpt_open(&ckpt, whim_model_archs(), path, &diag) != WHIM_ERR_OK) {
        return 0;
    }
    whim_tokenizer *tok;
    if (whim_tokenizer_open(path, &ckpt, &tok, &diag) != WHIM_ERR_OK) {
        FUZZ_CHECK(strstr(diag.text, path) != NULL);
    } else {
        fuzz_try_out(tok);
        whim_tokenizer_close(tok);
    }
    whim_ckpt_close(&ckpt);
    return 0;
}

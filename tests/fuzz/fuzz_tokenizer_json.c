/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as tokenizer.json, then as tokenizer_config.json. */
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char path[] = "tokenizer.json";
    whim_diag diag = {{0}};
    whim_tokenizer *tok = fuzz_tokenizer((const char *)data, (int64_t)n, path, &diag);
    if (tok == NULL) {
        FUZZ_CHECK(strstr(diag.text, path) != NULL);
        return 0;
    }
    if (whim_tokenizer_config_json(tok, (const char *)data, (int64_t)n, path, &diag) !=
        WHIM_ERR_OK) {
        FUZZ_CHECK(strstr(diag.text, path) != NULL);
    }
    fuzz_try_out(tok);
    whim_tokenizer_close(tok);
    return 0;
}

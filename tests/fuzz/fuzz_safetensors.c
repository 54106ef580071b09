/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a safetensors file. Input that begins with "{" gets the length of its header put in
 * front, so that changing the JSON does not need a change of the length at the same time. */
#include "fuzz_file.h"
#include "weights/ckpt_build.h"
#include "weights/safetensors.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    whim_ckpt ckpt = {0};
    whim_diag diag = {{0}};
    const char *path = input_file(data, n);
    FUZZ_CHECK(whim_ckpt_add_file(&ckpt, path, &diag) == WHIM_ERR_OK);
    whim_err err = whim_safetensors_read(&ckpt, 0, &diag);
    if (err == WHIM_ERR_OK) {
        err = whim_ckpt_finish(&ckpt, &diag);
    }
    if (err == WHIM_ERR_OK) {
        fuzz_check_ckpt(&ckpt);
    } else {
        FUZZ_CHECK(strstr(diag.text, path) != NULL);
    }
    whim_ckpt_close(&ckpt);
    return 0;
}

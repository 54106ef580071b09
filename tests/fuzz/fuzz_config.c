/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as config.json, of a model and of a draft, then as generation_config.json; and what is
 * said of quantised weights. */
#include "draft/draft.h"
#include "models/model.h"
#include "weights/config.h"
#include "weights/quantised/scheme.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char path[] = "config.json";
    whim_config config;
    whim_generation generation;
    whim_diag diag = {{0}};
    whim_arena arena;
    whim_scheme scheme;
    whim_arena_init(&arena);
    whim_err err = whim_scheme_parse(&scheme, &arena, (const char *)data, (int64_t)n, path, &diag);
    if (err == WHIM_ERR_OK) {
        (void)whim_scheme_ignores(&scheme, "layers.0.mlp.gate_proj");
    } else if (strstr(diag.text, path) == NULL) {
        abort(); /* a refusal must name the file */
    }
    whim_arena_reset(&arena);
    err =
        whim_config_parse(&config, whim_draft_archs(), (const char *)data, (int64_t)n, path, &diag);
    if (err == WHIM_ERR_OK ? config.draft.n_feature < 1 : strstr(diag.text, path) == NULL) {
        abort(); /* a draft reads something of its model */
    }
    err =
        whim_config_parse(&config, whim_model_archs(), (const char *)data, (int64_t)n, path, &diag);
    if (err == WHIM_ERR_OK) {
        err = whim_generation_parse(&generation, &config, (const char *)data, (int64_t)n, path,
                                    &diag);
    }
    if (err == WHIM_ERR_OK) {
        err = whim_config_check(&config, path, &diag);
        if (err != WHIM_ERR_OK) {
            abort(); /* what the parser accepts must be consistent */
        }
    } else if (strstr(diag.text, path) == NULL) {
        abort(); /* a refusal must name the file */
    }
    return 0;
}

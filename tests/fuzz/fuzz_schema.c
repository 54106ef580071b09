/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON schema from one input, and answers of it. */
#include "fuzz_grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    json_t *schema = json_loadb((const char *)data, n, JSON_DECODE_ANY, NULL);
    if (schema == NULL) {
        return 0;
    }
    whim_grammar_builder *b = fuzz_builder(n);
    whim_grammar *g = fuzz_build(b, whim_grammar_schema(b, schema, "fuzz"));
    json_decref(schema); /* nothing of it may be needed any more */
    for (uint64_t i = 0; i < 3 && g != NULL; i++) {
        fuzz_walk(g, n, n * 3 + i);
    }
    whim_grammar_unref(g);
    return 0;
}

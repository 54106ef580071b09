/* SPDX-License-Identifier: Apache-2.0 */
/* A regular expression from one input, and texts of it; and the same as the pattern of a schema. */
#include "fuzz_grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *pattern = malloc(n + 1);
    FUZZ_CHECK(pattern != NULL);
    memcpy(pattern, data, n);
    pattern[n] = '\0';
    whim_grammar_builder *b = fuzz_builder(n);
    whim_grammar *g = fuzz_build(b, whim_grammar_regex(b, pattern, "fuzz"));
    json_t *schema = json_pack("{s:s,s:s}", "type", "string", "pattern", pattern);
    whim_grammar *text = NULL;
    if (schema != NULL) { /* it is UTF-8 */
        b = fuzz_builder(n);
        text = fuzz_build(b, whim_grammar_schema(b, schema, "fuzz"));
    }
    for (uint64_t i = 0; i < 3; i++) {
        if (g != NULL) {
            fuzz_walk(g, n, n * 3 + i);
        }
        if (text != NULL) {
            fuzz_walk(text, n, n * 3 + i);
        }
    }
    whim_grammar_unref(g);
    whim_grammar_unref(text);
    json_decref(schema);
    free(pattern);
    return 0;
}

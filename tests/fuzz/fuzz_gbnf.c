/* SPDX-License-Identifier: Apache-2.0 */
/* A grammar as a text from one input, and texts of it. */
#include "fuzz_grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *text = malloc(n + 1);
    FUZZ_CHECK(text != NULL);
    memcpy(text, data, n);
    text[n] = '\0';
    whim_grammar_builder *b = fuzz_builder(n);
    whim_grammar *g = fuzz_build(b, whim_grammar_gbnf(b, text, "fuzz"));
    for (uint64_t i = 0; i < 3 && g != NULL; i++) {
        fuzz_walk(g, n, n * 3 + i);
    }
    whim_grammar_unref(g);
    free(text);
    return 0;
}

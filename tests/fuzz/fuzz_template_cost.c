/* SPDX-License-Identifier: Apache-2.0 */
/* A search for work that a template does not pay for. The input is that of fuzz_template; what is
 * looked at is how many blocks of code ran for each step that was paid (tests/support/work.h). An
 * input that gets more out of a step than all before it counts as new, so the search climbs there. */
#include "jinja/template.h"
#include "support/work.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* As in tests/unit/jinja/cost_test.c, with room for what only reads the input. */
enum { BLOCKS_OF_STEP = 250, FREE_BLOCKS = 30000, BLOCKS_OF_BYTE = 1000 };

/* What the fuzzer takes for counters of its own; a place for each eighth of a power of two. */
enum { PLACES = 128 };
__attribute__((section("__libfuzzer_extra_counters"), used)) static uint8_t reached[PLACES];

static void note(int64_t blocks, int64_t steps)
{
    int place = 0;
    double ratio = (double)blocks / (double)(steps + 1);
    for (double bound = 1; bound < ratio && place < PLACES - 1; bound *= 1.09) {
        place++;
    }
    reached[place] = 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *source = (const char *)data;
    const uint8_t *nul = n == 0 ? NULL : memchr(data, 0, n);
    size_t n_source = nul == NULL ? n : (size_t)(nul - data);
    json_t *json = nul == NULL ? json_loads("{\"messages\": [{\"content\": \"hi\"}]}", 0, NULL)
                               : json_loadb((const char *)nul + 1, n - n_source - 1, 0, NULL);
    whim_template *tmpl;
    whim_diag diag = {{0}};
    whim_rendered out = {.n_span = 0};
    int64_t before = whim_work_done();
    whim_err err = whim_template_compile(source, (int64_t)n_source, "fuzz", &tmpl, &diag);
    if (err == WHIM_ERR_OK) {
        whim_template_input input = {.messages = json_object_get(json, "messages"),
                                     .kwargs = json_is_object(json) ? json : NULL,
                                     .now = 1741536307};
        err = whim_template_render(tmpl, &input, &out, &diag);
        whim_template_destroy(tmpl);
    }
    if (err == WHIM_ERR_NO_MEMORY) {
        abort();
    }
    int64_t blocks = whim_work_done() - before - FREE_BLOCKS - BLOCKS_OF_BYTE * (int64_t)n;
    note(blocks, out.steps);
    if (blocks > BLOCKS_OF_STEP * out.steps) {
        abort();
    }
    whim_rendered_deinit(&out);
    json_decref(json);
    return 0;
}

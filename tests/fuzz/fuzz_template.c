/* SPDX-License-Identifier: Apache-2.0 */
/* A template and messages from one input: the source, a NUL, then JSON ({"messages": ..., and more,
 * which become arguments}); without a NUL all of it is the source. */
#include "jinja/template.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(const whim_rendered *r)
{
    int64_t at = 0;
    for (int64_t i = 0; i < r->n_span; i++) {
        const whim_text_span *span = &r->spans[i];
        if (span->begin != at || span->end <= at ||
            (i > 0 && span->trusted == r->spans[i - 1].trusted)) {
            abort(); /* spans cover the text, and neighbours differ */
        }
        at = span->end;
    }
    if (at != r->text.len) {
        abort();
    }
    /* What only the data says is never trusted. */
    const char *secret = r->text.text == NULL ? NULL
                                              : memmem(r->text.text, (size_t)r->text.len,
                                                       "\xf0\x9f\xa6\x8a\xf0\x9f\xa6\x8a", 8);
    for (int64_t i = 0; secret != NULL && i < r->n_span; i++) {
        int64_t where = secret - r->text.text;
        if (r->spans[i].trusted && where >= r->spans[i].begin && where < r->spans[i].end) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char fallback[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"hi \\ud83e\\udd8a\\ud83e"
        "\\udd8a\"}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"a\": "
        "1.5}]}]}";
    const char *source = (const char *)data;
    const uint8_t *nul = n == 0 ? NULL : memchr(data, 0, n);
    size_t n_source = nul == NULL ? n : (size_t)(nul - data);
    const char *text = nul == NULL ? fallback : (const char *)nul + 1;
    size_t n_text = nul == NULL ? sizeof fallback - 1 : n - n_source - 1;
    whim_template *tmpl;
    whim_diag diag = {{0}};
    if (n_source > 0 && memchr(source, 0xf0, n_source) != NULL) {
        return 0; /* the source must not hold the secret itself */
    }
    if (whim_template_compile(source, (int64_t)n_source, "fuzz", &tmpl, &diag) != WHIM_ERR_OK) {
        if (strstr(diag.text, "fuzz: ") == NULL) {
            abort(); /* a refusal names the template */
        }
        return 0;
    }
    json_t *json = json_loadb(text, n_text, 0, NULL);
    json_t *messages = json_object_get(json, "messages");
    whim_template_input input = {.messages = messages,
                                 .kwargs = json_is_object(json) ? json : NULL,
                                 .add_generation_prompt = true,
                                 .bos_token = "<s>",
                                 .eos_token = "</s>",
                                 .now = 1741536307};
    whim_rendered out = {{0}};
    whim_err err = whim_template_render(tmpl, &input, &out, &diag);
    if (err == WHIM_ERR_OK) {
        check(&out);
    } else if (err != WHIM_ERR_INVALID && err != WHIM_ERR_FULL) {
        abort();
    }
    whim_rendered_deinit(&out);
    json_decref(json);
    whim_template_destroy(tmpl);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Messages for a prompt: a byte that picks the template, then JSON ({"messages", "tools",
 * "kwargs"}). Whatever they hold, the answer is a prompt or a refusal that names a field; spans
 * cover the prompt, and what only the request says is never trusted. */
#include <stdint.h>

#include "chat/prompt.h"
#include "fuzz_tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char *const sources[] = {
    /* no tools: the fallback */
    "{% for m in messages %}<s>{{ m.role + ':' + m.content }}</s>{% endfor %}{{ '<s>a' if "
    "add_generation_prompt }}",
    /* strict about turns, drops what it does not know */
    "{% for m in messages %}{% if loop.first and m.role == 'system' %}{{ m.content | trim }}{% "
    "elif m.role == 'user' and "
    "loop.previtem and loop.previtem.role == 'user' %}{{ raise_exception('twice') }}{% elif m.role "
    "in ['user', "
    "'assistant'] %}<s>{{ m.content | trim }}</s>{% endif %}{% endfor %}{{ '<think>' if "
    "add_generation_prompt }}",
    /* the form with tags, tools of its own, system turns first */
    "{{ tools | tojson }}{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ "
    "raise_exception('s') }}"
    "{% endif %}{{ m.content ~ m.reasoning_content ~ m.name }}{% for c in m.tool_calls or [] "
    "%}<tool_call><function={{ "
    "c.function.name }}>{% for k, v in c.function.arguments | items %}<parameter={{ k }}>{{ v | "
    "string }}{% endfor %}"
    "</function></tool_call>{% endfor %}{% endfor %}{{ enable_thinking }}",
};

static void check(const whim_prompt *prompt)
{
    const whim_rendered *r = &prompt->rendered;
    int64_t at = 0;
    for (int64_t i = 0; i < r->n_span; i++) {
        const whim_text_span *span = &r->spans[i];
        if (span->begin != at || span->end <= at ||
            (i > 0 && span->trusted == r->spans[i - 1].trusted) ||
            (span->trusted && memchr(r->text.text + span->begin, '\xf0',
                                     (size_t)(span->end - span->begin)) != NULL)) {
            abort(); /* no template here writes such a byte */
        }
        at = span->end;
    }
    if (at != r->text.len) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static whim_template *templates[3];
    static whim_tokenizer *tok;
    whim_diag diag = {{0}};
    if (n < 1) {
        return 0;
    }
    if (tok == NULL) {
        static const char vocab[] =
            "{\"added_tokens\": [{\"id\": 1, \"content\": \"<s>\", \"special\": true, "
            "\"normalized\": false}], \"model\": {\"unk_token\": \"u\", \"vocab\": "
            "{\"u\": 0, \"<s>\": 1}, \"merges\": []}}";
        tok = fuzz_tokenizer(vocab, sizeof vocab - 1, "vocab", &diag);
        FUZZ_CHECK(tok != NULL);
    }
    whim_template **tmpl = &templates[data[0] % 3];
    const char *source = sources[data[0] % 3];
    if (*tmpl == NULL && whim_template_compile(source, (int64_t)strlen(source), "fuzz", tmpl,
                                               &diag) != WHIM_ERR_OK) {
        abort();
    }
    json_t *json = json_loadb((const char *)data + 1, n - 1, JSON_ALLOW_NUL, NULL);
    const json_t *kwargs = json_object_get(json, "kwargs"), *tools = json_object_get(json, "tools");
    const whim_chat_model model = {
        .tok = tok, .tmpl = *tmpl, .format = whim_chat_format_detect(*tmpl, source, tok)};
    const whim_prompt_request request = {.messages = json_object_get(json, "messages"),
                                         .tools = json_is_array(tools) ? tools : NULL,
                                         .kwargs = json_is_object(kwargs) ? kwargs : NULL,
                                         .thinking = (int32_t)(data[0] / 3 % 3) - 1,
                                         .new_turn = data[0] >= 128};
    whim_prompt prompt;
    char param[128];
    whim_err err = whim_prompt_make(&model, &request, &prompt, param, &diag);
    if (err == WHIM_ERR_OK) {
        check(&prompt);
    } else if ((err != WHIM_ERR_INVALID && err != WHIM_ERR_FULL) || param[0] == '\0' ||
               diag.text[0] == '\0') {
        abort();
    }
    whim_prompt_deinit(&prompt);
    json_decref(json);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What answers are held to. */
#include "answer_form.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

enum { MAX_SCHEMA_BYTES = 1 << 20 };

bool answer_form_is_wanted(const whim_options *options)
{
    return options->json_schema != NULL || options->grammar_regex != NULL;
}

static bool schema_read(answer_form *form, const char *path)
{
    static const whim_json_limits limits = {.max_bytes = MAX_SCHEMA_BYTES,
                                            .max_depth = WHIM_JSON_DEPTH};
    whim_diag why = {""};
    char *text = NULL;
    int64_t n = 0;
    if (whim_file_read_all(path, MAX_SCHEMA_BYTES, &text, &n, &why) != WHIM_ERR_OK) {
        complain(EXIT_USAGE, "--json-schema: %s", why.text);
        return false;
    }
    whim_err err = whim_json_read(&form->schema, text, n, limits, &why);
    whim_free(text);
    if (!json_is_object(form->schema)) {
        complain(EXIT_USAGE, "--json-schema: %s: %s", path,
                 err != WHIM_ERR_OK
                     ? why.text
                     : "expected is a JSON Schema, an object such as {\"type\":\"object\"}");
        return false;
    }
    return true;
}

/* As a server does: unless the template is told not to. */
static bool may_reason(const text_model *tm, const whim_chat_format *format)
{
    const json_t *told = json_object_get(tm->kwargs, "enable_thinking");
    return format->reasons && !json_is_false(told);
}

bool answer_form_open(answer_form *form, const whim_options *options, const text_model *tm,
                      bool has_turns, bool open_think)
{
    whim_diag diag = {""};
    whim_grammar *first;
    if (!answer_form_is_wanted(options)) {
        return true;
    }
    if (options->json_schema != NULL && options->grammar_regex != NULL) {
        complain(EXIT_USAGE, "--json-schema and --grammar-regex: an answer is held to one of them");
        return false;
    }
    form->regex = options->grammar_regex;
    form->format = whim_chat_format_detect(has_turns ? tm->source : NULL);
    form->may_reason = has_turns && may_reason(tm, &form->format);
    if (form->regex != NULL && !check_utf8(form->regex, "--grammar-regex")) {
        return false;
    }
    if (form->regex == NULL && !schema_read(form, options->json_schema)) {
        return false;
    }
    if (whim_grammar_vocab_create(tm->tok, tm->stop_ids, tm->n_stop_id, &form->vocab) !=
        WHIM_ERR_OK) {
        complain(EXIT_FAILED, "out of memory");
        return false;
    }
    if (answer_form_grammar(form, open_think, &first, &diag) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
        return false;
    }
    return true;
}

void answer_form_close(answer_form *form)
{
    whim_grammar_unref(form->grammars[0]);
    whim_grammar_unref(form->grammars[1]);
    whim_grammar_vocab_destroy(form->vocab);
    json_decref(form->schema);
    *form = (answer_form){0};
}

whim_err answer_form_grammar(answer_form *form, bool open_think, whim_grammar **out,
                             whim_diag *diag)
{
    whim_grammar **own = &form->grammars[open_think];
    if (form->vocab != NULL && *own == NULL) {
        whim_answer_rule rule = {
            .format = form->format,
            .starts_inside = open_think,
            .may_reason = form->may_reason && !open_think,
            .schema = form->schema,
            .schema_at = "schema",
            .regex = form->regex,
            .bytes = whim_grammar_vocab_bytes(form->vocab),
        };
        whim_err err = whim_answer_grammar(&rule, own, diag);
        if (err != WHIM_ERR_OK) {
            whim_diag_prefix(diag,
                             "%s: ", form->regex != NULL ? "--grammar-regex" : "--json-schema");
            return err;
        }
    }
    *out = *own;
    return WHIM_ERR_OK;
}

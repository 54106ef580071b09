/* SPDX-License-Identifier: Apache-2.0 */
/* What answers are held to, and what they may call. */
#include "answer_form.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

#include <string.h>

enum { MAX_FILE_BYTES = 1 << 20 };

/* --- the options ------------------------------------------------------------------------------ */

static bool file_read(const char *option, const char *path, json_t **out)
{
    static const whim_json_limits limits = {.max_bytes = MAX_FILE_BYTES,
                                            .max_depth = WHIM_JSON_DEPTH};
    whim_diag why = {""};
    char *text = NULL;
    int64_t n = 0;
    if (path == NULL) {
        return true;
    }
    if (whim_file_read_all(path, MAX_FILE_BYTES, &text, &n, &why) != WHIM_ERR_OK) {
        complain(EXIT_USAGE, "%s: %s", option, why.text);
        return false;
    }
    whim_err err = whim_json_read(out, text, n, limits, &why);
    whim_free(text);
    if (err != WHIM_ERR_OK) {
        complain(EXIT_USAGE, "%s: %s: %s", option, path, why.text);
    }
    return err == WHIM_ERR_OK;
}

static bool check_tools(const json_t *tools, const char *path)
{
    if (json_array_size(tools) == 0) {
        complain(EXIT_USAGE, "--tools: %s: expected is a list with at least one tool", path);
        return false;
    }
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        const json_t *parameters = json_object_get(function, "parameters");
        if (name == NULL || name[0] == '\0' ||
            (parameters != NULL && !json_is_object(parameters))) {
            complain(EXIT_USAGE,
                     "--tools: %s: tool %zu is not of the form {\"type\":\"function\",\"function\":"
                     "{\"name\":\"f\",\"parameters\":{..}}}",
                     path, i + 1);
            return false;
        }
    }
    return true;
}

bool answer_form_read(answer_form *form, const whim_options *o)
{
    form->regex = o->grammar_regex;
    if (o->json_schema != NULL && o->grammar_regex != NULL) {
        complain(EXIT_USAGE, "--json-schema and --grammar-regex: an answer is held to one of them");
        return false;
    }
    if ((form->regex != NULL && !check_utf8(form->regex, "--grammar-regex")) ||
        !file_read("--json-schema", o->json_schema, &form->schema) ||
        !file_read("--tools", o->tools, &form->tools)) {
        return false;
    }
    if (form->schema != NULL && !json_is_object(form->schema)) {
        complain(EXIT_USAGE,
                 "--json-schema: %s: expected is a JSON Schema, an object such as "
                 "{\"type\":\"object\"}",
                 o->json_schema);
        return false;
    }
    form->must_call = o->tool_choice != NULL && strcmp(o->tool_choice, "required") == 0;
    if (form->must_call && form->tools == NULL) {
        complain(EXIT_USAGE, "--tool-choice required asks for a call, but there are no --tools");
        return false;
    }
    return form->tools == NULL || check_tools(form->tools, o->tools);
}

bool answer_form_is_for_program(const answer_form *form)
{
    return form->schema != NULL || form->regex != NULL || form->tools != NULL;
}

/* --- grammars --------------------------------------------------------------------------------- */

static whim_answer_rule rule_of(const answer_form *form, bool open_think)
{
    return (whim_answer_rule){
        .format = form->format,
        .starts_inside = open_think,
        .may_reason = form->may_reason && !open_think,
        .tools = form->tools,
        .choice = form->tools == NULL ? WHIM_CHOICE_NONE
                  : form->must_call   ? WHIM_CHOICE_REQUIRED
                                      : WHIM_CHOICE_AUTO,
        .tool_schema = "function.parameters",
        .schema = form->schema,
        .schema_at = "schema",
        .regex = form->regex,
        .bytes = form->vocab != NULL ? whim_grammar_vocab_bytes(form->vocab) : NULL,
    };
}

bool answer_form_open(answer_form *form, const text_model *tm, bool has_turns, bool open_think)
{
    whim_diag diag = {""};
    whim_grammar *first;
    if (form->tools != NULL && !has_turns) {
        complain(EXIT_FAILED, "--tools: a prompt without a chat template has no place for them");
        return false;
    }
    /* As a server does: a model that thinks may, unless its template is told not to. */
    const json_t *told = json_object_get(tm->kwargs, "enable_thinking");
    form->format = has_turns ? tm->format : whim_chat_format_detect(NULL);
    form->may_reason = has_turns && form->format.reasons && !json_is_false(told);
    whim_answer_rule rule = rule_of(form, open_think);
    if (!whim_answer_is_held(&rule)) {
        return true;
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
    json_decref(form->tools);
    *form = (answer_form){0};
}

whim_err answer_form_grammar(answer_form *form, bool open_think, whim_grammar **out,
                             whim_diag *diag)
{
    whim_grammar **own = &form->grammars[open_think];
    if (form->vocab != NULL && *own == NULL) {
        whim_answer_rule rule = rule_of(form, open_think);
        whim_err err = whim_answer_grammar(&rule, own, diag);
        if (err != WHIM_ERR_OK) {
            whim_diag_prefix(diag, "%s: ",
                             form->regex != NULL    ? "--grammar-regex"
                             : form->schema != NULL ? "--json-schema"
                                                    : "--tools");
            return err;
        }
    }
    *out = *own;
    return WHIM_ERR_OK;
}

/* --- calls ------------------------------------------------------------------------------------ */

typedef struct calls {
    whim_str *out;
    whim_str call; /* the one under way */
    whim_str arguments;
} calls;

static void on_call(void *ctx, const whim_chat_event *event)
{
    calls *c = ctx;
    switch (event->kind) {
    case WHIM_CHAT_CALL_BEGIN:
        whim_str_clear(&c->call);
        whim_str_clear(&c->arguments);
        json_text_n(&c->call, event->text, event->n);
        break;
    case WHIM_CHAT_CALL_ARGS:
        whim_str_append_n(&c->arguments, event->text, event->n);
        break;
    case WHIM_CHAT_CALL_END:
        whim_str_printf(c->out, "%s{\"name\":%s,\"arguments\":%s}", c->out->len > 0 ? "," : "",
                        whim_str_text(&c->call), whim_str_text(&c->arguments));
        break;
    default:
        break;
    }
}

whim_err answer_form_calls(const answer_form *form, bool open_think, const whim_str *answer,
                           whim_str *out)
{
    whim_chat_parser *parser = NULL;
    calls c = {.out = out};
    whim_chat_parser_cfg cfg = {
        .format = form->format,
        .starts_inside = open_think,
        .parse_tools = true,
        .tools = form->tools,
    };
    WHIM_TRY(whim_chat_parser_create(&cfg, &parser));
    whim_chat_parser_push(parser, whim_str_text(answer), answer->len, on_call, &c);
    whim_chat_parser_finish(parser, on_call, &c);
    whim_chat_parser_destroy(parser);
    bool failed = c.call.failed || c.arguments.failed || out->failed;
    whim_str_deinit(&c.call);
    whim_str_deinit(&c.arguments);
    return failed ? WHIM_ERR_NO_MEMORY : WHIM_ERR_OK;
}

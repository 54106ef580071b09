/* SPDX-License-Identifier: Apache-2.0 */
/* Tools, calls and results as text, for templates that cannot print them. The texts are small
 * templates themselves, so that JSON is spelled as the model's own template would, and so that what
 * is written here is trusted and what comes from the request is not. */
#include "chat/prompt_impl.h"
#include "chat/tools/parser.h"

#include <string.h>

static const char tools_source[] =
    "# Tools\n\n"
    "You can call the functions below to help with the request. Their signatures are given as "
    "JSON, one in "
    "each line, between <tools> and </tools>:\n<tools>"
    "{% for tool in tools %}{{ '\n' }}{{ tool | tojson }}{% endfor %}{{ '\n' }}</tools>\n\n"
    "To call a function, write its name and arguments as a JSON object between <tool_call> and "
    "</tool_call>:\n<tool_call>\n{\"name\": \"the function's name\", \"arguments\": {\"key\": "
    "\"value\"}}\n</tool_call>\n"
    "The result of a call is given back between <tool_response> and </tool_response>.";

/* The words of the form go before it, as strings of the template: what a template writes is
 * trusted. */
static const char calls_source[] =
    "{% macro tagged(call) %}{% if call.arguments is string %}{{ call.arguments ~ '\n' }}{% else %}"
    "{% for k, value in call.arguments.items() %}"
    "{{ key[0] ~ k ~ key[1 if value is string else 2] ~ (value if value is string else value | "
    "tojson) ~ shut }}"
    "{% endfor %}{% endif %}{% endmacro %}"
    "{% macro python(v) %}{% for k, x in v.items() %}{{ ', ' if not loop.first }}{{ k ~ '=' }}"
    "{{ x | tojson }}{% endfor %}{% endmacro %}"
    "{% macro marked(v) %}{% if v is string %}{{ quote ~ v ~ quote }}{% elif v is mapping %}{{ '{' "
    "}}"
    "{% for k, x in v.items() %}{{ ',' if not loop.first }}{{ k ~ ':' }}{{ marked(x) }}{% endfor %}"
    "{{ '}' }}{% elif v is iterable %}{{ '[' }}{% for x in v %}{{ ',' if not loop.first }}"
    "{{ marked(x) }}{% endfor %}{{ ']' }}{% else %}{{ v | tojson }}{% endif %}{% endmacro %}"
    "{{ '\n' if gap }}"
    "{% for c in calls %}{% set f = c.function %}{{ between if not loop.first }}"
    "{{ call if loop.first or not all }}"
    "{{ function[0] }}{{ f.name | tojson if form == 'object' else f.name }}{{ function[1] }}"
    "{{ tagged(f) if form == 'tagged' else f.arguments if f.arguments is string "
    "else python(f.arguments) if form == 'python' "
    "else marked(f.arguments) if quote else f.arguments | tojson }}"
    "{{ function_end }}{{ call_end if loop.last or not all }}{% endfor %}";

/* Append what a source gives. */
static whim_err add(whim_rendered *to, const whim_template *tmpl, const whim_template_input *input,
                    whim_diag *diag)
{
    whim_rendered text = {0};
    whim_err err = whim_template_render(tmpl, input, &text, diag);
    if (err == WHIM_ERR_OK) {
        err = whim_rendered_join(to, &text, diag);
    }
    whim_rendered_deinit(&text);
    return err;
}

static whim_err compile(const char *source, const char *name, whim_template **out, whim_diag *diag)
{
    return whim_template_compile(source, (int64_t)strlen(source), name, out, diag);
}

whim_err whim_prompt_turns_list_tools(whim_prompt_turns *turns, const json_t *tools,
                                      whim_diag *diag)
{
    whim_template *tmpl;
    const whim_template_input input = {.tools = tools};
    if (turns->v[0].role != WHIM_ROLE_SYSTEM) { /* there is room for one turn more */
        memmove(turns->v + 1, turns->v, (size_t)turns->n++ * sizeof *turns->v);
        turns->v[0] = (whim_turn){.role = WHIM_ROLE_SYSTEM};
    }
    whim_rendered *content = &turns->v[0].content;
    WHIM_TRY(whim_rendered_append(content, "\n\n", content->text.len > 0 ? 2 : 0, true, diag));
    WHIM_TRY(compile(tools_source, "the list of tools", &tmpl, diag));
    whim_err err = add(content, tmpl, &input, diag);
    whim_template_destroy(tmpl);
    return err;
}

static const char *or_nothing(const char *word)
{
    return word != NULL ? word : "";
}

/* The template that writes calls in a form. */
static whim_err calls_compile(const whim_tool_words *w, whim_template **out, whim_diag *diag)
{
    static const char *const forms[] = {[WHIM_TOOLS_OBJECT] = "object",
                                        [WHIM_TOOLS_NAMED] = "named",
                                        [WHIM_TOOLS_TAGGED] = "tagged",
                                        [WHIM_TOOLS_PYTHON] = "python",
                                        [WHIM_TOOLS_CHANNELS] = "channels"};
    whim_str source = {0};
    whim_str_printf(
        &source,
        "{%% set form = '%s' %%}{%% set all = %s %%}{%% set between = '%s' %%}"
        "{%% set call = '%s' %%}{%% set call_end = '%s' %%}"
        "{%% set function = ['%s', '%s'] %%}{%% set function_end = '%s' %%}"
        "{%% set key = ['%s', '%s', '%s'] %%}{%% set shut = '%s%s' %%}{%% set quote = '%s' %%}%s",
        forms[w->form], w->written.around_all ? "true" : "false", w->written.between,
        w->written.call, w->written.call_end, w->written.function, w->written.function_close,
        w->written.function_end, or_nothing(w->written.key), or_nothing(w->written.key_close),
        or_nothing(w->written.json_close != NULL ? w->written.json_close : w->written.key_close),
        or_nothing(w->written.value_end), or_nothing(w->written.after), or_nothing(w->quote),
        calls_source);
    whim_err err = source.failed
                       ? whim_prompt_no_memory(diag)
                       : compile(whim_str_text(&source), "the calls of a turn", out, diag);
    whim_str_deinit(&source);
    return err;
}

whim_err whim_prompt_turns_write_calls(whim_prompt_turns *turns, const whim_tool_words *words,
                                       bool all, whim_diag *diag)
{
    whim_template *tmpl = NULL;
    whim_err err = WHIM_ERR_OK;
    for (int64_t i = 0; i < turns->n && err == WHIM_ERR_OK; i++) {
        whim_turn *turn = &turns->v[i];
        if (turn->calls == NULL || (!all && !turn->raw_call)) {
            continue;
        }
        if (tmpl == NULL) {
            WHIM_TRY(calls_compile(words, &tmpl, diag));
        }
        json_t *kwargs =
            json_pack("{s:O, s:b}", "calls", turn->calls, "gap", turn->content.text.len > 0);
        const whim_template_input input = {.kwargs = kwargs};
        err =
            kwargs == NULL ? whim_prompt_no_memory(diag) : add(&turn->content, tmpl, &input, diag);
        json_decref(kwargs);
        json_decref(turn->calls);
        turn->calls = NULL;
    }
    whim_template_destroy(tmpl);
    return err;
}

/* Append the content of a tool turn between its tags. */
static whim_err add_result(whim_rendered *to, const whim_rendered *content, whim_diag *diag)
{
    static const char open[] = "<tool_response>\n", close[] = "\n</tool_response>";
    WHIM_TRY(whim_rendered_append(to, open, sizeof open - 1, true, diag));
    WHIM_TRY(whim_rendered_join(to, content, diag));
    return whim_rendered_append(to, close, sizeof close - 1, true, diag);
}

whim_err whim_prompt_turns_write_results(whim_prompt_turns *turns, int64_t from, int64_t to,
                                         whim_diag *diag)
{
    int64_t kept = from;
    whim_err err = WHIM_ERR_OK;
    bool joins = false; /* the turn before was a result too */
    for (int64_t i = from; i < turns->n; i++) {
        whim_turn turn = turns->v[i];
        bool result = i < to && turn.role == WHIM_ROLE_TOOL && err == WHIM_ERR_OK;
        if (!result || !joins) {
            turns->v[kept++] = turn;
        }
        if (result) {
            whim_rendered given = turn.content, *text = &turns->v[kept - 1].content;
            *text = joins ? *text : (whim_rendered){0};
            err = whim_rendered_append(text, "\n", joins, true, diag);
            err = err == WHIM_ERR_OK ? add_result(text, &given, diag) : err;
            turns->v[kept - 1].role = WHIM_ROLE_USER;
            turns->v[kept - 1].n_part = 0;
            whim_rendered_deinit(&given);
        }
        joins = result;
    }
    turns->n = kept;
    return err;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of a whole answer: reasoning that stays free, then calls, a format, or both to choose
 * from. */
#include "base/heap/budget.h"
#include "chat/answer_impl.h"
#include "chat/reasoning.h"
#include "chat/tools/parser.h"

#include <string.h>

whim_grammar_node whim_answer_text(whim_answer *a, const char *text)
{
    return whim_grammar_literal(a->b, text, (int64_t)strlen(text));
}

static bool has_format(const whim_answer_rule *rule)
{
    return rule->schema != NULL || rule->json_object || rule->regex != NULL || rule->n_word > 0 ||
           rule->grammar != NULL;
}

static bool has_tools(const whim_answer_rule *rule)
{
    return rule->choice != WHIM_CHOICE_NONE && json_array_size(rule->tools) > 0;
}

static bool has_strict(const whim_answer_rule *rule)
{
    for (size_t i = 0; i < json_array_size(rule->tools); i++) {
        const json_t *function = json_object_get(json_array_get(rule->tools, i), "function");
        if (json_is_true(json_object_get(function, "strict"))) {
            return true;
        }
    }
    return false;
}

/* What is said to the user: behind a name that means the user, where the prompt asks for one, or
 * behind the mark that a model of this kind has for it. */
static whim_grammar_node spoken(whim_answer *a, whim_grammar_node text)
{
    const whim_tool_words *words = a->rule->format.tools;
    const char *says = whim_chat_format_think(&a->rule->format)->says;
    if (a->rule->format.reasons && says != NULL) {
        text = whim_gb_seq(a->b, whim_gb_optional(a->b, whim_answer_text(a, says)), text);
    }
    return a->rule->starts_named ? whim_gb_seq(a->b, whim_answer_text(a, words->said),
                                               whim_answer_text(a, words->name_end), text)
                                 : text;
}

static whim_grammar_node format_part(whim_answer *a)
{
    const whim_answer_rule *rule = a->rule;
    if (rule->schema != NULL) {
        return whim_grammar_schema(a->b, rule->schema, rule->schema_at);
    }
    if (rule->json_object) {
        return whim_grammar_json_object(a->b);
    }
    if (rule->regex != NULL) {
        return whim_grammar_regex(a->b, rule->regex, "regex");
    }
    if (rule->grammar != NULL) {
        return whim_grammar_gbnf(a->b, rule->grammar, "grammar");
    }
    glist words = {0};
    for (int32_t i = 0; i < rule->n_word; i++) {
        whim_glist_add(a->b, &words, whim_answer_text(a, rule->words[i]));
    }
    return whim_glist_node(a->b, &words, GN_ANY_OF);
}

/* Text as the model likes, then calls if it likes. */
static whim_grammar_node free_part(whim_answer *a)
{
    const whim_tool_words *tags = a->rule->format.tools;
    const char *const both[] = {tags->open, tags->function};
    const char *const *marks = tags->open == NULL ? both + 1 : both;
    int32_t n = (tags->open != NULL) + (tags->function != NULL);
    if (n == 0) { /* the parser takes what begins as a call, or stands behind the mark, for one */
        whim_grammar_node first =
            whim_grammar_regex(a->b, tags->list ? "[^{\\[<\\s]" : "[^{<\\s]", "tools");
        const char *const dropped[] = {tags->prefix, tags->close};
        n = tags->prefix == NULL ? 0 : tags->close == NULL ? 1 : 2;
        whim_grammar_node said =
            whim_gb_seq(a->b, first, whim_grammar_text_without(a->b, dropped, n));
        return whim_gb_any_of(a->b, whim_gb_optional(a->b, said),
                              whim_answer_calls(a, true, false));
    }
    whim_grammar_node calls = whim_answer_calls(a, true, false);
    whim_grammar_node all = spoken(a, whim_gb_seq(a->b, whim_grammar_text_without(a->b, marks, n),
                                                  whim_gb_optional(a->b, calls)));
    return a->rule->starts_named ? whim_gb_any_of(a->b, all, whim_answer_calls(a, true, true))
                                 : all;
}

/* --- answers that are messages with headers --------------------------------------------------- */

static whim_grammar_node header(whim_answer *a, const char *channel)
{
    return whim_gb_seq(a->b, whim_answer_text(a, WHIM_HARMONY_CHANNEL),
                       whim_answer_text(a, channel), whim_answer_text(a, WHIM_HARMONY_MESSAGE));
}

/* Reasoning if the model likes, then one message: an answer or a call. */
static whim_grammar_node channels(whim_answer *a)
{
    static const char *const marks[] = {WHIM_HARMONY_START, WHIM_HARMONY_CHANNEL,
                                        WHIM_HARMONY_END,   WHIM_HARMONY_MESSAGE,
                                        "<|call|>",         "<|return|>"};
    enum { N_MARK = sizeof marks / sizeof marks[0] };
    const whim_answer_rule *rule = a->rule;
    const bool required = has_tools(rule) && rule->choice == WHIM_CHOICE_REQUIRED;
    whim_grammar_node last = -1;
    if (!required) {
        last = whim_gb_seq(a->b, header(a, "final"),
                           has_format(rule) ? format_part(a)
                                            : whim_grammar_text_without(a->b, marks, N_MARK));
    }
    if (has_tools(rule)) {
        whim_grammar_node call = whim_answer_calls(a, !required && !has_format(rule), false);
        last = required ? call : whim_gb_any_of(a->b, last, call);
    }
    whim_grammar_node thought =
        whim_gb_seq(a->b, header(a, "analysis"), whim_grammar_text_without(a->b, marks, N_MARK),
                    whim_answer_text(a, WHIM_HARMONY_END), whim_answer_text(a, WHIM_HARMONY_START),
                    whim_answer_text(a, "assistant"));
    return whim_gb_seq(a->b, whim_gb_optional(a->b, thought), last);
}

/* --- all others ------------------------------------------------------------------------------- */

static whim_grammar_node body(whim_answer *a)
{
    const whim_answer_rule *rule = a->rule;
    if (!has_tools(rule)) {
        return spoken(a, format_part(a));
    }
    if (rule->choice == WHIM_CHOICE_REQUIRED) {
        return whim_answer_calls(a, false, rule->starts_named);
    }
    return has_format(rule) ? whim_gb_any_of(a->b, whim_answer_calls(a, false, rule->starts_named),
                                             spoken(a, format_part(a)))
                            : free_part(a);
}

/* Anything up to the end of reasoning, but for what the parser would take as the beginning of a
 * call. */
static whim_grammar_node thought_part(whim_answer *a)
{
    const char *close = whim_chat_format_think(&a->rule->format)->close;
    if (!has_tools(a->rule) || a->rule->format.tools->thoughts_hold_tags) {
        return whim_grammar_until(a->b, close);
    }
    const char *const marks[] = {close, a->rule->format.tools->open};
    return whim_gb_seq(a->b, whim_grammar_text_without(a->b, marks, 2),
                       whim_answer_text(a, marks[0]));
}

/* Reasoning in front: until it ends anything goes, and then a line end or two. */
static whim_grammar_node whole(whim_answer *a)
{
    if (whim_chat_format_has_channels(&a->rule->format)) {
        return channels(a);
    }
    if (!a->rule->starts_inside && !a->rule->may_reason) {
        return body(a);
    }
    whim_grammar_node ends = whim_grammar_repeat(a->b, whim_answer_text(a, "\n"), 0, 2);
    whim_grammar_node thought = whim_gb_seq(a->b, thought_part(a), ends);
    if (!a->rule->starts_inside) {
        thought = whim_gb_optional(
            a->b,
            whim_gb_seq(a->b, whim_answer_text(a, whim_chat_format_think(&a->rule->format)->open),
                        thought));
    }
    return whim_gb_seq(a->b, thought, body(a));
}

static whim_err check(const whim_answer_rule *rule, whim_diag *diag)
{
    if (rule->choice != WHIM_CHOICE_REQUIRED) {
        return WHIM_ERR_OK;
    }
    if (json_array_size(rule->tools) == 0) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "tool_choice asks for a call, but there are no tools");
    }
    if (rule->tool_name == NULL || whim_tool_function(rule->tools, rule->tool_name) != NULL) {
        return WHIM_ERR_OK;
    }
    return whim_fail(diag, WHIM_ERR_INVALID,
                     "tool_choice names \"%.80s\", which is not one of the tools", rule->tool_name);
}

bool whim_answer_is_held(const whim_answer_rule *rule)
{
    return has_format(rule) || (has_tools(rule) && (rule->choice == WHIM_CHOICE_REQUIRED ||
                                                    rule->one_call || has_strict(rule)));
}

whim_err whim_answer_grammar(const whim_answer_rule *rule, whim_grammar **out, whim_diag *diag)
{
    *out = NULL;
    WHIM_TRY(check(rule, diag));
    if (!whim_answer_is_held(rule)) {
        return WHIM_ERR_OK;
    }
    const int64_t n_failed = whim_heap_failures();
    whim_answer a = {.rule = rule, .free_text = -1, .marked_rule = -1};
    if (whim_grammar_builder_create(&(whim_grammar_limits){.bytes = rule->bytes}, &a.b) !=
        WHIM_ERR_OK) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory for a grammar");
    }
    whim_err err = whim_grammar_build(a.b, whole(&a), out, diag);
    whim_grammar_builder_destroy(a.b);
    /* Copies of a schema that lack a member are whole to those who read them. */
    if (whim_heap_failures() != n_failed) {
        whim_grammar_unref(*out);
        *out = NULL;
        err = whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory for a grammar");
    }
    return err;
}

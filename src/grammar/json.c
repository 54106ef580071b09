/* SPDX-License-Identifier: Apache-2.0 */
/* JSON without a schema: the rules for values, and constants. White space: at most one space behind
 * a colon and a comma, nothing else, so that no model can print blanks to the limit. Numbers have
 * at most 15 digits before and 16 behind the point and an exponent of two digits, for the same
 * reason, and because more would not be read back. */
#include "base/json.h"
#include "grammar/impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int32_t whim_gb_comma(whim_grammar_builder *b)
{
    return whim_gb_seq(b, whim_gb_text(b, ","), whim_gb_optional(b, whim_gb_text(b, " ")));
}

int32_t whim_gb_colon(whim_grammar_builder *b)
{
    return whim_gb_seq(b, whim_gb_text(b, ":"), whim_gb_optional(b, whim_gb_text(b, " ")));
}

int32_t whim_gb_quoted(whim_grammar_builder *b, int32_t body)
{
    int32_t quote = whim_gb_text(b, "\"");
    return whim_gb_seq(b, quote, body, quote);
}

int32_t whim_gb_shared(whim_grammar_builder *b, int32_t *rule, const char *name,
                       int32_t (*make)(whim_grammar_builder *b))
{
    if (*rule < 0) {
        *rule = whim_gb_rule(b, NULL, name);
        int32_t node = *rule < 0 ? -1 : make(b);
        if (node >= 0) {
            b->rules[*rule].node = node;
        }
    }
    return whim_gb_call(b, *rule);
}

static int32_t make_string(whim_grammar_builder *b)
{
    return whim_gb_quoted(b, whim_grammar_repeat(b, whim_gb_json_any_char(b), 0, -1));
}

int32_t whim_gb_json_string(whim_grammar_builder *b)
{
    return whim_gb_shared(b, &b->string_rule, "a string", make_string);
}

static int32_t make_number(whim_grammar_builder *b)
{
    return whim_gb_regex(b, "-?(0|[1-9][0-9]{0,14})(\\.[0-9]{1,16})?([eE][+-]?[0-9]{1,2})?",
                         (gregex_mode){0}, "a number");
}

int32_t whim_gb_json_number(whim_grammar_builder *b)
{
    return whim_gb_shared(b, &b->number_rule, "a number", make_number);
}

static int32_t any_object(whim_grammar_builder *b)
{
    int32_t value = whim_gb_json_value(b);
    int32_t key = whim_gb_seq(b, whim_gb_json_string(b), whim_gb_colon(b));
    int32_t members = whim_gb_members(b, (int32_t[]){key, value, GM_REPEATED}, 1, false);
    return whim_gb_seq(b, whim_gb_text(b, "{"), members, whim_gb_text(b, "}"));
}

static int32_t make_value(whim_grammar_builder *b)
{
    int32_t item[] = {whim_gb_text(b, ""), whim_gb_json_value(b), GM_REPEATED};
    int32_t items = whim_gb_members(b, item, 1, false);
    int32_t alts[] = {
        whim_gb_json_string(b),
        whim_gb_json_number(b),
        whim_gb_text(b, "true"),
        whim_gb_text(b, "false"),
        whim_gb_text(b, "null"),
        any_object(b),
        whim_gb_seq(b, whim_gb_text(b, "["), items, whim_gb_text(b, "]")),
    };
    return whim_grammar_any_of(b, alts, sizeof alts / sizeof alts[0]);
}

int32_t whim_gb_json_value(whim_grammar_builder *b)
{
    return whim_gb_shared(b, &b->value_rule, "a value", make_value);
}

whim_grammar_node whim_grammar_json_object(whim_grammar_builder *b)
{
    int32_t rule = -1;
    return whim_gb_shared(b, &rule, "an object", any_object);
}

/* --- constants -------------------------------------------------------------------------------- */

static int32_t number_const(whim_grammar_builder *b, const json_t *value, const char *path)
{
    char buf[WHIM_REAL_ROOM];
    if (json_is_integer(value)) {
        snprintf(buf, sizeof buf, "%lld", (long long)json_integer_value(value));
        return whim_gb_text(b, buf);
    }
    double real = json_real_value(value);
    if (fabs(real) >= WHIM_JSON_BEYOND) {
        return whim_gb_fail(b, WHIM_ERR_INVALID, "%s: a constant is %s, expected a finite number",
                            path, whim_json_kind(value));
    }
    whim_format_real(buf, real);
    return whim_gb_text(b, buf);
}

static int32_t group_const(whim_grammar_builder *b, json_t *value, int32_t depth, const char *path)
{
    bool object = json_is_object(value);
    size_t n = object ? json_object_size(value) : json_array_size(value);
    int32_t comma = whim_gb_comma(b), colon = whim_gb_colon(b);
    glist list = {0};
    void *at = json_object_iter(value);
    whim_glist_add(b, &list, whim_gb_text(b, object ? "{" : "["));
    for (size_t i = 0; i < n && !whim_gb_failed(b); i++, at = json_object_iter_next(value, at)) {
        if (i > 0) {
            whim_glist_add(b, &list, comma);
        }
        if (object) {
            const char *key = json_object_iter_key(at);
            whim_glist_add(b, &list, whim_gb_json_text(b, key, (int64_t)strlen(key)));
            whim_glist_add(b, &list, colon);
        }
        const json_t *item = object ? json_object_iter_value(at) : json_array_get(value, i);
        whim_glist_add(b, &list, whim_gb_json_const(b, item, depth + 1, path));
    }
    whim_glist_add(b, &list, whim_gb_text(b, object ? "}" : "]"));
    return whim_glist_node(b, &list, GN_SEQ);
}

int32_t whim_gb_json_const(whim_grammar_builder *b, const json_t *value, int32_t depth,
                           const char *path)
{
    if (depth > b->limits.max_depth) {
        return whim_gb_fail(b, WHIM_ERR_INVALID, "%s: the value is nested more than %d deep", path,
                            b->limits.max_depth);
    }
    switch (json_typeof(value)) {
    case JSON_NULL:
        return whim_gb_text(b, "null");
    case JSON_TRUE:
        return whim_gb_text(b, "true");
    case JSON_FALSE:
        return whim_gb_text(b, "false");
    case JSON_STRING:
        return whim_gb_json_text(b, json_string_value(value), (int64_t)json_string_length(value));
    case JSON_INTEGER:
    case JSON_REAL:
        return number_const(b, value, path);
    default:
        return group_const(b, (json_t *)value, depth, path);
    }
}

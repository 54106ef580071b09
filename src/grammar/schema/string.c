/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas of strings: lengths, patterns and formats. Where a pattern or format is said, each
 * character has one spelling: itself, or the short escape where it cannot stand as it is. Or as
 * plain text, in which characters stand for themselves and '<' does not come, so that no tag can
 * end it. */
#include "grammar/schema/schema.h"

#include "base/alloc.h"

#include <string.h>

#define HOUR_MINUTE "([01][0-9]|2[0-3]):[0-5][0-9]"
#define TIME HOUR_MINUTE ":[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]" HOUR_MINUTE ")"
/* Years of four digits; days that every year has, and 29 February in the years that have it. */
#define DATE                                                                           \
    "([1-9][0-9]{3}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|" \
    "(0[13578]|1[02])-31)|([1-9][0-9](0[48]|[2468][048]|[13579][26])|"                 \
    "([2468][048]|[13579][26])00)-02-29)"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define HOST LABEL "(\\." LABEL "){0,3}"
#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 BYTE "(\\." BYTE "){3}"
#define H16 "[0-9a-fA-F]{1,4}"
#define EMAIL "[A-Za-z0-9_+-]{1,32}(\\.[A-Za-z0-9_+-]{1,16}){0,1}@(" LABEL "\\.){1,2}[A-Za-z]{2,16}"
#define AFTER_HOST                                         \
    "(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2})*)*"     \
    "(\\?([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-F]{2})*)?" \
    "(#([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-F]{2})*)?"
/* With a host, or the path of a file. */
#define URI                                                                                      \
    "([A-Za-z][A-Za-z0-9+.-]{1,15}://[A-Za-z0-9._~-]{1,253}(:[0-9]{1,4})?" AFTER_HOST "|file://" \
    "(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2})*)+|(urn|mailto|data|tel):"                    \
    "[A-Za-z0-9._~!$&'()*+,;=:@/-]+)"
/* Without a colon, which would begin a scheme or a port. */
#define RELATIVE                                                                               \
    "[A-Za-z0-9._~-]*(/[A-Za-z0-9._~!$&'()*+,;=-]*)*(\\?[A-Za-z0-9._~=&/-]*)?(#[A-Za-z0-9._~/" \
    "-]*)?"
#define POINTER "(/([^/~]|~[01])*)*"
/* Expressions that every engine reads alike: ranges and counts that rise, groups one deep. */
#define RE_CLASS "\\[\\^?(a-z|A-Z|0-9|\\\\[dws]|[A-Za-z0-9_.@ ,:;/])+\\]"
#define RE_ATOM "([^\\\\^$.|?*+()\\[\\]{}]|\\.|\\\\[dDwWsS.^$*+?()\\[\\]{}|/\\\\]|" RE_CLASS ")"
#define RE_TIMES "([*+?]\\??|\\{([0-9]{1,2}|[0-9],|[0-9],[1-9][0-9]{1,2}|[01],[1-9])\\})?"
#define RE_PIECES "(" RE_ATOM RE_TIMES ")*"
#define RE_GROUP "\\((\\?:)?" RE_PIECES "(\\|" RE_PIECES ")*\\)" RE_TIMES
#define RE_BRANCH "\\^?(" RE_ATOM RE_TIMES "|" RE_GROUP ")*\\$?"

/* Texts with a pattern or format are at most so long; and no answer has as many characters as the
 * second says, which is no bound therefore. */
enum { MAX_OF_PATTERN = 1024, NO_BOUND = 1000000000 };

static const struct {
    const char *name,
        *pattern; /* all that it takes is of the format, and most of what people write */
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration", "P(([0-9]{1,4}D|[0-9]{1,4}M([0-9]{1,4}D)?|[0-9]{1,4}Y([0-9]{1,4}M([0-9]{1,4}D)?)?)"
                 "(T([0-9]{1,4}H([0-9]{1,4}M([0-9]{1,4}S)?)?|[0-9]{1,4}M([0-9]{1,4}S)?|[0-9]{1,4}S"
                 "))?|T([0-9]{1,4}H([0-9]{1,4}M([0-9]{1,4}S)?)?|[0-9]{1,4}M([0-9]{1,4}S)?|"
                 "[0-9]{1,4}S)|[0-9]{1,4}W)"},
    {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
    {"uuid4", "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"},
    {"email", EMAIL},
    {"hostname", HOST},
    {"ipv4", IPV4},
    {"ipv6", "((" H16 ":){7}" H16 "|::(" H16 "(:" H16 "){0,5})?|" H16 "::(" H16 "(:" H16 "){0,4})?|"
             "(" H16 ":){1}" H16 "::(" H16 "(:" H16 "){0,3})?|(" H16 ":){2}" H16 "::(" H16 "(:" H16
             "){0,2})?|(" H16 ":){3}" H16 "::(" H16 "(:" H16 "){0,1})?)"},
    {"uri", URI},
    {"uri-reference", URI "|" RELATIVE},
    {"iri", URI},
    {"iri-reference", URI "|" RELATIVE},
    {"uri-template", "(" URI "|/)(\\{[A-Za-z0-9_]{1,32}\\}(/[A-Za-z0-9._~-]*)*)*"},
    {"idn-email", EMAIL},
    {"idn-hostname", HOST},
    {"regex", RE_BRANCH "(\\|" RE_BRANCH ")*"},
    {"json-pointer", POINTER},
    {"relative-json-pointer", "(0|[1-9][0-9]{0,8})(#|" POINTER ")"},
};

/* Where the name stands in the table; -1: it says nothing, as JSON Schema has it of names that are
 * not its own. */
static int32_t find_format(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(formats[i].name, name) == 0) {
            return (int32_t)i;
        }
    }
    return -1;
}

bool whim_schema_holds_text(const json_t *s)
{
    const json_t *format = json_object_get(s, "format");
    return json_object_get(s, "pattern") != NULL || json_object_get(s, "minLength") != NULL ||
           json_object_get(s, "maxLength") != NULL || json_object_get(s, GK_NOT_PATTERNS) != NULL ||
           (format != NULL &&
            (!json_is_string(format) || find_format(json_string_value(format)) >= 0));
}

/* -1 without a failure: any text. */
static int32_t format_node(whim_grammar_builder *b, const char *name, bool plain, const char *path)
{
    int32_t i = find_format(name);
    return i < 0 ? -1 : whim_gb_regex(b, formats[i].pattern, (gregex_mode){.json = !plain}, path);
}

/* Both parts, where -1 is no part. */
static int32_t both(whim_grammar_builder *b, int32_t one, int32_t two)
{
    return one < 0 ? two : two < 0 ? one : whim_gb_pair(b, GN_BOTH, one, two);
}

/* A character of a string with a pattern or format (`one_spelling`), or of any. */
static int32_t one_char(whim_grammar_builder *b, bool plain, bool one_spelling)
{
    grange all = {1, GC_MAX}, no_tag[] = {{1, '<' - 1}, {'<' + 1, GC_MAX}};
    return plain          ? whim_gb_chars(b, no_tag, 2)
           : one_spelling ? whim_gb_json_chars(b, &all, 1)
                          : whim_gb_json_any_char(b);
}

static int32_t pattern_node(whim_grammar_builder *b, const json_t *pattern, bool plain,
                            const gplace *place)
{
    gplace at = {.up = place, .key = "pattern"};
    char buf[GPLACE_ROOM];
    if (!json_is_string(pattern)) {
        return whim_gb_fail_at(b, place, "pattern", "must be a text");
    }
    return whim_gb_regex(b, json_string_value(pattern),
                         (gregex_mode){.json = !plain, .search = true}, whim_gplace_text(&at, buf));
}

/* Less the texts and patterns that it must not be. */
static int32_t but_not(whim_grammar_builder *b, const json_t *s, bool plain, int32_t body,
                       const gplace *place)
{
    const json_t *patterns = json_object_get(s, GK_NOT_PATTERNS);
    const json_t *values = json_object_get(s, GK_NOT_VALUES);
    body = body >= 0 ? body : whim_grammar_repeat(b, one_char(b, plain, true), 0, -1);
    for (size_t i = 0; i < json_array_size(patterns) && !whim_gb_failed(b); i++) {
        int32_t pattern = pattern_node(b, json_array_get(patterns, i), plain, place);
        body = whim_gb_pair(b, GN_BUT_NOT, body, pattern);
    }
    glist texts = {0};
    for (size_t i = 0; i < json_array_size(values) && !whim_gb_failed(b); i++) {
        const json_t *value = json_array_get(values, i);
        if (json_is_string(value)) {
            whim_glist_add(b, &texts,
                           plain ? whim_gb_text(b, json_string_value(value))
                                 : whim_gb_json_body(b, json_string_value(value),
                                                     (int64_t)json_string_length(value)));
        }
    }
    int32_t any = texts.n > 0 ? whim_grammar_any_of(b, texts.ids, texts.n) : -1;
    whim_free(texts.ids);
    return any >= 0 ? whim_gb_pair(b, GN_BUT_NOT, body, any) : body;
}

/* What stands between the quotes; -1 without a failure: anything, never where it is plain. */
static int32_t string_body(whim_grammar_builder *b, const json_t *s, bool plain,
                           const gplace *place)
{
    char buf[GPLACE_ROOM];
    const char *path = whim_gplace_text(place, buf);
    const json_t *pattern = json_object_get(s, "pattern"), *format = json_object_get(s, "format");
    int64_t lo = 0, hi = -1;
    int32_t body = -1;
    if (!whim_gb_schema_count(b, s, "minLength", place, &lo) ||
        !whim_gb_schema_count(b, s, "maxLength", place, &hi)) {
        return -1;
    }
    if (hi >= 0 && lo > hi) {
        return whim_gb_impossible(b, place, "minLength", "is more than maxLength");
    }
    hi = hi >= NO_BOUND ? -1 : hi;
    if ((pattern != NULL && !json_is_string(pattern)) ||
        (format != NULL && !json_is_string(format))) {
        return whim_gb_fail(b, WHIM_ERR_INVALID, "%s: pattern and format must be texts", path);
    }
    if (pattern != NULL) {
        body = pattern_node(b, pattern, plain, place);
    }
    const json_t *more = json_object_get(s, GK_PATTERNS);
    for (size_t i = 0; i < json_array_size(more) && !whim_gb_failed(b); i++) {
        body = both(b, body, pattern_node(b, json_array_get(more, i), plain, place));
    }
    if (format != NULL && !whim_gb_failed(b)) {
        body = both(b, body, format_node(b, json_string_value(format), plain, path));
    }
    if (whim_gb_failed(b)) {
        return -1;
    }
    if (json_object_get(s, GK_NOT_PATTERNS) != NULL || json_object_get(s, GK_NOT_VALUES) != NULL) {
        body = but_not(b, s, plain, body, place);
    }
    if (lo > 0 || hi >= 0 || plain) {
        hi = body >= 0 && lo <= MAX_OF_PATTERN && hi > MAX_OF_PATTERN ? MAX_OF_PATTERN : hi;
        if (body >= 0 && !plain && whim_gb_is_within(b, body, lo, hi)) {
            return body;
        }
        body = both(b, body, whim_grammar_repeat(b, one_char(b, plain, body >= 0), lo, hi));
    }
    return body;
}

/* A call of the rule for strings that are held to lengths alone, which all with the same lengths
 * share. */
static int32_t string_of_length(whim_grammar_builder *b, int64_t lo, int64_t hi)
{
    for (int64_t i = 0; i < b->n_rule; i++) {
        if (b->rules[i].counts && b->rules[i].lo == lo && b->rules[i].hi == hi) {
            return whim_gb_call(b, (int32_t)i);
        }
    }
    int32_t rule = whim_gb_rule(b, NULL, "a string");
    if (rule >= 0) {
        b->rules[rule].counts = true;
        b->rules[rule].lo = lo;
        b->rules[rule].hi = hi;
    }
    return whim_gb_call(b, rule);
}

int32_t whim_gb_schema_string(whim_grammar_builder *b, const json_t *s, const gplace *place)
{
    int32_t body = string_body(b, s, false, place);
    if (whim_gb_failed(b)) {
        return -1;
    }
    if (body < 0 && b->without_calls) {
        return whim_gb_quoted(b, whim_grammar_repeat(b, one_char(b, false, true), 0, -1));
    }
    if (body < 0) {
        return whim_gb_json_string(b);
    }
    static const char *const others[] = {"pattern", "format", GK_PATTERNS, GK_NOT_PATTERNS,
                                         GK_NOT_VALUES};
    bool length_alone = b->nodes[body].kind == GN_REPEAT && !b->without_calls;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        length_alone = length_alone && json_object_get(s, others[i]) == NULL;
    }
    return length_alone ? string_of_length(b, b->nodes[body].lo, b->nodes[body].hi)
                        : whim_gb_quoted(b, body);
}

whim_grammar_node whim_grammar_schema_text(whim_grammar_builder *b, const json_t *schema,
                                           const char *path)
{
    gplace place = {.root = path};
    return whim_gb_failed(b) ? -1 : string_body(b, schema, true, &place);
}

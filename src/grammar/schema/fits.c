/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a value that a schema names, by enum or const, fits what is said besides it. */
#include "grammar/schema/schema.h"

#include <math.h>
#include <string.h>

typedef struct fits {
    whim_grammar_builder *b;
    const gplace *place;
} fits;

static int32_t fits_schema(fits *f, const json_t *s, const json_t *value, int32_t depth);

/* Both of two answers. */
static int32_t and (int32_t one, int32_t two)
{
    return one == 0 || two == 0 ? 0 : one < 0 || two < 0 ? -1 : 1;
}

static int32_t not(int32_t one)
{
    return one < 0 ? -1 : !one;
}

bool whim_schema_same(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *value;
    if (json_is_number(a) && json_is_number(b)) {
        return json_is_integer(a) && json_is_integer(b)
                   ? json_integer_value(a) == json_integer_value(b)
                   : json_number_value(a) == json_number_value(b);
    }
    if (json_typeof(a) != json_typeof(b) || json_array_size(a) != json_array_size(b) ||
        json_object_size(a) != json_object_size(b)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(a); i++) {
        if (!whim_schema_same(json_array_get(a, i), json_array_get(b, i))) {
            return false;
        }
    }
    json_object_foreach((json_t *)a, key, value)
    {
        const json_t *other = json_object_get(b, key);
        if (other == NULL || !whim_schema_same(value, other)) {
            return false;
        }
    }
    return json_is_array(a) || json_is_object(a) || json_equal(a, b) != 0;
}

static bool is_among(const json_t *list, const json_t *value)
{
    bool found = false;
    for (size_t i = 0; i < json_array_size(list) && !found; i++) {
        found = whim_schema_same(json_array_get(list, i), value);
    }
    return found;
}

bool whim_schema_is_type(const json_t *value, const char *type)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "object",   [JSON_ARRAY] = "array", [JSON_STRING] = "string",
        [JSON_INTEGER] = "integer", [JSON_REAL] = "number", [JSON_TRUE] = "boolean",
        [JSON_FALSE] = "boolean",   [JSON_NULL] = "null",
    };
    return strcmp(type, names[json_typeof(value)]) == 0 ||
           (json_is_integer(value) && strcmp(type, "number") == 0) ||
           (json_is_real(value) && strcmp(type, "integer") == 0 &&
            json_real_value(value) == floor(json_real_value(value)));
}

static bool fits_type(const json_t *type, const json_t *value)
{
    bool is = json_is_string(type) && whim_schema_is_type(value, json_string_value(type));
    for (size_t i = 0; i < json_array_size(type) && !is; i++) {
        is = fits_type(json_array_get(type, i), value);
    }
    return is;
}

/* How many of the schemas of a list fit: at least *least, at most *most. */
static void count_fitting(fits *f, const json_t *list, const json_t *value, int32_t depth,
                          size_t *least, size_t *most)
{
    *least = *most = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        int32_t one = fits_schema(f, json_array_get(list, i), value, depth + 1);
        *least += one == 1;
        *most += one != 0;
    }
}

static int32_t fits_list(fits *f, const char *key, const json_t *list, const json_t *value,
                         int32_t depth)
{
    size_t least, most, n = json_array_size(list);
    count_fitting(f, list, value, depth, &least, &most);
    if (strcmp(key, "allOf") == 0) {
        return least == n ? 1 : most < n ? 0 : -1;
    }
    if (strcmp(key, "anyOf") == 0) {
        return least > 0 ? 1 : most == 0 ? 0 : -1;
    }
    return least == 1 && most == 1 ? 1 : most == 0 || least > 1 ? 0 : -1;
}

/* What a count or a number is held to; 1 where the key is no such bound. */
static int32_t fits_bound(const json_t *s, const char *key, const json_t *bound, double number)
{
    double limit = json_number_value(bound);
    bool low = strstr(key, "in") == key + 1 || strcmp(key, "exclusiveMinimum") == 0;
    bool open = strncmp(key, "exclusive", 9) == 0;
    if (json_is_boolean(bound)) {
        return 1;
    }
    open = open ||
           (strcmp(key, "minimum") == 0 && json_is_true(json_object_get(s, "exclusiveMinimum"))) ||
           (strcmp(key, "maximum") == 0 && json_is_true(json_object_get(s, "exclusiveMaximum")));
    return !json_is_number(bound) ? -1
           : low                  ? (open ? number > limit : number >= limit)
                                  : (open ? number < limit : number <= limit);
}

/* What we write for a format is of it; what we do not write may be, too. */
static int32_t fits_format(fits *f, const json_t *format, const char *text)
{
    json_t *s = json_pack("{s:O}", "format", (json_t *)format);
    int32_t fit = 1;
    if (s == NULL || whim_schema_holds_text(s)) {
        int32_t node = s == NULL ? -1 : whim_grammar_schema_text(f->b, s, "format");
        fit = whim_gb_takes(f->b, node, text, (int64_t)strlen(text)) ? 1 : -1;
    }
    json_decref(s);
    return fit;
}

static int32_t fits_text(fits *f, const json_t *s, const char *key, const json_t *said,
                         const char *text)
{
    if (strcmp(key, "pattern") == 0 && json_is_string(said)) {
        return whim_gb_pattern_finds(f->b, json_string_value(said), text, f->place);
    }
    if (strcmp(key, GK_PATTERNS) == 0 || strcmp(key, GK_NOT_PATTERNS) == 0) {
        bool wanted = strcmp(key, GK_PATTERNS) == 0, ok = true;
        for (size_t i = 0; i < json_array_size(said); i++) {
            const char *pattern = json_string_value(json_array_get(said, i));
            ok = ok && pattern != NULL &&
                 whim_gb_pattern_finds(f->b, pattern, text, f->place) == wanted;
        }
        return ok;
    }
    if (strcmp(key, "minLength") == 0 || strcmp(key, "maxLength") == 0) {
        double n = 0;
        for (const char *c = text; *c != '\0'; c++) {
            n += (*c & 0xC0) != 0x80;
        }
        return fits_bound(s, key, said, n);
    }
    return strcmp(key, "format") == 0 ? fits_format(f, said, text) : 1;
}

static int32_t fits_number(const json_t *s, const char *key, const json_t *said, double number)
{
    static const char bounds[] = "minimum maximum exclusiveMinimum exclusiveMaximum";
    if (whim_schema_has_word(bounds, key)) {
        return fits_bound(s, key, said, number);
    }
    if (strcmp(key, GK_NOT_MULTIPLE) == 0) {
        return -1;
    }
    if (strcmp(key, "multipleOf") == 0) {
        double by = json_number_value(said);
        bool whole = by > 0 && by == floor(by);
        return !whole ? (number == 0 ? 1 : -1) : fmod(number, by) == 0;
    }
    return 1;
}

static int32_t fits_contains(fits *f, const json_t *s, const json_t *said, const json_t *value,
                             int32_t depth)
{
    const json_t *lo = json_object_get(s, "minContains"), *hi = json_object_get(s, "maxContains");
    size_t least = 0, most = 0;
    for (size_t i = 0; i < json_array_size(value); i++) {
        int32_t one = fits_schema(f, said, json_array_get(value, i), depth + 1);
        least += one == 1;
        most += one != 0;
    }
    double from = lo != NULL ? json_number_value(lo) : 1;
    double to = hi != NULL ? json_number_value(hi) : INFINITY;
    return (double)least >= from && (double)most <= to ? 1
           : (double)most < from || (double)least > to ? 0
                                                       : -1;
}

static bool all_differ(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        for (size_t k = 0; k < i; k++) {
            if (whim_schema_same(json_array_get(list, i), json_array_get(list, k))) {
                return false;
            }
        }
    }
    return true;
}

/* Items with schemas of their own, and those behind them. */
static int32_t fits_items(fits *f, const json_t *s, const char *key, const json_t *said,
                          const json_t *value, int32_t depth)
{
    const json_t *items = json_object_get(s, "items");
    bool old = json_is_array(items), behind = strcmp(key, old ? "additionalItems" : "items") == 0;
    const json_t *prefix = old ? items : json_object_get(s, "prefixItems");
    size_t n = json_array_size(value), n_prefix = json_array_size(prefix);
    int32_t all = 1;
    if (!behind && said != prefix) {
        return 1; /* additionalItems without a list before them */
    }
    for (size_t i = behind ? n_prefix : 0; i < n && (behind || i < n_prefix); i++) {
        const json_t *each = behind ? said : json_array_get(said, i);
        all = and(all, fits_schema(f, each, json_array_get(value, i), depth + 1));
    }
    return all;
}

static int32_t fits_array(fits *f, const json_t *s, const char *key, const json_t *said,
                          const json_t *value, int32_t depth)
{
    if (strcmp(key, "minItems") == 0 || strcmp(key, "maxItems") == 0) {
        return fits_bound(s, key, said, (double)json_array_size(value));
    }
    if (strcmp(key, "uniqueItems") == 0) {
        return !json_is_true(said) || all_differ(value);
    }
    if (strcmp(key, "contains") == 0) {
        return fits_contains(f, s, said, value, depth);
    }
    if (strcmp(key, "minContains") == 0 || strcmp(key, "maxContains") == 0) {
        return 1; /* contains asks for them */
    }
    return strcmp(key, "unevaluatedItems") == 0 ? -1 : fits_items(f, s, key, said, value, depth);
}

/* The members of an object that a keyword speaks about: by name, by pattern, or the others. */
static int32_t fits_members(fits *f, const json_t *s, const char *key, const json_t *said,
                            json_t *value, int32_t depth)
{
    bool listed = strcmp(key, "properties") == 0 || strcmp(key, GK_HELD) == 0;
    bool more = strcmp(key, "additionalProperties") == 0;
    const char *name, *pattern;
    json_t *each, *schema;
    int32_t all = 1;
    json_object_foreach(value, name, each)
    {
        bool known = json_object_get(json_object_get(s, "properties"), name) != NULL;
        json_object_foreach(json_object_get(s, "patternProperties"), pattern, schema)
        {
            bool found = whim_gb_pattern_finds(f->b, pattern, name, f->place);
            known = known || found;
            if (found && !listed && !more) {
                all = and(all, fits_schema(f, schema, each, depth + 1));
            }
        }
        const json_t *held = listed ? json_object_get(said, name) : more && !known ? said : NULL;
        all = held == NULL ? all : and(all, fits_schema(f, held, each, depth + 1));
    }
    return all;
}

static int32_t fits_names(fits *f, const json_t *said, json_t *value, int32_t depth)
{
    const char *name;
    json_t *each;
    int32_t all = 1;
    json_object_foreach(value, name, each)
    {
        json_t *text = json_string(name);
        all = and(all, text == NULL ? -1 : fits_schema(f, said, text, depth + 1));
        json_decref(text);
    }
    return all;
}

static int32_t has_keys(const json_t *value, const json_t *names, bool wanted)
{
    bool ok = true;
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        ok = ok && (name != NULL && json_object_get(value, name) != NULL) == wanted;
    }
    return ok;
}

static int32_t fits_object(fits *f, const json_t *s, const char *key, const json_t *said,
                           json_t *value, int32_t depth)
{
    if (strcmp(key, "minProperties") == 0 || strcmp(key, "maxProperties") == 0) {
        return fits_bound(s, key, said, (double)json_object_size(value));
    }
    if (strcmp(key, "required") == 0 || strcmp(key, GK_ABSENT) == 0) {
        return has_keys(value, said, *key == 'r');
    }
    if (strcmp(key, "propertyNames") == 0) {
        return fits_names(f, said, value, depth);
    }
    return strcmp(key, "unevaluatedProperties") == 0 ? -1
                                                     : fits_members(f, s, key, said, value, depth);
}

/* What holds of objects that have a key. */
static int32_t fits_dependent(fits *f, const json_t *said, const json_t *value, int32_t depth)
{
    const char *name;
    json_t *needs;
    int32_t all = 1;
    json_object_foreach((json_t *)said, name, needs)
    {
        if (json_object_get(value, name) != NULL) {
            all = and(all, json_is_array(needs)    ? has_keys(value, needs, true)
                           : json_is_string(needs) ? -1
                                                   : fits_schema(f, needs, value, depth + 1));
        }
    }
    return all;
}

static int32_t fits_if(fits *f, const json_t *s, const json_t *said, const json_t *value,
                       int32_t depth)
{
    const json_t *yes = json_object_get(s, "then"), *no = json_object_get(s, "else");
    int32_t condition = fits_schema(f, said, value, depth + 1);
    const json_t *then = condition > 0 ? yes : no;
    return yes == NULL && no == NULL ? 1
           : condition < 0           ? -1
           : then == NULL            ? 1
                                     : fits_schema(f, then, value, depth + 1);
}

static int32_t fits_keyword(fits *f, const json_t *s, const char *key, const json_t *said,
                            const json_t *value, int32_t depth)
{
    static const char lists[] = "allOf anyOf oneOf";
    static const char quiet[] = "nullable enum const type minContains maxContains";
    if (strcmp(key, "$ref") == 0) {
        const json_t *target = whim_gb_schema_target(f->b, json_string_value(said), f->place);
        return fits_schema(f, target, value, depth + 1);
    }
    if (whim_schema_has_word(lists, key)) {
        return fits_list(f, key, said, value, depth);
    }
    if (strcmp(key, GK_CHOICES) == 0) {
        return fits_list(f, "allOf", said, value, depth);
    }
    if (strcmp(key, "not") == 0) {
        return not(fits_schema(f, said, value, depth + 1));
    }
    if (strcmp(key, GK_NOT_VALUES) == 0) {
        return !is_among(said, value);
    }
    if (strcmp(key, "if") == 0) {
        return fits_if(f, s, said, value, depth);
    }
    if (whim_schema_has_word("dependencies dependentRequired dependentSchemas", key)) {
        return json_is_object(value) ? fits_dependent(f, said, value, depth) : 1;
    }
    if (whim_schema_is_note(key) || whim_schema_has_word(quiet, key)) {
        return 1;
    }
    const char *speaks_of = whim_schema_speaks_of(key);
    if (speaks_of == NULL) {
        return -1;
    }
    if (!whim_schema_is_type(value, speaks_of)) {
        return 1;
    }
    return json_is_string(value)   ? fits_text(f, s, key, said, json_string_value(value))
           : json_is_number(value) ? fits_number(s, key, said, json_number_value(value))
           : json_is_array(value)  ? fits_array(f, s, key, said, value, depth)
                                   : fits_object(f, s, key, said, (json_t *)value, depth);
}

static int32_t fits_schema(fits *f, const json_t *s, const json_t *value, int32_t depth)
{
    if (json_is_boolean(s)) {
        return json_is_true(s);
    }
    if (!json_is_object(s) || depth > f->b->limits.max_depth || whim_gb_late(f->b)) {
        return -1;
    }
    const json_t *type = json_object_get(s, "type"), *one = json_object_get(s, "const"),
                 *list = json_object_get(s, "enum");
    bool null = json_is_null(value) && json_is_true(json_object_get(s, "nullable"));
    if ((type != NULL && !null && !fits_type(type, value)) ||
        (one != NULL && !whim_schema_same(one, value)) ||
        (list != NULL && !null && !is_among(list, value))) {
        return 0;
    }
    int32_t all = 1;
    const char *key;
    json_t *said;
    json_object_foreach((json_t *)s, key, said)
    {
        all = all == 0 ? 0 : and(all, fits_keyword(f, s, key, said, value, depth));
    }
    return all;
}

int32_t whim_gb_schema_fits(whim_grammar_builder *b, const json_t *s, const json_t *value,
                            const gplace *place, int32_t depth)
{
    fits f = {.b = b, .place = place};
    return fits_schema(&f, s, value, depth);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Constants and choices: the values that a schema names, and the schemas of which any, or exactly
 * one, holds. */
#include "grammar/schema/schema.h"

#include "base/alloc.h"

#include <string.h>

/* Choices that schemas may make together: each is written out. */
enum { MAX_CHOICES = 4096 };

gnamed whim_schema_named(const json_t *s)
{
    gnamed found = {.list = json_object_get(s, "enum"), .one = json_object_get(s, "const")};
    const json_t *all = json_object_get(s, "allOf");
    found.one = found.list != NULL ? NULL : found.one;
    for (size_t i = 0; i < json_array_size(all) && found.list == NULL && found.one == NULL; i++) {
        found = whim_schema_named(json_array_get(all, i));
    }
    return found;
}

/* A value that a schema names is of its format where we do not know better: what we write for a
 * format is not all of it, and a format is a note to most readers. */
static int32_t fits_but_format(whim_grammar_builder *b, const json_t *s, const json_t *value,
                               const gplace *place, int32_t depth)
{
    json_t *rest = json_object_get(s, "format") != NULL ? json_copy((json_t *)s) : NULL;
    int32_t fits = -1;
    if (rest != NULL && json_object_del(rest, "format") == 0) {
        fits = whim_gb_schema_fits(b, rest, value, place, depth);
    }
    json_decref(rest);
    return fits;
}

int32_t whim_gb_schema_constants(whim_grammar_builder *b, const json_t *s, gnamed values,
                                 bool surely, const gplace *place, int32_t depth)
{
    char buf[GPLACE_ROOM];
    const char *path = whim_gplace_text(place, buf);
    size_t n = values.one != NULL ? 1 : json_array_size(values.list);
    bool unknown = false;
    glist alts = {0};
    if (n == 0) {
        return whim_gb_fail_at(b, place, NULL, "has an enum that is no list of values");
    }
    for (size_t i = 0; i < n && !whim_gb_failed(b); i++) {
        const json_t *value = values.one != NULL ? values.one : json_array_get(values.list, i);
        int32_t fits = whim_gb_schema_fits(b, s, value, place, depth);
        fits = fits < 0 ? fits_but_format(b, s, value, place, depth) : fits;
        unknown = unknown || fits < 0;
        if (fits > 0) {
            whim_glist_add(b, &alts, whim_gb_json_const(b, value, 0, path));
        }
    }
    if (json_is_true(json_object_get(s, "nullable"))) {
        whim_glist_add(b, &alts, whim_gb_text(b, "null"));
    }
    if (alts.n > 0 && !(surely && unknown) && !whim_gb_failed(b)) {
        return whim_glist_node(b, &alts, GN_ANY_OF);
    }
    whim_free(alts.ids);
    if (unknown && !surely) {
        return whim_gb_fail_at(b, place, NULL,
                               "has enum or const beside keywords that they cannot be held to");
    }
    return unknown || whim_gb_failed(b)
               ? -1
               : whim_gb_impossible(b, place, NULL,
                                    "allows no value: type and constants do not fit");
}

const json_t *whim_gb_types_meant(whim_grammar_builder *b, const json_t *s)
{
    static const char *const all[] = {"object", "array", "string", "number", "boolean", "null"};
    json_t *types = json_array();
    const char *key;
    json_t *value;
    for (size_t i = 0; i < 4 && types != NULL; i++) {
        bool said = false;
        json_object_foreach((json_t *)s, key, value)
        {
            const char *speaks_of = whim_schema_speaks_of(key);
            said = said || (speaks_of != NULL && strcmp(speaks_of, all[i]) == 0);
        }
        if (i == 2 && json_object_get(s, GK_NOT_PATTERNS) == NULL) {
            said = whim_schema_holds_text(s);
        }
        if (said) {
            json_array_append_new(types, json_string(all[i]));
        }
    }
    bool none = json_array_size(types) == 0 && json_object_get(s, GK_NOT_VALUES) != NULL;
    for (size_t i = 0; i < 6 && none; i++) {
        json_array_append_new(types, json_string(all[i]));
    }
    if (types == NULL || json_array_append_new(b->made, types) != 0) {
        whim_gb_no_memory(b);
        return NULL;
    }
    return types;
}

/* A merged schema that says what we write for it: its types, and that there are no keys besides
 * those it has, so that what is said of it later does not widen that. NULL: failed. */
static const json_t *as_written(whim_grammar_builder *b, const json_t *s)
{
    const json_t *properties = json_object_get(s, "properties"),
                 *required = json_object_get(s, "required");
    json_t *copy = json_copy((json_t *)s);
    if (copy == NULL || json_array_append_new(b->made, copy) != 0) {
        whim_gb_no_memory(b);
        return NULL;
    }
    if (json_object_get(s, GK_CHOICES) != NULL) {
        return copy;
    }
    const json_t *types = json_object_get(s, "type") == NULL ? whim_gb_types_meant(b, s) : NULL;
    bool ok =
        json_array_size(types) == 0 || whim_gb_put(b, copy, "type", json_incref((json_t *)types));
    if (json_object_size(properties) == 0 || json_object_get(s, "additionalProperties") != NULL ||
        json_object_get(s, "patternProperties") != NULL ||
        json_object_get(s, "unevaluatedProperties") != NULL) {
        return ok ? copy : NULL;
    }
    json_t *listed = json_copy((json_t *)properties);
    for (size_t i = 0; i < json_array_size(required) && ok && listed != NULL; i++) {
        const char *name = json_string_value(json_array_get(required, i));
        if (name != NULL && json_object_get(listed, name) == NULL) {
            ok = whim_gb_put(b, listed, name, json_true());
        }
    }
    ok = ok && whim_gb_put(b, copy, "properties", listed) &&
         whim_gb_put(b, copy, "additionalProperties", json_false());
    return ok ? copy : NULL;
}

/* A choice of a list, with what the schema says besides; false: no value fits. NULL: failed. */
static const json_t *with_choice(whim_grammar_builder *b, const json_t *rest, const json_t *choice,
                                 const gplace *place, int32_t depth)
{
    if (b->n_choice++ >= MAX_CHOICES) {
        (void)whim_gb_fail_at(b, place, NULL, "and what else is said make too many choices");
        return NULL;
    }
    return whim_gb_schema_merge(b, rest, choice, place, depth + 1);
}

int32_t whim_gb_schema_any_of(whim_grammar_builder *b, const json_t *list, const json_t *rest,
                              const gplace *place, int32_t depth)
{
    glist alts = {0};
    for (size_t i = 0; i < json_array_size(list) && !whim_gb_failed(b); i++) {
        gplace each = {.up = place, .index = (int64_t)i};
        const json_t *choice = json_array_get(list, i);
        choice = rest == NULL ? choice : with_choice(b, rest, choice, &each, depth);
        if (choice != NULL && !json_is_false(choice)) {
            whim_glist_add(b, &alts, whim_gb_schema_node(b, choice, &each, depth + 1));
        }
    }
    if (alts.n == 0 && !whim_gb_failed(b)) {
        return whim_gb_impossible(b, place, NULL, "has no choice that fits what is said besides");
    }
    return whim_glist_node(b, &alts, GN_ANY_OF);
}

/* Choices of oneOf, each merged for itself, and what is surely true of its values: nothing is known
 * of a choice that had a part left out, since values of that part fit it, too. */
typedef struct onechoices {
    json_t *merged, *known;
} onechoices;

static void free_choices(onechoices *c)
{
    json_decref(c->merged);
    json_decref(c->known);
}

/* False: failed. The caller frees. */
static bool merge_choices(whim_grammar_builder *b, const json_t *list, const gplace *place,
                          int32_t depth, onechoices *c)
{
    *c = (onechoices){.merged = json_array(), .known = json_array()};
    bool ok = c->merged != NULL && c->known != NULL;
    for (size_t i = 0; i < json_array_size(list) && ok; i++) {
        gplace each = {.up = place, .index = (int64_t)i};
        int64_t n_narrowed = b->n_narrowed;
        json_t *one = (json_t *)whim_gb_schema_merge(b, json_array_get(list, i), json_true(), &each,
                                                     depth + 1);
        json_t *known = b->n_narrowed > n_narrowed ? json_true() : one;
        ok = one != NULL && json_array_append(c->merged, one) == 0 &&
             json_array_append(c->known, known) == 0;
    }
    return ok;
}

/* A choice of oneOf, and none of the others: those that it may fit besides are negated. */
static const json_t *only_choice(whim_grammar_builder *b, const json_t *list, const onechoices *c,
                                 size_t i, const json_t *rest, const gplace *place, int32_t depth)
{
    const json_t *choice = with_choice(b, rest, json_array_get(c->merged, i), place, depth);
    choice = json_is_object(choice) ? as_written(b, choice) : choice;
    for (size_t k = 0; k < json_array_size(list) && json_is_object(choice); k++) {
        if (k == i || whim_schema_excludes(choice, json_array_get(c->known, k))) {
            continue;
        }
        json_t *not_other = json_pack("{s:O}", "not", json_array_get(list, k));
        bool ok = not_other != NULL && json_array_append_new(b->made, not_other) == 0;
        choice = ok ? with_choice(b, choice, not_other, place, depth) : NULL;
    }
    return choice;
}

int32_t whim_gb_schema_one_of(whim_grammar_builder *b, const json_t *list, const json_t *rest,
                              const gplace *place, int32_t depth)
{
    onechoices c;
    json_t *only = json_array();
    bool ok = merge_choices(b, list, place, depth, &c) && only != NULL;
    bool apart = rest == NULL; /* each excludes the others as it stands */
    for (size_t i = 0; i < json_array_size(list) && ok && !whim_gb_failed(b); i++) {
        gplace each = {.up = place, .index = (int64_t)i};
        for (size_t k = 0; k < json_array_size(list) && apart; k++) {
            apart = k == i ||
                    whim_schema_excludes(json_array_get(c.merged, i), json_array_get(c.known, k));
        }
        const json_t *choice =
            only_choice(b, list, &c, i, rest != NULL ? rest : json_true(), &each, depth);
        ok = choice == NULL || json_array_append(only, (json_t *)choice) == 0;
    }
    if (!ok && !whim_gb_failed(b)) {
        whim_gb_no_memory(b);
    }
    int32_t node =
        whim_gb_failed(b) ? -1 : whim_gb_schema_any_of(b, apart ? list : only, NULL, place, depth);
    free_choices(&c);
    json_decref(only);
    return node;
}

/* A list of choices of a merged schema; the others wait in what is said besides. Those of anyOf
 * first: what they list may be what the choices of oneOf differ in. */
int32_t whim_gb_schema_choices(whim_grammar_builder *b, const json_t *s, const gplace *place,
                               int32_t depth)
{
    json_t *rest = json_copy((json_t *)s), *lists = json_copy(json_object_get(s, GK_CHOICES));
    size_t at = 0;
    for (size_t i = json_array_size(lists); i-- > 0;) {
        at = json_object_get(json_array_get(lists, i), "anyOf") != NULL ? i : at;
    }
    const json_t *choice = json_array_get(lists, at);
    const char *key = json_object_get(choice, "anyOf") != NULL ? "anyOf" : "oneOf";
    gplace place_of_list = {.up = place, .key = key};
    const json_t *list = json_object_get(choice, key);
    bool ok = rest != NULL && json_array_append(b->made, rest) == 0 &&
              json_array_append(b->made, (json_t *)list) == 0 &&
              json_array_remove(lists, at) == 0 &&
              (json_array_size(lists) > 0 ? whim_gb_put(b, rest, GK_CHOICES, json_incref(lists))
                                          : json_object_del(rest, GK_CHOICES) == 0);
    int32_t node = !ok           ? whim_gb_no_memory(b)
                   : *key == 'a' ? whim_gb_schema_any_of(b, list, rest, &place_of_list, depth)
                                 : whim_gb_schema_one_of(b, list, rest, &place_of_list, depth);
    json_decref(rest);
    json_decref(lists);
    return node;
}

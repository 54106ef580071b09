/* SPDX-License-Identifier: Apache-2.0 */
/* Objects and arrays of schemas that hold together: properties are joined with what is allowed
 * besides them, items with those before them. */
#include "grammar/schema/merge.h"

/* --- objects ---------------------------------------------------------------------------------- */

/* What a schema says of the values of one key: a new reference, or NULL for nothing. */
static json_t *said_of_key(gmerge *m, const json_t *s, const char *key)
{
    gplace at = {.up = m->place, .key = "patternProperties"};
    json_t *listed = json_object_get(json_object_get(s, "properties"), key);
    json_t *said = json_incref(listed);
    bool known = listed != NULL;
    const char *pattern;
    json_t *schema;
    json_object_foreach(json_object_get(s, "patternProperties"), pattern, schema)
    {
        if (whim_gb_pattern_finds(m->b, pattern, key, &at)) {
            json_t *more = whim_merge_both(said, schema);
            json_decref(said);
            said = more;
            known = true;
        }
    }
    return known ? said : json_incref(json_object_get(s, "additionalProperties"));
}

/* Keys of `from`, with what both schemas say of them. */
static bool join_keys(gmerge *m, json_t *joined, const json_t *from, const json_t *s)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(from, "properties"), key, value)
    {
        if (json_object_get(joined, key) != NULL) {
            continue;
        }
        if (++m->b->n_joined > 2 * m->b->limits.max_nodes) {
            return whim_merge_fail(m, "properties",
                                   "are too many to be joined with those of other schemas");
        }
        if (m->b->n_joined % 1024 == 0 && whim_gb_late(m->b)) {
            return false;
        }
        json_t *one = said_of_key(m, m->out, key), *two = said_of_key(m, s, key);
        bool ok =
            whim_gb_put(m->b, joined, key, whim_merge_both(one, two)) && !whim_gb_failed(m->b);
        json_decref(one);
        json_decref(two);
        if (!ok) {
            return false;
        }
    }
    return true;
}

/* Patterns of `from`; keys that the other has neither by name nor by the same pattern are besides
 * its own. Where it has patterns and allows nothing besides, one that it lacks stays, though it
 * allows no value: keys that match both would have to fit both schemas, and are left out like all
 * that several patterns match. */
static bool join_patterns(gmerge *m, json_t *joined, const json_t *from, const json_t *other)
{
    const bool has_patterns = json_object_size(json_object_get(other, "patternProperties")) > 0;
    const char *pattern;
    json_t *value;
    json_object_foreach(json_object_get(from, "patternProperties"), pattern, value)
    {
        json_t *same = json_object_get(json_object_get(other, "patternProperties"), pattern);
        const json_t *besides =
            same != NULL ? NULL : json_object_get(other, "additionalProperties");
        if (json_is_false(besides) && !has_patterns) {
            continue; /* only listed keys are left, and what is said of those has been joined */
        }
        same = same != NULL ? same : (json_t *)besides;
        if (json_object_get(joined, pattern) == NULL &&
            !whim_gb_put(m->b, joined, pattern, whim_merge_both(value, same))) {
            return false;
        }
    }
    return true;
}

bool whim_merge_objects(gmerge *m, const json_t *s)
{
    static const char *const keys[] = {"properties", "patternProperties", "additionalProperties"};
    bool mine = false, other = false;
    for (int32_t i = 0; i < 3; i++) {
        mine = mine || json_object_get(m->out, keys[i]) != NULL;
        other = other || json_object_get(s, keys[i]) != NULL;
    }
    for (int32_t i = 0; i < 3 && !mine; i++) {
        json_t *value = json_object_get(s, keys[i]);
        if (value != NULL && !whim_merge_put(m, keys[i], json_incref(value))) {
            return false;
        }
    }
    if (!mine || !other) {
        return true;
    }
    json_t *joined[] = {
        json_object(), json_object(),
        whim_merge_both(json_object_get(m->out, keys[2]), json_object_get(s, keys[2]))};
    bool ok = joined[0] != NULL && joined[1] != NULL && join_keys(m, joined[0], m->out, s) &&
              join_keys(m, joined[0], s, s) && join_patterns(m, joined[1], m->out, s) &&
              join_patterns(m, joined[1], s, m->out);
    for (int32_t i = 0; i < 3; i++) {
        bool said = i == 2 ? joined[i] != NULL
                           : json_object_get(m->out, keys[i]) != NULL ||
                                 json_object_get(s, keys[i]) != NULL;
        ok = ok && (!said || whim_merge_put(m, keys[i], json_incref(joined[i])));
        json_decref(joined[i]);
    }
    return ok;
}

/* --- arrays ----------------------------------------------------------------------------------- */

/* The items that have schemas of their own, and the schema of those behind them; NULL: none. */
static void read_items(const json_t *s, const json_t **prefix, json_t **rest)
{
    *prefix = json_object_get(s, "prefixItems");
    *rest = json_object_get(s, "items");
    if (json_is_array(*rest)) { /* as older drafts write it */
        *prefix = *rest;
        *rest = json_object_get(s, "additionalItems");
    }
}

static json_t *item_at(const json_t *prefix, json_t *rest, size_t i)
{
    return i < json_array_size(prefix) ? json_array_get(prefix, i) : rest;
}

bool whim_merge_arrays(gmerge *m, const json_t *s)
{
    const json_t *mine, *other;
    json_t *my_rest, *other_rest;
    read_items(m->out, &mine, &my_rest);
    read_items(s, &other, &other_rest);
    size_t n = json_array_size(mine), n_other = json_array_size(other);
    n = n > n_other ? n : n_other;
    json_t *prefix = json_array();
    bool ok = prefix != NULL;
    for (size_t i = 0; i < n && ok; i++) {
        json_t *item = whim_merge_both(item_at(mine, my_rest, i), item_at(other, other_rest, i));
        ok = json_array_append_new(prefix, item != NULL ? item : json_true()) == 0;
    }
    json_t *rest = whim_merge_both(my_rest, other_rest);
    ok = ok && (n == 0 || whim_merge_put(m, "prefixItems", json_incref(prefix))) &&
         (rest == NULL || whim_merge_put(m, "items", json_incref(rest)));
    json_decref(prefix);
    json_decref(rest);
    return ok;
}

bool whim_merge_contains(gmerge *m, const json_t *s)
{
    static const char *const keys[] = {"contains", "minContains", "maxContains"};
    bool ok = true, again = json_object_get(m->out, keys[0]) != NULL;
    for (int32_t i = 0; i < 3 && json_object_get(s, keys[0]) != NULL && ok; i++) {
        json_t *mine = json_object_get(m->out, keys[i]), *other = json_object_get(s, keys[i]);
        if (!again) {
            ok = other == NULL || whim_merge_put(m, keys[i], json_incref(other));
        } else {
            ok = mine == other || json_equal(mine, other) ||
                 whim_merge_fail(m, keys[0], "cannot be joined");
        }
    }
    return ok;
}

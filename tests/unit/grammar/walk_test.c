/* SPDX-License-Identifier: Apache-2.0 */
/* Random answers of many schemas are valid: those of tests/data/chat/schemas.txt and generated
 * ones, with the small vocabulary and with a published one; the judge is a validator of its own. */
#include "unit/grammar/grammar_fixture.h"
#include "unit/grammar/schema_validator.h"

static int64_t n_ended;

static void check_answers(const json_t *schema, const whim_tokenizer *tok,
                          const whim_grammar_vocab *vocab, int32_t end, int32_t n)
{
    whim_diag diag = {{0}};
    whim_grammar *g = fixture_schema_json(schema, &diag);
    char *text = json_dumps(schema, JSON_ENCODE_ANY);
    if (g == NULL) {
        fail_msg("%s: %s", text, diag.text);
    }
    for (int32_t i = 0; i < n; i++) {
        whim_str out = {0};
        whim_grammar_state *s;
        assert_int_equal(whim_grammar_state_create(g, vocab, &s), WHIM_ERR_OK);
        if (fixture_walk(s, tok, end, (uint64_t)i + 3, 5 + 10 * i, &out)) {
            json_t *value = json_loadb(out.text, (size_t)out.len, JSON_DECODE_ANY, NULL);
            if (value == NULL || !valid(schema, schema, value)) {
                fail_msg("%s: %s is %s", text, out.text, value == NULL ? "no JSON" : "not valid");
            }
            json_decref(value);
            n_ended++;
        }
        whim_grammar_state_destroy(s);
        whim_str_deinit(&out);
    }
    whim_grammar_unref(g);
    free(text);
}

static void check_list(const whim_tokenizer *tok, const whim_grammar_vocab *vocab, int32_t end,
                       int32_t n)
{
    FILE *file = fopen("tests/data/chat/schemas.txt", "r");
    char *line = NULL;
    size_t cap = 0;
    int64_t n_line = 0;
    assert_non_null(file);
    n_ended = 0;
    for (; getline(&line, &cap, file) > 0; n_line++) {
        json_t *schema = json_loads(line, JSON_DECODE_ANY, NULL);
        assert_non_null(schema);
        check_answers(schema, tok, vocab, end, n);
        json_decref(schema);
    }
    assert_true(n_ended > n * n_line * 9 / 10); /* a few may go on for long */
    free(line);
    fclose(file);
}

static void listed_schemas(void **state)
{
    (void)state;
    check_list(fixture_tok, fixture_vocab, ID_END, 6);
}

static void a_published_vocabulary(void **state)
{
    (void)state;
    whim_tokenizer *tok = open_file("xz -dc tests/data/text/qwen3.json.xz");
    int32_t end = whim_tokenizer_find(tok, "<|im_end|>");
    whim_grammar_vocab *vocab;
    assert_true(end >= 0);
    assert_int_equal(whim_grammar_vocab_create(tok, &end, 1, &vocab), WHIM_ERR_OK);
    check_list(tok, vocab, end, 1);
    whim_grammar_vocab_destroy(vocab);
    whim_tokenizer_close(tok);
}

static json_t *make_schema(uint64_t key, int32_t depth);

static json_t *make_object(uint64_t key, int32_t depth)
{
    json_t *properties = json_object(), *required = json_array();
    for (uint64_t i = 0; i < whim_rng_at(key, 50) % 5; i++) {
        char name[8];
        snprintf(name, sizeof name, "%c%llu", 'a' + (char)i, (unsigned long long)(i % 2));
        json_object_set_new(properties, name, make_schema(whim_rng_key(key, i), depth + 1));
        if (whim_rng_at(key, i) % 2 == 0) {
            json_array_append_new(required, json_string(name));
        }
    }
    json_t *s = json_pack("{s:s,s:o,s:o}", "type", "object", "properties", properties, "required",
                          required);
    uint64_t more = whim_rng_at(key, 51) % 4;
    if (more < 2) {
        json_object_set_new(s, "additionalProperties",
                            more == 0 ? json_false()
                                      : make_schema(whim_rng_key(key, 52), depth + 1));
    }
    return s;
}

/* A random schema; deeper ones are simpler. */
static json_t *make_schema(uint64_t key, int32_t depth)
{
    static const char *const patterns[] = {"^a+b?$", "[0-9]{2}", "^(x|yz)*$", "^\\w{1,4}$"};
    int64_t r = (int64_t)(whim_rng_at(key, 60) % 1000), few = r % 4;
    switch (whim_rng_at(key, 61) % (depth < 3 ? 11 : 7)) {
    case 0:
        return json_pack("{s:s,s:I,s:I}", "type", "string", "minLength", few, "maxLength",
                         few + r % 7);
    case 1:
        return json_pack("{s:s,s:I,s:I}", "type", "integer", "minimum", r - 500, "maximum", r * 7);
    case 2:
        return json_pack("{s:s,s:f,s:f}", "type", "number", "minimum", (double)r / 8 - 50,
                         "exclusiveMaximum", (double)r / 4 + 0.1);
    case 3:
        return json_pack("{s:[s,I,b,n]}", "enum", "v", (json_int_t)r, 1);
    case 4:
        return json_pack("{s:s,s:s}", "type", "string", "pattern", patterns[few]);
    case 5:
        return json_pack("{s:[s,s]}", "type", "boolean", "null");
    case 6:
        return json_pack("{s:s,s:I,s:I}", "type", "integer", "multipleOf", few + 2, "minimum",
                         r - 300);
    case 7:
        return json_pack("{s:s,s:o,s:I,s:I}", "type", "array", "items",
                         make_schema(whim_rng_key(key, 1), depth + 1), "minItems", few % 3,
                         "maxItems", few % 3 + r % 3);
    case 8:
        return json_pack("{s:[o,o]}", "anyOf", make_schema(whim_rng_key(key, 1), depth + 1),
                         make_schema(whim_rng_key(key, 2), depth + 1));
    default:
        return make_object(key, depth);
    }
}

static void generated_schemas(void **state)
{
    (void)state;
    n_ended = 0;
    for (uint64_t i = 0; i < 400; i++) {
        json_t *schema = make_schema(whim_rng_key(2024, i), 0);
        assert_non_null(schema);
        check_answers(schema, fixture_tok, fixture_vocab, ID_END, 3);
        json_decref(schema);
    }
    assert_true(n_ended > 400 * 3 * 9 / 10);
}

static const char *key_name(uint64_t r)
{
    static const char *const names[] = {"a0", "b1", "c0", "d1", "e0"};
    return names[r % 5];
}

/* A small schema that others may be held to besides their own. */
static json_t *make_part(uint64_t key, int32_t depth)
{
    static const char *const types[] = {"object", "string", "integer", "null", "array"};
    uint64_t r = whim_rng_at(key, 70);
    const char *one = key_name(r), *two = key_name(r / 5);
    switch (whim_rng_at(key, 71) % (depth < 2 ? 13 : 10)) {
    case 0:
        return json_pack("{s:[s]}", "required", one);
    case 1:
        return json_pack("{s:[s,s]}", "required", one, two);
    case 2:
        return json_pack("{s:{s:o}}", "properties", one, make_schema(whim_rng_key(key, 1), 3));
    case 3:
        return json_pack("{s:{s:o},s:[s]}", "properties", one, make_part(whim_rng_key(key, 1), 3),
                         "required", one);
    case 4:
        return json_pack("{s:s}", "type", types[r % 5]);
    case 5:
        return json_pack("{s:[s,I,n]}", "enum", "v", (json_int_t)(r % 1000));
    case 6:
        return json_pack("{s:I,s:I}", "minimum", (json_int_t)(r % 100), "minLength",
                         (json_int_t)(r % 5));
    case 7:
        return json_pack("{s:s,s:I}", "pattern", "^a", "maxItems", (json_int_t)(r % 3));
    case 8:
        return json_pack("{s:{s:o}}", "patternProperties", "^[ab]",
                         make_part(whim_rng_key(key, 1), 3));
    case 9:
        return json_pack("{s:[o],s:I}", "prefixItems", make_schema(whim_rng_key(key, 1), 3),
                         "minItems", (json_int_t)(r % 2));
    case 10:
        return json_pack("{s:o}", "not", make_part(whim_rng_key(key, 1), depth + 1));
    case 11:
        return json_pack("{s:[o,o]}", "anyOf", make_part(whim_rng_key(key, 1), depth + 1),
                         make_part(whim_rng_key(key, 2), depth + 1));
    default:
        return json_pack("{s:[o,o]}", "oneOf", make_part(whim_rng_key(key, 1), depth + 1),
                         make_part(whim_rng_key(key, 2), depth + 1));
    }
}

/* Rules about the items of an array, for itself or beside others. */
static json_t *make_list(uint64_t key)
{
    static const char *const few[] = {"{\"enum\":[1,2,\"x\",null]}", "{\"type\":\"boolean\"}",
                                      "{\"type\":\"integer\",\"minimum\":1,\"maximum\":4}"};
    uint64_t r = whim_rng_at(key, 65);
    json_t *s = json_pack("{s:s}", "type", "array");
    if (r % 2 == 0) {
        json_object_set_new(s, "prefixItems", json_pack("[o,b]", make_schema(key, 3), 1));
    }
    if (r % 3 == 0) {
        json_object_set_new(s, "items", make_schema(whim_rng_key(key, 1), 3));
    } else if (r % 3 == 1) {
        json_object_set_new(s, "items", json_loads(few[r / 6 % 3], 0, NULL));
        json_object_set_new(s, "uniqueItems", json_true());
    }
    if (r / 18 % 2 == 0) {
        json_object_set_new(s, "contains", make_schema(whim_rng_key(key, r / 36 % 2), 3));
        json_object_set_new(s, "minContains", json_integer((json_int_t)(r / 72 % 3)));
        json_object_set_new(s, "maxContains", json_integer((json_int_t)(r / 72 % 3 + r / 216 % 3)));
    }
    return s;
}

/* A schema that also speaks about what no other one does, of an object or an array. */
static json_t *make_complete(uint64_t key, json_t *s, json_t *part, json_t *other)
{
    static const char *const more = "unevaluatedProperties", *const items = "unevaluatedItems";
    json_t *rest =
        whim_rng_at(key, 83) % 4 == 0 ? make_part(whim_rng_key(key, 4), 3) : json_false();
    switch (whim_rng_at(key, 84) % 3) {
    case 0:
        return json_pack("{s:[o],s:[o,o],s:o,s:O}", "allOf", s, "anyOf", part, other, more, rest,
                         items, rest);
    case 1:
        return json_pack("{s:s,s:{s:o},s:[o,o],s:o,s:O}", "$ref", "#/$defs/s", "$defs", "s", s,
                         "oneOf", part, other, more, rest, items, rest);
    default: /* inside of others, which speak about keys and items of their own */
        return json_pack("{s:[{s:[o],s:o,s:O},o],s:[o]}", "anyOf", "allOf", s, more, rest, items,
                         rest, part, "allOf", other);
    }
}

/* A schema with one more rule that it holds to. */
static json_t *make_held(uint64_t key)
{
    json_t *s = whim_rng_at(key, 82) % 4 == 0 ? make_list(whim_rng_key(key, 1))
                                              : make_schema(whim_rng_key(key, 1), 0);
    uint64_t r = whim_rng_at(key, 80);
    json_t *part = make_part(whim_rng_key(key, 2), 0), *other = make_part(whim_rng_key(key, 3), 0);
    switch (whim_rng_at(key, 81) % 10) {
    case 0:
        return json_pack("{s:[o,o,o]}", "allOf", s, part, other);
    case 1:
        return json_pack("{s:[o],s:o,s:o}", "allOf", s, "not", part, "anyOf",
                         json_pack("[o]", other));
    case 2:
        return json_pack("{s:[o],s:[o,o]}", "allOf", s, "oneOf", part, other);
    case 3:
        return json_pack("{s:[o,o,o]}", "oneOf", s, part, other);
    case 4:
        return json_pack("{s:[o],s:o,s:o}", "allOf", s, "if", part, "then", other);
    case 5:
        return json_pack("{s:[o],s:o,s:o}", "allOf", s, "if", part, "else", other);
    case 6:
        return json_pack("{s:[o],s:{s:[s],s:o},s:o}", "allOf", s, "dependencies", key_name(r),
                         key_name(r / 5), key_name(r / 25), part, "not", other);
    default:
        return make_complete(key, s, part, other);
    }
}

/* What is refused is not judged; but most of it must not be refused. */
static void schemas_that_hold_together(void **state)
{
    (void)state;
    enum { N = 1500 };
    int32_t taken = 0;
    for (uint64_t i = 0; i < N; i++) {
        whim_diag diag = {{0}};
        json_t *schema = make_held(whim_rng_key(77, i));
        assert_non_null(schema);
        whim_grammar *g = fixture_schema_json(schema, &diag);
        if (g != NULL) {
            whim_grammar_unref(g);
            check_answers(schema, fixture_tok, fixture_vocab, ID_END, 3);
            taken++;
        }
        json_decref(schema);
    }
    assert_true(taken > N / 2);
}

/* An object whose keys several patterns may match. */
static json_t *make_keyed(uint64_t key)
{
    static const char *const patterns[] = {"^a", "b", "^ab", "c$", "^[ab]", "^.$"};
    static const char *const values[] = {"{\"type\":\"integer\"}", "{\"minimum\":2}",
                                         "{\"type\":\"string\"}",  "false",
                                         "{\"enum\":[1,\"x\"]}",   "true",
                                         "{\"maxLength\":0}",      "{\"maximum\":1}"};
    json_t *s = json_pack("{s:s,s:{},s:{}}", "type", "object", "patternProperties", "properties");
    for (uint64_t i = 0; i < 1 + whim_rng_at(key, 90) % 3; i++) {
        const char *value = values[whim_rng_at(key, 91 + i) % 8];
        json_object_set_new(json_object_get(s, "patternProperties"),
                            patterns[whim_rng_at(key, 94 + i) % 6],
                            json_loads(value, JSON_DECODE_ANY, NULL));
    }
    if (whim_rng_at(key, 97) % 2 == 0) {
        json_object_set_new(json_object_get(s, "properties"), "ab",
                            json_loads(values[whim_rng_at(key, 98) % 8], JSON_DECODE_ANY, NULL));
    }
    if (whim_rng_at(key, 99) % 3 > 0) {
        json_object_set_new(s, "additionalProperties", json_boolean(whim_rng_at(key, 99) % 3 > 1));
    }
    return s;
}

/* What is taken is valid, whatever its keys: random answers seldom have one that two patterns
 * match. */
static void keys_of_several_patterns(void **state)
{
    static const char *const keys[] = {"a", "b", "ab", "abc", "c", "ba", "d"};
    static const char *const values[] = {"0", "2", "\"\"", "\"x\"", "null"};
    enum { N = 600, N_KEY = 7, N_VALUE = 5 };
    int32_t n_taken = 0;
    (void)state;
    for (uint64_t i = 0; i < N; i++) {
        whim_diag diag = {{0}};
        json_t *schema = json_pack("{s:[o,o]}", "allOf", make_keyed(whim_rng_key(78, 2 * i)),
                                   make_keyed(whim_rng_key(78, 2 * i + 1)));
        whim_grammar *g = fixture_schema_json(schema, &diag);
        for (int32_t k = 0; k < N_KEY * N_VALUE && g != NULL; k++) {
            char text[64];
            snprintf(text, sizeof text, "{\"%s\": %s}", keys[k / N_VALUE], values[k % N_VALUE]);
            json_t *value = json_loads(text, 0, NULL);
            bool taken = fixture_takes(g, text);
            if (taken && !valid(schema, schema, value)) {
                fail_msg("%s takes %s", json_dumps(schema, 0), text);
            }
            n_taken += taken;
            json_decref(value);
        }
        whim_grammar_unref(g);
        json_decref(schema);
    }
    assert_true(n_taken > 3 * N);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listed_schemas),
        cmocka_unit_test(generated_schemas),
        cmocka_unit_test(schemas_that_hold_together),
        cmocka_unit_test(keys_of_several_patterns),
        cmocka_unit_test(a_published_vocabulary),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that are written alike share a table, and what differs in anything does not. */
#include "unit/grammar/grammar_fixture.h"

#include "grammar/impl.h"

static whim_grammar *grammar_of(const char *schema)
{
    whim_diag diag = {{0}};
    whim_grammar *g = fixture_schema(schema, &diag);
    if (g == NULL) {
        fail_msg("%s: %s", schema, diag.text);
    }
    return g;
}

/* Parts that hold parts, with notes that say nothing of what is valid. */
#define PART(note)                                                                             \
    "{\"type\":\"object\",\"title\":\"" note "\",\"properties\":{\"id\":{\"type\":\"string\"," \
    "\"format\":\"uuid\"},\"list\":{\"type\":\"array\",\"items\":{\"type\":\"object\","        \
    "\"properties\":{\"n\":{\"type\":\"integer\"},\"m\":{\"minimum\":3}}}}}}"
#define TWO(one, two) "{\"properties\":{\"a\":" one ",\"b\":" two "}}"

static void parts_that_are_alike_are_made_once(void **state)
{
    (void)state;
    whim_grammar *copies = grammar_of(TWO(PART("first"), PART("second")));
    whim_grammar *one = grammar_of("{\"properties\":{\"a\":{\"$ref\":\"#/x\"},\"b\":{\"$ref\":"
                                   "\"#/x\"}},\"x\":" PART("one") "}");
    assert_int_equal(copies->n_state, one->n_state);
    assert_true(fixture_takes(
        copies, "{\"a\":{\"list\":[{\"n\":-1,\"m\":3}]},\"b\":{\"list\":[{\"m\":4.5}]}}"));
    assert_false(fixture_takes(copies, "{\"b\":{\"list\":[{\"m\":2}]}}"));
    whim_grammar_unref(copies);
    whim_grammar_unref(one);
}

static void parts_that_differ_are_kept_apart(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *taken, *not_taken;
    } rows[] = {
        {TWO("{\"type\":\"object\",\"properties\":{\"k\":{\"const\":1}}}",
             "{\"type\":\"object\",\"properties\":{\"k\":{\"const\":2}}}"),
         "{\"a\":{\"k\":1},\"b\":{\"k\":2}}", "{\"a\":{\"k\":2}}"},
        {TWO("{\"type\":\"string\",\"pattern\":\"^[a-c]{2}$\"}",
             "{\"type\":\"string\",\"pattern\":\"^[a-d]{2}$\"}"),
         "{\"a\":\"ac\",\"b\":\"ad\"}", "{\"a\":\"ad\"}"},
        {TWO("{\"type\":\"string\",\"maxLength\":2}", "{\"type\":\"string\",\"maxLength\":3}"),
         "{\"a\":\"xx\",\"b\":\"xxx\"}", "{\"a\":\"xxx\"}"},
        {TWO("{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"minItems\":1}",
             "{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"minItems\":0}"),
         "{\"a\":[null],\"b\":[]}", "{\"a\":[]}"},
        {TWO("{\"type\":\"object\",\"properties\":{\"k\":true,\"l\":true},\"required\":[\"k\"]}",
             "{\"type\":\"object\",\"properties\":{\"k\":true,\"l\":true},\"required\":[\"l\"]}"),
         "{\"a\":{\"k\":1},\"b\":{\"l\":1}}", "{\"a\":{\"l\":1}}"},
        {TWO("{\"type\":\"integer\",\"minimum\":7,\"multipleOf\":2}",
             "{\"type\":\"integer\",\"minimum\":7,\"multipleOf\":3}"),
         "{\"a\":8,\"b\":9}", "{\"a\":9}"},
        {TWO("{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":{\"const\":1}}}",
             "{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":{\"const\":2}}}"),
         "{\"a\":[[1]],\"b\":[[2]]}", "{\"a\":[[2]]}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        whim_grammar *g = grammar_of(rows[i].schema);
        if (!fixture_takes(g, rows[i].taken) || fixture_takes(g, rows[i].not_taken)) {
            fail_msg("%s", rows[i].schema);
        }
        whim_grammar_unref(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_that_are_alike_are_made_once),
        cmocka_unit_test(parts_that_differ_are_kept_apart),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}

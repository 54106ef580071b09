/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas: texts that are taken and texts that are not, what is refused with its place, and
 * limits. */
#include "unit/grammar/grammar_fixture.h"

static void schemas_take_their_texts(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *good[6], *bad[9];
    } rows[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
         "\"string\"},\"c\":{}},\"required\":[\"b\"]}",
         {"{\"b\":\"\"}", "{\"a\":1,\"b\":\"x\"}", "{\"a\": -12, \"b\": \"\", \"c\": [null, {}]}",
          "{\"b\":\"\\u00e9\\ud83d\\ude00\\n\",\"c\":1.5e-3}"},
         {"{}", "{\"a\":1}", "{\"b\":\"\",\"a\":1}", "{\"b\":\"\",}", "{,\"b\":\"\"}",
          "{\"b\":\"\",  \"c\":1}", "{ \"b\":\"\"}", "{\"b\":\"\",\"d\":1}", "{\"b\" :\"\"}"}},
        {"{\"type\":\"string\"}",
         {"\"\"", "\"a\xC3\xA9\xF0\x9F\x98\x80\"", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\""},
         {"\"", "\"\n\"", "\"\\x\"", "\"\\ud83d\"", "\"\\ude00\"", "\"\\ud83d\\u0041\"",
          "\"\\u0000\"", "\"\xC3\"", "\"\xED\xA0\x80\""}},
        {"{\"type\":\"integer\"}",
         {"0", "-1", "123456789012345"},
         {"-0", "01", "1.0", "1e3", "+1", "", "1234567890123456"}},
        {"{\"type\":\"number\"}",
         {"0", "-0.5", "1e9", "1.25E-07", "-12.50"},
         {".5", "1.", "1e", "00", "--1", "1e100"}},
        {"{\"type\":\"integer\",\"minimum\":-12,\"exclusiveMaximum\":105}",
         {"-12", "-9", "0", "104", "99"},
         {"-13", "105", "110", "-20", "1000", "-"}},
        {"{\"type\":\"number\",\"minimum\":-1.5,\"maximum\":2.25}",
         {"-1.5", "-1.49", "0", "2.25", "2.2", "2.250"},
         {"-1.51", "2.26", "2.251", "3", "-2", "1e0", "-0"}},
        {"{\"type\":\"number\",\"exclusiveMinimum\":0,\"exclusiveMaximum\":1}",
         {"0.5", "0.001", "0.99"},
         {"0", "1", "0.0", "1.0", "-0.5"}},
        {"{\"type\":\"string\",\"minLength\":1,\"maxLength\":2}",
         {"\"a\"", "\"\xC3\xA9\xF0\x9F\x98\x80\"", "\"\\n\\u0041\"", "\"\\ud83d\\ude00x\""},
         {"\"\"", "\"abc\"", "\"\\n\\n\\n\""}},
        {"{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":1,\"maxItems\":3}",
         {"[true]", "[true,false, true]"},
         {"[]", "[true,]", "[,true]", "[true,true,true,true]", "[ true]", "[true\n]"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"null\"}],"
         "\"items\":"
         "{\"type\":\"boolean\"},\"minItems\":1}",
         {"[1]", "[1,null]", "[1,null,true,false]"},
         {"[]", "[null]", "[1,true]", "[1,null,1]"}},
        {"{\"prefixItems\":[{\"type\":\"integer\"}],\"unevaluatedItems\":false}",
         {"[]", "[1]"},
         {"[1,1]", "[null]"}},
        {"{\"items\":{\"type\":\"integer\"},\"unevaluatedItems\":false}",
         {"[]", "[1,2]"},
         {"[null]"}},
        {"{\"type\":\"array\",\"unevaluatedItems\":{\"type\":\"null\"}}",
         {"[]", "[null,null]"},
         {"[1]"}},
        {"{\"anyOf\":[{\"type\":\"array\",\"unevaluatedItems\":false},{\"type\":\"null\"}]}",
         {"[]", "null"},
         {"[1]"}},
        {"{\"type\":\"object\",\"unevaluatedProperties\":{\"type\":\"null\"}}",
         {"{}", "{\"a\":null}"},
         {"{\"a\":1}"}},
        {"{\"enum\":[\"a\",\"a\\\"b\",1,null,{\"k\":[1,2]}]}",
         {"\"a\"", "\"a\\\"b\"", "1", "null", "{\"k\":[1,2]}", "{\"k\": [1, 2]}"},
         {"\"b\"", "2", "{\"k\":[1]}", "\"\\u0061\""}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},"
         "\"additionalProperties\":{\"type\":\"boolean\"}}",
         {"{}", "{\"a\":1,\"b\":true}", "{\"aa\":true,\"\":false}"},
         {"{\"a\":true}", "{\"b\":1}", "{\"b\":true,\"a\":1}", "{\"b\":true,\"a\":true}",
          "{\"\\u0061\":true}"}},
        {"{\"type\":\"object\",\"patternProperties\":{\"^x\":{\"type\":\"integer\"}},"
         "\"additionalProperties\":false}",
         {"{}", "{\"x\":1}", "{\"xy\":1,\"x\":2}"},
         {"{\"y\":1}", "{\"x\":true}", "{\"ax\":1}"}},
        {"{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"n\":{\"anyOf\":[{\"$ref\":"
         "\"#/$defs/n\"},{\"type\":\"null\"}]}},\"required\":[\"n\"]}},\"$ref\":\"#/$defs/n\"}",
         {"{\"n\":null}", "{\"n\":{\"n\":{\"n\":null}}}"},
         {"{}", "null", "{\"n\":{\"n\":null}", "{\"n\":{}}"}},
        {"{\"type\":\"string\",\"pattern\":\"b.d\"}",
         {"\"bad\"", "\"a b\\\"d\\n\"",
          "\"b\xC3\xA9"
          "d\""},
         {"\"bd\"", "\"b\\nd\"", "\"\""}},
        {"{\"type\":\"string\",\"format\":\"date\"}",
         {"\"2024-02-29\"", "\"1999-12-31\"", "\"2000-02-29\""},
         {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-13-01\"", "\"2024-04-31\"", "\"2024-1-1\""}},
        {"{\"type\":\"string\",\"format\":\"ipv6\"}",
         {"\"::\"", "\"::1\"", "\"1:2:3:4:5:6:7:8\"", "\"fe80::1:2\"", "\"1::\""},
         {"\"1:2\"", "\":::\"", "\"1::2::3\"", "\"12345::\""}},
        /* What JSON Schema does not know says nothing: words, words inside, and formats. */
        {"{\"type\":\"object\",\"strict\":true,\"x-order\":[\"a\"],\"optional\":{\"not\":{}},"
         "\"contentSchema\":{},\"then\":{\"required\":[\"z\"]},\"$vocabulary\":{},\"properties\":{"
         "\"a\":{\"type\":\"integer\",\"format\":\"int64\",\"units\":\"m\"},\"strict\":{\"type\":"
         "\"null\",\"enumNames\":[]}},\"required\":[\"a\"]}",
         {"{\"a\":1}", "{\"a\":1,\"strict\":null}"},
         {"{}", "{\"a\":\"x\"}", "{\"a\":1,\"strict\":1}"}},
        {"{\"anyOf\":[{\"type\":\"null\",\"strict\":1},{\"$ref\":\"#/$defs/n\",\"nonsense\":[]}],"
         "\"$defs\":{\"n\":{\"type\":\"boolean\",\"meta\":{}}}}",
         {"null", "true"},
         {"1"}},
        {"{\"type\":\"string\",\"format\":\"color\",\"maxLength\":3}",
         {"\"red\"", "\"\""},
         {"\"green\"", "1"}},
        {"{\"format\":\"int32\"}", {"1", "\"a\"", "[]"}, {"red"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^x\",\"units\":1}}",
         {"{}", "{\"x\":1}"},
         {"{\"y\":1}"}},
        /* Schemas that hold together, keywords that speak about one another. */
        {"{\"prefixItems\":[{}],\"allOf\":[{\"unevaluatedItems\":false}]}", {"[]"}, {"[1]"}},
        {"{\"$defs\":{\"t\":{\"prefixItems\":[{}]}},\"$ref\":\"#/$defs/"
         "t\",\"unevaluatedItems\":false}",
         {"[]", "[1]"},
         {"[1,2]"}},
        {"{\"anyOf\":[{\"prefixItems\":[{}]}],\"unevaluatedItems\":false}",
         {"[]", "[1]"},
         {"[1,2]"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"}],\"allOf\":[{\"items\":{"
         "\"minimum\":3}}]}",
         {"[3]", "[4,5]"},
         {"[2]", "[4,2]"}},
        {"{\"allOf\":[{\"items\":[{\"type\":\"integer\"}],\"additionalItems\":false},{\"items\":{"
         "\"minimum\":3}}]}",
         {"[]", "[3]"},
         {"[2]", "[3,3]"}},
        {"{\"allOf\":[{\"properties\":{\"a\":{}},\"unevaluatedProperties\":false},{\"properties\":{"
         "\"b\":{}}}]}",
         {"{}", "{\"a\":1}"},
         {"{\"b\":1}", "{\"a\":1,\"b\":1}"}},
        {"{\"properties\":{\"a\":{}},\"allOf\":[{\"properties\":{\"b\":{}}}],"
         "\"unevaluatedProperties\":false}",
         {"{}", "{\"a\":1}", "{\"a\":1,\"b\":1}"},
         {"{\"c\":1}"}},
        {"{\"properties\":{\"a\":{}},\"anyOf\":[{\"properties\":{\"b\":{\"const\":1}},\"required\":"
         "[\"b\"]},{\"properties\":{\"c\":{\"const\":2}},\"required\":[\"c\"]}],"
         "\"unevaluatedProperties\":false}",
         {"{\"b\":1}", "{\"a\":0,\"c\":2}"},
         {"{}", "{\"a\":1}", "{\"b\":2}", "{\"b\":1,\"d\":1}", "{\"b\":1,\"c\":3}"}},
        {"{\"$ref\":\"#/$defs/"
         "o\",\"unevaluatedProperties\":false,\"$defs\":{\"o\":{\"type\":\"object\",\"properties\":"
         "{\"a\":{},\"b\":{\"type\":\"null\"}},\"additionalProperties\":true}}}",
         {"{}", "{\"a\":1}", "{\"x\":[1]}"},
         {"{\"b\":1}"}},
        {"{\"$ref\":\"#/$defs/"
         "o\",\"unevaluatedProperties\":false,\"properties\":{\"c\":{}},\"$defs\":{\"o\":{\"type\":"
         "\"object\",\"properties\":{\"a\":{},\"b\":{\"type\":\"null\"}}}}}",
         {"{}", "{\"a\":1}", "{\"c\":1,\"b\":null}", "{\"c\":1,\"a\":1}"},
         {"{\"b\":1}", "{\"d\":1}", "{\"a\":1,\"d\":1}"}},
        {"{\"type\":\"object\",\"propertyNames\":false}", {"{}"}, {"{\"a\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"ab\":{},\"x\":{}},\"propertyNames\":{"
         "\"maxLength\":1},\"additionalProperties\":{}}",
         {"{}", "{\"x\":1}", "{\"x\":1,\"y\":2}"},
         {"{\"ab\":1}", "{\"x\":1,\"cd\":2}"}},
        {"{\"type\":\"object\",\"properties\":{\"name\":{}},\"required\":[\"name\"],"
         "\"propertyNames\":{\"maxLength\":64},\"additionalProperties\":false}",
         {"{\"name\":1}"},
         {"{}", "{\"other\":1}"}},
        {"{\"allOf\":[{\"pattern\":\"a\"},{\"pattern\":\"b\"},{\"type\":\"string\",\"pattern\":"
         "\"c\"}]}",
         {"\"abc\"", "\"c-b-a\""},
         {"\"ab\"", "\"bc\"", "\"a\""}},
        {"{\"type\":\"object\",\"properties\":{\"ab\":{\"type\":\"integer\"},\"c\":{}},"
         "\"patternProperties\":{\"^a\":{\"minimum\":3},\"^d\":{\"type\":\"null\"}},\"required\":["
         "\"ab\"]}",
         {"{\"ab\":3}", "{\"ab\":3,\"c\":1,\"a\":4}", "{\"ab\":4,\"d\":null}"},
         {"{\"ab\":2}", "{\"ab\":3,\"a\":2}", "{\"ab\":3,\"ab\":4}", "{\"ab\":3,\"d\":1}",
          "{\"ab\":3,\"e\":1}"}},
        {"{\"allOf\":[{\"properties\":{\"a\":{}}},{\"patternProperties\":{\"a\":{\"type\":\"null\"}"
         "},\"additionalProperties\":{\"type\":\"integer\"}}]}",
         {"{\"a\":null}", "{\"a\":null,\"b\":1}", "{\"ba\":null}"},
         {"{\"a\":1}", "{\"b\":null}"}},
        {"{\"properties\":{\"a\":{\"type\":\"string\",\"enum\":[1]},\"b\":{\"type\":\"null\"}}}",
         {"{}", "{\"b\":null}"},
         {"{\"a\":1}", "{\"a\":\"1\"}"}},
        {"{\"allOf\":[{\"type\":\"integer\",\"minimum\":3,\"exclusiveMinimum\":true,\"id\":\"x\"},{"
         "\"minimum\":1}]}",
         {"4"},
         {"3", "2"}},
        {"{\"allOf\":[{\"type\":\"string\",\"nullable\":true},{\"type\":[\"string\",\"null\"]}]}",
         {"\"a\"", "null"},
         {"1"}},
        {"{\"allOf\":[{\"type\":\"string\",\"nullable\":true},{\"type\":\"string\"}]}",
         {"\"a\""},
         {"null"}},
        {"{\"anyOf\":[{\"minimum\":3},{\"maximum\":1}],\"oneOf\":[{\"type\":\"integer\"},{\"type\":"
         "\"string\"}],\"allOf\":[{\"anyOf\":[{\"maximum\":5},{\"minimum\":9}]}]}",
         {"4", "0", "12"},
         {"2", "7"}},
        /* What must not be, and what depends on something. */
        {"{\"properties\":{\"a\":{\"not\":{}},\"b\":{\"type\":\"null\"}}}",
         {"{}", "{\"b\":null}"},
         {"{\"a\":1}"}},
        {"{\"not\":{\"type\":\"string\"}}", {"1", "[]", "{}", "null", "true"}, {"\"a\""}},
        {"{\"type\":\"string\",\"not\":{\"enum\":[\"a\",\"b\\\"c\"]}}",
         {"\"b\"", "\"ab\"", "\"\""},
         {"\"a\"", "\"b\\\"c\""}},
        {"{\"not\":{\"enum\":[\"a\",1,null,true,{},[]]}}",
         {"\"b\"", "2", "1.5", "false", "{\"a\":1}", "[1]"},
         {"\"a\"", "1", "1.0", "null", "true", "{}", "[]"}},
        {"{\"type\":\"number\",\"not\":{\"const\":1.5}}", {"1", "1.51", "-1.5"}, {"1.5", "1.50"}},
        {"{\"type\":\"integer\",\"not\":{\"const\":0}}", {"1", "-1", "10"}, {"0"}},
        {"{\"type\":\"integer\",\"not\":{\"multipleOf\":3}}", {"1", "-2", "10"}, {"3", "0", "-12"}},
        {"{\"type\":\"string\",\"not\":{\"pattern\":\"^a\"}}",
         {"\"b\"", "\"ba\"", "\"\""},
         {"\"a\"", "\"ab\""}},
        {"{\"type\":\"integer\",\"not\":{\"minimum\":3}}", {"2", "-5"}, {"3", "4"}},
        {"{\"type\":\"number\",\"not\":{\"minimum\":3,\"exclusiveMinimum\":true}}",
         {"3", "-5"},
         {"3.5", "4"}},
        {"{\"type\":\"string\",\"not\":{\"minLength\":2}}", {"\"a\"", "\"\""}, {"\"ab\""}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
         "\"integer\"},\"c\":{\"type\":\"integer\"}},\"not\":{\"required\":[\"a\",\"b\"]}}",
         {"{}", "{\"a\":1}", "{\"b\":1,\"c\":1}"},
         {"{\"a\":1,\"b\":1}", "{\"a\":1,\"b\":1,\"c\":1}"}},
        {"{\"type\":\"object\",\"not\":{\"required\":[\"a\"]}}",
         {"{}", "{\"b\":1}"},
         {"{\"a\":1}", "{\"b\":1,\"a\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
         "\"integer\"},\"c\":{\"type\":\"integer\"}},\"not\":{\"properties\":{\"a\":{\"minimum\":3}"
         "}}}",
         {"{\"a\":2}", "{\"a\":2,\"b\":1}"},
         {"{}", "{\"a\":3}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
         "\"integer\"},\"c\":{\"type\":\"integer\"}},\"not\":{\"anyOf\":[{\"required\":[\"a\"]},{"
         "\"required\":[\"b\"]}]}}",
         {"{}", "{\"c\":1}"},
         {"{\"a\":1}", "{\"b\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
         "\"integer\"},\"c\":{\"type\":\"integer\"}},\"not\":{\"allOf\":[{\"required\":[\"a\"]},{"
         "\"not\":{\"required\":[\"b\"]}}]}}",
         {"{}", "{\"b\":1}", "{\"a\":1,\"b\":1}"},
         {"{\"a\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
         "\"integer\"},\"c\":{\"type\":\"integer\"}},\"not\":{\"$ref\":\"#/$defs/"
         "a\"},\"$defs\":{\"a\":{\"required\":[\"a\"]}}}",
         {"{\"b\":1}"},
         {"{\"a\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
         "\"integer\"},\"c\":{\"type\":\"integer\"}},\"oneOf\":[{\"required\":[\"a\"]},{"
         "\"required\":[\"b\"]}]}",
         {"{\"a\":1}", "{\"b\":1,\"c\":1}"},
         {"{}", "{\"a\":1,\"b\":1}"}},
        {"{\"oneOf\":[{\"properties\":{\"a\":{\"const\":1}}},{\"properties\":{\"a\":{\"const\":2}}}"
         "]}",
         {"{\"a\":1}", "{\"a\":2}"},
         {"{}", "{\"a\":3}"}},
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}", {"1"}, {"2", "3", "1.5"}},
        /* Only a part of the first choice is known: the second must not hold anyway. */
        {"{\"type\":\"array\",\"oneOf\":[{\"not\":{\"oneOf\":[{\"required\":[\"a\"]},{\"minItems\":"
         "1}]}},{\"required\":[\"d\"]}]}",
         {"[]"},
         {"[1]", "[1,2]"}},
        {"{\"$ref\":\"#/$defs/%41\",\"$defs\":{\"A\":{\"const\":1}}}", {"1"}, {"2"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
         "\"integer\"},\"c\":{\"type\":\"integer\"}},\"dependencies\":{\"a\":[\"b\"],\"b\":{"
         "\"properties\":{\"c\":{\"minimum\":3}},\"required\":[\"c\"]}}}",
         {"{}", "{\"c\":1}", "{\"b\":1,\"c\":3}", "{\"a\":1,\"b\":1,\"c\":4}"},
         {"{\"a\":1}", "{\"b\":1}", "{\"b\":1,\"c\":2}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
         "\"integer\"},\"c\":{\"type\":\"integer\"}},\"dependentRequired\":{\"a\":[\"b\"]},"
         "\"dependentSchemas\":{\"c\":false}}",
         {"{}", "{\"b\":1}", "{\"a\":1,\"b\":1}"},
         {"{\"a\":1}", "{\"c\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
         "\"integer\"},\"c\":{\"type\":\"integer\"}},\"if\":{\"required\":[\"a\"]},\"then\":{"
         "\"required\":[\"b\"]},\"else\":{\"required\":[\"c\"]}}",
         {"{\"a\":1,\"b\":1}", "{\"c\":1}"},
         {"{}", "{\"a\":1}", "{\"b\":1}"}},
        {"{\"type\":\"array\",\"items\":{\"if\":{}}}", {"[1,\"a\"]"}, {"{}"}},
        {"{\"enum\":[\"a\",\"bb\",3,{\"k\":1},[1]],\"minLength\":2,\"minimum\":4,\"required\":["
         "\"x\"],\"maxItems\":0}",
         {"\"bb\""},
         {"\"a\"", "3", "{\"k\":1}", "[1]"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[\"x\",\"y\"]}},\"required\":[\"a\"]"
         ",\"not\":{\"properties\":{\"a\":{\"const\":\"x\"}}}}",
         {"{\"a\":\"y\"}"},
         {"{\"a\":\"x\"}"}},
        {"{\"type\":\"string\",\"format\":\"uri-reference\"}",
         {"\"a/b.json\"", "\"../x\"", "\"#/definitions/a\"", "\"https://e.org/x?y#z\""},
         {"\"a b\"", "\"<\"", "\"\\n\""}},
        {"{\"type\":\"string\",\"format\":\"uri\"}",
         {"\"file:///a/b\"", "\"urn:isbn:1\"", "\"https://e.org:80/%20\""},
         {"\"a\"", "\"/a\"", "\"https://a b\""}},
        {"{\"type\":\"string\",\"format\":\"json-pointer\"}",
         {"\"\"", "\"/a~1b/0\""},
         {"\"a\"", "\"/~\"", "\"/~2\""}},
        {"{\"type\":\"string\",\"format\":\"relative-json-pointer\"}",
         {"\"0#\"", "\"1/a\""},
         {"\"01\"", "\"/a\""}},
        {"{\"type\":\"string\",\"format\":\"regex\"}",
         {"\"^[a-zA-Z0-9_]{3,16}$\"", "\"(a|b)+\\\\.c\"", "\"\\\\d{2}|^x?$\"", "\"\""},
         {"1", "\"*\"", "\"\\\\\"", "\"(\"", "\"a{2,1}\"", "\"[z-a]\"", "\"a**\""}},
        {"{\"type\":\"array\",\"items\":[{\"type\":\"string\",\"maxLength\":20},{\"type\":"
         "\"string\",\"maxLength\":20},{\"type\":\"string\",\"minLength\":1,\"maxLength\":20}]}",
         {"[\"01234567890123456789\",\"\",\"a\"]"},
         {"[\"012345678901234567890\"]", "[\"\",\"\",\"\"]"}},
        {"{\"type\":\"string\",\"pattern\":\"^a*$\",\"maxLength\":65535}",
         {"\"\"", "\"aaa\""},
         {"\"b\""}},
        {"{\"type\":\"string\",\"pattern\":\"^([ab]{2,4}|\\\\n)$\",\"minLength\":1,"
         "\"maxLength\":4}",
         {"\"ab\"", "\"abab\"", "\"\\n\""},
         {"\"a\"", "\"ababa\"", "\"\""}},
        {"{\"type\":\"string\",\"pattern\":\"^[ab]{2,4}$\",\"maxLength\":3}",
         {"\"ab\"", "\"aba\""},
         {"\"abab\""}},
        {"{\"type\":\"string\",\"pattern\":\"^(a|b{2,4})$\",\"minLength\":2,\"maxLength\":9}",
         {"\"bb\""},
         {"\"a\""}},
        {"{\"type\":\"string\",\"pattern\":\"^a+$\",\"minLength\":1,\"maxLength\":2}",
         {"\"a\"", "\"aa\""},
         {"\"aaa\""}},
        {"{\"type\":\"string\",\"format\":\"uri\",\"enum\":[\"http://a.b\",\"odd:x\"]}",
         {"\"http://a.b\"", "\"odd:x\""},
         {"\"odd:y\""}},
        {"{\"type\":\"string\",\"format\":\"uri\",\"maxLength\":4,\"enum\":[\"o:x\",\"odd:x\"]}",
         {"\"o:x\""},
         {"\"odd:x\""}},
        {"{\"allOf\":[{\"patternProperties\":{\"^a\":{\"type\":\"integer\"}}},{\"properties\":{"
         "\"ab\":"
         "{},\"c\":{}},\"additionalProperties\":false}]}",
         {"{\"ab\":1}", "{\"c\":\"x\"}", "{\"ab\":1,\"c\":null}"},
         {"{\"ab\":\"x\"}", "{\"ac\":1}", "{\"d\":1}"}},
        {"{\"allOf\":[{\"properties\":{\"ab\":{},\"c\":{}},\"additionalProperties\":false},"
         "{\"patternProperties\":{\"^a\":{\"type\":\"integer\"},\"^c\":false}}]}",
         {"{\"ab\":1}", "{}"},
         {"{\"ab\":\"x\"}", "{\"ac\":1}", "{\"c\":1}"}},
        {"{\"allOf\":[{\"type\":\"object\",\"patternProperties\":{\"^a\":{\"type\":\"integer\"}}},"
         "{\"patternProperties\":{\"^ab\":{\"type\":\"string\"},\"^b\":{}},"
         "\"additionalProperties\":false}]}",
         {"{}", "{\"b\":1}"},
         {"{\"abc\":\"x\"}", "{\"abc\":1}", "{\"a\":1}"}},
        {"{\"type\":\"string\",\"format\":\"email\"}",
         {"\"a.b@c.de\"", "\"x@y.example.org\""},
         {"\"a\"", "\"a@b\"", "\"@b.c\"", "\"a..b@c.de\""}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        whim_diag diag = {{0}};
        whim_grammar *g = fixture_schema(rows[i].schema, &diag);
        if (g == NULL) {
            fail_msg("%s: %s", rows[i].schema, diag.text);
        }
        for (int k = 0; k < 6 && rows[i].good[k] != NULL; k++) {
            if (!fixture_takes(g, rows[i].good[k])) {
                fail_msg("%s does not take %s", rows[i].schema, rows[i].good[k]);
            }
        }
        for (int k = 0; k < 9 && rows[i].bad[k] != NULL; k++) {
            if (fixture_takes(g, rows[i].bad[k])) {
                fail_msg("%s takes %s", rows[i].schema, rows[i].bad[k]);
            }
        }
        whim_grammar_unref(g);
    }
}

static void what_is_refused_has_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *message;
    } rows[] = {
        {"false", "schema allows no value"},
        {"3", "schema must be a schema"},
        {"{\"anyOf\":[{\"type\":\"strin\"}]}", "schema.anyOf[0] has an unknown type"},
        {"{\"type\":\"array\",\"uniqueItems\":true}", "schema.uniqueItems"},
        {"{\"type\":\"array\",\"minItems\":3,\"maxItems\":2}", "schema.minItems"},
        {"{\"type\":\"array\",\"minItems\":-1}", "schema.minItems must be"},
        {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", "schema.minLength"},
        {"{\"type\":\"string\",\"pattern\":\"(\"}", "schema.pattern: at character 2"},
        {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "no whole number is between"},
        {"{\"type\":\"integer\",\"minimum\":0.2,\"maximum\":0.8}", "no whole number is between"},
        {"{\"type\":\"number\",\"minimum\":3,\"maximum\":2}", "has bounds that no number"},
        {"{\"type\":\"number\",\"exclusiveMinimum\":2,\"maximum\":2}", "no answer"},
        {"{\"type\":\"number\",\"multipleOf\":0.3}", "multipleOf"},
        {"{\"type\":\"string\",\"pattern\":\"^abc$\",\"maxLength\":2}", "no answer"},
        {"{\"enum\":[]}", "enum"},
        {"{\"enum\":[1,{\"a\":1.7976931348623155e308}]}", "expected a finite number"},
        {"{\"const\":1.7976931348623155e308}", "too large for a double"},
        {"{\"type\":\"object\",\"required\":[\"a\"],\"unevaluatedProperties\":false}",
         "schema.required"},
        {"{\"not\":{\"additionalProperties\":false}}",
         "schema.not: the opposite of additionalProperties"},
        {"{\"type\":\"array\",\"not\":{\"const\":[1]}}", "schema must not be an object or array"},
        {"{\"not\":{\"not\":{\"properties\":{\"a\":{}}}},\"unevaluatedProperties\":false}",
         "unevaluatedProperties of schemas that hold together is not supported beside not"},
        {"{\"oneOf\":[{\"format\":\"int32\"},{\"type\":\"integer\"}]}",
         "schema.oneOf[1].not: the opposite of format"},
        {"{\"not\":{\"pattern\":5}}", "pattern must be a text"},
        {"{\"type\":\"string\",\"allOf\":[{\"pattern\":\"a\"},{\"pattern\":5}]}",
         "pattern must be a text"},
        {"{\"$ref\":\"#/%a\"}", "#/%a"},
        {"{\"dependencies\":3}", "schema.dependencies must be"},
        {"{\"not\":{}}", "schema has schemas that hold together, and not"},
        {"{\"strict\":true,\"$dynamicRef\":\"#a\"}", "schema.$dynamicRef"},
        {"{\"items\":{\"maximum\":9},\"uniqueItems\":true}", "schema.uniqueItems"},
        {"{\"items\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":12},\"uniqueItems\":true}",
         "schema.uniqueItems"},
        {"{\"items\":{\"enum\":[1,2]},\"uniqueItems\":true,\"minItems\":3}", "schema.minItems"},
        {"{\"items\":{\"enum\":[1,2]},\"uniqueItems\":true,\"contains\":{\"const\":1}}",
         "schema.uniqueItems is not supported beside contains"},
        {"{\"items\":{\"minimum\":1},\"uniqueItems\":true}", "up to 64 values"},
        {"{\"not\":{\"contains\":{},\"maxContains\":\"x\"}}", "schema.not.maxContains must be"},
        {"{\"not\":{\"contains\":{},\"minContains\":-1}}", "schema.not.minContains must be"},
        {"{\"not\":{\"contains\":5}}", "schema.not.contains must be a schema"},
        {"{\"contains\":5,\"minContains\":0}", "schema.contains must be a schema"},
        {"{\"if\":5}", "schema.if must be a schema"},
        {"{\"uniqueItems\":\"true\"}", "schema.uniqueItems must be true or false"},
        {"{\"items\":{\"patternProperties\":[\"a\"]}}",
         "schema.items.patternProperties must be an object"},
        {"{\"type\":\"object\",\"unevaluatedProperties\":0}",
         "schema.unevaluatedProperties must be a schema"},
        {"{\"prefixItems\":[{},{\"type\":5}],\"contains\":{}}", "schema.contains has a type"},
        {"{\"contains\":{},\"minItems\":3000}", "schema.contains"},
        {"{\"contains\":{},\"minContains\":0.5}", "schema.minContains"},
        {"{\"contains\":{},\"minContains\":3,\"maxContains\":2}", "schema.minContains"},
        {"{\"contains\":{\"type\":\"null\"},\"unevaluatedItems\":false}", "unevaluatedItems"},
        {"{\"contains\":{},\"allOf\":[{\"contains\":{\"const\":1}}]}", "contains of schemas"},
        {"{\"contains\":{},\"allOf\":[{\"minContains\":0,\"contains\":{}}]}",
         "contains of schemas"},
        {"{\"type\":\"string\",\"enum\":[1]}", "allows no value"},
        {"{\"type\":\"array\",\"not\":{\"type\":\"array\",\"prefixItems\":[{\"const\":1}]}}",
         "(perhaps because the opposite of prefixItems is not supported)"},
        {"{\"$ref\":\"#/$defs/x\"}", "schema.$ref must point inside"},
        {"{\"$ref\":\"other.json\"}", "other.json"},
        {"{\"$ref\":\"#\"}", "no answer"},
        {"{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", "refers to itself"},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
         "no answer"},
        {"{\"type\":\"object\",\"properties\":{},\"required\":[\"a\"],\"additionalProperties\":"
         "false}",
         "schema.required"},
        {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"maxProperties\":1}",
         "schema.maxProperties"},
        {"{\"type\":\"object\",\"additionalProperties\":true,\"minProperties\":2}",
         "schema.minProperties"},
        {"{\"allOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}", "leave no type"},
        {"{\"allOf\":[]}", "schema.allOf"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        whim_diag diag = {{0}};
        whim_grammar *g = fixture_schema(rows[i].schema, &diag);
        if (g != NULL || strstr(diag.text, rows[i].message) == NULL) {
            fail_msg("%s: %s", rows[i].schema, g != NULL ? "taken" : diag.text);
        }
    }
}

/* Refused, with a word of the reason, by a limit of size or of time. */
static void refused_by_a_limit(json_t *schema, const char *word)
{
    whim_diag diag = {{0}};
    assert_non_null(schema);
    whim_grammar *g = fixture_schema_json(schema, &diag);
    /* A slow machine may meet the limit of time first. */
    if (g != NULL ||
        (strstr(diag.text, word) == NULL && strstr(diag.text, "longer than") == NULL)) {
        fail_msg("%s: %s", word, g != NULL ? "taken" : diag.text);
    }
    json_decref(schema);
}

static void large_schemas_meet_a_limit(void **state)
{
    (void)state;
    json_t *values = json_array(), *deep = json_pack("{s:s}", "type", "null");
    for (int i = 0; i < 500000; i++) {
        char text[32];
        snprintf(text, sizeof text, "value number %07d", i);
        json_array_append_new(values, json_string(text));
    }
    refused_by_a_limit(json_pack("{s:o}", "enum", values), "too large");
    for (int i = 0; i < 200; i++) {
        deep = json_pack("{s:s,s:o}", "type", "array", "items", deep);
    }
    refused_by_a_limit(deep, "nested more than 64");
    refused_by_a_limit(json_pack("{s:s,s:I}", "type", "string", "minLength", (json_int_t)INT64_MAX),
                       "too large");
    refused_by_a_limit(json_pack("{s:s,s:s,s:I}", "type", "string", "pattern", "^a*$", "minLength",
                                 (json_int_t)1000000),
                       "too large");
    refused_by_a_limit(json_pack("{s:{s:I},s:I}", "items", "minLength", (json_int_t)5, "minItems",
                                 (json_int_t)100000000),
                       "too large");
    refused_by_a_limit(json_pack("{s:s,s:s}", "type", "string", "pattern", "(a|b)*a(a|b){40}"),
                       "too large");
    /* Twice the one before, many times: written once each, it is small. */
    json_t *defs = json_object();
    for (int i = 0; i < 60; i++) {
        char name[16], ref[32];
        snprintf(name, sizeof name, "d%d", i);
        snprintf(ref, sizeof ref, "#/$defs/d%d", i + 1);
        json_object_set_new(defs, name,
                            i == 59 ? json_pack("{s:s}", "type", "null")
                                    : json_pack("{s:[{s:s},{s:s}],s:I}", "prefixItems", "$ref", ref,
                                                "$ref", ref, "minItems", (json_int_t)2));
    }
    json_t *schema = json_pack("{s:s,s:o}", "$ref", "#/$defs/d0", "$defs", defs);
    whim_diag diag = {{0}};
    whim_grammar *g = fixture_schema_json(schema, &diag);
    assert_non_null(g);
    whim_grammar_unref(g);
    json_decref(schema);
}

/* Different items of a schema whose references double 24 times: that there are too many values, or
 * too much to look at, is said before the time is over. */
static void values_that_double_are_refused(void **state)
{
    static const char *const ends[] = {"{\"const\":1}", "{\"enum\":[]}"};
    (void)state;
    for (int e = 0; e < 2; e++) {
        json_t *defs = json_object();
        for (int i = 0; i < 24; i++) {
            char name[16], ref[32];
            snprintf(name, sizeof name, "a%d", i);
            snprintf(ref, sizeof ref, "#/$defs/a%d", i + 1);
            json_object_set_new(defs, name,
                                json_pack("{s:[{s:s},{s:s}]}", "anyOf", "$ref", ref, "$ref", ref));
        }
        json_object_set_new(defs, "a24", json_loads(ends[e], 0, NULL));
        json_t *schema = json_pack("{s:s,s:b,s:{s:s},s:o}", "type", "array", "uniqueItems", 1,
                                   "items", "$ref", "#/$defs/a0", "$defs", defs);
        whim_diag diag = {{0}};
        assert_null(fixture_schema_json(schema, &diag));
        assert_non_null(strstr(diag.text, "schema.uniqueItems is supported for items of up to"));
        json_decref(schema);
    }
}

static void limits_are_the_callers(void **state)
{
    (void)state;
    whim_grammar_builder *b;
    whim_diag diag = {{0}};
    json_t *schema = json_pack("{s:s,s:s}", "type", "string", "pattern", "^(ab){100}$");
    whim_grammar_limits limits = {.max_nodes = 200};
    assert_int_equal(whim_grammar_builder_create(&limits, &b), WHIM_ERR_OK);
    assert_null(fixture_build(b, whim_grammar_schema(b, schema, "s"), &diag));
    assert_non_null(strstr(diag.text, "too large"));
    limits = (whim_grammar_limits){.max_ns = 1};
    assert_int_equal(whim_grammar_builder_create(&limits, &b), WHIM_ERR_OK);
    assert_null(fixture_build(b, whim_grammar_schema(b, schema, "s"), &diag));
    assert_non_null(strstr(diag.text, "longer than"));
    json_decref(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schemas_take_their_texts),
        cmocka_unit_test(what_is_refused_has_its_place),
        cmocka_unit_test(large_schemas_meet_a_limit),
        cmocka_unit_test(values_that_double_are_refused),
        cmocka_unit_test(limits_are_the_callers),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}

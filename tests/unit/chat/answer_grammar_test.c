/* SPDX-License-Identifier: Apache-2.0 */
/* The grammars of answers: for each rule, answers that it allows and answers that it does not, and
 * that what a grammar allows is what the parser reads as calls. */
#include "unit/text/text_fixture.h"

#include "base/heap/faults.h"
#include "base/json.h"
#include "chat/format.h"
#include "support/chat_events.h"

#include <stdlib.h>

enum { END_ID = 200 };

typedef struct bench {
    whim_tokenizer *tok;
    whim_grammar_vocab *vocab;
    json_t *tools, *strict, *mixed, *schema;
} bench;

#define WIDE_BAR "｜" /* that some models' tags have */

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": %s, \"parameters\": "
    "{\"type\": "
    "\"object\", \"properties\": {\"s\": {\"type\": \"string\"}, \"i\": {\"$ref\": \"#/$defs/n\"}, "
    "\"u\": "
    "{\"enum\": [\"C\", \"F\"]}}, \"required\": [\"s\"], \"additionalProperties\": false, "
    "\"$defs\": {\"n\": "
    "{\"type\": \"integer\"}}}}}, {\"type\": \"function\", \"function\": {\"name\": \"g\"}}]";

static json_t *make_tools(const char *strict)
{
    char text[sizeof tools_text + 16];
    snprintf(text, sizeof text, tools_text, strict);
    return json_loads(text, 0, NULL);
}

static int setup(void **state)
{
    static bench b;
    whim_json_count_memory();
    json_t *vocab = json_object();
    whim_diag diag = {{0}};
    json_object_set_new(vocab, "<unk>", json_integer(0));
    json_object_set_new(vocab, "\n", json_integer(1));
    json_object_set_new(vocab, WIDE_BAR, json_integer(2));
    for (char c = ' '; c <= '~'; c++) {
        json_object_set_new(vocab, (char[]){c, '\0'}, json_integer(c));
    }
    json_t *file =
        json_pack("{s:[{s:i, s:s, s:b, s:b}], s:{s:s, s:s, s:o, s:[]}}", "added_tokens", "id",
                  END_ID, "content", "<|im_end|>", "special", 1, "normalized", 0, "model", "type",
                  "BPE", "unk_token", "<unk>", "vocab", vocab, "merges");
    char *text = json_dumps(file, 0);
    int32_t end = END_ID;
    int failed = open_text(text, (int64_t)strlen(text), &b.tok, &diag) != WHIM_ERR_OK ||
                 whim_grammar_vocab_create(b.tok, &end, 1, &b.vocab) != WHIM_ERR_OK;
    free(text);
    json_decref(file);
    b.tools = make_tools("false");
    b.strict = make_tools("true");
    b.mixed = json_loads(
        "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"m\": "
        "{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"integer\", \"minimum\": 9}]}}}}}, "
        "{\"function\": {\"name\": \"g\"}}]",
        0, NULL);
    b.schema =
        json_loads("{\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"integer\"}}, "
                   "\"required\": [\"n\"], \"additionalProperties\": false}",
                   0, NULL);
    *state = &b;
    return failed || b.tools == NULL || b.mixed == NULL || b.schema == NULL;
}

static int teardown(void **state)
{
    bench *b = *state;
    whim_grammar_vocab_destroy(b->vocab);
    whim_tokenizer_close(b->tok);
    json_decref(b->tools);
    json_decref(b->strict);
    json_decref(b->mixed);
    json_decref(b->schema);
    return 0;
}

/* Whether the rule allows exactly this answer. */
static bool allows(const bench *b, const whim_answer_rule *rule, const char *text)
{
    whim_grammar *g;
    whim_grammar_state *s;
    whim_diag diag = {{0}};
    if (whim_answer_grammar(rule, &g, &diag) != WHIM_ERR_OK || g == NULL) {
        fail_msg("no grammar: %s", diag.text);
    }
    assert_int_equal(whim_grammar_state_create(g, b->vocab, &s), WHIM_ERR_OK);
    bool ok = true;
    for (const char *c = text; ok && *c != '\0'; c++) {
        bool wide = strncmp(c, WIDE_BAR, strlen(WIDE_BAR)) == 0;
        ok = whim_grammar_accept(s, *c == '\n' ? 1 : wide ? 2 : *c);
        c += wide ? strlen(WIDE_BAR) - 1 : 0;
    }
    ok = ok && whim_grammar_may_end(s);
    whim_grammar_state_destroy(s);
    whim_grammar_unref(g);
    return ok;
}

static void check(const bench *b, const whim_answer_rule *rule, const char *const *good,
                  const char *const *bad)
{
    for (; *good != NULL; good++) {
        if (!allows(b, rule, *good)) {
            fail_msg("not allowed: %s", *good);
        }
        whim_chat_parser_cfg cfg = {.format = rule->format,
                                    .starts_named = rule->starts_named,
                                    .starts_inside = rule->starts_inside,
                                    .parse_tools = rule->tools != NULL,
                                    .tools = rule->tools};
        chat_log log;
        cfg.format.reasons = true;
        assert_true(chat_log_parse(&log, &cfg, *good, (int64_t)strlen(*good), NULL, 0));
        /* Every call that was allowed is read as a whole one. */
        bool is_call = strstr(*good, "call>") != NULL || strstr(*good, "[TOOL_CALLS]") != NULL ||
                       strncmp(*good, "{\"name\"", 7) == 0 || strstr(*good, "<function=") != NULL ||
                       strstr(*good, " to=functions.") != NULL || strstr(*good, "calls>") != NULL ||
                       strstr(*good, "_section_") != NULL || strstr(*good, "g\n{") != NULL ||
                       strstr(*good, "f\n{") != NULL;
        if (log.wrong || log.open || is_call != (log.n_call > 0)) {
            fail_msg("%s is read as %s", *good, whim_str_text(&log.text));
        }
        chat_log_deinit(&log);
    }
    for (; *bad != NULL; bad++) {
        if (allows(b, rule, *bad)) {
            fail_msg("allowed: %s", *bad);
        }
    }
}

#define HERMES .format = {.tools = whim_tool_words_usual()}
#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define F(args) "<tool_call>\n{\"name\": \"f\", \"arguments\": " args "}\n</tool_call>"
#define G(args) "<tool_call>\n{\"name\": \"g\", \"arguments\": " args "}\n</tool_call>"

static void forced_hermes_calls(void **state)
{
    const bench *b = *state;
    whim_answer_rule rule = {HERMES, .tools = b->tools, .choice = WHIM_CHOICE_REQUIRED,
                             .tool_schema = "function.parameters"};
    check(b, &rule,
          LIST(F("{\"s\": \"x\"}"), F("{\"s\": \"\", \"i\": -5, \"u\": \"C\"}"), G("{}"),
               G("{\"a\": [1]}"), F("{\"s\": \"x\"}") "\n" G("{}")),
          LIST("", "hi", F("{}"), F("{\"s\": 5}"), F("{\"s\": \"x\", \"z\": 1}"), G("[]"),
               G("{}") "x", "<tool_call>\n{\"name\": \"h\", \"arguments\": {}}\n</tool_call>",
               "<think>a</think>\n\n" G("{}")));
    rule.one_call = true;
    check(b, &rule, LIST(G("{}")), LIST(G("{}") "\n" G("{}")));
    rule.one_call = false;
    rule.tool_name = "g";
    check(b, &rule, LIST(G("{}")), LIST(F("{\"s\": \"x\"}"), G("{}") "\n" G("{}")));
    rule.may_reason = true;
    check(b, &rule, LIST(G("{}"), "<think>\n<tool_call\n</think>\n\n" G("{}")),
          LIST("<think>x" G("{}"), "x</think>" G("{}"),
               /* the parser would take the reasoning's tag for the call */
               "<think>\n<tool_call>\n</think>\n\n" G("{}")));
    rule.starts_inside = true;
    check(b, &rule, LIST("x</think>" G("{}"), "\nx\n</think>\n\n" G("{}")), LIST(G("{}"), "x"));
}

/* The other forms whose arguments are JSON. */
static void forced_calls_in_other_words(void **state)
{
    const bench *b = *state;
    whim_answer_rule rule = {.format = {.tools = whim_tool_words_named("llama3")},
                             .tools = b->tools,
                             .choice = WHIM_CHOICE_REQUIRED,
                             .tool_schema = "function.parameters"};
#define L(name, args) "{\"name\": \"" name "\", \"parameters\": " args "}"
    check(b, &rule, LIST(L("g", "{}"), L("f", "{\"s\": \"x\"}") "; " L("g", "{}")),
          LIST("", "hi", L("f", "{}"), L("h", "{}"), L("g", "{}") L("g", "{}")));
    rule.format.one_call = true; /* what the template cannot print later is not asked for */
    check(b, &rule, LIST(L("g", "{}")), LIST(L("g", "{}") "; " L("g", "{}")));
    rule.tools = b->strict;
    rule.choice = WHIM_CHOICE_AUTO;
    check(b, &rule, LIST("", "hi {1}", "a\nb", L("f", "{\"s\": \"x\"}")),
          LIST("{1}", L("f", "{}"), " {", "<|python_tag|>" L("f", "{}"), "<think>x</think>",
               "hi <|python_tag|>" L("f", "{}")));
    rule = (whim_answer_rule){.format = {.tools = whim_tool_words_named("calls-list")},
                              .tools = b->tools,
                              .choice = WHIM_CHOICE_REQUIRED,
                              .tool_schema = "function.parameters"};
    check(b, &rule,
          LIST("[TOOL_CALLS][{\"name\": \"g\", \"arguments\": {}}]",
               "[TOOL_CALLS][{\"name\": \"g\", \"arguments\": {}}, {\"name\": \"f\", "
               "\"arguments\": {\"s\": \"x\"}}]"),
          LIST("[TOOL_CALLS][]", "[{\"name\": \"g\", \"arguments\": {}}]",
               "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}]"));
    rule.format.tools = whim_tool_words_named("calls-args");
    check(b, &rule,
          LIST("[TOOL_CALLS]g[ARGS]{}", "[TOOL_CALLS]g[ARGS]{}[TOOL_CALLS]f[ARGS]{\"s\": \"\"}"),
          LIST("[TOOL_CALLS]f[ARGS]{}", "[TOOL_CALLS]h[ARGS]{}", "g[ARGS]{}"));
    rule.choice = WHIM_CHOICE_AUTO;
    rule.one_call = true;
    check(b, &rule, LIST("so [TOOL_CALLS]g[ARGS]{}", "a [TOOL"),
          LIST("[TOOL_CALLS]", "[TOOL_CALLS]g[ARGS]{}[TOOL_CALLS]g[ARGS]{}"));
    rule.format.tools = whim_tool_words_named("functionary");
    check(b, &rule, LIST("so <function=g>{}</function>"), LIST("<function=g>{}"));
#undef L
    json_t *odd = json_loads("[{\"function\": {\"name\": \"a[b\"}}]", 0, NULL);
    whim_grammar *g = NULL;
    whim_diag diag = {{0}};
    rule.tools = odd; /* the parser would not find the end of such a name */
    assert_int_equal(whim_answer_grammar(&rule, &g, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "a[b"));
    json_decref(odd);
}

/* Arguments that are nearly JSON. */
static void forced_calls_with_marks(void **state)
{
#define M(name, args) "<|tool_call>call:" name args "<tool_call|>"
#define T(text) "<|\"|>" text "<|\"|>"
    static const char nested[] =
        "[{\"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\", \"properties\": "
        "{\"l\": {\"type\": \"array\", \"items\": {\"type\": [\"integer\", \"null\"], "
        "\"maximum\": 9}, "
        "\"minItems\": 1, \"maxItems\": 2}, \"o\": {\"type\": \"object\", \"properties\": {\"a "
        "b\": "
        "{\"type\": \"string\", \"maxLength\": 2}}, \"required\": [\"a b\"]}, \"x\": "
        "{\"oneOf\": [{\"type\": \"boolean\"}, {\"$ref\": \"#/$defs/s\"}]}, \"any\": {}}, "
        "\"required\": [\"l\"], \"$defs\": {\"s\": {\"type\": \"string\"}}}}}]";
    static const char *const refused[][2] = {
        {"{\"type\": \"array\", \"uniqueItems\": true}", "k.uniqueItems"},
        {"{\"type\": \"object\", \"minProperties\": 1}", "k.minProperties"},
        {"{\"not\": {}}", "k.not"},
        {"{\"oneOf\": [{\"type\": \"string\"}, {\"type\": \"string\"}]}", "k.oneOf"},
        {"{\"minimum\": 3}", "k.minimum"},
        {"{\"enum\": [[1]]}", "k.enum"},
        {"{\"$ref\": \"#/properties/k\"}", "k"},
        {"{\"type\": \"array\", \"items\": {\"$ref\": \"#/properties/k\"}}", "deeper"},
    };
    const bench *b = *state;
    whim_answer_rule rule = {.format = {.tools = whim_tool_words_named("marked")},
                             .tools = b->tools,
                             .choice = WHIM_CHOICE_REQUIRED,
                             .tool_schema = "function.parameters"};
    check(b, &rule,
          LIST(M("f", "{s:" T("a\n\"<|") "}"), M("f", "{s:" T("") ",i:5,u:" T("F") "}"),
               M("g", "{}") M("g", "{k:[1,{a:" T("x") "}],l:null}")),
          LIST(M("f", "{}"), M("f", "{i:5}"), M("f", "{s:5}"), M("f", "{s:\"a\"}"),
               M("f", "{s:" T("x") ",u:" T("X") "}"), M("f", "{s:" T("x") ",z:1}"), M("h", "{}"),
               M("g", "{k:word}"), "<|tool_call>call:g{}"));
    json_t *tools = json_loads(nested, 0, NULL);
    rule.tools = tools;
    check(b, &rule,
          LIST(M("f", "{l:[1]}"), M("f", "{l:[null,9],o:{a b:" T("ab") "},x:true,any:[" T("") "]}"),
               M("f", "{l:[0],x:" T("true") "}")),
          LIST(M("f", "{l:[]}"), M("f", "{l:[1,2,3]}"), M("f", "{l:[10]}"), M("f", "{l:[1.5]}"),
               M("f", "{l:[1],o:{}}"), M("f", "{l:[1],o:{a b:" T("abc") "}}"),
               M("f", "{l:[1],x:1}")));
    json_decref(tools);
    rule.tools = b->strict;
    rule.choice = WHIM_CHOICE_AUTO;
    check(b, &rule, LIST("", "hi {1} <|\"|>", "so " M("f", "{s:" T("x") "}") M("g", "{any:1}")),
          LIST(M("f", "{}"), "so <|tool_call>call:h"));
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        whim_diag diag = {{0}};
        whim_grammar *g = NULL;
        json_t *odd =
            json_pack("[{s:{s:s, s:b, s:{s:{s:o}}}}]", "function", "name", "f", "strict", 1,
                      "parameters", "properties", "k", json_loads(refused[i][0], 0, NULL));
        rule.tools = odd;
        assert_int_equal(whim_answer_grammar(&rule, &g, &diag), WHIM_ERR_INVALID);
        if (strstr(diag.text, refused[i][1]) == NULL) {
            fail_msg("%s: %s", refused[i][0], diag.text);
        }
        json_decref(odd);
    }
#undef M
#undef T
}

#define XF(inner) "<tool_call>\n<function=f>\n" inner "</function>\n</tool_call>"
#define XG(inner) "<tool_call>\n<function=g>\n" inner "</function>\n</tool_call>"
#define P(key, value) "<parameter=" key ">\n" value "\n</parameter>\n"

#define PAIRS(name, inner) "<tool_call>" name "\n" inner "</tool_call>"
#define PAIR(key, value) "<arg_key>" key "</arg_key>\n<arg_value>" value "</arg_value>\n"

static void forced_calls_with_tags(void **state)
{
    const bench *b = *state;
    whim_answer_rule rule = {.format = {.tools = whim_tool_words_named("xml")},
                             .tools = b->tools,
                             .choice = WHIM_CHOICE_REQUIRED};
    check(b, &rule,
          LIST(XF(P("s", "a\n\"<b>")), XF(P("s", "") P("i", "5") P("u", "F")), XG(""),
               XG(P("any_key", "text") P("k", "")), XF(P("s", "x")) "\n" XG("")),
          LIST(XF(""), XF(P("i", "5")), XF(P("s", "x") P("i", "a")), XF(P("s", "x") P("u", "X")),
               XF(P("s", "x") P("z", "1")), XG("junk")));
    rule.format.tools = whim_tool_words_named("invoke");
    check(
        b, &rule,
        LIST("<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">Oslo\n</parameter>\n"
             "<parameter name=\"i\">2</parameter>\n</invoke>\n<invoke name=\"g\">\n</invoke>\n"
             "</minimax:tool_call>"),
        LIST("<minimax:tool_call>\n</minimax:tool_call>",
             "<minimax:tool_call>\n<invoke name=\"f\">\n</invoke>\n</minimax:tool_call>"));
    rule.format.tools = whim_tool_words_named("dsml");
#define DSML(inner) "<｜DSML｜tool_calls>\n" inner "</｜DSML｜tool_calls>"
#define OF(name, inner) "<｜DSML｜invoke name=\"" name "\">\n" inner "</｜DSML｜invoke>\n"
#define ARG(key, string, value) \
    "<｜DSML｜parameter name=\"" key "\" string=\"" string "\">" value "</｜DSML｜parameter>\n"
    check(b, &rule,
          LIST(DSML(OF("f", ARG("s", "true", "a\n<b>") ARG("i", "false", "2")) OF("g", "")),
               DSML(OF("g", ARG("k", "true", "x") ARG("l", "false", "[1]")))),
          LIST(DSML(""), DSML(OF("f", "")), DSML(OF("f", ARG("s", "false", "\"a\""))),
               DSML(OF("f", ARG("s", "true", "a") ARG("i", "true", "2"))),
               DSML(OF("f", ARG("s", "true", "a") ARG("i", "false", "x")))));
    rule.format.tools = whim_tool_words_named("sections");
#define SECTION(inner) "<|tool_calls_section_begin|>" inner "<|tool_calls_section_end|>"
#define NUMBERED(name, args) \
    "<|tool_call_begin|>functions." name ":0<|tool_call_argument_begin|>" args "<|tool_call_end|>"
    check(b, &rule,
          LIST(SECTION(NUMBERED("g", "{}")),
               SECTION(NUMBERED("f", "{\"s\": \"\"}") NUMBERED("g", "{}"))),
          LIST(SECTION(""), SECTION(NUMBERED("f", "{}")), NUMBERED("g", "{}")));
    rule.format.tools = whim_tool_words_named("pairs");
    check(b, &rule,
          LIST(PAIRS("f", PAIR("s", "a\n<b>") PAIR("i", "2")), PAIRS("g", ""),
               PAIRS("g", PAIR("k", "")) "\n" PAIRS("f", PAIR("s", ""))),
          LIST("", "hi", PAIRS("f", ""), PAIRS("f", PAIR("i", "2")), PAIRS("h", ""),
               PAIRS("f", PAIR("s", "") PAIR("i", "x"))));
    rule.format.tools = whim_tool_words_named("hy3-preview");
#define HY(name, inner) "<tool_call>" name "<tool_sep>\n" inner "</tool_call>\n"
    check(b, &rule, LIST("<tool_calls>\n" HY("f", PAIR("s", "a")) HY("g", "") "</tool_calls>"),
          LIST("<tool_calls>\n</tool_calls>", HY("g", ""),
               "<tool_calls>\n" HY("f", "") "</tool_calls>"));
    rule.format.tools = whim_tool_words_named("pairs-tight");
    check(b, &rule,
          LIST("<tool_call>f<arg_key>s</arg_key><arg_value>x</arg_value></tool_call>",
               "<tool_call>g</tool_call><tool_call>g</tool_call>"),
          LIST("<tool_call>f</tool_call>", PAIRS("g", "")));
    rule.choice = WHIM_CHOICE_AUTO;
    rule.tools = b->strict;
    check(b, &rule,
          LIST("so <tool_call>f<arg_key>s</arg_key><arg_value>x</arg_value></tool_call>", "a<tool"),
          LIST("<tool_call>", "<tool_call>f</tool_call>"));
    rule.tools = b->tools;
    rule.choice = WHIM_CHOICE_REQUIRED;
    rule.format.tools = whim_tool_words_named("invoke");
    rule.one_call = true;
    check(
        b, &rule, LIST("<minimax:tool_call>\n<invoke name=\"g\">\n</invoke>\n</minimax:tool_call>"),
        LIST("<minimax:tool_call>\n<invoke name=\"g\">\n</invoke>\n<invoke name=\"g\">\n</invoke>\n"
             "</minimax:tool_call>"));
}

/* A header for everything, with reasoning before it as the model likes. */
static void answers_with_headers(void **state)
{
    const bench *b = *state;
#define CALL_OF(name, args) " to=functions." name "<|channel|>commentary json<|message|>" args
#define THOUGHT "<|channel|>analysis<|message|>a <b<|end|><|start|>assistant"
    whim_answer_rule rule = {.format = {.tools = whim_tool_words_named("harmony"),
                                        .native_tools = true,
                                        .one_call = true},
                             .tools = b->tools,
                             .choice = WHIM_CHOICE_REQUIRED,
                             .tool_schema = "function.parameters"};
    check(b, &rule, LIST(CALL_OF("g", "{}"), THOUGHT CALL_OF("f", "{\"s\": \"x\"}")),
          LIST("", "hi", CALL_OF("f", "{}"), CALL_OF("h", "{}"), CALL_OF("g", "{}") "x",
               "<|channel|>final<|message|>hi", THOUGHT, CALL_OF("g", "{}") CALL_OF("g", "{}")));
    rule.choice = WHIM_CHOICE_AUTO;
    rule.tools = b->strict;
    check(b, &rule,
          LIST("<|channel|>final<|message|>hi", THOUGHT "<|channel|>final<|message|>",
               CALL_OF("f", "{\"s\": \"x\"}")),
          LIST("hi", CALL_OF("f", "{}"), "<|channel|>final<|message|><|channel|>"));
    rule.tools = NULL;
    rule.choice = WHIM_CHOICE_NONE;
    rule.json_object = true;
    check(b, &rule,
          LIST("<|channel|>final<|message|>{\"a\": 1}", THOUGHT "<|channel|>final<|message|>{}"),
          LIST("{}", "<|channel|>final<|message|>x", CALL_OF("g", "{}")));
#undef THOUGHT
#undef CALL_OF
}

/* The prompt ends with the mark before a name: of a tool, or the one that means the user. */
static void answers_that_are_addressed(void **state)
{
    const bench *b = *state;
    whim_answer_rule rule = {.format = {.tools = whim_tool_words_named("functionary-v3")},
                             .starts_named = true,
                             .tools = b->tools,
                             .choice = WHIM_CHOICE_REQUIRED,
                             .tool_schema = "function.parameters"};
    check(b, &rule, LIST("g\n{}", "f\n{\"s\": \"x\"}>>>g\n{}"),
          LIST("", "hi", ">>>g\n{}", "all\nhi", "h\n{}", "f\n{}", "g\n{}g\n{}"));
    rule.choice = WHIM_CHOICE_AUTO;
    rule.tools = b->strict;
    check(b, &rule, LIST("all\nhi > >>", "all\nhi\n>>>f\n{\"s\": \"\"}", "g\n{}"),
          LIST("hi", "all\nhi >>> 1", "f\n{}", "all\n>>>f\n{}"));
    rule.starts_named = false;
    check(b, &rule, LIST("hi", "hi\n>>>g\n{}"), LIST("g\n{}>>>f\n{}", "hi >>> 1"));
    rule.starts_named = true;
    rule.tools = NULL;
    rule.choice = WHIM_CHOICE_NONE;
    rule.json_object = true;
    check(b, &rule, LIST("all\n{\"a\": 1}"), LIST("{}", "g\n{}", "all\nx"));
}

/* Reasoning before what is held to a rule, in the model's words. */
static void thoughts_in_other_words(void **state)
{
    const bench *b = *state;
    whim_answer_rule rule = {
        .format = {.tools = whim_tool_words_usual(), .think = &whim_think_words_known[1]},
        .may_reason = true,
        .json_object = true};
    check(b, &rule, LIST("[THINK]a</think>[/THINK]\n{}", "{}"),
          LIST("<think>a</think>{}", "[THINK]a</think>{}", "a[/THINK]{}"));
    rule.may_reason = false;
    rule.starts_inside = true;
    check(b, &rule, LIST("a[/THINK]{}"), LIST("a</think>{}", "{}"));
    const whim_think_words said = {"<t>", "</t>", "<says>"};
    rule.format.think = &said;
    rule.format.reasons = true;
    check(b, &rule, LIST("a</t><says>{}", "a</t>{}"), LIST("a</t><says><says>{}", "<says>{}"));
    rule.starts_inside = false;
    check(b, &rule, LIST("<says>{}", "{}"), LIST("<says>", "<says>x"));
    rule.json_object = false;
    rule.tools = b->tools;
    rule.choice = WHIM_CHOICE_REQUIRED; /* a call is not said */
    check(b, &rule, LIST("<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"),
          LIST("<says>", "<says><tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"));
}

/* A tool with one parameter, called by a model that writes tags: what the parameter's schema says
 * holds. */
static json_t *tool_of(const char *schema)
{
    char text[1024];
    snprintf(text, sizeof text,
             "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": %s}}]",
             schema);
    json_t *tools = json_loads(text, 0, NULL);
    assert_non_null(tools);
    return tools;
}

static bool allows_value(const bench *b, const char *property, const char *value)
{
    char schema[800], call[300];
    snprintf(schema, sizeof schema,
             "{\"type\": \"object\", \"properties\": {\"y\": %s}, \"required\": [\"y\"], "
             "\"$defs\": {\"d\": {\"type\": \"string\", \"maxLength\": 2}}}",
             property);
    snprintf(
        call, sizeof call,
        "<tool_call>\n<function=f>\n<parameter=y>\n%s\n</parameter>\n</function>\n</tool_call>",
        value);
    json_t *tools = tool_of(schema);
    whim_answer_rule rule = {.format = {.tools = whim_tool_words_named("xml")},
                             .tools = tools,
                             .tool_schema = "function.parameters",
                             .choice = WHIM_CHOICE_REQUIRED};
    bool ok = allows(b, &rule, call);
    json_decref(tools);
    return ok;
}

static void texts_between_tags_are_held(void **state)
{
    const bench *b = *state;
    static const struct {
        const char *property, *good, *bad;
    } rows[] = {
        {"{\"type\": \"string\", \"pattern\": \"^[0-9]{4}$\"}", "1234", "abc"},
        {"{\"type\": \"string\", \"pattern\": \"b\"}", "abc", "acc"},
        {"{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}", "ab", "a"},
        {"{\"type\": \"string\", \"maxLength\": 3}", "abc", "abcd"},
        {"{\"type\": \"string\", \"format\": \"date\"}", "2026-11-16", "today"},
        {"{\"type\": \"string\", \"format\": \"html\", \"units\": 1}", "<b>", "a\n</parameter>"},
        {"{\"type\": \"number\", \"enum\": [0.2, 5]}", "0.2", "0.20000000000000001"},
        {"{\"enum\": [\"x\", 0.2]}", "0.2", "0.20000000000000001"},
        {"{\"type\": [\"string\", \"null\"], \"enum\": [\"a\", null]}", "null", "b"},
        {"{\"type\": [\"string\", \"null\"], \"minLength\": 5}", "null", "ab"},
        {"{\"type\": \"string\", \"enum\": [\"a\", 1]}", "a", "1"},
        {"{\"type\": \"string\", \"enum\": [\"a\", 1]}", "a", ""},
        {"{\"$ref\": \"#/$defs/d\"}", "ab", "abc"},
        {"{\"anyOf\": [{\"type\": \"string\", \"enum\": [\"x\"]}, {\"type\": \"null\"}]}", "x",
         "y"},
        {"{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}", "any text",
         "a\n</parameter>"},
        {"{\"type\": \"integer\"}", "12", "x"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!allows_value(b, rows[i].property, rows[i].good)) {
            fail_msg("%s does not allow %s", rows[i].property, rows[i].good);
        }
        if (allows_value(b, rows[i].property, rows[i].bad)) {
            fail_msg("%s allows %s", rows[i].property, rows[i].bad);
        }
    }
}

static void what_tags_cannot_hold_is_refused(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"{\"$ref\": \"#/$defs/x\", \"$defs\": {\"x\": {\"type\": \"object\"}}}",
         "parameters.$ref"},
        {"{\"type\": \"object\", \"additionalProperties\": {\"type\": \"string\"}}",
         "parameters.additionalProperties"},
        {"{\"type\": \"object\", \"properties\": {}, \"required\": [\"a\"]}",
         "required names \"a\""},
        {"{\"properties\": {\"y\": {\"type\": \"string\", \"not\": {\"const\": \"a\"}}}}",
         "properties.y.not is not supported"},
        {"{\"properties\": {\"y\": {\"type\": \"string\", \"enum\": [1]}}}", "allows no value"},
        {"{\"properties\": {\"y\": {\"enum\": [\"a</parameter>\"]}}}", "properties.y lists a text"},
        {"{\"properties\": {\"a>b\": {\"type\": \"string\"}}}", "properties.a>b"},
        {"{\"properties\": {\"y\": {\"oneOf\": [{\"type\": \"string\"}, {\"minLength\": 2}]}}}",
         "properties.y.oneOf"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        whim_grammar *g = NULL;
        whim_diag diag = {{0}};
        json_t *tools = tool_of(rows[i][0]);
        whim_answer_rule rule = {.format = {.tools = whim_tool_words_named("invoke")},
                                 .tools = tools,
                                 .tool_schema = "function.parameters",
                                 .choice = WHIM_CHOICE_REQUIRED};
        assert_int_equal(whim_answer_grammar(&rule, &g, &diag), WHIM_ERR_INVALID);
        if (strstr(diag.text, rows[i][1]) == NULL) {
            fail_msg("%s: %s", rows[i][0], diag.text);
        }
        json_decref(tools);
    }
}

static void strict_tools_and_formats(void **state)
{
    const bench *b = *state;
    whim_answer_rule rule = {HERMES, .tools = b->strict, .choice = WHIM_CHOICE_AUTO,
                             .tool_schema = "function.parameters"};
    check(b, &rule,
          LIST("", "any < text", "so\n" F("{\"s\": \"x\"}"), G("{\"z\": 1}") "\n" G("{}")),
          LIST("<tool_call>", F("{}"), G("{}") " more"));
    rule.tools = b->tools;
    rule.one_call = true; /* enforced also where nothing is strict */
    check(b, &rule, LIST("hi", F("{}")), LIST(G("{}") "\n" G("{}")));
    rule.one_call = false;
    rule.schema = b->schema;
    check(b, &rule, LIST("{\"n\": 5}", F("{\"s\": \"x\"}")),
          LIST("hi", "{}", F("{}"), "{\"n\": 5}x"));
    rule.choice = WHIM_CHOICE_NONE;
    check(b, &rule, LIST("{\"n\": 5}"), LIST(G("{}")));
    rule = (whim_answer_rule){.json_object = true, .starts_inside = true};
    check(b, &rule, LIST("t</think>\n\n{}", "</think>{\"a\": 1}"), LIST("{}", "</think>5"));
    rule = (whim_answer_rule){.regex = "[a-c]{2}"};
    check(b, &rule, LIST("ab"), LIST("a", "abc", "ad"));
    static const char *const words[] = {"yes", "no"};
    rule = (whim_answer_rule){.words = words, .n_word = 2};
    check(b, &rule, LIST("yes", "no"), LIST("", "yesno", "y"));
}

/* A copy of a schema that lacks what there was no memory for would be another schema. */
static void without_memory_there_is_no_grammar(void **state)
{
    const bench *b = *state;
    whim_diag diag = {{0}};
    json_t *joined = json_loads(
        "{\"$defs\": {\"n\": {\"type\": \"integer\", \"minimum\": 3}}, \"type\": \"object\", "
        "\"properties\": {\"a\": {\"$ref\": \"#/$defs/n\"}, \"b\": {\"enum\": [1, 2]}}, "
        "\"required\": [\"a\"], \"allOf\": [{\"properties\": {\"b\": {\"not\": {\"const\": 1}}}}, "
        "{\"anyOf\": [{\"required\": [\"b\"]}, {\"properties\": {\"a\": {\"maximum\": 9}}}]}], "
        "\"additionalProperties\": false}",
        0, NULL);
    const whim_answer_rule rules[] = {{HERMES, .tools = b->strict, .choice = WHIM_CHOICE_REQUIRED,
                                       .tool_schema = "function.parameters"},
                                      {.schema = joined, .schema_at = "schema"},
                                      {.format = {.tools = whim_tool_words_named("invoke")},
                                       .tools = b->mixed,
                                       .choice = WHIM_CHOICE_REQUIRED,
                                       .tool_schema = "function.parameters"}};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        bool is_whole = false, is_quick = getenv("TEST_QUICK") != NULL;
        for (int64_t n = 1; !is_whole; n += is_quick ? 1 + n / 16 : 1) {
            whim_grammar *g = NULL;
            whim_alloc_fail_nth(n);
            whim_err err = whim_answer_grammar(&rules[i], &g, &diag);
            is_whole = whim_alloc_seen() < n;
            whim_alloc_fail_nth(0);
            if (err != (is_whole ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY) || (g != NULL) != is_whole) {
                fail_msg("rule %zu, allocation %lld: %s", i, (long long)n, diag.text);
            }
            whim_grammar_unref(g);
        }
    }
    json_decref(joined);
}

static void what_has_no_grammar(void **state)
{
    const bench *b = *state;
    whim_grammar *g = NULL;
    whim_diag diag = {{0}};
    const whim_answer_rule none[] = {
        {HERMES, .tools = b->tools, .choice = WHIM_CHOICE_AUTO, .may_reason = true},
        {HERMES, .tools = b->strict, .choice = WHIM_CHOICE_NONE},
        {HERMES, .choice = WHIM_CHOICE_AUTO, .starts_inside = true}};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(whim_answer_grammar(&none[i], &g, &diag), WHIM_ERR_OK);
        assert_null(g);
    }
    const whim_answer_rule unknown = {HERMES, .tools = b->tools, .choice = WHIM_CHOICE_REQUIRED,
                                      .tool_name = "h"};
    assert_int_equal(whim_answer_grammar(&unknown, &g, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "\"h\""));
    const whim_answer_rule empty = {.choice = WHIM_CHOICE_REQUIRED};
    assert_int_equal(whim_answer_grammar(&empty, &g, &diag), WHIM_ERR_INVALID);
    const whim_answer_rule broken = {.regex = "(a"};
    assert_int_equal(whim_answer_grammar(&broken, &g, &diag), WHIM_ERR_INVALID);
    json_t *odd = json_loads(
        "[{\"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"nothing\"}}}]", 0, NULL);
    whim_answer_rule type = {HERMES, .tools = odd, .choice = WHIM_CHOICE_REQUIRED,
                             .tool_schema = "function.parameters"};
    assert_int_equal(whim_answer_grammar(&type, &g, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "tools[0].function.parameters"));
    type.tool_at = (const int32_t[]){7}; /* in the request's own list and words */
    type.tool_schema = "input_schema";
    assert_int_equal(whim_answer_grammar(&type, &g, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "tools[7].input_schema"));
    json_decref(odd);
}

/* As many texts up to their tags as agents have parameters: no text goes on behind its tag. */
static void many_texts_between_tags(void **state)
{
    const bench *b = *state;
    json_t *tools = json_array();
    for (int i = 0; i < 40; i++) {
        char name[24];
        json_t *properties = json_object();
        for (char key = 'a'; key < 'i'; key++) {
            json_object_set_new(properties, (char[]){key, '\0'},
                                json_pack("{s:s}", "type", "string"));
        }
        snprintf(name, sizeof name, "tool_%d", i);
        json_array_append_new(tools, json_pack("{s:{s:s, s:{s:o}}}", "function", "name", name,
                                               "parameters", "properties", properties));
    }
    const whim_answer_rule rule = {.format = {.tools = whim_tool_words_named("xml")},
                                   .tools = tools,
                                   .choice = WHIM_CHOICE_REQUIRED,
                                   .tool_schema = "function.parameters"};
    assert_true(allows(b, &rule,
                       "<tool_call>\n<function=tool_39>\n<parameter=h>\n</p>\n</parameter>\n"
                       "</function>\n</tool_call>"));
    assert_false(allows(b, &rule,
                        "<tool_call>\n<function=tool_39>\n<parameter=h>\nx\n</parameter>\ny"
                        "</function>\n</tool_call>"));
    json_decref(tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forced_hermes_calls),
        cmocka_unit_test(forced_calls_in_other_words),
        cmocka_unit_test(answers_with_headers),
        cmocka_unit_test(answers_that_are_addressed),
        cmocka_unit_test(thoughts_in_other_words),
        cmocka_unit_test(forced_calls_with_marks),
        cmocka_unit_test(forced_calls_with_tags),
        cmocka_unit_test(texts_between_tags_are_held),
        cmocka_unit_test(many_texts_between_tags),
        cmocka_unit_test(what_tags_cannot_hold_is_refused),
        cmocka_unit_test(strict_tools_and_formats),
        cmocka_unit_test(without_memory_there_is_no_grammar),
        cmocka_unit_test(what_has_no_grammar),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

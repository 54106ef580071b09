/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a grammar of calls allows is read as whole calls whose arguments fit their schema: random
 * answers in every form, made of bytes and of the form's own tags, read in one piece, byte by byte,
 * and in two pieces that are cut at every place. */
#include "unit/grammar/grammar_fixture.h"

#include "chat/format.h"
#include "chat/tools/words.h"
#include "unit/grammar/schema_validator.h"

/* Properties that tags, quotes and words of another type can be mistaken in. */
static const char *const properties[] = {
    "{\"type\": \"string\"}",
    "{\"type\": \"integer\", \"minimum\": 3, \"maximum\": 40}",
    "{\"type\": \"number\"}",
    "{\"type\": \"boolean\"}",
    "{\"type\": [\"string\", \"null\"]}",
    "{\"type\": [\"string\", \"integer\", \"boolean\"]}",
    "{\"type\": \"string\", \"pattern\": \"^[0-9a-c]{2,3}$\"}",
    "{\"type\": [\"string\", \"integer\"], \"minLength\": 2}",
    "{\"enum\": [\"x\", \"5\", true, \"{\"]}",
    "{\"type\": \"array\", \"items\": {\"type\": \"string\"}, \"maxItems\": 2}",
    "{\"type\": \"object\", \"properties\": {\"k\": {\"type\": \"string\"}}, \"required\": "
    "[\"k\"], \"additionalProperties\": false}",
    "{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}",
    "{\"anyOf\": [{\"type\": \"string\", \"enum\": [\"7\", \"a\"]}, {\"type\": \"array\"}]}",
    "{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"integer\", \"minimum\": 100}]}",
    "{\"type\": [\"string\", \"array\"], \"items\": {\"type\": \"string\", \"maxLength\": 20}}",
    "{\"type\": [\"string\", \"null\"], \"enum\": [\"a\", \"null\"]}",
    "{\"oneOf\": [{\"const\": \"a\"}, {\"const\": \"5\"}, {\"type\": \"number\", \"maximum\": 4}]}",
    "{\"minimum\": 3, \"maxLength\": 3}",
    "{\"properties\": {\"k\": {\"type\": \"integer\"}}, \"required\": [\"k\"]}",
    "{}",
};
enum { N_PROPERTY = sizeof properties / sizeof properties[0], MAX_WORD = 64, CUT_ROUNDS = 1 };

typedef struct bench {
    const char *words[MAX_WORD];
    int32_t n_word, n_close; /* the first ones end something */
    bool starts_named;       /* the prompt ends where a name begins */
    whim_tokenizer *tok;
    whim_grammar_vocab *vocab;
    int32_t end;
} bench;

static void add_word(bench *b, const char *word)
{
    bool known = word == NULL || strlen(word) < 2 || strcmp(word, "<tool_call>") == 0;
    for (int32_t i = 0; i < b->n_word && !known; i++) {
        known = strcmp(b->words[i], word) == 0;
    }
    if (!known) {
        assert_true(b->n_word < MAX_WORD);
        b->words[b->n_word++] = word;
    }
}

/* A vocabulary of bytes, tags of the form, and a few words. */
static void bench_init(bench *b, const whim_tool_words *w)
{
    static const char *const more[] = {"\"}",   "{\"",     "\": ", "true", "null", "12",
                                       "Oslo",  "\\u00e9", "\\\"", "\n\n", "}}",   "]}",
                                       "False", "-1",      "5.5",  "[1"};
    const char *const closes[] = {w->quote, w->written.value_end, w->written.function_end,
                                  w->written.call_end};
    const char *const tags[] = {w->written.call,
                                w->written.between,
                                w->written.function,
                                w->written.key,
                                w->written.function_close,
                                w->written.key_close,
                                w->written.json_close,
                                w->open,
                                w->close,
                                w->function,
                                w->function_end,
                                w->parameter,
                                w->parameter_end,
                                w->name_end,
                                w->name_begin,
                                w->prefix,
                                w->said,
                                w->call_id,
                                w->key_end,
                                w->value,
                                w->value_ends[0],
                                w->value_ends[1],
                                w->value_ends[2],
                                w->value_ends[3],
                                w->value_ends[4]};
    *b = (bench){.n_word = 0};
    for (size_t i = 0; i < sizeof closes / sizeof closes[0]; i++) {
        add_word(b, closes[i]);
    }
    b->n_close = b->n_word;
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        add_word(b, tags[i]);
    }
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        add_word(b, more[i]);
    }
    whim_str json = {0};
    whim_diag diag = {{0}};
    byte_vocab_json(&json, b->words, b->n_word);
    if (open_text(json.text, json.len, &b->tok, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    whim_str_deinit(&json);
    b->end = 256 + b->n_word;
    assert_int_equal(whim_grammar_vocab_create(b->tok, &b->end, 1, &b->vocab), WHIM_ERR_OK);
}

static void bench_deinit(bench *b)
{
    whim_grammar_vocab_destroy(b->vocab);
    whim_tokenizer_close(b->tok);
}

/* A token that brings the answer to its end, of those that may come; -1: none. */
static int32_t closing(const bench *b, const uint32_t *mask, uint64_t key)
{
    if (fixture_bit(mask, b->end)) {
        return b->end;
    }
    for (int32_t i = 0; i < b->n_close && key % 8 != 0; i++) {
        if (fixture_bit(mask, 256 + i)) {
            return 256 + i;
        }
    }
    for (const char *c = "\"}]0ae1,: lsu:nt5</>|parmetfuncio_v"; *c != '\0' && key % 9 > 0; c++) {
        if (fixture_bit(mask, (uint8_t)*c)) {
            return (uint8_t)*c;
        }
    }
    return -1;
}

static bool walk(const bench *b, whim_grammar *g, uint64_t seed, whim_str *out)
{
    whim_grammar_state *s;
    enum { N_MASK = (256 + MAX_WORD + 8) / 32 + 1 };
    uint32_t mask[N_MASK] = {0};
    const int64_t n_word = whim_tokenizer_count(b->tok) / 32 + 1, patience = (int64_t)(seed % 40);
    bool done = false;
    assert_int_equal(whim_grammar_state_create(g, b->vocab, &s), WHIM_ERR_OK);
    for (int64_t i = 0; i < 900 && !done; i++) {
        assert_true(whim_grammar_mask(s, mask, n_word));
        int32_t id = i > patience ? closing(b, mask, whim_rng_at(seed, (uint64_t)(2 * i + 1))) : -1;
        id = id < 0 ? fixture_pick(mask, n_word, whim_rng_at(seed, (uint64_t)(2 * i))) : id;
        assert_true(id >= 0 && whim_grammar_accept(s, id));
        int64_t n;
        const char *bytes = whim_tokenizer_bytes(b->tok, id, &n);
        done = id == b->end;
        whim_str_append_n(out, bytes, done ? 0 : n);
    }
    whim_grammar_state_destroy(s);
    return done;
}

static json_t *tools_with(const char *property)
{
    char text[1200];
    snprintf(text, sizeof text,
             "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": true, "
             "\"parameters\": {\"type\": \"object\", \"properties\": {\"p\": %s, \"q\": {\"type\": "
             "\"string\"}}, \"required\": [\"p\"], \"additionalProperties\": false}}}]",
             property);
    json_t *tools = json_loads(text, 0, NULL);
    assert_non_null(tools);
    return tools;
}

/* Every call of the answer: whole, and its arguments fit. */
typedef struct reading {
    const json_t *schema;
    whim_str args, said;
    int32_t n_call;
    bool open, wrong;
} reading;

static void read_event(void *ctx, const whim_chat_event *event)
{
    reading *r = ctx;
    if (event->kind == WHIM_CHAT_CONTENT) {
        whim_str_append_n(&r->said, event->text, event->n);
    } else if (event->kind == WHIM_CHAT_CALL_BEGIN) {
        whim_str_clear(&r->args);
        r->n_call++;
        r->open = true;
    } else if (event->kind == WHIM_CHAT_CALL_ARGS) {
        whim_str_append_n(&r->args, event->text, event->n);
    } else if (event->kind == WHIM_CHAT_CALL_END) {
        json_t *args =
            json_loadb(whim_str_text(&r->args), (size_t)r->args.len, JSON_ALLOW_NUL, NULL);
        r->open = false;
        r->wrong = r->wrong || args == NULL || !valid(r->schema, r->schema, args);
        json_decref(args);
    }
}

/* In pieces: the first of `first` bytes, the others of `step`. */
static void read_answer(const whim_answer_rule *rule, const whim_str *text, const char *property,
                        int64_t first, int64_t step)
{
    const bool forced = rule->choice == WHIM_CHOICE_REQUIRED;
    const whim_chat_parser_cfg cfg = {.format = rule->format,
                                      .starts_named = rule->starts_named,
                                      .parse_tools = true,
                                      .only_calls = forced,
                                      .tools = rule->tools};
    whim_chat_parser *p;
    reading r = {.schema = json_object_get(
                     json_object_get(json_array_get(rule->tools, 0), "function"), "parameters")};
    assert_int_equal(whim_chat_parser_create(&cfg, &p), WHIM_ERR_OK);
    for (int64_t i = 0, n = first; i < text->len; i += n, n = step) {
        n = n < text->len - i ? n : text->len - i;
        whim_chat_parser_push(p, text->text + i, n, read_event, &r);
    }
    whim_chat_parser_finish(p, read_event, &r);
    whim_chat_parser_destroy(p);
    if (r.wrong || r.open || (forced && (r.n_call == 0 || r.said.len > 0))) {
        fail_msg("%s, %s, %d and %d: %.*s\nis %d calls%s%s, the last with %s, beside \"%s\"",
                 rule->format.tools->name, property, (int)first, (int)step, (int)text->len,
                 text->text, r.n_call, r.wrong ? ", wrong" : "", r.open ? ", open" : "",
                 whim_str_text(&r.args), whim_str_text(&r.said));
    }
    whim_str_deinit(&r.args);
    whim_str_deinit(&r.said);
}

/* How many answers were walked to their end; -1 where the form refuses the schema. */
static int32_t walk_property(const bench *b, const whim_tool_words *words, const char *property,
                             whim_tool_choice choice, int rounds)
{
    json_t *tools = tools_with(property);
    const whim_answer_rule rule = {.format = {.tools = words, .native_tools = true},
                                   .tools = tools,
                                   .starts_named = b->starts_named,
                                   .choice = choice,
                                   .tool_schema = "function.parameters",
                                   .bytes = whim_grammar_vocab_bytes(b->vocab)};
    whim_grammar *g = NULL;
    whim_diag diag = {{0}};
    int32_t n_ended = -1;
    if (whim_answer_grammar(&rule, &g, &diag) == WHIM_ERR_OK) {
        n_ended = 0;
        for (int round = 1; round <= rounds; round++) {
            whim_str text = {0};
            if (walk(b, g, (uint64_t)round, &text)) {
                n_ended++;
                read_answer(&rule, &text, property, text.len, 1);
                read_answer(&rule, &text, property, 1, 1);
                for (int64_t cut = 1; cut < text.len && round <= CUT_ROUNDS; cut++) {
                    read_answer(&rule, &text, property, cut, text.len);
                }
            }
            whim_str_deinit(&text);
        }
    }
    whim_grammar_unref(g);
    json_decref(tools);
    return n_ended;
}

static void walk_form(const bench *b, const whim_tool_words *words)
{
    const int rounds = getenv("TEST_QUICK") != NULL ? 5 : 30;
    int32_t n_refused = 0;
    for (int32_t k = 0; k < N_PROPERTY; k++) {
        int32_t n = walk_property(b, words, properties[k], WHIM_CHOICE_REQUIRED, rounds);
        int32_t m = walk_property(b, words, properties[k], WHIM_CHOICE_AUTO, rounds);
        n_refused += n < 0;
        if ((n >= 0) != (m >= 0) || (n >= 0 && n == 0)) {
            fail_msg("%s, %s: %d and %d answers of %d ended", words->name, properties[k], n, m,
                     rounds);
        }
    }
    assert_true(n_refused <= 4);
}

static void random_answers_are_valid_calls(void **state)
{
    (void)state;
    for (int32_t i = 0; i < whim_tool_words_count(); i++) {
        const whim_tool_words *words = whim_tool_words_at(i);
        bench b;
        if (words == NULL) { /* a model that writes calls as others do */
            continue;
        }
        bench_init(&b, words);
        walk_form(&b, words);
        b.starts_named = words->said != NULL;
        if (b.starts_named) {
            walk_form(&b, words);
        }
        bench_deinit(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_answers_are_valid_calls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

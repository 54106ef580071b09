/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens to text: characters in parts, bytes that never become one, special tokens, first
 * spaces. */
#include "unit/text/text_fixture.h"

/* Push bytes as byte-level tokens; `want` after each push, joined by '|', then the flush. */
static void expect_pushes(const char *bytes, size_t n, const char *want)
{
    whim_tokenizer *tok = open_file("cat tests/data/text/tiny/llama3.json");
    whim_detokenizer d;
    whim_str out = {0};
    whim_detokenizer_init(&d, tok, false);
    for (size_t i = 0; i < n; i++) {
        for (int32_t id = 0; id < whim_tokenizer_count(tok); id++) {
            int64_t len;
            const char *token = whim_tokenizer_bytes(tok, id, &len);
            if (len == 1 && token[0] == bytes[i]) {
                whim_detokenizer_push(&d, id, &out);
                break;
            }
        }
        whim_str_append(&out, "|");
    }
    whim_detokenizer_flush(&d, &out);
    assert_string_equal(whim_str_text(&out), want);
    whim_str_deinit(&out);
    whim_tokenizer_close(tok);
}

#define BAD "\xEF\xBF\xBD"

static void characters_come_whole(void **state)
{
    (void)state;
    expect_pushes("a\xC3\xA9z", 4, "a||\xC3\xA9|z|");
    expect_pushes("\xE4\xB8\xAD", 3, "||\xE4\xB8\xAD|");
    expect_pushes("\xF0\x9F\x98\x80", 4, "|||\xF0\x9F\x98\x80|");
    expect_pushes("\xE4\xB8", 2, "||" BAD);
    expect_pushes("\xE4\xB8z", 3, "||" BAD "z|");
    expect_pushes("\xE4\xE4\xB8\xAD", 4, "|" BAD "||\xE4\xB8\xAD|");
    expect_pushes("\x80\xFF", 2, BAD "|" BAD "|");
    expect_pushes("\xED\xA0\x80", 3, "|" BAD BAD "|" BAD "|");
    expect_pushes("\xF0\x9F\xC3\xA9", 4, "||" BAD "|\xC3\xA9|");
    expect_pushes("\xF4\x90\x80", 3, "|" BAD BAD "|" BAD "|");
}

static void special_tokens_are_hidden(void **state)
{
    (void)state;
    whim_tokenizer *tok = open_file("cat tests/data/text/tiny/flags.json");
    static const char text[] = "a<plain>b<word> c<right>   d";
    whim_ids ids = encode(tok, text, sizeof text - 1, (whim_encode_opts){.parse_special = true});
    whim_str shown = decode(tok, &ids, true), hidden = decode(tok, &ids, false);
    assert_string_equal(whim_str_text(&shown), "a<plain>b<word> c<right>d");
    assert_string_equal(whim_str_text(&hidden), "ab<word> cd");
    whim_detokenizer d;
    whim_str out = {0};
    whim_detokenizer_init(&d, tok, false);
    d.shown = (const int32_t[]){whim_tokenizer_find(tok, "<plain>")};
    d.n_shown = 1;
    for (int64_t i = 0; i < ids.n; i++) {
        whim_detokenizer_push(&d, ids.ids[i], &out);
    }
    assert_string_equal(whim_str_text(&out), "a<plain>b<word> cd");
    whim_str_clear(&out);
    whim_detokenizer_init(&d, tok, true);
    whim_detokenizer_push(&d, -1, &out);
    whim_detokenizer_push(&d, 1 << 30, &out);
    assert_int_equal(out.len, 0);
    whim_str_deinit(&shown);
    whim_str_deinit(&hidden);
    whim_str_deinit(&out);
    whim_ids_deinit(&ids);
    whim_tokenizer_close(tok);
}

static void the_first_space_is_dropped_once(void **state)
{
    (void)state;
    whim_tokenizer *tok = open_file("cat tests/data/text/tiny/llama2.json");
    whim_ids ids = encode(tok, " hello", 6, (whim_encode_opts){.add_special = true});
    whim_str text = decode(tok, &ids, false);
    assert_string_equal(whim_str_text(&text), " hello");
    whim_str_deinit(&text);
    whim_ids_deinit(&ids);
    whim_tokenizer_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_come_whole),
        cmocka_unit_test(special_tokens_are_hidden),
        cmocka_unit_test(the_first_space_is_dropped_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a text for three tokenizers. The first byte chooses the tokenizer, the second how
 * the spans are cut; the rest is the text. */
#include "fuzz_tokenizer.h"

#include "text/byte_level.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char *const variants[] = {
    "\"normalizer\": null, \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": "
    "false,"
    " \"use_regex\": true}",
    "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFKC\"}, {\"type\":"
    " \"Lowercase\"}]}, \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\":"
    " \"Split\", \"pattern\": {\"Regex\": "
    "\"(?i:'s|'t)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}"
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}, "
    "\"behavior\":"
    " \"Isolated\", \"invert\": false}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false,"
    " \"use_regex\": false}]}",
    "\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"ByteLevel\","
    " \"add_prefix_space\": false, \"use_regex\": false}",
};
enum { N_VARIANT = 3 };

static whim_tokenizer *build(int variant)
{
    whim_str json = {0};
    whim_str_printf(&json,
                    "{%s, \"decoder\": {\"type\": \"ByteLevel\"}, \"added_tokens\": ["
                    "{\"id\": 256, \"content\": \"<s>\", \"normalized\": false, \"special\": true},"
                    "{\"id\": 257, \"content\": \"<l>\", \"lstrip\": true, \"normalized\": false},"
                    "{\"id\": 258, \"content\": \"<n>\", \"normalized\": true},"
                    "{\"id\": 259, \"content\": \"word\", \"single_word\": true, \"rstrip\": true,"
                    " \"normalized\": true}], \"model\": {\"vocab\": {\"aa\": 260, \"aaaa\": 261",
                    variants[variant]);
    for (int i = 0; i < 256; i++) {
        char text[4];
        int32_t n = whim_utf8_encode(whim_byte_level_char((uint8_t)i), text);
        whim_str_printf(&json, ", \"%s%.*s\": %d", i == '"' || i == '\\' ? "\\" : "", n, text, i);
    }
    whim_str_append(&json, "}, \"merges\": [\"a a\", \"aa aa\"]}}");
    whim_diag diag = {{0}};
    whim_tokenizer *tok = fuzz_tokenizer(json.text, json.len, "built-in", &diag);
    if (tok == NULL) {
        fprintf(stderr, "%s\n", diag.text);
        abort();
    }
    whim_str_deinit(&json);
    return tok;
}

static int64_t cut_spans(whim_text_span *spans, int64_t max, int64_t n, uint8_t how)
{
    int64_t count = 0, at = 0, step = 1 + how % 7;
    bool trusted = (how & 64) != 0;
    while (count + 1 < max && at + step < n) {
        spans[count++] = (whim_text_span){at, at + step, trusted};
        at += step;
        step = step * 3 % 11 + 1;
        trusted = !trusted;
    }
    spans[count++] = (whim_text_span){at, n, trusted};
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static whim_tokenizer *toks[N_VARIANT];
    if (n < 2) {
        return 0;
    }
    int variant = data[0] % N_VARIANT;
    if (toks[variant] == NULL) {
        toks[variant] = build(variant);
    }
    const whim_tokenizer *tok = toks[variant];
    const char *text = (const char *)data + 2;
    int64_t len = (int64_t)n - 2;
    bool valid = whim_utf8_valid_prefix(text, len) == len;
    whim_ids ids = {0}, with_spans = {0};
    if (!valid) {
        whim_diag diag = {{0}};
        whim_encode_opts plain = {0};
        FUZZ_CHECK(whim_tokenizer_encode(tok, text, len, &plain, &ids, &diag) == WHIM_ERR_INVALID);
        FUZZ_CHECK(ids.n == 0);
        whim_ids_deinit(&ids);
        return 0;
    }
    /* Without trust no added token comes out that is not ordinary text, and without a normaliser
     * the text comes back (such a token may swallow white space). */
    bool has_added = false;
    whim_encode_opts plain = {0};
    whim_str out = fuzz_round_trip(tok, text, len, &plain, &ids);
    for (int64_t i = 0; i < ids.n; i++) {
        const whim_token *t = &tok->vocab.tokens[ids.ids[i]];
        bool added = (t->flags & WHIM_TOKEN_ADDED) != 0;
        has_added = has_added || added;
        FUZZ_CHECK(!added || whim_added_is_plain(t->text, (t->flags & WHIM_TOKEN_SPECIAL) != 0));
    }
    FUZZ_CHECK(variant != 0 || has_added ||
               (out.len == len && memcmp(whim_str_text(&out), text, (size_t)len) == 0));
    whim_str_deinit(&out);
    whim_text_span spans[64];
    whim_encode_opts opts = {.spans = spans, .n_span = cut_spans(spans, 64, len, data[1])};
    out = fuzz_round_trip(tok, text, len, &opts, &with_spans);
    whim_str_deinit(&out);
    whim_ids_deinit(&ids);
    whim_ids_deinit(&with_spans);
    return 0;
}

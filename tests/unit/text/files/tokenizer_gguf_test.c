/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF vocabularies of both kinds, good and broken. With arguments: tokenizer_gguf_test FILE.gguf...
 * compares vocabularies that others wrote with the ids beside them. */
#include "unit/text/text_fixture.h"
#include "unit/weights/gguf/gguf_build.h"

#include "base/utf8.h"
#include "text/byte_level.h"
#include "weights/ckpt_build.h"
#include "weights/gguf/read.h"

#define T "tokenizer.ggml."
#define BAR "\xEF\xBD\x9C" /* of DeepSeek's marks */
#define LOW WHIM_SPACE_MARK

static whim_err open_built(gguf_build *b, whim_ckpt *ckpt, whim_tokenizer **tok, whim_diag *diag)
{
    tiny_tensors(b);
    write_gguf("m.gguf", b);
    expect_opens(ckpt, in_dir("m.gguf"));
    return whim_tokenizer_open(in_dir("m.gguf"), ckpt, tok, diag);
}

static gguf_build without_tokens(void)
{
    gguf_build b = start();
    b.skip = T "tokens";
    tiny_keys(&b);
    return b;
}

static void ints(gguf_build *b, const char *key, const int *values, uint64_t n)
{
    if (key_array(b, key, WHIM_GGUF_I32, n)) {
        for (uint64_t i = 0; i < n; i++) {
            put_le(&b->keys, (uint32_t)values[i], 4);
        }
    }
}

static void floats(gguf_build *b, const char *key, const float *values, uint64_t n)
{
    if (key_array(b, key, WHIM_GGUF_F32, n)) {
        for (uint64_t i = 0; i < n; i++) {
            uint32_t bits;
            memcpy(&bits, &values[i], 4);
            put_le(&b->keys, bits, 4);
        }
    }
}

/* 0-2 specials, 3-258 bytes, then words with scores: better ones first. */
static const char *const words[] = {"\xE2\x96\x81",
                                    "h",
                                    "e",
                                    "l",
                                    "o",
                                    "w",
                                    "he",
                                    "ll",
                                    "hell",
                                    "hello",
                                    "\xE2\x96\x81hello",
                                    "ow",
                                    "\xE2\x96\x81w",
                                    "[PAD1]"};
enum { N_WORD = sizeof words / sizeof words[0], N_LLAMA = 259 + N_WORD };

static void put_bytes(const char **tokens, int *types)
{
    static char bytes_text[256][8];
    for (int i = 0; i < 256; i++) {
        snprintf(bytes_text[i], sizeof bytes_text[i], "<0x%02X>", i);
        tokens[i] = bytes_text[i];
        types[i] = 6;
    }
}

static gguf_build llama_build(void)
{
    const char *tokens[N_LLAMA] = {"<unk>", "<s>", "</s>"};
    int types[N_LLAMA] = {2, 3, 3};
    float scores[N_LLAMA] = {0};
    put_bytes(tokens + 3, types + 3);
    for (int i = 0; i < N_WORD; i++) {
        tokens[259 + i] = words[i];
        types[259 + i] = strcmp(words[i], "[PAD1]") == 0 ? 5 : 1;
        scores[259 + i] = -(float)i;
    }
    gguf_build b = without_tokens();
    key_strings(&b, T "tokens", tokens, N_LLAMA);
    ints(&b, T "token_type", types, N_LLAMA);
    floats(&b, T "scores", scores, N_LLAMA);
    key_str(&b, T "model", "llama");
    key_u32(&b, T "bos_token_id", 1);
    key_u32(&b, T "unknown_token_id", 0);
    return b;
}

static void expect(const whim_tokenizer *tok, const char *text, bool add_special,
                   const int32_t *want, int64_t n)
{
    whim_encode_opts opts = {.parse_special = true, .add_special = add_special};
    whim_ids ids = encode(tok, text, (int64_t)strlen(text), opts);
    if (ids.n != n || (n > 0 && memcmp(ids.ids, want, 4 * (size_t)n) != 0)) {
        fail_msg("\"%s\": %lld ids, first %d", text, (long long)ids.n, ids.n > 0 ? ids.ids[0] : -1);
    }
    whim_ids_deinit(&ids);
}

static void kind_llama(void **state)
{
    (void)state;
    gguf_build b = llama_build();
    key_str(&b, "tokenizer.chat_template", "one");
    key_str(&b, "tokenizer.chat_template.tool_use", "two");
    whim_ckpt ckpt;
    whim_tokenizer *tok;
    whim_diag diag = {{0}};
    assert_int_equal(open_built(&b, &ckpt, &tok, &diag), WHIM_ERR_OK);
    enum { W = 259 };
    expect(tok, "hello hello", true, (int32_t[]){1, W + 10, W + 10}, 3);
    expect(tok, "hello</s>hello", false, (int32_t[]){W + 10, 2, W + 10}, 3);
    expect(tok, "  w", false, (int32_t[]){W, W, W + 12}, 3);
    expect(tok, "\xC3\xA9\n", false, (int32_t[]){W, 3 + 0xC3, 3 + 0xA9, 3 + 10}, 4);
    /* "ow" has a better score than the space with "w". */
    expect(tok, "ow", false, (int32_t[]){W, W + 11}, 2);
    whim_ids ids = encode(tok, "<s>[PAD1]", 9, (whim_encode_opts){0});
    for (int64_t i = 0; i < ids.n; i++) {
        assert_true(ids.ids[i] != 1 && ids.ids[i] != W + 13);
    }
    whim_str text = decode(tok, &ids, false);
    assert_string_equal(whim_str_text(&text), "<s>[PAD1]");
    whim_str_deinit(&text);
    whim_ids_deinit(&ids);
    assert_string_equal(whim_tokenizer_template(tok, "tool_use"), "two");
    assert_string_equal(whim_tokenizer_template(tok, "default"), "one");
    assert_string_equal(whim_tokenizer_bos(tok), "<s>");
    whim_tokenizer_close(tok);
    whim_ckpt_close(&ckpt);
}

static void key_bool(gguf_build *b, const char *key, bool value)
{
    key_int(b, key, WHIM_GGUF_BOOL, value);
}

/* Files that name no marks have SentencePiece's, 0 to 2, where these tokens are marks. */
static void usual_marks(void **state)
{
    (void)state;
    static const int types[][4] = {{1, 1, 1, 1}, {2, 3, 3, 1}};
    static const float scores[4];
    for (int are_marks = 0; are_marks < 2; are_marks++) {
        gguf_build b = start();
        whim_ckpt ckpt;
        whim_tokenizer *tok;
        whim_diag diag = {{0}};
        int32_t stops[4];
        b.skip = T "eos_token_id";
        tiny_keys(&b);
        ints(&b, T "token_type", types[are_marks], 4);
        floats(&b, T "scores", scores, 4);
        key_str(&b, T "model", "llama");
        key_bool(&b, T "add_space_prefix", false);
        key_bool(&b, T "add_eos_token", true);
        assert_int_equal(open_built(&b, &ckpt, &tok, &diag), WHIM_ERR_OK);
        expect(tok, "z", true, (int32_t[]){1, 0, 2}, are_marks ? 3 : 0);
        assert_string_equal(whim_tokenizer_bos(tok), are_marks ? "a" : "");
        assert_int_equal(whim_tokenizer_stop_ids(tok, stops, 4), are_marks);
        assert_true(!are_marks || stops[0] == 2);
        whim_tokenizer_close(tok);
        whim_ckpt_close(&ckpt);
    }
}

/* Marks of a gap: by the keys of either age, and else by how they are spelled. */
static void gaps_have_marks(void **state)
{
    (void)state;
    static const char *const keys[][3] = {
        {T "fim_pre_token_id", T "fim_suf_token_id", T "fim_mid_token_id"},
        {T "prefix_token_id", T "suffix_token_id", T "middle_token_id"},
        {NULL},
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        gguf_build b = llama_build();
        whim_ckpt ckpt;
        whim_tokenizer *tok;
        whim_diag diag = {{0}};
        whim_fim fim;
        for (uint32_t k = 0; k < 3 && keys[i][0] != NULL; k++) {
            key_u32(&b, keys[i][k], 260 + k);
        }
        key_u32(&b, T "fim_sep_token_id", 264);
        assert_int_equal(open_built(&b, &ckpt, &tok, &diag), WHIM_ERR_OK);
        assert_int_equal(whim_fim_find(tok, &fim), keys[i][0] != NULL);
        assert_int_equal(fim.middle, keys[i][0] != NULL ? 262 : -1);
        assert_int_equal(fim.file, 264);
        assert_int_equal(fim.repo, -1);
        whim_tokenizer_close(tok);
        whim_ckpt_close(&ckpt);
    }
    whim_tokenizer *tok = open_file("xz -dc tests/data/text/qwen3.json.xz");
    whim_fim fim;
    assert_true(whim_fim_find(tok, &fim));
    assert_int_equal(fim.prefix, whim_tokenizer_find(tok, "<|fim_prefix|>"));
    assert_int_equal(fim.pad, whim_tokenizer_find(tok, "<|fim_pad|>"));
    assert_int_equal(fim.file, whim_tokenizer_find(tok, "<|file_sep|>"));
    assert_true(fim.middle > 0 && fim.repo > 0);
    whim_tokenizer_close(tok);
}

/* Published spellings, as llama.cpp's src/llama-vocab.cpp has them. */
static void gaps_are_found_by_spelling(void **state)
{
    (void)state;
    static const char *const spelled[][4] = {
        {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "a"},
        {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", "a"},
        {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "a"},
        {"<" BAR "fim" LOW "begin" BAR ">", "<" BAR "fim" LOW "hole" BAR ">",
         "<" BAR "fim" LOW "end" BAR ">", "a"},
        {"<PRE>", "<SUF>", "<MID>", "a"},
        {LOW "<PRE>", LOW "<SUF>", LOW "<MID>", "a"},
        {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", "a"},
        {"<|prefix|>", "<|suffix|>", "<|middle|>", "a"},
    };
    static const float scores[4];
    for (size_t i = 0; i < sizeof spelled / sizeof spelled[0]; i++) {
        gguf_build b = without_tokens();
        whim_ckpt ckpt;
        whim_tokenizer *tok;
        whim_diag diag = {{0}};
        whim_fim fim;
        key_strings(&b, T "tokens", spelled[i], 4);
        floats(&b, T "scores", scores, 4);
        key_str(&b, T "model", "llama");
        assert_int_equal(open_built(&b, &ckpt, &tok, &diag), WHIM_ERR_OK);
        if (!whim_fim_find(tok, &fim) || fim.prefix != 0 || fim.suffix != 1 || fim.middle != 2) {
            fail_msg("%s is not found", spelled[i][0]);
        }
        whim_tokenizer_close(tok);
        whim_ckpt_close(&ckpt);
    }
}

enum { NO_MERGE = 260, N_GPT2 };

static gguf_build gpt2_build(const char *pre)
{
    static char text[256][8];
    const char *tokens[N_GPT2] = {0};
    int types[N_GPT2];
    for (int i = 0; i < 256; i++) {
        int32_t n = whim_utf8_encode(whim_byte_level_char((uint8_t)i), text[i]);
        text[i][n] = '\0';
        tokens[i] = text[i];
        types[i] = 1;
    }
    tokens[256] = "ab";
    tokens[257] = "<end>";
    tokens[258] = "<mark>";
    tokens[259] = "12";
    tokens[NO_MERGE] = "hq";
    types[256] = types[259] = types[NO_MERGE] = 1;
    types[257] = 3;
    types[258] = 4;
    static const char *const merges[] = {"a b", "1 2"};
    gguf_build b = without_tokens();
    key_strings(&b, T "tokens", tokens, N_GPT2);
    ints(&b, T "token_type", types, N_GPT2);
    key_strings(&b, T "merges", merges, 2);
    key_str(&b, T "model", "gpt2");
    key_str(&b, T "pre", pre);
    return b;
}

static void kind_gpt2(void **state)
{
    (void)state;
    gguf_build b = gpt2_build("gpt-2");
    whim_ckpt ckpt;
    whim_tokenizer *tok;
    whim_diag diag = {{0}};
    assert_int_equal(open_built(&b, &ckpt, &tok, &diag), WHIM_ERR_OK);
    expect(tok, "ab<end>ab<mark>", true, (int32_t[]){256, 257, 256, 258}, 4);
    assert_true(whim_tokenizer_is_special(tok, 257));
    assert_false(whim_tokenizer_is_special(tok, 258));
    whim_tokenizer_close(tok);
    whim_ckpt_close(&ckpt);
}

/* Merges over characters, with marks for spaces and bytes for what is no token: the ids are those of
 * the `tokenizers` library for the same vocabulary (a split at spaces, byte_fallback). */
static void kind_gemma(void **state)
{
    static const char *const kinds[][2] = {{"gemma4", NULL},
                                           {"gpt2", "gemma4"},
                                           {"gpt2", "granite-embed-multi-311m"},
                                           {"gpt2", "sarvam-moe"}};
    static const char *const merges[] = {"h e", "l l",     "he ll", LOW " w",
                                         "o w", LOW "w o", "\n \n"};
    static const char *const own[] = {LOW,  "h",  "e",    "l",     "o",  "w",      "\n",
                                      "he", "ll", "hell", LOW "w", "ow", LOW "wo", "\n\n"};
    enum { W = 259, N_OWN = sizeof own / sizeof own[0], N = W + N_OWN };
    const char *tokens[N] = {"<pad>", "<eos>", "<bos>"};
    int types[N] = {3, 3, 3};
    (void)state;
    put_bytes(tokens + 3, types + 3);
    for (int i = 0; i < N_OWN; i++) {
        tokens[W + i] = own[i];
        types[W + i] = 1;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        gguf_build b = without_tokens();
        whim_ckpt ckpt;
        whim_tokenizer *tok;
        whim_diag diag = {{0}};
        key_strings(&b, T "tokens", tokens, N);
        ints(&b, T "token_type", types, N);
        key_strings(&b, T "merges", merges, sizeof merges / sizeof merges[0]);
        key_str(&b, T "model", kinds[i][0]);
        if (kinds[i][1] != NULL) {
            key_str(&b, T "pre", kinds[i][1]);
        }
        key_u32(&b, T "bos_token_id", 2);
        if (open_built(&b, &ckpt, &tok, &diag) != WHIM_ERR_OK) {
            fail_msg("%s", diag.text);
        }
        const int32_t hello[] = {2, W + 9, W + 4, W + 12, W + 3};
        const bool has_bos = strcmp(kinds[i][1] != NULL ? kinds[i][1] : "", "sarvam-moe") != 0;
        expect(tok, "hello wol", true, hello + !has_bos, 5 - !has_bos);
        expect(tok, "  ow\n\n\nw", false, (int32_t[]){W, W, W + 11, W + 13, W + 6, W + 5}, 6);
        expect(tok, "\xC3\xA9 h", false, (int32_t[]){3 + 0xC3, 3 + 0xA9, W, W + 1}, 4);
        whim_ids ids = encode(tok, " \xC3\xA9 wo\n", 7, (whim_encode_opts){0});
        whim_str text = decode(tok, &ids, false);
        assert_string_equal(whim_str_text(&text), " \xC3\xA9 wo\n");
        whim_str_deinit(&text);
        whim_ids_deinit(&ids);
        whim_tokenizer_close(tok);
        whim_ckpt_close(&ckpt);
    }
}

/* How the split of a name cuts the probes, as these lines say. */
static void check_split(const char *name, const whim_str *probes, int n_probe, char *const *lines)
{
    gguf_build b = gpt2_build(name);
    whim_ckpt ckpt;
    whim_tokenizer *tok;
    whim_diag diag = {{0}};
    whim_matcher *matcher;
    assert_int_equal(open_built(&b, &ckpt, &tok, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_matcher_create(&matcher), WHIM_ERR_OK);
    for (int k = 0; k < n_probe; k++) {
        whim_pieces pieces = {0};
        whim_str lengths = {0};
        assert_int_equal(whim_pretokenize(&tok->pre, whim_str_text(&probes[k]), probes[k].len, true,
                                          matcher, &pieces, &diag),
                         WHIM_ERR_OK);
        for (int64_t i = 0; i < pieces.n; i++) { /* a character stands for each byte */
            int64_t n = 0;
            for (int64_t at = pieces.ranges[i].begin; at < pieces.ranges[i].end; at++) {
                n += (pieces.text.text[at] & 0xC0) != 0x80;
            }
            whim_str_printf(&lengths, "%s%lld", i > 0 ? " " : "", (long long)n);
        }
        if (strcmp(whim_str_text(&lengths), lines[k]) != 0) {
            fail_msg("%s: \"%s\" has pieces of %s bytes, expected %s", name,
                     whim_str_text(&probes[k]), whim_str_text(&lengths), lines[k]);
        }
        whim_str_deinit(&lengths);
        whim_pieces_deinit(&pieces);
    }
    whim_matcher_free(matcher);
    whim_tokenizer_close(tok);
    whim_ckpt_close(&ckpt);
}

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (strcmp(*names, name) == 0) {
            return true;
        }
    }
    return false;
}

/* What else a name says: BOS where the file does not, tokens without merges, composed letters. The
 * first two as in llama.cpp's src/llama-vocab.cpp. */
static void check_rules(const char *name)
{
    static const char *const with_bos[] = {"llama-bpe",    "llama3",  "llama-v3",  "falcon3",
                                           "falcon-h1",    "pixtral", "midm-2.0",  "lfm2",
                                           "jina-v5-nano", "tekken",  "chameleon", NULL};
    static const char *const whole[] = {"llama-bpe",
                                        "llama3",
                                        "llama-v3",
                                        "falcon3",
                                        "falcon-h1",
                                        "pixtral",
                                        "midm-2.0",
                                        "lfm2",
                                        "jina-v5-nano",
                                        "tekken",
                                        "youtu",
                                        "minicpm5",
                                        "granite-embed-multi-97m",
                                        NULL};
    static const char *const composed[] = {"qwen2", "deepseek-r1-qwen", "f2llmv2", "qwen35", NULL};
    bool bos = is_one_of(name, with_bos), one = is_one_of(name, whole);
    for (int said = -1; said < 2; said++) { /* -1: not at all */
        gguf_build b = gpt2_build(name);
        whim_ckpt ckpt;
        whim_tokenizer *tok;
        whim_diag diag = {{0}};
        key_u32(&b, T "bos_token_id", 257);
        if (said >= 0) {
            key_bool(&b, T "add_bos_token", said > 0);
        }
        assert_int_equal(open_built(&b, &ckpt, &tok, &diag), WHIM_ERR_OK);
        bool has_bos = said < 0 ? bos : said > 0;
        expect(tok, "ab", true, has_bos ? (int32_t[]){257, 256} : (int32_t[]){256}, 1 + has_bos);
        expect(tok, "ab", false, (int32_t[]){256}, 1);
        expect(tok, "hq", false, one ? (int32_t[]){NO_MERGE} : (int32_t[]){'h', 'q'}, 2 - one);
        expect(tok, "e\xCC\x81", false,
               is_one_of(name, composed) ? (int32_t[]){0xC3, 0xA9} : (int32_t[]){'e', 0xCC, 0x81},
               is_one_of(name, composed) ? 2 : 3);
        whim_tokenizer_close(tok);
        whim_ckpt_close(&ckpt);
    }
}

/* Every name that GGUF files have, on hard strings (tools/golden/make_pre_golden.py). */
static void named_splits(void **state)
{
    (void)state;
    enum { N_PROBE = 25, MAX_LINES = 1000 };
    static char text[1 << 16];
    char *lines[MAX_LINES];
    whim_str probes[N_PROBE] = {0};
    int n_line = 0, n_name = 0;
    FILE *file = fopen("tests/data/text/pre_names.golden", "r");
    assert_non_null(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    for (char *at = text, *line; (line = strsep(&at, "\n")) != NULL && *line != '\0';) {
        assert_true(n_line < MAX_LINES);
        lines[n_line++] = line;
    }
    assert_true(n_line > 0 && n_line % (N_PROBE + 1) == 0);
    for (int k = 0; k < N_PROBE; k++) {
        unsigned byte;
        for (const char *hex = lines[1 + k]; sscanf(hex, "%2x", &byte) == 1; hex += 2) {
            whim_str_append_char(&probes[k], (char)byte);
        }
    }
    for (int at = N_PROBE + 1; at < n_line; at += N_PROBE + 1) {
        for (char *names = lines[at], *name; (name = strsep(&names, " ")) != NULL; n_name++) {
            check_split(name, probes, N_PROBE, &lines[at + 1]);
            check_rules(name);
        }
    }
    assert_true(n_name > 80);
    for (int k = 0; k < N_PROBE; k++) {
        whim_str_deinit(&probes[k]);
    }
}

static void expect_bad(gguf_build b, const char *needle)
{
    whim_ckpt ckpt;
    whim_tokenizer *tok;
    whim_diag diag = {{0}};
    whim_err err = open_built(&b, &ckpt, &tok, &diag);
    if (err == WHIM_ERR_OK || strstr(diag.text, needle) == NULL ||
        strstr(diag.text, "m.gguf") == NULL) {
        fail_msg("expected a refusal with \"%s\": %s", needle, diag.text);
    }
    assert_null(tok);
    whim_ckpt_close(&ckpt);
}

static void broken_vocabularies_are_refused(void **state)
{
    (void)state;
    expect_bad(gpt2_build("tekken9"), T "pre\" is \"tekken9\"");
    gguf_build b = gpt2_build("qwen2");
    key_u32(&b, T "unknown_token_id", 99999);
    expect_bad(b, T "unknown_token_id");
    b = llama_build();
    key_u32(&b, T "add_bos_token", 1);
    expect_bad(b, T "add_bos_token");
    static const char *const merges[] = {"a b", "a z9"};
    static const char *const no_space[] = {"ab"};
    static const char *const tokens[] = {"a", "b", "ab", "c"};
    static const char *const not_text[] = {"a", "b\xFF", "c", "d"};
    static const int types[] = {1, 1};
    static const float nan_scores[] = {0, 0, 0.0f / 0.0f, 0};
    b = without_tokens();
    key_strings(&b, T "tokens", tokens, 4);
    key_str(&b, T "model", "bert");
    expect_bad(b, T "model\" is \"bert\"");
    b = without_tokens();
    key_strings(&b, T "tokens", tokens, 4);
    expect_bad(b, T "model");
    b = without_tokens();
    key_strings(&b, T "tokens", tokens, 4);
    key_str(&b, T "model", "gpt2");
    expect_bad(b, T "merges\" is missing");
    b = without_tokens();
    key_strings(&b, T "tokens", tokens, 4);
    key_str(&b, T "model", "gpt2");
    key_strings(&b, T "merges", merges, 2);
    expect_bad(b, T "merges\": entry 1");
    b = without_tokens();
    key_strings(&b, T "tokens", tokens, 4);
    key_str(&b, T "model", "gpt2");
    key_strings(&b, T "merges", no_space, 1);
    expect_bad(b, T "merges\": entry 0");
    b = without_tokens();
    key_strings(&b, T "tokens", not_text, 4);
    key_str(&b, T "model", "gpt2");
    expect_bad(b, "token 1 is not valid UTF-8");
    b = without_tokens();
    key_strings(&b, T "tokens", tokens, 4);
    ints(&b, T "token_type", types, 2);
    key_str(&b, T "model", "gpt2");
    expect_bad(b, T "token_type\" has 2 elements");
    b = without_tokens();
    key_strings(&b, T "tokens", tokens, 4);
    key_str(&b, T "model", "llama");
    floats(&b, T "scores", nan_scores, 4);
    expect_bad(b, "token 2 is not a number");
    b = without_tokens();
    key_strings(&b, T "tokens", tokens, 4);
    key_str(&b, T "model", "llama");
    key_str(&b, T "scores", "none");
    expect_bad(b, T "scores");
}

/* --- what others wrote ------------------------------------------------------------------------- */

/* `ids` as llama.cpp's .out files write them: each after a space. */
static bool is_line(const whim_ids *ids, const char *line)
{
    bool same = true;
    for (int64_t i = 0; i < ids->n && same; i++) {
        char *end;
        same = strtol(line, &end, 10) == ids->ids[i] && end != line;
        line = end;
    }
    return same && line[strspn(line, " ")] == '\0';
}

/* FILE.gguf against FILE.gguf.inp and FILE.gguf.out, the texts and ids of llama.cpp's models/. */
static bool check_vocabulary(const char *path)
{
    whim_gguf gguf = {0};
    whim_ckpt ckpt = {.gguf = &gguf}; /* keys alone: of any architecture, without tensors */
    whim_tokenizer *tok = NULL;
    whim_diag diag = {{0}};
    char name[1024];
    int64_t n_text, n_line;
    int n = 0, n_same = 0;
    snprintf(name, sizeof name, "cat '%s.inp'", path);
    char *texts = command_output(name, &n_text);
    snprintf(name, sizeof name, "cat '%s.out'", path);
    char *lines = command_output(name, &n_line), *next = lines;
    whim_arena_init(&ckpt.arena);
    if (whim_ckpt_add_file(&ckpt, path, &diag) != WHIM_ERR_OK ||
        whim_gguf_read_keys(&gguf, &ckpt.arena, &ckpt.files[0], &diag) != WHIM_ERR_OK ||
        whim_tokenizer_open(path, &ckpt, &tok, &diag) != WHIM_ERR_OK) {
        printf("refused: %s\n", diag.text);
    } else if (texts != NULL && lines != NULL) {
        static const char between[] = "\n__ggml_vocab_test__\n";
        for (const char *at = texts, *end; at < texts + n_text; at = end + sizeof between - 1) {
            end = memmem(at, (size_t)(texts + n_text - at), between, sizeof between - 1);
            end = end != NULL ? end : texts + n_text;
            whim_ids ids = encode(tok, at, end - at, (whim_encode_opts){0});
            const char *line = strsep(&next, "\n");
            bool same = line != NULL && is_line(&ids, line);
            if (!same) {
                printf("%s: [%.*s] is not%s\n", path, (int)(end - at), at, line ? line : " there");
            }
            n++;
            n_same += same;
            whim_ids_deinit(&ids);
        }
        printf("%s: %d of %d texts have the same ids\n", path, n_same, n);
    }
    free(texts);
    free(lines);
    whim_tokenizer_close(tok);
    ckpt.gguf = NULL;
    whim_gguf_deinit(&gguf);
    whim_ckpt_close(&ckpt);
    return n > 0 && n == n_same;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kind_llama),      cmocka_unit_test(usual_marks),
        cmocka_unit_test(gaps_have_marks), cmocka_unit_test(gaps_are_found_by_spelling),
        cmocka_unit_test(kind_gpt2),       cmocka_unit_test(kind_gemma),
        cmocka_unit_test(named_splits),    cmocka_unit_test(broken_vocabularies_are_refused),
    };
    int failed = argc > 1 ? 0 : cmocka_run_group_tests(tests, dir_setup, dir_teardown);
    for (int i = 1; i < argc; i++) {
        failed += !check_vocabulary(argv[i]);
    }
    return failed;
}

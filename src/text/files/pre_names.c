/* SPDX-License-Identifier: Apache-2.0 */
/* The splits that GGUF files name in "tokenizer.ggml.pre", where tokenizer.json has the patterns
 * themselves. */
#include "models/model.h"
#include "text/tokenizer_impl.h"

#include <string.h>

#define SUFFIXES "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define LETTERS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define MARKS " ?[^\\s\\p{L}\\p{N}]+"
#define WORDS(digits) SUFFIXES "|" LETTERS "|" digits "|" MARKS "[\\r\\n]*|" SPACES
/* Words that end where a capital begins. */
#define CASED(upper, lower, suffix)                         \
    "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" suffix "|" \
    "[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower "*" suffix "|"
#define NO_HAN(class) "(?:(?!\\p{Han})" class ")"
#define CJK "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
/* Syllables and more; that U+0800 to U+4E00 is within may be a slip of its authors. */
#define EAST_ASIAN "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
/* Letters with cases: Latin, Greek, Cyrillic and others, but not all that Unicode has. */
#define TWO_CASES                                                                             \
    "\\x{41}-\\x{5a}\\x{61}-\\x{7a}\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}"     \
    "\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}"    \
    "\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}"             \
    "\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}" \
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"            \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}"            \
    "\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}"   \
    "\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}"    \
    "\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}"            \
    "\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}"             \
    "\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}"              \
    "\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}"   \
    "\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}"    \
    "\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"             \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}"            \
    "\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}"          \
    "\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}"    \
    "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"

const char whim_pre_gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
                             "\\s+(?!\\S)|\\s+";
static const char one_digit[] = "\\p{N}";
static const char three_digits[] = "\\p{N}{1,3}";
/* From the right. Looking ahead ends after 300 digits: what is longer is no number, and would take
 * the square of its length. */
static const char threes[] = "\\d{1,3}(?=(?:\\d{3}){0,100}\\b)";
static const char number_threes[] = "\\p{N}{1,3}(?=(?:\\p{N}{3}){0,100}(?!\\p{N}))";
static const char ascii_threes[] = "[0-9][0-9][0-9]";
static const char lines[] = "[^\\n]+|[\\n]+";
static const char qwen2[] = WORDS("\\p{N}");
static const char llama3[] = WORDS("\\p{N}{1,3}");
static const char qwen35[] = SUFFIXES "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
                                      " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES;
static const char gpt4o[] =
    CASED(UPPER, LOWER, SUFFIXES "?") "\\p{N}{1,3}|" MARKS "[\\r\\n/]*|" SPACES;
static const char gpt4o_one_digit[] =
    CASED(UPPER, LOWER, SUFFIXES "?") "\\p{N}|" MARKS "[\\r\\n/]*|" SPACES;
static const char tekken[] = CASED(UPPER, LOWER, "") "\\p{N}|" MARKS "[\\r\\n/]*|" SPACES;
static const char kimi[] =
    "\\p{Han}+|" CASED(NO_HAN(UPPER), NO_HAN(LOWER), SUFFIXES "?") "\\p{N}{1,3}|" MARKS
                                                                   "[\\r\\n]*|" SPACES;
static const char bailing[] = "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}|"
                              " ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";
static const char seed[] = SUFFIXES "|" LETTERS "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES;
static const char exaone_moe[] =
    SUFFIXES "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}|" MARKS
             "[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";
static const char jais2[] = SUFFIXES
    "|" LETTERS "|\\p{N}{1,3}|" MARKS "[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|"
    "\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|"
    "\\s{1,2}(?!\\S)|\\s{1}";
static const char bloom[] = " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}"
                            "\\x{60c})]+";
static const char youtu_east[] =
    "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|"
    "[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}\\x{2019}\\x{2014}\\x{ff1a}\\x{ff1b}\\x{ff0c}"
    "\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|[\\x{3105}-\\x{312f}]+|" CJK;
/* As llama.cpp lists them: where the third range begins may be a slip, U+F900 being meant. */
static const char many_scripts[] =
    "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{8c48}-\\x{faff}\\x{3040}-\\x{309f}"
    "\\x{30a0}-\\x{30ff}\\x{ff65}-\\x{ff9f}\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{e7f}"
    "\\x{e80}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}\\x{aa60}-\\x{aa7f}"
    "\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]+";
static const char deepseek_words[] =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
    "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES;
static const char deepseek_marks[] =
    "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+";

enum { MAX_PATTERNS = 6 };

typedef struct pre_name {
    const char *name;
    const char *patterns[MAX_PATTERNS]; /* applied one after the other */
    bool nfc; /* the model's own files normalise; GGUF metadata cannot say so */
    bool ignore_merges;
    bool add_bos; /* where the file does not say */
    /* Not the alphabet of bytes: spaces become marks, and a byte without a token has one that is
     * named after it. */
    bool marks;
} pre_name;

static const pre_name names[] = {
    /* What files without a name have. */
    {"default", {"[\\p{P}\\$\\+<=>\\^~\\|]+", whim_pre_gpt2, "\\p{N}+", ascii_threes}},
    {"gpt-2", {whim_pre_gpt2}},
    {"phi-2", {whim_pre_gpt2}},
    {"mpt", {whim_pre_gpt2}},
    {"olmo", {whim_pre_gpt2}},
    {"jais", {whim_pre_gpt2}},
    {"gigachat", {whim_pre_gpt2}},
    {"jina-es", {whim_pre_gpt2}},
    {"jina-de", {whim_pre_gpt2}},
    {"jina-v2-es", {whim_pre_gpt2}},
    {"jina-v2-de", {whim_pre_gpt2}},
    {"modern-bert", {whim_pre_gpt2}},
    {"a.x-4.0", {whim_pre_gpt2}},
    {"mellum", {whim_pre_gpt2}},
    {"exaone4", {whim_pre_gpt2}},
    {"jina-v1-en", {whim_pre_gpt2}},
    {"jina-v2-code", {whim_pre_gpt2}},
    {"roberta-bpe", {whim_pre_gpt2}},
    {"trillion", {whim_pre_gpt2}},
    {"granite-docling", {whim_pre_gpt2}},
    {"smollm", {one_digit, whim_pre_gpt2}},
    {"starcoder", {one_digit, whim_pre_gpt2}},
    {"refact", {one_digit, whim_pre_gpt2}},
    {"command-r", {one_digit, whim_pre_gpt2}},
    {"codeshell", {one_digit, whim_pre_gpt2}},
    {"exaone", {one_digit, whim_pre_gpt2}},
    {"minerva-7b", {one_digit, whim_pre_gpt2}},
    {"mellum2", {one_digit, whim_pre_gpt2}},
    {"falcon", {"[\\p{P}\\$\\+<=>\\^~\\|`]+", whim_pre_gpt2, ascii_threes}},
    {"qwen2", {qwen2}, .nfc = true},
    {"deepseek-r1-qwen", {qwen2}, .nfc = true},
    {"f2llmv2", {qwen2}, .nfc = true},
    {"qwen35", {qwen35}, .nfc = true},
    {"kormo", {qwen2}},
    {"megrez", {qwen2}},
    {"stablelm2", {qwen2}},
    {"hunyuan", {qwen2}},
    {"solar-open", {qwen2}},
    {"grok-2", {qwen2}},
    {"laguna", {lines, qwen2}},
    {"seed-coder", {seed}},
    {"bailingmoe", {bailing}},
    {"bailingmoe2", {bailing}},
    {"llada-moe", {bailing}},
    {"exaone-moe", {exaone_moe}},
    {"llama-bpe", {llama3}, .ignore_merges = true, .add_bos = true},
    {"llama3", {llama3}, .ignore_merges = true, .add_bos = true},
    {"llama-v3", {llama3}, .ignore_merges = true, .add_bos = true},
    {"falcon3", {llama3}, .ignore_merges = true, .add_bos = true},
    {"falcon-h1", {llama3}, .ignore_merges = true, .add_bos = true},
    {"pixtral", {llama3}, .ignore_merges = true, .add_bos = true},
    {"midm-2.0", {llama3}, .ignore_merges = true, .add_bos = true},
    {"lfm2", {llama3}, .ignore_merges = true, .add_bos = true},
    {"jina-v5-nano", {llama3}, .ignore_merges = true, .add_bos = true},
    {"minicpm5", {three_digits, WORDS("\\p{N}+")}, .ignore_merges = true},
    {"dbrx", {llama3}},
    {"smaug-bpe", {llama3}},
    {"glm4", {llama3}},
    {"chatglm-bpe", {llama3}},
    {"jais-2", {jais2}},
    {"gpt-4o", {gpt4o}},
    {"llama4", {gpt4o}},
    {"kanana2", {gpt4o}},
    {"talkie", {gpt4o}},
    {"granite-embed-multi-97m", {gpt4o}, .ignore_merges = true},
    {"tiny_aya", {threes, gpt4o}},
    {"cohere2moe", {threes, gpt4o}},
    {"youtu", {youtu_east, gpt4o_one_digit}, .ignore_merges = true},
    {"tekken", {tekken}, .ignore_merges = true, .add_bos = true},
    {"kimi-k2", {kimi}},
    {"deepseek-llm",
     {"[\\r\\n]", "\\s?[" TWO_CASES "]+", deepseek_marks, "\\s+$", EAST_ASIAN, "\\p{N}+"}},
    {"deepseek-coder", {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", EAST_ASIAN, one_digit}},
    {"deepseek-v3", {three_digits, CJK, deepseek_words}},
    {"hunyuan-dense", {three_digits, CJK, deepseek_words}},
    {"joyai-llm", {three_digits, CJK, deepseek_words}},
    {"afmoe", {number_threes, many_scripts, deepseek_words}},
    {"chameleon",
     {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", one_digit,
      "[\\p{P}!-/:-@\\[-`{-~]", whim_pre_gpt2},
     .add_bos = true},
    /* Also from the right, in pieces of 300. */
    {"superbpe", {"\\p{N}{1,300}", "(?=(\\d{3})+(?!\\d))"}},
    {"bloom", {bloom}},
    {"gpt3-finnish", {bloom}},
    {"poro-chat", {bloom}},
    {"viking", {bloom, one_digit}},
    {"gemma4", {lines}, .add_bos = true, .marks = true},
    {"granite-embed-multi-311m", {lines}, .add_bos = true, .marks = true},
    {"sarvam-moe", {lines}, .marks = true},
};

const whim_normal_step whim_spaces_become_marks = {
    .kind = WHIM_NORMAL_REPLACE, .pattern = " ", .content = WHIM_SPACE_MARK};

whim_err whim_pre_add(whim_pretokenizer *pre, whim_pre_step step, whim_diag *diag)
{
    if (pre->n_step == WHIM_PRE_STEPS) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "a pre-tokenizer of more than %d steps is not supported", WHIM_PRE_STEPS);
    }
    pre->steps[pre->n_step++] = step;
    return WHIM_ERR_OK;
}

whim_err whim_pre_add_regex(whim_pretokenizer *pre, const char *pattern,
                            whim_split_behavior behavior, bool invert, whim_diag *diag)
{
    whim_pre_step step = {.kind = WHIM_PRE_SPLIT, .behavior = behavior, .invert = invert};
    WHIM_TRY(whim_regex_compile(pattern, &step.regex, diag));
    whim_err err = whim_pre_add(pre, step, diag);
    if (err != WHIM_ERR_OK) {
        whim_regex_free(step.regex);
    }
    return err;
}

whim_err whim_tokenizer_set_pre(whim_tokenizer *tok, const char *name, int64_t n, const char *path,
                                bool *add_bos, whim_diag *diag)
{
    const pre_name *found = NULL;
    const char *alias = whim_model_pre_alias(name, n);
    const char *wanted = alias != NULL ? alias : name;
    int64_t n_wanted = alias != NULL ? (int64_t)strlen(alias) : n;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if ((int64_t)strlen(names[i].name) == n_wanted &&
            memcmp(names[i].name, wanted, (size_t)n_wanted) == 0) {
            found = &names[i];
        }
    }
    if (found == NULL) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"tokenizer.ggml.pre\" is \"%.*s\", a way to cut words that is not "
                         "supported; use the model's folder with its tokenizer.json instead",
                         path, (int)(n < 64 ? n : 64), name);
    }
    for (int i = 0; i < MAX_PATTERNS && found->patterns[i] != NULL; i++) {
        WHIM_TRY(
            whim_pre_add_regex(&tok->pre, found->patterns[i], WHIM_SPLIT_ISOLATED, false, diag));
    }
    if (found->marks) {
        tok->normalizer.steps[tok->normalizer.n_step++] = whim_spaces_become_marks;
        tok->bpe.byte_fallback = true;
    } else {
        WHIM_TRY(whim_pre_add(&tok->pre, (whim_pre_step){.kind = WHIM_PRE_BYTE_LEVEL}, diag));
    }
    if (found->nfc) {
        tok->normalizer.steps[tok->normalizer.n_step++].kind = WHIM_NORMAL_NFC;
    }
    tok->bpe.ignore_merges = found->ignore_merges;
    *add_bos = found->add_bos;
    return WHIM_ERR_OK;
}

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
#define WORDS(digits) \
    SUFFIXES "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES

const char whim_pre_gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
                             "\\s+(?!\\S)|\\s+";
static const char one_digit[] = "\\p{N}";
static const char three_digits[] = "\\p{N}{1,3}";
static const char qwen2[] = WORDS("\\p{N}");
static const char llama3[] = WORDS("\\p{N}{1,3}");
static const char qwen35[] = SUFFIXES "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
                                      " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES;
static const char gpt4o[] = "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" SUFFIXES "?|"
                            "[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" SUFFIXES "?|"
                            "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES;
static const char deepseek_cjk[] = "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+";
static const char deepseek_words[] =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
    "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES;

typedef struct pre_name {
    const char *name;
    const char *patterns[5]; /* applied one after the other */
    bool nfc;                /* the model's own files normalise; GGUF metadata cannot say so */
    bool ignore_merges;
} pre_name;

static const pre_name names[] = {
    {"default", {whim_pre_gpt2}},
    {"gpt-2", {whim_pre_gpt2}},
    {"smollm", {one_digit, whim_pre_gpt2}},
    {"qwen2", {qwen2}, .nfc = true},
    {"deepseek-r1-qwen", {qwen2}, .nfc = true},
    {"qwen35", {qwen35}, .nfc = true},
    {"llama-bpe", {llama3}, .ignore_merges = true},
    {"llama3", {llama3}, .ignore_merges = true},
    {"llama-v3", {llama3}, .ignore_merges = true},
    {"gpt-4o", {gpt4o}},
    {"deepseek-v3", {three_digits, deepseek_cjk, deepseek_words}},
    {"deepseek-coder",
     {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
      "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+", one_digit}},
};

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
                                whim_diag *diag)
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
                         "%s: \"tokenizer.ggml.pre\" is \"%.*s\", which is not supported", path,
                         (int)(n < 64 ? n : 64), name);
    }
    for (int i = 0; i < 5 && found->patterns[i] != NULL; i++) {
        WHIM_TRY(
            whim_pre_add_regex(&tok->pre, found->patterns[i], WHIM_SPLIT_ISOLATED, false, diag));
    }
    WHIM_TRY(whim_pre_add(&tok->pre, (whim_pre_step){.kind = WHIM_PRE_BYTE_LEVEL}, diag));
    if (found->nfc) {
        tok->normalizer.steps[tok->normalizer.n_step++].kind = WHIM_NORMAL_NFC;
    }
    tok->bpe.ignore_merges = found->ignore_merges;
    return WHIM_ERR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Fill-in-the-middle tokens by the spellings of published models. */
#include "text/fim.h"

#include "text/tokenizer_impl.h"

#include <stddef.h>

/* DeepSeek's bar and underscore, and the space mark of sentencepiece. */
#define BAR "\xef\xbd\x9c"
#define LOW "\xe2\x96\x81"

enum { MOST_NAMES = 4 };

/* Prefix, suffix and middle are of one model: the first row of which all are there. */
static const char *const gaps[][3] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
    {"<|fim_begin|>", "<|fim_hole|>", "<|fim_end|>"},
    {"<" BAR "fim" LOW "begin" BAR ">", "<" BAR "fim" LOW "hole" BAR ">",
     "<" BAR "fim" LOW "end" BAR ">"},
    {"<PRE>", "<SUF>", "<MID>"},
    {LOW "<PRE>", LOW "<SUF>", LOW "<MID>"},
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},
    {"<|prefix|>", "<|suffix|>", "<|middle|>"},
};
static const char *const pads[MOST_NAMES] = {"<|fim_pad|>", "<fim_pad>", "<fim-pad>"};
static const char *const repos[MOST_NAMES] = {"<|repo_name|>", "<repo_name>", "<reponame>",
                                              "<|fim_repo|>"};
static const char *const files[MOST_NAMES] = {"<|file_sep|>", "<file_sep>"};

static int32_t find_first(const whim_tokenizer *tok, const char *const *names)
{
    int32_t id = -1;
    for (int i = 0; i < MOST_NAMES && names[i] != NULL && id < 0; i++) {
        id = whim_tokenizer_find(tok, names[i]);
    }
    return id;
}

static bool is_whole(const whim_fim *fim)
{
    return fim->prefix >= 0 && fim->suffix >= 0 && fim->middle >= 0;
}

bool whim_fim_find(const whim_tokenizer *tok, whim_fim *out)
{
    *out = tok->has_fim ? tok->fim : (whim_fim){-1, -1, -1, -1, -1, -1};
    for (size_t i = 0; i < sizeof gaps / sizeof gaps[0] && !is_whole(out); i++) {
        out->prefix = whim_tokenizer_find(tok, gaps[i][0]);
        out->suffix = whim_tokenizer_find(tok, gaps[i][1]);
        out->middle = whim_tokenizer_find(tok, gaps[i][2]);
    }
    out->pad = out->pad >= 0 ? out->pad : find_first(tok, pads);
    out->repo = out->repo >= 0 ? out->repo : find_first(tok, repos);
    out->file = out->file >= 0 ? out->file : find_first(tok, files);
    return is_whole(out);
}

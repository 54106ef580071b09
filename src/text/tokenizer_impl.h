/* SPDX-License-Identifier: Apache-2.0 */
/* What a tokenizer is made of, for the loaders that fill it and the calls that use it. Whatever
 * the file it came from, a text goes through the same steps: added tokens, normaliser, added tokens
 * that are looked for in normalised text, pre-tokeniser, merges, post-processor. */
#ifndef WHIM_TEXT_TOKENIZER_IMPL_H
#define WHIM_TEXT_TOKENIZER_IMPL_H

#include "base/json.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/files/json_scan.h"
#include "text/fim.h"
#include "text/normalize.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"

enum {
    WHIM_AFFIX_MAX = 8,
    WHIM_TEMPLATE_MAX = 32,
    WHIM_STOP_MAX = 32,
};

typedef struct whim_named_template {
    const char *name;
    const char *text;
} whim_named_template;

/* Ids that the post-processor puts around the text. */
typedef struct whim_affix {
    int32_t ids[WHIM_AFFIX_MAX];
    int32_t n;
} whim_affix;

struct whim_tokenizer {
    whim_arena arena;
    whim_vocab vocab;
    whim_bpe bpe;
    whim_normalizer normalizer;
    whim_pretokenizer pre;
    whim_added_set raw;        /* added tokens looked for in the text as it is */
    whim_added_set normalized; /* and in the normalised text */
    whim_affix prefix, suffix;
    whim_decoder decoder;
    bool byte_tokens;      /* <0xXX> prints as a byte */
    bool drop_first_space; /* the decoder drops one space at the start */
    whim_named_template templates[WHIM_TEMPLATE_MAX];
    int32_t n_template;
    const char *bos, *eos; /* texts, "" when absent */
    int32_t stop[WHIM_STOP_MAX];
    int32_t n_stop;
    int32_t most_bytes; /* of those that it keeps so many become one id; 0: there is no bound */
    bool keeps[256];    /* a byte of the text is not dropped */
    whim_fim fim;       /* what the file names of it, where it is one that can */
    bool has_fim;
};

/* Fill a zeroed tokenizer from the text of a tokenizer.json. `path` is for messages. */
WHIM_MUST_CHECK whim_err whim_tokenizer_from_json(whim_tokenizer *tok, const char *text, int64_t n,
                                                  const char *path, whim_diag *diag);

/* Its parts (tokenizer_json_*.c); the large ones are read from the text. */
WHIM_MUST_CHECK whim_err whim_tokenizer_json_model(whim_tokenizer *tok, const whim_json *model,
                                                   const whim_json *added, const char *text,
                                                   const whim_json_cut *cut, const char *path,
                                                   whim_diag *diag);

/* What reads one component (normaliser, pre-tokeniser, post-processor, decoder) of a type. */
typedef whim_err whim_component_fn(whim_tokenizer *tok, const whim_json_scope *scope,
                                   const char *type);
whim_component_fn whim_tokenizer_json_normalizer, whim_tokenizer_json_pre;

/* Build `raw` and `normalized` from the array "added_tokens", whose ids are in the vocabulary. */
WHIM_MUST_CHECK whim_err whim_tokenizer_json_added(whim_tokenizer *tok, const whim_json *added,
                                                   const char *path, whim_diag *diag);

/* Add what a tokenizer_config.json says: templates, bos, eos. */
WHIM_MUST_CHECK whim_err whim_tokenizer_config_json(whim_tokenizer *tok, const char *text,
                                                    int64_t n, const char *path, whim_diag *diag);

/* Fill a zeroed tokenizer from the metadata of a GGUF file. */
WHIM_MUST_CHECK whim_err whim_tokenizer_from_gguf(whim_tokenizer *tok, const whim_gguf *gguf,
                                                  whim_diag *diag);

/* Set up normaliser and pre-tokeniser by the name a GGUF file gives them (pre_names.c); *add_bos is
 * whether files of that name that do not say so want BOS before a text. */
WHIM_MUST_CHECK whim_err whim_tokenizer_set_pre(whim_tokenizer *tok, const char *name, int64_t n,
                                                const char *path, bool *add_bos, whim_diag *diag);

/* Append a SPLIT step; the diag says what is wrong with the pattern only. */
WHIM_MUST_CHECK whim_err whim_pre_add_regex(whim_pretokenizer *pre, const char *pattern,
                                            whim_split_behavior behavior, bool invert,
                                            whim_diag *diag);

/* Append a step of another kind. FULL with a message when there is no room. */
WHIM_MUST_CHECK whim_err whim_pre_add(whim_pretokenizer *pre, whim_pre_step step, whim_diag *diag);

/* Keep a template under a name; a later one of the same name replaces the earlier. */
WHIM_MUST_CHECK whim_err whim_tokenizer_keep_template(whim_tokenizer *tok, const char *name,
                                                      const char *text, int64_t n, const char *path,
                                                      whim_diag *diag);

/* Set most_bytes (least_ids.c), when all else is read. */
void whim_tokenizer_find_most_bytes(whim_tokenizer *tok);

/* Note an id that ends generation; -1, unknown and known ids are passed over. */
void whim_tokenizer_add_stop(whim_tokenizer *tok, int32_t id);

/* Of vocabularies in which spaces are marks. */
extern const whim_normal_step whim_spaces_become_marks;

/* The split that byte-level files use when they name no other. */
extern const char whim_pre_gpt2[];

#endif

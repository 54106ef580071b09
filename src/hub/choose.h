/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of a repository a model needs: configuration, tokenizer and templates with its
 * safetensors, or one GGUF file with all its parts. Pickles (.bin, .pt, ...) are never chosen:
 * loading one runs code.
 * Threads: stateless. */
#ifndef WHIM_HUB_CHOOSE_H
#define WHIM_HUB_CHOOSE_H

#include "base/str.h"
#include "hub/listing.h"

typedef struct whim_hub_choice {
    whim_hub_file **files; /* in the listing's arena, in the order of the listing */
    int64_t n_file;
    /* the GGUF file (its first part) or the picked file; NULL: the whole folder is the model */
    const char *entry;
    bool has_config, has_weights, has_tokenizer; /* of a folder */
} whim_hub_choice;

/* `pick` is "" or names one file or quantisation (see whim_hub_ref). A folder without weights is
 * NOT_FOUND, with what is there instead; so is a pick that no file or several have. `id` is for
 * messages. */
WHIM_MUST_CHECK whim_err whim_hub_choose(whim_hub_choice *choice, whim_hub_listing *listing,
                                         const char *id, const char *pick, whim_diag *diag);

/* Whether a file's name is that of a model as GGUF, or of the first part of one. */
bool whim_hub_gguf_head(const char *name);

/* What was not chosen, as a sentence; nothing when all was. */
void whim_hub_choice_left_out(const whim_hub_choice *choice, const whim_hub_listing *listing,
                              whim_str *out);

/* Add files by name that turned out to be needed (shards that an index lists). */
WHIM_MUST_CHECK whim_err whim_hub_choice_add(whim_hub_choice *choice, whim_hub_listing *listing,
                                             const char *name);

#endif

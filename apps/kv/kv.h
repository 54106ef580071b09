/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of `kv` share: a model as a server would have it, without its weights, and
 * the name of its pages.
 * Threads: the main thread. */
#ifndef WHIM_APPS_KV_KV_H
#define WHIM_APPS_KV_KV_H

#include "kv/archive.h"
#include "kv/disk_tier.h"
#include "serve/serve.h"

/* A model's pages on disk. {0} is closed. */
typedef struct kv_model {
    whim_options own; /* of the command, with its MODEL where that belongs */
    const char *file; /* the other operand */
    char dir[MODEL_PATH_MAX], path_buf[MODEL_PATH_MAX];
    loader load;
    whimbrel_model *model;
    whim_kv_space space;
    int32_t n_part; /* ranks that keep a part of each page */
    serve server;   /* that makes tokens of prompts; {0}: it was not needed */
} kv_model;

/* The pages of some prompts, each once, in no order: what --prompts asks for. */
typedef struct kv_page {
    whim_prefix_key key;
    int64_t tokens_at; /* of the page's own, in `tokens` */
} kv_page;

typedef struct kv_pages {
    kv_page *v;
    int64_t n, cap;
    int32_t *tokens;
    int64_t n_token, max_token;
} kv_pages;

/* Those of all prompts of --prompts, as a server would make them; false after a complaint. */
bool kv_pages_read(kv_model *m, int32_t page_len, kv_pages *out);
void kv_pages_deinit(kv_pages *pages);

/* Prepare the model, find out who its weights are, and which folder has its pages; false after a
 * complaint. */
bool kv_model_open(kv_model *m);
void kv_model_close(kv_model *m);

/* The name of a part's space. */
void kv_part_space(const kv_model *m, int32_t part, char out[WHIM_ARCHIVE_SPACE]);

/* What differs between the names of two spaces, in words, with what helps. "" where nothing
 * does. */
void kv_difference(const char *theirs, const char *ours, whim_str *out);

/* The two halves of the command; the exit status. */
int kv_export(kv_model *m);
int kv_import(kv_model *m);

/* "375 pages of 32 tokens and 3 states, 93.00 MiB" */
void kv_append_counts(whim_str *out, const whim_archive_part *parts, int32_t n_part);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, asking and closing a tokenizer. Encoding is in encode.c. */
#include "text/tokenizer_impl.h"

#include "base/alloc.h"
#include "base/file.h"
#include "weights/gguf/gguf.h"

#include <string.h>

enum {
    JSON_MAX = 256 << 20,
    CONFIG_MAX = 16 << 20,
};

/* Texts that published chat models use to end a turn or a document. */
static const char *const stop_texts[] = {
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "[e~[",
    "<eos>",
    "</s>",
    "<EOT>",
    "<|EOT|>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81"
    "of\xE2\x96\x81sentence\xEF\xBD\x9C>",
};

whim_err whim_ids_append(whim_ids *list, int32_t id)
{
    if (!whim_grow(&list->ids, list->n + 1, &list->cap, sizeof *list->ids)) {
        return WHIM_ERR_NO_MEMORY;
    }
    list->ids[list->n++] = id;
    return WHIM_ERR_OK;
}

void whim_ids_deinit(whim_ids *list)
{
    whim_free(list->ids);
    *list = (whim_ids){0};
}

void whim_tokenizer_add_stop(whim_tokenizer *tok, int32_t id)
{
    for (int32_t i = 0; i < tok->n_stop; i++) {
        if (tok->stop[i] == id) {
            return;
        }
    }
    if (id >= 0 && id < tok->vocab.count && tok->n_stop < WHIM_STOP_MAX) {
        tok->stop[tok->n_stop++] = id;
    }
}

whim_err whim_tokenizer_keep_template(whim_tokenizer *tok, const char *name, const char *text,
                                      int64_t n, const char *path, whim_diag *diag)
{
    char *name_copy = whim_arena_strndup(&tok->arena, name, (int64_t)strlen(name));
    char *copy = whim_arena_strndup(&tok->arena, text, n);
    if (name_copy == NULL || copy == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    if ((int64_t)strlen(copy) != n) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: the chat template \"%s\" holds a NUL byte",
                         path, name_copy);
    }
    int32_t i = 0;
    while (i < tok->n_template && strcmp(tok->templates[i].name, name_copy) != 0) {
        i++;
    }
    if (i == WHIM_TEMPLATE_MAX) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED, "%s: more than %d chat templates", path,
                         WHIM_TEMPLATE_MAX);
    }
    tok->templates[i] = (whim_named_template){name_copy, copy};
    tok->n_template = i == tok->n_template ? i + 1 : tok->n_template;
    return WHIM_ERR_OK;
}

/* A file beside tokenizer.json; *text is NULL when it is not there. */
static whim_err read_beside(whim_tokenizer *tok, const char *dir, const char *name,
                            const char **path, char **text, int64_t *n, whim_diag *diag)
{
    *text = NULL;
    *path = whim_path_join(&tok->arena, dir, name);
    if (*path == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    if (whim_path_get_type(*path) != WHIM_PATH_FILE) {
        return WHIM_ERR_OK;
    }
    return whim_file_read_all(*path, CONFIG_MAX, text, n, diag);
}

static whim_err open_config(whim_tokenizer *tok, const char *dir, whim_diag *diag)
{
    const char *path;
    char *text;
    int64_t n;
    WHIM_TRY(read_beside(tok, dir, "tokenizer_config.json", &path, &text, &n, diag));
    whim_err err = WHIM_ERR_OK;
    if (text != NULL) {
        err = whim_tokenizer_config_json(tok, text, n, path, diag);
        whim_free(text);
    }
    WHIM_TRY(err);
    /* Newer directories have the template in a file of its own, which wins. */
    WHIM_TRY(read_beside(tok, dir, "chat_template.jinja", &path, &text, &n, diag));
    if (text != NULL) {
        err = whim_tokenizer_keep_template(tok, "default", text, n, path, diag);
        whim_free(text);
    }
    return err;
}

static whim_err open_dir(whim_tokenizer *tok, const char *dir, whim_diag *diag)
{
    const char *path = whim_path_join(&tok->arena, dir, "tokenizer.json");
    if (path == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    if (whim_path_get_type(path) == WHIM_PATH_NONE) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND,
                         "%s: there is no tokenizer.json; the model's directory needs one beside"
                         " its weights",
                         dir);
    }
    char *text;
    int64_t n;
    WHIM_TRY(whim_file_read_all(path, JSON_MAX, &text, &n, diag));
    whim_err err = whim_tokenizer_from_json(tok, text, n, path, diag);
    whim_free(text);
    WHIM_TRY(err);
    return open_config(tok, dir, diag);
}

static void find_stops(whim_tokenizer *tok)
{
    if (tok->eos[0] != '\0') {
        whim_tokenizer_add_stop(tok, whim_tokenizer_find(tok, tok->eos));
    }
    for (size_t i = 0; i < sizeof stop_texts / sizeof stop_texts[0]; i++) {
        int32_t id = whim_tokenizer_find(tok, stop_texts[i]);
        if (id >= 0 && (tok->vocab.tokens[id].flags & WHIM_TOKEN_ADDED) != 0) {
            whim_tokenizer_add_stop(tok, id);
        }
    }
}

whim_err whim_tokenizer_open(const char *model_path, const whim_ckpt *ckpt, whim_tokenizer **out,
                             whim_diag *diag)
{
    *out = NULL;
    whim_tokenizer *tok = whim_alloc(sizeof *tok);
    if (tok == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "%s: no memory for the tokenizer", model_path);
    }
    whim_arena_init(&tok->arena);
    tok->bos = tok->eos = "";
    whim_err err;
    if (ckpt != NULL && ckpt->gguf != NULL) {
        err = whim_tokenizer_from_gguf(tok, ckpt->gguf, diag);
    } else {
        err = open_dir(tok, model_path, diag);
    }
    if (err == WHIM_ERR_NO_MEMORY) {
        whim_fail(diag, err, "%s: no memory for the tokenizer", model_path);
    }
    if (err != WHIM_ERR_OK) {
        whim_tokenizer_close(tok);
        return err;
    }
    find_stops(tok);
    whim_tokenizer_find_most_bytes(tok);
    *out = tok;
    return WHIM_ERR_OK;
}

void whim_tokenizer_close(whim_tokenizer *tok)
{
    if (tok == NULL) {
        return;
    }
    whim_normalizer_deinit(&tok->normalizer);
    whim_pretokenizer_deinit(&tok->pre);
    whim_arena_reset(&tok->arena);
    whim_free(tok);
}

int32_t whim_tokenizer_count(const whim_tokenizer *tok)
{
    return tok->vocab.count;
}

const char *whim_tokenizer_bytes(const whim_tokenizer *tok, int32_t id, int64_t *n)
{
    if (id < 0 || id >= tok->vocab.count || tok->vocab.tokens[id].flags == 0) {
        *n = 0;
        return "";
    }
    *n = tok->vocab.tokens[id].n_bytes;
    return tok->vocab.tokens[id].bytes;
}

const char *whim_tokenizer_spelling(const whim_tokenizer *tok, int32_t id)
{
    bool is_known = id >= 0 && id < tok->vocab.count && tok->vocab.tokens[id].flags != 0;
    return is_known ? tok->vocab.tokens[id].text : "";
}

bool whim_tokenizer_is_special(const whim_tokenizer *tok, int32_t id)
{
    return id >= 0 && id < tok->vocab.count &&
           (tok->vocab.tokens[id].flags & WHIM_TOKEN_SPECIAL) != 0;
}

int32_t whim_tokenizer_find(const whim_tokenizer *tok, const char *text)
{
    return whim_vocab_find(&tok->vocab, text, (int64_t)strlen(text));
}

const char *whim_tokenizer_template(const whim_tokenizer *tok, const char *variant)
{
    for (int32_t i = 0; i < tok->n_template; i++) {
        if (strcmp(tok->templates[i].name, variant != NULL ? variant : "default") == 0) {
            return tok->templates[i].text;
        }
    }
    return NULL;
}

const char *whim_tokenizer_bos(const whim_tokenizer *tok)
{
    return tok->bos;
}

const char *whim_tokenizer_eos(const whim_tokenizer *tok)
{
    return tok->eos;
}

bool whim_tokenizer_has_jit(const whim_tokenizer *tok)
{
    for (int32_t i = 0; i < tok->pre.n_step; i++) {
        if (tok->pre.steps[i].regex != NULL && !whim_regex_has_jit(tok->pre.steps[i].regex)) {
            return false;
        }
    }
    return true;
}

int32_t whim_tokenizer_stop_ids(const whim_tokenizer *tok, int32_t *out, int32_t max)
{
    int32_t n = tok->n_stop < max ? tok->n_stop : max;
    memcpy(out, tok->stop, (size_t)n * sizeof *out);
    return n;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing files by name. */
#include "hub/choose.h"

#include "base/file.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MAX_NAMED = 6 }; /* file names in one message */

/* Files of a folder beside its weights, all in its top. */
static const char config_names[] =
    "added_tokens.json chat_template.jinja chat_template.json config.json generation_config.json "
    "merges.txt model.safetensors.index.json special_tokens_map.json tokenizer.json "
    "tokenizer.model tokenizer_config.json vocab.json";
static const char tokenizer_names[] = "tokenizer.json tokenizer.model vocab.json";
static const char *const pickle_ends[] = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"};
/* When a repository has several GGUF files and none is asked for: small and good first. */
static const char *const usual_picks[] = {"Q4_K_M", "Q4_0", "Q4_1", "Q5_K_M",
                                          "Q8_0",   "BF16", "F16"};

#define COUNT(table) ((int32_t)(sizeof(table) / sizeof(table)[0]))

static bool is_one_of(const char *name, const char *names)
{
    return whim_word_place(names, name, (int64_t)strlen(name)) >= 0;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcasecmp(name + n - m, end) == 0;
}

static bool is_pickle(const char *name)
{
    for (int32_t i = 0; i < COUNT(pickle_ends); i++) {
        if (ends_with(name, pickle_ends[i])) {
            return true;
        }
    }
    return false;
}

/* A model, not the eyes of one or the statistics behind one. */
static bool is_gguf_model(const char *name)
{
    const char *base = whim_path_base(name);
    return ends_with(name, ".gguf") && strncasecmp(base, "mmproj", 6) != 0 &&
           strcasestr(base, "imatrix") == NULL;
}

/* "x-00002-of-00003.gguf": length of the stem "x", part and parts; false when it is no such
 * name. */
static bool split_parse(const char *name, const char *end, int *stem, int *part, int *parts)
{
    int at = (int)strlen(name) - (int)strlen(end) - (int)strlen("-00001-of-00001");
    if (at < 1 || !ends_with(name, end) || name[at] != '-') {
        return false;
    }
    *part = *parts = 0;
    for (int i = 0; i < 5; i++) {
        char a = name[at + 1 + i], b = name[at + 10 + i];
        if (!isdigit((unsigned char)a) || !isdigit((unsigned char)b)) {
            return false;
        }
        *part = *part * 10 + (a - '0');
        *parts = *parts * 10 + (b - '0');
    }
    *stem = at;
    return strncmp(name + at + 6, "-of-", 4) == 0 && *part >= 1 && *part <= *parts;
}

/* The first part stands for all. */
bool whim_hub_gguf_head(const char *name)
{
    int stem, part, parts;
    return is_gguf_model(name) && (!split_parse(name, ".gguf", &stem, &part, &parts) || part == 1);
}

/* Whether a file's name says this quantisation: "x-Q4_K_M.gguf" does say Q4_K_M and not Q4_K. */
static bool says_pick(const char *name, const char *pick)
{
    size_t n = strlen(pick);
    for (const char *at = name; (at = strcasestr(at, pick)) != NULL; at++) {
        bool begins = at == name || !isalnum((unsigned char)at[-1]);
        if (begins && (at[n] == '\0' || strchr("-./", at[n]) != NULL)) {
            return true;
        }
    }
    return false;
}

static whim_err choice_begin(whim_hub_choice *choice, whim_hub_listing *listing, whim_diag *diag)
{
    *choice = (whim_hub_choice){.n_file = 0};
    choice->files =
        whim_arena_alloc_array(&listing->arena, listing->n_file + 1, sizeof *choice->files);
    return choice->files != NULL ? WHIM_ERR_OK
                                 : whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory");
}

static bool is_chosen(const whim_hub_choice *choice, const whim_hub_file *file)
{
    for (int64_t i = 0; i < choice->n_file; i++) {
        if (choice->files[i] == file) {
            return true;
        }
    }
    return false;
}

whim_err whim_hub_choice_add(whim_hub_choice *choice, whim_hub_listing *listing, const char *name)
{
    whim_hub_file *file = whim_hub_listing_find(listing, name);
    if (file == NULL) {
        return WHIM_ERR_NOT_FOUND;
    }
    if (!is_chosen(choice, file)) {
        choice->files[choice->n_file++] = file;
    }
    return WHIM_ERR_OK;
}

/* --- GGUF ------------------------------------------------------------------------------------- */

static whim_err gguf_take(whim_hub_choice *choice, whim_hub_listing *listing, const char *id,
                          const char *head, whim_diag *diag)
{
    int stem, part, parts;
    choice->entry = head;
    if (!split_parse(head, ".gguf", &stem, &part, &parts)) {
        return whim_hub_choice_add(choice, listing, head);
    }
    for (int i = 1; i <= parts; i++) {
        char name[WHIM_HUB_NAME_MAX];
        snprintf(name, sizeof name, "%.*s-%05d-of-%05d.gguf", stem, head, i, parts);
        if (whim_hub_choice_add(choice, listing, name) != WHIM_ERR_OK) {
            return whim_fail(diag, WHIM_ERR_NOT_FOUND, "%s: %s is missing, part %d of %d", id, name,
                             i, parts);
        }
    }
    return WHIM_ERR_OK;
}

/* The GGUF heads that say the pick ("" : all), and the first of them; names go to `out`. */
static int64_t heads_find(const whim_hub_listing *listing, const char *pick, const char **first,
                          whim_str *out)
{
    int64_t n = 0;
    for (int64_t i = 0; i < listing->n_file; i++) {
        const char *name = listing->files[i].name;
        if (!whim_hub_gguf_head(name) || (pick[0] != '\0' && !says_pick(name, pick))) {
            continue;
        }
        if (n++ == 0) {
            *first = name;
        }
        if (out != NULL && n <= 4 * MAX_NAMED) {
            whim_str_printf(out, "%s%s", n > 1 ? ", " : "", name);
        } else if (out != NULL && n == 4 * MAX_NAMED + 1) {
            whim_str_append(out, ", ...");
        }
    }
    return n;
}

static whim_err gguf_choose(whim_hub_choice *choice, whim_hub_listing *listing, const char *id,
                            whim_diag *diag)
{
    const char *head = NULL;
    whim_str names = {0};
    whim_err err = WHIM_ERR_OK;
    int64_t n = heads_find(listing, "", &head, &names);
    for (int32_t i = 0; n > 1 && i < COUNT(usual_picks); i++) {
        n = heads_find(listing, usual_picks[i], &head, NULL) == 1 ? 1 : n;
    }
    if (n != 1) {
        err = whim_fail(diag, WHIM_ERR_NOT_FOUND,
                        "%s has %lld GGUF files; say which one, as %s:QUANT or %s:FILE: %s", id,
                        (long long)n, id, id, whim_str_text(&names));
    }
    whim_str_deinit(&names);
    return err != WHIM_ERR_OK ? err : gguf_take(choice, listing, id, head, diag);
}

static whim_err pick_choose(whim_hub_choice *choice, whim_hub_listing *listing, const char *id,
                            const char *pick, whim_diag *diag)
{
    const char *head = NULL;
    whim_str names = {0}, all = {0};
    if (is_pickle(pick)) {
        return whim_fail(
            diag, WHIM_ERR_UNSUPPORTED,
            "%s: %s is a pickle, and loading one runs code; whimbrel takes safetensors "
            "and GGUF files",
            id, pick);
    }
    const whim_hub_file *exact = whim_hub_listing_find(listing, pick);
    if (exact != NULL && is_gguf_model(pick)) {
        return gguf_take(choice, listing, id, exact->name, diag);
    }
    if (exact != NULL) {
        choice->entry = exact->name;
        return whim_hub_choice_add(choice, listing, pick);
    }
    int64_t n = heads_find(listing, pick, &head, &names);
    int64_t n_all = heads_find(listing, "", &(const char *){NULL}, &all);
    whim_err err = WHIM_ERR_OK;
    if (n > 1) {
        err = whim_fail(diag, WHIM_ERR_NOT_FOUND, "%s has %lld files for \"%s\"; name one: %s", id,
                        (long long)n, pick, whim_str_text(&names));
    } else if (n == 0) {
        err = whim_fail(diag, WHIM_ERR_NOT_FOUND, "%s has no file \"%s\" and none for it%s%s", id,
                        pick, n_all > 0 ? "; it has " : ", and no GGUF file at all",
                        whim_str_text(&all));
    }
    whim_str_deinit(&names);
    whim_str_deinit(&all);
    return err != WHIM_ERR_OK ? err : gguf_take(choice, listing, id, head, diag);
}

/* --- a folder --------------------------------------------------------------------------------- */

/* Weights as the loader looks for them: model.safetensors, else the shards of an index, else
 * whatever there is. */
static bool is_weight(const whim_hub_listing *listing, const char *name)
{
    int stem, part, parts;
    if (strchr(name, '/') != NULL || !ends_with(name, ".safetensors") ||
        strncmp(name, "consolidated", 12) == 0 || strncmp(name, "adapter_", 8) == 0) {
        return false;
    }
    if (whim_hub_listing_find(listing, "model.safetensors") != NULL) {
        return strcmp(name, "model.safetensors") == 0;
    }
    return whim_hub_listing_find(listing, "model.safetensors.index.json") == NULL ||
           split_parse(name, ".safetensors", &stem, &part, &parts);
}

static whim_err nothing_to_load(const whim_hub_listing *listing, const char *id, whim_diag *diag)
{
    const char *pickle = NULL;
    for (int64_t i = 0; i < listing->n_file && pickle == NULL; i++) {
        pickle = is_pickle(listing->files[i].name) ? listing->files[i].name : NULL;
    }
    return pickle != NULL
               ? whim_fail(diag, WHIM_ERR_NOT_FOUND,
                           "%s has no *.safetensors and no *.gguf, only pickles such as %s, which "
                           "run code when they are loaded; look for a converted copy of the model",
                           id, pickle)
               : whim_fail(diag, WHIM_ERR_NOT_FOUND,
                           "%s has no *.safetensors with a config.json and no *.gguf among its "
                           "%lld files: is it a model?",
                           id, (long long)listing->n_file);
}

whim_err whim_hub_choose(whim_hub_choice *choice, whim_hub_listing *listing, const char *id,
                         const char *pick, whim_diag *diag)
{
    WHIM_TRY(choice_begin(choice, listing, diag));
    if (pick[0] != '\0') {
        return pick_choose(choice, listing, id, pick, diag);
    }
    for (int64_t i = 0; i < listing->n_file; i++) {
        whim_hub_file *file = &listing->files[i];
        bool weight = is_weight(listing, file->name);
        if (weight || is_one_of(file->name, config_names)) {
            choice->files[choice->n_file++] = file;
            choice->has_weights |= weight;
            choice->has_config |= strcmp(file->name, "config.json") == 0;
            choice->has_tokenizer |= is_one_of(file->name, tokenizer_names);
        }
    }
    if (choice->has_weights && choice->has_config) {
        return WHIM_ERR_OK;
    }
    choice->n_file = 0;
    if (heads_find(listing, "", &(const char *){NULL}, NULL) == 0) {
        return nothing_to_load(listing, id, diag);
    }
    return gguf_choose(choice, listing, id, diag);
}

void whim_hub_choice_left_out(const whim_hub_choice *choice, const whim_hub_listing *listing,
                              whim_str *out)
{
    int64_t n = 0, bytes = 0, n_pickle = 0, at = 0;
    whim_str names = {0};
    for (int64_t i = 0; i < listing->n_file; i++) {
        const whim_hub_file *file = &listing->files[i];
        /* A folder's choice is in the listing's order; parts and shards may not be. */
        if ((at < choice->n_file && choice->files[at] == file && ++at) || is_chosen(choice, file)) {
            continue;
        }
        n_pickle += is_pickle(file->name);
        bytes += file->bytes > 0 ? file->bytes : 0;
        if (n++ < MAX_NAMED) {
            whim_str_printf(&names, "%s%s", n > 1 ? ", " : "", file->name);
        }
    }
    if (n > 0) {
        char size[32];
        whim_format_bytes(size, sizeof size, bytes);
        whim_str_printf(out, "left out %lld file%s (%s): %s%s%s", (long long)n, n == 1 ? "" : "s",
                        size, whim_str_text(&names), n > MAX_NAMED ? ", ..." : "",
                        n_pickle > 0 ? "; pickles are never fetched, they can run code" : "");
    }
    if (listing->n_unsafe > 0) {
        whim_str_printf(out, "%s%lld name%s refused as unsafe", n > 0 ? "; " : "left out ",
                        (long long)listing->n_unsafe, listing->n_unsafe == 1 ? "" : "s");
    }
    whim_str_deinit(&names);
}

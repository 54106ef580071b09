/* SPDX-License-Identifier: Apache-2.0 */
/* Reading golden data. It is our own, so a malformed file ends in one short message. */
#include "golden/golden.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

int32_t golden_list(const char *data, char names[][64], int32_t max)
{
    DIR *dir = opendir(data);
    int32_t n = 0;
    if (dir == NULL) {
        return 0;
    }
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        if (e->d_name[0] != '.' && strcmp(e->d_name, "default") != 0 && n < max) {
            snprintf(names[n++], 64, "%.63s", e->d_name);
        }
    }
    closedir(dir);
    qsort(names, (size_t)n, 64, by_name);
    return n;
}

void golden_model_path(const golden *g, char *path, size_t size)
{
    char first[256] = "";
    DIR *dir = opendir(g->dir);
    for (struct dirent *e = dir != NULL ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        size_t n = strlen(e->d_name);
        if (n > 5 && strcmp(e->d_name + n - 5, ".gguf") == 0 &&
            (first[0] == '\0' || strcmp(e->d_name, first) < 0)) {
            snprintf(first, sizeof first, "%s", e->d_name);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    snprintf(path, size, "%s%s%s", g->dir, first[0] != '\0' ? "/" : "", first);
}

/* `count` floats of DIR/name; absent is NULL and fine, another size is not. */
static whim_err read_floats(const golden *g, const char *name, int64_t count, float **out,
                            whim_diag *diag)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", g->dir, name);
    FILE *f = fopen(path, "rb");
    *out = NULL;
    if (f == NULL) {
        return WHIM_ERR_OK;
    }
    float *values = malloc((size_t)count * sizeof *values + 1);
    size_t got = values != NULL ? fread(values, sizeof *values, (size_t)count, f) : 0;
    bool more = fgetc(f) != EOF;
    fclose(f);
    if (got != (size_t)count || more) {
        free(values);
        return whim_fail(diag, WHIM_ERR_CORRUPT, "%s does not hold %lld floats", path,
                         (long long)count);
    }
    *out = values;
    return WHIM_ERR_OK;
}

static int32_t *read_ids(const json_t *a, const json_t *b, int64_t *n)
{
    size_t na = json_array_size(a), nb = json_array_size(b);
    int32_t *ids = malloc((na + nb + 1) * sizeof *ids);
    for (size_t i = 0; ids != NULL && i < na + nb; i++) {
        ids[i] =
            (int32_t)json_integer_value(i < na ? json_array_get(a, i) : json_array_get(b, i - na));
    }
    *n = (int64_t)na;
    return ids;
}

static float *read_top2(const json_t *rows)
{
    size_t n = json_array_size(rows);
    float *out = n > 0 ? malloc(n * 4 * sizeof *out) : NULL;
    for (size_t i = 0; out != NULL && i < 4 * n; i++) {
        out[i] = (float)json_number_value(json_array_get(json_array_get(rows, i / 4), i % 4));
    }
    return out;
}

static double number(const json_t *json, const char *key)
{
    return json_number_value(json_object_get(json, key));
}

static bool fill_from_json(golden *g, const json_t *json)
{
    const char *dtype = json_string_value(json_object_get(json, "dtype"));
    g->f32 = dtype != NULL && strcmp(dtype, "float32") == 0;
    g->experts = number(json, "experts") > 0;
    g->vocab = (int64_t)number(json, "vocab");
    g->layers = (int64_t)number(json, "layers");
    g->hidden = (int64_t)number(json, "hidden");
    g->gap = number(json, "gap");
    g->tolerance = number(json, "tolerance");
    g->tolerance_rms = number(json, "tolerance_rms");
    g->tolerance_q8 = number(json, "tolerance_q8");
    g->tolerance_q8_rms = number(json, "tolerance_q8_rms");
    g->close_row = number(json, "close_row");
    g->close_rows_share = number(json, "close_rows_share");
    g->perplexity = number(json, "perplexity");
    g->text = read_ids(json_object_get(json, "text"), NULL, &g->n_text);
    const json_t *prompts = json_object_get(json, "prompts");
    size_t n = json_array_size(prompts);
    for (size_t i = 0; i < n && i < GOLDEN_MAX_PROMPTS; i++) {
        const json_t *prompt = json_array_get(prompts, i);
        const json_t *greedy = json_object_get(prompt, "greedy");
        golden_prompt *p = &g->prompts[g->n_prompt++];
        p->tokens = read_ids(json_object_get(prompt, "tokens"), greedy, &p->n_prompt);
        p->n_greedy = (int64_t)json_array_size(greedy);
        p->top2 = read_top2(json_object_get(prompt, "top2"));
        g->n_row += golden_prompt_rows(p);
        if (p->tokens == NULL || p->n_prompt < 1 || p->n_greedy < 1) {
            return false;
        }
    }
    return n > 0 && n <= GOLDEN_MAX_PROMPTS && g->text != NULL;
}

static whim_err read_binaries(golden *g, whim_diag *diag)
{
    int64_t hidden = 0;
    for (int32_t i = 0; i < g->n_prompt; i++) {
        hidden = g->prompts[i].n_prompt == 7 ? (g->layers + 1) * 7 * g->hidden : hidden;
    }
    WHIM_TRY(read_floats(g, "golden.bin", g->n_row * g->vocab, &g->rows, diag));
    WHIM_TRY(read_floats(g, "golden_q8.bin", g->n_row * g->vocab, &g->rows_q8, diag));
    return read_floats(g, "hidden.bin", hidden, &g->hidden_rows, diag);
}

whim_err golden_read(golden *g, const char *dir, whim_diag *diag)
{
    *g = (golden){0};
    const char *slash = strrchr(dir, '/');
    snprintf(g->dir, sizeof g->dir, "%s", dir);
    snprintf(g->name, sizeof g->name, "%s", slash != NULL ? slash + 1 : dir);
    char path[600];
    snprintf(path, sizeof path, "%s/golden.json", dir);
    json_error_t error;
    json_t *json = json_load_file(path, 0, &error);
    bool good = json != NULL && fill_from_json(g, json);
    json_decref(json);
    whim_err err = good ? read_binaries(g, diag)
                        : whim_fail(diag, WHIM_ERR_CORRUPT, "%s: %s", path,
                                    json == NULL ? error.text : "no prompts with ids");
    if (err != WHIM_ERR_OK) {
        golden_free(g);
    }
    return err;
}

void golden_free(golden *g)
{
    for (int32_t i = 0; i < g->n_prompt; i++) {
        free(g->prompts[i].tokens);
        free((void *)(uintptr_t)g->prompts[i].top2);
    }
    free(g->text);
    free(g->rows);
    free(g->rows_q8);
    free(g->hidden_rows);
    *g = (golden){0};
}

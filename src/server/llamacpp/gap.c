/* SPDX-License-Identifier: Apache-2.0 */
/* The prompt of /infill: files around, then what stands before the gap and behind it, between the
 * model's own marks. What does not fit is cut where it is farthest from the gap. */
#include "server/llamacpp/llamacpp.h"

#include "server/openai/openai.h"
#include "text/fim.h"

#include <string.h>

/* Three quarters of the room for a file are for what stands before the gap, if that needs it. */
enum { PARTS = 4, PARTS_BEFORE = 3 };

typedef struct gap {
    whim_fim fim;
    whim_ids first; /* what every prompt begins with */
    whim_ids around, before, behind;
} gap;

static void gap_deinit(gap *g)
{
    whim_ids_deinit(&g->first);
    whim_ids_deinit(&g->around);
    whim_ids_deinit(&g->before);
    whim_ids_deinit(&g->behind);
}

static bool add_id(const whim_fields *f, whim_ids *to, int32_t id)
{
    return whim_ids_append(to, id) == WHIM_ERR_OK || whim_fault_no_memory(f->fault);
}

static bool add_ids(const whim_fields *f, whim_ids *to, const int32_t *ids, int64_t n)
{
    bool ok = true;
    for (int64_t i = 0; i < n && ok; i++) {
        ok = add_id(f, to, ids[i]);
    }
    return ok;
}

/* --- texts ------------------------------------------------------------------------------------ */

/* Marks in them are text: they come from files. */
static bool add_text(const whim_api *api, const whim_fields *f, const char *key, json_t *text,
                     whim_ids *to)
{
    return whim_openai_encode(api, f, key, text, &(whim_encode_opts){0}, to);
}

/* A line of its own. */
static bool add_line(const whim_api *api, const whim_fields *f, const char *key, const char *line,
                     whim_ids *to)
{
    json_t *text = json_sprintf("%s\n", line);
    bool ok = text != NULL ? add_text(api, f, key, text, to) : whim_fault_no_memory(f->fault);
    json_decref(text);
    return ok;
}

/* A field that must be there, if only empty. */
static bool read_text(const whim_api *api, const whim_fields *f, const char *key, whim_ids *to)
{
    const char *text = NULL;
    if (!whim_field_string(f, key, &text)) {
        return false;
    }
    return text == NULL ? whim_field_refuse(f, key, "is missing; it must be a string")
                        : add_text(api, f, key, whim_field(f, key), to);
}

/* --- files around ----------------------------------------------------------------------------- */

static bool read_file(const whim_api *api, const whim_fields *f, gap *g)
{
    const char *name = "tmp";
    if (!whim_field_string(f, "filename", &name)) {
        return false;
    }
    if (g->fim.file < 0) {
        return add_line(api, f, "filename", "\n\n--- snippet ---\n", &g->around) &&
               read_text(api, f, "text", &g->around);
    }
    return add_id(f, &g->around, g->fim.file) && add_line(api, f, "filename", name, &g->around) &&
           read_text(api, f, "text", &g->around);
}

/* input_extra: each {"filename":..,"text":..}. */
static bool read_around(const whim_api *api, const whim_fields *f, gap *g)
{
    json_t *list = NULL;
    if (!whim_field_array(f, "input_extra", &list)) {
        return false;
    }
    size_t n = json_array_size(list);
    bool ok = n == 0 || g->fim.repo < 0 ||
              (add_id(f, &g->around, g->fim.repo) &&
               add_line(api, f, "input_extra", "myproject", &g->around));
    for (size_t i = 0; i < n && ok; i++) {
        whim_fields at = whim_field_item(f, "input_extra", list, i);
        ok = read_file(api, &at, g);
    }
    return ok && (n == 0 || g->fim.file < 0 ||
                  (add_id(f, &g->around, g->fim.file) &&
                   add_line(api, f, "input_extra", "filename", &g->around)));
}

/* What the tokenizer puts before any text; not what it puts behind. */
static bool find_first(const whim_api *api, const whim_fields *f, gap *g)
{
    whim_encode_opts opts = {.add_special = true};
    whim_diag diag = {{0}};
    const char *bos = whim_tokenizer_bos(api->tok);
    if (whim_tokenizer_encode(api->tok, "", 0, &opts, &g->first, &diag) != WHIM_ERR_OK) {
        return whim_fault_no_memory(f->fault);
    }
    bool has =
        g->first.n > 0 && bos[0] != '\0' && g->first.ids[0] == whim_tokenizer_find(api->tok, bos);
    g->first.n = has ? 1 : 0;
    return true;
}

/* --- the whole -------------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The prompt, with a quarter of the context left for the answer unless it needs less. */
static bool join(const whim_api *api, const whim_fields *f, const whim_task *task, const gap *g,
                 whim_ids *out)
{
    int64_t answer =
        task->ask.max_tokens > 0 ? least(task->ask.max_tokens, api->ctx / PARTS) : api->ctx / PARTS;
    int64_t room = api->ctx - 1 - answer - 3 - g->first.n;
    room = room > 0 ? room : 0;
    int64_t quota = room / PARTS * PARTS_BEFORE, spare = room - g->behind.n;
    int64_t n_before = least(g->before.n, quota > spare ? quota : spare);
    int64_t n_behind = least(g->behind.n, room - n_before);
    int64_t n_around = least(g->around.n, room - n_before - n_behind);
    return add_ids(f, out, g->first.ids, g->first.n) &&
           add_ids(f, out, g->around.ids + (g->around.n - n_around), n_around) &&
           add_id(f, out, g->fim.prefix) &&
           add_ids(f, out, g->before.ids + (g->before.n - n_before), n_before) &&
           add_id(f, out, g->fim.suffix) && add_ids(f, out, g->behind.ids, n_behind) &&
           add_id(f, out, g->fim.middle);
}

bool whim_llamacpp_read_gap(const whim_api *api, const whim_fields *f, whim_task *task)
{
    gap g = {.around = {0}};
    const char *prompt = NULL;
    if (!whim_fim_find(api->tok, &g.fim)) {
        return whim_fault_set(f->fault, WHIM_FAULT_BAD_REQUEST, NULL,
                              "/infill needs a model with fill-in-the-middle tokens, which this "
                              "one does not have; use /completion, or another model");
    }
    task->prompts = whim_arena_alloc_array(&task->arena, 1, sizeof *task->prompts);
    if (task->prompts == NULL) {
        return whim_fault_no_memory(f->fault);
    }
    task->n_prompt = 1;
    bool ok = whim_field_string(f, "prompt", &prompt) && find_first(api, f, &g) &&
              read_around(api, f, &g) && read_text(api, f, "input_prefix", &g.before) &&
              (prompt == NULL || add_text(api, f, "prompt", whim_field(f, "prompt"), &g.before)) &&
              read_text(api, f, "input_suffix", &g.behind) &&
              join(api, f, task, &g, &task->prompts[0]) && whim_task_end_gap(f, &g.fim, task);
    gap_deinit(&g);
    return ok;
}

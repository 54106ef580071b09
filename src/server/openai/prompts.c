/* SPDX-License-Identifier: Apache-2.0 */
/* Requests with raw prompts. Special tokens in their text are recognised, unless the client says
 * no: it is the template's author. */
#include "server/openai/openai.h"

#include "base/alloc.h"
#include "text/fim.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int32_t bos_id(const whim_api *api)
{
    const char *bos = whim_tokenizer_bos(api->tok);
    return bos[0] == '\0' ? -1 : whim_tokenizer_find(api->tok, bos);
}

bool whim_openai_encode(const whim_api *api, const whim_fields *f, const char *key,
                        const json_t *text, const whim_encode_opts *opts, whim_ids *out)
{
    whim_diag diag = {{0}};
    int32_t bos = bos_id(api);
    whim_err err = whim_tokenizer_encode(api->tok, json_string_value(text),
                                         (int64_t)json_string_length(text), opts, out, &diag);
    if (err == WHIM_ERR_NO_FIT) {
        return whim_fault_set(f->fault, WHIM_FAULT_CONTEXT, key, "%.1000s", diag.text);
    }
    if (err == WHIM_ERR_NO_MEMORY) {
        return whim_fault_no_memory(f->fault);
    }
    if (err != WHIM_ERR_OK) {
        return whim_field_refuse(f, key, "cannot be tokenized: %.500s", diag.text);
    }
    if (opts->add_special && bos >= 0 && out->n >= 2 && out->ids[0] == bos && out->ids[1] == bos) {
        out->n--;
        memmove(out->ids, out->ids + 1, (size_t)out->n * sizeof *out->ids);
    }
    return true;
}

bool whim_openai_read_ids(const whim_api *api, const whim_fields *f, const char *key,
                          const json_t *list, whim_ids *out)
{
    size_t i;
    const json_t *item;
    json_array_foreach(list, i, item)
    {
        int64_t id;
        if (!whim_value_int(item, &id)) {
            return whim_field_refuse(f, key, "must hold token ids; entry %zu is %s", i,
                                     whim_json_kind(item));
        }
        if (id < 0 || id >= api->n_vocab) {
            return whim_field_refuse(f, key,
                                     "must hold token ids from 0 to %d; entry %zu is %" PRId64,
                                     api->n_vocab - 1, i, id);
        }
        if (whim_ids_append(out, (int32_t)id) != WHIM_ERR_OK) {
            return whim_fault_no_memory(f->fault);
        }
    }
    return true;
}

typedef struct prompt_opts {
    bool parse_special, add_special;
    bool may_be_long;     /* it is cut later */
    const json_t *suffix; /* NULL: none */
    whim_fim fim;         /* of the model, where there is one */
} prompt_opts;

/* --- fill in the middle ----------------------------------------------------------------------- */

/* `ids` is the prompt alone; make it prefix, suffix and the mark of the middle. */
static bool add_suffix(const whim_api *api, const whim_fields *f, const prompt_opts *opts,
                       whim_ids *ids)
{
    const whim_fim *fim = &opts->fim;
    whim_ids out = {0};
    const whim_encode_opts plain = {.most = opts->may_be_long ? 0 : api->ctx - 1};
    int32_t bos = bos_id(api);
    int64_t skip = ids->n > 0 && bos >= 0 && ids->ids[0] == bos;
    bool ok = (skip == 0 || whim_ids_append(&out, bos) == WHIM_ERR_OK) &&
              whim_ids_append(&out, fim->prefix) == WHIM_ERR_OK;
    for (int64_t i = skip; ok && i < ids->n; i++) {
        ok = whim_ids_append(&out, ids->ids[i]) == WHIM_ERR_OK;
    }
    ok = ok && whim_ids_append(&out, fim->suffix) == WHIM_ERR_OK;
    if (!ok) {
        whim_ids_deinit(&out);
        return whim_fault_no_memory(f->fault);
    }
    ok = whim_openai_encode(api, f, "suffix", opts->suffix, &plain, &out) &&
         (whim_ids_append(&out, fim->middle) == WHIM_ERR_OK || whim_fault_no_memory(f->fault));
    whim_ids_deinit(ids);
    *ids = out;
    return ok;
}

/* --- the field -------------------------------------------------------------------------------- */

static bool read_one(const whim_api *api, const whim_fields *f, const char *key,
                     const json_t *value, const prompt_opts *opts, whim_ids *out)
{
    const whim_encode_opts how = {.parse_special = opts->parse_special,
                                  .add_special = opts->add_special,
                                  .most = opts->may_be_long ? 0 : api->ctx - 1};
    if (json_is_string(value)) {
        if (!whim_openai_encode(api, f, key, value, &how, out)) {
            return false;
        }
    } else if (!json_is_array(value)) {
        return whim_field_refuse(f, key, "must be a string or a list of token ids, not %s",
                                 whim_json_kind(value));
    } else if (!whim_openai_read_ids(api, f, key, value, out)) {
        return false;
    }
    if (opts->suffix != NULL && !add_suffix(api, f, opts, out)) {
        return false;
    }
    int32_t bos = bos_id(api);
    if (out->n == 0 && json_is_string(value) && bos >= 0 &&
        whim_ids_append(out, bos) != WHIM_ERR_OK) {
        return whim_fault_no_memory(f->fault);
    }
    if (out->n == 0) {
        return whim_field_refuse(f, key, "is empty, and this model has no token to begin with");
    }
    return opts->may_be_long || out->n < api->ctx || whim_fault_context(f->fault, out->n, api->ctx);
}

/* How many prompts a value holds: an array of texts or lists holds many, anything else is one. */
static int64_t count_prompts(const json_t *value)
{
    const json_t *first = json_array_get(value, 0);
    return json_is_string(first) || json_is_array(first) ? (int64_t)json_array_size(value) : 1;
}

static bool read_options(const whim_api *api, const whim_fields *f, prompt_opts *opts)
{
    const char *unused = NULL;
    *opts = (prompt_opts){.parse_special = true, .add_special = true};
    if (!whim_field_bool(f, "parse_special", &opts->parse_special) ||
        !whim_field_bool(f, "add_special_tokens", &opts->add_special)) {
        return false;
    }
    opts->suffix = whim_field(f, "suffix");
    if (opts->suffix != NULL && !json_is_string(opts->suffix)) {
        return whim_field_string(f, "suffix", &unused);
    }
    if (opts->suffix != NULL && json_string_length(opts->suffix) == 0) {
        opts->suffix = NULL; /* editors send it empty at a file's end */
    }
    return opts->suffix == NULL || whim_fim_find(api->tok, &opts->fim) ||
           whim_field_refuse(f, "suffix",
                             "needs a model with fill-in-the-middle tokens, which this one does "
                             "not have");
}

bool whim_openai_read_prompts(const whim_api *api, const whim_fields *f, whim_task *task)
{
    prompt_opts opts;
    const json_t *value = whim_field(f, "prompt");
    int64_t n = count_prompts(value);
    char key[40] = "prompt";
    if (!read_options(api, f, &opts)) {
        return false;
    }
    opts.may_be_long = task->keep_last != 0;
    if (opts.may_be_long && opts.suffix != NULL) {
        return whim_field_refuse(
            f, "truncate_prompt_tokens",
            "cannot be used with \"suffix\": the marks of the gap would be cut "
            "off");
    }
    if (value == NULL) {
        return whim_field_refuse(f, "prompt", "is missing");
    }
    if (n * task->ask.n_choice > WHIM_MAX_CHOICES) {
        return whim_field_refuse(f, "prompt",
                                 "has %" PRId64 " prompts, and n is %d: at most %d answers can be "
                                 "asked for at once",
                                 n, task->ask.n_choice, WHIM_MAX_CHOICES);
    }
    bool many = n > 1 || (json_is_array(value) && !json_is_number(json_array_get(value, 0)) &&
                          json_array_size(value) > 0);
    task->prompts = whim_arena_alloc_array(&task->arena, n, sizeof *task->prompts);
    if (task->prompts == NULL) {
        return whim_fault_no_memory(f->fault);
    }
    for (int64_t i = 0; i < n; i++) {
        const json_t *one = many ? json_array_get(value, (size_t)i) : value;
        if (many) {
            snprintf(key, sizeof key, "prompt[%" PRId64 "]", i);
        }
        task->n_prompt++;
        if (!read_one(api, f, key, one, &opts, &task->prompts[i])) {
            return false;
        }
    }
    return opts.suffix == NULL || whim_task_end_gap(f, &opts.fim, task);
}

/* --- the request ------------------------------------------------------------------------------ */

static bool read_limits(const whim_fields *f, whim_task *task, bool echo)
{
    int64_t max_tokens = 16, best_of = task->ask.n_choice, top = -1;
    if (!whim_field_int(f, "max_tokens", -1, INT64_MAX, &max_tokens) ||
        !whim_field_int(f, "best_of", 1, WHIM_MAX_CHOICES, &best_of) ||
        !whim_field_int(f, "logprobs", 0, WHIM_MAX_TOP, &top)) {
        return false;
    }
    if (max_tokens == 0 && !echo) {
        return whim_field_refuse(f, "max_tokens", "may be 0 only with echo");
    }
    if (best_of != task->ask.n_choice) {
        return whim_field_refuse(f, "best_of", "must be left out or equal to n");
    }
    /* -1 is no limit here, and none at all in the library. */
    task->ask.max_tokens = max_tokens == 0 ? -1 : max_tokens == -1 ? 0 : max_tokens;
    task->ask.logprobs = top >= 0;
    task->ask.top_logprobs = top > 0 ? (int32_t)top : 0;
    task->ask.prompt_logprobs = echo && top >= 0;
    task->ask.prompt_top_logprobs = (int32_t)top;
    return true;
}

/* Each answer repeats the log-probabilities of its prompt: few bytes can ask for gigabytes. */
static bool check_echo(const whim_fields *f, const whim_task *task)
{
    int64_t n = 0;
    for (int32_t p = 0; task->ask.prompt_logprobs && p < task->n_prompt; p++) {
        n += task->prompts[p].n * task->ask.n_choice * (1 + task->ask.prompt_top_logprobs);
    }
    return n <= WHIM_MAX_ECHOED ||
           whim_field_refuse(f, "logprobs",
                             "of the echo would be %" PRId64 " (tokens of all prompts times n "
                             "times logprobs + 1); at most %d are allowed",
                             n, WHIM_MAX_ECHOED);
}

/* Of the prompts' tokens. */
static void count_repeated(whim_task *task, bool echo)
{
    for (int32_t p = 0; p < task->n_prompt && (echo || task->return_token_ids); p++) {
        task->n_repeated += task->prompts[p].n * task->ask.n_choice;
    }
}

bool whim_openai_read_completion(const whim_api *api, const whim_fields *f, whim_task *task)
{
    static const char *const told[] = {"echo", "prompt", "suffix", NULL};
    bool echo = false;
    if (!whim_field_bool(f, "echo", &echo)) {
        return false;
    }
    task->told = echo ? told : task->told;
    if (!whim_task_read_common(api, f, task) || !whim_openai_read_shared(f, task) ||
        !read_limits(f, task, echo) || !whim_openai_read_prompts(api, f, task) ||
        !check_echo(f, task)) {
        return false;
    }
    count_repeated(task, echo);
    return true;
}

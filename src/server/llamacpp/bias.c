/* SPDX-License-Identifier: Apache-2.0 */
/* logit_bias as llama.cpp's clients write it: pairs of an id or a text, and a number or false, in a
 * list or as an object. There ignore_eos is a bias, too: the ids that end an answer never come. */
#include "server/llamacpp/llamacpp.h"

#include "library/library.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NEVER = -100 };

static bool set_bias(const whim_fields *f, json_t *object, int64_t id, json_t *amount)
{
    char key[24];
    snprintf(key, sizeof key, "%" PRId64, id);
    json_t *value = json_is_false(amount) ? json_integer(NEVER) : json_incref(amount);
    return json_object_set_new(object, key, value) == 0 || whim_fault_no_memory(f->fault);
}

/* Every token of the text. */
static bool set_text_bias(const whim_api *api, const whim_fields *f, const char *text, size_t n,
                          json_t *amount, json_t *object)
{
    whim_encode_opts opts = {.parse_special = true};
    whim_diag diag = {{0}};
    whim_ids ids = {0};
    bool ok =
        whim_tokenizer_encode(api->tok, text, (int64_t)n, &opts, &ids, &diag) == WHIM_ERR_OK ||
        whim_fault_no_memory(f->fault);
    for (int64_t i = 0; i < ids.n && ok; i++) {
        ok = set_bias(f, object, ids.ids[i], amount);
    }
    whim_ids_deinit(&ids);
    return ok;
}

static bool read_pair(const whim_api *api, const whim_fields *f, const json_t *pair, size_t i,
                      json_t *object)
{
    const json_t *what = json_array_get(pair, 0);
    json_t *amount = json_array_get(pair, 1);
    int64_t id = -1;
    bool is_token = json_is_string(what) || whim_value_int(what, &id);
    if (json_array_size(pair) != 2 || !is_token ||
        !(json_is_number(amount) || json_is_false(amount))) {
        return whim_field_refuse(f, "logit_bias",
                                 "must hold pairs of a token (its id or a text) and a number from "
                                 "-100 to 100 (or false: never); entry %zu is not",
                                 i);
    }
    return json_is_string(what) ? set_text_bias(api, f, json_string_value(what),
                                                json_string_length(what), amount, object)
                                : set_bias(f, object, id, amount);
}

/* A key of digits is an id. */
static bool read_member(const whim_api *api, const whim_fields *f, const char *key, json_t *amount,
                        json_t *object)
{
    if (key[0] == '\0' || key[strspn(key, "0123456789")] != '\0') {
        return set_text_bias(api, f, key, strlen(key), amount, object);
    }
    json_t *value = json_is_false(amount) ? json_integer(NEVER) : json_incref(amount);
    return json_object_set_new(object, key, value) == 0 || whim_fault_no_memory(f->fault);
}

bool whim_llamacpp_name_bias(const whim_api *api, const whim_fields *f, whim_task *task)
{
    json_t *list = whim_field(f, "logit_bias"), *pair;
    const char *key;
    size_t i;
    if (!json_is_array(list) && !json_is_object(list)) {
        return true;
    }
    json_t *object = json_object();
    bool ok = object != NULL || whim_fault_no_memory(f->fault);
    json_array_foreach(list, i, pair)
    {
        ok = ok && read_pair(api, f, pair, i, object);
    }
    json_object_foreach(list, key, pair)
    {
        ok = ok && read_member(api, f, key, pair, object);
    }
    /* The list is read to its end before what follows frees it. */
    ok = ok &&
         (json_object_set(task->body, "logit_bias", object) == 0 || whim_fault_no_memory(f->fault));
    json_decref(object);
    return ok;
}

static bool ends_answers(const whim_text_side *text, int32_t id)
{
    bool found = false;
    for (int32_t i = 0; i < text->n_stop_id && !found; i++) {
        found = text->stop_ids[i] == id;
    }
    return found;
}

bool whim_llamacpp_forbid_ends(const whim_api *api, const whim_fields *f, whim_task *task)
{
    const whim_text_side *text = whim_library_text(api->model);
    whimbrel_sampling *p = &task->sampling;
    if (!task->ask.ignore_end || text->n_stop_id == 0) {
        return true;
    }
    whimbrel_logit_bias *all =
        whim_arena_alloc_array(&task->arena, p->n_bias + text->n_stop_id, sizeof *all);
    if (all == NULL) {
        return whim_fault_no_memory(f->fault);
    }
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_bias; i++) {
        if (!ends_answers(text, p->bias[i].id)) {
            all[n++] = p->bias[i];
        }
    }
    for (int32_t i = 0; i < text->n_stop_id; i++) {
        all[n++] = (whimbrel_logit_bias){text->stop_ids[i], NEVER};
    }
    p->bias = all;
    p->n_bias = n;
    return true;
}

void whim_llamacpp_put_bias(const whimbrel_sampling *p, whim_str *out)
{
    whim_str_append(out, ",\"logit_bias\":[");
    for (int32_t i = 0; i < p->n_bias; i++) {
        whim_put_form(out, i == 0 ? "{'token':%d,'bias':" : ",{'token':%d,'bias':", p->bias[i].id);
        whim_put_form(out, p->bias[i].bias > NEVER ? "%r}" : "null}", (double)p->bias[i].bias);
    }
    whim_str_append_char(out, ']');
}

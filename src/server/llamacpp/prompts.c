/* SPDX-License-Identifier: Apache-2.0 */
/* Prompts as llama.cpp's clients write them: beside texts and lists of ids, objects that hold a
 * text, and lists of ids with texts among them. They become what other routes take. */
#include "server/llamacpp/llamacpp.h"

#include "server/openai/openai.h"

#include <inttypes.h>

/* The text of an object; NULL: refused. */
static json_t *text_of(const whim_fields *f, const json_t *object)
{
    json_t *text = json_object_get(object, "prompt_string");
    if (!json_is_string(text)) {
        (void)whim_field_refuse(f, "prompt", "has an object without a text as its prompt_string");
        return NULL;
    }
    const json_t *data = json_object_get(object, "multimodal_data");
    if (data != NULL && !json_is_null(data) &&
        !(json_is_array(data) && json_array_size(data) == 0)) {
        (void)whim_field_refuse(f, "prompt",
                                "has multimodal_data: this server reads text only; leave it out");
        return NULL;
    }
    return json_incref(text);
}

static bool is_mixed(const json_t *list)
{
    size_t n_text = 0, n_id = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        n_text += json_is_string(json_array_get(list, i));
        n_id += json_is_integer(json_array_get(list, i));
    }
    return n_text > 0 && n_id > 0 && n_text + n_id == json_array_size(list);
}

static bool add_id(const whim_api *api, const whim_fields *f, const json_t *part, size_t i,
                   whim_ids *out)
{
    const json_int_t id = json_integer_value(part);
    if (id < 0 || id >= api->n_vocab) {
        return whim_field_refuse(f, "prompt",
                                 "must hold token ids from 0 to %d; entry %zu is %" PRId64,
                                 api->n_vocab - 1, i, (int64_t)id);
    }
    return whim_ids_append(out, (int32_t)id) == WHIM_ERR_OK || whim_fault_no_memory(f->fault);
}

static json_t *list_of(const whim_fields *f, const whim_ids *ids)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    for (int64_t i = 0; i < ids->n && ok; i++) {
        ok = json_array_append_new(list, json_integer(ids->ids[i])) == 0;
    }
    if (!ok) {
        json_decref(list);
        (void)whim_fault_no_memory(f->fault);
        return NULL;
    }
    return list;
}

/* One list of ids for ids and texts; NULL: refused. What does not fit the context is refused as
 * soon as that is known, unless it is cut later. */
static json_t *ids_of(const whim_api *api, const whim_fields *f, const json_t *list,
                      const whim_task *task)
{
    const bool may_be_long = task->keep_last != 0;
    whim_encode_opts how = {.parse_special = true, .most = may_be_long ? 0 : api->ctx - 1};
    bool add_special = true;
    whim_ids ids = {0};
    bool ok = whim_field_bool(f, "parse_special", &how.parse_special) &&
              whim_field_bool(f, "add_special_tokens", &add_special);
    for (size_t i = 0; i < json_array_size(list) && ok; i++) {
        json_t *part = json_array_get(list, i);
        how.add_special = add_special && i == 0;
        ok = json_is_integer(part) ? add_id(api, f, part, i, &ids)
                                   : whim_openai_encode(api, f, "prompt", part, &how, &ids);
        ok = ok &&
             (may_be_long || ids.n < api->ctx || whim_fault_context(f->fault, ids.n, api->ctx));
    }
    json_t *out = ok ? list_of(f, &ids) : NULL;
    whim_ids_deinit(&ids);
    return out;
}

/* One prompt as other routes take it; NULL: refused. */
static json_t *plain_of(const whim_api *api, const whim_fields *f, json_t *prompt,
                        const whim_task *task)
{
    return json_is_object(prompt) ? text_of(f, prompt)
           : is_mixed(prompt)     ? ids_of(api, f, prompt, task)
                                  : json_incref(prompt);
}

/* Whether a value, or one of a list, is what only this dialect knows. */
static bool is_own(const json_t *value)
{
    bool own = json_is_object(value) || is_mixed(value);
    for (size_t i = 0; i < json_array_size(value) && !own; i++) {
        const json_t *one = json_array_get(value, i);
        own = json_is_object(one) || is_mixed(one);
    }
    return own;
}

bool whim_llamacpp_read_prompts(const whim_api *api, const whim_fields *f, whim_task *task)
{
    json_t *value = whim_field(f, "prompt");
    if (!is_own(value)) {
        return whim_openai_read_prompts(api, f, task);
    }
    bool many = json_is_array(value) && !is_mixed(value);
    json_t *plain = many ? json_array() : plain_of(api, f, value, task);
    bool ok = plain != NULL || (many && whim_fault_no_memory(f->fault));
    for (size_t i = 0; many && i < json_array_size(value) && ok; i++) {
        json_t *one = plain_of(api, f, json_array_get(value, i), task);
        ok = one != NULL &&
             (json_array_append_new(plain, one) == 0 || whim_fault_no_memory(f->fault));
    }
    ok =
        ok && (json_object_set(task->body, "prompt", plain) == 0 || whim_fault_no_memory(f->fault));
    json_decref(plain);
    return ok && whim_openai_read_prompts(api, f, task);
}

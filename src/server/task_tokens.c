/* SPDX-License-Identifier: Apache-2.0 */
/* Fields that name tokens: which ones end an answer, may come at all, or come rather. */
#include "server/api.h"

#include <inttypes.h>
#include <string.h>

/* A list of token ids, at most `most`; nothing where it is not there. */
static bool read_ids(const whim_api *api, const whim_fields *f, const char *key, int64_t most,
                     whim_task *task, const int32_t **out, int32_t *n_out)
{
    json_t *list = NULL;
    if (!whim_field_array(f, key, &list) || list == NULL) {
        return list == NULL && whim_field(f, key) == NULL;
    }
    int64_t n = (int64_t)json_array_size(list);
    if (n > most) {
        return whim_field_refuse(f, key, "has %" PRId64 " ids; at most %" PRId64 " are allowed", n,
                                 most);
    }
    int32_t *ids = whim_arena_alloc_array(&task->arena, n, sizeof *ids);
    if (ids == NULL) {
        return whim_fault_no_memory(f->fault);
    }
    *out = ids;
    *n_out = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t id;
        if (!whim_value_int(json_array_get(list, (size_t)i), &id) || id < 0 || id >= api->n_vocab) {
            return whim_field_refuse(f, key,
                                     "must hold token ids from 0 to %d; entry %" PRId64 " is not",
                                     api->n_vocab - 1, i);
        }
        ids[(*n_out)++] = (int32_t)id;
    }
    return true;
}

static bool read_allowed(const whim_api *api, const whim_fields *f, whim_task *task)
{
    const char *key = "allowed_token_ids";
    if (!read_ids(api, f, key, api->n_vocab, task, &task->allowed, &task->n_allowed)) {
        return false;
    }
    return task->allowed == NULL || task->n_allowed > 0 ||
           whim_field_refuse(f, key, "must not be empty: no token could come; leave it out");
}

/* "123" and nothing else: no zeros in front, so that no two keys mean the same id. */
static bool parse_id(const char *text, int32_t n_vocab, int32_t *out)
{
    int64_t id = 0;
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || i >= 10 || (i > 0 && text[0] == '0')) {
            return false;
        }
        id = id * 10 + (text[i] - '0');
    }
    *out = (int32_t)(id < n_vocab ? id : 0);
    return n > 0 && id < n_vocab;
}

static bool read_bias(const whim_api *api, const whim_fields *f, whim_task *task)
{
    json_t *map = NULL, *value;
    const char *key;
    if (!whim_field_object(f, "logit_bias", &map) || map == NULL) {
        return whim_field(f, "logit_bias") == NULL;
    }
    int64_t n = (int64_t)json_object_size(map);
    if (n > api->n_vocab) {
        return whim_field_refuse(f, "logit_bias",
                                 "has %" PRId64 " entries; the vocabulary has %d tokens", n,
                                 api->n_vocab);
    }
    whimbrel_logit_bias *bias = whim_arena_alloc_array(&task->arena, n, sizeof *bias);
    if (bias == NULL) {
        return whim_fault_no_memory(f->fault);
    }
    task->sampling.bias = bias;
    task->sampling.n_bias = 0;
    json_object_foreach(map, key, value)
    {
        whimbrel_logit_bias *b = &bias[task->sampling.n_bias++];
        if (!parse_id(key, api->n_vocab, &b->id)) {
            return whim_field_refuse(f, "logit_bias",
                                     "must have token ids from 0 to %d as its keys, not \"%.40s\"",
                                     api->n_vocab - 1, key);
        }
        double amount = json_number_value(value);
        if (!json_is_number(value) || !(amount >= -100 && amount <= 100)) {
            return whim_field_refuse(f, "logit_bias",
                                     "must have numbers from -100 to 100; that of \"%.40s\" is not",
                                     key);
        }
        b->bias = (float)amount;
    }
    return true;
}

bool whim_task_read_tokens(const whim_api *api, const whim_fields *f, whim_task *task)
{
    return read_bias(api, f, task) &&
           read_ids(api, f, "stop_token_ids", WHIM_MAX_STOPS, task, &task->ask.stop_ids,
                    &task->ask.n_stop_id) &&
           read_allowed(api, f, task) && whim_task_read_history(api, f, task);
}

bool whim_task_end_gap(const whim_fields *f, const whim_fim *fim, whim_task *task)
{
    const int32_t ends[] = {fim->pad, fim->repo, fim->file};
    enum { N_END = sizeof ends / sizeof ends[0] };
    int32_t *ids = whim_arena_alloc_array(&task->arena, task->ask.n_stop_id + N_END, sizeof *ids);
    if (ids == NULL) {
        return whim_fault_no_memory(f->fault);
    }
    if (task->ask.n_stop_id > 0) {
        memcpy(ids, task->ask.stop_ids, (size_t)task->ask.n_stop_id * sizeof *ids);
    }
    task->ask.stop_ids = ids;
    for (int i = 0; i < N_END; i++) {
        if (ends[i] >= 0) {
            ids[task->ask.n_stop_id++] = ends[i];
        }
    }
    return true;
}

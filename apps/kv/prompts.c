/* SPDX-License-Identifier: Apache-2.0 */
/* Which pages a prompt has: its tokens come from /tokenize of a server of our own, which needs no
 * weights for that. */
#include "base/alloc.h"
#include "client/link.h"
#include "kv/kv.h"
#include "warm/own_server.h"
#include "warm/warm.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define SILENCE_S 600.0
#define MAX_TEXT (INT64_C(1) << 30)

/* Whom to ask, and where the answers go. */
typedef struct asking {
    const kv_model *model;
    const server_address *address;
    int32_t page_len;
    kv_pages *out;
} asking;

static bool no_memory(void)
{
    complain(EXIT_FAILED, "no memory for the prompts");
    return false;
}

static bool server_open(kv_model *m, server_address *address)
{
    serve *s = &m->server;
    if (!own_server_open(s, &m->own, m->own.kv_prompts)) {
        return false;
    }
    s->model = m->model;
    s->chat = whim_text_side_chat(whim_library_text(m->model));
    bool ok = serve_tell(s) && own_server_find(s, address);
    address->base[0] = '\0'; /* /tokenize is not below /v1 */
    return ok;
}

/* Full pages of a prompt, each under the key of the chain that ends with it. */
static bool pages_add(kv_pages *pages, const json_t *ids, int32_t page_len)
{
    whim_prefix_key key = {{0}};
    int64_t n_page = (int64_t)json_array_size(ids) / page_len, n_token = n_page * page_len;
    if (!whim_grow(&pages->tokens, pages->n_token + n_token, &pages->max_token,
                   sizeof *pages->tokens) ||
        !whim_grow(&pages->v, pages->n + n_page, &pages->cap, sizeof *pages->v)) {
        return no_memory();
    }
    int32_t *own = pages->tokens + pages->n_token;
    for (int64_t i = 0; i < n_token; i++) {
        own[i] = (int32_t)json_integer_value(json_array_get(ids, (size_t)i));
    }
    for (int64_t i = 0; i < n_page; i++) {
        key = whim_prefix_key_next(i == 0 ? NULL : &key, own + i * page_len, page_len);
        pages->v[pages->n++] = (kv_page){.key = key, .tokens_at = pages->n_token + i * page_len};
    }
    pages->n_token += n_token;
    return true;
}

/* What is wrong with a prompt, by its number in the file; false. */
static bool refuse(const kv_model *m, int64_t number, const char *why)
{
    complain(EXIT_FAILED, "%s: prompt %lld: %s", m->own.kv_prompts, (long long)number, why);
    return false;
}

/* The tokens of one body; the caller frees. NULL after a complaint. */
static json_t *ids_ask(const kv_model *m, const server_address *address, const char *body,
                       int64_t n_body, int64_t number)
{
    server_link link = {.fd = -1};
    json_t *reply = NULL, *ids = NULL;
    const whim_json_limits limits = {.max_bytes = MAX_TEXT, .max_depth = 8};
    server_head_append(address, "POST", "/tokenize", n_body, &link.out);
    whim_str_append_n(&link.out, body, n_body);
    server_exchange(&link, address, SILENCE_S, NULL);
    const server_reply *a = &link.reply;
    if (a->fault == SERVER_FAULT_NONE &&
        whim_json_read(&reply, whim_str_text(&a->data), a->data.len, limits, NULL) == WHIM_ERR_OK) {
        ids = json_incref(json_object_get(reply, "tokens"));
    }
    if (ids == NULL) {
        refuse(m, number, a->message[0] != '\0' ? a->message : "no tokens can be made of it");
    }
    whim_json_free(reply);
    server_link_deinit(&link);
    return ids;
}

static bool is_id(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0 &&
           json_integer_value(value) <= INT32_MAX;
}

/* Ids are their own tokens. */
static bool ids_add(const asking *a, const json_t *ids, int64_t number)
{
    for (size_t i = 0; i < json_array_size(ids); i++) {
        if (!is_id(json_array_get(ids, i))) {
            return refuse(a->model, number,
                          "its \"prompt\" is a list that is not of ids alone: expected ids, or "
                          "texts and lists of ids");
        }
    }
    return pages_add(a->out, ids, a->page_len);
}

static bool body_add(const asking *a, const char *body, int64_t n_body, int64_t number)
{
    json_t *ids = ids_ask(a->model, a->address, body, n_body, number);
    bool ok = ids != NULL && pages_add(a->out, ids, a->page_len);
    json_decref(ids);
    return ok;
}

/* One of the texts of a body, with all else that the body has. */
static bool text_add(const asking *a, json_t *body, json_t *text, int64_t number)
{
    whim_str one = {0};
    if (json_object_set(body, "prompt", text) != 0) {
        return no_memory();
    }
    whim_json_write(&one, body);
    bool ok = body_add(a, whim_str_text(&one), one.len, number);
    whim_str_deinit(&one);
    return ok;
}

/* A prompt that is a list is one of ids, or several. */
static bool list_add(const asking *a, json_t *body, const json_t *list, int64_t number)
{
    bool ok = true;
    if (!json_is_string(json_array_get(list, 0)) && !json_is_array(json_array_get(list, 0))) {
        return ids_add(a, list, number);
    }
    for (size_t i = 0; i < json_array_size(list) && ok; i++) {
        json_t *one = json_array_get(list, i);
        ok = json_is_string(one)  ? text_add(a, body, one, number)
             : json_is_array(one) ? ids_add(a, one, number)
                                  : refuse(a->model, number,
                                           "its \"prompt\" is a list of texts or lists of ids, and "
                                           "has something else in it");
    }
    return ok;
}

/* The chat route begins the answer's turn even if add_generation_prompt is false. /tokenize does
 * not, so the field goes. */
static bool chat_add(const asking *a, json_t *body, int64_t number)
{
    whim_str text = {0};
    if (json_is_false(json_object_get(body, "add_generation_prompt"))) {
        json_object_del(body, "add_generation_prompt");
    }
    whim_json_write(&text, body);
    bool ok = body_add(a, whim_str_text(&text), text.len, number);
    whim_str_deinit(&text);
    return ok;
}

static bool prompt_add(const asking *a, const warm_request *r, int64_t number)
{
    json_t *body;
    const whim_json_limits limits = {.max_bytes = MAX_TEXT, .max_depth = WHIM_JSON_DEPTH};
    if (whim_json_read(&body, r->body, r->n_body, limits, NULL) != WHIM_ERR_OK) {
        return no_memory(); /* it was written by ourselves */
    }
    json_t *prompt = json_incref(json_object_get(body, "prompt"));
    bool ok = r->is_chat              ? chat_add(a, body, number)
              : json_is_array(prompt) ? list_add(a, body, prompt, number)
                                      : body_add(a, r->body, r->n_body, number);
    json_decref(prompt);
    whim_json_free(body);
    return ok;
}

static int by_key(const void *a, const void *b)
{
    return memcmp(&((const kv_page *)a)->key, &((const kv_page *)b)->key, sizeof(whim_prefix_key));
}

/* Prompts that begin alike have pages in common. */
static void pages_unite(kv_pages *pages)
{
    int64_t n = 0;
    qsort(pages->v, (size_t)pages->n, sizeof *pages->v, by_key);
    for (int64_t i = 0; i < pages->n; i++) {
        if (n == 0 || by_key(&pages->v[n - 1], &pages->v[i]) != 0) {
            pages->v[n++] = pages->v[i];
        }
    }
    pages->n = n;
}

static bool prompts_add(kv_model *m, const warm_list *list, int32_t page_len, kv_pages *out)
{
    server_address address;
    const asking a = {.model = m, .address = &address, .page_len = page_len, .out = out};
    bool ok = server_open(m, &address);
    for (int64_t i = 0; i < list->n && ok; i++) {
        ok = prompt_add(&a, &list->v[i], i + 1);
    }
    return ok;
}

bool kv_pages_read(kv_model *m, int32_t page_len, kv_pages *out)
{
    warm_list list = {0};
    whim_diag diag = {""};
    bool ok = warm_list_read(&list, m->own.kv_prompts, &diag) == WHIM_ERR_OK;
    if (!ok) {
        complain(EXIT_FAILED, "%s", diag.text);
    }
    ok = ok && prompts_add(m, &list, page_len, out);
    warm_list_deinit(&list);
    if (ok && out->n == 0) {
        complain(EXIT_FAILED, "%s: none of its prompts fills a page of %d tokens",
                 m->own.kv_prompts, page_len);
        return false;
    }
    if (ok) {
        pages_unite(out);
    }
    return ok;
}

void kv_pages_deinit(kv_pages *pages)
{
    whim_free(pages->v);
    whim_free(pages->tokens);
    *pages = (kv_pages){0};
}

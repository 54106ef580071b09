/* SPDX-License-Identifier: Apache-2.0 */
/* /tokenize, /detokenize, /apply-template: what the other routes do to texts, to look at. */
#include "base/utf8.h"
#include "server/openai/openai.h"
#include "server/router.h"
#include "text/detokenizer.h"

static void reply_or_refuse(const whim_api *api, whim_exchange *ex, bool ok, const whim_str *body,
                            const whim_fault *fault)
{
    if (ok) {
        whim_api_reply(api, ex, body);
    } else {
        whim_api_refuse(api, ex, fault);
    }
}

/* A conversation to look at: add_generation_prompt, which other routes ask for only to say that a
 * turn is not to be continued, can leave the answer's turn away here. */
static bool read_turns(const whim_api *api, const whim_fields *f, whim_task *task)
{
    bool add_prompt = true, go_on = false;
    if (!whim_openai_read_chat(api, f, task) ||
        !whim_field_bool(f, "add_generation_prompt", &add_prompt) ||
        !whim_field_bool(f, "continue_final_message", &go_on)) {
        return false;
    }
    task->is_closed = !add_prompt && !go_on;
    return true;
}

static bool read_tokenize(const whim_api *api, const whim_fields *f, whim_task *task)
{
    static const char *const keys[] = {"prompt", "content", "messages"};
    static const char *const flags[] = {"return_token_strs", "with_pieces", "parse_special",
                                        "add_special", "add_special_tokens"};
    int32_t n = 0;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        bool flag = false; /* read where it is needed */
        if (!whim_field_bool(f, flags[i], &flag)) {
            return false;
        }
    }
    for (int i = 0; i < 3; i++) {
        n += whim_field(f, keys[i]) != NULL;
    }
    if (n != 1) {
        return whim_field_refuse(
            f, "prompt", "or \"content\" or \"messages\" must be given, and only one of them");
    }
    return whim_field(f, "messages") == NULL || read_turns(api, f, task);
}

/* As other servers have it, nothing is put before `content` unless add_special says so. */
static bool encode_text(const whim_api *api, const whim_fields *f, whim_ids *out)
{
    const char *key = whim_field(f, "prompt") != NULL ? "prompt" : "content";
    const json_t *text = whim_field(f, key);
    whim_encode_opts opts = {
        .parse_special = true, .add_special = key[0] == 'p', .most = api->ctx - 1};
    if (!json_is_string(text)) {
        return whim_field_string(f, key, &(const char *){NULL});
    }
    return whim_field_bool(f, "parse_special", &opts.parse_special) &&
           whim_field_bool(f, "add_special", &opts.add_special) &&
           whim_field_bool(f, "add_special_tokens", &opts.add_special) &&
           whim_openai_encode(api, f, key, text, &opts, out);
}

/* The ids of a text or of `messages`. */
static bool make_ids(const whim_api *api, whim_task *task, whim_ids *out, whim_fault *fault)
{
    if (task->messages == NULL) {
        return encode_text(api, &(whim_fields){.obj = task->body, .fault = fault}, out);
    }
    whim_prompt rendered = {0};
    bool ok = whim_task_render(api, task, &rendered, fault);
    if (ok) {
        *out = rendered.ids;
        rendered.ids = (whim_ids){0};
    }
    whim_prompt_deinit(&rendered);
    return ok;
}

/* As llama.cpp has it: the text of each beside its id, or its bytes where they are no text. */
static void put_pieces(const whim_api *api, const whim_ids *ids, whim_str *out)
{
    for (int64_t i = 0; i < ids->n; i++) {
        int64_t n;
        const char *bytes = whim_tokenizer_bytes(api->tok, ids->ids[i], &n);
        whim_put_form(out, i == 0 ? "[{'id':%d,'piece':" : ",{'id':%d,'piece':", ids->ids[i]);
        if (whim_utf8_valid_prefix(bytes, n) == n) {
            whim_put_form(out, "%n", bytes, n);
        } else {
            for (int64_t k = 0; k < n; k++) {
                whim_str_printf(out, k == 0 ? "[%d" : ",%d", (uint8_t)bytes[k]);
            }
            whim_str_append_char(out, ']');
        }
        whim_str_append_char(out, '}');
    }
    whim_str_append(out, ids->n > 0 ? "]" : "[]");
}

void whim_route_tokenize(const whim_api *api, whim_exchange *ex)
{
    whim_fault fault = {0};
    whim_ids ids = {0};
    whim_str body = {0};
    whim_task *task = whim_task_open(api, ex, read_tokenize, &fault);
    bool ok = task != NULL && make_ids(api, task, &ids, &fault);
    if (ok) {
        bool strs = json_is_true(whim_peek(task->body, "return_token_strs"));
        whim_str_append(&body, "{\"tokens\":");
        if (json_is_true(whim_peek(task->body, "with_pieces"))) {
            put_pieces(api, &ids, &body);
        } else {
            whim_openai_put_ids(&body, ids.ids, ids.n);
        }
        whim_put_form(&body,
                      strs ? ",'count':%l,'max_model_len':%l,'token_strs':["
                           : ",'count':%l,'max_model_len':%l",
                      ids.n, api->ctx);
        for (int64_t i = 0; strs && i < ids.n; i++) {
            whim_str_append(&body, i == 0 ? "" : ",");
            whim_put_cstr(&body, whim_tokenizer_spelling(api->tok, ids.ids[i]));
        }
        whim_str_append(&body, strs ? "]}" : "}");
    }
    reply_or_refuse(api, ex, ok, &body, &fault);
    whim_str_deinit(&body);
    whim_ids_deinit(&ids);
    whim_task_destroy(task);
}

static bool detokenize(const whim_api *api, const whim_fields *f, whim_str *text)
{
    json_t *tokens = NULL;
    bool skip_special = false;
    whim_ids ids = {0};
    if (!whim_field_array(f, "tokens", &tokens) ||
        !whim_field_bool(f, "skip_special_tokens", &skip_special)) {
        return false;
    }
    if (tokens == NULL) {
        return whim_field_refuse(f, "tokens", "is missing");
    }
    bool ok = whim_openai_read_ids(api, f, "tokens", tokens, &ids);
    if (ok) {
        whim_detokenizer d;
        whim_detokenizer_init(&d, api->tok, !skip_special);
        for (int64_t i = 0; i < ids.n; i++) {
            whim_detokenizer_push(&d, ids.ids[i], text);
        }
        whim_detokenizer_flush(&d, text);
    }
    whim_ids_deinit(&ids);
    return ok;
}

void whim_route_detokenize(const whim_api *api, whim_exchange *ex)
{
    whim_fault fault = {0};
    whim_str text = {0}, body = {0};
    const whim_http_request *request = whim_exchange_request(ex);
    json_t *json = whim_body_parse(request->body, request->n_body, &fault);
    bool ok = json != NULL && detokenize(api, &(whim_fields){.obj = json, .fault = &fault}, &text);
    if (ok) {
        whim_put_form(&body, "{'prompt':%t,'content':%t}", &text, &text);
    }
    reply_or_refuse(api, ex, ok, &body, &fault);
    whim_str_deinit(&text);
    whim_str_deinit(&body);
    json_decref(json);
}

static const char *or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

/* With it a client can use /tokenize and /detokenize as its tokenizer; lm-eval does. */
void whim_route_tokenizer(const whim_api *api, whim_exchange *ex)
{
    whim_str body = {0};
    whim_put_form(&body, "{'bos_token':%q,'eos_token':%q}", or_null(whim_tokenizer_bos(api->tok)),
                  or_null(whim_tokenizer_eos(api->tok)));
    whim_api_reply(api, ex, &body);
    whim_str_deinit(&body);
}

void whim_route_template(const whim_api *api, whim_exchange *ex)
{
    whim_fault fault = {0};
    whim_str body = {0};
    whim_prompt prompt = {0};
    whim_task *task = whim_task_open(api, ex, read_turns, &fault);
    bool ok = task != NULL && whim_task_render(api, task, &prompt, &fault);
    if (ok) {
        whim_put_form(&body, "{'prompt':%t}", &prompt.rendered.text);
    }
    reply_or_refuse(api, ex, ok, &body, &fault);
    whim_prompt_deinit(&prompt);
    whim_str_deinit(&body);
    whim_task_destroy(task);
}

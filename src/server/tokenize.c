/* SPDX-License-Identifier: Apache-2.0 */
/* /tokenize, /detokenize, /apply-template: what the other routes do to texts, to look at. */
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

static bool read_tokenize(const whim_api *api, const whim_fields *f, whim_task *task)
{
    bool has_prompt = whim_field(f, "prompt") != NULL, strs = false;
    if (!whim_field_bool(f, "return_token_strs", &strs)) {
        return false;
    }
    if (has_prompt == (whim_field(f, "messages") != NULL)) {
        return whim_field_refuse(f, "prompt", "or \"messages\" must be given, and not both");
    }
    return has_prompt || whim_openai_read_chat(api, f, task);
}

/* The ids of `prompt` or of `messages`. */
static bool make_ids(const whim_api *api, whim_task *task, whim_ids *out, whim_fault *fault)
{
    if (task->messages == NULL) {
        whim_fields f = {task->body, "", fault};
        const json_t *prompt = whim_field(&f, "prompt");
        bool parse_special = true, add_special = true;
        if (!json_is_string(prompt)) {
            return whim_field_string(&f, "prompt", &(const char *){NULL});
        }
        return whim_field_bool(&f, "parse_special", &parse_special) &&
               whim_field_bool(&f, "add_special_tokens", &add_special) &&
               whim_openai_encode(api, &f, "prompt", prompt, parse_special, add_special, out);
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
        whim_openai_put_ids(&body, ids.ids, ids.n);
        whim_put_form(&body,
                      strs ? ",'count':%l,'max_model_len':%l,'token_strs':["
                           : ",'count':%l,'max_model_len':%l",
                      ids.n, api->ctx);
        for (int64_t i = 0; strs && i < ids.n; i++) {
            whim_str_append(&body, i == 0 ? "" : ",");
            whim_openai_put_token(api, ids.ids[i], &body);
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
    bool ok = json != NULL && detokenize(api, &(whim_fields){json, "", &fault}, &text);
    if (ok) {
        whim_put_form(&body, "{'prompt':%t}", &text);
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
    whim_task *task = whim_task_open(api, ex, whim_openai_read_chat, &fault);
    bool ok = task != NULL && whim_task_render(api, task, &prompt, &fault);
    if (ok) {
        whim_put_form(&body, "{'prompt':%t}", &prompt.rendered.text);
    }
    reply_or_refuse(api, ex, ok, &body, &fault);
    whim_prompt_deinit(&prompt);
    whim_str_deinit(&body);
    whim_task_destroy(task);
}

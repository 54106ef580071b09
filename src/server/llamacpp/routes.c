/* SPDX-License-Identifier: Apache-2.0 */
/* /props and /slots: what llama.cpp's clients want to know about the server. */
#include "server/llamacpp/llamacpp.h"

#include "server/router.h"

#include <string.h>

/* `"n_ctx":..,"speculative":..,"is_processing":..` */
static void put_slot(const whim_api *api, bool is_processing, whim_str *out)
{
    whim_put_form(out, "'id_task':-1,'n_ctx':%l,'speculative':%s,'is_processing':%s", api->ctx,
                  api->draft != NULL || api->lookup ? "true" : "false",
                  is_processing ? "true" : "false");
}

void whim_route_llamacpp_props(const whim_api *api, whim_exchange *ex)
{
    whim_str body = {0};
    const char *template = whim_tokenizer_template(api->tok, NULL);
    whim_str_append(&body, "{\"default_generation_settings\":{\"id\":0,");
    put_slot(api, false, &body);
    whim_str_append(&body, ",\"params\":");
    whim_llamacpp_put_settings(api, NULL, &body);
    whim_put_form(&body,
                  "},'total_slots':%l,'model_alias':%q,'model_path':%q,'chat_template':%q,"
                  "'bos_token':%q,'eos_token':%q,'modalities':{'vision':false,'audio':false},"
                  "'build_info':'whimbrel-%s','is_sleeping':false}",
                  api->n_slot, api->name, api->name, template != NULL ? template : "",
                  whim_tokenizer_bos(api->tok), whim_tokenizer_eos(api->tok), api->version);
    whim_api_reply(api, ex, &body);
    whim_str_deinit(&body);
}

/* Whether the query has this flag, with any value but 0. */
static bool has_flag(const char *query, const char *name)
{
    size_t n = strlen(name);
    bool found = false;
    for (const char *at = query; at != NULL && !found; at = strchr(at, '&')) {
        at += *at == '&';
        found = strncmp(at, name, n) == 0 && at[n] == '=' && at[n + 1] != '0';
    }
    return found;
}

/* Places in the batch. Which of them a request has changes from step to step: the first ones are
 * said to be taken. */
void whim_route_llamacpp_slots(const whim_api *api, whim_exchange *ex)
{
    whim_service *service = whim_library_service(api->model);
    int64_t n_running = whim_service_get_stats(service).sched.n_running;
    whim_str body = {0};
    if (n_running >= api->n_slot && has_flag(whim_exchange_request(ex)->query, "fail_on_no_slot")) {
        whim_fault fault;
        whim_fault_set(&fault, WHIM_FAULT_OVERLOADED, NULL,
                       "all %lld places are taken; requests that come now wait",
                       (long long)api->n_slot);
        whim_api_refuse(api, ex, &fault);
        return;
    }
    whim_str_append_char(&body, '[');
    for (int64_t i = 0; i < api->n_slot; i++) {
        whim_put_form(&body, i == 0 ? "{'id':%l," : ",{'id':%l,", i);
        put_slot(api, i < n_running, &body);
        whim_str_append_char(&body, '}');
    }
    whim_str_append_char(&body, ']');
    whim_api_reply(api, ex, &body);
    whim_str_deinit(&body);
}

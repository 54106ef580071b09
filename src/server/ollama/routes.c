/* SPDX-License-Identifier: Apache-2.0 */
/* The routes of Ollama's /api: answers, and what is said about the one model that is here. */
#include "server/ollama/ollama.h"

#include "server/router.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* The version of Ollama whose fields are read and written; clients refuse servers that seem old. */
#define OLLAMA_VERSION "0.12.6"

/* --- answers ---------------------------------------------------------------------------------- */

void whim_route_ollama_chat(const whim_api *api, whim_exchange *ex)
{
    whim_answer_route(api, ex, &whim_ollama_chat_form);
}

void whim_route_ollama_generate(const whim_api *api, whim_exchange *ex)
{
    whim_answer_route(api, ex, &whim_ollama_generate_form);
}

/* --- about the model -------------------------------------------------------------------------- */

static void put_time(int64_t seconds, whim_str *out)
{
    char at[32] = "";
    time_t time = (time_t)seconds;
    struct tm utc;
    if (gmtime_r(&time, &utc) != NULL) {
        strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
    whim_put_form(out, "%q", at);
}

static void put_details(const whim_api *api, whim_str *out)
{
    const whimbrel_info *info = whimbrel_get_info(api->model);
    char size[32];
    double n = (double)info->n_parameter;
    snprintf(size, sizeof size, n >= 1e9 ? "%.1fB" : "%.0fM", n >= 1e9 ? n / 1e9 : n / 1e6);
    whim_put_form(out,
                  "'details':{'parent_model':'','format':'','family':%q,'families':[%q],"
                  "'parameter_size':%q,'quantization_level':%q}",
                  info->architecture, info->architecture, size, info->weights);
}

static int64_t weight_bytes(const whim_api *api)
{
    const whimbrel_info *info = whimbrel_get_info(api->model);
    int64_t bytes = 0;
    for (int32_t i = 0; i < info->n_plan; i++) {
        bytes += strcmp(info->plan[i].name, "weights") == 0 ? info->plan[i].bytes : 0;
    }
    return bytes;
}

/* Names, size and details: of an entry of /api/tags and /api/ps, without its closing brace. */
static void put_entry(const whim_api *api, int64_t bytes, whim_str *out)
{
    whim_put_form(out, "{'name':%q,'model':%q,'size':%l,'digest':%q,", api->name, api->name, bytes,
                  strchr(api->fingerprint, '_') + 1);
    put_details(api, out);
}

void whim_route_ollama_tags(const whim_api *api, whim_exchange *ex)
{
    whim_str body = {0};
    whim_str_append(&body, "{\"models\":[");
    put_entry(api, weight_bytes(api), &body);
    whim_str_append(&body, ",\"modified_at\":");
    put_time(api->created, &body);
    whim_str_append(&body, "}]}");
    whim_api_reply(api, ex, &body);
    whim_str_deinit(&body);
}

/* It stays loaded: what clients want to know is a time that is far away. */
void whim_route_ollama_ps(const whim_api *api, whim_exchange *ex)
{
    whim_str body = {0};
    whim_str_append(&body, "{\"models\":[");
    put_entry(api, whimbrel_get_info(api->model)->plan_bytes, &body);
    whim_put_form(&body, ",'size_vram':0,'context_length':%l,'expires_at':", api->ctx);
    put_time(api->created + INT64_C(100) * 365 * 86400, &body);
    whim_str_append(&body, "}]}");
    whim_api_reply(api, ex, &body);
    whim_str_deinit(&body);
}

static void put_show(const whim_api *api, whim_str *out)
{
    const whimbrel_info *info = whimbrel_get_info(api->model);
    const whimbrel_sampling *p = &api->sampling;
    char parameters[256];
    snprintf(parameters, sizeof parameters,
             "temperature %g\ntop_k %d\ntop_p %g\nmin_p %g\nrepeat_penalty %g\nnum_ctx %lld",
             (double)p->temperature, p->top_k, (double)p->top_p, (double)p->min_p,
             (double)p->repetition_penalty, (long long)api->ctx);
    whim_put_form(out, "{'modelfile':'','template':'','parameters':%q,", parameters);
    put_details(api, out);
    whim_put_form(out,
                  ",'model_info':{'general.architecture':%q,'general.parameter_count':%l,"
                  "'%s.context_length':%l},'capabilities':['completion'",
                  info->architecture, info->n_parameter, info->architecture, api->ctx);
    whim_str_append(out, info->has_template ? ",\"tools\"" : "");
    whim_str_append(out, info->reasons ? ",\"thinking\"" : "");
    whim_str_append(out, "],\"modified_at\":");
    put_time(api->created, out);
    whim_str_append_char(out, '}');
}

void whim_route_ollama_show(const whim_api *api, whim_exchange *ex)
{
    const whim_http_request *r = whim_exchange_request(ex);
    whim_fault fault = {0};
    whim_str out = {0};
    json_t *body = whim_body_parse(r->body, r->n_body, &fault);
    whim_fields f = {.obj = body, .prefix = "", .fault = &fault};
    if (body != NULL && whim_field(&f, "model") == NULL && whim_field(&f, "name") != NULL) {
        json_object_set(body, "model", whim_field(&f, "name")); /* as older clients call it */
    }
    if (body == NULL || !whim_task_check_model(api, &f)) {
        whim_api_refuse(api, ex, &fault);
    } else {
        put_show(api, &out);
        whim_api_reply(api, ex, &out);
    }
    json_decref(body);
    whim_str_deinit(&out);
}

void whim_route_ollama_version(const whim_api *api, whim_exchange *ex)
{
    whim_str body = {0};
    whim_put_form(&body, "{'version':'" OLLAMA_VERSION "','whimbrel':%q}", api->version);
    whim_api_reply(api, ex, &body);
    whim_str_deinit(&body);
}

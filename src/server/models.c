/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/models in one form that both dialects' clients read, /version, and /openapi.json. */
#include "server/api.h"
#include "server/router.h"

#include <string.h>
#include <time.h>

/* The model's entry of /v1/models, appended. */
static void put_model(const whim_api *api, whim_str *out)
{
    char at[32] = "";
    time_t created = (time_t)api->created;
    struct tm utc;
    bool is_bounded = api->max_tokens > 0 && api->max_tokens < api->ctx;
    if (gmtime_r(&created, &utc) != NULL) {
        strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
    whim_put_form(out,
                  "{'id':%q,'object':'model','created':%l,'owned_by':'whimbrel','root':%q,"
                  "'parent':null,'max_model_len':%l,'context_length':%l,'type':'model',"
                  "'display_name':%q,'created_at':%q,'lifecycle':'active','max_input_tokens':%l,"
                  "'max_tokens':%l,'whimbrel':",
                  api->name, api->created, api->name, api->ctx, api->ctx, api->name, at, api->ctx,
                  is_bounded ? api->max_tokens : api->ctx);
    whim_put_form(out, api->about == NULL ? "{}}" : "%j}", api->about);
}

/* What follows "/models/" in the path, or NULL for the list. */
static const char *id_in(const char *path)
{
    static const char mark[] = "/models/";
    const char *at = strstr(path, mark);
    return at == NULL ? NULL : at + sizeof mark - 1;
}

void whim_route_models(const whim_api *api, whim_exchange *ex)
{
    const char *id = id_in(whim_exchange_request(ex)->path);
    whim_str body = {0};
    if (id != NULL && strcmp(id, api->name) != 0) {
        whim_fault fault;
        whim_fault_set(&fault, WHIM_FAULT_NO_MODEL, "model",
                       "the model \"%.200s\" is not here; this server has \"%s\"", id, api->name);
        whim_api_refuse(api, ex, &fault);
        return;
    }
    whim_str_append(&body, id != NULL ? "" : "{\"object\":\"list\",\"data\":[");
    put_model(api, &body);
    if (id == NULL) {
        whim_put_form(&body, "],'has_more':false,'first_id':%q,'last_id':%q}", api->name,
                      api->name);
    }
    whim_api_reply(api, ex, &body);
    whim_str_deinit(&body);
}

void whim_route_version(const whim_api *api, whim_exchange *ex)
{
    whim_str body = {0};
    whim_put_form(&body, "{'version':%q,'commit':%q,'isa':%q}", api->version, api->commit,
                  api->isa);
    whim_api_reply(api, ex, &body);
    whim_str_deinit(&body);
}

/* What tools/openapi.awk makes of openapi.txt, as bytes. */
static const unsigned char document[] = {
#include "openapi.inc"
};

void whim_route_openapi(const whim_api *api, whim_exchange *ex)
{
    whim_request_log(api->log, ex, 200, NULL);
    whim_exchange_reply(ex, 200, "application/json", (const char *)document, sizeof document);
}

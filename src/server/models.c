/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/models in one form that both dialects' clients read, /version, and /openapi.json. */
#include "server/api.h"
#include "server/routes.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

void whim_put_model(const whim_api *api, whim_str *out)
{
    char at[32] = "";
    time_t created = (time_t)api->created;
    struct tm utc;
    if (gmtime_r(&created, &utc) != NULL) {
        strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
    whim_str_append(out, "{\"id\":");
    whim_put_cstr(out, api->model);
    whim_str_printf(
        out, ",\"object\":\"model\",\"created\":%" PRId64 ",\"owned_by\":\"whimbrel\",\"root\":",
        api->created);
    whim_put_cstr(out, api->model);
    whim_str_printf(out,
                    ",\"parent\":null,\"max_model_len\":%" PRId64 ",\"context_length\":%" PRId64
                    ",\"type\":\"model\",\"display_name\":",
                    api->ctx, api->ctx);
    whim_put_cstr(out, api->model);
    whim_str_printf(out,
                    ",\"created_at\":\"%s\",\"lifecycle\":\"active\",\"max_input_tokens\":%" PRId64
                    ",\"max_tokens\":%" PRId64 ",\"whimbrel\":",
                    at, api->ctx,
                    api->max_tokens > 0 && api->max_tokens < api->ctx ? api->max_tokens : api->ctx);
    if (api->about == NULL) {
        whim_str_append(out, "{}");
    } else {
        whim_put_json(out, api->about);
    }
    whim_str_append_char(out, '}');
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
    if (id != NULL && strcmp(id, api->model) != 0) {
        whim_fault fault;
        whim_fault_set(&fault, WHIM_FAULT_NO_MODEL, "model",
                       "the model \"%.200s\" is not here; this server has \"%s\"", id, api->model);
        whim_api_refuse(api, ex, &fault);
        return;
    }
    if (id != NULL) {
        whim_put_model(api, &body);
    } else {
        whim_str_append(&body, "{\"object\":\"list\",\"data\":[");
        whim_put_model(api, &body);
        whim_str_append(&body, "],\"has_more\":false,\"first_id\":");
        whim_put_cstr(&body, api->model);
        whim_str_append(&body, ",\"last_id\":");
        whim_put_cstr(&body, api->model);
        whim_str_append_char(&body, '}');
    }
    whim_api_reply(api, ex, &body);
    whim_str_deinit(&body);
}

void whim_route_version(const whim_api *api, whim_exchange *ex)
{
    whim_str body = {0};
    whim_str_append(&body, "{\"version\":");
    whim_put_cstr(&body, api->version);
    whim_str_append(&body, ",\"commit\":");
    whim_put_cstr(&body, api->commit);
    whim_str_append(&body, ",\"isa\":");
    whim_put_cstr(&body, api->isa);
    whim_str_append_char(&body, '}');
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

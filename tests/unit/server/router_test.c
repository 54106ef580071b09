/* SPDX-License-Identifier: Apache-2.0 */
/* Paths to routes: with and without /v1, ids, wrong methods, unknown paths. */
#include "server/router.h"

#include "support/cmocka.h"

#include <string.h>

/* The routes themselves are not called here. */
#define ROUTE(name)                                   \
    void name(const whim_api *api, whim_exchange *ex) \
    {                                                 \
        (void)api;                                    \
        (void)ex;                                     \
    }
ROUTE(whim_route_chat)
ROUTE(whim_route_completions)
ROUTE(whim_route_responses)
ROUTE(whim_route_response)
ROUTE(whim_route_messages)
ROUTE(whim_route_count_tokens)
ROUTE(whim_route_models)
ROUTE(whim_route_version)
ROUTE(whim_route_tokenize)
ROUTE(whim_route_detokenize)
ROUTE(whim_route_template)
ROUTE(whim_route_tokenizer)
ROUTE(whim_route_openapi)
ROUTE(whim_route_history)
ROUTE(whim_route_requests)

static void expect(const char *method, const char *path, whim_route_fn *want)
{
    whim_fault fault;
    const char *allow = NULL;
    const whim_route *route = whim_router_find(method, path, &allow, &fault);
    if (route == NULL || route->handle != want) {
        fail_msg("%s %s", method, path);
    }
}

static void refuse(const char *method, const char *path, whim_fault_kind kind, const char *words,
                   const char *want_allow)
{
    whim_fault fault = {0};
    const char *allow = "";
    if (whim_router_find(method, path, &allow, &fault) != NULL || fault.kind != kind ||
        strstr(fault.message, words) == NULL || strcmp(allow, want_allow) != 0) {
        fail_msg("%s %s: %s, %s", method, path, fault.message, allow);
    }
}

static void paths_find_their_routes(void **state)
{
    (void)state;
    expect("POST", "/v1/chat/completions", whim_route_chat);
    expect("POST", "/chat/completions", whim_route_chat);
    expect("POST", "/completions", whim_route_completions);
    expect("POST", "/responses", whim_route_responses);
    expect("GET", "/v1/responses/resp_1", whim_route_response);
    expect("DELETE", "/responses/resp_1", whim_route_response);
    expect("GET", "/v1/models", whim_route_models);
    expect("GET", "/models", whim_route_models);
    expect("GET", "/v1/models/org/name", whim_route_models);
    expect("GET", "/models/x", whim_route_models);
    expect("POST", "/v1/messages", whim_route_messages);
    expect("POST", "/v1/messages/count_tokens", whim_route_count_tokens);
    expect("POST", "/api/chat", whim_route_ollama_chat);
    expect("POST", "/api/generate", whim_route_ollama_generate);
    expect("GET", "/api/tags", whim_route_ollama_tags);
    expect("GET", "/api/ps", whim_route_ollama_ps);
    expect("POST", "/api/show", whim_route_ollama_show);
    expect("GET", "/api/version", whim_route_ollama_version);
    expect("POST", "/tokenize", whim_route_tokenize);
    expect("POST", "/detokenize", whim_route_detokenize);
    expect("POST", "/apply-template", whim_route_template);
    expect("GET", "/tokenizer_info", whim_route_tokenizer);
    expect("GET", "/openapi.json", whim_route_openapi);
    expect("GET", "/version", whim_route_version);
    expect("GET", "/metrics/history", whim_route_history);
    expect("GET", "/requests", whim_route_requests);
}

static void wrong_methods_are_told_what_is_right(void **state)
{
    (void)state;
    refuse("GET", "/v1/chat/completions", WHIM_FAULT_METHOD, "takes POST", "POST, OPTIONS");
    refuse("POST", "/v1/models/x", WHIM_FAULT_METHOD, "takes GET", "GET, HEAD, OPTIONS");
    refuse("GET", "/v1/responses", WHIM_FAULT_METHOD, "takes POST", "POST, OPTIONS");
    refuse("POST", "/v1/responses/resp_1", WHIM_FAULT_METHOD, "{id} takes GET and DELETE",
           "GET, HEAD, DELETE, OPTIONS");
    refuse("DELETE", "/version", WHIM_FAULT_METHOD, "not DELETE", "GET, HEAD, OPTIONS");
}

static void unknown_paths_are_told_the_nearest(void **state)
{
    (void)state;
    refuse("POST", "/v1/v1/chat/completions", WHIM_FAULT_NO_ROUTE, "take /v1 out", "");
    refuse("POST", "/v1/chat/completion", WHIM_FAULT_NO_ROUTE, "POST /v1/chat/completions", "");
    refuse("POST", "/messages", WHIM_FAULT_NO_ROUTE, "POST /v1/messages", "");
    refuse("GET", "/v1/model", WHIM_FAULT_NO_ROUTE, "GET /v1/models", "");
    refuse("POST", "/v1/embeddings", WHIM_FAULT_NO_ROUTE, "the nearest is", "");
    refuse("POST", "/api/pull", WHIM_FAULT_NO_ROUTE, "the nearest is", "");
    refuse("GET", "/v1/modelsx", WHIM_FAULT_NO_ROUTE, "GET /v1/models", "");
    char path[9000];
    memset(path, '/', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    refuse("GET", path, WHIM_FAULT_NO_ROUTE, "the nearest is", "");
    refuse("POST", "/v1/messages/count_tokens/and/then/some/more/of/what/nobody/serves/here",
           WHIM_FAULT_NO_ROUTE, "POST /v1/messages/count_tokens", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_find_their_routes),
        cmocka_unit_test(wrong_methods_are_told_what_is_right),
        cmocka_unit_test(unknown_paths_are_told_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

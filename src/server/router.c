/* SPDX-License-Identifier: Apache-2.0 */
/* The table of routes. */
#include "server/router.h"

#include <string.h>

static const whim_route table[] = {
    {"POST", "/v1/chat/completions", true, false, whim_route_chat},
    {"POST", "/v1/completions", true, false, whim_route_completions},
    {"POST", "/v1/responses", true, false, whim_route_responses},
    {"GET", "/v1/models", true, true, whim_route_models},
    {"POST", "/v1/messages", false, false, whim_route_messages},
    {"POST", "/v1/messages/count_tokens", false, false, whim_route_count_tokens},
    {"POST", "/api/chat", false, false, whim_route_ollama_chat},
    {"POST", "/api/generate", false, false, whim_route_ollama_generate},
    {"GET", "/api/tags", false, false, whim_route_ollama_tags},
    {"GET", "/api/ps", false, false, whim_route_ollama_ps},
    {"POST", "/api/show", false, false, whim_route_ollama_show},
    {"GET", "/api/version", false, false, whim_route_ollama_version, true},
    {"POST", "/completion", false, false, whim_route_llamacpp_completion},
    {"POST", "/infill", false, false, whim_route_llamacpp_infill},
    {"GET", "/props", false, false, whim_route_llamacpp_props},
    {"GET", "/slots", false, false, whim_route_llamacpp_slots},
    {"POST", "/tokenize", false, false, whim_route_tokenize},
    {"POST", "/detokenize", false, false, whim_route_detokenize},
    {"POST", "/apply-template", false, false, whim_route_template},
    {"GET", "/tokenizer_info", false, false, whim_route_tokenizer},
    {"GET", "/openapi.json", false, false, whim_route_openapi, true},
    {"GET", "/version", false, false, whim_route_version, true},
    {"GET", "/metrics", false, false, whim_route_metrics, true},
    {"GET", "/metrics/history", false, false, whim_route_history, true},
    {"GET", "/requests", false, false, whim_route_requests},
    {"GET", "/", false, false, whim_route_page, true},
    {"GET", "/dashboard", false, false, whim_route_page, true},
    {"GET", "/favicon.ico", false, false, whim_route_page, true},
    {"GET", "/assets", false, true, whim_route_page, true},
};
enum { N_ROUTE = sizeof table / sizeof table[0], PREFIX = 3 /* "/v1" */ };

static bool path_is(const whim_route *route, const char *want, const char *path)
{
    size_t n = strlen(want);
    return strncmp(path, want, n) == 0 &&
           (path[n] == '\0' || (route->has_id && path[n] == '/' && path[n + 1] != '\0'));
}

static bool matches(const whim_route *route, const char *path)
{
    return path_is(route, route->path, path) ||
           (route->short_too && path_is(route, route->path + PREFIX, path));
}

static const char *const probes[] = {"/livez", "/readyz", "/health"};
enum { N_PROBE = sizeof probes / sizeof probes[0] };

int32_t whim_router_number(const char *path)
{
    for (int32_t i = 0; i < N_PROBE; i++) {
        if (strcmp(path, probes[i]) == 0) {
            return 1 + i;
        }
    }
    for (int32_t i = 0; i < N_ROUTE; i++) {
        if (matches(&table[i], path)) {
            return 1 + N_PROBE + i;
        }
    }
    return 0;
}

const char *whim_router_path(int32_t number)
{
    return number <= 0                      ? "other"
           : number <= N_PROBE              ? probes[number - 1]
           : number < 1 + N_PROBE + N_ROUTE ? table[number - 1 - N_PROBE].path
                                            : NULL;
}

static const whim_route *nearest(const char *path)
{
    const whim_route *best = &table[0];
    int32_t least = INT32_MAX;
    char cut[WHIM_EDIT_FAR + 1]; /* beyond it all are as far away */
    snprintf(cut, sizeof cut, "%s", path);
    for (int i = 0; i < N_ROUTE; i++) {
        if (table[i].handle == whim_route_page) {
            continue; /* whoever looks for a route does not look for the page */
        }
        int32_t d = whim_edit_distance(cut, table[i].path);
        if (table[i].short_too) {
            int32_t shorter = whim_edit_distance(cut, table[i].path + PREFIX);
            d = shorter < d ? shorter : d;
        }
        if (d < least) {
            least = d;
            best = &table[i];
        }
    }
    return best;
}

const whim_route *whim_router_find(const char *method, const char *path, const char **allow,
                                   whim_fault *fault)
{
    for (int i = 0; i < N_ROUTE; i++) {
        const whim_route *route = &table[i];
        if (!matches(route, path)) {
            continue;
        }
        if (strcmp(route->method, method) == 0) {
            return route;
        }
        *allow = strcmp(route->method, "GET") == 0 ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
        whim_fault_set(fault, WHIM_FAULT_METHOD, NULL, "%s takes %s, not %.20s", route->path,
                       route->method, method);
        return NULL;
    }
    if (strncmp(path, "/v1/v1", 6) == 0) {
        whim_fault_set(fault, WHIM_FAULT_NO_ROUTE, NULL,
                       "there is no route %.200s: take /v1 out of the client's base URL", path);
    } else {
        whim_fault_set(fault, WHIM_FAULT_NO_ROUTE, NULL,
                       "there is no route %.200s; the nearest is %s %s", path,
                       nearest(path)->method, nearest(path)->path);
    }
    return NULL;
}

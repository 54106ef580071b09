/* SPDX-License-Identifier: Apache-2.0 */
/* The table of routes. */
#include "server/router.h"

#include <string.h>

static const whim_route table[] = {
    {"POST", "/v1/chat/completions", true, WHIM_ID_NEVER, whim_route_chat},
    {"POST", "/v1/completions", true, WHIM_ID_NEVER, whim_route_completions},
    {"POST", "/v1/responses", true, WHIM_ID_NEVER, whim_route_responses},
    {"GET", "/v1/responses", true, WHIM_ID_MUST, whim_route_response},
    {"DELETE", "/v1/responses", true, WHIM_ID_MUST, whim_route_response},
    {"GET", "/v1/models", true, WHIM_ID_MAY, whim_route_models},
    {"POST", "/v1/messages", false, WHIM_ID_NEVER, whim_route_messages},
    {"POST", "/v1/messages/count_tokens", false, WHIM_ID_NEVER, whim_route_count_tokens},
    {"POST", "/api/chat", false, WHIM_ID_NEVER, whim_route_ollama_chat},
    {"POST", "/api/generate", false, WHIM_ID_NEVER, whim_route_ollama_generate},
    {"GET", "/api/tags", false, WHIM_ID_NEVER, whim_route_ollama_tags},
    {"GET", "/api/ps", false, WHIM_ID_NEVER, whim_route_ollama_ps},
    {"POST", "/api/show", false, WHIM_ID_NEVER, whim_route_ollama_show},
    {"GET", "/api/version", false, WHIM_ID_NEVER, whim_route_ollama_version, true},
    {"POST", "/completion", false, WHIM_ID_NEVER, whim_route_llamacpp_completion},
    {"POST", "/infill", false, WHIM_ID_NEVER, whim_route_llamacpp_infill},
    {"GET", "/props", false, WHIM_ID_NEVER, whim_route_llamacpp_props},
    {"GET", "/slots", false, WHIM_ID_NEVER, whim_route_llamacpp_slots},
    {"POST", "/tokenize", false, WHIM_ID_NEVER, whim_route_tokenize},
    {"POST", "/detokenize", false, WHIM_ID_NEVER, whim_route_detokenize},
    {"POST", "/apply-template", false, WHIM_ID_NEVER, whim_route_template},
    {"GET", "/tokenizer_info", false, WHIM_ID_NEVER, whim_route_tokenizer},
    {"GET", "/openapi.json", false, WHIM_ID_NEVER, whim_route_openapi, true},
    {"GET", "/version", false, WHIM_ID_NEVER, whim_route_version, true},
    {"GET", "/metrics", false, WHIM_ID_NEVER, whim_route_metrics, true},
    {"GET", "/metrics/history", false, WHIM_ID_NEVER, whim_route_history, true},
    {"GET", "/requests", false, WHIM_ID_NEVER, whim_route_requests},
    {"GET", "/", false, WHIM_ID_NEVER, whim_route_page, true},
    {"GET", "/dashboard", false, WHIM_ID_NEVER, whim_route_page, true},
    {"GET", "/favicon.ico", false, WHIM_ID_NEVER, whim_route_page, true},
    {"GET", "/assets", false, WHIM_ID_MAY, whim_route_page, true},
};
enum { N_ROUTE = sizeof table / sizeof table[0], PREFIX = 3 /* "/v1" */ };

static bool path_is(const whim_route *route, const char *want, const char *path)
{
    size_t n = strlen(want);
    if (strncmp(path, want, n) != 0) {
        return false;
    }
    return path[n] == '\0' ? route->id != WHIM_ID_MUST
                           : route->id != WHIM_ID_NEVER && path[n] == '/' && path[n + 1] != '\0';
}

static bool matches(const whim_route *route, const char *path)
{
    return path_is(route, route->path, path) ||
           (route->short_too && path_is(route, route->path + PREFIX, path));
}

static const char *const probes[] = {"/livez", "/readyz", "/health"};
enum { N_PROBE = sizeof probes / sizeof probes[0] };

/* The first route of a path stands for all of them. */
static int32_t first_of(int32_t route)
{
    int32_t first = 0;
    while (strcmp(table[first].path, table[route].path) != 0) {
        first++;
    }
    return first;
}

int32_t whim_router_number(const char *path)
{
    for (int32_t i = 0; i < N_PROBE; i++) {
        if (strcmp(path, probes[i]) == 0) {
            return 1 + i;
        }
    }
    for (int32_t i = 0; i < N_ROUTE; i++) {
        if (matches(&table[i], path)) {
            return 1 + N_PROBE + first_of(i);
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

/* The Allow header of a path, and what to say: routes of one path take GET, POST, or GET and
 * DELETE. */
static const whim_route *refuse_method(const whim_route *route, bool deletes, const char *method,
                                       const char **allow, whim_fault *fault)
{
    bool gets = strcmp(route->method, "GET") == 0;
    *allow = deletes ? "GET, HEAD, DELETE, OPTIONS" : gets ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
    whim_fault_set(fault, WHIM_FAULT_METHOD, NULL, "%s%s takes %s%s, not %.20s", route->path,
                   route->id == WHIM_ID_MUST ? "/{id}" : "", route->method,
                   deletes ? " and DELETE" : "", method);
    return NULL;
}

const whim_route *whim_router_find(const char *method, const char *path, const char **allow,
                                   whim_fault *fault)
{
    const whim_route *other = NULL;
    bool deletes = false;
    for (int i = 0; i < N_ROUTE; i++) {
        const whim_route *route = &table[i];
        if (!matches(route, path)) {
            continue;
        }
        if (strcmp(route->method, method) == 0) {
            return route;
        }
        deletes = deletes || strcmp(route->method, "DELETE") == 0;
        other = other != NULL ? other : route;
    }
    if (other != NULL) {
        return refuse_method(other, deletes, method, allow, fault);
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

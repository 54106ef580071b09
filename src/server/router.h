/* SPDX-License-Identifier: Apache-2.0 */
/* Which route a path means. Trailing slashes and queries are gone already; OpenAI routes also work
 * without /v1.
 * Threads: stateless. */
#ifndef WHIM_SERVER_ROUTER_H
#define WHIM_SERVER_ROUTER_H

#include "server/api.h"

/* The routes: each reads its exchange on a handler thread and replies or starts an answer. */
typedef void whim_route_fn(const whim_api *api, whim_exchange *ex);

whim_route_fn whim_route_chat;                /* POST /v1/chat/completions */
whim_route_fn whim_route_completions;         /* POST /v1/completions */
whim_route_fn whim_route_responses;           /* POST /v1/responses */
whim_route_fn whim_route_response;            /* GET, DELETE /v1/responses/{id} */
whim_route_fn whim_route_messages;            /* POST /v1/messages */
whim_route_fn whim_route_count_tokens;        /* POST /v1/messages/count_tokens */
whim_route_fn whim_route_ollama_chat;         /* POST /api/chat */
whim_route_fn whim_route_ollama_generate;     /* POST /api/generate */
whim_route_fn whim_route_ollama_tags;         /* GET /api/tags */
whim_route_fn whim_route_ollama_ps;           /* GET /api/ps */
whim_route_fn whim_route_ollama_show;         /* POST /api/show */
whim_route_fn whim_route_ollama_version;      /* GET /api/version */
whim_route_fn whim_route_llamacpp_completion; /* POST /completion */
whim_route_fn whim_route_llamacpp_infill;     /* POST /infill */
whim_route_fn whim_route_llamacpp_props;      /* GET /props */
whim_route_fn whim_route_llamacpp_slots;      /* GET /slots */
whim_route_fn whim_route_models;              /* GET /v1/models, /v1/models/{id} */
whim_route_fn whim_route_version;             /* GET /version */
whim_route_fn whim_route_tokenize;            /* POST /tokenize */
whim_route_fn whim_route_detokenize;          /* POST /detokenize */
whim_route_fn whim_route_template;            /* POST /apply-template */
whim_route_fn whim_route_tokenizer;           /* GET /tokenizer_info */
whim_route_fn whim_route_openapi;             /* GET /openapi.json */
whim_route_fn whim_route_metrics;             /* GET /metrics */
whim_route_fn whim_route_history;             /* GET /metrics/history */
whim_route_fn whim_route_requests;            /* GET /requests */
whim_route_fn whim_route_page;                /* GET /, /dashboard, /favicon.ico, /assets/{name} */

typedef enum whim_route_id { WHIM_ID_NEVER, WHIM_ID_MAY, WHIM_ID_MUST } whim_route_id;

typedef struct whim_route {
    const char *method; /* "GET", "POST" or "DELETE" */
    const char *path;   /* with /v1 */
    bool short_too;     /* also without /v1 */
    whim_route_id id;   /* whether an id follows the path, slashes included */
    whim_route_fn *handle;
    bool early; /* needs no model: also answered while it loads and at the end, with an api that has
                   only version, log and metrics */
} whim_route;

/* The route, or NULL with the fault set: NO_ROUTE (which names the nearest one), or METHOD (then
 * *allow is the value of the Allow header). HEAD comes as GET. */
const whim_route *whim_router_find(const char *method, const char *path, const char **allow,
                                   whim_fault *fault);

/* Paths as a closed set, for the metrics: 0 is "other", then the probes, then the routes, whatever
 * the method. NULL: there is no such number. */
int32_t whim_router_number(const char *path);
const char *whim_router_path(int32_t number);

#endif

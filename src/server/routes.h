/* SPDX-License-Identifier: Apache-2.0 */
/* The routes: each reads its exchange on a handler thread and replies or starts an answer. The
 * table is in router.c. */
#ifndef WHIM_SERVER_ROUTES_H
#define WHIM_SERVER_ROUTES_H

#include "server/api.h"

typedef void whim_route_fn(const whim_api *api, whim_exchange *ex);

whim_route_fn whim_route_chat;         /* POST /v1/chat/completions */
whim_route_fn whim_route_completions;  /* POST /v1/completions */
whim_route_fn whim_route_responses;    /* POST /v1/responses */
whim_route_fn whim_route_messages;     /* POST /v1/messages */
whim_route_fn whim_route_count_tokens; /* POST /v1/messages/count_tokens */
whim_route_fn whim_route_models;       /* GET /v1/models, /v1/models/{id} */
whim_route_fn whim_route_version;      /* GET /version */
whim_route_fn whim_route_tokenize;     /* POST /tokenize */
whim_route_fn whim_route_detokenize;   /* POST /detokenize */
whim_route_fn whim_route_template;     /* POST /apply-template */
whim_route_fn whim_route_tokenizer;    /* GET /tokenizer_info */
whim_route_fn whim_route_openapi;      /* GET /openapi.json */
whim_route_fn whim_route_metrics;      /* GET /metrics */
whim_route_fn whim_route_page;         /* GET /, /dashboard, /favicon.ico, /assets/{name} */

#endif

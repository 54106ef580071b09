/* SPDX-License-Identifier: Apache-2.0 */
/* The route /v1/responses. */
#include "server/responses/responses.h"

#include "server/offer.h"
#include "server/routes.h"

#include <stdio.h>
#include <string.h>

/* The names of this dialect for what the rest of the server found. */
static bool blame(whim_fault *fault)
{
    if (strncmp(fault->param, "messages", 8) == 0) {
        snprintf(fault->param, sizeof fault->param, "input");
    }
    return false;
}

static bool read_body(const whim_api *api, whim_exchange *ex, whim_gen *gen, whim_fault *fault)
{
    whim_fields f = {.obj = gen->body, .prefix = "", .fault = fault};
    whim_str left_out = {0};
    bool ok = whim_responses_read(api, &f, gen, &left_out);
    if (ok) {
        whim_offer_log(api, ex, &left_out);
    }
    whim_str_deinit(&left_out);
    return ok;
}

static void stream_failure(const whim_api *api, whim_exchange *ex, const whim_gen *gen,
                           const whim_fault *fault)
{
    whim_str out = {0};
    whim_responses_put_failure(api, gen, fault, &out);
    whim_exchange_stream_begin(ex, "text/event-stream; charset=utf-8");
    whim_exchange_write(ex, whim_str_text(&out), out.len);
    whim_access_log(api->log, ex, 200,
                    (const whim_log_field[]){whim_log_text("reason", "context"), {.key = NULL}});
    whim_exchange_stream_end(ex); /* the exchange may be gone after it */
    whim_str_deinit(&out);
}

void whim_route_responses(const whim_api *api, whim_exchange *ex)
{
    whim_fault fault = {0};
    whim_gen *gen = whim_gen_open(api, ex, &fault);
    bool ok = gen != NULL && read_body(api, ex, gen, &fault) &&
              (whim_gen_prepare(api, gen, &fault) || blame(&fault));
    if (!ok && gen != NULL && gen->stream && fault.kind == WHIM_FAULT_CONTEXT) {
        stream_failure(api, ex, gen, &fault);
        whim_gen_destroy(gen);
        return;
    }
    if (!ok) {
        whim_gen_destroy(gen);
    } else {
        ok = whim_answer_start(api, ex, &whim_responses_form, gen, &fault);
    }
    if (!ok) {
        whim_api_refuse(api, ex, &fault);
    }
}

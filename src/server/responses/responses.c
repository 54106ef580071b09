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

static bool read_body(const whim_api *api, whim_exchange *ex, whim_task *task, whim_fault *fault)
{
    whim_fields f = {.obj = task->body, .prefix = "", .fault = fault};
    whim_str left_out = {0};
    bool ok = whim_responses_read(api, &f, task, &left_out);
    if (ok) {
        whim_offer_log(api, ex, &left_out);
    }
    whim_str_deinit(&left_out);
    return ok;
}

static void stream_failure(const whim_api *api, whim_exchange *ex, const whim_task *task,
                           const whim_fault *fault)
{
    whim_str out = {0};
    whim_responses_put_failure(api, task, fault, &out);
    whim_exchange_stream_begin(ex, "text/event-stream; charset=utf-8");
    whim_exchange_write(ex, whim_str_text(&out), out.len);
    whim_request_log(api->log, ex, 200,
                     (const whim_log_field[]){whim_log_text("reason", "context"), {.key = NULL}});
    whim_exchange_stream_end(ex); /* the exchange may be gone after it */
    whim_str_deinit(&out);
}

void whim_route_responses(const whim_api *api, whim_exchange *ex)
{
    whim_fault fault = {0};
    whim_task *task = whim_task_open(api, ex, &fault);
    bool ok = task != NULL && read_body(api, ex, task, &fault) &&
              (whim_task_prepare(api, task, &fault) || blame(&fault));
    if (!ok && task != NULL && task->stream && fault.kind == WHIM_FAULT_CONTEXT) {
        stream_failure(api, ex, task, &fault);
        whim_task_destroy(task);
        return;
    }
    if (!ok) {
        whim_task_destroy(task);
    } else {
        ok = whim_answer_start(api, ex, &whim_responses_form, task, &fault);
    }
    if (!ok) {
        whim_api_refuse(api, ex, &fault);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The routes /v1/messages and /v1/messages/count_tokens. */
#include "server/anthropic/anthropic.h"

#include "server/offer.h"
#include "server/routes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The turns that the template sees are not those of the body: merged, split, the system's in
 * front. */
static bool blame_messages(whim_fault *fault)
{
    if (fault->kind == WHIM_FAULT_BAD_VALUE && strncmp(fault->param, "messages", 8) == 0) {
        snprintf(fault->param, sizeof fault->param, "messages");
    }
    return false;
}

/* A request of a body that is complete but for max_tokens; NULL with the fault set. */
static whim_task *open_request(const whim_api *api, whim_exchange *ex, whim_fault *fault)
{
    whim_task *task = whim_task_open(api, ex, fault);
    if (task == NULL) {
        return NULL;
    }
    whim_fields f = {.obj = task->body, .prefix = "", .fault = fault};
    whim_str left_out = {0};
    bool ok = whim_anthropic_read(api, &f, task, &left_out);
    if (ok) {
        whim_offer_log(api, ex, &left_out);
    } else {
        whim_task_destroy(task);
    }
    whim_str_deinit(&left_out);
    return ok ? task : NULL;
}

/* Required; 0 fills the cache and generates nothing. */
static bool read_max_tokens(whim_task *task, whim_fault *fault)
{
    whim_fields f = {.obj = task->body, .prefix = "", .fault = fault};
    int64_t n = -1;
    if (!whim_field_int(&f, "max_tokens", 0, INT32_MAX, &n)) {
        return false;
    }
    if (n < 0) {
        return whim_field_refuse(&f, "max_tokens", "is required");
    }
    task->max_tokens = n == 0 ? -1 : n;
    return true;
}

void whim_route_messages(const whim_api *api, whim_exchange *ex)
{
    whim_fault fault = {0};
    whim_task *task = open_request(api, ex, &fault);
    bool ok = task != NULL && read_max_tokens(task, &fault) &&
              (whim_task_prepare(api, task, &fault) || blame_messages(&fault));
    if (!ok) {
        whim_task_destroy(task);
    } else {
        ok = whim_answer_start(api, ex, &whim_anthropic_form, task, &fault);
    }
    if (!ok) {
        whim_api_refuse(api, ex, &fault);
    }
}

void whim_route_count_tokens(const whim_api *api, whim_exchange *ex)
{
    whim_fault fault = {0};
    whim_prompt prompt = {.open_think = false};
    whim_task *task = open_request(api, ex, &fault);
    if (task != NULL && (whim_task_render(api, task, &prompt, &fault) || blame_messages(&fault))) {
        whim_str body = {0};
        whim_str_printf(&body, "{\"input_tokens\":%" PRId64 "}", prompt.ids.n);
        whim_api_reply(api, ex, &body);
        whim_str_deinit(&body);
    } else {
        whim_api_refuse(api, ex, &fault);
    }
    whim_prompt_deinit(&prompt);
    whim_task_destroy(task);
}

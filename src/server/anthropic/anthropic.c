/* SPDX-License-Identifier: Apache-2.0 */
/* The routes /v1/messages and /v1/messages/count_tokens. */
#include "server/anthropic/anthropic.h"

#include "server/routes.h"

void whim_route_messages(const whim_api *api, whim_exchange *ex)
{
    whim_answer_route(api, ex, &whim_anthropic_form);
}

void whim_route_count_tokens(const whim_api *api, whim_exchange *ex)
{
    whim_fault fault = {0};
    whim_prompt prompt = {.open_think = false};
    whim_task *task = whim_task_open(api, ex, whim_anthropic_read, &fault);
    if (task != NULL && whim_task_render(api, task, &prompt, &fault)) {
        whim_str body = {0};
        whim_put_form(&body, "{'input_tokens':%l}", prompt.ids.n);
        whim_api_reply(api, ex, &body);
        whim_str_deinit(&body);
    } else {
        whim_api_refuse(api, ex, &fault);
    }
    whim_prompt_deinit(&prompt);
    whim_task_destroy(task);
}

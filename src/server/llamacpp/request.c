/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of /completion, which /infill shares. */
#include "server/llamacpp/llamacpp.h"

#include "server/openai/openai.h"

#include <inttypes.h>
#include <string.h>

enum { BYTES_OF_ONE = 8 }; /* of a stop text: so many count as an entry of the bias */

/* n_predict is the limit: below 0 none but the context, 0 nothing at all. */
static bool read_limit(const whim_fields *f, whim_task *task)
{
    int64_t n = -1;
    if (!whim_field_int(f, "max_tokens", -2, INT32_MAX, &n) ||
        !whim_field_int(f, "max_completion_tokens", -2, INT32_MAX, &n) ||
        !whim_field_int(f, "n_predict", -2, INT32_MAX, &n)) {
        return false;
    }
    task->ask.max_tokens = n < 0 ? 0 : n == 0 ? -1 : n;
    return true;
}

static bool read_shared(const whim_api *api, const whim_fields *f, whim_task *task)
{
    int64_t n = 1, top = 0, seed = 0;
    bool tokens = false;
    if (!whim_llamacpp_name_bias(api, f, task) || !whim_task_read_common(api, f, task) ||
        !whim_llamacpp_forbid_ends(api, f, task) || !whim_task_read_stops(f, "stop", task) ||
        !whim_openai_read_format(f, task) || !read_limit(f, task) ||
        !whim_field_int(f, "n", 1, WHIM_MAX_CHOICES, &n) ||
        !whim_field_int(f, "n_cmpl", 1, WHIM_MAX_CHOICES, &n) ||
        !whim_field_int(f, "logprobs", 0, WHIM_MAX_TOP, &top) || /* as OpenAI calls it */
        !whim_field_int(f, "n_probs", 0, WHIM_MAX_TOP, &top) ||
        !whim_field_int(f, "seed", INT64_MIN, INT64_MAX, &seed) ||
        !whim_llamacpp_read_chosen(f, task) || !whim_field_bool(f, "return_tokens", &tokens) ||
        !whim_field_bool(f, "return_progress", &task->ask.prompt_progress)) {
        return false;
    }
    if (seed == -1) { /* any */
        task->sampling.seed = whim_library_seed();
    }
    task->ask.n_choice = (int32_t)n;
    task->ask.logprobs = top > 0;
    task->ask.top_logprobs = (int32_t)top;
    task->return_token_ids |= tokens || task->stream;
    return true;
}

/* Each answer repeats the settings, with bias and stops among them. */
static bool check_repeated(const whim_fields *f, whim_task *task)
{
    int64_t n = task->sampling.n_bias;
    for (int32_t i = 0; i < task->ask.n_stop; i++) {
        n += (int64_t)strlen(task->ask.stops[i]) / BYTES_OF_ONE;
    }
    task->n_repeated = n * task->n_prompt * task->ask.n_choice;
    return task->n_repeated <= WHIM_MAX_ECHOED ||
           whim_field_refuse(f, "logit_bias",
                             "would be told %" PRId64 " times (its entries times the answers, each "
                             "of which repeats it); at most %d are allowed",
                             task->n_repeated, WHIM_MAX_ECHOED);
}

bool whim_llamacpp_read_completion(const whim_api *api, const whim_fields *f, whim_task *task)
{
    return read_shared(api, f, task) && whim_llamacpp_read_prompts(api, f, task) &&
           check_repeated(f, task);
}

bool whim_llamacpp_read_infill(const whim_api *api, const whim_fields *f, whim_task *task)
{
    bool ok = read_shared(api, f, task);
    task->keep_last = 0; /* what does not fit is cut around the gap */
    return ok && whim_llamacpp_read_gap(api, f, task) && check_repeated(f, task);
}

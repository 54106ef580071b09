/* SPDX-License-Identifier: Apache-2.0 */
/* The names that we know, and the log line about the others. */
#include "server/body/body.h"

#include "base/str.h"

#include <string.h>

enum { MAX_NAMES = 8, MAX_NAME_BYTES = 64 };

/* What any of the dialects reads or knows to have no effect at the top of a body, each with a blank
 * before and behind it. */
static const char known[] =
    " add_generation_prompt add_special add_special_tokens audio background best_of cache_control "
    "chat_template_kwargs choice content context context_management continue_final_message "
    "conversation echo format frequency_penalty function_call functions ignore_eos images include "
    "input instructions keep_alive "
    "logit_bias logprobs max_completion_tokens max_output_tokens max_tokens max_tool_calls "
    "messages metadata min_p min_tokens modalities model n options output_config output_format "
    "parallel_tool_calls parse_special prediction presence_penalty previous_response_id "
    "priority prompt prompt_cache_key prompt_cache_retention raw reasoning reasoning_effort "
    "regex repeat_penalty repetition_detection repetition_penalty response_format return_timings "
    "return_token_ids return_token_strs safety_identifier seed service_tier "
    "skip_special_tokens stop stop_sequences stop_token_ids store stream stream_options "
    "suffix system temperature template text think thinking tool_choice tools top_k top_logprobs "
    "top_p "
    "truncation user verbosity web_search_options ";

/* Those of other servers that are served, refused, or of no effect. */
static const char *const foreign[] = {
#define FOREIGN_FORM(name, kind) name,
#define FOREIGN_REFUSED(name, lo, hi, why) name,
#define FOREIGN_IDLE(name) name,
#include "server/body/foreign.def"
#undef FOREIGN_FORM
#undef FOREIGN_REFUSED
#undef FOREIGN_IDLE
};

static bool is_known(const char *name)
{
    size_t n = strlen(name);
    bool found = false;
    for (const char *at = known; n > 0 && strchr(name, ' ') == NULL && !found; at++) {
        at = strstr(at, name);
        if (at == NULL) {
            break;
        }
        found = at[-1] == ' ' && at[n] == ' ';
    }
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0] && !found; i++) {
        found = strcmp(name, foreign[i]) == 0;
    }
    return found;
}

/* Names come from outside: only plain characters reach the log. */
static void add_name(whim_str *names, const char *name)
{
    whim_str_append(names, names->len > 0 ? "," : "");
    for (int i = 0; i < MAX_NAME_BYTES && name[i] != '\0'; i++) {
        bool plain = name[i] > ' ' && name[i] < 0x7F && strchr("\"\\=,", name[i]) == NULL;
        whim_str_append_char(names, plain ? name[i] : '?');
    }
}

void whim_unknown_fields_log(whim_log *log, const json_t *body, const char *request_id)
{
    whim_str names = {0};
    const char *key;
    json_t *value;
    int64_t n = 0;
    if (log == NULL || log->level < WHIM_LOG_INFO) {
        return;
    }
    json_object_foreach((json_t *)body, key, value)
    {
        if (!is_known(key) && n++ < MAX_NAMES) {
            add_name(&names, key);
        }
    }
    if (n > 0) {
        whim_log_info(log, "unknown_fields", whim_log_text("id", request_id), whim_log_int("n", n),
                      whim_log_text("names", whim_str_text(&names)));
    }
    whim_str_deinit(&names);
}

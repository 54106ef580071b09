/* SPDX-License-Identifier: Apache-2.0 */
/* The names that we know, and the log line about the others. */
#include "server/body/body.h"

#include "base/str.h"

#include <string.h>

enum { MAX_NAMES = 8, MAX_NAME_BYTES = 64 };

/* What any of the dialects but Ollama's reads or knows to have no effect at the top of a body, each
 * with a blank before and behind it. */
static const char known[] =
    " add_generation_prompt add_special add_special_tokens allowed_token_ids audio background "
    "bad_words "
    "best_of cache_control "
    "chat_template_kwargs choice content context_management continue_final_message conversation "
    "dry_allowed_length dry_base dry_multiplier dry_penalty_last_n dry_sequence_breakers "
    "echo frequency_penalty function_call functions ignore_eos include input input_extra "
    "input_prefix input_suffix "
    "instructions "
    "logit_bias logprobs max_completion_tokens max_output_tokens max_tokens max_tool_calls "
    "messages metadata min_p min_tokens modalities model n n_cmpl n_predict n_probs output_config "
    "output_format "
    "parallel_tool_calls parse_special prediction presence_penalty previous_response_id "
    "priority prompt prompt_cache_key prompt_cache_retention reasoning reasoning_effort regex "
    "repeat_penalty repetition_detection repetition_penalty response_format return_progress "
    "return_timings "
    "return_token_ids return_token_strs return_tokens return_tokens_as_token_ids "
    "safety_identifier seed service_tier "
    "skip_special_tokens stop stop_sequences stop_token_ids store stream stream_options "
    "suffix system temperature text thinking tool_choice tools top_k top_logprobs top_p "
    "truncate_prompt_tokens truncation truncation_side user verbosity web_search_options "
    "with_pieces xtc_probability xtc_threshold ";

/* What Ollama's reads, and in its "options". */
static const char known_of_ollama[] =
    " allowed_token_ids bad_words chat_template_kwargs choice context dry_allowed_length dry_base "
    "dry_multiplier dry_penalty_last_n dry_sequence_breakers format frequency_penalty ignore_eos "
    "images keep_alive "
    "logit_bias logprobs messages min_p min_tokens model options presence_penalty priority prompt "
    "raw regex repeat_penalty repetition_detection repetition_penalty return_timings "
    "return_token_ids seed skip_special_tokens stop_token_ids stream suffix system temperature "
    "template think tools top_k top_logprobs top_p truncate_prompt_tokens truncation_side "
    "xtc_probability xtc_threshold ";
static const char known_options[] =
    " allowed_token_ids bad_words dry_allowed_length dry_base dry_multiplier dry_penalty_last_n "
    "dry_sequence_breakers frequency_penalty logit_bias low_vram main_gpu min_p num_batch num_ctx "
    "num_gpu num_keep num_predict num_thread numa penalize_newline presence_penalty repeat_last_n "
    "repeat_penalty repetition_penalty seed stop stop_token_ids temperature top_k top_p use_mlock "
    "use_mmap vocab_only xtc_probability xtc_threshold ";

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

/* Of the known ones, what /v1/chat/completions does not read. */
static const char not_of_chat[] =
    " best_of conversation echo input input_extra input_prefix input_suffix instructions "
    "max_output_tokens n_cmpl n_predict n_probs previous_response_id prompt return_tokens "
    "stop_sequences suffix ";

static bool is_in(const char *list, const char *name)
{
    size_t n = strlen(name);
    bool found = false;
    for (const char *at = list; n > 0 && strchr(name, ' ') == NULL && !found; at++) {
        at = strstr(at, name);
        if (at == NULL) {
            break;
        }
        found = at[-1] == ' ' && at[n] == ' ';
    }
    return found;
}

static bool is_known(const char *list, const char *name)
{
    bool found = is_in(list, name);
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

/* The names in an object that are not in the list, or in the second one; how many. */
static int64_t add_unknown(const json_t *object, const char *list, const char *but, int64_t n,
                           whim_str *names)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        if ((!is_known(list, key) || is_in(but, key)) && n++ < MAX_NAMES) {
            add_name(names, key);
        }
    }
    return n;
}

void whim_unknown_fields_log(whim_log *log, const json_t *body, const char *path,
                             const char *request_id)
{
    whim_str names = {0};
    if (log == NULL || log->level < WHIM_LOG_INFO) {
        return;
    }
    bool is_ollama = whim_dialect_of(path) == WHIM_DIALECT_OLLAMA;
    const char *but = strstr(path, "/chat/completions") != NULL ? not_of_chat : "";
    int64_t n = add_unknown(body, is_ollama ? known_of_ollama : known, but, 0, &names);
    n = is_ollama ? add_unknown(whim_peek(body, "options"), known_options, "", n, &names) : n;
    if (n > 0) {
        whim_log_info(log, "unknown_fields", whim_log_text("id", request_id), whim_log_int("n", n),
                      whim_log_text("names", whim_str_text(&names)));
    }
    whim_str_deinit(&names);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A request's body, as chat, as raw prompts of two dialects and as a gap: read into a generation request or refused with a
 * message; what was read is within its limits, and what is written from it is JSON again. */
#include "fuzz_tokenizer.h"
#include "library/model_impl.h"
#include "server/llamacpp/llamacpp.h"
#include "server/openai/openai.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const whim_api *open_api(void)
{
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"<s>\":3,"
        "\"<|fim_prefix|>\":4,\"<|fim_suffix|>\":5,\"<|fim_middle|>\":6},\"merges\":[\"a b\"],"
        "\"byte_fallback\":false,\"unk_token\":\"<s>\"},\"added_tokens\":[{\"id\":3,\"content\":"
        "\"<s>\",\"special\":true}]}";
    static whimbrel_model model = {.text = {.stop_ids = {3}, .n_stop_id = 1}};
    static whim_api api = {
        .model = &model,
        .name = "m",
        .n_vocab = 7,
        .ctx = 64,
        .sampling = {.size = sizeof api.sampling,
                     .temperature = 1,
                     .top_p = 1,
                     .repetition_penalty = 1},
    };
    whim_diag diag = {{0}};
    if (api.tok == NULL) {
        api.tok = fuzz_tokenizer(json, sizeof json - 1, "tokenizer.json", &diag);
        if (api.tok == NULL) {
            fprintf(stderr, "%s\n", diag.text);
            abort();
        }
    }
    return &api;
}

static void check(const whim_api *api, const whim_task *task)
{
    whim_diag diag;
    const whimbrel_request_options *ask = &task->ask;
    whim_sample_params params = whim_library_params(&task->sampling);
    FUZZ_CHECK(whim_sample_params_check(&params, api->n_vocab, &diag) == WHIM_ERR_OK);
    FUZZ_CHECK(ask->n_choice >= 1 && ask->n_choice <= WHIM_MAX_CHOICES);
    FUZZ_CHECK(ask->n_stop <= WHIM_MAX_STOPS && ask->max_tokens >= -1 && ask->min_tokens >= 0);
    FUZZ_CHECK((int64_t)ask->n_choice * (task->n_prompt == 0 ? 1 : task->n_prompt) <=
               WHIM_MAX_CHOICES);
    FUZZ_CHECK(task->choice == WHIM_CHOICE_NONE || task->tools != NULL);
    for (int32_t i = 0; i < task->n_prompt; i++) {
        FUZZ_CHECK(task->prompts[i].n >= 1 && task->prompts[i].n < api->ctx);
        for (int64_t k = 0; k < task->prompts[i].n; k++) {
            FUZZ_CHECK(task->prompts[i].ids[k] >= 0 && task->prompts[i].ids[k] < api->n_vocab);
        }
    }
}

static void check_fault(const whim_fault *fault)
{
    whim_str body = {0};
    whim_fault_body(fault, WHIM_DIALECT_OPENAI, "id", &body);
    json_t *json = json_loadb(whim_str_text(&body), (size_t)body.len, 0, NULL);
    FUZZ_CHECK(json != NULL && fault->message[0] != '\0' &&
               whim_fault_status(fault, WHIM_DIALECT_OPENAI) < 500);
    json_decref(json);
    whim_str_deinit(&body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const whim_api *api = open_api();
    whim_task_reader *const readers[] = {whim_openai_read_completion, whim_openai_read_chat,
                                         whim_llamacpp_read_completion, whim_llamacpp_read_infill};
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        whim_fault fault = {0};
        json_t *body = whim_body_parse((const char *)data, (int64_t)n, &fault);
        if (body == NULL) {
            check_fault(&fault);
            return 0;
        }
        whim_str out = {0};
        whim_put_json(&out, body);
        json_t *again = json_loadb(whim_str_text(&out), (size_t)out.len, JSON_ALLOW_NUL, NULL);
        FUZZ_CHECK(json_equal(again, body));
        json_decref(again);
        whim_str_deinit(&out);
        whim_task *task = whim_task_create(api, body);
        FUZZ_CHECK(task != NULL);
        whim_fields f = {.obj = body, .prefix = "", .fault = &fault};
        if (readers[i](api, &f, task)) {
            check(api, task);
        } else {
            check_fault(&fault);
        }
        whim_task_destroy(task);
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* whimbrel run: one prompt, one answer. A text prompt goes through the model's chat template unless
 * --raw; --ids works on token ids alone, without tokenizer. */
#include "base/alloc.h"
#include "base/os/term.h"
#include "ops/trace.h"
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IDS_TOKENS = 128, PROMPT_ROWS = 64 };

/* --- the prompt ------------------------------------------------------------------------------- */

static bool get_ids(run *r)
{
    const whim_options *o = r->options;
    whim_str text = {0};
    r->by_ids = true;
    if (o->prompt != NULL || o->system != NULL || o->raw || o->stop.n > 0 ||
        answer_form_is_for_program(&r->form) || o->think_budget > 0) {
        complain(EXIT_USAGE, "--ids works without a tokenizer: it cannot be joined with --prompt, "
                             "--system, --raw, --stop, --json-schema, --grammar-regex, --tools or "
                             "--think-budget");
        return false;
    }
    if (strcmp(o->ids, "-") != 0) {
        return parse_ids(o->ids, (int64_t)strlen(o->ids), &r->raw_ids, &r->n_raw_id);
    }
    bool ok = read_stdin(&text, "--ids -") &&
              parse_ids(whim_str_text(&text), text.len, &r->raw_ids, &r->n_raw_id);
    whim_str_deinit(&text);
    return ok;
}

static bool get_prompt(run *r)
{
    const whim_options *o = r->options;
    if (o->ids != NULL) {
        return get_ids(r);
    }
    if (o->prompt != NULL && strcmp(o->prompt, "-") != 0) {
        whim_str_append(&r->text, o->prompt);
    } else if (o->prompt == NULL && whim_os_term_is(STDIN_FILENO)) {
        complain(EXIT_USAGE,
                 "a prompt is needed: -p \"TEXT\", or text on standard input, or token ids "
                 "with --ids; \"whimbrel chat\" talks with you");
        return false;
    } else if (!read_stdin(&r->text, "the prompt")) {
        return false;
    }
    if (r->text.len == 0) {
        complain(EXIT_USAGE,
                 "the prompt is empty: give text with -p or on standard input, or ids with --ids");
        return false;
    }
    if (memchr(r->text.text, '\0', (size_t)r->text.len) != NULL) {
        complain(EXIT_USAGE, "the prompt holds a NUL byte: it is no text");
        return false;
    }
    return true;
}

static bool no_memory(void)
{
    complain(EXIT_FAILED, "out of memory");
    return false;
}

static bool take_ids(run *r)
{
    for (int64_t i = 0; i < r->n_raw_id; i++) {
        if (r->raw_ids[i] < 0 || r->raw_ids[i] >= r->config->n_vocab) {
            complain(EXIT_FAILED,
                     "token id %lld (number %lld of the prompt) is not in the model's vocabulary: "
                     "ids go from 0 to %d",
                     (long long)r->raw_ids[i], (long long)i + 1, r->config->n_vocab - 1);
            return false;
        }
        if (whim_ids_append(&r->prompt, (int32_t)r->raw_ids[i]) != WHIM_ERR_OK) {
            return no_memory();
        }
    }
    return true;
}

static json_t *messages_of(const run *r)
{
    json_t *list = json_array();
    if (r->options->system != NULL) {
        json_array_append_new(
            list, json_pack("{s:s, s:s}", "role", "system", "content", r->options->system));
    }
    json_array_append_new(
        list, json_pack("{s:s, s:s}", "role", "user", "content", whim_str_text(&r->text)));
    return list;
}

static bool encode_text(run *r)
{
    whim_diag diag = {""};
    whim_err err;
    r->chat = r->tm.tmpl != NULL && !r->options->raw;
    if (!r->chat && r->options->system != NULL) {
        complain(EXIT_USAGE, r->options->raw ? "--raw has no place for --system"
                                             : "--system: this model has no chat template");
        return false;
    }
    if (!check_utf8(whim_str_text(&r->text), "the prompt") ||
        !check_utf8(r->options->system != NULL ? r->options->system : "", "the system message") ||
        !check_stops(r->options)) {
        return false;
    }
    if (r->chat) {
        json_t *messages = messages_of(r);
        err = text_model_encode_chat(&r->tm, messages, r->form.tools, &r->prompt, &r->open_think,
                                     &diag);
        json_decref(messages);
    } else {
        err =
            text_model_encode_raw(&r->tm, whim_str_text(&r->text), r->text.len, &r->prompt, &diag);
    }
    if (err != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text[0] != '\0' ? diag.text : whim_err_text(err));
    }
    return err == WHIM_ERR_OK;
}

static bool check_length(const run *r)
{
    whim_str hint = {0};
    if (r->prompt.n <= r->ctx) {
        return true;
    }
    append_context_hint(&hint, r->ctx, r->config);
    complain(EXIT_FAILED, "the prompt has %lld tokens, more than the context of %lld; %s",
             (long long)r->prompt.n, (long long)r->ctx, whim_str_text(&hint));
    whim_str_deinit(&hint);
    return false;
}

/* --- the command ------------------------------------------------------------------------------ */

static void say_params(const run *r)
{
    whim_str text = {0};
    append_params(&text, &r->tm.params, true);
    fprintf(stderr, "sampling: %s (defaults from %s); %s\n", whim_str_text(&text),
            r->by_ids ? "--ids" : whim_generation_source_name(r->tm.wishes.source),
            r->by_ids ? "token ids"
            : r->chat ? "with the chat template"
                      : "plain continuation");
    whim_str_deinit(&text);
}

static int generate(run *r, whim_engine *engine)
{
    const whim_options *o = r->options;
    whim_diag diag = {""};
    asked got;
    whim_service *service = ask_open(&r->tm, &r->form, engine);
    if (service == NULL) {
        return EXIT_FAILED;
    }
    whim_job_cfg cfg = ask_cfg(&r->tm, o, &r->prompt, r->open_think);
    cfg.max_repeated = detects_repetition(o, false) ? WHIM_REPETITION_LIMIT : 0;
    cfg.max_tokens = o->max_tokens > 0 ? o->max_tokens : r->by_ids ? IDS_TOKENS : 0;
    if (whim_options_gave(o, &o->prompt_logprobs)) {
        cfg.prompt_logprobs = (int32_t)o->prompt_logprobs;
    }
    whim_err err = answer_form_grammar(&r->form, r->open_think, &cfg.grammar, &diag);
    if (err == WHIM_ERR_OK) {
        err = ask(service, &cfg, run_event, r, &got, &diag);
    }
    int code = EXIT_FAILED;
    if (err != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text[0] != '\0' ? diag.text : whim_err_text(err));
    } else if (run_finish(r, &got)) {
        code = got.end == WHIM_END_INTERRUPT ? EXIT_INTERRUPTED : EXIT_OK;
    }
    whim_service_destroy(service);
    return code;
}

static int run_model(run *r, whim_engine *engine, loader *load)
{
    r->config = whim_engine_config(engine);
    r->ctx = whim_engine_ctx(engine);
    r->tm.path = r->model;
    bool ok = r->by_ids ? take_ids(r)
                        : text_model_open(&r->tm, r->options, engine, r->model) && encode_text(r);
    if (!ok || !text_model_sampling(&r->tm, r->options, engine, r->by_ids) ||
        !answer_form_open(&r->form, &r->tm, r->chat, r->open_think) || !check_length(r)) {
        return EXIT_FAILED;
    }
    if (!load_engine(engine, load)) {
        return EXIT_FAILED;
    }
    if (!r->options->quiet) {
        say_params(r);
    }
    catch_interrupt(true);
    return generate(r, engine);
}

static void print_op(void *ctx, const char *line)
{
    (void)ctx;
    fprintf(stderr, "%s\n", line);
}

/* The answer may be right and its record lost: that is a failure. */
static int end_record(whim_engine *engine, int code)
{
    whim_diag diag = {""};
    if (whim_engine_end_record(engine, &diag) != WHIM_ERR_OK) {
        return complain(EXIT_FAILED, "--record-steps: %s", diag.text);
    }
    return code;
}

int cmd_run(const whim_options *options)
{
    whim_trace trace = {.line = print_op};
    char path[MODEL_PATH_MAX];
    run r = {.options = options, .terminal = whim_os_term_is(STDOUT_FILENO)};
    loader load;
    whim_engine *engine = NULL;
    int code = EXIT_FAILED;
    bool rows = whim_options_gave(options, &options->prompt_logprobs);
    if (!answer_form_read(&r.form, options) || !get_prompt(&r)) {
        code = EXIT_USAGE;
        goto out;
    }
    r.model = choose_model(options, path);
    if (r.model != NULL) {
        whim_engine_cfg cfg = engine_cfg(options, r.model);
        cfg.max_outs = rows ? PROMPT_ROWS : 1;
        cfg.watch = options->trace_ops ? whim_trace_watch(&trace) : NULL;
        cfg.kv_as_used = true; /* most prompts are much shorter than the context */
        cfg.record_steps = options->record_steps;
        engine = open_engine(&cfg, options->quiet, &load);
    }
    if (engine != NULL) {
        code = run_model(&r, engine, &load);
        code = end_record(engine, code);
    }
out:
    answer_form_close(&r.form);
    text_model_close(&r.tm);
    whim_engine_close(engine);
    whim_free(r.raw_ids);
    whim_ids_deinit(&r.prompt);
    whim_str_deinit(&r.text);
    whim_str_deinit(&r.answer);
    whim_str_deinit(&r.ids);
    whim_str_deinit(&r.logprobs);
    whim_str_deinit(&r.prompt_logprobs);
    return code;
}

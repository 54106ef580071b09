/* SPDX-License-Identifier: Apache-2.0 */
/* whimbrel run: one prompt, one answer. A text prompt goes through the model's chat template unless
 * --raw; --ids works on token ids alone, without tokenizer. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/os/facts.h"
#include "local/fetch.h"
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
    if (o->prompt != NULL || o->output != NULL || o->system != NULL || o->raw || o->stop.n > 0 ||
        form_is_given(&r->form) || o->think_budget > 0) {
        complain(EXIT_USAGE,
                 "--ids works without a tokenizer: it cannot be joined with a "
                 "prompt, --system, --raw, --stop, --json-schema, --grammar-regex, --tools or "
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
    const char *prompt = o->prompt != NULL ? o->prompt : o->output;
    if (o->prompt != NULL && o->output != NULL) {
        complain(EXIT_USAGE, "two prompts: \"%.200s\" after the model, and --prompt", o->output);
        return false;
    }
    if (prompt != NULL && strcmp(prompt, "-") != 0) {
        whim_str_append(&r->text, prompt);
    } else if (prompt == NULL && whim_os_term_is(STDIN_FILENO)) {
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
        complain(EXIT_USAGE, "the prompt holds a NUL byte: it is not text");
        return false;
    }
    return true;
}

static bool take_ids(run *r)
{
    r->ids = whim_alloc_array(r->n_raw_id, (int64_t)sizeof *r->ids);
    if (r->ids == NULL) {
        complain(EXIT_FAILED, "out of memory");
        return false;
    }
    for (int64_t i = 0; i < r->n_raw_id; i++) {
        if (r->raw_ids[i] < 0 || r->raw_ids[i] >= r->info->n_vocab) {
            complain(EXIT_FAILED,
                     "token id %lld (number %lld of the prompt) is not in the model's vocabulary: "
                     "ids go from 0 to %d",
                     (long long)r->raw_ids[i], (long long)i + 1, r->info->n_vocab - 1);
            return false;
        }
        r->ids[i] = (int32_t)r->raw_ids[i];
    }
    return true;
}

static bool has_turns(const run *r)
{
    return r->info->has_template && !r->options->raw;
}

static bool check_text(const run *r)
{
    const whim_options *o = r->options;
    if (!has_turns(r) && o->system != NULL) {
        complain(EXIT_USAGE, o->raw ? "--raw has no place for --system"
                                    : "--system: this model has no chat template");
        return false;
    }
    return check_utf8(whim_str_text(&r->text), "the prompt") &&
           check_utf8(o->system != NULL ? o->system : "", "the system message") && check_stops(o);
}

static void say_refused(const run *r, whimbrel_error *error)
{
    whim_str hint = {0};
    append_context_hint(&hint, r->options, r->info);
    if (error->status == WHIMBREL_NO_FIT) {
        complain(EXIT_FAILED, "%s; %s", error->text, whim_str_text(&hint));
    } else {
        complain_of(error);
    }
    whim_str_deinit(&hint);
}

static bool prepare(run *r)
{
    const whim_options *o = r->options;
    whimbrel_error error;
    const whimbrel_message messages[] = {{"system", o->system}, {"user", whim_str_text(&r->text)}};
    whimbrel_request_options ask = ask_options(o, &r->sampling, &r->form);
    ask.may_repeat = !detects_repetition(o, false);
    ask.prompt_logprobs = whim_options_gave(o, &o->prompt_logprobs);
    ask.prompt_top_logprobs = (int32_t)o->prompt_logprobs;
    if (r->by_ids) {
        ask.ids = r->ids;
        ask.n_id = r->n_raw_id;
        ask.max_tokens = o->max_tokens > 0 ? o->max_tokens : IDS_TOKENS;
    } else if (has_turns(r)) {
        ask.messages = o->system != NULL ? messages : messages + 1;
        ask.n_message = o->system != NULL ? 2 : 1;
    } else {
        ask.text = whim_str_text(&r->text);
    }
    if (whimbrel_prepare(r->model, &ask, &r->request, &error) != WHIMBREL_OK) {
        say_refused(r, &error);
        return false;
    }
    r->prompt = whimbrel_prompt_ids(r->request, &r->n_prompt);
    return true;
}

/* --- the command ------------------------------------------------------------------------------ */

static void say_params(const run *r)
{
    whim_str text = {0};
    append_params(&text, &r->sampling.v, true);
    fprintf(stderr, "sampling: %s (defaults from %s); %s\n", whim_str_text(&text),
            r->by_ids ? "--ids" : r->info->sampling,
            r->by_ids      ? "token ids"
            : has_turns(r) ? "with the chat template"
                           : "plain continuation");
    whim_str_deinit(&text);
}

static int generate(run *r)
{
    whimbrel_error error;
    asked got;
    catch_interrupt(true);
    if (ask(r->request, run_event, r, &got, &error) != WHIMBREL_OK) {
        complain_of(&error);
        return EXIT_FAILED;
    }
    return !run_finish(r, &got)                ? EXIT_FAILED
           : got.end == WHIMBREL_END_CANCELLED ? EXIT_INTERRUPTED
                                               : EXIT_OK;
}

static int run_model(run *r, loader *load)
{
    r->info = whimbrel_get_info(r->model);
    if (!(r->by_ids ? take_ids(r) : check_text(r)) ||
        !sampling_choose(&r->sampling, r->options, r->model, r->path, r->by_ids) || !prepare(r) ||
        !load_model(r->model, load)) {
        return EXIT_FAILED;
    }
    if (r->options->verbose) {
        say_params(r);
    }
    return generate(r);
}

static void print_op(void *ctx, const char *line)
{
    (void)ctx;
    fprintf(stderr, "%s\n", line);
}

/* The answer may be right and its record lost: that is a failure. */
static int end_record(run *r, int code)
{
    whim_diag diag = {""};
    whim_library_stop(r->model);
    if (whim_engine_end_record(whim_library_engine(r->model), &diag) != WHIM_ERR_OK) {
        return complain(EXIT_FAILED, "--record-steps: %s", diag.text);
    }
    return code;
}

static whimbrel_model *open_it(run *r, whim_trace *trace, loader *load)
{
    const whim_options *o = r->options;
    whimbrel_model_options options = model_options(o, r->path);
    whim_library_extra extra = model_extra(o);
    options.ids_only = r->by_ids;
    options.wake = ask_wake;
    extra.max_outs = whim_options_gave(o, &o->prompt_logprobs) ? PROMPT_ROWS : 1;
    extra.watch = o->trace_ops ? whim_trace_watch(trace) : NULL;
    extra.record_steps = o->record_steps;
    whimbrel_model *model = open_model(&options, &extra, !o->verbose, load);
    load->quiet = o->quiet;
    load->delay_ns = WHIM_NS_PER_S;
    return model;
}

static void run_free(run *r)
{
    whim_str *const texts[] = {&r->text,     &r->said,  &r->made,
                               &r->logprobs, &r->calls, &r->prompt_logprobs};
    whimbrel_free(r->request);
    whimbrel_close(r->model);
    form_free(&r->form);
    whim_free(r->raw_ids);
    whim_free(r->ids);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        whim_str_deinit(texts[i]);
    }
}

/* A text where MODEL stands alone is the prompt: names of models have no blanks, and who mistypes a
 * path is to hear of it. */
static void take_lone_prompt(whim_options *o)
{
    if (o->model != NULL && o->output == NULL && o->prompt == NULL && o->ids == NULL &&
        strpbrk(o->model, " \t\n") != NULL && strchr(o->model, '/') == NULL &&
        !whim_path_has_suffix(o->model, ".gguf") &&
        whim_path_get_type(o->model) == WHIM_PATH_NONE) {
        o->output = o->model;
        o->model = NULL;
    }
}

int cmd_run(const whim_options *options)
{
    whim_trace trace = {.line = print_op};
    char path[MODEL_PATH_MAX];
    whim_options own = *options;
    run r = {.options = &own, .terminal = whim_os_term_is(STDOUT_FILENO)};
    loader load;
    int code = EXIT_FAILED;
    take_lone_prompt(&own);
    if (!form_read(&r.form, &own) || !get_prompt(&r)) {
        code = EXIT_USAGE;
    } else {
        r.path = fetch_default(&own, (fetch_how){.wait = NULL}) ? choose_model(&own, path) : NULL;
        r.model = r.path != NULL ? open_it(&r, &trace, &load) : NULL;
    }
    if (r.model != NULL) {
        code = end_record(&r, run_model(&r, &load));
    }
    run_free(&r);
    return code;
}

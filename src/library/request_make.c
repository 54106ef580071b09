/* SPDX-License-Identifier: Apache-2.0 */
/* From what a program asks for to a job: prompt, grammar, sampling. All that can be refused is
 * refused here. */
#include "base/alloc.h"
#include "base/json.h"
#include "chat/reasoning.h"
#include "library/request_impl.h"
#include "sample/repetition.h"

#include <stdio.h>
#include <string.h>

enum { MAX_JSON_BYTES = 64 << 20, MAX_CHOICES = 1024 };

/* A request in the making. */
typedef struct making {
    whimbrel_request *r;
    whimbrel_request_options o;
    whim_request_extra x; /* its values are references of our own */
    bool may_reason;      /* the answer may begin with reasoning */
    char *field;          /* [128] what is wrong */
    whim_diag *diag;
} making;

static void name(making *m, const char *field)
{
    snprintf(m->field, 128, "%s", field);
}

static whim_err refuse(making *m, const char *field, const char *text)
{
    name(m, field);
    return whim_fail(m->diag, WHIM_ERR_INVALID, "%s", text);
}

/* Texts that were counted, but are not there. */
static whim_err texts_check(making *m, const char *field, const char *const *texts, int32_t n)
{
    if (n < 0 || (n > 0 && texts == NULL)) {
        return refuse(m, field, n < 0 ? "their number is negative" : "the list of them is NULL");
    }
    for (int32_t i = 0; i < n; i++) {
        if (texts[i] == NULL) {
            snprintf(m->field, 128, "%s[%d]", field, i);
            return whim_fail(m->diag, WHIM_ERR_INVALID, "expected a text, not NULL");
        }
    }
    return WHIM_ERR_OK;
}

static whim_err json_of(making *m, const char *field, const char *text, json_t **out)
{
    static const whim_json_limits limits = {.max_bytes = MAX_JSON_BYTES,
                                            .max_depth = WHIM_JSON_DEPTH};
    if (text == NULL) {
        return WHIM_ERR_OK;
    }
    name(m, field);
    whim_err err = whim_json_read(out, text, (int64_t)strlen(text), limits, m->diag);
    return err == WHIM_ERR_CORRUPT ? WHIM_ERR_INVALID : err;
}

/* --- the prompt ------------------------------------------------------------------------------- */

static whim_err messages_read(making *m)
{
    const whimbrel_request_options *o = &m->o;
    if (o->messages == NULL) {
        return json_of(m, "messages_json", o->messages_json, &m->x.messages);
    }
    m->x.messages = json_array();
    for (int32_t i = 0; i < o->n_message; i++) {
        json_t *message =
            json_pack("{s:s, s:s}", "role", o->messages[i].role, "content", o->messages[i].content);
        if (message == NULL) {
            snprintf(m->field, 128, "messages[%d]", i);
            return whim_fail(m->diag, WHIM_ERR_INVALID,
                             "message %d: role and content must be there, and be UTF-8", i);
        }
        if (json_array_append_new(m->x.messages, message) != 0) {
            return WHIM_ERR_NO_MEMORY;
        }
    }
    return m->x.messages != NULL ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY;
}

whim_err whim_library_check_tools(const json_t *tools, whim_diag *diag)
{
    if (json_array_size(tools) == 0) {
        return whim_fail(diag, WHIM_ERR_INVALID, "expected a list with at least one tool");
    }
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        const json_t *parameters = json_object_get(function, "parameters");
        if (name == NULL || name[0] == '\0' ||
            (parameters != NULL && !json_is_null(parameters) && !json_is_object(parameters))) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "tool %zu is not of the form {\"type\":\"function\",\"function\":"
                             "{\"name\":\"f\",\"parameters\":{..}}}",
                             i + 1);
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_library_check_schema(const json_t *schema, whim_diag *diag)
{
    return json_is_object(schema)
               ? WHIM_ERR_OK
               : whim_fail(diag, WHIM_ERR_INVALID,
                           "expected a JSON Schema, an object such as {\"type\":\"object\"}");
}

whim_err whim_request_render(const whimbrel_model *model, const whimbrel_request_options *o,
                             const whim_request_extra *x, whim_prompt *out, char *field,
                             whim_diag *diag)
{
    whim_chat_model chat = whim_text_side_chat(&model->text);
    const whim_prompt_request request = {
        .messages = x->messages,
        .tools = x->tools,
        .kwargs = x->args,
        .thinking = (int32_t)o->thinking - 1,
        .effort = o->effort,
        .new_turn = x->new_turn,
        .is_closed = x->is_closed,
        .most = x->keep_last == 0 ? model->ctx - 1 : 0,
    };
    return whim_prompt_make(&chat, &request, out, field, diag);
}

static whim_err render(making *m)
{
    whimbrel_request *r = m->r;
    whim_prompt prompt = {0};
    whim_err err = whim_request_render(r->model, &m->o, &m->x, &prompt, m->field, m->diag);
    if (err == WHIM_ERR_OK) {
        r->prompt = prompt.ids;
        r->open_think = prompt.open_think;
        r->open_name = prompt.open_name;
        m->may_reason = prompt.may_reason;
        prompt.ids = (whim_ids){0};
    }
    whim_prompt_deinit(&prompt);
    return err;
}

static whim_err ids_copy(making *m)
{
    for (int64_t i = 0; i < m->o.n_id; i++) {
        WHIM_TRY(whim_ids_append(&m->r->prompt, m->o.ids[i]));
    }
    return WHIM_ERR_OK;
}

static whim_err prompt_make(making *m)
{
    const whimbrel_request_options *o = &m->o;
    whimbrel_request *r = m->r;
    const whimbrel_info *info = &r->model->info;
    const whim_encode_opts whole = {.add_special = true, .most = r->model->ctx - 1};
    bool is_ours = m->x.messages == NULL; /* else they were read already */
    r->has_turns = !is_ours || o->messages != NULL || o->messages_json != NULL;
    if ((unsigned)o->thinking > WHIMBREL_THINKING_ON) {
        return refuse(m, "thinking", "it has a value that this version does not know");
    }
    if (!is_ours + (o->messages != NULL) + (o->messages_json != NULL) + (o->text != NULL) +
            (o->ids != NULL) !=
        1) {
        return refuse(m, "messages",
                      "a prompt is one of messages, messages_json, text and ids, not several");
    }
    if (o->ids != NULL) {
        return ids_copy(m);
    }
    if (!info->has_text) {
        return refuse(m, "text", "the model was opened for ids only, without its tokenizer");
    }
    if (o->text != NULL) {
        name(m, "text");
        return whim_tokenizer_encode(r->model->text.tok, o->text, (int64_t)strlen(o->text), &whole,
                                     &r->prompt, m->diag);
    }
    if (is_ours && !info->has_template) {
        return refuse(m, "messages",
                      "the model has no chat template: it continues text, and takes no messages");
    }
    WHIM_TRY(messages_read(m));
    return render(m);
}

/* --- what the answer is held to --------------------------------------------------------------- */

static whim_err grammar_make(making *m)
{
    const whimbrel_request_options *o = &m->o;
    whimbrel_request *r = m->r;
    whim_answer_rule rule = {
        .format = r->has_turns ? r->model->text.format : whim_chat_format_detect(NULL, NULL, NULL),
        .starts_inside = r->open_think,
        .starts_named = r->open_name,
        .may_reason = m->may_reason,
        .tools = r->tools,
        .choice = r->tools == NULL ? WHIM_CHOICE_NONE
                  : o->must_call   ? WHIM_CHOICE_REQUIRED
                                   : WHIM_CHOICE_AUTO,
        .tool_name = o->tool_name,
        .one_call = o->one_call,
        .tool_at = m->x.tool_at,
        .tool_schema = m->x.tool_schema != NULL ? m->x.tool_schema : "function.parameters",
        .schema = m->x.schema,
        .schema_at = m->x.schema_at != NULL ? m->x.schema_at : "schema",
        .json_object = o->json_object,
        .regex = o->regex,
        .grammar = o->grammar,
        .words = o->words,
        .n_word = o->n_word,
    };
    bool is_schema = rule.schema != NULL || o->json_object;
    WHIM_TRY(texts_check(m, "words", o->words, o->n_word));
    if ((rule.schema != NULL) + o->json_object + (o->regex != NULL) + (o->n_word > 0) +
            (o->grammar != NULL) >
        1) {
        return refuse(m, "regex",
                      "an answer is held to one of schema_json, json_object, regex, words and "
                      "grammar");
    }
    if (!whim_answer_is_held(&rule)) {
        return WHIM_ERR_OK;
    }
    if (r->model->text.tok == NULL) {
        return refuse(m, "regex", "without a tokenizer an answer cannot be held to a form");
    }
    name(m, o->regex != NULL         ? "regex"
            : o->grammar != NULL     ? "grammar"
            : o->n_word > 0          ? "words"
            : is_schema || !r->tools ? "schema_json"
                                     : "tools_json");
    WHIM_TRY(whim_library_vocab(r->model, &r->cfg.vocab));
    if (m->x.like != NULL) {
        r->grammar = whim_grammar_ref(m->x.like->grammar);
        return WHIM_ERR_OK;
    }
    rule.bytes = whim_grammar_vocab_bytes(r->cfg.vocab);
    return whim_grammar_cache_get(r->model->grammars, &rule, !m->x.no_compile, &r->grammar,
                                  m->diag);
}

bool whim_library_has_tool(const json_t *tools, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < json_array_size(tools) && !found; i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        found = strcmp(json_string_value(json_object_get(function, "name")), name) == 0;
    }
    return found;
}

static whim_err form_read(making *m)
{
    const whimbrel_request_options *o = &m->o;
    whimbrel_request *r = m->r;
    WHIM_TRY(json_of(m, "schema_json", o->schema_json, &m->x.schema));
    if (m->x.schema != NULL) {
        WHIM_TRY(whim_library_check_schema(m->x.schema, m->diag));
    }
    WHIM_TRY(json_of(m, "tools_json", o->tools_json, &m->x.tools));
    r->tools = json_incref(m->x.tools);
    if (r->tools != NULL) {
        WHIM_TRY(whim_library_check_tools(r->tools, m->diag));
    }
    if (r->tools != NULL && (o->text != NULL || o->ids != NULL)) {
        return refuse(m, "tools_json", "a prompt without a chat template has no place for them");
    }
    if (o->must_call && r->tools == NULL) {
        return refuse(m, "must_call", "a call is asked for, but there are no tools");
    }
    if (o->tool_name != NULL && !whim_library_has_tool(r->tools, o->tool_name)) {
        return refuse(m, "tool_name", "there is no tool of this name");
    }
    r->only_calls = o->must_call;
    r->one_call = o->one_call;
    if (o->template_args != NULL) {
        name(m, "template_args");
        return whim_template_args_read(&m->x.args, o->template_args, m->diag);
    }
    return WHIM_ERR_OK;
}

/* --- the job ---------------------------------------------------------------------------------- */

static whim_err sampling_read(making *m, whim_sample_params *out)
{
    whimbrel_sampling sampling = {.size = sizeof sampling};
    const whimbrel_request_options *o = &m->o;
    whimbrel_get_sampling(m->r->model, &sampling);
    if (o->sampling != NULL &&
        !whim_options_copy(&sampling, sizeof sampling, o->sampling, o->sampling->size)) {
        return refuse(m, "sampling", "sampling is of a newer version, or has no size");
    }
    *out = whim_library_params(&sampling);
    out->want_logprob = o->logprobs;
    out->n_logprob = o->top_logprobs;
    out->history = m->x.history;
    name(m, "sampling");
    return whim_sample_params_check(out, m->r->model->info.n_vocab, m->diag);
}

static whim_err stops_check(making *m)
{
    if (m->o.n_stop_id > 0 && m->o.stop_ids == NULL) {
        return refuse(m, "stop_ids", "the list of them is NULL");
    }
    WHIM_TRY(texts_check(m, "stops", m->o.stops, m->o.n_stop));
    for (int32_t i = 0; i < m->o.n_stop; i++) {
        if (m->o.stops[i][0] == '\0') {
            return refuse(m, "stops", "an empty text would stop at once");
        }
    }
    return m->o.n_stop > 0 && m->r->model->text.tok == NULL
               ? refuse(m, "stops", "without a tokenizer there is no text to stop at")
               : WHIM_ERR_OK;
}

static whim_err numbers_check(making *m)
{
    const whimbrel_request_options *o = &m->o;
    const whim_number numbers[] = {
        {"n_message", o->n_message, 0},    {"n_id", o->n_id, 0},
        {"n_choice", o->n_choice, 0},      {"think_budget", o->think_budget, 0},
        {"max_tokens", o->max_tokens, -1}, {"min_tokens", o->min_tokens, 0},
        {"n_stop_id", o->n_stop_id, 0},
    };
    const char *field = "";
    whim_err err = whim_numbers_check(numbers, sizeof numbers / sizeof numbers[0], &field, m->diag);
    name(m, field);
    return err;
}

static whim_err job_make(making *m)
{
    const whimbrel_request_options *o = &m->o;
    whimbrel_request *r = m->r;
    if (o->n_choice > MAX_CHOICES) {
        return refuse(m, "n_choice", "expected 0 to 1024 answers");
    }
    if (o->prompt_logprobs &&
        (o->prompt_top_logprobs < 0 || o->prompt_top_logprobs > WHIM_MAX_LOGPROBS)) {
        return refuse(m, "prompt_top_logprobs", "expected 0 to 100 alternatives");
    }
    if (o->think_budget > 0 && r->model->text.tok == NULL) {
        return refuse(m, "think_budget", "without a tokenizer the end of reasoning is not known");
    }
    WHIM_TRY(stops_check(m));
    r->cfg.n_choice = o->n_choice > 0 ? o->n_choice : 1;
    r->cfg.stops = o->stops;
    r->cfg.n_stop = o->n_stop;
    r->cfg.stop_ids = o->stop_ids;
    r->cfg.n_stop_id = o->n_stop_id;
    r->cfg.allowed = m->x.allowed;
    r->cfg.n_allowed = m->x.n_allowed;
    r->cfg.show_special = o->show_special;
    r->cfg.shown = r->model->text.word_ids; /* the parser looks for them */
    const whim_chat_format *format = &r->model->text.format;
    const bool has_headers = r->has_turns && whim_chat_format_has_channels(format);
    r->cfg.n_shown = r->tools != NULL || has_headers ? r->model->text.n_word_id
                     : r->has_turns                  ? r->model->text.n_think_id
                                                     : 0;
    r->cfg.client = o->client;
    r->cfg.priority = o->priority;
    r->cfg.max_tokens = o->max_tokens;
    r->cfg.min_tokens = o->min_tokens;
    r->cfg.max_repeated = o->may_repeat ? 0 : WHIM_REPETITION_LIMIT;
    r->cfg.ignore_eos = o->ignore_end;
    r->cfg.prompt_logprobs = o->prompt_logprobs ? o->prompt_top_logprobs : -1;
    r->cfg.tell_progress = o->prompt_progress;
    r->cfg.think_open = r->open_think;
    r->cfg.think_budget = o->think_budget;
    r->cfg.think_words = whim_chat_format_think(format);
    r->cfg.think_end = r->cfg.think_words->close;
    r->cfg.grammar = r->grammar;
    r->cfg.prompt = r->prompt.ids;
    r->cfg.n_prompt = r->prompt.n;
    r->cfg.wake = whim_library_wake;
    r->cfg.wake_ctx = r->model;
    return sampling_read(m, &r->cfg.params);
}

/* An answer is never longer than the context, so no more of it can be of use. */
static whim_err prediction_make(making *m)
{
    const char *text = m->o.prediction;
    whimbrel_request *r = m->r;
    const whim_encode_opts plain = {.most = r->model->ctx};
    if (text == NULL) {
        return WHIM_ERR_OK;
    }
    if (r->model->text.tok == NULL) {
        return refuse(m, "prediction", "without a tokenizer it cannot be taken apart");
    }
    name(m, "prediction");
    whim_err err = whim_tokenizer_encode(r->model->text.tok, text, (int64_t)strlen(text), &plain,
                                         &r->prediction, m->diag);
    if (err == WHIM_ERR_NO_FIT) { /* no answer is like it: none is taken for it */
        return WHIM_ERR_OK;
    }
    WHIM_TRY(err);
    r->cfg.prediction = r->prediction.ids;
    r->cfg.n_prediction = r->prediction.n < r->model->ctx ? r->prediction.n : r->model->ctx;
    return WHIM_ERR_OK;
}

/* Where as many are kept as fit, the answer has room for its tokens, or half of the context. */
static void prompt_cut(making *m)
{
    whim_ids *prompt = &m->r->prompt;
    int64_t keep = m->x.keep_last, ctx = m->r->model->ctx, max = m->o.max_tokens;
    if (keep == -1) {
        keep = ctx - (max > ctx / 2 ? ctx / 2 : max > 1 ? max : 1);
    }
    if (keep > 0 && prompt->n > keep) {
        int64_t from = m->x.from_front ? 0 : prompt->n - keep;
        memmove(prompt->ids, prompt->ids + from, (size_t)keep * sizeof *prompt->ids);
        prompt->n = keep;
    }
}

/* What the service would refuse, but only after the weights are read. */
static whim_err prompt_check(making *m)
{
    const whim_ids *prompt = &m->r->prompt;
    int32_t n_vocab = m->r->model->info.n_vocab;
    int64_t ctx = m->r->model->ctx;
    name(m, m->o.ids != NULL             ? "ids"
            : m->o.text != NULL          ? "text"
            : m->o.messages_json != NULL ? "messages_json"
                                         : "messages");
    if (prompt->n < 1) {
        return whim_fail(m->diag, WHIM_ERR_INVALID, "the prompt is empty");
    }
    if (prompt->n >= ctx) {
        return whim_fail(m->diag, WHIM_ERR_NO_FIT,
                         "the prompt has %lld tokens, more than the context of %lld",
                         (long long)prompt->n, (long long)ctx - 1);
    }
    for (int64_t i = 0; i < prompt->n; i++) {
        if (prompt->ids[i] < 0 || prompt->ids[i] >= n_vocab) {
            return whim_fail(m->diag, WHIM_ERR_INVALID,
                             "token id %d (number %lld of the prompt) is not in the model's "
                             "vocabulary: ids go from 0 to %d",
                             prompt->ids[i], (long long)i + 1, n_vocab - 1);
        }
    }
    return WHIM_ERR_OK;
}

static whim_err request_make(making *m)
{
    WHIM_TRY(numbers_check(m));
    WHIM_TRY(form_read(m));
    WHIM_TRY(prompt_make(m));
    prompt_cut(m);
    WHIM_TRY(prompt_check(m));
    WHIM_TRY(grammar_make(m));
    WHIM_TRY(job_make(m));
    WHIM_TRY(prediction_make(m));
    m->field[0] = '\0';
    return whim_replies_open(m->r);
}

whim_err whim_request_make(whimbrel_model *model, const whimbrel_request_options *options,
                           const whim_request_extra *extra, whimbrel_request **out, char *field,
                           whim_diag *diag)
{
    making m = {.r = whim_alloc(sizeof *m.r), .x = *extra, .field = field, .diag = diag};
    *out = m.r;
    field[0] = '\0';
    if (m.r == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    json_incref(m.x.messages);
    json_incref(m.x.tools);
    json_incref(m.x.args);
    json_incref(m.x.schema);
    m.r->model = model;
    whim_err err = whim_options_copy(&m.o, sizeof m.o, options, options != NULL ? options->size : 0)
                       ? request_make(&m)
                       : whim_fail(diag, WHIM_ERR_INVALID,
                                   "the options of the request are NULL, newer, or have no size");
    json_decref(m.x.messages);
    json_decref(m.x.tools);
    json_decref(m.x.args);
    json_decref(m.x.schema);
    return err;
}

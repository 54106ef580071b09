/* SPDX-License-Identifier: Apache-2.0 */
/* A model's text side. */
#include "text_model.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "chat/reasoning.h"
#include "engine/memory_fit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { MAX_TEMPLATE_BYTES = 4 << 20 };

static whim_err template_read(text_model *tm, const whim_options *options, whim_diag *diag)
{
    whim_diag why = {""};
    const char *source = whim_tokenizer_template(tm->tok, NULL);
    char name[MODEL_PATH_MAX + 32];
    char *text = NULL;
    int64_t n = 0;
    if (options->chat_template != NULL) {
        whim_err err =
            whim_file_read_all(options->chat_template, MAX_TEMPLATE_BYTES, &text, &n, &why);
        if (err != WHIM_ERR_OK) {
            return whim_fail(diag, err, "--chat-template: %s", why.text);
        }
        snprintf(name, sizeof name, "%s", options->chat_template);
        source = text;
    } else if (source != NULL) {
        n = (int64_t)strlen(source);
        snprintf(name, sizeof name, "%s: chat template", tm->path);
    } else {
        return WHIM_ERR_OK;
    }
    whim_err err = whim_template_compile(source, n, name, &tm->tmpl, &why);
    tm->format = whim_chat_format_detect(source);
    whim_free(text);
    return err == WHIM_ERR_OK ? err
                              : whim_fail(diag, err, "%s%s", why.text,
                                          options->chat_template != NULL
                                              ? ""
                                              : "; --chat-template FILE uses another one");
}

whim_err text_model_read(text_model *tm, const whim_options *options, const whim_ckpt *ckpt,
                         const char *path, whim_diag *diag)
{
    tm->path = path;
    tm->format = whim_chat_format_detect(NULL);
    WHIM_TRY(whim_tokenizer_open(path, ckpt, &tm->tok, diag));
    return template_read(tm, options, diag);
}

static bool kwargs_parse(text_model *tm, const whim_options *options)
{
    const char *text = options->template_kwargs;
    bool is_changed = false;
    const whim_json_limits limits = {
        .max_bytes = 1 << 20, .max_depth = WHIM_JSON_DEPTH, .is_changed = &is_changed};
    whim_diag why = {""};
    if (text == NULL) {
        return true;
    }
    whim_err err = whim_json_read(&tm->kwargs, text, (int64_t)strlen(text), limits, &why);
    if (!json_is_object(tm->kwargs)) {
        complain(EXIT_USAGE,
                 "--template-kwargs: expected is a JSON object such as {\"name\":true}%s%s",
                 err != WHIM_ERR_OK ? "; " : "", why.text);
        return false;
    }
    if (is_changed) {
        complain(EXIT_USAGE,
                 "--template-kwargs: an integer is beyond 64 bits, or a number is not finite");
        return false;
    }
    return true;
}

bool text_model_open(text_model *tm, const whim_options *options, const whim_engine *engine,
                     const char *path)
{
    whim_diag diag = {""};
    if (text_model_read(tm, options, whim_engine_ckpt(engine), path, &diag) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
        return false;
    }
    return kwargs_parse(tm, options);
}

void text_model_close(text_model *tm)
{
    whim_template_destroy(tm->tmpl);
    whim_tokenizer_close(tm->tok);
    json_decref(tm->kwargs);
    *tm = (text_model){0};
}

/* --- sampling --------------------------------------------------------------------------------- */

static uint64_t fresh_seed(void)
{
    uint32_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) {
        seed = (uint32_t)whim_clock_ns();
    }
    return seed; /* 32 bits: short enough to be typed again */
}

/* "ID=X" */
static bool bias_parse(const char *text, whim_logit_bias *out)
{
    char *end;
    errno = 0;
    long id = strtol(text, &end, 10);
    if (end == text || *end != '=' || errno != 0 || id < 0 || id > INT32_MAX) {
        return false;
    }
    const char *value = end + 1;
    float bias = strtof(value, &end);
    *out = (whim_logit_bias){(int32_t)id, bias};
    return end != value && *end == '\0';
}

/* The default model's file says nothing, and without a penalty it repeats itself in many answers:
 * docs/models.md has the table by which this was chosen. Greedy stays greedy: nobody asked for a
 * penalty there. */
#define DEFAULT_MODEL_PENALTY 1.1

static bool is_default_model(const char *path)
{
    char own[MODEL_PATH_MAX];
    return cache_find(default_model_name(), own, sizeof own) && strcmp(own, path) == 0;
}

static void params_from_wishes(whim_sample_params *p, const whim_generation *w)
{
    whim_sample_params_init(p);
    p->temperature = (float)w->temperature;
    p->top_k = (int32_t)w->top_k;
    p->top_p = (float)w->top_p;
    p->min_p = (float)w->min_p;
    p->repetition_penalty = (float)w->repetition_penalty;
}

static void params_from_options(whim_sample_params *p, const whim_options *o)
{
    p->temperature = whim_options_gave(o, &o->temp) ? (float)o->temp : p->temperature;
    p->top_k = whim_options_gave(o, &o->top_k) ? (int32_t)o->top_k : p->top_k;
    p->top_p = whim_options_gave(o, &o->top_p) ? (float)o->top_p : p->top_p;
    p->min_p = whim_options_gave(o, &o->min_p) ? (float)o->min_p : p->min_p;
    if (whim_options_gave(o, &o->repeat_penalty)) {
        p->repetition_penalty = (float)o->repeat_penalty;
    }
    p->presence_penalty = (float)o->presence_penalty;
    p->frequency_penalty = (float)o->frequency_penalty;
    p->seed = whim_options_gave(o, &o->seed) ? (uint64_t)o->seed : fresh_seed();
    p->n_logprob = (int32_t)o->logprobs;
    p->want_logprob = o->logprobs > 0;
}

bool text_model_sampling(text_model *tm, const whim_options *options, const whim_engine *engine,
                         bool greedy)
{
    whim_diag diag = {""};
    const whim_config *config = whim_engine_config(engine);
    if (!options->ignore_eos) {
        tm->n_stop_id = whim_stop_ids(config, tm->tok, tm->stop_ids, MAX_STOP_IDS);
    }
    if (whim_generation_open(&tm->wishes, tm->path, whim_engine_ckpt(engine), &diag) !=
        WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
        return false;
    }
    tm->is_penalty_ours = tm->wishes.source == WHIM_GENERATION_OURS && is_default_model(tm->path) &&
                          !whim_options_gave(options, &options->repeat_penalty);
    if (tm->is_penalty_ours) {
        tm->wishes.repetition_penalty = DEFAULT_MODEL_PENALTY;
    }
    params_from_wishes(&tm->params, &tm->wishes);
    if (greedy) {
        whim_sample_params_init(&tm->params);
        tm->params.temperature = 0;
    }
    params_from_options(&tm->params, options);
    if (tm->is_penalty_ours && tm->params.temperature == 0) {
        tm->params.repetition_penalty = 1;
    }
    for (int32_t i = 0; i < options->logit_bias.n; i++) {
        if (!bias_parse(options->logit_bias.v[i], &tm->bias[i])) {
            complain(EXIT_USAGE, "--logit-bias: \"%.64s\" is not of the form ID=X, such as 42=-100",
                     options->logit_bias.v[i]);
            return false;
        }
    }
    tm->params.bias = tm->bias;
    tm->params.n_bias = options->logit_bias.n;
    if (whim_sample_params_check(&tm->params, config->n_vocab, &diag) != WHIM_ERR_OK) {
        complain(EXIT_USAGE, "%s", diag.text);
        return false;
    }
    return true;
}

bool detects_repetition(const whim_options *options, bool otherwise)
{
    bool gave = whim_options_gave(options, &options->repetition_detection);
    return gave ? options->repetition_detection : otherwise;
}

/* The parameters that are numbers: one line for each, for showing and for setting. `off` is not
 * shown. */
typedef struct param_spec {
    const char *name;
    size_t offset;
    float off;
    bool always;
} param_spec;

static const param_spec param_table[] = {
    {"temperature", offsetof(whim_sample_params, temperature), 0, true},
    {"top_p", offsetof(whim_sample_params, top_p), 1, false},
    {"min_p", offsetof(whim_sample_params, min_p), 0, false},
    {"repetition_penalty", offsetof(whim_sample_params, repetition_penalty), 1, false},
    {"presence_penalty", offsetof(whim_sample_params, presence_penalty), 0, false},
    {"frequency_penalty", offsetof(whim_sample_params, frequency_penalty), 0, false},
};
enum { N_PARAM = sizeof param_table / sizeof param_table[0] };

void append_params(whim_str *out, const whim_sample_params *p, bool seed)
{
    if (p->temperature == 0) {
        whim_str_append(out, "temperature 0 (always the likeliest)");
    }
    for (int32_t i = 0; i < N_PARAM; i++) {
        const param_spec *spec = &param_table[i];
        float value = *(const float *)((const char *)p + spec->offset);
        bool filter = i < 3; /* has no effect on a greedy choice */
        if ((value != spec->off || spec->always) && !(p->temperature == 0 && filter)) {
            whim_str_printf(out, "%s%s %g", i == 0 ? "" : ", ", spec->name, (double)value);
        }
        if (i == 0 && p->top_k > 0 && p->temperature != 0) {
            whim_str_printf(out, ", top_k %d", p->top_k);
        }
    }
    if (p->n_bias > 0) {
        whim_str_printf(out, ", logit_bias for %d token%s", p->n_bias, p->n_bias == 1 ? "" : "s");
    }
    if (p->temperature != 0 && seed) {
        whim_str_printf(out, ", seed %llu", (unsigned long long)p->seed);
    }
}

/* A number and nothing after it. */
static bool number_parse(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == '\0';
}

bool set_param(whim_sample_params *params, int32_t n_vocab, const char *name, const char *value,
               whim_diag *diag)
{
    whim_sample_params changed = *params;
    double number;
    bool known = false;
    if (!number_parse(value, &number)) {
        whim_fail(diag, WHIM_ERR_INVALID, "\"%.64s\" is not a number", value);
        return false;
    }
    for (int32_t i = 0; i < N_PARAM; i++) {
        if (strcmp(name, param_table[i].name) == 0) {
            *(float *)((char *)&changed + param_table[i].offset) = (float)number;
            known = true;
        }
    }
    bool whole = number >= 0 && number <= 9e15 && number == (double)(int64_t)number;
    if (strcmp(name, "top_k") == 0 || strcmp(name, "seed") == 0) {
        if (!whole || (name[0] == 't' && number > INT32_MAX)) {
            whim_fail(diag, WHIM_ERR_INVALID, "%s is a whole number, not %.64s", name, value);
            return false;
        }
        changed.top_k = name[0] == 't' ? (int32_t)number : changed.top_k;
        changed.seed = name[0] == 's' ? (uint64_t)number : changed.seed;
        known = true;
    }
    if (!known) {
        whim_fail(diag, WHIM_ERR_INVALID,
                  "there is no parameter \"%.64s\"; there are temperature, top_k, top_p, min_p, "
                  "repetition_penalty, presence_penalty, frequency_penalty and seed",
                  name);
        return false;
    }
    if (whim_sample_params_check(&changed, n_vocab, diag) != WHIM_ERR_OK) {
        return false;
    }
    *params = changed;
    return true;
}

/* --- prompts ---------------------------------------------------------------------------------- */

whim_err text_model_encode_chat(const text_model *tm, const json_t *messages, const json_t *tools,
                                whim_ids *ids, bool *open_think, whim_diag *diag)
{
    char param[128]; /* the field that is wrong; here there are none */
    whim_prompt prompt = {0};
    whim_chat_model model = {
        .tok = tm->tok, .tmpl = tm->tmpl, .format = tm->format, .kwargs = tm->kwargs};
    whim_prompt_request request = {
        .messages = messages, .tools = tools, .thinking = -1, .new_turn = true};
    whim_err err = whim_prompt_make(&model, &request, &prompt, param, diag);
    if (err == WHIM_ERR_OK) {
        *ids = prompt.ids;
        *open_think = prompt.open_think;
        prompt.ids = (whim_ids){0};
    }
    whim_prompt_deinit(&prompt);
    return err;
}

whim_err text_model_encode_raw(const text_model *tm, const char *text, int64_t n, whim_ids *ids,
                               whim_diag *diag)
{
    whim_encode_opts opts = {.add_special = true};
    return whim_tokenizer_encode(tm->tok, text, n, &opts, ids, diag);
}

bool check_utf8(const char *text, const char *what)
{
    int64_t n = (int64_t)strlen(text), good = whim_utf8_valid_prefix(text, n);
    if (good < n) {
        complain(EXIT_FAILED, "%s is not UTF-8: byte %lld (0x%02x) belongs to no character", what,
                 (long long)good + 1, (unsigned char)text[good]);
    }
    return good == n;
}

bool check_stops(const whim_options *options)
{
    for (int32_t i = 0; i < options->stop.n; i++) {
        if (options->stop.v[i][0] == '\0') {
            complain(EXIT_FAILED, "--stop: an empty text would stop at once");
            return false;
        }
        if (!check_utf8(options->stop.v[i], "the text of --stop")) {
            return false;
        }
    }
    return true;
}

bool read_stdin(whim_str *text, const char *what)
{
    char buf[65536];
    size_t n;
    while ((n = fread(buf, 1, sizeof buf, stdin)) > 0) {
        whim_str_append_n(text, buf, (int64_t)n);
        if (text->len > MAX_PROMPT_BYTES) {
            complain(EXIT_USAGE, "%s: more than %d MiB on standard input", what,
                     MAX_PROMPT_BYTES >> 20);
            return false;
        }
    }
    if (ferror(stdin) || text->failed) {
        complain(EXIT_USAGE, "%s: cannot read standard input: %s", what,
                 text->failed ? "out of memory" : strerror(errno));
        return false;
    }
    return true;
}

bool parse_ids(const char *text, int64_t n, int64_t **ids, int64_t *n_id)
{
    static const char between[] = ", \t\r\n";
    int64_t cap = n / 2 + 1;
    if ((int64_t)strlen(text) != n) {
        complain(EXIT_USAGE, "--ids: the input has a NUL byte; expected are numbers as text");
        return false;
    }
    *ids = whim_alloc_array(cap, (int64_t)sizeof **ids);
    if (*ids == NULL) {
        complain(EXIT_USAGE, "--ids: out of memory");
        return false;
    }
    for (const char *at = text + strspn(text, between); *at != '\0'; at += strspn(at, between)) {
        char *end = NULL;
        errno = 0;
        long long id = strtoll(at, &end, 10);
        if (end == at || errno != 0 || strcspn(end, between) != 0) {
            complain(EXIT_USAGE,
                     "--ids: \"%.*s\" is not a token id; expected are whole numbers with commas or "
                     "blanks between them",
                     (int)(strcspn(at, between) < 32 ? strcspn(at, between) : 32), at);
            return false;
        }
        (*ids)[(*n_id)++] = id;
        at = end;
    }
    if (*n_id == 0) {
        complain(EXIT_USAGE, "--ids: the prompt needs at least one token id");
        return false;
    }
    return true;
}

const char *context_reason(const whim_options *options, const whim_engine *engine, int64_t ctx)
{
    if (ctx >= whim_engine_config(engine)->max_ctx) {
        return NULL;
    }
    return ctx == options->ctx         ? "--ctx says so"
           : options->kv_mem > 0       ? "--kv-mem holds no more"
           : ctx < WHIM_FIT_USUAL_CTX  ? "memory gives no more"
           : ctx == WHIM_FIT_USUAL_CTX ? "the usual in little memory; --ctx N asks for more"
           : whim_engine_ctx_share(engine) < 0.5
               ? "a quarter of the memory that the weights leave; --ctx N asks for more"
               : "half of the memory that the weights leave; --ctx N asks for more";
}

void append_context(whim_str *out, const whim_options *options, const whim_engine *engine,
                    int64_t ctx)
{
    const char *reason = context_reason(options, engine, ctx);
    whim_str_printf(out, "context %lld tokens", (long long)ctx);
    if (reason != NULL) {
        whim_str_printf(out, " of the model's %lld (%s)",
                        (long long)whim_engine_config(engine)->max_ctx, reason);
    }
}

void append_context_hint(whim_str *out, int64_t ctx, const whim_config *config)
{
    if (ctx < config->max_ctx) {
        whim_str_printf(out, "--ctx makes it longer, up to %lld", (long long)config->max_ctx);
    } else {
        whim_str_append(out, "it is as long as the model was made for");
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* From recommendations and options to parameters, and to words. */
#include "sampling.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* "ID=X" */
static bool bias_parse(const char *text, whimbrel_logit_bias *out)
{
    char *end;
    errno = 0;
    long id = strtol(text, &end, 10);
    if (end == text || *end != '=' || errno != 0 || id < 0 || id > INT32_MAX) {
        return false;
    }
    const char *value = end + 1;
    float bias = strtof(value, &end);
    *out = (whimbrel_logit_bias){(int32_t)id, bias};
    return end != value && *end == '\0';
}

/* The default model's file says nothing, and without a penalty it repeats itself in many answers:
 * docs/models.md has the table by which this was chosen. Greedy stays greedy: nobody asked for a
 * penalty there. */
#define DEFAULT_MODEL_PENALTY 1.1

static void params_from_options(whimbrel_sampling *p, const whim_options *o)
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
    p->seed = whim_options_gave(o, &o->seed) ? (uint64_t)o->seed : p->seed;
}

bool sampling_read_bias(sampling *s, const whim_options *options)
{
    for (int32_t i = 0; i < options->logit_bias.n; i++) {
        if (!bias_parse(options->logit_bias.v[i], &s->bias[i])) {
            complain(EXIT_USAGE, "--logit-bias: \"%.64s\" is not of the form ID=X, such as 42=-100",
                     options->logit_bias.v[i]);
            return false;
        }
    }
    s->v.bias = s->bias;
    s->v.n_bias = options->logit_bias.n;
    return true;
}

static bool is_sound(const whimbrel_sampling *v, int32_t n_vocab, whim_diag *diag)
{
    whim_sample_params params = whim_library_params(v);
    return whim_sample_params_check(&params, n_vocab, diag) == WHIM_ERR_OK;
}

bool sampling_choose(sampling *s, const whim_options *options, const whimbrel_model *model,
                     const char *path, bool greedy)
{
    whim_diag diag = {""};
    s->v.size = sizeof s->v;
    whimbrel_get_sampling(model, &s->v);
    s->is_penalty_ours = whim_library_text(model)->wishes.source == WHIM_GENERATION_OURS &&
                         default_model_is(path) &&
                         !whim_options_gave(options, &options->repeat_penalty);
    if (s->is_penalty_ours) {
        s->v.repetition_penalty = DEFAULT_MODEL_PENALTY;
    }
    if (greedy) {
        s->v = (whimbrel_sampling){
            .size = sizeof s->v, .top_p = 1, .repetition_penalty = 1, .seed = s->v.seed};
    }
    params_from_options(&s->v, options);
    if (s->is_penalty_ours && s->v.temperature == 0) {
        s->v.repetition_penalty = 1;
    }
    if (!sampling_read_bias(s, options)) {
        return false;
    }
    if (!is_sound(&s->v, whimbrel_get_info(model)->n_vocab, &diag)) {
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
    {"temperature", offsetof(whimbrel_sampling, temperature), 0, true},
    {"top_p", offsetof(whimbrel_sampling, top_p), 1, false},
    {"min_p", offsetof(whimbrel_sampling, min_p), 0, false},
    {"repetition_penalty", offsetof(whimbrel_sampling, repetition_penalty), 1, false},
    {"presence_penalty", offsetof(whimbrel_sampling, presence_penalty), 0, false},
    {"frequency_penalty", offsetof(whimbrel_sampling, frequency_penalty), 0, false},
};
enum { N_PARAM = sizeof param_table / sizeof param_table[0] };

void append_params(whim_str *out, const whimbrel_sampling *p, bool seed)
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

bool set_param(whimbrel_sampling *params, int32_t n_vocab, const char *name, const char *value,
               whim_diag *diag)
{
    whimbrel_sampling changed = *params;
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
            whim_fail(diag, WHIM_ERR_INVALID, "%s must be a whole number, not %.64s", name, value);
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
    if (!is_sound(&changed, n_vocab, diag)) {
        return false;
    }
    *params = changed;
    return true;
}

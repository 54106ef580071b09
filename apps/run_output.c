/* SPDX-License-Identifier: Apache-2.0 */
/* What `whimbrel run` prints: text as it comes, lines with log-probabilities, ids, or one JSON
 * object. */
#include "run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void out(run *r, const char *text, int64_t n)
{
    if (fwrite(text, 1, (size_t)n, stdout) != (size_t)n || fflush(stdout) != 0) {
        r->write_failed = true;
        interrupted = 1; /* nobody reads: end early */
    }
}

/* A token's own text, quoted as JSON does it; what is no whole character shows as U+FFFD. */
static void append_token_text(const run *r, whim_str *to, int32_t id)
{
    int64_t n = 0;
    const char *bytes = whimbrel_token_text(r->model, id, &n);
    whim_str text = {0};
    whim_str_append_n(&text, bytes != NULL ? bytes : "", bytes != NULL ? n : 0);
    json_text_n(to, whim_str_text(&text), text.len);
    whim_str_deinit(&text);
}

/* {"id":1,"text":"a","logprob":-1.5,"top":[[1,-1.5],...]} */
static void append_logprob_json(const run *r, whim_str *to, const whimbrel_event *t)
{
    whim_str_printf(to, "{\"id\":%d", t->id);
    if (!r->by_ids) {
        whim_str_append(to, ",\"text\":");
        append_token_text(r, to, t->id);
    }
    whim_str_append(to, ",\"logprob\":");
    json_number(to, (double)t->logprob);
    whim_str_append(to, ",\"top\":[");
    for (int32_t i = 0; i < t->n_top; i++) {
        whim_str_printf(to, "%s[%d,", i == 0 ? "" : ",", t->top[i].id);
        json_number(to, (double)t->top[i].logprob);
        whim_str_append_char(to, ']');
    }
    whim_str_append(to, "]}");
}

/* "7042  7042:-0.306687 260:-2.511695", or with texts in place of ids. */
static void append_logprob_line(const run *r, whim_str *to, const whimbrel_event *t)
{
    if (r->by_ids) {
        whim_str_printf(to, "%d ", t->id);
        for (int32_t i = 0; i < t->n_top; i++) {
            whim_str_printf(to, " %d:%.6f", t->top[i].id, (double)t->top[i].logprob);
        }
        whim_str_append_char(to, '\n');
        return;
    }
    append_token_text(r, to, t->id);
    whim_str_printf(to, " %.6f ", (double)t->logprob);
    for (int32_t i = 0; i < t->n_top; i++) {
        whim_str_append_char(to, ' ');
        append_token_text(r, to, t->top[i].id);
        whim_str_printf(to, ":%.6f", (double)t->top[i].logprob);
    }
    whim_str_append_char(to, '\n');
}

static bool has_lines(const run *r)
{
    return r->options->logprobs > 0;
}

static void show_token(run *r, const whimbrel_event *t)
{
    whim_str line = {0};
    r->n_made++;
    if (r->options->json) {
        whim_str_printf(&r->made, "%s%d", r->n_made == 1 ? "" : ",", t->id);
        if (has_lines(r)) {
            whim_str_append(&r->logprobs, r->n_made == 1 ? "" : ",");
            append_logprob_json(r, &r->logprobs, t);
        }
        return;
    }
    if (has_lines(r)) {
        append_logprob_line(r, &line, t);
    } else if (r->by_ids) {
        whim_str_printf(&line, r->n_made == 1 ? "%d" : " %d", t->id);
    }
    out(r, whim_str_text(&line), line.len);
    whim_str_deinit(&line);
}

static void show_text(run *r, const char *text, int64_t n)
{
    whim_str_append_n(&r->said, text, n);
    if (r->options->json || has_lines(r)) {
        return;
    }
    int64_t from = 0;
    for (int64_t i = 0; r->terminal && i < n;) {
        int64_t skip = terminal_control_length(text + i, n - i);
        if (skip > 0) {
            out(r, text + from, i - from);
            from = i + skip;
        }
        i += skip > 0 ? skip : 1;
    }
    out(r, text + from, n - from);
}

/* The first token of a prompt has none. */
static void show_prompt_token(run *r, const whimbrel_event *t)
{
    if (r->options->json) {
        whim_str_append(&r->prompt_logprobs, t->has_logprob ? "," : "null");
        if (t->has_logprob) {
            append_logprob_json(r, &r->prompt_logprobs, t);
        }
        return;
    }
    if (!t->has_logprob) {
        return;
    }
    whim_str line = {0};
    whim_str_append(&line, "prompt ");
    if (r->by_ids) {
        whim_str_printf(&line, "%d:%.6f ", t->id, (double)t->logprob);
    }
    append_logprob_line(r, &line, t);
    out(r, whim_str_text(&line), line.len);
    whim_str_deinit(&line);
}

static void show_call(run *r, const whimbrel_event *call)
{
    whim_str_printf(&r->calls, "%s{\"name\":", r->calls.len > 0 ? "," : "");
    json_text(&r->calls, call->name);
    whim_str_printf(&r->calls, ",\"arguments\":%s}", call->text);
}

void run_event(void *ctx, const whimbrel_event *event)
{
    run *r = ctx;
    switch (event->kind) {
    case WHIMBREL_EVENT_PROMPT_TOKEN:
        show_prompt_token(r, event);
        break;
    case WHIMBREL_EVENT_CALL:
        show_call(r, event);
        break;
    case WHIMBREL_EVENT_TOKEN:
        show_token(r, event);
        show_text(r, event->text, event->n_text);
        break;
    case WHIMBREL_EVENT_END:
        show_text(r, event->text, event->n_text);
        break;
    default: /* the same text, taken apart */
        break;
    }
}

static double rate(double n, double seconds)
{
    return n > 0 && seconds > 0 ? n / seconds : NAN;
}

static void append_usage(const run *r, const asked *got, whim_str *to)
{
    whim_str_printf(to, ",\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld}",
                    (long long)r->n_prompt, (long long)got->n_id);
    whim_str_append(to, ",\"timings\":{\"prompt_s\":");
    json_number(to, got->prompt_s);
    whim_str_append(to, ",\"gen_s\":");
    json_number(to, got->gen_s);
    whim_job_times times = whim_request_times(r->request);
    whim_str_printf(to, ",\"proposed_tokens\":%lld,\"accepted_tokens\":%lld",
                    (long long)times.n_proposed, (long long)times.n_right);
    whim_str_append(to, "},\"prompt_tps\":");
    json_number(to, rate((double)r->n_prompt, got->prompt_s));
    whim_str_append(to, ",\"gen_tps\":");
    json_number(to, rate((double)(got->n_id - 1), got->gen_s));
}

static void append_result(const run *r, const asked *got, whim_str *to)
{
    const whimbrel_sampling *p = &r->sampling.v;
    whim_str_append(to, "{\"model\":");
    json_text(to, r->path);
    if (!r->by_ids) {
        whim_str_append(to, ",\"prompt\":");
        json_text(to, whim_str_text(&r->text));
        whim_str_append(to, ",\"text\":");
        json_text_n(to, whim_str_text(&r->said), r->said.len);
    }
    whim_str_append(to, ",\"prompt_ids\":[");
    for (int64_t i = 0; i < r->n_prompt; i++) {
        whim_str_printf(to, "%s%d", i == 0 ? "" : ",", r->prompt[i]);
    }
    whim_str_printf(to, "],\"ids\":[%s]", whim_str_text(&r->made));
    if (has_lines(r)) {
        whim_str_printf(to, ",\"logprobs\":[%s]", whim_str_text(&r->logprobs));
    }
    if (whim_options_gave(r->options, &r->options->prompt_logprobs)) {
        whim_str_printf(to, ",\"prompt_logprobs\":[%s]", whim_str_text(&r->prompt_logprobs));
    }
    if (r->form.tools != NULL) {
        whim_str_printf(to, ",\"tool_calls\":[%s]", whim_str_text(&r->calls));
    }
    whim_str_printf(to, ",\"stop\":\"%s\"", whimbrel_end_name(got->end));
    if (got->stop >= 0) {
        whim_str_append(to, ",\"stop_text\":");
        json_text(to, r->options->stop.v[got->stop]);
    }
    whim_str_printf(
        to,
        ",\"sampling\":{\"temperature\":%.7g,\"top_k\":%d,\"top_p\":%.7g,\"min_p\":%.7g,"
        "\"repetition_penalty\":%.7g,\"presence_penalty\":%.7g,"
        "\"frequency_penalty\":%.7g,\"seed\":%llu}",
        (double)p->temperature, p->top_k, (double)p->top_p, (double)p->min_p,
        (double)p->repetition_penalty, (double)p->presence_penalty, (double)p->frequency_penalty,
        (unsigned long long)p->seed);
    append_usage(r, got, to);
    whim_str_append(to, "}\n");
    to->failed = to->failed || r->made.failed || r->logprobs.failed || r->prompt_logprobs.failed ||
                 r->said.failed || r->calls.failed;
}

/* An end that cuts the answer short is told even when quiet. */
static void say_full(const run *r, const asked *got)
{
    whim_str hint = {0};
    if (got->end == WHIMBREL_END_CONTEXT) {
        whim_str_printf(&hint, "the context of %lld tokens is full; ", (long long)r->info->context);
        append_context_hint(&hint, r->options, r->info);
    } else {
        whim_str_append(&hint, "the memory for keys and values is full; --kv-mem gives more");
    }
    if (r->options->max_tokens > 0) {
        complain(EXIT_OK, "stopped after %lld of %lld tokens: %s", (long long)got->n_id,
                 (long long)r->options->max_tokens, whim_str_text(&hint));
    } else {
        complain(EXIT_OK, "stopped after %lld tokens: %s", (long long)got->n_id,
                 whim_str_text(&hint));
    }
    whim_str_deinit(&hint);
}

static void print_summary(const run *r, const asked *got)
{
    double gen = rate((double)(got->n_id - 1), got->gen_s);
    fprintf(stderr, "prompt: %lld tokens, %.1f tokens/s; generated: %lld tokens",
            (long long)r->n_prompt, rate((double)r->n_prompt, got->prompt_s), (long long)got->n_id);
    /* The first token comes with the prompt's last step. */
    if (isfinite(gen)) {
        fprintf(stderr, ", %.1f tokens/s", gen);
    }
    fprintf(stderr, "; stop: %s\n", whimbrel_end_name(got->end));
}

bool run_finish(run *r, const asked *got)
{
    whim_str text = {0};
    bool ends_line = r->said.len > 0 && r->said.text[r->said.len - 1] == '\n';
    if (r->write_failed) {
        complain(EXIT_FAILED, "cannot write to standard output: %s", strerror(errno));
        return false;
    }
    if (r->options->json) {
        append_result(r, got, &text);
    } else if (!has_lines(r) && !ends_line) {
        whim_str_append_char(&text, '\n');
    }
    bool ok = print_out(&text);
    whim_str_deinit(&text);
    if (got->end == WHIMBREL_END_CONTEXT || got->end == WHIMBREL_END_MEMORY) {
        say_full(r, got);
    }
    if (ok && r->options->verbose) {
        print_summary(r, got);
    }
    return ok;
}

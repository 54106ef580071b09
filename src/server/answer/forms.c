/* SPDX-License-Identifier: Apache-2.0 */
/* What the forms of answers, one for each dialect, ask of the core: items, texts, reasons, counts
 * and times. */
#include "server/answer/run.h"

#include "base/clock.h"

void whim_answer_choice_covered(whim_answer_choice *c)
{
    whim_answer_tokens_clear(&c->pending);
}

const whim_answer_part *whim_answer_item_part(const whim_answer *a, const whim_answer_choice *c)
{
    return a->n_item <= c->n_part ? &c->parts[a->n_item - 1] : NULL;
}

static void begin_item(whim_answer *a, const whim_answer_choice *c)
{
    a->n_item++;
    a->item_open = true;
    a->form->item_begin(a, c);
}

static void end_item(whim_answer *a, const whim_answer_choice *c)
{
    if (a->item_open) {
        a->form->item_end(a, c);
        a->item_open = false;
    }
}

void whim_answer_item_event(whim_answer *a, whim_answer_choice *c, whim_answer_part *part,
                            const whim_chat_event *ev)
{
    if (!a->task->stream) {
        return;
    }
    if (part - c->parts >= a->n_item) {
        end_item(a, c);
        begin_item(a, c);
    }
    if (ev->kind == WHIM_CHAT_CALL_END && part->text.len == 0) {
        a->form->item_delta(a, c, WHIM_CHAT_CALL_ARGS, "{}", 2);
    } else if (ev->kind != WHIM_CHAT_CALL_BEGIN && ev->kind != WHIM_CHAT_CALL_END) {
        a->form->item_delta(a, c, ev->kind, ev->text, ev->n);
    }
}

void whim_answer_item_end(whim_answer *a, whim_answer_choice *c)
{
    if (a->n_item == 0) {
        begin_item(a, c);
    }
    end_item(a, c);
}

void whim_answer_put_progress(const whim_answer *a, int32_t p, whim_str *out)
{
    const whim_answer_prompt *prompt = &a->prompts[p];
    int64_t n_prompt = 0, ns = whim_clock_ns() - prompt->started_ns;
    whimbrel_prompt_ids(a->task->requests[p], &n_prompt);
    whim_put_form(out, "'prompt_progress':{'total':%l,'cache':%l,'processed':%l,'time_ms':%l}",
                  n_prompt, prompt->n_cached, prompt->n_read, ns / WHIM_NS_PER_MS);
}

bool whim_answer_choice_text(const whim_answer_choice *c, whim_chat_event_kind kind, whim_str *out)
{
    bool any = false;
    for (int32_t i = 0; i < c->n_part; i++) {
        if (c->parts[i].kind == kind) {
            whim_str_append_n(out, whim_str_text(&c->parts[i].text), c->parts[i].text.len);
            any = true;
        }
    }
    return any;
}

whim_finish whim_answer_choice_finish(const whim_answer_choice *c)
{
    bool has_call = false, is_cut = c->opening_cut;
    for (int32_t i = 0; i < c->n_part; i++) {
        bool is_call = c->parts[i].kind == WHIM_CHAT_CALL_BEGIN;
        has_call |= is_call;
        is_cut |= is_call && !c->parts[i].complete;
    }
    if (is_cut) {
        return WHIM_FINISH_LENGTH; /* the only finish under which arguments need not parse */
    }
    if (has_call) {
        return WHIM_FINISH_CALLS;
    }
    return c->end == WHIM_END_EOS || c->end == WHIM_END_STOP ? WHIM_FINISH_STOP
                                                             : WHIM_FINISH_LENGTH;
}

const char *whim_finish_name(whim_finish finish)
{
    static const char *const names[] = {"stop", "length", "tool_calls"};
    return names[finish];
}

whim_usage whim_answer_usage(const whim_answer *a)
{
    whim_usage usage = {.n_proposed = a->run->times.n_proposed, .n_right = a->run->times.n_right};
    for (int32_t i = 0; i < a->task->n_prompt; i++) {
        int64_t n;
        whimbrel_prompt_ids(a->task->requests[i], &n);
        usage.n_prompt += n;
        usage.n_cached += a->prompts[i].n_cached;
        usage.n_predicted += a->prompts[i].n_predicted;
        usage.n_mispredicted += a->prompts[i].n_mispredicted;
    }
    for (int32_t i = 0; i < a->n_choice; i++) {
        usage.n_made += a->choices[i].n_made;
        usage.n_reasoning += a->choices[i].n_reasoning;
    }
    return usage;
}

static double ms_between(int64_t from, int64_t to)
{
    return from == 0 || to < from ? 0.0 : (double)(to - from) / 1e6;
}

whim_answer_times whim_answer_get_times(const whim_answer *a)
{
    const whim_job_times *t = &a->run->times;
    return (whim_answer_times){
        .queue_ms = ms_between(t->submitted, t->admitted),
        .first_token_ms = ms_between(whim_exchange_start_ns(a->ex), t->first_token),
        .decode_ms = ms_between(t->first_token, t->ended),
    };
}

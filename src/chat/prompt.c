/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a prompt: turns, tools, arguments of the template, rendering, the cut behind a turn
 * to be continued. */
#include "chat/prompt.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "chat/prompt_impl.h"
#include "chat/reasoning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MARK_BYTES = 48 };

typedef struct maker {
    const whim_chat_model *model;
    const whim_prompt_request *request;
    whim_prompt_turns turns;
    json_t *kwargs;
    bool continued; /* the last turn is the assistant's and goes on */
    char mark[MARK_BYTES];
    bool joined; /* parts are joined, although the template seemed to take them */
    int level;   /* of softening */
    whim_diag *diag;
} maker;

/* --- arguments of the template ---------------------------------------------------------------- */

static whim_err make_kwargs(maker *m)
{
    const whim_prompt_request *r = m->request;
    int32_t thinking = r->thinking;
    bool none =
        r->effort != NULL && (strcmp(r->effort, "none") == 0 || strcmp(r->effort, "minimal") == 0);
    if (thinking < 0 && r->effort != NULL) {
        thinking = !none;
    }
    m->kwargs = json_object();
    bool ok = m->kwargs != NULL;
    if (m->model->kwargs != NULL) {
        ok = ok && json_object_update(m->kwargs, (json_t *)m->model->kwargs) == 0;
    }
    const char *name = m->model->format.thinking_switch;
    if (thinking >= 0 && name != NULL) {
        ok = ok && json_object_set_new(m->kwargs, name, json_boolean(thinking)) == 0;
    }
    if (r->effort != NULL && !none) {
        ok = ok && json_object_set_new(m->kwargs, "reasoning_effort", json_string(r->effort)) == 0;
    }
    if (r->kwargs != NULL) {
        ok = ok && json_object_update(m->kwargs, (json_t *)r->kwargs) == 0;
    }
    return ok ? WHIM_ERR_OK : whim_prompt_no_memory(m->diag);
}

/* --- rendering -------------------------------------------------------------------------------- */

static whim_err render(maker *m, whim_rendered *out)
{
    whim_marked_text *marked = whim_alloc_array(m->turns.n + 1, sizeof *marked);
    const json_t *tools = m->model->format.native_tools ? m->request->tools : NULL;
    whim_template_input input = {
        .tools = json_array_size(tools) == 0 ? NULL : tools,
        .kwargs = m->kwargs,
        .add_generation_prompt = !m->continued && !m->request->is_closed,
        .bos_token = whim_tokenizer_bos(m->model->tok),
        .eos_token = whim_tokenizer_eos(m->model->tok),
        .now = (int64_t)time(NULL),
        .marked = marked,
    };
    json_t *messages = marked == NULL ? NULL
                                      : whim_prompt_turns_json(&m->turns, &m->model->format,
                                                               m->joined, marked, &input.n_marked);
    input.messages = messages;
    whim_err err = messages == NULL ? whim_prompt_no_memory(m->diag)
                                    : whim_template_render(m->model->tmpl, &input, out, m->diag);
    json_decref(messages);
    whim_free(marked);
    return err;
}

/* Where a text stands in what came from messages, from a place on; moves the place behind it. */
static bool find_given(const whim_rendered *out, const char *text, int64_t n, int64_t *span,
                       int64_t *at)
{
    for (; *span < out->n_span; ++*span) {
        const whim_text_span *s = &out->spans[*span];
        int64_t from = *at > s->begin ? *at : s->begin;
        const char *found =
            s->trusted ? NULL
                       : memmem(out->text.text + from, (size_t)(s->end - from), text, (size_t)n);
        if (found != NULL) {
            *at = found - out->text.text + n;
            return true;
        }
    }
    return false;
}

/* The first turn of a role from `i` on that has not been printed, or NULL: some templates pass over
 * turns without a word. They keep the order, so that one walk through the text finds all. */
static const whim_turn *find_lost(const maker *m, const whim_rendered *out, whim_role role,
                                  int64_t i)
{
    int64_t span = 0, at = 0;
    for (; i < m->turns.n; i++) {
        const whim_turn *turn = &m->turns.v[i];
        const char *text = whim_str_text(&turn->content.text);
        int64_t n = turn->content.text.len;
        if (turn->role != role) {
            continue;
        }
        if (!m->joined && whim_prompt_turn_has_parts(turn, &m->model->format)) {
            text += turn->parts[turn->n_part - 1]; /* nobody knows what is printed between them */
            n -= turn->parts[turn->n_part - 1];
        }
        for (; n > 0 && whim_is_blank(text[n - 1]); n--) {
        }
        for (; n > 0 && whim_is_blank(*text); n--, text++) {
        }
        if (n > 0 && !find_given(out, text, n, &span, &at)) {
            return turn;
        }
    }
    return NULL;
}

static bool lost_system(const maker *m, const whim_rendered *out)
{
    return find_lost(m, out, WHIM_ROLE_SYSTEM, 1) != NULL;
}

/* Nobody would notice that a role is not the template's. */
static whim_err check_roles(const maker *m, const whim_rendered *out)
{
    const whim_turn *lost = find_lost(m, out, WHIM_ROLE_OTHER, 0);
    return lost == NULL
               ? WHIM_ERR_OK
               : whim_fail(m->diag, WHIM_ERR_INVALID,
                           "the model's chat template prints no message of the role \"%.40s\"; "
                           "send it as system, user, assistant or tool",
                           json_string_value(lost->role_word));
}

/* Render, changing what the template refuses step by step; the error is that of the turns as they
 * were given. */
static whim_err render_softening(maker *m, whim_rendered *out)
{
    whim_diag first = {{0}}, *said = m->diag;
    whim_err err = render(m, out);
    if (said != NULL) {
        first = *said;
    }
    if (err == WHIM_ERR_INVALID && m->turns.parts != NULL && !m->joined) {
        m->joined = true;
        err = render(m, out);
    }
    for (whim_err now = err;
         m->level + 1 < WHIM_SOFTEN_LEVELS &&
         (now == WHIM_ERR_INVALID || (now == WHIM_ERR_OK && lost_system(m, out)));) {
        WHIM_TRY(whim_prompt_turns_soften(&m->turns, ++m->level, m->diag));
        now = render(m, out);
        err = now == WHIM_ERR_INVALID && err == WHIM_ERR_INVALID ? err : now;
    }
    if (err == WHIM_ERR_INVALID && said != NULL) {
        *said = first;
    }
    return err;
}

/* --- a turn that goes on ---------------------------------------------------------------------- */

static bool has_mark(const maker *m, uint64_t *hash)
{
    bool there = false;
    for (int64_t i = 0; i < m->turns.n; i++) {
        const whim_str *text = &m->turns.v[i].content.text;
        for (int64_t k = 0; k < text->len; k++) {
            *hash = (*hash ^ (uint8_t)text->text[k]) * 1099511628211u;
        }
        there = there ||
                memmem(whim_str_text(text), (size_t)text->len, m->mark, strlen(m->mark)) != NULL;
    }
    return there;
}

/* Put a mark behind the last content that occurs in no turn. Its number comes from the turns
 * themselves, so that nobody can write a row of the next ones. */
static whim_err place_mark(maker *m)
{
    uint64_t hash = 14695981039346656037u;
    (void)has_mark(m, &hash);
    do {
        /* Characters for private use, which no template treats in a special way. */
        snprintf(m->mark, sizeof m->mark, "\xee\x83\xb1%llu\xee\x83\xb2", (unsigned long long)hash);
    } while (has_mark(m, &hash));
    whim_turn *last = &m->turns.v[m->turns.n - 1];
    return whim_rendered_append(&last->content, m->mark, (int64_t)strlen(m->mark), false, m->diag);
}

/* Cut the text at the last place of the mark; false when it is not there. */
static bool cut_at_mark(const maker *m, whim_rendered *out)
{
    const char *text = whim_str_text(&out->text), *found = NULL, *at = text;
    size_t n = strlen(m->mark);
    while ((at = memmem(at, (size_t)(text + out->text.len - at), m->mark, n)) != NULL) {
        found = at;
        at += n;
    }
    if (found != NULL) {
        whim_rendered_cut(out, found - text);
    }
    return found != NULL;
}

/* The template does not print a last turn of the assistant: open a new one and write its content
 * there. */
static whim_err continue_by_hand(maker *m, whim_rendered *out)
{
    whim_turn *last = &m->turns.v[m->turns.n - 1];
    whim_rendered content = last->content;
    whim_err err = WHIM_ERR_OK;
    last->content = (whim_rendered){0};
    whim_prompt_turns_remove(&m->turns, m->turns.n - 1);
    whim_rendered_cut(&content, content.text.len - (int64_t)strlen(m->mark));
    m->continued = false;
    err = render_softening(m, out);
    if (err == WHIM_ERR_OK) {
        err = whim_rendered_append(out, whim_str_text(&content.text), content.text.len, false,
                                   m->diag);
    }
    whim_rendered_deinit(&content);
    return err;
}

static whim_err render_turns(maker *m, whim_rendered *out)
{
    if (!m->continued) {
        return render_softening(m, out);
    }
    WHIM_TRY(place_mark(m));
    whim_err err = render_softening(m, out);
    if (err == WHIM_ERR_INVALID || (err == WHIM_ERR_OK && !cut_at_mark(m, out))) {
        err = continue_by_hand(m, out);
    }
    return err;
}

/* --- the whole -------------------------------------------------------------------------------- */

static whim_err make(maker *m, whim_prompt *out, char *param)
{
    const whim_chat_model *model = m->model;
    const bool native = model->format.native_tools;
    WHIM_TRY(whim_prompt_turns_read(&m->turns, m->request->messages, param, m->diag));
    const whim_turn *last = &m->turns.v[m->turns.n - 1];
    m->continued = last->role == WHIM_ROLE_ASSISTANT && last->calls == NULL &&
                   !m->request->new_turn && !m->request->is_closed;
    snprintf(param, WHIM_PARAM_BYTES, "messages");
    WHIM_TRY(whim_prompt_turns_write_calls(&m->turns, model->format.tools, !native, m->diag));
    if (native) {
        WHIM_TRY(whim_prompt_turns_fit_calls(&m->turns, &model->format, m->diag));
    } else {
        WHIM_TRY(whim_prompt_turns_write_results(&m->turns, 0, m->turns.n, m->diag));
        if (json_array_size(m->request->tools) > 0) {
            WHIM_TRY(whim_prompt_turns_list_tools(&m->turns, m->request->tools, m->diag));
        }
    }
    WHIM_TRY(make_kwargs(m));
    WHIM_TRY(render_turns(m, &out->rendered));
    WHIM_TRY(check_roles(m, &out->rendered));
    const whim_rendered *r = &out->rendered;
    const whim_encode_opts opts = {
        .spans = r->spans, .n_span = r->n_span, .most = m->request->most};
    /* Only the template opens reasoning: a text that ends with the tag does not. */
    const bool is_trusted = r->n_span > 0 && r->spans[r->n_span - 1].trusted;
    out->open_think =
        is_trusted && whim_reasoning_prompt_is_open(model->format.think, r->text.text, r->text.len);
    out->open_name =
        is_trusted && whim_chat_format_opens_name(&model->format, r->text.text, r->text.len);
    const char *name = model->format.thinking_switch;
    out->may_reason =
        model->format.reasons && !out->open_think &&
        !json_is_false(json_object_get(m->kwargs, name != NULL ? name : "enable_thinking"));
    return whim_tokenizer_encode(model->tok, whim_str_text(&r->text), r->text.len, &opts, &out->ids,
                                 m->diag);
}

whim_err whim_prompt_make(const whim_chat_model *model, const whim_prompt_request *request,
                          whim_prompt *out, char *param, whim_diag *diag)
{
    maker m = {.model = model, .request = request, .diag = diag};
    *out = (whim_prompt){0};
    param[0] = '\0';
    if (model->tmpl == NULL) {
        snprintf(param, WHIM_PARAM_BYTES, "messages");
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "the model has no chat template; use /v1/completions with a prompt");
    }
    whim_err err = make(&m, out, param);
    json_decref(m.kwargs);
    whim_prompt_turns_deinit(&m.turns);
    if (err != WHIM_ERR_OK) {
        whim_prompt_deinit(out);
    } else {
        param[0] = '\0';
    }
    return err;
}

void whim_prompt_deinit(whim_prompt *prompt)
{
    whim_ids_deinit(&prompt->ids);
    whim_rendered_deinit(&prompt->rendered);
    *prompt = (whim_prompt){0};
}

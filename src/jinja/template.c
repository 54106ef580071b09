/* SPDX-License-Identifier: Apache-2.0 */
/* The entries: compile a source, render a conversation. */
#include "jinja/template.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/utf8.h"
#include "jinja/eval.h"

#include <string.h>

enum { MAX_SOURCE = 4 << 20, COMPILE_MEMORY = 1 << 30 };

struct whim_template {
    whim_arena arena; /* of the tree and the source */
    char *name;       /* without folders */
    const whim_jnode *body, *blocks;
};

static void state_init(whim_jinja *j, const char *name, int64_t cap, whim_diag *diag)
{
    *j = (whim_jinja){.cap = cap,
                      .steps = WHIM_JINJA_STEPS,
                      .look_at = WHIM_JINJA_STEPS,
                      .until = whim_clock_ns() + WHIM_JINJA_SECONDS * WHIM_NS_PER_S,
                      .pos = {1, 1},
                      .name = name,
                      .diag = diag};
    whim_arena_init(&j->arena);
}

/* Apart from its caller, so that no local of that lives across setjmp. */
static whim_err compile_into(whim_jinja *j, const char *source, int64_t n, whim_template *tmpl)
{
    if (setjmp(j->leave) != 0) {
        return j->err;
    }
    j->steps = j->look_at = INT64_MAX; /* the length of the source is the limit */
    tmpl->body = whim_jinja_parse(j, whim_jinja_lex(j, source, n), &tmpl->blocks);
    return WHIM_ERR_OK;
}

whim_err whim_template_compile(const char *source, int64_t n, const char *name, whim_template **out,
                               whim_diag *diag)
{
    *out = NULL;
    if (n > MAX_SOURCE) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%s: the template has %lld bytes, at most %d are read", name, (long long)n,
                         (int)MAX_SOURCE);
    }
    int64_t bad = whim_utf8_valid_prefix(source, n);
    if (bad != n) {
        return whim_fail(diag, WHIM_ERR_INVALID, "%s: the template is not UTF-8 at byte %lld", name,
                         (long long)bad);
    }
    whim_template *tmpl = whim_alloc(sizeof *tmpl);
    whim_jinja j;
    state_init(&j, name, COMPILE_MEMORY, diag);
    whim_err err = tmpl == NULL ? whim_fail(diag, WHIM_ERR_NO_MEMORY, "%s: out of memory", name)
                                : compile_into(&j, source, n, tmpl);
    if (err == WHIM_ERR_OK) {
        const char *base = whim_path_base(name);
        tmpl->name = whim_arena_strndup(&j.arena, base, (int64_t)strlen(base));
        err = tmpl->name == NULL ? whim_fail(diag, WHIM_ERR_NO_MEMORY, "%s: out of memory", name)
                                 : WHIM_ERR_OK;
    }
    if (err != WHIM_ERR_OK) {
        whim_arena_reset(&j.arena);
        whim_free(tmpl);
        return err;
    }
    tmpl->arena = j.arena;
    *out = tmpl;
    return WHIM_ERR_OK;
}

void whim_template_destroy(whim_template *tmpl)
{
    if (tmpl != NULL) {
        whim_arena_reset(&tmpl->arena);
        whim_free(tmpl);
    }
}

void whim_rendered_deinit(whim_rendered *r)
{
    whim_str_deinit(&r->text);
    whim_free(r->spans);
    *r = (whim_rendered){0};
}

static void set_var(whim_jinja *j, whim_jscope *scope, const char *name, whim_jval v)
{
    whim_jdict_set(j, &scope->vars, whim_jval_str(j, name, (int64_t)strlen(name), true), v);
}

static void set_token(whim_jinja *j, whim_jscope *scope, const char *name, const char *text)
{
    if (text != NULL) {
        int64_t n = (int64_t)strlen(text);
        if (whim_utf8_valid_prefix(text, n) != n) {
            whim_jinja_fail(j, "%s is not UTF-8", name);
        }
        set_var(j, scope, name, whim_jval_str(j, text, n, true));
    }
}

/* The names a template starts with. Arguments come last: they may replace any of the others, as
 * they do in transformers, and are never trusted. */
static void set_context(whim_jinja *j, whim_jscope *scope, const whim_template_input *input)
{
    set_var(j, scope, "messages", whim_jval_from_json(j, input->messages));
    if (input->tools != NULL) {
        set_var(j, scope, "tools", whim_jval_from_json(j, input->tools));
    }
    set_var(j, scope, "documents", whim_jval_from_json(j, input->documents));
    set_var(j, scope, "add_generation_prompt", whim_jval_bool(input->add_generation_prompt, true));
    set_token(j, scope, "bos_token", input->bos_token);
    set_token(j, scope, "eos_token", input->eos_token);
    if (input->kwargs != NULL) {
        whim_jval kwargs = whim_jval_from_json(j, input->kwargs);
        if (kwargs.kind == WHIM_J_DICT) {
            whim_jdict_update(j, &scope->vars, kwargs.dict);
        }
    }
}

static whim_err render_into(whim_jinja *j, const whim_template *tmpl,
                            const whim_template_input *input, const whim_jstr **text)
{
    if (setjmp(j->leave) != 0) {
        return j->err;
    }
    whim_jscope *context = whim_jinja_alloc(j, sizeof *context);
    whim_jscope *scope = whim_jinja_alloc(j, sizeof *scope);
    *context = (whim_jscope){0};
    *scope = (whim_jscope){.parent = context};
    whim_jbuf out = {0};
    j->top = scope;
    set_context(j, context, input);
    whim_jinja_set_blocks(j, scope, tmpl->blocks);
    (void)whim_jinja_exec(j, scope, tmpl->body, &out);
    *text = whim_jbuf_take(j, &out).str;
    return WHIM_ERR_OK;
}

whim_err whim_rendered_append(whim_rendered *r, const char *bytes, int64_t n, bool trusted,
                              whim_diag *diag)
{
    if (n == 0) {
        return WHIM_ERR_OK;
    }
    bool joins = r->n_span > 0 && r->spans[r->n_span - 1].trusted == trusted;
    bool room = joins || whim_grow(&r->spans, r->n_span + 1, &r->cap_span, sizeof *r->spans);
    int64_t at = r->text.len;
    whim_str_append_n(&r->text, bytes, room ? n : 0);
    if (!room || r->text.failed) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory for a prompt");
    }
    if (!joins) {
        r->spans[r->n_span++] = (whim_text_span){.begin = at, .trusted = trusted};
    }
    r->spans[r->n_span - 1].end = r->text.len;
    return WHIM_ERR_OK;
}

whim_err whim_rendered_join(whim_rendered *r, const whim_rendered *more, whim_diag *diag)
{
    for (int64_t i = 0; i < more->n_span; i++) {
        const whim_text_span *span = &more->spans[i];
        WHIM_TRY(whim_rendered_append(r, more->text.text + span->begin, span->end - span->begin,
                                      span->trusted, diag));
    }
    return WHIM_ERR_OK;
}

void whim_rendered_cut(whim_rendered *r, int64_t n)
{
    if (n >= r->text.len) {
        return;
    }
    r->text.len = n;
    r->text.text[n] = '\0';
    while (r->n_span > 0 && r->spans[r->n_span - 1].begin >= n) {
        r->n_span--;
    }
    if (r->n_span > 0) {
        r->spans[r->n_span - 1].end = n;
    }
}

static whim_err copy_out(whim_rendered *r, const whim_jstr *text, whim_diag *diag)
{
    whim_str_clear(&r->text);
    r->n_span = 0;
    for (int64_t at = 0; at < text->n;) {
        bool trusted = whim_jstr_trust(text, at, at + 1);
        const uint8_t *end =
            text->mask == NULL ? NULL : memchr(text->mask + at, !trusted, (size_t)(text->n - at));
        int64_t to = end == NULL ? text->n : end - text->mask;
        WHIM_TRY(whim_rendered_append(r, text->s + at, to - at, trusted, diag));
        at = to;
    }
    return WHIM_ERR_OK;
}

whim_err whim_template_render(const whim_template *tmpl, const whim_template_input *input,
                              whim_rendered *out, whim_diag *diag)
{
    const whim_jstr *text = NULL;
    whim_jinja j;
    state_init(&j, tmpl->name, WHIM_JINJA_MEMORY, diag);
    j.now = input->now;
    j.marked = input->marked;
    j.n_marked = input->n_marked;
    j.until = input->until != 0 ? input->until : j.until;
    whim_err err = render_into(&j, tmpl, input, &text);
    out->steps = WHIM_JINJA_STEPS - j.steps;
    if (err == WHIM_ERR_OK) {
        err = copy_out(out, text, diag);
    }
    whim_arena_reset(&j.arena);
    return err;
}

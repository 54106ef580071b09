/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates: an interpreter for the part of Jinja that published models use, with
 * transformers' settings (trim_blocks, lstrip_blocks, loop controls, its tojson). The output
 * remembers where every byte came from: what the template itself wrote is trusted, what came out of
 * messages, tools or arguments is not, so that user content can never forge a turn.
 *
 * A hostile template ends in an error: steps, depth, memory, output and time are limited.
 * Threads: a compiled template is read-only and shared; a rendering belongs to one thread. */
#ifndef WHIM_JINJA_TEMPLATE_H
#define WHIM_JINJA_TEMPLATE_H

#include "base/err.h"
#include "base/str.h"
#include "text/tokenizer.h"

#include <jansson.h>

typedef struct whim_template whim_template;

/* Compile; errors name line and column. `name` is for messages; those of rendering, which clients
 * read, do not say in which folder it is. */
WHIM_MUST_CHECK whim_err whim_template_compile(const char *source, int64_t n, const char *name,
                                               whim_template **out, whim_diag *diag);
void whim_template_destroy(whim_template *tmpl);

/* The text and where its parts came from; {0} is empty. */
typedef struct whim_rendered {
    whim_str text;
    whim_text_span *spans; /* in order, covering the text; neighbours differ in trust */
    int64_t n_span, cap_span;
    int64_t steps; /* that a rendering took, also one that failed */
} whim_rendered;

void whim_rendered_deinit(whim_rendered *r);

/* Append bytes of one origin; only NO_MEMORY can go wrong. */
WHIM_MUST_CHECK whim_err whim_rendered_append(whim_rendered *r, const char *bytes, int64_t n,
                                              bool trusted, whim_diag *diag);
/* Append another text with its origins. */
WHIM_MUST_CHECK whim_err whim_rendered_join(whim_rendered *r, const whim_rendered *more,
                                            whim_diag *diag);
/* Keep the first n bytes. */
void whim_rendered_cut(whim_rendered *r, int64_t n);

/* A string of the messages of which parts were written by the server, which trusts them as the
 * template's own. */
typedef struct whim_marked_text {
    const json_t *string;
    const whim_rendered *text; /* the same bytes, with their origin */
} whim_marked_text;

typedef struct whim_template_input {
    const json_t *messages;  /* array of objects, as in the OpenAI API */
    const json_t *tools;     /* array or NULL (then undefined) */
    const json_t *documents; /* array or NULL */
    const json_t *kwargs;    /* object or NULL: chat_template_kwargs, become variables */
    bool add_generation_prompt;
    const char *bos_token, *eos_token; /* trusted text */
    int64_t now;                       /* seconds since 1970 for strftime_now (UTC); tests fix it */
    int64_t until;                     /* by base/clock.h; 0: some seconds from now */
    const whim_marked_text *marked;    /* by the address of `string`, ascending; NULL: none */
    int64_t n_marked;
} whim_template_input;

/* raise_exception(msg) in the template gives WHIM_ERR_INVALID with msg; everything else that is
 * wrong names line and column. Too much work, memory or text is WHIM_ERR_FULL. What `out` held
 * before is replaced. */
WHIM_MUST_CHECK whim_err whim_template_render(const whim_template *tmpl,
                                              const whim_template_input *input, whim_rendered *out,
                                              whim_diag *diag);

#endif

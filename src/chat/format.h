/* SPDX-License-Identifier: Apache-2.0 */
/* How a model writes reasoning and tool calls: found from its template, parsed out of its answer
 * piece by piece, and written as a grammar where calls are forced.
 *
 * Invariant: however an answer is cut into pieces, the events joined are those of the one-shot
 * parse, also for unfinished or malformed output (which comes out as content, never lost).
 *  - White space next to a call is dropped. Tags are dropped with their calls.
 *  - A call begins (CALL_BEGIN) when its name is known and its arguments begin. What looked like a
 *    call and turns out malformed before that is content, tags and all.
 *  - A call that breaks after that, or that the answer's end cuts, has no CALL_END; what follows is
 *    content.
 * Threads: a format is plain data; a parser belongs to one thread at a time. */
#ifndef WHIM_CHAT_FORMAT_H
#define WHIM_CHAT_FORMAT_H

#include "base/err.h"
#include "chat/reasoning.h"
#include "chat/tools/words.h"
#include "grammar/grammar.h"
#include "jinja/template.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct whim_chat_format {
    const whim_tool_words *tools;
    bool native_tools;           /* the template prints tools and calls itself, in these words */
    bool prints_tools;           /* it prints tools, whether or not its words are known */
    bool one_call;               /* it prints no turn with two calls */
    bool short_ids;              /* it takes ids of calls that are nine letters or digits only */
    bool reasons;                /* the template knows the words of reasoning */
    const char *thinking_switch; /* its argument that turns reasoning on or off; NULL: none */
    bool drops_text; /* it prints no text beside calls, but a turn of that text before them */
    bool text_args;  /* it takes the arguments of calls as texts only */
    /* whose content it takes as a list of parts, printing their texts as it would print one text */
    bool system_parts, user_parts, assistant_parts, tool_parts;
    const whim_think_words *think; /* around reasoning; NULL: the usual ones */
} whim_chat_format;

/* Whether answers are messages with headers, with tools or without. */
bool whim_chat_format_has_channels(const whim_chat_format *format);

/* Where reasoning begins and ends; never NULL. */
const whim_think_words *whim_chat_format_think(const whim_chat_format *format);

/* What a template shows when made-up tools and calls are given to it; NULL: there is none. `tok`
 * may be NULL. */
whim_chat_format whim_chat_format_detect(const whim_template *tmpl, const char *source,
                                         const whim_tokenizer *tok);

/* Whether a prompt that the template wrote ends where the name of whom the answer is for begins. */
bool whim_chat_format_opens_name(const whim_chat_format *format, const char *prompt, int64_t n);

typedef enum whim_chat_event_kind {
    WHIM_CHAT_REASONING,  /* text */
    WHIM_CHAT_CONTENT,    /* text */
    WHIM_CHAT_CALL_BEGIN, /* text: the name */
    /* text: a piece of the arguments' JSON; joined so far always a prefix of valid JSON */
    WHIM_CHAT_CALL_ARGS,
    WHIM_CHAT_CALL_END, /* the call is complete: its arguments are a JSON object */
} whim_chat_event_kind;

typedef struct whim_chat_event {
    whim_chat_event_kind kind;
    int32_t call;     /* number of the call, from 0 */
    const char *text; /* lives during the call of the event function only */
    int64_t n;
} whim_chat_event;
typedef void whim_chat_event_fn(void *ctx, const whim_chat_event *event);

typedef struct whim_chat_parser_cfg {
    whim_chat_format format;
    bool starts_inside; /* the prompt left reasoning open */
    bool starts_named;  /* it ends where the name of whom the answer is for begins */
    bool parse_tools;   /* tools were offered; otherwise tags are content */
    /* a grammar lets nothing but calls come: the beginning of a cut one is no content */
    bool only_calls;
    const json_t *tools; /* OpenAI form, for the types of XML parameters; may be NULL; borrowed */
} whim_chat_parser_cfg;

typedef struct whim_chat_parser whim_chat_parser;
WHIM_MUST_CHECK whim_err whim_chat_parser_create(const whim_chat_parser_cfg *cfg,
                                                 whim_chat_parser **out);
void whim_chat_parser_destroy(whim_chat_parser *p);
void whim_chat_parser_push(whim_chat_parser *p, const char *text, int64_t n, whim_chat_event_fn *fn,
                           void *ctx);
void whim_chat_parser_finish(whim_chat_parser *p, whim_chat_event_fn *fn, void *ctx);
bool whim_chat_parser_in_reasoning(const whim_chat_parser *p);
/* Whether the text so far ends inside a call that has not begun: in its opening tag, or before its
 * name is known. */
bool whim_chat_parser_in_opening(const whim_chat_parser *p);

/* What the answer is held to. */
typedef enum whim_tool_choice {
    WHIM_CHOICE_NONE,
    WHIM_CHOICE_AUTO,
    WHIM_CHOICE_REQUIRED
} whim_tool_choice;
typedef struct whim_answer_rule {
    whim_chat_format format;
    bool starts_inside;  /* reasoning is open: the rule holds behind its end */
    bool starts_named;   /* the prompt ends where the name of whom the answer is for begins */
    bool may_reason;     /* the answer may begin with reasoning of its own */
    const json_t *tools; /* OpenAI form, NULL: none */
    whim_tool_choice choice;
    const char *tool_name; /* with REQUIRED: only this one; NULL: any */
    bool one_call;         /* parallel_tool_calls false */
    const json_t *schema;  /* of the whole answer, NULL: none */
    bool json_object;
    const char *regex;        /* NULL: none */
    const char *grammar;      /* a text of GBNF; NULL: none */
    const char *const *words; /* choice: one of these */
    int32_t n_word;
    const bool *bytes; /* [256] those that the model's tokens hold; NULL: all */
    /* How the client calls them, for messages. */
    const char *schema_at; /* such as "response_format.json_schema.schema" */
    const int32_t
        *tool_at; /* [n tools] where each stands in the list of the request; NULL: as here */
    const char *tool_schema; /* the schema in a tool, such as "function.parameters" */
} whim_answer_rule;

/* Whether the rule has a grammar, which takes time to compile; a rule without one allows any
 * text. */
bool whim_answer_is_held(const whim_answer_rule *rule);

/* The grammar of a rule; *out is NULL when it allows any text. INVALID for what a 400 should
 * say. */
WHIM_MUST_CHECK whim_err whim_answer_grammar(const whim_answer_rule *rule, whim_grammar **out,
                                             whim_diag *diag);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the making of a prompt: the turns of a conversation between the request and the
 * template. */
#ifndef WHIM_CHAT_PROMPT_IMPL_H
#define WHIM_CHAT_PROMPT_IMPL_H

#include "chat/prompt.h"

enum { WHIM_PARAM_BYTES = 128 }; /* of the name of a field */

static inline whim_err whim_prompt_no_memory(whim_diag *diag)
{
    return whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory for a prompt");
}

typedef enum whim_role {
    WHIM_ROLE_SYSTEM,
    WHIM_ROLE_USER,
    WHIM_ROLE_ASSISTANT,
    WHIM_ROLE_TOOL,
    WHIM_ROLE_OTHER /* some templates know more */
} whim_role;

typedef struct whim_turn {
    whim_role role;
    const json_t *role_word;                  /* as the request has it; of OTHER */
    whim_rendered content;                    /* what the server adds itself is trusted */
    const json_t *name, *reasoning, *call_id; /* strings of the request, or NULL */
    json_t *calls;                            /* a list of one or more, or NULL; owned */
    bool raw_call;                            /* a call's arguments are a text and stay so */
    const int64_t *parts; /* where parts of the content begin, each behind a line end of its own; */
    int64_t n_part;       /* 0: it is a text */
} whim_turn;

/* {0} is empty. */
typedef struct whim_prompt_turns {
    whim_turn *v;
    int64_t n, cap;
    json_t *made;   /* strings that turns point to and the request does not hold, or NULL */
    int64_t *parts; /* those of all turns */
} whim_prompt_turns;

/* --- prompt_messages.c --- */
/* Check the messages and take them over; leading system turns become one. */
WHIM_MUST_CHECK whim_err whim_prompt_turns_read(whim_prompt_turns *turns, const json_t *messages,
                                                char *param, whim_diag *diag);
void whim_prompt_turns_deinit(whim_prompt_turns *turns);
void whim_prompt_turns_remove(whim_prompt_turns *turns, int64_t i);

/* --- prompt_json.c --- */
/* The turns as messages for a template, with parts where it takes them (none where `joined`), and
 * which of their contents have trusted parts. NULL: no memory. */
json_t *whim_prompt_turns_json(const whim_prompt_turns *turns, const whim_chat_format *format,
                               bool joined, whim_marked_text *marked, int64_t *n_marked);
bool whim_prompt_turn_has_parts(const whim_turn *turn, const whim_chat_format *format);

/* --- prompt_tools.c --- */
/* Write tools into the system turn, which is made if there is none. */
WHIM_MUST_CHECK whim_err whim_prompt_turns_list_tools(whim_prompt_turns *turns, const json_t *tools,
                                                      whim_diag *diag);
/* Write calls into the content of their turns, in the form's own spelling: all of them, or only
 * where a call's arguments are no object. */
WHIM_MUST_CHECK whim_err whim_prompt_turns_write_calls(whim_prompt_turns *turns,
                                                       const whim_tool_words *words, bool all,
                                                       whim_diag *diag);
/* Make tool turns from `from` to before `to` user turns, neighbours one. */
WHIM_MUST_CHECK whim_err whim_prompt_turns_write_results(whim_prompt_turns *turns, int64_t from,
                                                         int64_t to, whim_diag *diag);

/* --- prompt_calls.c --- */
/* Change ids and turns of calls to what a template takes. */
WHIM_MUST_CHECK whim_err whim_prompt_turns_fit_calls(whim_prompt_turns *turns,
                                                     const whim_chat_format *format,
                                                     whim_diag *diag);

/* --- prompt_soften.c --- */
enum { WHIM_SOFTEN_LEVELS = 4 };
/* Change what a template may have refused, more at each level from 1 on. */
WHIM_MUST_CHECK whim_err whim_prompt_turns_soften(whim_prompt_turns *turns, int level,
                                                  whim_diag *diag);

#endif

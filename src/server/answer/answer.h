/* SPDX-License-Identifier: Apache-2.0 */
/* Answers under way. The answer thread takes the events of the requests that were woken, keeps the
 * answer's parts, and calls the dialect, which writes to the exchange.
 *
 * Invariants:
 *  1. A form's functions are called on one thread at a time, in the order begin, admitted, (event |
 *     choice_end)*, with keep_alive at any time after begin, then finish, or for a stream that
 *     fails fail; nothing after the client has gone but the end of the answer.
 *  2. For each choice: events, then one choice_end.
 *  3. Every answer writes one line of the log at its end.
 * Threads: whim_answer_route, whim_answer_thread_active and _list from any thread; the rest on the
 * answer thread, but begin on the route's, and a large answer ends on another one. */
#ifndef WHIM_SERVER_ANSWER_ANSWER_H
#define WHIM_SERVER_ANSWER_ANSWER_H

#include "base/str.h"
#include "server/api.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_answer whim_answer;

/* A token of a choice that no chunk has covered yet, or of an echoed prompt. */
typedef struct whim_answer_token {
    int32_t id;
    bool is_end;
    bool has_logprob;
    float logprob;
    whimbrel_logprob *top; /* [n_top] */
    int32_t n_top;
} whim_answer_token;

typedef struct whim_answer_tokens {
    whim_answer_token *tokens;
    int64_t n, cap;
    int64_t n_byte; /* with their alternatives, as far as memory was taken for them */
} whim_answer_tokens;

/* A part of a choice in the order it was generated. */
typedef struct whim_answer_part {
    whim_chat_event_kind kind; /* REASONING, CONTENT, or CALL_BEGIN for a call */
    whim_str text;             /* of a call: its arguments so far */
    whim_str name;             /* of a call */
    char id[32];               /* of a call: 24 random letters and digits, no prefix */
    bool complete;             /* a call that came to its end; other parts: another part follows */
} whim_answer_part;

typedef struct whim_answer_choice {
    int32_t index;
    whim_answer_part *parts;
    int32_t n_part;
    int64_t cap_part;
    int32_t n_call;
    /* kept when task->ask.logprobs or task->return_token_ids: tokens since the last
     * whim_answer_choice_covered */
    whim_answer_tokens pending;
    int64_t n_made, n_reasoning; /* tokens */
    bool opening_cut;            /* the limit cut a call before it had begun */
    bool ended;
    whim_end end;
    int32_t stop; /* index of the stop string that ended it, or -1 */
} whim_answer_choice;

/* The tokens in `pending` have been sent. */
void whim_answer_choice_covered(whim_answer_choice *c);
/* Joined text of all parts of a kind (REASONING or CONTENT), appended; whether there was any
 * part. */
bool whim_answer_choice_text(const whim_answer_choice *c, whim_chat_event_kind kind, whim_str *out);
/* How a choice came to its end, and the word for it: "stop", "length" or "tool_calls". */
typedef enum whim_finish { WHIM_FINISH_STOP, WHIM_FINISH_LENGTH, WHIM_FINISH_CALLS } whim_finish;
whim_finish whim_answer_choice_finish(const whim_answer_choice *c);
const char *whim_finish_name(whim_finish finish);

typedef struct whim_answer_prompt {
    int64_t n_cached;
    int64_t n_read, started_ns;          /* of it so far; when its first step came */
    int64_t n_predicted, n_mispredicted; /* at the end */
    whim_answer_tokens echo;             /* with prompt_logprobs */
} whim_answer_prompt;

/* A route that generates: how its dialect asks and how it tells an answer. Streaming or not is
 * task->stream; without it only finish and fail write. */
typedef struct whim_answer_form {
    whim_task_reader *read;
    /* The task cannot be prepared: whether this function said so. Optional. */
    bool (*refuse)(const whim_api *api, whim_exchange *ex, const whim_task *task,
                   const whim_fault *fault);
    /* Whether the task asks for nothing that is made, and was answered here. Optional. */
    bool (*reply_at_once)(const whim_api *api, whim_exchange *ex, const whim_task *task);
    const char *id_prefix;   /* "chatcmpl-" */
    const char *stream_type; /* NULL: server-sent events */
    whim_dialect dialect;
    int64_t state_bytes; /* of answer->state, zeroed */
    /* The stream's headers are out: the first events, before prefill. Optional. Only for
     * streams. */
    void (*begin)(whim_answer *a);
    /* n_cached of every prompt is known. Optional. Only for streams. */
    void (*admitted)(whim_answer *a);
    /* More of prompt `p` is read, with task->ask.prompt_progress; the first time when it is
     * admitted. Optional. Only for streams. */
    void (*progress)(whim_answer *a, int32_t p);
    /* c->parts already holds the event; `part` is the part that it began or continued (its text
     * before the event was part->text.len - ev->n bytes long). */
    void (*event)(whim_answer *a, whim_answer_choice *c, whim_answer_part *part,
                  const whim_chat_event *ev);
    void (*choice_end)(whim_answer *a, whim_answer_choice *c); /* only for streams */
    /* Where event and choice_end are whim_answer_item_event and _end: parts are items of the
     * stream, one at a time, the last of which is a->n_item - 1. There is at least one, also where
     * there is no part. Deltas are of REASONING, CONTENT and CALL_ARGS, which join to an object. */
    void (*item_begin)(whim_answer *a, const whim_answer_choice *c);
    void (*item_delta)(whim_answer *a, const whim_answer_choice *c, whim_chat_event_kind kind,
                       const char *text, int64_t n);
    void (*item_end)(whim_answer *a, const whim_answer_choice *c);
    /* All choices ended: the last events of a stream, or the body of a reply into a->out. */
    void (*finish)(whim_answer *a);
    /* After a stream began: the error events. (A reply that fails is written by the core.) */
    void (*fail)(whim_answer *a, const whim_fault *fault);
    void (*keep_alive)(whim_answer *a);
    void (*deinit)(whim_answer *a); /* what state holds; optional */
} whim_answer_form;

struct whim_answer {
    const whim_api *api;
    const whim_answer_form *form;
    whim_exchange *ex;
    whim_task *task;
    void *state;
    char id[48];                 /* id_prefix + 24 random characters */
    int64_t created;             /* seconds since 1970 */
    whim_answer_choice *choices; /* [n_choice] index = prompt * n + j */
    int32_t n_choice;
    whim_answer_prompt *prompts; /* [task->n_prompt] */
    int32_t n_item;              /* begun, in forms with items */
    bool item_open;              /* the last of them */
    whim_str out;                /* scratch of the form: append, then whim_answer_send */
    struct whim_answer_run *run; /* the core's */
};

/* How much of a prompt is read, as llama.cpp tells it: `"prompt_progress":{..}`. */
void whim_answer_put_progress(const whim_answer *a, int32_t p, whim_str *out);

/* Write a->out to the stream as one piece and empty it. Nothing is written once the client is
 * gone. */
void whim_answer_send(whim_answer *a);

/* The part that is the last item, or NULL. */
const whim_answer_part *whim_answer_item_part(const whim_answer *a, const whim_answer_choice *c);
void whim_answer_item_event(whim_answer *a, whim_answer_choice *c, whim_answer_part *part,
                            const whim_chat_event *ev);
void whim_answer_item_end(whim_answer *a, whim_answer_choice *c);

typedef struct whim_usage {
    int64_t n_prompt, n_cached, n_made, n_reasoning;
    int64_t n_predicted, n_mispredicted; /* known at the end */
    int64_t n_proposed, n_right;         /* tokens that were, and those that came; so are they */
} whim_usage;
whim_usage whim_answer_usage(const whim_answer *a);

/* When things happened, for forms that tell it; complete once every request has ended. 0: not
 * known. */
typedef struct whim_answer_times {
    double queue_ms;       /* waiting for a place in the batch */
    double first_token_ms; /* since the request was there */
    double decode_ms;      /* from the first token to the last */
} whim_answer_times;
whim_answer_times whim_answer_get_times(const whim_answer *a);

/* The route: read the task, prepare it, and start its answer, or refuse. */
void whim_answer_route(const whim_api *api, whim_exchange *ex, const whim_answer_form *form);

/* --- the thread ------------------------------------------------------------------------------- */

WHIM_MUST_CHECK whim_err whim_answer_thread_open(whim_log *log, whim_answer_thread **out,
                                                 whim_diag *diag);
int64_t whim_answer_thread_active(whim_answer_thread *answer_thread);
/* What is being answered and what waits, without texts, as JSON; appended. */
void whim_answer_thread_list(whim_answer_thread *answer_thread, whim_str *out);
/* After the jobs' service has ended all of them and every exchange is closed. */
void whim_answer_thread_close(whim_answer_thread *answer_thread);

#endif

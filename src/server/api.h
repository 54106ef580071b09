/* SPDX-License-Identifier: Apache-2.0 */
/* What the routes share: the server-wide context, a task, and the way from one to requests. A route
 * that generates has a form (answer.h), which reads its dialect's fields into a whim_task (messages
 * and tools in the OpenAI form); the rest is whim_answer_route's, which streams or replies from the
 * answer thread.
 * Threads: a whim_api is read-only once the server is ready; a whim_task belongs to one thread at a
 * time. */
#ifndef WHIM_SERVER_API_H
#define WHIM_SERVER_API_H

#include "base/arena.h"
#include "http/http.h"
#include "library/library.h"
#include "server/body/body.h"
#include "server/fault.h"
#include "text/fim.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct whim_answer_thread whim_answer_thread;

/* All borrowed, and outlive the server; but the last ones are the server's. */
typedef struct whim_api {
    whimbrel_model *model; /* it runs */
    const whim_tokenizer *tok;
    int32_t n_vocab;            /* ids from 0 to n_vocab - 1 are legal */
    const char *name;           /* served name */
    const char *fingerprint;    /* "fp_..." */
    int64_t created;            /* start of the server, seconds since 1970 */
    int64_t ctx;                /* longest sequence */
    int64_t n_slot;             /* answers that are made at once */
    whimbrel_sampling sampling; /* defaults of this model and of the flags */
    bool is_penalty_ours;       /* its repetition penalty does not hold at temperature 0 */
    int64_t max_tokens;         /* of any answer; 0: to the context's end */
    bool repetition_detection;  /* answers of chat routes that go in circles end */
    bool strict_model;          /* another model name is a 404 */
    int64_t request_bytes;      /* of memory for what clients send and are sent; 0: any */
    int64_t request_ns;         /* longest time for an answer; 0: any */
    const char *version, *commit, *isa;
    const char *draft, *draft_kind; /* NULL: none proposes */
    bool lookup;                    /* tokens that stood before are proposed */
    const json_t *about; /* the object "whimbrel" of /v1/models: weights, template, sampling ... */
    whim_log *log;
    bool log_content; /* prompts and answers go to the log */
    /* set by the server */
    whim_answer_thread *answer_thread;
    struct whim_response_store *responses; /* server/responses/store.h; NULL: none are kept */
    void (*put_metrics)(void *ctx, whim_str *out); /* the text of /metrics */
    void (*put_history)(void *ctx, whim_str *out); /* of the last hour (metrics/history.h) */
    void *metrics_ctx;
} whim_api;

enum {
    WHIM_MAX_CHOICES = 128, /* prompts times n */
    WHIM_MAX_STOPS = 64,
    WHIM_MAX_STOP_BYTES = 1024,
    WHIM_MAX_TOOLS = 512,
    WHIM_MAX_TOP = 20,         /* top_logprobs */
    WHIM_MAX_ECHOED = 1 << 20, /* what answers repeat of a request, in all: 20 MB of reply */
};

/* What one request of HTTP asks for; each of its prompts becomes one of the library. Made by
 * whim_task_create with the defaults; the routes set fields; texts are borrowed from `body` or from
 * the json values here, which the task owns, and lists are in its arena. */
typedef struct whim_task {
    json_t *body; /* the parsed request */
    whim_arena arena;
    /* all that the library calls the same; without a prompt, tools and schema */
    whimbrel_request_options ask;
    whimbrel_sampling sampling;
    json_t *messages;         /* OpenAI form; NULL: raw prompts */
    json_t *tools;            /* OpenAI form; NULL: none */
    json_t *kwargs;           /* chat_template_kwargs */
    bool new_turn, is_closed; /* see whim_prompt_request */
    whim_tool_choice choice;
    const int32_t *allowed; /* [n_allowed] nothing but these may come; NULL: anything may */
    int32_t n_allowed;
    whim_history_rules *history; /* NULL: none */
    int64_t keep_last;           /* see whim_request_extra, as of the next */
    bool from_front;
    bool is_cut;          /* some of its prompts are */
    json_t *schema;       /* borrowed */
    json_t *schema_read;  /* it, where it came as a text; owned */
    whim_str input_items; /* what a response that is kept was asked (responses/store.h) */
    /* how the client calls these fields, for messages; literals, or in the arena */
    const char *format_at, *schema_at, *tool_schema;
    const char *form_at;     /* the field that says what the answer must look like; NULL: none */
    const char *messages_at; /* of all that is wrong with messages; NULL: "messages[i]..." */
    int32_t *tool_at;  /* [n tools] where each stands in the request's list; NULL: as in `tools` */
    whim_str left_out; /* types of tools that cannot be offered, with commas between them */
    int32_t repetition_detection; /* -1: as the server has it, 0, 1 */
    /* how the answer is written */
    const char *const *told; /* fields of the body that the answer needs, NULL behind them */
    bool stream, include_usage, continuous_usage;
    bool return_token_ids, return_timings;
    bool tokens_as_ids;          /* log-probabilities call tokens token_id:N */
    int64_t n_repeated;          /* tokens and such that its answers repeat of it, in all */
    bool may_take_long;          /* a grammar may be compiled; else the route is put off for it */
    whim_ids *prompts;           /* [n_prompt] made by the route; NULL: messages */
    whimbrel_request **requests; /* [n_prompt] made by whim_task_prepare */
    int32_t n_prompt;
} whim_task;

/* Takes `body` (also on failure). NULL without memory. */
whim_task *whim_task_create(const whim_api *api, json_t *body);
void whim_task_destroy(whim_task *task);

/* Drop what no answer tells again: all of the body but a few fields, messages and template
 * arguments. For a task whose requests are made. */
void whim_task_trim(whim_task *task);

/* How a dialect reads a body into a task; false with the fault set. */
typedef bool whim_task_reader(const whim_api *api, const whim_fields *f, whim_task *task);

/* The exchange's body as a task, read by the dialect; NULL with the fault set. */
whim_task *whim_task_open(const whim_api *api, whim_exchange *ex, whim_task_reader *read,
                          whim_fault *fault);

/* Readers of fields that dialects share; false with the fault set. */
/* `model` (a string; a 404 where strict), `stream`, and ours: sampling, penalties, seed,
 * fields that name tokens, ignore_eos, repetition_detection, min_tokens, skip_special_tokens,
 * return_token_ids, return_timings, regex, choice, priority, chat_template_kwargs. */
bool whim_task_read_common(const whim_api *api, const whim_fields *f, whim_task *task);
/* Parts of it: `model`; sampling, penalties and seed; */
bool whim_task_check_model(const whim_api *api, const whim_fields *f);
bool whim_task_read_sampling(const whim_api *api, const whim_fields *f, whim_task *task);
/* `logit_bias`, `stop_token_ids`, `allowed_token_ids`; what looks back: `bad_words`, `dry_...`. */
bool whim_task_read_tokens(const whim_api *api, const whim_fields *f, whim_task *task);
/* What fills a gap ends where the model goes on behind it: at its marks of another file and of
 * another repository, and at its pad. */
bool whim_task_end_gap(const whim_fields *f, const whim_fim *fim, whim_task *task);
/* Refuse `key` where another field has said already what the answer must look like; else it is
 * that field, and the caller sets form_at where its name is not the key. */
bool whim_task_one_form(const whim_fields *f, const char *key, whim_task *task);
bool whim_task_read_history(const whim_api *api, const whim_fields *f, whim_task *task);
/* A list of non-empty texts without NULs, at most `most` of `max_bytes`; a single text where
 * `single`. */
bool whim_task_read_texts(const whim_fields *f, const char *key, int64_t most, size_t max_bytes,
                          bool single, whim_arena *arena, const char *const **out, int32_t *n_out);
/* A list of texts of which the answer is one. */
bool whim_task_read_words(const whim_fields *f, const char *key, whim_task *task);
/* The fields of other servers (body/foreign.def); part of whim_task_read_common. */
bool whim_foreign_read(const whim_fields *f, whim_task *task);
/* A string, a list of strings, or nothing; `key` is "stop" or "stop_sequences". */
bool whim_task_read_stops(const whim_fields *f, const char *key, whim_task *task);
/* none, minimal, low, medium, high, xhigh, max: sets thinking and effort unless they are NULL. */
bool whim_task_set_effort(const whim_fields *f, const char *key, const char *effort,
                          whim_task *task);
/* Tools in the OpenAI form: takes a reference. Each must have function.name; `f` names the list for
 * messages. An empty list counts as none. */
bool whim_task_set_tools(const whim_fields *f, const char *key, json_t *tools, whim_task *task);
/* The types of a tool's description and strict, in the object where its dialect has them. */
bool whim_task_check_tool(const whim_fields *f);

/* Make task->requests. False with the fault set, also where the route is put off for a grammar,
 * which whim_api_refuse does. */
bool whim_task_prepare(const whim_api *api, whim_task *task, whim_fault *fault);

/* Only the prompt, without grammar and without the check of the context: for counting tokens. */
bool whim_task_render(const whim_api *api, whim_task *task, whim_prompt *out, whim_fault *fault);

/* --- answers that need no job ----------------------------------------------------------------- */

/* Reply, and write the log's line about the request; where the fault says so, put it off
 * instead. */
void whim_api_refuse(const whim_api *api, whim_exchange *ex, const whim_fault *fault);
void whim_api_reply(const whim_api *api, whim_exchange *ex, const whim_str *body);

/* The log's line about a request; `more` (NULL: nothing) ends with a field without a key. */
void whim_request_log(whim_log *log, whim_exchange *ex, int status, const whim_log_field *more);

#endif

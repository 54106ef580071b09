/* SPDX-License-Identifier: Apache-2.0 */
/* What the routes share: the server-wide context, a task, and the steps from one to jobs. A route
 * that generates has a form (answer.h), which reads its dialect's fields into a whim_task (messages
 * and tools in the OpenAI form); the rest is whim_answer_route's, which streams or replies from the
 * answer thread.
 * Threads: a whim_api is read-only once the server is ready; a whim_task belongs to one thread at a
 * time. */
#ifndef WHIM_SERVER_API_H
#define WHIM_SERVER_API_H

#include "base/report/log.h"
#include "chat/prompt.h"
#include "engine/service.h"
#include "http/http.h"
#include "sample/sampler.h"
#include "server/body/body.h"
#include "server/fault.h"
#include "text/tokenizer.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct whim_answer_thread whim_answer_thread;
typedef struct whim_grammar_cache whim_grammar_cache;

/* All borrowed, and outlive the server; but the last ones are the server's. */
typedef struct whim_api {
    whim_service *service;
    const whim_chat_model *chat;
    const whim_tokenizer *tok;
    int32_t n_vocab;                 /* of the model: ids from 0 to n_vocab - 1 are legal */
    const bool *bytes;               /* [256] those that its tokens hold; NULL: all */
    const whim_grammar_vocab *vocab; /* its tokens arranged for grammars */
    const char *model;               /* served name */
    const char *fingerprint;         /* "fp_..." */
    int64_t created;                 /* start of the server, seconds since 1970 */
    int64_t ctx;                     /* longest sequence */
    whim_sample_params sampling;     /* defaults of this model and of the flags */
    bool is_penalty_ours;            /* its repetition penalty does not hold at temperature 0 */
    int64_t max_tokens;              /* of any answer; 0: to the context's end */
    bool repetition_detection;       /* answers of chat routes that go in circles end */
    bool strict_model;               /* another model name is a 404 */
    int64_t request_ns;              /* longest time for an answer; 0: any */
    const char *version, *commit, *isa;
    const json_t *about; /* the object "whimbrel" of /v1/models: weights, template, sampling ... */
    whim_log *log;
    bool log_content; /* prompts and answers go to the log */
    /* set by the server */
    whim_grammar_cache *grammars; /* NULL: none */
    whim_answer_thread *answer_thread;
    void (*put_metrics)(void *ctx, whim_str *out); /* the text of /metrics */
    void *metrics_ctx;
} whim_api;

enum {
    WHIM_MAX_CHOICES = 128, /* prompts times n */
    WHIM_MAX_STOPS = 64,
    WHIM_MAX_STOP_BYTES = 1024,
    WHIM_MAX_TOOLS = 512,
    WHIM_MAX_TOP = 20,         /* top_logprobs */
    WHIM_MAX_ECHOED = 1 << 20, /* log-probabilities of echoed prompts: 20 MB of reply */
};

/* What one request asks the model for, in the server's own terms; each of its prompts becomes a
 * job of the engine. Made by whim_task_create with the defaults; the routes set fields; texts are
 * borrowed from `body` or from the json values here, which the request owns. */
typedef struct whim_task {
    json_t *body; /* the parsed request */
    /* what is asked */
    json_t *messages; /* OpenAI form; NULL: raw prompts */
    json_t *tools;    /* OpenAI form; NULL: none */
    json_t *kwargs;   /* chat_template_kwargs */
    int32_t thinking; /* -1, 0, 1: see chat/prompt.h */
    const char *effort;
    bool new_turn;
    whim_tool_choice choice;
    const char *tool_name;
    bool one_call;
    /* how the answer must look */
    json_t *schema; /* borrowed, as are the texts */
    bool json_object;
    const char *regex;
    const char **words;
    int32_t n_word;
    /* how the client calls these fields, for messages; literals */
    const char *format_at, *schema_at, *tool_schema;
    const char *messages_at; /* of all that is wrong with messages; NULL: "messages[i]..." */
    int32_t *tool_at;  /* [n tools] where each stands in the request's list; NULL: as in `tools` */
    whim_str left_out; /* types of tools that cannot be offered, with commas between them */
    /* how it is sampled and ended */
    whim_sample_params params; /* its bias is owned */
    int32_t n;                 /* choices of each prompt */
    const char **stops;
    int32_t n_stop;
    int32_t *stop_ids;
    int32_t n_stop_id;
    int64_t max_tokens; /* 0: to the context's end; -1: nothing */
    int64_t min_tokens;
    bool ignore_eos, show_special;
    int32_t repetition_detection; /* -1: as the server has it, 0, 1 */
    int32_t prompt_logprobs;      /* -1: none */
    int64_t think_budget;         /* 0: none */
    int32_t priority;
    /* how it is told */
    bool stream, include_usage, continuous_usage;
    bool logprobs; /* of the answer's tokens; the number of alternatives is params.n_logprob */
    bool return_token_ids, return_timings;
    bool may_take_long; /* a grammar may be compiled; else the route is put off for it */
    /* made by whim_task_prepare, or by the route for raw prompts */
    whim_ids *prompts; /* [n_prompt] */
    int32_t n_prompt;
    bool open_think;       /* the prompt leaves reasoning open */
    bool may_reason;       /* the answer may open it */
    bool parse_tools;      /* tool calls are looked for in the answer */
    whim_grammar *grammar; /* NULL: any text */
} whim_task;

/* Takes `body` (also on failure). NULL without memory. */
whim_task *whim_task_create(const whim_api *api, json_t *body);
void whim_task_destroy(whim_task *task);

/* How a dialect reads a body into a task; false with the fault set. */
typedef bool whim_task_reader(const whim_api *api, const whim_fields *f, whim_task *task);

/* The exchange's body as a task, read by the dialect; NULL with the fault set. */
whim_task *whim_task_open(const whim_api *api, whim_exchange *ex, whim_task_reader *read,
                          whim_fault *fault);

/* Readers of fields that dialects share; false with the fault set. */
/* `model` (a string; a 404 where strict), `stream`, and ours: sampling, penalties, seed,
 * logit_bias, ignore_eos, repetition_detection, min_tokens, stop_token_ids, skip_special_tokens,
 * return_token_ids, return_timings, regex, choice, priority, chat_template_kwargs. */
bool whim_task_read_common(const whim_api *api, const whim_fields *f, whim_task *task);
/* A string, a list of strings, or nothing; `key` is "stop" or "stop_sequences". */
bool whim_task_read_stops(const whim_fields *f, const char *key, whim_task *task);
/* none, minimal, low, medium, high, xhigh, max: sets thinking and effort unless they are NULL. */
bool whim_task_set_effort(const whim_fields *f, const char *key, const char *effort,
                          whim_task *task);
/* Tools in the OpenAI form: takes a reference. Each must have function.name; `f` names the list for
 * messages. An empty list is none. */
bool whim_task_set_tools(const whim_fields *f, const char *key, json_t *tools, whim_task *task);
/* The types of a tool's description and strict, in the object where its dialect has them. */
bool whim_task_check_tool(const whim_fields *f);
/* Whether a tool of that name is in task->tools. */
bool whim_task_has_tool(const whim_task *task, const char *name);

/* Messages -> prompt (task->prompts), checked against the context; rule -> grammar. False with the
 * fault set, also where the route must be put off for a grammar, which whim_api_refuse does. */
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

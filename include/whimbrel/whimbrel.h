/* SPDX-License-Identifier: Apache-2.0 */
/* libwhimbrel: open-weight language models inside a program.
 *
 *     whimbrel_model *model = NULL;
 *     whimbrel_request *request = NULL;
 *     const whimbrel_event *event;
 *     whimbrel_error error;
 *     whimbrel_model_options options = {.size = sizeof options, .path = "model.gguf"};
 *     whimbrel_message message = {"user", "Name three birds."};
 *     whimbrel_request_options ask = {.size = sizeof ask, .messages = &message, .n_message = 1};
 *
 *     if (whimbrel_open(&options, &model, &error) != WHIMBREL_OK ||
 *         whimbrel_load(model, &error) != WHIMBREL_OK ||
 *         whimbrel_submit(model, &ask, &request, &error) != WHIMBREL_OK) {
 *         puts(error.text);
 *     }
 *     while ((event = whimbrel_wait(request, -1)) != NULL) {
 *         if (event->kind == WHIMBREL_EVENT_TEXT) {
 *             fwrite(event->text, 1, (size_t)event->n_text, stdout);
 *         }
 *     }
 *     whimbrel_free(request);
 *     whimbrel_close(model);
 *
 * Rules that hold everywhere:
 *  - A call that can fail returns a status, and says in `error` (which may be NULL) what was wrong.
 *    It prints nothing, reads no environment, catches no signal and never ends the process, except
 *    for a bug of the library's own, which says where it is on stderr and aborts.
 *  - The only global state is what was found out about the machine. Models know nothing of each
 *    other, and there may be several.
 *  - A field `size` is the sizeof of its struct. Every other field of options may stay zero, which
 *    means the default. Fill whimbrel_sampling by whimbrel_get_sampling and then change it, because
 *    zeros mean something there.
 *  - Programs that were built with an older header keep working: new fields come at the end of
 *    structs with a size, of whimbrel_info and of whimbrel_event, new values at the end of enums.
 *    The other structs (errors, messages, biases, log-probabilities, parts of a plan, usage) never
 *    grow.
 *  - Texts are UTF-8, and end with a NUL unless a length stands beside them. The caller never frees
 *    what an event or an info points to.
 *  - The same request gives the same answer, whatever else runs beside it.
 *
 * Threads: a model may be used by many threads at once, from whimbrel_load until whimbrel_close
 * (which are called by one thread while no other call is under way). A request belongs to one
 * thread at a time; only whimbrel_cancel may come from any. Steps run on threads of the model's
 * own. */
#ifndef WHIMBREL_WHIMBREL_H
#define WHIMBREL_WHIMBREL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WHIMBREL_API __attribute__((visibility("default")))
#else
#define WHIMBREL_API
#endif

typedef struct whimbrel_model whimbrel_model;
typedef struct whimbrel_request whimbrel_request;

/* --- errors ----------------------------------------------------------------------------------- */

typedef enum whimbrel_status {
    WHIMBREL_OK,
    WHIMBREL_INVALID,     /* what was asked for makes no sense */
    WHIMBREL_NO_MEMORY,   /* an allocation failed */
    WHIMBREL_NO_FIT,      /* the model does not fit the memory, or the prompt the context */
    WHIMBREL_IO,          /* a file cannot be read */
    WHIMBREL_CORRUPT,     /* a file is damaged, or a model computes no numbers */
    WHIMBREL_NOT_FOUND,   /* there is no such file, backend or level */
    WHIMBREL_UNSUPPORTED, /* it is of a kind that this version does not know */
    WHIMBREL_FULL,        /* beyond a limit, as of a template; or the request was ended */
    WHIMBREL_BUSY,        /* somebody else has it */
    WHIMBREL_DEVICE,      /* the device failed */
} whimbrel_status;

typedef struct whimbrel_error {
    whimbrel_status status;
    char field[128]; /* the field that is wrong, such as "messages[2].content"; "": none */
    char text[2048]; /* one sentence for a person: what was wrong, expected, to be done */
} whimbrel_error;

/* "malformed data" and the like; and the version of the library, such as "0.1.0". */
WHIMBREL_API const char *whimbrel_status_text(whimbrel_status status);
WHIMBREL_API const char *whimbrel_version(void);

/* --- a model ---------------------------------------------------------------------------------- */

typedef struct whimbrel_model_options {
    size_t size;
    const char *path; /* a .gguf file, or a folder with config.json and *.safetensors */
    bool ids_only;    /* leave tokenizer and chat template alone: prompts and answers are ids */
    const char *chat_template; /* a file instead of the model's own template */
    const char *template_args; /* what every prompt tells it: {"enable_thinking":false} */
    int32_t max_parallel;      /* answers made at once; 0: 32, or what recurrent states leave */
    int64_t context;           /* longest prompt with its answer; 0: the model's, or what fits */
    int64_t kv_bytes;          /* memory for keys and values; 0: by context and max_parallel */
    const char *kv_type;       /* "f32", "bf16", "f16", "q8"; NULL: f32 of F32 models, else bf16 */
    bool take_memory;          /* take that memory at the start, not as it is used */
    int32_t threads;           /* 0: one for each core */
    int64_t max_step_tokens;   /* tokens that go through the model at once; 0: 512 */
    const char *backend;       /* "cpu", "cuda:1"; NULL: a GPU that can have the model, or "cpu" */
    const char *isa;           /* a level of the CPU; NULL: the best */
    /* Called by several threads while weights load. */
    void (*progress)(void *ctx, int64_t done, int64_t total);
    void *progress_ctx;
    /* Called when a request that had no event gets one, for loops that also wait for other
     * things. The call comes from a thread of the model, must be quick, and must not call the
     * library. */
    void (*wake)(void *ctx);
    void *wake_ctx;
    /* Do not propose tokens from earlier in a text where it repeats itself. Answers are the
     * same, but come later. */
    bool no_lookup;
    /* Folder or GGUF file of a small model that proposes tokens, likewise, or "mtp" for the layer
     * in the model's own files; NULL: PATH/draft, or NAME.draft beside NAME.gguf, if there is one
     * and it can be used (else whimbrel_info says why not); "": none. */
    const char *draft;
    const char *draft_type; /* "q8_0", "q4_0" or "file": its matrices when loaded; NULL: q4_0 */
} whimbrel_model_options;

/* Read all but the weights, and plan the memory. What cannot be used is refused here. */
WHIMBREL_API whimbrel_status whimbrel_open(const whimbrel_model_options *options,
                                           whimbrel_model **out, whimbrel_error *error);

/* Read the weights, and start. NO_FIT when the plan is larger than the memory. After this or any
 * other failure, only whimbrel_close may follow. */
WHIMBREL_API whimbrel_status whimbrel_load(whimbrel_model *model, whimbrel_error *error);

/* After all requests were freed. NULL is allowed. */
WHIMBREL_API void whimbrel_close(whimbrel_model *model);

/* A part of the memory plan. */
typedef struct whimbrel_plan_part {
    const char *name;   /* "weights" */
    const char *detail; /* "packed for cpu i8mm" */
    int64_t bytes;
} whimbrel_plan_part;

typedef struct whimbrel_info {
    const char *name;         /* the last part of the path, without .gguf */
    const char *architecture; /* "llama" */
    const char *weights;      /* the type that most of them have: "Q4_1" */
    const char *device;       /* a line about the processor and what is used of it */
    const char *backend, *isa;
    int64_t n_parameter;
    int32_t n_vocab;       /* ids go from 0 to n_vocab - 1 */
    int64_t context;       /* longest prompt with its answer */
    int64_t model_context; /* what the model was made for */
    bool has_text;         /* there is a tokenizer */
    bool has_template;     /* and a chat template: messages can be answered */
    bool reasons;          /* the template knows <think> */
    const char *sampling;  /* who recommends it: "generation_config.json" */
    const whimbrel_plan_part *plan;
    int32_t n_plan;
    int64_t plan_bytes, free_bytes; /* the plan's sum, and the memory that there is */
    const char *draft;              /* the last part of its path, without .gguf; NULL: none */
    const char *draft_kind;         /* "dflash" */
    const char *draft_unused;       /* why one beside the model is not used; NULL: it is */
} whimbrel_info;

/* From open to close. */
WHIMBREL_API const whimbrel_info *whimbrel_get_info(const whimbrel_model *model);

/* The [n] bytes of a token, not always whole characters; n is 0 when there is no such token. NULL
 * where there is no tokenizer. */
WHIMBREL_API const char *whimbrel_token_text(const whimbrel_model *model, int32_t id, int64_t *n);

/* --- how tokens are chosen -------------------------------------------------------------------- */

typedef struct whimbrel_logit_bias {
    int32_t id;
    float bias; /* -100 to 100, added to the token's logit */
} whimbrel_logit_bias;

typedef struct whimbrel_sampling {
    size_t size;
    float temperature;        /* 0: always the likeliest */
    int32_t top_k;            /* 0: off */
    float top_p;              /* 1: off */
    float min_p;              /* 0: off */
    float repetition_penalty; /* 1: off; over prompt and answer */
    float presence_penalty;   /* 0: off; over the answer, as is the next */
    float frequency_penalty;
    const whimbrel_logit_bias *bias; /* [n_bias] */
    int32_t n_bias;
    uint64_t seed;
    /* XTC: at a token, with this probability, those that are at least as likely as the threshold
     * are left out, but for the least likely of them. */
    float xtc_probability; /* 0: off */
    float xtc_threshold;   /* usual: 0.1 */
} whimbrel_sampling;

/* What the model's makers recommend, with a seed of its own for every call. Set `size` before: so
 * much is written, and without it nothing. */
WHIMBREL_API void whimbrel_get_sampling(const whimbrel_model *model, whimbrel_sampling *sampling);

/* --- a request -------------------------------------------------------------------------------- */

typedef struct whimbrel_message {
    const char *role; /* "system", "user", "assistant", "tool" */
    const char *content;
} whimbrel_message;

typedef enum whimbrel_thinking {
    WHIMBREL_THINKING_USUAL, /* as the model's template has it */
    WHIMBREL_THINKING_OFF,
    WHIMBREL_THINKING_ON,
} whimbrel_thinking;

/* What options point to must live until the request is started, by whimbrel_submit or
 * whimbrel_start. */
typedef struct whimbrel_request_options {
    size_t size;
    /* The prompt, one of these four: messages, which go through the chat template; the same as the
     * JSON list that the OpenAI API has, with its parts, tool calls and results; plain text, which
     * is continued; token ids, likewise. */
    const whimbrel_message *messages;
    int32_t n_message;
    const char *messages_json;
    const char *text;
    const int32_t *ids;
    int64_t n_id;
    /* With messages. */
    const char *tools_json;    /* a JSON list as the OpenAI API has it: what the answer may call */
    bool must_call;            /* the answer is nothing but calls */
    const char *template_args; /* a JSON object; goes before that of the model */
    whimbrel_thinking thinking;
    int64_t think_budget; /* reasoning is ended after so many tokens of it; 0: when it ends */
    /* What the answer is held to, at most one; reasoning before it stays free. */
    const char *schema_json; /* a JSON Schema */
    bool json_object;        /* any JSON object */
    const char *regex;
    const char *const *words; /* [n_word] one of these texts */
    int32_t n_word;
    /* How tokens are chosen; NULL: whimbrel_get_sampling. */
    const whimbrel_sampling *sampling;
    int32_t n_choice; /* answers to the one prompt; 0: 1 */
    /* When an answer ends, beside the model's own end. */
    const char *const *stops; /* [n_stop] texts that end it, and are not in it */
    int32_t n_stop;
    int64_t max_tokens; /* 0: as many as the context holds; -1: none, for prompt_logprobs */
    int64_t min_tokens;
    bool ignore_end; /* continue after the model's own end */
    bool may_repeat; /* continue when it has said the same for 2048 tokens */
    /* Log-probabilities: of every token, with the top_logprobs likeliest ones in its place. */
    bool logprobs;
    int32_t top_logprobs; /* at most 100 */
    bool prompt_logprobs; /* the same for the prompt */
    int32_t prompt_top_logprobs;
    /* More of the above. */
    const char *effort;      /* what the template is told of how long to think: "low"; or NULL */
    const char *tool_name;   /* with must_call: only this one */
    bool one_call;           /* an answer ends after its first call */
    const int32_t *stop_ids; /* [n_stop_id] tokens that end an answer, beside the model's own */
    int32_t n_stop_id;
    bool show_special; /* special tokens are text, too */
    /* Who goes first where requests wait for each other. */
    uint64_t client;  /* work is shared out evenly between these; 0 is one like others */
    int32_t priority; /* lower goes first among the requests of its client */
    /* A text that the answer will mostly be, for speed: the answer is the same without it. */
    const char *prediction;
    /* One more thing that the answer can be held to: a grammar, GBNF, with a rule "root". */
    const char *grammar;
    bool prompt_progress; /* PROGRESS events, so that somebody sees a long prompt being read */
} whimbrel_request_options;

/* Make a request: render, tokenise, compile what the answer is held to, and refuse what is wrong
 * about it. NO_FIT: the prompt is longer than the context. The model need not be loaded. */
WHIMBREL_API whimbrel_status whimbrel_prepare(whimbrel_model *model,
                                              const whimbrel_request_options *options,
                                              whimbrel_request **out, whimbrel_error *error);

/* Queue it. */
WHIMBREL_API whimbrel_status whimbrel_start(whimbrel_request *request, whimbrel_error *error);

/* Both in one. */
WHIMBREL_API whimbrel_status whimbrel_submit(whimbrel_model *model,
                                             const whimbrel_request_options *options,
                                             whimbrel_request **out, whimbrel_error *error);

/* The prompt as tokens. */
WHIMBREL_API const int32_t *whimbrel_prompt_ids(const whimbrel_request *request, int64_t *n);

/* End every answer of it within a step, with what was made (WHIMBREL_END_CANCELLED); one that is
 * not started yet ends when it is. From any thread. NULL is allowed. */
WHIMBREL_API void whimbrel_cancel(whimbrel_request *request);

/* Give it back; one that has not ended is dropped. NULL is allowed. */
WHIMBREL_API void whimbrel_free(whimbrel_request *request);

/* --- events ----------------------------------------------------------------------------------- */

/* After a TOKEN comes what it completes: pieces of REASONING and TEXT, and of calls. Before an END
 * comes what its `text` says. */
typedef enum whimbrel_event_kind {
    WHIMBREL_EVENT_STARTED,      /* its first step comes: n_cached tokens need not be computed */
    WHIMBREL_EVENT_PROMPT_TOKEN, /* a token of the prompt, with prompt_logprobs */
    WHIMBREL_EVENT_REASONING,    /* a piece of what the model thinks, without its tags */
    WHIMBREL_EVENT_TEXT,         /* a piece of the answer */
    WHIMBREL_EVENT_CALL,         /* a whole call of a tool: `name`, and arguments as `text` */
    WHIMBREL_EVENT_TOKEN,        /* a token; `text`: what the model wrote, tags and all */
    WHIMBREL_EVENT_END,          /* of one answer; `text`: the rest of what it wrote */
    WHIMBREL_EVENT_DONE,         /* the last event: `usage` */
    WHIMBREL_EVENT_FAILED,       /* the last event: `status`, and `text` says why */
    WHIMBREL_EVENT_CALL_BEGIN,   /* a call begins, of the tool `text`; a CALL comes at its end */
    WHIMBREL_EVENT_CALL_TEXT,    /* a piece of its arguments */
    WHIMBREL_EVENT_PROGRESS, /* with prompt_progress: `position` tokens of the prompt are read */
} whimbrel_event_kind;

typedef enum whimbrel_end {
    WHIMBREL_END_MODEL,      /* the model ended it, or a token of `stop_ids` came */
    WHIMBREL_END_STOP,       /* a text of `stops` came, or the call of `one_call` was whole */
    WHIMBREL_END_LENGTH,     /* max_tokens */
    WHIMBREL_END_CONTEXT,    /* the context is full */
    WHIMBREL_END_MEMORY,     /* the memory for keys and values is full */
    WHIMBREL_END_CANCELLED,  /* whimbrel_cancel */
    WHIMBREL_END_REPETITION, /* it went round in a circle */
} whimbrel_end;

typedef struct whimbrel_logprob {
    int32_t id;
    float logprob;
} whimbrel_logprob;

typedef struct whimbrel_usage {
    int64_t n_prompt, n_cached; /* tokens of the prompt, and those that were known already */
    int64_t n_made;             /* tokens of all answers */
    double prompt_s, made_s;    /* seconds to the first token, and from there to the end */
} whimbrel_usage;

/* Fields that the kind does not name are zero. */
typedef struct whimbrel_event {
    whimbrel_event_kind kind;
    int32_t choice;   /* which of n_choice */
    const char *text; /* [n_text] whole characters, and a NUL behind them; never NULL */
    int64_t n_text;
    const char *name; /* CALL */
    int32_t id;       /* TOKEN, PROMPT_TOKEN */
    int64_t position; /* PROMPT_TOKEN: its place in the prompt; PROGRESS */
    bool has_logprob; /* TOKEN, PROMPT_TOKEN; the first of a prompt has none */
    float logprob;
    const whimbrel_logprob *top; /* [n_top] the likeliest first */
    int32_t n_top;
    whimbrel_end end; /* END */
    int32_t stop;     /* END: the place in `stops`; -1: it was something else */
    whimbrel_status status;
    int64_t n_cached; /* STARTED, DONE */
    whimbrel_usage usage;
    bool is_end;     /* TOKEN: it ended the answer, and has no text */
    bool is_thought; /* TOKEN: reasoning was open when it came */
    bool is_cut;     /* END: inside the opening of a call, of which nothing was told */
    /* DONE: tokens of the prediction that the answers have, and those that they have not */
    int64_t n_predicted, n_mispredicted;
} whimbrel_event;

/* The next event, which lives until the next call for this request; NULL when there is none now,
 * after the last, and where there is no request (NULL). `wait` waits for one, at most so many
 * milliseconds (-1: any time). */
WHIMBREL_API const whimbrel_event *whimbrel_next(whimbrel_request *request);
WHIMBREL_API const whimbrel_event *whimbrel_wait(whimbrel_request *request, int64_t timeout_ms);

/* "eos", "stop", "length", "context", "context", "interrupt", "repetition": the memory is told as
 * the context, and what was cancelled as an interrupt. "unknown": no such end. */
WHIMBREL_API const char *whimbrel_end_name(whimbrel_end end);

#ifdef __cplusplus
}
#endif

#endif

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
 *    It prints nothing, reads no environment, catches no signal and never ends the process, with
 *    one exception: on a bug of its own the library says on stderr where it is, and aborts.
 *  - The only global state is what is known about the machine. There may be several models; they
 *    know nothing of each other.
 *  - A field `size` is the sizeof of its struct. Every other field of options may stay zero, which
 *    means the default. Fill whimbrel_sampling by whimbrel_get_sampling and then change it, because
 *    zeros mean something there.
 *  - Programs that were built with an older header keep working: new fields come at the end of
 *    structs with a size, of whimbrel_info and of whimbrel_event, new values at the end of enums.
 *    The other structs (errors, messages, biases, log-probabilities, parts of a plan, usage) never
 *    grow.
 *  - Texts are UTF-8, and end with a NUL unless a length is given with them. The caller never
 *    frees what an event or an info points to.
 *  - The same request gives the same answer, whatever else runs beside it.
 *
 * Threads: a model may be used by many threads at once, from whimbrel_load until whimbrel_close
 * (which one thread calls while no other call is running). A request belongs to one thread at a
 * time; only whimbrel_cancel may come from any. Steps run on the model's own threads. */
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
    WHIMBREL_UNSUPPORTED, /* a kind that this version does not know */
    WHIMBREL_FULL,        /* a limit was exceeded, as of a template; or the request ended */
    WHIMBREL_BUSY,        /* something else uses it */
    WHIMBREL_DEVICE,      /* the device failed */
} whimbrel_status;

typedef struct whimbrel_error {
    whimbrel_status status;
    char field[128]; /* the field that is wrong, such as "messages[2].content"; "": none */
    char text[2048]; /* a sentence for a person: what was wrong, what to do */
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
    const char *template_args; /* its variables for every prompt: {"enable_thinking":false} */
    int32_t max_parallel;      /* answers at once; 0: 32, or fewer with recurrent states */
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
    /* If a text repeats itself, do not propose tokens from earlier in it. Answers are the same,
     * but come later. */
    bool no_lookup;
    /* Folder or GGUF file of a small model that proposes tokens, likewise, or "mtp" for the layer
     * in the model's own files; NULL: PATH/draft, or NAME.draft next to NAME.gguf, if there is
     * one that can be used (else whimbrel_info says why not); "": none. */
    const char *draft;
    const char *draft_type; /* "q8_0", "q4_0" or "file": its matrices when loaded; NULL: q4_0 */
} whimbrel_model_options;

/* Read everything except the weights, and plan the memory. What cannot be used is refused here. */
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
    bool reasons;          /* the template knows words around reasoning */
    const char *sampling;  /* where it comes from: "generation_config.json" */
    const whimbrel_plan_part *plan;
    int32_t n_plan;
    int64_t plan_bytes, free_bytes; /* the plan's sum, and the memory that there is */
    const char *draft;              /* the last part of its path, without .gguf; NULL: none */
    const char *draft_kind;         /* "dflash" */
    const char *draft_unused;       /* why one next to the model is not used; NULL: it is */
} whimbrel_info;

/* From open to close. */
WHIMBREL_API const whimbrel_info *whimbrel_get_info(const whimbrel_model *model);

/* The [n] bytes of a token, not always whole characters; n is 0 if there is no such token. NULL
 * if there is no tokenizer. */
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
    /* XTC: for each token, with this probability, all candidates at least as likely as the
     * threshold are excluded, except the least likely of them. */
    float xtc_probability; /* 0: off */
    float xtc_threshold;   /* usual: 0.1 */
} whimbrel_sampling;

/* What the model's makers recommend, with another seed for every call. Set `size` first: only
 * so many bytes are written, and none without it. */
WHIMBREL_API void whimbrel_get_sampling(const whimbrel_model *model, whimbrel_sampling *sampling);

/* --- a request -------------------------------------------------------------------------------- */

typedef struct whimbrel_message {
    const char *role; /* "system", "user", "assistant", "tool" */
    const char *content;
} whimbrel_message;

typedef enum whimbrel_thinking {
    WHIMBREL_THINKING_USUAL, /* as the model's template does it */
    WHIMBREL_THINKING_OFF,
    WHIMBREL_THINKING_ON,
} whimbrel_thinking;

/* What options point to must live until the request is started, by whimbrel_submit or
 * whimbrel_start. */
typedef struct whimbrel_request_options {
    size_t size;
    /* The prompt, in one of four forms: messages, which the chat template renders; messages as the
     * JSON list of the OpenAI API, with parts, tool calls and results; plain text to continue;
     * token ids to continue. */
    const whimbrel_message *messages;
    int32_t n_message;
    const char *messages_json;
    const char *text;
    const int32_t *ids;
    int64_t n_id;
    /* With messages. */
    const char *tools_json;    /* what the answer may call, as a JSON list of the OpenAI API */
    bool must_call;            /* the answer has only calls */
    const char *template_args; /* a JSON object; overrides that of the model */
    whimbrel_thinking thinking;
    int64_t think_budget; /* the most tokens of reasoning; 0: no limit */
    /* What the answer must match, at most one; reasoning before it stays free. */
    const char *schema_json; /* a JSON Schema */
    bool json_object;        /* any JSON object */
    const char *regex;
    const char *const *words; /* [n_word] one of these texts */
    int32_t n_word;
    /* How tokens are chosen; NULL: whimbrel_get_sampling. */
    const whimbrel_sampling *sampling;
    int32_t n_choice; /* answers to the one prompt; 0: 1 */
    /* When an answer ends, in addition to the model's own end. */
    const char *const *stops; /* [n_stop] texts that end it, and are not in it */
    int32_t n_stop;
    int64_t max_tokens; /* 0: as many as fit in the context; -1: none, for prompt_logprobs */
    int64_t min_tokens;
    bool ignore_end; /* continue after the model's own end */
    bool may_repeat; /* continue even if it has repeated itself for 2048 tokens */
    /* Log-probabilities: of every token, with the top_logprobs likeliest ones in its place. */
    bool logprobs;
    int32_t top_logprobs; /* at most 100 */
    bool prompt_logprobs; /* the same for the prompt */
    int32_t prompt_top_logprobs;
    /* More of the above. */
    const char *effort;      /* how long to think, for the template: "low"; or NULL */
    const char *tool_name;   /* with must_call: only this one */
    bool one_call;           /* an answer ends after its first call */
    const int32_t *stop_ids; /* [n_stop_id] more tokens that end an answer */
    int32_t n_stop_id;
    bool show_special; /* special tokens are text, too */
    /* Which request goes first if several wait. */
    uint64_t client;  /* clients share the work evenly; 0 is one like others */
    int32_t priority; /* lower goes first among the requests of its client */
    /* A text that the answer will mostly be, for speed: the answer is the same without it. */
    const char *prediction;
    /* Another form that the answer can match: a grammar in GBNF, with a rule "root". */
    const char *grammar;
    bool prompt_progress; /* PROGRESS events while a long prompt is read */
} whimbrel_request_options;

/* Make a request: render, tokenise, compile what the answer must match, and refuse what is wrong.
 * NO_FIT: the prompt is longer than the context. The model need not be loaded. */
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

/* End all its answers within a step, with what was made (WHIMBREL_END_CANCELLED). A request that is
 * not started yet ends when it is. From any thread. NULL is allowed. */
WHIMBREL_API void whimbrel_cancel(whimbrel_request *request);

/* Give it back; one that has not ended is dropped. NULL is allowed. */
WHIMBREL_API void whimbrel_free(whimbrel_request *request);

/* --- events ----------------------------------------------------------------------------------- */

/* A TOKEN comes before what it completes: pieces of REASONING, TEXT and calls. What the `text`
 * of an END says comes before the END. */
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
    WHIMBREL_END_REPETITION, /* it repeated itself in a cycle */
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
    bool is_cut;     /* END: inside the opening of a call, which no event shows */
    /* DONE: tokens of the prediction that the answers have, and those that they do not have */
    int64_t n_predicted, n_mispredicted;
} whimbrel_event;

/* The next event, which lives until the next call for this request; NULL if there is none now,
 * after the last, and if the request is NULL. `wait` waits for one, at most this many milliseconds
 * (-1: without limit). */
WHIMBREL_API const whimbrel_event *whimbrel_next(whimbrel_request *request);
WHIMBREL_API const whimbrel_event *whimbrel_wait(whimbrel_request *request, int64_t timeout_ms);

/* "eos", "stop", "length", "context", "context", "interrupt", "repetition": a full memory
 * has the name of a full context, and a cancelled answer is an interrupt. "unknown": no such
 * end. */
WHIMBREL_API const char *whimbrel_end_name(whimbrel_end end);

#ifdef __cplusplus
}
#endif

#endif

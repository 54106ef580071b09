/* SPDX-License-Identifier: Apache-2.0 */
/* Many requests at once on one engine: a thread that plans, steps, chooses and turns into text, and
 * the calls by which other threads give it work and take the results.
 *
 * A submitted request is a job with n choices. What happens to it comes as events in its own queue;
 * `wake` is called (on the service's thread, quickly) when a queue that was empty has something.
 *
 * Invariants:
 *  1. Every job that submit accepted ends with exactly one WHIM_JOB_DONE or WHIM_JOB_FAILED, the
 *     last event.
 *  2. A choice's text, ids and log-probabilities depend on its request alone, not on what else
 *     runs.
 *  3. Text comes in whole characters, and never a part of a stop string.
 *  4. One bad job never ends the service.
 * Threads: create, drain and destroy from the owner; whim_job_next from the job's one reader; all
 * else from any thread. */
#ifndef WHIM_ENGINE_SERVICE_H
#define WHIM_ENGINE_SERVICE_H

#include "base/err.h"
#include "base/report/log.h"
#include "base/str.h"
#include "engine/ends.h"
#include "engine/engine.h"
#include "engine/meters.h"
#include "grammar/grammar.h"
#include "sample/sampler.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_service whim_service;
typedef struct whim_job whim_job;

/* Up to `max` tokens that may follow the n tokens of a request; returns how many. */
typedef int64_t (*whim_propose_fn)(void *ctx, const int32_t *tokens, int64_t n, int32_t *out,
                                   int64_t max);

typedef struct whim_service_cfg {
    whim_engine *engine;       /* loaded; borrowed, as are the others */
    const whim_tokenizer *tok; /* NULL: ids only, no text and no stop strings */
    const int32_t *stop_ids;   /* ids that end an answer */
    int32_t n_stop_id;
    int64_t max_seqs, max_step_tokens, max_outs; /* as the engine was opened with */
    /* longest prompt with its answer; the last token of one is never fed, so this may be one more
     * than the engine's context; 0: that */
    int64_t ctx;
    int64_t max_waiting;      /* requests (choices) waiting; 0: 128 */
    int64_t max_queued_bytes; /* of one job's events; a slower reader is cancelled; 0: 4 MiB */
    const char *kv_dir;       /* disk tier, NULL: none */
    bool kv_dir_may_fail;     /* a folder that cannot be used is one line in the log */
    const char *kv_space;     /* what its pages depend on */
    const char *kv_about;     /* the model's name, for who looks into the folder; NULL: none */
    int64_t kv_dir_bytes;     /* its limit; 0: whim_disk_tier_cfg.max_bytes */
    int64_t save_ns;          /* for saving what is left at the end; 0: 20 s */
    int64_t fetch_ns;         /* for a prompt's pages: a slow disk delays none longer; 0: 2 s */
    whim_meters *meters;      /* what it counts in; outlives it; NULL: nowhere that anybody looks */
    bool no_lookup;           /* propose nothing that stood in a text before */
    bool no_draft;            /* leave the model's draft alone */
    whim_propose_fn propose;  /* where proposals come from instead; NULL: lookup and draft */
    void *propose_ctx;
    bool propose_all;      /* for tests and timings: all that is found, whatever it costs */
    int64_t plan_pause_ns; /* for tests: a pause before every plan */
    /* for tests: what a step of so many rows is said to have taken; NULL: it is timed */
    int64_t (*step_ns)(int64_t n_row);
    whim_log *log;
} whim_service_cfg;

WHIM_MUST_CHECK whim_err whim_service_create(const whim_service_cfg *cfg, whim_service **out,
                                             whim_diag *diag);

/* Refuse new jobs from now on; running ones continue. */
void whim_service_drain(whim_service *service);

/* Whether all that was computed for requests that have ended lies on the disk, or failed to come
 * there: it is written when nothing else is to be done. */
bool whim_service_is_saved(const whim_service *service);

/* Whether it does that, or ends. */
bool whim_service_is_draining(whim_service *service);

/* Whether ranks were lost and are being started again; who asks has to wait for that. */
bool whim_service_is_apart(const whim_service *service);

/* Why no further step can be run: its device is lost, which a new process may have again. NULL:
 * it is there. Any thread. */
const char *whim_service_lost(const whim_service *service);

/* Longest prompt with its answer: as cfg says, or what the pages hold if that is less. */
int64_t whim_service_ctx(const whim_service *service);

/* Jobs that have not ended. */
int64_t whim_service_active(const whim_service *service);

/* End all jobs that are left (WHIM_JOB_FAILED; times.reason STOPPING), stop the
 * thread, save the tree to disk. */
void whim_service_destroy(whim_service *service);

/* Monotonic time of the last sign of life of the loop: before each step, and every 100 ms when
 * idle. */
int64_t whim_service_heartbeat_ns(const whim_service *service);

/* What the loop is at, for a watchdog's last words: reads plain numbers without locks, so that it
 * works when the loop hangs. */
void whim_service_describe(const whim_service *service, whim_str *out);

/* --- jobs ------------------------------------------------------------------------------------- */

typedef struct whim_job_cfg {
    const int32_t *prompt; /* copied, as are the others */
    int64_t n_prompt;
    int32_t n_choice;          /* >= 1 */
    whim_sample_params params; /* with bias; seed set */
    const char *const *stops;
    int32_t n_stop;
    const int32_t *stop_ids; /* beside the model's */
    int32_t n_stop_id;
    int64_t max_tokens;   /* 0: until the context is full; -1: none (fill the cache, or echo) */
    int64_t min_tokens;   /* end tokens are masked before */
    int64_t max_repeated; /* tokens of one cycle that end an answer (sample/repetition.h); 0: any */
    const int32_t *allowed; /* [n_allowed] nothing but these may come; NULL: anything may */
    int32_t n_allowed;
    bool ignore_eos;
    bool show_special;    /* special tokens as text */
    const int32_t *shown; /* [n_shown] those that are text in any case */
    int32_t n_shown;
    int32_t prompt_logprobs; /* -1: none; k >= 0: of every prompt token, with k alternatives */
    bool tell_progress;      /* events of how much of the prompt is read */
    bool think_open;         /* the prompt leaves reasoning open */
    int64_t think_budget;    /* 0: none; else, when so many tokens came while reasoning is open, */
    const char *think_end;   /* this text is forced */
    const struct whim_think_words *think_words; /* around reasoning, static; NULL: <think> */
    const int32_t *prediction; /* [n_prediction] what the answer will mostly be; changes no token */
    int64_t n_prediction;
    whim_grammar *grammar;           /* a reference is taken; NULL: any text */
    const whim_grammar_vocab *vocab; /* with a grammar; outlives the service */
    int32_t priority;                /* lower goes first among its client's requests */
    bool priority_among_all;         /* and among those of all clients */
    uint64_t client;                 /* fairness is between these */
    int64_t received_ns;             /* when the request began to come, for the metrics; 0: now */
    int64_t deadline_ns;             /* monotonic; 0: none */
    char id[136];                    /* for the log */
    void (*wake)(void *ctx, whim_job *job);
    void *wake_ctx;
} whim_job_cfg;

/* The n >= 1 prompts of one request, all or none: out[n]. Where nothing waits they are accepted
 * however many they are. FULL: the queue is, or the service is draining; NO_FIT: a prompt does not
 * fit the context or the KV memory; INVALID: it is empty or has an id outside the vocabulary, or a
 * sampling parameter is out of range. The caller holds one reference on each and gives it back by
 * release. */
WHIM_MUST_CHECK whim_err whim_service_submit(whim_service *service, const whim_job_cfg *cfgs,
                                             int32_t n, whim_job **out, whim_diag *diag);

/* Ends within one step; the job's last event still comes. A job that has ended is left alone. */
void whim_job_cancel(whim_job *job, whim_job_reason why);

/* End one choice here as if it had met a stop (a caller that has seen enough of it). */
void whim_job_stop_choice(whim_job *job, int32_t choice);

typedef enum whim_job_event_kind {
    WHIM_JOB_ADMITTED,     /* n_cached is known; before the first step of the job */
    WHIM_JOB_PROMPT_TOKEN, /* prompt log-probabilities, in order; index in `position` */
    WHIM_JOB_PROGRESS,     /* with tell_progress: so many tokens of the prompt are read */
    /* a chosen token (end tokens too) with the text that it completes, maybe none */
    WHIM_JOB_TOKEN,
    WHIM_JOB_CHOICE_END, /* with the rest of the text that was held back */
    WHIM_JOB_DONE,
    WHIM_JOB_FAILED,
} whim_job_event_kind;

typedef struct whim_job_logprob {
    int32_t id;
    float logprob;
} whim_job_logprob;

typedef struct whim_job_event {
    whim_job_event_kind kind;
    int32_t choice;
    int32_t id;       /* TOKEN, PROMPT_TOKEN */
    bool is_end;      /* TOKEN: it ended the answer and has no text */
    int64_t position; /* PROMPT_TOKEN: index in the prompt; PROGRESS: tokens */
    const char *text; /* [n_text] and a NUL; TOKEN, CHOICE_END */
    int64_t n_text;
    bool has_logprob; /* false for the first prompt token */
    float logprob;
    const whim_job_logprob *top; /* [n_top] */
    int32_t n_top;
    whim_end end; /* CHOICE_END */
    int32_t stop; /* CHOICE_END: index of the stop string, -1: none */
    /* FAILED; INVALID: the request does not fit the model, and the message is for the client */
    whim_err err;
    const char *message;
    const char
        *detail; /* FAILED: what went wrong, as the log says it, or ""; lives as long as the job */
    int64_t n_cached; /* ADMITTED, DONE */
} whim_job_event;

/* The next event, or false when there is none now. Pointers live until the next call for this job.
 * One reader. */
bool whim_job_next(whim_job *job, whim_job_event *out);

/* Times and counts (monotonic ns; 0: did not happen). To be asked for after the last event, not
 * before. */
typedef struct whim_job_times {
    int64_t submitted, admitted, first_token, ended;
    int64_t n_prompt, n_cached, n_made; /* n_made: of all choices */
    int64_t n_predicted;                /* tokens of all choices that were as predicted */
    int64_t n_proposed, n_right;        /* and those that were proposed, and right */
    int64_t n_block;                    /* blocks of proposals; those of 4 rows, and their right */
    int64_t n_four, n_four_right;
    whim_job_reason reason;
} whim_job_times;
whim_job_times whim_job_get_times(const whim_job *job);

/* How far it is, at any time and from any thread that holds a reference. */
typedef struct whim_job_look {
    bool is_running;   /* it was in a step; else it waits for its first */
    int64_t n_prompt;  /* tokens of its prompt, */
    int64_t n_cached;  /* those that were known before, */
    int64_t n_read;    /* and those that are read, cached ones too */
    int64_t n_made;    /* tokens of all choices */
    int64_t submitted; /* monotonic ns */
} whim_job_look;
whim_job_look whim_job_look_at(const whim_job *job);

/* Give the reference back; a job that has not ended is cancelled. */
void whim_job_release(whim_job *job);

/* --- what it has done so far: for metrics ----------------------------------------------------- */

typedef struct whim_service_stats {
    whim_sched_stats sched;
    int64_t n_step, step_ns, busy_ns; /* busy: in steps and around them while there was work */
    int64_t n_ahead; /* steps that were under way before the one before them was taken */
    int64_t n_proposed, n_right; /* tokens that were proposed, and those that came */
    int64_t n_prompt_tokens, n_cached_tokens, n_made_tokens;
    int64_t n_jobs, n_done, n_failed, n_cancelled, n_refused;
    int64_t page_bytes;
    int64_t disk_bytes, disk_errors, disk_hit_tokens;
    int64_t disk_lost; /* written since the start, and gone again to make room */
    int64_t disk_written, disk_read, disk_dropped, disk_refused; /* pages and states */
    int64_t disk_limit;                                          /* bytes, of all models */
} whim_service_stats;
/* Never waits for the loop. */
whim_service_stats whim_service_get_stats(whim_service *service);

/* What the ranks of its model have counted, into their meters. Nor does this. */
void whim_service_look_ranks(const whim_service *service, whim_meters *meters);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the service share: a job with its choices and its queue of events, and the
 * service itself.
 * Threads: unless a comment says otherwise, fields belong to the service's thread. */
#ifndef WHIM_ENGINE_SERVICE_INNER_H
#define WHIM_ENGINE_SERVICE_INNER_H

#include "base/arena.h"
#include "base/str.h"
#include "base/thread.h"
#include "draft/follow.h"
#include "draft/width.h"
#include "engine/service/group.h"
#include "engine/service/queue.h"
#include "sample/repetition.h"
#include "sample/stop.h"
#include "text/detokenizer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* How far the budget of an answer's reasoning is used up. */
typedef struct whim_think {
    int64_t n_opener; /* tokens of what opens it that came last */
    bool open;        /* it reasons */
    int64_t n_before; /* tokens that came before it did */
    int64_t n_forced; /* tokens of think_end that were forced */
    bool over;        /* it has ended, or has no budget */
} whim_think;

/* One answer of a job. */
struct whim_choice {
    whim_job *job;
    int32_t index;
    whim_group *group;   /* whose scheduler it was given to */
    whim_sched_req *req; /* NULL: not in the scheduler */
    int32_t *tokens;     /* [cap_tok] the prompt, then what was made */
    int64_t n_made, max_tok, cap_tok;
    whim_detokenizer detok;
    whim_stop stop;
    whim_repetition repetition;
    whim_grammar_state *grammar; /* NULL: any text */
    uint32_t *mask;              /* [n_mask_word] what may come next; NULL: never masked */
    bool is_mask_made;           /* it is that of the coming token already */
    int32_t n_apart;             /* steps of it that were lost with a rank */
    int64_t n_asked;             /* proposals of the step under way whose rows may be taken */
    int64_t n_prompt_told;       /* prompt tokens whose log-probabilities were reported */
    whim_think think;
    whim_lookup lookup;          /* where its tokens stood before */
    whim_follow follow;          /* where it stands in the job's prediction */
    whim_hits hits;              /* how often proposals were right */
    whim_hits draft_hits;        /* the same of the draft's */
    bool by_draft;               /* what is found is the draft's */
    float sure[WHIM_WIDTH_MOST]; /* and the chance that it gives each */
    int32_t found[WHIM_WIDTH_MOST];
    int64_t n_found; /* tokens that may come next */
    int64_t n_sure;  /* the first of them, that nothing else may come than */
    int64_t last_ns; /* when its last token was made; 0: none yet */
    bool let_in;     /* it waits no more: the scheduler has fed it */
    bool ended;
    atomic_bool enough; /* any thread: end it here */
};

struct whim_job {
    atomic_int refs;
    whim_service *service; /* not after the job has ended */
    whim_job *next;        /* in the intake, then in the list of active jobs */
    whim_arena arena;      /* copies of what the caller gave, and the choices */
    whim_job_cfg cfg;
    whim_sample_params prompt_params; /* of rows that tell log-probabilities of the prompt */
    const int32_t *forced;            /* [n_forced] think_end as tokens */
    int64_t n_forced;
    const int32_t *opener; /* [n_opener] what opens reasoning that has a budget */
    int64_t n_opener;
    int32_t closer;        /* what ends it, one token in every published vocabulary */
    uint32_t *allowed;     /* [n_mask_word] cfg.allowed as bits; NULL: anything may come */
    whim_lookup predicted; /* where runs of the prediction stand */
    whim_choice *choices;  /* [cfg.n_choice] */
    int32_t n_ended;
    whim_queue_place place; /* under the service's lock */
    bool admitted, followed;
    bool lost; /* memory ran out for an event: there are no more but the last */
    whim_job_times times;
    atomic_int cancel; /* any thread: whim_job_reason */
    /* any thread may look: tokens of the prompt that were known (-1: not admitted yet) and that are
     * read, and tokens that were made */
    atomic_llong n_known, n_read, n_said;
    const char *unfit; /* why the request cannot be answered by this model, or NULL; a literal */
    whim_diag trouble; /* what went wrong, as the log says it */
    /* The queue: the service writes `pending`, the reader takes it whole and reads it from
     * `reading`. */
    pthread_mutex_t lock;
    whim_str pending; /* under lock */
    bool reader_idle; /* under lock: the reader found nothing and waits for `wake` */
    /* under lock: comes after all of `pending`. It needs no memory then, so it always comes */
    whim_job_event last;
    bool has_last;
    whim_str reading; /* the reader's */
    int64_t read_at;
};

/* Who brings proposals to the next plan. */
typedef struct whim_drafts {
    int64_t n;
    /* [n_group * max_seqs], groups in order */
    whim_choice **choices;
    whim_width_ask *asks;
    int64_t *widths;
    /* of the model's draft: NULL: it has none */
    const whim_draft_config *model;
    whim_hits hits, draft_hits; /* of all requests, of late: lookup's and the draft's */
    whim_step_costs costs;      /* of its passes */
    int64_t spent_ns;           /* on passes since the last step was taken */
    int32_t n_failed;           /* passes in a row with which ranks were lost */
    bool asked;                 /* it has said what it can for the next plan */
    whim_proposal *wanted;      /* [n_group * max_seqs] */
} whim_drafts;

struct whim_service {
    whim_service_cfg cfg;
    whim_arena arena; /* its arrays */
    whim_runner *runner;
    const whim_config *config;
    int64_t ctx;
    bool has_few_pages; /* they, and not the engine, end a long answer */
    int32_t n_group;
    whim_group *groups;    /* [n_group] */
    whim_step_part *parts; /* [n_group * max_seqs] of a step */
    bool has_disk;         /* pages go there */
    whim_job *active;      /* newest first */
    int64_t n_mask_word;
    int64_t n_begun, n_taken;           /* steps so far: submitted, taken */
    int64_t begun_ns[WHIM_EXEC_FLIGHT]; /* when those under way were, in turns */
    bool goes_ahead;                    /* the runner takes a second one */
    bool proposes, has_states;
    whim_drafts drafts;
    whim_step_costs costs; /* of steps without prompt rows */
    whim_str piece, shown;
    whim_sampled sampled;
    whim_job_logprob top[WHIM_MAX_LOGPROBS];
    int64_t ns_per_row;           /* of recent steps, for the size of the next */
    int64_t step_end_ns;          /* of the step whose results are taken */
    int64_t woken_ns;             /* when there was something to do again */
    int64_t rate_ns, rate_tokens; /* when the rate was last set, and the tokens until then */
    whim_meters *meters;
    whim_meters own_meters;    /* if none were given */
    whim_service_stats counts; /* so far; what others count is put in when it is published */

    whim_thread thread;
    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t more;
    whim_job *intake_first, *intake_last;
    bool stopping, draining;
    whim_queue queue;

    atomic_llong stats[sizeof(whim_service_stats) / sizeof(int64_t)]; /* as last published */

    atomic_bool is_apart; /* ranks are lost */
    atomic_bool is_lost;  /* the device is; `lost` is written before */
    whim_diag lost;
    atomic_bool rejoins;  /* they are being started again */
    int64_t rejoin_at_ns; /* when that failed: the next attempt */
    atomic_bool is_saved; /* all that was new in the trees lies on the disk */
    atomic_llong heartbeat_ns, n_step, n_active, n_refused, n_jobs; /* any thread */
    atomic_llong step_rows, step_items; /* of the step under way, 0: none */
};

/* --- counting (meters.c): on the service's thread, after the step --------------------- */

void whim_service_count_admitted(whim_service *service, const whim_job *job);
void whim_service_count_step(whim_service *service, int64_t n_item, int64_t n_row,
                             int64_t n_prefill, int64_t took_ns);
/* Of n proposals of a choice the first n_right were right. */
void whim_service_count_block(whim_service *service, int64_t n, int64_t n_right);
/* How fast tokens come, updated once a second; called often. */
void whim_service_count_rate(whim_service *service);
/* A token of the choice; sets the time of the job's first. */
void whim_choice_count(whim_choice *choice);
/* The job is over: its times are complete. */
void whim_service_count_ended(whim_service *service, const whim_job *job, bool ok);

/* --- jobs (job.c) --------------------------------------------------------------------- */

WHIM_MUST_CHECK whim_err whim_job_create(whim_service *service, const whim_job_cfg *cfg,
                                         whim_job **out, whim_diag *diag);

/* The reason to cancel a job for which something went wrong. */
whim_job_reason whim_job_failure(whim_err err);

/* Memory ran out for something that its reader must have: nothing more is put in its queue, and it
 * fails. */
void whim_job_lose(whim_job *job);

/* Put an event in the job's queue; texts and tops are copied. Where memory runs out the job is
 * lost. */
void whim_job_push(whim_job *job, const whim_job_event *event);

/* The last event: DONE, or FAILED with a message; counts it. The service's reference goes. */
void whim_job_finish(whim_job *job, whim_err err, const char *message);

/* --- what the rows of a choice are asked for (ask.c) ---------------------------------- */

/* Whether the token ends the answer, whatever else does. */
bool whim_choice_ends_by(const whim_choice *choice, int32_t id);

/* Keep the grammar and the reasoning's end in step with the token that came after n_made others.
 * False when the grammar does not have it; nothing has changed then. */
bool whim_choice_walk(whim_choice *choice, int64_t n_made, int32_t id);

/* Before a step that chooses: what is asked for, with the mask of the coming token in asks[0], and
 * in asks[i] for the one after the first i of the n proposals that stand behind its tokens. Their
 * masks are in `masks`. All is valid until the choice is made. Sets n_asked: the rows of proposals
 * beyond ask for nothing. */
void whim_choice_prepare(whim_choice *choice, int64_t n, uint32_t *masks, whim_sample_ask *asks);

/* Of n proposals in ids [max] those that the answer may continue with, and tokens that must come in
 * their place or behind them; returns how many, the first *n_sure of which cannot be wrong. One
 * that ends the answer needs no row and is left out. */
int64_t whim_choice_cut(whim_choice *choice, int32_t *ids, int64_t n, int64_t max, int64_t *n_sure);

/* For the rows of a prompt whose log-probabilities are wanted: asks[i] for the row of position
 * at + i. */
void whim_choice_prepare_prompt(const whim_choice *choice, int64_t at, int64_t n,
                                whim_sample_ask *asks);

/* Whether its next choice asks for nothing that this one decides, so that a step can follow before
 * its token is known here; what that step is asked for; and whether the token that is being chosen
 * is the last, whatever it is. */
bool whim_choice_may_follow(const whim_choice *choice);
void whim_choice_prepare_next(const whim_choice *choice, whim_sample_ask *ask);
bool whim_choice_is_last(const whim_choice *choice);

/* --- choices (choice.c) --------------------------------------------------------------- */

WHIM_MUST_CHECK whim_err whim_choice_init(whim_choice *choice, whim_job *job, int32_t index);
void whim_choice_deinit(whim_choice *choice);

/* Room for n tokens, or for all that may come. False: there is no memory. */
bool whim_choice_reserve(whim_choice *choice, int64_t n);

/* After it: take the token of output `out` of the step, report, and set `ended` when that was the
 * last one. An error means that the logits make no sense, or that the request does not fit the
 * model (job->unfit). */
WHIM_MUST_CHECK whim_err whim_choice_pick(whim_choice *choice, int64_t out, int32_t *token,
                                          whim_diag *diag);

/* So many tokens of it have been fed: say how much of the prompt is read. */
void whim_choice_fed(whim_choice *choice, int64_t n_tok);

/* Report log-probabilities of prompt tokens from rows [out, out + n) that begin at position
 * `at`. */
void whim_choice_prompt_rows(whim_choice *choice, int64_t out, int64_t at, int64_t n);

/* Say that it is over and what text was held back. */
void whim_choice_end(whim_choice *choice, whim_end end);

/* --- service.c -------------------------------------------------------------------------------- */

/* Let readers see what was counted by now. */
void whim_service_publish(whim_service *s);

#endif

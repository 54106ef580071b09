/* SPDX-License-Identifier: Apache-2.0 */
/* A request, as the files of the library see it. */
#ifndef WHIM_LIBRARY_REQUEST_IMPL_H
#define WHIM_LIBRARY_REQUEST_IMPL_H

#include "library/model_impl.h"

#include <stdatomic.h>

/* An event that came out of a job's: where its texts are in `texts`. */
typedef struct whim_piece {
    whimbrel_event_kind kind;
    int32_t choice;
    int64_t text, n_text, name;
} whim_piece;

/* One answer under way. */
typedef struct whim_reply {
    whimbrel_request *request;
    int32_t choice;
    whim_chat_parser *parser; /* NULL: all of it is text */
    whim_str name, arguments; /* of the call under way */
    bool closed;              /* it has its one call: later ones are not reported */
} whim_reply;

struct whimbrel_request {
    whimbrel_model *model;
    whim_job_cfg cfg; /* with texts of the caller until it is started */
    whim_ids prompt, prediction;
    json_t *tools;
    whim_grammar *grammar;
    bool has_turns;  /* the prompt went through the chat template */
    bool open_think; /* and leaves reasoning open */
    bool open_name;  /* it ends where the name of whom the answer is for begins */
    bool only_calls, one_call;
    whim_reply *replies;     /* [cfg.n_choice] */
    _Atomic(whim_job *) job; /* NULL: not started; any thread, as is the next */
    atomic_bool cancelled;
    /* events that wait: the pieces and `event`, which is the first of them where it is a token */
    whim_piece *pieces;
    int64_t n_piece, cap_piece, at_piece;
    whim_str texts;
    bool has_event;
    bool is_over; /* the last event was handed out */
    bool lost;    /* memory ran out for an event */
    whimbrel_event event, shown;
};

/* After prepare: a parser for each answer. */
WHIM_MUST_CHECK whim_err whim_replies_open(whimbrel_request *request);
void whim_replies_close(whimbrel_request *request);

#endif

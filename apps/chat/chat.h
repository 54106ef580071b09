/* SPDX-License-Identifier: Apache-2.0 */
/* The state of one `whimbrel chat`, shared by its files: cmd_chat.c (flow), source.c (a model or a
 * server), joined.c (a server's answers), turn.c (one answer), commands.c (lines that begin with
 * /), input.c (reading lines), rows.c (their rows on the screen), view.c (the screen), prose.h
 * (answers in rows and styles).
 * Threads: the main thread. */
#ifndef WHIM_APPS_CHAT_CHAT_H
#define WHIM_APPS_CHAT_CHAT_H

#include "ask.h"
#include "chat/conversation.h"
#include "chat/prose.h"
#include "client/address.h"
#include "serve/serve.h"

/* --- the screen ------------------------------------------------------------------------------- */

typedef struct chat_view {
    bool terminal; /* standard output is one: notes are shown, control characters are not sent */
    bool color;
    bool wraps;     /* rows end between words */
    prose prose;    /* what is shown on a terminal */
    uint8_t style;  /* what was switched on last */
    bool in_answer; /* the text under way is one, or its reasoning */
    bool thought;   /* which */
    bool at_start;  /* the next character begins a line */
    bool failed;    /* standard output takes no more */
} chat_view;

/* Must not move afterwards. */
void view_init(chat_view *view);
void view_deinit(chat_view *view);

/* A whole text in a style. */
void view_text(chat_view *view, uint8_t style, const char *text, int64_t n);

/* A piece of an answer, with its Markdown, or of the reasoning before it. What is held back of it
 * comes with the next piece or with view_break. */
void view_piece(chat_view *view, bool thought, const char *text, int64_t n);

/* Begin a new line unless at the start of one. */
void view_break(chat_view *view);

/* A dim line for the user, on a terminal only. */
void view_note(chat_view *view, const char *fmt, ...) WHIM_PRINTF(2, 3);

/* A line that is an answer to a command: always shown. */
void view_say(chat_view *view, const char *fmt, ...) WHIM_PRINTF(2, 3);

/* A complaint: on standard error when standard output is no terminal. */
void view_error(chat_view *view, const char *fmt, ...) WHIM_PRINTF(2, 3);

/* While an answer comes, keys are not echoed. */
void view_quiet_keys(chat_view *view, bool quiet);

/* --- input ------------------------------------------------------------------------------------ */

typedef struct chat_input chat_input;

typedef enum chat_line {
    CHAT_LINE,      /* there is one */
    CHAT_INTERRUPT, /* Ctrl-C: the line was dropped */
    CHAT_EOF,
} chat_line;

/* Line editing when standard input and output are a terminal that can do it, else plain lines. */
WHIM_MUST_CHECK whim_err input_open(const chat_view *view, chat_input **out);
void input_close(chat_input *input);

/* One message: a line, or several after a trailing backslash or between lines of """ . `text` is
 * replaced. */
chat_line input_read(chat_input *input, whim_str *text);

/* A line on the screen, as the line editor drew it. */
typedef struct edited {
    const char *prompt;
    const char *text, *cursor, *end;
} edited;

/* Rows between the first one of the prompt and the cursor, when it was drawn in `width` columns,
 * every row a line of its own, and the terminal has then broken these lines at `new_width`. */
int32_t edited_rows_above(const edited *e, int32_t width, int32_t new_width);

/* --- where answers come from ------------------------------------------------------------------ */

/* A server that answers instead of a model of our own (joined.c). {0} is none. */
typedef struct joined {
    server_address address;
    char url[512];
    key_list keys;
    server_model model;
    json_t *params; /* what its requests say of sampling, by the names of the API */
} joined;

/* The chat. */
typedef struct chat {
    const whim_options *options;
    char path[MODEL_PATH_MAX]; /* of the model */
    whimbrel_model *model;     /* NULL: a server answers */
    const whimbrel_info *info; /* of the model */
    joined server;
    int64_t context; /* longest conversation; 0: the server does not tell */
    sampling sampling;
    form form;
    json_t *conv; /* see conversation.h */
    chat_view view;
    bool quit;
    bool failed; /* the exit status is not 0 */
} chat;

/* How many messages there are. */
static inline int64_t chat_size(const chat *c)
{
    return (int64_t)json_array_size(c->conv);
}

/* Join the server that the options name, or one that runs here, or load a model (source.c). False
 * after a complaint. */
bool chat_open(chat *c);
void chat_close(chat *c);

/* Lines about what answers. */
void chat_banner(chat *c);

/* Let another model answer, of the joined server or of our own; the conversation stays, and so does
 * the model when the other one cannot be had. */
void chat_switch(chat *c, const char *name);

/* --- joined.c --------------------------------------------------------------------------------- */

/* `option` gave the URL. `name` is the model to ask for, NULL: the first. The reason is in `diag`
 * where it fails. */
WHIM_MUST_CHECK whim_err joined_open(joined *j, const whim_options *options, const char *option,
                                     const char *url, const char *name, whim_diag *diag);
void joined_close(joined *j);

/* Ask for this model of the same server from now on. NOT_FOUND: `names` are those that it has. */
WHIM_MUST_CHECK whim_err joined_choose(joined *j, const char *name, whim_str *names,
                                       whim_diag *diag);

/* As set_param of sampling.h. */
bool joined_set_param(joined *j, const char *name, const char *value, whim_diag *diag);
void joined_append_params(const joined *j, whim_str *out);

/* As ask of ask.h: the conversation's next answer. */
whimbrel_status joined_ask(const chat *c, ask_event_fn *fn, void *ctx, asked *out,
                           whimbrel_error *error);

/* --- turn.c, commands.c ----------------------------------------------------------------------- */

/* Answer the conversation, whose last message is the user's, and append the answer. When there is
 * none (it does not fit, the template refuses) that is told and the conversation stays. */
void chat_answer(chat *c);

/* Do a line that begins with "/". */
void chat_command(chat *c, const char *line);

#endif

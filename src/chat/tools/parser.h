/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the parser of answers: its state, and what the forms of calls share. Bytes go one by one
 * through the stage of reasoning, then either through the text around calls (chat_parser.c) or
 * through the parser of the call's form (object.c, named.c, tags.c, python.c). Answers that are
 * messages with headers go through channels.c alone, with their reasoning.
 *
 * A call is sent (CALL_BEGIN) as soon as its name is known and its arguments begin. Until then its
 * bytes are kept in `raw`, and come out as content if they turn out not to be a call. */
#ifndef WHIM_CHAT_TOOLS_PARSER_H
#define WHIM_CHAT_TOOLS_PARSER_H

#include "base/str.h"
#include "base/utf8.h"
#include "chat/format.h"
#include "chat/reasoning.h"
#include "chat/tools/json_walk.h"

enum { WHIM_TAG_MAX = 64, WHIM_WORD_MAX = 256 };

/* Turns the inside of a JSON string into its characters. */
typedef struct whim_unescape {
    char held[16]; /* an escape that is not whole, or half of a pair */
    int32_t n;
} whim_unescape;

typedef struct whim_object_call {
    int32_t state;
    bool in_list;
    whim_json_walk walk;
    int32_t n_key;
    char key[16];
    int32_t role;         /* of the value at work */
    bool has_name, begun; /* the name is whole; the arguments have begun */
    whim_str name;
    whim_str pending; /* arguments that wait for the name */
    whim_unescape unescape;
    whim_json_walk inner; /* arguments that were written as a string */
} whim_object_call;

typedef struct whim_named_call {
    int32_t state;
    bool ended; /* what closes the call has come */
    whim_json_walk walk;
    int32_t marked; /* where arguments in a spelling of their own are (marked.c) */
    whim_str name;
} whim_named_call;

typedef struct whim_tag_call {
    int32_t state;
    bool first;            /* no parameter was sent yet */
    bool at_start;         /* of a value: nothing of it came yet */
    bool streaming;        /* the value is a string and being sent */
    bool wrapped;          /* it is a text up to an end of its own */
    bool repeated;         /* the parameter came before: this value is dropped */
    bool as_text, as_json; /* its tag says so */
    uint32_t types;
    whim_json_walk walk; /* whether the value may be JSON */
    whim_str name, key, value;
    whim_str seen; /* the keys so far, each between line ends */
} whim_tag_call;

typedef struct whim_python_call {
    int32_t state;
    whim_json_walk walk; /* the arguments as JSON */
    char quote;          /* of the text at work, or none */
    bool escaped;        /* a backslash came before */
    bool comma;          /* one came, and waits for what it is before */
    int32_t n_word;      /* of True and the like, or of an escape with digits */
    char word[16];
    whim_str name, key;
} whim_python_call;

typedef struct whim_channels {
    int32_t state;
    whim_json_walk walk;       /* the arguments of a call */
    bool fresh;                /* nothing of this message was sent yet */
    bool reasoned, has_spoken; /* there was an earlier message of that kind */
    whim_str name;
} whim_channels;

struct whim_chat_parser {
    whim_chat_parser_cfg cfg;
    whim_reasoning split;
    whim_chat_event_fn *fn; /* of the push at work */
    void *ctx;
    whim_str out; /* text of out_kind to be sent at the end of the push */
    whim_chat_event_kind out_kind;
    int32_t n_call;
    bool in_call, sent;
    bool any_sent;   /* this call, or one before it behind the same opening tag */
    bool after_call; /* no content since the last call */
    bool close_owed; /* a call ended or broke without its closing tag */
    whim_str raw;    /* bytes that are not decided yet */
    int32_t n_tag;   /* bytes after those that may begin a tag */
    char tag[WHIM_TAG_MAX];
    bool said; /* there was content that is no white space */
    whim_object_call object;
    whim_named_call named;
    whim_tag_call call;
    whim_python_call python;
    whim_channels channels;
};

/* --- chat_parser.c --- */
void whim_tool_emit(whim_chat_parser *p, whim_chat_event_kind kind, const char *bytes, int64_t n);

/* The next byte of the answer behind its reasoning, in a call or not. */
void whim_tool_text(whim_chat_parser *p, char c);

/* What was kept is content. */
void whim_tool_release(whim_chat_parser *p);

/* Keep a byte that is not decided; false when there is no room, and then it is not kept. */
bool whim_tool_hold(whim_chat_parser *p, const char *bytes, int64_t n);

/* Which of the tags the held bytes and c begin: its number when it is whole, -1 when it is not
 * whole yet, -2 for none. NULL tags are passed over. In the first two cases c is held. */
int whim_tool_match(whim_chat_parser *p, const char *const *tags, int n, char c);

/* The held bytes and c begin no tag: `first` takes the first of them, and `step` looks at the rest,
 * which may still begin one. */
typedef void whim_tool_byte_fn(whim_chat_parser *p, char c);
void whim_tool_again(whim_chat_parser *p, char c, whim_tool_byte_fn *first,
                     whim_tool_byte_fn *step);

/* The call begins: its name goes out, and what was kept is forgotten. */
void whim_tool_send(whim_chat_parser *p, const char *name, int64_t n);

/* The call is complete. */
void whim_tool_end(whim_chat_parser *p);

/* This is no call, or no longer one: what was kept is content, and the held bytes and c are text
 * again. */
void whim_tool_break(whim_chat_parser *p, char c);

/* A tag that ends with c is whole, and waits with what came before it; false: there is no room, and
 * the call is broken. */
bool whim_tool_keep_tag(whim_chat_parser *p, const char *tag, char c);

/* The call's closing tag came: on with the text. */
void whim_tool_leave(whim_chat_parser *p);

/* --- the forms: start at the opening tag, or at the one of a function; step takes a byte --- */
void whim_object_start(whim_chat_parser *p, bool at_function);
void whim_object_step(whim_chat_parser *p, char c);
void whim_named_start(whim_chat_parser *p, bool at_function);
void whim_named_step(whim_chat_parser *p, char c);
/* A byte of a call's arguments as JSON; false: it cannot come. */
bool whim_named_argument(whim_chat_parser *p, char c);
/* The same for arguments whose texts stand between marks: a byte as it was written. */
void whim_marked_step(whim_chat_parser *p, char c);
void whim_tag_call_start(whim_chat_parser *p, bool at_function);
void whim_tag_call_step(whim_chat_parser *p, char c);
void whim_tag_call_finish(whim_chat_parser *p);
void whim_python_start(whim_chat_parser *p, bool at_function);
void whim_python_step(whim_chat_parser *p, char c);

/* --- channels.c: an answer that is messages with headers --- */
void whim_channels_step(whim_chat_parser *p, char c);
void whim_channels_finish(whim_chat_parser *p);
bool whim_channels_in_reasoning(const whim_chat_parser *p);
bool whim_channels_in_opening(const whim_chat_parser *p);

/* --- types.c --- */
enum {
    WHIM_TYPE_STRING = 1,
    WHIM_TYPE_NUMBER = 2,
    WHIM_TYPE_BOOLEAN = 4,
    WHIM_TYPE_NULL = 8,
    WHIM_TYPE_OBJECT = 16,
    WHIM_TYPE_ARRAY = 32,
};
/* The JSON types that a tool's parameter may have, 0 when nothing says so. */
uint32_t whim_tool_types(const json_t *tools, const char *name, const char *key);
/* The function of a name among the tools, or NULL. */
const json_t *whim_tool_function(const json_t *tools, const char *name);

/* The same for any part of the schema `root`, and for a value. */
uint32_t whim_schema_types(const json_t *root, const json_t *schema);
uint32_t whim_schema_type_of(const json_t *value);
/* What a schema's "$ref" into `root` leads to, itself without one; NULL: nothing. */
const json_t *whim_schema_resolve(const json_t *root, const json_t *schema);

#endif

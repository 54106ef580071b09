/* SPDX-License-Identifier: Apache-2.0 */
/* How a model writes tool calls. The parser of answers, the grammars that hold an answer to calls
 * and prompts that repeat them all go by these words.
 * Threads: plain data. */
#ifndef WHIM_MODELS_TOOL_WORDS_H
#define WHIM_MODELS_TOOL_WORDS_H

#include <stdbool.h>

typedef enum whim_tool_form {
    WHIM_TOOLS_OBJECT,   /* a JSON object with the name and the arguments */
    WHIM_TOOLS_NAMED,    /* the name between tags, then the arguments as a JSON object */
    WHIM_TOOLS_TAGGED,   /* tags for the name and for every argument */
    WHIM_TOOLS_PYTHON,   /* a list of calls as Python has them */
    WHIM_TOOLS_CHANNELS, /* an answer is messages with headers; a call's names its function */
} whim_tool_form;

enum { WHIM_N_VALUE_END = 5 };

/* Words that a form does not have are NULL. */
typedef struct whim_tool_words {
    const char *name; /* of these words, for people */
    whim_tool_form form;
    /* A made-up call, as templates print it, has this in it; $ stands for its name, and white space
     * counts nowhere. */
    const char *mark;
    bool tight;              /* it counts after all: there is none between tags */
    bool thoughts_hold_tags; /* a tag inside of reasoning is part of it and begins no call */
    /* For the parser. Without `open` and `function` an answer that begins as an object (or as a
     * list, in forms that have one) is a call, if its name is one of the tools'. */
    const char *open, *close;
    const char *prefix;   /* may stand before such an answer, as `close` may, and is dropped */
    bool list;            /* objects are in a list */
    const char *fence;    /* OBJECT: stands behind `open`, with white space as it comes */
    const char *name_key; /* OBJECT: the key of a call's name; NULL: "name" */
    bool named_by_key;    /* OBJECT: the name is the only key, and its value the arguments */
    const char *function, *function_end; /* the first one goes up to the name */
    const char *name_end;                /* NAMED, or TAGGED with `value`: behind the name */
    const char *name_begin;              /* NAMED: before the name, behind an id of the call */
    /* NAMED: `function` stands before whatever is spoken to somebody, in the prompt already, and
     * this name means the user. A call is only what has the name of a tool. NULL: not so. */
    const char *said;
    const char *call_id; /* NAMED: an id of the call may follow it, up to name_end */
    /* NAMED: texts of the arguments stand between two of these, and their keys bare; the name ends
     * at the brace. NULL: arguments are JSON. */
    const char *quote;
    const char *parameter, *parameter_end;
    /* TAGGED: where the key has an end tag and the value a tag of its own; the name of the function
     * then ends where the next tag begins. */
    const char *key_end, *value;
    /* TAGGED: behind a key, where the tag itself says whether its value is text or JSON. */
    const char *as_text, *as_json;
    /* TAGGED: a value that begins with the first continues, whatever it holds, up to the second. */
    const char *text_open, *text_end;
    bool padded; /* one newline at either end of a value belongs to the tags */
    /* What ends a value: its end tag with the newline and without, and tags at the beginning of a
     * line that show that it is missing. */
    const char *value_ends[WHIM_N_VALUE_END];
    /* As models write them, with their white space; none holds a single quote or a backslash. */
    struct {
        const char *call, *call_end;           /* around each call, or around all of them */
        bool around_all;                       /* the latter */
        const char *between;                   /* two calls */
        const char *function, *function_close; /* around the name */
        const char *function_end;
        const char *key, *key_close; /* around the key */
        const char *json_close;      /* the latter where a value is JSON; NULL: the same */
        const char *value_end, *after;
    } written;
} whim_tool_words;

#endif

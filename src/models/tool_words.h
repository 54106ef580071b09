/* SPDX-License-Identifier: Apache-2.0 */
/* How a model writes tool calls. The parser of answers, the grammars that hold an answer to calls
 * and prompts that repeat them all go by these words.
 * Threads: plain data. */
#ifndef WHIM_MODELS_TOOL_WORDS_H
#define WHIM_MODELS_TOOL_WORDS_H

#include <stdbool.h>

typedef enum whim_tool_form {
    /* a JSON object between two tags; also for models that have no form of their own */
    WHIM_TOOLS_HERMES,
    WHIM_TOOLS_XML,    /* tags for the function and for every parameter, the name in the tag */
    WHIM_TOOLS_INVOKE, /* the same, the name as a quoted attribute, all calls in one pair of tags */
} whim_tool_form;

enum { WHIM_N_VALUE_END = 5 };

/* Words that a form does not have are NULL. */
typedef struct whim_tool_words {
    whim_tool_form form;
    const char *mark;        /* a template that prints calls so has it in its source */
    bool thoughts_hold_tags; /* a tag inside of reasoning is part of it and begins no call */
    /* For the parser. */
    const char *open, *close;
    const char *function, *function_end; /* the first one goes up to the name */
    const char *parameter, *parameter_end;
    bool padded; /* one newline at either end of a value belongs to the tags */
    /* What ends a value: its end tag with the newline and without, and tags at the beginning of a
     * line that show that it is missing. */
    const char *value_ends[WHIM_N_VALUE_END];
    /* As models write them, with their white space; none holds a single quote or a backslash. */
    struct {
        const char *call, *call_end;           /* around each call, or around all of them */
        bool around_all;                       /* the latter */
        const char *function, *function_close; /* around the name */
        const char *function_end;
        const char *key, *key_close; /* around the key */
        const char *value_end, *after;
    } written;
} whim_tool_words;

#endif

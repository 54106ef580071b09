/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the grammar of an answer: the part that is the calls (answer_calls.c), and arguments
 * (answer_values.c). What goes wrong fails the builder. */
#ifndef WHIM_CHAT_ANSWER_IMPL_H
#define WHIM_CHAT_ANSWER_IMPL_H

#include "chat/format.h"
#include "grammar/impl.h"

typedef struct whim_answer {
    const whim_answer_rule *rule;
    whim_grammar_builder *b;
    /* -1: not made yet */
    whim_grammar_node free_text; /* of a parameter between tags */
    int32_t marked_rule;         /* any value of arguments that are not JSON */
} whim_answer;

whim_grammar_node whim_answer_text(whim_answer *a, const char *text);

/* An argument between tags (answer_values.c). `property` is a part of the schema `root`. */
whim_grammar_node whim_answer_tag_value(whim_answer *a, const json_t *root, const json_t *property,
                                        const char *path);
/* Anything that the parser finds the end of, where it knows these types of the parameter (0:
 * none). */
whim_grammar_node whim_answer_any_value(whim_answer *a, uint32_t types);
/* The argument as JSON, whatever it is. */
whim_grammar_node whim_answer_json_value(whim_answer *a, const json_t *root, const json_t *property,
                                         const char *path);
/* The arguments of a function where texts stand between marks (answer_marked.c); NULL: any. */
whim_grammar_node whim_answer_marked_object(whim_answer *a, const json_t *schema, const char *path);
/* A property's schema standing alone, with the definitions that it may point at. */
json_t *whim_answer_property(const json_t *root, const json_t *property);
/* Fails the builder for a schema of arguments whose root says what calls with tags cannot be held
 * to. */
void whim_answer_check_root(whim_answer *a, const json_t *schema, const char *path);

/* One call, or as many as the rule allows. `strict_only`: arguments follow their schema only where
 * a tool asks for it. `named`: the prompt wrote what stands before the first name. */
whim_grammar_node whim_answer_calls(whim_answer *a, bool strict_only, bool named);

#endif

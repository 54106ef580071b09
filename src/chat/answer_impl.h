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
    whim_grammar_node free_value; /* of a parameter: any text and the tag that ends it */
} whim_answer;

whim_grammar_node whim_answer_text(whim_answer *a, const char *text);

/* An argument between tags, up to and with `end` (answer_values.c). `property` is a part of the
 * schema `root`. */
whim_grammar_node whim_answer_tag_value(whim_answer *a, const char *end, const json_t *root,
                                        const json_t *property, const char *path);
/* The same as JSON, whatever it is. */
whim_grammar_node whim_answer_json_value(whim_answer *a, const char *end, const json_t *root,
                                         const json_t *property, const char *path);
/* Fails the builder for a schema of arguments whose root says what calls with tags cannot be held
 * to. */
void whim_answer_check_root(whim_answer *a, const json_t *schema, const char *path);

/* One call, or as many as the rule allows. `strict_only`: arguments follow their schema only where
 * a tool asks for it. */
whim_grammar_node whim_answer_calls(whim_answer *a, bool strict_only);

#endif

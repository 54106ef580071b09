/* SPDX-License-Identifier: Apache-2.0 */
/* Tools of the dialects that write them flat, as tools in the OpenAI form, and the choice among
 * them.
 * Threads: stateless. */
#ifndef WHIM_SERVER_OFFER_H
#define WHIM_SERVER_OFFER_H

#include "base/str.h"
#include "server/api.h"

#include <stdbool.h>

typedef struct whim_offer_form {
    const char
        *type; /* of a tool that any model can call; others run on servers that are not here */
    bool type_optional;     /* absent: that type */
    const char *schema_key; /* the field with the schema of its input */
    const char *text_type;  /* of a tool whose input is plain text; NULL: there are none */
    const char *group; /* the type of a tool that holds others in its "tools"; NULL: none does */
} whim_offer_form;

/* `tools` into task->tools, and the default of task->choice. A tool without a schema takes an
 * object without members, and a schema without a type is that of an object. The types of tools that
 * cannot be offered go to task->left_out. False with the fault set. */
bool whim_offer_read(const whim_fields *f, const whim_offer_form *form, whim_task *task);

/* What the model knows a tool of this group by (NULL: of none): a new reference, NULL without
 * memory. */
json_t *whim_offer_name(const json_t *group, json_t *name);

/* And back: the group of `list`, the request's "tools", that has the tool of this name; NULL: it
 * stands in none. The tool's own name is then the end of `name`, after the group and two
 * characters. */
const char *whim_offer_group_of(const whim_offer_form *form, const json_t *list, const char *name);

/* Whether the tool of this name in `list` takes plain text. The model knows it as one with a single
 * argument, "input". */
bool whim_offer_takes_text(const whim_offer_form *form, const json_t *list, const char *name);

/* The plain text in the arguments that the model wrote: a new string, or NULL where they are not
 * whole. */
json_t *whim_offer_text(const char *arguments, int64_t n);

/* A call is asked for: there must be a tool, and for the second `name` must be one. `f` is of
 * "tool_choice." */
bool whim_offer_need_call(const whim_fields *f, whim_task *task);
bool whim_offer_need_named_call(const whim_fields *f, whim_task *task);

/* Only some of the tools are offered: `mode` is auto or required, `tools` names them, each
 * {"name":..} or {"function":{"name":..}}. `f` is of the object that has these two. */
bool whim_offer_read_allowed(const whim_fields *f, whim_task *task);

/* Only these of task->tools are offered, in this order: `places` [n] are indices of task->tools,
 * each at most once; without any there are no tools. */
bool whim_offer_keep(const whim_fields *f, const int32_t *places, int32_t n, whim_task *task);

#endif

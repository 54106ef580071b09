/* SPDX-License-Identifier: Apache-2.0 */
/* What `run` and `chat` hold a model to, and what it may call: --json-schema, --grammar-regex and
 * --tools, which mean what response_format, regex and tools mean to a server.
 * Threads: the main thread. */
#ifndef WHIM_APPS_FORM_H
#define WHIM_APPS_FORM_H

#include "cmd.h"

/* {0} asks for nothing. */
typedef struct form {
    const char *regex;
    char *schema, *tools; /* JSON that was looked at, or NULL */
    bool must_call;
} form;

/* What the options say, before a model is opened. False after a complaint about them. */
bool form_read(form *f, const whim_options *options);
void form_free(form *f);

bool form_is_given(const form *f);

#endif

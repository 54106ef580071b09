/* SPDX-License-Identifier: Apache-2.0 */
/* The prompts of `whimbrel warm`, as requests that read them and answer one token. Threads: the
 * main thread. */
#ifndef WHIM_APPS_WARM_WARM_H
#define WHIM_APPS_WARM_WARM_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct warm_request {
    bool is_chat; /* for /chat/completions, else /completions */
    char *body;
    int64_t n_body;
} warm_request;

typedef struct warm_list {
    warm_request *v;
    int64_t n, cap;
} warm_list;

/* All prompts of a file (see the help of `warm`), in its order. CORRUPT names what is wrong. */
WHIM_MUST_CHECK whim_err warm_list_read(warm_list *list, const char *path, whim_diag *diag);

/* The same of its text; `is_lines`: each line is one. `path` is for messages. */
WHIM_MUST_CHECK whim_err warm_list_parse(warm_list *list, const char *text, int64_t n,
                                         bool is_lines, const char *path, whim_diag *diag);
void warm_list_deinit(warm_list *list);

#endif

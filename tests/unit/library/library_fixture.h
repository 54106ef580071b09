/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the library share: a folder with a tiny model that has a tokenizer and a chat
 * template, opened through the public header alone. Tests run from the root of the repository. */
#ifndef WHIM_TESTS_LIBRARY_FIXTURE_H
#define WHIM_TESTS_LIBRARY_FIXTURE_H

#include "support/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <whimbrel/whimbrel.h>

/* What the ids of tests/data/letters mean; 80 is the end, and two are never meant. */
static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTU0123456789"
                              " \n<>/{}[]\":,._-?!'()+=|";

static char folder[64];
static whimbrel_model *model;

static inline void file_write(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

/* The weights of tests/data/golden/NAME with a text side. */
static inline void folder_make(const char *name)
{
    char command[128];
    snprintf(folder, sizeof folder, "/tmp/whim_library_XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command, "tests/support/tiny-model %s %s", name, folder);
    assert_int_equal(system(command), 0);
}

static inline void folder_remove(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static inline whimbrel_model_options options_of(const char *path)
{
    return (whimbrel_model_options){
        .size = sizeof(whimbrel_model_options), .path = path, .context = 512, .threads = 2};
}

static inline whimbrel_model *open_loaded(const whimbrel_model_options *options)
{
    whimbrel_error error;
    whimbrel_model *m = NULL;
    if (whimbrel_open(options, &m, &error) != WHIMBREL_OK ||
        whimbrel_load(m, &error) != WHIMBREL_OK) {
        fail_msg("%s", error.text);
    }
    assert_string_equal(error.field, "");
    return m;
}

static inline int open_tiny(void **state)
{
    (void)state;
    folder_make("llama-bf16");
    whimbrel_model_options options = options_of(folder);
    model = open_loaded(&options);
    return 0;
}

static inline int close_tiny(void **state)
{
    (void)state;
    whimbrel_close(model);
    folder_remove();
    return 0;
}

/* --- asking ----------------------------------------------------------------------------------- */

static inline whimbrel_request_options ask_text(const char *text, int64_t max_tokens)
{
    return (whimbrel_request_options){.size = sizeof(whimbrel_request_options),
                                      .text = text,
                                      .max_tokens = max_tokens,
                                      .ignore_end = true};
}

static inline whimbrel_request *submit(whimbrel_model *m, const whimbrel_request_options *ask)
{
    whimbrel_error error;
    whimbrel_request *request;
    if (whimbrel_submit(m, ask, &request, &error) != WHIMBREL_OK) {
        fail_msg("%s: %s", error.field, error.text);
    }
    return request;
}

/* One choice of a request that was read to its end. */
typedef struct reply {
    char written[600], text[600], reasoning[600], calls[600];
    int32_t ids[512];
    int64_t n_id, n_prompt_token;
    whimbrel_end end;
    int32_t stop, n_end, n_top;
    bool failed;
    whimbrel_status status;
    whimbrel_usage usage;
} reply;

static inline void add(char *to, const char *text, int64_t n)
{
    assert_int_equal(strlen(text), n);
    assert_true(strlen(to) + (size_t)n < 600);
    strcat(to, text);
}

static inline void take(reply *r, const whimbrel_event *e)
{
    switch (e->kind) {
    case WHIMBREL_EVENT_TOKEN:
        r->ids[r->n_id++] = e->id;
        r->n_top = e->n_top;
        add(r->written, e->text, e->n_text);
        break;
    case WHIMBREL_EVENT_TEXT:
        add(r->text, e->text, e->n_text);
        break;
    case WHIMBREL_EVENT_REASONING:
        add(r->reasoning, e->text, e->n_text);
        break;
    case WHIMBREL_EVENT_CALL:
        add(r->calls, e->name, (int64_t)strlen(e->name));
        add(r->calls, e->text, e->n_text);
        break;
    case WHIMBREL_EVENT_PROMPT_TOKEN:
        assert_int_equal(e->position, r->n_prompt_token++);
        break;
    case WHIMBREL_EVENT_END:
        add(r->written, e->text, e->n_text);
        r->end = e->end;
        r->stop = e->stop;
        r->n_end++;
        break;
    case WHIMBREL_EVENT_DONE:
        r->usage = e->usage;
        break;
    case WHIMBREL_EVENT_FAILED:
        r->failed = true;
        r->status = e->status;
        break;
    default:
        break;
    }
}

/* Read to the end, and give back; replies[n_choice]. */
static inline void read_all(whimbrel_request *request, reply *replies)
{
    const whimbrel_event *e;
    while ((e = whimbrel_wait(request, 60000)) != NULL) {
        take(&replies[e->choice], e);
    }
    assert_true(replies[0].failed || replies[0].usage.n_prompt > 0);
    whimbrel_free(request);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A body through a dialect's reader, and what comes of it as compact JSON; a route's answer,
 * checked as a stream. */
#ifndef WHIM_TESTS_READ_BODY_H
#define WHIM_TESTS_READ_BODY_H

#include "unit/server/server_fixture.h"

#include "server/answer/run.h"

static whim_fault read_fault;

/* NULL when the body is refused; then read_fault says why. */
static inline whim_task *read_body(whim_task_reader *fn, const char *body)
{
    read_fault = (whim_fault){0};
    json_t *json = whim_body_parse(body, (int64_t)strlen(body), &read_fault);
    assert_non_null(json);
    whim_task *task = whim_task_create(&api, json);
    whim_fields f = {.obj = task->body, .prefix = "", .fault = &read_fault};
    if (!fn(&api, &f, task)) {
        whim_task_destroy(task);
        return NULL;
    }
    return task;
}

static inline whim_task *read_good(whim_task_reader *fn, const char *body)
{
    whim_task *task = read_body(fn, body);
    if (task == NULL) {
        fail_msg("%s: %s", body, read_fault.message);
    }
    return task;
}

static inline void assert_json(const json_t *value, const char *want)
{
    whim_str text = {0};
    whim_put_json(&text, value);
    assert_string_equal(whim_str_text(&text), want);
    whim_str_deinit(&text);
}

static inline void assert_messages(whim_task_reader *fn, const char *body, const char *want)
{
    whim_task *task = read_good(fn, body);
    assert_json(task->messages, want);
    whim_task_destroy(task);
}

/* A 400 about this field; `why` is a part of its text. */
static inline void assert_refused(whim_task_reader *fn, const char *body, const char *param,
                                  const char *why)
{
    whim_task *task = read_body(fn, body);
    if (task != NULL) {
        fail_msg("taken: %s", body);
    }
    assert_string_equal(read_fault.param, param);
    assert_int_equal(read_fault.kind, WHIM_FAULT_BAD_VALUE);
    if (strstr(read_fault.message, why) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", read_fault.message, why);
    }
}

/* Every event of the stream was one write, and its name is the type of its data. */
static inline void assert_events(void)
{
    int n = 0;
    for (const char *at = whim_str_text(&exchange.body); *at != '\0'; n++) {
        const char *name = at + strlen("event: ");
        const char *line = strchr(name, '\n');
        char data[128];
        assert_memory_equal(at, "event: ", 7);
        snprintf(data, sizeof data, "\ndata: {\"type\":\"%.*s\"", (int)(line - name), name);
        assert_memory_equal(line, data, strlen(data));
        const char *end = strchr(line + 1, '\n');
        assert_memory_equal(end, "\n\n", 2);
        json_t *json = json_loadb(line + 7, (size_t)(end - line - 7), 0, NULL);
        assert_non_null(json);
        json_decref(json);
        at = end + 2;
    }
    assert_int_equal(n, exchange.n_write);
}

/* A route's answer with ids masked; printed too where the program was asked to. */
static bool print_answers;
static inline const char *answer_of(whim_route_fn *route, const char *path, const char *body,
                                    const whim_job_event *events, int64_t n)
{
    const char *text = call(route, path, body, events, n);
    if (exchange.streaming) {
        assert_events();
    }
    if (print_answers && exchange.status == 200) {
        printf("%s%s", exchange.body.text, exchange.streaming ? "" : "\n");
    }
    return text;
}

/* The first events of a stream and what its core says after 11 s of silence. */
static inline const char *silence_of(const whim_answer_form *form, whim_task *task)
{
    whim_str_deinit(&exchange.headers);
    whim_str_deinit(&exchange.body);
    exchange = (whim_exchange){.write_limit = -1};
    whim_answer *a = whim_answer_create(&api, &exchange, form, task);
    assert_non_null(a);
    whim_answer_begin(a);
    whim_answer_keep_alive(a, a->run->last_ns + INT64_C(9000000000));
    whim_answer_keep_alive(a, a->run->last_ns + INT64_C(11000000000));
    assert_events();
    whim_answer_destroy(a);
    return masked();
}

#endif

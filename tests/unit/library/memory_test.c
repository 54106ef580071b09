/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that runs out at any place of opening, asking and reading: an error as a value, one last
 * event for what was started, and nothing lost (the sanitizers look). */
#include "base/alloc.h"
#include "base/heap/faults.h"
#include "unit/library/library_fixture.h"

static whimbrel_request_options ask_all(void)
{
    static const whimbrel_message messages[] = {{"user", "hello"}};
    return (whimbrel_request_options){
        .size = sizeof(whimbrel_request_options),
        .messages = messages,
        .n_message = 1,
        .n_choice = 2,
        .max_tokens = 80,
        .tools_json =
            "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":"
            "\"object\",\"properties\":{},\"additionalProperties\":false}}}]",
        .must_call = true,
        .template_args = "{\"enable_thinking\":false}"};
}

static void opening(void **state)
{
    (void)state;
    whimbrel_model_options options = options_of(folder);
    whimbrel_status status = WHIMBREL_NO_MEMORY;
    int64_t n = 0;
    /* Every place at first, then fewer: a tokenizer alone has hundreds. */
    for (; status != WHIMBREL_OK; n += 1) {
        whimbrel_error error;
        whimbrel_model *m = NULL;
        whim_alloc_fail_after(n);
        status = whimbrel_open(&options, &m, &error);
        whim_alloc_fail_after(-1);
        assert_int_equal(m != NULL, status == WHIMBREL_OK);
        assert_true(status == WHIMBREL_OK || error.text[0] != '\0');
        whimbrel_close(m);
        assert_true(n < 1000000);
    }
    assert_true(n > 20);
}

/* The n-th allocation of loading fails: the model is refused with a reason, or answers. */
static void loading(void **state)
{
    (void)state;
    whimbrel_model_options options = options_of(folder);
    const whimbrel_message hello = {"user", "hello"};
    const whimbrel_request_options ask = {
        .size = sizeof ask, .messages = &hello, .n_message = 1, .max_tokens = 3};
    int64_t n_alloc = INT64_MAX, n_refused = 0;
    for (int64_t n = 0; n <= n_alloc; n += 1) {
        whimbrel_error error = {.text = ""};
        whimbrel_model *m;
        whimbrel_request *request;
        const whimbrel_event *e;
        whimbrel_event_kind last = WHIMBREL_EVENT_STARTED;
        assert_int_equal(whimbrel_open(&options, &m, &error), WHIMBREL_OK);
        whim_alloc_fail_nth(n > 0 ? n : INT64_MAX); /* first they are counted */
        whimbrel_status status = whimbrel_load(m, &error);
        n_alloc = n > 0 ? n_alloc : whim_alloc_seen();
        whim_alloc_fail_nth(0);
        n_refused += status != WHIMBREL_OK;
        if (status == WHIMBREL_OK) {
            assert_int_equal(whimbrel_submit(m, &ask, &request, &error), WHIMBREL_OK);
            while ((e = whimbrel_wait(request, 60000)) != NULL) {
                last = e->kind;
            }
            assert_int_equal(last, WHIMBREL_EVENT_DONE);
            whimbrel_free(request);
        } else {
            assert_int_equal(status, WHIMBREL_NO_MEMORY);
            assert_true(error.text[0] != '\0');
        }
        whimbrel_close(m);
    }
    assert_true(n_refused > 10);
}

/* One request when n allocations are left: how it ended, or that it was refused. */
static whimbrel_event_kind ask_with(int64_t n, bool *refused)
{
    whimbrel_request_options ask = ask_all();
    whimbrel_error error;
    whimbrel_request *request;
    const whimbrel_event *e;
    whimbrel_event_kind last = WHIMBREL_EVENT_STARTED;
    whim_alloc_fail_after(n);
    whimbrel_status status = whimbrel_submit(model, &ask, &request, &error);
    while ((e = whimbrel_wait(request, 60000)) != NULL) {
        last = e->kind;
    }
    whim_alloc_fail_after(-1);
    *refused = status != WHIMBREL_OK;
    assert_int_equal(request == NULL, *refused);
    assert_true(*refused ? error.text[0] != '\0'
                         : last == WHIMBREL_EVENT_DONE || last == WHIMBREL_EVENT_FAILED);
    whimbrel_free(request);
    return last;
}

/* Twice: the first time the grammar is compiled, and needs most of the memory. */
static void asking_and_reading(void **state)
{
    (void)state;
    int64_t n_refused[2] = {0, 0}, n_failed = 0;
    for (int round = 0; round < 2; round++) {
        whimbrel_event_kind last = WHIMBREL_EVENT_FAILED;
        for (int64_t n = 0; last != WHIMBREL_EVENT_DONE; n++) {
            bool refused;
            last = ask_with(n, &refused);
            n_refused[round] += refused;
            n_failed += last == WHIMBREL_EVENT_FAILED;
            assert_true(n < 10000);
        }
    }
    assert_true(n_refused[0] > n_refused[1] && n_refused[1] > 5 && n_failed > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening),
        cmocka_unit_test(loading),
        cmocka_unit_test(asking_and_reading),
    };
    return cmocka_run_group_tests_name("library memory", tests, open_tiny, close_tiny);
}

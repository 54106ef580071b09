/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that runs out under the service, at any place: a job that was accepted still has one last
 * event, and what it told before that is whole. */
#include "base/alloc.h"
#include "base/heap/faults.h"
#include "unit/engine/service_fixture.h"
#include "unit/text/text_fixture.h"

enum { MADE = 40, MAX_TEXT = 4096 };

/* What a job told, kept without any allocation. */
typedef struct told {
    char text[MAX_TEXT];
    int64_t n_text;
    int64_t n_last; /* events that end a job */
    bool choice_ended;
    whim_job_event last;
} told;

static void tell_all(whim_job *job, told *t)
{
    whim_job_event e;
    int64_t until = whim_clock_ns() + 60 * WHIM_NS_PER_S;
    memset(t, 0, sizeof *t);
    while (t->n_last == 0) {
        if (!whim_job_next(job, &e)) {
            assert_true(whim_clock_ns() < until); /* it would wait for ever */
            whim_clock_sleep_ns(WHIM_NS_PER_MS / 5);
            continue;
        }
        if (e.kind == WHIM_JOB_TOKEN || e.kind == WHIM_JOB_CHOICE_END) {
            assert_false(t->choice_ended);
            assert_true(t->n_text + e.n_text <= MAX_TEXT);
            memcpy(t->text + t->n_text, e.text, (size_t)e.n_text);
            t->n_text += e.n_text;
            t->choice_ended = e.kind == WHIM_JOB_CHOICE_END;
        }
        t->n_last += e.kind == WHIM_JOB_DONE || e.kind == WHIM_JOB_FAILED;
        t->last = e;
    }
    assert_false(whim_job_next(job, &e));
}

/* A service of its own for each place: buffers that an earlier job has grown would hide some. */
static void one_job(const whim_service_cfg *cfg, int64_t n_alloc, told *t, bool *accepted)
{
    static const char *const stops[] = {"a stop that nobody writes"};
    whim_diag diag = {""};
    whim_job *job;
    assert_int_equal(whim_service_create(cfg, &service, &diag), WHIM_ERR_OK);
    whim_job_cfg ask = job_cfg(0, 20, MADE);
    ask.stops = stops;
    ask.n_stop = 1;
    whim_alloc_fail_after(n_alloc);
    whim_err err = whim_service_submit(service, &ask, 1, &job, &diag);
    *accepted = err == WHIM_ERR_OK;
    if (*accepted) {
        tell_all(job, t);
        whim_job_release(job);
    }
    whim_service_destroy(service); /* also without memory */
    service = NULL;
    whim_alloc_fail_after(-1);
    assert_true(*accepted || err == WHIM_ERR_NO_MEMORY);
}

static void every_job_has_an_end(void **state)
{
    (void)state;
    static told whole, t;
    bool accepted;
    int64_t n_failed = 0, n_done = 0;
    whim_tokenizer *tok = open_file("cat tests/data/text/tiny/llama3.json");
    whim_service_cfg cfg = service_cfg();
    cfg.tok = tok;
    one_job(&cfg, -1, &whole, &accepted);
    assert_int_equal(whole.last.kind, WHIM_JOB_DONE);
    assert_true(whole.n_text > 0);
    for (int64_t n = 0; n_done < 3; n++) { /* its allocations become fewer than n in the end */
        assert_true(n < 500);
        one_job(&cfg, n, &t, &accepted);
        if (!accepted) {
            continue;
        }
        assert_memory_equal(t.text, whole.text, (size_t)t.n_text);
        if (t.last.kind == WHIM_JOB_DONE) {
            n_done++;
            assert_true(t.choice_ended);
            assert_int_equal(t.n_text, whole.n_text);
        } else {
            n_failed++;
            assert_int_equal(t.last.err, WHIM_ERR_NO_MEMORY);
            assert_string_equal(t.last.message, "out of memory");
        }
    }
    assert_true(n_failed > 3); /* the scheduler's, the queue's, the text's */
    whim_tokenizer_close(tok);
}

/* A job under a service that keeps pages in a folder, where the n-th allocation fails; 0: none. False
 * when it was refused. */
static bool one_kept(const whim_service_cfg *cfg, int64_t n, told *t)
{
    whim_diag diag = {""};
    whim_job *job = NULL;
    whim_job_cfg ask = job_cfg(2, 130, MADE);
    service = NULL;
    whim_alloc_fail_nth(n);
    whim_err err = whim_service_create(cfg, &service, &diag);
    if (err == WHIM_ERR_OK) {
        err = whim_service_submit(service, &ask, 1, &job, &diag);
    }
    assert_true(err == WHIM_ERR_OK || err == WHIM_ERR_NO_MEMORY);
    if (err == WHIM_ERR_OK) {
        tell_all(job, t);
        whim_job_release(job);
    }
    whim_service_destroy(service); /* writes what is left */
    service = NULL;
    return err == WHIM_ERR_OK;
}

/* One failure while pages are written, or read: the answer is right or an error, and what lies on
 * the disk then gives the next service the right one. */
static void pages_on_disk_are_whole(void **state)
{
    (void)state;
    static told whole, t;
    char folder[] = "/tmp/whim_memory_XXXXXX", command[64];
    whim_tokenizer *tok = open_file("cat tests/data/text/tiny/llama3.json");
    whim_service_cfg cfg = service_cfg();
    cfg.tok = tok;
    assert_true(one_kept(&cfg, 0, &whole));
    assert_int_equal(whole.last.kind, WHIM_JOB_DONE);
    assert_non_null(mkdtemp(folder));
    cfg.kv_dir = folder;
    cfg.kv_space = "test";
    snprintf(command, sizeof command, "rm -r %s/*", folder);
    assert_true(one_kept(&cfg, INT64_MAX, &t));
    const int64_t n_alloc = whim_alloc_seen();
    assert_true(n_alloc > 20);
    for (int64_t n = 1; n <= n_alloc; n += 1) {
        for (int32_t round = 0; round < 3; round++) { /* with empty and with full folder, without */
            (void)(round == 0 && system(command));
            bool accepted = one_kept(&cfg, round < 2 ? n : 0, &t);
            assert_true(accepted || round < 2);
            assert_true(!accepted || t.last.kind == WHIM_JOB_FAILED || t.n_text == whole.n_text);
            assert_true(!accepted || memcmp(t.text, whole.text, (size_t)t.n_text) == 0);
            assert_true(round < 2 || t.last.kind == WHIM_JOB_DONE);
        }
    }
    whim_alloc_fail_nth(0);
    command[strlen(command) - 2] = '\0';
    assert_int_equal(system(command), 0);
    whim_tokenizer_close(tok);
}

/* A server that is told to stop waits for every reader to have its end. */
static void stopping_needs_no_memory(void **state)
{
    static told t[3];
    whim_job *jobs[3];
    start(state);
    whim_job_cfg cfg = job_cfg(1, 90, MAX_MADE);
    for (int32_t i = 0; i < 3; i++) {
        jobs[i] = submit(&cfg);
    }
    whim_alloc_fail_after(0);
    stop(state);
    for (int32_t i = 0; i < 3; i++) {
        tell_all(jobs[i], &t[i]);
        whim_job_release(jobs[i]);
    }
    whim_alloc_fail_after(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_job_has_an_end),
        cmocka_unit_test(pages_on_disk_are_whole),
        cmocka_unit_test(stopping_needs_no_memory),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}

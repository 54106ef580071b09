/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a request: prepared, started as a job, cancelled, freed. */
#include "base/alloc.h"
#include "library/request_impl.h"

#include <string.h>

whimbrel_status whimbrel_prepare(whimbrel_model *model, const whimbrel_request_options *options,
                                 whimbrel_request **out, whimbrel_error *error)
{
    char field[128];
    whim_diag diag = {""};
    const whim_request_extra extra = {.new_turn = true};
    whim_err err = whim_request_make(model, options, &extra, out, field, &diag);
    if (err != WHIM_ERR_OK) {
        whimbrel_free(*out);
        *out = NULL;
    }
    return whim_library_tell(error, err, field, &diag);
}

static void choices_stop(whimbrel_request *r)
{
    whim_job *job = atomic_load(&r->job);
    for (int32_t i = 0; job != NULL && i < r->cfg.n_choice; i++) {
        whim_job_stop_choice(job, i);
    }
}

/* Once there is a job: what was cancelled before is ended now. */
static void job_set(whimbrel_request *r, whim_job *job)
{
    atomic_store(&r->job, job);
    if (atomic_load(&r->cancelled)) {
        choices_stop(r);
    }
}

whim_err whim_requests_start(whimbrel_request *const *requests, int32_t n, const whim_job_cfg *how,
                             whim_diag *diag)
{
    whim_job_cfg *cfgs = whim_alloc_array(n, sizeof *cfgs);
    whim_job **jobs = whim_alloc_array(n, sizeof *jobs);
    whim_err err = WHIM_ERR_NO_MEMORY;
    for (int32_t i = 0; i < n && cfgs != NULL; i++) {
        cfgs[i] = requests[i]->cfg;
        if (how != NULL) {
            cfgs[i].client = how->client;
            cfgs[i].priority_among_all = how->priority_among_all;
            cfgs[i].received_ns = how->received_ns;
            cfgs[i].deadline_ns = how->deadline_ns;
            cfgs[i].wake = how->wake;
            cfgs[i].wake_ctx = how->wake_ctx;
            memcpy(cfgs[i].id, how->id, sizeof how->id);
        }
    }
    if (cfgs != NULL && jobs != NULL) {
        err = whim_service_submit(requests[0]->model->service, cfgs, n, jobs, diag);
    }
    for (int32_t i = 0; i < n && err == WHIM_ERR_OK; i++) {
        job_set(requests[i], jobs[i]);
    }
    whim_free(cfgs);
    whim_free(jobs);
    return err;
}

whimbrel_status whimbrel_start(whimbrel_request *r, whimbrel_error *error)
{
    whim_diag diag = {""};
    whim_err err = WHIM_ERR_INVALID;
    if (r->model->service == NULL) {
        whim_fail(&diag, err, "the model is not loaded: whimbrel_load comes first");
    } else if (r->job != NULL) {
        whim_fail(&diag, err, "the request was started already");
    } else {
        err = whim_requests_start(&r, 1, NULL, &diag);
    }
    return whim_library_tell(error, err, "", &diag);
}

whimbrel_status whimbrel_submit(whimbrel_model *model, const whimbrel_request_options *options,
                                whimbrel_request **out, whimbrel_error *error)
{
    whimbrel_status status = whimbrel_prepare(model, options, out, error);
    if (status == WHIMBREL_OK) {
        status = whimbrel_start(*out, error);
        if (status != WHIMBREL_OK) {
            whimbrel_free(*out);
            *out = NULL;
        }
    }
    return status;
}

const int32_t *whimbrel_prompt_ids(const whimbrel_request *r, int64_t *n)
{
    *n = r->prompt.n;
    return r->prompt.ids;
}

void whimbrel_cancel(whimbrel_request *r)
{
    if (r != NULL) {
        /* Either this finds the job, or whoever starts it finds this. */
        atomic_store(&r->cancelled, true);
        choices_stop(r);
    }
}

void whim_request_drop(whimbrel_request *r, whim_job_reason why)
{
    if (r->job != NULL) {
        whim_job_cancel(r->job, why);
    }
}

whim_job_times whim_request_times(const whimbrel_request *r)
{
    return r->lost ? (whim_job_times){0} : whim_job_get_times(r->job);
}

whim_job_look whim_request_look(const whimbrel_request *r)
{
    const whim_job *job = atomic_load(&r->job);
    return job != NULL ? whim_job_look_at(job) : (whim_job_look){.n_prompt = r->prompt.n};
}

void whimbrel_free(whimbrel_request *r)
{
    if (r == NULL) {
        return;
    }
    whim_job_release(r->job);
    whim_replies_close(r);
    whim_grammar_unref(r->grammar);
    whim_ids_deinit(&r->prompt);
    whim_ids_deinit(&r->prediction);
    json_decref(r->tools);
    whim_free(r);
}

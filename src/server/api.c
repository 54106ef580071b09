/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that need no job, and the log's line about a request. */
#include "server/api.h"

#include "base/clock.h"
#include "base/heap/budget.h"

enum { MAX_FIELDS = 16, MAX_PATH_SHOWN = 160 };

void whim_request_log(whim_log *log, whim_exchange *ex, int status, const whim_log_field *more)
{
    const whim_http_request *r = whim_exchange_request(ex);
    whim_log_field fields[MAX_FIELDS];
    int n = 0;
    if (!whim_exchange_take_line(ex)) {
        return;
    }
    fields[n++] = whim_log_text("id", r->request_id);
    fields[n++] = whim_log_text("method", r->is_head ? "HEAD" : r->method);
    fields[n++] = whim_log_text_n("route", r->path, (int64_t)strnlen(r->path, MAX_PATH_SHOWN));
    fields[n++] = whim_log_int("status", status);
    for (; more != NULL && more->key != NULL && n < MAX_FIELDS - 3; more++) {
        fields[n++] = *more;
    }
    int64_t ns = whim_clock_ns() - whim_exchange_start_ns(ex);
    fields[n++] = whim_log_real("total_ms", (double)ns / 1e6, 1);
    fields[n++] = whim_log_text("client", r->client);
    fields[n] = (whim_log_field){.key = NULL};
    whim_log_event(log, WHIM_LOG_INFO, "request", fields);
}

void whim_api_refuse(const whim_api *api, whim_exchange *ex, const whim_fault *fault)
{
    if (fault->is_put_off) {
        whim_exchange_put_off(ex);
        return;
    }
    whim_dialect dialect = whim_dialect_of(whim_exchange_request(ex)->path);
    whim_request_log(api->log, ex, whim_fault_status(fault, dialect), NULL);
    whim_fault_reply(ex, fault, dialect);
}

void whim_api_reply(const whim_api *api, whim_exchange *ex, const whim_str *body)
{
    whim_exchange_drop_body(ex); /* the reply may wait long for its reader */
    if (body->failed || !whim_budget_allows(body->cap)) { /* with its copy for the socket */
        whim_fault fault;
        whim_fault_no_memory(&fault);
        whim_api_refuse(api, ex, &fault);
        return;
    }
    whim_request_log(api->log, ex, 200, NULL);
    whim_exchange_reply_json(ex, 200, body);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that need no job, and the access log. */
#include "server/api.h"

#include "base/clock.h"

void whim_access_log(whim_log *log, whim_exchange *ex, int status, const char *detail)
{
    const whim_http_request *r = whim_exchange_request(ex);
    char path[160], client[96];
    double ms = (double)(whim_clock_ns() - whim_exchange_start_ns(ex)) / 1e6;
    whim_log_info(log, "request id=%s method=%s route=%s status=%d%s total_ms=%.1f client=%s",
                  r->request_id, r->is_head ? "HEAD" : r->method,
                  whim_log_value(path, sizeof path, r->path), status, detail, ms,
                  whim_log_value(client, sizeof client, r->client));
}

void whim_api_refuse(const whim_api *api, whim_exchange *ex, const whim_fault *fault)
{
    whim_dialect dialect = whim_dialect_of(whim_exchange_request(ex)->path);
    whim_access_log(api->log, ex, whim_fault_status(fault, dialect), "");
    whim_fault_reply(ex, fault, dialect);
}

void whim_api_reply(const whim_api *api, whim_exchange *ex, const whim_str *body)
{
    if (body->failed) {
        whim_fault fault;
        whim_fault_no_memory(&fault);
        whim_api_refuse(api, ex, &fault);
        return;
    }
    whim_access_log(api->log, ex, 200, "");
    whim_exchange_reply(ex, 200, "application/json", whim_str_text(body), body->len);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Cells -> text. */
#include "server/metrics/metrics.h"

#include "base/clock.h"
#include "base/heap/budget.h"
#include "base/os/facts.h"
#include "server/answer/answer.h"
#include "server/fault.h"
#include "server/router.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static_assert((int)WHIM_FAULT_COUNT <= (int)WHIM_LABEL_REASON_COUNT, "every fault is a label");

/* --- looking ---------------------------------------------------------------------------------- */

static void look_at_service(whim_meters *m, whim_service *service)
{
    whim_service_stats s = whim_service_get_stats(service);
    int64_t page = s.page_bytes, used = s.sched.pages_used, cached = s.sched.pages_cached;
    whim_meter_set(m, RUNNING, 0, s.sched.n_running);
    whim_meter_set(m, WAITING, 0, s.sched.n_waiting);
    whim_meter_set(m, KV_BYTES, WHIM_LABEL_KV_USED, used * page);
    whim_meter_set(m, KV_BYTES, WHIM_LABEL_KV_CACHED, cached * page);
    whim_meter_set(m, KV_BYTES, WHIM_LABEL_KV_FREE, (s.sched.pages_total - used - cached) * page);
    whim_meter_set(m, KV_CAPACITY, 0, s.sched.pages_total * page);
    static_assert((int)WHIM_LABEL_PREEMPT_COUNT == (int)WHIM_PREEMPT_COUNT, "a label each");
    for (int32_t why = 0; why < WHIM_PREEMPT_COUNT; why++) {
        whim_meter_set(m, PREEMPTIONS, why, s.sched.n_preempted[why]);
    }
    whim_meter_set(m, PROPOSED, WHIM_LABEL_PROPOSED_RIGHT, s.n_right);
    whim_meter_set(m, PROPOSED, WHIM_LABEL_PROPOSED_WRONG, s.n_proposed - s.n_right);
    whim_meter_set(m, EVICTED, 0, s.sched.n_evicted);
    whim_meter_set(m, BUSY, 0, s.busy_ns);
    whim_meter_set(m, HEARTBEAT, 0, whim_clock_ns() - whim_service_heartbeat_ns(service));
    whim_meter_set(m, DISK_BYTES, 0, s.disk_bytes);
    whim_meter_set(m, DISK_ERRORS, 0, s.disk_errors);
    whim_meter_set(m, DISK_HIT_TOKENS, 0, s.disk_hit_tokens);
    whim_meter_set(m, DISK_PAGES, WHIM_LABEL_DISK_WRITTEN, s.disk_written);
    whim_meter_set(m, DISK_PAGES, WHIM_LABEL_DISK_READ, s.disk_read);
    whim_meter_set(m, DISK_PAGES, WHIM_LABEL_DISK_DROPPED, s.disk_dropped);
    whim_meter_set(m, DISK_PAGES, WHIM_LABEL_DISK_REFUSED, s.disk_refused);
    whim_service_look_ranks(service, m);
}

static void look_at_process(whim_meters *m)
{
    whim_os_self self;
    whim_os_self_get(&self);
    whim_meter_set(m, PROCESS_CPU, 0, self.cpu_ns);
    /* Once: two readings differ by a little, and a change is a restart. */
    if (whim_meter_get(m, PROCESS_START, 0) == 0) {
        whim_meter_set(m, PROCESS_START, 0, self.start_ns);
    }
    whim_meter_set(m, PROCESS_RESIDENT, 0, self.resident_bytes);
    whim_meter_set(m, PROCESS_VIRTUAL, 0, self.virtual_bytes);
    whim_meter_set(m, PROCESS_FDS, 0, self.n_fd);
    whim_meter_set(m, PROCESS_MAX_FDS, 0, self.max_fd);
}

static void look_at_budget(whim_meters *m)
{
    int64_t used = whim_budget_used();
    bool is_set = whim_budget_bytes() > 0;
    whim_meter_set(m, REQUEST_BYTES, 0, is_set && used > 0 ? used : 0);
    whim_meter_set(m, REQUEST_CAPACITY, 0, whim_budget_bytes());
    whim_meter_set(m, REQUEST_REFUSED, 0, whim_budget_refused());
}

void whim_metrics_look(whim_meters *m, const whim_metrics_now *now)
{
    look_at_budget(m);
    whim_meter_set(m, HTTP_IN_FLIGHT, 0, now->http.n_in_flight);
    whim_meter_set(m, CONNECTIONS, 0, now->http.n_connections);
    whim_meter_set(m, ACCEPTED, 0, now->http.n_accepted);
    for (int32_t i = 0; i < WHIM_LABEL_STATE_COUNT; i++) {
        whim_meter_set(m, STATE, i, i == now->state);
    }
    whim_meter_set(m, PROGRESS, 0, now->progress);
    whim_meter_set(m, BUILD_INFO, 0, 1);
    if (now->service != NULL) {
        look_at_service(m, now->service);
    } else { /* counters stay as they were; of the rest there is nothing */
        whim_meter_set(m, RUNNING, 0, 0);
        whim_meter_set(m, WAITING, 0, 0);
        whim_meter_set(m, RATE, 0, 0);
        whim_meter_set(m, HEARTBEAT, 0, 0);
        whim_meter_set(m, KV_BYTES, WHIM_LABEL_KV_FREE, whim_meter_get(m, KV_CAPACITY, 0));
        whim_meter_set(m, KV_BYTES, WHIM_LABEL_KV_USED, 0);
        whim_meter_set(m, KV_BYTES, WHIM_LABEL_KV_CACHED, 0);
    }
    look_at_process(m);
}

/* --- counting --------------------------------------------------------------------------------- */

void whim_metrics_count(whim_meters *m, whim_exchange *ex, int status)
{
    const whim_http_request *r = whim_exchange_request(ex);
    whim_exchange_notes *notes = whim_exchange_get_notes(ex);
    int32_t route = atomic_load(&notes->route), reason = atomic_load(&notes->reason);
    route = route < WHIM_LABEL_ROUTE_COUNT ? route : 0;
    int32_t method = whim_label_of_method(r->is_head ? "HEAD" : r->method);
    int32_t cell = (route * WHIM_LABEL_METHOD_COUNT + method) * WHIM_LABEL_STATUS_COUNT;
    whim_meter_add(m, HTTP_REQUESTS, cell + whim_label_of_status(status), 1);
    if (status == 499) {
        return; /* whatever was about to be said, nobody heard it */
    }
    if (reason > 0) {
        whim_meter_add(m, REJECTED, reason - 1, 1);
    } else if (reason == 0 && status >= 400) {
        /* HTTP's own, or the gate's */
        whim_meter_add(m, REJECTED, whim_fault_of_status(status), 1);
    }
}

/* --- writing ---------------------------------------------------------------------------------- */

void whim_metrics_put_quoted(whim_str *out, const char *text)
{
    whim_str_append_char(out, '"');
    for (; *text != '\0'; text++) {
        if (*text == '\n') {
            whim_str_append(out, "\\n");
        } else {
            if (*text == '"' || *text == '\\') {
                whim_str_append_char(out, '\\');
            }
            whim_str_append_char(out, *text);
        }
    }
    whim_str_append_char(out, '"');
}

void whim_metrics_put_head(whim_str *out, const char *name, const char *type, const char *help)
{
    whim_str_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static int64_t load(const whim_meters *m, int32_t cell)
{
    return atomic_load_explicit(&m->cells[cell], memory_order_relaxed);
}

static void put_value(whim_str *out, whim_meter_unit unit, int64_t value)
{
    int64_t scale = unit == WHIM_METER_SECONDS ? WHIM_NS_PER_S
                    : unit == WHIM_METER_RATIO ? 1000
                                               : 1;
    if (value < 0 || value % scale == 0) {
        whim_str_printf(out, " %" PRId64 "\n", value < 0 ? 0 : value / scale);
    } else {
        whim_str_printf(out, " %" PRId64 ".%0*" PRId64 "\n", value / scale, scale == 1000 ? 3 : 9,
                        value % scale);
    }
}

void whim_metrics_put_histogram(whim_str *out, const whim_meters *m, const whim_meter_spec *spec,
                                const char *name, const char *labels, const char *const *limits,
                                int32_t n_limit)
{
    int64_t count = 0, sum = load(m, spec->cell + spec->n_cell + 1);
    int32_t told = 0;
    for (int32_t i = 0; i <= spec->n_cell; i++) {
        const char *limit = i < spec->n_cell ? spec->limits[i] : "+Inf";
        count += load(m, spec->cell + i);
        if (i == spec->n_cell || (told < n_limit && strcmp(limits[told], limit) == 0)) {
            whim_str_printf(out, "%s_bucket{%sle=\"%s\"} %" PRId64 "\n", name, labels, limit,
                            count);
            told++;
        }
    }
    int n = (int)strlen(labels) - 1; /* without the comma */
    const char *open = n > 0 ? "{" : "", *close = n > 0 ? "}" : "";
    whim_str_printf(out, "%s_sum%s%.*s%s", name, open, n > 0 ? n : 0, labels, close);
    put_value(out, spec->unit, sum);
    whim_str_printf(out, "%s_count%s%.*s%s %" PRId64 "\n", name, open, n > 0 ? n : 0, labels, close,
                    count);
}

static void put_label(whim_str *out, const char *name, const char *value)
{
    whim_str_append(out, name);
    whim_str_append_char(out, '=');
    whim_metrics_put_quoted(out, value != NULL ? value : "");
}

static void put_reason(whim_str *out, int32_t i)
{
    char name[32] = "";
    snprintf(name, sizeof name, "%s", whim_fault_name((whim_fault_kind)i));
    for (char *c = name; *c != '\0'; c++) {
        *c = (char)tolower((unsigned char)*c);
    }
    put_label(out, "reason", name);
}

static void put_http(whim_str *out, int32_t i)
{
    int32_t method = i / WHIM_LABEL_STATUS_COUNT % WHIM_LABEL_METHOD_COUNT;
    put_label(out, "route",
              whim_router_path(i / (WHIM_LABEL_STATUS_COUNT * WHIM_LABEL_METHOD_COUNT)));
    whim_str_append_char(out, ',');
    put_label(out, "method", whim_label_text(WHIM_LABEL_SET_METHOD, method));
    whim_str_append_char(out, ',');
    put_label(out, "status", whim_label_text(WHIM_LABEL_SET_STATUS, i % WHIM_LABEL_STATUS_COUNT));
}

static void put_rank(whim_str *out, int32_t rank)
{
    char number[16];
    snprintf(number, sizeof number, "%d", rank);
    put_label(out, "rank", number);
}

/* The labels of the i-th cell. */
static void put_labels(whim_str *out, whim_label_set set, int32_t i, const whim_metrics_info *info)
{
    whim_str_append_char(out, '{');
    switch (set) {
    case WHIM_LABEL_SET_BUILD:
        put_label(out, "version", info->version);
        whim_str_append_char(out, ',');
        put_label(out, "commit", info->commit);
        break;
    case WHIM_LABEL_SET_MODEL:
        put_label(out, "model", info->model);
        whim_str_append_char(out, ',');
        put_label(out, "isa", info->isa);
        break;
    case WHIM_LABEL_SET_PROPOSER:
        put_label(out, "draft", info->draft);
        whim_str_append_char(out, ',');
        put_label(out, "kind", info->draft_kind);
        whim_str_append_char(out, ',');
        put_label(out, "lookup", info->lookup ? "on" : "off");
        break;
    case WHIM_LABEL_SET_HTTP:
        put_http(out, i);
        break;
    case WHIM_LABEL_SET_REASON:
        put_reason(out, i);
        break;
    case WHIM_LABEL_SET_RANK:
        put_rank(out, i);
        break;
    case WHIM_LABEL_SET_RANK_SITE:
        put_rank(out, i / WHIM_LABEL_SITE_COUNT);
        whim_str_append_char(out, ',');
        put_label(out, "site", whim_label_text(WHIM_LABEL_SET_SITE, i % WHIM_LABEL_SITE_COUNT));
        break;
    default:
        put_label(out, whim_label_name(set), whim_label_text(set, i));
    }
    whim_str_append_char(out, '}');
}

/* Most pairs of route and status never come, nor do places of ranks: only those that did are
 * told. */
static bool is_told(const whim_meters *m, const whim_meter_spec *spec, int32_t i, int64_t value,
                    const whim_metrics_info *info)
{
    switch (spec->set) {
    case WHIM_LABEL_SET_HTTP:
    case WHIM_LABEL_SET_RANK_SITE:
        return value != 0;
    case WHIM_LABEL_SET_RANK:
        return whim_meter_get(m, RANKS, 0) > 1 && i < whim_meter_get(m, RANKS, 0);
    case WHIM_LABEL_SET_MODEL:
        return info->model != NULL;
    case WHIM_LABEL_SET_PROPOSER:
        return info->model != NULL && (info->draft != NULL || info->lookup);
    case WHIM_LABEL_SET_REASON:
        return i < WHIM_FAULT_COUNT;
    default:
        return true;
    }
}

static void put_cells(whim_str *out, const whim_meters *m, const whim_meter_spec *spec,
                      const whim_metrics_info *info)
{
    for (int32_t i = 0; i < spec->n_cell; i++) {
        bool is_info = spec->set == WHIM_LABEL_SET_MODEL || spec->set == WHIM_LABEL_SET_PROPOSER;
        int64_t value = is_info ? 1 : load(m, spec->cell + i);
        if (!is_told(m, spec, i, value, info)) {
            continue;
        }
        whim_str_append(out, spec->name);
        if (spec->set != WHIM_LABEL_SET_NONE) {
            put_labels(out, spec->set, i, info);
        }
        put_value(out, spec->unit, value);
    }
}

void whim_metrics_write(const whim_meters *m, const whim_metrics_info *info, whim_str *out)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    for (int32_t i = 0; i < WHIM_METER_COUNT; i++) {
        const whim_meter_spec *spec = &whim_meter_specs[i];
        whim_metrics_put_head(out, spec->name, types[spec->type], spec->help);
        if (spec->type == WHIM_METER_HISTOGRAM) {
            whim_metrics_put_histogram(out, m, spec, spec->name, "", spec->limits, spec->n_cell);
        } else {
            put_cells(out, m, spec, info);
        }
    }
    whim_metrics_put_compat(out, m, info);
}

/* Takes the body. No line in the log: somebody asks every few seconds. */
static void reply(const whim_api *api, whim_exchange *ex, const char *type, whim_str *body)
{
    if (body->failed) {
        whim_fault fault;
        whim_fault_no_memory(&fault);
        whim_api_refuse(api, ex, &fault);
    } else {
        whim_exchange_add_header(ex, "Cache-Control", "no-store");
        whim_exchange_reply(ex, 200, type, whim_str_text(body), body->len);
    }
    whim_str_deinit(body);
}

void whim_route_metrics(const whim_api *api, whim_exchange *ex)
{
    whim_str body = {0};
    api->put_metrics(api->metrics_ctx, &body);
    reply(api, ex, "text/plain; version=0.0.4; charset=utf-8", &body);
}

void whim_route_history(const whim_api *api, whim_exchange *ex)
{
    whim_str body = {0};
    api->put_history(api->metrics_ctx, &body);
    reply(api, ex, "application/json", &body);
}

void whim_route_requests(const whim_api *api, whim_exchange *ex)
{
    whim_str body = {0};
    whim_answer_thread_list(api->answer_thread, &body);
    reply(api, ex, "application/json", &body);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The words and bodies of refusals. */
#include "server/fault.h"

#include "base/heap/budget.h"
#include "server/body/body.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct fault_row {
    const char *name;
    int status;
    const char *type, *code;
    int anthropic_status;
    const char *anthropic_type;
} fault_row;

static const fault_row rows[WHIM_FAULT_COUNT] = {
#define FAULT(name, status, type, code, a_status, a_type) \
    {#name, status, type, code, a_status, a_type},
#include "server/fault.def"
#undef FAULT
};

bool whim_fault_set(whim_fault *f, whim_fault_kind kind, const char *param, const char *fmt, ...)
{
    va_list ap;
    memset(f, 0, sizeof *f);
    f->kind = kind;
    if (param != NULL) {
        snprintf(f->param, sizeof f->param, "%s", param);
    }
    va_start(ap, fmt);
    vsnprintf(f->message, sizeof f->message, fmt, ap);
    va_end(ap);
    return false;
}

bool whim_fault_no_memory(whim_fault *f)
{
    return whim_fault_set(f, WHIM_FAULT_OVERLOADED, NULL, "out of memory");
}

bool whim_fault_context(whim_fault *f, int64_t n_prompt, int64_t n_ctx)
{
    whim_fault_set(f, WHIM_FAULT_CONTEXT, NULL, "the prompt does not fit");
    f->n_prompt = n_prompt;
    f->n_ctx = n_ctx;
    return false;
}

int whim_fault_status(const whim_fault *f, whim_dialect dialect)
{
    const fault_row *row = &rows[f->kind];
    return dialect == WHIM_DIALECT_ANTHROPIC ? row->anthropic_status : row->status;
}

const char *whim_fault_name(whim_fault_kind kind)
{
    return rows[kind].name;
}

whim_fault_kind whim_fault_of_status(int status)
{
    if (status == 529) {
        return WHIM_FAULT_OVERLOADED;
    }
    for (int i = 0; i < WHIM_FAULT_COUNT; i++) {
        if (rows[i].status == status) {
            return (whim_fault_kind)i;
        }
    }
    return status >= 500 ? WHIM_FAULT_INTERNAL : WHIM_FAULT_BAD_REQUEST;
}

void whim_fault_message(const whim_fault *f, whim_dialect dialect, whim_str *out)
{
    static const char help[] = "Shorten the prompt, start the server with a larger --ctx, or use "
                               "a model with a longer context.";
    if (f->n_ctx == 0) {
        whim_str_append(out, f->message);
    } else if (dialect == WHIM_DIALECT_ANTHROPIC) {
        whim_str_printf(out, "prompt is too long: %" PRId64 " tokens > %" PRId64 " maximum. %s",
                        f->n_prompt, f->n_ctx - 1, help); /* an answer takes one */
    } else {
        whim_str_printf(out,
                        "This model's maximum context length is %" PRId64
                        " tokens, one of them for the answer at least, but the prompt has %" PRId64
                        " tokens. %s",
                        f->n_ctx, f->n_prompt, help);
    }
}

void whim_fault_body(const whim_fault *f, whim_dialect dialect, const char *request_id,
                     whim_str *out)
{
    const fault_row *row = &rows[f->kind];
    whim_str message = {0};
    whim_fault_message(f, dialect, &message);
    if (dialect == WHIM_DIALECT_ANTHROPIC) {
        whim_put_form(out, "{'type':'error','error':{'type':%q,'message':%t},'request_id':%q}",
                      row->anthropic_type, &message, request_id);
    } else if (dialect == WHIM_DIALECT_OLLAMA) {
        whim_put_form(out, "{'error':%t}", &message);
    } else {
        whim_put_form(
            out, "{'error':{'message':%t,'type':%q,'param':%q,'code':%q},'request_id':%q}",
            &message, row->type, f->param[0] == '\0' ? NULL : f->param, row->code, request_id);
    }
    whim_str_deinit(&message);
}

whim_dialect whim_dialect_of(const char *path)
{
    static const char messages[] = "/messages";
    size_t n = sizeof messages - 1;
    if (strncmp(path, "/api/", 5) == 0) {
        return WHIM_DIALECT_OLLAMA;
    }
    while (strncmp(path, "/v1/", 4) == 0) { /* a base URL that has /v1 already gives it twice */
        path += 3;
    }
    bool anthropic = strncmp(path, messages, n) == 0 && (path[n] == '\0' || path[n] == '/');
    return anthropic ? WHIM_DIALECT_ANTHROPIC : WHIM_DIALECT_OPENAI;
}

void whim_fault_reply(whim_exchange *ex, const whim_fault *f, whim_dialect dialect)
{
    whim_str body = {0};
    int32_t had = whim_budget_share(0); /* who is refused for want of memory must be told so */
    whim_exchange_get_notes(ex)->reason = (int32_t)f->kind + 1;
    whim_fault_body(f, dialect, whim_exchange_request(ex)->request_id, &body);
    switch (f->kind) {
    case WHIM_FAULT_KEY:
        whim_exchange_add_header(ex, "WWW-Authenticate", "Bearer");
        break;
    case WHIM_FAULT_QUEUE_FULL:
    case WHIM_FAULT_OVERLOADED:
        whim_exchange_add_header(ex, "Retry-After", "1");
        break;
    case WHIM_FAULT_LOADING:
    case WHIM_FAULT_DRAINING:
        whim_exchange_add_header(ex, "Retry-After", "5");
        break;
    case WHIM_FAULT_INTERNAL:
    case WHIM_FAULT_TIMEOUT:
        /* The same request would fail again: clients retry 408 and 5xx by themselves otherwise. */
        whim_exchange_add_header(ex, "x-should-retry", "false");
        break;
    default:
        break;
    }
    whim_exchange_reply_json(ex, whim_fault_status(f, dialect), &body);
    whim_str_deinit(&body);
    whim_budget_share(had);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the load on a server gave, for people and for programs. */
#include "bench/server.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *text;
} faults[] = {
#define X(NAME, name, text) {name, text},
    SERVER_FAULTS(X)
#undef X
};

/* --- text ------------------------------------------------------------------------------------- */

/* What a server said must not steer the terminal. */
static void append_tame(const char *text, whim_str *out)
{
    for (int64_t left = (int64_t)strlen(text); left > 0;) {
        int64_t n = terminal_control_length(text, left);
        bool blank = n > 0 || *text == '\n' || *text == '\t';
        n = n > 0 ? n : 1;
        whim_str_append_char(out, blank ? ' ' : *text);
        text += n;
        left -= n;
    }
}

void server_append_head(const server_target *t, whim_str *out)
{
    whim_str_printf(out, "http://%s%s, model ", t->address.authority, t->address.base);
    append_tame(t->model, out);
    whim_str_printf(out, ", %s\n", t->options->endpoint);
    whim_str_printf(out, "prompts of about %lld tokens", (long long)t->prompt_words);
    if (t->options->prefix_tokens > 0) {
        whim_str_printf(out, " after %lld shared ones", (long long)t->options->prefix_tokens);
    }
    whim_str_printf(out, ", answers of %lld\n\n", (long long)t->tokens);
    whim_str_printf(out, "%24s %18s %23s %23s %23s\n", "", "tokens/s", "TTFT ms", "TPOT ms",
                    "ITL ms");
    whim_str_printf(out, "%7s %8s %7s %8s %9s", "clients", "requests", "req/s", "total",
                    "generated");
    for (int i = 0; i < 3; i++) {
        whim_str_printf(out, " %7s %7s %7s", "p50", "p90", "p99");
    }
    whim_str_append(out, "\n");
}

/* A time in 7 columns; a dash when there is none. */
static void append_ms(double ms, whim_str *out)
{
    if (ms != ms) {
        whim_str_printf(out, " %7s", "-");
    } else {
        whim_str_printf(out, " %7.*f", ms < 100 ? 2 : ms < 10000 ? 1 : 0, ms);
    }
}

static void append_failures(const server_level *l, whim_str *out)
{
    whim_str_printf(out, "        %lld of %lld requests failed:", (long long)l->errors,
                    (long long)l->requests);
    for (int32_t i = 0; i < l->n_failure; i++) {
        const server_failure *f = &l->failures[i];
        whim_str_printf(out, "%s %lld %s", i > 0 ? ";" : "", (long long)f->n,
                        faults[f->fault].text);
        if (f->status != 0) {
            whim_str_printf(out, " %d", f->status);
        }
        if (f->message[0] != '\0') {
            whim_str_append(out, " (");
            append_tame(f->message, out);
            whim_str_append(out, ")");
        }
    }
    whim_str_append(out, "\n");
}

void server_append_row(const server_level *l, whim_str *out)
{
    const server_percentiles *all[] = {&l->ttft_ms, &l->tpot_ms, &l->itl_ms};
    whim_str_printf(out, "%7lld %8lld %7.2f %8.1f %9.1f", (long long)l->clients,
                    (long long)l->requests, server_rate(l, l->n_ok),
                    server_rate(l, l->prompt_tokens + l->gen_tokens),
                    server_rate(l, l->gen_tokens));
    for (int i = 0; i < 3; i++) {
        append_ms(all[i]->p50, out);
        append_ms(all[i]->p90, out);
        append_ms(all[i]->p99, out);
    }
    whim_str_append(out, "\n");
    if (l->errors > 0) {
        append_failures(l, out);
    }
}

void server_append_notes(const server_level *levels, int32_t n, whim_str *out)
{
    server_level all = {0};
    for (int32_t i = 0; i < n; i++) {
        all.n_ok += levels[i].n_ok;
        all.n_usage += levels[i].n_usage;
        all.prompt_tokens += levels[i].prompt_tokens;
        all.gen_tokens += levels[i].gen_tokens;
        all.cached_tokens += levels[i].cached_tokens;
    }
    if (all.n_ok == 0) {
        return;
    }
    double each = 1 / (double)all.n_ok;
    whim_str_printf(out,
                    "\na request has %.1f prompt tokens on average, %.1f of them from the server's "
                    "cache, and %.1f generated ones",
                    (double)all.prompt_tokens * each, (double)all.cached_tokens * each,
                    (double)all.gen_tokens * each);
    whim_str_append(out, all.n_usage == all.n_ok
                             ? "; the server counted them (usage)\n"
                             : "; where the server gives no usage, generated tokens are counted by "
                               "chunks and prompt tokens by words\n");
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void json_percentiles(whim_str *out, const char *name, const server_percentiles *p)
{
    const double v[] = {p->p50, p->p90, p->p99};
    const char *const suffix[] = {"p50", "p90", "p99"};
    for (int i = 0; i < 3; i++) {
        whim_str_printf(out, ",\"%s_ms_%s\":", name, suffix[i]);
        json_number(out, v[i]);
    }
}

void server_append_json(const server_target *t, const server_level *l, whim_str *out)
{
    const struct {
        const char *key;
        double value;
    } rates[] = {
        {"duration_s", l->duration_s},
        {"req_per_s", server_rate(l, l->n_ok)},
        {"total_tps", server_rate(l, l->prompt_tokens + l->gen_tokens)},
        {"gen_tps", server_rate(l, l->gen_tokens)},
    };
    whim_str_printf(out, "{\"url\":\"http://%s%s\",\"model\":", t->address.authority,
                    t->address.base);
    json_text(out, t->model);
    whim_str_printf(out, ",\"endpoint\":\"%s\",\"clients\":%lld,\"requests\":%lld,\"errors\":%lld",
                    t->options->endpoint, (long long)l->clients, (long long)l->requests,
                    (long long)l->errors);
    for (int i = 0; i < 4; i++) {
        whim_str_printf(out, ",\"%s\":", rates[i].key);
        json_number(out, rates[i].value);
    }
    json_percentiles(out, "ttft", &l->ttft_ms);
    json_percentiles(out, "tpot", &l->tpot_ms);
    json_percentiles(out, "itl", &l->itl_ms);
    whim_str_printf(out,
                    ",\"prompt_tokens\":%lld,\"gen_tokens\":%lld,\"cached_tokens\":%lld,"
                    "\"tokens_from\":\"%s\",\"error_kinds\":{",
                    (long long)l->prompt_tokens, (long long)l->gen_tokens,
                    (long long)l->cached_tokens, server_tokens_from(l));
    for (int32_t i = 0; i < l->n_failure; i++) {
        const server_failure *f = &l->failures[i];
        char status[16] = "";
        if (f->status != 0) {
            snprintf(status, sizeof status, "_%d", f->status);
        }
        whim_str_printf(out, "%s\"%s%s\":%lld", i > 0 ? "," : "", faults[f->fault].name, status,
                        (long long)f->n);
    }
    whim_str_append(out, "}}\n");
}

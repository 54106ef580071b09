/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands share. */
#include "cmd.h"

#include "base/file.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char default_model[] = "SmolLM2-135M-Instruct.Q4_1.gguf";

int complain(int code, const char *fmt, ...)
{
    va_list ap;
    fflush(stdout);
    fputs("whimbrel: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    return code;
}

bool print_out(whim_str *text)
{
    bool ok = !text->failed;
    if (!ok) {
        complain(EXIT_FAILED, "out of memory while writing the output");
    } else if (fwrite(whim_str_text(text), 1, (size_t)text->len, stdout) != (size_t)text->len ||
               fflush(stdout) != 0) {
        complain(EXIT_FAILED, "cannot write to standard output: %s", strerror(errno));
        ok = false;
    }
    whim_str_clear(text);
    return ok;
}

/* --- the model ---------------------------------------------------------------------------------- */

bool default_model_path(char *buf, int64_t n)
{
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int len;
    /* A relative XDG_CACHE_HOME is to be ignored, says its specification. */
    if (cache != NULL && cache[0] == '/') {
        len = snprintf(buf, (size_t)n, "%s/whimbrel/%s", cache, default_model);
    } else if (home != NULL && home[0] != '\0') {
        len = snprintf(buf, (size_t)n, "%s/.cache/whimbrel/%s", home, default_model);
    } else {
        return false;
    }
    return len < n;
}

const char *choose_model(const whim_options *options, char *buf)
{
    if (options->model != NULL) {
        return options->model;
    }
    if (!default_model_path(buf, MODEL_PATH_MAX)) {
        complain(EXIT_FAILED,
                 "no MODEL was given, and without HOME or XDG_CACHE_HOME the default model "
                 "has no place");
        return NULL;
    }
    if (whim_path_get_type(buf) != WHIM_PATH_FILE) {
        complain(
            EXIT_FAILED,
            "no MODEL was given, and the default model is not at %s; \"make model\" in whimbrel's "
            "source folder fetches it (93 MB)",
            buf);
        return NULL;
    }
    return buf;
}

whim_engine_cfg engine_cfg(const whim_options *options, const char *model)
{
    return (whim_engine_cfg){
        .model = model,
        .load_format = options->load_format,
        .weight_type = options->weight_type,
        .backend = options->backend,
        .isa = options->isa,
        .n_thread = (int32_t)options->threads,
        .ctx = options->ctx,
        .kv_mem = options->kv_mem,
        .kv_type = options->kv_type,
        .max_step_tokens = options->max_step_tokens,
        .graphs = WHIM_GRAPHS_AUTO,
    };
}

/* --- loading ------------------------------------------------------------------------------------ */

static void load_report(void *ctx, int64_t done, int64_t total)
{
    loader *load = ctx;
    pthread_mutex_lock(&load->lock);
    if (!load->begun) {
        whim_progress_init(&load->bar,
                           &(whim_progress_cfg){
                               .label = "loading",
                               .total = total,
                               .bytes = true,
                               .fd = STDERR_FILENO,
                               .mode = load->quiet ? WHIM_PROGRESS_QUIET : WHIM_PROGRESS_AUTO,
                           });
        load->begun = true;
    }
    if (done > load->done) {
        whim_progress_add(&load->bar, done - load->done);
        load->done = done;
    }
    pthread_mutex_unlock(&load->lock);
}

static void print_plan(const whim_memory_plan *plan)
{
    whim_str text = {0};
    append_plan(&text, plan);
    fputs(whim_str_text(&text), stderr);
    whim_str_deinit(&text);
}

whim_engine *open_engine(const whim_engine_cfg *cfg, bool quiet, loader *load)
{
    whim_diag diag = {""};
    whim_engine *engine = NULL;
    whim_engine_cfg with_bar = *cfg;
    memset(load, 0, sizeof *load);
    pthread_mutex_init(&load->lock, NULL);
    load->quiet = quiet;
    with_bar.on_progress = load_report;
    with_bar.progress_ctx = load;
    if (whim_engine_prepare(&with_bar, &engine, &diag) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
        return NULL;
    }
    if (!quiet) {
        fprintf(stderr, "device: %s\n", whim_engine_caps(engine)->summary);
        print_plan(whim_engine_plan(engine));
    }
    return engine;
}

bool load_engine(whim_engine *engine, loader *load)
{
    whim_diag diag = {""};
    whim_err err = whim_engine_load(engine, &diag);
    if (load->begun) {
        whim_progress_finish(&load->bar, err == WHIM_ERR_OK);
    }
    if (err != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
    }
    return err == WHIM_ERR_OK;
}

/* --- the plan ----------------------------------------------------------------------------------- */

static void append_plan_row(whim_str *out, const char *name, int64_t bytes, const char *detail)
{
    char size[32];
    whim_format_bytes(size, sizeof size, bytes);
    whim_str_printf(out, "  %-18s %12s%s%s\n", name, size, detail[0] != '\0' ? "  " : "", detail);
}

void append_plan(whim_str *out, const whim_memory_plan *plan)
{
    char free_text[32], detail[64];
    whim_format_bytes(free_text, sizeof free_text, plan->available);
    snprintf(detail, sizeof detail, "of %s available", free_text);
    whim_str_append(out, "memory plan\n");
    for (int32_t i = 0; i < plan->n_part; i++) {
        append_plan_row(out, plan->parts[i].name, plan->parts[i].bytes, plan->parts[i].detail);
    }
    append_plan_row(out, "total", plan->total, detail);
    append_plan_row(out, "while loading", plan->loading, "more, given back afterwards");
}

/* --- JSON --------------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at `at`, 0 when it is not one. */
static int32_t utf8_length(const unsigned char *at)
{
    uint32_t least, code;
    int32_t n;
    if (at[0] < 0x80) {
        return 1;
    } else if (at[0] >= 0xc2 && at[0] < 0xe0) {
        n = 2, least = 0x80, code = at[0] & 0x1fu;
    } else if (at[0] >= 0xe0 && at[0] < 0xf0) {
        n = 3, least = 0x800, code = at[0] & 0xfu;
    } else if (at[0] >= 0xf0 && at[0] < 0xf5) {
        n = 4, least = 0x10000, code = at[0] & 7u;
    } else {
        return 0;
    }
    for (int32_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (at[i] & 0x3fu);
    }
    return code >= least && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? n : 0;
}

void json_text(whim_str *out, const char *text)
{
    whim_str_append_char(out, '"');
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0';) {
        int32_t n = utf8_length(at);
        if (n == 0) {
            whim_str_append(out, "\\ufffd");
            n = 1;
        } else if (*at == '"' || *at == '\\') {
            whim_str_printf(out, "\\%c", *at);
        } else if (*at < 0x20) {
            whim_str_printf(out, "\\u%04x", *at);
        } else {
            whim_str_append_n(out, (const char *)at, n);
        }
        at += n;
    }
    whim_str_append_char(out, '"');
}

void json_number(whim_str *out, double value)
{
    if (isfinite(value)) {
        whim_str_printf(out, "%.10g", value);
    } else {
        whim_str_append(out, "null");
    }
}

void json_plan(whim_str *out, const whim_memory_plan *plan)
{
    whim_str_append(out, "{\"parts\":[");
    for (int32_t i = 0; i < plan->n_part; i++) {
        whim_str_append(out, i == 0 ? "{\"name\":" : ",{\"name\":");
        json_text(out, plan->parts[i].name);
        whim_str_append(out, ",\"detail\":");
        json_text(out, plan->parts[i].detail);
        whim_str_printf(out, ",\"bytes\":%lld}", (long long)plan->parts[i].bytes);
    }
    whim_str_printf(out, "],\"total\":%lld,\"loading\":%lld,\"available\":%lld}",
                    (long long)plan->total, (long long)plan->loading, (long long)plan->available);
}

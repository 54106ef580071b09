/* SPDX-License-Identifier: Apache-2.0 */
/* Another program on the same file with the same threads: one that takes llama-bench's options and
 * prints its JSON for one sequence, and the llama-batched-bench beside it for several at once. */
#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char batched_name[] = "llama-batched-bench";

enum { MAX_ARGS = 24, MAX_OUTPUT = 1 << 20, TAIL_LINES = 4, TAIL_BYTES = 600, CTX_GRANULE = 256 };

typedef struct peer_args {
    const char *argv[MAX_ARGS];
    int32_t n;
    char numbers[MAX_ARGS][24];
} peer_args;

static void add_text(peer_args *a, const char *text)
{
    a->argv[a->n++] = text;
}

static void add_number(peer_args *a, const char *option, int64_t value)
{
    add_text(a, option);
    snprintf(a->numbers[a->n], sizeof a->numbers[0], "%lld", (long long)value);
    add_text(a, a->numbers[a->n]);
}

static const char *model_file(const bench *b)
{
    return whim_engine_ckpt(b->engine)->files[0].path;
}

/* The batched program lies where the other one does, or both are in PATH. */
static void batched_path(const char *peer, char *out, size_t size)
{
    const char *base = whim_path_base(peer);
    snprintf(out, size, "%.*s%s", (int)(base - peer), peer, batched_name);
}

/* --- before ----------------------------------------------------------------------------------- */

static whim_err check_program(const char *path, const char *why, whim_diag *diag)
{
    if (strchr(path, '/') == NULL) {
        return WHIM_ERR_OK; /* PATH is searched when it is run */
    }
    if (whim_path_get_type(path) != WHIM_PATH_FILE) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND, "--peer: there is no program %s%s", path, why);
    }
    if (access(path, X_OK) != 0) {
        return whim_fail(diag, WHIM_ERR_INVALID, "--peer: %s is not executable", path);
    }
    return WHIM_ERR_OK;
}

whim_err bench_peer_check(const bench *b, whim_diag *diag)
{
    const whim_ckpt *ckpt = whim_engine_ckpt(b->engine);
    char batched[MODEL_PATH_MAX];
    if (ckpt->format == WHIM_CKPT_DUMMY) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "--peer: dummy weights have no file that another program could read; "
                         "make one with --write-gguf FILE, then bench FILE --peer %s",
                         b->options->peer);
    }
    if (ckpt->format != WHIM_CKPT_GGUF) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "--peer: %s is no GGUF file, and that is what the other program reads",
                         b->model);
    }
    WHIM_TRY(check_program(b->options->peer, "", diag));
    if (b->max_batch > 1 && bench_depth(b->options, b->max_batch) == 0) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "--peer: %s starts several sequences with a prompt; give a --depth of 1 "
                         "or more",
                         batched_name);
    }
    batched_path(b->options->peer, batched, sizeof batched);
    return b->max_batch == 1 ? WHIM_ERR_OK
                             : check_program(batched,
                                             ", which times several sequences at once "
                                             "(--batch above 1); build it there, or time --batch 1",
                                             diag);
}

/* --- running ---------------------------------------------------------------------------------- */

static void show_life(void *ctx)
{
    whim_progress_add(ctx, 0);
}

/* The last lines of a text, for a message. */
static const char *tail_of(const whim_str *text, int *n)
{
    const char *all = whim_str_text(text);
    int64_t end = text->len;
    while (end > 0 && (all[end - 1] == '\n' || all[end - 1] == ' ')) {
        end--;
    }
    int64_t at = end;
    for (int lines = 0; at > 0 && end - at < TAIL_BYTES; at--) {
        lines += all[at - 1] == '\n';
        if (lines == TAIL_LINES) {
            break;
        }
    }
    *n = (int)(end - at);
    return all + at;
}

static whim_err told(const whim_process *p, const char *what, whim_err err, whim_diag *diag)
{
    int n;
    const char *tail = tail_of(p->err.len > 0 ? &p->err : &p->out, &n);
    return whim_fail(diag, err, "--peer: %s %s%s%.*s", p->argv[0], what,
                     n > 0 ? "; its last lines:\n" : " and said nothing", n, tail);
}

/* Run it to a good end; its output is in `p`, which the caller deinits in any case. */
static whim_err run_peer(bench *b, peer_args *a, whim_process *p, whim_diag *diag)
{
    char what[64];
    a->argv[a->n] = NULL;
    *p = (whim_process){
        .argv = a->argv, .max_out = MAX_OUTPUT, .on_wait = show_life, .ctx = &b->bar};
    WHIM_TRY(whim_process_run(p, diag));
    if (p->signal != 0) {
        snprintf(what, sizeof what, "was ended by signal %d", p->signal);
        return told(p, what, WHIM_ERR_IO, diag);
    }
    if (p->exit_code != 0) {
        snprintf(what, sizeof what, "failed with exit status %d", p->exit_code);
        return told(p, what, WHIM_ERR_IO, diag);
    }
    return WHIM_ERR_OK;
}

/* --- llama-bench ------------------------------------------------------------------------------ */

static const whim_json_limits limits = {MAX_OUTPUT + 64, 16};

/* The rate of the entry with so many prompt and generated tokens, 0 when there is none. */
static whim_err find_rate(const whim_json *rows, const char *path, int64_t n_prompt, int64_t n_gen,
                          double *tps, whim_diag *diag)
{
    *tps = 0;
    for (int64_t i = 0; i < whim_json_size(rows); i++) {
        whim_json_scope scope = {whim_json_at(rows, i), path, "", diag};
        int64_t prompt = -1, gen = -1;
        if (!whim_json_is_object(scope.obj)) {
            continue;
        }
        WHIM_TRY(whim_json_get_int(&scope, "n_prompt", 0, INT32_MAX, &prompt));
        WHIM_TRY(whim_json_get_int(&scope, "n_gen", 0, INT32_MAX, &gen));
        if (prompt == n_prompt && gen == n_gen) {
            WHIM_TRY(whim_json_get_real(&scope, "avg_ts", 0, 1e12, tps));
        }
    }
    return WHIM_ERR_OK;
}

/* Its output is an array, which goes into an object for the parser. */
static whim_err read_rates(const whim_process *p, int64_t n_prompt, int64_t n_gen,
                           double *prompt_tps, double *gen_tps, whim_diag *diag)
{
    whim_str text = {0};
    whim_json *json = NULL;
    const whim_json *rows = NULL;
    whim_diag why = {""};
    whim_str_append(&text, "{\"rows\":");
    whim_str_append_n(&text, whim_str_text(&p->out), p->out.len);
    whim_str_append(&text, "}");
    whim_err err = whim_json_parse(&json, whim_str_text(&text), text.len, limits, p->argv[0], &why);
    whim_json_scope scope = {json, p->argv[0], "", &why};
    if (err == WHIM_ERR_OK) {
        err = whim_json_get_array(&scope, "rows", &rows);
    }
    *prompt_tps = *gen_tps = 0;
    if (err == WHIM_ERR_OK && rows != NULL && n_prompt > 0) {
        err = find_rate(rows, p->argv[0], n_prompt, 0, prompt_tps, &why);
    }
    if (err == WHIM_ERR_OK && rows != NULL && n_gen > 0) {
        err = find_rate(rows, p->argv[0], 0, n_gen, gen_tps, &why);
    }
    whim_json_free(json);
    whim_str_deinit(&text);
    if (err != WHIM_ERR_OK || (n_prompt > 0 && *prompt_tps <= 0) || (n_gen > 0 && *gen_tps <= 0)) {
        return told(p, "does not print llama-bench's JSON", WHIM_ERR_CORRUPT, diag);
    }
    return WHIM_ERR_OK;
}

/* One run: prompts, generation or both (0: not). */
static whim_err run_single(bench *b, int64_t n_prompt, int64_t n_gen, int64_t depth,
                           double *prompt_tps, double *gen_tps, whim_diag *diag)
{
    peer_args a = {.n = 0};
    whim_process p;
    add_text(&a, b->options->peer);
    add_text(&a, "-m");
    add_text(&a, model_file(b));
    add_number(&a, "-t", whim_engine_caps(b->engine)->n_thread);
    add_number(&a, "-p", n_prompt);
    add_number(&a, "-n", n_gen);
    if (depth > 0) {
        add_number(&a, "-d", depth);
    }
    add_number(&a, "-r", 1);
    add_text(&a, "-o");
    add_text(&a, "json");
    whim_err err = run_peer(b, &a, &p, diag);
    if (err == WHIM_ERR_OK) {
        err = read_rates(&p, n_prompt, n_gen, prompt_tps, gen_tps, diag);
    }
    whim_process_deinit(&p);
    return err;
}

/* A depth would hold for its prompts too, so that they need a run of their own. */
static whim_err measure_single(bench *b, int64_t depth, double *prompt_tps, double *gen_tps,
                               whim_diag *diag)
{
    const whim_options *o = b->options;
    double none;
    if (depth == 0) {
        return run_single(b, o->prompt_tokens, o->tokens, 0, prompt_tps, gen_tps, diag);
    }
    WHIM_TRY(run_single(b, o->prompt_tokens, 0, 0, prompt_tps, &none, diag));
    return run_single(b, 0, o->tokens, depth, &none, gen_tps, diag);
}

/* --- llama-batched-bench ---------------------------------------------------------------------- */

/* A line of JSON for each prompt length, among others; 0 where there is none. */
static void read_lines(const whim_str *out, int64_t prompt, int64_t depth, double *prompt_tps,
                       double *gen_tps)
{
    *prompt_tps = *gen_tps = 0;
    for (const char *at = whim_str_text(out); *at != '\0';) {
        size_t n = strcspn(at, "\n");
        whim_json *json = NULL;
        int64_t pp = -1;
        if (*at == '{' &&
            whim_json_parse(&json, at, (int64_t)n, limits, batched_name, NULL) == WHIM_ERR_OK) {
            whim_json_scope scope = {json, batched_name, "", NULL};
            bool ok = whim_json_get_int(&scope, "pp", 0, INT32_MAX, &pp) == WHIM_ERR_OK;
            ok = ok && (pp != prompt ||
                        whim_json_get_real(&scope, "speed_pp", 0, 1e12, prompt_tps) == WHIM_ERR_OK);
            if (ok && pp == depth &&
                whim_json_get_real(&scope, "speed_tg", 0, 1e12, gen_tps) != WHIM_ERR_OK) {
                *gen_tps = 0;
            }
            whim_json_free(json);
        }
        at += n + (at[n] == '\n');
    }
}

static whim_err measure_batched(bench *b, int64_t batch, int64_t depth, double *prompt_tps,
                                double *gen_tps, whim_diag *diag)
{
    const whim_options *o = b->options;
    int64_t prompt = o->prompt_tokens, most = depth > prompt ? depth : prompt;
    char path[MODEL_PATH_MAX], prompts[64];
    peer_args a = {.n = 0};
    whim_process p;
    batched_path(o->peer, path, sizeof path);
    snprintf(prompts, sizeof prompts, depth == prompt ? "%lld" : "%lld,%lld", (long long)prompt,
             (long long)depth);
    add_text(&a, path);
    add_text(&a, "-m");
    add_text(&a, model_file(b));
    add_number(&a, "-t", whim_engine_caps(b->engine)->n_thread);
    add_number(&a, "-c",
               batch * ((most + o->tokens + CTX_GRANULE - 1) / CTX_GRANULE * CTX_GRANULE));
    add_text(&a, "-npp");
    add_text(&a, prompts);
    add_number(&a, "-ntg", o->tokens);
    add_number(&a, "-npl", batch);
    add_text(&a, "--output-format");
    add_text(&a, "jsonl");
    whim_err err = run_peer(b, &a, &p, diag);
    if (err == WHIM_ERR_OK) {
        read_lines(&p.out, prompt, depth, prompt_tps, gen_tps);
        if (*prompt_tps <= 0 || *gen_tps <= 0) {
            err = told(&p, "does not print llama-batched-bench's JSON", WHIM_ERR_CORRUPT, diag);
        }
    }
    whim_process_deinit(&p);
    return err;
}

/* --- all -------------------------------------------------------------------------------------- */

whim_err bench_peer_measure(bench *b, int64_t batch, int64_t round, whim_diag *diag)
{
    int64_t depth = bench_depth(b->options, batch), prompt = b->options->prompt_tokens;
    double *prompt_tps = &b->peer_prompt_tps[round], *gen_tps = &b->peer_gen_tps[round];
    if (batch == 1) {
        WHIM_TRY(measure_single(b, depth, prompt_tps, gen_tps, diag));
    } else {
        WHIM_TRY(measure_batched(b, batch, depth, prompt_tps, gen_tps, diag));
    }
    int64_t each = prompt + b->options->tokens + (depth != prompt ? depth : 0);
    whim_progress_add(&b->bar, batch * each);
    return WHIM_ERR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* --suite: how much sooner answers come by proposals (draft and lookup), on questions that somebody
 * might ask. Every question is answered greedily, rounds with and without proposals take turns, and
 * the tokens must be the same. */
#include "bench/suite.h"

#include "ask.h"
#include "base/alloc.h"
#include "base/file.h"

#include <string.h>
#include <unistd.h>

enum {
    MAX_FILE = 64 << 20,
    MAX_QUESTIONS = 100000,
    MAX_DEPTH = 32,
    USUAL_TOKENS = 256,
};

/* One question, and what came of it. */
typedef struct answer {
    const char *question;
    int32_t *ids; /* of the first round */
    int64_t n_id;
    double plain_s, with_s; /* from the first token to the last, over all rounds */
} answer;

typedef struct suite {
    const whim_options *options;
    const char *model;
    char *text;       /* of the file */
    whim_json **json; /* [n_json] its lines */
    int64_t n_json;
    answer *answers;
    int64_t n;
    int64_t n_made, n_proposed, n_right; /* with proposals */
    int64_t n_block, n_four, n_four_right;
    bool same;
    whim_progress bar;
} suite;

/* --- questions -------------------------------------------------------------------------------- */

/* The question in a line of a file: GSM8K has "question", others "prompt". */
static whim_err line_read(suite *s, const char *line, int64_t n, whim_diag *diag)
{
    const char *path = s->options->suite, *text = NULL;
    whim_json **json = &s->json[s->n_json];
    whim_json_limits limits = {.max_bytes = MAX_FILE, .max_depth = MAX_DEPTH};
    WHIM_TRY(whim_json_parse(json, line, n, limits, path, diag));
    s->n_json++;
    whim_json_scope at = {.obj = *json, .path = path, .prefix = "", .diag = diag};
    WHIM_TRY(whim_json_get_string(&at, "question", &text));
    if (text == NULL) {
        WHIM_TRY(whim_json_get_string(&at, "prompt", &text));
    }
    if (text == NULL || text[0] == '\0') {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: question %lld has no \"question\" and no \"prompt\"", path,
                         (long long)s->n + 1);
    }
    s->answers[s->n++].question = text;
    return WHIM_ERR_OK;
}

static int64_t wanted(const suite *s, int64_t there)
{
    int64_t n = s->options->questions; /* 0: all */
    return n > 0 && n < there ? n : there;
}

static whim_err file_read(suite *s, whim_diag *diag)
{
    int64_t n = 0, n_line = 1;
    WHIM_TRY(whim_file_read_all(s->options->suite, MAX_FILE, &s->text, &n, diag));
    for (const char *c = s->text; c < s->text + n; c++) {
        n_line += *c == '\n';
    }
    n_line = wanted(s, n_line < MAX_QUESTIONS ? n_line : MAX_QUESTIONS);
    s->json = whim_alloc_array(n_line, (int64_t)sizeof(whim_json *));
    s->answers = whim_alloc_array(n_line, (int64_t)sizeof *s->answers);
    WHIM_TRY(whim_got(s->json != NULL && s->answers != NULL, diag, "out of memory for questions"));
    for (const char *line = s->text, *end = s->text + n; line < end && s->n < n_line;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop != NULL ? stop : end;
        if (stop > line && strspn(line, " \t\r") < (size_t)(stop - line)) {
            WHIM_TRY(line_read(s, line, stop - line, diag));
        }
        line = stop + 1;
    }
    return s->n > 0 ? WHIM_ERR_OK
                    : whim_fail(diag, WHIM_ERR_CORRUPT, "%s: there is no question in it",
                                s->options->suite);
}

static whim_err questions_read(suite *s, whim_diag *diag)
{
    if (strcmp(s->options->suite, "gsm8k") != 0) {
        return file_read(s, diag);
    }
    s->n = wanted(s, bench_n_gsm8k);
    s->answers = whim_alloc_array(s->n, (int64_t)sizeof *s->answers);
    WHIM_TRY(whim_got(s->answers != NULL, diag, "out of memory for questions"));
    for (int64_t i = 0; i < s->n; i++) {
        s->answers[i].question = bench_gsm8k[i];
    }
    return WHIM_ERR_OK;
}

/* --- answers ---------------------------------------------------------------------------------- */

/* An answer under way. */
typedef struct taking {
    answer *a;
    int64_t n, max;
    bool is_first, same;
} taking;

static void take_event(void *ctx, const whimbrel_event *e)
{
    taking *t = ctx;
    if (e->kind != WHIMBREL_EVENT_TOKEN) {
        return;
    }
    if (t->is_first && t->n < t->max) {
        t->a->ids[t->n] = e->id;
    }
    t->same = t->same && t->n < t->max && (t->is_first || t->a->ids[t->n] == e->id);
    t->n++;
}

static whimbrel_status prepare(const suite *s, whimbrel_model *model, const answer *a,
                               whimbrel_request **out, whimbrel_error *error)
{
    const whimbrel_message message = {"user", a->question};
    whimbrel_sampling greedy = {.size = sizeof greedy};
    whimbrel_get_sampling(model, &greedy);
    greedy.temperature = 0;
    greedy.repetition_penalty = 1;
    greedy.presence_penalty = greedy.frequency_penalty = 0;
    bool given = whim_options_gave(s->options, &s->options->tokens);
    whimbrel_request_options o = {.size = sizeof o,
                                  .sampling = &greedy,
                                  .max_tokens = given ? s->options->tokens : USUAL_TOKENS};
    if (whimbrel_get_info(model)->has_template) {
        o.messages = &message;
        o.n_message = 1;
    } else {
        o.text = a->question;
    }
    return whimbrel_prepare(model, &o, out, error);
}

static bool answer_one(suite *s, whimbrel_model *model, answer *a, bool proposes)
{
    whimbrel_request *request = NULL;
    whimbrel_error error;
    asked got;
    bool given = whim_options_gave(s->options, &s->options->tokens);
    taking t = {.a = a,
                .max = given ? s->options->tokens : USUAL_TOKENS,
                .is_first = a->ids == NULL,
                .same = true};
    if (t.is_first) {
        a->ids = whim_alloc_array(t.max, (int64_t)sizeof *a->ids);
        if (a->ids == NULL) {
            complain(EXIT_FAILED, "out of memory for answers");
            return false;
        }
    }
    bool ok = prepare(s, model, a, &request, &error) == WHIMBREL_OK &&
              ask(request, take_event, &t, &got, &error) == WHIMBREL_OK;
    if (ok) {
        whim_job_times times = whim_request_times(request);
        a->n_id = t.is_first ? t.n : a->n_id;
        s->same = s->same && t.same && t.n == a->n_id;
        *(proposes ? &a->with_s : &a->plain_s) += got.gen_s;
        s->n_made += proposes ? t.n : 0;
        s->n_proposed += times.n_proposed;
        s->n_right += times.n_right;
        s->n_block += times.n_block;
        s->n_four += times.n_four;
        s->n_four_right += times.n_four_right;
    } else {
        complain_of(&error);
    }
    whimbrel_free(request);
    return ok && !interrupted;
}

/* All questions once. */
static bool round_run(suite *s, bool proposes)
{
    const whim_options *o = s->options;
    whimbrel_model_options options = model_options(o, s->model);
    whim_library_extra extra = model_extra(o);
    loader load;
    options.wake = ask_wake;
    options.no_lookup = !proposes;
    options.draft = proposes ? o->oracle : "";
    whimbrel_model *model = open_model(&options, &extra, true, &load);
    bool ok = model != NULL && load_model(model, &load);
    for (int64_t i = 0; ok && i < s->n; i++) {
        ok = answer_one(s, model, &s->answers[i], proposes);
        whim_progress_add(&s->bar, 1);
    }
    whimbrel_close(model);
    return ok;
}

/* --- the result ------------------------------------------------------------------------------- */

/* Tokens per block, of n blocks: the right ones, and the one that follows them. */
static double block_tokens(int64_t n, int64_t n_right)
{
    return n > 0 ? (double)(n + n_right) / (double)n : 1;
}

static bool result_print(const suite *s)
{
    double plain_s = 0, with_s = 0, best, n = 0;
    whim_str out = {0};
    double *gains = whim_alloc_array(s->n, (int64_t)sizeof *gains);
    if (gains == NULL) {
        complain(EXIT_FAILED, "out of memory for the result");
        return false;
    }
    for (int64_t i = 0; i < s->n; i++) {
        const answer *a = &s->answers[i];
        plain_s += a->plain_s;
        with_s += a->with_s;
        n += (double)(a->n_id - 1) * (double)s->options->repeats;
        gains[i] = a->with_s > 0 ? a->plain_s / a->with_s : 1; /* one token: nothing to gain */
    }
    double gain = bench_median(gains, s->n, &best);
    double slow = plain_s > 0 ? n / plain_s : 0, fast = with_s > 0 ? n / with_s : 0;
    double each = s->n_made > s->n_right ? (double)s->n_made / (double)(s->n_made - s->n_right) : 1;
    double right = s->n_proposed > 0 ? (double)s->n_right / (double)s->n_proposed : 0;
    double verify = block_tokens(s->n_block, s->n_right);
    double four = block_tokens(s->n_four, s->n_four_right);
    whim_free(gains);
    if (s->options->json) {
        whim_str_append(&out, "{\"model\":");
        json_text(&out, s->model);
        whim_str_append(&out, ",\"suite\":");
        json_text(&out, s->options->suite);
        whim_str_printf(&out,
                        ",\"questions\":%lld,\"tokens\":%lld,\"plain_tps\":%.3f,\"draft_tps\":%.3f,"
                        "\"speedup\":%.4f,\"tokens_per_step\":%.4f,\"tokens_per_verify\":%.4f,"
                        "\"tokens_per_verify_of_4\":%.4f,\"verifies\":%lld,\"verifies_of_4\":%lld,"
                        "\"proposed_tokens\":%lld,\"accepted_tokens\":%lld,\"same\":%s}\n",
                        (long long)s->n, (long long)s->n_made, slow, fast, gain, each, verify, four,
                        (long long)s->n_block, (long long)s->n_four, (long long)s->n_proposed,
                        (long long)s->n_right, s->same ? "true" : "false");
    } else {
        whim_str_printf(&out, "%9s %7s %9s %9s %8s %8s %8s %9s %8s %6s  %s\n", "questions",
                        "tokens", "plain/s", "draft/s", "speed-up", "a step", "a verify",
                        "of 4 rows", "proposed", "right", "tokens");
        whim_str_printf(&out, "%9lld %7lld %9.1f %9.1f %8.3f %8.2f %8.2f %9.2f %8lld %5.0f%%  %s\n",
                        (long long)s->n, (long long)s->n_made, slow, fast, gain, each, verify, four,
                        (long long)s->n_proposed, 100 * right, s->same ? "the same" : "DIFFERENT");
    }
    bool ok = print_out(&out);
    whim_str_deinit(&out);
    return ok;
}

static void suite_free(suite *s)
{
    for (int64_t i = 0; i < s->n_json; i++) {
        whim_json_free(s->json[i]);
    }
    for (int64_t i = 0; i < s->n; i++) {
        whim_free(s->answers[i].ids);
    }
    whim_free(s->json);
    whim_free(s->answers);
    whim_free(s->text);
}

int bench_suite(const whim_options *options, const char *model)
{
    static suite s; /* the bar must not move */
    whim_diag diag = {""};
    int code = EXIT_FAILED;
    s = (suite){.options = options, .model = model, .same = true};
    if (questions_read(&s, &diag) != WHIM_ERR_OK) {
        code = complain(EXIT_FAILED, "--suite: %s", diag.text);
        suite_free(&s);
        return code;
    }
    catch_interrupt(true);
    whim_progress_init(&s.bar,
                       &(whim_progress_cfg){
                           .label = "answers",
                           .total = 2 * s.n * options->repeats,
                           .fd = STDERR_FILENO,
                           .mode = options->quiet ? WHIM_PROGRESS_QUIET : WHIM_PROGRESS_AUTO,
                       });
    bool ok = true;
    for (int64_t round = 0; ok && round < 2 * options->repeats; round++) {
        ok = round_run(&s, round % 2 == 1);
    }
    whim_progress_finish(&s.bar, ok);
    if (ok && result_print(&s)) {
        code = s.same
                   ? EXIT_OK
                   : complain(EXIT_FAILED, "with proposals the tokens are not the same as without");
    }
    suite_free(&s);
    return interrupted ? EXIT_INTERRUPTED : code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of every dialect on every route that answers: each is served, refused by its name, or told
 * in the log's one line; there is no fourth way. */
#include "unit/server/read_body.h"

#include "server/anthropic/anthropic.h"
#include "server/llamacpp/llamacpp.h"
#include "server/ollama/ollama.h"
#include "server/openai/openai.h"
#include "server/responses/responses.h"

#include <unistd.h>

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define INTEGER "{\"type\":\"integer\"}"
#define OBJECT "{\"type\":\"object\"}"

/* `before` and `behind` are what stands around the field in the body. */
static const struct {
    const char *path;
    whim_task_reader *read;
    const char *before, *behind, *inside;
} routes[] = {
    {"/v1/chat/completions", whim_openai_read_chat, "{" HI ",", "}", ""},
    {"/v1/completions", whim_openai_read_completion, "{\"prompt\":\"a\",", "}", ""},
    {"/v1/responses", whim_responses_read, "{\"input\":\"a\",", "}", ""},
    {"/v1/messages", whim_anthropic_read_whole, "{" HI ",\"max_tokens\":9,", "}", ""},
    {"/completion", whim_llamacpp_read_completion, "{\"prompt\":\"a\",", "}", ""},
    {"/api/chat", whim_ollama_read_chat, "{" HI ",", "}", ""},
    {"/api/generate", whim_ollama_read_generate, "{\"prompt\":\"a\",", "}", ""},
    {"/api/chat", whim_ollama_read_chat, "{" HI ",\"options\":{", "}}", "options."},
    {"/api/generate", whim_ollama_read_generate, "{\"prompt\":\"a\",\"options\":{", "}}",
     "options."},
};
enum { N_ROUTE = sizeof routes / sizeof routes[0] };

static char said[4096]; /* by the log */

/* NULL: refused, and read_fault says why. */
static whim_task *open_body(size_t route, const char *body)
{
    FILE *file = tmpfile();
    whim_log log;
    assert_non_null(file);
    whim_log_init(&log, fileno(file), WHIM_LOG_INFO);
    exchange = (whim_exchange){.request = {.method = "POST",
                                           .path = routes[route].path,
                                           .body = body,
                                           .n_body = (int64_t)strlen(body),
                                           .request_id = "req-1"}};
    read_fault = (whim_fault){0};
    api.log = &log;
    whim_task *task = whim_task_open(&api, &exchange, routes[route].read, &read_fault);
    api.log = NULL;
    whim_log_deinit(&log);
    ssize_t n = pread(fileno(file), said, sizeof said - 1, 0);
    assert_true(n >= 0);
    said[n] = '\0';
    fclose(file);
    return task;
}

/* What says by its value what holds anyway: nothing is said about it. */
static bool anything(const whim_task *task)
{
    return task != NULL;
}

/* 's': served, 'r': refused by its name, 't': told, '-': none of these. */
static char outcome(size_t route, const char *name, const char *member,
                    bool (*served_by)(const whim_task *task))
{
    char body[1024], full[128], line[256];
    snprintf(body, sizeof body, "%s%s%s", routes[route].before, member, routes[route].behind);
    snprintf(full, sizeof full, "%s%s", routes[route].inside, name);
    snprintf(line, sizeof line, "event=unknown_fields id=req-1 n=1 names=%s\n", full);
    whim_task *task = open_body(route, body);
    bool served = task != NULL && served_by != NULL && served_by(task);
    bool refused = task == NULL && read_fault.kind == WHIM_FAULT_BAD_VALUE &&
                   strcmp(read_fault.param, full) == 0;
    bool told = strstr(said, line) != NULL;
    whim_task_destroy(task);
    return told                        ? (served && served_by != anything ? '-' : 't')
           : served && said[0] == '\0' ? 's'
           : refused                   ? 'r'
                                       : '-';
}

static int n_wrong; /* members, which are printed */

/* `want` has a letter for each route, or the one that all of them have. */
static void assert_outcomes(const char *name, const char *member,
                            bool (*served_by)(const whim_task *task), const char *want)
{
    char found[N_ROUTE + 1] = "";
    bool same = true;
    for (size_t i = 0; i < N_ROUTE; i++) {
        found[i] = outcome(i, name, member, served_by);
        same = same && found[i] == (want[1] == '\0' ? want[0] : want[i]);
    }
    if (!same) {
        print_error("%s: %s, expected %s\n", member, found, want);
        n_wrong++;
    }
}

/* --- those of the table of foreign fields ------------------------------------------------------ */

static bool holds_form(const whim_task *task)
{
    return task->form_at != NULL &&
           (task->schema != NULL || task->ask.json_object || task->ask.regex != NULL ||
            task->ask.n_word > 0 || task->ask.grammar != NULL);
}

/* A member of this name: one with a dot stands in an object. */
static const char *member_of(const char *name, const char *value)
{
    static char text[512];
    const char *dot = strchr(name, '.');
    snprintf(text, sizeof text, dot == NULL ? "\"%.*s\":%s%s" : "\"%.*s\":{\"%s\":%s}",
             (int)(dot == NULL ? strlen(name) : (size_t)(dot - name)), name,
             dot == NULL ? value : dot + 1, dot == NULL ? "" : value);
    return text;
}

#define VALUE_SCHEMA INTEGER
#define VALUE_OBJECT "true"
#define VALUE_REGEX "\"a+\""
#define VALUE_WORDS "[\"a\"]"
#define VALUE_GRAMMAR "\"root ::= [ab]\""

static void foreign_fields_have_one_outcome(void **state)
{
    (void)state;
#define FOREIGN_FORM(name, kind) \
    assert_outcomes(name, member_of(name, VALUE_##kind), holds_form, "s");
#define FOREIGN_REFUSED(name, lo, hi, why) \
    assert_outcomes(name, member_of(name, "true"), NULL, "r");
#define FOREIGN_IDLE(name)
#define FOREIGN_TOLD(name, lo, hi) assert_outcomes(name, member_of(name, "true"), NULL, "t");
#include "server/body/foreign.def"
#undef FOREIGN_FORM
#undef FOREIGN_REFUSED
#undef FOREIGN_IDLE
#undef FOREIGN_TOLD
    assert_int_equal(n_wrong, 0);
}

/* --- the others -------------------------------------------------------------------------------- */

static bool has_schema(const whim_task *task)
{
    return task->schema != NULL && holds_form(task);
}
static bool has_regex(const whim_task *task)
{
    return task->ask.regex != NULL && holds_form(task);
}
static bool has_bans(const whim_task *task)
{
    return task->history != NULL && task->history->n_ban > 0;
}
static bool has_dry(const whim_task *task)
{
    return task->history != NULL && task->history->dry_multiplier == 2;
}
static bool has_dry_settings(const whim_task *task)
{
    return has_dry(task) && task->history->dry_base == 3 && task->history->dry_allowed == 4 &&
           task->history->dry_last == 5;
}
static bool has_xtc(const whim_task *task)
{
    return task->sampling.xtc_probability == 0.5f;
}
static bool has_xtc_threshold(const whim_task *task)
{
    return task->sampling.xtc_threshold == 0.25f;
}
static bool has_allowed(const whim_task *task)
{
    return task->n_allowed == 2 && task->allowed[1] == 7;
}
static bool is_cut(const whim_task *task)
{
    return task->keep_last == 3;
}
static bool has_stop(const whim_task *task)
{
    return task->ask.n_stop == 1;
}
static bool has_choices(const whim_task *task)
{
    return task->ask.n_choice == 2;
}

/* Chat, completions, responses, messages, /completion, /api/chat, /api/generate, and the options of
 * these two. */
static void all_fields_have_an_outcome(void **state)
{
    static const struct {
        const char *name, *member;
        bool (*served_by)(const whim_task *task);
        const char *want;
    } rows[] = {
        {"response_format", "\"response_format\":{\"type\":\"json_schema\",\"schema\":" OBJECT "}",
         has_schema, "ssrrsrrtt"},
        {"response_format", "\"response_format\":{\"type\":\"json_object\",\"schema\":" OBJECT "}",
         has_schema, "ssrrsrrtt"},
        {"response_format",
         "\"response_format\":{\"type\":\"json_object\",\"json_schema\":{\"schema\":" OBJECT "}}",
         has_schema, "ssrrsrrtt"},
        {"response_format", "\"response_format\":{\"type\":\"json_object\",\"value\":" OBJECT "}",
         has_schema, "ssrrsrrtt"},
        {"response_format", "\"response_format\":{\"type\":\"json\",\"value\":" OBJECT "}",
         has_schema, "ssrrsrrtt"},
        {"response_format",
         "\"response_format\":{\"type\":\"json_schema\",\"value\":{\"name\":\"x\","
         "\"schema\":" OBJECT "}}",
         has_schema, "ssrrsrrtt"},
        {"response_format", "\"response_format\":{\"type\":\"regex\",\"value\":\"a+\"}", has_regex,
         "ssrrsrrtt"},
        {"text", "\"text\":{\"format\":{\"type\":\"json_object\",\"schema\":" OBJECT "}}",
         has_schema, "rrsrrrrtt"},
        {"format", "\"format\":" OBJECT, has_schema, "rrrrrsstt"},
        {"output_format", "\"output_format\":{\"type\":\"json_schema\",\"schema\":" OBJECT "}",
         has_schema, "rrrsrrrtt"},
        {"regex", "\"regex\":\"a+\"", holds_form, "ssssssstt"},
        {"choice", "\"choice\":[\"a\"]", holds_form, "ssssssstt"},
        {"bad_words", "\"bad_words\":[\"a\"]", has_bans, "s"},
        {"allowed_token_ids", "\"allowed_token_ids\":[5,7]", has_allowed, "s"},
        {"truncate_prompt_tokens", "\"truncate_prompt_tokens\":3", is_cut, "ssssssstt"},
        {"dry_multiplier", "\"dry_multiplier\":2", has_dry, "s"},
        {"dry_base",
         "\"dry_multiplier\":2,\"dry_base\":3,\"dry_allowed_length\":4,\"dry_penalty_last_n\":5,"
         "\"dry_sequence_breakers\":[\"a\"]",
         has_dry_settings, "s"},
        {"xtc_probability", "\"xtc_probability\":0.5", has_xtc, "s"},
        {"xtc_threshold", "\"xtc_threshold\":0.25", has_xtc_threshold, "s"},
        {"stop", "\"stop\":[\"x\"]", has_stop, "ssststtss"},
        {"n", "\"n\":2", has_choices, "ssttstttt"},
        {"beam_width", "\"beam_width\":2", NULL, "t"},
        {"truncation", "\"truncation\":\"auto\"", NULL, "t"},
        {"truncation", "\"truncation\":\"disabled\"", anything, "ttstttttt"},
        {"truncation", "\"truncation\":\"left\"", NULL, "ttrtttttt"},
        {"context_management",
         "\"context_management\":{\"edits\":[{\"type\":\"clear_tool_uses_20250919\"}]}", NULL, "t"},
        {"context_management",
         "\"context_management\":{\"edits\":[{\"type\":\"clear_thinking_20251015\","
         "\"keep\":{\"type\":\"thinking_turns\",\"value\":1}}]}",
         NULL, "t"},
        {"context_management",
         "\"context_management\":{\"edits\":[{\"type\":\"clear_thinking_20251015\","
         "\"keep\":\"all\"}]}",
         anything, "tttsttttt"},
        {"context_management", "\"context_management\":{\"edits\":[]}", anything, "tttsttttt"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_outcomes(rows[i].name, rows[i].member, rows[i].served_by, rows[i].want);
    }
    assert_int_equal(n_wrong, 0);
}

/* What says so is not seen where nothing is said. */
static void nothing_is_served_without_a_field(void **state)
{
    bool (*const served_by[])(const whim_task *task) = {
        holds_form, has_schema,        has_regex,   has_bans, has_dry,  has_dry_settings,
        has_xtc,    has_xtc_threshold, has_allowed, is_cut,   has_stop, has_choices};
    (void)state;
    for (size_t i = 0; i < N_ROUTE; i++) {
        for (size_t k = 0; k < sizeof served_by / sizeof served_by[0]; k++) {
            if (outcome(i, "user", "\"user\":\"u\"", served_by[k]) == 's') {
                fail_msg("%s: %zu", routes[i].path, k);
            }
        }
    }
}

/* Under the name that a route has for it, -1 is no limit, or no number of tokens. */
static void a_limit_of_minus_one(void **state)
{
    static const struct {
        size_t route;
        const char *before, *behind, *param; /* of the limit; NULL: it is taken */
    } rows[] = {
        {0, "{" HI ",\"max_tokens\":", "}", NULL},
        {0, "{" HI ",\"max_completion_tokens\":", "}", NULL},
        {1, "{\"prompt\":\"a\",\"max_tokens\":", "}", NULL},
        {2, "{\"input\":\"a\",\"max_output_tokens\":", "}", "max_output_tokens"},
        {3, "{" HI ",\"max_tokens\":", "}", "max_tokens"},
        {4, "{\"prompt\":\"a\",\"n_predict\":", "}", NULL},
        {4, "{\"prompt\":\"a\",\"max_tokens\":", "}", NULL},
        {5, "{" HI ",\"options\":{\"num_predict\":", "}}", NULL},
        {6, "{\"prompt\":\"a\",\"options\":{\"num_predict\":", "}}", NULL},
    };
    char body[256];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(body, sizeof body, "%s9%s", rows[i].before, rows[i].behind);
        whim_task *task = open_body(rows[i].route, body);
        assert_non_null(task);
        assert_int_equal(task->ask.max_tokens, 9);
        whim_task_destroy(task);
        snprintf(body, sizeof body, "%s-1%s", rows[i].before, rows[i].behind);
        task = open_body(rows[i].route, body);
        assert_string_equal(said, "");
        if (rows[i].param == NULL) {
            assert_non_null(task);
            assert_int_equal(task->ask.max_tokens, 0);
        } else {
            assert_null(task);
            assert_string_equal(read_fault.param, rows[i].param);
        }
        whim_task_destroy(task);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(foreign_fields_have_one_outcome),
        cmocka_unit_test(all_fields_have_an_outcome),
        cmocka_unit_test(nothing_is_served_without_a_field),
        cmocka_unit_test(a_limit_of_minus_one),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}

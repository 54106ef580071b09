/* SPDX-License-Identifier: Apache-2.0 */
/* Fields that nobody looks at: one line, counted, few names, cut and made plain; none in a log of
 * warnings. */
#include <stdint.h>

#include "server/body/body.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *path = "/v1/completions";

/* What the body makes the log say, of which `model`, `n` and `options.seed` are looked at. */
static const char *said(const char *body, whim_log_level level)
{
    static char text[4096];
    FILE *file = tmpfile();
    whim_log log;
    whim_looked_at at = {.n_field = 0};
    json_t *json = json_loads(body, 0, NULL);
    whim_fields f = {.obj = json, .looked_at = &at}, in;
    assert_non_null(file);
    assert_non_null(json);
    (void)whim_field(&f, "n");
    (void)whim_field(&f, "model");
    assert_true(whim_field_inside(&f, "options", &in));
    (void)whim_field(&in, "seed");
    (void)whim_field(&in, "seed");
    whim_log_init(&log, fileno(file), level);
    whim_unknown_fields_log(&log, json, &at, path, "req-1");
    whim_log_deinit(&log);
    ssize_t n = pread(fileno(file), text, sizeof text - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    json_decref(json);
    fclose(file);
    return text;
}

static void known_fields_are_silent(void **state)
{
    (void)state;
    assert_string_equal(said("{}", WHIM_LOG_DEBUG), "");
    /* looked at; the first and the last that have no effect; null is absent */
    assert_string_equal(said("{\"model\":1,\"n\":1,\"options\":{\"seed\":1},\"metadata\":1,"
                             "\"user\":1,\"chat_id\":null}",
                             WHIM_LOG_DEBUG),
                        "");
    /* of other servers, of no effect */
    assert_string_equal(said("{\"mirostat_tau\":1,\"samplers\":[]}", WHIM_LOG_DEBUG), "");
}

/* Of other servers, not done here: silent only where the value says what holds anyway. */
static void what_would_change_answers_is_told(void **state)
{
    (void)state;
    assert_string_equal(said("{\"min_keep\":0,\"repeat_last_n\":-1,\"t_max_predict_ms\":-1,"
                             "\"timings_per_token\":false}",
                             WHIM_LOG_DEBUG),
                        "");
    const char *line = said("{\"min_keep\":1,\"repeat_last_n\":64,\"t_max_predict_ms\":9,"
                            "\"samplers\":[\"top_k\"],\"timings_per_token\":true}",
                            WHIM_LOG_DEBUG);
    assert_non_null(strstr(line, " n=5 names=min_keep,repeat_last_n,t_max_predict_ms,samplers,"
                                 "timings_per_token\n"));
    path = "/api/chat";
    line = said("{\"options\":{\"repeat_last_n\":64,\"penalize_newline\":true}}", WHIM_LOG_DEBUG);
    assert_non_null(strstr(line, " n=2 names=options.repeat_last_n,options.penalize_newline\n"));
    path = "/v1/completions";
}

static void unknown_ones_are_told_in_one_line(void **state)
{
    (void)state;
    const char *line =
        said("{\"model\":1,\"chat_id\":\"secret\",\"a\\n b=\\u00e9\":2}", WHIM_LOG_DEBUG);
    assert_non_null(strstr(line, "unknown_fields id=req-1 n=2 names=chat_id,a??b???\n"));
    assert_null(strstr(line, "secret"));
    line =
        said("{\"u1\":1,\"u2\":1,\"u3\":1,\"u4\":1,\"u5\":1,\"u6\":1,\"u7\":1,\"u8\":1,\"u9\":1}",
             WHIM_LOG_INFO);
    assert_non_null(strstr(line, " n=9 names=u1,u2,u3,u4,u5,u6,u7,u8")); /* the first of them */
    assert_null(strstr(line, "u9"));
    assert_non_null(strstr(said("{\"chat_id\":1}", WHIM_LOG_INFO), " n=1 names=chat_id\n"));
    assert_string_equal(said("{\"chat_id\":1}", WHIM_LOG_WARN), "");
    whim_unknown_fields_log(NULL, NULL, NULL, path, "");
    /* what another route reads, and what the reader did not come to */
    assert_non_null(strstr(said("{\"n_predict\":1,\"echo\":1,\"n\":1}", WHIM_LOG_INFO),
                           " n=2 names=n_predict,echo\n"));
}

/* Those inside objects have their names; what has no effect has none on its own routes. */
static void dialects_know_their_own(void **state)
{
    (void)state;
    static const char body[] = "{\"keep_alive\":1,\"options\":{\"num_ctx\":1,\"seed\":1,"
                               "\"temprature\":1}}";
    assert_non_null(strstr(said(body, WHIM_LOG_DEBUG),
                           " n=3 names=keep_alive,options.num_ctx,options.temprature\n"));
    path = "/api/chat";
    assert_non_null(strstr(said(body, WHIM_LOG_DEBUG), " n=1 names=options.temprature\n"));
    path = "/v1/completions";
}

static void names_are_few_and_short(void **state)
{
    (void)state;
    const char *line = said("{\"x1\":1,\"x2\":1,\"x3\":1,\"x4\":1,\"x5\":1,\"x6\":1,\"x7\":1,"
                            "\"x8\":1,\"x9\":1}",
                            WHIM_LOG_DEBUG);
    assert_non_null(strstr(line, " n=9 names=x1,x2,x3,x4,x5,x6,x7,x8\n"));
    char body[256];
    snprintf(body, sizeof body, "{\"%0100d\":1}", 0);
    line = said(body, WHIM_LOG_DEBUG);
    assert_int_equal(strlen(strstr(line, "names=")), strlen("names=") + 64 + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_fields_are_silent),
        cmocka_unit_test(what_would_change_answers_is_told),
        cmocka_unit_test(unknown_ones_are_told_in_one_line),
        cmocka_unit_test(dialects_know_their_own),
        cmocka_unit_test(names_are_few_and_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* generation_config.json: what files say, what they leave out, what is refused. */
#include "models/model.h"
#include "support/cmocka.h"
#include "weights/ckpt.h"

#include <stdint.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static whim_generation gen;
static whim_diag diag;

static whim_err parse(const char *text)
{
    gen = whim_generation_ours;
    return whim_generation_parse(&gen, NULL, text, (int64_t)strlen(text), "g.json", &diag);
}

static void expect(whim_generation_source source, double temperature, int64_t top_k, double top_p,
                   double min_p, double penalty)
{
    assert_int_equal(gen.source, source);
    assert_true(gen.temperature == temperature && gen.top_p == top_p && gen.min_p == min_p);
    assert_true(gen.repetition_penalty == penalty);
    assert_int_equal(gen.top_k, top_k);
}

static void what_the_file_says_holds(void **state)
{
    (void)state;
    assert_int_equal(
        parse("{\"do_sample\": true, \"temperature\": 0.6, \"top_k\": 20, \"top_p\": 0.95, "
              "\"min_p\": 0.05, \"repetition_penalty\": 1.1, \"eos_token_id\": [1, 2]}"),
        WHIM_ERR_OK);
    expect(WHIM_GENERATION_CONFIG, 0.6, 20, 0.95, 0.05, 1.1);
}

static void what_it_leaves_out_is_off(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"do_sample\": true}"), WHIM_ERR_OK);
    expect(WHIM_GENERATION_CONFIG, 1, 0, 1, 0, 1);
    assert_int_equal(parse("{\"top_p\": 0.8, \"temperature\": null}"), WHIM_ERR_OK);
    expect(WHIM_GENERATION_CONFIG, 1, 0, 0.8, 0, 1);
    assert_int_equal(parse("{\"top_k\": -1}"), WHIM_ERR_OK);
    expect(WHIM_GENERATION_CONFIG, 1, 0, 1, 0, 1);
}

static void no_sampling_is_greedy(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"do_sample\": false, \"temperature\": 0.6}"), WHIM_ERR_OK);
    expect(WHIM_GENERATION_CONFIG, 0, 0, 1, 0, 1);
}

static void silence_leaves_our_choice(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"eos_token_id\": 2, \"transformers_version\": \"4.4\"}"),
                     WHIM_ERR_OK);
    expect(WHIM_GENERATION_OURS, 0.8, 40, 0.95, 0.05, 1);
    assert_string_equal(whim_generation_source_name(gen.source), "whimbrel");
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{\"temperature\": -1}",
        "{\"temperature\": \"hot\"}",
        "{\"top_p\": 2}",
        "{\"top_k\": 1.5}",
        "{\"do_sample\": 1}",
        "{\"min_p\": -0.1}",
        "{\"repetition_penalty\": 0}",
        "{\"top_k\": -2}",
        "[1]",
        "{\"temperature\": 0.5",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        diag.text[0] = '\0';
        assert_int_not_equal(parse(bad[i]), WHIM_ERR_OK);
        assert_non_null(strstr(diag.text, "g.json"));
        expect(WHIM_GENERATION_OURS, 0.8, 40, 0.95, 0.05, 1); /* nothing half-read */
    }
}

static void put_file(const char *dir, const char *name, const char *text)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void the_file_of_a_directory_is_found(void **state)
{
    (void)state;
    char dir[] = "/tmp/whim-generation-XXXXXX", path[160];
    whim_ckpt ckpt;
    assert_non_null(mkdtemp(dir));
    put_file(dir, "config.json", "{\"model_type\": \"llama\", \"eos_token_id\": 2}");
    assert_int_equal(whim_ckpt_open_config(&ckpt, whim_model_archs(), dir, &diag), WHIM_ERR_OK);
    gen = ckpt.generation;
    expect(WHIM_GENERATION_OURS, 0.8, 40, 0.95, 0.05, 1);
    whim_ckpt_close(&ckpt);
    put_file(dir, "generation_config.json", "{\"temperature\": 0.25, \"eos_token_id\": 7}");
    assert_int_equal(whim_ckpt_open_config(&ckpt, whim_model_archs(), dir, &diag), WHIM_ERR_OK);
    gen = ckpt.generation;
    expect(WHIM_GENERATION_CONFIG, 0.25, 0, 1, 0, 1);
    assert_true(ckpt.config.n_eos == 2 && ckpt.config.eos[1] == 7);
    whim_ckpt_close(&ckpt);
    /* Wishes that make no sense are refused by who samples, end ids at once. */
    put_file(dir, "generation_config.json", "{\"temperature\": -1, \"eos_token_id\": 7}");
    assert_int_equal(whim_ckpt_open_config(&ckpt, whim_model_archs(), dir, &diag), WHIM_ERR_OK);
    assert_non_null(strstr(ckpt.generation.refused, "\"temperature\" is -1"));
    whim_ckpt_close(&ckpt);
    put_file(dir, "generation_config.json", "{\"temperature\": 1, \"eos_token_id\": {}}");
    assert_int_equal(whim_ckpt_open_config(&ckpt, whim_model_archs(), dir, &diag),
                     WHIM_ERR_CORRUPT);
    assert_non_null(strstr(diag.text, "eos_token_id"));
    snprintf(path, sizeof path, "%s/generation_config.json", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/config.json", dir);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_file_says_holds),
        cmocka_unit_test(what_it_leaves_out_is_off),
        cmocka_unit_test(no_sampling_is_greedy),
        cmocka_unit_test(silence_leaves_our_choice),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(the_file_of_a_directory_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

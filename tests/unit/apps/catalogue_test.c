/* SPDX-License-Identifier: Apache-2.0 */
/* Short names of models, and the columns of `list` and `ps`. */
#include "hub/ref.h"
#include "local/catalogue.h"
#include "local/table.h"
#include "support/cmocka.h"

#include <string.h>

static void names_lead_to_models(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"qwen3", "Qwen/Qwen3-8B-GGUF:Q4_K_M"},
        {"qwen3:4b", "Qwen/Qwen3-4B-GGUF:Q4_K_M"},
        {"QWEN3:4B", "Qwen/Qwen3-4B-GGUF:Q4_K_M"},
        {"qwen3:latest", "Qwen/Qwen3-8B-GGUF:Q4_K_M"},
        {"llama3.2", "bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M"},
        {"llama3.2:3b-instruct", "bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M"},
        {"llama3.2:3b-instruct-q8_0", "bartowski/Llama-3.2-3B-Instruct-GGUF:q8_0"},
        {"llama3.2:1b-fp16", "bartowski/Llama-3.2-1B-Instruct-GGUF:f16"},
        {"qwen3:8b-iq4_xs", "Qwen/Qwen3-8B-GGUF:iq4_xs"},
    };
    static const char *const none[] = {
        "",        "qwen3:3b", "qwen",        "Qwen/qwen3",  "qwen3 ",    "qwen3@main",    "qwen3:",
        ":latest", "-q4_k_m",  "qwen3:4b-qx", "qwen3:4b-q4", "-instruct", "qwen3:8b qwen3"};
    char canonical[CATALOGUE_TEXT_MAX], longer[2 * CATALOGUE_TEXT_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_non_null(catalogue_find(cases[i][0], canonical));
        assert_string_equal(canonical, cases[i][1]);
    }
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_null(catalogue_find(none[i], canonical));
    }
    memset(longer, 'q', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    assert_null(catalogue_find(longer, canonical));
}

static void rows_are_sound(void **state)
{
    (void)state;
    int32_t n;
    const catalogue_row *rows = catalogue_rows(&n);
    int64_t last = 0;
    for (int32_t i = 0; i < n; i++) {
        char name[CATALOGUE_TEXT_MAX], canonical[CATALOGUE_TEXT_MAX];
        whim_hub_ref ref;
        whim_diag diag;
        catalogue_name(&rows[i], name);
        assert_ptr_equal(catalogue_find(name, canonical), &rows[i]); /* none has another's name */
        assert_int_equal(whim_hub_ref_parse(&ref, canonical, &diag), WHIM_ERR_OK);
        assert_true(rows[i].disk <= rows[i].memory && rows[i].active <= rows[i].disk);
        assert_true(!rows[i].offered || rows[i].memory > rows[i].active);
        last = rows[i].offered ? rows[i].memory : last;
    }
    assert_true(last > 0);
}

static void near_names_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *typed, *near;
    } cases[] = {{"qwen3:3b", "qwen3:0.6b, qwen3:1.7b"},
                 {"Qwen3:70b", "qwen3:0.6b, qwen3:1.7b"},
                 {"lama3.2", "llama3.2:1b, llama3.2:3b"},
                 {"smollm", "smollm2:360m, smollm2:1.7b"},
                 {"gemma3:4b", ""},
                 {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_str out = {0};
        int32_t n = catalogue_near(&out, cases[i].typed, 2);
        assert_string_equal(whim_str_text(&out), cases[i].near);
        assert_int_equal(n, cases[i].near[0] != '\0' ? 2 : 0);
        whim_str_deinit(&out);
    }
}

static void columns_are_as_wide_as_their_texts(void **state)
{
    (void)state;
    text_table table;
    whim_str out = {0};
    char age[32];
    text_table_init(&table, (const char *const[]){"A", "LONG", NULL});
    text_table_add(&table, (const char *const[]){"\xc3\xa4\xc3\xb6xx", "1"});
    text_table_add(&table, (const char *const[]){"b", "2"});
    text_table_write(&table, &out);
    assert_string_equal(whim_str_text(&out), "A     LONG\n\xc3\xa4\xc3\xb6xx  1\nb     2\n");
    text_table_deinit(&table);
    whim_str_deinit(&out);
    format_age(age, sizeof age, 1);
    assert_string_equal(age, "1 second");
    format_age(age, sizeof age, 7199);
    assert_string_equal(age, "1 hour");
    format_age(age, sizeof age, -5);
    assert_string_equal(age, "0 seconds");
    format_age(age, sizeof age, 86400 * 3 + 5);
    assert_string_equal(age, "3 days");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_lead_to_models),
                                       cmocka_unit_test(rows_are_sound),
                                       cmocka_unit_test(near_names_are_told),
                                       cmocka_unit_test(columns_are_as_wide_as_their_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

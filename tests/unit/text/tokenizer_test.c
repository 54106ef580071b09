/* SPDX-License-Identifier: Apache-2.0 */
/* Ids and texts against those of the `tokenizers` library: the Qwen3 tokenizer, the default
 * model's, and small ones that use every option. */
#include "models/model.h"
#include "unit/text/text_fixture.h"

#include "weights/gguf/gguf.h"

#include <unistd.h>

static int n_shown;

static void show(const char *what, const char *bytes, int64_t n)
{
    fprintf(stderr, "  %s: ", what);
    for (int64_t i = 0; i < n && i < 160; i++) {
        uint8_t c = (uint8_t)bytes[i];
        fprintf(stderr, c >= 0x20 && c < 0x7F ? "%c" : "\\x%02x", c);
    }
    fprintf(stderr, "\n");
}

static bool same_ids(const whim_ids *ids, const golden *g)
{
    bool same =
        ids->n == g->n_id && (g->n_id == 0 || memcmp(ids->ids, g->ids, 4 * (size_t)g->n_id) == 0);
    if (!same && n_shown++ < 10) {
        show("text", g->text, g->n);
        for (int64_t i = 0; i < g->n_id || i < ids->n; i++) {
            int32_t want = -1;
            if (i < g->n_id) {
                memcpy(&want, g->ids + 4 * i, 4);
            }
            if (i >= ids->n || ids->ids[i] != want) {
                fprintf(stderr, "  id %lld is %d, expected %d\n", (long long)i,
                        i < ids->n ? ids->ids[i] : -1, want);
                break;
            }
        }
    }
    return same;
}

/* Returns how many strings there were; fails if one differs. */
static int64_t compare(const whim_tokenizer *tok, const char *command)
{
    int64_t n, bad_ids = 0, bad_text = 0;
    char *data = command_output(command, &n);
    assert_non_null(data);
    assert_memory_equal(data, "WTG1", 4);
    const uint8_t *at = (const uint8_t *)data + 4;
    uint32_t count = golden_u32(&at);
    for (uint32_t i = 0; i < count; i++) {
        golden g = golden_next(&at);
        assert_true(at <= (const uint8_t *)data + n);
        whim_encode_opts opts = {.parse_special = true, .add_special = g.add_special};
        whim_ids ids = encode(tok, g.text, g.n, opts);
        bad_ids += !same_ids(&ids, &g);
        whim_str text = decode(tok, &ids, true);
        if (text.len != g.n_decoded ||
            memcmp(whim_str_text(&text), g.decoded, (size_t)text.len) != 0) {
            bad_text++;
            if (n_shown++ < 10) {
                show("decoded", whim_str_text(&text), text.len);
                show("expected", g.decoded, g.n_decoded);
            }
        }
        whim_str_deinit(&text);
        whim_ids_deinit(&ids);
    }
    assert_true(at == (const uint8_t *)data + n);
    free(data);
    if (bad_ids + bad_text > 0) {
        fail_msg("%s: of %u strings %lld have other ids, %lld another text", command, count,
                 (long long)bad_ids, (long long)bad_text);
    }
    return count;
}

static void qwen3_matches_the_library(void **state)
{
    (void)state;
    whim_tokenizer *tok = open_file("xz -dc tests/data/text/qwen3.json.xz");
    assert_true(compare(tok, "xz -dc tests/data/text/qwen3.golden.xz") >= 5000);
    assert_int_equal(whim_tokenizer_count(tok), 151669);
    assert_int_equal(whim_tokenizer_find(tok, "<|im_end|>"), 151645);
    assert_true(whim_tokenizer_is_special(tok, 151645));
    assert_false(whim_tokenizer_is_special(tok, whim_tokenizer_find(tok, "<think>")));
    whim_tokenizer_close(tok);
}

static void default_model_matches_the_library(void **state)
{
    (void)state;
    char path[1024];
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    snprintf(path, sizeof path, "%s%s/whimbrel/SmolLM2-135M-Instruct.Q4_1.gguf",
             cache != NULL  ? cache
             : home != NULL ? home
                            : "",
             cache != NULL ? "" : "/.cache");
    if (access(path, R_OK) != 0) {
        skip(); /* tools/fetch-default-model brings it */
    }
    whim_ckpt ckpt;
    whim_tokenizer *tok;
    whim_diag diag = {{0}};
    assert_int_equal(whim_ckpt_open(&ckpt, whim_model_archs(), path, &diag), WHIM_ERR_OK);
    if (whim_tokenizer_open(path, &ckpt, &tok, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    assert_true(compare(tok, "xz -dc tests/data/text/default.golden.xz") >= 5000);
    assert_int_equal(whim_tokenizer_count(tok), 49152);
    assert_string_equal(whim_tokenizer_bos(tok), "<|im_start|>");
    assert_string_equal(whim_tokenizer_eos(tok), "<|im_end|>");
    assert_non_null(strstr(whim_tokenizer_template(tok, NULL), "im_start"));
    assert_null(whim_tokenizer_template(tok, "tool_use"));
    int32_t stop[8];
    assert_int_equal(whim_tokenizer_stop_ids(tok, stop, 8), 2);
    assert_int_equal(stop[0], 2);
    assert_int_equal(stop[1], 0);
    /* The vocabulary has no symbol for byte 0x04: it is dropped. */
    whim_ids ids = encode(tok,
                          "a\x04"
                          "b",
                          3, (whim_encode_opts){0});
    assert_int_equal(ids.n, 2);
    whim_ids_deinit(&ids);
    whim_tokenizer_close(tok);
    whim_ckpt_close(&ckpt);
}

static void every_option_matches_the_library(void **state)
{
    (void)state;
    int64_t n, tried = 0;
    char *names = command_output("cd tests/data/text/tiny && ls *.json", &n);
    assert_non_null(names);
    for (char *name = names; name < names + n;) {
        char *end = memchr(name, '.', (size_t)(names + n - name));
        char command[512];
        snprintf(command, sizeof command, "cat tests/data/text/tiny/%.*s.json", (int)(end - name),
                 name);
        whim_tokenizer *tok = open_file(command);
        snprintf(command, sizeof command, "gzip -dc tests/data/text/tiny/%.*s.golden.gz",
                 (int)(end - name), name);
        assert_true(compare(tok, command) > 400);
        whim_tokenizer_close(tok);
        tried++;
        name = end + sizeof ".json";
    }
    free(names);
    assert_true(tried >= 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen3_matches_the_library),
        cmocka_unit_test(default_model_matches_the_library),
        cmocka_unit_test(every_option_matches_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

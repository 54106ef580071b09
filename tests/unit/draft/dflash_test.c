/* SPDX-License-Identifier: Apache-2.0 */
/* Tiny DFlash drafts against a PyTorch implementation (tools/golden/make_draft_golden.py): the
 * tokens that they propose after a prompt and after some accepted tokens, however the rows before
 * them were fed. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "engine/engine.h"
#include "support/cmocka.h"
#include "support/drive.h"
#include "support/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_TEXT = 128, MAX_BLOCK = 16 };

static const char *const names[] = {"llama-f32-dflash", "llama-f32-dflash-window",
                                    "llama-f32-dflash-tokens", "qwen3-f32-dflash"};
enum { N_NAME = sizeof names / sizeof names[0] };

static whim_diag diag;
static const char *draft_type; /* of the next draft */

typedef struct golden {
    whim_json *json;
    whim_json_scope top;
} golden;

static golden golden_open(const char *name)
{
    static char path[256];
    golden g = {0};
    char *text = NULL;
    int64_t n = 0;
    snprintf(path, sizeof path, "tests/data/drafts/%s/golden.json", name);
    assert_int_equal(whim_file_read_all(path, 1 << 20, &text, &n, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_json_parse(&g.json, text, n,
                                     (whim_json_limits){.max_bytes = 1 << 20, .max_depth = 16},
                                     path, &diag),
                     WHIM_ERR_OK);
    whim_free(text);
    g.top = (whim_json_scope){.obj = g.json, .path = path, .prefix = "", .diag = &diag};
    return g;
}

static const whim_json *array_of(const whim_json *obj, const char *key)
{
    const whim_json *out = NULL;
    whim_json_scope at = {.obj = obj, .path = "golden", .prefix = "", .diag = &diag};
    assert_int_equal(whim_json_get_array(&at, key, &out), WHIM_ERR_OK);
    assert_non_null(out);
    return out;
}

static int64_t ids_of(const whim_json *obj, const char *key, int32_t *out)
{
    const whim_json *ids = array_of(obj, key);
    int64_t n = whim_json_size(ids);
    for (int64_t i = 0; i < n; i++) {
        int64_t id = -1;
        assert_true(i < MAX_TEXT && whim_json_as_int(whim_json_at(ids, i), &id));
        out[i] = (int32_t)id;
    }
    return n;
}

static whim_engine *engine_open(const golden *g, const char *name)
{
    const char *target = NULL;
    static char model[256], draft[256];
    assert_int_equal(whim_json_get_string(&g->top, "target", &target), WHIM_ERR_OK);
    snprintf(model, sizeof model, "tests/data/golden/%s", target);
    snprintf(draft, sizeof draft, "tests/data/drafts/%s", name);
    whim_engine_cfg cfg = {.model = model,
                           .draft = draft,
                           .draft_type = draft_type,
                           .n_thread = 2,
                           .max_seqs = 2,
                           .max_outs = 2 * MAX_BLOCK,
                           .ctx = MAX_TEXT};
    whim_engine *engine = drive_open(&cfg, &diag);
    if (engine == NULL) {
        fail_msg("%s", diag.text);
    }
    return engine;
}

/* Feed text[from .. to) in steps of `chunk`, each followed by rows that are cut off again. */
static void feed(whim_runner *runner, whim_sequence *seq, const int32_t *text, int64_t to,
                 int64_t chunk)
{
    static const int32_t junk[] = {3, 1, 4, 1, 5};
    while (seq->len < to) {
        int64_t at = seq->len, n = to - at < chunk ? to - at : chunk;
        whim_step_part part = {.seq = seq, .tokens = text + at, .n_tok = n};
        assert_int_equal(whim_runner_step(runner, &part, 1, &diag), WHIM_ERR_OK);
        part = (whim_step_part){.seq = seq, .tokens = junk, .n_tok = 5};
        assert_int_equal(whim_runner_step(runner, &part, 1, &diag), WHIM_ERR_OK);
        assert_int_equal(whim_runner_sequence_cut(runner, seq, at + n), at + n);
    }
}

static void propose(whim_engine *engine, whim_sequence *seq, int32_t anchor, int32_t *out)
{
    int64_t len = seq->len, n = whim_engine_draft(engine)->block - 1;
    whim_proposal wanted = {.seq = seq, .last = anchor, .n = n, .out = out};
    assert_int_equal(whim_propose(whim_engine_proposer(engine), &wanted, 1, &diag), WHIM_ERR_OK);
    assert_int_equal(seq->len, len);
}

static void one_prompt(whim_engine *engine, const whim_json *prompt, int64_t chunk)
{
    int32_t text[2 * MAX_TEXT], wanted[MAX_TEXT], got[MAX_BLOCK];
    whim_runner *runner = whim_engine_runner(engine);
    whim_sequence *seq;
    int64_t n = ids_of(prompt, "tokens", text);
    ids_of(prompt, "greedy", text + n);
    const whim_json *steps = array_of(prompt, "steps");
    assert_int_equal(whim_runner_sequence_create(runner, &seq), WHIM_ERR_OK);
    for (int64_t i = 0; i < whim_json_size(steps); i++) {
        const whim_json *step = whim_json_at(steps, i);
        int64_t accepted = -1;
        whim_json_scope at = {.obj = step, .path = "golden", .prefix = "", .diag = &diag};
        assert_int_equal(whim_json_get_int(&at, "accepted", 0, MAX_TEXT, &accepted), WHIM_ERR_OK);
        int64_t n_wanted = ids_of(step, "proposed", wanted);
        assert_int_equal(n_wanted, whim_engine_draft(engine)->block - 1);
        feed(runner, seq, text, n + accepted, chunk);
        propose(engine, seq, text[n + accepted], got);
        assert_memory_equal(got, wanted, (size_t)n_wanted * sizeof *got);
        propose(engine, seq, text[n + accepted], got); /* what a block leaves changes nothing */
        assert_memory_equal(got, wanted, (size_t)n_wanted * sizeof *got);
    }
    whim_runner_sequence_destroy(runner, seq);
}

static void proposals_are_the_reference_s(void **state)
{
    (void)state;
    for (int32_t i = 0; i < N_NAME; i++) {
        golden g = golden_open(names[i]);
        whim_engine *engine = engine_open(&g, names[i]);
        const whim_json *prompts = array_of(g.json, "prompts");
        for (int64_t k = 0; k < whim_json_size(prompts); k++) {
            one_prompt(engine, whim_json_at(prompts, k), 512);
            one_prompt(engine, whim_json_at(prompts, k), 7);
            one_prompt(engine, whim_json_at(prompts, k), 1);
        }
        whim_engine_close(engine);
        whim_json_free(g.json);
    }
}

/* --- narrower than its file ------------------------------------------------------------------- */

static int64_t n_same(const char *type)
{
    golden g = golden_open(names[0]);
    int32_t text[MAX_TEXT], wanted[MAX_TEXT], got[MAX_BLOCK];
    draft_type = type;
    whim_engine *engine = engine_open(&g, names[0]);
    draft_type = NULL;
    const whim_json *prompt = whim_json_at(array_of(g.json, "prompts"), 1);
    whim_runner *runner = whim_engine_runner(engine);
    whim_sequence *seq;
    int64_t n = ids_of(prompt, "tokens", text), same = 0;
    ids_of(prompt, "greedy", text + n);
    int64_t m = ids_of(whim_json_at(array_of(prompt, "steps"), 0), "proposed", wanted);
    assert_int_equal(whim_runner_sequence_create(runner, &seq), WHIM_ERR_OK);
    feed(runner, seq, text, n, 512);
    propose(engine, seq, text[n], got);
    for (int64_t i = 0; i < m; i++) {
        assert_in_range(got[i], 0, whim_engine_config(engine)->n_vocab - 1);
        same += got[i] == wanted[i];
    }
    whim_runner_sequence_destroy(runner, seq);
    whim_engine_close(engine);
    whim_json_free(g.json);
    return same;
}

static void it_may_be_narrower(void **state)
{
    (void)state;
    assert_true(n_same("q8_0") >= 3);
    assert_true(n_same("q4_0") >= 2);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void expect_refused(const char *model, const char *draft, const char *type, const char *what)
{
    whim_engine *engine = NULL;
    whim_engine_cfg cfg = {.model = model, .draft = draft, .draft_type = type, .n_thread = 1};
    diag = (whim_diag){""};
    assert_int_not_equal(whim_engine_prepare(&cfg, &engine, &diag), WHIM_ERR_OK);
    if (strstr(diag.text, what) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", diag.text, what);
    }
}

/* The configuration of a draft with one text in it replaced, beside the draft's tensors. */
static void expect_bad_config(const char *from, const char *to, const char *what)
{
    static const char base[] = "tests/data/drafts/llama-f32-dflash";
    char path[512], link[512], changed[4096], *text = NULL;
    int64_t n = 0;
    snprintf(path, sizeof path, "%s/config.json", base);
    assert_int_equal(whim_file_read_all(path, sizeof changed / 2, &text, &n, &diag), WHIM_ERR_OK);
    char *at = strstr(text, from);
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    whim_free(text);
    assert_int_equal(tree_setup(NULL), 0);
    tree_put("/config.json", changed);
    snprintf(link, sizeof link, "%s/model.safetensors", tree_root);
    assert_non_null(getcwd(path, sizeof path / 2));
    strcat(strcat(strcat(path, "/"), base), "/model.safetensors");
    assert_int_equal(symlink(path, link), 0);
    expect_refused("tests/data/golden/llama-f32", tree_root, NULL, what);
    assert_int_equal(tree_teardown(NULL), 0);
}

static void others_are_refused(void **state)
{
    (void)state;
    static const char model[] = "tests/data/golden/llama-f32";
    expect_refused(model, "tests/data/drafts/qwen3-f32-dflash", NULL, "hidden_size");
    expect_refused(model, model, NULL, "LlamaForCausalLM");
    expect_refused(model, "tests/data/drafts/none", NULL, "no such file");
    expect_refused(model, "tests/data/drafts/llama-f32-dflash", "q5_1", "q8_0");
    expect_bad_config("\"vocab_size\": 149", "\"vocab_size\": 150", "vocab_size");
    expect_bad_config("\"num_target_layers\": 3", "\"num_target_layers\": 4", "num_target_layers");
    expect_bad_config("\"num_target_layers\": 3", "\"num_target_layers\": 0", "num_target_layers");
    expect_bad_config("\"mask_token_id\": 7", "\"mask_token_id\": 149", "mask_token_id");
    expect_bad_config("\"mask_token_id\": 7", "\"mask\": 7", "mask_token_id");
    expect_bad_config("\"block_size\": 5", "\"block_size\": 0", "block_size");
    expect_bad_config("\"block_size\": 5", "\"block_size\": 65", "block_size");
    expect_bad_config("\"target_layer_ids\": [", "\"target_layer_ids\": [5,", "target_layer_ids");
    expect_bad_config("\"mask_token_id\": 7", "\"mask_token_id\": 7, \"target_layer_ids\": [0, 3]",
                      "layer 3");
    expect_bad_config("\"mask_token_id\": 7", "\"mask_token_id\": 7, \"target_layer_ids\": [0]",
                      "fc.weight");
    expect_bad_config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", "layers.2.");
    expect_bad_config("\"mask_token_id\": 7", "\"mask_token_id\": 7, \"selector_rank\": 4",
                      "selector_rank");
    expect_bad_config("\"mask_token_id\": 7", "\"mask_token_id\": 7, \"input_embedding_scale\": 2",
                      "embedding_scale");
    expect_bad_config("\"block_size\": 5", "\"block_size\": 5, \"rope_is_neox_style\": false",
                      "rope_is_neox_style");
    expect_bad_config("\"mask_token_id\": 7", "\"mask_token_id\": 7, \"draft_tokens\": 9",
                      "draft_tokens");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proposals_are_the_reference_s),
        cmocka_unit_test(it_may_be_narrower),
        cmocka_unit_test(others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

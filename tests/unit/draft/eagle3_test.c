/* SPDX-License-Identifier: Apache-2.0 */
/* Tiny EAGLE3 drafts against a PyTorch implementation (tools/golden/make_serial_golden.py): the
 * features that they read, and the tokens that they propose after a prompt and after some accepted
 * tokens, however the rows before them were fed. */
#include "draft/eagle3.h"
#include "runner/fill.h"
#include "unit/draft/draft_fixture.h"

static const char *const names[] = {
    "llama-f32-eagle3",   "llama-f32-eagle3-narrow", "qwen3-f32-eagle3", "qwen3moe-f32-eagle3",
    "minimax-f32-eagle3", "llama-deep-eagle3"}; /* which does not say what it reads */
enum { N_NAME = sizeof names / sizeof names[0] };

static void proposals_are_the_reference_s(void **state)
{
    (void)state;
    for (int32_t i = 0; i < N_NAME; i++) {
        follows_the_reference(names[i], expect_score);
    }
}

/* On a device that nothing may be assumed of, whose graphs are replayed with changed inputs. */
static void graphs_propose_the_same(void **state)
{
    (void)state;
    draft_wish = (whim_engine_cfg){.backend = "guard", .graphs = WHIM_GRAPHS_ON};
    follows_the_reference(names[0], expect_score);
    follows_the_reference(names[1], expect_score);
    draft_wish = (whim_engine_cfg){0};
}

/* Sequences that want different numbers of tokens are asked together. */
static void together_is_as_alone(void **state)
{
    (void)state;
    golden g = golden_open(names[0]);
    whim_engine *engine = engine_open(&g, names[0]);
    whim_runner *runner = whim_engine_runner(engine);
    const whim_json *prompts = array_of(g.json, "prompts");
    whim_proposal wanted[2];
    int32_t text[2][2 * MAX_TEXT], right[2][MAX_TEXT], got[2][MAX_BLOCK];
    for (int32_t i = 0; i < 2; i++) {
        const whim_json *prompt = whim_json_at(prompts, i);
        int64_t n = ids_of(prompt, "tokens", text[i]);
        ids_of(prompt, "greedy", text[i] + n);
        ids_of(whim_json_at(array_of(prompt, "steps"), 0), "proposed", right[i]);
        wanted[i] = (whim_proposal){.last = text[i][n], .n = i == 0 ? 2 : 7, .out = got[i]};
        assert_int_equal(whim_runner_sequence_create(runner, &wanted[i].seq), WHIM_ERR_OK);
        feed(runner, wanted[i].seq, text[i], n, 5);
    }
    assert_int_equal(whim_propose(whim_engine_proposer(engine), wanted, 2, &diag), WHIM_ERR_OK);
    for (int32_t i = 0; i < 2; i++) {
        assert_memory_equal(got[i], right[i], (size_t)wanted[i].n * sizeof(int32_t));
        whim_runner_sequence_destroy(runner, wanted[i].seq);
    }
    assert_int_equal(whim_runner_pool(runner)->n_free, whim_runner_pool(runner)->n_page);
    whim_engine_close(engine);
    whim_json_free(g.json);
}

/* Who begins behind pages of another proposes as that one does, and leaves them as they were. */
static void pages_are_shared(void **state)
{
    (void)state;
    golden g = golden_open(names[0]);
    whim_engine *engine = engine_open(&g, names[0]);
    whim_runner *runner = whim_engine_runner(engine);
    whim_page_pool *pool = whim_runner_pool(runner);
    const whim_json *prompt = whim_json_at(array_of(g.json, "prompts"), 1);
    whim_sequence *first, *second;
    int32_t text[2 * MAX_TEXT], wanted[MAX_TEXT], got[MAX_BLOCK];
    int64_t n = ids_of(prompt, "tokens", text), n_page = n / pool->page_len;
    ids_of(prompt, "greedy", text + n);
    int64_t m = ids_of(whim_json_at(array_of(prompt, "steps"), 0), "proposed", wanted);
    assert_true(n_page > 0);
    assert_int_equal(whim_runner_sequence_create(runner, &first), WHIM_ERR_OK);
    assert_int_equal(whim_runner_sequence_create(runner, &second), WHIM_ERR_OK);
    feed(runner, first, text, n, 512);
    for (int64_t i = 0; i < n_page; i++) {
        whim_page_pool_ref(pool, first->pages[i]);
    }
    whim_sequence_share(second, first->pages, n_page);
    feed(runner, second, text, n, 3);
    whim_sequence *const both[] = {second, first};
    for (int32_t i = 0; i < 2; i++) {
        propose(engine, both[i], text[n], got);
        assert_memory_equal(got, wanted, (size_t)m * sizeof *got);
    }
    whim_runner_sequence_destroy(runner, first);
    whim_runner_sequence_destroy(runner, second);
    whim_engine_close(engine);
    whim_json_free(g.json);
}

static void pages_come_back_from_a_disk(void **state)
{
    (void)state;
    pages_survive_as_bytes(names[0]);
}

/* --- features --------------------------------------------------------------------------------- */

/* The residual stream of one text at the golden's boundaries, with the draft at work. */
static void expect_features(whim_engine *engine, const whim_json *prompt, int32_t n_part,
                            int64_t width, FILE *in)
{
    whim_runner *runner = whim_engine_runner(engine);
    whim_sequence *seq;
    int32_t text[2 * MAX_TEXT];
    float row[MAX_TEXT];
    int64_t n = ids_of(prompt, "tokens", text);
    n += ids_of(prompt, "greedy", text + n) - 1;
    whim_step_part part = {.tokens = text, .n_tok = n};
    assert_int_equal(whim_runner_sequence_create(runner, &seq), WHIM_ERR_OK);
    part.seq = seq;
    assert_int_equal(whim_runner_step(runner, &part, 1, &diag), WHIM_ERR_OK);
    for (int64_t r = 0; r < n; r++) {
        for (int32_t i = 0; i < n_part; i++) {
            const float *got = whim_exec_hidden(whim_runner_exec(runner), i, r);
            assert_true(width <= MAX_TEXT);
            assert_int_equal(fread(row, sizeof *row, (size_t)width, in), width);
            for (int64_t c = 0; c < width; c++) {
                assert_true(fabsf(got[c] - row[c]) < 1e-4f);
            }
        }
    }
    whim_runner_sequence_destroy(runner, seq);
}

static void features_are_the_reference_s(void **state)
{
    (void)state;
    for (int32_t i = 0; i < N_NAME; i++) {
        char path[256];
        golden g = golden_open(names[i]);
        const whim_json *prompts = array_of(g.json, "prompts");
        draft_wish.n_capture = (int32_t)ids_of(g.json, "boundaries", draft_wish.boundary);
        whim_engine *engine = engine_open(&g, names[i]);
        snprintf(path, sizeof path, "tests/data/drafts/%s/features.bin", names[i]);
        FILE *in = fopen(path, "rb");
        assert_non_null(in);
        for (int64_t k = 0; k < whim_json_size(prompts); k++) {
            expect_features(engine, whim_json_at(prompts, k), draft_wish.n_capture,
                            whim_engine_config(engine)->d_model, in);
        }
        fclose(in);
        whim_engine_close(engine);
        whim_json_free(g.json);
    }
    draft_wish = (whim_engine_cfg){0};
}

/* --- embeddings in place of tokens ------------------------------------------------------------ */

/* The rows of the model's embedding, given as such: it says what it says of the tokens, and its
 * draft proposes as of these. */
static void embeddings_are_the_tokens(const char *name)
{
    static int32_t block[4096];
    static float rows[MAX_TEXT * MAX_TEXT];
    golden g = golden_open(name);
    const whim_json *prompt = whim_json_at(array_of(g.json, "prompts"), 0);
    int32_t text[2 * MAX_TEXT], wanted[MAX_TEXT], got[MAX_BLOCK];
    int64_t n = ids_of(prompt, "tokens", text);
    ids_of(prompt, "greedy", text + n);
    int64_t m = ids_of(whim_json_at(array_of(prompt, "steps"), 0), "proposed", wanted);
    draft_wish = (whim_engine_cfg){.embeds = true, .n_capture = 1, .boundary = {0}};
    whim_engine *engine = engine_open(&g, name);
    draft_wish = (whim_engine_cfg){0};
    whim_runner *runner = whim_engine_runner(engine);
    whim_exec *exec = whim_runner_exec(runner);
    int64_t width = whim_engine_config(engine)->d_model;
    whim_sequence *first, *second;
    assert_int_equal(whim_runner_sequence_create(runner, &first), WHIM_ERR_OK);
    assert_int_equal(whim_runner_sequence_create(runner, &second), WHIM_ERR_OK);
    whim_step_part part = {.seq = first, .tokens = text, .n_tok = n};
    assert_int_equal(whim_runner_step(runner, &part, 1, &diag), WHIM_ERR_OK);
    assert_true(n * width <= MAX_TEXT * MAX_TEXT);
    memcpy(rows, whim_exec_hidden(exec, 0, 0), (size_t)(n * width) * sizeof *rows);
    part.seq = second;
    assert_int_equal(whim_sequence_grow(second, whim_runner_pool(runner), n), WHIM_ERR_OK);
    whim_step_fill(&part, 1, &(whim_step_size){n, 1, 0, 0}, WHIM_STEP_EMBEDS, block);
    if (whim_exec_submit(exec, block, 4096, rows, &diag) != WHIM_ERR_OK ||
        whim_exec_collect(exec, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    propose(engine, second, text[n], got);
    assert_memory_equal(got, wanted, (size_t)m * sizeof *got);
    whim_runner_sequence_destroy(runner, first);
    whim_runner_sequence_destroy(runner, second);
    whim_engine_close(engine);
    whim_json_free(g.json);
}

static void embeddings_of_another_width(void **state)
{
    (void)state;
    embeddings_are_the_tokens(names[0]);
    embeddings_are_the_tokens(names[1]); /* whose width is not the model's */
}

/* How many of the first block's tokens are right when one text of the configuration is another. */
static int64_t n_right_with(const char *from, const char *to)
{
    golden g = golden_open(names[1]);
    const whim_json *prompt = whim_json_at(array_of(g.json, "prompts"), 1);
    int32_t text[2 * MAX_TEXT], wanted[MAX_TEXT], got[MAX_BLOCK];
    int64_t n = ids_of(prompt, "tokens", text), n_right = 0;
    ids_of(prompt, "greedy", text + n);
    int64_t m = ids_of(whim_json_at(array_of(prompt, "steps"), 0), "proposed", wanted);
    variant_make("llama-f32-eagle3-narrow", from, to, NULL, NULL);
    whim_engine_cfg cfg = {.model = "tests/data/golden/llama-f32",
                           .draft = tree_root,
                           .n_thread = 1,
                           .max_outs = MAX_BLOCK,
                           .ctx = MAX_TEXT};
    whim_engine *engine = drive_open(&cfg, &diag);
    assert_non_null(engine);
    whim_runner *runner = whim_engine_runner(engine);
    whim_sequence *seq;
    assert_int_equal(whim_runner_sequence_create(runner, &seq), WHIM_ERR_OK);
    feed(runner, seq, text, n, 512);
    propose(engine, seq, text[n], got);
    for (int64_t i = 0; i < m; i++) {
        n_right += got[i] == wanted[i];
    }
    whim_runner_sequence_destroy(runner, seq);
    whim_engine_close(engine);
    whim_json_free(g.json);
    assert_int_equal(tree_teardown(NULL), 0);
    return n_right == m ? -1 : n_right; /* -1: all */
}

static void mistakes_are_seen(void **state)
{
    (void)state;
    assert_int_equal(n_right_with("\"hidden_act\"", "\"hidden_act\""), -1);
    assert_int_not_equal(n_right_with("   0,\n   2\n", "0, 1"), -1); /* a boundary off by one */
    assert_int_not_equal(n_right_with("   0,\n   2\n", "1, 2"), -1);
    assert_int_not_equal(n_right_with("\"norm_output\": true", "\"norm_output\": false"), -1);
}

static void usual_boundaries_follow_the_model(void **state)
{
    (void)state;
    static const int32_t cases[][4] = {
        {32, 2, 16, 29}, {36, 2, 18, 33}, {62, 2, 31, 59}, {7, 2, 3, 4}};
    whim_config draft = {.d_model = 8, .n_layer = 1, .n_vocab = 9, .draft = {.n_feature = 3}};
    whim_config target = {.d_model = 8, .n_vocab = 9};
    draft.draft.d_target = 8;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t got[3];
        whim_eagle3_boundaries(&draft, cases[i][0], got);
        assert_memory_equal(got, &cases[i][1], sizeof got);
        target.n_layer = cases[i][0];
        assert_int_equal(whim_eagle3_check(&draft, &target, "draft", &diag), WHIM_ERR_OK);
    }
    target.n_layer = 6;
    assert_int_equal(whim_eagle3_check(&draft, &target, "draft", &diag), WHIM_ERR_INVALID);
    draft.draft.features_given = true;
    draft.draft.features[0] = 1;
    draft.draft.features[1] = 11;
    draft.draft.features[2] = 21;
    int32_t got[3];
    whim_eagle3_boundaries(&draft, 24, got);
    assert_memory_equal(got, ((int32_t[]){2, 12, 22}), sizeof got);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void expect_bad_config(const char *from, const char *to, const char *what)
{
    variant_make("llama-f32-eagle3", from, to, NULL, NULL);
    expect_refused("tests/data/golden/llama-f32", tree_root, NULL, what);
    assert_int_equal(tree_teardown(NULL), 0);
}

static void others_are_refused(void **state)
{
    (void)state;
    expect_refused("tests/data/golden/llama-f32", "tests/data/drafts/qwen3-f32-eagle3", NULL,
                   "hidden_size");
    expect_bad_config("\"vocab_size\": 149", "\"vocab_size\": 150", "vocab_size");
    expect_bad_config("\"hidden_size\": 72", "\"hidden_size\": 71", "hidden_size");
    expect_bad_config("\"hidden_size\": 72", "\"hidden_size\": 72, \"target_hidden_size\": 80",
                      "target_hidden_size");
    expect_bad_config("\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2", "num_hidden_layers");
    expect_bad_config("\"draft_vocab_size\": 61", "\"draft_vocab_size\": 62", "d2t");
    expect_bad_config("\"draft_vocab_size\": 61", "\"draft_vocab_size\": 150", "draft_vocab_size");
    expect_bad_config("\"draft_vocab_size\": 61", "\"draft_vocab_size\": 0", "draft_vocab_size");
    expect_bad_config("\"use_aux_hidden_state\": true", "\"use_aux_hidden_state\": false",
                      "use_aux_hidden_state");
    expect_bad_config("\"attention_bias\": false", "\"bias\": true", "bias");
    expect_bad_config("\"attention_bias\": false", "\"norm_before_residual\": true",
                      "norm_before_residual");
    expect_bad_config("   2\n", "3", "layer 3");
    expect_bad_config("   1,\n", "", "fc.weight");
    expect_bad_config("   1,\n", "5,", "eagle_aux_hidden_state_layer_ids");
    expect_bad_config("eagle_aux_hidden_state_layer_ids", "others", "no usual ones");
    expect_bad_config("\"attention_bias\": false", "\"fc_norm\": true", "aux_norm_low.weight");
    expect_bad_config("\"attention_bias\": false", "\"norm_before_fc\": true", "input_norm.weight");
}

/* A value of "d2t" is another. */
static void wrong_tokens_are_refused(void **state)
{
    (void)state;
    static const int64_t wrong[] = {149 - 3, -4, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char *bytes = NULL;
        int64_t n = 0, head = 0;
        long at = -1;
        assert_int_equal(whim_file_read_all("tests/data/drafts/llama-f32-eagle3/model.safetensors",
                                            1 << 20, &bytes, &n, &diag),
                         WHIM_ERR_OK);
        memcpy(&head, bytes, sizeof head);
        const char *entry = strstr(bytes + 8, "\"d2t\"");
        assert_non_null(entry);
        assert_int_equal(sscanf(strstr(entry, "data_offsets"), "data_offsets\":[%ld", &at), 1);
        memcpy(bytes + 8 + head + at + 3 * 8, &wrong[i], sizeof wrong[i]); /* d2t[3] */
        variant_make("llama-f32-eagle3", "\"hidden_act\"", "\"hidden_act\"", NULL, NULL);
        variant_put("model.safetensors", bytes, n);
        expect_refused("tests/data/golden/llama-f32", tree_root, NULL, "d2t[3]");
        assert_int_equal(tree_teardown(NULL), 0);
        whim_free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proposals_are_the_reference_s),
        cmocka_unit_test(graphs_propose_the_same),
        cmocka_unit_test(together_is_as_alone),
        cmocka_unit_test(pages_are_shared),
        cmocka_unit_test(pages_come_back_from_a_disk),
        cmocka_unit_test(features_are_the_reference_s),
        cmocka_unit_test(mistakes_are_seen),
        cmocka_unit_test(embeddings_of_another_width),
        cmocka_unit_test(usual_boundaries_follow_the_model),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(wrong_tokens_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

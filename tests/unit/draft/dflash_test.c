/* SPDX-License-Identifier: Apache-2.0 */
/* Tiny drafts of the DFlash family against a PyTorch implementation
 * (tools/golden/make_draft_golden.py): the tokens that they propose after a prompt and after some
 * accepted tokens, however the rows before them were fed, and what these are chosen from. */
#include "unit/draft/draft_fixture.h"

enum { MAX_VOCAB = 512 };

static const char *const names[] = {"llama-f32-dflash",        "llama-f32-dflash-window",
                                    "llama-f32-dflash-tokens", "qwen3-f32-dflash",
                                    "llama-f32-dspark",        "qwen3-f32-dspark-aligned",
                                    "llama-f32-dflash2",       "qwen3-f32-dflash2-window"};
enum { N_NAME = sizeof names / sizeof names[0] };

/* A pass over a whole block. With n_top of 1 it proposes, with 0 it gives the logits of all rows. */
static void block_run(whim_engine *engine, whim_sequence *seq, int32_t anchor, int32_t n_top)
{
    const whim_draft_config *draft = whim_engine_draft(engine);
    int32_t tokens[MAX_BLOCK];
    int64_t len = seq->len;
    for (int32_t i = 0; i < draft->block; i++) {
        tokens[i] = i == 0 ? anchor : draft->mask;
    }
    whim_step_part part = {.seq = seq,
                           .tokens = tokens,
                           .n_tok = draft->block,
                           .n_out = n_top == 0 ? draft->block : whim_draft_most(draft),
                           .n_top = n_top};
    whim_runner *runner = whim_engine_runner(engine);
    assert_int_equal(whim_runner_draft(runner, &part, 1, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_runner_sequence_cut(runner, seq, len), len);
}

/* Units that round activations to BF16 for weights of that type are so far off. */
static double tolerance_of(const golden *g)
{
    return whim_json_has(&g->top, "dtype") ? 0.2 : 1e-3;
}

/* How sure the last block was, where the golden says it. */
static void expect_sure(const golden *g, whim_engine *engine, const whim_json *step)
{
    const whim_exec *exec = whim_runner_exec(whim_engine_runner(engine));
    const whim_json *sure = NULL;
    whim_json_scope at = {.obj = step, .path = "golden", .prefix = "", .diag = &diag};
    assert_int_equal(whim_json_get_array(&at, "sure_millionths", &sure), WHIM_ERR_OK);
    assert_int_equal(sure != NULL, whim_engine_draft(engine)->chain.sure);
    for (int64_t i = 0; sure != NULL && i < whim_json_size(sure); i++) {
        int64_t millionths = 0;
        assert_true(whim_json_as_int(whim_json_at(sure, i), &millionths));
        double got = (double)whim_exec_best(exec, i).values[0];
        assert_true(fabs(got - (double)millionths * 1e-6) < tolerance_of(g));
    }
}

static void proposals_are_the_reference_s(void **state)
{
    (void)state;
    for (int32_t i = 0; i < N_NAME; i++) {
        follows_the_reference(names[i], expect_sure);
    }
}

/* On a device that nothing may be assumed of, whose graphs are replayed with changed inputs. */
static void graphs_propose_the_same(void **state)
{
    (void)state;
    draft_wish = (whim_engine_cfg){.backend = "guard", .graphs = WHIM_GRAPHS_ON};
    follows_the_reference("llama-f32-dflash", expect_sure);
    follows_the_reference("llama-f32-dflash2", expect_sure);
    follows_the_reference("llama-f32-dspark", expect_sure);
    draft_wish = (whim_engine_cfg){0};
}

/* --- what tokens are chosen from -------------------------------------------------------------- */

/* The model's head, [n_vocab, d_model]. */
static float *head_read(whim_engine *engine)
{
    const whim_ckpt *ckpt = whim_engine_ckpt(engine);
    const whim_ckpt_tensor *head =
        whim_ckpt_find(ckpt, ckpt->config.tied_head ? "embed_tokens.weight" : "lm_head.weight");
    assert_true(head != NULL && head->dtype == WHIM_DTYPE_F32);
    float *out = whim_alloc(head->bytes);
    assert_int_equal(whim_ckpt_read(ckpt, head, 0, head->bytes, out, &diag), WHIM_ERR_OK);
    return out;
}

/* hidden.bin: [steps of all prompts, block, d_model] */
static float *hidden_read(const char *name)
{
    char path[256], *bytes = NULL;
    int64_t n = 0;
    snprintf(path, sizeof path, "tests/data/drafts/%s/hidden.bin", name);
    assert_int_equal(whim_file_read_all(path, 1 << 20, &bytes, &n, &diag), WHIM_ERR_OK);
    return (float *)(void *)bytes;
}

static float dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return (float)sum;
}

typedef void row_check(whim_engine *engine, const float *wanted, int32_t row, double tolerance);

/* `check` of every row of every block, with the logits that the reference's hidden states give. */
static void each_row(const char *name, const char *draft, int32_t n_top, row_check *check)
{
    golden g = golden_open(name);
    whim_engine *engine = engine_open(&g, draft);
    whim_runner *runner = whim_engine_runner(engine);
    const whim_config *c = whim_engine_config(engine);
    float *head = head_read(engine), *hidden = hidden_read(name), *z = hidden, wanted[MAX_VOCAB];
    assert_true(c->n_vocab <= MAX_VOCAB);
    const whim_json *prompts = array_of(g.json, "prompts");
    for (int64_t k = 0; k < whim_json_size(prompts); k++) {
        int32_t text[2 * MAX_TEXT];
        whim_sequence *seq;
        const whim_json *steps = array_of(whim_json_at(prompts, k), "steps");
        int64_t n = ids_of(whim_json_at(prompts, k), "tokens", text);
        ids_of(whim_json_at(prompts, k), "greedy", text + n);
        assert_int_equal(whim_runner_sequence_create(runner, &seq), WHIM_ERR_OK);
        for (int64_t i = 0; i < whim_json_size(steps); i++) {
            int64_t accepted = -1;
            whim_json_scope at = {whim_json_at(steps, i), "golden", "", &diag};
            assert_int_equal(whim_json_get_int(&at, "accepted", 0, MAX_TEXT, &accepted),
                             WHIM_ERR_OK);
            feed(runner, seq, text, n + accepted, 512);
            block_run(engine, seq, text[n + accepted], n_top);
            for (int32_t r = 0; r < whim_engine_draft(engine)->block; r++, z += c->d_model) {
                for (int32_t v = 0; v < c->n_vocab; v++) {
                    wanted[v] = dot(head + (int64_t)v * c->d_model, z, c->d_model);
                }
                check(engine, wanted, r, tolerance_of(&g));
            }
        }
        whim_runner_sequence_destroy(runner, seq);
    }
    whim_free(head);
    whim_free(hidden);
    whim_engine_close(engine);
    whim_json_free(g.json);
}

static void logits_are(whim_engine *engine, const float *wanted, int32_t row, double tolerance)
{
    const float *got = whim_exec_logits(whim_runner_exec(whim_engine_runner(engine)), row);
    for (int32_t v = 0; v < whim_engine_config(engine)->n_vocab; v++) {
        assert_true(fabs((double)got[v] - (double)wanted[v]) < tolerance);
    }
}

static void logits_are_the_reference_s(void **state)
{
    (void)state;
    for (int32_t i = 0; i < N_NAME; i++) {
        if (strcmp(names[i], "llama-f32-dflash-tokens") != 0) { /* few of them */
            each_row(names[i], names[i], 0, logits_are);
        }
    }
}

/* Anchor-first: every row proposes the best of its own logits. */
static void best_is(whim_engine *engine, const float *wanted, int32_t row, double tolerance)
{
    int32_t best = 0;
    (void)tolerance;
    assert_int_equal(whim_draft_most(whim_engine_draft(engine)), whim_engine_draft(engine)->block);
    for (int32_t v = 1; v < whim_engine_config(engine)->n_vocab; v++) {
        best = wanted[v] > wanted[best] ? v : best;
    }
    const whim_exec *exec = whim_runner_exec(whim_engine_runner(engine));
    assert_int_equal(whim_exec_best(exec, row).ids[0], best);
}

/* What DeepSpec calls DFlash: the tensors of one, but its first row proposes, too. */
static void without_a_markov_head_rows_stand_alone(void **state)
{
    (void)state;
    variant_make("llama-f32-dflash", "\"block_size\": 5", "\"block_size\": 5, \"num_anchors\": 512",
                 NULL, NULL);
    each_row("llama-f32-dflash", tree_root, 1, best_is);
    assert_int_equal(tree_teardown(NULL), 0);
}

static void zeros(float *x, int64_t n)
{
    memset(x, 0, (size_t)n * sizeof *x);
}

static void a_markov_head_of_zeros_says_nothing(void **state)
{
    (void)state;
    variant_make("llama-f32-dspark", "{", "{", "markov_head.markov_w2.weight", zeros);
    each_row("llama-f32-dspark", tree_root, 1, best_is);
    assert_int_equal(tree_teardown(NULL), 0);
}

/* What has no say of the kernels, the first tap of each side, is 1. */
static void identity(float *x, int64_t n)
{
    zeros(x, n);
    for (int64_t side = 0; side < 2; side++) {
        for (int64_t c = 0; c < n / 4; c++) { /* of 2 sides with 2 taps */
            x[side * n / 2 + c] = 1;
        }
    }
}

/* With kernels that change nothing and a selector without a say it is the DFlash whose layers it
 * has. */
static void a_dflash2_of_nothing_is_a_dflash(void **state)
{
    (void)state;
    static const variant_part parts[] = {{"base_kernel", identity},
                                         {"kernel_projection", zeros},
                                         {"successor_codebook", zeros},
                                         {NULL, NULL}};
    variant_make_all("llama-f32-dflash2", "{", "{", parts);
    golden g = golden_open("llama-f32-dflash");
    whim_engine *engine = engine_open(&g, tree_root);
    one_prompt(&g, engine, whim_json_at(array_of(g.json, "prompts"), 1), 512, expect_sure);
    whim_engine_close(engine);
    whim_json_free(g.json);
    each_row("llama-f32-dflash", tree_root, 0, logits_are);
    assert_int_equal(tree_teardown(NULL), 0);
}

static void pages_come_back_from_a_disk(void **state)
{
    (void)state;
    pages_survive_as_bytes(names[0]);
}

/* --- narrower than its file ------------------------------------------------------------------- */

static int64_t n_same(const char *type)
{
    golden g = golden_open(names[0]);
    int32_t text[MAX_TEXT], wanted[MAX_TEXT], got[MAX_BLOCK];
    draft_wish.draft_type = type;
    whim_engine *engine = engine_open(&g, names[0]);
    draft_wish = (whim_engine_cfg){0};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proposals_are_the_reference_s),
        cmocka_unit_test(graphs_propose_the_same),
        cmocka_unit_test(logits_are_the_reference_s),
        cmocka_unit_test(without_a_markov_head_rows_stand_alone),
        cmocka_unit_test(a_markov_head_of_zeros_says_nothing),
        cmocka_unit_test(a_dflash2_of_nothing_is_a_dflash),
        cmocka_unit_test(it_may_be_narrower),
        cmocka_unit_test(pages_come_back_from_a_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

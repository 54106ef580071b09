/* SPDX-License-Identifier: Apache-2.0 */
/* `sample` on the CPU against the law: 10,000 rows with every parameter, ties, infinities and NaN,
 * over vocabularies of 1 to 200,000, from all logits and from the best, several rows at once. */
#include "support/cmocka.h"

#include <stdint.h>

#include "support/sample_rows.h"

#include <stdlib.h>

/* TEST_QUICK: for emulators and sanitizers. */
static int64_t rows_to_try(void)
{
    return getenv("TEST_QUICK") != NULL ? 1000 : 10000;
}

enum { MOST_VOCAB = 200000, AT_ONCE = 8 };

/* One side's copy of everything that the op reads and writes. */
typedef struct side {
    char *base;
    float *logits, *values, *top_logprobs;
    int32_t *ids, *lists, *tokens, *top_ids;
    whim_sample_want *wants;
    whim_sample_told *told;
} side;

static int64_t side_lay(side *s, char *base)
{
    int64_t at = 0, tops = AT_ONCE * WHIM_MAX_LOGPROBS;
#define LAY(field, count)           \
    s->field = (void *)(base + at); \
    at += ((int64_t)(count) * (int64_t)sizeof *s->field + 63) / 64 * 64
    LAY(tokens, AT_ONCE);
    LAY(told, AT_ONCE);
    LAY(top_ids, tops);
    LAY(top_logprobs, tops);
    LAY(wants,
        AT_ONCE); /* from here on: inputs, the logits last because few rows need all of that */
    LAY(values, AT_ONCE * WHIM_TOPK_MAX);
    LAY(ids, AT_ONCE * WHIM_TOPK_MAX);
    LAY(lists, AT_ONCE * sample_rows_words(MOST_VOCAB));
    LAY(logits, AT_ONCE * (int64_t)MOST_VOCAB);
#undef LAY
    s->base = base;
    return at;
}

static whim_sample_args args_of(const side *s, int64_t n_row, int64_t n_vocab, int64_t n_word,
                                int64_t k_best)
{
    return (whim_sample_args){
        .logits = k_best > 0 ? NULL : s->logits,
        .logits_stride = n_vocab,
        .best_values = s->values,
        .best_ids = s->ids,
        .k_best = k_best,
        .wants = s->wants,
        .lists = s->lists,
        .n_word = n_word,
        .tokens = s->tokens,
        .told = s->told,
        .top_ids = s->top_ids,
        .top_logprobs = s->top_logprobs,
        .n_row = n_row,
        .n_col = n_vocab,
    };
}

/* 1 .. MOST_VOCAB, about as many small as large ones. */
static int64_t vocab_of(sample_rows_rng *rng)
{
    int64_t most = INT64_C(1) << (1 + sample_rows_below(rng, 17));
    int64_t n = sample_rows_below(rng, 200) == 0 ? MOST_VOCAB : 1 + sample_rows_below(rng, most);
    return n < MOST_VOCAB ? n : MOST_VOCAB;
}

static void expect_same(const side *law, const side *got, int64_t n_row, uint64_t key)
{
    for (int64_t r = 0; r < n_row; r++) {
        const whim_sample_told *a = &law->told[r], *b = &got->told[r];
        int64_t top = r * WHIM_MAX_LOGPROBS, n_top = a->n_top;
        bool same =
            law->tokens[r] == got->tokens[r] && memcmp(a, b, sizeof *a) == 0 &&
            memcmp(law->top_ids + top, got->top_ids + top, (size_t)n_top * 4) == 0 &&
            memcmp(law->top_logprobs + top, got->top_logprobs + top, (size_t)n_top * 4) == 0;
        if (!same) {
            fail_msg(
                "batch %llu row %lld: token %d instead of %d, state %d of %d, logprob %a of %a",
                (unsigned long long)key, (long long)r, got->tokens[r], law->tokens[r], b->state,
                a->state, (double)b->logprob, (double)a->logprob);
        }
    }
}

typedef struct bench {
    side law, cpu, on_device;
    whim_device *device;
    whim_stream *stream, law_stream;
    int64_t n_state[4]; /* rows by what became of them */
} bench;

/* One batch; returns its rows. */
static int64_t batch_run(bench *b, uint64_t key, int64_t left)
{
    sample_rows_rng rng = {whim_rng_key(77, key), 0};
    int64_t n_vocab = vocab_of(&rng), n_row = 1 + sample_rows_below(&rng, AT_ONCE), used = 0;
    int64_t k_best = sample_rows_below(&rng, 5) == 0 ? 1 + sample_rows_below(&rng, 64) : 0;
    n_row = n_row < left ? n_row : left;
    for (int64_t r = 0; r < n_row; r++) {
        uint64_t row = whim_rng_key(key, (uint64_t)r);
        sample_rows_logits(row, sample_rows_below(&rng, SAMPLE_ROWS_PROFILES),
                           b->law.logits + r * n_vocab, n_vocab);
        b->law.wants[r] = sample_rows_want(row, n_vocab, k_best, b->law.lists, &used);
    }
    if (k_best > 0) {
        whim_topk_args top = {.x = b->law.logits,
                              .x_stride = n_vocab,
                              .values = b->law.values,
                              .ids = b->law.ids,
                              .n_row = n_row,
                              .n_col = n_vocab,
                              .k_top = k_best};
        assert_int_equal(whim_op_topk(&b->law_stream, &top), WHIM_ERR_OK);
    }
    whim_sample_args law = args_of(&b->law, n_row, n_vocab, used, k_best);
    whim_sample_args cpu = args_of(&b->on_device, n_row, n_vocab, used, k_best);
    int64_t bytes = (char *)(b->law.logits + n_row * n_vocab) - (char *)b->law.wants;
    int64_t all = (char *)b->law.wants - b->law.base + bytes;
    assert_int_equal(whim_stream_copy_in(b->stream, b->on_device.wants, b->law.wants, bytes),
                     WHIM_ERR_OK);
    assert_int_equal(whim_op_sample(b->stream, &cpu), WHIM_ERR_OK);
    assert_int_equal(whim_stream_copy_out(b->stream, b->cpu.base, b->on_device.base, all),
                     WHIM_ERR_OK);
    assert_int_equal(whim_stream_sync(b->stream), WHIM_ERR_OK);
    assert_int_equal(whim_op_sample(&b->law_stream, &law), WHIM_ERR_OK);
    expect_same(&b->law, &b->cpu, n_row, key);
    assert_memory_equal(b->cpu.wants, b->law.wants, (size_t)bytes); /* inputs stay as they are */
    for (int64_t r = 0; r < n_row; r++) {
        b->n_state[b->law.told[r].state]++;
    }
    return n_row;
}

static void the_kernel_is_the_law(void **state)
{
    (void)state;
    bench b = {0};
    side sizes;
    whim_diag diag = {{0}};
    void *on_device;
    int64_t bytes = side_lay(&sizes, (char *)64), slot = whim_sample_slot_bytes(MOST_VOCAB);
    side_lay(&b.law, calloc(1, (size_t)bytes));
    side_lay(&b.cpu, calloc(1, (size_t)bytes));
    whim_law_stream_init(&b.law_stream);
    b.law_stream.workspace = (whim_workspace){malloc((size_t)slot), slot, 0, 0};
    const whim_backend *cpu = whim_backend_find("cpu");
    assert_int_equal(cpu->device_open(0, &(whim_device_cfg){0}, &b.device, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_stream_open(b.device, &b.stream, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_stream_reserve(b.stream, AT_ONCE * slot, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_device_alloc(b.device, bytes, &on_device, &diag), WHIM_ERR_OK);
    side_lay(&b.on_device, on_device);
    uint64_t key = 0;
    const int64_t n_row = rows_to_try();
    for (int64_t done = 0; done < n_row; key++) {
        done += batch_run(&b, key, n_row - done);
    }
    for (int i = 0; i < 4; i++) { /* every end occurred */
        assert_true(b.n_state[i] > 10);
    }
    assert_true(b.n_state[WHIM_SAMPLED] > n_row / 2);
    whim_device_free(b.device, on_device, bytes);
    whim_stream_close(b.stream);
    whim_device_close(b.device);
    free(b.law_stream.workspace.base);
    free(b.law.base);
    free(b.cpu.base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_kernel_is_the_law)};
    return cmocka_run_group_tests_name("sample", tests, NULL, NULL);
}

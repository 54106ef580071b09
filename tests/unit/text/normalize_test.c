/* SPDX-License-Identifier: Apache-2.0 */
/* Unicode forms, long runs of marks, and the trust mask. */
#include "unit/text/text_fixture.h"

static whim_masked_text run(whim_normal_kind kind, const char *text, int64_t n, const char *mask)
{
    whim_normalizer normalizer = {.steps = {{.kind = kind}}, .n_step = 1};
    whim_masked_text t = {.has_mask = mask != NULL};
    whim_str_append_n(&t.text, text, n);
    if (mask != NULL) {
        whim_str_append_n(&t.mask, mask, n);
    }
    assert_int_equal(whim_normalize(&normalizer, &t, NULL, NULL), WHIM_ERR_OK);
    return t;
}

static void forms(void **state)
{
    (void)state;
    static const struct {
        whim_normal_kind kind;
        const char *from, *to;
    } cases[] = {
        {WHIM_NORMAL_NFC, "e\xCC\x81", "\xC3\xA9"},
        {WHIM_NORMAL_NFD, "\xC3\xA9", "e\xCC\x81"},
        {WHIM_NORMAL_NFC, "a\xCC\x82\xCC\xA3", "\xE1\xBA\xAD"}, /* marks in the wrong order */
        {WHIM_NORMAL_NFC, "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "\xED\x95\x9C"},
        {WHIM_NORMAL_NFC, "\xEA\xB0\x80\xE1\x86\xA8", "\xEA\xB0\x81"},
        {WHIM_NORMAL_NFC, "\xE2\x84\xAB", "\xC3\x85"},
        {WHIM_NORMAL_NFC, "\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC"}, /* composition excluded */
        {WHIM_NORMAL_NFKC, "\xEF\xAC\x81", "fi"},
        {WHIM_NORMAL_NFKD, "\xE2\x85\xA7", "VIII"},
        {WHIM_NORMAL_NFKC, "\xEF\xBD\xB6\xEF\xBE\x9E", "\xE3\x82\xAC"}, /* half-width voicing */
        {WHIM_NORMAL_LOWERCASE, "A\xC3\x89\xC4\xB0", "a\xC3\xA9i\xCC\x87"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t n = (int64_t)strlen(cases[i].from);
        whim_masked_text t = run(cases[i].kind, cases[i].from, n, NULL);
        assert_string_equal(whim_str_text(&t.text), cases[i].to);
        whim_masked_text_deinit(&t);
    }
}

/* A quadratic sort would not come back from a megabyte of unsorted marks. */
static void many_marks(void **state)
{
    (void)state;
    enum { PAIRS = 250000 };
    whim_str text = {0};
    whim_str_append(&text, "q");
    for (int i = 0; i < PAIRS; i++) {
        whim_str_append(&text, "\xCC\x81\xCC\x96"); /* above, below */
    }
    whim_masked_text t = run(WHIM_NORMAL_NFC, text.text, text.len, NULL);
    assert_int_equal(t.text.len, text.len);
    assert_memory_equal(t.text.text + 1, "\xCC\x96\xCC\x96", 4);
    assert_memory_equal(t.text.text + t.text.len - 4, "\xCC\x81\xCC\x81", 4);
    whim_masked_text_deinit(&t);
    whim_str_deinit(&text);
}

static void masks_follow_the_text(void **state)
{
    (void)state;
    /* "<e" trusted, the mark not: what they become is not; the rest keeps its trust. */
    whim_masked_text t = run(WHIM_NORMAL_NFC, "<e\xCC\x81>\xE4\xB8\xAD", 8, "\1\1\0\0\1\1\1\1");
    assert_int_equal(t.text.len, 7);
    assert_int_equal(t.mask.len, 7);
    assert_memory_equal(t.mask.text, "\1\0\0\1\1\1\1", 7);
    whim_masked_text_deinit(&t);
    t = run(WHIM_NORMAL_NFC, ">\xE4\xB8\xAD", 4, "\1\0\0\0");
    assert_memory_equal(t.mask.text, "\1\0\0\0", 4);
    whim_masked_text_deinit(&t);
}

/* A file may replace each letter by many, again and again: what comes out is bounded by what came
 * in. */
static void growth_is_bounded(void **state)
{
    (void)state;
    whim_normalizer normalizer = {.n_step = 8};
    whim_masked_text t = {.has_mask = false};
    whim_diag diag = {{0}};
    for (int i = 0; i < normalizer.n_step; i++) {
        normalizer.steps[i] =
            (whim_normal_step){.kind = WHIM_NORMAL_REPLACE, .pattern = "a", .content = "aaaaaaaa"};
    }
    whim_str_append(&t.text, "aaaaaaaaaaaaaaa");
    assert_int_equal(whim_normalize(&normalizer, &t, NULL, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "15 bytes of text longer than 4336 bytes"));
    whim_masked_text_deinit(&t);
}

static void pieces_are_bounded(void **state)
{
    (void)state;
    whim_pretokenizer pre = {.n_step = 20};
    whim_pieces pieces = {.n = 0};
    whim_diag diag = {{0}};
    for (int i = 0; i < pre.n_step; i++) {
        pre.steps[i] = (whim_pre_step){.kind = WHIM_PRE_BYTE_LEVEL};
    }
    assert_int_equal(whim_pretokenize(&pre, "\xC3\xA9", 2, true, NULL, &pieces, &diag),
                     WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "2 bytes of text longer than 4128 bytes"));
    char mark[5001] = "";
    memset(mark, 'm', 5000);
    pre = (whim_pretokenizer){.steps = {{.kind = WHIM_PRE_REPLACE, .content = mark}}, .n_step = 1};
    assert_int_equal(whim_pretokenize(&pre, " ", 1, true, NULL, &pieces, &diag), WHIM_ERR_INVALID);
    whim_pieces_deinit(&pieces);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms),
        cmocka_unit_test(growth_is_bounded),
        cmocka_unit_test(pieces_are_bounded),
        cmocka_unit_test(many_marks),
        cmocka_unit_test(masks_follow_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

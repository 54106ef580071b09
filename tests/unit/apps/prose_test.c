/* SPDX-License-Identifier: Apache-2.0 */
/* Answers as rows of a terminal: what is shown is what was said, in the same rows and styles
 * however it arrived. */
#include "chat/prose.h"

#include "base/math/rng.h"
#include "base/utf8.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

/* What a sink got: `shown` with "|" for each new row, `said` with the blanks that it stands for,
 * `styles` a letter for each byte of it. */
typedef struct screen {
    whim_str shown, said, styles;
    prose prose;
} screen;

static void on_text(void *ctx, uint8_t style, const char *text, int64_t n)
{
    screen *s = ctx;
    assert_true(n > 0);
    whim_str_append_n(&s->shown, text, n);
    whim_str_append_n(&s->said, text, n);
    for (int64_t i = 0; i < n; i++) {
        whim_str_append_char(&s->styles, (char)('0' + style));
    }
}

static void on_turn(void *ctx, int32_t indent, const char *blanks, int64_t n)
{
    screen *s = ctx;
    whim_str_append(&s->shown, indent >= 0 ? "|" : "");
    for (int32_t i = 0; i < indent; i++) {
        whim_str_append_char(&s->shown, '.');
    }
    whim_str_append_n(&s->said, blanks, n);
    for (int64_t i = 0; i < n; i++) {
        whim_str_append_char(&s->styles, '-');
    }
}

static void open_screen(screen *s, int32_t width)
{
    memset(s, 0, sizeof *s);
    prose_init(&s->prose, &(prose_sink){s, on_text, on_turn}, width);
    prose_begin(&s->prose, CHAT_PLAIN, true);
}

static void close_screen(screen *s)
{
    prose_deinit(&s->prose);
    whim_str_deinit(&s->shown);
    whim_str_deinit(&s->said);
    whim_str_deinit(&s->styles);
}

static void expect_rows(int32_t width, const char *text, const char *rows)
{
    screen s;
    open_screen(&s, width);
    prose_put(&s.prose, text, (int64_t)strlen(text));
    prose_end(&s.prose);
    assert_string_equal(whim_str_text(&s.shown), rows);
    assert_string_equal(whim_str_text(&s.said), text);
    close_screen(&s);
}

/* A digit for each byte: the sum of dim 1, bold 2, italic 4, code 8. */
static void expect_styles(const char *text, const char *styles)
{
    screen s;
    open_screen(&s, 0);
    prose_put(&s.prose, text, (int64_t)strlen(text));
    prose_end(&s.prose);
    assert_string_equal(whim_str_text(&s.said), text);
    assert_string_equal(whim_str_text(&s.styles), styles);
    close_screen(&s);
}

static void test_rows_end_between_words(void **state)
{
    (void)state;
    expect_rows(10, "the curvature of it", "the|curvature|of it");
    expect_rows(10, "0123456789 next", "0123456789|next");
    expect_rows(10, "012345678  next", "012345678|next");
    expect_rows(10, "one  two\nthree", "one  two\nthree");
    expect_rows(10, "   one two three", "   one two|three");
    expect_rows(10, "a 0123456789abcdef b", "a|0123456789abcdef b"); /* the terminal breaks it */
    expect_rows(10, "0123456789         \nx", "0123456789\nx");
    expect_rows(0, "the curvature of a very long line", "the curvature of a very long line");
    expect_rows(4, "", "");
}

static void test_wide_characters(void **state)
{
    (void)state;
    expect_rows(10, "天地玄黄宇宙洪荒", "天地玄黄宇|宙洪荒");
    expect_rows(9, "天地玄黄宇宙", "天地玄黄|宇宙");
    expect_rows(10, "天地玄黄宇、宙", "天地玄黄|宇、宙"); /* no row begins with a comma */
    expect_rows(10, "天地玄黄「宙」", "天地玄黄|「宙」"); /* and none ends with a bracket */
    expect_rows(5, "ab cde\xcc\x81\xcc\x82", "ab|cde\xcc\x81\xcc\x82");
    expect_rows(5, "ab cd\xcc\x81 e", "ab cd\xcc\x81|e"); /* marks take no column */
    expect_rows(5, "👩‍💻👩‍💻", "👩‍💻|👩‍💻");
}

static void test_items_hang(void **state)
{
    (void)state;
    expect_rows(12, "- one two three\nfour five six", "- one two|..three\nfour five|six");
    expect_rows(12, "12. one two three", "12. one two|....three");
    expect_rows(14, "  * one two three", "  * one two|....three");
    expect_rows(12, "> one two three", "> one two|..three");
}

static void test_code_is_not_broken(void **state)
{
    (void)state;
    expect_rows(8, "```c\nint a = b + c;\n```\nint a = b", "```c\nint a = b + c;\n```\nint a =|b");
    expect_rows(8, "~~~~\n~~~\na b c d e f\n~~~~~ \na b c d e",
                "~~~~\n~~~\na b c d e f\n~~~~~ \na b c d|e");
    expect_rows(8, "```a``` b c d", "```a```|b c d"); /* a line of its own is what a fence has */
}

static void test_styles(void **state)
{
    (void)state;
    expect_styles("a **b** c", "001121100");
    expect_styles("a *b* _c_ d", "00141014100");
    expect_styles("***a*** b", "111611100");
    expect_styles("use `a*b*` now", "00008888880000");
    expect_styles("``a`b`` c", "888888800");
    expect_styles("## Head *x*\nb", "222222221610"
                                    "0");
    expect_styles("- a", "110");
    expect_styles("3. **a**", "11111211");
    expect_styles("```c\nx\n```\ny", "1111"
                                     "0"
                                     "8"
                                     "0"
                                     "111"
                                     "0"
                                     "0");
    expect_styles("\\*a* b", "000000");
}

static void test_what_is_no_mark(void **state)
{
    (void)state;
    expect_styles("2 * 3 * 4", "000000000");
    expect_styles("2*3*4, 2**3", "00000000000");
    expect_styles("snake_case_name", "000000000000000");
    expect_styles("#hash 1.5 -1", "000000000000");
    expect_styles("** **", "00000");
    expect_styles("a **", "0000");
    expect_styles("#######", "0000000");
    /* One that never ends lasts until its line does. */
    expect_styles("*a\nb", "1400");
}

typedef struct dice {
    uint64_t key, n;
} dice;

static uint64_t roll(dice *d)
{
    return whim_rng_at(d->key, d->n++);
}

/* Text made of what Markdown, rows and UTF-8 care about. */
static void make_text(dice *d, whim_str *text)
{
    static const char *const parts[] = {
        "*",           "**",
        "_",           "`",
        "```",         "~~~",
        "#",           "- ",
        "1) ",         "> ",
        " ",           "  ",
        "\n",          "\n",
        "a",           "word",
        "ab",          "\t",
        "漢",          "字。",
        "「",          "e\xcc\x81",
        "👩‍💻", "é",
        "\\",          "long-word-here",
        "\xff",        "\xe6\xbc",
        "0",           "x y",
        "c",
    };
    int64_t n = (int64_t)(roll(d) % 60);
    for (int64_t i = 0; i < n; i++) {
        whim_str_append(text, parts[roll(d) % (sizeof parts / sizeof parts[0])]);
    }
}

/* A terminal has to break a row only within a word that would not fit half a row. */
static void check_rows(const screen *s, int32_t width)
{
    int32_t col = 0, word = 0;
    bool begun = false;
    const char *text = whim_str_text(&s->shown);
    bool verse = strstr(text, "```") != NULL || strstr(text, "~~~") != NULL;
    for (int64_t i = 0; i < s->shown.len && !verse;) {
        int32_t n, cp = 0, cols = 1;
        if (whim_utf8_next(text + i, s->shown.len - i, &n, &cp) == WHIM_UTF8_WHOLE) {
            cols = cp == '\t' ? 8 - col % 8 : (int32_t)utf8proc_charwidth(cp);
        }
        bool blank = cp == ' ' || cp == '\t' || cp == '.';
        word = blank || cp == '\n' || cp == '|' ? 0 : word + cols;
        begun = cp != '\n' && (begun || !blank);
        if (cp == '\n' || cp == '|') {
            col = 0;
        } else if (col + cols > width) {
            if (word <= width / 2 && begun) {
                fail_msg("a row of %d columns is longer: %s", width, text);
            }
            col = cols;
        } else {
            col += cols;
        }
        i += n;
    }
}

static void test_any_cut_is_the_same(void **state)
{
    (void)state;
    dice d = {whim_rng_key(5, 0), 0};
    for (int32_t round = 0; round < 4000; round++) {
        whim_str text = {0};
        screen whole, cut;
        int32_t width = round % 5 == 0 ? 0 : 17 + (int32_t)(roll(&d) % 30);
        make_text(&d, &text);
        const char *bytes = whim_str_text(&text);
        open_screen(&whole, width);
        open_screen(&cut, width);
        prose_put(&whole.prose, bytes, text.len);
        for (int64_t at = 0; at < text.len;) {
            int64_t n = 1 + (int64_t)(roll(&d) % 4);
            n = n < text.len - at ? n : text.len - at;
            prose_put(&cut.prose, bytes + at, n);
            at += n;
        }
        prose_end(&whole.prose);
        prose_end(&cut.prose);
        assert_string_equal(whim_str_text(&whole.said), bytes);
        assert_string_equal(whim_str_text(&cut.said), bytes);
        assert_string_equal(whim_str_text(&whole.shown), whim_str_text(&cut.shown));
        assert_string_equal(whim_str_text(&whole.styles), whim_str_text(&cut.styles));
        if (width > 0) {
            check_rows(&whole, width);
        }
        close_screen(&whole);
        close_screen(&cut);
        whim_str_deinit(&text);
    }
}

static void test_control_characters(void **state)
{
    (void)state;
    screen s;
    open_screen(&s, 20);
    prose_put(&s.prose, "a\033[2Jb\r\xc2", 8);
    prose_put(&s.prose,
              "\x9b"
              "c\x7f",
              3);
    prose_end(&s.prose);
    assert_string_equal(whim_str_text(&s.said), "a[2Jbc");
    close_screen(&s);
}

/* What is held back is bounded, whatever comes. */
static void test_bounds(void **state)
{
    (void)state;
    static const char *const parts[] = {"x", "\xcc\x81", " ", "*", "`", "#", "漢"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        screen s;
        open_screen(&s, 40);
        for (int32_t k = 0; k < 20000; k++) {
            prose_put(&s.prose, parts[i], (int64_t)strlen(parts[i]));
            assert_true(s.prose.flow.word.len <= 4096 && s.prose.flow.blanks.len <= 4096);
            assert_true(s.prose.front.len <= 256);
        }
        prose_end(&s.prose);
        assert_int_equal(s.said.len, 20000 * (int64_t)strlen(parts[i]));
        close_screen(&s);
    }
}

static void test_another_width(void **state)
{
    (void)state;
    screen s;
    open_screen(&s, 40);
    prose_put(&s.prose, "one two three four five ", 24);
    flow_resize(&s.prose.flow, 10); /* the terminal has broken the row itself: "five" ends at 3 */
    prose_put(&s.prose, "six seven", 9);
    prose_end(&s.prose);
    assert_string_equal(whim_str_text(&s.shown), "one two three four five six|seven");
    close_screen(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_end_between_words),
        cmocka_unit_test(test_wide_characters),
        cmocka_unit_test(test_items_hang),
        cmocka_unit_test(test_code_is_not_broken),
        cmocka_unit_test(test_styles),
        cmocka_unit_test(test_what_is_no_mark),
        cmocka_unit_test(test_any_cut_is_the_same),
        cmocka_unit_test(test_control_characters),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_another_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* 1,000 made texts: a cycle of every length is found at the token that completes it, and what
 * repeats for a good reason never is. Words, digits and other characters are tokens; most texts are
 * also read with a token for each byte. */
#include "sample/repetition.h"
#include "support/cmocka.h"

#include "base/math/rng.h"
#include "base/str.h"

#include <string.h>

enum { MAX_TOKENS = 20000, LIMIT = WHIM_REPETITION_LIMIT };

static int32_t tokens[MAX_TOKENS];
static int64_t n_token;
static uint64_t drawn;
static int32_t n_text;

static uint64_t draw(uint64_t below)
{
    return whim_rng_at(7, drawn++) % below;
}

static void add(int32_t id)
{
    assert_true(n_token < MAX_TOKENS);
    tokens[n_token++] = id;
}

/* The number of tokens after which it stops; -1: never. */
static int64_t stops_at(int64_t limit)
{
    whim_repetition r = {{0}};
    for (int64_t n = 1; n <= n_token; n++) {
        if (whim_repetition_push(&r, tokens, n, limit)) {
            return n;
        }
    }
    return -1;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A word is a number of its letters, another byte is itself. */
static void split(const char *text)
{
    n_token = 0;
    for (const char *at = text; *at != '\0';) {
        int32_t id = *at;
        bool word = is_letter(*at++);
        for (; word && is_letter(*at); at++) {
            id = (id * 31 + *at) & 0xffffff;
        }
        add(id);
    }
}

static void words_are_let_be(whim_str *text)
{
    assert_false(text->failed);
    split(whim_str_text(text));
    if (stops_at(LIMIT) >= 0) {
        fail_msg("stopped at token %d of:\n%s", (int)stops_at(LIMIT), text->text);
    }
    n_text++;
    whim_str_deinit(text);
}

static void is_let_be(whim_str *text)
{
    n_token = 0;
    for (int64_t i = 0; i < text->len; i++) {
        add(text->text[i]);
    }
    if (stops_at(LIMIT) >= 0) {
        fail_msg("stopped at byte %d of:\n%s", (int)stops_at(LIMIT), whim_str_text(text));
    }
    words_are_let_be(text);
}

/* --- cycles ----------------------------------------------------------------------------------- */

/* Tokens that are in no cycle. */
static void add_others(int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        add(1000000 + (int32_t)i);
    }
}

enum { KIND_DISTINCT, KIND_FEW, KIND_TWO_HALVES, KIND_ONE_ODD, KIND_AFTER_ANOTHER, N_KIND };

static int32_t cycle_token(int kind, int64_t i, int64_t length, const int32_t *few)
{
    switch (kind) {
    case KIND_FEW: /* the last is marked, so that the cycle has no shorter one in it */
        return i == length - 1 ? 9 : few[i];
    case KIND_TWO_HALVES:
        return i == length - 1 ? 9 : (int32_t)(i % ((length + 1) / 2));
    case KIND_ONE_ODD:
        return i == length - 1 ? 9 : 8;
    default:
        return (int32_t)i + 10;
    }
}

static void cycles_are_found(void **state)
{
    (void)state;
    for (int64_t length = 1; length <= WHIM_REPETITION_CYCLE + 1; length++) {
        for (int kind = 0; kind < N_KIND; kind++) {
            int64_t before = (int64_t)draw(300);
            int32_t few[WHIM_REPETITION_CYCLE + 1];
            for (int64_t i = 0; i < length; i++) {
                few[i] = (int32_t)draw(3);
            }
            n_token = 0;
            add_others(before);
            for (int64_t i = 0; kind == KIND_AFTER_ANOTHER && i < LIMIT - 1; i++, before++) {
                add((int32_t)(i % 7) + 500); /* one token short of a stop */
            }
            for (int64_t i = 0; i < 3 * LIMIT / 2; i++) {
                add(cycle_token(kind, i % length, length, few));
            }
            bool found = length <= WHIM_REPETITION_CYCLE;
            assert_int_equal(stops_at(LIMIT), found ? before + LIMIT : -1);
            n_text += found;
        }
    }
}

/* The same cycles, but a token is another one every so often, or one is left out. */
static void near_cycles_are_not(void **state)
{
    (void)state;
    for (int64_t length = 1; length <= WHIM_REPETITION_CYCLE; length++) {
        for (int kind = 0; kind < N_KIND; kind++) {
            int64_t every = 100 + (int64_t)draw(LIMIT - 100), counter = 0;
            n_token = 0;
            for (int64_t i = 0; i < 4 * LIMIT; i++) {
                int64_t at = (i + (kind % 2 == 0 ? 0 : i / every)) % length;
                bool odd = i % every == every - 1 && kind % 2 == 0;
                add(odd ? 2000000 + (int32_t)counter++ : (int32_t)at);
                if (i % every == every - 1 && kind % 2 == 1) {
                    add(3000000 + (int32_t)counter++); /* as in a numbered list */
                }
            }
            assert_int_equal(stops_at(LIMIT), -1);
            n_text++;
        }
    }
}

/* --- texts that repeat with reason ------------------------------------------------------------ */

static void code_is_let_be(void **state)
{
    (void)state;
    static const char *const lines[] = {"    x = x + 1;\n",       "    }\n",
                                        "    printf(\"\\n\");\n", "\n",
                                        "        break;\n",       "    0x00,\n"};
    for (int i = 0; i < 60; i++) {
        whim_str text = {0};
        for (int block = 0; block < 12; block++) {
            const char *line = lines[draw(6)];
            whim_str_printf(&text, "void f%d(void)\n{\n", block);
            for (uint64_t n = draw(21); n > 0; n--) {
                whim_str_append(&text, line);
            }
            whim_str_append(&text, "}\n\n");
        }
        is_let_be(&text);
    }
}

static void tables_are_let_be(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        whim_str text = {0};
        int columns = 2 + (int)draw(8), rows = 4 + (int)draw(40);
        for (int row = -2; row < rows; row++) {
            for (int column = 0; column < columns; column++) {
                if (row == -1) {
                    whim_str_append(&text, "| --- ");
                } else if (column == 0) {
                    whim_str_printf(&text, "| row %d ", row);
                } else {
                    whim_str_append(&text, draw(2) == 0 ? "| yes " : "| no ");
                }
            }
            whim_str_append(&text, "|\n");
        }
        is_let_be(&text);
    }
}

static void numbers_are_let_be(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        whim_str text = {0};
        uint64_t step = 1 + draw(9), count = 100 + draw(400);
        for (uint64_t n = 0; n < count; n++) {
            whim_str_printf(&text, i % 2 == 0 ? "%d, " : "%d. The same line.\n", (int)(n * step));
        }
        is_let_be(&text);
    }
}

static void rows_of_zeros_are_let_be(void **state)
{
    (void)state;
    for (int size = 1; size <= 20; size++) {
        whim_str text = {0};
        whim_str_append(&text, "int grid[][] = {\n");
        for (int row = 0; row < size; row++) {
            whim_str_append(&text, "{");
            for (int column = 0; column < size; column++) {
                whim_str_append(&text, column == 0 ? "0" : ", 0");
            }
            whim_str_append(&text, "},\n");
        }
        whim_str_append(&text, "};\n");
        is_let_be(&text);
    }
}

static void repeated(whim_str *text, const char *piece, int n)
{
    for (int i = 0; i < n; i++) {
        whim_str_append(text, piece);
    }
}

static void equal_rows_are_let_be(void **state)
{
    (void)state;
    for (int i = 1; i <= 20; i++) {
        whim_str csv = {0}, dump = {0}, lines = {0};
        repeated(&csv, "0,0,0\n", 5 * i);
        is_let_be(&csv);
        repeated(&dump, "0x00, ", 16 * i);
        is_let_be(&dump);
        repeated(&lines, "I must not talk in class.\n", 5 * i);
        words_are_let_be(&lines);
    }
}

static void rulers_are_let_be(void **state)
{
    (void)state;
    static const char *const marks[] = {"-", "=", " ", "#", "----+", "-=", "~^~v", "|    "};
    for (int i = 0; i < 60; i++) {
        whim_str text = {0};
        for (int part = 0; part < 6; part++) {
            const char *mark = marks[draw(8)];
            whim_str_printf(&text, "\nPart %d\n", part);
            for (uint64_t n = draw(400) / strlen(mark); n > 0; n--) {
                whim_str_append(&text, mark);
            }
        }
        is_let_be(&text);
    }
}

static void songs_are_let_be(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        whim_str text = {0};
        for (int verse = 0; verse < 8; verse++) {
            whim_str_printf(&text, "Verse %d goes its own way\n", verse);
            for (uint64_t n = 1 + draw(6); n > 0; n--) {
                whim_str_append(&text, "row, row, row your boat\ngently down the stream\n");
            }
        }
        is_let_be(&text);
    }
}

static void all_were_made(void **state)
{
    (void)state;
    assert_int_equal(n_text, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cycles_are_found),      cmocka_unit_test(near_cycles_are_not),
        cmocka_unit_test(code_is_let_be),        cmocka_unit_test(tables_are_let_be),
        cmocka_unit_test(numbers_are_let_be),    cmocka_unit_test(rows_of_zeros_are_let_be),
        cmocka_unit_test(rulers_are_let_be),     cmocka_unit_test(songs_are_let_be),
        cmocka_unit_test(equal_rows_are_let_be), cmocka_unit_test(all_were_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

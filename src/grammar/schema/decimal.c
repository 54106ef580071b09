/* SPDX-License-Identifier: Apache-2.0 */
/* Decimals between bounds: a whole part and digits behind the point, no exponent. A bound is taken
 * as the shortest decimal that reads as it. A decimal up to an inclusive bound reads as a number up
 * to it, since reading is monotone; near an exclusive one 15 digits are the most that always read
 * as different numbers. */
#include "grammar/schema/schema.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FRACTION = 60, PLAIN_DIGITS = 16 };
#define MOST INT64_C(999999999999999)

typedef struct decimal {
    int64_t whole;
    char fraction[MAX_FRACTION + 1]; /* without zeros at the end */
    bool open;                       /* the number itself is out */
} decimal;

/* The digits of a number of at least 0; false when it has too many. */
static bool decimal_of(double value, decimal *out)
{
    char sci[64], all[128] = {0};
    int32_t exponent = 0;
    for (int32_t n = 0; n <= 16; n++) {
        snprintf(sci, sizeof sci, "%.*e", n, value);
        if (strtod(sci, NULL) == value) {
            break;
        }
    }
    char *e = strchr(sci, 'e');
    exponent = atoi(e + 1);
    if (value != 0 && (exponent > 17 || exponent < -40)) {
        return false;
    }
    /* All digits, the point behind digit `point`. */
    int32_t n = 0, point = exponent + 1;
    for (; point <= 0; point++) {
        all[n++] = '0';
    }
    point = exponent < 0 ? 1 : exponent + 1;
    for (char *c = sci; c < e; c++) {
        if (*c != '.') {
            all[n++] = *c;
        }
    }
    while (n < point) {
        all[n++] = '0';
    }
    while (n > point && all[n - 1] == '0') {
        n--;
    }
    if (n - point > MAX_FRACTION) {
        return false;
    }
    memset(out->fraction, 0, sizeof out->fraction);
    memcpy(out->fraction, all + point, (size_t)(n - point));
    all[point] = '\0';
    out->whole = strtoll(all, NULL, 10);
    return true;
}

/* Digits behind those of the bound so far that make at least the bound; `left` digits may come. */
static int32_t digits_from(whim_grammar_builder *b, const char *bound, bool open, int64_t left)
{
    if (*bound == '\0') {
        return !open      ? whim_gb_digits(b, '0', '9', 0, left)
               : left < 1 ? whim_gb_never(b)
                          : whim_gb_seq(b, whim_gb_digits(b, '0', '0', 0, left - 1),
                                        whim_gb_digits(b, '1', '9', 1, 1),
                                        whim_gb_digits(b, '0', '9', 0, left - 1));
    }
    if (left < 1) {
        return whim_gb_never(b);
    }
    int32_t here = whim_gb_seq(b, whim_gb_digits(b, *bound, *bound, 1, 1),
                               digits_from(b, bound + 1, open, left - 1));
    int32_t above = whim_gb_seq(b, whim_gb_digits(b, (char)(*bound + 1), '9', 1, 1),
                                whim_gb_digits(b, '0', '9', 0, left - 1));
    return whim_gb_any_of(b, here, above);
}

/* The same for at most the bound. The text may end once it has a digit behind the point. */
static int32_t digits_to(whim_grammar_builder *b, const char *bound, bool open, int64_t left,
                         bool first)
{
    if (*bound == '\0') {
        return open ? whim_gb_never(b) : whim_gb_digits(b, '0', '0', first, left);
    }
    if (left < 1) {
        return first ? whim_gb_never(b) : whim_gb_text(b, "");
    }
    int32_t alts[] = {
        whim_gb_seq(b, whim_gb_digits(b, *bound, *bound, 1, 1),
                    digits_to(b, bound + 1, open, left - 1, false)),
        whim_gb_seq(b, whim_gb_digits(b, '0', (char)(*bound - 1), 1, 1),
                    whim_gb_digits(b, '0', '9', 0, left - 1)),
        first ? whim_gb_never(b) : whim_gb_text(b, ""),
    };
    return whim_grammar_any_of(b, alts, 3);
}

/* The point and digits behind it, or nothing. */
static int32_t any_fraction(whim_grammar_builder *b, int64_t most)
{
    return whim_gb_optional(
        b, whim_gb_seq(b, whim_gb_text(b, "."), whim_gb_digits(b, '0', '9', 1, most)));
}

static int32_t fraction_from(whim_grammar_builder *b, const decimal *lo, int64_t most)
{
    if (lo->fraction[0] == '\0' && !lo->open) {
        return any_fraction(b, most);
    }
    return whim_gb_seq(b, whim_gb_text(b, "."), digits_from(b, lo->fraction, lo->open, most));
}

static int32_t fraction_to(whim_grammar_builder *b, const decimal *hi, int64_t most)
{
    int32_t some =
        whim_gb_seq(b, whim_gb_text(b, "."), digits_to(b, hi->fraction, hi->open, most, true));
    bool whole = hi->fraction[0] != '\0' || !hi->open;
    return whole ? whim_gb_any_of(b, whim_gb_text(b, ""), some) : some;
}

/* Decimals of at least 0 from lo to hi. */
static int32_t positive(whim_grammar_builder *b, const decimal *lo, const decimal *hi, int64_t most)
{
    if (lo->whole > hi->whole) {
        return whim_gb_never(b);
    }
    if (lo->whole == hi->whole) {
        int32_t from = fraction_from(b, lo, most), to = fraction_to(b, hi, most);
        return whim_gb_seq(b, whim_gb_int_range(b, lo->whole, lo->whole),
                           whim_gb_pair(b, GN_BOTH, from, to));
    }
    int32_t alts[3], n = 0;
    alts[n++] =
        whim_gb_seq(b, whim_gb_int_range(b, lo->whole, lo->whole), fraction_from(b, lo, most));
    alts[n++] =
        whim_gb_seq(b, whim_gb_int_range(b, hi->whole, hi->whole), fraction_to(b, hi, most));
    if (hi->whole - lo->whole > 1) {
        alts[n++] = whim_gb_seq(b, whim_gb_int_range(b, lo->whole + 1, hi->whole - 1),
                                any_fraction(b, most));
    }
    return whim_grammar_any_of(b, alts, n);
}

static int32_t number_width(double value)
{
    char buf[400];
    return snprintf(buf, sizeof buf, "%.0f", floor(fabs(value)));
}

int32_t whim_gb_decimals(whim_grammar_builder *b, const gbounds *bounds, int32_t most_digits,
                         const char *path)
{
    gbounds use = *bounds;
    /* All that is written is within 10^15. */
    use.has_lo = use.has_lo && use.lo > -1e15;
    use.has_hi = use.has_hi && use.hi < 1e15;
    decimal none = {.whole = 0, .open = false}, limit = {.whole = MOST};
    decimal lo = limit, hi = limit;
    if ((use.has_lo && !decimal_of(fabs(use.lo), &lo)) ||
        (use.has_hi && !decimal_of(fabs(use.hi), &hi)) || bounds->lo >= 1e15 ||
        bounds->hi <= -1e15 || (use.has_lo && use.has_hi && use.lo > use.hi)) {
        gplace place = {.root = path};
        return whim_gb_impossible(b, &place, NULL,
                                  "has bounds that no number that can be written is between");
    }
    lo.open = use.above_lo;
    hi.open = use.below_hi;
    int64_t most = most_digits > 0 ? most_digits : PLAIN_DIGITS;
    if (most_digits < 0 && (lo.open || hi.open)) {
        int32_t width = number_width(lo.open ? use.lo : 0);
        int32_t other = number_width(hi.open ? use.hi : 0);
        width = width > other ? width : other;
        most = width < 14 ? 15 - width : 1;
    }
    if (most_digits < 0) {
        int64_t need = (int64_t)strlen(lo.fraction);
        need = need > (int64_t)strlen(hi.fraction) ? need : (int64_t)strlen(hi.fraction);
        most = most > need ? most : need + 1;
    }
    int32_t below = -1, above = -1;
    if (!use.has_lo || use.lo < 0) {
        decimal zero = {.whole = 0, .open = true}; /* -0 is not written */
        below = whim_gb_seq(
            b, whim_gb_text(b, "-"),
            positive(b, use.has_hi && use.hi < 0 ? &hi : &zero, use.has_lo ? &lo : &limit, most));
    }
    if (!use.has_hi || use.hi >= 0) {
        above =
            positive(b, use.has_lo && use.lo >= 0 ? &lo : &none, use.has_hi ? &hi : &limit, most);
    }
    return below < 0 ? above : above < 0 ? below : whim_gb_any_of(b, below, above);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas of numbers: whole numbers between bounds and their multiples, and decimals between
 * bounds. Without a bound whole numbers have at most 15 digits, which every reader takes as they
 * are. */
#include "grammar/schema/schema.h"

#include "base/alloc.h"
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIVISOR = 10000 };
#define MOST INT64_C(999999999999999)

static int32_t fail_at(whim_grammar_builder *b, const gplace *place, const char *what)
{
    char buf[GPLACE_ROOM];
    return whim_gb_fail(b, WHIM_ERR_INVALID, "%s: %s", whim_gplace_text(place, buf), what);
}

/* --- whole numbers ---------------------------------------------------------------------------- */

/* A digit of lo to hi, then `n` of any kind. */
static int32_t step(whim_grammar_builder *b, char lo, char hi, int64_t n)
{
    return whim_gb_seq(b, whim_gb_digits(b, lo, hi, 1, 1), whim_gb_digits(b, '0', '9', n, n));
}

/* Numbers with as many digits as `text`, at least (or at most) that. */
static int32_t same_length(whim_grammar_builder *b, const char *text, bool at_least)
{
    int64_t n = (int64_t)strlen(text);
    if (n == 0) {
        return whim_gb_text(b, "");
    }
    int32_t here =
        whim_gb_seq(b, whim_gb_digits(b, *text, *text, 1, 1), same_length(b, text + 1, at_least));
    int32_t beyond =
        at_least ? step(b, (char)(*text + 1), '9', n - 1) : step(b, '0', (char)(*text - 1), n - 1);
    return whim_gb_any_of(b, here, beyond);
}

static int32_t between(whim_grammar_builder *b, const char *lo, const char *hi)
{
    if (*lo == '\0') {
        return whim_gb_text(b, "");
    }
    if (*lo == *hi) {
        return whim_gb_seq(b, whim_gb_digits(b, *lo, *lo, 1, 1), between(b, lo + 1, hi + 1));
    }
    int32_t alts[] = {
        whim_gb_seq(b, whim_gb_digits(b, *lo, *lo, 1, 1), same_length(b, lo + 1, true)),
        step(b, (char)(*lo + 1), (char)(*hi - 1), (int64_t)strlen(lo) - 1),
        whim_gb_seq(b, whim_gb_digits(b, *hi, *hi, 1, 1), same_length(b, hi + 1, false)),
    };
    return whim_grammar_any_of(b, alts, 3);
}

/* Numbers without a sign: one range for each count of digits. */
static int32_t unsigned_range(whim_grammar_builder *b, uint64_t lo, uint64_t hi)
{
    glist alts = {0};
    while (lo <= hi && !whim_gb_failed(b)) {
        uint64_t last = 9;
        while (last < lo) {
            last = last * 10 + 9;
        }
        last = last < hi ? last : hi;
        char a[24], z[24];
        snprintf(a, sizeof a, "%llu", (unsigned long long)lo);
        snprintf(z, sizeof z, "%llu", (unsigned long long)last);
        whim_glist_add(b, &alts, between(b, a, z));
        lo = last + 1;
    }
    return whim_glist_node(b, &alts, GN_ANY_OF);
}

int32_t whim_gb_int_range(whim_grammar_builder *b, int64_t lo, int64_t hi)
{
    int32_t negative = -1, other = -1;
    if (lo < 0) {
        uint64_t least = hi < 0 ? (uint64_t)0 - (uint64_t)hi : 1;
        negative = whim_gb_seq(b, whim_gb_text(b, "-"),
                               unsigned_range(b, least, (uint64_t)0 - (uint64_t)lo));
    }
    if (hi >= 0) {
        other = unsigned_range(b, (uint64_t)(lo > 0 ? lo : 0), (uint64_t)hi);
    }
    return negative < 0 ? other : other < 0 ? negative : whim_gb_any_of(b, negative, other);
}

/* --- bounds ----------------------------------------------------------------------------------- */

/* One bound of both kinds; draft 4 has a flag beside the bound. */
static bool read_bound(whim_grammar_builder *b, const json_t *s, bool low, gbounds *out,
                       const gplace *place)
{
    const json_t *plain = json_object_get(s, low ? "minimum" : "maximum");
    const json_t *strict = json_object_get(s, low ? "exclusiveMinimum" : "exclusiveMaximum");
    bool flag = json_is_true(strict) && plain != NULL;
    strict = json_is_boolean(strict) ? NULL : strict;
    if ((plain != NULL && !json_is_number(plain)) || (strict != NULL && !json_is_number(strict))) {
        return fail_at(b, place, "bounds must be numbers") >= 0;
    }
    bool *has = low ? &out->has_lo : &out->has_hi;
    bool *open = low ? &out->above_lo : &out->below_hi;
    double *value = low ? &out->lo : &out->hi;
    if (plain != NULL) {
        *has = true;
        *open = flag;
        *value = json_number_value(plain);
    }
    if (strict != NULL) {
        double other = json_number_value(strict);
        if (!*has || (low ? other >= *value : other <= *value)) {
            *has = *open = true;
            *value = other;
        }
    }
    return true;
}

/* A bound of whole numbers, exact where the schema writes a whole number. */
static int64_t whole_bound(const json_t *s, const gbounds *bounds, bool low)
{
    bool open = low ? bounds->above_lo : bounds->below_hi;
    double value = low ? bounds->lo : bounds->hi;
    static const char *const keys[2][2] = {{"maximum", "exclusiveMaximum"},
                                           {"minimum", "exclusiveMinimum"}};
    for (int32_t i = 0; i < 2; i++) {
        const json_t *exact = json_object_get(s, keys[low][i]);
        if (json_is_integer(exact) && (double)json_integer_value(exact) == value) {
            int64_t v = json_integer_value(exact);
            return !open ? v : low ? (v == INT64_MAX ? v : v + 1) : (v == INT64_MIN ? v : v - 1);
        }
    }
    double whole = low ? ceil(value) : floor(value);
    whole += open && whole == value ? (low ? 1 : -1) : 0;
    return whole >= 9.2e18 ? INT64_MAX : whole <= -9.2e18 ? INT64_MIN : (int64_t)whole;
}

static int32_t integer_node(whim_grammar_builder *b, const json_t *s, const gbounds *bounds,
                            int64_t divisor, const gplace *place)
{
    int64_t lo = bounds->has_lo ? whole_bound(s, bounds, true) : -MOST;
    int64_t hi = bounds->has_hi ? whole_bound(s, bounds, false) : MOST;
    lo = !bounds->has_lo && hi < lo ? INT64_MIN : lo;
    hi = !bounds->has_hi && lo > hi ? INT64_MAX : hi;
    if (lo > hi) {
        return whim_gb_impossible(b, place, NULL, "has bounds that no whole number is between");
    }
    int32_t range = whim_gb_int_range(b, lo, hi);
    if (divisor <= 1 || range < 0) {
        return range;
    }
    int32_t multiple = whim_gb_node(b, (gnode){.kind = GN_MULTIPLE, .a = (int32_t)divisor});
    return whim_gb_pair(b, GN_BOTH, range, multiple);
}

static int32_t any_integer(whim_grammar_builder *b)
{
    return whim_gb_int_range(b, -MOST, MOST);
}

static int32_t number_node(whim_grammar_builder *b, const json_t *s, const char *type, bool plain,
                           const gplace *place)
{
    gbounds bounds = {0};
    const json_t *multiple = json_object_get(s, "multipleOf");
    bool integer = strcmp(type, "integer") == 0;
    int64_t divisor = 1;
    int32_t most_digits = -1;
    char buf[GPLACE_ROOM];
    if (!read_bound(b, s, true, &bounds, place) || !read_bound(b, s, false, &bounds, place)) {
        return -1;
    }
    if (multiple != NULL) {
        double m = json_number_value(multiple);
        if (!json_is_number(multiple) || m <= 0) {
            return fail_at(b, place, "multipleOf must be a number above 0");
        }
        for (int32_t k = 1; k <= 9 && !integer; k++) {
            most_digits =
                m == strtod((char[]){'1', 'e', '-', (char)('0' + k), '\0'}, NULL) ? k : most_digits;
        }
        if (most_digits < 0) {
            if (m != floor(m) || m > MAX_DIVISOR) {
                return fail_at(b, place,
                               "multipleOf is supported for whole numbers up to 10000, and for "
                               "0.1, 0.01 and so on of numbers");
            }
            integer = true;
            divisor = (int64_t)m;
        }
    }
    bool bounded = bounds.has_lo || bounds.has_hi;
    if (integer && !plain && !bounded && divisor <= 1) {
        return whim_gb_shared(b, &b->integer_rule, "an integer", any_integer);
    }
    if (integer) {
        return integer_node(b, s, &bounds, divisor, place);
    }
    if (!plain && !bounded && most_digits < 0) {
        return whim_gb_json_number(b);
    }
    return whim_gb_decimals(b, &bounds, most_digits, whim_gplace_text(place, buf));
}

/* The spellings of a number without an exponent. */
static int32_t spellings(whim_grammar_builder *b, const json_t *value, const gplace *place)
{
    char text[WHIM_REAL_ROOM];
    if (json_is_integer(value)) {
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
    } else {
        whim_format_real(text, json_real_value(value));
    }
    if (strpbrk(text, "eE") != NULL) {
        return fail_at(b, place, "a number that must not be is too large or too small");
    }
    int64_t n = (int64_t)strlen(text);
    bool point = strchr(text, '.') != NULL;
    while (point && (text[n - 1] == '0' || text[n - 1] == '.')) {
        point = text[--n] != '.';
    }
    int32_t zeros = whim_grammar_repeat(b, whim_gb_text(b, "0"), 0, -1);
    int32_t tail = point ? zeros : whim_gb_optional(b, whim_gb_seq(b, whim_gb_text(b, "."), zeros));
    return whim_gb_seq(b, whim_gb_bytes(b, text, n), tail);
}

int32_t whim_gb_schema_number(whim_grammar_builder *b, const json_t *s, const char *type,
                              const gplace *place)
{
    const json_t *list = json_object_get(s, GK_NOT_VALUES);
    const json_t *multiple = json_object_get(s, GK_NOT_MULTIPLE);
    glist texts = {0};
    for (size_t i = 0; i < json_array_size(list) && !whim_gb_failed(b); i++) {
        if (json_is_number(json_array_get(list, i))) {
            whim_glist_add(b, &texts, spellings(b, json_array_get(list, i), place));
        }
    }
    int32_t node = number_node(b, s, type, texts.n > 0 || multiple != NULL, place);
    if (texts.n > 0 && node >= 0) {
        node = whim_gb_pair(b, GN_BUT_NOT, node, whim_grammar_any_of(b, texts.ids, texts.n));
    }
    whim_free(texts.ids);
    for (size_t i = 0; i < json_array_size(multiple) && node >= 0; i++) {
        double by = json_number_value(json_array_get(multiple, i));
        if (by != floor(by) || by < 1 || by > MAX_DIVISOR || strcmp(type, "integer") != 0) {
            return fail_at(b, place,
                           "not of multipleOf is supported for whole numbers up to 10000");
        }
        int32_t multiples = whim_gb_node(b, (gnode){.kind = GN_MULTIPLE, .a = (int32_t)by});
        node = whim_gb_pair(b, GN_BUT_NOT, node, multiples);
    }
    return node;
}

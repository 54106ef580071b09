/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of characters: their algebra, their bytes in UTF-8, and how they stand inside JSON
 * strings. */
#include "grammar/impl.h"

#include "base/str.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_lo(const void *a, const void *b)
{
    int32_t x = ((const grange *)a)->lo, y = ((const grange *)b)->lo;
    return (x > y) - (x < y);
}

int32_t whim_ranges_clean(grange *ranges, int32_t n)
{
    int32_t kept = 0;
    qsort(ranges, (size_t)n, sizeof *ranges, by_lo);
    for (int32_t i = 0; i < n; i++) {
        if (kept > 0 && ranges[i].lo <= ranges[kept - 1].hi + 1) {
            if (ranges[i].hi > ranges[kept - 1].hi) {
                ranges[kept - 1].hi = ranges[i].hi;
            }
        } else {
            ranges[kept++] = ranges[i];
        }
    }
    /* Surrogates are no characters: no UTF-8 has them. At most one range spans them. */
    for (int32_t i = 0; i < kept; i++) {
        grange r = ranges[i];
        if (r.lo > 0xDFFF || r.hi < 0xD800) {
            continue;
        }
        if (r.lo < 0xD800 && r.hi > 0xDFFF) {
            memmove(ranges + i + 2, ranges + i + 1, (size_t)(kept - i - 1) * sizeof *ranges);
            ranges[i] = (grange){r.lo, 0xD7FF};
            ranges[i + 1] = (grange){0xE000, r.hi};
            kept++;
            break;
        }
        ranges[i].lo = r.lo < 0xD800 ? r.lo : 0xE000;
        ranges[i].hi = r.hi > 0xDFFF ? r.hi : 0xD7FF;
        if (ranges[i].lo > ranges[i].hi) {
            memmove(ranges + i, ranges + i + 1, (size_t)(kept - i - 1) * sizeof *ranges);
            kept--;
            i--;
        }
    }
    return kept;
}

int32_t whim_ranges_invert(const grange *ranges, int32_t n, grange *out)
{
    int32_t kept = 0, at = 0;
    for (int32_t i = 0; i < n; i++) {
        if (ranges[i].lo > at) {
            out[kept++] = (grange){at, ranges[i].lo - 1};
        }
        at = ranges[i].hi + 1;
    }
    if (at <= GC_MAX) {
        out[kept++] = (grange){at, GC_MAX};
    }
    return kept;
}

/* --- UTF-8 ------------------------------------------------------------------------------------ */

/* Characters lo to hi, whose encodings have the same length, as chains of byte ranges. */
static void emit_same_length(gnfa *nfa, int32_t from, int32_t to, int32_t lo, int32_t hi)
{
    char a[4], z[4];
    int32_t n = whim_utf8_encode(lo, a);
    whim_utf8_encode(hi, z);
    /* Split until all bytes but the first differing one span their full range. */
    for (int32_t i = 1; i < n; i++) {
        int32_t low = (1 << (6 * i)) - 1; /* what the last i bytes hold */
        if ((lo & ~low) != (hi & ~low)) {
            if ((lo & low) != 0) {
                emit_same_length(nfa, from, to, lo, lo | low);
                emit_same_length(nfa, from, to, (lo | low) + 1, hi);
                return;
            }
            if ((hi & low) != low) {
                emit_same_length(nfa, from, to, lo, (hi & ~low) - 1);
                emit_same_length(nfa, from, to, hi & ~low, hi);
                return;
            }
        }
    }
    for (int32_t i = 0; i < n && from >= 0; i++) {
        int32_t next = i == n - 1 ? to : whim_nfa_state(nfa);
        whim_nfa_edge(nfa, from, GE_BYTES, (uint8_t)a[i], (uint8_t)z[i], 0, next);
        from = next;
    }
}

int32_t whim_nfa_emit_chars(gnfa *nfa, const gnode *node, int32_t from)
{
    static const int32_t last[] = {0x7F, 0x7FF, 0xFFFF, GC_MAX};
    int32_t to = whim_nfa_state(nfa);
    for (int32_t i = 0; i < node->b && to >= 0; i++) {
        grange r = nfa->b->ranges[node->a + i];
        for (int32_t k = 0; k < 4 && r.lo <= r.hi; k++) {
            if (r.lo <= last[k]) {
                int32_t hi = r.hi < last[k] ? r.hi : last[k];
                emit_same_length(nfa, from, to, r.lo, hi);
                r.lo = hi + 1;
            }
        }
    }
    return to;
}

/* --- inside JSON strings ---------------------------------------------------------------------- */

/* Characters that cannot stand there as they are: those below a space, the quote and the
 * backslash. */
static bool needs_escape(int32_t cp)
{
    return cp < 0x20 || cp == '"' || cp == '\\';
}

static const char *escape_of(int32_t cp, char *buf, size_t n)
{
    static const char short_form[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *at = short_form; *at != '\0'; at += 2) {
        if (*at == cp) {
            snprintf(buf, n, "\\%c", at[1]);
            return buf;
        }
    }
    snprintf(buf, n, "\\u%04x", (unsigned)cp);
    return buf;
}

int32_t whim_gb_json_chars(whim_grammar_builder *b, const grange *ranges, int32_t n)
{
    int32_t alts[40], n_alt = 0;
    grange plain[512];
    int32_t n_plain = 0;
    char buf[8];
    if (n > 250) {
        return whim_gb_fail(b, WHIM_ERR_INVALID, "a class of characters has more than 250 ranges");
    }
    for (int32_t i = 0; i < n; i++) {
        grange r = ranges[i];
        int32_t from = r.lo;
        for (int32_t cp = r.lo; cp <= r.hi && cp <= '\\'; cp++) {
            if (needs_escape(cp)) {
                if (cp > from) {
                    plain[n_plain++] = (grange){from, cp - 1};
                }
                from = cp + 1;
                if (cp != 0) { /* \u0000 ends texts of C and databases */
                    alts[n_alt++] = whim_gb_text(b, escape_of(cp, buf, sizeof buf));
                }
            }
        }
        if (from <= r.hi) {
            plain[n_plain++] = (grange){from, r.hi};
        }
    }
    if (n_plain > 0 || n_alt == 0) {
        alts[n_alt++] = whim_gb_chars(b, plain, n_plain);
    }
    return whim_grammar_any_of(b, alts, n_alt);
}

/* After \u, which never writes U+0000, nor half of a surrogate pair alone. */
#define HEX "[0-9a-fA-F]"
#define CODE_UNIT                                                           \
    "[1-9a-cefA-CEF]" HEX "{3}|[dD][0-7]" HEX "{2}|0[1-9a-fA-F]" HEX "{2}|" \
    "00[1-9a-fA-F]" HEX "|000[1-9a-fA-F]|[dD][89abAB]" HEX "{2}\\\\u[dD][c-fC-F]" HEX "{2}"

int32_t whim_gb_json_any_char(whim_grammar_builder *b)
{
    return whim_gb_regex(b, "[^\"\\\\\\x01-\\x1f]|\\\\([\"\\\\/bfnrt]|u(" CODE_UNIT "))",
                         (gregex_mode){0}, "a string");
}

int32_t whim_gb_json_body(whim_grammar_builder *b, const char *text, int64_t n)
{
    whim_str out = {0};
    char buf[8];
    for (int64_t i = 0; i < n; i++) {
        if (needs_escape((uint8_t)text[i])) {
            whim_str_append(&out, escape_of((uint8_t)text[i], buf, sizeof buf));
        } else {
            whim_str_append_char(&out, text[i]);
        }
    }
    int32_t node = out.failed ? whim_gb_no_memory(b) : whim_gb_bytes(b, out.text, out.len);
    whim_str_deinit(&out);
    return node;
}

int32_t whim_gb_json_text(whim_grammar_builder *b, const char *text, int64_t n)
{
    return whim_gb_quoted(b, whim_gb_json_body(b, text, n));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a pre-tokeniser. */
#include "text/pretokenize.h"

#include "base/alloc.h"
#include "base/turn.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/normalize.h"

#include <string.h>

void whim_pretokenizer_deinit(whim_pretokenizer *pre)
{
    for (int32_t i = 0; i < pre->n_step; i++) {
        whim_regex_free(pre->steps[i].regex);
    }
    pre->n_step = 0;
}

void whim_pieces_deinit(whim_pieces *pieces)
{
    whim_str_deinit(&pieces->text);
    whim_free(pieces->ranges);
    *pieces = (whim_pieces){0};
}

enum { TURN_RANGES = 1 << 15 }; /* after so many others may have a turn: some 10 ms */

static whim_err add_range(whim_pieces *to, int64_t begin, int64_t end)
{
    if (!whim_grow(&to->ranges, to->n + 1, &to->cap, sizeof *to->ranges)) {
        return WHIM_ERR_NO_MEMORY;
    }
    if (to->n % TURN_RANGES == TURN_RANGES - 1) {
        whim_turn_give();
    }
    to->ranges[to->n++] = (whim_match){begin, end};
    return WHIM_ERR_OK;
}

/* The ranges of one piece come here in order, each either a match or what lies between two, and are
 * joined as the behaviour says. */
typedef struct joiner {
    whim_pieces *out;
    int64_t first; /* index of the piece's first range */
    whim_split_behavior behavior;
    bool last_matched;
} joiner;

static whim_err join_range(joiner *j, int64_t begin, int64_t end, bool matched)
{
    whim_pieces *out = j->out;
    bool grow = false; /* the last range grows instead of a new one starting */
    bool some = out->n > j->first;
    switch (j->behavior) {
    case WHIM_SPLIT_ISOLATED:
        break;
    case WHIM_SPLIT_REMOVED:
        if (matched) {
            return WHIM_ERR_OK;
        }
        break;
    case WHIM_SPLIT_CONTIGUOUS:
        grow = some && j->last_matched == matched;
        break;
    case WHIM_SPLIT_WITH_PREVIOUS:
        grow = some && matched && !j->last_matched;
        break;
    case WHIM_SPLIT_WITH_NEXT:
        grow = some && !matched && j->last_matched;
        break;
    }
    j->last_matched = matched;
    if (grow) {
        out->ranges[out->n - 1].end = end;
        return WHIM_ERR_OK;
    }
    return begin < end ? add_range(out, begin, end) : WHIM_ERR_OK;
}

static whim_err split_piece(const whim_pre_step *step, const char *text, whim_match piece,
                            whim_matcher *matcher, whim_pieces *out, whim_diag *diag)
{
    const char *base = text + piece.begin;
    int64_t n = piece.end - piece.begin;
    joiner j = {.out = out, .first = out->n, .behavior = step->behavior};
    int64_t done = 0, from = 0;
    bool any = false;
    while (from <= n) {
        bool found;
        whim_match m;
        WHIM_TRY(whim_pattern_find(step->regex, step->content, matcher, base, n, from, &found, &m,
                                   diag));
        if (!found) {
            break;
        }
        if (m.begin == m.end && any && m.end == done) {
            /* nothing, right behind the last match: look on after the next character */
            from += from < n ? whim_utf8_len(base[from]) : 1;
            continue;
        }
        if (done < m.begin) {
            WHIM_TRY(join_range(&j, piece.begin + done, piece.begin + m.begin, step->invert));
        }
        WHIM_TRY(join_range(&j, piece.begin + m.begin, piece.begin + m.end, !step->invert));
        done = from = m.end;
        any = true;
    }
    if (done < n) {
        WHIM_TRY(join_range(&j, piece.begin + done, piece.end, step->invert));
    }
    return WHIM_ERR_OK;
}

static whim_err split_step(const whim_pre_step *step, whim_pieces *in, whim_matcher *matcher,
                           whim_pieces *out, whim_diag *diag)
{
    for (int64_t i = 0; i < in->n; i++) {
        WHIM_TRY(split_piece(step, in->text.text, in->ranges[i], matcher, out, diag));
    }
    /* The text is the same: hand it over. */
    whim_str text = out->text;
    out->text = in->text;
    in->text = text;
    return WHIM_ERR_OK;
}

static bool starts_with(const char *text, int64_t n, const char *prefix)
{
    int64_t len = (int64_t)strlen(prefix);
    return n >= len && memcmp(text, prefix, (size_t)len) == 0;
}

/* Ends early where the text becomes longer than `max`. */
static void replace_spaces(whim_str *out, const char *text, int64_t n, const char *content,
                           int64_t max)
{
    while (n > 0 && out->len <= max) {
        const char *space = memchr(text, ' ', (size_t)n);
        int64_t plain = space != NULL ? space - text : n;
        whim_str_append_n(out, text, plain);
        if (space == NULL) {
            return;
        }
        whim_str_append(out, content);
        text += plain + 1;
        n -= plain + 1;
    }
}

/* The steps that write the text anew, piece by piece. Stops where it becomes longer than `max`. */
static whim_err rewrite_step(const whim_pre_step *step, const whim_pieces *in, bool at_start,
                             int64_t max, whim_pieces *out)
{
    for (int64_t i = 0; i < in->n && out->text.len <= max; i++) {
        const char *text = in->text.text + in->ranges[i].begin;
        int64_t n = in->ranges[i].end - in->ranges[i].begin;
        int64_t begin = out->text.len;
        switch (step->kind) {
        case WHIM_PRE_BYTE_LEVEL:
            whim_byte_level_write(&out->text, text, n);
            break;
        case WHIM_PRE_REPLACE:
            replace_spaces(&out->text, text, n, step->content, max);
            break;
        default:
            if (!starts_with(text, n, step->content) &&
                (!step->first_only || (at_start && in->ranges[i].begin == 0))) {
                whim_str_append(&out->text, step->content);
            }
            whim_str_append_n(&out->text, text, n);
            break;
        }
        WHIM_TRY(add_range(out, begin, out->text.len));
    }
    return out->text.failed ? WHIM_ERR_NO_MEMORY : WHIM_ERR_OK;
}

whim_err whim_pretokenize(const whim_pretokenizer *pre, const char *text, int64_t n, bool at_start,
                          whim_matcher *matcher, whim_pieces *pieces, whim_diag *diag)
{
    const int64_t max = n * WHIM_NORMAL_TIMES + WHIM_NORMAL_MORE;
    whim_pieces other = {0};
    whim_str_clear(&pieces->text);
    pieces->n = 0;
    whim_str_append_n(&pieces->text, text, n);
    whim_err err = pieces->text.failed ? WHIM_ERR_NO_MEMORY : add_range(pieces, 0, n);
    for (int32_t i = 0; i < pre->n_step && err == WHIM_ERR_OK; i++) {
        const whim_pre_step *step = &pre->steps[i];
        whim_str_clear(&other.text);
        other.n = 0;
        if (step->kind == WHIM_PRE_SPLIT) {
            err = split_step(step, pieces, matcher, &other, diag);
        } else {
            err = rewrite_step(step, pieces, at_start, max, &other);
        }
        if (err == WHIM_ERR_OK && other.text.len > max) {
            err = whim_fail(diag, WHIM_ERR_INVALID,
                            "the tokenizer's pre-tokeniser makes %lld bytes of text longer than "
                            "%lld bytes (%d times and %d more), which no real one does",
                            (long long)n, (long long)max, WHIM_NORMAL_TIMES, WHIM_NORMAL_MORE);
        }
        whim_pieces done = other;
        other = *pieces;
        *pieces = done;
    }
    whim_pieces_deinit(&other);
    return err;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding: the text is cut at the added tokens found in trusted spans, or anywhere if they are
 * ordinary text; each gap is normalised, cut at the added tokens that show only then, pre-tokenised
 * and merged. */
#include "text/tokenizer_impl.h"

#include "base/alloc.h"
#include "base/turn.h"
#include "base/utf8.h"

#include <string.h>

enum {
    TEXT_MAX = 1 << 28,    /* bytes of one text */
    TURN_PIECES = 1 << 14, /* after so many others may have a turn: some 10 ms */
    PIECE_MAX = 1 << 30,   /* bytes of one piece of it: some normalisers make a text longer */
};

typedef struct encoder {
    const whim_tokenizer *tok;
    const char *text;
    int64_t n;
    char *mask; /* 1 for trusted bytes; NULL: all are, or none (see look) */
    bool look;  /* some part is trusted */
    whim_matcher *matcher;
    whim_pieces pieces;
    whim_bpe_scratch scratch;
    whim_ids *out;
    whim_diag *diag;
} encoder;

static whim_err encode_plain(encoder *e, const char *text, int64_t n, const char *mask,
                             bool at_start)
{
    (void)mask;
    if (n == 0) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(whim_pretokenize(&e->tok->pre, text, n, at_start, e->matcher, &e->pieces, e->diag));
    for (int64_t i = 0; i < e->pieces.n; i++) {
        if (i % TURN_PIECES == TURN_PIECES - 1) {
            whim_turn_give();
        }
        whim_match range = e->pieces.ranges[i];
        if (range.end - range.begin > PIECE_MAX) {
            return whim_fail(e->diag, WHIM_ERR_INVALID,
                             "a piece of the text has %lld bytes after normalising, expected at"
                             " most %d",
                             (long long)(range.end - range.begin), PIECE_MAX);
        }
        WHIM_TRY(whim_bpe_encode(&e->tok->bpe, e->pieces.text.text + range.begin,
                                 range.end - range.begin, &e->scratch, e->out));
    }
    return WHIM_ERR_OK;
}

/* Cut a text at the added tokens of a set, where they are looked for, and encode what lies
 * between. */
typedef whim_err gap_fn(encoder *e, const char *text, int64_t n, const char *mask, bool at_start);

static whim_err encode_cut(encoder *e, const whim_added_set *set, const char *text, int64_t n,
                           const char *mask, bool at_start, gap_fn *encode_gap)
{
    int64_t done = 0;
    const bool look = e->look || set->has_plain;
    whim_added_iter iter = {.set = set, .text = text, .mask = mask, .none = !e->look, .n = n};
    whim_added_match match;
    while (look && set->n_token > 0 && whim_added_next(&iter, &match)) {
        WHIM_TRY(encode_gap(e, text + done, match.begin - done, mask != NULL ? mask + done : NULL,
                            at_start && done == 0));
        WHIM_TRY(whim_ids_append(e->out, match.token->id));
        done = match.end;
    }
    return encode_gap(e, text + done, n - done, mask != NULL ? mask + done : NULL,
                      at_start && done == 0);
}

static whim_err encode_raw(encoder *e, const char *text, int64_t n, const char *mask, bool at_start)
{
    const whim_added_set *set = &e->tok->normalized;
    if (n == 0 || e->tok->normalizer.n_step == 0) {
        return encode_cut(e, set, text, n, mask, at_start, encode_plain);
    }
    whim_masked_text gap = {.has_mask = mask != NULL && set->n_token > 0};
    whim_str_append_n(&gap.text, text, n);
    whim_str_append_n(&gap.mask, mask, gap.has_mask ? n : 0);
    whim_err err = gap.text.failed || gap.mask.failed ? WHIM_ERR_NO_MEMORY : WHIM_ERR_OK;
    if (err == WHIM_ERR_OK) {
        err = whim_normalize(&e->tok->normalizer, &gap, e->matcher, e->diag);
    }
    if (err == WHIM_ERR_OK) {
        err = encode_cut(e, set, whim_str_text(&gap.text), gap.text.len,
                         gap.has_mask ? whim_str_text(&gap.mask) : NULL, at_start, encode_plain);
    }
    whim_masked_text_deinit(&gap);
    return err;
}

/* The spans as a mask. Two trusted spans side by side are one. */
static whim_err read_spans(encoder *e, const whim_encode_opts *opts)
{
    e->look = opts->parse_special;
    if (opts->spans == NULL) {
        return WHIM_ERR_OK;
    }
    int64_t at = 0;
    bool all = true;
    e->look = false;
    for (int64_t i = 0; i < opts->n_span; i++) {
        const whim_text_span *span = &opts->spans[i];
        if (span->begin != at || span->end < span->begin || span->end > e->n) {
            return whim_fail(e->diag, WHIM_ERR_INVALID,
                             "span %lld is [%lld, %lld), expected one from %lld on within %lld"
                             " bytes",
                             (long long)i, (long long)span->begin, (long long)span->end,
                             (long long)at, (long long)e->n);
        }
        at = span->end;
        e->look |= span->trusted && span->end > span->begin;
        all &= span->trusted || span->end == span->begin;
    }
    if (at != e->n) {
        return whim_fail(e->diag, WHIM_ERR_INVALID, "the spans cover %lld of %lld bytes",
                         (long long)at, (long long)e->n);
    }
    if (all || !e->look) {
        return WHIM_ERR_OK;
    }
    e->mask = whim_alloc(e->n);
    if (e->mask == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    for (int64_t i = 0; i < opts->n_span; i++) {
        const whim_text_span *span = &opts->spans[i];
        memset(e->mask + span->begin, span->trusted, (size_t)(span->end - span->begin));
    }
    return WHIM_ERR_OK;
}

static whim_err put_affix(const whim_affix *affix, bool wanted, whim_ids *out)
{
    for (int32_t i = 0; i < affix->n && wanted; i++) {
        WHIM_TRY(whim_ids_append(out, affix->ids[i]));
    }
    return WHIM_ERR_OK;
}

static whim_err run(encoder *e, const whim_encode_opts *opts)
{
    WHIM_TRY(read_spans(e, opts));
    WHIM_TRY(whim_matcher_create(&e->matcher));
    WHIM_TRY(put_affix(&e->tok->prefix, opts->add_special, e->out));
    WHIM_TRY(encode_cut(e, &e->tok->raw, e->text, e->n, e->mask, true, encode_raw));
    return put_affix(&e->tok->suffix, opts->add_special, e->out);
}

whim_err whim_tokenizer_encode(const whim_tokenizer *tok, const char *text, int64_t n,
                               const whim_encode_opts *opts, whim_ids *out, whim_diag *diag)
{
    if (n > TEXT_MAX) {
        return whim_fail(diag, WHIM_ERR_INVALID, "the text has %lld bytes, expected at most %d",
                         (long long)n, TEXT_MAX);
    }
    int64_t least = opts->most > 0 ? whim_tokenizer_least_ids(tok, text, n) : 0;
    if (least > opts->most) {
        return whim_fail(diag, WHIM_ERR_NO_FIT,
                         "prompt is too long: at least %lld tokens > %lld maximum; a text of %lld "
                         "bytes cannot be shorter",
                         (long long)least, (long long)opts->most, (long long)n);
    }
    int64_t bad = whim_utf8_valid_prefix(text, n);
    if (bad != n) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "the text is not valid UTF-8 at byte %lld (0x%02x)", (long long)bad,
                         (uint8_t)text[bad]);
    }
    encoder e = {.tok = tok, .text = text, .n = n, .out = out, .diag = diag};
    int64_t had = out->n;
    whim_err err = run(&e, opts);
    if (err == WHIM_ERR_NO_MEMORY) {
        whim_fail(diag, err, "no memory to tokenise %lld bytes of text", (long long)n);
    }
    if (err != WHIM_ERR_OK) {
        out->n = had; /* all or nothing */
    }
    whim_matcher_free(e.matcher);
    whim_pieces_deinit(&e.pieces);
    whim_bpe_scratch_deinit(&e.scratch);
    whim_free(e.mask);
    return err;
}

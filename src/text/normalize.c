/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a normaliser. */
#include "text/normalize.h"

#include "base/utf8.h"

#include <string.h>
#include <utf8proc.h>

void whim_masked_text_deinit(whim_masked_text *text)
{
    whim_str_deinit(&text->text);
    whim_str_deinit(&text->mask);
}

/* Whether n bytes more have room. */
static bool has_room(whim_masked_text *to, int64_t n)
{
    to->over = to->over || (to->max > 0 && n > to->max - to->text.len);
    return !to->over;
}

void whim_masked_append(whim_masked_text *to, const char *bytes, int64_t n, char trusted)
{
    static const char ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const char zeros[16];
    if (!has_room(to, n)) {
        return;
    }
    whim_str_append_n(&to->text, bytes, n);
    while (to->has_mask && n > 0) {
        int64_t take = n < 16 ? n : 16;
        whim_str_append_n(&to->mask, trusted ? ones : zeros, take);
        n -= take;
    }
}

void whim_normalizer_deinit(whim_normalizer *normalizer)
{
    for (int32_t i = 0; i < normalizer->n_step; i++) {
        whim_regex_free(normalizer->steps[i].regex);
    }
    normalizer->n_step = 0;
}

void whim_masked_copy(const whim_masked_text *in, int64_t begin, int64_t end, whim_masked_text *out)
{
    if (!has_room(out, end - begin)) {
        return;
    }
    whim_str_append_n(&out->text, whim_str_text(&in->text) + begin, end - begin);
    if (in->has_mask) {
        whim_str_append_n(&out->mask, whim_str_text(&in->mask) + begin, end - begin);
    }
}

/* The next match of a REPLACE step. Matches of nothing are passed over. */
static whim_err next_match(const whim_normal_step *step, const whim_str *text, int64_t from,
                           whim_matcher *matcher, bool *found, whim_match *match, whim_diag *diag)
{
    while (from <= text->len) {
        WHIM_TRY(whim_pattern_find(step->regex, step->pattern, matcher, text->text, text->len, from,
                                   found, match, diag));
        if (!*found || match->end > match->begin || match->begin >= text->len) {
            break;
        }
        from = match->begin + whim_utf8_len(text->text[match->begin]);
    }
    *found = *found && match->end > match->begin;
    return WHIM_ERR_OK;
}

static whim_err replace(const whim_normal_step *step, const whim_masked_text *in,
                        whim_masked_text *out, whim_matcher *matcher, whim_diag *diag)
{
    int64_t n_content = (int64_t)strlen(step->content);
    int64_t at = 0;
    while (!out->over) {
        bool found;
        whim_match match;
        WHIM_TRY(next_match(step, &in->text, at, matcher, &found, &match, diag));
        if (!found) {
            break;
        }
        whim_masked_copy(in, at, match.begin, out);
        char trusted = in->has_mask && memchr(in->mask.text + match.begin, 0,
                                              (size_t)(match.end - match.begin)) == NULL;
        whim_masked_append(out, step->content, n_content, trusted);
        at = match.end;
    }
    whim_masked_copy(in, at, in->text.len, out);
    return WHIM_ERR_OK;
}

static void lowercase(const whim_masked_text *in, whim_masked_text *out)
{
    const whim_str *text = &in->text;
    for (int64_t at = 0; at < text->len && !out->over;) {
        int32_t len = whim_utf8_len(text->text[at]);
        int32_t cp = whim_utf8_decode(text->text + at, len);
        char trusted = in->has_mask ? in->mask.text[at] : 0;
        char bytes[4];
        if (cp == 0x130) { /* the one letter whose lower case is two characters */
            whim_masked_append(out, "i\xCC\x87", 3, trusted);
        } else {
            int32_t n = whim_utf8_encode(utf8proc_tolower(cp), bytes);
            whim_masked_append(out, bytes, n, trusted);
        }
        at += len;
    }
}

static void strip(const whim_normal_step *step, const whim_masked_text *in, whim_masked_text *out)
{
    const char *text = in->text.text;
    int64_t n = in->text.len;
    int64_t begin = step->left ? whim_utf8_skip_space(text, 0, n) : 0;
    whim_masked_copy(in, begin, step->right ? whim_utf8_space_before(text, begin, n) : n, out);
}

static whim_err run_step(const whim_normal_step *step, const whim_masked_text *in,
                         whim_masked_text *out, whim_matcher *matcher, whim_diag *diag)
{
    switch (step->kind) {
    case WHIM_NORMAL_PREPEND:
        whim_masked_append(out, step->content, (int64_t)strlen(step->content), 1);
        whim_masked_copy(in, 0, in->text.len, out);
        return WHIM_ERR_OK;
    case WHIM_NORMAL_REPLACE:
        return replace(step, in, out, matcher, diag);
    case WHIM_NORMAL_LOWERCASE:
        lowercase(in, out);
        return WHIM_ERR_OK;
    case WHIM_NORMAL_STRIP:
        strip(step, in, out);
        return WHIM_ERR_OK;
    default:
        return whim_unicode_form(step->kind, in, out);
    }
}

whim_err whim_normalize(const whim_normalizer *normalizer, whim_masked_text *text,
                        whim_matcher *matcher, whim_diag *diag)
{
    const int64_t n = text->text.len;
    const int64_t max = n * WHIM_NORMAL_TIMES + WHIM_NORMAL_MORE;
    for (int32_t i = 0; i < normalizer->n_step && text->text.len > 0; i++) {
        whim_masked_text out = {.has_mask = text->has_mask, .max = max};
        whim_err err = run_step(&normalizer->steps[i], text, &out, matcher, diag);
        if (err == WHIM_ERR_OK && out.over) {
            err = whim_fail(diag, WHIM_ERR_INVALID,
                            "the tokenizer's normaliser makes %lld bytes of text longer than %lld "
                            "bytes (%d times and %d more), which no real one does",
                            (long long)n, (long long)max, WHIM_NORMAL_TIMES, WHIM_NORMAL_MORE);
        }
        if (err == WHIM_ERR_OK && (out.text.failed || out.mask.failed)) {
            err = WHIM_ERR_NO_MEMORY;
        }
        if (err != WHIM_ERR_OK) {
            whim_masked_text_deinit(&out);
            return err;
        }
        whim_masked_text_deinit(text);
        *text = out;
    }
    return WHIM_ERR_OK;
}

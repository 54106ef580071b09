/* SPDX-License-Identifier: Apache-2.0 */
/* NFC, NFD, NFKC, NFKD over utf8proc's tables. The text is taken in parts that cannot influence
 * each other: a part begins at a character that is no mark and no second half of a Hangul
 * syllable. The marks of a part are sorted here, because the library's own sort is quadratic. */
#include "text/normalize.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <string.h>
#include <utf8proc.h>

typedef struct part {
    int32_t *cps;
    int32_t *spare; /* for sorting */
    int64_t n, cap, cap_spare;
} part;

/* Whether nothing before the character can change it or be changed by it. */
static bool begins_part(int32_t cp)
{
    if (cp < 0x300) {
        return true;
    }
    if ((cp >= 0x1160 && cp <= 0x11FF) || (cp >= 0xD7B0 && cp <= 0xD7FF)) {
        return false;
    }
    const utf8proc_property_t *p = utf8proc_get_property(cp);
    bool is_mark = p->category >= UTF8PROC_CATEGORY_MN && p->category <= UTF8PROC_CATEGORY_ME;
    /* Half-width voicing marks are letters that decompose to marks. */
    return p->combining_class == 0 && !is_mark && cp != 0xFF9E && cp != 0xFF9F &&
           !(cp >= 0xFFA0 && cp <= 0xFFDC);
}

static int class_of(int32_t cp)
{
    return utf8proc_get_property(cp)->combining_class;
}

/* Stable counting sort of marks by their class. */
static void sort_marks(int32_t *cps, int64_t n, int32_t *spare)
{
    int64_t at[257] = {0};
    for (int64_t i = 0; i < n; i++) {
        at[class_of(cps[i]) + 1]++;
    }
    for (int i = 1; i < 257; i++) {
        at[i] += at[i - 1];
    }
    for (int64_t i = 0; i < n; i++) {
        spare[at[class_of(cps[i])]++] = cps[i];
    }
    memcpy(cps, spare, (size_t)n * sizeof *cps);
}

static void order_marks(part *p)
{
    for (int64_t i = 0; i < p->n;) {
        int64_t end = i;
        while (end < p->n && class_of(p->cps[end]) != 0) {
            end++;
        }
        if (end - i > 1) {
            sort_marks(p->cps + i, end - i, p->spare);
        }
        i = end > i ? end : i + 1;
    }
}

/* Decompose the characters of [at, end) into the part. */
static whim_err decompose(part *p, const char *text, int64_t at, int64_t end, int options)
{
    p->n = 0;
    while (at < end) {
        int32_t len = whim_utf8_len(text[at]);
        /* No character decomposes to more than 18. */
        if (!whim_grow(&p->cps, p->n + 32, &p->cap, sizeof *p->cps) ||
            !whim_grow(&p->spare, p->n + 32, &p->cap_spare, sizeof *p->spare)) {
            return WHIM_ERR_NO_MEMORY;
        }
        utf8proc_ssize_t n = utf8proc_decompose_char(
            whim_utf8_decode(text + at, len), p->cps + p->n, 32, (utf8proc_option_t)options, NULL);
        if (n < 0) {
            return WHIM_ERR_NO_MEMORY;
        }
        p->n += n;
        at += len;
    }
    return WHIM_ERR_OK;
}

static whim_err put_part(part *p, const whim_masked_text *in, int64_t at, int64_t end, int options,
                         whim_masked_text *out)
{
    char trusted = in->has_mask && memchr(in->mask.text + at, 0, (size_t)(end - at)) == NULL;
    WHIM_TRY(decompose(p, in->text.text, at, end, options));
    order_marks(p);
    if ((options & UTF8PROC_COMPOSE) != 0) {
        p->n = utf8proc_normalize_utf32(p->cps, p->n, (utf8proc_option_t)options);
    }
    for (int64_t i = 0; i < p->n; i++) {
        char bytes[4];
        whim_masked_append(out, bytes, whim_utf8_encode(p->cps[i], bytes), trusted);
    }
    return WHIM_ERR_OK;
}

/* The end of the run at `at` that every form leaves alone: ASCII, but for its last byte. */
static int64_t plain_end(const whim_str *text, int64_t at)
{
    int64_t end = at;
    while (end < text->len && (uint8_t)text->text[end] < 0x80) {
        end++;
    }
    return end == text->len || end == at ? end : end - 1;
}

whim_err whim_unicode_form(whim_normal_kind kind, const whim_masked_text *in, whim_masked_text *out)
{
    bool compose = kind == WHIM_NORMAL_NFC || kind == WHIM_NORMAL_NFKC;
    bool compat = kind == WHIM_NORMAL_NFKC || kind == WHIM_NORMAL_NFKD;
    int options = UTF8PROC_STABLE | (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                  (compat ? UTF8PROC_COMPAT : 0);
    const whim_str *text = &in->text;
    part p = {0};
    whim_err err = WHIM_ERR_OK;
    for (int64_t at = 0; at < text->len && err == WHIM_ERR_OK && !out->over;) {
        int64_t end = plain_end(text, at);
        if (end > at) {
            whim_masked_copy(in, at, end, out);
            at = end;
            continue;
        }
        end = at + whim_utf8_len(text->text[at]);
        while (end < text->len) {
            int32_t len = whim_utf8_len(text->text[end]);
            if (begins_part(whim_utf8_decode(text->text + end, len))) {
                break;
            }
            end += len;
        }
        err = put_part(&p, in, at, end, options, out);
        at = end;
    }
    whim_free(p.cps);
    whim_free(p.spare);
    return err;
}

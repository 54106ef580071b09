/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens to text. */
#include "text/detokenizer.h"

#include "base/utf8.h"
#include "text/tokenizer_impl.h"

#include <string.h>

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

void whim_detokenizer_init(whim_detokenizer *d, const whim_tokenizer *tok, bool show_special)
{
    *d = (whim_detokenizer){.tok = tok, .show_special = show_special};
}

static bool is_hidden(const whim_detokenizer *d, int32_t id)
{
    bool hidden = !d->show_special && whim_tokenizer_is_special(d->tok, id);
    for (int32_t i = 0; i < d->n_shown && hidden; i++) {
        hidden = d->shown[i] != id;
    }
    return hidden;
}

/* Take one byte; what stays held is the start of a character that could still be completed. */
static void push_byte(whim_detokenizer *d, char byte, whim_str *out)
{
    d->held[d->n_held++] = byte;
    while (d->n_held > 0) {
        int32_t n, cp;
        switch (whim_utf8_next(d->held, d->n_held, &n, &cp)) {
        case WHIM_UTF8_SHORT:
            return;
        case WHIM_UTF8_WHOLE:
            whim_str_append_n(out, d->held, n);
            break;
        default:
            whim_str_append(out, REPLACEMENT);
            break;
        }
        d->n_held -= n;
        memmove(d->held, d->held + n, (size_t)d->n_held);
    }
}

void whim_detokenizer_push(whim_detokenizer *d, int32_t id, whim_str *out)
{
    if (is_hidden(d, id)) {
        return;
    }
    int64_t n;
    const char *bytes = whim_tokenizer_bytes(d->tok, id, &n);
    for (int64_t i = 0; i < n; i++) {
        bool drop = !d->started && d->tok->drop_first_space && bytes[i] == ' ';
        d->started = true;
        if (!drop) {
            push_byte(d, bytes[i], out);
        }
    }
}

void whim_detokenizer_flush(whim_detokenizer *d, whim_str *out)
{
    if (d->n_held > 0) {
        whim_str_append(out, REPLACEMENT);
        d->n_held = 0;
    }
}

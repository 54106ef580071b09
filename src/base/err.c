/* SPDX-License-Identifier: Apache-2.0 */
/* Error names, texts and messages. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    const char *text;
} err_table[] = {
#define WHIM_ERR(name, text) {#name, text},
#include "base/err.def"
#undef WHIM_ERR
};

const char *whim_err_name(whim_err err)
{
    return err >= 0 && err < WHIM_ERR_COUNT ? err_table[err].name : "UNKNOWN";
}

const char *whim_err_text(whim_err err)
{
    return err >= 0 && err < WHIM_ERR_COUNT ? err_table[err].text : "unknown error";
}

/* Bytes of the control character that begins here, or 0: ASCII's, but for line ends and tabs, those
 * from U+0080 to U+009F, and those that turn the direction of text around. */
static int control_len(const unsigned char *c)
{
    const bool turns = *c == 0xe2 && ((c[1] == 0x80 && c[2] >= 0xaa && c[2] <= 0xae) ||
                                      (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9));
    const bool c1 = *c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0;
    const bool ascii = *c == 0x7f || (*c < 0x20 && *c != '\n' && *c != '\t' && *c != '\0');
    return turns ? 3 : c1 ? 2 : ascii;
}

/* Names out of files and texts of templates stand in messages, which go to terminals: what would
 * control one is written as \xNN, or \uNNNN. */
static void escape_controls(whim_diag *diag)
{
    enum { LONGEST = 6 };
    char raw[sizeof diag->text];
    size_t at = 0;
    const unsigned char *c = (unsigned char *)diag->text;
    while (*c != '\0' && control_len(c) == 0) {
        c++;
    }
    if (*c == '\0') {
        return;
    }
    memcpy(raw, diag->text, sizeof raw);
    for (c = (unsigned char *)raw; *c != '\0' && at + LONGEST < sizeof diag->text; c++) {
        char *to = diag->text + at;
        const int n = control_len(c);
        if (n == 0) {
            diag->text[at++] = (char)*c;
        } else if (n < 3) {
            c += n - 1; /* the second byte of two tells which it is */
            at += (size_t)snprintf(to, LONGEST + 1, "\\x%02x", *c);
        } else {
            at += (size_t)snprintf(to, LONGEST + 1, "\\u20%02x", (c[1] & 1) * 64 + c[2] - 0x80);
            c += n - 1;
        }
    }
    diag->text[at] = '\0';
}

static void say(whim_diag *diag, const char *fmt, va_list ap)
{
    if (diag != NULL) {
        vsnprintf(diag->text, sizeof diag->text, fmt, ap);
        escape_controls(diag);
    }
}

whim_err whim_fail(whim_diag *diag, whim_err err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(diag, fmt, ap);
    va_end(ap);
    return err;
}

whim_err whim_got(bool got, whim_diag *diag, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(got ? NULL : diag, fmt, ap);
    va_end(ap);
    return got ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY;
}

void whim_diag_prefix(whim_diag *diag, const char *fmt, ...)
{
    if (diag == NULL) {
        return;
    }
    char old[sizeof diag->text];
    memcpy(old, diag->text, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(diag->text, sizeof diag->text, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof diag->text) {
        snprintf(diag->text + n, sizeof diag->text - (size_t)n, "%s", old);
    }
    escape_controls(diag);
}

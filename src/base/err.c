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

/* Whether a control character begins here: ASCII's, but for line ends and tabs, or one from U+0080
 * to U+009F. */
static bool is_control(const unsigned char *c)
{
    const bool c1 = *c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0;
    return c1 || *c == 0x7f || (*c < 0x20 && *c != '\n' && *c != '\t' && *c != '\0');
}

/* Names out of files and texts of templates stand in messages, which go to terminals: what would
 * control one is written as \xNN. */
static void escape_controls(whim_diag *diag)
{
    char raw[sizeof diag->text];
    size_t at = 0;
    const unsigned char *c = (unsigned char *)diag->text;
    while (*c != '\0' && !is_control(c)) {
        c++;
    }
    if (*c == '\0') {
        return;
    }
    memcpy(raw, diag->text, sizeof raw);
    for (c = (unsigned char *)raw; *c != '\0' && at + 5 < sizeof diag->text; c++) {
        if (is_control(c)) {
            c += *c == 0xc2; /* the second byte of two tells which it is */
            at += (size_t)snprintf(diag->text + at, 5, "\\x%02x", *c);
        } else {
            diag->text[at++] = (char)*c;
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

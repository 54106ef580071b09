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

static void say(whim_diag *diag, const char *fmt, va_list ap)
{
    if (diag != NULL) {
        vsnprintf(diag->text, sizeof diag->text, fmt, ap);
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
}

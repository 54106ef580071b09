/* SPDX-License-Identifier: Apache-2.0 */
/* Errors as values. A call that can fail returns whim_err, which must be looked at; a call that a
 * user can make fail also takes a whim_diag and leaves there one sentence for that user: what was
 * wrong, what was expected, what to do.
 * Threads: a whim_diag belongs to its caller; everything else is stateless. */
#ifndef WHIM_BASE_ERR_H
#define WHIM_BASE_ERR_H

#include <stdbool.h>

enum {
#define WHIM_ERR(name, text) WHIM_ERR_##name,
#include "base/err.def"
#undef WHIM_ERR
    WHIM_ERR_COUNT
};

typedef int whim_err;

#define WHIM_MUST_CHECK __attribute__((warn_unused_result))
#define WHIM_PRINTF(fmt_arg, first_arg) __attribute__((format(printf, fmt_arg, first_arg)))

/* The name of a code, e.g. "CORRUPT", and its generic text. Never NULL. */
const char *whim_err_name(whim_err err);
const char *whim_err_text(whim_err err);

/* Room for one message to the user. Always NUL-terminated once set; long messages are cut. */
typedef struct whim_diag {
    char text[2048];
} whim_diag;

/* Write the message (diag may be NULL) and return `err`, so that a failing call reads
 * `return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: ...", path);`. */
whim_err whim_fail(whim_diag *diag, whim_err err, const char *fmt, ...) WHIM_PRINTF(3, 4);

/* The same for memory: NO_MEMORY with the message unless it was got, so that an allocation reads
 * `WHIM_TRY(whim_got(array != NULL, diag, "no memory for ..."));`. */
WHIM_MUST_CHECK whim_err whim_got(bool got, whim_diag *diag, const char *fmt, ...)
    WHIM_PRINTF(3, 4);

/* Put a prefix in front of the message that a callee left. */
void whim_diag_prefix(whim_diag *diag, const char *fmt, ...) WHIM_PRINTF(2, 3);

/* Leave the function with the callee's error. */
#define WHIM_TRY(expr)                      \
    do {                                    \
        whim_err whim_try_err_ = (expr);    \
        if (whim_try_err_ != WHIM_ERR_OK) { \
            return whim_try_err_;           \
        }                                   \
    } while (0)

/* The same for functions with one `out:` cleanup label and a local `whim_err err`. */
#define WHIM_TRY_OUT(expr)        \
    do {                          \
        err = (expr);             \
        if (err != WHIM_ERR_OK) { \
            goto out;             \
        }                         \
    } while (0)

#endif

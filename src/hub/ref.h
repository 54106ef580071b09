/* SPDX-License-Identifier: Apache-2.0 */
/* Names of models on a hub, ORG/NAME[@REV][:PICK], their addresses as a browser shows them
 * (https://huggingface.co/ORG/NAME/tree/REV), and names of files in their repositories. What
 * passes here is safe as part of a path and of a URL's path (after percent-encoding).
 * Threads: stateless. */
#ifndef WHIM_HUB_REF_H
#define WHIM_HUB_REF_H

#include "base/err.h"

#include <stdbool.h>

enum { WHIM_HUB_ID_MAX = 200, WHIM_HUB_REV_MAX = 128, WHIM_HUB_NAME_MAX = 1024 };

typedef struct whim_hub_ref {
    char id[WHIM_HUB_ID_MAX];     /* "ORG/NAME" */
    char rev[WHIM_HUB_REV_MAX];   /* branch, tag or commit; "main" when none was given */
    char pick[WHIM_HUB_NAME_MAX]; /* a GGUF file by its quantisation ("Q4_K_M") or name; "": none */
} whim_hub_ref;

/* Whether a text has the form ORG/NAME, whatever follows it (one slash between two plain words), or
 * that of an address. */
bool whim_hub_ref_looks(const char *text);

/* INVALID with a message when it is no such name. */
WHIM_MUST_CHECK whim_err whim_hub_ref_parse(whim_hub_ref *ref, const char *text, whim_diag *diag);

/* Whether a name from a repository leads to a file below the folder that it is put into, on any
 * system: parts with slashes between them, none empty, "." or "..", no backslash, colon or control
 * character. */
bool whim_hub_name_is_safe(const char *name);

/* 40 or 64 lower-case hexadecimal digits: a commit or a checksum of git, a SHA-256. */
bool whim_hub_is_hex(const char *text, int digits);

#endif

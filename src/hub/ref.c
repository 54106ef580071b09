/* SPDX-License-Identifier: Apache-2.0 */
/* Names of models and files. */
#include "hub/ref.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MAX_PART = 96, MAX_SEGMENT = 255 };

static const char form[] = "write ORG/NAME, ORG/NAME@REVISION, or ORG/NAME:QUANT for one GGUF file";

/* Letters, digits, '-', '_' and '.', with no '-' or '.' at an end and neither "--" nor "..": the
 * hub's own rule. */
static bool is_word(const char *text, size_t n)
{
    if (n == 0 || n > MAX_PART || strchr("-.", text[0]) != NULL ||
        strchr("-.", text[n - 1]) != NULL) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        bool twice = i > 0 && text[i - 1] == (char)c && (c == '-' || c == '.');
        if (c >= 0x80 || (!isalnum(c) && strchr("-_.", c) == NULL) || twice) {
            return false;
        }
    }
    return true;
}

/* Bytes of ORG/NAME at the beginning, or 0. */
static size_t id_length(const char *text)
{
    size_t org = strcspn(text, "/@:");
    if (text[org] != '/') {
        return 0;
    }
    size_t name = strcspn(text + org + 1, "/@:");
    const char *after = text + org + 1 + name;
    return *after != '/' && is_word(text, org) && is_word(text + org + 1, name) ? org + 1 + name
                                                                                : 0;
}

bool whim_hub_ref_looks(const char *text)
{
    return id_length(text) > 0;
}

bool whim_hub_is_hex(const char *text, int digits)
{
    return strspn(text, "0123456789abcdef") == (size_t)digits && text[digits] == '\0';
}

bool whim_hub_name_is_safe(const char *name)
{
    size_t n = strnlen(name, WHIM_HUB_NAME_MAX);
    if (n == 0 || n >= WHIM_HUB_NAME_MAX) {
        return false;
    }
    for (const char *at = name;; at++) {
        size_t part = strcspn(at, "/");
        if (part == 0 || part > MAX_SEGMENT || (part == 1 && at[0] == '.') ||
            (part == 2 && strncmp(at, "..", 2) == 0)) {
            return false;
        }
        for (size_t i = 0; i < part; i++) {
            unsigned char c = (unsigned char)at[i];
            bool c1 = c == 0xc2 && (unsigned char)at[i + 1] < 0xa0;
            if (c < 0x20 || c == 0x7f || c1 || c == '\\' || c == ':') {
                return false;
            }
        }
        at += part;
        if (*at == '\0') {
            return true;
        }
    }
}

/* What git allows as a reference, as far as it matters for a path: safe parts and nothing
 * strange. */
static bool is_revision(const char *text)
{
    return whim_hub_name_is_safe(text) && strstr(text, "..") == NULL && text[0] != '-' &&
           strpbrk(text, " ~^?*[@") == NULL;
}

whim_err whim_hub_ref_parse(whim_hub_ref *ref, const char *text, whim_diag *diag)
{
    *ref = (whim_hub_ref){.rev = "main"};
    size_t n = id_length(text);
    if (n == 0) {
        return whim_fail(diag, WHIM_ERR_INVALID, "\"%.200s\" is not a model's name on the hub: %s",
                         text, form);
    }
    memcpy(ref->id, text, n);
    const char *at = text + n;
    if (*at == '@') {
        size_t rev = strcspn(at + 1, ":");
        if (rev >= sizeof ref->rev) {
            return whim_fail(diag, WHIM_ERR_INVALID, "\"%.200s\": the revision is too long", text);
        }
        memcpy(ref->rev, at + 1, rev);
        ref->rev[rev] = '\0';
        at += 1 + rev;
        if (!is_revision(ref->rev)) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "\"%.200s\": \"%s\" is no branch, tag or commit: %s", text, ref->rev,
                             form);
        }
    }
    if (*at == ':') {
        int len = snprintf(ref->pick, sizeof ref->pick, "%s", at + 1);
        if (len >= (int)sizeof ref->pick || !whim_hub_name_is_safe(ref->pick)) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "\"%.200s\": after the colon stands a quantisation such as Q4_K_M, or "
                             "the name of a file",
                             text);
        }
    }
    return WHIM_ERR_OK;
}

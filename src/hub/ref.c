/* SPDX-License-Identifier: Apache-2.0 */
/* Names of models and files. */
#include "hub/ref.h"

#include "base/file.h"
#include "base/str.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    MAX_PART = 96,
    MAX_SEGMENT = 255,
    MAX_PLAIN = WHIM_HUB_ID_MAX + WHIM_HUB_REV_MAX + WHIM_HUB_NAME_MAX + 4,
};

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

/* --- addresses -------------------------------------------------------------------------------- */

/* What follows the host of an address of the hub, as a browser shows it or other programs take it;
 * NULL: it is none. */
static const char *address_path(const char *text)
{
    static const char *const hosts[] = {"huggingface.co/", "www.huggingface.co/", "hf.co/"};
    const char *scheme = strstr(text, "://");
    const char *at = scheme != NULL && (strncasecmp(text, "https", (size_t)(scheme - text)) == 0 ||
                                        strncasecmp(text, "http", (size_t)(scheme - text)) == 0)
                         ? scheme + 3
                         : text;
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        if (strncasecmp(at, hosts[i], strlen(hosts[i])) == 0) {
            return at + strlen(hosts[i]);
        }
    }
    return NULL;
}

/* n bytes with their %XX undone; false when they do not fit or hold a NUL. */
static bool decode(char *out, size_t size, const char *text, size_t n)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '%' && i + 2 < n && whim_hex_value(text[i + 1]) >= 0 &&
            whim_hex_value(text[i + 2]) >= 0) {
            c = (char)(whim_hex_value(text[i + 1]) << 4 | whim_hex_value(text[i + 2]));
            i += 2;
        }
        if (c == '\0' || len + 1 >= size) {
            return false;
        }
        out[len++] = c;
    }
    out[len] = '\0';
    return true;
}

/* The next part of a path, decoded, with the slashes before it passed over; "" at the end. */
static bool next_part(const char **at, const char *end, char *out, size_t size)
{
    while (*at < end && **at == '/') {
        (*at)++;
    }
    const char *begin = *at;
    while (*at < end && **at != '/') {
        (*at)++;
    }
    return decode(out, size, begin, (size_t)(*at - begin));
}

/* The GGUF file that a page of the hub shows beside its list: ?show_file_info=NAME. */
static bool query_pick(const char *query, char *out, size_t size)
{
    static const char key[] = "show_file_info=";
    const char *at = strstr(query, key);
    out[0] = '\0';
    if (at == NULL) {
        return true;
    }
    at += strlen(key);
    return decode(out, size, at, strcspn(at, "&#")) &&
           (whim_path_has_suffix(out, ".gguf") || (out[0] = '\0', true));
}

/* What follows ORG/NAME: /tree/REV[/FOLDER], /blob/REV/FILE and the like. A folder of a repository
 * is taken for a quantisation, because that is what folders of GGUF files are called. */
static bool take_rest(const char *at, const char *end, char *rev, char *pick)
{
    char word[16] = "", part[WHIM_HUB_NAME_MAX] = "";
    bool is_tree = false;
    if (!next_part(&at, end, word, sizeof word)) {
        return true; /* a page about the model */
    }
    is_tree = strcmp(word, "tree") == 0;
    if (!is_tree && strcmp(word, "blob") != 0 && strcmp(word, "resolve") != 0 &&
        strcmp(word, "raw") != 0) {
        return true;
    }
    if (!next_part(&at, end, rev, WHIM_HUB_REV_MAX)) {
        return false;
    }
    const char *file = at + (at < end);
    if (is_tree) {
        while (next_part(&at, end, part, sizeof part) && part[0] != '\0') {
            snprintf(pick, WHIM_HUB_NAME_MAX, "%s", part);
        }
        return at == end;
    }
    bool ok = file >= end || decode(pick, WHIM_HUB_NAME_MAX, file, (size_t)(end - file));
    if (ok && !whim_path_has_suffix(pick, ".gguf")) {
        pick[0] = '\0'; /* a file of a model that is a folder */
    }
    return ok;
}

/* The address as ORG/NAME[@REV][:PICK], to be parsed like one. */
static bool plain_form(const char *path, char plain[MAX_PLAIN])
{
    char org[WHIM_HUB_ID_MAX], name[MAX_PLAIN / 2], rev[WHIM_HUB_REV_MAX] = "";
    char pick[WHIM_HUB_NAME_MAX] = "", shown[WHIM_HUB_NAME_MAX];
    const char *end = path + strcspn(path, "?#"), *at = path;
    if (!next_part(&at, end, org, sizeof org) || !next_part(&at, end, name, sizeof name) ||
        !take_rest(at, end, rev, pick) || !query_pick(end, shown, sizeof shown)) {
        return false;
    }
    if (strcmp(org, "datasets") == 0 || strcmp(org, "spaces") == 0) {
        return false;
    }
    const char *chosen = shown[0] != '\0' ? shown : pick;
    return snprintf(plain, MAX_PLAIN, "%s/%s%s%s%s%s", org, name, rev[0] != '\0' ? "@" : "", rev,
                    chosen[0] != '\0' ? ":" : "", chosen) < MAX_PLAIN;
}

bool whim_hub_ref_looks(const char *text)
{
    return id_length(text) > 0 || address_path(text) != NULL || strstr(text, "://") != NULL;
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

static whim_err plain_parse(whim_hub_ref *ref, const char *text, whim_diag *diag)
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
                             "\"%.200s\": \"%s\" is not a branch, tag or commit: %s", text,
                             ref->rev, form);
        }
    }
    if (*at == ':') {
        int len = snprintf(ref->pick, sizeof ref->pick, "%s", at + 1);
        if (len >= (int)sizeof ref->pick || !whim_hub_name_is_safe(ref->pick)) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "\"%.200s\": the colon must be followed by a quantisation such as "
                             "Q4_K_M, or by the name of a file",
                             text);
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_hub_ref_parse(whim_hub_ref *ref, const char *text, whim_diag *diag)
{
    char plain[MAX_PLAIN];
    const char *path = address_path(text);
    if (path == NULL && strstr(text, "://") == NULL) {
        return plain_parse(ref, text, diag);
    }
    if (path == NULL || !plain_form(path, plain) || plain_parse(ref, plain, diag) != WHIM_ERR_OK) {
        return whim_fail(
            diag, WHIM_ERR_INVALID,
            "\"%.200s\" is not the address of a model on the hub; expected "
            "https://huggingface.co/ORG/NAME, also with /tree/REVISION, or with "
            "/blob/REVISION/ and the name of a GGUF file; download a file from elsewhere "
            "yourself, and give its path",
            text);
    }
    return WHIM_ERR_OK;
}

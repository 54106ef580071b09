/* SPDX-License-Identifier: Apache-2.0 */
/* What a hub's refusals mean, and names in its addresses. */
#include "hub/transfer.h"

#include <string.h>

bool whim_hub_status_may_pass(int32_t status)
{
    return status == 408 || status == 425 || status == 429 || status >= 500;
}

void whim_hub_url_encode(whim_str *out, const char *text, bool slashes)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (; *text != '\0'; text++) {
        if (strchr(plain, *text) != NULL || (slashes && *text == '/')) {
            whim_str_append_char(out, *text);
        } else {
            whim_str_printf(out, "%%%02X", (unsigned char)*text);
        }
    }
}

static whim_err not_shown(const whim_hub_cfg *cfg, const whim_hub_ref *ref, whim_diag *diag)
{
    if (cfg->token != NULL) {
        return whim_fail(
            diag, WHIM_ERR_NOT_FOUND,
            "%s has no model \"%s\" that your token may see: check the spelling, and for "
            "a private or gated model the rights of the token",
            cfg->endpoint, ref->id);
    }
    return whim_fail(diag, WHIM_ERR_NOT_FOUND,
                     "%s has no public model \"%s\": check the spelling; for a private or gated "
                     "model make a token at %s/settings/tokens and set HF_TOKEN to it",
                     cfg->endpoint, ref->id, cfg->endpoint);
}

static whim_err gated(const whim_hub_cfg *cfg, const whim_hub_ref *ref, whim_diag *diag)
{
    return whim_fail(
        diag, WHIM_ERR_NOT_FOUND,
        "%s is gated: log in at %s/%s, accept its conditions%s and pull again", ref->id,
        cfg->endpoint, ref->id,
        cfg->token != NULL
            ? " with the account that your token belongs to (a fine-grained token also "
              "needs the right to read gated models),"
            : ", make a token under settings/tokens, set HF_TOKEN to it,");
}

whim_err whim_hub_refusal(const whim_hub_cfg *cfg, const whim_hub_ref *ref, const char *what,
                          const whim_hub_reply *reply, whim_diag *diag)
{
    const char *code = reply->error_code;
    const char *slash = what[0] != '\0' ? "/" : "";
    int32_t status = reply->status;
    if (strcmp(code, "GatedRepo") == 0) {
        return gated(cfg, ref, diag);
    }
    if (strcmp(code, "RevisionNotFound") == 0) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND, "%s has no revision \"%s\" of %s", cfg->endpoint,
                         ref->rev, ref->id);
    }
    if (status == 401 && cfg->token != NULL &&
        strncmp(reply->error_text, "Invalid credentials", 19) == 0) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND,
                         "%s does not accept the token (from HF_TOKEN or the token file): make "
                         "another at %s/settings/tokens",
                         cfg->endpoint, cfg->endpoint);
    }
    if (what[0] == '\0' && (status == 401 || status == 404)) {
        return not_shown(cfg, ref, diag);
    }
    if (status == 404 || strcmp(code, "EntryNotFound") == 0) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND, "%s/%s is not there (status 404)", ref->id,
                         what);
    }
    if (status == 401 || status == 403) {
        return whim_fail(
            diag, WHIM_ERR_NOT_FOUND,
            "%s%s%s may not be read%s (status %d%s%s): see %s/%s in a browser", ref->id, slash,
            what, cfg->token != NULL ? " with this token" : " without a token", status,
            reply->error_text[0] != '\0' ? ", " : "", reply->error_text, cfg->endpoint, ref->id);
    }
    if (status == 429) {
        return whim_fail(diag, WHIM_ERR_IO,
                         "%s: too many requests (status 429)%s; wait a while, and pull again: what "
                         "was fetched is kept",
                         cfg->endpoint,
                         cfg->token == NULL ? "; with a token in HF_TOKEN more are allowed" : "");
    }
    return whim_fail(diag, WHIM_ERR_IO, "%s%s%s: the hub answers with status %d%s%s", ref->id,
                     slash, what, status, reply->error_text[0] != '\0' ? ": " : "",
                     reply->error_text);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The variables that Hugging Face's own tools read, with the same meaning. */
#include "base/alloc.h"
#include "base/file.h"
#include "hub_model.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { STALL_SECONDS = 30, CONNECTIONS = 8, TRIES = 6 };

/* The first variable that is there and not empty, or NULL. */
static const char *env_first(const char *const *names)
{
    for (; *names != NULL; names++) {
        const char *value = getenv(*names);
        if (value != NULL && value[0] != '\0') {
            return value;
        }
    }
    return NULL;
}

#define ENV(...) env_first((const char *const[]){__VA_ARGS__, NULL})

static bool is_true(const char *value)
{
    return value != NULL && (strcmp(value, "1") == 0 || strcasecmp(value, "on") == 0 ||
                             strcasecmp(value, "yes") == 0 || strcasecmp(value, "true") == 0);
}

/* A path of the environment, "~/" meaning the home folder, with something behind it; false: too
 * long. */
static bool path_take(char *buf, const char *path, const char *behind)
{
    const char *home = ENV("HOME");
    bool tilde = strncmp(path, "~/", 2) == 0 && home != NULL;
    return snprintf(buf, MODEL_PATH_MAX, "%s%s%s", tilde ? home : "", tilde ? path + 1 : path,
                    behind) < MODEL_PATH_MAX;
}

/* Where models and the token are: HF_HUB_CACHE, HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub,
 * ~/.cache/... */
static bool places_read(hub_visit *visit)
{
    const char *cache = ENV("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE");
    const char *token = ENV("HF_TOKEN_PATH");
    const char *hf_home = ENV("HF_HOME"), *xdg = ENV("XDG_CACHE_HOME"), *home = ENV("HOME");
    char base[MODEL_PATH_MAX] = "";
    bool ok = hf_home != NULL ? path_take(base, hf_home, "")
              : xdg != NULL   ? path_take(base, xdg, "/huggingface")
              : home != NULL  ? path_take(base, home, "/.cache/huggingface")
                              : false;
    if (!ok && cache == NULL) {
        complain(EXIT_FAILED, "models of a hub have no place: none of HF_HUB_CACHE, HF_HOME, "
                              "XDG_CACHE_HOME and HOME is set (or it is too long)");
        return false;
    }
    ok = cache != NULL ? path_take(visit->cache, cache, "") : path_take(visit->cache, base, "/hub");
    if (token != NULL) {
        ok &= path_take(visit->token_path, token, "");
    } else if (base[0] != '\0') {
        ok &= path_take(visit->token_path, base, "/token");
    }
    if (!ok) {
        complain(EXIT_FAILED,
                 "the path that HF_HUB_CACHE, HF_HOME or HF_TOKEN_PATH names is too long");
    }
    return ok;
}

/* The token without blanks around it, as it ends up in files and variables. */
static bool token_read(hub_visit *visit)
{
    const char *value = ENV("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN");
    char *text = NULL;
    int64_t n;
    whim_diag ignored;
    if (value == NULL && visit->token_path[0] != '\0' &&
        whim_file_read_all(visit->token_path, HUB_TEXT_MAX, &text, &n, &ignored) == WHIM_ERR_OK) {
        value = text;
    }
    bool ok = true;
    if (value != NULL) {
        while (isspace((unsigned char)*value)) {
            value++;
        }
        size_t len = strlen(value);
        while (len > 0 && isspace((unsigned char)value[len - 1])) {
            len--;
        }
        ok = len < sizeof visit->token;
        for (size_t i = 0; i < len && ok; i++) {
            ok = value[i] > 0x20 && value[i] < 0x7f;
        }
        if (!ok) {
            complain(EXIT_FAILED,
                     "the token for the hub (HF_TOKEN, or the file %s) has characters "
                     "that no token has",
                     visit->token_path);
        } else {
            snprintf(visit->token, sizeof visit->token, "%.*s", (int)len, value);
        }
    }
    whim_free(text);
    return ok;
}

bool hub_is_offline(void)
{
    return is_true(ENV("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"));
}

bool hub_settings_read(hub_visit *visit)
{
    const char *endpoint = ENV("HF_ENDPOINT"), *stall = ENV("HF_HUB_DOWNLOAD_TIMEOUT");
    if (!places_read(visit) || !token_read(visit)) {
        return false;
    }
    snprintf(visit->endpoint, sizeof visit->endpoint, "%s",
             endpoint != NULL ? endpoint : "https://huggingface.co");
    for (size_t n = strlen(visit->endpoint); n > 0 && visit->endpoint[n - 1] == '/'; n--) {
        visit->endpoint[n - 1] = '\0';
    }
    visit->cfg = (whim_hub_cfg){
        .cache = visit->cache,
        .endpoint = visit->endpoint,
        .token = visit->token[0] != '\0' ? visit->token : NULL,
        .ca_file = ENV("CURL_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"),
        .ca_dir = ENV("SSL_CERT_DIR"),
        .offline = hub_is_offline(),
        .n_connection = CONNECTIONS,
        .n_try = TRIES,
        .stall_s = stall != NULL && atof(stall) >= 1 ? atof(stall) : STALL_SECONDS,
    };
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Where the server's keys come from. */
#include "base/alloc.h"
#include "base/file.h"
#include "serve/serve.h"

#include <string.h>
#include <sys/random.h>

/* One line of a file: a key, and maybe the word that lets its requests go before others. */
static bool key_add(key_list *keys, char *line, const char *what)
{
    char *end = line + strcspn(line, " \t");
    bool priority = *end != '\0' && strcmp(end + strspn(end, " \t"), "priority") == 0;
    for (const char *c = line; c < end; c++) {
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f) {
            complain(EXIT_USAGE, "%s: a key has letters, digits and signs only", what);
            return false;
        }
    }
    if (*end != '\0' && !priority) {
        complain(EXIT_USAGE,
                 "%s: a key has no spaces; only the word \"priority\" may follow one, for a key "
                 "whose requests may go before those of others",
                 what);
        return false;
    }
    *end = '\0';
    if (keys->n == MAX_KEYS) {
        complain(EXIT_USAGE, "%s: more than %d keys", what, MAX_KEYS);
        return false;
    }
    keys->v[keys->n++] = (whim_api_key){.text = line, .priority = priority};
    return true;
}

/* Each line is a key. Blank lines and lines that begin with # are skipped. */
static bool keys_split(key_list *keys, const char *what)
{
    char *line = keys->text.text;
    for (char *next = line; line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        line += strspn(line, " \t\r");
        int64_t n = (int64_t)strlen(line);
        while (n > 0 && strchr(" \t\r", line[n - 1]) != NULL) {
            line[--n] = '\0';
        }
        if (n == 0 || line[0] == '#') {
            continue;
        }
        if (!key_add(keys, line, what)) {
            return false;
        }
    }
    if (keys->n == 0) {
        complain(EXIT_USAGE, "%s: there is no key in it", what);
    }
    return keys->n > 0;
}

bool keys_read(key_list *keys, const whim_options *options)
{
    const char *env = env_api_key();
    const char *what = "--api-key";
    char credential[MODEL_PATH_MAX];
    const char *file = options->api_key_file;
    if (file == NULL && env_credential("api-keys", credential, sizeof credential)) {
        file = credential;
    }
    if (file != NULL) {
        whim_diag diag = {""};
        char *text;
        int64_t n;
        what = file == options->api_key_file ? "--api-key-file" : "the credential api-keys";
        if (whim_file_read_all(file, MAX_KEY_BYTES, &text, &n, &diag) != WHIM_ERR_OK) {
            complain(EXIT_USAGE, "%s: %s", what, diag.text);
            return false;
        }
        whim_str_append_n(&keys->text, text, n);
        explicit_bzero(text, (size_t)n);
        whim_free(text);
    } else if (env != NULL) {
        what = "WHIMBREL_API_KEY";
        whim_str_append(&keys->text, env);
    } else if (options->api_key != NULL) {
        whim_str_append(&keys->text, options->api_key);
    } else {
        return true;
    }
    if (keys->text.failed) {
        complain(EXIT_FAILED, "out of memory");
        return false;
    }
    whim_str_append(&keys->text, ""); /* a text even when the file is empty */
    return keys->text.text != NULL ? keys_split(keys, what)
                                   : complain(EXIT_USAGE, "%s: it is empty", what) == EXIT_OK;
}

bool keys_make(key_list *keys)
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        complain(EXIT_FAILED, "the system gives no random bytes for a key");
        return false;
    }
    whim_str_append(&keys->text, "sk-");
    for (size_t i = 0; i < sizeof bytes; i++) {
        whim_str_printf(&keys->text, "%02x", bytes[i]);
    }
    explicit_bzero(bytes, sizeof bytes);
    keys->v[0] = (whim_api_key){.text = whim_str_text(&keys->text)};
    keys->n = 1;
    return !keys->text.failed;
}

void keys_free(key_list *keys)
{
    if (keys->text.text != NULL) {
        explicit_bzero(keys->text.text, (size_t)keys->text.len);
    }
    whim_str_deinit(&keys->text);
    keys->n = 0;
}

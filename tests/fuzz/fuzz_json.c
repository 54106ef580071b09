/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as JSON. What the library takes, we take, with the same values; what we write, both
 * read back the same. */
#include "base/json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

/* Member by member, objects inside as the first byte says: entered, read or passed over. Takes what
 * the reader takes. */
static bool walk(const char *text, int64_t n, const whim_json_limits *limits, char how)
{
    whim_json_members m;
    whim_diag diag = {{0}};
    bool more = true;
    whim_err err = whim_json_members_open(&m, text, n, *limits, "fuzz", &diag);
    for (int32_t depth = 1; err == WHIM_ERR_OK && depth > 0;) {
        err = whim_json_members_next(&m, &more);
        if (err != WHIM_ERR_OK || !more) {
            depth--;
            continue;
        }
        whim_json *value = NULL;
        bool enter = (how & 1) != 0 && depth < 8 && m.at < m.n && m.text[m.at] == '{';
        err = enter            ? whim_json_members_enter(&m)
              : (how & 2) != 0 ? whim_json_members_value(&m, &value)
                               : whim_json_members_value(&m, NULL);
        depth += enter;
        check(err == WHIM_ERR_OK || diag.text[0] != '\0');
        whim_json_free(value);
    }
    whim_json_members_close(&m);
    return err == WHIM_ERR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    enum { FLAGS = JSON_DECODE_ANY | JSON_ALLOW_NUL };
    const char *text = (const char *)data;
    int64_t left = WHIM_JSON_VALUES;
    const whim_json_limits limits = {
        .max_bytes = 1 << 20, .max_depth = WHIM_JSON_DEPTH, .values_left = &left};
    whim_json *json, *back;
    whim_diag diag = {{0}};
    whim_err err = whim_json_read(&json, text, (int64_t)n, limits, &diag);
    json_t *theirs = json_loadb(text, n, FLAGS, NULL);
    for (char how = 0; how < 4 && n <= 1 << 20; how++) {
        bool walked = walk(text, (int64_t)n, &limits, how);
        bool object = err == WHIM_ERR_OK && whim_json_is_object(json);
        bool limited = left < 0 || strstr(diag.text, "deeper") != NULL; /* only the reader is */
        check(!walked || object || limited);
        check(walked || !object || (how & 2) != 0); /* a value that is read has a limit */
    }
    if (err != WHIM_ERR_OK) {
        /* A NUL behind a value is its end to the library. */
        bool limit = left < 0 || strstr(diag.text, "deeper") != NULL || n > 1 << 20 ||
                     memchr(data, '\0', n) != NULL;
        check(err == WHIM_ERR_CORRUPT && diag.text[0] != '\0' && (theirs == NULL || limit));
        json_decref(theirs);
        return 0;
    }
    check(theirs == NULL || json_equal(json, theirs));
    json_decref(theirs);
    whim_str out = {0};
    whim_json_write(&out, json);
    left = WHIM_JSON_VALUES;
    check(whim_json_read(&back, whim_str_text(&out), out.len, limits, &diag) == WHIM_ERR_OK);
    theirs = json_loadb(whim_str_text(&out), (size_t)out.len, FLAGS, NULL);
    check(json_equal(json, back) && json_equal(json, theirs));
    whim_str_deinit(&out);
    json_decref(theirs);
    whim_json_free(back);
    whim_json_free(json);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Files with a schema and with tools. */
#include "form.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "texts.h"

#include <string.h>

enum { MAX_FILE_BYTES = 1 << 20 };

typedef whim_err check_fn(const json_t *json, whim_diag *diag);

static bool file_read(const char *option, const char *path, check_fn *check, char **out)
{
    static const whim_json_limits limits = {.max_bytes = MAX_FILE_BYTES,
                                            .max_depth = WHIM_JSON_DEPTH};
    whim_diag why = {""};
    json_t *json = NULL;
    int64_t n = 0;
    if (path == NULL) {
        return true;
    }
    if (whim_file_read_all(path, MAX_FILE_BYTES, out, &n, &why) != WHIM_ERR_OK) {
        complain(EXIT_USAGE, "%s: %s", option, why.text);
        return false;
    }
    whim_err err = whim_json_read(&json, *out, n, limits, &why);
    err = err == WHIM_ERR_OK ? check(json, &why) : err;
    json_decref(json);
    if (err != WHIM_ERR_OK) {
        complain(EXIT_USAGE, "%s: %s: %s", option, path, why.text);
    }
    return err == WHIM_ERR_OK;
}

bool form_read(form *f, const whim_options *o)
{
    f->regex = o->grammar_regex;
    if (o->json_schema != NULL && o->grammar_regex != NULL) {
        complain(EXIT_USAGE, "--json-schema and --grammar-regex: an answer is held to one of them");
        return false;
    }
    if ((f->regex != NULL && !check_utf8(f->regex, "--grammar-regex")) ||
        !file_read("--json-schema", o->json_schema, whim_library_check_schema, &f->schema) ||
        !file_read("--tools", o->tools, whim_library_check_tools, &f->tools)) {
        return false;
    }
    f->must_call = o->tool_choice != NULL && strcmp(o->tool_choice, "required") == 0;
    if (f->must_call && f->tools == NULL) {
        complain(EXIT_USAGE, "--tool-choice required asks for a call, but there are no --tools");
        return false;
    }
    return true;
}

void form_free(form *f)
{
    whim_free(f->schema);
    whim_free(f->tools);
    *f = (form){0};
}

bool form_is_given(const form *f)
{
    return f->schema != NULL || f->regex != NULL || f->tools != NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file of prompts for `whimbrel warm`: lines where the first byte is an L. What is
 * taken is bodies that can be read again, each with one token to answer; what is refused is refused
 * with a message that names the file. */
#include "../../apps/warm/requests.c"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "prompts: %s\n", what);
        abort();
    }
}

static void check_request(const warm_request *r)
{
    json_t *body;
    const whim_json_limits limits = {.max_bytes = MAX_FILE, .max_depth = MAX_DEPTH + 1};
    check(whim_json_read(&body, r->body, r->n_body, limits, NULL) == WHIM_ERR_OK, "no JSON");
    check(r->is_chat == (json_object_get(body, "messages") != NULL), "the wrong route");
    check(r->is_chat || json_object_get(body, "prompt") != NULL, "no prompt");
    check(json_integer_value(json_object_get(body, "max_tokens")) == 1, "more than a token");
    check(json_object_get(body, "n") == NULL, "more than an answer");
    whim_json_free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    warm_list list = {0};
    whim_diag diag = {""};
    bool is_lines = n > 0 && data[0] == 'L';
    char *text = whim_alloc((int64_t)n + 1);
    check(text != NULL, "no memory");
    memcpy(text, data + is_lines, n - is_lines);
    whim_err err =
        warm_list_parse(&list, text, (int64_t)n - is_lines, is_lines, "some file", &diag);
    check((err == WHIM_ERR_OK) == (diag.text[0] == '\0'), "an error without a message");
    check(err == WHIM_ERR_OK || strstr(diag.text, "some file") != NULL, "of which file?");
    for (int64_t i = 0; i < list.n; i++) {
        check_request(&list.v[i]);
    }
    warm_list_deinit(&list);
    whim_free(text);
    return 0;
}

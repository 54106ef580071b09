/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as HTTP requests. The first two bytes choose limits and how the rest is cut into
 * pieces; the result must not depend on the cut. */
#include "support/http_summary.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2) {
        return 0;
    }
    bool is_small = (data[0] & 1) != 0;
    whim_http_parse_limits limits = {.max_body = is_small ? 64 : 1 << 20,
                                     .max_headers = is_small ? 256 : 32768,
                                     .max_line = is_small ? 48 : 8192};
    const char *bytes = (const char *)data + 2;
    int64_t len = (int64_t)n - 2;
    whim_str whole = {0}, cut = {0};
    http_summary(bytes, len, 0, len + 1, &limits, &whole);
    http_summary(bytes, len, data[1], 1 + data[0] / 2, &limits, &cut);
    if (whole.len != cut.len || memcmp(whole.text, cut.text, (size_t)whole.len) != 0) {
        abort();
    }
    whim_str_deinit(&whole);
    whim_str_deinit(&cut);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a server's reply to `bench --serve`: whole, in single bytes, and in pieces as the
 * first byte says; all three give the same reply. */
#include "../../apps/client/server_reply.c"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "the reply depends on its pieces: %s\n", what);
        abort();
    }
}

static void feed(server_reply *a, const char *bytes, int64_t n, int64_t step, bool wants_stream)
{
    server_reply_reset(a);
    for (int64_t at = 0; at < n; at += step) {
        server_reply_feed(a, bytes + at, step < n - at ? step : n - at, at);
    }
    server_reply_end(a, wants_stream);
    check(a->stage == SERVER_STAGE_COMPLETE, "it has no end");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 1) {
        return 0;
    }
    const char *bytes = (const char *)data + 1;
    int64_t len = (int64_t)n - 1;
    bool wants_stream = (data[0] & 128) == 0;
    server_reply whole = {0}, other = {0};
    feed(&whole, bytes, len, len + 1, wants_stream);
    for (int i = 0; i < 2; i++) {
        feed(&other, bytes, len, i == 0 ? 1 : 2 + data[0] % 61, wants_stream);
        check(whole.fault == other.fault, "fault");
        check(whole.status == other.status && whole.is_events == other.is_events, "head");
        check(whole.n_time == other.n_time && whole.done == other.done &&
                  whole.finished == other.finished,
              "chunks");
        check(whole.has_usage == other.has_usage && whole.gen_tokens == other.gen_tokens &&
                  whole.prompt_tokens == other.prompt_tokens &&
                  whole.cached_tokens == other.cached_tokens,
              "usage");
        check(strcmp(whole.message, other.message) == 0, "message");
        check(strcmp(whim_str_text(&whole.data), whim_str_text(&other.data)) == 0, "body");
    }
    server_reply_deinit(&whole);
    server_reply_deinit(&other);
    return 0;
}

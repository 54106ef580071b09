/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a GGUF header as far as it is needed. A length from the file is compared with what is
 * left of the file before anything is allocated or moved for it. */
#include "base/alloc.h"
#include "base/file.h"
#include "weights/gguf/read.h"

#include <string.h>

enum { FIRST_READ = 1 << 20 };

/* Have the first `need` bytes of the file in memory; need <= file size. */
static whim_err header_extend(whim_gguf_cursor *c, int64_t need)
{
    whim_gguf *gguf = c->gguf;
    if (need > WHIM_GGUF_HEADER_MAX) {
        return whim_fail(c->diag, WHIM_ERR_CORRUPT,
                         "%s: the header goes beyond %lld bytes, expected at most %d", gguf->path,
                         (long long)need, WHIM_GGUF_HEADER_MAX);
    }
    int64_t want = 2 * gguf->header_bytes > FIRST_READ ? 2 * gguf->header_bytes : FIRST_READ;
    want = want < need ? need : want;
    want = want > c->file->bytes ? c->file->bytes : want;
    uint8_t *header = whim_realloc(gguf->header, gguf->header_bytes, want);
    WHIM_TRY(whim_got(header != NULL, c->diag, "%s: no memory for a header of %lld bytes",
                      gguf->path, (long long)want));
    gguf->header = header;
    WHIM_TRY(whim_file_read_at(c->file->fd, gguf->header_bytes, want - gguf->header_bytes,
                               header + gguf->header_bytes, gguf->path, c->diag));
    gguf->header_bytes = want;
    return WHIM_ERR_OK;
}

whim_err whim_gguf_take(whim_gguf_cursor *c, int64_t n, const char *what, const uint8_t **out)
{
    if (n < 0 || n > c->file->bytes - c->at) {
        return whim_fail(c->diag, WHIM_ERR_CORRUPT,
                         "%s: %s at byte %lld needs %lld bytes, but the file ends after %lld; is "
                         "it complete?",
                         c->gguf->path, what, (long long)c->at, (long long)n,
                         (long long)(c->file->bytes - c->at));
    }
    if (c->at + n > c->gguf->header_bytes) {
        WHIM_TRY(header_extend(c, c->at + n));
    }
    *out = c->gguf->header + c->at;
    c->at += n;
    return WHIM_ERR_OK;
}

whim_err whim_gguf_take_u32(whim_gguf_cursor *cursor, const char *what, uint32_t *out)
{
    const uint8_t *p;
    WHIM_TRY(whim_gguf_take(cursor, 4, what, &p));
    *out = whim_gguf_u32(p);
    return WHIM_ERR_OK;
}

whim_err whim_gguf_take_u64(whim_gguf_cursor *cursor, const char *what, uint64_t *out)
{
    const uint8_t *p;
    WHIM_TRY(whim_gguf_take(cursor, 8, what, &p));
    *out = whim_gguf_u64(p);
    return WHIM_ERR_OK;
}

whim_err whim_gguf_take_string(whim_gguf_cursor *cursor, const char *what, const char **text,
                               int64_t *n)
{
    uint64_t length;
    const uint8_t *p;
    WHIM_TRY(whim_gguf_take_u64(cursor, what, &length));
    /* A length beyond int64_t is beyond any file, too. */
    *n = length > INT64_MAX ? INT64_MAX : (int64_t)length;
    WHIM_TRY(whim_gguf_take(cursor, *n, what, &p));
    *text = (const char *)p;
    return WHIM_ERR_OK;
}

whim_err whim_gguf_take_name(whim_gguf_cursor *cursor, whim_arena *arena, const char *what,
                             int64_t max, const char **out)
{
    const char *text;
    int64_t n;
    WHIM_TRY(whim_gguf_take_string(cursor, what, &text, &n));
    if (n == 0 || n > max) {
        return whim_fail(cursor->diag, WHIM_ERR_CORRUPT,
                         "%s: %s before byte %lld has %lld bytes, expected 1 to %lld",
                         cursor->gguf->path, what, (long long)cursor->at, (long long)n,
                         (long long)max);
    }
    for (int64_t i = 0; i < n; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) {
            return whim_fail(cursor->diag, WHIM_ERR_CORRUPT,
                             "%s: %s before byte %lld holds a control character",
                             cursor->gguf->path, what, (long long)cursor->at);
        }
    }
    *out = whim_arena_strndup(arena, text, n);
    WHIM_TRY(
        whim_got(*out != NULL, cursor->diag, "%s: no memory for %s", cursor->gguf->path, what));
    return WHIM_ERR_OK;
}

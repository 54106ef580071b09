/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/archive.h"

#include "base/alloc.h"
#include "base/file.h"
#include "ops/args/attn_args.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x3158564b4d494857) /* "WHIMKVX1" */
#define MAX_COUNT (INT64_C(1) << 31)

enum { VERSION = 1 };

typedef struct file_front {
    uint64_t magic;
    uint32_t version, n_part;
    int64_t bytes;
} file_front;
static_assert(sizeof(file_front) == 24, "the front of a file");

typedef struct part_head {
    int32_t page_len, reserved;
    int64_t item_bytes[WHIM_DISK_KINDS], n[WHIM_DISK_KINDS];
    char space[WHIM_ARCHIVE_SPACE];
} part_head;
static_assert(sizeof(part_head) == 40 + WHIM_ARCHIVE_SPACE, "the head of a part");

static int64_t records_at(int32_t n_part)
{
    return (int64_t)sizeof(file_front) + n_part * (int64_t)sizeof(part_head) + WHIM_SHA256_BYTES;
}

static int64_t tokens_bytes(const whim_archive_part *part)
{
    return part->page_len * (int64_t)sizeof(int32_t);
}

static int64_t record_bytes(const whim_archive_part *part, whim_disk_kind kind)
{
    return (int64_t)sizeof(whim_prefix_key) + tokens_bytes(part) + part->item_bytes[kind] +
           WHIM_SHA256_BYTES;
}

int64_t whim_archive_part_bytes(const whim_archive_part *part)
{
    int64_t bytes = 0;
    for (int k = 0; k < WHIM_DISK_KINDS; k++) {
        bytes += part->n[k] * record_bytes(part, (whim_disk_kind)k);
    }
    return bytes;
}

static void head_sum(const file_front *front, const part_head *heads,
                     uint8_t out[WHIM_SHA256_BYTES])
{
    whim_sha256 sum;
    whim_sha256_init(&sum);
    whim_sha256_add(&sum, front, (int64_t)sizeof *front);
    whim_sha256_add(&sum, heads, front->n_part * (int64_t)sizeof *heads);
    whim_sha256_end(&sum, out);
}

/* Of the bytes of a record, but for the sum at its end. */
static void record_sum(const void *record, int64_t bytes, int64_t number,
                       uint8_t out[WHIM_SHA256_BYTES])
{
    whim_sha256 sum;
    whim_sha256_init(&sum);
    whim_sha256_add(&sum, &number, (int64_t)sizeof number);
    whim_sha256_add(&sum, record, bytes - WHIM_SHA256_BYTES);
    whim_sha256_end(&sum, out);
}

static whim_err room_make(whim_archive *a, whim_diag *diag)
{
    int64_t most = 0;
    for (int32_t i = 0; i < a->n_part; i++) {
        for (int k = 0; k < WHIM_DISK_KINDS; k++) {
            bool is_used = a->writes || a->parts[i].n[k] > 0;
            int64_t bytes = record_bytes(&a->parts[i], (whim_disk_kind)k);
            most = is_used && bytes > most ? bytes : most;
        }
    }
    a->record = whim_alloc(most > 0 ? most : 1);
    return whim_got(a->record != NULL, diag, "no memory for a page");
}

/* --- reading ---------------------------------------------------------------------------------- */

static bool part_take(whim_archive_part *part, const part_head *head)
{
    *part = (whim_archive_part){.page_len = head->page_len};
    memcpy(part->item_bytes, head->item_bytes, sizeof part->item_bytes);
    memcpy(part->n, head->n, sizeof part->n);
    memcpy(part->space, head->space, sizeof part->space);
    bool good = memchr(head->space, '\0', sizeof head->space) != NULL && head->page_len > 0 &&
                head->page_len <= WHIM_PAGE_LEN_MAX && head->item_bytes[WHIM_DISK_PAGE] > 0;
    for (int k = 0; k < WHIM_DISK_KINDS; k++) {
        good = good && head->item_bytes[k] >= 0 && head->item_bytes[k] <= WHIM_DISK_ITEM_MAX &&
               head->n[k] >= 0 && head->n[k] <= MAX_COUNT &&
               (head->item_bytes[k] > 0 || head->n[k] == 0);
    }
    return good;
}

/* Sizes in which no sum can be too large for its type. */
static bool parts_add_up(const whim_archive *a)
{
    int64_t left = a->bytes - records_at(a->n_part);
    for (int32_t i = 0; i < a->n_part; i++) {
        for (int k = 0; k < WHIM_DISK_KINDS; k++) {
            int64_t each = record_bytes(&a->parts[i], (whim_disk_kind)k);
            if (a->parts[i].n[k] > left / each) {
                return false;
            }
            left -= a->parts[i].n[k] * each;
        }
    }
    return left == 0;
}

static whim_err heads_read(whim_archive *a, const file_front *front, part_head *heads,
                           whim_diag *diag)
{
    uint8_t sum[WHIM_SHA256_BYTES], right[WHIM_SHA256_BYTES];
    int64_t at = (int64_t)sizeof *front, bytes = a->n_part * (int64_t)sizeof *heads;
    WHIM_TRY(whim_file_read_at(a->fd, at, bytes, heads, a->path, diag));
    WHIM_TRY(whim_file_read_at(a->fd, at + bytes, sizeof sum, sum, a->path, diag));
    head_sum(front, heads, right);
    if (!whim_sha256_equal(sum, right)) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: its head is damaged (SHA-256 differs); copy or export it again",
                         a->path);
    }
    for (int32_t i = 0; i < a->n_part; i++) {
        if (!part_take(&a->parts[i], &heads[i])) {
            return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: part %d has sizes that no pages have",
                             a->path, (int)i);
        }
    }
    if (!parts_add_up(a)) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: its sizes do not add up to its %lld bytes; export it again", a->path,
                         (long long)a->bytes);
    }
    return WHIM_ERR_OK;
}

static whim_err front_read(whim_archive *a, file_front *front, whim_diag *diag)
{
    if (a->bytes < (int64_t)sizeof *front) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s is not a file that \"whimbrel kv export\" wrote", a->path);
    }
    WHIM_TRY(whim_file_read_at(a->fd, 0, sizeof *front, front, a->path, diag));
    if (front->magic != MAGIC) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s is not a file that \"whimbrel kv export\" wrote", a->path);
    }
    if (front->version != VERSION) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s is of version %u, and this whimbrel reads version %d: export and "
                         "import with the same version of whimbrel",
                         a->path, front->version, VERSION);
    }
    if (front->bytes != a->bytes) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s has %lld bytes and should have %lld: it was not copied whole", a->path,
                         (long long)a->bytes, (long long)front->bytes);
    }
    if (front->n_part < 1 || front->n_part > WHIM_ARCHIVE_PARTS ||
        records_at((int32_t)front->n_part) > a->bytes) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "%s has %u parts; it may have 1 to %d", a->path,
                         front->n_part, WHIM_ARCHIVE_PARTS);
    }
    return WHIM_ERR_OK;
}

static whim_err head_read(whim_archive *a, whim_diag *diag)
{
    file_front front;
    WHIM_TRY(front_read(a, &front, diag));
    a->n_part = (int32_t)front.n_part;
    a->at = records_at(a->n_part);
    a->parts = whim_alloc_array(a->n_part, (int64_t)sizeof *a->parts);
    part_head *heads = whim_alloc_array(a->n_part, (int64_t)sizeof *heads);
    whim_err err = whim_got(a->parts != NULL && heads != NULL, diag, "no memory for a head");
    err = err == WHIM_ERR_OK ? heads_read(a, &front, heads, diag) : err;
    whim_free(heads);
    return err;
}

whim_err whim_archive_open(whim_archive *a, const char *path, whim_diag *diag)
{
    *a = (whim_archive){.path = path, .fd = -1};
    whim_err err = whim_file_open(path, &a->fd, &a->bytes, diag);
    err = err == WHIM_ERR_OK ? head_read(a, diag) : err;
    err = err == WHIM_ERR_OK ? room_make(a, diag) : err;
    if (err != WHIM_ERR_OK) {
        whim_archive_close(a);
    }
    return err;
}

whim_err whim_archive_next(whim_archive *a, whim_archive_item *out, bool *more, whim_diag *diag)
{
    while (a->part < a->n_part && a->in_kind == a->parts[a->part].n[a->kind]) {
        a->in_kind = 0;
        a->kind = a->kind == WHIM_DISK_PAGE ? WHIM_DISK_STATE : WHIM_DISK_PAGE;
        a->part += a->kind == WHIM_DISK_PAGE;
    }
    *more = a->part < a->n_part;
    if (!*more) {
        return WHIM_ERR_OK;
    }
    const whim_archive_part *part = &a->parts[a->part];
    uint8_t right[WHIM_SHA256_BYTES];
    int64_t bytes = record_bytes(part, a->kind);
    const char *record = a->record;
    WHIM_TRY(whim_file_read_at(a->fd, a->at, bytes, a->record, a->path, diag));
    record_sum(record, bytes, a->number, right);
    if (!whim_sha256_equal((const uint8_t *)record + bytes - sizeof right, right)) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: record %lld, at byte %lld, is damaged (SHA-256 differs); copy or "
                         "export it again",
                         a->path, (long long)a->number, (long long)a->at);
    }
    *out = (whim_archive_item){.part = a->part, .kind = a->kind};
    memcpy(&out->key, record, sizeof out->key);
    out->tokens = (const int32_t *)(const void *)(record + sizeof out->key);
    out->item = record + sizeof out->key + tokens_bytes(part);
    a->at += bytes;
    a->in_kind++;
    a->number++;
    return WHIM_ERR_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

static whim_err partial_make(whim_archive *a, whim_diag *diag)
{
    struct stat st;
    size_t n = strlen(a->path) + sizeof ".part";
    if (lstat(a->path, &st) == 0) {
        return whim_file_write_failed(a->path, EEXIST, diag);
    }
    char *partial = whim_alloc((int64_t)n);
    WHIM_TRY(whim_got(partial != NULL, diag, "no memory for a path"));
    snprintf(partial, n, "%s.part", a->path);
    if (lstat(partial, &st) == 0) {
        whim_free(partial);
        return whim_fail(diag, WHIM_ERR_BUSY,
                         "%s.part exists already: another export is writing it, or one was "
                         "broken off; if none is running, remove that file",
                         a->path);
    }
    whim_err err = whim_file_create(partial, &a->fd, diag);
    if (err != WHIM_ERR_OK) {
        whim_free(partial);
        return err;
    }
    a->partial = partial; /* ours to remove from here on */
    return fchmod(a->fd, 0600) == 0 ? WHIM_ERR_OK : whim_file_write_failed(partial, errno, diag);
}

whim_err whim_archive_create(whim_archive *a, const char *path, whim_archive_part *parts,
                             int32_t n_part, whim_diag *diag)
{
    *a = (whim_archive){.path = path, .fd = -1, .writes = true, .n_part = n_part, .parts = parts};
    a->at = a->bytes = records_at(n_part);
    for (int32_t i = 0; i < n_part; i++) {
        memset(parts[i].n, 0, sizeof parts[i].n);
    }
    whim_err err = room_make(a, diag);
    err = err == WHIM_ERR_OK ? partial_make(a, diag) : err;
    if (err != WHIM_ERR_OK) {
        whim_archive_close(a);
    }
    return err;
}

whim_err whim_archive_add(whim_archive *a, const whim_archive_item *item, whim_diag *diag)
{
    whim_archive_part *part = &a->parts[item->part];
    int64_t bytes = record_bytes(part, item->kind), tokens = tokens_bytes(part);
    char *record = a->record;
    memcpy(record, &item->key, sizeof item->key);
    memcpy(record + sizeof item->key, item->tokens, (size_t)tokens);
    memcpy(record + sizeof item->key + tokens, item->item, (size_t)part->item_bytes[item->kind]);
    record_sum(record, bytes, a->number, (uint8_t *)record + bytes - WHIM_SHA256_BYTES);
    WHIM_TRY(whim_file_write_at(a->fd, a->at, record, bytes, a->path, diag));
    a->at += bytes;
    a->bytes += bytes;
    a->number++;
    part->n[item->kind]++;
    return WHIM_ERR_OK;
}

static whim_err head_write(const whim_archive *a, part_head *heads, whim_diag *diag)
{
    uint8_t sum[WHIM_SHA256_BYTES];
    const file_front front = {
        .magic = MAGIC, .version = VERSION, .n_part = (uint32_t)a->n_part, .bytes = a->bytes};
    int64_t at = (int64_t)sizeof front, bytes = a->n_part * (int64_t)sizeof *heads;
    for (int32_t i = 0; i < a->n_part; i++) {
        const whim_archive_part *part = &a->parts[i];
        heads[i].page_len = part->page_len;
        memcpy(heads[i].item_bytes, part->item_bytes, sizeof part->item_bytes);
        memcpy(heads[i].n, part->n, sizeof part->n);
        memcpy(heads[i].space, part->space, sizeof part->space);
    }
    head_sum(&front, heads, sum);
    WHIM_TRY(whim_file_write_at(a->fd, at, heads, bytes, a->path, diag));
    WHIM_TRY(whim_file_write_at(a->fd, at + bytes, sum, sizeof sum, a->path, diag));
    return whim_file_write_at(a->fd, 0, &front, sizeof front, a->path, diag);
}

/* Nobody's file is replaced: a second name does not come about where there is one. Where a disk
 * knows no second names, a look has to do. */
static whim_err partial_rename(whim_archive *a, whim_diag *diag)
{
    struct stat st;
    if (link(a->partial, a->path) == 0) {
        return WHIM_ERR_OK; /* the first one goes when the archive is closed */
    }
    if (errno != EEXIST && lstat(a->path, &st) != 0 && rename(a->partial, a->path) == 0) {
        return WHIM_ERR_OK;
    }
    return whim_file_write_failed(a->path, errno, diag);
}

whim_err whim_archive_finish(whim_archive *a, whim_diag *diag)
{
    part_head *heads = whim_alloc_array(a->n_part, (int64_t)sizeof *heads);
    whim_err err = whim_got(heads != NULL, diag, "no memory for a head");
    err = err == WHIM_ERR_OK ? head_write(a, heads, diag) : err;
    err = err == WHIM_ERR_OK ? whim_file_finish(&a->fd, a->path, diag) : err;
    err = err == WHIM_ERR_OK ? partial_rename(a, diag) : err;
    whim_free(heads);
    whim_archive_close(a);
    return err;
}

void whim_archive_close(whim_archive *a)
{
    whim_file_close(a->fd);
    if (!a->writes) {
        whim_free(a->parts);
    }
    if (a->partial != NULL) {
        unlink(a->partial);
        whim_free(a->partial);
    }
    whim_free(a->record);
    *a = (whim_archive){.fd = -1};
}

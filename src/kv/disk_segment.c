/* SPDX-License-Identifier: Apache-2.0 */
/* The format of a file of records. */
#include "kv/disk_segment.h"

#include "base/file.h"
#include "base/math/lane_sum.h"
#include "base/math/rng.h"
#include "ops/args/attn_args.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILE_MAGIC UINT64_C(0x32564b4d4948570a) /* "\nWHIMKV2" */
#define RECORD_MAGIC UINT64_C(0x3243455256484b0a)

typedef struct file_head {
    uint64_t magic;
    uint8_t space[WHIM_SHA256_BYTES];
    int64_t item_bytes;
    int32_t page_len, kind;
    uint64_t sum;
} file_head;
static_assert(sizeof(file_head) == 64, "the head of a file");

/* The head of a record: front, the page's tokens, back. */
typedef struct record_front {
    uint64_t magic;
    whim_prefix_key key;
} record_front;

typedef struct record_back {
    uint64_t item_sum, head_sum;
} record_back;

enum {
    TOKENS_AT = sizeof(record_front),
    FRAME = sizeof(record_front) + sizeof(record_back),
    MAX_HEAD = FRAME + 4 * WHIM_PAGE_LEN_MAX,
};
static_assert(FRAME == 56, "the head of a record has no holes");

uint64_t whim_disk_sum(uint64_t seed, const void *bytes, int64_t n)
{
    whim_lane_sum lanes = whim_lane_sum_begin(seed);
    whim_lane_sum_add(&lanes, bytes, n);
    uint64_t sum = whim_rng_mix((uint64_t)n);
    for (int i = 0; i < 4; i++) {
        sum = whim_rng_mix(sum ^ lanes.lane[i]);
    }
    return sum;
}

static uint64_t file_sum(const file_head *head)
{
    return whim_disk_sum(1, head, (int64_t)offsetof(file_head, sum));
}

static file_head file_head_of(const whim_disk_form *form)
{
    file_head head = {.magic = FILE_MAGIC,
                      .item_bytes = form->item_bytes,
                      .page_len = form->page_len,
                      .kind = (int32_t)form->kind};
    memcpy(head.space, form->space, sizeof head.space);
    head.sum = file_sum(&head);
    return head;
}

static int64_t head_bytes(int32_t page_len)
{
    return FRAME + 4 * (int64_t)page_len;
}

/* Of a whole head, but for this sum at its end. */
static uint64_t record_sum(const whim_disk_segment *s, const char *head)
{
    return whim_disk_sum(2, head, head_bytes(s->form.page_len) - (int64_t)sizeof(uint64_t));
}

int64_t whim_disk_record_bytes(int64_t item_bytes, int32_t page_len)
{
    return head_bytes(page_len) + item_bytes;
}

static int64_t record_at(const whim_disk_segment *s, int32_t record)
{
    return (int64_t)sizeof(file_head) +
           record * whim_disk_record_bytes(s->form.item_bytes, s->form.page_len);
}

int64_t whim_disk_segment_bytes(const whim_disk_segment *s)
{
    return record_at(s, s->n_record);
}

static const char *const stems[WHIM_DISK_KINDS] = {"pages", "states"};

void whim_disk_segment_name(whim_disk_kind kind, int32_t number, char *buf, int64_t n)
{
    snprintf(buf, (size_t)n, "%s-%08d.kv", stems[kind], number);
}

int32_t whim_disk_segment_number(const char *name, whim_disk_kind *kind)
{
    char again[32];
    for (int k = 0; k < WHIM_DISK_KINDS; k++) {
        size_t stem = strlen(stems[k]);
        if (strncmp(name, stems[k], stem) != 0 || strlen(name) != stem + 12) {
            continue;
        }
        int32_t number = (int32_t)strtol(name + stem + 1, NULL, 10);
        whim_disk_segment_name((whim_disk_kind)k, number, again, sizeof again);
        *kind = (whim_disk_kind)k;
        return number >= 0 && strcmp(name, again) == 0 ? number : -1;
    }
    return -1;
}

/* All n bytes, or false. */
static bool read_all(int fd, void *dst, int64_t n, int64_t offset)
{
    return whim_file_read_at(fd, offset, n, dst, "", NULL) == WHIM_ERR_OK;
}

static whim_err write_all(int fd, const void *src, int64_t n, int64_t offset)
{
    return whim_file_write_at(fd, offset, src, n, "", NULL);
}

whim_err whim_disk_segment_create(whim_disk_segment *s, int dir_fd, int32_t number,
                                  const whim_disk_form *form, whim_diag *diag)
{
    char name[32];
    file_head head = file_head_of(form);
    whim_disk_segment_name(form->kind, number, name, sizeof name);
    *s = (whim_disk_segment){.number = number, .form = *form};
    s->fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->fd < 0) {
        return whim_file_write_failed(name, errno, diag);
    }
    whim_err err = whim_file_write_at(s->fd, 0, &head, (int64_t)sizeof head, name, diag);
    if (err != WHIM_ERR_OK) {
        unlinkat(dir_fd, name, 0);
        whim_disk_segment_close(s);
    }
    return err;
}

static bool head_read(const whim_disk_segment *s, int32_t record, char head[MAX_HEAD],
                      record_front *front, record_back *back)
{
    int64_t n_head = head_bytes(s->form.page_len);
    if (record < 0 || record >= s->n_record ||
        !read_all(s->fd, head, n_head, record_at(s, record))) {
        return false;
    }
    memcpy(front, head, sizeof *front);
    memcpy(back, head + n_head - sizeof *back, sizeof *back);
    return front->magic == RECORD_MAGIC && back->head_sum == record_sum(s, head);
}

bool whim_disk_segment_key(const whim_disk_segment *s, int32_t record, whim_prefix_key *key)
{
    char head[MAX_HEAD];
    record_front front;
    record_back back;
    if (!head_read(s, record, head, &front, &back)) {
        return false;
    }
    *key = front.key;
    return true;
}

whim_err whim_disk_segment_open(whim_disk_segment *s, int dir_fd, int32_t number,
                                const whim_disk_form *form, bool read_only, bool *torn,
                                whim_diag *diag)
{
    char name[32];
    struct stat st;
    file_head head, right = file_head_of(form);
    whim_prefix_key key;
    whim_disk_segment_name(form->kind, number, name, sizeof name);
    *s = (whim_disk_segment){.number = number, .form = *form};
    s->fd =
        openat(dir_fd, name, (read_only ? O_RDONLY : O_RDWR) | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (s->fd < 0 || fstat(s->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        whim_err err = whim_fail(diag, WHIM_ERR_IO, "%s: %s", name,
                                 s->fd < 0 ? strerror(errno) : "not a file");
        whim_disk_segment_close(s);
        return err;
    }
    int64_t n_head = st.st_size < (int64_t)sizeof head ? st.st_size : (int64_t)sizeof head;
    if (!read_all(s->fd, &head, n_head, 0) || memcmp(&head, &right, (size_t)n_head) != 0) {
        whim_disk_segment_close(s);
        return whim_fail(diag, WHIM_ERR_CORRUPT, "%s is not a file of pages of this model", name);
    }
    if (n_head < (int64_t)sizeof head) { /* a kill came before it was whole */
        *torn = true;
        return WHIM_ERR_OK;
    }
    int64_t body = st.st_size - n_head;
    int64_t each = whim_disk_record_bytes(form->item_bytes, form->page_len);
    s->n_record = (int32_t)(body / each < INT32_MAX ? body / each : INT32_MAX);
    *torn = body % each != 0;
    /* The head of the last one was not written before a crash: it is torn, too. */
    if (s->n_record > 0 && !whim_disk_segment_key(s, s->n_record - 1, &key)) {
        s->n_record--;
        *torn = true;
    }
    s->n_old = s->n_record;
    return WHIM_ERR_OK;
}

void whim_disk_segment_close(whim_disk_segment *s)
{
    whim_file_close(s->fd);
    s->fd = -1;
}

whim_err whim_disk_segment_add(whim_disk_segment *s, const whim_prefix_key *key,
                               const int32_t *tokens, const void *item)
{
    char head[MAX_HEAD];
    record_front front = {.magic = RECORD_MAGIC, .key = *key};
    record_back back = {.item_sum = whim_disk_sum(3, item, s->form.item_bytes)};
    int64_t at = record_at(s, s->n_record), n_head = head_bytes(s->form.page_len);
    char *end = head + n_head - sizeof back;
    memcpy(head, &front, sizeof front);
    memcpy(head + TOKENS_AT, tokens, (size_t)s->form.page_len * sizeof *tokens);
    memcpy(end, &back, sizeof back);
    back.head_sum = record_sum(s, head);
    memcpy(end, &back, sizeof back);
    /* The head goes last: a torn record has none. */
    whim_err err = write_all(s->fd, item, s->form.item_bytes, at + n_head);
    err = err == WHIM_ERR_OK ? write_all(s->fd, head, n_head, at) : err;
    if (err != WHIM_ERR_OK) {
        /* if that fails too, the next record goes over the torn end, or it is left out later */
        (void)!ftruncate(s->fd, at);
        return err;
    }
    s->n_record++;
    return WHIM_ERR_OK;
}

static bool item_read(const whim_disk_segment *s, int32_t record, const record_back *back,
                      void *item)
{
    return read_all(s->fd, item, s->form.item_bytes,
                    record_at(s, record) + head_bytes(s->form.page_len)) &&
           whim_disk_sum(3, item, s->form.item_bytes) == back->item_sum;
}

bool whim_disk_segment_get(const whim_disk_segment *s, int32_t record, whim_prefix_key *key,
                           int32_t *tokens, void *item)
{
    char head[MAX_HEAD];
    record_front front;
    record_back back;
    if (!head_read(s, record, head, &front, &back)) {
        return false;
    }
    *key = front.key;
    memcpy(tokens, head + TOKENS_AT, (size_t)s->form.page_len * sizeof *tokens);
    return item_read(s, record, &back, item);
}

bool whim_disk_segment_read(const whim_disk_segment *s, int32_t record, const whim_prefix_key *key,
                            const int32_t *tokens, void *item)
{
    char head[MAX_HEAD];
    record_front front;
    record_back back;
    if (!head_read(s, record, head, &front, &back) || memcmp(&front.key, key, sizeof *key) != 0 ||
        memcmp(head + TOKENS_AT, tokens, (size_t)s->form.page_len * sizeof *tokens) != 0) {
        return false;
    }
    return item_read(s, record, &back, item);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the readers share: byte buffers, a directory of their own, expectations on a
 * failing open. */
#ifndef WHIM_TESTS_WEIGHTS_FIXTURE_H
#define WHIM_TESTS_WEIGHTS_FIXTURE_H

#include <stdint.h>

#include "base/alloc.h"
#include "models/model.h"
#include "support/cmocka.h"
#include "weights/ckpt.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct bytes {
    uint8_t *p;
    size_t n;
    size_t cap;
} bytes;

static inline void put(bytes *b, const void *src, size_t n)
{
    if (b->n + n > b->cap) {
        b->cap = 2 * (b->n + n) + 64;
        b->p = realloc(b->p, b->cap);
        assert_non_null(b->p);
    }
    if (n > 0) {
        memcpy(b->p + b->n, src, n);
    }
    b->n += n;
}

/* `n` low bytes, little end first. */
static inline void put_le(bytes *b, uint64_t value, int n)
{
    for (int i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)(value >> 8 * i);
        put(b, &byte, 1);
    }
}

static inline void put_fill(bytes *b, size_t n, uint8_t value)
{
    for (size_t i = 0; i < n; i++) {
        put(b, &value, 1);
    }
}

static inline void bytes_free(bytes *b)
{
    free(b->p);
    *b = (bytes){0};
}

/* The directory of this process, and paths in it. */
static char test_dir[64];

static inline const char *in_dir(const char *name)
{
    static char path[4][512];
    static int next;
    char *out = path[next = (next + 1) % 4];
    snprintf(out, sizeof path[0], "%s/%s", test_dir, name);
    return out;
}

static inline void dir_clear(void)
{
    DIR *dir = opendir(test_dir);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        if (e->d_name[0] != '.') {
            unlink(in_dir(e->d_name));
        }
    }
    closedir(dir);
}

static inline int dir_setup(void **state)
{
    (void)state;
    /* Thousands of small files: in memory where the system offers it. */
    snprintf(test_dir, sizeof test_dir, "%s/whim-weights-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    return mkdtemp(test_dir) == NULL;
}

static inline int dir_teardown(void **state)
{
    (void)state;
    dir_clear();
    return rmdir(test_dir);
}

static inline void write_file(const char *name, const void *data, size_t n)
{
    FILE *f = fopen(in_dir(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static inline int open_fds(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        n++;
    }
    closedir(dir);
    return n;
}

static inline void expect_text(const whim_diag *diag, const char *label, const char *needle)
{
    if (needle != NULL && strstr(diag->text, needle) == NULL) {
        fail_msg("%s: the message lacks \"%s\": %s", label, needle, diag->text);
    }
}

/* Opening `path` must fail with `err` and a message that holds both texts, and leave no file. */
static inline void expect_refused(const char *label, const char *path, whim_err err,
                                  const char *file, const char *needle)
{
    whim_ckpt ckpt;
    whim_diag diag = {{0}};
    int fds = open_fds();
    whim_err got = whim_ckpt_open(&ckpt, whim_model_archs(), path, &diag);
    if (got != err) {
        fail_msg("%s: got %s (%s), expected %s", label, whim_err_name(got), diag.text,
                 whim_err_name(err));
    }
    expect_text(&diag, label, file);
    expect_text(&diag, label, needle);
    assert_int_equal(open_fds(), fds);
}

static inline void expect_opens(whim_ckpt *ckpt, const char *path)
{
    whim_diag diag = {{0}};
    if (whim_ckpt_open(ckpt, whim_model_archs(), path, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
}

/* The text of a config.json, and one that must be right. */
static inline whim_err parse_config(whim_config *config, const char *text, whim_diag *diag)
{
    return whim_config_parse(config, whim_model_archs(), text, (int64_t)strlen(text),
                             "dir/config.json", diag);
}

static inline whim_config good_config(const char *text)
{
    whim_config config;
    whim_diag diag = {{0}};
    if (parse_config(&config, text, &diag) != WHIM_ERR_OK) {
        fail_msg("%s\n%s", diag.text, text);
    }
    return config;
}

/* Fail every allocation from the n-th on, for all n until the open succeeds. */
static inline void sweep_allocations(const char *path)
{
    int fds = open_fds();
    for (int64_t n = 0;; n++) {
        assert_true(n < 10000);
        whim_ckpt ckpt;
        whim_diag diag = {{0}};
        whim_alloc_fail_after(n);
        whim_err err = whim_ckpt_open(&ckpt, whim_model_archs(), path, &diag);
        whim_alloc_fail_after(-1);
        if (err == WHIM_ERR_OK) {
            assert_true(n > 0);
            whim_ckpt_close(&ckpt);
            break;
        }
        assert_int_equal(err, WHIM_ERR_NO_MEMORY);
        expect_text(&diag, "sweep", test_dir);
    }
    assert_int_equal(open_fds(), fds);
}

#endif

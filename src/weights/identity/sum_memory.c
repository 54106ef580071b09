/* SPDX-License-Identifier: Apache-2.0 */
#include "weights/identity/sum_memory.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_BYTES = 1 << 20, LINE_MAX_BYTES = 256 };

bool whim_sum_of_file_look(int fd, whim_sum_of_file *out)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return false;
    }
    *out = (whim_sum_of_file){
        .device = (uint64_t)st.st_dev,
        .inode = (uint64_t)st.st_ino,
        .bytes = (int64_t)st.st_size,
        .written_ns = st.st_mtim.tv_sec * WHIM_NS_PER_S + st.st_mtim.tv_nsec,
        .changed_ns = st.st_ctim.tv_sec * WHIM_NS_PER_S + st.st_ctim.tv_nsec,
    };
    return true;
}

static bool is_same_inode(const whim_sum_of_file *a, const whim_sum_of_file *b)
{
    return a->device == b->device && a->inode == b->inode;
}

bool whim_sum_of_file_is_same(const whim_sum_of_file *a, const whim_sum_of_file *b)
{
    return is_same_inode(a, b) && a->bytes == b->bytes && a->written_ns == b->written_ns &&
           a->changed_ns == b->changed_ns;
}

static bool sum_parse(const char *hex, uint8_t sum[WHIM_SHA256_BYTES])
{
    for (int i = 0; i < WHIM_SHA256_BYTES; i++) {
        int high = whim_hex_value(hex[2 * i]);
        int low = high < 0 ? -1 : whim_hex_value(hex[2 * i + 1]);
        if (low < 0) {
            return false;
        }
        sum[i] = (uint8_t)(high << 4 | low);
    }
    return hex[2 * WHIM_SHA256_BYTES] == '\0';
}

static bool line_parse(const char *line, whim_sum_of_file *out)
{
    char hex[2 * WHIM_SHA256_BYTES + 2];
    return sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %65s",
                  &out->device, &out->inode, &out->bytes, &out->written_ns, &out->changed_ns,
                  hex) == 6 &&
           sum_parse(hex, out->sum);
}

void whim_sum_memory_parse(whim_sum_memory *memory, const char *text)
{
    while (*text != '\0') {
        char line[LINE_MAX_BYTES];
        whim_sum_of_file file;
        size_t n = strcspn(text, "\n");
        if (n < sizeof line) {
            memcpy(line, text, n);
            line[n] = '\0';
            if (line_parse(line, &file)) {
                whim_sum_memory_add(memory, &file);
            }
        }
        text += n + (text[n] == '\n');
    }
    memory->changed = false;
}

void whim_sum_memory_read(whim_sum_memory *memory, const char *path)
{
    char *text = NULL;
    int64_t n;
    if (path != NULL && whim_file_read_all(path, MAX_BYTES, &text, &n, NULL) == WHIM_ERR_OK) {
        whim_sum_memory_parse(memory, text);
    }
    whim_free(text);
}

void whim_sum_memory_deinit(whim_sum_memory *memory)
{
    whim_free(memory->files);
    *memory = (whim_sum_memory){0};
}

bool whim_sum_memory_find(const whim_sum_memory *memory, whim_sum_of_file *file)
{
    for (int64_t i = memory->n - 1; i >= 0; i--) {
        if (whim_sum_of_file_is_same(&memory->files[i], file)) {
            *file = memory->files[i];
            return true;
        }
    }
    return false;
}

static void forget(whim_sum_memory *memory, int64_t at)
{
    memory->n--;
    memmove(memory->files + at, memory->files + at + 1,
            (size_t)(memory->n - at) * sizeof *memory->files);
}

void whim_sum_memory_add(whim_sum_memory *memory, const whim_sum_of_file *file)
{
    for (int64_t i = memory->n - 1; i >= 0; i--) {
        if (is_same_inode(&memory->files[i], file)) {
            forget(memory, i);
        }
    }
    if (memory->n == WHIM_SUM_MEMORY_LINES) {
        forget(memory, 0);
    }
    if (whim_grow(&memory->files, memory->n + 1, &memory->cap, sizeof *memory->files)) {
        memory->files[memory->n++] = *file;
        memory->changed = true;
    }
}

void whim_sum_memory_write(const whim_sum_memory *memory, const char *path)
{
    char fresh[4096];
    whim_str text = {0};
    if (path == NULL || !memory->changed ||
        snprintf(fresh, sizeof fresh, "%s.%lld", path, (long long)getpid()) >= (int)sizeof fresh) {
        return;
    }
    for (int64_t i = 0; i < memory->n; i++) {
        const whim_sum_of_file *f = &memory->files[i];
        whim_str_printf(&text, "%" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64 " ",
                        f->device, f->inode, f->bytes, f->written_ns, f->changed_ns);
        for (int b = 0; b < WHIM_SHA256_BYTES; b++) {
            whim_str_printf(&text, "%02x", f->sum[b]);
        }
        whim_str_append_char(&text, '\n');
    }
    if (!text.failed &&
        (whim_file_write_all(fresh, whim_str_text(&text), text.len, NULL) != WHIM_ERR_OK ||
         rename(fresh, path) != 0)) {
        unlink(fresh);
    }
    whim_str_deinit(&text);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "emulated_gpu/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, UNIT = 256, MOST = 1 << 14 };

/* Sorted by place. Each ends at the end of a page, but for what the unit leaves, and is followed by a
 * page that nobody has. */
typedef struct piece {
    char *first, *at, *end; /* pages; what was asked for begins at `at` */
    size_t bytes;
} piece;

static struct {
    char *arena;
    size_t used;
    piece pieces[MOST];
    int n;
} the;

static void piece_protect(const piece *p, int how)
{
    if (mprotect(p->first, (size_t)(p->end - p->first), how) != 0) {
        abort();
    }
}

static int place_find(size_t need, char **at)
{
    char *from = the.arena;
    for (int i = 0; i <= the.n; i++) {
        char *end = i < the.n ? the.pieces[i].first : the.arena + 4 * (size_t)GPU_MEMORY_BYTES;
        if ((size_t)(end - from) >= need + PAGE) {
            *at = from;
            return i;
        }
        from = i < the.n ? the.pieces[i].end + PAGE : end;
    }
    return -1;
}

uint64_t gpu_memory_alloc(size_t bytes)
{
    size_t units = (bytes + UNIT - 1) / UNIT * UNIT, need = (units + PAGE - 1) / PAGE * PAGE;
    char *first;
    if (the.arena == NULL) {
        the.arena = mmap(NULL, 4 * (size_t)GPU_MEMORY_BYTES, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (the.arena == MAP_FAILED || the.used + need > GPU_MEMORY_BYTES || the.n == MOST) {
        return 0;
    }
    int i = place_find(need, &first);
    if (i < 0) {
        return 0;
    }
    memmove(&the.pieces[i + 1], &the.pieces[i], (size_t)(the.n - i) * sizeof the.pieces[0]);
    the.pieces[i] = (piece){first, first + need - units, first + need, bytes};
    the.n++;
    the.used += need;
    piece_protect(&the.pieces[i], PROT_READ | PROT_WRITE);
    memset(first, 0xff, need);
    piece_protect(&the.pieces[i], PROT_NONE);
    return (uint64_t)(uintptr_t)the.pieces[i].at;
}

static int piece_of(uint64_t at)
{
    const char *p = (const char *)(uintptr_t)at;
    int lo = 0, hi = the.n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (the.pieces[mid].end <= p) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo < the.n && the.pieces[lo].at <= p ? lo : -1;
}

bool gpu_memory_has(uint64_t at, size_t bytes)
{
    int i = piece_of(at);
    return i >= 0 && (const char *)(uintptr_t)at + bytes <= the.pieces[i].at + the.pieces[i].bytes;
}

bool gpu_memory_free(uint64_t at)
{
    int i = piece_of(at);
    if (i < 0 || (uint64_t)(uintptr_t)the.pieces[i].at != at) {
        return false;
    }
    size_t need = (size_t)(the.pieces[i].end - the.pieces[i].first);
    (void)madvise(the.pieces[i].first, need, MADV_DONTNEED);
    the.used -= need;
    the.n--;
    memmove(&the.pieces[i], &the.pieces[i + 1], (size_t)(the.n - i) * sizeof the.pieces[0]);
    return true;
}

size_t gpu_memory_left(void)
{
    return GPU_MEMORY_BYTES - the.used;
}

void gpu_memory_open(bool can_touch)
{
    for (int i = 0; i < the.n; i++) {
        piece_protect(&the.pieces[i], can_touch ? PROT_READ | PROT_WRITE : PROT_NONE);
    }
}

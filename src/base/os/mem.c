/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of machine, control group and process; pages. */
#include "base/os/mem.h"

#include "base/os/cgroup.h"
#include "base/os/procfile.h"

#include <stdio.h>
#include <stdlib.h> /* says which C library this is */
#include <sys/mman.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#ifdef __linux__
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#endif

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif
#if defined(__linux__) && !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older kernels answer EINVAL */
#endif

/* Blocks of at least four huge pages ask for them; smaller ones would lose too much to rounding. */
static const int64_t huge_bytes = INT64_C(2) << 20;
static const int64_t huge_from = INT64_C(8) << 20;

/* A line "Key:   123 kB" of a file, in bytes. */
static bool kilobytes_line(const char *path, const char *key, int64_t *out)
{
    char text[8 * 1024];
    int64_t kb;
    if (whim_os_file_text(path, text, sizeof text) < 0 || !whim_os_text_number(text, key, &kb)) {
        return false;
    }
    *out = kb * 1024;
    return true;
}

void whim_os_mem_give_back(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void whim_os_mem_keep_little(void)
{
#ifdef __GLIBC__
    /* Left alone, glibc learns from each large block that is freed to keep more, up to 64 MiB for
     * each of eight arenas a core. */
    mallopt(M_MMAP_THRESHOLD, 256 << 10);
    mallopt(M_TRIM_THRESHOLD, 1 << 20);
    mallopt(M_ARENA_MAX, 1);
#endif
}

int64_t whim_os_page_bytes(void)
{
    long n = sysconf(_SC_PAGESIZE);
    return n > 0 ? n : 4096;
}

int64_t whim_os_mem_total(void)
{
    int64_t bytes;
    if (kilobytes_line("/proc/meminfo", "MemTotal:", &bytes)) {
        return bytes;
    }
    long pages = sysconf(_SC_PHYS_PAGES);
    return pages > 0 ? pages * whim_os_page_bytes() : 0;
}

int64_t whim_os_mem_available(void)
{
    int64_t bytes;
    if (!kilobytes_line("/proc/meminfo", "MemAvailable:", &bytes)) {
        bytes = whim_os_mem_total();
    }
    int64_t left = whim_os_cgroup_mem_left("");
    return left < bytes ? left : bytes;
}

int64_t whim_os_mem_node_available(const char *root, int32_t node)
{
    static const char *const kinds[] = {"MemFree", "Active(file)", "Inactive(file)"};
    char path[512], key[64];
    int64_t sum = 0, bytes;
    snprintf(path, sizeof path, "%s/sys/devices/system/node/node%d/meminfo", root, node);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        snprintf(key, sizeof key, "Node %d %s:", node, kinds[i]);
        if (!kilobytes_line(path, key, &bytes)) {
            return -1;
        }
        sum += bytes;
    }
    return sum;
}

int64_t whim_os_mem_anon_resident(void)
{
    int64_t bytes;
    return kilobytes_line("/proc/self/status", "RssAnon:", &bytes) ? bytes : 0;
}

static int64_t round_up(int64_t bytes, int64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static char *map_anonymous(int64_t bytes)
{
    void *ptr =
        mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return ptr == MAP_FAILED ? NULL : ptr;
}

void *whim_os_pages_alloc(int64_t bytes)
{
    if (bytes <= 0 || bytes > INT64_MAX / 2) {
        return NULL;
    }
    bytes = round_up(bytes, whim_os_page_bytes());
    if (bytes < huge_from) {
        return map_anonymous(bytes);
    }
    char *wide = map_anonymous(bytes + huge_bytes);
    if (wide == NULL) {
        return NULL;
    }
    int64_t head = (int64_t)(-(uintptr_t)wide & (uintptr_t)(huge_bytes - 1));
    if (head > 0) {
        munmap(wide, (size_t)head);
    }
    if (head < huge_bytes) {
        munmap(wide + head + bytes, (size_t)(huge_bytes - head));
    }
#ifdef MADV_HUGEPAGE
    (void)madvise(wide + head, (size_t)bytes, MADV_HUGEPAGE); /* only a hint */
#endif
    return wide + head;
}

void whim_os_pages_free(void *ptr, int64_t bytes)
{
    if (ptr != NULL) {
        munmap(ptr, (size_t)round_up(bytes, whim_os_page_bytes()));
    }
}

void whim_os_pages_commit(void *ptr, int64_t bytes)
{
    int64_t page = whim_os_page_bytes();
#ifdef MADV_POPULATE_WRITE
    /* All of them in one call. Emulators take it and do nothing, so each page is touched, too. */
    (void)madvise(ptr, (size_t)round_up(bytes, page), MADV_POPULATE_WRITE);
#endif
    for (int64_t at = 0; at < bytes; at += page) {
        /* A load and a store would take a fault each, and the second one breaks huge pages up. */
        (void)__atomic_fetch_or((char *)ptr + at, 0, __ATOMIC_RELAXED);
    }
}

bool whim_os_pages_interleave(void *ptr, int64_t bytes, const int32_t *nodes, int32_t n_node)
{
#ifdef __linux__
    unsigned long mask[1024 / (8 * sizeof(unsigned long))] = {
        0}; /* as many nodes as Linux can have */
    const int32_t word = 8 * sizeof mask[0], max = (int32_t)(8 * sizeof mask);
    for (int32_t i = 0; i < n_node; i++) {
        if (nodes[i] < 0 || nodes[i] >= max) {
            return false;
        }
        mask[nodes[i] / word] |= 1UL << (nodes[i] % word);
    }
    int64_t size = round_up(bytes, whim_os_page_bytes());
    return syscall(SYS_mbind, ptr, size, MPOL_INTERLEAVE, mask, max, 0) == 0;
#else
    (void)ptr;
    (void)bytes;
    (void)nodes;
    return n_node <= 1;
#endif
}

bool whim_os_pages_protect(void *ptr, int64_t bytes, whim_os_rights rights)
{
    static const int flags[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
    return mprotect(ptr, (size_t)round_up(bytes, whim_os_page_bytes()), flags[rights]) == 0;
}

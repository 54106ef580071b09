/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory there is, and whole pages of it straight from the system: for weights and KV, so
 * that what is freed goes back at once.
 * Threads: any. */
#ifndef WHIM_BASE_OS_MEM_H
#define WHIM_BASE_OS_MEM_H

#include <stdbool.h>
#include <stdint.h>

/* RAM of the machine, in bytes; 0 when unknown. */
int64_t whim_os_mem_total(void);

/* What can be taken without swapping: the smaller of the system's estimate and what the control
 * groups of this process leave (the file cache they can drop counts as free). */
int64_t whim_os_mem_available(void);

/* The same of one memory node, by its free pages and its file cache; -1 when unknown. `root` goes
 * in front of the path that is read. */
int64_t whim_os_mem_node_available(const char *root, int32_t node);

/* Anonymous memory of this process that is in RAM now; 0 when unknown. */
int64_t whim_os_mem_anon_resident(void);

/* Let the allocator of the C library give back what it keeps unused, where it can. Takes time:
 * about a millisecond for each ten megabytes or so. */
void whim_os_mem_give_back(void);

/* From now on it keeps little of what it is given back: large blocks go to the system at once, and
 * threads share what is free. Once, before there are threads. */
void whim_os_mem_keep_little(void);

/* Bytes of a page. */
int64_t whim_os_page_bytes(void);

/* Zeroed pages, page-aligned; large blocks are aligned and marked for huge pages. NULL when there
 * is no room or bytes <= 0. Give back with the same size. */
void *whim_os_pages_alloc(int64_t bytes);
void whim_os_pages_free(void *ptr, int64_t bytes);

/* Put memory behind the pages that hold [ptr, ptr + bytes) now, not when they are first written;
 * ptr is page-aligned, the contents stay. */
void whim_os_pages_commit(void *ptr, int64_t bytes);

/* Spread pages that hold nothing yet over the memory of all nodes in turn, so that reading them is
 * as fast as all nodes together; ptr is page-aligned. False when the system refuses. */
bool whim_os_pages_interleave(void *ptr, int64_t bytes, const int32_t *nodes, int32_t n_node);

typedef enum whim_os_rights { WHIM_OS_CLOSED, WHIM_OS_READ, WHIM_OS_OPEN } whim_os_rights;

/* What may be done with the pages that hold [ptr, ptr + bytes): nothing, reading, everything; ptr
 * is page-aligned. False when the system refuses. */
bool whim_os_pages_protect(void *ptr, int64_t bytes, whim_os_rights rights);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the chat page and of the dashboard. They are gathered at build time
 * (tools/embed-page) and are part of the program; nothing is read from disk. Names under /assets
 * hold a hash of their bytes and never change; the two pages themselves are asked for again each
 * time.
 * Threads: stateless. */
#ifndef WHIM_SERVER_PAGE_H
#define WHIM_SERVER_PAGE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_page_file {
    const char *path; /* "/", "/assets/chat-0123456789ab.js" */
    const char *type; /* Content-Type */
    const char *hash; /* of its bytes: the ETag */
    bool fixed;       /* its name holds the hash: may be kept for ever */
    const char *plain, *gzip;
    int64_t n_plain, n_gzip;
} whim_page_file;

/* The file at a path, or NULL. */
const whim_page_file *whim_page_find(const char *path);
/* All of them; the number goes into *n. */
const whim_page_file *whim_page_files(int32_t *n);

/* Whether an Accept-Encoding (or NULL) takes gzip. */
bool whim_page_takes_gzip(const char *accept);
/* Whether an If-None-Match (or NULL) holds this ETag, quotes included. */
bool whim_page_etag_matches(const char *list, const char *etag);
/* Whether a Host (or NULL) is this machine's own, which browsers trust without TLS. */
bool whim_page_host_is_loopback(const char *host);

#endif

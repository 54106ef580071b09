/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl, loaded when something is to be fetched: it brings some thirty libraries along, which no
 * other command needs.
 * Threads: load from any, once or often; what it gives is for ever. Only for builds with
 * WHIM_HUB. */
#ifndef WHIM_HUB_CURL_LOAD_H
#define WHIM_HUB_CURL_LOAD_H

#ifdef WHIM_HUB

#include "base/err.h"

#include <curl/curl.h>

#define WHIM_CURL_CALLS(X) \
    X(global_init)         \
    X(easy_init)           \
    X(easy_cleanup)        \
    X(easy_reset)          \
    X(easy_setopt)         \
    X(easy_perform)        \
    X(easy_getinfo)        \
    X(easy_strerror)       \
    X(slist_append) X(slist_free_all) X(url) X(url_cleanup) X(url_set) X(url_get) X(free)

typedef struct whim_curl {
#define WHIM_CURL_CALL(name) __typeof__(curl_##name) *name;
    WHIM_CURL_CALLS(WHIM_CURL_CALL)
#undef WHIM_CURL_CALL
} whim_curl;

/* UNSUPPORTED, with the package's name, when it is not on this machine. */
WHIM_MUST_CHECK whim_err whim_curl_load(const whim_curl **out, whim_diag *diag);

#endif
#endif

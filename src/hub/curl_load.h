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

typedef struct whim_curl {
    CURLcode (*global_init)(long flags);
    CURL *(*easy_init)(void);
    void (*easy_cleanup)(CURL *handle);
    void (*easy_reset)(CURL *handle);
    CURLcode (*easy_setopt)(CURL *handle, CURLoption option, ...);
    CURLcode (*easy_perform)(CURL *handle);
    CURLcode (*easy_getinfo)(CURL *handle, CURLINFO info, ...);
    const char *(*easy_strerror)(CURLcode code);
    struct curl_slist *(*slist_append)(struct curl_slist *list, const char *text);
    void (*slist_free_all)(struct curl_slist *list);
    CURLU *(*url)(void);
    void (*url_cleanup)(CURLU *url);
    CURLUcode (*url_set)(CURLU *url, CURLUPart part, const char *text, unsigned int flags);
    CURLUcode (*url_get)(const CURLU *url, CURLUPart part, char **text, unsigned int flags);
    void (*free)(void *text);
} whim_curl;

/* UNSUPPORTED, with the package's name, when it is not on this machine. */
WHIM_MUST_CHECK whim_err whim_curl_load(const whim_curl **out, whim_diag *diag);

#endif
#endif

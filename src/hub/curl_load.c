/* SPDX-License-Identifier: Apache-2.0 */
/* Finding libcurl. */
#ifdef WHIM_HUB

#include "hub/curl_load.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
#define SYMBOL(name) {"curl_" #name, offsetof(whim_curl, name)},
    WHIM_CURL_CALLS(SYMBOL)
#undef SYMBOL
};

static struct {
    pthread_once_t once;
    whim_curl curl;
    char why[256]; /* it could not be loaded; "" : it was */
} loaded = {.once = PTHREAD_ONCE_INIT};

static void load(void)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    void *library = NULL;
    for (size_t i = 0; i < 2 && library == NULL; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (library == NULL) {
        snprintf(loaded.why, sizeof loaded.why, "%.200s", dlerror());
        return;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (symbol == NULL) {
            snprintf(loaded.why, sizeof loaded.why, "it has no %s, it is older than 7.62",
                     symbols[i].name);
            return;
        }
        memcpy((char *)&loaded.curl + symbols[i].offset, &symbol, sizeof symbol);
    }
    if (loaded.curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        snprintf(loaded.why, sizeof loaded.why, "it does not start");
    }
}

whim_err whim_curl_load(const whim_curl **out, whim_diag *diag)
{
    pthread_once(&loaded.once, load);
    *out = &loaded.curl;
    return loaded.why[0] == '\0'
               ? WHIM_ERR_OK
               : whim_fail(
                     diag, WHIM_ERR_UNSUPPORTED,
                     "downloading needs libcurl (Debian: libcurl4), which cannot be used here: "
                     "%s",
                     loaded.why);
}

#else
typedef int whim_curl_load_is_empty; /* a file must hold something */
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* "NAME" or "NAME:NUMBER". */
#include "device/choose.h"

#include <string.h>

enum { NAME_BYTES = 32, DIGITS = 4 }; /* more devices than any machine has */

const whim_backend *whim_backend_choose(const char *text, int32_t *index)
{
    char name[NAME_BYTES] = "";
    size_t n = strcspn(text, ":");
    const char *number = text[n] == ':' ? text + n + 1 : "0";
    size_t digits = strspn(number, "0123456789");
    if (n >= sizeof name || digits == 0 || digits > DIGITS || number[digits] != '\0') {
        return NULL;
    }
    memcpy(name, text, n);
    *index = 0;
    for (size_t i = 0; i < digits; i++) {
        *index = *index * 10 + (number[i] - '0');
    }
    return whim_backend_find(name);
}

bool whim_backend_preferred(void)
{
    bool any = false;
    for (int32_t i = 0; i < whim_backend_count() && !any; i++) {
        const whim_backend *backend = whim_backend_at(i);
        any = backend->preferred && backend->device_count() > 0;
    }
    return any;
}

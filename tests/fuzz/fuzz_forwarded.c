/* SPDX-License-Identifier: Apache-2.0 */
/* A network in the first line, X-Forwarded-For values in the others: nobody who is not trusted is
 * believed. */
#include "http/forwarded.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    whim_network network;
    whim_diag diag = {""};
    struct in6_addr client = {{{0}}};
    char *text = malloc(n + 1), *rest;
    if (text == NULL) {
        return 0;
    }
    memcpy(text, data, n);
    text[n] = '\0';
    char *line = strtok_r(text, "\n", &rest);
    if (line != NULL && whim_network_parse(line, &network, &diag) == WHIM_ERR_OK) {
        client = network.address;
        bool goes_on = true;
        while (goes_on && (line = strtok_r(NULL, "\n", &rest)) != NULL) {
            struct in6_addr before = client;
            goes_on = whim_forwarded_walk(&network, 1, line, &client);
            if (memcmp(&before, &client, sizeof client) != 0 &&
                !whim_network_any_has(&network, 1, &before)) {
                abort();
            }
        }
    }
    free(text);
    return 0;
}

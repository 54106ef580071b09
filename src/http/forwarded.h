/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a request comes from when it came through proxies: X-Forwarded-For is read only as far as
 * the addresses that wrote it are trusted, because anybody can send one. Addresses are IPv6, IPv4
 * ones mapped into it.
 * Threads: any; a list of networks does not change. */
#ifndef WHIM_HTTP_FORWARDED_H
#define WHIM_HTTP_FORWARDED_H

#include "base/err.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct whim_network {
    struct in6_addr address;
    int32_t bits; /* that count, of 128 */
} whim_network;

/* "10.0.0.7", "10.0.0.0/8", "::1", "fd00::/8"; INVALID with a message for what is no address, for
 * too many bits and for an address with bits behind its network. */
WHIM_MUST_CHECK whim_err whim_network_parse(const char *text, whim_network *out, whim_diag *diag);

bool whim_network_any_has(const whim_network *networks, int32_t n, const struct in6_addr *address);

/* From the right end of one X-Forwarded-For value: while *client is in a trusted network, it
 * becomes the address that this proxy names. Entries may have ports. Whether the next value to the
 * left is to be read: false when *client is not trusted, or when an entry is no address (then
 * *client is the proxy that wrote it). */
bool whim_forwarded_walk(const whim_network *networks, int32_t n, const char *value,
                         struct in6_addr *client);

#endif

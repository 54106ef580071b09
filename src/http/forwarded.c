/* SPDX-License-Identifier: Apache-2.0 */
#include "http/forwarded.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

enum { V4_BITS = 96 /* of an IPv4 address inside IPv6 */, MAX_BITS = 128, MAX_ADDRESS = 64 };

static bool address_parse(const char *text, struct in6_addr *out, bool *is_v4)
{
    struct in_addr v4;
    *is_v4 = inet_pton(AF_INET, text, &v4) == 1;
    if (!*is_v4) {
        return inet_pton(AF_INET6, text, out) == 1;
    }
    memset(out, 0, sizeof *out);
    out->s6_addr[10] = out->s6_addr[11] = 0xff;
    memcpy(&out->s6_addr[12], &v4, sizeof v4);
    return true;
}

/* Whether the first `bits` are the same. */
static bool same_bits(const struct in6_addr *a, const struct in6_addr *b, int32_t bits)
{
    int32_t whole = bits / 8, rest = bits % 8;
    int mask = (0xff00 >> rest) & 0xff;
    return memcmp(a->s6_addr, b->s6_addr, (size_t)whole) == 0 &&
           (rest == 0 || ((a->s6_addr[whole] ^ b->s6_addr[whole]) & mask) == 0);
}

whim_err whim_network_parse(const char *text, whim_network *out, whim_diag *diag)
{
    char address[MAX_ADDRESS];
    const char *slash = strchr(text, '/');
    size_t n = slash != NULL ? (size_t)(slash - text) : strlen(text);
    bool is_v4 = false;
    memcpy(address, text, n < sizeof address ? n : 0);
    address[n < sizeof address ? n : 0] = '\0';
    if (!address_parse(address, &out->address, &is_v4)) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "\"%.64s\" is not a network; expected an address such as 10.0.0.7, or one "
                         "with its bits such as 10.0.0.0/8 or fd00::/8",
                         text);
    }
    int32_t most = is_v4 ? MAX_BITS - V4_BITS : MAX_BITS;
    int32_t bits = most;
    if (slash != NULL) {
        const char *digits = slash + 1;
        bits = atoi(digits);
        if (strlen(digits) < 1 || strlen(digits) > 3 || digits[strspn(digits, "0123456789")] != 0 ||
            bits > most) {
            return whim_fail(
                diag, WHIM_ERR_INVALID,
                "\"%.64s\" is not a network: expected a number from 0 to %d after the /", text,
                most);
        }
    }
    out->bits = bits + MAX_BITS - most;
    struct in6_addr rest = out->address;
    for (int32_t i = out->bits; i < MAX_BITS; i++) {
        rest.s6_addr[i / 8] &= (uint8_t) ~(0x80 >> i % 8);
    }
    if (memcmp(&rest, &out->address, sizeof rest) != 0) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "\"%.64s\" is not a network: the address has bits set after the first %d",
                         text, bits);
    }
    return WHIM_ERR_OK;
}

bool whim_network_any_has(const whim_network *networks, int32_t n, const struct in6_addr *address)
{
    for (int32_t i = 0; i < n; i++) {
        if (same_bits(&networks[i].address, address, networks[i].bits)) {
            return true;
        }
    }
    return false;
}

/* An entry of n bytes: address, address:port, [address], [address]:port. */
static bool entry_parse(const char *text, int64_t n, struct in6_addr *out)
{
    char entry[MAX_ADDRESS];
    bool is_v4;
    if (n <= 0 || n >= (int64_t)sizeof entry) {
        return false;
    }
    memcpy(entry, text, (size_t)n);
    entry[n] = '\0';
    char *colon = strchr(entry, ':');
    if (entry[0] == '[') {
        char *end = strchr(entry, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':')) {
            return false;
        }
        *end = '\0';
        return address_parse(entry + 1, out, &is_v4) && !is_v4;
    }
    if (colon != NULL && strchr(colon + 1, ':') == NULL) {
        *colon = '\0'; /* one colon: a port behind an IPv4 address */
        return address_parse(entry, out, &is_v4) && is_v4;
    }
    return address_parse(entry, out, &is_v4);
}

bool whim_forwarded_walk(const whim_network *networks, int32_t n, const char *value,
                         struct in6_addr *client)
{
    int64_t end = (int64_t)strlen(value);
    while (whim_network_any_has(networks, n, client)) {
        struct in6_addr named;
        int64_t start = end;
        while (start > 0 && value[start - 1] != ',') {
            start--;
        }
        int64_t from = start, to = end;
        while (from < to && strchr(" \t", value[from]) != NULL) {
            from++;
        }
        while (to > from && strchr(" \t", value[to - 1]) != NULL) {
            to--;
        }
        if (!entry_parse(value + from, to - from, &named)) {
            return false;
        }
        *client = named;
        if (start == 0) {
            return whim_network_any_has(networks, n, client);
        }
        end = start - 1;
    }
    return false;
}

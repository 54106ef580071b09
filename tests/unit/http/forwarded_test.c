/* SPDX-License-Identifier: Apache-2.0 */
/* Trusted proxies: networks, and how far X-Forwarded-For is believed. */
#include "http/forwarded.h"
#include "support/cmocka.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>

static struct in6_addr address(const char *text)
{
    whim_network network;
    assert_int_equal(whim_network_parse(text, &network, NULL), WHIM_ERR_OK);
    return network.address;
}

static void test_networks(void **state)
{
    (void)state;
    static const struct {
        const char *network, *address;
        bool has;
    } rows[] = {
        {"10.0.0.7", "10.0.0.7", true},
        {"10.0.0.7", "10.0.0.8", false},
        {"10.0.0.0/8", "10.255.1.2", true},
        {"10.0.0.0/8", "11.0.0.0", false},
        {"172.16.0.0/12", "172.31.9.9", true},
        {"172.16.0.0/12", "172.32.0.0", false},
        {"0.0.0.0/0", "8.8.8.8", true},
        {"0.0.0.0/0", "2001:db8::1", false},
        {"::1", "::1", true},
        {"::1", "127.0.0.1", false},
        {"fd00::/8", "fdff::9", true},
        {"fd00::/8", "fe00::9", false},
        {"::/0", "10.1.2.3", true},
        {"::ffff:10.0.0.7", "10.0.0.7", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        whim_network network;
        struct in6_addr a = address(rows[i].address);
        assert_int_equal(whim_network_parse(rows[i].network, &network, NULL), WHIM_ERR_OK);
        assert_int_equal(whim_network_any_has(&network, 1, &a), rows[i].has);
        assert_false(whim_network_any_has(&network, 0, &a));
    }
}

static void test_bad_networks(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "proxy.example",
        "10.0.0",
        "10.0.0.7/",
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "10.0.0.0/8x",
        "10.0.0.1/8",
        "fd00::1/8",
        "fd00::/129",
        "::1/1000",
        "10.0.0.0/8/8",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        whim_network network;
        whim_diag diag = {""};
        assert_int_equal(whim_network_parse(wrong[i], &network, &diag), WHIM_ERR_INVALID);
        assert_non_null(strstr(diag.text, "is not a network"));
    }
}

static void test_walk(void **state)
{
    (void)state;
    static const struct {
        const char *peer, *value, *client;
        bool goes_on;
    } rows[] = {
        /* nobody may say who he is without being trusted */
        {"9.9.9.9", "1.2.3.4", "9.9.9.9", false},
        {"10.0.0.7", "1.2.3.4", "1.2.3.4", false},
        {"10.0.0.7", "  1.2.3.4\t", "1.2.3.4", false},
        /* what a client made up stands left of what the first proxy saw */
        {"10.0.0.7", "6.6.6.6, 1.2.3.4", "1.2.3.4", false},
        {"10.0.0.7", "6.6.6.6,1.2.3.4 , 10.0.0.8", "1.2.3.4", false},
        /* only proxies: the one farthest out, and an earlier header may go on */
        {"10.0.0.7", "10.0.0.9, 10.0.0.8", "10.0.0.9", true},
        {"10.0.0.7", "1.2.3.4:5678", "1.2.3.4", false},
        {"10.0.0.7", "[2001:db8::1]:443", "2001:db8::1", false},
        {"10.0.0.7", "[2001:db8::1]", "2001:db8::1", false},
        {"10.0.0.7", "2001:db8::1", "2001:db8::1", false},
        {"::1", "1.2.3.4", "1.2.3.4", false},
        /* what is no address ends it */
        {"10.0.0.7", "", "10.0.0.7", false},
        {"10.0.0.7", "unknown", "10.0.0.7", false},
        {"10.0.0.7", "1.2.3.4,", "10.0.0.7", false},
        {"10.0.0.7", "1.2.3.4, unknown, 10.0.0.8", "10.0.0.8", false},
        {"10.0.0.7", "[1.2.3.4]", "10.0.0.7", false},
        {"10.0.0.7", "[::1", "10.0.0.7", false},
        {"10.0.0.7", "[::1]x", "10.0.0.7", false},
        {"10.0.0.7", "1.2.3.4\n1.2.3.5", "10.0.0.7", false},
    };
    whim_network trusted[2];
    assert_int_equal(whim_network_parse("10.0.0.0/24", &trusted[0], NULL), WHIM_ERR_OK);
    assert_int_equal(whim_network_parse("::1", &trusted[1], NULL), WHIM_ERR_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct in6_addr client = address(rows[i].peer), want = address(rows[i].client);
        assert_int_equal(whim_forwarded_walk(trusted, 2, rows[i].value, &client), rows[i].goes_on);
        assert_memory_equal(&client, &want, sizeof client);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_bad_networks),
        cmocka_unit_test(test_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

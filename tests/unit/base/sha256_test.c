/* SPDX-License-Identifier: Apache-2.0 */
/* The sums of FIPS 180-4's examples and of messages around the length of a block, and the proofs of
 * RFC 4231. */
#include "base/sha256.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <string.h>

static void expect_hex(const uint8_t sum[WHIM_SHA256_BYTES], const char *hex)
{
    char text[2 * WHIM_SHA256_BYTES + 1];
    for (int i = 0; i < WHIM_SHA256_BYTES; i++) {
        snprintf(text + 2 * i, 3, "%02x", sum[i]);
    }
    assert_string_equal(text, hex);
}

static void sums_are_the_standards(void **state)
{
    (void)state;
    static const struct {
        int64_t n;
        const char *hex;
    } letters[] = {{0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                   {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
                   {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
                   {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
                   {65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
                   {119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"},
                   {200, "c2a908d98f5df987ade41b5fce213067efbcc21ef2240212a41e54b5e7c28ae5"}};
    uint8_t sum[WHIM_SHA256_BYTES];
    char text[200];
    whim_sha256 s;
    whim_sha256_init(&s);
    whim_sha256_add(&s, "ab", 2);
    whim_sha256_add(&s, "c", 1);
    whim_sha256_end(&s, sum);
    expect_hex(sum, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++) {
        whim_sha256_init(&s);
        whim_sha256_add(&s, text, letters[i].n);
        whim_sha256_end(&s, sum);
        expect_hex(sum, letters[i].hex);
    }
}

static void proofs_are_the_standards(void **state)
{
    (void)state;
    uint8_t sum[WHIM_SHA256_BYTES], key[131];
    memset(key, 0x0b, sizeof key);
    whim_hmac_sha256(key, 20, "Hi There", 8, sum);
    expect_hex(sum, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    whim_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, sum);
    expect_hex(sum, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    whim_hmac_sha256(key, 131, "Test Using Larger Than Block-Size Key - Hash Key First", 54, sum);
    expect_hex(sum, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    uint8_t other[WHIM_SHA256_BYTES];
    memcpy(other, sum, sizeof other);
    assert_true(whim_sha256_equal(sum, other));
    other[31] ^= 1;
    assert_false(whim_sha256_equal(sum, other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_the_standards),
        cmocka_unit_test(proofs_are_the_standards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels a GPU gets, and what the build put into the program. */
#include "backends/cuda/images.h"

#include "support/cmocka.h"

#include <string.h>

/* Images of 16 bytes whose content is their kind. */
static const int64_t some[] = {160, 16,  160, 0,   172, 16,  172, 0,   178, 16, 178,
                               0,   180, 16,  180, 0,   181, 16,  181, 0,   0,  0};

static int64_t kind_for(int32_t capability)
{
    whim_cu_image image;
    if (!whim_cu_image_choose(some, capability, &image)) {
        return 0;
    }
    assert_int_equal(image.bytes, 16);
    assert_memory_equal(image.data, &image.kind, sizeof image.kind);
    return image.kind;
}

static void test_choice(void **state)
{
    (void)state;
    assert_int_equal(kind_for(75), 0);
    assert_int_equal(kind_for(80), 160);
    assert_int_equal(kind_for(86), 172);
    assert_int_equal(kind_for(87), 172); /* the newest of its generation that is not newer */
    assert_int_equal(kind_for(89), 178);
    assert_int_equal(kind_for(90), 180);
    assert_int_equal(kind_for(100), 181); /* a generation without machine code */
    assert_int_equal(kind_for(120), 181);
}

static void test_none(void **state)
{
    static const int64_t end[] = {0, 0};
    whim_cu_image image;
    const void *at = end;
    (void)state;
    assert_false(whim_cu_image_choose(end, 90, &image));
    assert_false(whim_cu_image_next(&at, &image));
}

/* What lies in this program: at least one kind, or none where the compiler was missing. */
static void test_own(void **state)
{
    const void *at = whim_cu_images();
    whim_cu_image image;
    int64_t last = 0;
    (void)state;
    while (whim_cu_image_next(&at, &image)) {
        assert_true(image.kind > last);
        last = image.kind;
        assert_true(image.bytes > 1000);
        if (image.kind % 2 == 0) {
            assert_memory_equal(image.data, "\177ELF", 4);
        } else {
            assert_non_null(strstr(image.data, ".target sm_"));
        }
    }
    if (last == 0) {
        print_message("this build has no kernels\n");
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

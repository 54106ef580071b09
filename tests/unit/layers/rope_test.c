/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary frequencies against those of transformers 5.22 (ROPE_INIT_FUNCTIONS), which are F32: they
 * agree to a few of F32's last places. */
#include "layers/rope.h"
#include "support/cmocka.h"

#include <math.h>
#include <stdint.h>

enum { MAX_FREQ = 64 };

static const double linear[] = {0.25,          0.079056941,    0.0250000004,   0.00790569466,
                                0.00249999994, 0.000790569466, 0.000250000012, 7.90569466e-05};

static const double llama3[] = {1,
                                0.663601279,
                                0.440366626,
                                0.292227834,
                                0.193922758,
                                0.128687382,
                                0.0853971019,
                                0.0566696189,
                                0.0376060307,
                                0.0249554086,
                                0.0165604409,
                                0.0109895291,
                                0.00729266508,
                                0.00483942125,
                                0.00321144611,
                                0.00129054801,
                                0.000429556705,
                                9.70828623e-05,
                                1.94616387e-05,
                                1.29147675e-05,
                                8.57025589e-06,
                                5.68723226e-06,
                                3.77405445e-06,
                                2.50446715e-06,
                                1.66196742e-06,
                                1.10288363e-06,
                                7.31874934e-07,
                                4.85673127e-07,
                                3.22293289e-07,
                                2.1387423e-07,
                                1.41927202e-07,
                                9.41830649e-08};

static const double yarn[] = {1,
                              0.805842221,
                              0.649381638,
                              0.523299158,
                              0.421696514,
                              0.339820832,
                              0.273841977,
                              0.220673397,
                              0.177827939,
                              0.143301263,
                              0.115478203,
                              0.0930572003,
                              0.0749894157,
                              0.0604296438,
                              0.0486967526,
                              0.0392418988,
                              0.0316227786,
                              0.0254829675,
                              0.0205352511,
                              0.0165481716,
                              0.0133352149,
                              0.0107460786,
                              0.00865964312,
                              0.00697830599,
                              0.00537532149,
                              0.0041317381,
                              0.00316842273,
                              0.00242342241,
                              0.00184827659,
                              0.00140511245,
                              0.00106436096,
                              0.000802959781,
                              0.000602941145,
                              0.000450323569,
                              0.000334240554,
                              0.000246258394,
                              0.000179841154,
                              0.00012993149,
                              9.26230132e-05,
                              6.4903943e-05,
                              4.44569851e-05,
                              3.58253164e-05,
                              2.88695483e-05,
                              2.32643015e-05,
                              1.87473561e-05,
                              1.51074091e-05,
                              1.21741887e-05,
                              9.81047469e-06,
                              7.90569356e-06,
                              6.37074163e-06,
                              5.13381246e-06,
                              4.13704265e-06,
                              3.33380353e-06,
                              2.68651957e-06,
                              2.16491094e-06,
                              1.74457659e-06,
                              1.40585337e-06,
                              1.13289593e-06,
                              9.1293532e-07,
                              7.35681795e-07,
                              5.92843435e-07,
                              4.7773824e-07,
                              3.84981632e-07,
                              3.10234441e-07};

/* Ends of the ramp not rounded, other turns, a given attention factor. */
static const double yarn_exact[] = {1,
                                    0.413199246,
                                    0.14849025,
                                    0.0444569848,
                                    0.0250000004,
                                    0.0140585322,
                                    0.00790569466,
                                    0.00444569858,
                                    0.00249999994,
                                    0.00140585331,
                                    0.000790569466,
                                    0.000444569858,
                                    0.000250000012,
                                    0.000140585325,
                                    7.90569466e-05,
                                    4.44569851e-05};

static void check(const whim_rope_config *rope, const double *expected, int32_t n)
{
    double freqs[MAX_FREQ];
    assert_int_equal(rope->rotary_dim / 2, n);
    whim_rope_freqs(rope, freqs);
    for (int32_t i = 0; i < n; i++) {
        if (!(fabs(freqs[i] / expected[i] - 1) < 2e-6)) {
            fail_msg("frequency %d is %.9g, expected %.9g", i, freqs[i], expected[i]);
        }
    }
}

static void plain_frequencies_are_powers(void **state)
{
    (void)state;
    whim_rope_config rope = {.rotary_dim = 8, .theta = 10000.0};
    static const double expected[] = {1, 0.1, 0.01, 0.001};
    check(&rope, expected, 4);
    assert_true(whim_rope_scale(&rope) == 1.0);
}

static void linear_divides_all(void **state)
{
    (void)state;
    whim_rope_config rope = {
        .kind = WHIM_ROPE_LINEAR, .rotary_dim = 16, .theta = 10000.0, .factor = 4.0};
    check(&rope, linear, 8);
    assert_true(whim_rope_scale(&rope) == 1.0);
}

static void llama3_has_three_bands(void **state)
{
    (void)state;
    whim_rope_config rope = {.kind = WHIM_ROPE_LLAMA3,
                             .rotary_dim = 64,
                             .theta = 500000.0,
                             .factor = 32.0,
                             .orig_ctx = 8192,
                             .low_freq = 1.0,
                             .high_freq = 4.0};
    check(&rope, llama3, 32);
    assert_true(whim_rope_scale(&rope) == 1.0);
}

static void yarn_ramps(void **state)
{
    (void)state;
    whim_rope_config rope = {.kind = WHIM_ROPE_YARN,
                             .rotary_dim = 128,
                             .theta = 1000000.0,
                             .factor = 4.0,
                             .orig_ctx = 32768,
                             .beta_fast = 32,
                             .beta_slow = 1,
                             .attn_factor = whim_rope_yarn_scale(4.0, 1.0),
                             .truncate = true};
    check(&rope, yarn, 64);
    assert_true(fabs(whim_rope_scale(&rope) - 1.138629436111989) < 1e-12);
}

static void yarn_takes_what_the_file_says(void **state)
{
    (void)state;
    whim_rope_config rope = {.kind = WHIM_ROPE_YARN,
                             .rotary_dim = 32,
                             .theta = 10000.0,
                             .factor = 4.0,
                             .orig_ctx = 64,
                             .beta_fast = 16,
                             .beta_slow = 2,
                             .attn_factor = 1.25};
    check(&rope, yarn_exact, 16);
    assert_true(whim_rope_scale(&rope) == 1.25);
}

/* A ramp without width is a step, not a division by zero. */
static void yarn_without_a_ramp(void **state)
{
    (void)state;
    double freqs[4];
    whim_rope_config rope = {.kind = WHIM_ROPE_YARN,
                             .rotary_dim = 8,
                             .theta = 10000.0,
                             .factor = 2.0,
                             .orig_ctx = 64,
                             .beta_fast = 4,
                             .beta_slow = 4};
    whim_rope_freqs(&rope, freqs);
    assert_true(freqs[0] == 1.0);
    for (int32_t i = 1; i < 4; i++) {
        assert_true(isfinite(freqs[i]) && freqs[i] < freqs[i - 1] && freqs[i] > 0);
    }
    assert_true(fabs(freqs[3] - 0.0005) < 1e-12);
}

static void divisors_divide(void **state)
{
    (void)state;
    static const float divisors[] = {1, 2, 8, 10};
    whim_rope_config rope = {.rotary_dim = 8, .theta = 10000.0, .divisors = divisors};
    static const double expected[] = {1, 0.05, 0.00125, 0.0001};
    check(&rope, expected, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_frequencies_are_powers),
        cmocka_unit_test(linear_divides_all),
        cmocka_unit_test(llama3_has_three_bands),
        cmocka_unit_test(yarn_ramps),
        cmocka_unit_test(yarn_takes_what_the_file_says),
        cmocka_unit_test(yarn_without_a_ramp),
        cmocka_unit_test(divisors_divide),
    };
    return cmocka_run_group_tests_name("rope", tests, NULL, NULL);
}

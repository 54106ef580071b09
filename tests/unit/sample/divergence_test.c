/* SPDX-License-Identifier: Apache-2.0 */
/* sample/divergence.h against distributions whose numbers are known. */
#include "sample/divergence.h"

#include <math.h>

#include "support/cmocka.h"

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-6 * (1 + fabs(want)))) {
        fail_msg("%.12g, expected %.12g", got, want);
    }
}

static void known_distributions(void **state)
{
    (void)state;
    /* p = (1/2, 1/4, 1/4), q = (1/4, 1/2, 1/4); logits may be shifted. */
    const float p[] = {(float)log(0.5), (float)log(0.25), (float)log(0.25)};
    const float q[] = {(float)log(0.25) + 7, (float)log(0.5) + 7, (float)log(0.25) + 7};
    whim_divergence d = {0};
    whim_divergence_add(&d, p, q, 3, 0);
    near(d.kl_sum, 0.25 * log(2));
    near(d.nll_p, log(2));
    near(d.nll_q, log(4));
    assert_true(d.n_row == 1 && d.n_token == 1 && d.n_same == 0);
    whim_divergence_add(&d, p, p, 3, -1);
    near(d.kl_sum, 0.25 * log(2));
    near(d.kl_max, 0.25 * log(2));
    assert_true(d.n_row == 2 && d.n_token == 1 && d.n_same == 1);
}

static void edges(void **state)
{
    (void)state;
    const float even[] = {1, 1, 1, 1}, one[] = {5, -INFINITY, -INFINITY, -INFINITY};
    const float large[] = {3e38f, -3e38f, 0, 0};
    whim_divergence d = {0};
    whim_divergence_add(&d, one, even, 4, 0); /* what p never says costs nothing */
    near(d.kl_sum, log(4));
    assert_true(d.n_same == 1); /* the lower id of equal ones */
    whim_divergence_add(&d, even, even, 4, 3);
    near(d.nll_q, 2 * log(4));
    whim_divergence_add(&d, large, large, 4, 0);
    near(d.kl_sum, log(4));
    whim_divergence_add(&d, even, one, 4, -1);
    assert_true(isinf(d.kl_max));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_distributions),
        cmocka_unit_test(edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Log-probabilities against a log-softmax in double. */
#include "ops/ref/sample_ref.h"
#include "support/cmocka.h"

#include <stdint.h>

#include "support/law_sampler.h"

#include "base/math/rng.h"

#include <math.h>
#include <stdlib.h>

static void make(float *x, int32_t n, float scale)
{
    for (int32_t i = 0; i < n; i++) {
        x[i] = scale * whim_rng_normal_at(9, (uint64_t)i);
    }
}

static double exact(const float *x, int32_t n, int32_t id)
{
    long double sum = 0, most = x[0];
    for (int32_t i = 1; i < n; i++) {
        most = x[i] > most ? x[i] : most;
    }
    for (int32_t i = 0; i < n; i++) {
        sum += expl(x[i] - most);
    }
    return (double)(x[id] - most - logl(sum));
}

static void log_softmax_is_exact(void **state)
{
    (void)state;
    static const int32_t sizes[] = {1, 2, 1023, 1024, 1025, 49152};
    for (int s = 0; s < 6; s++) {
        int32_t n = sizes[s], ids[] = {0, n / 2, n - 1};
        float *x = malloc((size_t)n * sizeof *x), got[3];
        for (int scale = 1; scale < 100; scale *= 7) {
            make(x, n, (float)scale);
            whim_sample_logprobs_at(x, n, ids, 3, got);
            for (int i = 0; i < 3; i++) {
                double want = exact(x, n, ids[i]);
                assert_true(fabs((double)got[i] - want) <= 2e-7 + 1e-7 * fabs(want));
                assert_true(got[i] <= 1e-7f);
            }
        }
        free(x);
    }
}

static void alternatives_are_ranked(void **state)
{
    (void)state;
    static const float x[] = {1, 3, 3, -INFINITY, 2, 3};
    int32_t ids[WHIM_MAX_LOGPROBS];
    float lp[WHIM_MAX_LOGPROBS];
    assert_int_equal(whim_sample_logprobs_top(x, 6, 4, ids, lp), 4);
    static const int32_t want[] = {1, 2, 5, 4};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ids[i], want[i]);
        assert_true(fabs((double)lp[i] - exact(x, 6, want[i])) < 1e-6);
    }
    assert_int_equal(whim_sample_logprobs_top(x, 6, 50, ids, lp), 6); /* no more than there are */
    assert_int_equal(ids[5], 3);
    assert_true(isinf(lp[5]));
    assert_int_equal(whim_sample_logprobs_top(x, 6, 0, ids, lp), 0);
}

/* The raw distribution: temperature and filters do not touch it. */
static void a_pick_reports_the_raw_distribution(void **state)
{
    (void)state;
    float x[300];
    whim_sample_params p;
    whim_sampled got;
    whim_diag diag;
    make(x, 300, 2);
    whim_sample_params_init(&p);
    p.temperature = 0.3f;
    p.top_k = 5;
    p.n_logprob = 7;
    law_row row = {.logits = x};
    law_sampler sampler = law_sampler_open(300);
    assert_int_equal(law_pick(&sampler, &p, &row, &got, &diag), WHIM_ERR_OK);
    assert_int_equal(got.n_top, 7);
    assert_true(fabs((double)got.logprob - exact(x, 300, got.id)) < 1e-6);
    for (int i = 0; i < 7; i++) {
        assert_true(fabs((double)got.top_logprob[i] - exact(x, 300, got.top_id[i])) < 1e-6);
        assert_true(i == 0 || got.top_logprob[i] <= got.top_logprob[i - 1]);
    }
    p.n_logprob = 0;
    p.want_logprob = true;
    assert_int_equal(law_pick(&sampler, &p, &row, &got, &diag), WHIM_ERR_OK);
    assert_int_equal(got.n_top, 0);
    assert_true(got.logprob < 0);
    law_sampler_close(&sampler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_softmax_is_exact),
        cmocka_unit_test(alternatives_are_ranked),
        cmocka_unit_test(a_pick_reports_the_raw_distribution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

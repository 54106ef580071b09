/* SPDX-License-Identifier: Apache-2.0 */
/* The law of the gated delta net against double precision over 70,000 tokens, and cut into calls of
 * any length. */
#include "ops/ops.h"

#include "base/math/fmath.h"
#include "base/math/rng.h"
#include "support/cmocka.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 70000, DK = 4, DV = 5, HEADS = 2, TAPS = 4, WIDTH = 2 * DK + HEADS * DV };

typedef struct world {
    float x[N][WIDTH], conv[N][WIDTH], b[N][HEADS], a[N][HEADS], out[N][HEADS * DV];
    float w[WIDTH][TAPS], rate[HEADS], dt_bias[HEADS];
    int32_t positions[N];
    float state[HEADS * DK * DV + (TAPS - 1) * WIDTH];
} world;

static world *make(void)
{
    world *w = malloc(sizeof *w);
    assert_non_null(w);
    uint64_t n = 0;
    for (int64_t i = 0; i < N; i++) {
        for (int c = 0; c < WIDTH; c++) {
            w->x[i][c] = whim_rng_normal_at(7, n++);
        }
        for (int h = 0; h < HEADS; h++) {
            w->b[i][h] = whim_rng_normal_at(7, n++);
            w->a[i][h] = whim_rng_normal_at(7, n++);
        }
        w->positions[i] = (int32_t)i;
    }
    for (int c = 0; c < WIDTH; c++) {
        for (int j = 0; j < TAPS; j++) {
            w->w[c][j] = whim_rng_normal_at(7, n++);
        }
    }
    /* One head that forgets within tens of tokens, one that remembers thousands. */
    w->rate[0] = -0.05f, w->rate[1] = -1e-4f;
    w->dt_bias[0] = -1.0f, w->dt_bias[1] = 0.5f;
    return w;
}

/* Rows first .. first + n - 1 of the one sequence. */
static void run(world *w, int64_t first, int64_t n)
{
    whim_stream s;
    whim_law_stream_init(&s);
    const int32_t q_start[] = {0, (int32_t)n}, slot = 0;
    whim_state_view state = {.slots = w->state, .slot_stride = sizeof w->state, .n_slot = 1};
    whim_state_view conv_state = state;
    conv_state.offset = HEADS * DK * DV * (int64_t)sizeof(float);
    whim_gdn_conv_args conv = {.x = w->x[first],
                               .x_stride = WIDTH,
                               .w = w->w[0],
                               .state = conv_state,
                               .q_start = q_start,
                               .positions = w->positions + first,
                               .state_slots = &slot,
                               .y = w->conv[first],
                               .y_stride = WIDTH,
                               .n_row = n,
                               .n_seq = 1,
                               .n_chan = WIDTH,
                               .n_tap = TAPS};
    whim_gdn_scan_args scan = {.qkv = w->conv[first],
                               .qkv_stride = WIDTH,
                               .b = w->b[first],
                               .b_stride = HEADS,
                               .a = w->a[first],
                               .a_stride = HEADS,
                               .rate = w->rate,
                               .dt_bias = w->dt_bias,
                               .state = state,
                               .q_start = q_start,
                               .positions = w->positions + first,
                               .state_slots = &slot,
                               .out = w->out[first],
                               .n_row = n,
                               .n_seq = 1,
                               .n_key = 1,
                               .n_value = HEADS,
                               .d_key = DK,
                               .d_value = DV};
    assert_int_equal(whim_op_gdn_conv(&s, &conv), WHIM_ERR_OK);
    assert_int_equal(whim_op_gdn_scan(&s, &scan), WHIM_ERR_OK);
}

static void conv_exact(const world *w, int64_t t, double *c)
{
    for (int i = 0; i < WIDTH; i++) {
        double sum = 0;
        for (int j = 0; j < TAPS; j++) {
            int64_t from = t - (TAPS - 1) + j;
            sum += from >= 0 ? (double)w->w[i][j] * w->x[from][i] : 0;
        }
        c[i] = sum / (1 + exp(-sum));
    }
}

static void unit(const double *x, double *y)
{
    double sum = 1e-6;
    for (int i = 0; i < DK; i++) {
        sum += x[i] * x[i];
    }
    for (int i = 0; i < DK; i++) {
        y[i] = x[i] / sqrt(sum);
    }
}

/* One token in double; the largest distance of the law's outputs from it. */
static double exact_token(const world *w, int64_t t, double state[HEADS][DK][DV], double *largest)
{
    double c[WIDTH], q[DK], k[DK], worst = 0;
    conv_exact(w, t, c);
    unit(c, q);
    unit(c + DK, k);
    for (int h = 0; h < HEADS; h++) {
        double dt = log1p(exp((double)w->a[t][h] + w->dt_bias[h]));
        double decay = exp(w->rate[h] * dt), beta = 1 / (1 + exp(-(double)w->b[t][h]));
        for (int j = 0; j < DV; j++) {
            double read = 0, out = 0;
            for (int i = 0; i < DK; i++) {
                state[h][i][j] *= decay;
                read += state[h][i][j] * k[i];
            }
            for (int i = 0; i < DK; i++) {
                state[h][i][j] += k[i] * beta * (c[2 * DK + h * DV + j] - read);
                out += state[h][i][j] * q[i] / sqrt(DK);
            }
            double off = fabs(out - (double)w->out[t][h * DV + j]);
            worst = off > worst || isnan(off) ? off : worst;
            *largest = fabs(out) > *largest ? fabs(out) : *largest;
        }
    }
    return worst;
}

/* Rounding errors do not pile up: the rule pulls every direction back that it meets. */
static void near_double_precision(void **unused)
{
    (void)unused;
    world *w = make();
    double state[HEADS][DK][DV] = {{{0}}}, worst = 0, largest = 0;
    run(w, 0, N);
    for (int64_t t = 0; t < N; t++) {
        double off = exact_token(w, t, state, &largest);
        worst = off > worst || isnan(off) ? off : worst;
    }
    assert_true(largest > 0.1 && largest < 100);
    if (!(worst < 1e-5 * largest)) {
        fail_msg("%g of %g off", worst, largest);
    }
    free(w);
}

static void calls_of_any_length(void **unused)
{
    (void)unused;
    static const int64_t lengths[] = {1, 2, 3, 1, 40, 4096, 65537};
    world *w = make(), *cut = make();
    run(w, 0, N);
    memset(cut->state, 0x55,
           sizeof cut->state); /* a slot is not cleared for a sequence that begins */
    int64_t at = 0;
    for (size_t i = 0; at < N; i++) {
        int64_t n = lengths[i % 7] < N - at ? lengths[i % 7] : N - at;
        run(cut, at, n);
        at += n;
    }
    assert_memory_equal(w->conv, cut->conv, sizeof w->conv);
    assert_memory_equal(w->out, cut->out, sizeof w->out);
    assert_memory_equal(w->state, cut->state, sizeof w->state);
    free(w);
    free(cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_double_precision),
        cmocka_unit_test(calls_of_any_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

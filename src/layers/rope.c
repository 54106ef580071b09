/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary frequencies. */
#include "layers/rope.h"

#include "base/math/fmath.h"

static const double PI = 3.14159265358979323846;

/* llama3: short waves stay, long ones are stretched by `factor`, those between are mixed. */
static double llama3_scale(const whim_rope_config *rope, double freq)
{
    double wave = 2.0 * PI / freq;
    if (wave < rope->orig_ctx / rope->high_freq) {
        return freq;
    }
    if (wave > rope->orig_ctx / rope->low_freq) {
        return freq / rope->factor;
    }
    double smooth = (rope->orig_ctx / wave - rope->low_freq) / (rope->high_freq - rope->low_freq);
    return (1.0 - smooth) * freq / rope->factor + smooth * freq;
}

/* YaRN: the (fractional) index of the frequency that turns `turns` times over the original
 * context. */
static double yarn_index(const whim_rope_config *rope, double turns)
{
    return rope->rotary_dim * whim_ln(rope->orig_ctx / (turns * 2.0 * PI)) /
           (2.0 * whim_ln(rope->theta));
}

static double clamp(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

static double yarn_scale(const whim_rope_config *rope, double freq, int32_t i)
{
    double low = yarn_index(rope, rope->beta_fast), high = yarn_index(rope, rope->beta_slow);
    if (rope->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low > 0.0 ? low : 0.0;
    high = high < rope->rotary_dim - 1.0 ? high : rope->rotary_dim - 1.0;
    if (low == high) {
        high += 0.001; /* a step instead of a division by zero, as the reference does */
    }
    double ramp = clamp((i - low) / (high - low), 0.0, 1.0);
    return freq / rope->factor * ramp + freq * (1.0 - ramp);
}

void whim_rope_freqs(const whim_rope_config *rope, double *freqs)
{
    for (int32_t i = 0; i < rope->rotary_dim / 2; i++) {
        double freq = 1.0 / whim_pow(rope->theta, 2.0 * i / rope->rotary_dim);
        switch (rope->kind) {
        case WHIM_ROPE_LINEAR:
            freq /= rope->factor;
            break;
        case WHIM_ROPE_LLAMA3:
            freq = llama3_scale(rope, freq);
            break;
        case WHIM_ROPE_YARN:
            freq = yarn_scale(rope, freq, i);
            break;
        case WHIM_ROPE_DEFAULT:
            break;
        }
        freqs[i] = rope->divisors != NULL ? freq / rope->divisors[i] : freq;
    }
}

double whim_rope_scale(const whim_rope_config *rope)
{
    return rope->kind == WHIM_ROPE_YARN ? rope->attn_factor : 1.0;
}

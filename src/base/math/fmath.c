/* SPDX-License-Identifier: Apache-2.0 */
/* The double-precision functions of fmath.h. Series with exactly known coefficients are evaluated
 * after a reduction that keeps a low part, so that only the last addition rounds noticeably. Speed
 * does not matter here; being below 1 ulp and equal on every CPU does. */
#include "base/math/fmath.h"

#define LN2_HI 0x1.62e42fefa39efp-1
#define LN2_LO 0x1.abc9e3b39803fp-56

/* The unevaluated sum hi + lo, |lo| at most half an ulp of hi. */
typedef struct dd {
    double hi;
    double lo;
} dd;

/* A function, because compilers of device code have no compound literals. */
static dd dd_of(double hi, double lo)
{
    dd x = {hi, lo};
    return x;
}

static dd dd_sum(double a, double b)
{
    double s = a + b;
    double t = s - a;
    return dd_of(s, (a - (s - t)) + (b - t));
}

static dd dd_prod(double a, double b)
{
    double p = a * b;
    return dd_of(p, whim_fma(a, b, -p));
}

static dd dd_add(dd a, dd b)
{
    dd s = dd_sum(a.hi, b.hi);
    return dd_sum(s.hi, s.lo + (a.lo + b.lo));
}

static dd dd_mul(dd a, dd b)
{
    dd p = dd_prod(a.hi, b.hi);
    return dd_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

/* coef[0] + coef[1] x + ... by Horner with fma. */
static double poly(double x, const double *coef, int n)
{
    double y = coef[n - 1];
    for (int i = n - 2; i >= 0; i--) {
        y = whim_fma(y, x, coef[i]);
    }
    return y;
}

/* y * 2^k for |k| up to 1100 or so, y normal: two factors, neither out of range. */
static double scale2(double y, int64_t k)
{
    int64_t k1 = k >> 1;
    int64_t k2 = k - k1;
    return y * whim_f64_from_bits((uint64_t)(k1 + 1023) << 52) *
           whim_f64_from_bits((uint64_t)(k2 + 1023) << 52);
}

/* e^(x.hi + x.lo). */
static double exp_dd(dd x)
{
    static const double coef[] = {
        1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,
        1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
        1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0,
    };
    if (x.hi != x.hi) {
        return x.hi;
    }
    if (x.hi > 710.0) {
        return INFINITY;
    }
    if (x.hi < -746.0) {
        return 0.0;
    }
    double n = nearbyint(x.hi * 0x1.71547652b82fep+0);
    dd r = dd_sum(whim_fma(n, -LN2_HI, x.hi), whim_fma(n, -LN2_LO, x.lo));
    double tail = whim_fma(poly(r.hi, coef, 12), r.hi * r.hi, r.lo);
    dd one_r = dd_sum(1.0, r.hi);
    return scale2(one_r.hi + (one_r.lo + tail), (int64_t)n);
}

/* log of a positive finite x: x = 2^k m with m within sqrt(2) of 1, and with s = (m-1)/(m+1)
 * log m = 2s + 2s^3/3 + 2s^5/5 + ...; the first two terms with a low part. Error below 2^-64. */
static dd log_dd(double x)
{
    static const double coef[] = {
        2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13, 2.0 / 15,
        2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23, 2.0 / 25,
    };
    int64_t k = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        k = -54;
    }
    uint64_t u = whim_f64_bits(x);
    uint64_t sqrt_half = UINT64_C(0x3fe6a09e667f3bcd);
    uint64_t top = (u - sqrt_half) & UINT64_C(0xfff0000000000000);
    k += (int64_t)top >> 52;
    double m = whim_f64_from_bits(u - top);
    double f = m - 1.0; /* exact: m is in [0.7, 1.42) */
    dd den = dd_sum(m, 1.0);
    dd s = {f / den.hi, 0.0};
    s.lo = (whim_fma(-s.hi, den.hi, f) - s.hi * den.lo) / den.hi;
    dd z = dd_mul(s, s);
    dd cubic = dd_mul(dd_mul(s, z), dd_of(2 * 0x1.5555555555555p-2, 2 * 0x1.5555555555555p-56));
    double rest = s.hi * z.hi * z.hi * poly(z.hi, coef, 11);
    dd log_m = dd_add(dd_add(dd_of(2 * s.hi, 2 * s.lo), cubic), dd_of(rest, 0.0));
    dd log_2k = dd_prod((double)k, LN2_HI);
    log_2k.lo += (double)k * LN2_LO;
    return dd_add(log_2k, log_m);
}

double whim_exp(double x)
{
    return exp_dd(dd_of(x, 0.0));
}

double whim_ln(double x)
{
    if (!(x > 0.0)) {
        return x == 0.0 ? -INFINITY : NAN;
    }
    if (x == INFINITY) {
        return x;
    }
    return log_dd(x).hi;
}

double whim_log1p(double x)
{
    if (!(x > -1.0)) {
        return x == -1.0 ? -INFINITY : NAN;
    }
    if (x == INFINITY || x == 0.0) {
        return x;
    }
    dd u = dd_sum(1.0, x);
    return dd_add(log_dd(u.hi), dd_of(u.lo / u.hi, 0.0)).hi;
}

double whim_pow(double x, double y)
{
    if (y == 0.0 || x == 1.0) {
        return 1.0;
    }
    if (!(x >= 0.0) || y != y) {
        return NAN;
    }
    if (x == 0.0 || x == INFINITY) {
        return (x == 0.0) == (y > 0.0) ? 0.0 : INFINITY;
    }
    if (fabs(y) > 0x1p70) { /* |log x| is at least 2^-53: far out of range, and no inf - inf */
        return (x > 1.0) == (y > 0.0) ? INFINITY : 0.0;
    }
    dd l = log_dd(x);
    dd p = dd_prod(l.hi, y);
    return exp_dd(dd_sum(p.hi, whim_fma(l.lo, y, p.lo)));
}

/* sin r for |r| <= pi/4 (a little more is harmless). */
static double sin_poly(dd r)
{
    static const double coef[] = {
        -1.0 / 6,        1.0 / 120,          -1.0 / 5040,         1.0 / 362880,
        -1.0 / 39916800, 1.0 / 6227020800.0, -1.0 / 1307674368e3, 1.0 / 355687428096e3,
    };
    double z = r.hi * r.hi;
    double low = whim_fma(-0.5 * z, r.lo, r.lo); /* cos(r) * r.lo */
    return r.hi + whim_fma(r.hi * z, poly(z, coef, 8), low);
}

static double cos_poly(dd r)
{
    static const double coef[] = {
        1.0 / 24,        -1.0 / 720,           1.0 / 40320,         -1.0 / 3628800,
        1.0 / 479001600, -1.0 / 87178291200.0, 1.0 / 20922789888e3,
    };
    double z = r.hi * r.hi;
    dd head = dd_sum(1.0, -0.5 * z);
    double z_lo = whim_fma(r.hi, r.hi, -z);
    double low = head.lo - whim_fma(r.hi, r.lo, 0.5 * z_lo);
    return head.hi + whim_fma(z * z, poly(z, coef, 7), low);
}

/* x - n pi/2, pi/2 in three parts. With |n| < 2^31 the first subtraction is exact, and what is left
 * out is below 2^-130, so that even the worst cancellation keeps a full double. */
void whim_sincos(double x, double *sin_out, double *cos_out)
{
    if (!(fabs(x) <= 0x1p31)) {
        *sin_out = NAN;
        *cos_out = NAN;
        return;
    }
    double n = nearbyint(x * 0x1.45f306dc9c883p-1);
    double head = whim_fma(n, -0x1.921fb54442d18p+0, x);
    dd mid = dd_prod(n, -0x1.1a62633145c07p-54);
    dd r = dd_add(dd_of(head, 0.0), mid);
    r = dd_add(r, dd_of(n * 0x1.f1976b7ed8fbcp-110, 0.0));
    double s = sin_poly(r);
    double c = cos_poly(r);
    int quadrant = (int)((int64_t)n & 3);
    double a = quadrant & 1 ? c : s;
    double b = quadrant & 1 ? s : c;
    *sin_out = quadrant & 2 ? -a : a;
    *cos_out = quadrant == 1 || quadrant == 2 ? -b : b;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the vectors of x86 share but for their width: a level defines VX(name), the intrinsic of its
 * width, and VXI(name), the same of whole registers of integers, after its own types. */

static inline vf vf_zero(void)
{
    return VX(setzero_ps)();
}
static inline vf vf_set1(float x)
{
    return VX(set1_ps)(x);
}
static inline vf vf_load(const float *p)
{
    return VX(loadu_ps)(p);
}
static inline void vf_store(float *p, vf x)
{
    VX(storeu_ps)(p, x);
}
static inline vf vf_mul(vf a, vf b)
{
    return VX(mul_ps)(a, b);
}
#if VX_WIDTH > 128 /* not by __FMA__: the lowest level may be compiled for a newer CPU */
/* a * b + c, rounded once. */
static inline vf vf_fma(vf a, vf b, vf c)
{
    return VX(fmadd_ps)(a, b, c);
}
/* The same with one a for all lanes. */
static inline vf vf_fma1(float a, vf b, vf c)
{
    return VX(fmadd_ps)(VX(set1_ps)(a), b, c);
}
#endif
/* The larger of both; acc where x is a NaN. */
static inline vf vf_max_over(vf acc, vf x)
{
    return VX(max_ps)(x, acc);
}
/* x limited to [lo, hi]; a NaN stays a NaN. */
static inline vf vf_clamp(vf x, vf lo, vf hi)
{
    return VX(min_ps)(hi, VX(max_ps)(lo, x));
}

static inline vi vi_set1(int32_t x)
{
    return VX(set1_epi32)(x);
}
static inline vi vi_add(vi a, vi b)
{
    return VX(add_epi32)(a, b);
}
static inline vf vi_to_vf(vi x)
{
    return VX(cvtepi32_ps)(x);
}

static inline vb vb_load(const void *p)
{
    return VXI(loadu)(p);
}
static inline void vb_store(void *p, vb x)
{
    VXI(storeu)(p, x);
}
static inline vb vb_or(vb a, vb b)
{
    return VXI(or)(a, b);
}
static inline vb vb_sub1(vb a, uint8_t b)
{
    return VX(sub_epi8)(a, VX(set1_epi8)((char)b));
}
/* The field of `bits` bits at `from` of every byte, moved to `to`, all else 0; constants where this
 * is inlined. */
static inline vb vb_place(vb x, int from, int bits, int to)
{
    vb moved = from > to   ? VX(srli_epi16)(x, (VX_SHIFT)(from - to))
               : from < to ? VX(slli_epi16)(x, (VX_SHIFT)(to - from))
                           : x;
    return VXI(and)(moved, VX(set1_epi8)((char)(((1 << bits) - 1) << to)));
}

/* Four activations in every lane. */
static inline vb vb_four(const int8_t *a)
{
    int32_t four;
    memcpy(&four, a, sizeof four);
    return VX(set1_epi32)(four);
}
#if VX_WIDTH > 128 && !(VX_WIDTH == 512 && defined(__AVX512VNNI__))
/* Two products fit an int16: codes are below 64, magnitudes at most 128, activations never -128. */
static inline vi vi_dot4_small(vi acc, vb w, vb a)
{
    vi pairs = VX(maddubs_epi16)(w, a);
    return VX(add_epi32)(acc, VX(madd_epi16)(pairs, VX(set1_epi16)(1)));
}
static inline vi vi_dot4_code(vi acc, vb w, const int8_t *a)
{
    return vi_dot4_small(acc, w, vb_four(a));
}
#endif

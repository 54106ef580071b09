/* SPDX-License-Identifier: Apache-2.0 */
/* whim_expf of EXP_LANES floats at once, bit for bit, shared by all levels: included once per level
 * after its vec header. The steps are those of base/math/fmath.h; several vectors take each step
 * together, because a loop over whim_expf alone is one long chain of dependent instructions that
 * fills the CPU's queues with waiting. */
#include "base/math/fmath.h"

/* Two vectors fill the CPU; with more, constants and values would not fit the registers. */
enum { EXP_VECS = VF < WHIM_LANES ? 2 : 1, EXP_LANES = EXP_VECS * VF };

typedef uint32_t vu __attribute__((vector_size(VF * sizeof(float))));

#define EACH_VEC for (int v = 0; v < EXP_VECS; v++)

/* The steps of both: e^r for x = n ln2 + r, without its power of two, and n with what the rounding
 * added to it. */
static inline __attribute__((always_inline)) void vf_exp_parts(vf x[EXP_VECS], vf n[EXP_VECS],
                                                               vu k[EXP_VECS])
{
    const vf magic = vf_set1(0x1.8p23f), one = vf_set1(1.0f);
    vf r[EXP_VECS], q[EXP_VECS], head[EXP_VECS];
    EACH_VEC n[v] = vf_fma(x[v], vf_set1(0x1.715476p+0f), magic);
    EACH_VEC k[v] = (vu)n[v];
    EACH_VEC n[v] = n[v] - magic;
    EACH_VEC r[v] = vf_fma(n[v], vf_set1(-0x1.62e43p-1f), x[v]);
    EACH_VEC r[v] = vf_fma(n[v], vf_set1(0x1.05c61p-29f), r[v]);
    EACH_VEC q[v] = vf_fma(vf_set1(0x1.6a4002p-10f), r[v], vf_set1(0x1.1239ecp-7f));
    EACH_VEC q[v] = vf_fma(q[v], r[v], vf_set1(0x1.5558bep-5f));
    EACH_VEC q[v] = vf_fma(q[v], r[v], vf_set1(0x1.555492p-3f));
    EACH_VEC q[v] = vf_fma(q[v], r[v], vf_set1(0x1.fffffcp-2f));
    EACH_VEC head[v] = one + r[v];
    EACH_VEC q[v] = vf_fma(q[v], r[v] * r[v], (one - head[v]) + r[v]);
    EACH_VEC x[v] = head[v] + q[v];
}

/* x[] = e^x[] */
static inline __attribute__((always_inline)) void vf_exp(vf x[EXP_VECS])
{
    vf n[EXP_VECS];
    vu k[EXP_VECS], k1[EXP_VECS];
    EACH_VEC x[v] = vf_clamp(x[v], vf_set1(-104.0f), vf_set1(89.0f));
    vf_exp_parts(x, n, k);
    EACH_VEC k1[v] = k[v] >> 1;
    EACH_VEC x[v] = (vf)((vu)x[v] + (k1[v] << 23));
    EACH_VEC x[v] = x[v] * (vf)((k[v] - k1[v] + 127u) << 23);
    EACH_VEC x[v] = vf_fma(n[v], vf_zero(), x[v]); /* n is a NaN where x was; else + 0 */
}

/* The same for x from -80 to 0, where the result is far from the ends of the range; anything for
 * others. */
static inline __attribute__((always_inline)) void vf_exp_near(vf x[EXP_VECS])
{
    vf n[EXP_VECS];
    vu k[EXP_VECS];
    vf_exp_parts(x, n, k);
    EACH_VEC x[v] = (vf)((vu)x[v] + (k[v] << 23));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* sqrtf, fabs and nearbyint are known to the compiler; IEEE, as the build asks for it. */
#ifndef WHIM_CUDA_MATH_H
#define WHIM_CUDA_MATH_H

#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
#define __builtin_fmaf __fmaf_rn
#define __builtin_fma __fma_rn

#endif

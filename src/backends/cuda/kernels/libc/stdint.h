/* SPDX-License-Identifier: Apache-2.0 */
/* What the project's headers ask of the C library, for a compiler that has none. */
#ifndef WHIM_CUDA_STDINT_H
#define WHIM_CUDA_STDINT_H

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long uintptr_t;

#define UINT32_C(x) x##u
#define UINT64_C(x) x##ul
#define INT32_MAX 0x7fffffff
#define INT64_MAX 0x7fffffffffffffffl
#define UINT32_MAX 0xffffffffu
#define UINT64_MAX 0xfffffffffffffffful

#endif

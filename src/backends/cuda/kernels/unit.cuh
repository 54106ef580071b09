/* SPDX-License-Identifier: Apache-2.0 */
/* wide_mma(c, a, b): the unit that reads its operands out of shared memory (sm_90a alone) adds 64
 * lines x N of 16 k to the N / 2 sums of a thread, which the number of them chooses. */
#pragma once
#include "common.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Names of the first 4, 8, ... sums in the instruction. */
#define UNIT_4 "%0, %1, %2, %3"
#define UNIT_8 UNIT_4 ", %4, %5, %6, %7"
#define UNIT_16 UNIT_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define UNIT_24 UNIT_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define UNIT_32 UNIT_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define UNIT_36 UNIT_32 ", %32, %33, %34, %35"
#define UNIT_40 UNIT_36 ", %36, %37, %38, %39"
#define UNIT_48 UNIT_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define UNIT_52 UNIT_48 ", %48, %49, %50, %51"
#define UNIT_56 UNIT_52 ", %52, %53, %54, %55"
#define UNIT_64 UNIT_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define UNIT_72 UNIT_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define UNIT_80 UNIT_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define UNIT_96                                                                                   \
    UNIT_80 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"

/* And the sums themselves, from number i on. */
#define SUMS_4(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define SUMS_8(i) SUMS_4(i), SUMS_4(i + 4)
#define SUMS_16(i) SUMS_8(i), SUMS_8(i + 8)
#define SUMS_24(i) SUMS_16(i), SUMS_8(i + 16)
#define SUMS_32(i) SUMS_16(i), SUMS_16(i + 16)
#define SUMS_36(i) SUMS_32(i), SUMS_4(i + 32)
#define SUMS_40(i) SUMS_32(i), SUMS_8(i + 32)
#define SUMS_48(i) SUMS_32(i), SUMS_16(i + 32)
#define SUMS_52(i) SUMS_48(i), SUMS_4(i + 48)
#define SUMS_56(i) SUMS_48(i), SUMS_8(i + 48)
#define SUMS_64(i) SUMS_32(i), SUMS_32(i + 32)
#define SUMS_72(i) SUMS_64(i), SUMS_8(i + 64)
#define SUMS_80(i) SUMS_64(i), SUMS_16(i + 64)
#define SUMS_96(i) SUMS_64(i), SUMS_32(i + 64)

/* N, half of it, and the number of the first operand behind the sums and of the second. */
#define UNIT(n, sums, first, second)                                                            \
    static void wide_mma(float (&c)[sums], uint64_t a, uint64_t b)                              \
    {                                                                                           \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" UNIT_##sums   \
                     "}, %" #first ", %" #second ", 1, 1, 1, 0, 0;"                             \
                     : SUMS_##sums(0)                                                           \
                     : "l"(a), "l"(b));                                                         \
    }
UNIT(8, 4, 4, 5)
UNIT(16, 8, 8, 9)
UNIT(32, 16, 16, 17)
UNIT(48, 24, 24, 25)
UNIT(64, 32, 32, 33)
UNIT(72, 36, 36, 37)
UNIT(80, 40, 40, 41)
UNIT(96, 48, 48, 49)
UNIT(104, 52, 52, 53)
UNIT(112, 56, 56, 57)
UNIT(128, 64, 64, 65)
UNIT(144, 72, 72, 73)
UNIT(160, 80, 80, 81)
UNIT(192, 96, 96, 97)

#endif

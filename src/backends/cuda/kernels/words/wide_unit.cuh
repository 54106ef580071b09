/* SPDX-License-Identifier: Apache-2.0 */
/* wide_mma(c, a, b): the unit that reads its operands out of shared memory (sm_90a alone) adds 64
 * lines x N of 16 k to the N / 2 sums of a thread, which the number of them chooses. All lanes of the
 * four warps of a group come along. b, and a where it is no registers, says where an operand lies. The
 * unit works on while the threads do: what it reads and adds to is its own from wide_begin until
 * wide_until, or wide_added, says that it has ended. */
#pragma once

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


/* The same with the first operand in registers; `types` of both, whether it adds, and whether the
 * second is turned: lines of columns in place of columns. Operands are counted behind the sums. */
#define UNIT_OF(n, sums, types, a0, a1, a2, a3, b, add, turned)                                     \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." types " {" UNIT_##sums           \
                 "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b ", " add ", 1, 1, " turned ";" \
                 : SUMS_##sums(0)                                                                   \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(x)
#define UNIT_REGISTERS(n, sums, ...)                                      \
    static void wide_mma(float (&c)[sums], const uint32_t *a, uint64_t x) \
    {                                                                     \
        UNIT_OF(n, sums, "bf16.bf16", __VA_ARGS__, "1", "0"));            \
    }
UNIT_REGISTERS(16, 8, 8, 9, 10, 11, 12)
UNIT_REGISTERS(32, 16, 16, 17, 18, 19, 20)
UNIT_REGISTERS(64, 32, 32, 33, 34, 35, 36)
UNIT_REGISTERS(128, 64, 64, 65, 66, 67, 68)

#define UNIT_TURNED(n, sums, ...)                                                \
    static void wide_mma_turned(float (&c)[sums], const uint32_t *a, uint64_t x) \
    {                                                                            \
        UNIT_OF(n, sums, "bf16.bf16", __VA_ARGS__, "1", "1"));                   \
    }
UNIT_TURNED(64, 32, 32, 33, 34, 35, 36)
UNIT_TURNED(128, 64, 64, 65, 66, 67, 68)

/* F16, and ADD: c = the products, or c += them. */
#define UNIT_F16(n, sums, a0, a1, a2, a3, b, add)                                 \
    template <int ADD>                                                            \
    static void wide_mma_f16(float (&c)[sums], const uint32_t *a, uint64_t x)     \
    {                                                                             \
        UNIT_OF(n, sums, "f16.f16", a0, a1, a2, a3, b, "%" #add, "0"), "n"(ADD)); \
    }
UNIT_F16(32, 16, 16, 17, 18, 19, 20, 21)
UNIT_F16(64, 32, 32, 33, 34, 35, 36, 37)
UNIT_F16(128, 64, 64, 65, 66, 67, 68, 69)

/* Before the first of some wide_mma, and after the last, which are a group then. */
static void wide_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static void wide_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Until at most N groups are under way. */
template <int N> static void wide_until()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* The unit has ended with these sums: the compiler may touch them. */
template <int N> static void wide_added(float (&c)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        asm volatile("" : "+f"(c[i])::"memory");
    }
}

/* What this thread has written to shared memory can be read by the unit and by bulk copies, after a
 * barrier. */
static void wide_may_read()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#endif

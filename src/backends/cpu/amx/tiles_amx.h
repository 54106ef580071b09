/* SPDX-License-Identifier: Apache-2.0 */
/* Tile registers: their shapes and instructions. A worker loads the shapes before its first product
 * of a command and releases the registers after it, so that a switch of threads need not save them.
 * Threads: the state is the calling thread's. */
#ifndef WHIM_BACKENDS_CPU_AMX_TILES_AMX_H
#define WHIM_BACKENDS_CPU_AMX_TILES_AMX_H

#include <stddef.h>
#include <stdint.h>

enum { TILE_ROWS = 16, TILE_ROW_BYTES = 64 };

/* The layout that ldtilecfg reads. */
typedef struct tile_shapes {
    uint8_t palette, start_row, zero[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_shapes;
_Static_assert(sizeof(tile_shapes) == 64, "ldtilecfg reads 64 bytes");

/* What the calling thread's registers are shaped as; NULL: released. */
static _Thread_local const tile_shapes *tiles_now;

static inline void tiles_want(const tile_shapes *shapes)
{
    if (tiles_now != shapes) {
        __asm__ volatile("ldtilecfg %0" : : "m"(*shapes));
        tiles_now = shapes;
    }
}

static inline void tiles_release(void)
{
    if (tiles_now != NULL) {
        __asm__ volatile("tilerelease" : : : "memory");
        tiles_now = NULL;
    }
}

/* Tile numbers are part of the instruction. Loads clobber memory too: what they read must have been
 * written, and the compiler does not see what that is. */
#define TILE_LOAD(tile, at, stride)                     \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile \
                     :                                  \
                     : "r"(at), "r"((int64_t)(stride))  \
                     : "memory")
#define TILE_STORE(tile, at, stride)                        \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" \
                     :                                      \
                     : "r"(at), "r"((int64_t)(stride))      \
                     : "memory")
#define TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile ::)
/* c += a * b: c [rows][16] int32 or F32; a [rows][k]; b [k / 4][16][4] int8, or [k / 2][16][2]
 * BF16. */
#define TILE_DOT_INT8(c, a, b) __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::)
#define TILE_DOT_BF16(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::)

#endif

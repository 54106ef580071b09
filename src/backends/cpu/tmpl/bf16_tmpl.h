/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of BF16 weights times BF16 rows, for levels whose bf16_rows takes a few rows at a time:
 * BF16_ROW_COUNTS lists how many, largest first, 1 last. Included after bf16_rows. */

/* out [rows][16] = all rows with one tile; n_step * 32 inputs. */
static void bf16_tile(whim_cpu_bf16_rows a, const uint16_t *w, int64_t n_step, int64_t rows,
                      float *out)
{
    for (int64_t r = 0; r < rows;) {
        int64_t row0 = r / 16 * 16, block = rows - row0 < 16 ? rows - row0 : 16;
        const uint16_t *at = a.at + (row0 * a.pitch + a.first * block + r - row0) * 32;
#define TAKE(n)                                                           \
    if (rows - r >= (n)) {                                                \
        bf16_rows(n, at, block * 32, w, n_step, out + r * WHIM_CPU_TILE); \
        r += (n);                                                         \
        continue;                                                         \
    }
        BF16_ROW_COUNTS(TAKE)
#undef TAKE
    }
}

/* The same, and out + out_next with the tile w2 unless that is NULL. */
static void bf16_product(whim_cpu_bf16_rows a, const uint16_t *w, const uint16_t *w2,
                         int64_t n_step, int64_t rows, float *out, int64_t out_next)
{
    bf16_tile(a, w, n_step, rows, out);
    if (w2 != NULL) {
        bf16_tile(a, w2, n_step, rows, out + out_next);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* FP8 weights on a BF16 unit: a block of 128 k is opened as BF16, which holds every code exactly,
 * its sums are made by bf16_product and scaled once, as in whim_fp8_dot_step. The same for every
 * number of rows. The level gives FP8_OPEN, which opens FP8_OPEN_CODES codes. Included by
 * product_tmpl.h. */

enum {
    FP8_CODES = WHIM_FP8_BLOCK * WHIM_CPU_TILE, /* of a block */
    FP8_STEPS = WHIM_FP8_BLOCK / 32,
};

/* What is in a job's scratch; for two tiles. */
typedef struct fp8_room {
    uint16_t open[2][FP8_CODES];
    float sums[2][CHUNK_ROWS * WHIM_CPU_TILE];
} fp8_room;
enum { FP8_ROOM = sizeof(fp8_room) };
_Static_assert((int)FP8_ROOM <= (int)OPEN_BYTES && FP8_ROOM % 64 == 0, "a block fits the scratch");

static void fp8_open(const uint8_t *codes, uint16_t *out)
{
    for (int i = 0; i < FP8_CODES; i += FP8_OPEN_CODES) {
        FP8_OPEN(codes + i, out + i);
    }
}

/* out += sums * scales */
static void fp8_add(const float *sums, const float *scales, int64_t rows, float *out)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int v = 0; v < WHIM_CPU_TILE; v += VF) {
            float *at = out + r * WHIM_CPU_TILE + v;
            vf sum = vf_load(sums + r * WHIM_CPU_TILE + v);
            vf_store(at, vf_fma(sum, vf_load(scales + v), vf_load(at)));
        }
    }
}

static void float_fp8(const product_job *job)
{
    fp8_room *room = job->scratch;
    const char *tiles[2] = {job->tile, job->second};
    int n_tile = job->second != NULL ? 2 : 1;
    int64_t n_block = job->k / WHIM_FP8_BLOCK;
    for (int t = 0; t < n_tile; t++) {
        memset(job->out + t * CHUNK_ROWS * WHIM_CPU_TILE, 0,
               (size_t)(job->rows * WHIM_CPU_TILE) * sizeof *job->out);
    }
    for (int64_t b = 0; b < n_block; b++) {
        for (int t = 0; t < n_tile; t++) {
            fp8_open((const uint8_t *)tiles[t] + b * FP8_CODES, room->open[t]);
        }
        bf16_product((whim_cpu_bf16_rows){job->bf16, n_block * FP8_STEPS, b * FP8_STEPS},
                     room->open[0], n_tile == 2 ? room->open[1] : NULL, FP8_STEPS, job->rows,
                     room->sums[0], CHUNK_ROWS * WHIM_CPU_TILE);
        for (int t = 0; t < n_tile; t++) {
            const float *scales = (const float *)(tiles[t] + n_block * FP8_CODES);
            fp8_add(room->sums[t], scales + b * WHIM_CPU_TILE, job->rows,
                    job->out + t * CHUNK_ROWS * WHIM_CPU_TILE);
        }
    }
}

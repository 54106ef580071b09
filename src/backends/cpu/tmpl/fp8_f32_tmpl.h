/* SPDX-License-Identifier: Apache-2.0 */
/* FP8 weights and F32 rows: the sums of a block of 128 k are made as with float weights and scaled
 * once, as in whim_fp8_dot_step. Few rows take the codes as they lie, many a block that was opened
 * as F32 for all of them. Included by product_tmpl.h. */

enum {
    FP8_CODES = WHIM_FP8_BLOCK * WHIM_CPU_TILE, /* of a block */
    FP8_ROOM = FP8_CODES * sizeof(float),       /* bytes of a job's scratch */
};
_Static_assert((int)FP8_ROOM <= (int)OPEN_BYTES, "a block fits the scratch");

/* out [rows][16] += `rows` (a constant) rows of x times one block, in codes or opened as `type`
 * says. */
ALWAYS_INLINE void fp8_block(whim_dtype type, int rows, const void *block, const float *scales,
                             const float *x, int64_t x_stride, float *out)
{
    vf part[FLOAT_ROWS][TILE_VECS];
    for (int r = 0; r < rows; r++) {
        for (int v = 0; v < TILE_VECS; v++) {
            part[r][v] = vf_set1(0.0f);
        }
    }
    float_stretch(type, rows, block, WHIM_FP8_BLOCK, x, x_stride, part);
    for (int r = 0; r < rows; r++) {
        for (int v = 0; v < TILE_VECS; v++) {
            float *at = out + r * WHIM_CPU_TILE + v * VF;
            vf_store(at, vf_fma(part[r][v], vf_load(scales + v * VF), vf_load(at)));
        }
    }
}

ALWAYS_INLINE void fp8_rows(whim_dtype type, const product_job *job, const void *block, int64_t k0,
                            const float *scales)
{
    int64_t r = 0;
    for (; r + FLOAT_ROWS <= job->rows; r += FLOAT_ROWS) {
        fp8_block(type, FLOAT_ROWS, block, scales, job->x + r * job->x_stride + k0, job->x_stride,
                  job->out + r * WHIM_CPU_TILE);
    }
    for (; r < job->rows; r++) {
        fp8_block(type, 1, block, scales, job->x + r * job->x_stride + k0, job->x_stride,
                  job->out + r * WHIM_CPU_TILE);
    }
}

static const float *fp8_open(const uint8_t *codes, float *out)
{
    for (int i = 0; i < WHIM_FP8_BLOCK; i++) {
        vf open[TILE_VECS];
        vf_load_e4m3(codes + i * WHIM_CPU_TILE, open);
        for (int v = 0; v < TILE_VECS; v++) {
            vf_store(out + i * WHIM_CPU_TILE + v * VF, open[v]);
        }
    }
    return out;
}

static void float_fp8(const product_job *job)
{
    const uint8_t *codes = (const uint8_t *)job->tile;
    const float *scales = (const float *)(job->tile + job->k * WHIM_CPU_TILE);
    memset(job->out, 0, (size_t)(job->rows * WHIM_CPU_TILE) * sizeof *job->out);
    for (int64_t k = 0; k < job->k; k += WHIM_FP8_BLOCK) {
        if (job->rows > FLOAT_ROWS) {
            fp8_rows(WHIM_DTYPE_F32, job, fp8_open(codes, job->scratch), k, scales);
        } else {
            fp8_rows(WHIM_DTYPE_FP8, job, codes, k, scales);
        }
        codes += FP8_CODES;
        scales += WHIM_CPU_TILE;
    }
}

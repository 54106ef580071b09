/* SPDX-License-Identifier: Apache-2.0 */
/* Making rows: read what belongs to them, take the codes apart, write blocks of our types. */
#include "weights/quantised/recipe.h"

#include "base/alloc.h"
#include "base/check.h"
#include "tensor/fp8.h"
#include "tensor/half.h"
#include "tensor/quant.h"

#include <math.h>
#include <string.h>

/* All that some rows need. Lines of codes lie as in the file, cut to these rows. */
typedef struct rows {
    const whim_ckpt *ckpt;
    const whim_recipe *r;
    int64_t row0, n_row;
    int64_t per;    /* codes in a word */
    int64_t word0;  /* the word along n with the first row, where words run along n */
    int64_t n_word; /* how many of them */
    /* BYTES: [n_row][k]; PACKED: [n_row][k / per]; GPTQ: [k / per][n_row]; AWQ: [k][n_word] */
    void *codes;
    float *scales;  /* [n_row][n_group] */
    int16_t *zeros; /* the same, or NULL */
    int32_t *g_idx; /* [k], or NULL */
    uint8_t *line;  /* [k] codes of one row */
    char *space;    /* all of the above and what is read on the way, taken at once */
    int64_t used, size;
} rows;

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static void *take(rows *w, int64_t bytes)
{
    char *at = w->space + w->used;
    w->used += whim_aligned(bytes);
    whim_check(w->used <= w->size);
    return at;
}

/* `len` bytes at `at` of each of n_line lines from line0 on; in one piece where lines are whole. */
static whim_err read_lines(const whim_ckpt *ckpt, const whim_ckpt_tensor *t, int64_t stride,
                           int64_t line0, int64_t n_line, int64_t at, int64_t len, void *dst,
                           whim_diag *diag)
{
    if (at == 0 && len == stride) {
        return whim_ckpt_read(ckpt, t, line0 * stride, n_line * stride, dst, diag);
    }
    for (int64_t i = 0; i < n_line; i++) {
        WHIM_TRY(
            whim_ckpt_read(ckpt, t, (line0 + i) * stride + at, len, (char *)dst + i * len, diag));
    }
    return WHIM_ERR_OK;
}

static bool runs_along_n(const whim_recipe *r)
{
    return r->layout == WHIM_RECIPE_GPTQ || r->layout == WHIM_RECIPE_AWQ;
}

/* --- scales and zero points ------------------------------------------------------------------- */

static whim_err load_scales(rows *w, whim_diag *diag)
{
    const whim_recipe *r = w->r;
    bool across = runs_along_n(r);
    int64_t size = whim_dtype_row_bytes(r->scales.dtype, 1), groups = r->n_group;
    int64_t line0 = across ? 0 : w->row0 / r->group_n;
    int64_t n_line = across ? groups : (w->row0 + w->n_row - 1) / r->group_n - line0 + 1;
    int64_t width = across ? w->n_row : groups;
    char *raw = take(w, n_line * width * size);
    w->scales = take(w, w->n_row * groups * (int64_t)sizeof *w->scales);
    WHIM_TRY(read_lines(w->ckpt, &r->scales, across ? r->n * size : groups * size, line0, n_line,
                        across ? w->row0 * size : 0, width * size, raw, diag));
    for (int64_t i = 0; i < w->n_row; i++) {
        for (int64_t g = 0; g < groups; g++) {
            int64_t from =
                across ? g * width + i : ((w->row0 + i) / r->group_n - line0) * width + g;
            whim_dequant_row(r->scales.dtype, raw + from * size, &w->scales[i * groups + g], 1);
        }
    }
    return WHIM_ERR_OK;
}

/* The place of a code in its word, in steps of its bits. */
static int64_t place_in_word(const whim_recipe *r, int64_t i, int64_t per)
{
    static const int8_t awq[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return r->layout == WHIM_RECIPE_AWQ ? awq[i % 8] : i % per;
}

static whim_err load_zeros(rows *w, whim_diag *diag)
{
    const whim_recipe *r = w->r;
    if (r->zeros.file < 0) {
        return WHIM_ERR_OK;
    }
    bool across = runs_along_n(r);
    int64_t groups = r->n_group, n_line = across ? groups : w->n_word;
    int64_t width = across ? w->n_word : groups;
    uint32_t mask = (1u << r->bits) - 1;
    uint32_t *raw = take(w, n_line * width * (int64_t)sizeof *raw);
    w->zeros = take(w, w->n_row * groups * (int64_t)sizeof *w->zeros);
    WHIM_TRY(read_lines(w->ckpt, &r->zeros, 4 * (across ? r->n / w->per : groups),
                        across ? 0 : w->word0, n_line, across ? 4 * w->word0 : 0, 4 * width, raw,
                        diag));
    for (int64_t i = 0; i < w->n_row; i++) {
        int64_t n = w->row0 + i, word = n / w->per - w->word0;
        int64_t shift = r->bits * place_in_word(r, n, w->per);
        for (int64_t g = 0; g < groups; g++) {
            uint32_t bits = raw[across ? g * width + word : word * width + g];
            w->zeros[i * groups + g] = (int16_t)((bits >> shift & mask) + (uint32_t)r->zero_offset);
        }
    }
    return WHIM_ERR_OK;
}

static whim_err load_groups(rows *w, whim_diag *diag)
{
    if (w->r->g_idx.file < 0) {
        return WHIM_ERR_OK;
    }
    w->g_idx = take(w, w->r->k * (int64_t)sizeof *w->g_idx);
    return whim_ckpt_read(w->ckpt, &w->r->g_idx, 0, w->r->k * 4, w->g_idx, diag);
}

/* --- codes ------------------------------------------------------------------------------------ */

static whim_err load_codes(rows *w, whim_diag *diag)
{
    const whim_recipe *r = w->r;
    int64_t line0 = w->row0, n_line = w->n_row, stride = 0, at = 0, len = 0;
    switch (r->layout) {
    case WHIM_RECIPE_BYTES:
        stride = len = r->k;
        break;
    case WHIM_RECIPE_PACKED:
        stride = len = 4 * divide_up(r->k, w->per);
        break;
    case WHIM_RECIPE_GPTQ:
        line0 = 0;
        n_line = r->k / w->per;
        stride = 4 * r->n;
        at = 4 * w->row0;
        len = 4 * w->n_row;
        break;
    default:
        line0 = 0;
        n_line = r->k;
        stride = 4 * (r->n / w->per);
        at = 4 * w->word0;
        len = 4 * w->n_word;
    }
    w->codes = take(w, n_line * len);
    w->line = take(w, r->k);
    return read_lines(w->ckpt, &r->codes, stride, line0, n_line, at, len, w->codes, diag);
}

/* The codes of row i of these, in order of k. */
static const uint8_t *codes_of(rows *w, int64_t i)
{
    const whim_recipe *r = w->r;
    const uint32_t *words = w->codes;
    uint32_t mask = (1u << r->bits) - 1;
    int64_t per = w->per;
    switch (r->layout) {
    case WHIM_RECIPE_BYTES:
        return (const uint8_t *)w->codes + i * r->k;
    case WHIM_RECIPE_PACKED:
        for (int64_t k = 0; k < r->k; k++) {
            w->line[k] =
                (uint8_t)(words[i * divide_up(r->k, per) + k / per] >> r->bits * (k % per) & mask);
        }
        break;
    case WHIM_RECIPE_GPTQ:
        for (int64_t k = 0; k < r->k; k++) {
            w->line[k] = (uint8_t)(words[k / per * w->n_row + i] >> r->bits * (k % per) & mask);
        }
        break;
    default: {
        int64_t n = w->row0 + i, shift = r->bits * place_in_word(r, n, per);
        for (int64_t k = 0; k < r->k; k++) {
            w->line[k] = (uint8_t)(words[k * w->n_word + n / per - w->word0] >> shift & mask);
        }
    }
    }
    return w->line;
}

/* --- blocks ----------------------------------------------------------------------------------- */

static int64_t group_of(const rows *w, int64_t k)
{
    return w->g_idx != NULL ? w->g_idx[k] : k / w->r->group_k;
}

static int32_t zero_of(const rows *w, int64_t i, int64_t group)
{
    return w->zeros != NULL ? w->zeros[i * w->r->n_group + group] : w->r->zero;
}

/* FP8 and INT8: the scale, then the codes as they are. */
static void write_bytes(const rows *w, int64_t i, const uint8_t *codes, char *dst)
{
    for (int64_t k = 0; k < w->r->k; k += WHIM_FP8_BLOCK, dst += WHIM_FP8_BLOCK_BYTES) {
        float scale = w->scales[i * w->r->n_group + group_of(w, k)];
        memcpy(dst, &scale, sizeof scale);
        memcpy(dst + WHIM_FP8_CODES_AT, codes + k, WHIM_FP8_BLOCK);
    }
}

/* Q4_0, Q4_1 and Q8_0: blocks of 32 with scales of 16 bits. */
static void write_blocks(const rows *w, whim_dtype dtype, int64_t i, const uint8_t *codes,
                         char *dst)
{
    for (int64_t k = 0; k < w->r->k; k += WHIM_GROUP) {
        int64_t group = group_of(w, k);
        float scale = w->scales[i * w->r->n_group + group];
        int32_t zero = zero_of(w, i, group);
        uint16_t d = whim_f32_to_f16(scale), m = whim_f32_to_f16(-(float)zero * scale);
        memcpy(dst, &d, sizeof d);
        dst += sizeof d;
        if (dtype == WHIM_DTYPE_Q4_1) {
            memcpy(dst, &m, sizeof m);
            dst += sizeof m;
        }
        if (dtype == WHIM_DTYPE_Q8_0) {
            for (int64_t j = 0; j < WHIM_GROUP; j++) {
                *dst++ = (char)(int8_t)((int32_t)codes[k + j] - zero);
            }
        } else {
            for (int64_t j = 0; j < WHIM_GROUP / 2; j++) {
                *dst++ = (char)(codes[k + j] | codes[k + j + WHIM_GROUP / 2] << 4);
            }
        }
    }
}

static void write_floats(const rows *w, whim_dtype dtype, int64_t i, const uint8_t *codes,
                         char *dst)
{
    bool is_signed = w->r->layout == WHIM_RECIPE_BYTES;
    for (int64_t k = 0; k < w->r->k; k++) {
        int64_t group = group_of(w, k);
        float scale = w->scales[i * w->r->n_group + group];
        int32_t code = is_signed ? (int8_t)codes[k] : codes[k];
        float value =
            w->r->is_float ? whim_e4m3_to_f32(codes[k]) : (float)(code - zero_of(w, i, group));
        value *= scale;
        uint16_t half = whim_f32_to_f16_sat(value);
        if (dtype == WHIM_DTYPE_F32) {
            memcpy(dst + 4 * k, &value, sizeof value);
        } else {
            memcpy(dst + 2 * k, &half, sizeof half);
        }
    }
}

/* Bytes that the scales, zeros and groups of some rows take, and their codes. */
static int64_t facts_bytes(const whim_recipe *r, int64_t n_row)
{
    int64_t per = 32 / r->bits, n_scale = n_row * r->n_group;
    int64_t n_word = n_row / per + 2; /* rows may begin and end within a word */
    int64_t bytes = whim_aligned(n_scale * whim_dtype_row_bytes(r->scales.dtype, 1)) +
                    whim_aligned(n_scale * (int64_t)sizeof(float));
    if (r->zeros.file >= 0) {
        bytes += whim_aligned(4 * n_word * r->n_group) +
                 whim_aligned(n_scale * (int64_t)sizeof(int16_t));
    }
    return r->g_idx.file >= 0 ? bytes + whim_aligned(4 * r->k) : bytes;
}

int64_t whim_recipe_scratch_bytes(const whim_recipe *r, int64_t n_row)
{
    int64_t per = 32 / r->bits;
    int64_t codes = r->layout == WHIM_RECIPE_BYTES ? n_row * r->k
                    : r->layout == WHIM_RECIPE_AWQ ? 4 * r->k * (n_row / per + 2)
                                                   : 4 * n_row * divide_up(r->k, per);
    return facts_bytes(r, n_row) + whim_aligned(codes) + whim_aligned(r->k);
}

static whim_err rows_begin(rows *w, const whim_ckpt *ckpt, const whim_recipe *r, int64_t row0,
                           int64_t n_row, int64_t size, whim_diag *diag)
{
    *w = (rows){.ckpt = ckpt, .r = r, .row0 = row0, .n_row = n_row, .per = 32 / r->bits};
    w->word0 = row0 / w->per;
    w->n_word = divide_up(row0 + n_row, w->per) - w->word0;
    w->size = size;
    w->space = whim_alloc(size);
    return w->space != NULL
               ? WHIM_ERR_OK
               : whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory to read %s", r->codes.file_name);
}

static whim_err load_facts(rows *w, whim_diag *diag)
{
    WHIM_TRY(load_scales(w, diag));
    WHIM_TRY(load_zeros(w, diag));
    return load_groups(w, diag);
}

static void write_row(rows *w, whim_dtype dtype, int64_t i, char *to)
{
    const uint8_t *codes = codes_of(w, i);
    if (dtype == WHIM_DTYPE_FP8 || dtype == WHIM_DTYPE_INT8) {
        write_bytes(w, i, codes, to);
    } else if (whim_dtype_get(dtype)->kind == WHIM_DTYPE_KIND_FLOAT) {
        write_floats(w, dtype, i, codes, to);
    } else {
        write_blocks(w, dtype, i, codes, to);
    }
}

whim_err whim_recipe_read(const whim_ckpt *ckpt, const whim_ckpt_tensor *tensor, int64_t row0,
                          int64_t n_row, void *dst, whim_diag *diag)
{
    rows w;
    whim_err err;
    const whim_recipe *r = tensor->recipe;
    WHIM_TRY_OUT(rows_begin(&w, ckpt, r, row0, n_row, whim_recipe_scratch_bytes(r, n_row), diag));
    WHIM_TRY_OUT(load_facts(&w, diag));
    WHIM_TRY_OUT(load_codes(&w, diag));
    int64_t row_bytes = whim_dtype_row_bytes(tensor->dtype, r->k);
    for (int64_t i = 0; i < n_row; i++) {
        write_row(&w, tensor->dtype, i, (char *)dst + i * row_bytes);
    }
out:
    whim_free(w.space);
    return err;
}

/* --- before loading --------------------------------------------------------------------------- */

enum { PIECE = 1 << 16 }; /* values that are looked at in one go */

/* Value `at` of the scales, which are stored along n or along the groups. */
static whim_err refuse_scale(const whim_recipe *r, int64_t at, float scale, float max,
                             whim_diag *diag)
{
    bool across = runs_along_n(r);
    int64_t row = across ? at % r->n : at / r->n_group * r->group_n;
    int64_t group = across ? at / r->n : at % r->n_group;
    return whim_fail(diag, WHIM_ERR_CORRUPT,
                     "tensor \"%.200s\": the scale of row %lld, group %lld is %g, expected a "
                     "number of at most %g; the file is damaged, fetch it again",
                     r->scales.file_name, (long long)row, (long long)group, (double)scale,
                     (double)max);
}

/* As they are stored: a scale of many rows is looked at once. */
static whim_err check_scales(const whim_ckpt *ckpt, const whim_recipe *r, float max, void *space,
                             whim_diag *diag)
{
    int64_t size = whim_dtype_row_bytes(r->scales.dtype, 1);
    int64_t n = divide_up(r->n, r->group_n) * r->n_group;
    float *values = space;
    char *raw = (char *)(values + PIECE);
    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t len = n - at < PIECE ? n - at : PIECE;
        WHIM_TRY(whim_ckpt_read(ckpt, &r->scales, at * size, len * size, raw, diag));
        whim_dequant_row(r->scales.dtype, raw, values, len);
        for (int64_t i = 0; i < len; i++) {
            if (!(fabsf(values[i]) <= max)) {
                return refuse_scale(r, at + i, values[i], max, diag);
            }
        }
    }
    return WHIM_ERR_OK;
}

/* Whether the words are those of the usual zero points; what pads the last ones does not count. */
static whim_err check_zeros(const whim_ckpt *ckpt, const whim_recipe *r, int32_t usual,
                            uint32_t *words, bool *are_usual, whim_diag *diag)
{
    int64_t per = 32 / r->bits, n = divide_up(r->n, per) * r->n_group;
    int64_t n_whole = runs_along_n(r) ? n : r->n / per * r->n_group;
    uint32_t mask = (1u << r->bits) - 1, want = 0;
    for (int64_t i = 0; i < per; i++) {
        want |= ((uint32_t)(usual - r->zero_offset) & mask) << r->bits * i;
    }
    for (int64_t at = 0; at < n && *are_usual; at += PIECE) {
        int64_t len = n - at < PIECE ? n - at : PIECE;
        WHIM_TRY(whim_ckpt_read(ckpt, &r->zeros, at * 4, len * 4, words, diag));
        for (int64_t i = 0; i < len; i++) {
            uint32_t care = at + i < n_whole ? UINT32_MAX : (1u << r->bits * (r->n % per)) - 1;
            *are_usual = *are_usual && ((words[i] ^ want) & care) == 0;
        }
    }
    return WHIM_ERR_OK;
}

static whim_err check_groups(const whim_ckpt *ckpt, const whim_recipe *r, int32_t *g_idx,
                             bool *in_order, whim_diag *diag)
{
    for (int64_t at = 0; at < r->k; at += PIECE) {
        int64_t len = r->k - at < PIECE ? r->k - at : PIECE;
        WHIM_TRY(whim_ckpt_read(ckpt, &r->g_idx, at * 4, len * 4, g_idx, diag));
        for (int64_t i = 0; i < len; i++) {
            if (g_idx[i] < 0 || g_idx[i] >= r->n_group) {
                return whim_fail(
                    diag, WHIM_ERR_CORRUPT,
                    "tensor \"%.200s\": element %lld is %d, expected a group from 0 to %lld",
                    r->g_idx.file_name, (long long)(at + i), g_idx[i], (long long)(r->n_group - 1));
            }
            *in_order = *in_order && g_idx[i] == (at + i) / r->group_k;
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_recipe_check(const whim_ckpt *ckpt, const whim_recipe *r, float max, int32_t usual,
                           whim_recipe_facts *facts, whim_diag *diag)
{
    whim_err err;
    *facts = (whim_recipe_facts){.in_order = true, .zeros_usual = true};
    void *space = whim_alloc(PIECE * 8);
    WHIM_TRY(whim_got(space != NULL, diag, "no memory to read %s", r->scales.file_name));
    WHIM_TRY_OUT(check_scales(ckpt, r, max, space, diag));
    if (r->zeros.file >= 0) {
        WHIM_TRY_OUT(check_zeros(ckpt, r, usual, space, &facts->zeros_usual, diag));
    }
    if (r->g_idx.file >= 0) {
        err = check_groups(ckpt, r, space, &facts->in_order, diag);
    }
out:
    whim_free(space);
    return err;
}

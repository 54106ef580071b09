/* SPDX-License-Identifier: Apache-2.0 */
/* Builds cases: the generator, buffers with their canaries and contents, calls and their pointers.
 * Invariant: a case depends on (seed, op, index) and the length of the device's pages only, so that
 * the same number names the same case on every backend and level. */
#include "checkop/harness.h"

#include "base/check.h"
#include "base/math/fmath.h"
#include "tensor/half.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

float checkop_somewhere[16];
const int32_t checkop_some_ids[1];

uint64_t checkop_rand(checkop_rng *rng)
{
    uint64_t z = (rng->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int64_t checkop_range(checkop_rng *rng, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(checkop_rand(rng) % (uint64_t)(hi - lo + 1));
}

bool checkop_chance(checkop_rng *rng, int64_t one_in)
{
    return checkop_range(rng, 1, one_in) == 1;
}

int64_t checkop_pick_from(checkop_rng *rng, int64_t n, const int64_t *list)
{
    return list[checkop_range(rng, 0, n - 1)];
}

void checkop_shuffle(checkop_rng *rng, int32_t *list, int64_t n)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = checkop_range(rng, 0, i);
        int32_t t = list[i];
        list[i] = list[j];
        list[j] = t;
    }
}

void checkop_say(checkop_case *c, const char *fmt, ...)
{
    size_t used = strlen(c->text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->text + used, sizeof c->text - used, fmt, ap);
    va_end(ap);
}

/* --- buffers ---------------------------------------------------------------------------------- */

static void *must_alloc(int64_t bytes)
{
    void *p = aligned_alloc(64, (size_t)((bytes + 127) / 64 * 64));
    whim_check(p != NULL);
    return p;
}

int32_t checkop_buf_add(checkop_case *c, checkop_buf b, int64_t offset_bytes)
{
    whim_check(c->n_buf < CHECKOP_MAX_BUF && b.stride_bytes >= b.row_bytes && b.rows >= 0);
    int64_t span = b.rows > 0 ? (b.rows - 1) * b.stride_bytes + b.row_bytes : 0;
    b.head = CHECKOP_PAD + offset_bytes;
    b.bytes = b.head + span + CHECKOP_PAD;
    b.init = must_alloc(b.bytes);
    b.law = must_alloc(b.bytes);
    b.full = must_alloc(b.bytes);
    for (int64_t i = 0; i < b.bytes; i++) {
        b.init[i] = (uint8_t)(0xc5 ^ (i * 37) ^ (i >> 8));
    }
    c->buf[c->n_buf] = b;
    return c->n_buf++;
}

int32_t checkop_matrix(checkop_case *c, const char *name, checkop_role role, checkop_fill fill,
                       int64_t rows, int64_t cols, int64_t stride, int64_t offset)
{
    checkop_buf b = {.name = name,
                     .role = role,
                     .fill = fill,
                     .kind = CHECKOP_F32,
                     .rows = rows,
                     .cols = cols,
                     .row_bytes = 4 * cols,
                     .stride_bytes = 4 * stride};
    return checkop_buf_add(c, b, 4 * offset);
}

int32_t checkop_ids(checkop_case *c, const char *name, int64_t n, int32_t lo, int32_t hi)
{
    checkop_buf b = {.name = name,
                     .fill = CHECKOP_IDS,
                     .kind = CHECKOP_I32,
                     .rows = n,
                     .cols = 1,
                     .row_bytes = 4,
                     .stride_bytes = 4,
                     .id_lo = lo,
                     .id_hi = hi};
    return checkop_buf_add(c, b, 4);
}

int32_t checkop_given(checkop_case *c, const char *name, int64_t n, int32_t **out)
{
    checkop_buf b = {.name = name,
                     .fill = CHECKOP_GIVEN,
                     .kind = CHECKOP_I32,
                     .rows = n,
                     .cols = 1,
                     .row_bytes = 4,
                     .stride_bytes = 4};
    int32_t number = checkop_buf_add(c, b, 4);
    *out = checkop_i32(c, number);
    return number;
}

int32_t checkop_bytes(checkop_case *c, const char *name, checkop_role role, checkop_fill fill,
                      int64_t rows, int64_t row_bytes, int64_t stride_bytes, int64_t offset)
{
    checkop_buf b = {.name = name,
                     .role = role,
                     .fill = fill,
                     .kind = CHECKOP_BYTES,
                     .rows = rows,
                     .cols = row_bytes,
                     .row_bytes = row_bytes,
                     .stride_bytes = stride_bytes};
    return checkop_buf_add(c, b, offset);
}

int32_t checkop_weight(checkop_case *c, const char *name, whim_dtype dtype, int64_t n, int64_t k)
{
    int64_t row_bytes = whim_dtype_row_bytes(dtype, k);
    checkop_buf b = {.name = name,
                     .role = CHECKOP_WEIGHT,
                     .fill = CHECKOP_BLOCKS,
                     .kind = CHECKOP_BYTES,
                     .dtype = dtype,
                     .rows = n,
                     .cols = k,
                     .row_bytes = row_bytes,
                     .stride_bytes = row_bytes};
    return checkop_buf_add(c, b, 0);
}

int32_t *checkop_i32(checkop_case *c, int32_t buf)
{
    return (int32_t *)(void *)(c->buf[buf].init + c->buf[buf].head);
}

checkop_call *checkop_call_add(checkop_case *c, whim_op op)
{
    whim_check(c->n_call < CHECKOP_MAX_CALL);
    checkop_call *call = &c->call[c->n_call++];
    memset(call, 0, sizeof *call);
    call->op = op;
    return call;
}

void checkop_space_add(checkop_case *c)
{
    int64_t most = 0;
    for (int32_t i = 0; i < c->n_call; i++) {
        int64_t bytes = whim_law_workspace(c->call[i].op, c->call[i].args.bytes);
        most = bytes > most ? bytes : most;
    }
    most = (most + 63) / 64 * 64;
    checkop_bytes(c, "workspace", CHECKOP_SPARE, CHECKOP_JUNK, 1, most, most, 0);
}

void checkop_bind_at(checkop_case *c, checkop_call *call, size_t field, int32_t buf,
                     int64_t row_step)
{
    whim_check(call->n_bind < CHECKOP_MAX_BIND);
    whim_check(buf >= 0 && buf < c->n_buf);
    call->bind[call->n_bind++] = (checkop_bind){.field = field, .buf = buf, .row_step = row_step};
}

void checkop_resolve(const checkop_case *c, const checkop_call *call, int32_t side, void *args)
{
    memcpy(args, call->args.bytes, sizeof call->args.bytes);
    for (int32_t i = 0; i < call->n_bind; i++) {
        const checkop_bind *bind = &call->bind[i];
        const checkop_buf *b = &c->buf[bind->buf];
        const void *p = side < 0 ? b->law + b->head + bind->offset
                                 : (uint8_t *)b->dev[side] + b->dev_head[side] + bind->offset;
        memcpy((uint8_t *)args + bind->field, &p, sizeof p);
    }
}

void checkop_slice(const checkop_case *c, int64_t row, checkop_call *call)
{
    const int64_t one = 1;
    for (int32_t i = 0; i < call->n_bind; i++) {
        call->bind[i].offset += row * call->bind[i].row_step;
    }
    memcpy(call->args.bytes + c->n_row_field, &one, sizeof one);
    if (c->slice != NULL) {
        c->slice(c, row, call);
    }
}

/* --- contents --------------------------------------------------------------------------------- */

static float fill_sane(checkop_rng *rng)
{
    float a = (float)(int32_t)checkop_rand(rng) * 0x1p-31f;
    float b = (float)(int32_t)checkop_rand(rng) * 0x1p-31f;
    return a + b;
}

static float fill_wild(checkop_rng *rng, bool any)
{
    static const float list[] = {
        0.0f,   -0.0f,   0x1p-149f, -0x1p-149f, 0x1.8p-127f, -0x1p-130f, 0x1p-126f, 1e-30f,
        1e-20f, -1e-12f, 1e4f,      -1e4f,      65504.0f,    -70000.0f,  1e15f,     -1e15f,
        1e19f,  -3e19f,  1e30f,     -3.4e38f,   88.0f,       -88.0f,     104.5f,    -104.5f,
    };
    static const float special[] = {INFINITY, -INFINITY, NAN, -NAN};
    uint64_t r = checkop_rand(rng);
    if (any && r % 6 == 0) {
        return special[r / 6 % 4];
    }
    return r % 3 == 0 ? list[r / 3 % (sizeof list / sizeof list[0])] : fill_sane(rng);
}

static void fill_row(checkop_case *c, checkop_buf *b, uint8_t *row, int64_t r)
{
    for (int64_t j = 0; j < b->cols; j++) {
        if (b->fill == CHECKOP_IDS) {
            int32_t id = (int32_t)checkop_range(&c->rng, b->id_lo, b->id_hi);
            memcpy(row + 4 * j, &id, 4);
        } else if (b->fill == CHECKOP_FREQS) {
            double f =
                1.0 / (1.0 + (double)r * 7.5 + (double)checkop_range(&c->rng, 0, 1000) * 1e-3);
            memcpy(row + 8 * j, &f, 8);
        } else {
            float x = b->fill == CHECKOP_SANE ? fill_sane(&c->rng)
                                              : fill_wild(&c->rng, b->fill == CHECKOP_ANY);
            memcpy(row + 4 * j, &x, 4);
        }
    }
}

/* Where the halves with the scales of a block are; -1: none. MXFP4 has an exponent byte instead,
 * INT8 and FP8 have a float at 0. */
static void scale_fields(whim_dtype dtype, int32_t field[2])
{
    field[0] = 0;
    field[1] = -1;
    switch (dtype) {
    case WHIM_DTYPE_Q4_1:
    case WHIM_DTYPE_Q5_1:
    case WHIM_DTYPE_Q4_K:
    case WHIM_DTYPE_Q5_K:
        field[1] = 2;
        break;
    case WHIM_DTYPE_Q2_K:
        field[0] = 80;
        field[1] = 82;
        break;
    case WHIM_DTYPE_Q3_K:
        field[0] = 108;
        break;
    case WHIM_DTYPE_Q6_K:
        field[0] = 208;
        break;
    default:
        break;
    }
}

static void fill_float_weights(checkop_rng *rng, whim_dtype dtype, uint8_t *dst, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float x = checkop_chance(rng, 50) ? 0.0f : fill_sane(rng);
        uint16_t h = dtype == WHIM_DTYPE_F16 ? whim_f32_to_f16(x * 0x1p-3f) : whim_f32_to_bf16(x);
        if (dtype == WHIM_DTYPE_F32) {
            memcpy(dst + 4 * i, &x, 4);
        } else {
            h = checkop_chance(rng, 60) ? (uint16_t)checkop_range(rng, 0, 0x7f) : h; /* subnormal */
            memcpy(dst + 2 * i, &h, 2);
        }
    }
}

static float fill_scale(checkop_rng *rng)
{
    float x = fill_sane(rng) * (checkop_chance(rng, 20) ? 0x1p-18f : 0x1p-5f);
    return checkop_chance(rng, 30) ? 0.0f : x;
}

/* A block of INT8 or FP8 of random codes gets its scale, and most NaN codes become numbers. */
static void fix_block128(checkop_rng *rng, whim_dtype dtype, uint8_t *block)
{
    float d = fill_scale(rng);
    memcpy(block, &d, sizeof d);
    for (int32_t i = 4; i < 132 && dtype == WHIM_DTYPE_FP8; i++) {
        bool nan = (block[i] & 0x7f) == 0x7f;
        block[i] ^= nan && !checkop_chance(rng, 100) ? 0x11 : 0;
    }
}

void checkop_fill_blocks(checkop_rng *rng, whim_dtype dtype, uint8_t *dst, int64_t n_block)
{
    const whim_dtype_info *info = whim_dtype_get(dtype);
    if (info->kind == WHIM_DTYPE_KIND_FLOAT) {
        fill_float_weights(rng, dtype, dst, n_block);
        return;
    }
    int32_t field[2];
    scale_fields(dtype, field);
    for (int64_t i = 0; i < n_block; i++, dst += info->block_bytes) {
        for (int32_t j = 0; j < info->block_bytes; j++) {
            dst[j] = (uint8_t)checkop_rand(rng);
        }
        if (dtype == WHIM_DTYPE_MXFP4) {
            dst[0] = (uint8_t)(checkop_chance(rng, 40) ? checkop_range(rng, 0, 2)
                                                       : checkop_range(rng, 110, 135));
            continue;
        }
        if (dtype == WHIM_DTYPE_INT8 || dtype == WHIM_DTYPE_FP8) {
            fix_block128(rng, dtype, dst);
            continue;
        }
        for (int32_t j = 0; j < 2; j++) {
            uint16_t h = whim_f32_to_f16(fill_scale(rng));
            if (field[j] >= 0) {
                memcpy(dst + field[j], &h, 2);
            }
        }
    }
}

void checkop_fill_case(checkop_case *c)
{
    for (int32_t i = 0; i < c->n_buf; i++) {
        checkop_buf *b = &c->buf[i];
        for (int64_t r = 0; r < b->rows; r++) {
            uint8_t *row = b->init + b->head + r * b->stride_bytes;
            if (b->fill == CHECKOP_ZERO) {
                memset(row, 0, (size_t)b->row_bytes);
            } else if (b->fill == CHECKOP_BLOCKS) {
                const whim_dtype_info *info = whim_dtype_get(b->dtype);
                checkop_fill_blocks(&c->rng, b->dtype, row, b->row_bytes / info->block_bytes);
            } else if (b->fill != CHECKOP_GIVEN && b->fill != CHECKOP_JUNK) {
                fill_row(c, b, row, r);
            }
        }
    }
}

void checkop_case_init(checkop_case *c, const checkop_run *run, int32_t group, int32_t index)
{
    memset(c, 0, sizeof *c);
    c->rng.state = run->seed * UINT64_C(0xd1342543de82ef95) +
                   (uint64_t)group * UINT64_C(0x2545f4914f6cdd1d) +
                   (uint64_t)index * UINT64_C(0x632be59bd9b4e019);
    checkop_rand(&c->rng);
    c->dtype = WHIM_DTYPE_F32;
    c->page_len = run->side[0].dev->caps.page_len;
    c->has_grids = run->rounds_first;
    checkop_family(group)->make(c, index);
    checkop_space_add(c);
    checkop_fill_case(c);
}

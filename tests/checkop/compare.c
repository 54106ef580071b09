/* SPDX-License-Identifier: Apache-2.0 */
/* Compares images byte by byte outside of the outputs and number by number inside. The tolerances
 * are those of tolerance.def; rows alone and thread counts have none. */
#include "checkop/compare.h"

#include "base/math/fmath.h"

#include <stdio.h>
#include <string.h>

int64_t checkop_tolerance(whim_op op, whim_dtype dtype)
{
#define CHECKOP_TOLERANCE(op_name, dtype_name, ulp)                    \
    if (op == WHIM_OP_##op_name && dtype == WHIM_DTYPE_##dtype_name) { \
        return ulp;                                                    \
    }
#define CHECKOP_ROUNDED(op_name, dtype_name, bits)
#define CHECKOP_ROUNDED_ROWS(op_name, dtype_name, bits)
#include "checkop/tolerance.def"
#undef CHECKOP_TOLERANCE
#undef CHECKOP_ROUNDED
#undef CHECKOP_ROUNDED_ROWS
    return 0;
}

void checkop_fail_head(const checkop_case *c, const checkop_run *run)
{
    printf("FAIL %s %s case %d (--op=%s --seed=%llu --case=%d): %s\n", run->place, run->name,
           run->index, run->name, (unsigned long long)run->seed, run->index, c->text);
}

/* Floats as integers in their order, so that a difference counts the floats in between. */
static int64_t ulp_place(float x)
{
    uint32_t u = whim_f32_bits(x);
    return u >> 31 ? -(int64_t)(u & 0x7fffffffu) - 1 : (int64_t)u;
}

static bool f32_near(float a, float b, int64_t ulp)
{
    if (isnan(a) || isnan(b)) {
        return isnan(a) && isnan(b);
    }
    int64_t gap = ulp_place(a) - ulp_place(b);
    return gap <= ulp && gap >= -ulp;
}

static float f32_at(const uint8_t *row, int64_t col)
{
    float x;
    memcpy(&x, row + 4 * col, 4);
    return x;
}

/* The column of the first difference in a row, or -1. */
static int64_t row_differs(const checkop_buf *b, const uint8_t *want, const uint8_t *got,
                           int64_t ulp)
{
    if (memcmp(want, got, (size_t)b->row_bytes) == 0) {
        return -1;
    }
    int64_t n = b->kind == CHECKOP_F32 ? b->cols : b->row_bytes;
    for (int64_t j = 0; j < n; j++) {
        bool same = b->kind == CHECKOP_F32 ? f32_near(f32_at(want, j), f32_at(got, j), ulp)
                                           : want[j] == got[j];
        if (!same) {
            return j;
        }
    }
    return -1;
}

/* Who is judging: the case, where it runs, and which of its runs. */
typedef struct judge {
    const checkop_case *c;
    const checkop_run *run;
    const char *what;
} judge;

static void print_difference(const judge *j, const checkop_buf *b, int64_t row, int64_t col,
                             const uint8_t *want, const uint8_t *got)
{
    checkop_fail_head(j->c, j->run);
    printf("  %s: %s[%lld][%lld] of [%lld][%lld]: ", j->what, b->name, (long long)row,
           (long long)col, (long long)b->rows, (long long)b->cols);
    if (b->kind == CHECKOP_F32) {
        float w = f32_at(want, col), g = f32_at(got, col);
        printf("expected %.9g (0x%08x), got %.9g (0x%08x)\n", (double)w, whim_f32_bits(w),
               (double)g, whim_f32_bits(g));
    } else {
        printf("byte expected 0x%02x, got 0x%02x\n", want[col], got[col]);
    }
}

static bool canaries_same(const judge *j, const checkop_buf *b, const uint8_t *got)
{
    int64_t at = 0;
    for (int64_t r = 0; r <= b->rows; r++) {
        int64_t end = r == b->rows ? b->bytes : b->head + r * b->stride_bytes;
        for (; at < end; at++) {
            if (got[at] != b->init[at]) {
                checkop_fail_head(j->c, j->run);
                printf(
                    "  %s: %s: wrote outside of its %lld rows of %lld bytes (stride %lld), at byte "
                    "%lld: 0x%02x became 0x%02x\n",
                    j->what, b->name, (long long)b->rows, (long long)b->row_bytes,
                    (long long)b->stride_bytes, (long long)(at - b->head), b->init[at], got[at]);
                return false;
            }
        }
        at = end + b->row_bytes;
    }
    return true;
}

static bool image_same(const judge *j, const checkop_buf *b, const uint8_t *want, int64_t bytes)
{
    if (memcmp(want, b->got, (size_t)bytes) == 0) {
        return true;
    }
    int64_t at = 0;
    while (want[at] == b->got[at]) {
        at++;
    }
    checkop_fail_head(j->c, j->run);
    printf("  %s: input %s changed at byte %lld: 0x%02x became 0x%02x\n", j->what, b->name,
           (long long)(at - b->head), want[at], b->got[at]);
    return false;
}

/* Nothing was written around the workspace, of which each side has as much as it asked for. */
static bool space_same(const judge *j, const checkop_buf *b, int32_t side)
{
    int64_t tail = b->dev_bytes[side] - CHECKOP_PAD;
    if (memcmp(b->got, b->dev_init[side], CHECKOP_PAD) != 0 ||
        memcmp(b->got + tail, b->dev_init[side] + tail, CHECKOP_PAD) != 0) {
        checkop_fail_head(j->c, j->run);
        printf("  %s: wrote outside of the %lld bytes of workspace\n", j->what,
               (long long)(tail - CHECKOP_PAD));
        return false;
    }
    return true;
}

static bool rounded_good(const judge *j, const checkop_buf *b)
{
    for (int64_t r = 0; r < b->rows && b->kind == CHECKOP_F32; r++) {
        const uint8_t *want = b->law + b->head + r * b->stride_bytes;
        const uint8_t *got = b->got + b->head + r * b->stride_bytes;
        for (int64_t col = 0; col < b->cols; col++) {
            if (!checkop_rounded_near(j->c, j->run, r, col, f32_at(want, col), f32_at(got, col))) {
                print_difference(j, b, r, col, want, got);
                return false;
            }
        }
    }
    return true;
}

static bool buf_good(const judge *j, const checkop_buf *b, int32_t side)
{
    if (b->role == CHECKOP_IN) {
        return image_same(j, b, b->init, b->bytes);
    }
    if (b->role == CHECKOP_WEIGHT) {
        return image_same(j, b, b->dev_init[side], b->dev_bytes[side]);
    }
    const judge law = {j->c, j->run, "the law"};
    if (!canaries_same(&law, b, b->law)) {
        return false;
    }
    if (b->role == CHECKOP_SPARE) {
        return space_same(j, b, side);
    }
    if (!canaries_same(j, b, b->got)) {
        return false;
    }
    if (b->role == CHECKOP_PAGES) {
        return true;
    }
    if (checkop_rounded(j->c, j->run)) {
        return rounded_good(j, b);
    }
    int64_t ulp = checkop_tolerance(j->c->call[j->c->subject].op, j->c->dtype);
    for (int64_t r = 0; r < b->rows; r++) {
        const uint8_t *want = b->law + b->head + r * b->stride_bytes;
        const uint8_t *got = b->got + b->head + r * b->stride_bytes;
        int64_t col = row_differs(b, want, got, ulp);
        if (col >= 0) {
            print_difference(j, b, r, col, want, got);
            return false;
        }
    }
    return true;
}

bool checkop_compare_law(const checkop_case *c, const checkop_run *run, int32_t side,
                         const char *what)
{
    const judge j = {c, run, what};
    for (int32_t i = 0; i < c->n_buf; i++) {
        if (!buf_good(&j, &c->buf[i], side)) {
            return false;
        }
    }
    return true;
}

static bool is_output(const checkop_buf *b)
{
    return b->role == CHECKOP_OUT || b->role == CHECKOP_INOUT;
}

void checkop_keep_full(checkop_case *c)
{
    for (int32_t i = 0; i < c->n_buf; i++) {
        if (is_output(&c->buf[i])) {
            memcpy(c->buf[i].full, c->buf[i].got, (size_t)c->buf[i].bytes);
        }
    }
}

/* Row `row` of the image against another, bit for bit (but for NaN). */
static bool row_same(const judge *j, const checkop_buf *b, const uint8_t *image, int64_t row)
{
    int64_t at = b->head + row * b->stride_bytes;
    int64_t col = row_differs(b, image + at, b->got + at, 0);
    if (col >= 0) {
        print_difference(j, b, row, col, image + at, b->got + at);
    }
    return col < 0;
}

bool checkop_compare_full(const checkop_case *c, const checkop_run *run)
{
    const judge j = {c, run, "one thread against all threads"};
    for (int32_t i = 0; i < c->n_buf; i++) {
        const checkop_buf *b = &c->buf[i];
        for (int64_t r = 0; is_output(b) && r < b->rows; r++) {
            if (!row_same(&j, b, b->full, r)) {
                return false;
            }
        }
    }
    return true;
}

static bool subject_steps(const checkop_case *c, int32_t buf)
{
    const checkop_call *call = &c->call[c->subject];
    for (int32_t i = 0; i < call->n_bind; i++) {
        if (call->bind[i].buf == buf && call->bind[i].row_step != 0) {
            return true;
        }
    }
    return false;
}

bool checkop_compare_row(const checkop_case *c, const checkop_run *run, int64_t row)
{
    char what[80];
    snprintf(what, sizeof what, "row %lld alone", (long long)row);
    const judge j = {c, run, what};
    const judge other = {c, run, "a row that was not asked for"};
    for (int32_t i = 0; i < c->n_buf; i++) {
        const checkop_buf *b = &c->buf[i];
        if (!is_output(b) || !b->by_row) {
            continue;
        }
        if (!row_same(&j, b, b->full, row) || !canaries_same(&j, b, b->got)) {
            return false;
        }
        for (int64_t r = 0; subject_steps(c, i) && r < b->rows; r++) {
            if (r != row && !row_same(&other, b, b->init, r)) {
                return false;
            }
        }
    }
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The unit that reads shared memory. A warp's quarter of a group's lines is on its own here, and is
 * added when the warp commits or when it waits, which is drawn. Operands in registers are taken when
 * it asks, those in shared memory when it adds. */
#include "emulated_gpu/units.h"

#include <stdlib.h>
#include <string.h>

/* An operand: parts of 8 lines x 8 k, each 128 bytes, or with `turned` rows of 64 columns of each k,
 * whose vectors of 16 bytes are turned about by bits 7 to 9 of where they lie. */
typedef struct operand {
    uint32_t at, along, across; /* the first byte; from part to part */
} operand;

static operand operand_of(uint64_t from, bool turned)
{
    if (from >> 62 != (turned ? 1 : 0)) {
        gpu_fault("wide_mma: an operand of layout %d", (int)(from >> 62));
    }
    return (operand){(uint32_t)(from & 0x3fff) << 4, (uint32_t)(from >> 16 & 0x3fff) << 4,
                     (uint32_t)(from >> 32 & 0x3fff) << 4};
}

static void lines_read(uint16_t *to, operand o, int line, int k8)
{
    memcpy(to,
           gpu_shared(o.at + (uint32_t)k8 * o.along + (uint32_t)(line / 8) * o.across +
                          (uint32_t)(line % 8) * 16,
                      16),
           16);
}

static void a_read(float (*a)[GPU_K], operand o, int first, bool is_f16)
{
    uint16_t v[8];
    for (int r = 0; r < 16; r++) {
        for (int k = 0; k < GPU_K; k += 8) {
            lines_read(v, o, first + r, k / 8);
            for (int i = 0; i < 8; i++) {
                a[r][k + i] = gpu_float(v[i], is_f16);
            }
        }
    }
}

static void b_read(float *b, operand o, int n, bool is_f16)
{
    uint16_t v[8];
    for (int line = 0; line < n; line++) {
        for (int k = 0; k < GPU_K; k += 8) {
            lines_read(v, o, line, k / 8);
            for (int i = 0; i < 8; i++) {
                b[(k + i) * n + line] = gpu_float(v[i], is_f16);
            }
        }
    }
}

static void b_read_turned(float *b, operand o, int n, bool is_f16)
{
    uint16_t v[8];
    for (int k = 0; k < GPU_K; k++) {
        for (int column = 0; column < n; column += 8) {
            uint32_t at = o.at + (uint32_t)(column / 64) * o.along + (uint32_t)(k / 8) * o.across +
                          (uint32_t)(k % 8) * 128 + (uint32_t)(column % 64) * 2;
            at ^= (at >> 7 & 7) << 4;
            memcpy(v, gpu_shared(at, 16), 16);
            for (int i = 0; i < 8; i++) {
                b[k * n + column + i] = gpu_float(v[i], is_f16);
            }
        }
    }
}

static void item_add(const gpu_warp *w, const gpu_wide_item *item)
{
    static float a[16][GPU_K], b[GPU_K * 256];
    static double sum[16 * 256];
    const gpu_wide *f = &item->form;
    if (f->a != NULL) {
        const uint32_t *from[GPU_WARP];
        for (int i = 0; i < GPU_WARP; i++) {
            from[i] = item->a[i];
        }
        gpu_fragment_a(a, from, f->is_f16);
    } else {
        a_read(a, operand_of(f->a_at, false), w->number % 4 * 16, f->is_f16);
    }
    (f->turned ? b_read_turned : b_read)(b, operand_of(f->b_at, f->turned), f->n, f->is_f16);
    gpu_add_products(sum, a, b, f->n);
    for (int i = 0; i < GPU_WARP; i++) {
        for (int j = 0; j < f->n / 2; j++) {
            double add = sum[(i / 4 + j / 2 % 2 * 8) * f->n + j / 4 * 8 + i % 4 * 2 + j % 2];
            item->c[i][j] = (float)(f->adds ? (double)item->c[i][j] + add : add);
        }
    }
}

static void items_add(gpu_warp *w, int64_t group)
{
    int n = 0;
    while (n < w->n_wide && w->wide[n].group < group) {
        item_add(w, &w->wide[n++]);
    }
    w->n_wide -= n;
    memmove(w->wide, w->wide + n, (size_t)w->n_wide * sizeof *w->wide);
}

void gpu_wide_ask(gpu_warp *w, void *const *own, uint32_t mask)
{
    (void)mask;
    if (w->n_wide == w->wide_room) {
        w->wide_room = w->wide_room > 0 ? 2 * w->wide_room : 16;
        w->wide = realloc(w->wide, (size_t)w->wide_room * sizeof *w->wide);
        if (w->wide == NULL) {
            abort();
        }
    }
    gpu_wide_item *item = &w->wide[w->n_wide++];
    item->form = *(const gpu_wide *)own[0];
    item->group = w->n_group;
    for (int i = 0; i < GPU_WARP; i++) {
        const gpu_wide *lane = own[i];
        if (lane->a_at != item->form.a_at || lane->b_at != item->form.b_at) {
            gpu_fault("wide_mma: lanes of a warp mean different operands");
        }
        item->c[i] = lane->c;
        if (lane->a != NULL) {
            memcpy(item->a[i], lane->a, sizeof item->a[i]);
        }
    }
}

void gpu_wide_commit(gpu_warp *w, void *const *own, uint32_t mask)
{
    (void)own;
    (void)mask;
    w->n_group++;
    if (gpu_draw() % 2 == 0) {
        items_add(w, w->n_group);
    }
}

void gpu_wide_until(gpu_warp *w, void *const *own, uint32_t mask)
{
    (void)mask;
    if (!gpu_is_without("wide_until")) {
        items_add(w, w->n_group - *(const int *)own[0]);
    }
}

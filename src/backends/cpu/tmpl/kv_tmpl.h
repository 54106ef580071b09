/* SPDX-License-Identifier: Apache-2.0 */
/* The KV pages, shared by all levels: included once per level after its vec header.
 *
 * Page layout on the CPU, per layer: keys [n_kv][d_head][WHIM_CPU_PAGE], so that lanes run along
 * keys when scores are made; values [n_kv][WHIM_CPU_PAGE][d_head], so that lanes run along d when
 * they are summed; for Q8 then the scales of the keys [n_kv][WHIM_CPU_PAGE] and those of the
 * values. BF16 for a matrix unit: where the level's matrix_key_place and matrix_value_place say. */
#include "backends/cpu/kernels.h"
#include "tensor/half.h"

#include <string.h>

static inline char *page_layer(const whim_kv_view *kv, int64_t page)
{
    return (char *)kv->pages + page * kv->page_stride + kv->layer_offset;
}

/* Index of the first key element of a head in its page's layer, and of its first value element. */
static inline int64_t keys_index(const whim_kv_view *kv, int64_t head)
{
    return head * kv->d_head * WHIM_CPU_PAGE;
}
static inline int64_t values_index(const whim_kv_view *kv, int64_t head)
{
    return (kv->n_kv + head) * kv->d_head * WHIM_CPU_PAGE;
}

/* Q8: the scales of a head's keys, and of its values n_kv * WHIM_CPU_PAGE further on. */
static inline float *key_scales(const whim_kv_view *kv, void *layer, int64_t head)
{
    return (float *)((char *)layer + 2 * kv->n_kv * kv->d_head * WHIM_CPU_PAGE) +
           head * WHIM_CPU_PAGE;
}
static inline float *value_scales(const whim_kv_view *kv, void *layer, int64_t head)
{
    return key_scales(kv, layer, kv->n_kv + head);
}

/* Narrowing and scattering apart, so that the narrowing vectorises. */
enum { STORE_STEP = 64 };

#define DEFINE_STORE(name, elem, narrow, widen)                                                \
    static void store_##name(const float *x, int64_t n, elem *dst, int64_t stride)             \
    {                                                                                          \
        for (int64_t i = 0; i < n; i += STORE_STEP) {                                          \
            elem part[STORE_STEP];                                                             \
            int64_t step = n - i < STORE_STEP ? n - i : STORE_STEP;                            \
            for (int64_t j = 0; j < step; j++) {                                               \
                part[j] = narrow(x[i + j]);                                                    \
            }                                                                                  \
            for (int64_t j = 0; j < step; j++) {                                               \
                dst[(i + j) * stride] = part[j];                                               \
            }                                                                                  \
        }                                                                                      \
    }                                                                                          \
    static void write_##name(const whim_kv_view *kv, void *layer, int64_t head, int64_t place, \
                             const float *k, const float *v)                                   \
    {                                                                                          \
        int64_t d = kv->d_head;                                                                \
        elem *values = (elem *)layer + values_index(kv, head) + place * d;                     \
        store_##name(k, d, (elem *)layer + keys_index(kv, head) + place, WHIM_CPU_PAGE);       \
        for (int64_t i = 0; i < d; i++) {                                                      \
            values[i] = narrow(v[i]);                                                          \
        }                                                                                      \
    }                                                                                          \
    static void read_##name(const whim_kv_view *kv, void *layer, int64_t head, int64_t place,  \
                            float *k, float *v)                                                \
    {                                                                                          \
        int64_t d = kv->d_head;                                                                \
        const elem *keys = (const elem *)layer + keys_index(kv, head) + place;                 \
        const elem *values = (const elem *)layer + values_index(kv, head) + place * d;         \
        for (int64_t i = 0; i < d; i++) {                                                      \
            k[i] = widen(keys[i * WHIM_CPU_PAGE]);                                             \
            v[i] = widen(values[i]);                                                           \
        }                                                                                      \
    }
static inline float same_f32(float x)
{
    return x;
}
DEFINE_STORE(f32, float, whim_f32_sat, same_f32)
DEFINE_STORE(f16, uint16_t, whim_f32_to_f16_sat, whim_f16_to_f32)
DEFINE_STORE(bf16, uint16_t, whim_f32_to_bf16_sat, whim_bf16_to_f32)

static void write_q8(const whim_kv_view *kv, void *layer, int64_t head, int64_t place,
                     const float *k, const float *v)
{
    int64_t d = kv->d_head;
    int8_t *keys = (int8_t *)layer + keys_index(kv, head) + place;
    float scale = whim_kv_q8_scale(k, d);
    key_scales(kv, layer, head)[place] = scale;
    for (int64_t i = 0; i < d; i += STORE_STEP) {
        int8_t part[STORE_STEP];
        int64_t step = d - i < STORE_STEP ? d - i : STORE_STEP;
        whim_kv_q8_round(k + i, step, scale, part);
        for (int64_t j = 0; j < step; j++) {
            keys[(i + j) * WHIM_CPU_PAGE] = part[j];
        }
    }
    scale = whim_kv_q8_scale(v, d);
    value_scales(kv, layer, head)[place] = scale;
    whim_kv_q8_round(v, d, scale, (int8_t *)layer + values_index(kv, head) + place * d);
}

static void read_q8(const whim_kv_view *kv, void *layer, int64_t head, int64_t place, float *k,
                    float *v)
{
    int64_t d = kv->d_head;
    const int8_t *keys = (const int8_t *)layer + keys_index(kv, head) + place;
    const int8_t *values = (const int8_t *)layer + values_index(kv, head) + place * d;
    float k_scale = key_scales(kv, layer, head)[place];
    float v_scale = value_scales(kv, layer, head)[place];
    for (int64_t i = 0; i < d; i++) {
        k[i] = (float)keys[i * WHIM_CPU_PAGE] * k_scale;
        v[i] = (float)values[i] * v_scale;
    }
}

#ifdef ATTN_MATRIX
static void write_matrix(const whim_kv_view *kv, void *layer, int64_t head, int64_t place,
                         const float *k, const float *v)
{
    int64_t d = kv->d_head;
    uint16_t *keys = (uint16_t *)layer + keys_index(kv, head);
    uint16_t *values = (uint16_t *)layer + values_index(kv, head);
    for (int64_t i = 0; i < d; i += MATRIX_DIMS) {
        uint16_t part_k[MATRIX_DIMS], part_v[MATRIX_DIMS];
        for (int64_t j = 0; j < MATRIX_DIMS; j++) {
            part_k[j] = whim_f32_to_bf16_sat(k[i + j]);
            part_v[j] = whim_f32_to_bf16_sat(v[i + j]);
        }
        for (int64_t j = 0; j < MATRIX_DIMS; j++) {
            keys[matrix_key_place(place, i + j)] = part_k[j];
            values[matrix_value_place(d, place, i + j)] = part_v[j];
        }
    }
}

static void read_matrix(const whim_kv_view *kv, void *layer, int64_t head, int64_t place, float *k,
                        float *v)
{
    int64_t d = kv->d_head;
    const uint16_t *keys = (const uint16_t *)layer + keys_index(kv, head);
    const uint16_t *values = (const uint16_t *)layer + values_index(kv, head);
    for (int64_t i = 0; i < d; i++) {
        k[i] = whim_bf16_to_f32(keys[matrix_key_place(place, i)]);
        v[i] = whim_bf16_to_f32(values[matrix_value_place(d, place, i)]);
    }
}
#endif

/* How one vector of a KV type is stored and read back. */
typedef struct kv_io {
    void (*write)(const whim_kv_view *, void *, int64_t, int64_t, const float *, const float *);
    void (*read)(const whim_kv_view *, void *, int64_t, int64_t, float *, float *);
} kv_io;

static const kv_io kv_ios[WHIM_KV_TYPE_COUNT] = {
    [WHIM_KV_F32] = {write_f32, read_f32},
    [WHIM_KV_BF16] = {write_bf16, read_bf16},
    [WHIM_KV_F16] = {write_f16, read_f16},
    [WHIM_KV_Q8] = {write_q8, read_q8},
};

static const kv_io *kv_io_of(const whim_kv_view *kv)
{
#ifdef ATTN_MATRIX
    static const kv_io matrix = {write_matrix, read_matrix};
    if (matrix_takes(kv)) {
        return &matrix;
    }
#endif
    return &kv_ios[kv->type];
}

/* Workers split (row, head) pairs. */
static void kv_write_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_kv_write_args *a = args;
    const whim_kv_view *kv = &a->kv;
    const kv_io *io = kv_io_of(kv);
    int64_t begin, end;
    whim_cpu_share(worker, a->n_row * kv->n_kv, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int64_t slot = a->slots[i / kv->n_kv];
        if (slot >= 0) {
            io->write(kv, page_layer(kv, slot / WHIM_CPU_PAGE), i % kv->n_kv, slot % WHIM_CPU_PAGE,
                      a->k + i * kv->d_head, a->v + i * kv->d_head);
        }
    }
}

static void kv_read_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_kv_read_args *a = args;
    const whim_kv_view *kv = &a->kv;
    const kv_io *io = kv_io_of(kv);
    int64_t begin, end;
    whim_cpu_share(worker, a->n_row * kv->n_kv, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int64_t slot = a->slots[i / kv->n_kv];
        float *k = a->k + i * kv->d_head, *v = a->v + i * kv->d_head;
        if (slot >= 0) {
            io->read(kv, page_layer(kv, slot / WHIM_CPU_PAGE), i % kv->n_kv, slot % WHIM_CPU_PAGE,
                     k, v);
        } else {
            memset(k, 0, (size_t)kv->d_head * sizeof *k);
            memset(v, 0, (size_t)kv->d_head * sizeof *v);
        }
    }
}

static void page_zero_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_page_zero_args *a = args;
    int64_t begin, end;
    whim_cpu_share(worker, a->n_id, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        if (a->ids[i] >= 0) {
            memset((char *)a->pages + a->ids[i] * a->page_bytes, 0, (size_t)a->page_bytes);
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of the ops that store, read and clear pages. What kv_write stored is looked at by kv_read
 * on the same device: all slots, so that a stray write shows, and the written ones in the order of
 * rows. */
#include "checkop/cases_kv.h"

#include <string.h>

void kv_say(checkop_case *c, const kv_shape *s)
{
    checkop_say(c, "%s n_kv=%lld d_head=%lld pages=%lld layer=%lld/%lld",
                whim_kv_type_name(s->type), (long long)s->n_kv, (long long)s->d_head,
                (long long)s->n_page, (long long)s->layer, (long long)s->layers);
}

static int64_t layer_bytes(const checkop_case *c, const kv_shape *s)
{
    return whim_kv_layer_bytes(s->n_kv, s->d_head, s->type, c->page_len);
}

int32_t kv_pool(checkop_case *c, const kv_shape *s)
{
    return checkop_bytes(c, "pages", CHECKOP_PAGES, CHECKOP_ZERO, s->n_page, layer_bytes(c, s),
                         s->layers * layer_bytes(c, s), s->layer * layer_bytes(c, s));
}

void kv_view_bind(checkop_case *c, checkop_call *call, size_t field, int32_t pages,
                  const kv_shape *s)
{
    whim_kv_view view = {.page_stride = s->layers * layer_bytes(c, s),
                         .layer_offset = s->layer * layer_bytes(c, s),
                         .n_kv = s->n_kv,
                         .d_head = s->d_head,
                         .type = s->type,
                         .page_len = c->page_len};
    memcpy(call->args.bytes + field, &view, sizeof view);
    checkop_bind_at(c, call, field + offsetof(whim_kv_view, pages), pages, 0);
    call->bind[call->n_bind - 1].offset = -view.layer_offset;
}

whim_kv_view kv_view_valid(void)
{
    return (whim_kv_view){.pages = checkop_somewhere,
                          .n_kv = 2,
                          .d_head = 8,
                          .page_stride = whim_kv_layer_bytes(2, 8, WHIM_KV_F32, 32),
                          .type = WHIM_KV_F32,
                          .page_len = 32};
}

static checkop_call *write_call(checkop_case *c, const kv_shape *s, int32_t pages, int32_t slots,
                                checkop_fill fill)
{
    checkop_call *call = checkop_call_add(c, WHIM_OP_kv_write);
    ((whim_kv_write_args *)(void *)call->args.bytes)->n_row = c->buf[slots].rows;
    kv_view_bind(c, call, offsetof(whim_kv_write_args, kv), pages, s);
    CHECKOP_BIND(c, call, kv_write, slots, slots, 4);
    checkop_operands(c, call, fill, 1);
    return call;
}

/* The same of the k and v of a split. */
static checkop_call *split_write_call(checkop_case *c, const kv_shape *s, int32_t pages,
                                      int32_t slots)
{
    checkop_call *split = checkop_call_add(c, WHIM_OP_split_qkv_rmsnorm_rope);
    whim_split_qkv_rmsnorm_rope_args *a = (void *)split->args.bytes;
    float *p = checkop_somewhere;
    a->q_norm = p;
    a->k_norm = p + 1;
    a->eps = 1e-6f;
    a->n_row = c->buf[slots].rows;
    a->n_head = 2 * s->n_kv;
    a->n_kv = s->n_kv;
    a->d_head = s->d_head;
    a->n_freq = s->d_head / 2;
    a->qkv_stride = (a->n_head + 2 * a->n_kv) * a->d_head + 3;
    checkop_operands(c, split, CHECKOP_SANE, 1);
    CHECKOP_BUF(c, split, split_qkv_rmsnorm_rope, cos_sin)->fill = CHECKOP_SANE;
    int32_t k = checkop_bound(split, offsetof(whim_split_qkv_rmsnorm_rope_args, k));
    int32_t v = checkop_bound(split, offsetof(whim_split_qkv_rmsnorm_rope_args, v));
    checkop_call *call = checkop_call_add(c, WHIM_OP_kv_write);
    ((whim_kv_write_args *)(void *)call->args.bytes)->n_row = c->buf[slots].rows;
    kv_view_bind(c, call, offsetof(whim_kv_write_args, kv), pages, s);
    CHECKOP_BIND(c, call, kv_write, slots, slots, 4);
    CHECKOP_BIND(c, call, kv_write, k, k, s->n_kv * s->d_head * 4);
    CHECKOP_BIND(c, call, kv_write, v, v, s->n_kv * s->d_head * 4);
    checkop_operands(c, call, CHECKOP_SANE, 1);
    return call;
}

static checkop_call *read_call(checkop_case *c, const kv_shape *s, int32_t pages, int32_t slots)
{
    checkop_call *call = checkop_call_add(c, WHIM_OP_kv_read);
    ((whim_kv_read_args *)(void *)call->args.bytes)->n_row = c->buf[slots].rows;
    kv_view_bind(c, call, offsetof(whim_kv_read_args, kv), pages, s);
    CHECKOP_BIND(c, call, kv_read, slots, slots, 4);
    checkop_operands(c, call, CHECKOP_JUNK, 1);
    return call;
}

static int32_t every_slot(checkop_case *c, const kv_shape *s)
{
    int32_t *list;
    int32_t slots = checkop_given(c, "all slots", s->n_page * c->page_len, &list);
    for (int64_t i = 0; i < s->n_page * c->page_len; i++) {
        list[i] = (int32_t)i;
    }
    return slots;
}

int32_t kv_fill_all(checkop_case *c, const kv_shape *s, checkop_fill fill)
{
    int32_t pages = kv_pool(c, s);
    write_call(c, s, pages, every_slot(c, s), fill);
    return pages;
}

typedef struct store_shape {
    kv_shape kv;
    int64_t rows;
    checkop_fill fill;
    bool split; /* rows are made by a split just before: one kernel may do both */
} store_shape;

static const store_shape hostile[] = {
    {{WHIM_KV_BF16, 3, 64, 2, 1, 0}, 0, CHECKOP_SANE},
    {{WHIM_KV_BF16, 3, 64, 2, 2, 1}, 1, CHECKOP_SANE},
    {{WHIM_KV_F32, 1, 20, 3, 3, 1}, 17, CHECKOP_ANY},
    {{WHIM_KV_F16, 2, 80, 5, 2, 0}, 33, CHECKOP_ANY},
    {{WHIM_KV_BF16, 8, 128, 2, 1, 0}, 40, CHECKOP_ANY},
    {{WHIM_KV_F16, 1, 17, 4, 1, 0}, 100, CHECKOP_ANY},
    {{WHIM_KV_BF16, 1, 33, 4, 2, 0}, 3, CHECKOP_WILD},
    {{WHIM_KV_F32, 1, 256, 2, 1, 0}, 64, CHECKOP_WILD},
    {{WHIM_KV_F16, 1, 4, 2050, 1, 0}, CHECKOP_MANY, CHECKOP_SANE},
    {{WHIM_KV_Q8, 3, 64, 3, 2, 1}, 50, CHECKOP_SANE},
    {{WHIM_KV_Q8, 2, 33, 4, 1, 0}, 100, CHECKOP_ANY},
    {{WHIM_KV_Q8, 1, 1, 2, 1, 0}, 60, CHECKOP_ANY},
    {{WHIM_KV_Q8, 1, 128, 2, 1, 0}, 64, CHECKOP_WILD},
    {{WHIM_KV_BF16, 0, 64, 2, 2, 1}, 9, CHECKOP_SANE}, /* a rank without heads */
    {{WHIM_KV_Q8, 0, 33, 2, 1, 0}, 1, CHECKOP_SANE},
    {{WHIM_KV_BF16, 2, 128, 5, 2, 1}, 150, CHECKOP_SANE, true},
    {{WHIM_KV_BF16, 3, 64, 5, 1, 0}, 131, CHECKOP_SANE, true},
    {{WHIM_KV_BF16, 1, 128, 2, 1, 0}, 9, CHECKOP_SANE, true},
    {{WHIM_KV_F16, 2, 64, 2, 1, 0}, 7, CHECKOP_SANE, true},
};
enum { N_HOSTILE = sizeof hostile / sizeof hostile[0], N_RANDOM = 150, N_QUICK = 12 };

static store_shape shape_make(checkop_case *c, int32_t index)
{
    store_shape s;
    if (index < N_HOSTILE) {
        s = hostile[index];
    } else {
        s.kv.type = (whim_kv_type)checkop_range(&c->rng, 0, WHIM_KV_TYPE_COUNT - 1);
        s.kv.n_kv = checkop_range(&c->rng, 1, 5);
        s.kv.d_head = checkop_pick(&c->rng, 16, 64, 80, 128, checkop_range(&c->rng, 1, 100));
        s.kv.n_page = checkop_range(&c->rng, 1, 6);
        s.kv.layers = checkop_range(&c->rng, 1, 3);
        s.kv.layer = checkop_range(&c->rng, 0, s.kv.layers - 1);
        s.rows = checkop_range(&c->rng, 1, s.kv.n_page * c->page_len);
        s.fill = checkop_chance(&c->rng, 3) ? CHECKOP_ANY : CHECKOP_SANE;
        s.split = false;
    }
    kv_say(c, &s.kv);
    checkop_say(c, " rows=%lld fill=%d", (long long)s.rows, (int)s.fill);
    return s;
}

static bool bench_shape(checkop_case *c, int32_t i, store_shape *s)
{
    if (i >= 2 * WHIM_KV_TYPE_COUNT) {
        return false;
    }
    *s = (store_shape){
        {(whim_kv_type)(i / 2), 3, 64, 8, 1, 0}, i % 2 == 0 ? 1 : 256, CHECKOP_SANE, false};
    checkop_say(c, "%s %lld rows, 3 heads of 64", whim_kv_type_name(s->kv.type),
                (long long)s->rows);
    c->traffic = (double)(2 * s->rows * (4 * 192 + 3 * whim_kv_vector_bytes(s->kv.type, 64)));
    return true;
}

/* --- kv_write --------------------------------------------------------------------------------- */

/* Distinct slots in random order, one in eight a padding. */
static void slots_shuffle(checkop_case *c)
{
    int32_t *slots = checkop_i32(c, (int32_t)c->param[0]);
    int64_t n_slot = c->param[1];
    int32_t *list = checkop_i32(c, (int32_t)c->param[2]);
    checkop_shuffle(&c->rng, list, n_slot);
    for (int64_t i = 0; i < c->buf[c->param[0]].rows; i++) {
        slots[i] = checkop_chance(&c->rng, 8) ? -1 - (int32_t)(i % 2) : list[i];
    }
}

static void kv_write_build(checkop_case *c, const store_shape *s, bool look)
{
    int32_t *ignored;
    int32_t all = every_slot(c, &s->kv);
    int32_t pages = kv_pool(c, &s->kv);
    int32_t slots = checkop_given(c, "slots", s->rows, &ignored);
    c->param[0] = slots;
    c->param[1] = c->buf[all].rows;
    c->param[2] = all;
    slots_shuffle(c);
    if (look) {
        write_call(c, &s->kv, pages, all, CHECKOP_SANE);
    }
    checkop_call *written = s->split ? split_write_call(c, &s->kv, pages, slots)
                                     : write_call(c, &s->kv, pages, slots, s->fill);
    CHECKOP_SUBJECT(c, written, kv_write, s->rows);
    if (s->split) { /* which makes all rows of them */
        CHECKOP_BUF(c, written, kv_write, k)->by_row = false;
        CHECKOP_BUF(c, written, kv_write, v)->by_row = false;
    }
    if (look) {
        read_call(c, &s->kv, pages, all);
        checkop_call *call = read_call(c, &s->kv, pages, slots);
        CHECKOP_BUF(c, call, kv_read, k)->by_row = true; /* as written by the call under test */
        CHECKOP_BUF(c, call, kv_read, v)->by_row = true;
    }
    c->refill = slots_shuffle;
}

static void kv_write_make(checkop_case *c, int32_t index)
{
    store_shape s = shape_make(c, index);
    kv_write_build(c, &s, true);
}

static bool kv_write_bench(checkop_case *c, int32_t i)
{
    store_shape s;
    return bench_shape(c, i, &s) && (kv_write_build(c, &s, false), true);
}

static const char *kv_write_arguments(int32_t i, void *args)
{
    whim_kv_write_args *a = args;
    void *p = checkop_somewhere;
    *a = (whim_kv_write_args){.kv = kv_view_valid(), .k = p, .v = p, .slots = p, .n_row = 1};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->kv.n_kv = -1, "n_kv < 0";
    case 3:
        return a->kv.d_head = -8, "d_head < 0";
    case 4:
        return a->kv.type = WHIM_KV_TYPE_COUNT, "no KV type";
    case 5:
        return a->kv.layer_offset = 64, "the layer ends after its page";
    case 6:
        return a->kv.layer_offset = -64, "layer_offset < 0";
    case 7:
        return a->slots = NULL, "slots = NULL";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_kv_write = {N_HOSTILE,     N_RANDOM,           N_QUICK,
                                              kv_write_make, kv_write_arguments, kv_write_bench};

/* --- kv_read ---------------------------------------------------------------------------------- */

static void kv_read_build(checkop_case *c, const store_shape *s)
{
    int32_t pages = kv_fill_all(c, &s->kv, s->fill);
    int32_t last = (int32_t)(s->kv.n_page * c->page_len) - 1;
    int32_t slots = checkop_ids(c, "slots", s->rows, -3, last);
    CHECKOP_SUBJECT(c, read_call(c, &s->kv, pages, slots), kv_read, s->rows);
}

static void kv_read_make(checkop_case *c, int32_t index)
{
    store_shape s = shape_make(c, index);
    kv_read_build(c, &s);
}

static bool kv_read_bench(checkop_case *c, int32_t i)
{
    store_shape s;
    return bench_shape(c, i, &s) && (kv_read_build(c, &s), true);
}

static const char *kv_read_arguments(int32_t i, void *args)
{
    whim_kv_read_args *a = args;
    void *p = checkop_somewhere;
    *a = (whim_kv_read_args){.kv = kv_view_valid(), .k = p, .v = p, .slots = p, .n_row = 1};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->kv.n_kv = -1, "n_kv < 0";
    case 3:
        return a->kv.page_stride = 0, "page_stride = 0";
    case 4:
        return a->kv.type = (whim_kv_type)-1, "no KV type";
    case 5:
        return a->k = NULL, "k = NULL";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_kv_read = {N_HOSTILE,    N_RANDOM,          N_QUICK,
                                             kv_read_make, kv_read_arguments, kv_read_bench};

/* --- page_zero -------------------------------------------------------------------------------- */

static const struct {
    int64_t n_page, page_bytes, n_id;
} zero_hostile[] = {{4, 64, 0},    {1, 64, 1},  {5, 4096, 3},
                    {17, 192, 17}, {33, 36, 9}, {CHECKOP_MANY, 64, CHECKOP_MANY}};
enum { N_ZERO_HOSTILE = sizeof zero_hostile / sizeof zero_hostile[0] };

static void page_zero_build(checkop_case *c, int64_t n_page, int64_t page_bytes, int64_t n_id)
{
    int32_t *list, *ignored;
    int32_t pages =
        checkop_bytes(c, "pages", CHECKOP_INOUT, CHECKOP_JUNK, n_page, page_bytes, page_bytes, 0);
    int32_t all = checkop_given(c, "all pages", n_page, &list);
    for (int64_t i = 0; i < n_page; i++) {
        list[i] = (int32_t)i;
    }
    int32_t ids = checkop_given(c, "ids", n_id, &ignored);
    c->param[0] = ids;
    c->param[1] = n_page;
    c->param[2] = all;
    slots_shuffle(c);
    checkop_call *call = checkop_call_add(c, WHIM_OP_page_zero);
    whim_page_zero_args *a = (void *)call->args.bytes;
    a->page_bytes = page_bytes;
    a->n_id = n_id;
    CHECKOP_BIND(c, call, page_zero, pages, pages, 0);
    CHECKOP_BIND(c, call, page_zero, ids, ids, 0);
    c->refill = slots_shuffle;
    c->traffic = (double)(n_id * page_bytes);
}

static void page_zero_make(checkop_case *c, int32_t index)
{
    int64_t n_page = checkop_range(&c->rng, 1, 40);
    int64_t page_bytes = 64 * checkop_range(&c->rng, 1, 70);
    int64_t n_id = checkop_range(&c->rng, 1, n_page);
    if (index < N_ZERO_HOSTILE) {
        n_page = zero_hostile[index].n_page;
        page_bytes = zero_hostile[index].page_bytes;
        n_id = zero_hostile[index].n_id;
    }
    checkop_say(c, "pages=%lld page_bytes=%lld n_id=%lld", (long long)n_page, (long long)page_bytes,
                (long long)n_id);
    page_zero_build(c, n_page, page_bytes, n_id);
}

static bool page_zero_bench(checkop_case *c, int32_t i)
{
    checkop_say(c, "%d pages of 720 KiB", i == 0 ? 1 : 16);
    return i < 2 && (page_zero_build(c, 16, 720 * 1024, i == 0 ? 1 : 16), true);
}

static const char *page_zero_arguments(int32_t i, void *args)
{
    whim_page_zero_args *a = args;
    void *p = checkop_somewhere;
    *a = (whim_page_zero_args){.pages = p, .page_bytes = 64, .ids = p, .n_id = 1};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_id = -1, "n_id < 0";
    case 2:
        return a->page_bytes = -64, "page_bytes < 0";
    case 3:
        return a->ids = NULL, "ids = NULL";
    case 4:
        return a->pages = NULL, "pages = NULL";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_page_zero = {
    N_ZERO_HOSTILE, 30, 8, page_zero_make, page_zero_arguments, page_zero_bench};

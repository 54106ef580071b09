/* SPDX-License-Identifier: Apache-2.0 */
/* A GGUF file of dummy weights: the header is made in memory, then threads make and write the
 * rows. */
#include "bench/dummy_gguf.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"
#include "base/thread.h"
#include "text/byte_level.h"
#include "weights/dummy.h"
#include "weights/gguf/read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ALIGN = 32, SLAB_BYTES = 4 << 20, TOKEN_NORMAL = 1, TOKEN_CONTROL = 3, N_BYTE = 256 };

typedef struct writer {
    const whim_config *config;
    const whim_binder *binder;
    const char *path; /* of the part that is being written */
    int fd;
    int64_t *offsets; /* [n_param] from the start of the data, -1: no tensor of a file */
    int64_t data;     /* where the data begins */
    int64_t data_bytes;
    int64_t *first; /* [n_param + 1] number of the parameter's first slab */
    char *staging;  /* [n_thread][staging_bytes] */
    int64_t staging_bytes;
    whim_load_progress *on_progress;
    void *ctx;
    atomic_llong done;
    atomic_int failed; /* errno of a write */
} writer;

/* --- header ----------------------------------------------------------------------------------- */

/* Little-endian, as both families of CPUs that whimbrel runs on are. */
static void put_u32(whim_str *out, uint32_t value)
{
    whim_str_append_n(out, (const char *)&value, sizeof value);
}

static void put_u64(whim_str *out, int64_t value)
{
    whim_str_append_n(out, (const char *)&value, sizeof value);
}

static void put_text(whim_str *out, const char *text, int64_t n)
{
    put_u64(out, n);
    whim_str_append_n(out, text, n);
}

static void put_string(whim_str *out, const char *text)
{
    put_text(out, text, (int64_t)strlen(text));
}

/* A key and its type; the value follows. Unless `arch` is NULL the key is that architecture's. */
static void put_key(whim_str *out, const char *arch, const char *key, whim_gguf_type type)
{
    char name[WHIM_GGUF_KEY_MAX];
    snprintf(name, sizeof name, "%s%s%s", arch != NULL ? arch : "", arch != NULL ? "." : "", key);
    put_string(out, name);
    put_u32(out, type);
}

static void key_string(whim_str *out, const char *key, const char *value)
{
    put_key(out, NULL, key, WHIM_GGUF_STRING);
    put_string(out, value);
}

static void key_u32(whim_str *out, const char *arch, const char *key, int64_t value)
{
    put_key(out, arch, key, WHIM_GGUF_U32);
    put_u32(out, (uint32_t)value);
}

static void key_f32(whim_str *out, const char *arch, const char *key, float value)
{
    put_key(out, arch, key, WHIM_GGUF_F32);
    whim_str_append_n(out, (const char *)&value, sizeof value);
}

static void key_array(whim_str *out, const char *arch, const char *key, whim_gguf_type type,
                      int64_t n)
{
    put_key(out, arch, key, WHIM_GGUF_ARRAY);
    put_u32(out, type);
    put_u64(out, n);
}

typedef struct number {
    const char *suffix;
    int64_t value;
} number;

/* Each returns how many keys it wrote. */
static uint64_t put_numbers(whim_str *out, const char *arch, const number *numbers, int n)
{
    for (int i = 0; i < n; i++) {
        key_u32(out, arch, numbers[i].suffix, numbers[i].value);
    }
    return (uint64_t)n;
}

static uint64_t put_experts(whim_str *out, const whim_moe_config *moe, const char *arch)
{
    const number numbers[] = {
        {"expert_count", moe->n_expert},
        {"expert_used_count", moe->top_k},
        {"expert_feed_forward_length", moe->d_expert},
        {"expert_gating_func", moe->sigmoid ? 2 : 1},
        {"expert_shared_feed_forward_length", moe->d_shared},
    };
    enum { N = sizeof numbers / sizeof numbers[0] };
    return put_numbers(out, arch, numbers, moe->d_shared > 0 ? N : N - 1);
}

/* Which layers are gated delta nets: all but every n-th, or a list. */
static void put_gdn_layers(whim_str *out, const whim_config *c, const char *arch)
{
    whim_config regular = *c;
    int32_t interval = 1;
    while (interval < c->n_layer && whim_config_is_gdn(c, interval - 1)) {
        interval++;
    }
    memset(regular.gdn.layers, 0, sizeof regular.gdn.layers);
    whim_config_set_gdn_interval(&regular, interval);
    if (memcmp(regular.gdn.layers, c->gdn.layers, sizeof regular.gdn.layers) == 0) {
        key_u32(out, arch, "full_attention_interval", interval);
        return;
    }
    key_array(out, arch, "attention.recurrent_layers", WHIM_GGUF_BOOL, c->n_layer);
    for (int32_t l = 0; l < c->n_layer; l++) {
        whim_str_append_n(out, whim_config_is_gdn(c, l) ? "\1" : "\0", 1);
    }
}

/* Gated delta nets; all positions of text are equal, so the sections of the rotary part may be
 * any. */
static uint64_t put_gdn(whim_str *out, const whim_config *c, const char *arch)
{
    const whim_gdn_config *gdn = &c->gdn;
    const number numbers[] = {
        {"ssm.conv_kernel", gdn->n_tap},
        {"ssm.state_size", gdn->d_key},
        {"ssm.group_count", gdn->n_key},
        {"ssm.time_step_rank", gdn->n_value},
        {"ssm.inner_size", gdn->n_value * gdn->d_value},
    };
    enum { N = sizeof numbers / sizeof numbers[0], N_SECTION = 4 };
    int32_t half = c->rope.rotary_dim / 2, third = (half + 2) / 3;
    const int32_t sections[N_SECTION] = {third, third, half - 2 * third, 0};
    key_array(out, arch, "rope.dimension_sections", WHIM_GGUF_I32, N_SECTION);
    for (int i = 0; i < N_SECTION; i++) {
        put_u32(out, (uint32_t)sections[i]);
    }
    put_gdn_layers(out, c, arch);
    return 2 + put_numbers(out, arch, numbers, N);
}

static uint64_t put_config(whim_str *out, const whim_config *c, const char *name)
{
    const char *arch = whim_gguf_arch_of(c)->name;
    const number numbers[] = {
        {"block_count", c->n_layer},
        {"context_length", c->max_ctx},
        {"embedding_length", c->d_model},
        {"feed_forward_length", c->d_ff},
        {"attention.head_count", c->n_head},
        {"attention.head_count_kv", c->n_kv},
        {"attention.key_length", c->d_head},
        {"attention.value_length", c->d_head},
        {"rope.dimension_count", c->rope.rotary_dim},
        {"vocab_size", c->n_vocab},
    };
    key_string(out, "general.architecture", arch);
    key_string(out, "general.name", name);
    uint64_t n = 4 + put_numbers(out, arch, numbers, sizeof numbers / sizeof numbers[0]);
    key_f32(out, arch, "attention.layer_norm_rms_epsilon", c->rms_eps);
    key_f32(out, arch, "rope.freq_base", (float)c->rope.theta);
    n += c->moe.n_expert > 0 ? put_experts(out, &c->moe, arch) : 0;
    return n + (c->gdn.n_key > 0 ? put_gdn(out, c, arch) : 0);
}

static bool is_eos(const whim_config *c, int32_t id)
{
    for (int32_t i = 0; i < c->n_eos; i++) {
        if (c->eos[i] == id) {
            return true;
        }
    }
    return false;
}

static void put_token(whim_str *out, const whim_config *c, int32_t id, whim_str *text)
{
    char byte = (char)id;
    whim_str_clear(text);
    if (is_eos(c, id)) {
        whim_str_printf(text, "<|end-%d|>", id);
    } else if (id < N_BYTE) {
        whim_byte_level_write(text, &byte, 1);
    } else if (id == N_BYTE) {
        whim_str_append(text, "th");
    } else {
        whim_str_printf(text, "<%d>", id);
    }
    put_text(out, whim_str_text(text), text->len);
}

static uint64_t put_vocab(whim_str *out, const whim_config *c)
{
    whim_str text = {0};
    key_string(out, "tokenizer.ggml.model", "gpt2");
    key_string(out, "tokenizer.ggml.pre", "gpt-2");
    key_array(out, NULL, "tokenizer.ggml.tokens", WHIM_GGUF_STRING, c->n_vocab);
    for (int32_t id = 0; id < c->n_vocab; id++) {
        put_token(out, c, id, &text);
    }
    key_array(out, NULL, "tokenizer.ggml.token_type", WHIM_GGUF_I32, c->n_vocab);
    for (int32_t id = 0; id < c->n_vocab; id++) {
        put_u32(out, is_eos(c, id) ? TOKEN_CONTROL : TOKEN_NORMAL);
    }
    key_array(out, NULL, "tokenizer.ggml.merges", WHIM_GGUF_STRING, 1);
    put_string(out, "t h");
    out->failed |= text.failed;
    whim_str_deinit(&text);
    if (c->n_eos > 0) {
        key_u32(out, NULL, "tokenizer.ggml.eos_token_id", c->eos[0]);
    }
    return 5 + (c->n_eos > 0);
}

/* The tensors one after the other, each aligned; their entries in the header. */
static whim_err put_tensors(whim_str *out, writer *w, whim_diag *diag)
{
    int64_t at = 0;
    for (int64_t i = 0; i < w->binder->n_param; i++) {
        const whim_param *p = &w->binder->params[i];
        char name[WHIM_GGUF_NAME_MAX];
        w->offsets[i] = -1;
        if (p->constant != NULL) {
            continue;
        }
        const whim_dtype_info *type = whim_dtype_get(p->parts[0].tensor->dtype);
        if (type->gguf_id < 0) {
            return whim_fail(diag, WHIM_ERR_UNSUPPORTED, "GGUF has no type %s", type->name);
        }
        if (!whim_gguf_file_name(w->config, p->name, name)) {
            return whim_fail(diag, WHIM_ERR_UNSUPPORTED, "GGUF has no name for the tensor %s",
                             p->name);
        }
        put_string(out, name);
        bool flat = p->vector && p->k == 1;
        put_u32(out, flat ? 1 : p->n_expert > 0 ? 3 : 2);
        if (!flat) {
            put_u64(out, p->k);
        }
        put_u64(out, p->n);
        if (p->n_expert > 0) {
            put_u64(out, p->n_expert);
        }
        put_u32(out, (uint32_t)type->gguf_id);
        put_u64(out, at);
        w->offsets[i] = at;
        at = (at + p->parts[0].tensor->bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    w->data_bytes = at;
    return WHIM_ERR_OK;
}

static whim_err make_header(whim_str *out, writer *w, const char *name, whim_diag *diag)
{
    static const char zeros[ALIGN];
    whim_str keys = {0}, tensors = {0};
    uint64_t n_key = put_config(&keys, w->config, name), n_tensor = 0;
    n_key += put_vocab(&keys, w->config);
    whim_err err = put_tensors(&tensors, w, diag);
    for (int64_t i = 0; i < w->binder->n_param; i++) {
        n_tensor += w->offsets[i] >= 0;
    }
    whim_str_append(out, "GGUF");
    put_u32(out, 3);
    put_u64(out, (int64_t)n_tensor);
    put_u64(out, (int64_t)n_key);
    whim_str_append_n(out, whim_str_text(&keys), keys.len);
    whim_str_append_n(out, whim_str_text(&tensors), tensors.len);
    whim_str_append_n(out, zeros, (ALIGN - out->len % ALIGN) % ALIGN);
    w->data = out->len;
    if (err == WHIM_ERR_OK && (keys.failed || tensors.failed || out->failed)) {
        err = whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the header of a GGUF file");
    }
    whim_str_deinit(&keys);
    whim_str_deinit(&tensors);
    return err;
}

/* --- rows ------------------------------------------------------------------------------------- */

static whim_err write_at(writer *w, int64_t offset, const char *bytes, int64_t n)
{
    whim_err err = whim_file_write_at(w->fd, offset, bytes, n, w->path, NULL);
    if (err != WHIM_ERR_OK) {
        atomic_store(&w->failed, errno);
    }
    return err;
}

/* A vector has one row, a stack those of all its experts. */
static int64_t param_rows(const whim_param *p)
{
    return p->vector ? 1 : p->n_part * p->n;
}

static int64_t slab_rows(const whim_param *p)
{
    int64_t row_bytes = p->parts[0].tensor->bytes / param_rows(p);
    int64_t rows = SLAB_BYTES / row_bytes;
    return rows < 1 ? 1 : rows;
}

/* Number the slabs; how large the largest is. */
static void cut(writer *w)
{
    int64_t n = 0;
    for (int64_t i = 0; i < w->binder->n_param; i++) {
        const whim_param *p = &w->binder->params[i];
        w->first[i] = n;
        if (w->offsets[i] >= 0) {
            int64_t rows = slab_rows(p), bytes = p->parts[0].tensor->bytes / param_rows(p) * rows;
            bytes = bytes < p->parts[0].tensor->bytes ? bytes : p->parts[0].tensor->bytes;
            w->staging_bytes = bytes > w->staging_bytes ? bytes : w->staging_bytes;
            n += (param_rows(p) + rows - 1) / rows;
        }
    }
    w->first[w->binder->n_param] = n;
    w->staging_bytes = whim_aligned(w->staging_bytes);
}

static int64_t param_of_slab(const writer *w, int64_t item)
{
    int64_t low = 0, high = w->binder->n_param;
    while (high - low > 1) {
        int64_t mid = (low + high) / 2;
        if (w->first[mid] <= item) {
            low = mid;
        } else {
            high = mid;
        }
    }
    return low;
}

static whim_err write_slab(void *ctx, int64_t item, int32_t worker)
{
    writer *w = ctx;
    int64_t index = param_of_slab(w, item);
    const whim_param *p = &w->binder->params[index];
    char *staging = w->staging + worker * w->staging_bytes;
    int64_t rows = slab_rows(p), row0 = (item - w->first[index]) * rows;
    int64_t n_row = param_rows(p) - row0 < rows ? param_rows(p) - row0 : rows;
    int64_t row_bytes = p->parts[0].tensor->bytes / param_rows(p);
    if (p->vector) {
        whim_dummy_vector(p->name, p->n * p->k, (float *)staging);
        if (p->form == WHIM_VECTOR_NEG_EXP) {
            whim_vector_form_apply(p->form, (float *)staging, p->n * p->k);
        }
    } else {
        whim_dummy_rows(p->name, p->parts[0].tensor->dtype, p->k, row0, n_row, staging);
    }
    WHIM_TRY(
        write_at(w, w->data + w->offsets[index] + row0 * row_bytes, staging, n_row * row_bytes));
    int64_t done = atomic_fetch_add(&w->done, n_row * row_bytes) + n_row * row_bytes;
    if (w->on_progress != NULL) {
        w->on_progress(w->ctx, done, w->data_bytes);
    }
    return WHIM_ERR_OK;
}

static whim_err write_all(writer *w, const char *name, int32_t n_thread, whim_diag *diag)
{
    whim_err err = WHIM_ERR_OK;
    whim_str header = {0};
    w->offsets = whim_alloc_array(w->binder->n_param, sizeof *w->offsets);
    w->first = whim_alloc_array(w->binder->n_param + 1, sizeof *w->first);
    if (w->offsets == NULL || w->first == NULL) {
        err = WHIM_ERR_NO_MEMORY;
        goto out;
    }
    WHIM_TRY_OUT(make_header(&header, w, name, diag));
    cut(w);
    w->staging = whim_alloc_array(n_thread, w->staging_bytes);
    if (w->staging == NULL) {
        err = WHIM_ERR_NO_MEMORY;
        goto out;
    }
    /* The whole size first: a full disk is refused before any row is made. */
    int full = posix_fallocate(w->fd, 0, w->data + w->data_bytes);
    if (full != 0) {
        atomic_store(&w->failed, full);
        err = WHIM_ERR_IO;
        goto out;
    }
    WHIM_TRY_OUT(write_at(w, 0, whim_str_text(&header), header.len));
    err = whim_parallel_for(n_thread, w->first[w->binder->n_param], write_slab, w);
out:
    whim_str_deinit(&header);
    whim_free(w->offsets);
    whim_free(w->first);
    whim_free(w->staging);
    return err;
}

static whim_err check(const whim_engine *engine, const char *path, whim_diag *diag)
{
    const whim_config *c = whim_engine_config(engine);
    if (whim_engine_ckpt(engine)->format != WHIM_CKPT_DUMMY) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "only dummy weights can be written as a GGUF file: add --load-format "
                         "dummy");
    }
    if (c->rope.kind != WHIM_ROPE_DEFAULT || c->n_vocab <= N_BYTE || whim_gguf_arch_of(c) == NULL) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "a GGUF file of dummy weights needs an architecture that GGUF has, plain "
                         "rotary positions and a vocabulary of more than %d tokens",
                         N_BYTE);
    }
    if (whim_path_get_type(path) != WHIM_PATH_NONE) {
        return whim_fail(diag, WHIM_ERR_INVALID, "%s exists already; it is left as it is", path);
    }
    return WHIM_ERR_OK;
}

whim_err whim_dummy_gguf_write(const whim_engine *engine, const char *name, const char *path,
                               whim_load_progress *on_progress, void *ctx, whim_diag *diag)
{
    whim_str part = {0};
    WHIM_TRY(check(engine, path, diag));
    whim_str_printf(&part, "%s.part", path);
    writer w = {
        .config = whim_engine_config(engine),
        .binder = whim_engine_binder(engine),
        .path = whim_str_text(&part),
        .on_progress = on_progress,
        .ctx = ctx,
    };
    w.fd = open(w.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    whim_err err =
        w.fd < 0 ? WHIM_ERR_IO : write_all(&w, name, whim_engine_caps(engine)->n_loader, diag);
    if (w.fd < 0 || close(w.fd) != 0 || (err == WHIM_ERR_OK && rename(w.path, path) != 0)) {
        atomic_store(&w.failed, errno);
        err = WHIM_ERR_IO;
    }
    if (err != WHIM_ERR_OK && w.fd >= 0) {
        unlink(w.path);
    }
    if (atomic_load(&w.failed) != 0) {
        err = whim_fail(diag, WHIM_ERR_IO, "%s cannot be written: %s", w.path,
                        strerror(atomic_load(&w.failed)));
    }
    whim_str_deinit(&part);
    return err;
}

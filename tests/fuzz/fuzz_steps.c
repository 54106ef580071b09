/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file of recorded steps; and every block in it, or the bytes themselves as one, on
 * a tiny model: what is accepted must run without leaving its memory (the guard's buffers end where
 * they end). */
#include "base/alloc.h"
#include "fuzz_file.h"
#include "support/step_reader.h"
#include "weights/bind.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static whim_config tiny = {
    .n_layer = 2,
    .d_model = 32,
    .n_head = 4,
    .n_kv = 2,
    .d_head = 8,
    .d_ff = 48,
    .n_vocab = 61,
    .max_ctx = 160,
    .rms_eps = 1e-5f,
    .rope = {.rotary_dim = 8, .theta = 10000.0},
    .dtype = WHIM_DTYPE_F32,
    .gdn = {.n_key = 2, .n_value = 4, .d_key = 8, .d_value = 8, .n_tap = 4},
};

/* Opened once, for the life of the process. */
static whim_exec *tiny_exec(void)
{
    static whim_exec *exec;
    static whim_ckpt ckpt = {.format = WHIM_CKPT_DUMMY};
    static whim_arena arena;
    static whim_binder binder;
    if (exec != NULL) {
        return exec;
    }
    const whim_model_def *def;
    whim_device *device;
    whim_model *model;
    whim_diag diag = {""};
    whim_device_cfg device_cfg = {.n_thread = 1};
    whim_exec_cfg cfg = {.max_rows = 64,
                         .max_seqs = 3,
                         .max_outs = 8,
                         .max_ctx = 160,
                         .n_page = 8,
                         .page_len = 32,
                         .n_state = 3,
                         .max_kept = 16,
                         .kv_type = WHIM_KV_F32};
    whim_config_set_gdn(&tiny, 0);
    ckpt.config = tiny;
    whim_arena_init(&ckpt.arena);
    whim_arena_init(&arena);
    whim_binder_init(&binder);
    FUZZ_CHECK(whim_model_find("qwen3_5", &def, &diag) == WHIM_ERR_OK);
    ckpt.config.arch = &def->arch;
    FUZZ_CHECK(whim_backend_find("guard")->device_open(0, &device_cfg, &device, &diag) ==
               WHIM_ERR_OK);
    FUZZ_CHECK(def->bind(def, &ckpt.config, &arena, &binder, &model, &diag) == WHIM_ERR_OK);
    FUZZ_CHECK(whim_bind_match(&binder, &ckpt, device, &diag) == WHIM_ERR_OK);
    FUZZ_CHECK(whim_bind_load(&binder, &ckpt, device, 1, NULL, NULL, &diag) == WHIM_ERR_OK);
    FUZZ_CHECK(whim_exec_open(&ckpt.config, def, model, device, &cfg, &exec, &diag) == WHIM_ERR_OK);
    return exec;
}

static void try_block(const int32_t *words, int64_t n_word)
{
    whim_diag diag = {""};
    if (whim_exec_submit(tiny_exec(), words, n_word, NULL, &diag) == WHIM_ERR_OK) {
        FUZZ_CHECK(whim_exec_collect(tiny_exec(), &diag) == WHIM_ERR_OK);
    } else {
        FUZZ_CHECK(diag.text[0] != '\0');
    }
}

static void try_takes(const int32_t *words, int64_t n_word)
{
    whim_diag diag = {""};
    if (whim_exec_advance(tiny_exec(), 0, (const whim_step_take *)(const void *)words,
                          n_word / WHIM_TAKE_WORDS, &diag) != WHIM_ERR_OK) {
        FUZZ_CHECK(diag.text[0] != '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char name[] = "steps";
    whim_diag diag = {""};
    whim_record_reader reader;
    whim_record record;
    bool more = true;
    int32_t *words = whim_alloc((int64_t)n + 8); /* aligned, as files in memory are */
    FUZZ_CHECK(words != NULL);
    memcpy(words, data, n);
    whim_err err = whim_record_open(&reader, name, words, (int64_t)n, &diag);
    while (err == WHIM_ERR_OK && more) {
        err = whim_record_next(&reader, &record, &more, &diag);
        if (err == WHIM_ERR_OK && more && record.kind == WHIM_RECORD_STEP) {
            try_block(record.words, record.n_word);
        } else if (err == WHIM_ERR_OK && more && record.kind == WHIM_RECORD_ADVANCE) {
            try_takes(record.words, record.n_word);
        }
    }
    FUZZ_CHECK(err == WHIM_ERR_OK || strstr(diag.text, name) != NULL);
    try_block(words, (int64_t)(n / sizeof *words));
    whim_free(words);
    return 0;
}

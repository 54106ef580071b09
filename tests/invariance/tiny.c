/* SPDX-License-Identifier: Apache-2.0 */
/* The tiny models: every batch size, chunking, thread count, instruction level and backend, eagerly
 * and by graphs, against one sequence at a time in one piece. */
#include "invariance/invariance.h"

#include "base/os/cpu.h"
#include "support/tally.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 1024, MAX_MODELS = 64, LONG = 600, MEDIUM = 130, SHORT = 70 };

/* Those whose longest sequence goes beyond a segment of keys: one with F32 and one with BF16 keys.
 * The default model does so anyway. */
static const char *const long_models[] = {"qwen3-f32", "llama-f16"};

static const int64_t one[] = {1}, sixteen[] = {16}, whole[] = {MAX_ROWS};
static const int64_t uneven[] = {33, 1, 5, 64, 2};
/* Levels below the best run the first few: a kernel knows rows and lengths, and nothing of plans. */
static const named_plan plans[] = {
    {"alone, whole", {.n_at_once = 1, .chunks = whole, .n_chunk = 1}},
    {"alone, chunks of 1", {.n_at_once = 1, .chunks = one, .n_chunk = 1}},
    {"batch of 7, chunks of 16", {.n_at_once = 7, .chunks = sixteen, .n_chunk = 1}},
    {"batch of 3, uneven chunks", {.n_at_once = 3, .chunks = uneven, .n_chunk = 5}},
    {"alone, chunks of 16", {.n_at_once = 1, .chunks = sixteen, .n_chunk = 1}},
    {"batch of 7, whole", {.n_at_once = 7, .chunks = whole, .n_chunk = 1}},
    {"batch of 7, chunks of 1", {.n_at_once = 7, .chunks = one, .n_chunk = 1}},
};
enum { ALL_PLANS = sizeof plans / sizeof plans[0], FEW_PLANS = 4 };

/* Experts whose rows and outputs are whole chunks of a GPU's matrix unit, which those of the models
 * in files are not. The longest drive gives an expert more than 160 rows, and the others few. */
static const char experts_config[] =
    "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"model_type\": \"qwen3_moe\", "
    "\"hidden_size\": 64, \"intermediate_size\": 64, \"moe_intermediate_size\": 64, "
    "\"num_experts\": 6, \"num_experts_per_tok\": 4, \"decoder_sparse_step\": 1, "
    "\"norm_topk_prob\": true, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"head_dim\": 16, \"rms_norm_eps\": 1e-6, "
    "\"rope_theta\": 1e6, \"max_position_embeddings\": 512, \"vocab_size\": 61, "
    "\"torch_dtype\": \"bfloat16\"}";

/* One model and what is asked of it. */
typedef struct tiny {
    char name[64];
    char path[1024];
    const char *load_format; /* NULL: what the files are */
    const char *kv_type;     /* NULL: the model's own */
    bool quick;
    sequence_set set;
    bool first;          /* nothing is expected yet */
    const char *backend; /* the one to look at, or NULL */
    bool rounded;        /* what is expected comes from a level that rounds activations */
} tiny;

static whim_engine *open_engine(const tiny *t, const char *backend, const char *isa,
                                int32_t n_thread, bool graphs, int64_t ctx, whim_diag *diag)
{
    whim_engine_cfg cfg = {
        .model = t->path,
        .load_format = t->load_format,
        .backend = backend,
        .isa = isa,
        .n_thread = n_thread,
        .kv_type = t->kv_type,
        .ctx = ctx,
        .max_seqs = SET_MAX,
        .max_step_tokens = MAX_ROWS,
        .max_outs = MAX_ROWS,
        .graphs = graphs,
    };
    return drive_open(&cfg, diag);
}

/* Some plans on one engine: one test. */
static void check_engine(tiny *t, const char *backend, const char *isa, int32_t n_thread,
                         bool graphs, int32_t n_plan)
{
    char name[192];
    whim_diag diag = {{0}};
    snprintf(name, sizeof name, "%s%s%s/%s%s%s-t%d-%s", t->name, t->kv_type != NULL ? "-kv-" : "",
             t->kv_type != NULL ? t->kv_type : "", backend, isa != NULL ? "-" : "",
             isa != NULL ? isa : "", n_thread, graphs ? "graphs" : "eager");
    whim_engine *engine =
        open_engine(t, backend, isa, n_thread, graphs, t->set.jobs[0].n_tok, &diag);
    bool good = engine != NULL;
    int32_t done = 0;
    for (int32_t i = 0; i < n_plan && good; i++) {
        good = set_check(&t->set, whim_engine_runner(engine), &plans[i], t->first, &diag);
        t->first = false;
        done += good;
    }
    whim_engine_close(engine);
    if (good) {
        tally_check(true, name, "%d plans, the same bits", done);
    } else {
        tally_check(false, name, "%s", diag.text);
    }
}

/* Every number of threads, eagerly and by graphs. The guard computes slowly, and what its graphs
 * replay ran eagerly first. */
static void check_whole(tiny *t, const char *backend, const char *isa, int32_t max_thread)
{
    int32_t n_eager = strcmp(backend, "guard") == 0 ? FEW_PLANS : ALL_PLANS;
    for (int32_t n_thread = 1; n_thread <= max_thread; n_thread++) {
        check_engine(t, backend, isa, n_thread, false, n_eager);
        check_engine(t, backend, isa, n_thread, true, ALL_PLANS);
    }
}

static void check_backend(tiny *t, const char *backend)
{
    char levels[128], level[32], next[32];
    whim_diag diag = {{0}};
    if (!drive_levels(backend, levels, sizeof levels, &diag)) {
        tally_check(false, backend, "%s", diag.text);
        return;
    }
    bool named = levels[0] != '\0';
    int32_t max_thread = named && whim_os_cpu_count() > 1 ? 2 : 1;
    for (int32_t i = 0; named ? drive_word(levels, i, level, sizeof level) : i == 0; i++) {
        const char *isa = named ? level : NULL;
        bool rounds = drive_rounds(backend, isa);
        t->first |= rounds || t->rounded; /* compared with itself only */
        t->rounded = rounds;
        if (!named || !drive_word(levels, i + 1, next, sizeof next)) {
            check_whole(t, backend, isa, max_thread);
            continue;
        }
        if (i == 0) {
            check_engine(t, backend, isa, 1, false, FEW_PLANS);
        }
        check_engine(t, backend, isa, max_thread, true, FEW_PLANS);
    }
}

/* Vocabulary and context of the model, from its own files. */
static bool model_limits(const tiny *t, int64_t *n_vocab, int64_t *max_ctx, whim_diag *diag)
{
    whim_engine *engine = NULL;
    whim_engine_cfg cfg = {.model = t->path, .load_format = t->load_format};
    if (whim_engine_prepare(&cfg, &engine, diag) != WHIM_ERR_OK) {
        return false;
    }
    *n_vocab = whim_engine_config(engine)->n_vocab;
    *max_ctx = whim_engine_config(engine)->max_ctx;
    whim_engine_close(engine);
    return true;
}

static int64_t longest_of(const tiny *t)
{
    bool is_long = strcmp(t->name, long_models[0]) == 0 || strcmp(t->name, long_models[1]) == 0;
    return t->quick ? SHORT : is_long ? LONG : MEDIUM;
}

/* On all backends, on the first, or on the one that was asked for. */
static bool is_wanted(const tiny *t, bool all_backends, int32_t b)
{
    const char *name = whim_backend_at(b)->name;
    bool named = t->backend != NULL ? strcmp(t->backend, name) == 0 : all_backends || b == 0;
    return named && whim_backend_at(b)->device_count() > 0;
}

static void check_model(tiny *t, bool all_backends)
{
    whim_diag diag = {{0}};
    int64_t n_vocab, max_ctx, longest = longest_of(t);
    if (!model_limits(t, &n_vocab, &max_ctx, &diag)) {
        tally_check(false, t->name, "%s", diag.text);
        return;
    }
    /* Page ends, one more and one less, and a segment's end where the model goes that far. */
    int64_t lengths[SET_MAX] = {longest < max_ctx ? longest : max_ctx, 64, 33, 32, 31, 5, 1};
    if (!set_init(&t->set, SET_MAX, SET_MAX, lengths, lengths, NULL, n_vocab)) {
        tally_check(false, t->name, "no memory");
        return;
    }
    t->first = true;
    t->rounded = false;
    for (int32_t b = 0; b < whim_backend_count(); b++) {
        if (is_wanted(t, all_backends, b)) {
            check_backend(t, whim_backend_at(b)->name);
        }
    }
    bool is_short = strcmp(t->name, "llama-f32") == 0 || strcmp(t->name, "qwen35-f32") == 0;
    if (all_backends && t->backend == NULL && is_short && whim_backend_find("guard") != NULL) {
        /* How long pages are changes no bit. */
        check_engine(t, "guard", "page64", 1, false, ALL_PLANS);
        check_engine(t, "guard", "page128", 1, true, ALL_PLANS);
    }
    set_free(&t->set);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int32_t list_folders(const char *data, char names[][64])
{
    int32_t n = 0;
    DIR *dir = opendir(data);
    for (struct dirent *e = dir != NULL ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        if (e->d_name[0] != '.' && strcmp(e->d_name, "default") != 0 && n < MAX_MODELS) {
            snprintf(names[n++], 64, "%.63s", e->d_name);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    qsort(names, (size_t)n, 64, by_name);
    return n;
}

static void check_experts(bool quick, const char *backend)
{
    char folder[] = DUMMY_FOLDER;
    tiny t = {.name = "dummy-experts", .load_format = "dummy", .quick = quick, .backend = backend};
    if (dummy_folder_make(folder, experts_config)) {
        snprintf(t.path, sizeof t.path, "%s", folder);
        check_model(&t, true);
    } else {
        tally_check(false, t.name, "cannot write a configuration to %s", folder);
    }
    dummy_folder_remove(folder);
}

void invariance_tiny(const char *data, bool quick, const char *backend)
{
    static char names[MAX_MODELS][64];
    static const char *const kv_types[] = {"f32", "bf16", "f16", "q8"};
    int32_t n = list_folders(data, names);
    tally_check(n > 0, "tiny models", "%d folders in %s", n, data);
    for (int32_t i = 0; i < n; i++) {
        tiny t = {.quick = quick, .backend = backend};
        snprintf(t.name, sizeof t.name, "%.63s", names[i]);
        snprintf(t.path, sizeof t.path, "%.900s/%.63s", data, names[i]);
        check_model(&t, true);
        for (size_t k = 0; k < 4 && !quick && strcmp(t.name, "llama-f32") == 0; k++) {
            t.kv_type = kv_types[k];
            check_model(&t, false);
        }
    }
    check_experts(quick, backend);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Every tiny model over several ranks, which are threads of this process with an engine each: as
 * one rank within what the order of sums moves, and the same bits however rows are cut into steps.
 */
#include "comm/comm.h"
#include "golden/ranks.h"
#include "support/tally.h"
#include "tensor/rank.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CTX = 256, MAX_ROWS = 256, MAX_SEQS = 2, PROMPTS = 2, MAX_MODELS = 64 };

static const double CLOSE = 1e-3;

static const int32_t sizes[] = {2, 3, 5, 7};
enum { N_SIZE = sizeof sizes / sizeof sizes[0] };

static const int64_t ones[] = {1}, uneven[] = {5, 16, 3, 1, 1, 37, 2, 1, 64, 8};
static const drive_plan plans[] = {
    {.n_at_once = 1, .prompt_whole = true, .chunks = ones, .n_chunk = 1},
    {.n_at_once = 2, .chunks = uneven, .n_chunk = 10},
};
static_assert(sizeof plans / sizeof plans[0] == RANKS_PLANS, "the plans");

static whim_engine *open_engine(const rank_member *m, whim_comm *comm, whim_diag *diag)
{
    whim_engine_cfg cfg = {
        .model = m->path,
        .load_format = m->weight_type != NULL ? "dummy" : "auto",
        .weight_type = m->weight_type,
        .backend = m->backend,
        .isa = m->isa,
        .n_thread = 1,
        .kv_type = "f32",
        .ctx = CTX,
        .max_seqs = MAX_SEQS,
        .max_step_tokens = MAX_ROWS,
        .max_outs = MAX_ROWS,
        .graphs = m->graphs ? WHIM_GRAPHS_ON : WHIM_GRAPHS_OFF,
        .n_rank = m->n_rank,
        .rank = m->rank,
        .comm = comm,
    };
    return drive_open(&cfg, diag);
}

/* The best of a row are those of its logits, found on ranks and merged. */
static bool same_best(const rank_member *m, whim_ranked best, const float *logits)
{
    enum { MAX_VOCAB = 1024 };
    uint64_t keys[MAX_VOCAB];
    int32_t n = (int32_t)m->g->vocab;
    for (int32_t i = 0; i < n; i++) {
        keys[i] = whim_rank_key(logits[i], i);
    }
    whim_rank_top(keys, n, best.n < n ? best.n : n);
    bool same = best.n > 0;
    for (int32_t i = 0; i < best.n && i < n; i++) {
        same =
            same && best.ids[i] == whim_rank_id(keys[i]) && best.values[i] == logits[best.ids[i]];
    }
    return same;
}

/* A step that wants the best only. `job` has the logits of all its rows. */
static whim_err run_best(rank_member *m, whim_runner *runner, const drive_job *job)
{
    static const int32_t tops[] = {1, 20, 64};
    whim_err err = WHIM_ERR_OK;
    for (int32_t i = 0; i < 3 && err == WHIM_ERR_OK; i++) {
        whim_sequence *seq = NULL;
        WHIM_TRY(whim_runner_sequence_create(runner, &seq));
        whim_step_part part = {
            .seq = seq, .tokens = job->tokens, .n_tok = job->n_tok, .n_out = 2, .n_top = tops[i]};
        err = whim_runner_step(runner, &part, 1, &m->diag);
        for (int64_t r = 0; r < 2 && err == WHIM_ERR_OK; r++) {
            int64_t row = job->n_out - 2 + r;
            if (!same_best(m, whim_exec_best(whim_runner_exec(runner), r),
                           job->logits + row * m->g->vocab)) {
                err = whim_fail(&m->diag, WHIM_ERR_INVALID, "the %d best of row %d are others",
                                tops[i], (int)row);
            }
        }
        whim_runner_sequence_destroy(runner, seq);
    }
    return err;
}

/* A token takes the bytes between ranks that the plan says. */
static whim_err run_counted(rank_member *m, whim_engine *engine, const whim_comm *comm)
{
    whim_runner *runner = whim_engine_runner(engine);
    int64_t predicted = whim_engine_runner_plan(engine)->token_comm, before = comm->n_byte;
    whim_sequence *seq = NULL;
    int32_t token = 1;
    WHIM_TRY(whim_runner_sequence_create(runner, &seq));
    whim_step_part part = {.seq = seq, .tokens = &token, .n_tok = 1, .n_out = 1, .n_top = 1};
    whim_err err = whim_runner_step(runner, &part, 1, &m->diag);
    whim_runner_sequence_destroy(runner, seq);
    if (err == WHIM_ERR_OK && comm->n_byte - before != predicted) {
        err = whim_fail(&m->diag, WHIM_ERR_INVALID, "a token took %lld bytes, planned were %lld",
                        (long long)(comm->n_byte - before), (long long)predicted);
    }
    return err;
}

static bool run_plans(rank_member *m, whim_engine *engine, const whim_comm *comm)
{
    whim_err err = comm != NULL ? run_counted(m, engine, comm) : WHIM_ERR_OK;
    for (int32_t i = 0; i < RANKS_PLANS && err == WHIM_ERR_OK; i++) {
        drive_job jobs[GOLDEN_MAX_PROMPTS];
        m->logits[i] = golden_jobs(m->g, PROMPTS, jobs);
        m->n_value = 0;
        for (int32_t j = 0; j < PROMPTS; j++) {
            m->n_value += jobs[j].n_out * m->g->vocab;
        }
        err = m->logits[i] != NULL ? drive_run(whim_engine_runner(engine), m->g->vocab, jobs,
                                               PROMPTS, &plans[i], &m->diag)
                                   : WHIM_ERR_NO_MEMORY;
        if (err == WHIM_ERR_OK) {
            err = run_best(m, whim_engine_runner(engine), &jobs[0]);
        }
    }
    return err == WHIM_ERR_OK;
}

/* Do what rank 0 does, and keep a page where that is wanted. */
static bool follow(rank_member *m, whim_exec *exec)
{
    if (whim_exec_follow(exec, &m->diag) != WHIM_ERR_OK) {
        return false;
    }
    m->page_bytes = m->holders != NULL ? whim_exec_plan_of(exec)->page_bytes : 0;
    m->page = m->page_bytes > 0 ? malloc((size_t)m->page_bytes) : NULL;
    return m->page_bytes == 0 || whim_exec_page_read(exec, 0, m->page) == WHIM_ERR_OK;
}

static void *member_run(void *arg)
{
    rank_member *m = arg;
    whim_comm comm;
    if (m->n_rank > 1) {
        whim_comm_open(
            &comm, m->memory,
            &(whim_comm_cfg){.rank = m->rank, .wait_ns = INT64_C(60000000000), .crowded = true});
    }
    whim_engine *engine = open_engine(m, m->n_rank > 1 ? &comm : NULL, &m->diag);
    m->good = engine == NULL ? false
              : m->rank == 0 ? run_plans(m, engine, m->n_rank > 1 ? &comm : NULL)
                             : follow(m, whim_runner_exec(whim_engine_runner(engine)));
    if (!m->good && m->n_rank > 1) {
        whim_comm_abort(m->memory, m->diag.text);
    }
    whim_engine_close(engine);
    return NULL;
}

void ranks_free(rank_member *members, int32_t n)
{
    for (int32_t r = 0; r < n; r++) {
        free(members[r].logits[0]);
        free(members[r].logits[1]);
        free(members[r].page);
    }
}

bool ranks_run(rank_member *members, int32_t n_rank, rank_member *like)
{
    whim_comm_memory memory = {0};
    if (n_rank > 1 && whim_comm_memory_make(n_rank, &memory, &like->diag) != WHIM_ERR_OK) {
        return false;
    }
    for (int32_t r = 0; r < n_rank; r++) {
        members[r] = *like;
        members[r].memory = &memory;
        members[r].n_rank = n_rank;
        members[r].rank = r;
        pthread_create(&members[r].thread, NULL, member_run, &members[r]);
    }
    bool good = true;
    for (int32_t r = 0; r < n_rank; r++) {
        pthread_join(members[r].thread, NULL);
        if (!members[r].good && good) {
            like->diag = members[r].diag;
        }
        good = good && members[r].good;
    }
    if (n_rank > 1) {
        whim_comm_memory_close(&memory);
    }
    return good;
}

/* Log-probabilities against those of one rank, and the likeliest tokens where that is sure. */
static void compare(const char *name, double tolerance, const rank_member *one,
                    const rank_member *many)
{
    const golden *g = one->g;
    double most = 0.0;
    int64_t n_row = one->n_value / g->vocab, n_other = 0, n_close = 0;
    for (int64_t r = 0; r < n_row; r++) {
        const float *a = one->logits[0] + r * g->vocab, *b = many->logits[0] + r * g->vocab;
        double sum_a = golden_log_sum(a, g->vocab), sum_b = golden_log_sum(b, g->vocab);
        int32_t best = golden_argmax(a, g->vocab), other = golden_argmax(b, g->vocab);
        n_other += best != other && (double)(a[best] - a[other]) > 2 * tolerance;
        double row = 0.0;
        for (int64_t i = 0; i < g->vocab; i++) {
            double off = fabs((double)a[i] - sum_a - ((double)b[i] - sum_b));
            row = off <= row ? row : off; /* NaN counts */
        }
        most = row <= most ? most : row;
        n_close += row <= CLOSE;
    }
    tally_check(most <= tolerance && n_other == 0, name,
                "largest %.3g of %.3g, %lld of %lld rows within %g, %lld prefer another token",
                most, tolerance, (long long)n_close, (long long)n_row, CLOSE, (long long)n_other);
}

/* Those who hold the same KV heads have the same bits in their pages, and nobody else has. */
static void compare_pages(const char *name, const rank_member *members, int32_t n_rank)
{
    int32_t n_same = 0, n_wrong = 0;
    for (int32_t r = 2; r < n_rank; r++) {
        const rank_member *a = &members[r - 1], *b = &members[r];
        bool same =
            a->page_bytes == b->page_bytes && memcmp(a->page, b->page, (size_t)a->page_bytes) == 0;
        bool wanted = a->holders[r - 1] == a->holders[r];
        n_same += wanted;
        n_wrong += same != wanted;
    }
    tally_check(n_wrong == 0, name, "%d pages as another's, %d wrong", n_same, n_wrong);
}

void ranks_check(const char *model, double tolerance, const rank_member *one, rank_member like,
                 int32_t n_rank)
{
    char name[192], bits[224];
    rank_member members[RANKS_MAX] = {0};
    snprintf(name, sizeof name, "%s/%s-tp%d-%s", model, like.backend, n_rank,
             like.graphs ? "graphs" : "eager");
    if (!ranks_run(members, n_rank, &like)) {
        tally_check(false, name, "%s", like.diag.text);
        ranks_free(members, n_rank);
        return;
    }
    compare(name, tolerance, one, &members[0]);
    size_t bytes = (size_t)one->n_value * sizeof(float);
    bool same = memcmp(members[0].logits[0], members[0].logits[1], bytes) == 0;
    snprintf(bits, sizeof bits, "%s bits", name);
    tally_check(same, bits, "%d plans", RANKS_PLANS);
    if (like.holders != NULL) {
        snprintf(bits, sizeof bits, "%s pages", name);
        compare_pages(bits, members, n_rank);
    }
    ranks_free(members, n_rank);
}

void ranks_check_sizes(const char *model, double tolerance, rank_member like, bool quick)
{
    char level[32];
    rank_member one = {0};
    like.backend = "cpu";
    like.isa = drive_exact_level("cpu", level, sizeof level);
    if (!ranks_run(&one, 1, &like)) {
        tally_check(false, model, "%s", like.diag.text);
    }
    for (size_t i = quick ? N_SIZE - 1 : 0; i < N_SIZE && one.good; i++) {
        ranks_check(model, tolerance, &one, like, sizes[i]);
    }
    if (!quick && one.good && strcmp(model, "minimax-f32") == 0) { /* more ranks than heads */
        ranks_check(model, tolerance, &one, like, RANKS_MAX);
    }
    if (!quick && one.good) {
        like.backend = "guard";
        like.isa = NULL;
        like.graphs = true;
        ranks_check(model, tolerance, &one, like, 2);
    }
    ranks_free(&one, 1);
}

static bool read_golden(golden *g, const golden_options *options, const char *model)
{
    char dir[512];
    whim_diag diag = {{0}};
    snprintf(dir, sizeof dir, "%s/%s", options->data, model);
    bool good = golden_read(g, dir, &diag) == WHIM_ERR_OK;
    if (!good) {
        tally_check(false, model, "%s", diag.text);
    }
    return good;
}

/* A model's own files, and a GGUF file of the same weights where there is one. With block types
 * rows become int8 in groups of 32: a sum that is nearly the same may be rounded the other way, and
 * where a head ends inside a group both ranks have a scale of their own. */
static void check_model(const golden_options *options, const char *model)
{
    golden g;
    char path[1024], twin[1100], name[128];
    if (!read_golden(&g, options, model)) {
        return;
    }
    golden_model_path(&g, path, sizeof path);
    rank_member like = {.g = &g, .path = path};
    ranks_check_sizes(model, g.rows_q8 != NULL ? g.tolerance : CLOSE, like, options->quick);
    snprintf(twin, sizeof twin, "%.512s/../twins/%.64s.gguf", options->data, model);
    if (access(twin, R_OK) == 0) {
        like.path = twin;
        snprintf(name, sizeof name, "%.64s-twin", model);
        ranks_check_sizes(name, CLOSE, like, true);
    }
    golden_free(&g);
}

/* Sizes that fit all types of weights. Heads of 48 end inside blocks of 32 and more; one of the two
 * has gated delta nets in the order of GGUF, whose heads of 64 lie in blocks of 256. */
static const struct {
    const char *name, *config;
} made[] = {
    {"llama", "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\","
              " \"hidden_size\": 256, \"num_attention_heads\": 16, \"num_key_value_heads\": 4,"
              " \"head_dim\": 48, \"intermediate_size\": 1280, \"num_hidden_layers\": 2,"
              " \"vocab_size\": 149, \"max_position_embeddings\": 512, \"attention_bias\": true,"
              " \"mlp_bias\": true, \"torch_dtype\": \"bfloat16\"}"},
    {"qwen3_5",
     "{\"architectures\": [\"Qwen3_5MoeForCausalLM\"], \"model_type\": \"qwen3_5_moe_text\","
     " \"hidden_size\": 256, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
     " \"head_dim\": 64, \"num_hidden_layers\": 4, \"vocab_size\": 149,"
     " \"max_position_embeddings\": 512, \"linear_conv_kernel_dim\": 4,"
     " \"linear_key_head_dim\": 32, \"linear_num_key_heads\": 4, \"linear_num_value_heads\": 8,"
     " \"linear_value_head_dim\": 64, \"num_experts\": 8, \"num_experts_per_tok\": 2,"
     " \"moe_intermediate_size\": 512, \"shared_expert_intermediate_size\": 768,"
     " \"full_attention_interval\": 4, \"torch_dtype\": \"bfloat16\"}"},
};

static const struct {
    const char *type;
    double tolerance;
} made_types[] = {{"bf16", 1e-3}, {"q8_0", 0.1}, {"q4_1", 0.1}, {"q4_k", 0.1}, {"fp8", 1e-3}};

static void check_made(const golden *g, const char *dir, const char *name, const char *config,
                       bool quick)
{
    char path[600], full[128];
    snprintf(path, sizeof path, "%s/config.json", dir);
    FILE *file = fopen(path, "w");
    if (file == NULL || fputs(config, file) < 0 || fclose(file) != 0) {
        tally_check(false, name, "cannot write %s", path);
        return;
    }
    for (size_t t = 0; t < sizeof made_types / sizeof made_types[0]; t++) {
        rank_member like = {.g = g, .path = dir, .weight_type = made_types[t].type};
        snprintf(full, sizeof full, "dummy-%s-%s", name, made_types[t].type);
        ranks_check_sizes(full, made_types[t].tolerance, like, quick);
    }
    unlink(path);
}

void golden_ranks_test(const golden_options *options)
{
    static char names[MAX_MODELS][64];
    char dir[] = "/tmp/whimbrel-ranks-XXXXXX";
    golden g;
    int32_t n = golden_list(options->data, names, MAX_MODELS);
    for (int32_t i = 0; i < n; i++) {
        check_model(options, names[i]);
    }
    if (mkdtemp(dir) == NULL || !read_golden(&g, options, "llama-f32")) {
        tally_check(false, "dummy", "no folder for configurations");
        return;
    }
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        check_made(&g, dir, made[i].name, made[i].config, options->quick);
    }
    ranks_edges_test(&g, dir, options->quick);
    rmdir(dir);
    golden_free(&g);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Every tiny model over several ranks, which are threads of this process with an engine each: as
 * one rank within what the order of sums moves, and the same bits however rows are cut into steps;
 * where ranks share the rows of a whole model, or have sequences of their own, the bits of one. */
#include "golden/ranks.h"
#include "support/tally.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_MODELS = 64, NUDGES = 2 };

/* Logits: of floats; what a single value that is rounded the other way moves; many of them. */
static const double CLOSE = 1e-3, FLIP = 0.03, FAR = 0.1;

static const int32_t sizes[] = {2, 3, 5, 7};
enum { N_SIZE = sizeof sizes / sizeof sizes[0] };

/* Logits beside those of one rank. */
typedef struct gap {
    double most; /* of log-probabilities */
    double
        turned; /* the largest gap in one rank's logits at which another token is the likeliest */
    int64_t n_row, n_close;
} gap;

static gap gap_of(const rank_member *one, const rank_member *many)
{
    int64_t n = one->g->vocab;
    gap all = {.n_row = one->n_value / n};
    for (int64_t r = 0; r < all.n_row; r++) {
        const float *a = one->logits[0] + r * n;
        const float *b = many->logits[many->uneven ? RANKS_PLANS - 1 : 0] + r * n;
        double sum_a = golden_log_sum(a, n), sum_b = golden_log_sum(b, n);
        double turned = (double)(a[golden_argmax(a, n)] - a[golden_argmax(b, n)]), row = 0.0;
        for (int64_t i = 0; i < n; i++) {
            double off = fabs((double)a[i] - sum_a - ((double)b[i] - sum_b));
            row = off <= row ? row : off; /* NaN counts */
        }
        all.most = row <= all.most ? all.most : row;
        all.turned = turned <= all.turned ? all.turned : turned;
        all.n_close += row <= CLOSE;
    }
    return all;
}

/* A greedy text is the same, or goes another way where two tokens are as close as logits may be. */
static void compare_greedy(const char *name, const rank_bound *bound, const rank_member *one,
                           const rank_member *many)
{
    int32_t i = 0;
    while (i < RANKS_GREEDY && one->greedy[i] == many->greedy[i]) {
        i++;
    }
    double ahead = i < RANKS_GREEDY ? (double)one->ahead[i] : 0.0;
    tally_check(ahead <= 2 * bound->most, name, "%d of %d tokens, the next two %.3g apart", i,
                RANKS_GREEDY, ahead);
}

static void compare(const char *name, const rank_bound *bound, const rank_member *one,
                    const rank_member *many)
{
    gap all = gap_of(one, many);
    tally_check(all.most <= bound->most && all.turned <= 2 * bound->most &&
                    all.n_close >= bound->n_close,
                name,
                "largest %.3g of %.3g, %lld of %lld rows within %g of at least %lld, other tokens "
                "at gaps up to %.3g",
                all.most, bound->most, (long long)all.n_close, (long long)all.n_row, CLOSE,
                (long long)bound->n_close, all.turned);
}

/* Sums of several ranks are a last bit off. Floats stay close then; where rows become int8, a value
 * between two steps may go the other way, so that one rank whose sums are a last bit off is no
 * closer to itself. It is the measure: several ranks may be twice as far, since they are not off in
 * the same places. Some rows must be close where one rank has such: a scale that is not the whole
 * group's would leave none. */
static rank_bound bound_of(const char *model, const rank_member *one, rank_member like)
{
    rank_bound bound = {.most = like.rounds ? FLIP : CLOSE};
    int64_t least = one->n_value;
    char name[192];
    for (uint64_t seed = 0; seed < NUDGES && like.rounds; seed++) {
        rank_member moved = {0};
        bool good = ranks_run_nudged(&moved, &like, seed);
        gap all = good ? gap_of(one, &moved) : (gap){0};
        snprintf(name, sizeof name, "%s/cpu-last-bit%d", model, (int)seed);
        tally_check(good, name, "largest %.3g, %lld of %lld rows within %g%s", all.most,
                    (long long)all.n_close, (long long)all.n_row, CLOSE, like.diag.text);
        bound.most = fmin(FAR, fmax(bound.most, 2 * all.most));
        least = all.n_close < least ? all.n_close : least;
        ranks_free(&moved, 1);
    }
    bound.n_close = like.rounds && least > 0 ? (least + 7) / 8 : 0;
    return bound;
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

void ranks_check(const char *model, const rank_bound *bound, const rank_member *one,
                 rank_member like, int32_t n_rank)
{
    char name[192], bits[224];
    rank_member members[RANKS_MAX] = {0};
    snprintf(name, sizeof name, "%s/%s-%s%stp%d-%s", model, like.backend,
             like.groups ? "groups-" : "",
             !like.deals           ? ""
             : like.deal_span == 1 ? "ep-"
                                   : "ep-shared-",
             n_rank, like.graphs ? "graphs" : "eager");
    if (!ranks_run(members, n_rank, &like)) {
        tally_check(false, name, "%s", like.diag.text);
        ranks_free(members, n_rank);
        return;
    }
    compare(name, bound, one, &members[0]);
    if (like.speaks) {
        snprintf(bits, sizeof bits, "%s greedy", name);
        compare_greedy(bits, bound, one, &members[0]);
    }
    if (!like.uneven) {
        size_t bytes = (size_t)one->n_value * sizeof(float);
        bool same = memcmp(members[0].logits[0], members[0].logits[1], bytes) == 0;
        snprintf(bits, sizeof bits, "%s bits", name);
        tally_check(same, bits, "%d plans", RANKS_PLANS);
    }
    if (like.holders != NULL) {
        snprintf(bits, sizeof bits, "%s pages", name);
        compare_pages(bits, members, n_rank);
    }
    ranks_free(members, n_rank);
}

/* Two groups of as many ranks, each with sequences of its own. */
static void check_groups(const char *model, const rank_bound *bound, const rank_member *one,
                         rank_member like, int32_t span)
{
    like.groups = true;
    like.span = span;
    ranks_check(model, bound, one, like, 2 * span);
}

/* Whole experts on each rank, or on two together, with the rest cut over all or inside groups. */
static void check_dealt_cut(const char *model, const rank_bound *bound, const rank_member *one,
                            rank_member like)
{
    like.deals = true;
    like.deal_span = 1;
    ranks_check(model, bound, one, like, like.graphs ? 2 : 3);
    like.deal_span = 2;
    if (like.graphs) {
        check_groups(model, bound, one, like, 2);
    } else {
        ranks_check(model, bound, one, like, 4);
    }
}

static bool is_left_out(const rank_member *like, int32_t n_rank)
{
    return like->more != 0 && n_rank != sizes[0] && n_rank != like->more;
}

void ranks_check_sizes(const char *model, rank_member like, bool quick)
{
    char level[32];
    rank_member one = {0};
    like.backend = "cpu";
    like.isa = drive_exact_level("cpu", level, sizeof level);
    like.speaks = like.rounds; /* of floats the logits say enough */
    if (!ranks_run(&one, 1, &like)) {
        tally_check(false, model, "%s", like.diag.text);
    }
    rank_bound bound = one.good ? bound_of(model, &one, like) : (rank_bound){0};
    for (size_t i = quick ? N_SIZE - 1 : 0; i < N_SIZE && one.good; i++) {
        if (quick || !is_left_out(&like, sizes[i])) {
            ranks_check(model, &bound, &one, like, sizes[i]);
        }
    }
    if (!quick && one.good && strcmp(model, "minimax-f32") == 0) { /* more ranks than heads */
        ranks_check(model, &bound, &one, like, RANKS_MAX);
    }
    if (!quick && one.good) {
        ranks_same_test(model, &one, like);
        check_groups(model, &bound, &one, like, 2);
        if (!is_left_out(&like, 3)) {
            check_groups(model, &bound, &one, like, 3);
        }
        if (ranks_has_experts(model)) {
            check_dealt_cut(model, &bound, &one, like);
        }
        like.backend = "guard";
        like.isa = NULL;
        like.graphs = true;
        like.speaks = false;
        /* The law is slow: two plans of real weights on two ranks do. */
        like.uneven = like.weight_type != NULL;
        ranks_check(model, &bound, &one, like, 2);
        like.uneven = true;
        check_groups(model, &bound, &one, like, 2);
        if (ranks_has_experts(model)) {
            check_dealt_cut(model, &bound, &one, like);
        }
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

/* A model's own files, and a GGUF file of the same weights where there is one. Of models without
 * experts there are many of a kind: each takes two sizes, and the turn says which is the second. */
static void check_model(const golden_options *options, const char *model, int32_t turn)
{
    golden g;
    char path[1024], twin[1100], name[128];
    if (!read_golden(&g, options, model)) {
        return;
    }
    golden_model_path(&g, path, sizeof path);
    rank_member like = {.g = &g,
                        .path = path,
                        .rounds = g.rows_q8 != NULL,
                        .more = ranks_has_experts(model) ? 0 : sizes[1 + turn % (N_SIZE - 1)]};
    ranks_check_sizes(model, like, options->quick);
    snprintf(twin, sizeof twin, "%.512s/../twins/%.64s.gguf", options->data, model);
    if (access(twin, R_OK) == 0) {
        like.path = twin;
        snprintf(name, sizeof name, "%.64s-twin", model);
        ranks_check_sizes(name, like, true);
    }
    golden_free(&g);
}

/* Sizes that fit all types of weights. Heads of 48 end inside blocks and, on some ranks, inside
 * groups of 32; one of the two has gated delta nets in the order of GGUF. It takes all of its
 * experts: a last bit could choose another one. */
static const struct {
    const char *name, *config;
} made[] = {
    {"llama", "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\","
              " \"hidden_size\": 256, \"num_attention_heads\": 16, \"num_key_value_heads\": 2,"
              " \"head_dim\": 48, \"intermediate_size\": 1280, \"num_hidden_layers\": 2,"
              " \"vocab_size\": 149, \"max_position_embeddings\": 512, \"attention_bias\": true,"
              " \"mlp_bias\": true, \"torch_dtype\": \"bfloat16\"}"},
    {"qwen3_5",
     "{\"architectures\": [\"Qwen3_5MoeForCausalLM\"], \"model_type\": \"qwen3_5_moe_text\","
     " \"hidden_size\": 256, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
     " \"head_dim\": 64, \"num_hidden_layers\": 4, \"vocab_size\": 149,"
     " \"max_position_embeddings\": 512, \"linear_conv_kernel_dim\": 4,"
     " \"linear_key_head_dim\": 32, \"linear_num_key_heads\": 4, \"linear_num_value_heads\": 16,"
     " \"linear_value_head_dim\": 48, \"num_experts\": 4, \"num_experts_per_tok\": 4,"
     " \"moe_intermediate_size\": 512, \"shared_expert_intermediate_size\": 768,"
     " \"full_attention_interval\": 4, \"torch_dtype\": \"bfloat16\"}"},
};

/* Each type takes two sizes of groups, by its place here. */
static const struct {
    const char *type;
    bool rounds;
} made_types[] = {{"bf16", false}, {"q8_0", true}, {"q4_1", true}, {"q4_k", true}, {"fp8", false}};

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
        rank_member like = {.g = g,
                            .path = dir,
                            .weight_type = made_types[t].type,
                            .rounds = made_types[t].rounds,
                            .more = sizes[1 + (int32_t)t % (N_SIZE - 1)]};
        snprintf(full, sizeof full, "dummy-%s-%s", name, made_types[t].type);
        ranks_check_sizes(full, like, quick);
    }
    unlink(path);
}

void golden_ranks_test(const golden_options *options)
{
    static char names[MAX_MODELS][64];
    int32_t n = golden_list(options->data, names, MAX_MODELS);
    for (int32_t i = 0; i < n; i++) {
        check_model(options, names[i], i);
    }
}

void golden_ranks_made_test(const golden_options *options)
{
    char dir[] = "/tmp/whimbrel-ranks-XXXXXX";
    golden g;
    if (mkdtemp(dir) == NULL || !read_golden(&g, options, "llama-f32")) {
        tally_check(false, "dummy", "no folder for configurations");
        return;
    }
    if (!options->quick) {
        ranks_types_test(&g, dir);
    }
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        check_made(&g, dir, made[i].name, made[i].config, options->quick);
    }
    ranks_edges_test(&g, dir, options->quick);
    rmdir(dir);
    golden_free(&g);
}

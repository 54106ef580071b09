/* SPDX-License-Identifier: Apache-2.0 */
/* The default model over 1,500 tokens: three segments of keys, many pages. */
#include "invariance/invariance.h"

#include "base/os/cpu.h"
#include "support/tally.h"

#include <stdio.h>

enum { LENGTH = 1500, TAIL = 64, MAX_ROWS = 1536, MAX_OUTS = 128 };

static const int64_t one[] = {1}, sixteen[] = {16}, two_hundred[] = {200}, whole[] = {MAX_ROWS};
static const named_plan alone_whole = {"alone, whole",
                                       {.n_at_once = 1, .chunks = whole, .n_chunk = 1}};
static const named_plan alone_16 = {"alone, chunks of 16",
                                    {.n_at_once = 1, .chunks = sixteen, .n_chunk = 1}};
static const named_plan alone_200 = {"alone, chunks of 200",
                                     {.n_at_once = 1, .chunks = two_hundred, .n_chunk = 1}};
static const named_plan alone_tail = {
    "alone, the last 64 one by one",
    {.n_at_once = 1, .prompt_whole = true, .chunks = one, .n_chunk = 1}};
static const named_plan batch_200 = {"batch of 7, chunks of 200",
                                     {.n_at_once = 7, .chunks = two_hundred, .n_chunk = 1}};

typedef struct engine_case {
    const char *name;
    int32_t n_thread;
    bool graphs;
    const named_plan *plans[4]; /* up to NULL */
} engine_case;

/* The first plan of the first case is the expectation. */
static const engine_case cases[] = {
    {"default/t1-eager", 1, false, {&alone_whole, &alone_tail}},
    {"default/t2-graphs", 2, true, {&alone_16, &alone_200, &batch_200, &alone_tail}},
    {"default/t2-eager", 2, false, {&batch_200}},
    {"default/t1-graphs", 1, true, {&alone_200}},
};

static void check_case(sequence_set *set, const char *model, const engine_case *c, bool first)
{
    whim_diag diag = {{0}};
    if (c->n_thread > whim_os_cpu_count()) {
        tally_skip(c->name, "it needs %d CPUs", c->n_thread);
        return;
    }
    whim_engine_cfg cfg = {
        .model = model,
        .n_thread = c->n_thread,
        .ctx = LENGTH,
        .max_seqs = SET_MAX,
        .max_step_tokens = MAX_ROWS,
        .max_outs = MAX_OUTS,
        .graphs = c->graphs,
    };
    whim_engine *engine = drive_open(&cfg, &diag);
    if (engine == NULL) {
        tally_check(false, c->name, "%s", diag.text);
        return;
    }
    for (int32_t i = 0; i < 4 && c->plans[i] != NULL; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s: %s", c->name, c->plans[i]->name);
        bool good = set_check(set, whim_engine_runner(engine), c->plans[i], first && i == 0, &diag);
        tally_check(good, name, "%s", good ? "the same bits" : diag.text);
    }
    whim_engine_close(engine);
}

void invariance_default(const char *model)
{
    static const int64_t lengths[SET_MAX] = {LENGTH, 333, 200, 150, 64, 33, 7};
    static const int64_t outs[SET_MAX] = {TAIL, 1, 1, 1, 1, 1, 1};
    static const int64_t tails[SET_MAX] = {TAIL, 30, 30, 30, 30, 30, 3};
    static const int64_t n_vocab = 49152;
    sequence_set set;
    if (!set_init(&set, SET_MAX, 1, lengths, outs, tails, n_vocab)) {
        tally_check(false, "default", "no memory");
        return;
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_case(&set, model, &cases[i], i == 0);
    }
    set_free(&set);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that run a model's prompts by several plans, and a greedy text. */
#include "comm/rank_meters.h"
#include "golden/ranks.h"
#include "tensor/rank.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWERS = 16, CTX = 256, MAX_ROWS = 256, MAX_SEQS = 8, PROMPTS = 2 };

static const int64_t ones[] = {1}, uneven[] = {5, 16, 3, 1, 1, 37, 2, 1, 64, 8};
static const drive_plan plans[] = {
    {.n_at_once = 1, .prompt_whole = true, .chunks = ones, .n_chunk = 1},
    {.n_at_once = 2, .chunks = uneven, .n_chunk = 10},
};
static_assert(sizeof plans / sizeof plans[0] == RANKS_PLANS, "the plans");

/* Groups, or parts that share rows: each has the whole model. */
static int32_t blocks_of(const rank_member *m)
{
    return m->n_rank / (m->span > 0 ? m->span : 1);
}

static whim_engine *open_engine(const rank_member *m, whim_comm *comm, whim_stream_watch *watch,
                                whim_diag *diag)
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
        .n_share = !m->shares  ? 0
                   : m->groups ? m->span / (m->cut > 0 ? m->cut : 1)
                               : blocks_of(m),
        .n_group = m->groups ? blocks_of(m) : 0,
        .n_deal = m->deals ? (m->cut > 0                               ? m->cut
                              : m->shares && m->span > 0 && !m->groups ? m->span
                                                                       : m->n_rank) /
                                 (m->deal_span > 0 ? m->deal_span : 1)
                           : 0,
        .deal_cut = m->deal_span > 0,
        .deal_slots = m->slots,
        .deal_counts = m->deal_counts,
        .rank = m->rank,
        .comm = comm,
        .watch = watch,
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

/* The likeliest token after token, and how far ahead of the next one each is. */
static whim_err run_greedy(rank_member *m, whim_runner *runner)
{
    whim_sequence *seq = NULL;
    WHIM_TRY(whim_runner_sequence_create(runner, &seq));
    const golden_prompt *prompt = &m->g->prompts[0];
    whim_step_part part = {
        .seq = seq, .tokens = prompt->tokens, .n_tok = prompt->n_prompt, .n_out = 1, .n_top = 2};
    whim_err err = WHIM_ERR_OK;
    for (int32_t i = 0; i < RANKS_GREEDY && err == WHIM_ERR_OK; i++) {
        err = whim_runner_step(runner, &part, 1, &m->diag);
        whim_ranked best = whim_exec_best(whim_runner_exec(runner), 0);
        if (err == WHIM_ERR_OK) {
            m->greedy[i] = best.ids[0];
            m->ahead[i] = best.values[0] - best.values[1];
        }
        part.tokens = &m->greedy[i];
        part.n_tok = 1;
    }
    whim_runner_sequence_destroy(runner, seq);
    return err;
}

/* What a step of each group is: sequences of as many tokens, whose last ones give outputs, behind
 * others that have one. */
typedef struct shape {
    int64_t n_seq, n_tok, n_out, n_short;
    int32_t n_top;
} shape;

/* Such a step, the same in each group, and the bytes that ranks have told meanwhile. The first token
 * says which ones they are. */
static whim_err run_shape(rank_member *m, whim_runner *runner, const whim_comm *comm,
                          const shape *of, int64_t first, int64_t *bytes)
{
    int32_t tokens[MAX_ROWS];
    whim_step_part parts[RANKS_MAX * MAX_SEQS] = {0};
    int64_t n_each = of->n_short + of->n_seq, n_made = 0;
    int64_t n_part = n_each * (m->groups ? blocks_of(m) : 1);
    whim_err err = WHIM_ERR_OK;
    for (int64_t i = 0; i < MAX_ROWS; i++) {
        tokens[i] = (int32_t)((first + i) * 11 % m->g->vocab);
    }
    for (; n_made < n_part && err == WHIM_ERR_OK; n_made += err == WHIM_ERR_OK) {
        whim_step_part *part = &parts[n_made];
        int64_t number = n_made % n_each;
        bool is_short = number < of->n_short;
        *part = (whim_step_part){.tokens = tokens + number,
                                 .n_tok = is_short ? 1 : of->n_tok,
                                 .n_out = is_short ? 1 : of->n_out,
                                 .n_top = of->n_top};
        err = whim_runner_sequence_create_in(runner, (int32_t)(n_made / n_each), &part->seq);
    }
    *bytes = -comm->n_byte;
    err = err == WHIM_ERR_OK ? whim_runner_step(runner, parts, n_part, &m->diag) : err;
    *bytes += comm->n_byte;
    for (int64_t g = 0; g < n_made; g++) {
        whim_runner_sequence_destroy(runner, parts[g].seq);
    }
    return err;
}

/* Bytes are as said, or off by a part of that which is 1 of `share`; 0: by none. */
static whim_err check_bytes(rank_member *m, const char *what, int64_t told, int64_t said,
                            int64_t share)
{
    int64_t apart = told > said ? told - said : said - told;
    if (apart == 0 || (share > 0 && share * apart <= said)) {
        return WHIM_ERR_OK;
    }
    return whim_fail(&m->diag, WHIM_ERR_INVALID, "%s took %lld bytes, said were %lld", what,
                     (long long)told, (long long)said);
}

/* Prompts take the bytes between ranks that are said of them: those of few tokens exactly, those
 * that fill a step within 5%, as experts are not chosen quite evenly and some rows are padding. Few
 * tokens that are shared and go to experts as well are one or two for each rank, and those that go
 * behind their choices travel to some of the ranks: no choice of so few is even. A full step is the
 * CPU's: the guard computes it by the law, slowly, and would tell the same. */
static whim_err count_prompts(rank_member *m, whim_engine *engine, const whim_comm *comm)
{
    static const int64_t sizes[] = {1, 2, 4, MAX_ROWS};
    size_t n_size = sizeof sizes / sizeof sizes[0] - (strcmp(m->backend, "guard") == 0);
    for (size_t i = 0; i < n_size; i++) {
        int64_t said, told, n = sizes[i];
        const shape prompt = {.n_seq = 1, .n_tok = n, .n_out = 1, .n_top = 1};
        bool chosen = m->shares || (m->slots > 0 && n > m->slots);
        bool few = n > 1 && n < MAX_ROWS && m->deals && chosen;
        WHIM_TRY(whim_engine_step_comm(engine, n, true, &said));
        WHIM_TRY(run_shape(m, whim_engine_runner(engine), comm, &prompt, 0, &told));
        if (!few) {
            WHIM_TRY(check_bytes(m, "a prompt", told, said, n == MAX_ROWS ? 20 : 0));
        }
    }
    return WHIM_ERR_OK;
}

/* The largest message of any step: all rows give logits or the most of the best. Those of one prompt
 * are shared evenly; where it is alone with answers, one rank has as many more as it can. */
static whim_err check_largest(rank_member *m, whim_runner *runner, const whim_comm *comm,
                              rank_meter *meter)
{
    enum { SHORT = MAX_SEQS - 1, LONG = MAX_ROWS - SHORT };
    static const shape all[] = {{1, MAX_ROWS, MAX_ROWS, 0, 0},
                                {1, MAX_ROWS, MAX_ROWS, 0, WHIM_TOPK_MAX},
                                {1, LONG, LONG, SHORT, 0},
                                {1, LONG, LONG, SHORT, WHIM_TOPK_MAX}};
    int64_t told, said = whim_exec_plan_of(whim_runner_exec(runner))->most_comm;
    meter->on = true;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        WHIM_TRY(run_shape(m, runner, comm, &all[i], 0, &told));
    }
    meter->on = false;
    return check_bytes(m, "the largest message", meter->most, said, 20);
}

/* The same of sequences that answer, within 5% where results come from experts that are not
 * everywhere: choices of few tokens are not even, so many steps count together. */
static whim_err run_counted(rank_member *m, whim_engine *engine, const whim_comm *comm,
                            rank_meter *meter)
{
    static const shape answers = {.n_seq = MAX_SEQS, .n_tok = 1, .n_out = 1, .n_top = 1};
    whim_runner *runner = whim_engine_runner(engine);
    int64_t said, told = 0, bytes;
    bool even = m->deals && m->deal_span == 0;
    int64_t n_step = even ? ANSWERS : 1;
    WHIM_TRY(count_prompts(m, engine, comm));
    WHIM_TRY(whim_engine_step_comm(engine, MAX_SEQS, false, &said));
    for (int64_t i = 0; i < n_step; i++) {
        WHIM_TRY(run_shape(m, runner, comm, &answers, i * MAX_SEQS, &bytes));
        told += bytes;
    }
    said *= n_step;
    WHIM_TRY(check_bytes(m, "answers", told, said, even ? 20 : 0));
    return meter == NULL ? WHIM_ERR_OK : check_largest(m, runner, comm, meter);
}

/* How long ranks have waited for each other's choices: some time, wherever these go by
 * themselves. */
static int64_t waited_for_choices(const rank_member *m)
{
    int64_t sum = 0;
    for (int32_t r = 0; r < m->n_rank && m->n_rank > 1; r++) {
        whim_rank_meters meters;
        whim_rank_meters_look(m->memory, r, &meters);
        for (int32_t i = 0; i < meters.n_site; i++) {
            sum += strcmp(meters.sites[i].name, "choices") == 0 ? meters.sites[i].waited_ns : 0;
        }
    }
    return sum;
}

static bool run_plans(rank_member *m, whim_engine *engine, const whim_comm *comm, rank_meter *meter)
{
    drive_job jobs[GOLDEN_MAX_PROMPTS];
    int32_t first = m->uneven ? RANKS_PLANS - 1 : 0, last = m->once ? 0 : RANKS_PLANS - 1;
    bool counts = comm != NULL && !m->uncounted;
    whim_err err = counts ? run_counted(m, engine, comm, meter) : WHIM_ERR_OK;
    if (err == WHIM_ERR_OK && m->speaks) {
        err = run_greedy(m, whim_engine_runner(engine));
    }
    int64_t waited = waited_for_choices(m);
    for (int32_t i = first; i <= last && err == WHIM_ERR_OK; i++) {
        m->logits[i] = golden_jobs(m->g, PROMPTS, jobs);
        m->n_value = 0;
        for (int32_t j = 0; j < PROMPTS; j++) {
            m->n_value += jobs[j].n_out * m->g->vocab;
        }
        err = m->logits[i] != NULL ? drive_run(whim_engine_runner(engine), m->g->vocab, jobs,
                                               PROMPTS, &plans[i], &m->diag)
                                   : WHIM_ERR_NO_MEMORY;
    }
    m->sent_apart = waited_for_choices(m) > waited;
    if (err == WHIM_ERR_OK && !m->once) {
        err = run_best(m, whim_engine_runner(engine), &jobs[0]);
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
    return m->page_bytes == 0 ||
           whim_exec_item_read(exec, WHIM_EXEC_PAGE, 0, m->page) == WHIM_ERR_OK;
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
    rank_meter meter;
    bool meters = m->rank == 0 && m->n_rank > 1 && m->watch == NULL && !m->graphs;
    whim_engine *engine = open_engine(m, m->n_rank > 1 ? &comm : NULL,
                                      meters ? rank_meter_watch(&meter) : m->watch, &m->diag);
    m->good = engine == NULL ? false
              : m->rank == 0
                  ? run_plans(m, engine, m->n_rank > 1 ? &comm : NULL, meters ? &meter : NULL)
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

/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of drafts share: tiny drafts with what a PyTorch implementation proposes
 * (tests/data/drafts), texts fed in steps of any length, configurations with one text replaced.
 * Tests run from the root of the repository. */
#ifndef WHIM_TESTS_DRAFT_FIXTURE_H
#define WHIM_TESTS_DRAFT_FIXTURE_H

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "engine/engine.h"
#include "support/cmocka.h"
#include "support/drive.h"
#include "unit/draft/draft_variant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_TEXT = 128, MAX_BLOCK = 16 };

static whim_diag diag;
static whim_engine_cfg draft_wish; /* what else is asked of the next engine */
static int32_t draft_group;        /* whose sequences prompts are */

typedef struct golden {
    whim_json *json;
    whim_json_scope top;
} golden;

static inline golden golden_open(const char *name)
{
    static char path[256];
    golden g = {0};
    char *text = NULL;
    int64_t n = 0;
    snprintf(path, sizeof path, "tests/data/drafts/%s/golden.json", name);
    assert_int_equal(whim_file_read_all(path, 1 << 20, &text, &n, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_json_parse(&g.json, text, n,
                                     (whim_json_limits){.max_bytes = 1 << 20, .max_depth = 16},
                                     path, &diag),
                     WHIM_ERR_OK);
    whim_free(text);
    g.top = (whim_json_scope){.obj = g.json, .path = path, .prefix = "", .diag = &diag};
    return g;
}

static inline const whim_json *array_of(const whim_json *obj, const char *key)
{
    const whim_json *out = NULL;
    whim_json_scope at = {.obj = obj, .path = "golden", .prefix = "", .diag = &diag};
    assert_int_equal(whim_json_get_array(&at, key, &out), WHIM_ERR_OK);
    assert_non_null(out);
    return out;
}

static inline int64_t ids_of(const whim_json *obj, const char *key, int32_t *out)
{
    const whim_json *ids = array_of(obj, key);
    int64_t n = whim_json_size(ids);
    for (int64_t i = 0; i < n; i++) {
        int64_t id = -1;
        assert_true(i < MAX_TEXT && whim_json_as_int(whim_json_at(ids, i), &id));
        out[i] = (int32_t)id;
    }
    return n;
}

static inline whim_engine *engine_open(const golden *g, const char *name)
{
    const char *target = NULL;
    static char model[256], draft[256];
    assert_int_equal(whim_json_get_string(&g->top, "target", &target), WHIM_ERR_OK);
    bool own = strstr(name, "-mtp") != NULL; /* the draft lies in a model of its own folder */
    snprintf(model, sizeof model, "tests/data/%s/%s", own ? "drafts" : "golden",
             own ? name : target);
    snprintf(draft, sizeof draft, "%s%s", name[0] == '/' ? "" : "tests/data/drafts/", name);
    whim_engine_cfg cfg = draft_wish;
    cfg.model = model;
    cfg.draft = own ? WHIM_DRAFT_OWN : draft;
    cfg.n_thread = cfg.n_thread > 0 ? cfg.n_thread : 2;
    cfg.max_seqs = 2;
    cfg.max_outs = 2 * MAX_BLOCK;
    cfg.ctx = MAX_TEXT;
    whim_engine *engine = drive_open(&cfg, &diag);
    if (engine == NULL) {
        fail_msg("%s", diag.text);
    }
    return engine;
}

/* Feed text[from .. to) in steps of `chunk`, each followed by rows that are cut off again. */
static inline void feed(whim_runner *runner, whim_sequence *seq, const int32_t *text, int64_t to,
                        int64_t chunk)
{
    static const int32_t junk[] = {3, 1, 4, 1, 5};
    while (seq->len < to) {
        int64_t at = seq->len, n = to - at < chunk ? to - at : chunk;
        whim_step_part part = {.seq = seq, .tokens = text + at, .n_tok = n};
        assert_int_equal(whim_runner_step(runner, &part, 1, &diag), WHIM_ERR_OK);
        part = (whim_step_part){.seq = seq, .tokens = junk, .n_tok = 5, .keeps_state = true};
        assert_int_equal(whim_runner_step(runner, &part, 1, &diag), WHIM_ERR_OK);
        assert_int_equal(whim_runner_sequence_cut(runner, seq, at + n), at + n);
    }
}

static inline void propose(whim_engine *engine, whim_sequence *seq, int32_t anchor, int32_t *out)
{
    int64_t len = seq->len, n = whim_draft_most(whim_engine_draft(engine));
    whim_proposal wanted = {.seq = seq, .last = anchor, .n = n, .out = out};
    assert_int_equal(whim_propose(whim_engine_proposer(engine), &wanted, 1, &diag), WHIM_ERR_OK);
    assert_int_equal(seq->len, len);
}

/* What a test says of the block that was just proposed for a step of a golden. */
typedef void step_check(const golden *g, whim_engine *engine, const whim_json *step);

static inline void one_prompt(const golden *g, whim_engine *engine, const whim_json *prompt,
                              int64_t chunk, step_check *check)
{
    int32_t text[2 * MAX_TEXT], wanted[MAX_TEXT], got[MAX_BLOCK];
    whim_runner *runner = whim_engine_runner(engine);
    whim_sequence *seq;
    int64_t n = ids_of(prompt, "tokens", text);
    ids_of(prompt, "greedy", text + n);
    const whim_json *steps = array_of(prompt, "steps");
    assert_int_equal(whim_runner_sequence_create_in(runner, draft_group, &seq), WHIM_ERR_OK);
    for (int64_t i = 0; i < whim_json_size(steps); i++) {
        const whim_json *step = whim_json_at(steps, i);
        int64_t accepted = -1;
        whim_json_scope at = {.obj = step, .path = "golden", .prefix = "", .diag = &diag};
        assert_int_equal(whim_json_get_int(&at, "accepted", 0, MAX_TEXT, &accepted), WHIM_ERR_OK);
        int64_t n_wanted = ids_of(step, "proposed", wanted);
        assert_int_equal(n_wanted, whim_draft_most(whim_engine_draft(engine)));
        feed(runner, seq, text, n + accepted, chunk);
        propose(engine, seq, text[n + accepted], got);
        assert_memory_equal(got, wanted, (size_t)n_wanted * sizeof *got);
        check(g, engine, step);
        propose(engine, seq, text[n + accepted], got); /* what a block leaves changes nothing */
        assert_memory_equal(got, wanted, (size_t)n_wanted * sizeof *got);
    }
    whim_runner_sequence_destroy(runner, seq);
}

/* The score of a serial draft's last token, to which all before it have led. */
static inline void expect_score(const golden *g, whim_engine *engine, const whim_json *step)
{
    (void)g;
    int64_t millionths = 0;
    whim_json_scope at = {.obj = step, .path = "golden", .prefix = "", .diag = &diag};
    assert_int_equal(
        whim_json_get_int(&at, "last_score_millionths", INT32_MIN, INT32_MAX, &millionths),
        WHIM_ERR_OK);
    double score =
        (double)whim_exec_best(whim_runner_exec(whim_engine_runner(engine)), 0).values[0];
    assert_true(fabs(score - (double)millionths * 1e-6) < 1e-3);
}

/* All prompts of a draft, in steps of many lengths. */
static inline void follows_the_reference(const char *name, step_check *check)
{
    golden g = golden_open(name);
    whim_engine *engine = engine_open(&g, name);
    const whim_json *prompts = array_of(g.json, "prompts");
    for (int64_t k = 0; k < whim_json_size(prompts); k++) {
        one_prompt(&g, engine, whim_json_at(prompts, k), 512, check);
        one_prompt(&g, engine, whim_json_at(prompts, k), 7, check);
        one_prompt(&g, engine, whim_json_at(prompts, k), 1, check);
    }
    whim_engine_close(engine);
    whim_json_free(g.json);
}

/* --- pages ------------------------------------------------------------------------------------ */

/* Who begins behind pages that were read as bytes and written elsewhere, as those of a disk are,
 * proposes what the reference does. */
static inline void pages_survive_as_bytes(const char *name)
{
    golden g = golden_open(name);
    whim_engine *engine = engine_open(&g, name);
    whim_runner *runner = whim_engine_runner(engine);
    whim_page_pool *pool = whim_runner_pool(runner);
    int64_t size = whim_engine_runner_plan(engine)->page_bytes;
    const whim_json *prompt = whim_json_at(array_of(g.json, "prompts"), 1);
    whim_sequence *first, *second;
    int32_t text[2 * MAX_TEXT], wanted[MAX_TEXT], got[MAX_BLOCK], pages[MAX_TEXT];
    int64_t n = ids_of(prompt, "tokens", text), n_page = n / pool->page_len;
    ids_of(prompt, "greedy", text + n);
    int64_t m = ids_of(whim_json_at(array_of(prompt, "steps"), 0), "proposed", wanted);
    char *bytes = whim_alloc_array(n_page, size);
    assert_true(n_page > 0 && bytes != NULL);
    assert_int_equal(whim_runner_sequence_create(runner, &first), WHIM_ERR_OK);
    feed(runner, first, text, n, 512);
    for (int64_t i = 0; i < n_page; i++) {
        assert_int_equal(whim_exec_item_read(whim_runner_exec(runner), WHIM_EXEC_PAGE,
                                             first->pages[i], bytes + i * size),
                         WHIM_ERR_OK);
    }
    feed(runner, first, text, n + 8, 512); /* pages of the pool are in use while they come back */
    for (int64_t i = 0; i < n_page; i++) {
        pages[i] = whim_page_pool_take(pool);
        assert_true(pages[i] >= 0);
        assert_int_equal(whim_exec_item_write(whim_runner_exec(runner), WHIM_EXEC_PAGE, pages[i],
                                              bytes + i * size),
                         WHIM_ERR_OK);
    }
    whim_runner_sequence_destroy(runner, first);
    assert_int_equal(whim_runner_sequence_create(runner, &second), WHIM_ERR_OK);
    whim_sequence_share(second, pages, n_page);
    feed(runner, second, text, n, 512);
    propose(engine, second, text[n], got);
    assert_memory_equal(got, wanted, (size_t)m * sizeof *got);
    whim_runner_sequence_destroy(runner, second);
    whim_free(bytes);
    whim_engine_close(engine);
    whim_json_free(g.json);
}

/* --- what is refused -------------------------------------------------------------------------- */

static inline void expect_refused(const char *model, const char *draft, const char *type,
                                  const char *what)
{
    whim_engine *engine = NULL;
    whim_engine_cfg cfg = {.model = model, .draft = draft, .draft_type = type, .n_thread = 1};
    diag = (whim_diag){""};
    assert_int_not_equal(whim_engine_prepare(&cfg, &engine, &diag), WHIM_ERR_OK);
    if (strstr(diag.text, what) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", diag.text, what);
    }
}

#endif

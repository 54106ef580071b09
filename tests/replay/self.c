/* SPDX-License-Identifier: Apache-2.0 */
/* Recording and replaying steps of every model family. */
#include "replay.h"

#include "base/file.h"
#include "support/drive.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_JOB = 4, N_TOK = 45, N_MADE = 6, MAX_VOCAB = 4096, MAX_KEPT = 4 };

static int64_t n_passed, n_failed;

static int32_t token_at(int64_t i, int32_t n_vocab)
{
    return (int32_t)((i * i * 7 + i * 13 + 5) % n_vocab);
}

/* Several sequences in uneven chunks, and a greedy text of one. */
static whim_err drive_some(whim_engine *engine, whim_diag *diag)
{
    static const int64_t chunks[] = {9, 1, 33, 2};
    static int32_t tokens[N_JOB][N_TOK];
    static float logits[N_JOB][2 * MAX_VOCAB];
    whim_runner *runner = whim_engine_runner(engine);
    int32_t n_vocab = whim_engine_config(engine)->n_vocab;
    drive_job jobs[N_JOB];
    drive_plan plan = {.n_at_once = 3, .chunks = chunks, .n_chunk = 4};
    if (n_vocab > MAX_VOCAB) {
        return whim_fail(diag, WHIM_ERR_INVALID, "the vocabulary is larger than %d", MAX_VOCAB);
    }
    for (int64_t j = 0; j < N_JOB; j++) {
        for (int64_t i = 0; i < N_TOK; i++) {
            tokens[j][i] = token_at(i + j * 100, n_vocab);
        }
        jobs[j] = (drive_job){.tokens = tokens[j], .n_tok = N_TOK - j, .n_out = 2};
        jobs[j].logits = logits[j];
    }
    WHIM_TRY(drive_run(runner, n_vocab, jobs, N_JOB, &plan, diag));
    whim_sequence *seq;
    WHIM_TRY(whim_runner_sequence_create(runner, &seq));
    whim_step_part part = {seq, tokens[0], 7, 1, 1};
    whim_err err = WHIM_ERR_OK;
    int32_t next;
    for (int i = 0; i < N_MADE && err == WHIM_ERR_OK; i++) {
        err = whim_runner_step(runner, &part, 1, diag);
        next = err == WHIM_ERR_OK ? whim_exec_best(whim_runner_exec(runner), 0).ids[0] : 0;
        part = (whim_step_part){seq, &next, 1, 1, i % 2 == 0 ? 1 : 5};
    }
    whim_runner_sequence_destroy(runner, seq);
    return err;
}

/* Rows on trial, of which two are taken; models without recurrent states only cut the others off. */
static whim_err drive_trial(whim_engine *engine, whim_diag *diag)
{
    whim_runner *runner = whim_engine_runner(engine);
    int32_t tokens[12], n_vocab = whim_engine_config(engine)->n_vocab;
    whim_sequence *seq;
    for (int64_t i = 0; i < 12; i++) {
        tokens[i] = token_at(i + 500, n_vocab);
    }
    WHIM_TRY(whim_runner_sequence_create(runner, &seq));
    bool has_states = seq->state >= 0;
    whim_step_part parts[] = {{seq, tokens, 5, 1, 1},
                              {seq, tokens + 5, MAX_KEPT, MAX_KEPT, 1, .keeps_state = has_states},
                              {seq, tokens + 7, 3, 1, 1}};
    whim_err err = whim_runner_step(runner, &parts[0], 1, diag);
    err = err == WHIM_ERR_OK ? whim_runner_step(runner, &parts[1], 1, diag) : err;
    if (err == WHIM_ERR_OK && has_states) {
        err = whim_runner_advance(runner, &(whim_taken){seq, 2}, 1, diag);
    }
    if (err == WHIM_ERR_OK && whim_runner_sequence_cut(runner, seq, 7) != 7) {
        err = whim_fail(diag, WHIM_ERR_INVALID, "the state did not go on");
    }
    err = err == WHIM_ERR_OK ? whim_runner_step(runner, &parts[2], 1, diag) : err;
    whim_runner_sequence_destroy(runner, seq);
    return err;
}

static bool record(const char *model, const char *isa, int32_t n_thread, const char *path)
{
    whim_diag diag = {""};
    whim_engine_cfg cfg = {
        .model = model,
        .backend = "cpu",
        .isa = isa,
        .n_thread = n_thread,
        .max_seqs = 3,
        .ctx = 64,
        .max_step_tokens = 64,
        .max_outs = 8,
        .max_kept = MAX_KEPT,
        .record_steps = path,
    };
    whim_engine *engine = drive_open(&cfg, &diag);
    whim_err err = engine != NULL ? drive_some(engine, &diag) : WHIM_ERR_INVALID;
    err = err == WHIM_ERR_OK ? drive_trial(engine, &diag) : err;
    if (err == WHIM_ERR_OK) {
        err = whim_engine_end_record(engine, &diag);
    }
    whim_engine_close(engine);
    if (err != WHIM_ERR_OK) {
        printf("FAIL %s: recording: %s\n", model, diag.text);
        n_failed++;
    }
    return err == WHIM_ERR_OK;
}

static void expect_same(const char *path, const char *model, const replay_with *with)
{
    int64_t n = 0;
    const char *level = with->isa != NULL ? with->isa : "best";
    if (replay_file(path, model, with, &n) && n > N_MADE) {
        printf("ok %s on %s %s, %d threads%s: %lld results\n", model, with->backend, level,
               with->n_thread, with->graphs == WHIM_GRAPHS_ON ? ", graphs" : "", (long long)n);
        n_passed++;
    } else {
        printf("FAIL %s on %s %s after %lld results\n", model, with->backend, level, (long long)n);
        n_failed++;
    }
}

static void replay_model(const char *model, const char *path)
{
    char levels[128], level[32], exact[32];
    whim_diag diag = {""};
    const char *isa = drive_exact_level("cpu", exact, sizeof exact);
    if (record(model, isa, 2, path)) {
        for (int32_t i = 0; drive_levels("cpu", levels, sizeof levels, &diag) &&
                            drive_word(levels, i, level, sizeof level);
             i++) {
            if (!drive_rounds("cpu", level)) {
                expect_same(path, model, &(replay_with){"cpu", level, 1, i % 2 == 0});
            }
        }
        expect_same(path, model, &(replay_with){"guard", NULL, 1, WHIM_GRAPHS_OFF});
        expect_same(path, model, &(replay_with){"guard", NULL, 1, WHIM_GRAPHS_ON});
    }
    unlink(path);
    if (drive_rounds("cpu", NULL) && record(model, NULL, 2, path)) {
        expect_same(path, model, &(replay_with){"cpu", NULL, 1, WHIM_GRAPHS_ON});
    }
    unlink(path);
}

int replay_self(const char *data)
{
    char path[] = "/tmp/whim-steps-XXXXXX";
    int fd = mkstemp(path);
    struct dirent **names;
    int n = scandir(data, &names, NULL, alphasort);
    if (fd < 0 || n < 0) {
        printf("FAIL %s or %s cannot be opened\n", path, data);
        return 1;
    }
    close(fd);
    for (int i = 0; i < n; i++) {
        char model[4096];
        snprintf(model, sizeof model, "%s/%s", data, names[i]->d_name);
        whim_engine_cfg cfg = {.model = model};
        whim_engine *engine = NULL;
        whim_diag diag = {""};
        bool is_model =
            names[i]->d_name[0] != '.' && whim_engine_prepare(&cfg, &engine, &diag) == WHIM_ERR_OK;
        whim_engine_close(engine);
        if (is_model) {
            replay_model(model, path);
        }
        free(names[i]);
    }
    free(names);
    unlink(path);
    printf("RESULT passed=%lld failed=%lld skipped=0\n", (long long)n_passed, (long long)n_failed);
    return n_failed > 0 || n_passed == 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* See drive.h. */
#include "support/drive.h"

#include "backends/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A sequence under way. */
typedef struct lane {
    drive_job *job; /* NULL: free */
    whim_sequence *seq;
    int64_t at;   /* tokens done */
    int64_t want; /* outputs of the chunk in this step */
} lane;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static whim_err lane_start(whim_runner *runner, lane *l, drive_job *job, int32_t group,
                           whim_diag *diag)
{
    *l = (lane){.job = job};
    if (whim_runner_sequence_create_in(runner, group, &l->seq) != WHIM_ERR_OK) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for a sequence");
    }
    return WHIM_ERR_OK;
}

/* The next chunk of a lane as a part of a step. */
static whim_step_part lane_part(lane *l, int64_t chunk)
{
    const drive_job *job = l->job;
    int64_t n = least(chunk, job->n_tok - l->at);
    int64_t first_out = job->n_tok - job->n_out;
    l->want = l->at + n - (l->at > first_out ? l->at : first_out);
    l->want = l->want > 0 ? l->want : 0;
    return (whim_step_part){
        .seq = l->seq, .tokens = job->tokens + l->at, .n_tok = n, .n_out = l->want};
}

static void lane_collect(lane *l, whim_runner *runner, int64_t n_vocab, int64_t n_tok, int64_t *out)
{
    drive_job *job = l->job;
    l->at += n_tok;
    int64_t row = l->at - l->want - (job->n_tok - job->n_out);
    for (int64_t i = 0; i < l->want; i++) {
        memcpy(job->logits + (row + i) * n_vocab,
               whim_exec_logits(whim_runner_exec(runner), (*out)++),
               (size_t)n_vocab * sizeof(float));
    }
}

static int64_t chunk_of(const drive_plan *plan, const lane *l, int64_t round)
{
    return l->at == 0 && plan->prompt_whole ? l->job->n_prompt
                                            : plan->chunks[round % plan->n_chunk];
}

/* One step over all lanes that are under way; *n_busy is how many there were. */
static whim_err drive_round(whim_runner *runner, int64_t n_vocab, lane *lanes,
                            const drive_plan *plan, int64_t round, int64_t *n_busy, whim_diag *diag)
{
    whim_step_part parts[DRIVE_MAX_AT_ONCE];
    lane *busy[DRIVE_MAX_AT_ONCE];
    int64_t n = 0, out = 0;
    for (int32_t i = 0; i < plan->n_at_once; i++) {
        if (lanes[i].job != NULL) {
            busy[n] = &lanes[i];
            parts[n++] = lane_part(&lanes[i], chunk_of(plan, &lanes[i], round + i));
        }
    }
    *n_busy = n;
    WHIM_TRY(whim_runner_step(runner, parts, n, diag));
    for (int64_t i = 0; i < n; i++) {
        lane_collect(busy[i], runner, n_vocab, parts[i].n_tok, &out);
        if (busy[i]->at == busy[i]->job->n_tok) {
            whim_runner_sequence_destroy(runner, busy[i]->seq);
            *busy[i] = (lane){0};
        }
    }
    return WHIM_ERR_OK;
}

/* Of several groups the last ones of equal ranges have a lane each. */
static int32_t group_of(whim_runner *runner, const drive_plan *plan, int32_t at)
{
    int32_t n_group = whim_exec_groups(whim_exec_cfg_of(whim_runner_exec(runner)));
    int32_t end = (at + 1) * n_group / plan->n_at_once;
    return end > 0 ? end - 1 : 0;
}

whim_err drive_run(whim_runner *runner, int64_t n_vocab, drive_job *jobs, int32_t n_job,
                   const drive_plan *plan, whim_diag *diag)
{
    lane lanes[DRIVE_MAX_AT_ONCE] = {0};
    whim_err err = WHIM_ERR_OK;
    int32_t next = 0;
    int64_t n_busy = 1;
    for (int64_t round = 0; n_busy > 0; round++) {
        for (int32_t i = 0; i < plan->n_at_once; i++) {
            if (lanes[i].job == NULL && next < n_job) {
                WHIM_TRY_OUT(
                    lane_start(runner, &lanes[i], &jobs[next++], group_of(runner, plan, i), diag));
            }
        }
        WHIM_TRY_OUT(drive_round(runner, n_vocab, lanes, plan, round, &n_busy, diag));
    }
out:
    for (int32_t i = 0; i < plan->n_at_once; i++) {
        whim_runner_sequence_destroy(runner, lanes[i].seq);
    }
    return err;
}

whim_engine *drive_open(const whim_engine_cfg *cfg, whim_diag *diag)
{
    whim_engine *engine = NULL;
    if (whim_engine_prepare(cfg, &engine, diag) != WHIM_ERR_OK) {
        return NULL;
    }
    if (whim_engine_load(engine, diag) != WHIM_ERR_OK) {
        whim_engine_close(engine);
        return NULL;
    }
    return engine;
}

bool drive_word(const char *list, int32_t i, char *word, size_t size)
{
    for (;; list += strcspn(list, " ")) {
        list += strspn(list, " ");
        if (*list == '\0') {
            return false;
        }
        if (i-- == 0) {
            snprintf(word, size, "%.*s", (int)strcspn(list, " "), list);
            return true;
        }
    }
}

bool drive_levels(const char *backend, char *levels, size_t size, whim_diag *diag)
{
    whim_device *device = NULL;
    whim_device_cfg cfg = {.n_thread = 1};
    if (whim_backend_find(backend)->device_open(0, &cfg, &device, diag) != WHIM_ERR_OK) {
        return false;
    }
    snprintf(levels, size, "%s", device->caps.levels);
    whim_device_close(device);
    return true;
}

bool drive_is_between(const char *levels, int32_t i)
{
    char next[32];
    return i > 0 && drive_word(levels, i + 1, next, sizeof next);
}

bool drive_rounds(const char *backend, const char *isa)
{
    if (strcmp(backend, "cuda") == 0) {
        return true;
    }
    const whim_cpu_kernels *level = strcmp(backend, "cpu") == 0 ? whim_cpu_level_find(isa) : NULL;
    return level != NULL && level->round_act != NULL;
}

bool drive_attn_matrix(const char *backend, const char *isa)
{
    const whim_cpu_kernels *level = strcmp(backend, "cpu") == 0 ? whim_cpu_level_find(isa) : NULL;
    return strcmp(backend, "cuda") == 0 || (level != NULL && level->attn_matrix);
}

const char *drive_exact_level(const char *backend, char *level, size_t size)
{
    char levels[128], word[32];
    whim_diag diag = {{0}};
    level[0] = '\0';
    if (drive_levels(backend, levels, sizeof levels, &diag)) {
        for (int32_t i = 0; drive_word(levels, i, word, sizeof word); i++) {
            if (!drive_rounds(backend, word)) {
                snprintf(level, size, "%s", word);
            }
        }
    }
    return level[0] != '\0' ? level : NULL;
}

const char *drive_default_model(const char *given, char *path, size_t size)
{
    static const char name[] = "whimbrel/SmolLM2-135M-Instruct.Q4_1.gguf";
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (given != NULL) {
        snprintf(path, size, "%s", given);
    } else if (cache != NULL && cache[0] != '\0') {
        snprintf(path, size, "%s/%s", cache, name);
    } else {
        snprintf(path, size, "%s/.cache/%s", home != NULL ? home : "", name);
    }
    return access(path, R_OK) == 0 ? path : NULL;
}

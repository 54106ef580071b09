/* SPDX-License-Identifier: Apache-2.0 */
/* What the rows of a choice are asked for: which tokens may come, which one must. A row behind
 * proposals is asked for what the plain step would ask for there: the choice walks along them as if
 * they had come, and back. */
#include "engine/service/inner.h"

#include <string.h>

static bool is_in(const int32_t *ids, int32_t n, int32_t id)
{
    for (int32_t i = 0; i < n; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

bool whim_choice_ends_by(const whim_choice *c, int32_t id)
{
    const whim_job_cfg *cfg = &c->job->cfg;
    const whim_service_cfg *s = &c->job->service->cfg;
    return (!cfg->ignore_eos && is_in(s->stop_ids, s->n_stop_id, id)) ||
           is_in(cfg->stop_ids, cfg->n_stop_id, id);
}

/* --- masks ------------------------------------------------------------------------------------ */

static void mask_drop(uint32_t *mask, const int32_t *ids, int32_t n, int64_t n_word)
{
    for (int32_t i = 0; i < n; i++) {
        if (ids[i] >= 0 && ids[i] / 32 < n_word) {
            mask[ids[i] / 32] &= ~(UINT32_C(1) << ids[i] % 32);
        }
    }
}

static bool mask_has(const uint32_t *mask, int64_t n_word, int32_t id)
{
    return id / 32 < n_word && (mask[id / 32] >> id % 32 & 1) != 0;
}

/* The one token that a mask leaves; -1: it leaves none or several. */
static int32_t mask_only(const uint32_t *mask, int64_t n_word)
{
    int32_t id = -1;
    for (int64_t i = 0; i < n_word; i++) {
        if (mask[i] != 0 && (id >= 0 || (mask[i] & (mask[i] - 1)) != 0)) {
            return -1;
        }
        id = mask[i] != 0 ? (int32_t)(32 * i) + __builtin_ctz(mask[i]) : id;
    }
    return id;
}

static bool mask_is_empty(const uint32_t *mask, int64_t n_word)
{
    for (int64_t i = 0; i < n_word; i++) {
        if (mask[i] != 0) {
            return false;
        }
    }
    return true;
}

/* What the grammar and the request's own list let come; false: anything may. */
static bool mask_fill(whim_choice *c, uint32_t *mask)
{
    const uint32_t *allowed = c->job->allowed;
    int64_t n_word = c->job->service->n_mask_word;
    bool masked = c->grammar != NULL && whim_grammar_mask(c->grammar, mask, n_word);
    for (int64_t i = 0; allowed != NULL && i < n_word; i++) {
        mask[i] = masked ? mask[i] & allowed[i] : allowed[i];
    }
    return masked || allowed != NULL;
}

/* What may come where the choice stands; false: anything may. No end comes before min_tokens; where
 * nothing is left but the end, it wins. */
static bool mask_make(whim_choice *c, uint32_t *mask)
{
    const whim_job_cfg *cfg = &c->job->cfg;
    const whim_service *s = c->job->service;
    bool masked = mask_fill(c, mask);
    if (c->n_made >= cfg->min_tokens) {
        return masked;
    }
    if (!masked) {
        memset(mask, 0xff, (size_t)s->n_mask_word * sizeof *mask);
    }
    mask_drop(mask, s->cfg.stop_ids, s->cfg.n_stop_id, s->n_mask_word);
    mask_drop(mask, cfg->stop_ids, cfg->n_stop_id, s->n_mask_word);
    return !mask_is_empty(mask, s->n_mask_word) || mask_fill(c, mask);
}

/* --- walking ---------------------------------------------------------------------------------- */

/* Whether the token is the last one of what opens reasoning. Its first token does not come again in
 * it, so that a run that breaks off can only begin anew. */
static bool opens(const whim_job *job, whim_think *t, int32_t id)
{
    t->n_opener = job->opener[t->n_opener] == id ? t->n_opener + 1 : job->opener[0] == id;
    return t->n_opener == job->n_opener;
}

/* The token of the reasoning's end that is due after n_made others; -1: none is. */
static int32_t due(const whim_choice *c, int64_t n_made)
{
    const whim_job *job = c->job;
    const whim_think *t = &c->think;
    bool is_due = t->open && !t->over && n_made - t->n_before >= job->cfg.think_budget &&
                  t->n_forced < job->n_forced;
    return is_due ? job->forced[t->n_forced] : -1;
}

bool whim_choice_walk(whim_choice *c, int64_t n_made, int32_t id)
{
    const whim_job *job = c->job;
    whim_think *t = &c->think;
    if (c->grammar != NULL && !whim_grammar_accept(c->grammar, id)) {
        return false;
    }
    c->is_mask_made = false;
    if (!t->over && job->n_forced > 0) {
        t->n_forced += due(c, n_made) == id; /* one that is due and may come was forced */
        if (!t->open && job->n_opener > 0 && opens(job, t, id)) {
            t->open = true;
            t->n_before = n_made + 1;
        }
        t->over = job->closer == id || t->n_forced == job->n_forced;
    }
    return true;
}

/* Where a choice stands while it walks along proposals. */
typedef struct stand {
    whim_think think;
    int64_t n_made;
} stand;

/* False: there is no memory. */
static bool stand_keep(whim_choice *c, stand *kept)
{
    *kept = (stand){c->think, c->n_made};
    return c->grammar == NULL || whim_grammar_keep(c->grammar);
}

static void stand_go_back(whim_choice *c, const stand *kept)
{
    c->think = kept->think;
    c->n_made = kept->n_made;
    if (c->grammar != NULL) {
        whim_grammar_go_back(c->grammar);
    }
}

static bool go_on(whim_choice *c, int32_t id)
{
    bool goes = whim_choice_walk(c, c->n_made, id);
    c->n_made += goes;
    return goes;
}

/* The one token that the grammar leaves where the choice stands; -1: several, or none. The mask of
 * the coming token is kept for its step. */
static int32_t only_token(whim_choice *c, bool is_coming, bool *is_made)
{
    const whim_service *s = c->job->service;
    uint32_t *mask = is_coming ? c->mask : c->group->masks;
    if (c->grammar == NULL || !mask_make(c, mask) || whim_grammar_is_stuck(c->grammar)) {
        return -1;
    }
    *is_made = *is_made || is_coming;
    int32_t id = mask_only(mask, s->n_mask_word);
    return id >= 0 && !whim_choice_ends_by(c, id) ? id : -1;
}

/* Whether the request's own list has it. */
static bool is_allowed(const whim_choice *c, int32_t id)
{
    const uint32_t *allowed = c->job->allowed;
    return allowed == NULL || (allowed[id / 32] >> id % 32 & 1) != 0;
}

int64_t whim_choice_cut(whim_choice *c, int32_t *ids, int64_t n, int64_t max, int64_t *n_sure)
{
    stand kept;
    int64_t at = 0;
    bool is_made = false;
    *n_sure = 0;
    if (!stand_keep(c, &kept)) {
        return 0;
    }
    for (; at < max; at++) {
        int32_t id = due(c, c->n_made);
        bool is_sure = id >= 0 && is_allowed(c, id) && !whim_choice_ends_by(c, id) && go_on(c, id);
        if (!is_sure && at == n) {
            id = only_token(c, at == 0, &is_made);
            is_sure = id >= 0 && go_on(c, id);
        }
        if (!is_sure && (at == n || whim_choice_ends_by(c, ids[at]) || !go_on(c, ids[at]))) {
            break;
        }
        if (c->grammar != NULL && whim_grammar_must_end(c->grammar)) {
            break;
        }
        if (is_sure) {
            n = at < n && ids[at] == id ? n : at + 1;
            ids[at] = id;
            *n_sure += *n_sure == at;
        }
    }
    stand_go_back(c, &kept);
    c->is_mask_made = is_made;
    return at;
}

/* --- asks ------------------------------------------------------------------------------------- */

static void row_prepare(whim_choice *c, uint32_t *mask, whim_sample_ask *ask)
{
    const whim_service *s = c->job->service;
    const whim_job_cfg *cfg = &c->job->cfg;
    bool masked = mask != NULL && (c->is_mask_made || mask_make(c, mask));
    int32_t id = due(c, c->n_made);
    bool is_given = id >= 0 && (!masked || mask_has(mask, s->n_mask_word, id));
    c->is_mask_made = false;
    *ask = (whim_sample_ask){
        .params = &cfg->params,
        .prompt = cfg->prompt,
        .n_prompt = cfg->n_prompt,
        .output = c->tokens + cfg->n_prompt,
        .n_output = c->n_made,
        .choice = c->index,
        .is_given = is_given,
        .given = is_given ? id : 0,
        .mask = masked ? mask : NULL,
        .n_mask_word = s->n_mask_word,
    };
}

/* Whether its tokens to come are asked for alike, whatever those before them are. */
static bool asks_are_alike(const whim_choice *c)
{
    const whim_job *job = c->job;
    return c->grammar == NULL && c->n_made >= job->cfg.min_tokens &&
           (job->n_forced == 0 || c->think.over);
}

void whim_choice_prepare(whim_choice *c, int64_t n, uint32_t *masks, whim_sample_ask *asks)
{
    const int32_t *proposed = c->tokens + c->job->cfg.n_prompt + c->n_made;
    stand kept;
    row_prepare(c, c->mask, &asks[0]);
    c->n_asked = 0;
    if (asks_are_alike(c)) {
        for (; c->n_asked < n; c->n_asked++) {
            asks[c->n_asked + 1] = asks[c->n_asked];
            asks[c->n_asked + 1].n_output++;
        }
    } else if (n > 0 && stand_keep(c, &kept)) {
        while (c->n_asked < n && go_on(c, proposed[c->n_asked])) {
            whim_sample_ask ask;
            row_prepare(c, c->mask != NULL ? masks : NULL, &ask);
            if (c->grammar != NULL && whim_grammar_is_stuck(c->grammar)) {
                break; /* the step that gets here says so */
            }
            asks[++c->n_asked] = ask;
            masks += c->job->service->n_mask_word;
        }
        stand_go_back(c, &kept);
    }
}

void whim_choice_prepare_prompt(const whim_choice *c, int64_t at, int64_t n, whim_sample_ask *asks)
{
    const whim_job *job = c->job;
    for (int64_t i = 0; i < n; i++) {
        int64_t position = at + i + 1;
        bool told = position >= c->n_prompt_told && position < job->cfg.n_prompt;
        asks[i] = (whim_sample_ask){
            .params = told ? &job->prompt_params : NULL,
            .is_given = true,
            .given = told ? job->cfg.prompt[position] : 0,
        };
    }
}

bool whim_choice_may_follow(const whim_choice *c)
{
    const whim_job *job = c->job;
    const whim_job_cfg *cfg = &job->cfg;
    bool may_end = c->n_made + 1 >= cfg->min_tokens; /* with the one under way: no mask is due */
    return c->grammar == NULL && may_end && !whim_sample_params_look_back(&cfg->params) &&
           (job->n_forced == 0 || c->think.over) && cfg->max_tokens >= 0 &&
           cfg->prompt_logprobs < 0;
}

void whim_choice_prepare_next(const whim_choice *c, whim_sample_ask *ask)
{
    const whim_job_cfg *cfg = &c->job->cfg;
    *ask = (whim_sample_ask){
        .params = &cfg->params,
        .prompt = cfg->prompt,
        .n_prompt = cfg->n_prompt,
        .output = c->tokens + cfg->n_prompt, /* nothing asks for them: the last one is not there */
        .n_output = c->n_made + 1,
        .choice = c->index,
        .mask = c->job->allowed,
        .n_mask_word = c->job->service->n_mask_word,
    };
}

bool whim_choice_is_last(const whim_choice *c)
{
    const whim_job_cfg *cfg = &c->job->cfg;
    return cfg->max_tokens < 0 || c->n_made + 1 == cfg->max_tokens ||
           cfg->n_prompt + c->n_made + 1 == c->max_tok;
}

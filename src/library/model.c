/* SPDX-License-Identifier: Apache-2.0 */
/* Models: from a path to something that answers. */
#include "base/alloc.h"
#include "base/clock.h"
#include "library/model_impl.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* --- calls from outside ----------------------------------------------------------------------- */

#define SAME(status) _Static_assert((int)WHIMBREL_##status == (int)WHIM_ERR_##status, #status)
SAME(OK);
SAME(INVALID);
SAME(NO_MEMORY);
SAME(NO_FIT);
SAME(IO);
SAME(CORRUPT);
SAME(NOT_FOUND);
SAME(UNSUPPORTED);
SAME(FULL);
SAME(BUSY);
SAME(DEVICE);
_Static_assert((int)WHIMBREL_DEVICE == (int)WHIM_ERR_COUNT - 1, "a status for each error");

bool whim_options_copy(void *to, size_t own, const void *from, size_t size)
{
    const char *bytes = from;
    if (size > 0) {
        memcpy(to, from, size < own ? size : own);
    }
    for (size_t i = own; i < size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return size >= sizeof(size_t);
}

whimbrel_status whim_library_tell(whimbrel_error *error, whim_err err, const char *field,
                                  const whim_diag *diag)
{
    if (error != NULL) {
        bool said = err != WHIM_ERR_OK && diag->text[0] != '\0';
        error->status = (whimbrel_status)err;
        snprintf(error->field, sizeof error->field, "%.127s", err != WHIM_ERR_OK ? field : "");
        snprintf(error->text, sizeof error->text, "%s", said ? diag->text : whim_err_text(err));
    }
    return (whimbrel_status)err;
}

const char *whimbrel_status_text(whimbrel_status status)
{
    return whim_err_text((whim_err)status);
}

const char *whimbrel_version(void)
{
    return WHIM_VERSION;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Texts of the options are needed until the weights are read. */
static bool options_keep(whimbrel_model *m)
{
    const char **texts[] = {&m->options.path,    &m->options.draft,   &m->options.draft_type,
                            &m->options.kv_type, &m->options.backend, &m->options.isa};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *text = *texts[i];
        if (text != NULL) {
            *texts[i] = whim_arena_strndup(&m->arena, text, (int64_t)strlen(text));
        }
        if (text != NULL && *texts[i] == NULL) {
            return false;
        }
    }
    return true;
}

/* The last part of the path, without .gguf. */
static char *name_of(whim_arena *arena, const char *path)
{
    int64_t n = (int64_t)strlen(path);
    for (; n > 1 && path[n - 1] == '/'; n--) {
    }
    int64_t at = n;
    for (; at > 0 && path[at - 1] != '/'; at--) {
    }
    if (n - at > 5 && strncmp(path + n - 5, ".gguf", 5) == 0) {
        n -= 5;
    }
    return whim_arena_strndup(arena, path + at, n - at);
}

/* The type that most bytes of the checkpoint have. */
static const char *weight_type(const whim_ckpt *ckpt)
{
    int64_t bytes[WHIM_DTYPE_COUNT] = {0};
    whim_dtype most = ckpt->config.dtype;
    for (int64_t i = 0; i < ckpt->n_tensor; i++) {
        whim_dtype type = ckpt->tensors[i].dtype;
        bytes[type] += ckpt->tensors[i].bytes;
        most = bytes[type] > bytes[most] ? type : most;
    }
    return whim_dtype_get(most)->name;
}

static bool info_make(whimbrel_model *m)
{
    const whim_config *config = whim_engine_config(m->engine);
    const whim_memory_plan *plan = whim_engine_plan(m->engine);
    const whim_device_caps *caps = whim_engine_caps(m->engine);
    const whim_exec_cfg *limits = whim_engine_limits(m->engine);
    int64_t room = limits->n_page * limits->page_len;
    for (int32_t i = 0; i < plan->n_part; i++) {
        const whim_memory_part *part = &plan->parts[i];
        m->plan[i] = (whimbrel_plan_part){part->name, part->detail, part->bytes};
    }
    m->info = (whimbrel_info){
        .name = name_of(&m->arena, m->options.path),
        .architecture = config->arch->name,
        .weights = weight_type(whim_engine_ckpt(m->engine)),
        .device = caps->summary,
        .backend = whim_engine_backend(m->engine),
        .isa = caps->isa,
        .n_parameter = whim_engine_parameters(m->engine),
        .n_vocab = config->n_vocab,
        .context = room < whim_engine_ctx(m->engine) ? room : whim_engine_ctx(m->engine),
        .model_context = config->max_ctx,
        .has_text = m->text.tok != NULL,
        .has_template = m->text.tmpl != NULL,
        .reasons = m->text.format.reasons,
        .sampling = whim_generation_source_name(m->text.wishes.source),
        .plan = m->plan,
        .n_plan = plan->n_part,
        .plan_bytes = plan->total + plan->host_total,
        .free_bytes = plan->available,
        .draft_kind = whim_engine_draft_kind(m->engine),
        .draft_unused = m->draft_unused,
    };
    if (m->info.draft_kind != NULL) {
        m->info.draft = name_of(&m->arena, m->options.draft);
    }
    m->ctx = m->info.context + 1; /* the last token needs no place */
    return m->info.name != NULL && (m->info.draft_kind == NULL || m->info.draft != NULL);
}

whim_err whim_numbers_check(const whim_number *numbers, int32_t n, const char **field,
                            whim_diag *diag)
{
    for (int32_t i = 0; i < n; i++) {
        if (numbers[i].value < numbers[i].least) {
            *field = numbers[i].field;
            return whim_fail(diag, WHIM_ERR_INVALID, "%s is %lld, expected %lld or more", *field,
                             (long long)numbers[i].value, (long long)numbers[i].least);
        }
    }
    return WHIM_ERR_OK;
}

static whim_err model_fill(whimbrel_model *m, const whim_library_extra *extra, const char **field,
                           whim_diag *diag)
{
    if (m->options.path == NULL) {
        *field = "path";
        return whim_fail(diag, WHIM_ERR_INVALID, "no model was named: path is NULL");
    }
    const whimbrel_model_options *o = &m->options;
    const whim_number numbers[] = {
        {"max_parallel", o->max_parallel, 0},
        {"context", o->context, 0},
        {"kv_bytes", o->kv_bytes, 0},
        {"threads", o->threads, 0},
        {"max_step_tokens", o->max_step_tokens, 0},
    };
    WHIM_TRY(whim_numbers_check(numbers, sizeof numbers / sizeof numbers[0], field, diag));
    m->meters = extra != NULL ? extra->meters : NULL;
    m->grammars = whim_grammar_cache_create(m->meters);
    if (m->grammars == NULL || !options_keep(m)) {
        return WHIM_ERR_NO_MEMORY;
    }
    WHIM_TRY(whim_model_prepare(m, extra, field, diag));
    whim_text_files files = {
        .model = m->options.path,
        .ckpt = whim_engine_ckpt(m->engine),
        .chat_template = m->options.chat_template,
        .template_args = m->options.template_args,
        .ids_only = m->options.ids_only,
    };
    WHIM_TRY(whim_text_side_read(&m->text, &files, field, diag));
    m->options.chat_template = m->options.template_args = NULL; /* the caller's */
    return info_make(m) ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY;
}

whimbrel_status whim_library_open(const whimbrel_model_options *options,
                                  const whim_library_extra *extra, whimbrel_model **out,
                                  whimbrel_error *error)
{
    whim_diag diag = {""};
    const char *field = "";
    whim_err err = WHIM_ERR_NO_MEMORY;
    whimbrel_model *m = whim_alloc(sizeof *m);
    *out = NULL;
    if (m != NULL) {
        whim_arena_init(&m->arena);
        pthread_mutex_init(&m->lock, NULL);
        pthread_mutex_init(&m->vocab_lock, NULL);
        err = whim_options_copy(&m->options, sizeof m->options, options,
                                options != NULL ? options->size : 0)
                  ? model_fill(m, extra, &field, &diag)
                  : whim_fail(&diag, WHIM_ERR_INVALID,
                              "the options of the model are NULL, newer, or have no size");
    }
    if (err != WHIM_ERR_OK) {
        whimbrel_close(m);
        return whim_library_tell(error, err, field, &diag);
    }
    *out = m;
    return whim_library_tell(error, WHIM_ERR_OK, "", &diag);
}

whimbrel_status whimbrel_open(const whimbrel_model_options *options, whimbrel_model **out,
                              whimbrel_error *error)
{
    return whim_library_open(options, NULL, out, error);
}

/* --- running ---------------------------------------------------------------------------------- */

whim_err whim_library_start(whimbrel_model *m, const whim_service_cfg *more, whim_diag *diag)
{
    const whim_exec_cfg *limits = whim_engine_limits(m->engine);
    whim_service_cfg cfg = *more;
    cfg.engine = m->engine;
    cfg.tok = m->text.tok;
    cfg.stop_ids = m->text.stop_ids;
    cfg.n_stop_id = m->text.n_stop_id;
    cfg.max_seqs = limits->max_seqs;
    cfg.max_step_tokens = limits->max_rows;
    cfg.max_outs = limits->max_outs;
    cfg.meters = m->meters;
    cfg.no_lookup = m->options.no_lookup;
    WHIM_TRY(whim_service_create(&cfg, &m->service, diag));
    m->ctx = whim_service_ctx(m->service);
    return WHIM_ERR_OK;
}

whimbrel_status whimbrel_load(whimbrel_model *m, whimbrel_error *error)
{
    whim_diag diag = {""};
    const whim_service_cfg more = {
        .ctx = whim_engine_ctx(m->engine) + 1, /* the last token needs no place */
        .max_queued_bytes = INT64_MAX,         /* whoever asks may take its time */
        .max_waiting = INT64_MAX,              /* and knows how much it asks */
    };
    whim_err err = m->load_begun
                       ? whim_fail(&diag, WHIM_ERR_INVALID,
                                   "the model was loaded already; where that failed, close it")
                       : whim_engine_load(m->engine, &diag);
    m->load_begun = true;
    if (err == WHIM_ERR_OK) {
        err = whim_library_start(m, &more, &diag);
    }
    return whim_library_tell(error, err, "", &diag);
}

void whim_library_wake(void *ctx, whim_job *job)
{
    whimbrel_model *m = ctx;
    pthread_mutex_lock(&m->lock);
    for (whim_waiter *w = m->waiters; w != NULL; w = w->next) {
        if (w->job == job) {
            w->is_woken = true;
            pthread_cond_signal(&w->news);
        }
    }
    pthread_mutex_unlock(&m->lock);
    if (m->options.wake != NULL) {
        m->options.wake(m->options.wake_ctx);
    }
}

void whim_library_stop(whimbrel_model *m)
{
    whim_service_destroy(m->service);
    m->service = NULL;
}

void whimbrel_close(whimbrel_model *m)
{
    if (m == NULL) {
        return;
    }
    whim_library_stop(m);
    whim_grammar_cache_destroy(m->grammars);
    whim_grammar_vocab_destroy(m->vocab);
    whim_text_side_close(&m->text);
    whim_engine_close(m->engine);
    pthread_mutex_destroy(&m->lock);
    pthread_mutex_destroy(&m->vocab_lock);
    whim_arena_reset(&m->arena);
    whim_free(m);
}

/* --- parts ------------------------------------------------------------------------------------ */

const char *whim_library_ranks_unused(const whimbrel_model *m)
{
    return m->ranks_unused;
}

whim_engine *whim_library_engine(const whimbrel_model *m)
{
    return m->engine;
}

const whim_text_side *whim_library_text(const whimbrel_model *m)
{
    return &m->text;
}

whim_service *whim_library_service(const whimbrel_model *m)
{
    return m->service;
}

const whimbrel_info *whimbrel_get_info(const whimbrel_model *m)
{
    return &m->info;
}

const char *whimbrel_token_text(const whimbrel_model *m, int32_t id, int64_t *n)
{
    *n = 0;
    return m->text.tok != NULL ? whim_tokenizer_bytes(m->text.tok, id, n) : NULL;
}

whim_err whim_library_vocab(whimbrel_model *m, const whim_grammar_vocab **out)
{
    whim_err err = WHIM_ERR_OK;
    pthread_mutex_lock(&m->vocab_lock);
    if (m->vocab == NULL) {
        err =
            whim_grammar_vocab_create(m->text.tok, m->text.stop_ids, m->text.n_stop_id, &m->vocab);
    }
    *out = m->vocab;
    pthread_mutex_unlock(&m->vocab_lock);
    return err;
}

/* --- sampling --------------------------------------------------------------------------------- */

uint64_t whim_library_seed(void)
{
    uint32_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) {
        seed = (uint32_t)whim_clock_ns();
    }
    return seed; /* 32 bits: short enough to be typed again */
}

void whimbrel_get_sampling(const whimbrel_model *m, whimbrel_sampling *sampling)
{
    const whim_generation *w = &m->text.wishes;
    const whimbrel_sampling own = {
        .size = sampling->size,
        .temperature = (float)w->temperature,
        .top_k = (int32_t)w->top_k,
        .top_p = (float)w->top_p,
        .min_p = (float)w->min_p,
        .repetition_penalty = (float)w->repetition_penalty,
        .seed = whim_library_seed(),
        .xtc_threshold = 0.1f,
    };
    memcpy(sampling, &own, own.size < sizeof own ? own.size : sizeof own);
    if (own.size > sizeof own) { /* what a newer program knows of is off */
        memset((char *)sampling + sizeof own, 0, own.size - sizeof own);
    }
}

whim_sample_params whim_library_params(const whimbrel_sampling *s)
{
    _Static_assert(sizeof(whimbrel_logit_bias) == sizeof(whim_logit_bias), "one is the other");
    return (whim_sample_params){
        .temperature = s->temperature,
        .top_k = s->top_k,
        .top_p = s->top_p,
        .min_p = s->min_p,
        .xtc_probability = s->xtc_probability,
        .xtc_threshold = s->xtc_threshold,
        .repetition_penalty = s->repetition_penalty,
        .presence_penalty = s->presence_penalty,
        .frequency_penalty = s->frequency_penalty,
        .bias = (const whim_logit_bias *)s->bias,
        .n_bias = s->n_bias,
        .seed = s->seed,
    };
}

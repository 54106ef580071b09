/* SPDX-License-Identifier: Apache-2.0 */
/* The model that is served: engine, text side, service, and what the routes say about it. */
#include "base/clock.h"
#include "base/file.h"
#include "commit.inc"
#include "hub_model.h"
#include "serve/serve.h"
#include "weights/fingerprint.h"

#include <math.h>
#include <string.h>

/* Counts up whenever a change of the code moves the bits of keys and values. */
#define NUMERICS_VERSION "2"

/* Few requests reach the whole context, and memory is taken at the start: room for 8 that do. */
enum { DEFAULT_SEQS = 32, LEAST_OUTS = 32, KV_SEQS = 8, CHECKPOINTS = 32 };
#define KV_SHARE 0.25
#define CTX_SHARE 0.5 /* but one may have more: an agent begins with ten thousand tokens */

/* Loading is shown on the terminal and on /readyz. */
static void on_load(void *ctx, int64_t done, int64_t total)
{
    serve *s = ctx;
    double share = total > 0 ? (double)done / (double)total : 0;
    load_report(&s->load, done, total);
    whim_server_set_progress(s->server, share);
    notify_progress(s, share);
}

whim_engine_cfg serve_engine_cfg(const whim_options *o, const char *path)
{
    whim_engine_cfg cfg = engine_cfg(o, path);
    cfg.max_seqs = o->max_seqs > 0 ? o->max_seqs : DEFAULT_SEQS;
    cfg.may_lower_seqs = o->max_seqs == 0;
    cfg.max_outs = cfg.max_seqs > LEAST_OUTS ? cfg.max_seqs : LEAST_OUTS;
    cfg.kv_seqs = KV_SEQS;
    cfg.kv_share = KV_SHARE;
    cfg.ctx_share = CTX_SHARE;
    cfg.n_checkpoint = CHECKPOINTS;
    cfg.n_flight = WHIM_EXEC_FLIGHT;
    return cfg;
}

static bool engine_open(serve *s, const char *path)
{
    whim_engine_cfg cfg = serve_engine_cfg(s->options, path);
    cfg.on_progress = on_load;
    cfg.progress_ctx = s;
    s->engine = open_engine(&cfg, s->options->quiet, &s->load);
    return s->engine != NULL;
}

/* What the hub calls it, or the last part of the path without .gguf: never a path. */
static void name_choose(serve *s, const char *path)
{
    if (s->options->served_model_name != NULL) {
        snprintf(s->name, sizeof s->name, "%s", s->options->served_model_name);
        return;
    }
    if (hub_model_name(s->options, s->name, sizeof s->name)) {
        return;
    }
    char copy[MODEL_PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    for (int64_t n = (int64_t)strlen(copy); n > 1 && copy[n - 1] == '/'; n--) {
        copy[n - 1] = '\0';
    }
    snprintf(s->name, sizeof s->name, "%.250s", whim_path_base(copy));
    char *dot = strrchr(s->name, '.');
    if (dot != NULL && strcmp(dot, ".gguf") == 0) {
        *dot = '\0';
    }
}

/* Same fingerprint and seed, same text. */
static bool fingerprint_make(serve *s)
{
    whim_diag diag = {""};
    uint64_t hash;
    if (whim_ckpt_fingerprint(whim_engine_ckpt(s->engine), &hash, &diag) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
        return false;
    }
    const whim_device_caps *caps = whim_engine_caps(s->engine);
    snprintf(s->kv_space, sizeof s->kv_space, "numerics %s, weights %016llx, %s %s, kv %s",
             NUMERICS_VERSION, (unsigned long long)hash, whim_engine_backend(s->engine), caps->isa,
             whim_kv_type_name(whim_engine_kv_type(s->engine)));
    for (const char *c = s->kv_space; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    }
    snprintf(s->fingerprint, sizeof s->fingerprint, "fp_%012llx",
             (unsigned long long)(hash & UINT64_C(0xffffffffffff)));
    return true;
}

static bool service_open(serve *s)
{
    whim_diag diag = {""};
    const whim_exec_cfg *limits = whim_engine_limits(s->engine);
    whim_err err = whim_grammar_vocab_create(s->tm.tok, s->tm.stop_ids, s->tm.n_stop_id, &s->vocab);
    if (err != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "out of memory");
        return false;
    }
    whim_service_cfg cfg = {
        .engine = s->engine,
        .tok = s->tm.tok,
        .vocab = s->vocab,
        .stop_ids = s->tm.stop_ids,
        .n_stop_id = s->tm.n_stop_id,
        .max_seqs = limits->max_seqs,
        .max_step_tokens = limits->max_rows,
        .max_outs = limits->max_outs,
        .max_waiting = s->options->max_waiting,
        .kv_dir = s->options->kv_dir,
        .kv_dir_bytes = s->options->kv_dir_size,
        .kv_space = s->kv_space,
        .meters = whim_server_meters(s->server),
        .plan_pause_ns = s->options->plan_pause * WHIM_NS_PER_MS,
        .log = &s->log,
    };
    if (whim_service_create(&cfg, &s->service, &diag) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
        return false;
    }
    return true;
}

static const char *tools_word(const serve *s)
{
    static const char *const forms[] = {"hermes", "xml", "invoke"};
    return s->tm.tmpl == NULL            ? "none"
           : s->chat.format.native_tools ? forms[s->chat.format.tools]
                                         : "fallback (hermes)";
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

/* 0.2f as 0.2 and not as 0.20000000298. */
static double tidy(float value)
{
    return rint((double)value * 1e6) / 1e6;
}

/* The object "whimbrel" of /v1/models. */
static bool about_make(serve *s)
{
    const whim_config *config = whim_engine_config(s->engine);
    const whim_sample_params *p = &s->tm.params;
    s->about = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:{s:f, s:i, s:f, s:f, s:f}, s:n}", "architecture",
        config->arch->name, "weights", weight_type(whim_engine_ckpt(s->engine)), "backend",
        whim_engine_backend(s->engine), "isa", whim_engine_caps(s->engine)->isa, "tools",
        tools_word(s), "reasoning", s->chat.format.reasons, "thinking_switch",
        s->chat.format.thinking_switch, "sampling", "temperature", tidy(p->temperature), "top_k",
        (int)p->top_k, "top_p", tidy(p->top_p), "min_p", tidy(p->min_p), "repetition_penalty",
        tidy(p->repetition_penalty), "draft");
    if (s->about == NULL) {
        complain(EXIT_FAILED, "out of memory");
    }
    return s->about != NULL;
}

static void tell_server(serve *s)
{
    const whim_config *config = whim_engine_config(s->engine);
    whim_api api = {
        .service = s->service,
        .chat = &s->chat,
        .tok = s->tm.tok,
        .n_vocab = config->n_vocab,
        .bytes = whim_grammar_vocab_bytes(s->vocab),
        .model = s->name,
        .fingerprint = s->fingerprint,
        .created = s->created,
        .ctx = whim_service_ctx(s->service),
        .sampling = s->tm.params,
        .is_penalty_ours = s->tm.is_penalty_ours,
        .max_tokens = s->options->max_tokens,
        .repetition_detection = detects_repetition(s->options, true),
        .strict_model = s->options->strict_model,
        .request_ns = (int64_t)(s->options->request_limit * (double)WHIM_NS_PER_S),
        .version = WHIM_VERSION,
        .commit = WHIM_COMMIT,
        .isa = whim_engine_caps(s->engine)->isa,
        .about = s->about,
        .log = &s->log,
        .log_content = s->options->log_content,
    };
    whim_server_set_ready(s->server, &api);
}

bool serve_model_open(serve *s, const char *path)
{
    if (!engine_open(s, path) || !text_model_open(&s->tm, s->options, s->engine, path) ||
        !text_model_sampling(&s->tm, s->options, s->engine, false)) {
        return false;
    }
    name_choose(s, path);
    s->chat = (whim_chat_model){
        .tok = s->tm.tok,
        .tmpl = s->tm.tmpl,
        .format = s->tm.format,
        .kwargs = s->tm.kwargs,
    };
    whim_diag diag = {""};
    if (whim_service_check_disk(s->engine, s->options->kv_dir, &diag) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
        return false;
    }
    if (!load_engine(s->engine, &s->load) || !fingerprint_make(s) || !service_open(s) ||
        !about_make(s)) {
        return false;
    }
    tell_server(s);
    return true;
}

bool serve_lends_tools(const serve *s)
{
    return s->tm.tmpl != NULL && !s->chat.format.native_tools;
}

void serve_model_log(serve *s)
{
    const whim_config *config = whim_engine_config(s->engine);
    int64_t ctx = whim_service_ctx(s->service);
    const char *reason = context_reason(s->options, s->engine, ctx);
    whim_log_info(&s->log, "ready", whim_log_text("model", s->name),
                  whim_log_int("port", whim_server_port(s->server)), whim_log_int("context", ctx),
                  whim_log_int("model_context", config->max_ctx));
    if (reason != NULL) {
        whim_log_at(&s->log, ctx == s->options->ctx ? WHIM_LOG_INFO : WHIM_LOG_WARN, "context",
                    whim_log_int("tokens", ctx), whim_log_int("model", config->max_ctx),
                    whim_log_text("reason", reason));
    }
    if (serve_lends_tools(s) && s->log.is_json) { /* else the ready block says it */
        whim_log_info(&s->log, "tools", whim_log_text("form", "hermes"),
                      whim_log_text("reason", "the template has none of its own"));
    }
}

void serve_model_close(serve *s)
{
    if (s->server != NULL) {
        whim_server_detach(s->server); /* no route and no probe may look at the service any more */
    }
    whim_service_destroy(s->service);
    s->service = NULL;
}

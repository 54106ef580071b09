/* SPDX-License-Identifier: Apache-2.0 */
/* The model that is served: engine, text side, service, and what the routes say about it. */
#include "base/clock.h"
#include "base/file.h"
#include "base/os/cpu.h"
#include "base/os/topology.h"
#include "commit.inc"
#include "hub_model.h"
#include "serve/serve.h"

#include <math.h>
#include <string.h>

/* Loading is shown on the terminal and on /readyz. */
static void on_load(void *ctx, int64_t done, int64_t total)
{
    serve *s = ctx;
    double share = total > 0 ? (double)done / (double)total : 0;
    load_report(&s->load, done, total);
    whim_server_set_progress(s->server, share);
    notify_progress(s, share);
}

static void on_lower(void *ctx, int32_t node, const whim_engine_sizes *sizes)
{
    serve *s = ctx;
    whim_log_info(&s->log, "pages", whim_log_int("node", node),
                  whim_log_int("pages", sizes->n_page), whim_log_int("sequences", sizes->max_seqs),
                  whim_log_text("reason", "this node has the least memory, and all have as many"));
}

/* NULL: pages are kept nowhere. */
static const char *kv_dir(const serve *s)
{
    return s->kv_dir[0] != '\0' ? s->kv_dir : NULL;
}

static bool model_open(serve *s, const char *path)
{
    whimbrel_model_options options = serve_options(s->options, path);
    whim_library_extra extra = serve_extra(s->options);
    serve_kv_dir_choose(s);
    extra.kv_dir = kv_dir(s);
    extra.meters = whim_server_meters(s->server);
    s->nodes.cfg.on_lower = on_lower;
    s->nodes.cfg.ctx = s;
    extra.nodes = s->nodes.cfg.n_node > 1 ? &s->nodes.cfg : NULL;
    options.progress = on_load;
    options.progress_ctx = s;
    s->model = open_model(&options, &extra, s->options->quiet, &s->load);
    return s->model != NULL;
}

/* What the plan has for requests and answers, which may be less than was wished. */
static int64_t request_bytes(const serve *s)
{
    const whim_memory_plan *plan = whim_engine_plan(whim_library_engine(s->model));
    int64_t bytes = 0;
    for (int32_t i = 0; i < plan->n_part; i++) {
        bytes = strcmp(plan->parts[i].name, WHIM_PLAN_REQUESTS) == 0 ? plan->parts[i].bytes : bytes;
    }
    return bytes;
}

/* What the hub calls it, or the library: never a path. */
static void name_choose(serve *s)
{
    if (s->options->served_model_name != NULL) {
        snprintf(s->name, sizeof s->name, "%s", s->options->served_model_name);
    } else if (!hub_name(s->options->model, s->name, sizeof s->name)) {
        snprintf(s->name, sizeof s->name, "%.250s", whimbrel_get_info(s->model)->name);
    }
    const char *draft = whimbrel_get_info(s->model)->draft;
    if (draft != NULL && !hub_name(s->options->draft, s->draft_name, sizeof s->draft_name)) {
        snprintf(s->draft_name, sizeof s->draft_name, "%.250s", draft);
    }
}

/* NULL: there is none. */
static const char *draft_name(const serve *s)
{
    return s->draft_name[0] != '\0' ? s->draft_name : NULL;
}

/* Beside loading: the name of kept pages needs every byte of the files. */
static void weights_begin(serve *s)
{
    if (kv_dir(s) != NULL) {
        bool has_memory = weights_memory(s->sums, (int64_t)sizeof s->sums);
        whim_kv_weights_begin(&s->weights, whim_library_engine(s->model),
                              has_memory ? s->sums : NULL, (whim_os_cpu_mask_count() + 3) / 4);
    }
}

/* Same fingerprint and seed, same text. */
static bool fingerprint_make(serve *s)
{
    whim_diag diag = {""};
    if (whim_kv_weights_end(&s->weights, &diag) != WHIM_ERR_OK ||
        whim_kv_space_make(whim_library_engine(s->model), &s->weights, &s->kv_space, &diag) !=
            WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
        return false;
    }
    snprintf(s->fingerprint, sizeof s->fingerprint, "fp_%012llx",
             (unsigned long long)(s->kv_space.answers & UINT64_C(0xffffffffffff)));
    return true;
}

static bool service_open(serve *s)
{
    whim_diag diag = {""};
    const whim_service_cfg more = {
        .max_waiting = s->options->max_waiting,
        .kv_dir = kv_dir(s),
        .kv_dir_may_fail = s->kv_dir_is_ours,
        .kv_about = s->name,
        .kv_dir_bytes = s->options->kv_dir_size,
        .kv_space = s->kv_space.name,
        .save_ns = s->save_ns,
        .plan_pause_ns = s->options->plan_pause * WHIM_NS_PER_MS,
        .log = &s->log,
    };
    if (whim_library_start(s->model, &more, &diag) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
        return false;
    }
    s->service = whim_library_service(s->model);
    return true;
}

static const char *tools_word(const serve *s)
{
    return s->chat.tmpl == NULL          ? "none"
           : s->chat.format.native_tools ? s->chat.format.tools->name
                                         : "fallback (hermes)";
}

/* 0.2f as 0.2 and not as 0.20000000298. */
static double tidy(float value)
{
    return rint((double)value * 1e6) / 1e6;
}

/* The object "whimbrel" of /v1/models. */
static bool about_make(serve *s, const char *path)
{
    const whimbrel_info *info = whimbrel_get_info(s->model);
    const whimbrel_sampling *p = &s->sampling.v;
    s->about =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:{s:f, s:i, s:f, s:f, s:f}, s:s?}",
                  "architecture", info->architecture, "weights", info->weights, "backend",
                  info->backend, "isa", info->isa, "tools", tools_word(s), "reasoning",
                  s->chat.format.reasons, "thinking_switch", s->chat.format.thinking_switch != NULL,
                  "demo", default_model_is(path), "sampling", "temperature", tidy(p->temperature),
                  "top_k", (int)p->top_k, "top_p", tidy(p->top_p), "min_p", tidy(p->min_p),
                  "repetition_penalty", tidy(p->repetition_penalty), "draft", draft_name(s));
    if (s->about == NULL) {
        complain(EXIT_FAILED, "out of memory");
    }
    return s->about != NULL;
}

bool serve_tell(serve *s)
{
    const whimbrel_info *info = whimbrel_get_info(s->model);
    const whim_exec_cfg *limits = whim_engine_limits(whim_library_engine(s->model));
    const whim_grammar_vocab *vocab; /* now, so that no request waits for it */
    whim_api api = {
        .model = s->model,
        .tok = s->chat.tok,
        .n_vocab = info->n_vocab,
        .name = s->name,
        .fingerprint = s->fingerprint,
        .created = s->created,
        .ctx = s->service != NULL ? whim_service_ctx(s->service) : info->context,
        .n_slot = limits->max_seqs * whim_exec_groups(limits),
        .sampling = s->sampling.v,
        .is_penalty_ours = s->sampling.is_penalty_ours,
        .max_tokens = s->options->max_tokens,
        .repetition_detection = detects_repetition(s->options, true),
        .strict_model = s->options->strict_model,
        .request_bytes = request_bytes(s),
        .request_ns = (int64_t)(s->options->request_limit * (double)WHIM_NS_PER_S),
        .version = WHIM_VERSION,
        .commit = WHIM_COMMIT,
        .isa = info->isa,
        .draft = draft_name(s),
        .draft_kind = info->draft_kind,
        .lookup = s->options->lookup,
        .about = s->about,
        .log = &s->log,
        .log_content = s->options->log_content,
    };
    if (whim_library_vocab(s->model, &vocab) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "out of memory");
        return false;
    }
    whim_server_set_ready(s->server, &api);
    return true;
}

bool serve_model_open(serve *s, const char *path)
{
    if (!model_open(s, path) || !sampling_choose(&s->sampling, s->options, s->model, path, false)) {
        return false;
    }
    name_choose(s);
    s->chat = whim_text_side_chat(whim_library_text(s->model));
    weights_begin(s);
    return load_engine(whim_library_engine(s->model), &s->load) && fingerprint_make(s) &&
           service_open(s) && about_make(s, path) && serve_tell(s);
}

bool serve_lends_tools(const serve *s)
{
    return s->chat.tmpl != NULL && !s->chat.format.native_tools;
}

/* One line where the machine has several memory nodes and nobody said how many ranks. */
static void log_ranks(serve *s)
{
    const char *why = ranks_wished(s->options);
    int32_t n_node = whim_os_topology_get()->n_node;
    why = why == NULL ? whim_library_ranks_unused(s->model) : why;
    if (ranks_asked(s->options) == 0 && n_node > 1) {
        whim_log_info(&s->log, "ranks",
                      whim_log_int("ranks", whim_engine_ranks(whim_library_engine(s->model))),
                      whim_log_int("nodes", n_node),
                      whim_log_text("reason", why == NULL ? "one for each memory node" : why));
    }
}

void serve_model_log(serve *s)
{
    int64_t ctx = whim_service_ctx(s->service);
    int64_t model_ctx = whimbrel_get_info(s->model)->model_context;
    const char *reason = context_reason(s->options, whim_library_engine(s->model), ctx);
    whim_log_info(&s->log, "ready", whim_log_text("model", s->name),
                  whim_log_int("port", whim_server_port(s->server)), whim_log_int("context", ctx),
                  whim_log_int("model_context", model_ctx),
                  whim_log_text("backend", whim_engine_backend(whim_library_engine(s->model))),
                  whim_log_text("device", whimbrel_get_info(s->model)->device));
    if (reason != NULL) {
        whim_log_at(&s->log, ctx == s->options->ctx ? WHIM_LOG_INFO : WHIM_LOG_WARN, "context",
                    whim_log_int("tokens", ctx), whim_log_int("model", model_ctx),
                    whim_log_text("reason", reason));
    }
    log_ranks(s);
    if (serve_lends_tools(s) && s->log.is_json) { /* else the ready block says it */
        whim_log_info(&s->log, "tools", whim_log_text("form", s->chat.format.tools->name),
                      whim_log_text("reason", s->chat.format.prints_tools
                                                  ? "the template's own form of calls is not known"
                                                  : "the template prints no tools"));
    }
}

void serve_model_close(serve *s)
{
    if (s->server != NULL) {
        whim_server_detach(s->server); /* no route and no probe may look at the service any more */
    }
    whim_kv_weights_cancel(&s->weights);
    if (s->model != NULL) {
        whim_library_stop(s->model);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Models as the commands open them. */
#include "model.h"

#include "base/os/mem.h"
#include "base/os/topology.h"
#include "engine/memory_fit.h"
#include "hub_model.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- options ---------------------------------------------------------------------------------- */

whimbrel_model_options model_options(const whim_options *o, const char *path)
{
    return (whimbrel_model_options){
        .size = sizeof(whimbrel_model_options),
        .path = path,
        .chat_template = o->chat_template,
        .template_args = o->template_kwargs,
        .max_parallel = 1,
        .context = o->ctx,
        .kv_bytes = o->kv_mem,
        .kv_type = o->kv_type,
        .threads = (int32_t)o->threads,
        .max_step_tokens = o->max_step_tokens,
        .no_lookup = !o->lookup,
        .draft = o->draft,
        .draft_type = o->draft_type,
        .backend = o->backend,
        .isa = o->isa,
    };
}

int32_t ranks_asked(const whim_options *o)
{
    const int64_t asked[] = {o->cp, o->dp, o->ep};
    int64_t most = 0;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        most = asked[i] > most ? asked[i] : most;
    }
    return (int32_t)(o->tp > 0 ? o->tp : most);
}

whim_library_extra model_extra(const whim_options *o)
{
    return (whim_library_extra){.load_format = o->load_format,
                                .weight_type = o->weight_type,
                                .max_outs = 1,
                                .no_checkpoints = true,
                                .n_rank = ranks_asked(o),
                                .n_share = (int32_t)o->cp,
                                .n_deal = (int32_t)o->ep,
                                .deal_cut = o->tp > 0,
                                .deal_rows = o->ep_dispatch,
                                .deal_counts = o->ep_experts,
                                .deal_slots = (int32_t)o->ep_slots,
                                .n_group = (int32_t)o->dp,
                                .may_crowd = o->oversubscribe};
}

const char *ranks_wished(const whim_options *o)
{
    const whim_os_topology *t = whim_os_topology_get();
    return o->tp > 0                             ? "--tp says so"
           : o->cp > 0                           ? "--cp says so"
           : o->dp > 0                           ? "--dp says so"
           : o->ep > 0                           ? "--ep says so"
           : t->n_node == 1                      ? "all memory is one node"
           : o->threads > 0                      ? "--threads counts those of one process"
           : whim_os_topology_even_nodes(t) == 1 ? "the CPUs of its nodes are not as many"
                                                 : NULL;
}

whimbrel_model_options serve_options(const whim_options *o, const char *path)
{
    whimbrel_model_options options = model_options(o, path);
    options.max_parallel = (int32_t)o->max_seqs;
    options.take_memory = true;
    return options;
}

/* An eighth of what there is, but no more than clients of a large machine send at once. */
static int64_t request_bytes(void)
{
    const int64_t least = INT64_C(32) << 20, most = INT64_C(1) << 30;
    int64_t bytes = whim_os_mem_available() / 8;
    return bytes < least ? least : bytes > most ? most : bytes;
}

whim_library_extra serve_extra(const whim_options *o)
{
    whim_library_extra extra = model_extra(o);
    extra.request_bytes_asked = o->request_mem > 0;
    extra.request_bytes = o->request_mem > 0 ? o->request_mem : request_bytes();
    extra.max_outs = 0;
    extra.no_checkpoints = false;
    extra.kv_dir = o->kv_dir != NULL && o->kv_dir[0] != '\0' ? o->kv_dir : NULL;
    extra.wish_rank = ranks_wished(o) == NULL ? whim_os_topology_get()->n_node : 0;
    return extra;
}

whim_engine_cfg engine_cfg(const whim_options *o, const char *path)
{
    whimbrel_model_options options = model_options(o, path);
    whim_library_extra extra = model_extra(o);
    options.take_memory = true;
    options.draft = ""; /* whoever steps an engine by itself has no use for one */
    return whim_library_engine_cfg(&options, &extra);
}

/* What the command line calls a field of the library's options. */
static const char *option_of(const char *field)
{
    static const char *const names[][2] = {
        {"chat_template", "--chat-template"},
        {"template_args", "--template-kwargs"},
        {"regex", "--grammar-regex"},
        {"schema_json", "--json-schema"},
        {"tools_json", "--tools"},
        {"draft", "--draft"},
        {"draft_type", "--draft-type"},
        {"kv_bytes", "--kv-mem"},
        {"kv_mem", "--kv-mem"}, /* as the engine calls it */
        {"n_share", "--cp"},
        {"n_deal", "--ep"},
        {"deal_rows", "--ep-dispatch"},
        {"deal_slots", "--ep-slots"},
        {"deal_counts", "--ep-experts"},
        {"n_group", "--dp"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i][0], field) == 0) {
            return names[i][1];
        }
    }
    return NULL;
}

void append_error(whim_str *out, const whimbrel_error *error)
{
    const char *option = option_of(error->field);
    whim_str_printf(out, "%s%s%s", option != NULL ? option : "", option != NULL ? ": " : "",
                    error->text);
}

void complain_of(const whimbrel_error *error)
{
    whim_str text = {0};
    append_error(&text, error);
    complain(EXIT_FAILED, "%s", whim_str_text(&text));
    whim_str_deinit(&text);
}

/* --- loading ---------------------------------------------------------------------------------- */

void load_report(void *ctx, int64_t done, int64_t total)
{
    loader *load = ctx;
    pthread_mutex_lock(&load->lock);
    if (!load->begun) {
        whim_progress_init(&load->bar,
                           &(whim_progress_cfg){
                               .label = load->label,
                               .total = total,
                               .bytes = true,
                               .delay_ns = load->delay_ns,
                               .fd = STDERR_FILENO,
                               .mode = load->quiet ? WHIM_PROGRESS_QUIET : WHIM_PROGRESS_AUTO,
                           });
        load->begun = true;
    }
    if (done > load->done) {
        whim_progress_add(&load->bar, done - load->done);
        load->done = done;
    }
    pthread_mutex_unlock(&load->lock);
}

static void print_plan(const whim_memory_plan *plan)
{
    whim_str text = {0};
    append_plan(&text, plan);
    fputs(whim_str_text(&text), stderr);
    whim_str_deinit(&text);
}

/* One line about tensors that text does not need. */
static void print_skipped(const whim_binder *binder)
{
    static const char *const parts[] = {"vision", "MTP"};
    bool any = false;
    for (int i = 0; i < 2; i++) {
        char size[32];
        whim_format_bytes(size, sizeof size, binder->skipped_bytes[i]);
        if (binder->n_skipped[i] > 0) {
            fprintf(stderr, "%s%lld %s tensors (%s)",
                    any ? ", " : "not loaded: ", (long long)binder->n_skipped[i], parts[i], size);
            any = true;
        }
    }
    fputs(any ? ", which generating text does not need\n" : "", stderr);
}

/* One line about quantised weights that take more memory than their checkpoint does. */
static void print_widened(const whim_binder *binder)
{
    whim_bind_widened w = whim_bind_widened_of(binder);
    char size[32], stored[32];
    whim_format_bytes(size, sizeof size, w.bytes);
    whim_format_bytes(stored, sizeof stored, w.stored);
    if (w.n > 0) {
        fprintf(stderr,
                "loaded as floats: %lld quantised weights (%s, stored in %s), whose groups are out "
                "of order (act-order) or whose rows are no multiple of a block\n",
                (long long)w.n, size, stored);
    }
}

static void loader_init(loader *load, bool quiet)
{
    memset(load, 0, sizeof *load);
    pthread_mutex_init(&load->lock, NULL);
    load->quiet = quiet;
    load->label = "loading";
}

/* Never a silent move to another place. */
static void warn_passed(const whim_engine *engine)
{
    if (whim_engine_passed(engine) != NULL) {
        warn_of("device",
                "%s is used in place of a better device (--backend %s asks for it and says "
                "nothing): %s",
                whim_engine_backend(engine), whim_engine_backend(engine),
                whim_engine_passed(engine));
    }
}

/* Nor a silent loss: once for all ranks. */
static void warn_rounds(const whim_engine *engine, int32_t rank)
{
    char how[160];
    if (rank == 0 && whim_engine_dispatch_rounds(engine, how, sizeof how)) {
        warn_of("dispatch", "%s", how);
    }
}

static void print_prepared(const whim_engine *engine)
{
    fprintf(stderr, "device: %s: %s\n", whim_engine_backend(engine),
            whim_engine_caps(engine)->summary);
    print_plan(whim_engine_plan(engine));
    print_skipped(whim_engine_binder(engine));
    print_widened(whim_engine_binder(engine));
}

whimbrel_model *open_model(const whimbrel_model_options *options, const whim_library_extra *extra,
                           bool quiet, loader *load)
{
    whimbrel_error error;
    whimbrel_model *model;
    whimbrel_model_options with_bar = *options;
    char draft[MODEL_PATH_MAX];
    loader_init(load, quiet);
    with_bar.draft = hub_draft_path(options->draft, quiet, draft);
    if (with_bar.draft == NULL && options->draft != NULL) {
        return NULL;
    }
    if (with_bar.progress == NULL) {
        with_bar.progress = load_report;
        with_bar.progress_ctx = load;
    }
    if (whim_library_open(&with_bar, extra, &model, &error) != WHIMBREL_OK) {
        complain_of(&error);
        return NULL;
    }
    warn_passed(whim_library_engine(model));
    warn_rounds(whim_library_engine(model), 0);
    if (!quiet) {
        print_prepared(whim_library_engine(model));
    }
    const char *why = whimbrel_get_info(model)->draft_unused;
    if (why != NULL) {
        warn_of("draft",
                "the draft next to the model is not used; answers are the same, but not faster "
                "(--no-draft ignores it without this line): %s",
                why);
    }
    return model;
}

const char *fit_hint(const whim_engine *engine, whim_err err)
{
    bool drafts = whim_engine_draft(engine) != NULL;
    if (err != WHIM_ERR_NO_FIT) {
        return "";
    }
    if (!whim_memory_plan_kv_helps(whim_engine_plan(engine))) {
        return drafts ? " (--no-draft leaves the draft out)" : "";
    }
    return drafts ? " (--ctx, --max-seqs, --kv-mem, --no-draft)" : " (--ctx, --max-seqs, --kv-mem)";
}

bool load_model(whimbrel_model *model, loader *load)
{
    whimbrel_error error;
    whimbrel_status status = whimbrel_load(model, &error);
    load_finish(load, status == WHIMBREL_OK);
    if (status != WHIMBREL_OK) {
        complain(EXIT_FAILED, "%s%s", error.text,
                 fit_hint(whim_library_engine(model), (whim_err)status));
    }
    return status == WHIMBREL_OK;
}

whim_engine *open_engine(const whim_engine_cfg *cfg, bool quiet, loader *load)
{
    whim_diag diag = {""};
    whim_engine *engine = NULL;
    whim_engine_cfg with_bar = *cfg;
    const char *field = "";
    loader_init(load, quiet);
    with_bar.wrong = &field;
    with_bar.on_progress = load_report;
    with_bar.progress_ctx = load;
    whim_err err = whim_engine_prepare(&with_bar, &engine, &diag);
    if (err != WHIM_ERR_OK) {
        whimbrel_error error = {.status = (whimbrel_status)err};
        snprintf(error.field, sizeof error.field, "%s", field);
        snprintf(error.text, sizeof error.text, "%s", diag.text);
        complain_of(&error);
        return NULL;
    }
    warn_passed(engine);
    warn_rounds(engine, cfg->rank);
    if (!quiet) {
        print_prepared(engine);
    }
    return engine;
}

void load_finish(loader *load, bool ok)
{
    if (load->begun) {
        whim_progress_finish(&load->bar, ok);
        load->begun = false;
    }
}

bool load_engine(whim_engine *engine, loader *load)
{
    whim_diag diag = {""};
    whim_err err = whim_engine_load(engine, &diag);
    load_finish(load, err == WHIM_ERR_OK);
    if (err != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s%s", diag.text, fit_hint(engine, err));
    }
    return err == WHIM_ERR_OK;
}

/* --- the plan --------------------------------------------------------------------------------- */

static void append_plan_row(whim_str *out, const char *name, int64_t bytes, const char *detail)
{
    char size[32];
    whim_format_bytes(size, sizeof size, bytes);
    whim_str_printf(out, "  %-20s %10s%s%s\n", name, size, detail[0] != '\0' ? "  " : "", detail);
}

void append_plan(whim_str *out, const whim_memory_plan *plan)
{
    char free_text[32], detail[64];
    whim_format_bytes(free_text, sizeof free_text, plan->available);
    snprintf(detail, sizeof detail, "of %s available", free_text);
    whim_str_append(out, "memory plan\n");
    for (int32_t i = 0; i < plan->n_part; i++) {
        append_plan_row(out, plan->parts[i].name, plan->parts[i].bytes, plan->parts[i].detail);
    }
    append_plan_row(out, plan->apart ? "on the device" : "total", plan->total, detail);
    if (plan->apart) {
        whim_format_bytes(free_text, sizeof free_text, plan->host_available);
        snprintf(detail, sizeof detail, "of %s available", free_text);
        append_plan_row(out, "on the host", plan->host_total, detail);
    }
    append_plan_row(out, "while loading", plan->loading,
                    plan->apart ? "more on the host, given back afterwards"
                                : "more, given back afterwards");
}

void json_plan(whim_str *out, const whim_memory_plan *plan)
{
    whim_str_append(out, "{\"parts\":[");
    for (int32_t i = 0; i < plan->n_part; i++) {
        whim_str_append(out, i == 0 ? "{\"name\":" : ",{\"name\":");
        json_text(out, plan->parts[i].name);
        whim_str_append(out, ",\"detail\":");
        json_text(out, plan->parts[i].detail);
        whim_str_printf(out, ",\"bytes\":%lld}", (long long)plan->parts[i].bytes);
    }
    whim_str_printf(out, "],\"total\":%lld,\"loading\":%lld,\"available\":%lld",
                    (long long)plan->total, (long long)plan->loading, (long long)plan->available);
    if (plan->apart) {
        whim_str_printf(out, ",\"host_total\":%lld,\"host_available\":%lld",
                        (long long)plan->host_total, (long long)plan->host_available);
    }
    whim_str_append_char(out, '}');
}

/* --- the context ------------------------------------------------------------------------------ */

const char *context_reason(const whim_options *options, const whim_engine *engine, int64_t ctx)
{
    if (ctx >= whim_engine_config(engine)->max_ctx) {
        return NULL;
    }
    return ctx == options->ctx         ? "--ctx says so"
           : options->kv_mem > 0       ? "--kv-mem holds no more"
           : ctx < WHIM_FIT_USUAL_CTX  ? "memory gives no more"
           : ctx == WHIM_FIT_USUAL_CTX ? "the usual in little memory; --ctx N asks for more"
           : whim_engine_ctx_share(engine) < 0.5
               ? "a quarter of the memory that the weights leave; --ctx N asks for more"
               : "half of the memory that the weights leave; --ctx N asks for more";
}

void append_context(whim_str *out, const whim_options *options, const whim_engine *engine,
                    int64_t ctx)
{
    const char *reason = context_reason(options, engine, ctx);
    whim_str_printf(out, "context %lld tokens", (long long)ctx);
    if (reason != NULL) {
        whim_str_printf(out, " of the model's %lld (%s)",
                        (long long)whim_engine_config(engine)->max_ctx, reason);
    }
}

void append_context_hint(whim_str *out, const whim_options *o, const whimbrel_info *info)
{
    if (o->kv_mem > 0 && info->context < (o->ctx > 0 ? o->ctx : info->model_context)) {
        whim_str_append(out,
                        "it is what the memory for keys and values holds; --kv-mem gives more");
    } else if (info->context < info->model_context) {
        whim_str_printf(out, "--ctx makes it longer, up to %lld", (long long)info->model_context);
    } else {
        whim_str_append(out, "it is as long as the model was made for");
    }
}

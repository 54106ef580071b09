/* SPDX-License-Identifier: Apache-2.0 */
/* whimbrel inspect: what a model is, what its files hold, what memory it would take. Nothing is
 * loaded. */
#include "base/alloc.h"
#include "inspect_ranks.h"
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const format_names[] = {
    [WHIM_CKPT_SAFETENSORS] = "safetensors",
    [WHIM_CKPT_GGUF] = "gguf",
    [WHIM_CKPT_DUMMY] = "dummy",
};

static const char *const rope_names[] = {
    [WHIM_ROPE_DEFAULT] = "default",
    [WHIM_ROPE_LINEAR] = "linear",
    [WHIM_ROPE_LLAMA3] = "llama3",
    [WHIM_ROPE_YARN] = "yarn",
};

typedef struct type_sum {
    int64_t count, bytes;
} type_sum;

/* What some commands would take. */
typedef struct planned {
    whim_engine *engine;
    whim_diag refusal; /* why it does not fit; empty: it does */
} planned;

typedef struct summary {
    const whim_options *options;
    const char *model;
    planned one, serve; /* run and chat have one sequence */
    const whim_ckpt *ckpt;
    const whim_config *config;
    int64_t n_param;
    int64_t file_bytes;
    type_sum by_type[WHIM_DTYPE_COUNT];
    const whim_ckpt_file **files; /* the checkpoint's, by name */
    whim_str ranks;               /* of --tp, --cp, --dp or --ep, as they are printed */
    whim_diag text; /* why run and serve cannot read or write its text; empty: they can */
} summary;

static int64_t tensor_elements(const whim_ckpt_tensor *tensor)
{
    int64_t n = 1;
    for (int32_t d = 0; d < tensor->n_dim; d++) {
        n *= tensor->shape[d];
    }
    return n;
}

/* GGUF files have a type for each tensor and none for the model. */
static bool declares_type(const summary *s)
{
    return s->ckpt->format != WHIM_CKPT_GGUF;
}

static int by_path(const void *a, const void *b)
{
    const whim_ckpt_file *const *x = a, *const *y = b;
    return strcmp((*x)->path, (*y)->path);
}

/* The checkpoint has its files in the order in which tensors named them. */
static bool sort_files(summary *s)
{
    s->files = whim_alloc_array(s->ckpt->n_file, sizeof *s->files);
    if (s->files == NULL) {
        return false;
    }
    for (int32_t i = 0; i < s->ckpt->n_file; i++) {
        s->files[i] = &s->ckpt->files[i];
    }
    qsort(s->files, (size_t)s->ckpt->n_file, sizeof *s->files, by_path);
    return true;
}

static void summarise(summary *s)
{
    for (int64_t i = 0; i < s->ckpt->n_tensor; i++) {
        const whim_ckpt_tensor *tensor = &s->ckpt->tensors[i];
        s->n_param += tensor_elements(tensor);
        s->by_type[tensor->dtype].count++;
        s->by_type[tensor->dtype].bytes += tensor->bytes;
    }
    for (int32_t i = 0; i < s->ckpt->n_file; i++) {
        s->file_bytes += s->ckpt->files[i].bytes;
    }
    if (s->ckpt->n_tensor == 0) {
        s->n_param = whim_engine_parameters(s->one.engine);
    }
}

/* --- text ------------------------------------------------------------------------------------- */

static void append_count(whim_str *out, int64_t n)
{
    if (n >= 1000000000) {
        whim_str_printf(out, "%.2f billion", (double)n / 1e9);
    } else if (n >= 1000000) {
        whim_str_printf(out, "%.1f million", (double)n / 1e6);
    } else {
        whim_str_printf(out, "%lld", (long long)n);
    }
}

static void append_rope(whim_str *out, const whim_config *config)
{
    const whim_rope_config *rope = &config->rope;
    whim_str_printf(out, "rope           %s, theta %g, %d of %d dimensions", rope_names[rope->kind],
                    rope->theta, rope->rotary_dim, config->d_head);
    if (rope->kind != WHIM_ROPE_DEFAULT) {
        whim_str_printf(out, ", factor %g", rope->factor);
    }
    if (rope->kind == WHIM_ROPE_LLAMA3 || rope->kind == WHIM_ROPE_YARN) {
        whim_str_printf(out, ", made for %g tokens", rope->orig_ctx);
    }
    whim_str_append(out, rope->divisors != NULL ? ", divided as the file says\n" : "\n");
}

static void append_experts(whim_str *out, const whim_config *c)
{
    const whim_moe_config *moe = &c->moe;
    int32_t n_layer = 0;
    for (int32_t l = 0; l < c->n_layer; l++) {
        n_layer += whim_config_has_experts(c, l);
    }
    if (moe->n_expert > 0) {
        whim_str_printf(out, "experts        %d of %d for each token, width %d, in %d layers\n",
                        moe->top_k, moe->n_expert, moe->d_expert, n_layer);
    }
    if (moe->d_shared > 0) {
        whim_str_printf(out, "shared expert  width %d\n", moe->d_shared);
    }
}

static void append_model(whim_str *out, const summary *s)
{
    const whim_config *c = s->config;
    whim_str_printf(out, "model          %s\n", s->model);
    whim_str_printf(out, "architecture   %s (%s)\n", c->arch->name, format_names[s->ckpt->format]);
    whim_str_append(out, "parameters     ");
    append_count(out, s->n_param);
    whim_str_printf(out, "\nlayers         %d\n", c->n_layer);
    whim_str_printf(out, "width          %d, feed-forward %d\n", c->d_model, c->d_ff);
    append_experts(out, c);
    whim_str_printf(out, "attention      %d heads of %d, %d for keys and values%s\n", c->n_head,
                    c->d_head, c->n_kv, c->qkv_bias ? ", with biases" : "");
    whim_str_printf(out, "vocabulary     %d tokens, head %s\n", c->n_vocab,
                    c->tied_head ? "tied to the embedding" : "of its own");
    whim_str_printf(out, "context        %lld tokens\n", (long long)c->max_ctx);
    append_rope(out, c);
    whim_str_append(out, "end ids       ");
    for (int32_t i = 0; i < c->n_eos; i++) {
        whim_str_printf(out, " %d", c->eos[i]);
    }
    whim_str_printf(out, "%s\n", c->n_eos == 0 ? " none" : "");
    if (declares_type(s)) {
        whim_str_printf(out, "declared type  %s\n", whim_dtype_get(c->dtype)->name);
    }
}

static void append_files(whim_str *out, const summary *s)
{
    char size[32];
    whim_format_bytes(size, sizeof size, s->file_bytes);
    if (s->ckpt->n_file > 0) {
        whim_str_printf(out, "\n%d file%s, %s\n", s->ckpt->n_file, s->ckpt->n_file == 1 ? "" : "s",
                        size);
    }
    for (int32_t i = 0; i < s->ckpt->n_file; i++) {
        whim_format_bytes(size, sizeof size, s->files[i]->bytes);
        whim_str_printf(out, "  %12s  %s\n", size, s->files[i]->path);
    }
    if (s->ckpt->n_tensor > 0) {
        whim_str_printf(out, "\n%lld tensors\n", (long long)s->ckpt->n_tensor);
    }
    for (int32_t t = 0; t < WHIM_DTYPE_COUNT; t++) {
        if (s->by_type[t].count > 0) {
            whim_format_bytes(size, sizeof size, s->by_type[t].bytes);
            whim_str_printf(out, "  %-8s %6lld  %12s\n", whim_dtype_get((whim_dtype)t)->name,
                            (long long)s->by_type[t].count, size);
        }
    }
}

static const char *tensor_path(const summary *s, const whim_ckpt_tensor *tensor)
{
    if (tensor->file < 0) {
        return "";
    }
    const char *path = s->ckpt->files[tensor->file].path;
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static void append_tensors(whim_str *out, const summary *s)
{
    whim_str_append_char(out, '\n');
    for (int64_t i = 0; i < s->ckpt->n_tensor; i++) {
        const whim_ckpt_tensor *tensor = &s->ckpt->tensors[i];
        char shape[96];
        int at = 0;
        for (int32_t d = 0; d < tensor->n_dim; d++) {
            at += snprintf(shape + at, sizeof shape - (size_t)at, "%s%lld", d == 0 ? "" : " x ",
                           (long long)tensor->shape[d]);
        }
        whim_str_printf(out, "%-8s %-18s %-44s %s\n", whim_dtype_get(tensor->dtype)->name, shape,
                        tensor->name, tensor_path(s, tensor));
    }
}

static void append_planned(whim_str *out, const summary *s, const char *commands, const planned *p)
{
    int64_t max_seqs = whim_engine_limits(p->engine)->max_seqs;
    whim_str_printf(out, "\n%s: with ", commands);
    append_context(out, s->options, p->engine, whim_engine_ctx(p->engine));
    if (max_seqs > 1) {
        whim_str_printf(out, ", up to %lld requests at once", (long long)max_seqs);
    }
    whim_str_printf(out, ", keys and values as %s, on %s:\n",
                    whim_kv_type_name(whim_engine_kv_type(p->engine)),
                    whim_engine_caps(p->engine)->summary);
    append_plan(out, whim_engine_plan(p->engine));
    bool fits = p->refusal.text[0] == '\0';
    whim_str_printf(out, "%s%s\n", fits ? "fits" : "does not fit: ", p->refusal.text);
}

static void append_text(whim_str *out, const summary *s, bool tensors)
{
    append_model(out, s);
    append_files(out, s);
    if (tensors) {
        append_tensors(out, s);
    }
    append_planned(out, s, "run and chat", &s->one);
    append_planned(out, s, "serve", &s->serve);
    whim_str_append(out, whim_str_text(&s->ranks));
    if (s->text.text[0] != '\0') {
        whim_str_printf(out, "text: cannot be read or written (run --ids still works): %s\n",
                        s->text.text);
    }
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void json_config(whim_str *out, const summary *s)
{
    const whim_config *c = s->config;
    whim_str_append(out, ",\"arch\":");
    json_text(out, c->arch->name);
    whim_str_printf(out,
                    ",\"n_layer\":%d,\"d_model\":%d,\"n_head\":%d,\"n_kv\":%d,\"d_head\":%d,"
                    "\"d_ff\":%d,\"n_vocab\":%d,\"max_ctx\":%lld,\"tied_head\":%s,"
                    "\"attention_bias\":%s,\"mlp_bias\":%s,\"dtype\":",
                    c->n_layer, c->d_model, c->n_head, c->n_kv, c->d_head, c->d_ff, c->n_vocab,
                    (long long)c->max_ctx, c->tied_head ? "true" : "false",
                    c->qkv_bias ? "true" : "false", c->mlp_bias ? "true" : "false");
    whim_str_printf(out, declares_type(s) ? "\"%s\"" : "null", whim_dtype_get(c->dtype)->name);
    whim_str_printf(out, ",\"n_expert\":%d,\"top_k\":%d,\"d_expert\":%d,\"d_shared\":%d",
                    c->moe.n_expert, c->moe.top_k, c->moe.d_expert, c->moe.d_shared);
    whim_str_append(out, ",\"eos\":[");
    for (int32_t i = 0; i < c->n_eos; i++) {
        whim_str_printf(out, "%s%d", i == 0 ? "" : ",", c->eos[i]);
    }
    whim_str_printf(out, "],\"rope\":{\"kind\":\"%s\",\"rotary_dim\":%d,\"theta\":",
                    rope_names[c->rope.kind], c->rope.rotary_dim);
    json_number(out, c->rope.theta);
    whim_str_append(out, ",\"factor\":");
    json_number(out, c->rope.factor);
    whim_str_append(out, ",\"orig_ctx\":");
    json_number(out, c->rope.orig_ctx);
    whim_str_append(out, "},\"rms_eps\":");
    json_number(out, (double)c->rms_eps);
}

static void json_files(whim_str *out, const summary *s)
{
    whim_str_append(out, ",\"files\":[");
    for (int32_t i = 0; i < s->ckpt->n_file; i++) {
        whim_str_append(out, i == 0 ? "{\"path\":" : ",{\"path\":");
        json_text(out, s->files[i]->path);
        whim_str_printf(out, ",\"bytes\":%lld}", (long long)s->files[i]->bytes);
    }
    whim_str_printf(out, "],\"n_tensor\":%lld,\"types\":{", (long long)s->ckpt->n_tensor);
    bool first = true;
    for (int32_t t = 0; t < WHIM_DTYPE_COUNT; t++) {
        if (s->by_type[t].count > 0) {
            whim_str_printf(out, "%s\"%s\":{\"count\":%lld,\"bytes\":%lld}", first ? "" : ",",
                            whim_dtype_get((whim_dtype)t)->name, (long long)s->by_type[t].count,
                            (long long)s->by_type[t].bytes);
            first = false;
        }
    }
    whim_str_append_char(out, '}');
}

static void json_tensors(whim_str *out, const summary *s)
{
    whim_str_append(out, ",\"tensors\":[");
    for (int64_t i = 0; i < s->ckpt->n_tensor; i++) {
        const whim_ckpt_tensor *tensor = &s->ckpt->tensors[i];
        whim_str_append(out, i == 0 ? "{\"name\":" : ",{\"name\":");
        json_text(out, tensor->name);
        whim_str_append(out, ",\"file_name\":");
        json_text(out, tensor->file_name);
        whim_str_printf(out, ",\"type\":\"%s\",\"shape\":[", whim_dtype_get(tensor->dtype)->name);
        for (int32_t d = 0; d < tensor->n_dim; d++) {
            whim_str_printf(out, "%s%lld", d == 0 ? "" : ",", (long long)tensor->shape[d]);
        }
        whim_str_printf(out, "],\"bytes\":%lld,\"file\":", (long long)tensor->bytes);
        json_text(out, tensor_path(s, tensor));
        whim_str_append_char(out, '}');
    }
    whim_str_append_char(out, ']');
}

static void json_planned(whim_str *out, const planned *p)
{
    whim_str_printf(
        out, "\"ctx\":%lld,\"max_seqs\":%lld,\"plan\":", (long long)whim_engine_ctx(p->engine),
        (long long)whim_engine_limits(p->engine)->max_seqs);
    json_plan(out, whim_engine_plan(p->engine));
    whim_str_printf(out, ",\"fits\":%s", p->refusal.text[0] == '\0' ? "true" : "false");
}

static void append_json(whim_str *out, const summary *s, bool tensors)
{
    whim_str_append(out, "{\"model\":");
    json_text(out, s->model);
    whim_str_printf(out, ",\"format\":\"%s\",\"n_param\":%lld", format_names[s->ckpt->format],
                    (long long)s->n_param);
    json_config(out, s);
    json_files(out, s);
    if (tensors) {
        json_tensors(out, s);
    }
    whim_str_printf(out, ",\"kv_type\":\"%s\",\"device\":",
                    whim_kv_type_name(whim_engine_kv_type(s->one.engine)));
    json_text(out, whim_engine_caps(s->one.engine)->summary);
    whim_str_append_char(out, ',');
    json_planned(out, &s->one);
    whim_str_append(out, ",\"serve\":{");
    json_planned(out, &s->serve);
    whim_str_append_char(out, '}');
    whim_str_append(out, whim_str_text(&s->ranks));
    whim_str_append(out, ",\"text_error\":");
    if (s->text.text[0] == '\0') {
        whim_str_append(out, "null");
    } else {
        json_text(out, s->text.text);
    }
    whim_str_append(out, "}\n");
}

/* What run and serve would say of the text files. */
static void check_text(summary *s, const whim_options *options)
{
    whim_text_side side;
    const char *field;
    const whim_text_files files = {
        .model = s->model, .ckpt = s->ckpt, .chat_template = options->chat_template};
    if (s->ckpt->format != WHIM_CKPT_DUMMY &&
        whim_text_side_read(&side, &files, &field, &s->text) == WHIM_ERR_OK) {
        s->text.text[0] = '\0';
        whim_text_side_close(&side);
    }
}

/* A shape has no files. */
static void shape_is_dummy(whim_engine_cfg *cfg)
{
    static const char prefix[] = "shape:";
    if (strncmp(cfg->model, prefix, strlen(prefix)) == 0) {
        cfg->load_format = "dummy";
    }
}

/* Nothing is loaded. */
static bool plan_for(planned *p, whim_engine_cfg cfg)
{
    loader load;
    shape_is_dummy(&cfg);
    p->engine = open_engine(&cfg, true, &load);
    if (p->engine != NULL &&
        whim_memory_plan_check(whim_engine_plan(p->engine), &p->refusal) == WHIM_ERR_OK) {
        p->refusal.text[0] = '\0';
    }
    return p->engine != NULL;
}

/* What the ranks of --tp, --cp, --dp and --ep would have; nothing without them. */
static bool ranks_plan(summary *s, whim_engine_cfg cfg)
{
    int32_t n_rank = ranks_asked(s->options);
    shape_is_dummy(&cfg);
    cfg.n_share = (int32_t)s->options->cp;
    cfg.n_deal = (int32_t)s->options->ep;
    cfg.deal_cut = s->options->tp > 0;
    cfg.deal_rows = s->options->ep_dispatch;
    cfg.deal_counts = s->options->ep_experts;
    cfg.deal_slots = (int32_t)s->options->ep_slots;
    cfg.n_group = (int32_t)s->options->dp;
    bool alone = n_rank <= 1 && cfg.n_share <= 1 && cfg.n_deal <= 1 && cfg.n_group <= 1;
    return alone || append_ranks(&s->ranks, cfg, n_rank, s->options->json);
}

static bool print_summary(summary *s)
{
    whim_str out = {0};
    s->ckpt = whim_engine_ckpt(s->one.engine);
    s->config = whim_engine_config(s->one.engine);
    summarise(s);
    check_text(s, s->options);
    if (!sort_files(s)) {
        complain(EXIT_FAILED, "no memory for the list of files");
        return false;
    }
    if (s->options->json) {
        append_json(&out, s, s->options->tensors);
    } else {
        append_text(&out, s, s->options->tensors);
    }
    bool ok = print_out(&out);
    whim_str_deinit(&out);
    whim_free(s->files);
    return ok;
}

int cmd_inspect(const whim_options *options)
{
    char path[MODEL_PATH_MAX];
    summary s = {.options = options, .model = choose_model(options, path)};
    whimbrel_model_options served = serve_options(options, s.model);
    whim_library_extra extra = serve_extra(options);
    whim_engine_cfg serving = whim_library_engine_cfg(&served, &extra);
    bool ok = s.model != NULL && plan_for(&s.one, engine_cfg(options, s.model)) &&
              plan_for(&s.serve, serving) && ranks_plan(&s, serving) && print_summary(&s);
    whim_str_deinit(&s.ranks);
    whim_engine_close(s.serve.engine);
    whim_engine_close(s.one.engine);
    return ok ? EXIT_OK : EXIT_FAILED;
}

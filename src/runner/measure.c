/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of an exec, found by a dry run of its largest pass. */
#include "base/alloc.h"
#include "ops/recorder.h"
#include "runner/outputs.h"
#include "runner/sampling.h"

/* The pass that needs the most, on a stream where nothing runs. */
static whim_err activations_measure(const whim_config *config, const whim_model_def *def,
                                    whim_model *model, const whim_exec_cfg *cfg,
                                    whim_exec_plan *plan, whim_diag *diag)
{
    int64_t kv_offsets[WHIM_CONFIG_MAX_LAYER];
    whim_layer_table_place(def->layers(model), cfg->kv_type, kv_offsets);
    whim_recorder recorder;
    whim_recorder_init(&recorder);
    whim_bump bump = whim_bump_measure();
    whim_batch batch = {
        .kv = {.pages = bump.base, .page_stride = plan->page_bytes, .type = cfg->kv_type},
        .kv_offsets = kv_offsets,
        .state = {.slots = bump.base, .slot_stride = plan->slot_bytes, .n_slot = cfg->n_state},
    };
    whim_step_size size = {cfg->max_rows, cfg->max_seqs, cfg->max_outs};
    whim_step_limits limits = whim_exec_limits(config, cfg);
    whim_step_view((const int32_t *)(const void *)bump.base, whim_step_max_words(&limits), &size,
                   &batch);
    whim_out out = {
        .scratch = &bump,
        .logits = (float *)bump.base,
        .n_capture = cfg->n_capture,
    };
    for (int32_t i = 0; i < cfg->n_capture; i++) {
        out.captures[i] = (whim_capture){cfg->boundary[i], (float *)bump.base};
    }
    whim_err err = def->forward(model, &recorder.base, &batch, &out);
    if (err != WHIM_ERR_OK) {
        return whim_fail(diag, err, "a dry run of the %s model failed: %s", def->arch.name,
                         whim_err_text(err));
    }
    /* The choice of tokens comes after the pass and works in the same memory. */
    int64_t scratch = whim_sampling_scratch(config);
    plan->activation_bytes = bump.peak > scratch ? bump.peak : scratch;
    return WHIM_ERR_OK;
}

whim_err whim_exec_measure(const whim_config *config, const whim_model_def *def, whim_model *model,
                           const whim_exec_cfg *cfg, whim_exec_plan *plan, whim_diag *diag)
{
    plan->page_bytes = whim_layer_table_place(def->layers(model), cfg->kv_type, NULL);
    plan->slot_bytes = def->layers(model)->slot_bytes;
    if (plan->slot_bytes > 0 &&
        (cfg->n_state < cfg->max_seqs || cfg->n_state > INT32_MAX ||
         __builtin_mul_overflow(cfg->n_state, plan->slot_bytes, &plan->state_bytes))) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%lld slots of recurrent state do not go with %lld sequences",
                         (long long)cfg->n_state, (long long)cfg->max_seqs);
    }
    if (cfg->n_page > INT32_MAX / WHIM_KV_PAGE ||
        __builtin_mul_overflow(cfg->n_page, plan->page_bytes, &plan->kv_bytes)) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%lld KV pages are more than can be numbered; lower --kv-mem",
                         (long long)cfg->n_page);
    }
    whim_step_limits limits = whim_exec_limits(config, cfg);
    plan->batch_bytes = whim_aligned(whim_step_max_words(&limits) * (int64_t)sizeof(int32_t));
    whim_output_bytes output = whim_output_bytes_of(config, cfg);
    whim_sampling_bytes sampling = whim_sampling_bytes_of(config, cfg);
    plan->output_bytes = output.logits + output.top + output.hidden + sampling.in + sampling.out;
    plan->embed_bytes =
        cfg->embeds ? whim_aligned(cfg->max_rows * config->d_model * (int64_t)sizeof(float)) : 0;
    int64_t hidden = cfg->fetch_hidden ? output.hidden : 0;
    plan->host_bytes =
        (cfg->n_flight > 1 ? WHIM_EXEC_FLIGHT : 1) *
        (plan->batch_bytes + plan->embed_bytes + output.logits + output.top + hidden +
         cfg->max_outs * (int64_t)sizeof(bool) + sampling.in + sampling.out);
    return activations_measure(config, def, model, cfg, plan, diag);
}

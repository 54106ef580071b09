/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a runner, found by a dry run of its largest pass. */
#include "base/alloc.h"
#include "ops/recorder.h"
#include "runner/outputs.h"

whim_err whim_runner_measure(const whim_config *config, const whim_model_def *def,
                             whim_model *model, const whim_runner_cfg *cfg, whim_runner_plan *plan,
                             whim_diag *diag)
{
    whim_batch_layout layout;
    whim_batch_layout_init(&layout, cfg);
    const whim_layer_table *layers = def->layers(model);
    int64_t kv_offsets[WHIM_CONFIG_MAX_LAYER];
    plan->page_bytes = whim_layer_table_place(layers, cfg->kv_type, kv_offsets);
    plan->slot_bytes = layers->slot_bytes;
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
    plan->batch_bytes = whim_aligned(layout.n_elem * (int64_t)sizeof(int32_t));
    whim_output_bytes output = whim_output_bytes_of(config, cfg);
    plan->output_bytes = output.logits + output.top + output.hidden;
    plan->host_bytes = plan->batch_bytes + plan->output_bytes;

    whim_recorder recorder;
    whim_recorder_init(&recorder);
    whim_bump bump = whim_bump_measure();
    whim_batch batch = {
        .kv = {.pages = bump.base, .page_stride = plan->page_bytes, .type = cfg->kv_type},
        .kv_offsets = kv_offsets,
        .state = {.slots = bump.base, .slot_stride = plan->slot_bytes, .n_slot = cfg->n_state},
    };
    whim_step_size size = {cfg->max_rows, cfg->max_seqs, cfg->max_outs};
    whim_batch_view(&layout, (const int32_t *)bump.base, &size, &batch);
    whim_out out = {
        .scratch = &bump,
        .logits = (float *)bump.base,
        .hidden = (float *)bump.base,
        .n_capture = cfg->n_capture,
    };
    for (int32_t i = 0; i < cfg->n_capture; i++) {
        out.boundary[i] = cfg->boundary[i];
    }
    whim_err err = def->forward(model, &recorder.base, &batch, &out);
    if (err != WHIM_ERR_OK) {
        return whim_fail(diag, err, "a dry run of the %s model failed: %s", def->arch.name,
                         whim_err_text(err));
    }
    plan->activation_bytes = bump.peak;
    return WHIM_ERR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of an exec. */
#include "parallel/cut.h"
#include "parallel/groups.h"
#include "runner/befores.h"
#include "runner/dry_run.h"
#include "runner/kept.h"
#include "runner/late.h"
#include "runner/outputs.h"
#include "runner/page_table.h"
#include "runner/ranks.h"
#include "runner/sampling.h"

whim_err whim_exec_measure(const whim_config *config, const whim_model_def *def, whim_model *model,
                           whim_device *device, const whim_exec_cfg *cfg, whim_exec_plan *plan,
                           whim_diag *diag)
{
    plan->page_bytes =
        whim_layer_table_place(def->layers(model), cfg->kv_type, cfg->page_len, NULL);
    plan->slot_bytes = def->layers(model)->slot_bytes;
    if (plan->slot_bytes > 0 &&
        (cfg->n_state < cfg->max_seqs || cfg->n_state > INT32_MAX ||
         __builtin_mul_overflow(cfg->n_state, plan->slot_bytes, &plan->state_bytes))) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%lld slots of recurrent state do not go with %lld sequences",
                         (long long)cfg->n_state, (long long)cfg->max_seqs);
    }
    whim_kept_bytes kept = whim_kept_bytes_of(def->layers(model), cfg);
    whim_late_bytes late = whim_late_bytes_of(def);
    plan->kept_bytes = kept.rows + kept.arrays + late.rows + late.arrays;
    if (cfg->max_kept < 0 || cfg->max_kept > cfg->max_rows) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%lld rows on trial do not go with steps of %lld rows",
                         (long long)cfg->max_kept, (long long)cfg->max_rows);
    }
    if (cfg->n_page > INT32_MAX / cfg->page_len ||
        __builtin_mul_overflow(cfg->n_page, plan->page_bytes, &plan->kv_bytes)) {
        return whim_fail(
            diag, WHIM_ERR_INVALID,
            "%lld KV pages are more than can be numbered; use less memory for keys and "
            "values",
            (long long)cfg->n_page);
    }
    if (cfg->n_group > WHIM_GROUPS_MAX) {
        return whim_fail(diag, WHIM_ERR_INVALID, "%d groups are more than %d", cfg->n_group,
                         WHIM_GROUPS_MAX);
    }
    whim_step_limits limits = whim_exec_limits(config, cfg);
    plan->batch_bytes = whim_aligned(whim_step_max_words(&limits) * (int64_t)sizeof(int32_t));
    WHIM_TRY(whim_ranks_check(cfg, plan->batch_bytes, diag)); /* before anything loads */
    whim_cut_cfg cut = whim_exec_cut_cfg(cfg);
    WHIM_TRY(whim_cut_check(&cut, diag));
    plan->cut_bytes = whim_cut_bytes_of(&cut);
    plan->before_bytes = whim_befores_bytes_of(cfg);
    whim_output_bytes output = whim_output_bytes_of(config, cfg);
    whim_sampling_bytes sampling = whim_sampling_bytes_of(config, cfg);
    plan->output_bytes =
        output.logits + output.top + output.hidden + output.own + sampling.in + sampling.out;
    plan->embed_bytes =
        cfg->embeds ? whim_aligned(cfg->max_rows * config->d_model * (int64_t)sizeof(float)) : 0;
    int64_t hidden = cfg->fetch_hidden ? output.hidden : 0;
    plan->host_bytes =
        (cfg->n_group > 1 ? whim_exec_outs(cfg) * (int64_t)sizeof(whim_sample_ask) : 0) +
        kept.arrays + whim_cut_owners_bytes(&cut) + whim_page_table_bytes(&limits) +
        whim_exec_flights(cfg) *
            (plan->batch_bytes + plan->before_bytes + plan->cut_bytes + late.arrays +
             plan->embed_bytes + output.logits + output.top + hidden +
             whim_exec_outs(cfg) * (int64_t)sizeof(bool) + sampling.in + sampling.out);
    return whim_dry_run(config, def, model, device, cfg, plan, diag);
}

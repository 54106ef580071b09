/* SPDX-License-Identifier: Apache-2.0 */
/* The checks on a configuration that do not depend on where it came from. Readers check single
 * fields under the names of their format; this file checks them again, because shapes and dummies
 * come here too, and what must hold between fields. */
#include "weights/config.h"

#include <math.h>
#include <stddef.h>

typedef struct range_check {
    const char *field;
    int64_t value;
    int64_t min;
    int64_t max;
} range_check;

static whim_err check_list(const range_check *checks, size_t n, const char *path, whim_diag *diag)
{
    for (size_t i = 0; i < n; i++) {
        const range_check *check = &checks[i];
        if (check->value < check->min || check->value > check->max) {
            return whim_fail(diag, WHIM_ERR_CORRUPT,
                             "%s: %s is %lld, expected between %lld and %lld", path, check->field,
                             (long long)check->value, (long long)check->min, (long long)check->max);
        }
    }
    return WHIM_ERR_OK;
}

static whim_err check_ranges(const whim_config *c, const char *path, whim_diag *diag)
{
    const range_check checks[] = {
        {"num_hidden_layers", c->n_layer, 1, WHIM_CONFIG_MAX_LAYER},
        {"hidden_size", c->d_model, 1, WHIM_CONFIG_MAX_WIDTH},
        {"num_attention_heads", c->n_head, 1, WHIM_CONFIG_MAX_HEAD},
        {"num_key_value_heads", c->n_kv, 1, WHIM_CONFIG_MAX_HEAD},
        {"head_dim", c->d_head, 1, WHIM_CONFIG_MAX_HEAD_DIM},
        {"num_attention_heads * head_dim", (int64_t)c->n_head * c->d_head, 1,
         WHIM_CONFIG_MAX_WIDTH},
        {"num_key_value_heads * head_dim", (int64_t)c->n_kv * c->d_head, 1, WHIM_CONFIG_MAX_WIDTH},
        {"intermediate_size", c->d_ff, 1, WHIM_CONFIG_MAX_WIDTH},
        {"vocab_size", c->n_vocab, 1, WHIM_CONFIG_MAX_VOCAB},
        {"max_position_embeddings", c->max_ctx, 1, INT32_MAX},
        {"rotary dimension", c->rope.rotary_dim, 2, c->d_head},
    };
    return check_list(checks, sizeof checks / sizeof checks[0], path, diag);
}

static whim_err check_moe(const whim_config *c, const char *path, whim_diag *diag)
{
    const whim_moe_config *m = &c->moe;
    int64_t top_k_max = m->n_expert < WHIM_CONFIG_MAX_TOP_K ? m->n_expert : WHIM_CONFIG_MAX_TOP_K;
    const range_check checks[] = {
        {"num_experts", m->n_expert, 1, WHIM_CONFIG_MAX_EXPERT},
        {"num_experts_per_tok", m->top_k, 1, top_k_max},
        {"the width of an expert", m->d_expert, 1, WHIM_CONFIG_MAX_WIDTH},
        {"the width of the shared expert", m->d_shared, 0, WHIM_CONFIG_MAX_WIDTH},
    };
    return m->n_expert == 0 ? WHIM_ERR_OK
                            : check_list(checks, sizeof checks / sizeof checks[0], path, diag);
}

static whim_err check_positive(const char *field, double value, const char *path, whim_diag *diag)
{
    if (isfinite(value) && value > 0.0) {
        return WHIM_ERR_OK;
    }
    return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: %s is %g, expected a finite positive number",
                     path, field, value);
}

static whim_err check_rope(const whim_config *c, const char *path, whim_diag *diag)
{
    const whim_rope_config *rope = &c->rope;
    if (rope->rotary_dim % 2 != 0) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: the rotary dimension is %d, expected an even number", path,
                         rope->rotary_dim);
    }
    if (c->qk_paired && rope->rotary_dim != c->d_head) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "%s: rotates %d of %d dimensions of heads stored as adjacent pairs; only "
                         "full rotation is supported there",
                         path, rope->rotary_dim, c->d_head);
    }
    /* The frequencies are powers of theta, and YaRN divides by its logarithm. */
    if (!(isfinite(rope->theta) && rope->theta > 1.0)) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: rope_theta is %g, expected a finite number above 1", path,
                         rope->theta);
    }
    if (rope->kind == WHIM_ROPE_DEFAULT) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(check_positive("the rope scaling factor", rope->factor, path, diag));
    if (rope->kind == WHIM_ROPE_LINEAR) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(check_positive("original_max_position_embeddings", rope->orig_ctx, path, diag));
    if (rope->kind == WHIM_ROPE_YARN) {
        WHIM_TRY(check_positive("the rope attention factor", rope->attn_factor, path, diag));
        WHIM_TRY(check_positive("beta_slow", rope->beta_slow, path, diag));
        if (!(isfinite(rope->beta_fast) && rope->beta_fast >= rope->beta_slow)) {
            return whim_fail(diag, WHIM_ERR_CORRUPT,
                             "%s: beta_fast is %g, expected a finite number not below beta_slow "
                             "= %g",
                             path, rope->beta_fast, rope->beta_slow);
        }
        return WHIM_ERR_OK;
    }
    WHIM_TRY(check_positive("low_freq_factor", rope->low_freq, path, diag));
    if (!(isfinite(rope->high_freq) && rope->high_freq > rope->low_freq)) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: high_freq_factor is %g, expected a finite number above "
                         "low_freq_factor = %g",
                         path, rope->high_freq, rope->low_freq);
    }
    return WHIM_ERR_OK;
}

whim_err whim_config_check(const whim_config *config, const char *path, whim_diag *diag)
{
    WHIM_TRY(check_ranges(config, path, diag));
    WHIM_TRY(check_moe(config, path, diag));
    if (config->n_head % config->n_kv != 0) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: num_attention_heads is %d, expected a multiple of "
                         "num_key_value_heads = %d",
                         path, config->n_head, config->n_kv);
    }
    WHIM_TRY(check_positive("rms_norm_eps", config->rms_eps, path, diag));
    WHIM_TRY(check_rope(config, path, diag));
    if (config->n_eos < 0 || config->n_eos > WHIM_CONFIG_MAX_EOS) {
        return whim_fail(diag, WHIM_ERR_INVALID, "%s: %d end-of-sequence ids, expected 0 to %d",
                         path, config->n_eos, WHIM_CONFIG_MAX_EOS);
    }
    for (int32_t i = 0; i < config->n_eos; i++) {
        if (config->eos[i] < 0 || config->eos[i] >= config->n_vocab) {
            return whim_fail(diag, WHIM_ERR_CORRUPT,
                             "%s: eos_token_id is %d, expected a token id between 0 and %d", path,
                             config->eos[i], config->n_vocab - 1);
        }
    }
    return WHIM_ERR_OK;
}

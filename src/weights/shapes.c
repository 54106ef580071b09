/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes of published models by name. */
#include "weights/arch.h"

#include <stdio.h>
#include <strings.h>

static const whim_shape *shapes_of(const whim_arch *arch)
{
    static const whim_shape none[1];
    return arch->shapes != NULL ? arch->shapes : none;
}

static whim_err unknown_shape(const whim_arch_list *archs, const char *name, whim_diag *diag)
{
    char list[512] = "";
    size_t at = 0;
    for (int32_t i = 0; i < archs->n; i++) {
        for (const whim_shape *s = shapes_of(archs->v[i]); s->name != NULL && at < sizeof list;
             s++) {
            at +=
                (size_t)snprintf(list + at, sizeof list - at, "%s%s", at > 0 ? ", " : "", s->name);
        }
    }
    return whim_fail(diag, WHIM_ERR_NOT_FOUND, "no shape is called \"%.64s\"; known are %s", name,
                     list);
}

static void fill(whim_config *config, const whim_arch *arch, const whim_shape *s)
{
    const whim_shape_family *family = s->family;
    *config = (whim_config){
        .arch = arch,
        .n_layer = s->n_layer,
        .d_model = s->d_model,
        .n_head = s->n_head,
        .n_kv = s->n_kv,
        .d_head = s->d_head,
        .d_ff = s->d_ff,
        .n_vocab = family->n_vocab,
        .max_ctx = family->max_ctx,
        .rms_eps = family->rms_eps,
        .rope = {.kind = WHIM_ROPE_DEFAULT,
                 .rotary_dim = family->rotary_dim > 0 ? family->rotary_dim : s->d_head,
                 .theta = family->theta,
                 .factor = 1.0,
                 .beta_fast = 32.0,
                 .beta_slow = 1.0,
                 .attn_factor = 1.0,
                 .truncate = true},
        .tied_head = s->tied_head,
        .qkv_bias = arch->qkv_bias,
        .dtype = family->dtype,
        .dtype_given = true,
        .eos = {family->eos[0], family->eos[1]},
        .n_eos = family->n_eos,
        .moe = family->moe,
    };
    if (family->is_hybrid) {
        config->gdn = (whim_gdn_config){
            .n_key = 16, .n_value = s->n_value, .d_key = 128, .d_value = 128, .n_tap = 4};
        whim_config_set_gdn_interval(config, 4);
    }
    config->moe.d_expert = family->moe.n_expert > 0 ? s->d_ff : 0;
}

whim_err whim_config_shape(whim_config *config, const whim_arch_list *archs, const char *name,
                           whim_diag *diag)
{
    for (int32_t i = 0; i < archs->n; i++) {
        for (const whim_shape *s = shapes_of(archs->v[i]); s->name != NULL; s++) {
            if (strcasecmp(name, s->name) == 0) {
                fill(config, archs->v[i], s);
                return whim_config_check(config, s->name, diag);
            }
        }
    }
    return unknown_shape(archs, name, diag);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* From a model's name to its files and configuration. */
#include "engine/engine_inner.h"
#include "weights/gguf/read.h"

static const char shape_prefix[] = "shape:";

/* Dummy weights: the configuration of a published shape or of real files, and no tensors. */
static whim_err ckpt_make_dummy(whim_engine *e, whim_diag *diag)
{
    const char *model = e->cfg.model, *published = "bf16";
    if (strncmp(model, shape_prefix, sizeof shape_prefix - 1) == 0) {
        whim_arena_init(&e->ckpt.arena);
        e->ckpt.generation = whim_generation_ours;
        WHIM_TRY(whim_config_shape(&e->ckpt.config, whim_model_archs(),
                                   model + sizeof shape_prefix - 1, diag));
        published = whim_dtype_get(e->ckpt.config.dtype)->name;
    } else {
        WHIM_TRY(whim_ckpt_open_config(&e->ckpt, whim_model_archs(), model, diag));
    }
    const char *type = e->cfg.weight_type != NULL ? e->cfg.weight_type : published;
    whim_dtype dtype;
    if (!whim_dtype_from_name(type, &dtype) || whim_dtype_get(dtype)->kind == WHIM_DTYPE_KIND_INT) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "'%s' is not a type of weights; examples: f32, bf16, q8_0, q4_0, q4_k",
                         type);
    }
    e->ckpt.format = WHIM_CKPT_DUMMY;
    e->ckpt.n_tensor = 0;
    e->ckpt.config.dtype = dtype;
    e->ckpt.config.qk_paired = false;
    /* As GGUF files of such models are, so that a file of these weights is the same model. */
    whim_gdn_config *gdn = &e->ckpt.config.gdn;
    gdn->folded = gdn->apart = false;
    const whim_gguf_arch *facts = whim_gguf_arch_of(&e->ckpt.config);
    gdn->tiled = facts != NULL && facts->tiled && gdn->n_value != gdn->n_key;
    return WHIM_ERR_OK;
}

whim_err whim_engine_find(whim_engine *e, whim_diag *diag)
{
    const char *format = e->cfg.load_format != NULL ? e->cfg.load_format : "auto";
    if (strcmp(format, "dummy") == 0) {
        return ckpt_make_dummy(e, diag);
    }
    if (strcmp(format, "auto") != 0) {
        return whim_fail(diag, WHIM_ERR_INVALID, "load format '%s' is neither auto nor dummy",
                         format);
    }
    if (strncmp(e->cfg.model, shape_prefix, sizeof shape_prefix - 1) == 0) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%s is a shape without weights; with load format 'dummy' it can be timed",
                         e->cfg.model);
    }
    if (e->cfg.weight_type != NULL) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "a weight type is for dummy weights; the files of %s have their own",
                         e->cfg.model);
    }
    return whim_ckpt_open(&e->ckpt, whim_model_archs(), e->cfg.model, diag);
}

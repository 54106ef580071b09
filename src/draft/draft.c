/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of drafts, and what is refused of each. */
#include "draft/draft.h"

#include "base/check.h"
#include "draft/dflash.h"
#include "draft/eagle3.h"
#include "draft/mtp.h"

static const whim_draft_kind *const kinds[] = {&whim_draft_dflash, &whim_draft_eagle3,
                                               &whim_draft_mtp};
enum { N_KIND = sizeof kinds / sizeof kinds[0] };

const whim_arch_list *whim_draft_archs(void)
{
    static const whim_arch *const archs[] = {&whim_dflash_arch, &whim_eagle3_arch};
    static const whim_arch_list list = {archs, sizeof archs / sizeof archs[0]};
    return &list;
}

/* Whether a path is one of a model that stands by itself. */
static bool is_whole_model(const char *path)
{
    whim_ckpt ckpt = {0};
    whim_diag ignored = {""};
    bool is_one = whim_ckpt_open(&ckpt, whim_model_archs(), path, &ignored) == WHIM_ERR_OK;
    if (is_one) {
        whim_ckpt_close(&ckpt);
    }
    return is_one;
}

whim_err whim_draft_open(whim_ckpt *draft, const char *path, whim_diag *diag)
{
    whim_err err = whim_ckpt_open(draft, whim_draft_archs(), path, diag);
    if (err == WHIM_ERR_UNSUPPORTED && is_whole_model(path)) {
        whim_diag_prefix(diag, "this is a whole model, and no draft that was made for one "
                               "(docs/drafts.md): ");
    }
    return err;
}

const whim_draft_kind *whim_draft_kind_of(const whim_config *draft)
{
    int32_t i = 0;
    while (i < N_KIND && draft->arch != kinds[i]->arch) {
        i++;
    }
    whim_check(i < N_KIND);
    return kinds[i];
}

whim_err whim_draft_differs(const char *path, const char *field, int64_t has, int64_t wanted,
                            whim_diag *diag)
{
    return whim_fail(diag, WHIM_ERR_INVALID,
                     "%s: the draft was made for another model: its \"%s\" is %lld, the model's is "
                     "%lld",
                     path, field, (long long)has, (long long)wanted);
}

whim_err whim_draft_check(const whim_config *draft, const whim_config *target, const char *path,
                          whim_diag *diag)
{
    const whim_draft_config *d = &draft->draft;
    if (draft->n_vocab != target->n_vocab) {
        return whim_draft_differs(path, "vocab_size", draft->n_vocab, target->n_vocab, diag);
    }
    if (d->n_target_layer > 0 && d->n_target_layer != target->n_layer) {
        return whim_draft_differs(path, "num_target_layers", d->n_target_layer, target->n_layer,
                                  diag);
    }
    if (draft->n_layer + d->serial + target->n_layer > WHIM_CONFIG_MAX_LAYER) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%s: the draft's %d layers and the model's %d are "
                         "more than %d",
                         path, draft->n_layer, target->n_layer, WHIM_CONFIG_MAX_LAYER);
    }
    int32_t last = d->features[d->n_feature - 1];
    if (last >= target->n_layer) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%s: the draft reads layer %d of its model, which has layers 0 to %d",
                         path, last, target->n_layer - 1);
    }
    return WHIM_ERR_OK;
}

whim_err whim_draft_find(whim_binder *binder, const whim_ckpt *draft, whim_device *device,
                         const char *path, whim_diag *diag)
{
    whim_err err = whim_bind_match(binder, draft, device, diag);
    if (err == WHIM_ERR_OK) {
        err = whim_bind_check_values(binder, draft, device->caps.n_loader, diag);
    }
    if (err == WHIM_ERR_CORRUPT) {
        whim_diag_prefix(
            diag, "%s: fetch or make this draft again, or do without it (--no-draft): ", path);
    }
    return err;
}

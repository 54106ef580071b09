/* SPDX-License-Identifier: Apache-2.0 */
/* The architectures of this build. The build lists the folder in models.inc. */
#include "models/model.h"

#include <stdio.h>
#include <string.h>

#define X(name) extern const whim_model_def whim_model_##name;
#include "models.inc"
#undef X

static const whim_model_def *const model_list[] = {
#define X(name) &whim_model_##name,
#include "models.inc"
#undef X
};

static const whim_arch *const arch_list[] = {
#define X(name) &whim_model_##name.arch,
#include "models.inc"
#undef X
};

const whim_arch_list *whim_model_archs(void)
{
    static const whim_arch_list list = {arch_list, sizeof arch_list / sizeof arch_list[0]};
    return &list;
}

enum { N_MODEL = sizeof model_list / sizeof model_list[0] };

int32_t whim_model_count(void)
{
    return N_MODEL;
}

const whim_tool_words *whim_model_tool_words(int32_t i)
{
    return model_list[i]->tools;
}

const char *whim_model_pre_alias(const char *name, int64_t n)
{
    for (int i = 0; i < N_MODEL; i++) {
        const whim_pre_alias *a = model_list[i]->pre;
        for (; a != NULL && a->name != NULL; a++) {
            if ((int64_t)strlen(a->name) == n && memcmp(a->name, name, (size_t)n) == 0) {
                return a->means;
            }
        }
    }
    return NULL;
}

whim_err whim_model_find(const char *arch, const whim_model_def **out, whim_diag *diag)
{
    char known[256] = "";
    for (int i = 0; i < N_MODEL; i++) {
        if (strcmp(model_list[i]->arch.name, arch) == 0) {
            *out = model_list[i];
            return WHIM_ERR_OK;
        }
        size_t at = strlen(known);
        snprintf(known + at, sizeof known - at, "%s%s", at > 0 ? ", " : "",
                 model_list[i]->arch.name);
    }
    return whim_fail(diag, WHIM_ERR_NOT_FOUND, "no model of architecture '%s'; this build has: %s",
                     arch, known);
}

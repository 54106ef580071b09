/* SPDX-License-Identifier: Apache-2.0 */
#include "hub/shelf.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>

static const char prefix[] = "models--";

/* "models--ORG--NAME" as ORG/NAME: names have no "--" themselves. NULL: it is no model's folder. */
static char *id_of(whim_arena *arena, const char *folder)
{
    const char *org = folder + strlen(prefix);
    const char *split = strncmp(folder, prefix, strlen(prefix)) == 0 ? strstr(org, "--") : NULL;
    char id[WHIM_HUB_ID_MAX];
    if (split == NULL ||
        snprintf(id, sizeof id, "%.*s/%s", (int)(split - org), org, split + 2) >= (int)sizeof id) {
        return NULL;
    }
    whim_hub_ref ref;
    whim_diag ignored;
    return whim_hub_ref_parse(&ref, id, &ignored) == WHIM_ERR_OK && strcmp(ref.id, id) == 0
               ? whim_arena_strndup(arena, id, (int64_t)strlen(id))
               : NULL;
}

whim_err whim_hub_shelf_ids(whim_arena *arena, const char *cache, char ***ids, int64_t *n,
                            whim_diag *diag)
{
    char **names;
    int64_t n_name;
    *n = 0;
    if (whim_path_get_type(cache) != WHIM_PATH_DIR) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(whim_dir_list(arena, cache, &names, &n_name, diag));
    for (int64_t i = 0; i < n_name; i++) {
        char *id = id_of(arena, names[i]);
        if (id != NULL) {
            names[(*n)++] = id; /* never before what was read */
        }
    }
    *ids = names;
    return WHIM_ERR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "invariance/invariance.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_PATH = 64 };

static void config_path(const char *folder, char path[MAX_PATH])
{
    snprintf(path, MAX_PATH, "%s/config.json", folder);
}

bool dummy_folder_make(char folder[static sizeof DUMMY_FOLDER], const char *config)
{
    char path[MAX_PATH];
    FILE *f = NULL;
    if (mkdtemp(folder) != NULL) {
        config_path(folder, path);
        f = fopen(path, "w");
    }
    bool good = f != NULL && fputs(config, f) >= 0;
    return f != NULL && fclose(f) == 0 && good;
}

void dummy_folder_remove(const char *folder)
{
    char path[MAX_PATH];
    config_path(folder, path);
    unlink(path);
    rmdir(folder);
}

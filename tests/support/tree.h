/* SPDX-License-Identifier: Apache-2.0 */
/* A made-up tree of files, for tests of what reads files of others; one at a time. */
#ifndef WHIM_TESTS_TREE_H
#define WHIM_TESTS_TREE_H

#include "support/cmocka.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char tree_root[64];

/* Write a file of the tree, making its folders. */
static inline void tree_put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", tree_root, path);
    for (char *at = full + strlen(tree_root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(full, 0700);
        *at = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static inline int tree_setup(void **state)
{
    (void)state;
    strcpy(tree_root, "/tmp/whim-tree-XXXXXX");
    return mkdtemp(tree_root) == NULL;
}

static inline int tree_remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st;
    (void)flag;
    (void)at;
    return remove(path);
}

static inline int tree_teardown(void **state)
{
    (void)state;
    return nftw(tree_root, tree_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

#endif

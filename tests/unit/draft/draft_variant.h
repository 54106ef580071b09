/* SPDX-License-Identifier: Apache-2.0 */
/* A draft of tests/data/drafts with one thing changed, in the folder tree_root: a text of its
 * config.json, or the values of its F32 tensors whose names have a part. End it by tree_teardown. */
#ifndef WHIM_TESTS_DRAFT_VARIANT_H
#define WHIM_TESTS_DRAFT_VARIANT_H

#include "base/alloc.h"
#include "base/file.h"
#include "draft/draft.h"
#include "support/cmocka.h"
#include "support/tree.h"
#include "weights/ckpt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void variant_change(float *x, int64_t n);

typedef struct variant_part {
    const char *name; /* a part of it; NULL: the last entry */
    variant_change *change;
} variant_part;

static inline void variant_put(const char *name, const char *bytes, int64_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", tree_root, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, (size_t)n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline void variant_tensors(const char *base, char *bytes, const char *part,
                                   variant_change *change)
{
    whim_ckpt ckpt = {0};
    whim_diag diag = {""};
    int32_t n_changed = 0;
    assert_int_equal(whim_ckpt_open(&ckpt, whim_draft_archs(), base, &diag), WHIM_ERR_OK);
    for (int64_t i = 0; i < ckpt.n_tensor; i++) {
        const whim_ckpt_tensor *t = &ckpt.tensors[i];
        if (strstr(t->name, part) != NULL) {
            assert_int_equal(t->dtype, WHIM_DTYPE_F32);
            float *x = whim_alloc(t->bytes);
            memcpy(x, bytes + t->offset, (size_t)t->bytes);
            change(x, t->bytes / (int64_t)sizeof *x);
            memcpy(bytes + t->offset, x, (size_t)t->bytes);
            whim_free(x);
            n_changed++;
        }
    }
    whim_ckpt_close(&ckpt);
    assert_true(n_changed > 0);
}

/* `from` in config.json becomes `to`, and tensors are changed as `parts` say. */
static inline void variant_make_all(const char *draft, const char *from, const char *to,
                                    const variant_part *parts)
{
    char base[256], path[512], changed[4096], *text = NULL, *bytes = NULL;
    int64_t n = 0;
    whim_diag diag = {""};
    snprintf(base, sizeof base, "tests/data/drafts/%s", draft);
    snprintf(path, sizeof path, "%s/config.json", base);
    assert_int_equal(whim_file_read_all(path, sizeof changed / 2, &text, &n, &diag), WHIM_ERR_OK);
    char *at = strstr(text, from);
    assert_non_null(at);
    int used = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to,
                        at + strlen(from));
    whim_free(text);
    assert_int_equal(tree_setup(NULL), 0);
    variant_put("config.json", changed, used);
    snprintf(path, sizeof path, "%s/model.safetensors", base);
    assert_int_equal(whim_file_read_all(path, 1 << 22, &bytes, &n, &diag), WHIM_ERR_OK);
    for (; parts->name != NULL; parts++) {
        variant_tensors(base, bytes, parts->name, parts->change);
    }
    variant_put("model.safetensors", bytes, n);
    whim_free(bytes);
}

static inline void variant_make(const char *draft, const char *from, const char *to,
                                const char *part, variant_change *change)
{
    variant_make_all(draft, from, to, (const variant_part[]){{part, change}, {NULL, NULL}});
}

#endif

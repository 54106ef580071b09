/* SPDX-License-Identifier: Apache-2.0 */
/* What the cases of the paged ops share: a pool of pages of which one layer is used. */
#ifndef CHECKOP_CASES_KV_H
#define CHECKOP_CASES_KV_H

#include "checkop/harness.h"

typedef struct kv_shape {
    whim_kv_type type;
    int64_t n_kv, d_head, n_page, layers, layer;
} kv_shape;

void kv_say(checkop_case *c, const kv_shape *s);

/* A pool of zeroed pages, surrounded by the other layers. */
int32_t kv_pool(checkop_case *c, const kv_shape *s);

/* The same, every slot written by a first call of kv_write. */
int32_t kv_fill_all(checkop_case *c, const kv_shape *s, checkop_fill fill);

/* Fill the view at `field` of the call's arguments. */
void kv_view_bind(checkop_case *c, checkop_call *call, size_t field, int32_t pages,
                  const kv_shape *s);

/* A view that passes the argument checks: 2 KV heads of 8, F32. */
whim_kv_view kv_view_valid(void);

#endif

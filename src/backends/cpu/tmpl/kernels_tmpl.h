/* SPDX-License-Identifier: Apache-2.0 */
/* All kernels of a level and its table, in the order in which they need each other; included by its
 * file after its own loops. */
#include "backends/cpu/tmpl/kv_tmpl.h"

#include "backends/cpu/tmpl/attn_tmpl.h"
#include "backends/cpu/tmpl/row_tmpl.h"
#include "backends/cpu/tmpl/rows_tmpl.h"
#include "backends/cpu/tmpl/store_tmpl.h"

#include "backends/cpu/tmpl/product_tmpl.h"

#include "backends/cpu/tmpl/moe_tmpl.h"

#include "backends/cpu/tmpl/table_tmpl.h"

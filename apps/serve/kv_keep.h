/* SPDX-License-Identifier: Apache-2.0 */
/* Whether pages of keys and values are kept where nobody has said so.
 * Threads: stateless. */
#ifndef WHIM_APPS_SERVE_KV_KEEP_H
#define WHIM_APPS_SERVE_KV_KEEP_H

#include <stdint.h>

/* Why they are not kept by default, on so many machines and with so much memory available; NULL:
 * they are. */
const char *kv_keep_reason(int32_t n_node, int64_t available);

#endif

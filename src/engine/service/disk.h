/* SPDX-License-Identifier: Apache-2.0 */
/* The service's use of the disk tier: what the tree drops is kept, what a prompt lacks is looked
 * for, and at the end the whole tree is saved. Threads: the service's. */
#ifndef WHIM_ENGINE_SERVICE_DISK_H
#define WHIM_ENGINE_SERVICE_DISK_H

#include "engine/service/inner.h"

/* Opens nothing without cfg.kv_dir. */
WHIM_MUST_CHECK whim_err whim_service_disk_open(whim_service *s, whim_diag *diag);

/* Save what the trees hold, then close. */
void whim_service_disk_close(whim_service *s);

/* whim_prefix_evicted and whim_sched_cfg.fetch of a group. */
void whim_service_keep_page(void *ctx, int32_t page, const whim_prefix_key *key,
                            const int32_t *tokens);
int64_t whim_service_fetch_pages(void *ctx, const int32_t *tokens, int64_t n_page, int64_t max,
                                 int32_t *pages);

#endif

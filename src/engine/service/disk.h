/* SPDX-License-Identifier: Apache-2.0 */
/* The service's use of the disk tier: what the trees drop is kept, what a prompt lacks is looked
 * for, and what is new in the trees is saved when nothing else is to be done, so that whatever ends
 * the process finds most of it saved. Threads: the service's. */
#ifndef WHIM_ENGINE_SERVICE_DISK_H
#define WHIM_ENGINE_SERVICE_DISK_H

#include "engine/service/inner.h"

/* Opens nothing without cfg.kv_dir. */
WHIM_MUST_CHECK whim_err whim_service_disk_open(whim_service *s, whim_diag *diag);

/* Save what is new in the trees, for a few milliseconds; true: there is more. False
 * may mean that a queue is full: is_saved of the service tells when all is written. */
bool whim_service_disk_save(whim_service *s);

/* Save what the trees hold, within cfg.save_ns, then close. */
void whim_service_disk_close(whim_service *s);

/* whim_prefix_visit of a group: what is about to leave its tree. */
void whim_service_keep_page(void *ctx, int32_t page, int32_t state, const whim_prefix_key *key,
                            const int32_t *tokens);

/* A group's, for its scheduler; {0} without a disk. */
whim_sched_store whim_service_store(whim_group *group);

#endif

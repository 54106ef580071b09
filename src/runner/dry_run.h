/* SPDX-License-Identifier: Apache-2.0 */
/* Passes of a model on a stream where nothing runs, in all sizes that an exec may need: what memory
 * they take, and what ranks tell each other in them.
 * Threads: any. */
#ifndef WHIM_RUNNER_DRY_RUN_H
#define WHIM_RUNNER_DRY_RUN_H

#include "runner/exec.h"

/* Fills in the plan's activation_bytes, workspace_bytes and most_comm. UNSUPPORTED: the device
 * lacks an op, which is named. */
WHIM_MUST_CHECK whim_err whim_dry_run(const whim_config *config, const whim_model_def *def,
                                      whim_model *model, whim_device *device,
                                      const whim_exec_cfg *cfg, whim_exec_plan *plan,
                                      whim_diag *diag);

#endif

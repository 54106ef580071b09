/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks would have of a model, for inspect. */
#ifndef WHIM_APPS_INSPECT_RANKS_H
#define WHIM_APPS_INSPECT_RANKS_H

#include "cmd.h"
#include "engine/engine.h"

/* A line, or an object of JSON's field "ranks", for each of n_rank ranks. False after a
 * complaint. */
bool append_ranks(whim_str *out, whim_engine_cfg cfg, int32_t n_rank, bool json);

#endif

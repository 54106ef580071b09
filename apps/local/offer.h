/* SPDX-License-Identifier: Apache-2.0 */
/* Which model, where the user leaves it to us: `auto` takes the best that fits this machine; a
 * server without a MODEL asks, where there is somebody to ask. Models are those of models.def.
 * Threads: the main thread. */
#ifndef WHIM_APPS_LOCAL_OFFER_H
#define WHIM_APPS_LOCAL_OFFER_H

#include "cmd.h"

#include <stdbool.h>

/* Put a name in the place of MODEL "auto" (unless a path is called so): that of the best model that
 * fits, of those in the cache if one of them does, or NULL for the default model. Says what it took
 * and why. */
void model_auto(whim_options *options);

/* Where no MODEL was given: list what fits, with its download and its expected speed, and take
 * what the user answers. Enter, or no answer within options->ask_time seconds, is the default
 * model, or the first of the list where that one is not here and cannot be fetched. Asks only
 * people at a terminal, in the foreground, outside of CI, and if a hub can be reached or models are
 * in its cache; else does nothing. */
void model_offer(whim_options *options);

#endif

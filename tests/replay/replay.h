/* SPDX-License-Identifier: Apache-2.0 */
/* Running recorded steps again (runner/step_record.h) and comparing what comes of them.
 * Threads: one. */
#ifndef WHIM_TESTS_REPLAY_REPLAY_H
#define WHIM_TESTS_REPLAY_REPLAY_H

#include "engine/engine.h"

typedef struct replay_with {
    const char *backend, *isa; /* NULL: as the engine chooses */
    int32_t n_thread;
    int32_t graphs; /* whim_graph_use */
} replay_with;

/* Run the steps of a file on a model. False, with a line that says why, when a file or a model is
 * refused or a bit differs; *n_result counts the results that were the same. */
bool replay_file(const char *path, const char *model, const replay_with *with, int64_t *n_result);

/* Record steps of every model under `data` and run them again: on every exact level, on the guard,
 * and on the best level with other threads. Returns the exit status. */
int replay_self(const char *data);

#endif

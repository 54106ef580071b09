/* SPDX-License-Identifier: Apache-2.0 */
/* The default model where it is missing: a program of its own fetches it
 * (tools/fetch-default-model). `make serve` names that program with --fetch; an installation has it
 * in lib/whimbrel/tools beside its bin; elsewhere there is none.
 * Threads: the main thread. */
#ifndef WHIM_APPS_LOCAL_FETCH_H
#define WHIM_APPS_LOCAL_FETCH_H

#include "cmd.h"

#include <stdbool.h>
#include <sys/types.h>

/* Whether there is such a program here, and what it needs; it is asked. */
bool fetch_is_possible(const whim_options *options);

/* Who waits for the program, and where its words go. */
typedef struct fetch_how {
    int (*wait)(pid_t pid); /* for the end of a child; gives its status as of waitpid. NULL: a
                               signal that asks for the end ends the child first, then this process
                               as usual */
    int out;                /* a descriptor; 0: standard error, where it says less with -q */
} fetch_how;

/* If no MODEL was given and the default one is not in the cache: run the program, if there is one.
 * False after a complaint: the program has failed. True says nothing about the model. */
bool fetch_default(const whim_options *options, fetch_how how);

/* What to do where the default model is missing. */
const char *fetch_ways(const whim_options *options);

#endif

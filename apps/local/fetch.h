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

/* The program, its path in `buf` or --fetch; NULL: there is none here. */
const char *fetch_program(const whim_options *options, char buf[MODEL_PATH_MAX]);

/* Waits for the end of a child and gives its status as of waitpid. */
typedef int fetch_wait(pid_t pid);

/* If no MODEL was given and the default one is not in the cache: run the program, if there is one.
 * `wait` NULL: a signal that asks for the end ends the child first, then this process as usual.
 * False after a complaint: the program has failed. True says nothing about the model. */
bool fetch_default(const whim_options *options, fetch_wait *wait);

/* What to do where the default model is missing and there is no program that fetches it. */
#define FETCH_WAYS                                                                           \
    "name a model, which is downloaded (\"whimbrel run qwen3:0.6b\", 0.6 GB), or fetch the " \
    "default one (98 MB) by \"make model\" in whimbrel's source folder"

#endif

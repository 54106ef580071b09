/* SPDX-License-Identifier: Apache-2.0 */
/* Another program, run to its end with its output taken. Never through a shell: the arguments
 * arrive as they are. The program gets an empty standard input, default signal handling and every
 * CPU that this process may use, whatever the calling thread is pinned to.
 * Threads: any; the call blocks. */
#ifndef WHIM_BASE_PROCESS_H
#define WHIM_BASE_PROCESS_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum { WHIM_PROCESS_ERR_BYTES = 8192 }; /* of standard error that are kept, the last ones */

typedef struct whim_process {
    const char *const
        *argv;       /* [0] is the program: a path, or a name to look for in PATH; NULL ends it */
    int64_t max_out; /* more on standard output than this is an error */
    void (*on_wait)(
        void *ctx); /* called several times a second while it runs, on another thread; or NULL */
    void *ctx;
    /* filled by the run */
    whim_str out; /* standard output */
    whim_str err; /* the end of standard error */
    int32_t exit_code;
    int32_t signal; /* that ended it, or 0 */
} whim_process;

/* Run it. A program that cannot be started is NOT_FOUND or IO with a message; one that starts and
 * fails is OK here, and its exit code tells. Free the texts with whim_process_deinit in any
 * case. */
WHIM_MUST_CHECK whim_err whim_process_run(whim_process *process, whim_diag *diag);
void whim_process_deinit(whim_process *process);

#endif

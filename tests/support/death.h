/* SPDX-License-Identifier: Apache-2.0 */
/* Does something end the process? It is tried in a child, with the default signal handlers, so that
 * the signal itself is seen and not what a test library or a sanitizer makes of it. */
#ifndef WHIM_TESTS_SUPPORT_DEATH_H
#define WHIM_TESTS_SUPPORT_DEATH_H

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* The signal that ended a child which called fn(ctx); 0 when fn returned; -1 when it did
 * otherwise. */
static inline int death_signal(void (*fn)(void *ctx), void *ctx)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        int quiet = open("/dev/null", O_WRONLY);
        dup2(quiet, STDERR_FILENO);
        fn(ctx);
        _exit(0);
    }
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        return -1;
    }
    if (WIFSIGNALED(status)) {
        return WTERMSIG(status);
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks/process.h"

#include "base/clock.h"
#include "ranks/order.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { HIGH_FD = 10 }; /* above the descriptors that followers get */

int whim_rank_fd(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
    close(fd);
    return high;
}

static int spawn(const char *program, const char *what, int socket, int memory, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    char name[] = "whimbrel", word[16], *argv[] = {name, word, NULL};
    snprintf(word, sizeof word, "%s", what);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, socket, WHIM_FOLLOWER_SOCKET);
    posix_spawn_file_actions_adddup2(&actions, memory, WHIM_FOLLOWER_MEMORY);
    int error = posix_spawn(pid, program, &actions, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

whim_err whim_rank_start(whim_rank_process *p, const char *program, const char *word, int memory,
                         whim_diag *diag)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return whim_fail(diag, WHIM_ERR_IO, "no socket for %s: %s", p->name, strerror(errno));
    }
    pair[0] = whim_rank_fd(pair[0]);
    pair[1] = whim_rank_fd(pair[1]);
    int error =
        pair[0] < 0 || pair[1] < 0 ? EMFILE : spawn(program, word, pair[1], memory, &p->pid);
    close(pair[1]);
    p->socket = pair[0];
    if (error != 0) {
        p->pid = 0;
        return whim_fail(diag, WHIM_ERR_IO, "%s cannot be run as %s: %s", program, p->name,
                         strerror(error));
    }
    return WHIM_ERR_OK;
}

static bool far_ended(whim_rank_process *p, char *text, size_t size)
{
    if (!atomic_load(&p->far->ended)) {
        return false;
    }
    snprintf(text, size, "%s", p->far->how);
    p->far = NULL;
    return true;
}

bool whim_rank_ended(whim_rank_process *p, char *text, size_t size)
{
    if (p->far != NULL) {
        return far_ended(p, text, size);
    }
    int status = 0;
    pid_t pid = p->pid, got = pid != 0 ? waitpid(pid, &status, WNOHANG) : 0;
    if (got == 0 || (got < 0 && errno == EINTR)) {
        return false;
    }
    p->pid = 0;
    if (got < 0) { /* somebody else has waited for it */
        snprintf(text, size, "%s (process %d) is gone", p->name, (int)pid);
        return true;
    }
    if (WIFSIGNALED(status)) {
        snprintf(text, size, "%s (process %d) was ended by signal %d (%s)", p->name, (int)pid,
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else {
        snprintf(text, size, "%s (process %d) ended with status %d", p->name, (int)pid,
                 WEXITSTATUS(status));
    }
    return true;
}

whim_err whim_rank_send(const whim_rank_process *p, const void *order, size_t bytes,
                        whim_diag *diag)
{
    if (send(p->socket, order, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) {
        return whim_fail(diag, WHIM_ERR_IO, "%s takes no orders: %s", p->name, strerror(errno));
    }
    return WHIM_ERR_OK;
}

whim_err whim_rank_hear(whim_rank_process *p, void *reply, size_t bytes, whim_diag *diag)
{
    ssize_t n;
    do {
        n = recv(p->socket, reply, bytes, 0);
    } while (n < 0 && errno == EINTR);
    if (n == (ssize_t)bytes) {
        return WHIM_ERR_OK;
    }
    char how[WHIM_RANK_HOW] = "";
    for (int ms = 0; ms < WHIM_RANK_END_MS && !whim_rank_ended(p, how, sizeof how); ms++) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    return how[0] != '\0' ? whim_fail(diag, WHIM_ERR_DEVICE, "%s before it was ready", how)
                          : whim_fail(diag, WHIM_ERR_DEVICE, "%s stopped answering", p->name);
}

void whim_rank_end(whim_rank_process *p, int64_t until)
{
    char how[WHIM_RANK_HOW];
    if (p->socket >= 0) {
        close(p->socket);
        p->socket = -1;
    }
    p->far = NULL;
    while (p->pid != 0 && !whim_rank_ended(p, how, sizeof how)) {
        if (whim_clock_ns() > until) {
            kill(p->pid, SIGKILL);
        }
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
}

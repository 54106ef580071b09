/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks/process.h"

#include "base/clock.h"
#include "base/os/facts.h"
#include "ranks/order.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
    int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD), error = errno;
    close(fd);
    errno = error;
    return high;
}

/* --- starting --------------------------------------------------------------------------------- */

static int actions_fill(posix_spawn_file_actions_t *actions, int socket, int memory)
{
    int error = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    const int pairs[][2] = {{STDERR_FILENO, STDOUT_FILENO},
                            {socket, WHIM_FOLLOWER_SOCKET},
                            {memory, WHIM_FOLLOWER_MEMORY}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0] && error == 0; i++) {
        error = posix_spawn_file_actions_adddup2(actions, pairs[i][0], pairs[i][1]);
    }
    return error;
}

static int attr_fill(posix_spawnattr_t *attr)
{
    sigset_t none;
    sigemptyset(&none);
    int error = posix_spawnattr_setsigmask(attr, &none);
    return error != 0 ? error : posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK);
}

static int spawn(const struct whim_rank_keeper *k, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    char name[] = "whimbrel", word[16], *argv[] = {name, word, NULL};
    snprintf(word, sizeof word, "%s", k->word);
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    error = posix_spawnattr_init(&attr);
    if (error == 0) {
        error = actions_fill(&actions, k->socket, k->memory);
        error = error != 0 ? error : attr_fill(&attr);
        error = error != 0 ? error : posix_spawn(pid, k->program, &actions, &attr, argv, environ);
        posix_spawnattr_destroy(&attr);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* A process is killed when the thread that started it ends (PR_SET_PDEATHSIG knows no processes),
 * so each has one that lives as long as it does. */
static void keep(void *ctx)
{
    struct whim_rank_keeper *k = ctx;
    siginfo_t info;
    pthread_mutex_lock(&k->lock);
    pid_t pid = 0;
    k->error = spawn(k, &pid);
    k->pid = k->error == 0 ? pid : 0;
    bool runs = k->pid != 0;
    k->is_done = true;
    pthread_cond_signal(&k->news);
    pthread_mutex_unlock(&k->lock);
    while (runs && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
}

static void keeper_end(whim_rank_process *p)
{
    if (p->is_kept) {
        whim_thread_join(&p->keeper.thread);
        pthread_cond_destroy(&p->keeper.news);
        pthread_mutex_destroy(&p->keeper.lock);
        p->is_kept = false;
    }
}

static whim_err keeper_start(whim_rank_process *p, whim_diag *diag)
{
    struct whim_rank_keeper *k = &p->keeper;
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->news, NULL);
    whim_err err = whim_thread_create(&k->thread, "rank", keep, k, diag);
    if (err != WHIM_ERR_OK) {
        pthread_cond_destroy(&k->news);
        pthread_mutex_destroy(&k->lock);
        return err;
    }
    p->is_kept = true;
    pthread_mutex_lock(&k->lock);
    while (!k->is_done) {
        pthread_cond_wait(&k->news, &k->lock);
    }
    p->pid = k->pid;
    pthread_mutex_unlock(&k->lock);
    if (k->error != 0) {
        keeper_end(p);
        return whim_fail(diag, WHIM_ERR_IO, "%s cannot be run as %s: %s", k->program, p->name,
                         strerror(k->error));
    }
    return WHIM_ERR_OK;
}

whim_err whim_rank_start(whim_rank_process *p, const char *program, const char *word, int memory,
                         whim_diag *diag)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return whim_fail(diag, WHIM_ERR_IO, "no socket for %s: %s", p->name, strerror(errno));
    }
    p->socket = whim_rank_fd(pair[0]);
    int error = errno, theirs = whim_rank_fd(pair[1]);
    error = theirs < 0 ? errno : error;
    whim_err err = WHIM_ERR_OK;
    if (p->socket < 0 || theirs < 0) {
        err = whim_fail(diag, WHIM_ERR_IO, "no socket for %s: %s", p->name, strerror(error));
    } else {
        p->keeper = (struct whim_rank_keeper){
            .program = program, .word = word, .socket = theirs, .memory = memory};
        err = keeper_start(p, diag);
    }
    if (theirs >= 0) {
        close(theirs);
    }
    return err;
}

/* --- being there ------------------------------------------------------------------------------ */

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

/* It has closed its end of the socket, so it is about to end. */
static void await_end(whim_rank_process *p, char *how, size_t size)
{
    for (int ms = 0; ms < WHIM_RANK_END_MS && !whim_rank_ended(p, how, size); ms++) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
}

whim_err whim_rank_send(whim_rank_process *p, const void *order, size_t bytes, whim_diag *diag)
{
    if (send(p->socket, order, bytes, MSG_NOSIGNAL) == (ssize_t)bytes) {
        return WHIM_ERR_OK;
    }
    char how[WHIM_RANK_HOW] = "";
    int error = errno;
    if (error == EPIPE || error == ECONNRESET) {
        await_end(p, how, sizeof how);
    }
    return how[0] != '\0'
               ? whim_fail(diag, WHIM_ERR_DEVICE, "%s before it was ready", how)
               : whim_fail(diag, WHIM_ERR_IO, "%s takes no orders: %s", p->name, strerror(error));
}

/* --- listening -------------------------------------------------------------------------------- */

/* How long a load takes nobody knows, but it uses the CPU; only a disk may keep it for long. */
enum {
    STOPPED_LOOKS = 1000 / WHIM_RANK_LOOK_MS,
    STILL_LOOKS = 60 * 1000 / WHIM_RANK_LOOK_MS,
    DISK_LOOKS = 600 * 1000 / WHIM_RANK_LOOK_MS,
};

bool whim_rank_hangs(whim_rank_process *p, char *how, size_t size)
{
    whim_rank_looks *l = &p->looks;
    whim_os_process now;
    if (p->pid == 0 || !whim_os_process_get((int32_t)p->pid, &now)) {
        return false; /* its end of the socket tells, or the agent of its host */
    }
    l->n_stopped = now.state == 'T' ? l->n_stopped + 1 : 0;
    l->n_still = now.cpu_ticks == l->cpu_ticks ? l->n_still + 1 : 0;
    l->cpu_ticks = now.cpu_ticks;
    if (l->n_stopped >= STOPPED_LOOKS) {
        snprintf(how, size, "%s (process %d) was stopped", p->name, (int)p->pid);
        return true;
    }
    snprintf(how, size, "%s (process %d) did nothing for %d s", p->name, (int)p->pid,
             l->n_still * WHIM_RANK_LOOK_MS / 1000);
    return l->n_still >= (now.state == 'D' ? DISK_LOOKS : STILL_LOOKS);
}

whim_err whim_rank_hear(whim_rank_process *p, void *reply, size_t bytes, whim_diag *diag)
{
    char how[WHIM_RANK_HOW] = "";
    p->looks = (whim_rank_looks){0};
    struct pollfd fd = {.fd = p->socket, .events = POLLIN};
    for (int ready = 0; ready == 0 || (ready < 0 && errno == EINTR);) {
        ready = poll(&fd, 1, WHIM_RANK_LOOK_MS);
        if (ready == 0 && whim_rank_hangs(p, how, sizeof how)) {
            return whim_fail(diag, WHIM_ERR_DEVICE, "%s before it was ready", how);
        }
    }
    if (recv(p->socket, reply, bytes, 0) == (ssize_t)bytes) {
        return WHIM_ERR_OK;
    }
    how[0] = '\0';
    await_end(p, how, sizeof how);
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
    keeper_end(p);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Running a program: spawn, read both of its outputs until they end, wait. All on a thread of its
 * own, which starts with the CPUs of the process and not with those of its creator. */
#include "base/process.h"

#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { WAIT_MS = 100, CHUNK = 4096 };

typedef struct run {
    whim_process *process;
    whim_diag *diag;
    whim_err err;
    int out[2], errors[2]; /* pipes; -1: closed */
} run;

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

/* The child's descriptors and signals; `error` is 0 or why not. */
static int spawn(const run *r, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, usual;
    char *const *argv = (char *const *)(uintptr_t)r->process->argv;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    error = posix_spawnattr_init(&attr);
    if (error != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return error;
    }
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGINT);
    sigaddset(&usual, SIGPIPE);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &usual);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    error =
        error != 0 ? error : posix_spawn_file_actions_adddup2(&actions, r->out[1], STDOUT_FILENO);
    error = error != 0 ? error
                       : posix_spawn_file_actions_adddup2(&actions, r->errors[1], STDERR_FILENO);
    error = error != 0 ? error : posix_spawnp(pid, argv[0], &actions, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* What is there of one pipe; closes it at its end. */
static void take(int *fd, whim_str *text, int64_t keep_last)
{
    char chunk[CHUNK];
    ssize_t n = read(*fd, chunk, sizeof chunk);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
        close_fd(fd);
        return;
    }
    whim_str_append_n(text, chunk, n > 0 ? n : 0);
    if (keep_last > 0 && text->len > 2 * keep_last) {
        int64_t drop = text->len - keep_last;
        memmove(text->text, text->text + drop, (size_t)keep_last + 1);
        text->len = keep_last;
    }
}

/* Both pipes until they end, or until there is too much. */
static void take_all(run *r)
{
    whim_process *p = r->process;
    while (r->out[0] >= 0 || r->errors[0] >= 0) {
        struct pollfd fds[2] = {{r->out[0], POLLIN, 0}, {r->errors[0], POLLIN, 0}};
        int ready = poll(fds, 2, WAIT_MS);
        if (p->on_wait != NULL) {
            p->on_wait(p->ctx);
        }
        if (ready > 0 && fds[0].revents != 0) {
            take(&r->out[0], &p->out, 0);
        }
        if (ready > 0 && fds[1].revents != 0) {
            take(&r->errors[0], &p->err, WHIM_PROCESS_ERR_BYTES);
        }
        if (p->out.len > p->max_out || p->out.failed) {
            close_fd(&r->out[0]); /* it ends with a broken pipe */
            r->err = whim_fail(r->diag, WHIM_ERR_CORRUPT, "%s prints more than %lld bytes",
                               p->argv[0], (long long)p->max_out);
        }
    }
}

static whim_err not_started(const char *program, int error, whim_diag *diag)
{
    if (error == ENOENT) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND, "%s: there is no such program", program);
    }
    return whim_fail(diag, WHIM_ERR_IO, "%s cannot be run: %s%s", program, strerror(error),
                     error == EACCES ? " (is it executable?)" : "");
}

/* Where a child cannot tell its parent why it did not start (under an emulator), it ends with 127,
 * silently. */
static bool silent_127(const whim_process *p)
{
    return p->exit_code == 127 && p->out.len == 0 && p->err.len == 0;
}

static void run_it(void *ctx)
{
    run *r = ctx;
    pid_t pid;
    int error = spawn(r, &pid), status = 0;
    close_fd(&r->out[1]);
    close_fd(&r->errors[1]);
    if (error != 0) {
        r->err = not_started(r->process->argv[0], error, r->diag);
        return;
    }
    take_all(r);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    r->process->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    r->process->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (silent_127(r->process)) {
        r->err =
            whim_fail(r->diag, WHIM_ERR_NOT_FOUND,
                      "%s: there is no such program, or it is not executable", r->process->argv[0]);
    }
}

whim_err whim_process_run(whim_process *process, whim_diag *diag)
{
    run r = {.process = process, .diag = diag, .out = {-1, -1}, .errors = {-1, -1}};
    whim_thread thread;
    process->out = process->err = (whim_str){0};
    process->exit_code = process->signal = 0;
    if (pipe2(r.out, O_CLOEXEC) != 0 || pipe2(r.errors, O_CLOEXEC) != 0) {
        r.err =
            whim_fail(diag, WHIM_ERR_IO, "%s cannot be run: %s", process->argv[0], strerror(errno));
    } else {
        /* Apart from r.err, which is the thread's as soon as there is one. */
        whim_err made = whim_thread_create(&thread, "process", run_it, &r, diag);
        if (made == WHIM_ERR_OK) {
            whim_thread_join(&thread);
        } else {
            r.err = made;
        }
    }
    for (int i = 0; i < 2; i++) {
        close_fd(&r.out[i]);
        close_fd(&r.errors[i]);
    }
    return r.err;
}

void whim_process_deinit(whim_process *process)
{
    whim_str_deinit(&process->out);
    whim_str_deinit(&process->err);
}

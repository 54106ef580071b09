/* SPDX-License-Identifier: Apache-2.0 */
#include "local/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* From the folder of this program. */
#define INSTALLED "/../lib/whimbrel/tools/fetch-default-model"

/* --- the program ------------------------------------------------------------------------------ */

/* Not one that somebody else put beside a folder that he can write to. */
static bool is_trusted(const char *path, uid_t owner)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & S_IWOTH) == 0 &&
           (st.st_uid == 0 || st.st_uid == owner) && access(path, X_OK) == 0;
}

const char *fetch_program(const whim_options *options, char buf[MODEL_PATH_MAX])
{
    struct stat own;
    if (options->fetch != NULL) {
        return options->fetch;
    }
    ssize_t n = readlink("/proc/self/exe", buf, MODEL_PATH_MAX - sizeof INSTALLED);
    if (n <= 0 || stat("/proc/self/exe", &own) != 0) {
        return NULL;
    }
    buf[n] = '\0';
    char *slash = strrchr(buf, '/');
    if (slash == NULL) {
        return NULL;
    }
    memcpy(slash, INSTALLED, sizeof INSTALLED);
    return is_trusted(buf, own.st_uid) ? buf : NULL;
}

/* --- running it ------------------------------------------------------------------------------- */

/* The child has an empty input and signals as usual, so that Ctrl-C ends it too. What it says goes
 * to standard error: standard output is for answers. */
static int spawn(const char *program, bool quiet, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, usual;
    char *argv[] = {(char *)(uintptr_t)program, NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &usual);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (quiet) {
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    } else {
        posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    }
    int error = posix_spawnp(pid, program, &actions, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static void ending_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
}

/* Wait for the child, with these signals and SIGCHLD blocked; *sig: the one that came, or 0. */
static int wait_child(pid_t pid, int *sig)
{
    sigset_t set;
    int status = 0;
    ending_signals(&set);
    sigaddset(&set, SIGCHLD);
    *sig = 0;
    for (;;) {
        pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid || (got < 0 && errno != EINTR)) {
            return status;
        }
        int came = sigwaitinfo(&set, NULL);
        if (came > 0 && came != SIGCHLD) {
            *sig = came;
            kill(pid, SIGTERM);
        }
    }
}

/* False after a complaint; the program has said the rest. */
static bool run(const char *program, bool quiet, fetch_wait *wait)
{
    pid_t pid;
    sigset_t set, old;
    int sig = 0, status = 0;
    if (wait == NULL) {
        ending_signals(&set);
        sigaddset(&set, SIGCHLD);
        sigprocmask(SIG_BLOCK, &set, &old);
    }
    int error = spawn(program, quiet, &pid);
    if (error == 0) {
        status = wait != NULL ? wait(pid) : wait_child(pid, &sig);
    }
    if (wait == NULL) {
        if (sig != 0) {
            raise(sig); /* it comes when it is let through */
        }
        sigprocmask(SIG_SETMASK, &old, NULL);
    }
    if (error != 0) {
        complain(EXIT_FAILED, "%s cannot be run: %s", program, strerror(error));
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        complain(EXIT_FAILED, "the default model was not fetched");
    }
    return error == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool fetch_default(const whim_options *options, fetch_wait *wait)
{
    char model[MODEL_PATH_MAX], buf[MODEL_PATH_MAX];
    if (options->model != NULL || cache_find(default_model_name(), model, sizeof model)) {
        return true;
    }
    const char *program = fetch_program(options, buf);
    return program == NULL || run(program, options->quiet, wait);
}

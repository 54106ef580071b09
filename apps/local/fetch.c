/* SPDX-License-Identifier: Apache-2.0 */
#include "local/fetch.h"

#include "hub_model.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* From the folder of this program. */
#define INSTALLED "/../lib/whimbrel/tools/fetch-default-model"

/* --- the program ------------------------------------------------------------------------------ */

/* Ours, and nobody else can change it, or put something else in its place. */
static bool is_trusted(const char *path, uid_t owner)
{
    struct stat st;
    return stat(path, &st) == 0 && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
           (st.st_uid == 0 || st.st_uid == owner);
}

/* --fetch, or the installed one, its path without links in `buf`; NULL: there is none here. */
static const char *find_program(const whim_options *options, char buf[MODEL_PATH_MAX])
{
    struct stat own;
    char path[MODEL_PATH_MAX], whole[PATH_MAX];
    if (options->fetch != NULL) {
        return options->fetch;
    }
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - sizeof INSTALLED);
    if (n <= 0 || stat("/proc/self/exe", &own) != 0 || hub_is_offline()) {
        return NULL;
    }
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return NULL;
    }
    memcpy(slash, INSTALLED, sizeof INSTALLED);
    if (realpath(path, whole) == NULL || strlen(whole) >= MODEL_PATH_MAX ||
        access(whole, X_OK) != 0 || !is_trusted(whole, own.st_uid)) {
        return NULL;
    }
    strcpy(buf, whole);
    *strrchr(whole, '/') = '\0';
    return is_trusted(whole, own.st_uid) ? buf : NULL;
}

/* --- running it ------------------------------------------------------------------------------- */

/* The child has an empty input and signals as usual, so that Ctrl-C ends it too, but those that are
 * ignored (nohup). What it says goes to `out`, or to standard error: standard output is for
 * answers; `quiet`: what it reports does not. */
static int spawn(const char *program, const char *word, bool quiet, int out, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, usual;
    char *argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)word, NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &usual);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (out > 0) {
        posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
    }
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

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};

/* Those that end this process, so not what it ignores. */
static void ending_signals(sigset_t *set)
{
    sigemptyset(set);
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
        struct sigaction now;
        if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) {
            sigaddset(set, ending[i]);
        }
    }
}

/* Wait for the child, with these signals blocked; *sig: the one that came, or 0. */
static int wait_child(pid_t pid, const sigset_t *set, int *sig)
{
    static const struct timespec nap = {.tv_nsec = 100 * 1000 * 1000};
    int status = 0;
    *sig = 0;
    for (;;) {
        pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid || (got < 0 && errno != EINTR)) {
            return got == pid ? status : 0; /* else whoever started us lets nobody wait */
        }
        int came = sigtimedwait(set, NULL, &nap);
        if (came > 0) {
            *sig = came;
            kill(pid, SIGTERM);
        }
    }
}

/* Its status as of waitpid, or -1 with *error. */
static int run(const char *program, const char *word, bool quiet, fetch_how how, int *error)
{
    pid_t pid;
    sigset_t set, old;
    int sig = 0, status = -1;
    ending_signals(&set);
    if (how.wait == NULL) {
        sigprocmask(SIG_BLOCK, &set, &old);
    }
    *error = spawn(program, word, quiet, how.out, &pid);
    if (*error == 0) {
        status = how.wait != NULL ? how.wait(pid) : wait_child(pid, &set, &sig);
    }
    if (how.wait == NULL) {
        if (sig != 0) {
            raise(sig); /* it comes when it is let through */
        }
        sigprocmask(SIG_SETMASK, &old, NULL);
    }
    return status;
}

static bool is_good(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool fetch_is_possible(const whim_options *options)
{
    char buf[MODEL_PATH_MAX];
    int error;
    const char *program = find_program(options, buf);
    return program != NULL &&
           (program == options->fetch ||
            is_good(run(program, "--can-fetch", true, (fetch_how){.wait = NULL}, &error)));
}

bool fetch_default(const whim_options *options, fetch_how how)
{
    char model[MODEL_PATH_MAX], buf[MODEL_PATH_MAX];
    int error;
    if (options->model != NULL || cache_find(default_model_name(), model, sizeof model)) {
        return true;
    }
    const char *program = find_program(options, buf);
    if (program == NULL) {
        return true;
    }
    int status = run(program, NULL, options->quiet && how.out == 0, how, &error);
    if (error != 0) {
        complain(EXIT_FAILED, "%s cannot be run: %s", program, strerror(error));
    } else if (!is_good(status)) {
        complain(EXIT_FAILED, "the default model was not fetched");
    }
    return error == 0 && is_good(status);
}

const char *fetch_ways(const whim_options *options)
{
    return fetch_is_possible(options)
               ? "\"whimbrel run\", \"whimbrel chat\" and \"whimbrel serve\" without a MODEL fetch "
                 "it (98 MB)"
               : "name a model, which is downloaded (\"whimbrel run qwen3:0.6b\", 0.6 GB), or "
                 "fetch "
                 "the default one (98 MB) with \"make model\" in whimbrel's source folder";
}

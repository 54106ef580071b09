/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the model when the port is already ours; the default one may have to be fetched first. */
#include "hub_model.h"
#include "serve/serve.h"
#include "serve/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The child has the terminal's output, an empty input, and signals as usual, so that Ctrl-C ends it
 * too. */
static int spawn(const char *program, pid_t *pid)
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
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    int error = posix_spawnp(pid, program, &actions, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* False after a complaint; the program has said the rest. */
static bool fetch(const char *program)
{
    pid_t pid;
    int error = spawn(program, &pid);
    if (error != 0) {
        complain(EXIT_FAILED, "%s cannot be run: %s", program, strerror(error));
        return false;
    }
    int status = signals_child_wait(pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        complain(EXIT_FAILED, "the default model was not fetched");
        return false;
    }
    return true;
}

/* A long download shows on /readyz, and a supervisor must not take it for a hang. Loading begins at
 * 0 again. */
static void on_fetch(void *ctx, double share)
{
    serve *s = ctx;
    whim_server_set_progress(s->server, share);
    notify_progress(s, share);
}

const char *serve_model_find(serve *s, char *buf)
{
    const whim_options *o = s->options;
    if (o->model == NULL && o->fetch != NULL &&
        !cache_find(default_model_name(), buf, MODEL_PATH_MAX) && !fetch(o->fetch)) {
        return NULL;
    }
    hub_listen((hub_listener){.log = s->log.is_json || s->log.is_journal ? &s->log : NULL,
                              .progress = on_fetch,
                              .ctx = s});
    return choose_model(o, buf);
}

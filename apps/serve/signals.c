/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that takes signals. */
#include "serve/signals.h"

#include "base/clock.h"
#include "base/thread.h"
#include "cmd.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* After the second signal the end may take so long: answers are broken off, the cache is saved as
 * far as it goes. */
enum { LAST_SECONDS = 2 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool loaded, reload;
    bool has_terminal; /* asked at the start: when SIGHUP comes, the terminal is gone */
    int n_stop;
    pid_t child; /* that is to end first, or 0 */
    sigset_t set;
    whim_thread thread;
} signals = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

static void take(int sig)
{
    pthread_mutex_lock(&signals.lock);
    bool reload = sig == SIGHUP && !signals.has_terminal;
    if (!signals.loaded && !reload) {
        if (signals.child == 0) {
            _exit(EXIT_OK);
        }
        kill(signals.child, SIGTERM); /* who waits for it ends the process */
    }
    if (reload) {
        signals.reload = true;
    } else {
        signals.n_stop++;
    }
    int n_stop = signals.n_stop;
    pthread_cond_broadcast(&signals.change);
    pthread_mutex_unlock(&signals.lock);
    if (n_stop >= 2 && !reload) {
        whim_clock_sleep_ns(LAST_SECONDS * WHIM_NS_PER_S);
        _exit(EXIT_OK);
    }
}

static void loop(void *ctx)
{
    (void)ctx;
    for (;;) {
        int sig;
        if (sigwait(&signals.set, &sig) == 0) {
            take(sig);
        }
    }
}

bool signals_start(void)
{
    whim_diag diag = {""};
    signals.has_terminal = isatty(STDIN_FILENO);
    sigemptyset(&signals.set);
    sigaddset(&signals.set, SIGINT);
    sigaddset(&signals.set, SIGTERM);
    sigaddset(&signals.set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals.set, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (whim_thread_create(&signals.thread, "signals", loop, NULL, &diag) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
        return false;
    }
    return true;
}

int signals_child_wait(pid_t pid)
{
    siginfo_t info;
    int status = 0;
    pthread_mutex_lock(&signals.lock);
    signals.child = pid;
    if (signals.n_stop > 0) {
        kill(pid, SIGTERM);
    }
    pthread_mutex_unlock(&signals.lock);
    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
    pthread_mutex_lock(&signals.lock);
    signals.child = 0; /* its number is free for others after the next call */
    waitpid(pid, &status, 0);
    /* Ctrl-C is for both; the child may be the first to hear of it. */
    bool interrupted = (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) ||
                       (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_INTERRUPTED);
    if (signals.n_stop > 0 || interrupted) {
        _exit(EXIT_OK);
    }
    pthread_mutex_unlock(&signals.lock);
    return status;
}

void signals_loaded(void)
{
    pthread_mutex_lock(&signals.lock);
    signals.loaded = true;
    pthread_mutex_unlock(&signals.lock);
}

signal_wish signals_wait(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 500 * WHIM_NS_PER_MS;
    until.tv_sec += until.tv_nsec / WHIM_NS_PER_S;
    until.tv_nsec %= WHIM_NS_PER_S;
    pthread_mutex_lock(&signals.lock);
    if (!signals.reload && signals.n_stop < 2) {
        pthread_cond_timedwait(&signals.change, &signals.lock, &until);
    }
    signal_wish wish = signals.n_stop >= 2   ? SIGNAL_STOP_NOW
                       : signals.n_stop == 1 ? SIGNAL_STOP
                       : signals.reload      ? SIGNAL_RELOAD
                                             : SIGNAL_NONE;
    signals.reload = false;
    pthread_mutex_unlock(&signals.lock);
    return wish;
}

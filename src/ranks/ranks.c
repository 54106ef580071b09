/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's side: processes, orders, the watch. */
#include "ranks/ranks.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/os/cpu.h"
#include "base/thread.h"
#include "comm/comm.h"
#include "ranks/order.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    WATCH_MS = 50,        /* between looks at the flag that ends the watch */
    END_MS = 2000,        /* for followers to end by themselves */
    CROWDED_STALL_S = 60, /* where ranks share CPUs */
    HIGH_FD = 10,         /* above the descriptors that followers get */
};

typedef struct follower {
    pid_t pid; /* 0: not started, or gone */
    int socket;
} follower;

typedef struct ranks {
    whim_engine_cfg cfg; /* rank 0's */
    whim_comm_memory memory;
    whim_comm comm;
    const char *program;
    bool crowded;
    int64_t stall_ns;
    follower *followers; /* [n_rank - 1], of rank 1 and so on */
    whim_thread watch;
    bool is_watched;
    atomic_bool over;
} ranks;

/* --- starting --------------------------------------------------------------------------------- */

/* A descriptor that no other child inherits, away from those that followers begin with. */
static int moved_up(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
    close(fd);
    return high;
}

static int spawn(const char *program, int socket, int memory, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    char name[] = "whimbrel", word[] = "rank", *argv[] = {name, word, NULL};
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

static whim_err follower_start(follower *f, const char *program, int memory, whim_diag *diag)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return whim_fail(diag, WHIM_ERR_IO, "no socket for another rank: %s", strerror(errno));
    }
    pair[0] = moved_up(pair[0]);
    pair[1] = moved_up(pair[1]);
    int error = pair[0] < 0 || pair[1] < 0 ? EMFILE : spawn(program, pair[1], memory, &f->pid);
    close(pair[1]);
    f->socket = pair[0];
    if (error != 0) {
        f->pid = 0;
        return whim_fail(diag, WHIM_ERR_IO, "%s cannot be run as another rank: %s", program,
                         strerror(error));
    }
    return WHIM_ERR_OK;
}

/* --- orders ----------------------------------------------------------------------------------- */

/* How a process ended, in words; false: it runs. */
static bool ended(follower *f, int32_t rank, char *text, size_t size)
{
    int status = 0;
    pid_t pid = f->pid, got = pid != 0 ? waitpid(pid, &status, WNOHANG) : 0;
    if (got == 0 || (got < 0 && errno == EINTR)) {
        return false;
    }
    f->pid = 0;
    if (got < 0) { /* somebody else has waited for it */
        snprintf(text, size, "rank %d (process %d) is gone", rank, (int)pid);
        return true;
    }
    if (WIFSIGNALED(status)) {
        snprintf(text, size, "rank %d (process %d) was ended by signal %d (%s)", rank, (int)pid,
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else {
        snprintf(text, size, "rank %d (process %d) ended with status %d", rank, (int)pid,
                 WEXITSTATUS(status));
    }
    return true;
}

static whim_err reply_take(ranks *r, int32_t rank, whim_follower_reply *reply, whim_diag *diag)
{
    follower *f = &r->followers[rank - 1];
    ssize_t n;
    do {
        n = recv(f->socket, reply, sizeof *reply, 0);
    } while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof *reply) {
        char how[128] = "";
        for (int ms = 0; ms < END_MS && !ended(f, rank, how, sizeof how); ms++) {
            whim_clock_sleep_ns(WHIM_NS_PER_MS);
        }
        return whim_fail(diag, WHIM_ERR_DEVICE, "%s before it was ready",
                         how[0] != '\0' ? how : "a rank stopped answering");
    }
    reply->diag.text[sizeof reply->diag.text - 1] = '\0';
    if (reply->err != WHIM_ERR_OK) {
        return whim_fail(diag, (whim_err)reply->err, "rank %d: %s", rank, reply->diag.text);
    }
    return WHIM_ERR_OK;
}

static whim_err order_send(ranks *r, int32_t rank, const void *order, size_t bytes, whim_diag *diag)
{
    if (send(r->followers[rank - 1].socket, order, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) {
        return whim_fail(diag, WHIM_ERR_IO, "rank %d takes no orders: %s", rank, strerror(errno));
    }
    return WHIM_ERR_OK;
}

/* Start all followers, each with its part to prepare; they do so at the same time. */
static whim_err followers_order(ranks *r, const whim_engine *engine, whim_diag *diag)
{
    whim_engine_sizes sizes = whim_engine_sizes_of(engine);
    whim_follower_order *order = whim_alloc(sizeof *order);
    whim_err err = whim_got(order != NULL, diag, "no memory for the order of a rank");
    for (int32_t i = 1; i < r->cfg.n_rank && err == WHIM_ERR_OK; i++) {
        err = whim_follower_order_make(order, &r->cfg, &sizes, i, diag);
        order->crowded = r->crowded;
        order->stall_ns = r->stall_ns;
        if (err == WHIM_ERR_OK) {
            err = follower_start(&r->followers[i - 1], r->program, r->memory.fd, diag);
        }
        if (err == WHIM_ERR_OK) {
            err = order_send(r, i, order, sizeof *order, diag);
        }
    }
    whim_free(order);
    return err;
}

/* What they found; *bytes: what they will take. */
static whim_err followers_hear(ranks *r, const whim_engine *engine, int64_t *bytes, whim_diag *diag)
{
    const char *isa = whim_engine_caps(engine)->isa;
    *bytes = 0;
    for (int32_t i = 1; i < r->cfg.n_rank; i++) {
        whim_follower_reply reply;
        WHIM_TRY(reply_take(r, i, &reply, diag));
        if (strncmp(reply.isa, isa, sizeof reply.isa) != 0) {
            return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                             "rank %d runs on level %.31s and rank 0 on %s; --isa makes them equal",
                             i, reply.isa, isa);
        }
        *bytes += reply.plan_bytes;
    }
    return WHIM_ERR_OK;
}

/* --- loading and watching --------------------------------------------------------------------- */

/* Who waits in a collective for a rank that is gone is told at once. */
static void watch_main(void *ctx)
{
    ranks *r = ctx;
    char how[128];
    while (!atomic_load(&r->over)) {
        for (int32_t i = 1; i < r->cfg.n_rank; i++) {
            if (ended(&r->followers[i - 1], i, how, sizeof how) && !atomic_load(&r->over)) {
                whim_comm_abort(&r->memory, how);
            }
        }
        whim_clock_sleep_ns(WATCH_MS * WHIM_NS_PER_MS);
    }
}

static whim_err load_begin(void *ctx, whim_diag *diag)
{
    ranks *r = ctx;
    const uint32_t word = WHIM_RANK_LOAD;
    for (int32_t i = 1; i < r->cfg.n_rank; i++) {
        WHIM_TRY(order_send(r, i, &word, sizeof word, diag));
    }
    return WHIM_ERR_OK;
}

static whim_err load_end(void *ctx, whim_diag *diag)
{
    ranks *r = ctx;
    for (int32_t i = 1; i < r->cfg.n_rank; i++) {
        whim_follower_reply reply;
        WHIM_TRY(reply_take(r, i, &reply, diag));
    }
    WHIM_TRY(whim_thread_create(&r->watch, "ranks", watch_main, r, diag));
    r->is_watched = true;
    return WHIM_ERR_OK;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void follower_end(follower *f, int32_t rank, int64_t until)
{
    char how[128];
    if (f->socket >= 0) {
        close(f->socket);
        f->socket = -1;
    }
    while (f->pid != 0 && !ended(f, rank, how, sizeof how)) {
        if (whim_clock_ns() > until) {
            kill(f->pid, SIGKILL);
        }
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
}

/* A generation of ranks: processes and their watch. Its memory stays until there is another,
 * because rank 0 may still ask it. */
static void generation_end(ranks *r, int64_t until)
{
    atomic_store(&r->over, true);
    if (r->is_watched) {
        whim_thread_join(&r->watch);
        r->is_watched = false;
    }
    for (int32_t i = 1; r->followers != NULL && i < r->cfg.n_rank; i++) {
        follower_end(&r->followers[i - 1], i, until);
    }
}

static void close_all(void *ctx)
{
    ranks *r = ctx;
    generation_end(r, whim_clock_ns() + END_MS * WHIM_NS_PER_MS);
    whim_comm_memory_close(&r->memory);
    whim_free(r->followers);
    whim_free(r);
}

/* --- the beginning ---------------------------------------------------------------------------- */

static whim_err generation_begin(ranks *r, whim_diag *diag)
{
    whim_comm_memory memory;
    WHIM_TRY(whim_comm_memory_make(r->cfg.n_rank, &memory, diag));
    whim_comm_memory_close(&r->memory);
    r->memory = memory;
    r->memory.fd = moved_up(memory.fd);
    atomic_store(&r->over, false);
    whim_comm_open(&r->comm, &r->memory,
                   &(whim_comm_cfg){.wait_ns = r->stall_ns, .crowded = r->crowded});
    return WHIM_ERR_OK;
}

static whim_err count_check(const whim_ranks_cfg *cfg, int32_t n_thread, whim_diag *diag)
{
    int32_t n_cpu = whim_os_cpu_count();
    if (cfg->n_rank < 2 || cfg->n_rank > WHIM_COMM_MAX_RANK) {
        return whim_fail(diag, WHIM_ERR_INVALID, "%d ranks were asked for; there may be 1 to %d",
                         cfg->n_rank, WHIM_COMM_MAX_RANK);
    }
    if ((int64_t)cfg->n_rank * n_thread > n_cpu && !cfg->may_crowd) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%d ranks with %d thread%s each were asked for, but this process may use "
                         "%d CPU%s; --oversubscribe takes them all the same",
                         cfg->n_rank, n_thread, n_thread == 1 ? "" : "s", n_cpu,
                         n_cpu == 1 ? "" : "s");
    }
    return WHIM_ERR_OK;
}

static whim_err ranks_make(ranks *r, const whim_engine_cfg *engine_cfg, const whim_ranks_cfg *cfg,
                           whim_diag *diag)
{
    int32_t n_thread = engine_cfg->n_thread > 0 ? engine_cfg->n_thread : 1;
    WHIM_TRY(count_check(cfg, n_thread, diag));
    r->cfg = *engine_cfg;
    r->cfg.n_rank = cfg->n_rank;
    r->cfg.comm = &r->comm;
    r->crowded = (int64_t)cfg->n_rank * n_thread > whim_os_cpu_count();
    r->stall_ns = cfg->stall_ns > 0 ? cfg->stall_ns
                  : r->crowded      ? CROWDED_STALL_S * WHIM_NS_PER_S
                                    : 0;
    r->followers = whim_alloc_array(cfg->n_rank - 1, sizeof *r->followers);
    WHIM_TRY(whim_got(r->followers != NULL, diag, "no memory for %d ranks", cfg->n_rank));
    for (int32_t i = 0; i < cfg->n_rank - 1; i++) {
        r->followers[i].socket = -1;
    }
    r->program = cfg->program != NULL ? cfg->program : "/proc/self/exe";
    return generation_begin(r, diag);
}

/* --- beginning again -------------------------------------------------------------------------- */

static bool is_apart(void *ctx)
{
    const ranks *r = ctx;
    return whim_comm_is_over(&r->comm);
}

/* The memory is new, so nobody of the last generation has any part in it. */
static whim_err rejoin(void *ctx, const whim_engine *engine, whim_diag *diag)
{
    ranks *r = ctx;
    int64_t ignored;
    generation_end(r, whim_clock_ns()); /* at once: one of them may be what hangs */
    WHIM_TRY(generation_begin(r, diag));
    whim_err err = followers_order(r, engine, diag);
    if (err == WHIM_ERR_OK) {
        err = followers_hear(r, engine, &ignored, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = load_begin(r, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = load_end(r, diag);
    }
    if (err != WHIM_ERR_OK) {
        generation_end(r, whim_clock_ns());
        whim_comm_abort(&r->memory, diag->text);
    }
    return err;
}

whim_err whim_ranks_prepare(const whim_engine_cfg *engine_cfg, const whim_ranks_cfg *cfg,
                            whim_engine **out, whim_diag *diag)
{
    whim_engine *engine = NULL;
    ranks *r = whim_alloc(sizeof *r);
    WHIM_TRY(whim_got(r != NULL, diag, "no memory for %d ranks", cfg->n_rank));
    r->memory.fd = -1;
    int64_t bytes = 0;
    whim_err err = ranks_make(r, engine_cfg, cfg, diag);
    if (err == WHIM_ERR_OK) { /* refused here, it is before any process is started */
        err = whim_engine_prepare(&r->cfg, &engine, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = followers_order(r, engine, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = followers_hear(r, engine, &bytes, diag);
    }
    if (err != WHIM_ERR_OK) {
        whim_engine_close(engine);
        close_all(r);
        return err;
    }
    whim_engine_set_peers(
        engine, &(whim_engine_peers){r, load_begin, load_end, close_all, is_apart, rejoin}, bytes);
    *out = engine;
    return WHIM_ERR_OK;
}

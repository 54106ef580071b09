/* SPDX-License-Identifier: Apache-2.0 */
/* A follower: prepares and loads as it is told, then runs the leader's steps. */
#include "base/thread.h"
#include "comm/comm.h"
#include "ranks/child.h"
#include "ranks/order.h"
#include "ranks/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

typedef struct follower {
    whim_follower_order order;
    whim_comm_memory memory;
    whim_comm comm;
    whim_engine *engine;
    uint64_t weights;
    whim_thread watch;
    void (*leave)(int code);
} follower;

/* Nobody is left to follow once the leader's end of the socket is closed. */
static void watch_leader(void *ctx)
{
    const follower *f = ctx;
    whim_child_wait_alone(WHIM_FOLLOWER_SOCKET);
    f->leave(EXIT_SUCCESS);
}

static bool reply(const follower *f, whim_err err, const whim_diag *diag)
{
    whim_follower_reply r = {.err = (int32_t)err, .diag = *diag, .weights = f->weights};
    if (f->engine != NULL) {
        snprintf(r.isa, sizeof r.isa, "%s", whim_engine_caps(f->engine)->isa);
        r.plan_bytes = whim_engine_plan(f->engine)->total + whim_engine_plan(f->engine)->loading;
    }
    return send(WHIM_FOLLOWER_SOCKET, &r, sizeof r, MSG_NOSIGNAL) == (ssize_t)sizeof r;
}

static whim_err prepare(follower *f, int64_t bytes, whim_diag *diag)
{
    whim_engine_cfg cfg;
    WHIM_TRY(whim_follower_order_read(&f->order, bytes, &cfg, diag));
    WHIM_TRY(whim_comm_memory_join(WHIM_FOLLOWER_MEMORY, &f->memory, diag));
    whim_comm_open(&f->comm, &f->memory,
                   &(whim_comm_cfg){.rank = f->order.rank,
                                    .wait_ns = f->order.stall_ns,
                                    .crowded = f->order.crowded});
    cfg.comm = &f->comm;
    WHIM_TRY(whim_engine_prepare(&cfg, &f->engine, diag));
    return whim_rank_weights(f->engine, &f->weights, diag);
}

static whim_err load(follower *f, whim_diag *diag)
{
    uint32_t word = 0;
    if (recv(WHIM_FOLLOWER_SOCKET, &word, sizeof word, 0) != sizeof word ||
        word != WHIM_RANK_LOAD) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "the leader ordered something else than a load");
    }
    return whim_engine_load(f->engine, diag);
}

int whim_follower_main(void (*leave)(int code))
{
    static follower f; /* too large for a stack */
    whim_diag diag = {""};
    ssize_t n = recv(WHIM_FOLLOWER_SOCKET, &f.order, sizeof f.order, 0);
    if (n <= 0) {
        return whim_child_complain(
            "`whimbrel rank` is for whimbrel itself; use `whimbrel serve --tp N`");
    }
    f.leave = leave;
    whim_child_begin("whimbrel-rank");
    if (whim_thread_create(&f.watch, "watch", watch_leader, &f, &diag) != WHIM_ERR_OK) {
        return whim_child_complain(diag.text);
    }
    whim_err err = prepare(&f, n, &diag);
    bool heard = reply(&f, err, &diag);
    if (err == WHIM_ERR_OK && heard) {
        err = load(&f, &diag);
        heard = reply(&f, err, &diag);
    }
    if (err == WHIM_ERR_OK && heard) {
        err = whim_exec_follow(whim_runner_exec(whim_engine_runner(f.engine)), &diag);
    }
    whim_engine_close(f.engine);
    whim_comm_memory_close(&f.memory);
    return err == WHIM_ERR_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

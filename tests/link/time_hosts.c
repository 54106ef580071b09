/* SPDX-License-Identifier: Apache-2.0 */
/* How long an all-reduce between two hosts takes, in the form that `whimbrel serve --nodes 2` has:
 * this process is the one rank of its host, and the bridge beside it another.
 *   time_hosts PROGRAM NODE DEVICE
 * tools/time-hosts starts two, with the output of each as the other's input: there they tell where
 * their bridges are. Figures of node 0 go to the standard error. */
#include "base/clock.h"
#include "base/os/cpu.h"
#include "comm/comm.h"
#include "ranks/bridge_order.h"
#include "ranks/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_NODE = 2, REPEATS = 5, WARM_CALLS = 50, WAIT_S = 60, MOST = 1 << 20 };

typedef struct host {
    int32_t node;
    bool crowded; /* two ranks and two bridges have no CPU each */
    whim_comm_memory memory;
    whim_rank_process bridge;
    whim_comm comm;
    float *x;
} host;

static whim_err hear(host *h, whim_bridge_reply *reply, whim_diag *diag)
{
    WHIM_TRY(whim_rank_hear(&h->bridge, reply, sizeof *reply, diag));
    return reply->err == WHIM_ERR_OK
               ? WHIM_ERR_OK
               : whim_fail(diag, (whim_err)reply->err, "the bridge: %s", reply->diag.text);
}

static whim_err bridge_start(host *h, const char *program, const char *device,
                             whim_bridge_reply *reply, whim_diag *diag)
{
    whim_bridge_order order = {.magic = WHIM_BRIDGE_MAGIC,
                               .bytes = sizeof order,
                               .version = WHIM_VERSION,
                               .generation = 1,
                               .node = h->node,
                               .n_node = N_NODE,
                               .rank_first = {0, 1, 2},
                               .crowded = h->crowded};
    snprintf(order.device, sizeof order.device, "%s", device);
    snprintf(h->bridge.name, sizeof h->bridge.name, "the bridge of node %d", h->node);
    WHIM_TRY(whim_rank_start(&h->bridge, program, "bridge", h->memory.fd, diag));
    WHIM_TRY(whim_rank_send(&h->bridge, &order, sizeof order, diag));
    return hear(h, reply, diag);
}

/* Each tells the other where its bridge is, and its bridge where both are. */
static whim_err meet(host *h, whim_bridge_reply *reply, whim_diag *diag)
{
    whim_bridge_peer peers[N_NODE];
    for (int32_t i = 0; i < N_NODE; i++) {
        peers[i] =
            (whim_bridge_peer){.magic = WHIM_BRIDGE_MAGIC, .bytes = sizeof peers[i], .node = i};
    }
    peers[h->node].address = reply->address;
    whim_bridge_address *other = &peers[1 - h->node].address;
    if (write(STDOUT_FILENO, &reply->address, sizeof *other) != (ssize_t)sizeof *other ||
        fread(other, 1, sizeof *other, stdin) != sizeof *other) {
        return whim_fail(diag, WHIM_ERR_IO, "the other host is gone");
    }
    for (int32_t i = 0; i < N_NODE; i++) {
        WHIM_TRY(whim_rank_send(&h->bridge, &peers[i], sizeof peers[i], diag));
    }
    return hear(h, reply, diag);
}

static whim_err calls(host *h, int64_t bytes, int64_t n, whim_diag *diag)
{
    for (int64_t i = 0; i < n; i++) {
        if (whim_comm_all_reduce(&h->comm, NULL, h->x, bytes / 4, "time") != WHIM_ERR_OK) {
            return whim_fail(diag, WHIM_ERR_DEVICE, "%s", h->comm.diag.text);
        }
    }
    return WHIM_ERR_OK;
}

/* The best and the median of some rounds. */
static whim_err size_time(host *h, int64_t bytes, whim_diag *diag)
{
    double us[REPEATS];
    int64_t n = 1000000000 / (4 * bytes + 200000);
    for (int32_t k = 0; k < REPEATS; k++) {
        WHIM_TRY(calls(h, bytes, WARM_CALLS, diag));
        int64_t start = whim_clock_ns();
        WHIM_TRY(calls(h, bytes, n, diag));
        double one = (double)(whim_clock_ns() - start) / 1e3 / (double)n;
        int32_t at = k;
        for (; at > 0 && us[at - 1] > one; at--) {
            us[at] = us[at - 1];
        }
        us[at] = one;
    }
    if (h->node == 0) {
        fprintf(stderr, "%9lld bytes: %8.2f us the best, %8.2f the median of %d\n",
                (long long)bytes, us[0], us[REPEATS / 2], REPEATS);
    }
    return WHIM_ERR_OK;
}

static whim_err host_run(host *h, const char *program, const char *device, whim_diag *diag)
{
    static whim_bridge_reply reply;
    WHIM_TRY(whim_comm_memory_make(N_NODE, &h->memory, diag));
    h->memory.fd = whim_rank_fd(h->memory.fd);
    WHIM_TRY(bridge_start(h, program, device, &reply, diag));
    WHIM_TRY(meet(h, &reply, diag));
    whim_comm_open(&h->comm, &h->memory,
                   &(whim_comm_cfg){
                       .rank = h->node, .wait_ns = WAIT_S * WHIM_NS_PER_S, .crowded = h->crowded});
    for (int64_t bytes = 4096; bytes <= MOST; bytes *= 16) {
        WHIM_TRY(size_time(h, bytes, diag));
    }
    return WHIM_ERR_OK;
}

int main(int argc, char **argv)
{
    host h = {.bridge = {.socket = -1}, .memory = {.fd = -1}};
    whim_diag diag = {""};
    if (argc != 4) {
        fprintf(stderr, "time_hosts PROGRAM NODE DEVICE (tools/time-hosts runs it)\n");
        return 2;
    }
    h.node = strcmp(argv[2], "0") == 0 ? 0 : 1;
    h.crowded = whim_os_cpu_count() < 2 * N_NODE;
    h.x = calloc(1, MOST);
    whim_err err = h.x != NULL ? host_run(&h, argv[1], argv[3], &diag) : WHIM_ERR_NO_MEMORY;
    if (err != WHIM_ERR_OK) {
        fprintf(stderr, "node %d: %s\n", h.node, diag.text);
    }
    whim_rank_end(&h.bridge, whim_clock_ns() + WHIM_RANK_END_MS * WHIM_NS_PER_MS);
    whim_comm_memory_close(&h.memory);
    free(h.x);
    return err == WHIM_ERR_OK ? 0 : 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which machines serve a model together, and how they find each other. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "serve/serve.h"

#include <stdlib.h>
#include <string.h>

static const char default_port[] = "8090";

/* --- launchers -------------------------------------------------------------------------------- */

/* What a launcher tells each of its processes. */
typedef struct launcher {
    const char *name;
    const char *size, *rank; /* of machines */
    const char *leader;      /* its address, or a list that begins with it; NULL: it does not say */
    const char *local;       /* which process of its machine it is; NULL: always the only one */
} launcher;

static const launcher launchers[] = {
    {"LeaderWorkerSet", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX", "LWS_LEADER_ADDRESS", NULL},
    {"srun", "SLURM_STEP_NUM_NODES", "SLURM_NODEID", "SLURM_STEP_NODELIST", "SLURM_LOCALID"},
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", NULL, "OMPI_COMM_WORLD_LOCAL_RANK"},
};

/* A whole number; -1 for other texts and for none. */
static int64_t number_of(const char *text)
{
    char *end = NULL;
    long long value = text != NULL && *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : -1;
    return end != NULL && *end == '\0' ? value : -1;
}

/* The first name of a list as Slurm writes it: "n[03-07,9],m1" begins with n03. */
static void first_name(const char *list, char *out, size_t size)
{
    size_t stem = strcspn(list, "[,"), digits = 0;
    const char *number = "";
    if (list[stem] == '[') {
        number = list + stem + 1;
        digits = strspn(number, "0123456789");
    }
    snprintf(out, size, "%.*s%.*s", (int)stem, list, (int)digits, number);
}

/* The launcher that started this process on several machines; NULL: none. */
static const launcher *launcher_find(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        if (number_of(env_launcher(launchers[i].size)) > 1) {
            return &launchers[i];
        }
    }
    return NULL;
}

static bool launcher_use(node_list *nodes, const whim_options *o, const launcher *by)
{
    int64_t size = number_of(env_launcher(by->size)), rank = number_of(env_launcher(by->rank));
    int64_t local = by->local != NULL ? number_of(env_launcher(by->local)) : 0;
    if (local > 0) {
        complain(EXIT_USAGE,
                 "%s started several whimbrels on this machine (%s is %lld): one on each starts "
                 "its own ranks; --nodes 1 serves on this machine alone",
                 by->name, by->local, (long long)local);
        return false;
    }
    if (size > WHIM_JOIN_MAX_NODE || rank < 0 || rank >= size) {
        complain(EXIT_USAGE, "%s says machine %lld of %lld (%s, %s); there may be %d", by->name,
                 (long long)rank, (long long)size, by->rank, by->size, WHIM_JOIN_MAX_NODE);
        return false;
    }
    nodes->cfg.n_node = nodes->cfg.n_node > 0 ? nodes->cfg.n_node : (int32_t)size;
    if (!whim_options_gave(o, &o->node_rank)) {
        nodes->cfg.node = (int32_t)rank;
    }
    const char *leader = by->leader != NULL ? env_launcher(by->leader) : NULL;
    if (leader != NULL && nodes->host[0] == '\0') {
        first_name(leader, nodes->host, sizeof nodes->host);
        snprintf(nodes->port, sizeof nodes->port, "%s", default_port);
    }
    return true;
}

/* --- options ---------------------------------------------------------------------------------- */

/* HOST:PORT, [HOST]:PORT where the host has colons. */
static bool place_read(node_list *nodes, const char *option, const char *text)
{
    const char *colon = strrchr(text, ':'), *host = text;
    int64_t n = colon != NULL ? colon - text : 0, port = colon != NULL ? number_of(colon + 1) : -1;
    if (n > 1 && text[0] == '[' && text[n - 1] == ']') {
        host++;
        n -= 2;
    }
    if (n < 1 || n >= (int64_t)sizeof nodes->host || port < 0 || port > 65535) {
        complain(EXIT_USAGE, "%s takes HOST:PORT, not \"%s\"", option, text);
        return false;
    }
    snprintf(nodes->host, sizeof nodes->host, "%.*s", (int)n, host);
    snprintf(nodes->port, sizeof nodes->port, "%lld", (long long)port);
    return true;
}

static bool options_read(node_list *nodes, const whim_options *o)
{
    const char *join = o->join != NULL ? o->join : o->dist_init_addr;
    nodes->cfg.n_node = (int32_t)(o->nodes > 0 ? o->nodes : o->nnodes);
    nodes->cfg.node = (int32_t)o->node_rank;
    nodes->cfg.device = o->join_device;
    nodes->cfg.join_ns = (int64_t)(o->join_time * (double)WHIM_NS_PER_S);
    return join == NULL || place_read(nodes, o->join != NULL ? "--join" : "--dist-init-addr", join);
}

static bool secret_keep(node_list *nodes, const char *what, const char *text, int64_t n)
{
    while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL) {
        n--;
    }
    if (n < WHIM_JOIN_LEAST_SECRET || n > MAX_SECRET_BYTES) {
        complain(EXIT_USAGE, "%s: a secret of %lld bytes; it must have %d to %d", what,
                 (long long)n, WHIM_JOIN_LEAST_SECRET, MAX_SECRET_BYTES);
        return false;
    }
    memcpy(nodes->secret, text, (size_t)n);
    nodes->cfg.secret = (whim_join_secret){nodes->secret, n};
    return true;
}

static bool secret_read(node_list *nodes, const whim_options *o)
{
    char credential[MODEL_PATH_MAX];
    const char *file = o->join_secret_file, *what = "--join-secret-file", *env = env_join_secret();
    whim_diag diag = {""};
    char *text;
    int64_t n;
    if (file == NULL && env_credential("join-secret", credential, sizeof credential)) {
        file = credential;
        what = "the credential join-secret";
    }
    if (file == NULL) {
        if (env == NULL) {
            complain(EXIT_USAGE,
                     "--nodes %d needs a secret that all of them have: give one by "
                     "--join-secret-file or WHIMBREL_JOIN_SECRET",
                     nodes->cfg.n_node);
        }
        return env != NULL && secret_keep(nodes, "WHIMBREL_JOIN_SECRET", env, (int64_t)strlen(env));
    }
    if (whim_file_read_all(file, MAX_KEY_BYTES, &text, &n, &diag) != WHIM_ERR_OK) {
        complain(EXIT_USAGE, "%s: %s", what, diag.text);
        return false;
    }
    bool ok = secret_keep(nodes, what, text, n);
    explicit_bzero(text, (size_t)n);
    whim_free(text);
    return ok;
}

static bool is_sound(const node_list *nodes, const whim_options *o)
{
    const whim_nodes_cfg *c = &nodes->cfg;
    if (c->node >= c->n_node) {
        complain(EXIT_USAGE, "--node-rank %d of --nodes %d: they are counted from 0", c->node,
                 c->n_node);
    } else if (ranks_asked(o) < c->n_node) {
        complain(
            EXIT_USAGE,
            "%d ranks (--tp, --cp, --dp, --ep) over --nodes %d: each of them has a rank at least",
            ranks_asked(o) > 0 ? ranks_asked(o) : 1, c->n_node);
    } else if (nodes->host[0] == '\0') {
        complain(EXIT_USAGE,
                 "--nodes %d: --join HOST:PORT must say where node 0 waits for the "
                 "others",
                 c->n_node);
    } else {
        return true;
    }
    return false;
}

bool nodes_choose(node_list *nodes, const whim_options *o)
{
    if (!options_read(nodes, o)) {
        return false;
    }
    bool all_given =
        nodes->cfg.n_node > 1 && nodes->host[0] != '\0' && whim_options_gave(o, &o->node_rank);
    bool asks = nodes->cfg.n_node != 1 && ranks_asked(o) > 1 && !all_given;
    const launcher *by = asks ? launcher_find() : NULL;
    if (by != NULL && !launcher_use(nodes, o, by)) {
        return false;
    }
    nodes->cfg.n_node = nodes->cfg.n_node > 0 ? nodes->cfg.n_node : 1;
    nodes->cfg.host = nodes->host;
    nodes->cfg.port = nodes->port;
    if (nodes->cfg.n_node > 1) {
        return is_sound(nodes, o) && secret_read(nodes, o);
    }
    if (nodes->host[0] != '\0' || nodes->cfg.node > 0) {
        complain(EXIT_USAGE, "%s is for several machines: --nodes N says how many",
                 nodes->host[0] != '\0' ? "--join" : "--node-rank");
        return false;
    }
    return true;
}

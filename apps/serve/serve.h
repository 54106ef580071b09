/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `serve` share. Threads: the main thread, but for load progress. */
#ifndef WHIM_APPS_SERVE_SERVE_H
#define WHIM_APPS_SERVE_SERVE_H

#include "base/os/notify.h"
#include "base/thread.h"
#include "engine/kv_space.h"
#include "local/running.h"
#include "model.h"
#include "ranks/nodes.h"
#include "sampling.h"
#include "server/server.h"

#include <stdatomic.h>

enum { MAX_KEYS = 64, MAX_KEY_BYTES = 1 << 16 };

/* The keys that clients must show. Texts are in `text`. */
typedef struct key_list {
    whim_str text;
    whim_api_key v[MAX_KEYS];
    int32_t n;
} key_list;

/* What the service manager is told, and when next. */
typedef struct notifier {
    whim_os_notify link;
    int64_t watchdog_ns;      /* it wants a sign of life in each such time; 0: none */
    int64_t alive_ns;         /* the next one */
    atomic_llong progress_ns; /* the next word about loading */
    /* while the model is looked for, which may be a download */
    whim_thread thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool has_thread, is_fetching;
} notifier;

enum { MAX_SECRET_BYTES = 4096 };

/* The machines that serve a model together. */
typedef struct node_list {
    whim_nodes_cfg cfg; /* n_node 1: this one alone */
    char host[256], port[8], secret[MAX_SECRET_BYTES];
} node_list;

/* One server from its options to its end. {0} with `options` is closed. */
typedef struct serve {
    const whim_options *options;
    whim_log log;
    notifier notify;
    node_list nodes;
    key_list keys;
    bool key_is_made;                              /* none was given: it is shown */
    whim_network proxies[WHIM_OPTION_MAX_STRINGS]; /* as many as the option has */
    whim_server *server;
    loader load;
    whimbrel_model *model;
    sampling sampling;
    whim_chat_model chat; /* the model's parts, as routes want them */
    whim_service *service;
    json_t *about;
    uint32_t compat;      /* whose names /metrics tells beside ours */
    int64_t created;      /* when it started, seconds since 1970 */
    int64_t looked_ns;    /* when the watchdog last looked */
    int64_t awake_ns;     /* since when this process has run without being stopped */
    char name[256];       /* served model name */
    char draft_name[256]; /* "": no draft */
    char fingerprint[32]; /* "fp_..." */
    whim_kv_space kv_space;
    whim_kv_weights weights;
    char sums[MODEL_PATH_MAX];   /* where sums of weights are remembered, or "" */
    running_entry running;       /* by which `ps` and `chat` find this server */
    char kv_dir[MODEL_PATH_MAX]; /* "": pages are kept nowhere */
    bool kv_dir_is_ours;         /* it was not asked for: it may fail */
    int64_t save_ns;             /* see whim_service_cfg */
} serve;

/* --- its life (cmd_serve.c) -------------------------------------------------------------- */

/* The log that --log-level and --log-format ask for; begin to listen, false after a complaint; end
 * what is left, and close it but for its log. */
void serve_log_open(serve *s);
bool serve_listen(serve *s);
void serve_close(serve *s);

/* --- starting (port.c, fetch.c) --------------------------------------------------- */

/* Says who has the port, and what to type instead. */
void complain_port_taken(const char *host, int32_t port);

/* The model's path, in `buf` or elsewhere; the default one is fetched when it is missing and
 * --fetch is given. NULL after a complaint. The port is bound by then: a long download must not end
 * with "port taken". */
const char *serve_model_find(serve *s, char *buf);

/* If no MODEL was given and the default one is missing: fetch it, where that is possible here.
 * False after a complaint. */
bool serve_default_fetch(serve *s);

/* --- keys (keys.c) ---------------------------------------------------------------------- */

/* From --api-key-file, the credential api-keys, WHIMBREL_API_KEY and --api-key, the first that is
 * there; false after a complaint. */
bool keys_read(key_list *keys, const whim_options *options);

/* One key out of the system's random bytes; false after a complaint. */
bool keys_make(key_list *keys);
void keys_free(key_list *keys);

/* --- several machines (nodes.c, agent.c) ------------------------------------------------ */

/* Which there are, by options or by the launcher's environment; false after a complaint. */
bool nodes_choose(node_list *nodes, const whim_options *options);

/* The life of a machine that is not node 0, instead of a server; false after a complaint. */
bool serve_agent_run(serve *s);

/* --- the model (model.c) ---------------------------------------------------------------- */

/* Load the model and everything that answers need of it, then tell the server; false after a
 * complaint. */
bool serve_model_open(serve *s, const char *path);
/* Tell the server which model there is; before it is loaded, for what needs no weights. */
bool serve_tell(serve *s);
/* Say in the log what is served. */
void serve_model_log(serve *s);
/* Whether calls have a form of ours, because the template has none. */
bool serve_lends_tools(const serve *s);
void serve_model_close(serve *s);

/* --- pages on disk (kv_dir.c) ----------------------------------------------------------- */

/* The folder that a server would take, for those who cannot do without; false after a complaint. */
bool serve_kv_dir_insist(const whim_options *options, char dir[MODEL_PATH_MAX]);

/* Where they go, with a line in the log where the default place cannot be used. */
void serve_kv_dir_choose(serve *s);

/* The line about it in the ready block. */
void serve_kv_dir_text(const serve *s, whim_str *out);

/* --- the service manager (notify.c) ----------------------------------------------------- */

/* Without a manager all of these do nothing. */
void notify_open(serve *s);
void notify_close(serve *s);

/* Around the search for the model. */
void notify_fetching(serve *s);
void notify_fetched(serve *s);

/* While the model loads; any thread, as often as one likes. */
void notify_progress(serve *s, double share);
void notify_ready(serve *s);
void notify_reloading(serve *s); /* ready follows */
void notify_stopping(serve *s, int64_t n_left);

/* quiet_ns: how long the engine has given no sign of life; past half of what the manager allows it
 * learns nothing. */
void notify_alive(serve *s, int64_t quiet_ns);

/* --- the register of running servers (register.c) ---------------------------------------- */

/* Tell where this server is and, once they are known, its model's path and the model itself. */
void serve_register(serve *s, const char *path);

/* --- for people (ready.c) --------------------------------------------------------------- */

/* "http://127.0.0.1:8080" */
void serve_url(const serve *s, whim_str *out);

/* The block that is printed when requests can come. */
void serve_ready_text(const serve *s, whim_str *out);

#endif

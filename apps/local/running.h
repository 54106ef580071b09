/* SPDX-License-Identifier: Apache-2.0 */
/* The servers that run on this machine for this user. Each keeps a small JSON file in the folder
 * "running" of whimbrel's cache and holds a lock on it (flock) as long as its process lives; the
 * file of a process that was killed has no lock, and the next process that finds it deletes it. A
 * file says where the server answers and what it loads; the server's /health says how it is doing.
 *
 * To find the newest server that answers:
 *     running_list list;
 *     running_find(&list);
 *     const running_server *server = running_newest(&list);   NULL: none is ready
 * and connect to server->url, with a key where server->needs_key says so.
 *
 * Threads: the main thread. */
#ifndef WHIM_APPS_LOCAL_RUNNING_H
#define WHIM_APPS_LOCAL_RUNNING_H

#include "cmd.h"

#include <stdbool.h>
#include <stdint.h>

enum { RUNNING_MAX = 64, RUNNING_TEXT_MAX = 256 };

typedef enum running_state {
    RUNNING_SILENT, /* the process lives, but nothing answers at its address in time */
    RUNNING_LOADING,
    RUNNING_READY,
    RUNNING_DRAINING,
    RUNNING_SECURED, /* it speaks TLS, so it was not asked */
} running_state;

typedef struct running_server {
    /* from its file */
    int64_t pid;
    int64_t started;            /* seconds since 1970 */
    char url[RUNNING_TEXT_MAX]; /* "http://127.0.0.1:8080", for clients of this machine */
    char host[RUNNING_TEXT_MAX];
    int32_t port;
    bool tls, needs_key;
    char model[RUNNING_TEXT_MAX]; /* as requests call it; "" while it loads */
    char path[MODEL_PATH_MAX];    /* its folder or file; "" while it is looked for */
    char device[RUNNING_TEXT_MAX];
    int64_t device_bytes; /* taken on a device with memory of its own; else 0 */
    /* from the system */
    int64_t resident_bytes; /* of the process and those that it started */
    /* from the server, by running_ask */
    running_state state;
    double progress; /* of loading, 0 to 1 */
    int64_t uptime_s;
    int64_t n_connection;                    /* of others */
    int64_t n_request, n_running, n_waiting; /* requests: since it started */
} running_server;

typedef struct running_list {
    running_server v[RUNNING_MAX];
    int32_t n;
} running_list;

/* All whose processes live, the newest first, without asking them. */
void running_find(running_list *list);

/* Ask /health, for about a second at most. */
void running_ask(running_server *server);

/* The newest one that is ready, asked; NULL: there is none. */
const running_server *running_newest(running_list *list);

/* Whether a server has, or loads, the model that is this folder or file. */
bool running_has(const running_server *server, const char *path);

/* "loading", "ready", ... */
const char *running_state_name(running_state state);

/* --- for the server itself -------------------------------------------------------------------- */

/* {.fd = -1}: there is no file. */
typedef struct running_entry {
    int fd;
    char path[MODEL_PATH_MAX];
} running_entry;

/* Write the file, or write it again; pid and host are those of this process. A failure is none of
 * the user's business: the server is just not found. */
void running_tell(running_entry *entry, const running_server *about);
void running_forget(running_entry *entry);

/* --- for code that asks a server of this machine (ask.c) -------------------------------------- */

/* The body of the answer to GET `path` over plain HTTP, whatever its status; false when it was not
 * there within about `seconds`. */
bool local_ask(const char *host, int32_t port, const char *path, double seconds, whim_str *body);

#endif

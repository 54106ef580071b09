/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `serve` share. Threads: the main thread, but for load progress. */
#ifndef WHIM_APPS_SERVE_H
#define WHIM_APPS_SERVE_H

#include "cmd.h"
#include "server/server.h"
#include "text_model.h"

enum { MAX_KEYS = 64, MAX_KEY_BYTES = 1 << 16 };

/* The keys that clients must show. Texts lie in `text`. */
typedef struct key_list {
    whim_str text;
    const char *v[MAX_KEYS];
    int32_t n;
} key_list;

/* One server from its options to its end. {0} with `options` is closed. */
typedef struct serve {
    const whim_options *options;
    whim_log log;
    key_list keys;
    whim_server *server;
    loader load;
    whim_engine *engine;
    text_model tm;
    whim_chat_model chat;
    whim_grammar_vocab *vocab;
    whim_service *service;
    json_t *about;
    uint32_t compat;      /* whose names /metrics tells beside ours */
    int64_t created;      /* when it started, seconds since 1970 */
    int64_t looked_ns;    /* when the watchdog last looked */
    int64_t awake_ns;     /* since when this process has run without being stopped */
    char name[256];       /* served model name */
    char fingerprint[32]; /* "fp_..." */
    char kv_space[160];   /* what pages on disk depend on */
} serve;

/* --- keys (serve_keys.c) ------------------------------------------------------------------------ */

/* From --api-key-file, WHIMBREL_API_KEY and --api-key, the first that is there; false after a complaint. */
bool keys_read(key_list *keys, const whim_options *options);
void keys_free(key_list *keys);

/* --- the model (serve_model.c) ------------------------------------------------------------------ */

/* Load the model and everything that answers need of it, then tell the server; false after a complaint. */
bool serve_model_open(serve *s, const char *path);
void serve_model_close(serve *s);

/* --- for people (serve_ready.c) ----------------------------------------------------------------- */

/* "http://127.0.0.1:8080" */
void serve_url(const serve *s, whim_str *out);

/* The block that is printed when requests can come. */
void serve_ready_text(const serve *s, whim_str *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "warm/own_server.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* It answers at once, or not at all. */
#define FIND_S 60.0

bool own_server_open(serve *s, whim_options *o, const char *file)
{
    struct stat st;
    o->port = 0;
    o->host = (whim_string_list){.v = {"127.0.0.1"}, .n = 1};
    o->log_level = "warn";
    if (stat(file, &st) == 0 && 2 * (int64_t)st.st_size > o->max_body) {
        o->max_body = 2 * (int64_t)st.st_size; /* as JSON it is written with more escapes */
    }
    *s = (serve){.options = o, .created = (int64_t)time(NULL), .running = {.fd = -1}};
    s->notify.link.fd = -1;
    s->nodes.cfg.n_node = 1;
    serve_log_open(s);
    return keys_make(&s->keys) && serve_listen(s);
}

bool own_server_find(const serve *s, server_address *out)
{
    char url[64];
    whim_diag diag = {""};
    server_reply models = {0};
    snprintf(url, sizeof url, "http://127.0.0.1:%d", whim_server_port(s->server));
    const server_place place = {.option = "the own server", .url = url, .key = s->keys.v[0].text};
    whim_err err = server_address_read(out, &place, &diag);
    err = err == WHIM_ERR_OK ? server_address_find(out, "/models", FIND_S, &models, &diag) : err;
    server_reply_deinit(&models);
    if (err != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
    }
    return err == WHIM_ERR_OK;
}

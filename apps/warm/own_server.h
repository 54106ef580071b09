/* SPDX-License-Identifier: Apache-2.0 */
/* A server that only this process can reach, for commands that are to make of a request what a
 * server makes of it. Threads: the main thread. */
#ifndef WHIM_APPS_WARM_OWN_SERVER_H
#define WHIM_APPS_WARM_OWN_SERVER_H

#include "client/address.h"
#include "serve/serve.h"

/* Listen on a port of the loopback with a key of its own, with room for requests of a file's size;
 * `options` stay until serve_close. The model is the caller's matter. False after a complaint. */
bool own_server_open(serve *s, whim_options *options, const char *file);

/* Where it answers, once it knows its model; `s` outlives the address. False after a complaint. */
bool own_server_find(const serve *s, server_address *out);

#endif

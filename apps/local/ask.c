/* SPDX-License-Identifier: Apache-2.0 */
/* One question to a server of this machine. */
#include "client/address.h"
#include "local/running.h"

#include <stdio.h>
#include <string.h>

bool local_ask(const char *host, int32_t port, const char *path, double seconds, whim_str *body)
{
    char url[RUNNING_TEXT_MAX + 64];
    bool six = strchr(host, ':') != NULL;
    snprintf(url, sizeof url, "http://%s%s%s:%d%s", six ? "[" : "", host, six ? "]" : "", port,
             path);
    const server_place place = {.option = "the server", .url = url};
    server_address address;
    server_reply reply = {.status = 0};
    whim_diag ignored;
    bool ok = server_address_read(&address, &place, &ignored) == WHIM_ERR_OK &&
              server_address_find(&address, "", seconds, &reply, &ignored) == WHIM_ERR_OK &&
              (reply.fault == SERVER_FAULT_NONE || reply.fault == SERVER_FAULT_STATUS);
    if (ok) {
        whim_str_append_n(body, whim_str_text(&reply.data), reply.data.len);
    }
    server_reply_deinit(&reply);
    server_address_deinit(&address);
    return ok && !body->failed;
}

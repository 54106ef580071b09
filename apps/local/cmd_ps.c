/* SPDX-License-Identifier: Apache-2.0 */
/* `whimbrel ps`: the servers of this machine, where they answer and how they are doing. */
#include "local/running.h"
#include "local/table.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Memory of this machine, and beside it that of a device that has its own. */
static void put_memory(whim_str *cell, const running_server *s)
{
    char here[32], there[32];
    whim_format_bytes(here, sizeof here, s->resident_bytes);
    whim_format_bytes(there, sizeof there, s->device_bytes);
    whim_str_append(cell, here);
    if (s->device_bytes > 0) {
        whim_str_printf(cell, " + %s GPU", there);
    }
}

static void put_requests(whim_str *cell, const running_server *s)
{
    if (s->state == RUNNING_READY || s->state == RUNNING_DRAINING) {
        whim_str_printf(cell, "%lld running, %lld waiting, %lld in all", (long long)s->n_running,
                        (long long)s->n_waiting, (long long)s->n_request);
    } else {
        whim_str_append_char(cell, '-');
    }
}

static void put_state(whim_str *cell, const running_server *s)
{
    whim_str_append(cell, running_state_name(s->state));
    if (s->state == RUNNING_LOADING) {
        whim_str_printf(cell, " %.0f%%", 100 * s->progress);
    }
}

static void add_row(text_table *table, const running_server *s)
{
    char since[32];
    whim_str pid = {0}, memory = {0}, requests = {0}, state = {0}, clients = {0};
    const char *name = s->path[0] != '\0' ? strrchr(s->path, '/') + 1 : "-";
    format_age(since, sizeof since, (int64_t)time(NULL) - s->started);
    whim_str_printf(&pid, "%lld", (long long)s->pid);
    put_memory(&memory, s);
    put_requests(&requests, s);
    put_state(&state, s);
    whim_str_printf(&clients, "%lld", (long long)s->n_connection);
    text_table_add(table,
                   (const char *const[]){whim_str_text(&pid), s->model[0] != '\0' ? s->model : name,
                                         s->url, whim_str_text(&state), whim_str_text(&memory),
                                         whim_str_text(&clients), whim_str_text(&requests), since});
    whim_str_deinit(&pid);
    whim_str_deinit(&memory);
    whim_str_deinit(&requests);
    whim_str_deinit(&state);
    whim_str_deinit(&clients);
}

static void json_server(whim_str *out, const running_server *s)
{
    whim_str_printf(out, "{\"pid\":%lld,\"started\":%lld,\"url\":", (long long)s->pid,
                    (long long)s->started);
    json_text(out, s->url);
    whim_str_append(out, ",\"state\":");
    json_text(out, running_state_name(s->state));
    whim_str_append(out, ",\"model\":");
    json_text(out, s->model);
    whim_str_append(out, ",\"path\":");
    json_text(out, s->path);
    whim_str_append(out, ",\"device\":");
    json_text(out, s->device);
    whim_str_printf(out,
                    ",\"needs_key\":%s,\"progress\":%.3f,\"resident_bytes\":%lld,"
                    "\"device_bytes\":%lld,\"connections\":%lld,\"running\":%lld,\"waiting\":%lld,"
                    "\"requests_total\":%lld}",
                    s->needs_key ? "true" : "false", s->progress, (long long)s->resident_bytes,
                    (long long)s->device_bytes, (long long)s->n_connection, (long long)s->n_running,
                    (long long)s->n_waiting, (long long)s->n_request);
}

static void put_json(whim_str *out, const running_list *list)
{
    whim_str_append_char(out, '[');
    for (int32_t i = 0; i < list->n; i++) {
        whim_str_append(out, i > 0 ? "," : "");
        json_server(out, &list->v[i]);
    }
    whim_str_append(out, "]\n");
}

static void put_text(whim_str *out, const running_list *list)
{
    text_table table;
    if (list->n == 0) {
        whim_str_append(out, "no server of yours runs here; \"whimbrel serve\" starts one\n");
        return;
    }
    text_table_init(&table, (const char *const[]){"PID", "MODEL", "ADDRESS", "STATE", "MEMORY",
                                                  "CLIENTS", "REQUESTS", "SINCE", NULL});
    for (int32_t i = 0; i < list->n; i++) {
        add_row(&table, &list->v[i]);
    }
    text_table_write(&table, out);
    text_table_deinit(&table);
}

int cmd_ps(const whim_options *options)
{
    static running_list list;
    whim_str out = {0};
    running_find(&list);
    for (int32_t i = 0; i < list.n; i++) {
        running_ask(&list.v[i]);
    }
    (options->json ? put_json : put_text)(&out, &list);
    bool ok = print_out(&out);
    whim_str_deinit(&out);
    return ok ? EXIT_OK : EXIT_FAILED;
}

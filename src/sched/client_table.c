/* SPDX-License-Identifier: Apache-2.0 */
/* Clients in a hash table of lists. */
#include "sched/client_table.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/math/rng.h"

static whim_client **bucket_of(whim_client_table *table, uint64_t id)
{
    return &table->buckets[whim_rng_mix(id) % WHIM_CLIENT_BUCKETS];
}

whim_err whim_client_enter(whim_client_table *table, uint64_t id, int64_t cost,
                           whim_client **client, int64_t *tag)
{
    whim_client **bucket = bucket_of(table, id);
    whim_client *c = *bucket;
    while (c != NULL && c->id != id) {
        c = c->next;
    }
    if (c == NULL) {
        c = whim_alloc(sizeof *c);
        if (c == NULL) {
            return WHIM_ERR_NO_MEMORY;
        }
        *c = (whim_client){.id = id, .finish = table->now, .next = *bucket, .after = table->first};
        *bucket = c;
        if (c->after != NULL) {
            c->after->before = c;
        }
        table->first = c;
        table->n_client++;
    }
    c->n_req++;
    *tag = c->finish > table->now ? c->finish : table->now;
    c->finish = *tag + cost * WHIM_SERVICE_UNIT;
    *client = c;
    return WHIM_ERR_OK;
}

void whim_client_leave(whim_client_table *table, whim_client *client, int64_t saved)
{
    whim_check(client->n_req > 0);
    client->finish -= saved * WHIM_SERVICE_UNIT;
    if (--client->n_req > 0) {
        return;
    }
    whim_client **link = bucket_of(table, client->id);
    while (*link != client) {
        link = &(*link)->next;
    }
    *link = client->next;
    *(client->before != NULL ? &client->before->after : &table->first) = client->after;
    if (client->after != NULL) {
        client->after->before = client->before;
    }
    whim_free(client);
    table->n_client--;
}

void whim_client_reached(whim_client_table *table, int64_t tag)
{
    table->now = tag > table->now ? tag : table->now;
}

void whim_client_served(whim_client_table *table, int64_t n_tok)
{
    int64_t share = n_tok * WHIM_SERVICE_UNIT / (table->n_client > 0 ? table->n_client : 1);
    table->now += share > 0 ? share : 1; /* time never stands still while there is work */
}

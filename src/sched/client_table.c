/* SPDX-License-Identifier: Apache-2.0 */
/* Clients in a hash table of lists. */
#include "sched/client_table.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/math/rng.h"

#include <stddef.h>

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
        *c = (whim_client){.id = id, .finish = table->now, .next = *bucket};
        *bucket = c;
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
    whim_free(client);
    table->n_client--;
}

whim_client *whim_client_after(const whim_client_table *table, const whim_client *c)
{
    if (c != NULL && c->next != NULL) {
        return c->next;
    }
    uint64_t i = c != NULL ? whim_rng_mix(c->id) % WHIM_CLIENT_BUCKETS + 1 : 0;
    while (i < WHIM_CLIENT_BUCKETS && table->buckets[i] == NULL) {
        i++;
    }
    return i < WHIM_CLIENT_BUCKETS ? table->buckets[i] : NULL;
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

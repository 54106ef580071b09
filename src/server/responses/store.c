/* SPDX-License-Identifier: Apache-2.0 */
/* A list of responses, the last used first. Few are asked for at once, and a comparison is short
 * beside a token, so it is searched from its front. */
#include "server/responses/store.h"

#include "base/alloc.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { CLIENTS = 512 }; /* places where clients are counted, by a hash of them */

typedef struct kept {
    struct kept *newer, *older;
    int32_t client;
    char id[WHIM_RESPONSE_ID_MOST], before[WHIM_RESPONSE_ID_MOST];
    int64_t n_items, n_answer;
    char items[]; /* and the answer behind them */
} kept;

struct whim_response_store {
    pthread_mutex_t lock; /* over all */
    kept *newest, *oldest;
    int64_t n, n_byte, max_bytes;
};

static int64_t bytes_of(const kept *k)
{
    return (int64_t)sizeof *k + k->n_items + k->n_answer;
}

/* --- the list; the lock is held --------------------------------------------------------------- */

static void unlink_it(whim_response_store *s, kept *k)
{
    *(k->newer != NULL ? &k->newer->older : &s->newest) = k->older;
    *(k->older != NULL ? &k->older->newer : &s->oldest) = k->newer;
    s->n--;
    s->n_byte -= bytes_of(k);
}

static void link_first(whim_response_store *s, kept *k)
{
    k->newer = NULL;
    k->older = s->newest;
    *(s->newest != NULL ? &s->newest->newer : &s->oldest) = k;
    s->newest = k;
    s->n++;
    s->n_byte += bytes_of(k);
}

/* From `k` on, and then from the newest: of a conversation that was used before, each lies behind
 * the one that goes on from it. */
static kept *find(const whim_response_store *s, kept *k, const char *id)
{
    while (k != NULL && strcmp(k->id, id) != 0) {
        k = k->older;
    }
    for (k = k != NULL ? k : s->newest; k != NULL && strcmp(k->id, id) != 0;) {
        k = k->older;
    }
    return k;
}

static void drop(whim_response_store *s, kept *k)
{
    unlink_it(s, k);
    whim_free(k);
}

/* Of the client that has most bytes, with `bytes` more of `client`, the one used longest ago. */
static kept *of_greediest(const whim_response_store *s, int32_t client, int64_t bytes)
{
    int64_t has[CLIENTS] = {0};
    kept *best = s->oldest;
    has[client] = bytes;
    for (const kept *k = s->oldest; k != NULL; k = k->newer) {
        has[k->client] += bytes_of(k);
    }
    for (kept *k = s->oldest; k != NULL; k = k->newer) {
        best = has[k->client] > has[best->client] ? k : best;
    }
    return best;
}

/* The beginning of a conversation comes to lie behind its end: it goes first. NULL: all of it is
 * there; else the id that is not. */
static const char *use(whim_response_store *s, const char *id)
{
    kept *last = NULL; /* that was used */
    do {
        kept *k = find(s, last != NULL ? last->older : s->newest, id);
        if (k == NULL) {
            return id;
        }
        unlink_it(s, k);
        if (last == NULL) {
            link_first(s, k);
        } else { /* behind the one that goes on from it */
            k->newer = last;
            k->older = last->older;
            *(last->older != NULL ? &last->older->newer : &s->oldest) = k;
            last->older = k;
            s->n++;
            s->n_byte += bytes_of(k);
        }
        last = k;
        id = k->before;
    } while (id[0] != '\0');
    return NULL;
}

/* --- calls from outside ----------------------------------------------------------------------- */

whim_response_store *whim_response_store_create(int64_t max_bytes)
{
    whim_response_store *s = whim_alloc(sizeof *s);
    if (s != NULL) {
        pthread_mutex_init(&s->lock, NULL);
        s->max_bytes = max_bytes;
    }
    return s;
}

void whim_response_store_destroy(whim_response_store *s)
{
    if (s == NULL) {
        return;
    }
    while (s->newest != NULL) {
        drop(s, s->newest);
    }
    pthread_mutex_destroy(&s->lock);
    whim_free(s);
}

void whim_response_store_limit(whim_response_store *s, int64_t max_bytes)
{
    pthread_mutex_lock(&s->lock);
    s->max_bytes = max_bytes < WHIM_RESPONSES_BYTES ? max_bytes : WHIM_RESPONSES_BYTES;
    while (s->oldest != NULL && s->n_byte > s->max_bytes) {
        drop(s, s->oldest);
    }
    pthread_mutex_unlock(&s->lock);
}

void whim_response_store_put(whim_response_store *s, uint64_t client, const char *id,
                             const char *before, const whim_str *items, const whim_str *answer)
{
    int64_t bytes = (int64_t)sizeof(kept) + items->len + answer->len;
    pthread_mutex_lock(&s->lock);
    bool failed = items->failed || answer->failed || bytes > s->max_bytes;
    pthread_mutex_unlock(&s->lock);
    kept *k = failed ? NULL : whim_alloc(bytes);
    if (k == NULL) {
        return;
    }
    k->client = (int32_t)(client % CLIENTS);
    snprintf(k->id, sizeof k->id, "%s", id);
    snprintf(k->before, sizeof k->before, "%s", before != NULL ? before : "");
    k->n_items = items->len;
    k->n_answer = answer->len;
    memcpy(k->items, whim_str_text(items), (size_t)items->len);
    memcpy(k->items + items->len, whim_str_text(answer), (size_t)answer->len);
    pthread_mutex_lock(&s->lock);
    while (s->oldest != NULL && (s->n >= WHIM_RESPONSES_KEPT || s->n_byte + bytes > s->max_bytes)) {
        drop(s, of_greediest(s, k->client, bytes));
    }
    link_first(s, k);
    pthread_mutex_unlock(&s->lock);
}

bool whim_response_store_answer(whim_response_store *s, const char *id, whim_str *out)
{
    pthread_mutex_lock(&s->lock);
    const kept *k = find(s, s->newest, id);
    if (k != NULL) {
        whim_str_append_n(out, k->items + k->n_items, k->n_answer);
    }
    pthread_mutex_unlock(&s->lock);
    return k != NULL;
}

bool whim_response_store_remove(whim_response_store *s, const char *id)
{
    pthread_mutex_lock(&s->lock);
    kept *k = find(s, s->newest, id);
    if (k != NULL) {
        drop(s, k);
    }
    pthread_mutex_unlock(&s->lock);
    return k != NULL;
}

bool whim_response_store_items(whim_response_store *s, const char *id, whim_str *out,
                               char missing[WHIM_RESPONSE_ID_MOST])
{
    bool is_short = true;
    missing[0] = '\0';
    pthread_mutex_lock(&s->lock);
    const char *lost = use(s, id);
    if (lost != NULL) {
        snprintf(missing, WHIM_RESPONSE_ID_MOST, "%s", lost);
    } else {
        kept *first = s->newest; /* the conversation lies there, its end first */
        int64_t bytes = first->n_items;
        for (; first->before[0] != '\0'; bytes += first->n_items) {
            first = first->older;
        }
        is_short = bytes <= WHIM_CONVERSATION_BYTES;
        for (kept *k = first; k != NULL && is_short; k = k->newer) {
            whim_str_append(out, k == first ? "[" : ",");
            whim_str_append_n(out, k->items, k->n_items);
        }
        whim_str_append(out, is_short ? "]" : "");
    }
    pthread_mutex_unlock(&s->lock);
    return lost == NULL && is_short;
}

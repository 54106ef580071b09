/* SPDX-License-Identifier: Apache-2.0 */
/* A small list: with so few entries a search by comparing lengths first is quick. */
#include "server/grammar_cache.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"

#include <pthread.h>
#include <string.h>

enum { N_ENTRY = 16, MAX_KEY_BYTES = 256 << 10 };

typedef struct entry {
    whim_str key; /* no text: empty */
    whim_grammar *grammar;
    int64_t used; /* when, in uses of the cache */
} entry;

struct whim_grammar_cache {
    whim_meters *meters; /* or NULL */
    pthread_mutex_t lock;
    entry entries[N_ENTRY];
    int64_t n_use;
};

whim_grammar_cache *whim_grammar_cache_create(whim_meters *meters)
{
    whim_grammar_cache *cache = whim_alloc(sizeof *cache);
    if (cache != NULL) {
        cache->meters = meters;
        pthread_mutex_init(&cache->lock, NULL);
    }
    return cache;
}

void whim_grammar_cache_destroy(whim_grammar_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    for (int32_t i = 0; i < N_ENTRY; i++) {
        whim_str_deinit(&cache->entries[i].key);
        whim_grammar_unref(cache->entries[i].grammar);
    }
    pthread_mutex_destroy(&cache->lock);
    whim_free(cache);
}

/* --- keys --------------------------------------------------------------------------------------- */

/* With its length in front, so that no two lists of texts look alike. */
static void add_text(whim_str *key, const char *text)
{
    whim_str_printf(key, "%lld:", text != NULL ? (long long)strlen(text) : -1LL);
    whim_str_append(key, text != NULL ? text : "");
}

static int add_piece(const char *text, size_t n, void *key)
{
    whim_str_append_n(key, text, (int64_t)n);
    return ((whim_str *)key)->failed || ((whim_str *)key)->len > MAX_KEY_BYTES ? -1 : 0;
}

/* Key order matters to a schema, so it stays. False: too large to keep. */
static bool add_json(whim_str *key, const json_t *json)
{
    whim_str_append_char(key, '|');
    return json == NULL ||
           json_dump_callback(json, add_piece, key, JSON_COMPACT | JSON_ENCODE_ANY) == 0;
}

static bool key_make(whim_str *key, const whim_answer_rule *rule)
{
    const whim_chat_format *f = &rule->format;
    whim_str_printf(key, "%d%d%d%d%d%d%d%d%d", f->tools, f->native_tools, f->reasons,
                    f->thinking_switch, rule->starts_inside, rule->may_reason, rule->choice,
                    rule->one_call, rule->json_object);
    add_text(key, rule->tool_name);
    add_text(key, rule->regex);
    for (int32_t i = 0; i < rule->n_word && key->len <= MAX_KEY_BYTES; i++) {
        add_text(key, rule->words[i]);
    }
    return add_json(key, rule->tools) && add_json(key, rule->schema) && !key->failed &&
           key->len <= MAX_KEY_BYTES;
}

/* --- entries ------------------------------------------------------------------------------------ */

static whim_grammar *find(whim_grammar_cache *cache, const whim_str *key)
{
    whim_grammar *found = NULL;
    pthread_mutex_lock(&cache->lock);
    for (int32_t i = 0; i < N_ENTRY && found == NULL; i++) {
        entry *e = &cache->entries[i];
        if (e->grammar != NULL && e->key.len == key->len &&
            memcmp(e->key.text, key->text, (size_t)key->len) == 0) {
            e->used = ++cache->n_use;
            found = whim_grammar_ref(e->grammar);
        }
    }
    pthread_mutex_unlock(&cache->lock);
    return found;
}

/* In the place of the entry that was not used for longest. Takes the key. */
static void keep(whim_grammar_cache *cache, whim_str *key, whim_grammar *grammar)
{
    pthread_mutex_lock(&cache->lock);
    entry *oldest = &cache->entries[0];
    for (int32_t i = 1; i < N_ENTRY; i++) {
        oldest = cache->entries[i].used < oldest->used ? &cache->entries[i] : oldest;
    }
    entry gone = *oldest;
    *oldest = (entry){*key, whim_grammar_ref(grammar), ++cache->n_use};
    *key = (whim_str){0};
    pthread_mutex_unlock(&cache->lock);
    whim_str_deinit(&gone.key);
    whim_grammar_unref(gone.grammar);
}

/* What came of compiling one; none was needed where there is neither a grammar nor an error. */
static void count_compiled(whim_meters *meters, int64_t took_ns, whim_err err)
{
    whim_meter_observe(meters, GRAMMAR_TIME, took_ns);
    whim_meter_add(meters, GRAMMAR_FAILED, 0, err != WHIM_ERR_OK);
}

whim_err whim_grammar_cache_get(whim_grammar_cache *cache, const whim_answer_rule *rule,
                                whim_grammar **out, whim_diag *diag)
{
    whim_str key = {0};
    bool small = cache != NULL && key_make(&key, rule);
    *out = small ? find(cache, &key) : NULL;
    whim_meters *meters = cache != NULL ? cache->meters : NULL;
    whim_err err = WHIM_ERR_OK;
    if (*out == NULL) {
        int64_t begun = whim_clock_ns();
        err = whim_answer_grammar(rule, out, diag);
        if (meters != NULL && (err != WHIM_ERR_OK || *out != NULL)) {
            count_compiled(meters, whim_clock_ns() - begun, err);
        }
        if (err == WHIM_ERR_OK && small && *out != NULL) {
            keep(cache, &key, *out);
        }
    } else if (meters != NULL) {
        whim_meter_add(meters, GRAMMAR_HITS, 0, 1);
    }
    whim_str_deinit(&key);
    return err;
}

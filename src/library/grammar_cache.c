/* SPDX-License-Identifier: Apache-2.0 */
/* A small list: with so few entries a search by comparing lengths first is quick. */
#include "library/grammar_cache.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/heap/budget.h"
#include "base/str.h"

#include <pthread.h>
#include <string.h>

enum { N_ENTRY = 16, MAX_FAILURES = 4, MAX_KEY_BYTES = 256 << 10, MOST_EIGHTHS = 1 };

/* How long a failure is kept: one that met the limit of time on a busy machine may work later. */
#define FAILURE_NS (60 * WHIM_NS_PER_S)

typedef struct entry {
    whim_str key; /* no text: empty */
    whim_grammar *grammar;
    whim_err err; /* why there is no grammar */
    whim_str why; /* its message */
    int64_t until_ns;
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

static void entry_deinit(entry *e)
{
    whim_str_deinit(&e->key);
    whim_str_deinit(&e->why);
    whim_grammar_unref(e->grammar);
}

void whim_grammar_cache_destroy(whim_grammar_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    for (int32_t i = 0; i < N_ENTRY; i++) {
        entry_deinit(&cache->entries[i]);
    }
    pthread_mutex_destroy(&cache->lock);
    whim_free(cache);
}

/* --- keys ------------------------------------------------------------------------------------- */

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

/* With the names of fields too, which are in messages. */
static bool key_make(whim_str *key, const whim_answer_rule *rule)
{
    const whim_chat_format *f = &rule->format;
    whim_str_printf(key, "%d%d%d%d%d%d%d%d%d%d", f->native_tools, f->one_call, f->reasons,
                    f->thinking_switch != NULL, rule->starts_inside, rule->starts_named,
                    rule->may_reason, rule->choice, rule->one_call, rule->json_object);
    add_text(key, rule->tools != NULL ? f->tools->name : NULL);
    add_text(key, whim_chat_format_think(f)->open);
    add_text(key, rule->tool_name);
    add_text(key, rule->regex);
    add_text(key, rule->grammar);
    add_text(key, rule->schema_at);
    add_text(key, rule->tool_schema);
    for (size_t i = 0; rule->tool_at != NULL && i < json_array_size(rule->tools); i++) {
        whim_str_printf(key, ",%d", rule->tool_at[i]);
    }
    whim_str_printf(key, ";%d;", rule->n_word);
    for (int32_t i = 0; i < rule->n_word && key->len <= MAX_KEY_BYTES; i++) {
        add_text(key, rule->words[i]);
    }
    return add_json(key, rule->tools) && add_json(key, rule->schema) && !key->failed &&
           key->len <= MAX_KEY_BYTES;
}

/* --- entries ---------------------------------------------------------------------------------- */

static bool is_of(const entry *e, const whim_str *key)
{
    return e->key.len == key->len && memcmp(e->key.text, key->text, (size_t)key->len) == 0;
}

/* Whether it is known what comes of the key: *out, or *err with its message. */
static bool find(whim_grammar_cache *cache, const whim_str *key, whim_grammar **out, whim_err *err,
                 whim_diag *diag)
{
    bool found = false;
    pthread_mutex_lock(&cache->lock);
    for (int32_t i = 0; i < N_ENTRY && !found; i++) {
        entry *e = &cache->entries[i];
        found = is_of(e, key) && (e->grammar != NULL || whim_clock_ns() < e->until_ns);
        if (found) {
            e->used = ++cache->n_use;
            *out = e->grammar != NULL ? whim_grammar_ref(e->grammar) : NULL;
            *err = e->grammar != NULL ? WHIM_ERR_OK
                                      : whim_fail(diag, e->err, "%s", whim_str_text(&e->why));
        }
    }
    pthread_mutex_unlock(&cache->lock);
    return found;
}

static bool is_failure(const entry *e)
{
    return e->key.len > 0 && e->grammar == NULL;
}

/* Where a new entry goes: to its older self, or else to the one that was not used for longest; a
 * failure, which costs its sender nothing, to the oldest failure once there are MAX_FAILURES. */
static entry *place_for(whim_grammar_cache *cache, const entry *made)
{
    int32_t n_failure = 0;
    for (int32_t i = 0; i < N_ENTRY; i++) {
        if (is_of(&cache->entries[i], &made->key)) {
            return &cache->entries[i];
        }
        n_failure += is_failure(&cache->entries[i]);
    }
    bool among_failures = made->grammar == NULL && n_failure >= MAX_FAILURES;
    entry *place = NULL;
    for (int32_t i = 0; i < N_ENTRY; i++) {
        entry *e = &cache->entries[i];
        if ((!among_failures || is_failure(e)) && (place == NULL || e->used < place->used)) {
            place = e;
        }
    }
    return place;
}

static void keep(whim_grammar_cache *cache, entry made)
{
    pthread_mutex_lock(&cache->lock);
    entry *place = place_for(cache, &made);
    entry gone = *place;
    made.used = ++cache->n_use;
    *place = made;
    pthread_mutex_unlock(&cache->lock);
    entry_deinit(&gone);
}

/* The grammar that was not used for longest, and what all take. The lock is held. */
static entry *oldest(whim_grammar_cache *cache, int64_t *bytes)
{
    entry *found = NULL;
    *bytes = 0;
    for (int32_t i = 0; i < N_ENTRY; i++) {
        entry *e = &cache->entries[i];
        if (e->grammar != NULL) {
            *bytes += whim_grammar_bytes(e->grammar);
            found = found == NULL || e->used < found->used ? e : found;
        }
    }
    return found;
}

/* Nobody asked for what is kept here, so it may not take the memory of those who ask: the oldest go
 * until the rest takes no more than so many eighths of it. Whether any went. */
static bool trim(whim_grammar_cache *cache, int32_t eighths)
{
    const int64_t most = whim_budget_bytes() / WHIM_BUDGET_WHOLE * eighths;
    bool has_gone = false;
    for (bool more = whim_budget_bytes() > 0; more;) {
        int64_t bytes;
        entry gone = {.used = 0};
        pthread_mutex_lock(&cache->lock);
        entry *e = oldest(cache, &bytes);
        more = e != NULL && bytes > most;
        if (more) {
            gone = *e;
            *e = (entry){.used = 0};
        }
        pthread_mutex_unlock(&cache->lock);
        entry_deinit(&gone);
        has_gone = has_gone || more;
    }
    return has_gone;
}

/* Grammars, and failures that would come again. Takes the key where it keeps them. */
static void keep_result(whim_grammar_cache *cache, whim_str *key, whim_grammar *grammar,
                        whim_err err, const whim_diag *diag)
{
    bool fails_again = err != WHIM_ERR_OK && err != WHIM_ERR_NO_MEMORY;
    if (grammar == NULL && !fails_again) {
        return;
    }
    entry made = {.key = *key, .err = err, .until_ns = whim_clock_ns() + FAILURE_NS};
    if (fails_again) {
        whim_str_append(&made.why, diag->text);
    } else {
        made.grammar = whim_grammar_ref(grammar);
    }
    *key = (whim_str){0};
    keep(cache, made);
}

/* What came of compiling one; none was needed where there is neither a grammar nor an error. */
static void count_compiled(whim_meters *meters, int64_t took_ns, whim_err err)
{
    whim_meter_observe(meters, GRAMMAR_TIME, took_ns);
    whim_meter_add(meters, GRAMMAR_FAILED, 0, err != WHIM_ERR_OK);
}

static whim_err compile(whim_grammar_cache *cache, const whim_answer_rule *rule, whim_str *key,
                        whim_grammar **out, whim_diag *diag)
{
    int64_t begun = whim_clock_ns();
    whim_err err = whim_answer_grammar(rule, out, diag);
    if (err == WHIM_ERR_NO_MEMORY && trim(cache, 0)) {
        err = whim_answer_grammar(rule, out, diag); /* what is kept was in its way */
    }
    if (cache->meters != NULL && (err != WHIM_ERR_OK || *out != NULL)) {
        count_compiled(cache->meters, whim_clock_ns() - begun, err);
    }
    if (key != NULL) {
        keep_result(cache, key, *out, err, diag);
        trim(cache, MOST_EIGHTHS);
    }
    return err;
}

whim_err whim_grammar_cache_get(whim_grammar_cache *cache, const whim_answer_rule *rule,
                                bool may_compile, whim_grammar **out, whim_diag *diag)
{
    *out = NULL;
    if (cache == NULL || !whim_answer_is_held(rule)) {
        return whim_answer_grammar(rule, out, diag); /* the latter takes no time */
    }
    whim_str key = {0};
    bool small = key_make(&key, rule);
    whim_err err = WHIM_ERR_BUSY;
    trim(cache, MOST_EIGHTHS); /* their masks may have come since */
    if (small && find(cache, &key, out, &err, diag)) {
        if (cache->meters != NULL) {
            whim_meter_add(cache->meters, GRAMMAR_HITS, 0, 1);
        }
    } else if (may_compile) {
        err = compile(cache, rule, small ? &key : NULL, out, diag);
    }
    whim_str_deinit(&key);
    return err;
}

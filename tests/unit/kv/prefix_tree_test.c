/* SPDX-License-Identifier: Apache-2.0 */
/* The prefix tree: pages are found under exactly their tokens, references are kept, the least
 * recently used goes first. */
#include "kv/prefix_tree.h"
#include "support/cmocka.h"

#include "base/alloc.h"
#include "base/math/rng.h"
#include "kv/sequence.h"
#include "support/death.h"

#include <stdio.h>
#include <string.h>

enum { P = 32, MAX = 16, DEEP = 6 };

typedef struct fixture {
    whim_page_pool pool;
    whim_prefix_tree *tree;
    int32_t evicted[256], n_evicted;
} fixture;

static void note_evicted(void *ctx, int32_t page, int32_t state, const whim_prefix_key *key,
                         const int32_t *tokens)
{
    fixture *f = ctx;
    (void)key, (void)tokens;
    assert_true(f->pool.refs[page] == 1 || state >= 0);
    f->evicted[f->n_evicted++] = page;
}

static void open_tree(fixture *f, int64_t n_page)
{
    *f = (fixture){.n_evicted = 0};
    assert_int_equal(whim_page_pool_init(&f->pool, n_page, P), WHIM_ERR_OK);
    assert_int_equal(whim_prefix_tree_create(&f->pool, note_evicted, f, &f->tree), WHIM_ERR_OK);
}

static void close_tree(fixture *f)
{
    whim_prefix_tree_destroy(f->tree);
    assert_int_equal(f->pool.n_free, f->pool.n_page);
    whim_page_pool_deinit(&f->pool);
}

/* Tokens of a chain: page i of it is made of path[i]. */
static void chain(int32_t *tokens, const char *path)
{
    for (size_t i = 0; path[i] != '\0'; i++) {
        for (int32_t k = 0; k < P; k++) {
            tokens[i * P + (size_t)k] = path[i] * 100 + k;
        }
    }
}

/* Compute a chain and let the tree have it: takes pages, inserts, gives them back. */
static void put(fixture *f, const char *path, int32_t *pages)
{
    int32_t tokens[MAX * P], own[MAX] = {0};
    int64_t n = (int64_t)strlen(path);
    chain(tokens, path);
    for (int64_t i = 0; i < n; i++) {
        own[i] = whim_page_pool_take(&f->pool);
        assert_true(own[i] >= 0);
    }
    whim_prefix_tree_insert(f->tree, tokens, own, n);
    for (int64_t i = n - 1; i >= 0; i--) {
        whim_page_pool_give(&f->pool, own[i]);
    }
    memcpy(pages, own, (size_t)n * sizeof *pages);
}

static int64_t match(fixture *f, const char *path, int32_t *pages)
{
    int32_t tokens[MAX * P];
    chain(tokens, path);
    int64_t n_tok = (int64_t)strlen(path) * P;
    int64_t n = whim_prefix_tree_peek(f->tree, tokens, n_tok);
    assert_int_equal(whim_prefix_tree_match(f->tree, tokens, n_tok, pages), n);
    return n;
}

static void give(fixture *f, const int32_t *pages, int64_t n)
{
    while (n > 0) {
        whim_page_pool_give(&f->pool, pages[--n]);
    }
}

static void count_one(void *ctx, int32_t page, int32_t state, const whim_prefix_key *key,
                      const int32_t *tokens)
{
    (void)page, (void)state;
    (void)key;
    (void)tokens;
    ++*(int64_t *)ctx;
}

static int64_t n_known(const fixture *f)
{
    int64_t n = 0;
    whim_prefix_tree_each(f->tree, count_one, &n);
    return n;
}

static void pages_are_found_under_their_tokens(void **state)
{
    (void)state;
    fixture f;
    int32_t abc[3], abd[3], got[MAX], tokens[MAX * P];
    open_tree(&f, 20);
    assert_int_equal(match(&f, "abc", got), 0);
    put(&f, "abc", abc);
    put(&f, "abd", abd);
    assert_int_equal(n_known(&f), 4); /* a and b once */
    assert_int_equal(f.pool.n_free, 16);
    assert_int_equal(match(&f, "abde", got), 3);
    assert_int_equal(got[0], abc[0]);
    assert_int_equal(got[1], abc[1]);
    assert_int_equal(got[2], abd[2]);
    assert_int_equal(f.pool.refs[got[0]], 2);
    give(&f, got, 3);
    assert_int_equal(match(&f, "bcd", got), 0); /* the same pages elsewhere are others */
    assert_int_equal(match(&f, "acb", got), 1);
    give(&f, got, 1);
    chain(tokens, "abc");
    assert_int_equal(whim_prefix_tree_peek(f.tree, tokens, 3 * P - 1), 2); /* full pages only */
    assert_int_equal(whim_prefix_tree_peek(f.tree, tokens, P - 1), 0);
    tokens[2 * P - 1]++;
    assert_int_equal(whim_prefix_tree_peek(f.tree, tokens, 3 * P), 1);
    close_tree(&f);
}

static void merging_exchanges_pages(void **state)
{
    (void)state;
    fixture f;
    int32_t ab[2], own[3], tokens[MAX * P];
    open_tree(&f, 8);
    put(&f, "ab", ab);
    for (int i = 0; i < 3; i++) {
        own[i] = whim_page_pool_take(&f.pool);
    }
    int32_t third = own[2];
    chain(tokens, "abc");
    whim_prefix_tree_merge(f.tree, tokens, own, 3);
    assert_int_equal(own[0], ab[0]);
    assert_int_equal(own[1], ab[1]);
    assert_int_equal(own[2], third);
    assert_int_equal(f.pool.n_free, 5);
    assert_int_equal(f.pool.refs[ab[0]], 2);
    assert_int_equal(whim_prefix_tree_evictable(f.tree), 0);
    give(&f, own, 3);
    assert_int_equal(whim_prefix_tree_evictable(f.tree), 3);
    close_tree(&f);
}

static void the_least_recently_used_goes_first(void **state)
{
    (void)state;
    fixture f;
    int32_t x[2], y[2], z[1], got[2];
    open_tree(&f, 6);
    put(&f, "xu", x);
    put(&f, "yv", y);
    put(&f, "z", z);
    assert_int_equal(match(&f, "xu", got), 2); /* now y is the oldest */
    give(&f, got, 2);
    assert_int_equal(whim_prefix_tree_evictable(f.tree), 5);
    assert_true(whim_prefix_tree_evict(f.tree, 1)); /* one is free already */
    assert_int_equal(f.n_evicted, 0);
    assert_true(whim_prefix_tree_evict(f.tree, 6));
    const int32_t order[] = {y[1], y[0], z[0], x[1], x[0]}; /* children before parents */
    assert_int_equal(f.n_evicted, 5);
    assert_memory_equal(f.evicted, order, sizeof order);
    assert_int_equal(whim_prefix_tree_evicted(f.tree), 5);
    assert_false(whim_prefix_tree_evict(f.tree, 7));
    int32_t tokens[MAX * P];
    chain(tokens, "xq");
    assert_true(whim_prefix_tree_lost(f.tree, tokens, 2 * P)); /* x was there */
    chain(tokens, "qx");
    assert_false(whim_prefix_tree_lost(f.tree, tokens, 2 * P));
    close_tree(&f);
}

static void what_is_used_stays(void **state)
{
    (void)state;
    fixture f;
    int32_t ab[2], cd[2], got[2];
    open_tree(&f, 4);
    put(&f, "ab", ab);
    put(&f, "cd", cd);
    assert_int_equal(match(&f, "ab", got), 2);
    whim_page_pool_give(&f.pool, got[0]); /* the child alone is enough */
    assert_int_equal(whim_prefix_tree_evictable(f.tree), 2);
    assert_int_equal(whim_prefix_tree_alone(f.tree), 3);
    assert_false(whim_prefix_tree_evict(f.tree, 3));
    assert_int_equal(f.evicted[0], cd[1]);
    whim_page_pool_give(&f.pool, got[1]);
    assert_true(whim_prefix_tree_evict(f.tree, 4));
    close_tree(&f);
}

typedef struct seen {
    whim_prefix_key keys[MAX];
    int32_t first[MAX];
    int32_t n;
} seen;

static void note_node(void *ctx, int32_t page, int32_t state, const whim_prefix_key *key,
                      const int32_t *tokens)
{
    seen *s = ctx;
    (void)page, (void)state;
    s->keys[s->n] = *key;
    s->first[s->n++] = tokens[0] / 100;
}

static void parents_come_before_children(void **state)
{
    (void)state;
    fixture f;
    int32_t pages[MAX], tokens[MAX * P];
    seen s = {.n = 0};
    open_tree(&f, MAX);
    put(&f, "abc", pages);
    put(&f, "abd", pages);
    put(&f, "ae", pages);
    put(&f, "f", pages);
    whim_prefix_tree_each(f.tree, note_node, &s);
    assert_int_equal(s.n, 6);
    int at[128] = {0};
    for (int i = 0; i < s.n; i++) {
        at[s.first[i]] = i + 1;
    }
    assert_true(at['a'] < at['b'] && at['b'] < at['c'] && at['b'] < at['d'] && at['a'] < at['e']);
    assert_true(at['a'] > 0 && at['f'] > 0);
    chain(tokens, "ab"); /* keys are those of the chain, whoever computes them */
    whim_prefix_key a = whim_prefix_key_next(NULL, tokens, P);
    whim_prefix_key b = whim_prefix_key_next(&a, tokens + P, P);
    assert_memory_equal(&s.keys[at['b'] - 1], &b, sizeof b);
    tokens[5]++;
    whim_prefix_key other = whim_prefix_key_next(NULL, tokens, P);
    assert_memory_not_equal(&other, &a, sizeof a);
    close_tree(&f);
}

static const char *in_hex(const whim_prefix_key *key)
{
    static char text[4][2 * sizeof key->byte + 1];
    static int turn;
    char *hex = text[turn++ % 4];
    for (size_t i = 0; i < sizeof key->byte; i++) {
        snprintf(hex + 2 * i, 3, "%02x", key->byte[i]);
    }
    return hex;
}

/* The disk tier's files outlive a build: the key of known tokens never changes. */
static void keys_are_the_same_everywhere(void **state)
{
    (void)state;
    int32_t tokens[P];
    for (int32_t i = 0; i < P; i++) {
        tokens[i] = i * i - 3;
    }
    whim_prefix_key a = whim_prefix_key_next(NULL, tokens, P);
    whim_prefix_key b = whim_prefix_key_next(&a, tokens, P);
    assert_string_equal(in_hex(&a), /* hashlib of Python */
                        "6e6c3ed2b3d8cbab298657277f91a75bfcad7cd9bfef7bef8439be830f17e3a7");
    assert_string_equal(in_hex(&b),
                        "4d6c887e0c6852e539983536f3d73f2d6601a3a08f596068af899d782839faae");
}

/* What came, and what got a state, comes once, parents first; not what has gone meanwhile. */
static void what_is_new_is_seen_once(void **state)
{
    (void)state;
    fixture f;
    whim_page_pool states;
    int32_t pages[MAX], tokens[MAX * P];
    seen s = {.n = 0};
    open_tree(&f, MAX);
    assert_int_equal(whim_page_pool_init(&states, 2, 1), WHIM_ERR_OK);
    assert_int_equal(whim_prefix_tree_set_states(f.tree, &states), WHIM_ERR_OK);
    assert_false(whim_prefix_tree_first_new(f.tree, note_node, &s));
    put(&f, "abc", pages);
    assert_true(whim_prefix_tree_first_new(f.tree, note_node, &s));
    assert_true(whim_prefix_tree_first_new(f.tree, note_node, &s));
    assert_int_equal(s.first[1], s.first[0]); /* it was not said to be seen */
    s.n = 0;
    assert_true(whim_prefix_tree_evict(f.tree, MAX - 2)); /* "c" is gone */
    for (; whim_prefix_tree_first_new(f.tree, note_node, &s);) {
        whim_prefix_tree_first_seen(f.tree);
    }
    assert_int_equal(s.n, 2);
    assert_true(s.first[0] == 'a' && s.first[1] == 'b');
    int32_t slot = whim_page_pool_take(&states);
    chain(tokens, "ab");
    assert_true(whim_prefix_tree_keep_state(f.tree, tokens, 1, slot));
    whim_page_pool_give(&states, slot);
    assert_true(whim_prefix_tree_first_new(f.tree, note_node, &s));
    assert_int_equal(s.first[2], 'a');
    whim_prefix_tree_first_seen(f.tree);
    whim_prefix_tree_first_seen(f.tree);
    assert_false(whim_prefix_tree_first_new(f.tree, note_node, &s));
    close_tree(&f);
    whim_page_pool_deinit(&states);
}

/* Random chains over two letters against a plain list of all that is known. */
static void it_agrees_with_a_plain_list(void **state)
{
    (void)state;
    fixture f;
    open_tree(&f, 24);
    for (uint64_t t = 0; t < 3000; t++) {
        char path[DEEP + 1] = {0};
        int32_t pages[DEEP], tokens[DEEP * P];
        int64_t n = 1 + (int64_t)(whim_rng_at(1, t) % DEEP);
        for (int64_t i = 0; i < n; i++) {
            path[i] = (char)('a' + (whim_rng_at(2, t) >> i) % 2);
        }
        chain(tokens, path);
        int64_t known = match(&f, path, pages);
        for (int64_t i = known; i < n; i++) {
            assert_true(whim_prefix_tree_evict(f.tree, 1));
            pages[i] = whim_page_pool_take(&f.pool);
        }
        int64_t size = n_known(&f);
        whim_prefix_tree_merge(f.tree, tokens, pages, n);
        assert_int_equal(n_known(&f), size + n - known);
        assert_int_equal(whim_prefix_tree_peek(f.tree, tokens, n * P), n);
        assert_int_equal(whim_prefix_tree_evictable(f.tree), n_known(&f) - n);
        give(&f, pages, n);
        assert_int_equal(whim_prefix_tree_evictable(f.tree), n_known(&f));
        assert_int_equal(n_known(&f) + f.pool.n_free, 24);
        f.n_evicted = 0;
    }
    assert_true(whim_prefix_tree_evict(f.tree, 24));
    close_tree(&f);
}

/* A state is found at the deepest page that carries one, and leaves with its page or before it. */
static void states_lie_at_pages(void **state)
{
    (void)state;
    fixture f;
    whim_page_pool states;
    int32_t pages[MAX], got[MAX], tokens[MAX * P], slot;
    open_tree(&f, 8);
    assert_int_equal(whim_page_pool_init(&states, 2, 1), WHIM_ERR_OK);
    assert_int_equal(whim_prefix_tree_set_states(f.tree, &states), WHIM_ERR_OK);
    put(&f, "abcd", pages);
    chain(tokens, "abcd");
    assert_int_equal(whim_prefix_tree_match_state(f.tree, tokens, 4 * P, got, &slot), 0);
    assert_int_equal(slot, -1);
    int32_t one = whim_page_pool_take(&states), two = whim_page_pool_take(&states);
    assert_false(whim_prefix_tree_keep_state(f.tree, tokens, 0, one));
    assert_false(whim_prefix_tree_keep_state(f.tree, tokens, 5, one)); /* not known */
    assert_true(whim_prefix_tree_keep_state(f.tree, tokens, 1, one));
    assert_false(whim_prefix_tree_keep_state(f.tree, tokens, 1, two)); /* has one */
    assert_true(whim_prefix_tree_keep_state(f.tree, tokens, 3, two));
    whim_page_pool_give(&states, one);
    whim_page_pool_give(&states, two);
    assert_int_equal(states.n_free, 0);
    assert_int_equal(whim_prefix_tree_match_state(f.tree, tokens, 4 * P, got, &slot), 3);
    assert_int_equal(slot, two);
    give(&f, got, 3);
    assert_int_equal(whim_prefix_tree_match_state(f.tree, tokens, 3 * P - 1, got, &slot), 1);
    assert_int_equal(slot, one);
    give(&f, got, 1);
    assert_false(whim_prefix_tree_evict_states(f.tree, 1)); /* both are held */
    whim_page_pool_give(&states, one);
    whim_page_pool_give(&states, two);
    assert_true(whim_prefix_tree_evict_states(f.tree, 1)); /* "abc" was used before "a" */
    assert_int_equal(states.refs[two], 0);
    assert_int_equal(n_known(&f), 4);
    assert_int_equal(whim_prefix_tree_match_state(f.tree, tokens, 4 * P, got, &slot), 1);
    whim_page_pool_give(&states, slot);
    give(&f, got, 1);
    assert_true(whim_prefix_tree_evict(f.tree, 8));
    assert_int_equal(states.n_free, 2);
    put(&f, "ab", pages); /* destroy gives the slot back */
    slot = whim_page_pool_take(&states);
    assert_true(whim_prefix_tree_keep_state(f.tree, tokens, 2, slot));
    whim_page_pool_give(&states, slot);
    close_tree(&f);
    assert_int_equal(states.n_free, 2);
    whim_page_pool_deinit(&states);
}

/* Random chains: what match_state finds is what the plain list says is the deepest page with a
 * state. */
static void states_agree_with_a_plain_list(void **state)
{
    (void)state;
    enum { SLOTS = 5 };
    fixture f;
    whim_page_pool states;
    /* which chain each slot is the state of; a chain is its letters after a leading 1 bit */
    int32_t at_chain[SLOTS];
    open_tree(&f, 24);
    assert_int_equal(whim_page_pool_init(&states, SLOTS, 1), WHIM_ERR_OK);
    assert_int_equal(whim_prefix_tree_set_states(f.tree, &states), WHIM_ERR_OK);
    for (uint64_t t = 0; t < 3000; t++) {
        char path[DEEP + 1] = {0};
        int32_t pages[DEEP], tokens[DEEP * P], names[DEEP + 1] = {1}, slot;
        int64_t n = 1 + (int64_t)(whim_rng_at(3, t) % DEEP);
        for (int64_t i = 0; i < n; i++) {
            path[i] = (char)('a' + (whim_rng_at(4, t) >> i) % 2);
            names[i + 1] = names[i] * 2 + (path[i] == 'b');
        }
        chain(tokens, path);
        int64_t known = whim_prefix_tree_peek(f.tree, tokens, n * P), want = 0;
        for (int32_t i = 0; i < SLOTS; i++) {
            for (int64_t k = 1; k <= known && states.refs[i] > 0; k++) {
                want = names[k] == at_chain[i] && k > want ? k : want;
            }
        }
        int64_t had = whim_prefix_tree_match_state(f.tree, tokens, n * P, pages, &slot);
        assert_int_equal(had, want);
        assert_int_equal(slot >= 0, had > 0);
        if (had > 0) {
            assert_int_equal(at_chain[slot], names[had]);
            whim_page_pool_give(&states, slot);
        }
        for (int64_t i = had; i < n; i++) {
            assert_true(whim_prefix_tree_evict(f.tree, 1));
            pages[i] = whim_page_pool_take(&f.pool);
        }
        whim_prefix_tree_merge(f.tree, tokens, pages, n);
        if (had < n) {
            assert_true(whim_prefix_tree_evict_states(f.tree, 1));
            slot = whim_page_pool_take(&states);
            at_chain[slot] = names[n];
            assert_true(whim_prefix_tree_keep_state(f.tree, tokens, n, slot));
            whim_page_pool_give(&states, slot);
        }
        give(&f, pages, n);
        f.n_evicted = 0;
    }
    close_tree(&f);
    assert_int_equal(states.n_free, SLOTS);
    whim_page_pool_deinit(&states);
}

static void nothing_is_allocated_later(void **state)
{
    (void)state;
    fixture f;
    int32_t pages[3];
    open_tree(&f, 8);
    whim_alloc_fail_after(0);
    put(&f, "abc", pages);
    put(&f, "xyz", pages);
    assert_true(whim_prefix_tree_evict(f.tree, 8));
    whim_alloc_fail_after(-1);
    close_tree(&f);
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    whim_page_pool pool;
    whim_prefix_tree *tree = NULL;
    assert_int_equal(whim_page_pool_init(&pool, 8, P), WHIM_ERR_OK);
    for (int64_t n = 0; n < 5; n++) {
        whim_alloc_fail_after(n);
        assert_int_equal(whim_prefix_tree_create(&pool, NULL, NULL, &tree), WHIM_ERR_NO_MEMORY);
        whim_alloc_fail_after(-1);
    }
    assert_int_equal(whim_prefix_tree_create(&pool, NULL, NULL, &tree), WHIM_ERR_OK);
    whim_prefix_tree_destroy(tree);
    whim_prefix_tree_destroy(NULL);
    whim_page_pool_deinit(&pool);
}

/* A page that is known under other tokens would be overwritten by whoever gets it. */
static void insert_elsewhere(void *ctx)
{
    fixture f;
    int32_t pages[1], tokens[P];
    open_tree(&f, 2);
    put(&f, "a", pages);
    chain(tokens, ctx);
    whim_prefix_tree_insert(f.tree, tokens, pages, 1);
}

static void a_page_has_one_place(void **state)
{
    (void)state;
    char same[] = "a", other[] = "b";
    assert_int_equal(death_signal(insert_elsewhere, same), 0);
    assert_int_equal(death_signal(insert_elsewhere, other), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_found_under_their_tokens),
        cmocka_unit_test(merging_exchanges_pages),
        cmocka_unit_test(the_least_recently_used_goes_first),
        cmocka_unit_test(what_is_used_stays),
        cmocka_unit_test(parents_come_before_children),
        cmocka_unit_test(keys_are_the_same_everywhere),
        cmocka_unit_test(what_is_new_is_seen_once),
        cmocka_unit_test(it_agrees_with_a_plain_list),
        cmocka_unit_test(states_lie_at_pages),
        cmocka_unit_test(states_agree_with_a_plain_list),
        cmocka_unit_test(nothing_is_allocated_later),
        cmocka_unit_test(no_memory_is_an_error),
        cmocka_unit_test(a_page_has_one_place),
    };
    return cmocka_run_group_tests_name("prefix_tree", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A node lives at the index of its page. Children are found through one hash table over the keys of
 * chains; the lists of children serve only the walk over all nodes.
 *
 * Invariants:
 *  1. A node is blocked while its page has another reference or one of its children is blocked:
 *     those that are not blocked are what eviction could free.
 *  2. The heap holds exactly the nodes that could be freed next: not blocked, no children. Its key
 *     is the last use.
 *  3. Pages that nobody has seen (first_new) are a list in the order in which they came. */
#include "kv/prefix_tree.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/math/rng.h"

#include <string.h>

enum { NONE = -1 };

/* A hash that is quick: what it finds is compared. */
typedef struct quick_key {
    uint64_t word[2];
} quick_key;

typedef struct node {
    whim_heap_node lru; /* first, so that the heap's node is this one */
    quick_key key;
    whim_prefix_key name;         /* where somebody is told of evictions */
    int32_t new_next, new_before; /* in the list of those that nobody has seen; NONE: an end */
    int32_t parent, child, next, before; /* NONE: none; children are a list */
    int32_t n_blocked;                   /* of the children */
    int32_t state;                       /* a slot of tree->states, NONE: none */
    bool used, blocked, is_new;
} node;

struct whim_prefix_tree {
    whim_page_pool *pool;
    whim_prefix_visit *on_evict;
    void *ctx;
    whim_page_pool *states; /* NULL: the model has none */
    int32_t *carrier;       /* [n_page of states] the page that carries each slot, NONE: none */
    node *nodes;            /* [n_page of the pool] */
    int32_t *tokens;        /* [n_page of the pool, page_len] */
    int32_t page_len;
    int32_t *table; /* [mask + 1] pages by key, NONE where empty; linear probing */
    uint64_t *lost; /* [mask + 1] first words of keys that were evicted */
    uint64_t mask;
    whim_heap lru;
    int32_t first; /* of the nodes without a parent */
    int32_t new_first, new_last;
    int64_t tick; /* uses so far */
    int64_t n_node, n_evictable, n_alone, n_evicted;
};

/* --- keys ------------------------------------------------------------------------------------- */

static void append_words(whim_sha256 *sum, const int32_t *words, int32_t n)
{
    uint8_t bytes[256]; /* little-endian, whatever the machine is */
    int32_t used = 0;
    for (int32_t i = 0; i < n; i++) {
        for (int b = 0; b < 4; b++) {
            bytes[used++] = (uint8_t)((uint32_t)words[i] >> (8 * b));
        }
        if (used == sizeof bytes || i == n - 1) {
            whim_sha256_add(sum, bytes, used);
            used = 0;
        }
    }
}

whim_prefix_key whim_prefix_key_next(const whim_prefix_key *parent, const int32_t *tokens,
                                     int32_t page_len)
{
    static const whim_prefix_key none = {{0}};
    whim_prefix_key key;
    whim_sha256 sum;
    whim_sha256_init(&sum);
    whim_sha256_add(&sum, parent != NULL ? parent : &none, sizeof none);
    append_words(&sum, tokens, page_len);
    whim_sha256_end(&sum, key.byte);
    return key;
}

static quick_key key_of(const whim_prefix_tree *tree, int32_t parent, const int32_t *tokens)
{
    uint64_t a = UINT64_C(0x3c6ef372fe94f82b), b = UINT64_C(0xbb67ae8584caa73b);
    if (parent != NONE) {
        a = tree->nodes[parent].key.word[0];
        b = tree->nodes[parent].key.word[1];
    }
    for (int32_t i = 0; i < tree->page_len; i += 2) {
        uint64_t pair = (uint64_t)(uint32_t)tokens[i] << 32 | (uint32_t)tokens[i + 1];
        a = whim_rng_mix((a ^ pair) + b);
        b = whim_rng_mix(b + pair + (a << 23 | a >> 41));
    }
    return (quick_key){{whim_rng_mix(a + b), whim_rng_mix(b ^ (a << 1 | a >> 63))}};
}

/* --- the table -------------------------------------------------------------------------------- */

static int32_t *tokens_of(const whim_prefix_tree *tree, int32_t page)
{
    return tree->tokens + (int64_t)page * tree->page_len;
}

static size_t tokens_bytes(const whim_prefix_tree *tree)
{
    return (size_t)tree->page_len * sizeof *tree->tokens;
}

static int32_t find(const whim_prefix_tree *tree, int32_t parent, const quick_key *key,
                    const int32_t *tokens)
{
    for (uint64_t i = key->word[0] & tree->mask; tree->table[i] != NONE; i = (i + 1) & tree->mask) {
        const node *n = &tree->nodes[tree->table[i]];
        if (n->key.word[0] == key->word[0] && n->key.word[1] == key->word[1] &&
            n->parent == parent &&
            memcmp(tokens_of(tree, tree->table[i]), tokens, tokens_bytes(tree)) == 0) {
            return tree->table[i];
        }
    }
    return NONE;
}

static void table_add(whim_prefix_tree *tree, int32_t page)
{
    uint64_t i = tree->nodes[page].key.word[0] & tree->mask;
    while (tree->table[i] != NONE) {
        i = (i + 1) & tree->mask;
    }
    tree->table[i] = page;
}

/* Close the gap, so that what was pushed past it is still found. */
static void table_remove(whim_prefix_tree *tree, int32_t page)
{
    uint64_t gap = tree->nodes[page].key.word[0] & tree->mask;
    while (tree->table[gap] != page) {
        gap = (gap + 1) & tree->mask;
    }
    for (uint64_t i = (gap + 1) & tree->mask; tree->table[i] != NONE; i = (i + 1) & tree->mask) {
        uint64_t home = tree->nodes[tree->table[i]].key.word[0] & tree->mask;
        if (((i - home) & tree->mask) >= ((i - gap) & tree->mask)) {
            tree->table[gap] = tree->table[i];
            gap = i;
        }
    }
    tree->table[gap] = NONE;
}

/* The child of `parent` for the page of tokens, or NONE. */
static int32_t child_of(const whim_prefix_tree *tree, int32_t parent, const int32_t *tokens)
{
    quick_key key = key_of(tree, parent, tokens);
    return find(tree, parent, &key, tokens);
}

/* The last node of the longest known beginning, or NONE; *n_page nodes lead to it. */
static int32_t deepest(const whim_prefix_tree *tree, const int32_t *tokens, int64_t n_tok,
                       int64_t *n_page)
{
    int32_t at = NONE;
    for (*n_page = 0; *n_page < n_tok / tree->page_len; ++*n_page) {
        int32_t child = child_of(tree, at, tokens + *n_page * tree->page_len);
        if (child == NONE) {
            break;
        }
        at = child;
    }
    return at;
}

/* --- who could be evicted --------------------------------------------------------------------- */

/* After anything about a node changed: is it blocked, is it next to go? Goes up as far as that
 * changes. */
static void update(whim_prefix_tree *tree, int32_t page)
{
    while (page != NONE) {
        node *n = &tree->nodes[page];
        bool blocked = tree->pool->refs[page] > 1 || n->n_blocked > 0;
        bool next_to_go = !blocked && n->child == NONE;
        if (next_to_go && n->lru.at == 0) {
            whim_heap_push(&tree->lru, &n->lru);
        } else if (!next_to_go && n->lru.at != 0) {
            whim_heap_remove(&tree->lru, &n->lru);
        }
        if (blocked == n->blocked) {
            return;
        }
        n->blocked = blocked;
        tree->n_evictable += blocked ? -1 : 1;
        page = n->parent;
        if (page != NONE) {
            tree->nodes[page].n_blocked += blocked ? 1 : -1;
        }
    }
}

static void share_changed(void *ctx, int32_t page)
{
    whim_prefix_tree *tree = ctx;
    if (tree->nodes[page].used) {
        tree->n_alone += tree->pool->refs[page] == 1 ? 1 : -1;
        update(tree, page);
    }
}

static void touch(whim_prefix_tree *tree, int32_t page)
{
    node *n = &tree->nodes[page];
    if (n->lru.at != 0) {
        whim_heap_move(&tree->lru, &n->lru, tree->tick);
    } else {
        n->lru.key = tree->tick;
    }
}

/* --- nodes ------------------------------------------------------------------------------------ */

static int32_t *first_child(whim_prefix_tree *tree, int32_t parent)
{
    return parent == NONE ? &tree->first : &tree->nodes[parent].child;
}

/* A page is new, or carries a new state. */
static void new_add(whim_prefix_tree *tree, int32_t page)
{
    node *n = &tree->nodes[page];
    if (n->is_new) {
        return;
    }
    n->is_new = true;
    n->new_next = NONE;
    n->new_before = tree->new_last;
    if (tree->new_last != NONE) {
        tree->nodes[tree->new_last].new_next = page;
    } else {
        tree->new_first = page;
    }
    tree->new_last = page;
}

static void new_remove(whim_prefix_tree *tree, int32_t page)
{
    node *n = &tree->nodes[page];
    if (!n->is_new) {
        return;
    }
    *(n->new_before != NONE ? &tree->nodes[n->new_before].new_next : &tree->new_first) =
        n->new_next;
    *(n->new_next != NONE ? &tree->nodes[n->new_next].new_before : &tree->new_last) = n->new_before;
    n->is_new = false;
}

static void visit(const whim_prefix_tree *tree, int32_t page, whim_prefix_visit *fn, void *ctx)
{
    const node *n = &tree->nodes[page];
    fn(ctx, page, n->state, &n->name, tokens_of(tree, page));
}

static void node_add(whim_prefix_tree *tree, int32_t parent, int32_t page, const quick_key *key,
                     const int32_t *tokens)
{
    node *n = &tree->nodes[page];
    whim_check(!n->used);
    whim_page_pool_ref(tree->pool, page);
    int32_t *first = first_child(tree, parent);
    *n = (node){.key = *key,
                .parent = parent,
                .child = NONE,
                .next = *first,
                .before = NONE,
                .state = NONE};
    n->lru.key = tree->tick;
    if (tree->on_evict != NULL) {
        n->name = whim_prefix_key_next(parent == NONE ? NULL : &tree->nodes[parent].name, tokens,
                                       tree->page_len);
        new_add(tree, page);
    }
    memcpy(tokens_of(tree, page), tokens, tokens_bytes(tree));
    if (*first != NONE) {
        tree->nodes[*first].before = page;
    }
    *first = page;
    n->used = true;
    table_add(tree, page);
    tree->n_node++;
    tree->n_evictable++; /* until update sees who else has it */
    update(tree, page);
    update(tree, parent);
}

static void drop_state(whim_prefix_tree *tree, int32_t page)
{
    node *n = &tree->nodes[page];
    if (n->state != NONE) {
        tree->carrier[n->state] = NONE;
        whim_page_pool_give(tree->states, n->state);
        n->state = NONE;
    }
}

static void node_drop(whim_prefix_tree *tree, int32_t page)
{
    node *n = &tree->nodes[page];
    drop_state(tree, page);
    new_remove(tree, page);
    whim_heap_remove(&tree->lru, &n->lru);
    if (n->before != NONE) {
        tree->nodes[n->before].next = n->next;
    } else {
        *first_child(tree, n->parent) = n->next;
    }
    if (n->next != NONE) {
        tree->nodes[n->next].before = n->before;
    }
    table_remove(tree, page);
    n->used = false;
    tree->n_node--;
    tree->n_evictable--;
    tree->n_alone--;
    update(tree, n->parent);
    whim_page_pool_give(tree->pool, page);
}

/* --- the calls -------------------------------------------------------------------------------- */

whim_err whim_prefix_tree_create(whim_page_pool *pool, whim_prefix_visit *on_evict, void *ctx,
                                 whim_prefix_tree **out)
{
    whim_prefix_tree *tree = whim_alloc(sizeof *tree);
    if (tree == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    int64_t slots = 16;
    while (slots < 2 * pool->n_page) {
        slots *= 2;
    }
    *tree = (whim_prefix_tree){.pool = pool, .on_evict = on_evict, .ctx = ctx, .first = NONE};
    tree->new_first = tree->new_last = NONE;
    tree->mask = (uint64_t)slots - 1;
    tree->page_len = pool->page_len;
    tree->nodes = whim_alloc_array(pool->n_page, sizeof *tree->nodes);
    tree->tokens = whim_alloc_array(pool->n_page, (int64_t)tokens_bytes(tree));
    tree->table = whim_alloc_array(slots, sizeof *tree->table);
    tree->lost = whim_alloc_array(slots, sizeof *tree->lost);
    if (tree->nodes == NULL || tree->tokens == NULL || tree->table == NULL || tree->lost == NULL ||
        whim_heap_reserve(&tree->lru, pool->n_page) != WHIM_ERR_OK) {
        whim_prefix_tree_destroy(tree);
        return WHIM_ERR_NO_MEMORY;
    }
    for (int64_t i = 0; i < slots; i++) {
        tree->table[i] = NONE;
    }
    whim_check(pool->on_share == NULL); /* one tree for a pool */
    pool->on_share = share_changed;
    pool->share_ctx = tree;
    *out = tree;
    return WHIM_ERR_OK;
}

void whim_prefix_tree_destroy(whim_prefix_tree *tree)
{
    if (tree == NULL) {
        return;
    }
    if (tree->pool->share_ctx == tree) {
        tree->pool->on_share = NULL;
        tree->pool->share_ctx = NULL;
    }
    for (int64_t page = 0; tree->n_node > 0; page++) {
        if (tree->nodes[page].used) {
            drop_state(tree, (int32_t)page);
            whim_page_pool_give(tree->pool, (int32_t)page);
            tree->n_node--;
        }
    }
    whim_heap_deinit(&tree->lru);
    whim_free(tree->nodes);
    whim_free(tree->tokens);
    whim_free(tree->table);
    whim_free(tree->lost);
    whim_free(tree->carrier);
    whim_free(tree);
}

int64_t whim_prefix_tree_match(whim_prefix_tree *tree, const int32_t *tokens, int64_t n_tok,
                               int32_t *pages)
{
    int32_t at = NONE;
    int64_t n = 0;
    tree->tick++;
    for (; n < n_tok / tree->page_len; n++) {
        int32_t child = child_of(tree, at, tokens + n * tree->page_len);
        if (child == NONE) {
            break;
        }
        at = pages[n] = child;
        whim_page_pool_ref(tree->pool, child);
        touch(tree, child);
    }
    return n;
}

int64_t whim_prefix_tree_peek(const whim_prefix_tree *tree, const int32_t *tokens, int64_t n_tok)
{
    int64_t n;
    deepest(tree, tokens, n_tok, &n);
    return n;
}

/* One page of a chain becomes known below `parent`; the page that the tree has for it. */
static int32_t insert_one(whim_prefix_tree *tree, int32_t parent, const int32_t *tokens,
                          int32_t page)
{
    quick_key key = key_of(tree, parent, tokens);
    int32_t child = find(tree, parent, &key, tokens);
    if (child == NONE) {
        node_add(tree, parent, page, &key, tokens);
        return page;
    }
    touch(tree, child);
    return child;
}

void whim_prefix_tree_insert(whim_prefix_tree *tree, const int32_t *tokens, const int32_t *pages,
                             int64_t n_page)
{
    int32_t at = NONE;
    tree->tick++;
    for (int64_t i = 0; i < n_page; i++) {
        at = insert_one(tree, at, tokens + i * tree->page_len, pages[i]);
    }
}

void whim_prefix_tree_merge(whim_prefix_tree *tree, const int32_t *tokens, int32_t *pages,
                            int64_t n_page)
{
    int32_t at = NONE;
    tree->tick++;
    for (int64_t i = 0; i < n_page; i++) {
        at = insert_one(tree, at, tokens + i * tree->page_len, pages[i]);
        if (at != pages[i]) {
            whim_page_pool_ref(tree->pool, at);
            whim_page_pool_give(tree->pool, pages[i]);
            pages[i] = at;
        }
    }
}

bool whim_prefix_tree_evict(whim_prefix_tree *tree, int64_t n_free)
{
    while (tree->pool->n_free < n_free) {
        const node *n = (const node *)whim_heap_top(&tree->lru);
        if (n == NULL) {
            return false;
        }
        int32_t page = (int32_t)(n - tree->nodes);
        if (tree->on_evict != NULL) {
            visit(tree, page, tree->on_evict, tree->ctx);
        }
        tree->lost[n->key.word[0] & tree->mask] = n->key.word[0];
        tree->n_evicted++;
        node_drop(tree, page);
    }
    return true;
}

int64_t whim_prefix_tree_evictable(const whim_prefix_tree *tree)
{
    return tree->n_evictable;
}

int64_t whim_prefix_tree_alone(const whim_prefix_tree *tree)
{
    return tree->n_alone;
}

int64_t whim_prefix_tree_evicted(const whim_prefix_tree *tree)
{
    return tree->n_evicted;
}

bool whim_prefix_tree_lost(const whim_prefix_tree *tree, const int32_t *tokens, int64_t n_tok)
{
    int64_t n;
    int32_t at = deepest(tree, tokens, n_tok, &n);
    if (n == n_tok / tree->page_len) {
        return false;
    }
    quick_key key = key_of(tree, at, tokens + n * tree->page_len);
    return tree->lost[key.word[0] & tree->mask] == key.word[0];
}

whim_err whim_prefix_tree_set_states(whim_prefix_tree *tree, whim_page_pool *states)
{
    whim_check(tree->states == NULL);
    tree->carrier = whim_alloc_array(states->n_page, sizeof *tree->carrier);
    if (tree->carrier == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    for (int64_t i = 0; i < states->n_page; i++) {
        tree->carrier[i] = NONE;
    }
    tree->states = states;
    return WHIM_ERR_OK;
}

bool whim_prefix_tree_keep_state(whim_prefix_tree *tree, const int32_t *tokens, int64_t n_page,
                                 int32_t slot)
{
    int64_t n;
    int32_t at = deepest(tree, tokens, n_page * tree->page_len, &n);
    if (n_page == 0 || n < n_page || tree->nodes[at].state != NONE) {
        return false;
    }
    whim_check(tree->carrier[slot] == NONE);
    whim_page_pool_ref(tree->states, slot);
    tree->nodes[at].state = slot;
    tree->carrier[slot] = at;
    if (tree->on_evict != NULL) {
        new_add(tree, at);
    }
    return true;
}

bool whim_prefix_tree_has_state(const whim_prefix_tree *tree, const int32_t *tokens, int64_t n_page)
{
    int64_t n;
    int32_t at = deepest(tree, tokens, n_page * tree->page_len, &n);
    return n_page > 0 && n == n_page && tree->nodes[at].state != NONE;
}

int64_t whim_prefix_tree_match_state(whim_prefix_tree *tree, const int32_t *tokens, int64_t n_tok,
                                     int32_t *pages, int32_t *slot)
{
    int64_t n;
    int32_t at = deepest(tree, tokens, n_tok, &n);
    for (; at != NONE && tree->nodes[at].state == NONE; n--) {
        at = tree->nodes[at].parent;
    }
    *slot = at == NONE ? NONE : tree->nodes[at].state;
    if (at != NONE) {
        whim_page_pool_ref(tree->states, *slot);
    }
    return whim_prefix_tree_match(tree, tokens, n * tree->page_len, pages);
}

bool whim_prefix_tree_evict_states(whim_prefix_tree *tree, int64_t n_free)
{
    while (tree->states->n_free < n_free) {
        int32_t oldest = NONE;
        for (int64_t i = 0; i < tree->states->n_page; i++) { /* states are large, so they are few */
            int32_t page = tree->carrier[i];
            if (page != NONE && tree->states->refs[i] == 1 &&
                (oldest == NONE || tree->nodes[page].lru.key < tree->nodes[oldest].lru.key)) {
                oldest = page;
            }
        }
        if (oldest == NONE) {
            return false;
        }
        if (tree->on_evict != NULL) {
            visit(tree, oldest, tree->on_evict, tree->ctx);
        }
        drop_state(tree, oldest);
    }
    return true;
}

void whim_prefix_tree_each(const whim_prefix_tree *tree, whim_prefix_visit *fn, void *ctx)
{
    for (int32_t at = tree->first; at != NONE;) {
        visit(tree, at, fn, ctx);
        int32_t next = tree->nodes[at].child;
        for (; next == NONE && at != NONE; at = tree->nodes[at].parent) {
            next = tree->nodes[at].next;
        }
        at = next;
    }
}

bool whim_prefix_tree_first_new(const whim_prefix_tree *tree, whim_prefix_visit *fn, void *ctx)
{
    if (tree->new_first != NONE) {
        visit(tree, tree->new_first, fn, ctx);
    }
    return tree->new_first != NONE;
}

void whim_prefix_tree_first_seen(whim_prefix_tree *tree)
{
    if (tree->new_first != NONE) {
        new_remove(tree, tree->new_first);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The prefix tree: which full pages of keys and values exist, by the tokens that made them. A node
 * is one page of page_len tokens, and its path from the root is all tokens before it. So a page is
 * found only under exactly the tokens that it was computed from (they are compared, not only
 * hashed).
 *
 * Invariants:
 *  1. The tree holds one reference of the pool on every page that it knows.
 *  2. A node is dropped only when it has no children and the tree's is the last reference.
 *  3. Least recently used goes first; a parent is never older than its children.
 *  4. The tree holds one reference on every state slot that a page of it carries.
 * Threads: one owner, the engine's. */
#ifndef WHIM_KV_PREFIX_TREE_H
#define WHIM_KV_PREFIX_TREE_H

#include "base/err.h"
#include "base/sha256.h"
#include "kv/page_pool.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_prefix_tree whim_prefix_tree;

/* The name outside the tree (the disk tier's key) of the tokens up to the end of a page: a SHA-256
 * of the page's tokens and of the key before it. Nobody can make two sequences of tokens with the
 * same key, and the key is the same on every machine. */
typedef struct whim_prefix_key {
    uint8_t byte[WHIM_SHA256_BYTES];
} whim_prefix_key;

/* Called for a page, and the state that it carries (-1: none): before one of them leaves the tree,
 * or by a walk over it. */
typedef void whim_prefix_visit(void *ctx, int32_t page, int32_t state, const whim_prefix_key *key,
                               const int32_t *tokens /* [page_len] */);

/* At most one node per page of the pool: all memory is taken here. `on_evict` may be NULL; then
 * keys are not computed. */
WHIM_MUST_CHECK whim_err whim_prefix_tree_create(whim_page_pool *pool, whim_prefix_visit *on_evict,
                                                 void *ctx, whim_prefix_tree **out);
void whim_prefix_tree_destroy(whim_prefix_tree *tree);

/* The longest known beginning of `tokens`: its pages go to `pages` (room for n_tok / page_len),
 * each with one more reference for the caller; returns how many. Counts as a use. */
int64_t whim_prefix_tree_match(whim_prefix_tree *tree, const int32_t *tokens, int64_t n_tok,
                               int32_t *pages);

/* How many pages match would give, without taking them or counting as a use. */
int64_t whim_prefix_tree_peek(const whim_prefix_tree *tree, const int32_t *tokens, int64_t n_tok);

/* Add the first n_page full pages of `tokens`. If the tree has a page for the same tokens already,
 * that one stays; otherwise the tree takes a reference on pages[i]. */
void whim_prefix_tree_insert(whim_prefix_tree *tree, const int32_t *tokens, const int32_t *pages,
                             int64_t n_page);

/* As insert. But if the tree has another page for the same tokens, pages[i] is given back, and
 * replaced by that one with a reference. So whoever holds pages in the tree holds all pages before
 * them, and the tree has no pages that can neither be used nor evicted. */
void whim_prefix_tree_merge(whim_prefix_tree *tree, const int32_t *tokens, int32_t *pages,
                            int64_t n_page);

/* Drop least recently used pages until the pool has `n_free` free ones; false if it cannot. */
bool whim_prefix_tree_evict(whim_prefix_tree *tree, int64_t n_free);

/* Pages that eviction could free at once, pages that the tree alone holds, and pages that were
 * evicted since the start. */
int64_t whim_prefix_tree_evictable(const whim_prefix_tree *tree);
int64_t whim_prefix_tree_alone(const whim_prefix_tree *tree);
int64_t whim_prefix_tree_evicted(const whim_prefix_tree *tree);

/* Whether the page after the longest known beginning of `tokens` was evicted not long ago, which
 * tells the reason of a miss. This is a guess from hashes: for pages that were never there it is
 * wrong with a probability of 2^-64. */
bool whim_prefix_tree_lost(const whim_prefix_tree *tree, const int32_t *tokens, int64_t n_tok);

/* --- states of recurrent models --------------------------------------------------------------- */

/* A recurrent model can continue only from a place where its state was kept. A page of the tree may
 * carry the state after its last token, in a slot of another pool; the tree holds a reference on
 * the slot. The state is dropped with its page, or before it if slots are wanted. */

/* The pool of the slots, once, before any of the calls below; it outlives the tree. */
WHIM_MUST_CHECK whim_err whim_prefix_tree_set_states(whim_prefix_tree *tree,
                                                     whim_page_pool *states);

/* Let the last of the first n_page pages of `tokens` carry `slot`. False, and nothing is taken, if
 * the tree does not have the page or the page carries a slot already. */
bool whim_prefix_tree_keep_state(whim_prefix_tree *tree, const int32_t *tokens, int64_t n_page,
                                 int32_t slot);

/* Whether the tree knows the first n_page pages of `tokens` and the last of them carries a
 * state. */
bool whim_prefix_tree_has_state(const whim_prefix_tree *tree, const int32_t *tokens,
                                int64_t n_page);

/* As match, but up to the last page that carries a state: *slot is that state's, with one more
 * reference for the caller; -1 where the answer is 0 pages. */
int64_t whim_prefix_tree_match_state(whim_prefix_tree *tree, const int32_t *tokens, int64_t n_tok,
                                     int32_t *pages, int32_t *slot);

/* Drop the states of least recently used pages, never the pages, until `n_free` slots are free;
 * states that somebody else holds stay. False when it cannot. */
bool whim_prefix_tree_evict_states(whim_prefix_tree *tree, int64_t n_free);

/* Call fn for every node, parents before children. */
void whim_prefix_tree_each(const whim_prefix_tree *tree, whim_prefix_visit *fn, void *ctx);

/* Call fn for the page that has waited longest since it, or the state that it carries, came into
 * the tree; false: there is none. Parents go before their children. It comes again until it is said
 * to be seen. */
bool whim_prefix_tree_first_new(const whim_prefix_tree *tree, whim_prefix_visit *fn, void *ctx);
void whim_prefix_tree_first_seen(whim_prefix_tree *tree);

/* The key of the page of page_len tokens (an even number) that ends a chain: parent is the key of
 * the page before, NULL for the first. */
whim_prefix_key whim_prefix_key_next(const whim_prefix_key *parent, const int32_t *tokens,
                                     int32_t page_len);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A vocabulary arranged for masks: its tokens as a tree of bytes. */
#include "grammar/mask.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TOKEN = 60000 }; /* bytes; longer tokens never come */

typedef struct item {
    const char *bytes;
    int32_t n, id;
} item;

static int by_bytes(const void *a, const void *b)
{
    const item *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, (size_t)(x->n < y->n ? x->n : y->n));
    return order != 0 ? order : x->n != y->n ? (x->n > y->n) - (x->n < y->n) : x->id - y->id;
}

static void note_bytes(whim_grammar_vocab *v, const char *bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        bool *has = &v->has_byte[(uint8_t)bytes[i]];
        v->n_byte += !*has;
        *has = true;
    }
}

/* Tokens that are text, in the order of their bytes; the others that have bytes are special. */
static int32_t gather(whim_grammar_vocab *v, item *items)
{
    int32_t n_item = 0;
    for (int32_t id = 0; id < v->n_id; id++) {
        int64_t n;
        const char *bytes = whim_tokenizer_bytes(v->tok, id, &n);
        if (n <= 0 || n > MAX_TOKEN || whim_ids_have(v->ends, v->n_end, id)) {
            continue;
        }
        v->max_bytes = n > v->max_bytes ? n : v->max_bytes;
        note_bytes(v, bytes, n);
        if (whim_tokenizer_is_special(v->tok, id)) {
            v->specials[v->n_special++] = id;
        } else {
            items[n_item++] = (item){bytes, (int32_t)n, id};
        }
    }
    qsort(items, (size_t)n_item, sizeof *items, by_bytes);
    return n_item;
}

static int32_t common(const item *a, const item *b)
{
    int32_t n = 0;
    while (n < a->n && n < b->n && a->bytes[n] == b->bytes[n]) {
        n++;
    }
    return n;
}

/* The nodes above from `depth` down to `to` get no more below them: `n` comes next. */
static void close_nodes(whim_grammar_vocab *v, const int32_t *open, int32_t n, int32_t depth,
                        int32_t to)
{
    for (; depth > to; depth--) {
        gtrie_node *node = &v->nodes[open[depth - 1]];
        node->skip = n;
        if (depth > 1) {
            gtrie_node *above = &v->nodes[open[depth - 2]];
            int32_t height = node->height < UINT8_MAX ? node->height + 1 : UINT8_MAX;
            above->height = (uint8_t)(height > above->height ? height : above->height);
        }
    }
}

/* What a token adds below the nodes above it. */
static void note_kinds(whim_grammar_vocab *v, const item *it, const int32_t *open)
{
    uint8_t kinds = 0, n_char = 0; /* of the characters from `end` on */
    int32_t end = it->n;
    for (int32_t at = it->n - 1; at > 0; at--) {
        uint8_t c = (uint8_t)it->bytes[at];
        bool inside = c >= 0x80 && c < 0xC0; /* a character */
        if (!inside || end - at > 3) {
            kinds |= whim_text_kind(it->bytes + at, end - at);
            n_char += n_char < UINT8_MAX;
            end = at;
        }
        gtrie_node *node = &v->nodes[open[at - 1]];
        node->below |= end == at ? kinds : GK_ELSE;
        node->n_char = n_char > node->n_char ? n_char : node->n_char;
    }
}

/* Nodes in the order of a walk: behind a token come the bytes that the next one adds. `open` are
 * the nodes above. */
static void fill(whim_grammar_vocab *v, const item *items, int32_t n_item, int32_t *open)
{
    int32_t n = 0, depth = 0;
    for (int32_t i = 0; i < n_item; i++) {
        int32_t same = i > 0 ? common(&items[i - 1], &items[i]) : 0;
        close_nodes(v, open, n, depth, same);
        depth = same < depth ? same : depth;
        for (; depth < items[i].n; depth++) {
            v->nodes[n] = (gtrie_node){.first_tok = i,
                                       .depth = (uint16_t)(depth + 1),
                                       .byte = (uint8_t)items[i].bytes[depth]};
            open[depth] = n++;
        }
        v->tokens[i] = items[i].id;
        note_kinds(v, &items[i], open);
    }
    close_nodes(v, open, n, depth, 0);
    v->nodes[n].first_tok = n_item;
    v->n_node = n;
}

static whim_err make_tree(whim_grammar_vocab *v)
{
    item *items = whim_alloc_array(v->n_id, sizeof *items);
    int32_t *open = NULL;
    v->specials = whim_alloc_array(v->n_id, sizeof *v->specials);
    bool ok = items != NULL && v->specials != NULL;
    if (ok) {
        int32_t n_item = gather(v, items);
        int64_t n_node = 1;
        for (int32_t i = 0; i < n_item; i++) {
            n_node += items[i].n - (i > 0 ? common(&items[i - 1], &items[i]) : 0);
        }
        ok = n_node < INT32_MAX;
        v->nodes = ok ? whim_alloc_array(n_node, sizeof *v->nodes) : NULL;
        v->tokens = whim_alloc_array(n_item, sizeof *v->tokens);
        open = whim_alloc_array(v->max_bytes, sizeof *open);
        ok = v->nodes != NULL && v->tokens != NULL && open != NULL;
        if (ok) {
            fill(v, items, n_item, open);
        }
    }
    whim_free(open);
    whim_free(items);
    return ok ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY;
}

/* The masks of strings without bounds, for all states of their rule. */
static whim_err make_string_entries(whim_grammar_vocab *v)
{
    whim_grammar_builder *b;
    gwalk w = {0};
    WHIM_TRY(whim_grammar_builder_create(NULL, &b));
    whim_err err = whim_grammar_build(b, whim_gb_json_string(b), &v->string, NULL);
    whim_grammar_builder_destroy(b);
    WHIM_TRY(err);
    int32_t n = v->string->n_string;
    gentry **entries = whim_alloc_array(n, sizeof *entries);
    err = entries == NULL ? WHIM_ERR_NO_MEMORY : whim_walk_init(&w, v->string, v->max_bytes);
    for (int32_t i = 0; i < n && err == WHIM_ERR_OK; i++) {
        entries[i] = whim_alloc(sizeof *entries[i]);
        if (entries[i] != NULL) {
            entries[i]->bits = whim_alloc_array(v->n_word, sizeof(uint32_t));
        }
        if (entries[i] == NULL || entries[i]->bits == NULL) {
            err = WHIM_ERR_NO_MEMORY;
            break;
        }
        whim_walk_one(&w, v->string->string_begin + i, w.frames[FRAME_BASE].self);
        whim_mask_below(&w, v, -1, entries[i]->bits, entries[i], NULL);
        err = w.failed ? WHIM_ERR_NO_MEMORY : WHIM_ERR_OK;
    }
    whim_walk_deinit(&w);
    v->string_entries = entries;
    return err;
}

whim_err whim_grammar_vocab_create(const whim_tokenizer *tok, const int32_t *ends, int32_t n_end,
                                   whim_grammar_vocab **out)
{
    static int64_t serials;
    whim_grammar_vocab *v = whim_alloc(sizeof *v);
    if (v == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    v->serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
    v->tok = tok;
    v->n_id = whim_tokenizer_count(tok);
    v->n_word = v->n_id / 32 + 1;
    v->ends = whim_alloc_array(n_end, sizeof *v->ends);
    for (int32_t i = 0; i < n_end && v->ends != NULL; i++) {
        if (ends[i] >= 0 && ends[i] < v->n_id) {
            v->ends[v->n_end++] = ends[i];
        }
    }
    whim_err err = v->ends == NULL ? WHIM_ERR_NO_MEMORY : make_tree(v);
    if (err == WHIM_ERR_OK) {
        err = make_string_entries(v);
    }
    if (err == WHIM_ERR_OK) {
        err = whim_vocab_find_lengths(v);
    }
    if (err != WHIM_ERR_OK) {
        whim_grammar_vocab_destroy(v);
        return err;
    }
    *out = v;
    return WHIM_ERR_OK;
}

const bool *whim_grammar_vocab_bytes(const whim_grammar_vocab *v)
{
    return v->n_byte < 256 ? v->has_byte : NULL;
}

void whim_grammar_vocab_destroy(whim_grammar_vocab *v)
{
    if (v == NULL) {
        return;
    }
    for (int32_t i = 0; v->string_entries != NULL && i < v->string->n_string; i++) {
        whim_entry_free(v->string_entries[i]);
    }
    whim_free(v->string_entries);
    whim_free(v->n_char);
    whim_free(v->closes);
    whim_free(v->pop_n_char);
    whim_grammar_unref(v->string);
    whim_free(v->nodes);
    whim_free(v->tokens);
    whim_free(v->ends);
    whim_free(v->specials);
    whim_free(v);
}

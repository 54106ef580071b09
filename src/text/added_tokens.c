/* SPDX-License-Identifier: Apache-2.0 */
/* The trie of added tokens and the search in it. */
#include "text/added_tokens.h"

#include "base/utf8.h"

#include <string.h>
#include <utf8proc.h>

static int32_t find_child(const whim_added_set *set, int32_t node, uint8_t byte)
{
    int32_t child = set->nodes[node].child;
    while (child >= 0 && set->nodes[child].byte != byte) {
        child = set->nodes[child].sibling;
    }
    return child;
}

whim_err whim_added_build(whim_added_set *set, whim_arena *arena, const whim_added_token *tokens,
                          int32_t n)
{
    *set = (whim_added_set){.tokens = tokens, .n_token = n};
    int64_t total = 1;
    for (int32_t i = 0; i < n; i++) {
        total += (int64_t)strlen(tokens[i].content);
    }
    set->nodes = whim_arena_alloc_array(arena, total, sizeof *set->nodes);
    if (set->nodes == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    set->nodes[0] = (whim_added_node){.child = -1, .sibling = -1, .token = -1};
    int32_t used = 1;
    for (int32_t i = 0; i < n; i++) {
        int32_t node = 0;
        const uint8_t *content = (const uint8_t *)tokens[i].content;
        set->first[content[0]] = content[0] != 0;
        set->has_plain |= tokens[i].plain;
        for (; *content != 0; content++) {
            int32_t child = find_child(set, node, *content);
            if (child < 0) {
                child = used++;
                set->nodes[child] = (whim_added_node){
                    .child = -1, .sibling = set->nodes[node].child, .token = -1, .byte = *content};
                set->nodes[node].child = child;
            }
            node = child;
        }
        if (node != 0 && set->nodes[node].token < 0) {
            set->nodes[node].token = i;
        }
    }
    return WHIM_ERR_OK;
}

bool whim_added_is_plain(const char *content, bool special)
{
    return !special && strpbrk(content, "<>[]{}|") == NULL && strstr(content, "｜") == NULL;
}

/* The longest token at `at`, or NULL; its end in *end. */
static const whim_added_token *longest(const whim_added_iter *iter, int64_t at, int64_t *end)
{
    const whim_added_set *set = iter->set;
    const whim_added_token *best = NULL;
    bool trusted = !iter->none;
    int32_t node = 0;
    while (at < iter->n) {
        trusted = trusted && (iter->mask == NULL || iter->mask[at] != 0);
        node = trusted || set->has_plain ? find_child(set, node, (uint8_t)iter->text[at]) : -1;
        if (node < 0) {
            break;
        }
        at++;
        int32_t token = set->nodes[node].token;
        if (token >= 0 && (trusted || set->tokens[token].plain)) {
            best = &set->tokens[token];
            *end = at;
        }
    }
    return best;
}

/* Letters, marks, decimal digits, connectors, joiners. */
static bool is_word(int32_t cp)
{
    utf8proc_category_t cat = utf8proc_category(cp); /* ordered: letters, marks, numbers */
    /* The joiners, and the letters in circles and squares, which are symbols by category. */
    return (cat >= UTF8PROC_CATEGORY_LU && cat <= UTF8PROC_CATEGORY_NL) ||
           cat == UTF8PROC_CATEGORY_PC || cp == 0x200C || cp == 0x200D ||
           (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) ||
           (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189);
}

static bool word_before(const whim_added_iter *iter, int64_t at)
{
    if (at == 0) {
        return false;
    }
    int64_t begin = whim_utf8_before(iter->text, at);
    return is_word(whim_utf8_decode(iter->text + begin, (int32_t)(at - begin)));
}

static bool word_after(const whim_added_iter *iter, int64_t at)
{
    return at < iter->n &&
           is_word(whim_utf8_decode(iter->text + at, whim_utf8_len(iter->text[at])));
}

bool whim_added_next(whim_added_iter *iter, whim_added_match *match)
{
    while (iter->at < iter->n) {
        int64_t at = iter->at;
        if (!iter->set->first[(uint8_t)iter->text[at]]) {
            iter->at++;
            continue;
        }
        int64_t end = at;
        const whim_added_token *token = longest(iter, at, &end);
        if (token == NULL) {
            iter->at++;
            continue;
        }
        iter->at = end;
        if (token->single_word && (word_before(iter, at) || word_after(iter, end))) {
            continue;
        }
        *match = (whim_added_match){.token = token, .begin = at, .end = end};
        if (token->lstrip) {
            match->begin = whim_utf8_space_before(iter->text, iter->done, at);
        }
        if (token->rstrip) {
            match->end = whim_utf8_skip_space(iter->text, end, iter->n);
        }
        iter->done = match->end;
        iter->at = match->end;
        return true;
    }
    return false;
}

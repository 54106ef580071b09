/* SPDX-License-Identifier: Apache-2.0 */
/* The builder: nodes, their limits, and the calls that make them. */
#include "grammar/impl.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NODES = 200000, MAX_DEPTH = 64, MAX_MS = 2000 };

whim_err whim_grammar_builder_create(const whim_grammar_limits *limits, whim_grammar_builder **out)
{
    whim_grammar_builder *b = whim_alloc(sizeof *b);
    if (b == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    b->limits = limits != NULL ? *limits : (whim_grammar_limits){0};
    b->limits.max_nodes = b->limits.max_nodes > 0 ? b->limits.max_nodes : MAX_NODES;
    b->limits.max_depth = b->limits.max_depth > 0 ? b->limits.max_depth : MAX_DEPTH;
    b->limits.max_ns = b->limits.max_ns > 0 ? b->limits.max_ns : MAX_MS * WHIM_NS_PER_MS;
    b->deadline = whim_clock_read(CLOCK_THREAD_CPUTIME_ID) + b->limits.max_ns;
    b->string_rule = b->value_rule = b->number_rule = b->integer_rule = -1;
    *out = b;
    return WHIM_ERR_OK;
}

void whim_grammar_builder_destroy(whim_grammar_builder *b)
{
    if (b == NULL) {
        return;
    }
    for (int64_t i = 0; i < b->n_rule; i++) {
        whim_free(b->rules[i].path);
    }
    for (int64_t i = 0; i < b->n_mark; i++) {
        whim_free(b->marks[i]);
    }
    json_decref(b->made);
    whim_matchers_deinit(b);
    whim_product_deinit(&b->product);
    whim_free(b->nodes);
    whim_free(b->kids);
    whim_free(b->bytes);
    whim_free(b->ranges);
    whim_free(b->rules);
    whim_free(b->marks);
    whim_free(b);
}

/* --- failing ---------------------------------------------------------------------------------- */

int32_t whim_gb_fail(whim_grammar_builder *b, whim_err err, const char *fmt, ...)
{
    if (b->err == WHIM_ERR_OK) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(b->diag.text, sizeof b->diag.text, fmt, ap);
        va_end(ap);
        b->err = err;
    }
    return -1;
}

bool whim_gb_late(whim_grammar_builder *b)
{
    if (whim_clock_read(CLOCK_THREAD_CPUTIME_ID) > b->deadline) {
        whim_gb_fail(b, WHIM_ERR_INVALID,
                     "the grammar took longer than %lld ms to compile: make it simpler",
                     (long long)(b->limits.max_ns / WHIM_NS_PER_MS));
    }
    return whim_gb_failed(b);
}

static int32_t too_large(whim_grammar_builder *b)
{
    return whim_gb_fail(b, WHIM_ERR_INVALID,
                        "the grammar is too large: it has more than %lld parts; use smaller lists, "
                        "bounds and repetitions",
                        (long long)b->limits.max_nodes);
}

int32_t whim_gb_no_memory(whim_grammar_builder *b)
{
    return whim_gb_fail(b, WHIM_ERR_NO_MEMORY, "no memory for the grammar");
}

bool whim_gb_grow(whim_grammar_builder *b, void *array, int64_t need, int64_t *cap, int64_t size)
{
    return whim_grow(array, need, cap, size) || whim_gb_no_memory(b) >= 0;
}

int32_t whim_gb_append(whim_grammar_builder *b, void *array, int64_t *n, int64_t *cap,
                       const void *items, int64_t count, int64_t size)
{
    if (whim_gb_failed(b) || !whim_gb_grow(b, array, *n + count, cap, size)) {
        return -1;
    }
    char *to;
    memcpy(&to, array, sizeof to);
    if (count > 0) {
        memcpy(to + *n * size, items, (size_t)(count * size));
    }
    *n += count;
    return (int32_t)(*n - count);
}

void *whim_gb_alloc(whim_grammar_builder *b, int64_t count, int64_t size)
{
    void *ptr = whim_alloc_array(count, size);
    if (ptr == NULL) {
        whim_gb_no_memory(b);
    }
    return ptr;
}

static char *copy_text(whim_grammar_builder *b, const char *text, int64_t n)
{
    char *copy = whim_gb_alloc(b, n + 1, 1);
    return copy == NULL ? NULL : memcpy(copy, text, (size_t)n);
}

/* --- nodes ------------------------------------------------------------------------------------ */

int32_t whim_gb_node(whim_grammar_builder *b, gnode node)
{
    if (whim_gb_failed(b) || (b->n_node % 1024 == 0 && whim_gb_late(b))) {
        return -1;
    }
    if (b->n_node >= b->limits.max_nodes) {
        return too_large(b);
    }
    return whim_gb_append(b, &b->nodes, &b->n_node, &b->cap_node, &node, 1, sizeof node);
}

int32_t whim_gb_bytes(whim_grammar_builder *b, const char *bytes, int64_t n)
{
    if (n > b->limits.max_nodes - b->n_byte) {
        return too_large(b);
    }
    int32_t at = whim_gb_append(b, &b->bytes, &b->n_byte, &b->cap_byte, bytes, n, 1);
    return whim_gb_node(b, (gnode){.kind = n > 0 ? GN_BYTES : GN_EMPTY, .a = at, .b = (int32_t)n});
}

int32_t whim_gb_text(whim_grammar_builder *b, const char *text)
{
    return whim_gb_bytes(b, text, (int64_t)strlen(text));
}

/* A node with kids; -1 when one of them is. */
static int32_t parent(whim_grammar_builder *b, gnode node, const int32_t *kids, int64_t n)
{
    if (n > 8 * b->limits.max_nodes - b->n_kid) {
        return too_large(b);
    }
    for (int64_t i = 0; i < n; i++) {
        if (kids[i] < 0) {
            return whim_gb_fail(b, WHIM_ERR_INVALID, "a part of the grammar is missing");
        }
    }
    node.a = whim_gb_append(b, &b->kids, &b->n_kid, &b->cap_kid, kids, n, sizeof *kids);
    node.b = (int32_t)n;
    return whim_gb_node(b, node);
}

whim_grammar_node whim_grammar_seq(whim_grammar_builder *b, const whim_grammar_node *parts,
                                   int64_t n)
{
    return n == 1 ? parts[0] : parent(b, (gnode){.kind = GN_SEQ}, parts, n);
}

whim_grammar_node whim_grammar_any_of(whim_grammar_builder *b, const whim_grammar_node *parts,
                                      int64_t n)
{
    return n == 1 ? parts[0] : parent(b, (gnode){.kind = GN_ANY_OF}, parts, n);
}

int32_t whim_gb_members(whim_grammar_builder *b, const int32_t *triples, int64_t n_member,
                        bool at_least_one)
{
    gnode node = {.kind = GN_MEMBERS, .lo = at_least_one, .hi = whim_gb_comma(b)};
    return parent(b, node, triples, 3 * n_member);
}

whim_grammar_node whim_grammar_repeat(whim_grammar_builder *b, whim_grammar_node part,
                                      int64_t least, int64_t most)
{
    if (part < 0 || whim_gb_failed(b)) {
        return whim_gb_fail(b, WHIM_ERR_INVALID, "a part of the grammar is missing");
    }
    if (least < 0 || (most >= 0 && most < least)) {
        return whim_gb_fail(b, WHIM_ERR_INVALID, "a repetition of %lld to %lld times cannot be",
                            (long long)least, (long long)most);
    }
    return least == 1 && most == 1
               ? part
               : whim_gb_node(b, (gnode){.kind = GN_REPEAT, .a = part, .lo = least, .hi = most});
}

int32_t whim_gb_optional(whim_grammar_builder *b, int32_t part)
{
    return whim_grammar_repeat(b, part, 0, 1);
}

int32_t whim_gb_pair(whim_grammar_builder *b, gnode_kind kind, int32_t one, int32_t two)
{
    return one < 0 || two < 0 ? -1 : whim_gb_node(b, (gnode){.kind = kind, .a = one, .b = two});
}

int32_t whim_gb_never(whim_grammar_builder *b)
{
    return whim_gb_node(b, (gnode){.kind = GN_NEVER});
}

int32_t whim_gb_digits(whim_grammar_builder *b, char lo, char hi, int64_t least, int64_t most)
{
    grange range = {lo, hi};
    return lo > hi ? whim_gb_never(b)
                   : whim_grammar_repeat(b, whim_gb_chars(b, &range, 1), least,
                                         most > least ? most : least);
}

void whim_glist_add(whim_grammar_builder *b, glist *list, int32_t part)
{
    (void)whim_gb_append(b, &list->ids, &list->n, &list->cap, &part, 1, sizeof part);
}

int32_t whim_glist_node(whim_grammar_builder *b, glist *list, gnode_kind kind)
{
    int32_t node = whim_gb_failed(b) ? -1
                   : list->n == 1    ? list->ids[0]
                                     : parent(b, (gnode){.kind = kind}, list->ids, list->n);
    whim_free(list->ids);
    return node;
}

int32_t whim_gb_chars(whim_grammar_builder *b, const grange *ranges, int32_t n)
{
    if (b->n_range + n > 8 * b->limits.max_nodes) {
        return too_large(b);
    }
    int32_t at =
        whim_gb_append(b, &b->ranges, &b->n_range, &b->cap_range, ranges, n, sizeof *ranges);
    /* One more: cleaning may split a range. */
    if (at < 0 || !whim_gb_grow(b, &b->ranges, b->n_range + 1, &b->cap_range, sizeof *ranges)) {
        return -1;
    }
    int32_t kept = whim_ranges_clean(b->ranges + at, n);
    b->n_range = at + kept;
    return whim_gb_node(b, (gnode){.kind = kept > 0 ? GN_CHARS : GN_NEVER, .a = at, .b = kept});
}

int32_t whim_gb_rule(whim_grammar_builder *b, const void *schema, const char *path)
{
    if (whim_gb_failed(b)) {
        return -1;
    }
    if (b->n_rule >= b->limits.max_nodes) {
        return too_large(b);
    }
    grule rule = {.node = -1, .schema = schema, .path = copy_text(b, path, (int64_t)strlen(path))};
    int32_t at = whim_gb_append(b, &b->rules, &b->n_rule, &b->cap_rule, &rule, 1, sizeof rule);
    if (at < 0) {
        whim_free(rule.path);
    }
    return at;
}

int32_t whim_gb_call(whim_grammar_builder *b, int32_t rule)
{
    return rule < 0 ? -1 : whim_gb_node(b, (gnode){.kind = GN_CALL, .a = rule});
}

/* --- texts of the caller ---------------------------------------------------------------------- */

static bool keep_mark(whim_grammar_builder *b, const char *text, int64_t n)
{
    char *copy = copy_text(b, text, n);
    bool kept = whim_gb_append(b, &b->marks, &b->n_mark, &b->cap_mark, &copy, 1, sizeof copy) >= 0;
    if (!kept) {
        whim_free(copy);
    }
    return kept;
}

whim_grammar_node whim_grammar_literal(whim_grammar_builder *b, const char *bytes, int64_t n)
{
    return keep_mark(b, bytes, n) ? whim_gb_bytes(b, bytes, n) : -1;
}

/* What has a mark at its end and none before (`ends`), or none at all: a text less those that go on
 * behind a mark. */
static int32_t text_node(whim_grammar_builder *b, const char *const *marks, int32_t n, bool ends)
{
    grange all = {0, GC_MAX};
    if (whim_gb_failed(b)) {
        return -1;
    }
    int32_t kids[32];
    if (n > 32) {
        return whim_gb_fail(b, WHIM_ERR_INVALID, "a text may have at most 32 marks, not %d", n);
    }
    for (int32_t i = 0; i < n; i++) {
        int64_t len = (int64_t)strlen(marks[i]);
        if (len == 0 || whim_utf8_valid_prefix(marks[i], len) != len) {
            return whim_gb_fail(b, WHIM_ERR_INVALID, "a mark must be a text of UTF-8, not empty");
        }
        kids[i] = keep_mark(b, marks[i], len) ? whim_gb_bytes(b, marks[i], len) : -1;
    }
    int32_t one = whim_gb_chars(b, &all, 1), any = whim_grammar_repeat(b, one, 0, -1);
    int32_t marked = whim_gb_seq(b, any, whim_grammar_any_of(b, kids, n));
    return ends ? whim_gb_pair(b, GN_BUT_NOT, marked, whim_gb_seq(b, marked, one, any))
                : whim_gb_pair(b, GN_BUT_NOT, any, whim_gb_seq(b, marked, any));
}

whim_grammar_node whim_grammar_until(whim_grammar_builder *b, const char *mark)
{
    return text_node(b, &mark, 1, true);
}

whim_grammar_node whim_grammar_text_without(whim_grammar_builder *b, const char *const *marks,
                                            int32_t n)
{
    return text_node(b, marks, n, false);
}

whim_grammar_node whim_grammar_regex(whim_grammar_builder *b, const char *pattern, const char *path)
{
    return whim_gb_failed(b) ? -1 : whim_gb_regex(b, pattern, (gregex_mode){0}, path);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How long the texts of a part can be, from the part alone: where they are within the lengths that
 * a schema asks for anyway, nothing needs to be counted. */
#include "grammar/schema/schema.h"

typedef struct extent {
    int64_t least, most; /* characters; at least as few, at most as many as any text has */
} extent;

static const int64_t unknown = INT64_C(1) << 40; /* and all that is more */

static int64_t capped(int64_t n)
{
    return n < unknown ? n : unknown;
}

static extent extent_of(const whim_grammar_builder *b, int32_t index)
{
    const gnode *node = &b->nodes[index];
    extent sum = {0, 0}, part;
    switch (node->kind) {
    case GN_EMPTY:
        return sum;
    case GN_BYTES: /* which may be one escaped character */
        return (extent){1, node->b};
    case GN_CHARS:
        return (extent){1, 1};
    case GN_SEQ:
        for (int32_t i = 0; i < node->b; i++) {
            part = extent_of(b, b->kids[node->a + i]);
            sum = (extent){capped(sum.least + part.least), capped(sum.most + part.most)};
        }
        return sum;
    case GN_ANY_OF:
        sum.least = unknown;
        for (int32_t i = 0; i < node->b; i++) {
            part = extent_of(b, b->kids[node->a + i]);
            sum.least = part.least < sum.least ? part.least : sum.least;
            sum.most = part.most > sum.most ? part.most : sum.most;
        }
        return sum;
    case GN_REPEAT:
        part = extent_of(b, node->a);
        if (node->hi < 0 || node->hi > INT32_MAX || part.most > INT32_MAX) {
            return (extent){node->lo > 0 ? part.least : 0, unknown};
        }
        return (extent){node->lo * part.least, capped(node->hi * part.most)};
    case GN_BOTH:
    case GN_BUT_NOT:
        return extent_of(b, node->a);
    default:
        return (extent){0, unknown};
    }
}

bool whim_gb_is_within(const whim_grammar_builder *b, int32_t node, int64_t lo, int64_t hi)
{
    extent texts = extent_of(b, node);
    return texts.least >= lo && (hi < 0 || texts.most <= hi);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair merging: a scan for short pieces, a heap over a linked list for long ones. */
#include "text/bpe.h"

#include "base/alloc.h"
#include "base/turn.h"
#include "base/utf8.h"

#include <string.h>

enum {
    NO_RANK = INT32_MAX,
    SCAN_MAX = 24,         /* symbols up to which scanning all pairs beats the heap */
    TURN_MERGES = 1 << 15, /* after so many others may have a turn: some 10 ms */
};

typedef struct whim_bpe_symbol {
    int32_t id;
    int32_t prev, next; /* -1 at the ends; unused by the scan */
    int32_t rank;       /* of the pair with the next symbol, NO_RANK if there is none */
    int32_t merged;     /* the id that pair becomes */
} symbol;

static uint32_t pair_slot(const whim_bpe *bpe, uint64_t pair)
{
    uint64_t h = pair * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32) & bpe->mask;
}

/* The token of one character; special tokens are not for plain text. */
static int32_t find_char(const whim_vocab *vocab, const char *text, int32_t n)
{
    int32_t id = whim_vocab_find(vocab, text, n);
    return id >= 0 && (vocab->tokens[id].flags & WHIM_TOKEN_SPECIAL) != 0 ? -1 : id;
}

whim_err whim_bpe_init(whim_bpe *bpe, const whim_vocab *vocab, whim_arena *arena, int64_t n_merge)
{
    *bpe = (whim_bpe){.vocab = vocab, .unk = -1};
    uint32_t size = 16;
    while (size < n_merge + n_merge / 2) {
        size *= 2;
    }
    bpe->merges = whim_arena_alloc_array(arena, size, sizeof *bpe->merges);
    if (bpe->merges == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    memset(bpe->merges, 0xFF, size * sizeof *bpe->merges);
    bpe->mask = size - 1;
    for (int32_t cp = 0; cp < 0x180; cp++) {
        char text[4];
        bpe->low_ids[cp] = find_char(vocab, text, whim_utf8_encode(cp, text));
    }
    for (int32_t byte = 0; byte < 256; byte++) {
        bpe->byte_ids[byte] = whim_vocab_find_byte(vocab, (uint8_t)byte);
    }
    return WHIM_ERR_OK;
}

void whim_bpe_add_merge(whim_bpe *bpe, int32_t left, int32_t right, int32_t rank, int32_t id)
{
    if ((bpe->vocab->tokens[id].flags & WHIM_TOKEN_SPECIAL) != 0) {
        return; /* plain text must not be able to spell a special token */
    }
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint32_t slot = pair_slot(bpe, pair);
    while (bpe->merges[slot].pair != UINT64_MAX && bpe->merges[slot].pair != pair) {
        slot = (slot + 1) & bpe->mask;
    }
    bpe->merges[slot] = (whim_merge){.pair = pair, .rank = rank, .id = id};
}

static void rank_pair(const whim_bpe *bpe, symbol *left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left->id << 32 | (uint32_t)right;
    for (uint32_t slot = pair_slot(bpe, pair);; slot = (slot + 1) & bpe->mask) {
        const whim_merge *m = &bpe->merges[slot];
        if (m->pair == pair) {
            left->rank = m->rank;
            left->merged = m->id;
            return;
        }
        if (m->pair == UINT64_MAX) {
            left->rank = NO_RANK;
            return;
        }
    }
}

bool whim_bpe_can_cut_at_marks(const whim_vocab *vocab)
{
    for (int32_t id = 0; id < vocab->count; id++) {
        const whim_token *t = &vocab->tokens[id];
        for (int32_t i = 1; i + 3 <= t->n_text; i++) {
            if (memcmp(t->text + i, WHIM_SPACE_MARK, 3) == 0 &&
                (i < 3 || memcmp(t->text + i - 3, WHIM_SPACE_MARK, 3) != 0)) {
                return false;
            }
        }
    }
    return true;
}

/* Room for `n` symbols. */
static whim_err reserve(whim_bpe_scratch *s, int64_t n)
{
    if (n <= s->cap) {
        return WHIM_ERR_OK;
    }
    int64_t cap = 2 * n + 64;
    whim_bpe_scratch_deinit(s);
    s->symbols = whim_alloc_array(cap, sizeof *s->symbols);
    s->heap = whim_alloc_array(cap, 3 * sizeof *s->heap); /* each merge adds at most two entries */
    s->cap = s->symbols != NULL && s->heap != NULL ? cap : 0;
    return s->cap > 0 ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY;
}

void whim_bpe_scratch_deinit(whim_bpe_scratch *s)
{
    whim_free(s->symbols);
    whim_free(s->heap);
    s->symbols = NULL;
    s->heap = NULL;
    s->cap = 0;
}

/* Pushes bytes of a character without a token; false if one of them has none either. */
static bool push_bytes(const whim_bpe *bpe, const char *text, int32_t n, symbol *to, int64_t *count)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t id = bpe->byte_ids[(uint8_t)text[i]];
        if (id < 0) {
            return false;
        }
        to[*count + i].id = id;
    }
    *count += n;
    return true;
}

/* The symbols before any merge. A pending unk is written when the next known character comes. */
static int64_t split_chars(const whim_bpe *bpe, const char *piece, int64_t n, symbol *to)
{
    int64_t count = 0;
    bool pending = false;
    for (int64_t i = 0; i < n;) {
        int32_t len = whim_utf8_len(piece[i]);
        int32_t id;
        if (len <= 2) {
            int32_t cp = whim_utf8_decode(piece + i, len);
            id = cp < 0x180 ? bpe->low_ids[cp] : find_char(bpe->vocab, piece + i, len);
        } else {
            id = find_char(bpe->vocab, piece + i, len);
        }
        if (id >= 0) {
            if (pending) {
                to[count++].id = bpe->unk;
                pending = false;
            }
            to[count++].id = id;
        } else if ((!bpe->byte_fallback || !push_bytes(bpe, piece + i, len, to, &count)) &&
                   bpe->unk >= 0) {
            if (pending && !bpe->fuse_unk) {
                to[count++].id = bpe->unk;
            }
            pending = true;
        }
        i += len;
    }
    if (pending) {
        to[count++].id = bpe->unk;
    }
    return count;
}

static int64_t merge_by_scan(const whim_bpe *bpe, symbol *s, int64_t n, int64_t *steps)
{
    for (int64_t i = 0; i + 1 < n; i++) {
        rank_pair(bpe, &s[i], s[i + 1].id);
    }
    while (n > 1) {
        int64_t best = 0;
        for (int64_t i = 1; i + 1 < n; i++) {
            if (s[i].rank < s[best].rank) {
                best = i;
            }
        }
        *steps += n;
        if (s[best].rank == NO_RANK) {
            break;
        }
        s[best].id = s[best].merged;
        memmove(&s[best + 1], &s[best + 2], (size_t)(n - best - 2) * sizeof *s);
        n--;
        if (best + 1 < n) {
            rank_pair(bpe, &s[best], s[best + 1].id);
        }
        if (best > 0) {
            rank_pair(bpe, &s[best - 1], s[best].id);
        }
    }
    return n;
}

/* A heap entry is rank and position; it is stale when the symbol there has another rank by now. */
static uint64_t heap_entry(const symbol *s, int32_t at)
{
    return (uint64_t)(uint32_t)s[at].rank << 32 | (uint32_t)at;
}

static void sift_down(uint64_t *heap, int64_t n, int64_t at, int64_t *steps)
{
    uint64_t entry = heap[at];
    for (;;) {
        int64_t child = 4 * at + 1;
        if (child >= n) {
            break;
        }
        int64_t end = child + 4 < n ? child + 4 : n;
        int64_t least = child;
        for (int64_t i = child + 1; i < end; i++) {
            least = heap[i] < heap[least] ? i : least;
        }
        (*steps)++;
        if (heap[least] >= entry) {
            break;
        }
        heap[at] = heap[least];
        at = least;
    }
    heap[at] = entry;
}

static void heap_push(uint64_t *heap, int64_t *n, uint64_t entry, int64_t *steps)
{
    int64_t at = (*n)++;
    while (at > 0 && heap[(at - 1) / 4] > entry) {
        heap[at] = heap[(at - 1) / 4];
        at = (at - 1) / 4;
        (*steps)++;
    }
    heap[at] = entry;
    (*steps)++;
}

static void rank_and_push(const whim_bpe *bpe, symbol *s, int32_t at, uint64_t *heap, int64_t *n,
                          int64_t *steps)
{
    rank_pair(bpe, &s[at], s[s[at].next].id);
    if (s[at].rank != NO_RANK) {
        heap_push(heap, n, heap_entry(s, at), steps);
    }
}

static int64_t merge_by_heap(const whim_bpe *bpe, symbol *s, int64_t n, uint64_t *heap,
                             int64_t *steps)
{
    int64_t n_heap = 0;
    for (int32_t i = 0; i < n; i++) {
        s[i].prev = i - 1;
        s[i].next = i + 1 < n ? i + 1 : -1;
        s[i].rank = NO_RANK;
        if (i % TURN_MERGES == TURN_MERGES - 1) {
            whim_turn_give();
        }
        if (i + 1 < n) {
            rank_pair(bpe, &s[i], s[i + 1].id);
        }
        if (s[i].rank != NO_RANK) {
            heap[n_heap++] = heap_entry(s, i);
        }
    }
    for (int64_t i = n_heap / 4; i >= 0 && n_heap > 0; i--) {
        sift_down(heap, n_heap, i, steps);
    }
    for (int64_t n_taken = 1; n_heap > 0; n_taken++) {
        uint64_t top = heap[0];
        if (n_taken % TURN_MERGES == 0) {
            whim_turn_give();
        }
        heap[0] = heap[--n_heap];
        if (n_heap > 0) {
            sift_down(heap, n_heap, 0, steps);
        }
        int32_t at = (int32_t)(uint32_t)top;
        if ((int32_t)(top >> 32) != s[at].rank) {
            continue;
        }
        int32_t gone = s[at].next;
        s[at].id = s[at].merged;
        s[at].next = s[gone].next;
        s[at].rank = NO_RANK;
        s[gone].rank = NO_RANK;
        s[gone].id = -1;
        if (s[at].next >= 0) {
            s[s[at].next].prev = at;
            rank_and_push(bpe, s, at, heap, &n_heap, steps);
        }
        if (s[at].prev >= 0) {
            rank_and_push(bpe, s, s[at].prev, heap, &n_heap, steps);
        }
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        if (s[i].id >= 0) {
            s[kept++].id = s[i].id;
        }
    }
    return kept;
}

static whim_err encode_part(const whim_bpe *bpe, const char *part, int64_t n, whim_bpe_scratch *s,
                            whim_ids *out)
{
    WHIM_TRY(reserve(s, n));
    int64_t count = split_chars(bpe, part, n, s->symbols);
    if (count <= SCAN_MAX) {
        count = merge_by_scan(bpe, s->symbols, count, &s->steps);
    } else {
        count = merge_by_heap(bpe, s->symbols, count, s->heap, &s->steps);
    }
    for (int64_t i = 0; i < count; i++) {
        WHIM_TRY(whim_ids_append(out, s->symbols[i].id));
    }
    return WHIM_ERR_OK;
}

/* Where the part that starts at `from` ends: before the next run of marks, or at the end. */
static int64_t cut_end(const char *piece, int64_t n, int64_t from)
{
    int64_t at = from;
    while (at + 3 <= n && memcmp(piece + at, WHIM_SPACE_MARK, 3) == 0) {
        at += 3;
    }
    const char *next = at < n ? memmem(piece + at, (size_t)(n - at), WHIM_SPACE_MARK, 3) : NULL;
    return next != NULL ? next - piece : n;
}

whim_err whim_bpe_encode(const whim_bpe *bpe, const char *piece, int64_t n,
                         whim_bpe_scratch *scratch, whim_ids *out)
{
    if (bpe->ignore_merges) {
        int32_t id = whim_vocab_find(bpe->vocab, piece, n);
        /* A text that only looks like an added token must not become one. */
        if (id >= 0 && (bpe->vocab->tokens[id].flags & WHIM_TOKEN_ADDED) == 0) {
            return whim_ids_append(out, id);
        }
    }
    if (!bpe->cut_at_marks) {
        return encode_part(bpe, piece, n, scratch, out);
    }
    for (int64_t at = 0; at < n;) {
        int64_t end = cut_end(piece, n, at);
        WHIM_TRY(encode_part(bpe, piece + at, end - at, scratch, out));
        at = end;
    }
    return WHIM_ERR_OK;
}

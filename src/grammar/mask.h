/* SPDX-License-Identifier: Apache-2.0 */
/* Vocabularies and walks, for the grammar files of this folder.
 *
 * The tokens form a tree of bytes, kept in the order of a walk that visits a node before its
 * children. A walk stands in a set of places: a state of the grammar, and the list of frames (what
 * goes on when the state's rule ends) that it may be called from. Frames made at the same byte with
 * the same state to continue with are one, so that a set is never larger than the grammar. */
#ifndef WHIM_GRAMMAR_MASK_H
#define WHIM_GRAMMAR_MASK_H

#include "grammar/impl.h"

typedef struct gtrie_node {
    int32_t skip;      /* the next node that is not below this one */
    int32_t first_tok; /* its tokens are tokens[first_tok .. first_tok of the next node) */
    uint16_t depth;    /* from 1 */
    uint8_t byte;
    uint8_t height; /* bytes of the longest token below; 255: that many or more */
    uint8_t below;  /* kinds of the characters that tokens add below */
    uint8_t n_char; /* how many of them, at most; 255: that many or more */
} gtrie_node;

/* What may come next in one state, whatever called its rule: the tokens that stay inside the rule
 * or end just with it, and the nodes at which the rule may end while the token continues. */
typedef struct gentry {
    uint32_t *bits; /* [n_word of the vocabulary] */
    int32_t *pops;  /* nodes */
    int64_t n_pop, cap_pop;
} gentry;

/* Whether a list holds an id. */
bool whim_ids_have(const int32_t *list, int32_t n, int32_t id);

void whim_entry_free(gentry *e); /* NULL is legal */

struct whim_grammar_vocab {
    int64_t serial; /* differs between vocabularies of a process */
    const whim_tokenizer *tok;
    int32_t n_id;
    int64_t n_word;
    gtrie_node *nodes; /* [n_node + 1] */
    int32_t n_node;
    int32_t *tokens;
    int32_t *ends;
    int32_t n_end;
    int32_t *specials;
    int32_t n_special;
    int64_t max_bytes;  /* of a token, special ones too */
    bool has_byte[256]; /* some token holds it */
    int32_t n_byte;     /* how many there are */
    /* Strings are in every schema: their masks are found once. */
    whim_grammar *string;
    gentry **string_entries; /* [n_string of that grammar] */
    /* From where a character may begin, so that masks of strings with lengths need no walk: how
     * many each token begins, which tokens end just with the string, and how many were begun where
     * the pops of that entry are. */
    uint16_t *n_char; /* [32 * n_word] */
    uint32_t *closes; /* [n_word] bits */
    uint16_t *pop_n_char;
};

/* Find these three. */
WHIM_MUST_CHECK whim_err whim_vocab_find_lengths(whim_grammar_vocab *v);
/* The entry of a state of a string with lengths where a character may begin; `e` has room for bits.
 * False: no memory. */
bool whim_mask_of_length(const whim_grammar *g, const whim_grammar_vocab *v, int32_t state,
                         gentry *e);

typedef struct gconfig {
    int32_t state, list;
} gconfig;

/* Callers of a place of a set. */
typedef struct gtodo {
    int32_t place, list;
} gtodo;

enum { FRAME_ROOT, FRAME_BASE }; /* the answer ends; whoever called is not known */

typedef struct gframe {
    int32_t to;   /* the state to continue in */
    int32_t list; /* where its own rule was called from */
    int32_t self; /* the list of just this frame */
} gframe;

/* The set behind some bytes. */
typedef struct glevel {
    int64_t begin; /* configs[begin .. begin + n) */
    int32_t n;
    bool ended;  /* the answer may end here */
    bool popped; /* the base may end here */
    /* Masks step from `only`, the one place of the set, by a look-up, and make the rest of the
     * level when they have to; -1: there are several places, or its state is written nowhere. */
    bool made;
    int32_t only;
    int64_t n_frame, n_list;
} glevel;

enum { GLEADS_ROOM = 512, GAHEAD_ROOM = 1024, GAHEAD_EVER = 255 };

/* Where the kinds of characters lead from a state, as far as it was asked. */
typedef struct gleads {
    int32_t state; /* + 1; 0: none */
    uint8_t known; /* kinds */
    uint8_t n[GK_COUNT];
    int32_t to[GK_COUNT][GLEADS_MOST];
} gleads;

/* How far any text of some kinds leads on from a state, as far as it was asked. */
typedef struct gahead {
    int32_t state; /* + 1; 0: none */
    uint8_t kinds, far;
    bool is_all; /* it is known to lead no further */
} gahead;

typedef struct gwalk {
    const whim_grammar *g;
    /* what was found out lately; places follow from the state */
    gleads leads[GLEADS_ROOM];
    gahead ahead[GAHEAD_ROOM];
    gframe *frames;
    int64_t n_frame, cap_frame;
    int32_t *lists; /* a list: how many, then frames in order */
    int64_t n_list, cap_list;
    gconfig *configs;
    int64_t cap_config;
    glevel *levels;                /* [max_bytes + 2] */
    int64_t base_frame, base_list; /* how many of them stay when level 0 is made again */
    int64_t step_frame;
    gtodo *todo; /* of the set being made */
    int64_t n_todo, cap_todo;
    int64_t work;   /* entries of lists that were joined since it was set to 0 */
    int64_t looks;  /* at places of sets, since then */
    bool failed;    /* memory ran out, or the work is too much: what is walked is dead */
    bool no_memory; /* it is memory */
} gwalk;

/* What was too much, and what ran out, is forgotten: another mask or token begins. */
static inline void whim_walk_begin(gwalk *w)
{
    w->failed = w->no_memory = false;
    w->work = w->looks = 0;
}
static inline void whim_walk_no_memory(gwalk *w)
{
    w->failed = w->no_memory = true;
}

WHIM_MUST_CHECK whim_err whim_walk_init(gwalk *w, const whim_grammar *g, int64_t max_bytes);
void whim_walk_deinit(gwalk *w);
/* Level 0 becomes one place, as it is, or the closure of several. */
void whim_walk_one(gwalk *w, int32_t state, int32_t list);
void whim_walk_many(gwalk *w, const gconfig *configs, int64_t n);
/* Level 0 becomes what follows when the rules called from a list end; false: nothing does. */
bool whim_walk_return(gwalk *w, int32_t list);
/* Level + 1 from level, where the walk stands in one place, and the state that a byte leads to,
 * which neither ends nor calls. */
void whim_walk_plain(gwalk *w, int32_t level, int32_t state);
/* Level + 1 from level and a byte; false when nothing is left (and the base does not end). */
bool whim_walk_step(gwalk *w, int32_t level, uint8_t byte);
/* All bytes from level 0 on; false when they do not fit. The set is then at level n. */
bool whim_walk_bytes(gwalk *w, const char *bytes, int64_t n);

/* Whether any text of `length` characters of these kinds leads on from a state, inside its rule and
 * past no call; false also where that is not known without much work. GAHEAD_EVER: of any
 * length. */
bool whim_walk_leads_on(gwalk *w, int32_t state, uint8_t kinds, int32_t length);

/* The entry of a state: kept ones, or found now into `scratch`. NULL: no memory. */
const gentry *whim_mask_entry(gwalk *w, whim_grammar *g, const whim_grammar_vocab *v, int32_t state,
                              gentry *scratch);
/* Set the bits of the tokens below nodes[node] (-1: of all) that fit from level 0; returns the
 * nodes looked at. `pops`: collect nodes where the base ends; may be NULL. `like`: the entry of the
 * plain string that the state of level 0 is like, or NULL. */
int64_t whim_mask_below(gwalk *w, const whim_grammar_vocab *v, int32_t node, uint32_t *bits,
                        gentry *pops, const gentry *like);

#endif

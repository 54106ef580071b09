/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of grammars, for the grammar files of this folder.
 *
 * The way of a grammar: nodes (a tree over bytes, with calls of rules) -> an automaton with free
 * moves for each rule (nfa) -> a table for each rule (dfa), where a call is a letter like a byte ->
 * one list of states for all rules, without dead ends (whim_grammar). Only rules that a schema
 * refers to, and rules of a grammar that are not small, are called; all else is written out in
 * place.
 * Invariants: no rule's table takes the empty text; no rule calls itself before it took a byte. */
#ifndef WHIM_GRAMMAR_IMPL_H
#define WHIM_GRAMMAR_IMPL_H

#include "grammar/grammar.h"

#include <pthread.h>

/* --- nodes ------------------------------------------------------------------------------------ */

typedef enum gnode_kind {
    GN_EMPTY,
    GN_NEVER,    /* no text at all */
    GN_BYTES,    /* bytes[a .. a + b) */
    GN_CHARS,    /* one character of ranges[a .. a + b) */
    GN_SEQ,      /* kids[a .. a + b) */
    GN_ANY_OF,   /* kids[a .. a + b) */
    GN_REPEAT,   /* kid a, lo to hi times; hi < 0: no limit */
    GN_CALL,     /* rule a */
    GN_BOTH,     /* what a and b both take */
    GN_BUT_NOT,  /* what a takes and b does not */
    GN_MULTIPLE, /* whole numbers that a divides */
    /* kids: (key, value, how) for each member of an object; lo: at least one, hi: the comma */
    GN_MEMBERS,
} gnode_kind;

enum { GM_OPTIONAL, GM_REQUIRED, GM_REPEATED }; /* how a member may come; a repeated one is last */

typedef struct gnode {
    gnode_kind kind;
    int32_t a, b;
    int64_t lo, hi;
} gnode;

typedef struct grange {
    int32_t lo, hi; /* code points, inclusive */
} grange;

/* A rule: what it stands for, and the schema that it was made of. */
typedef struct grule {
    int32_t node;       /* -1: not written yet */
    const void *schema; /* json_t of the document, NULL: none */
    int32_t depth;      /* of that schema inside others */
    bool takes_empty;   /* where it is called nothing may stand, too; the rule itself takes more */
    bool counts;        /* strings of `lo` to `hi` characters, -1: no limit; there is no node */
    int64_t lo, hi;
    char *path; /* for messages */
} grule;

typedef struct gmove {
    int32_t from, to;
    uint8_t lo, hi; /* bytes */
} gmove;

/* The automaton of a GN_BOTH or GN_BUT_NOT. */
typedef struct gproduct {
    int32_t a, b; /* the parts */
    bool negate;
    int32_t n_state; /* the first is the start */
    bool *accepts;
    gmove *moves;
    int64_t n_move, cap_move;
} gproduct;
void whim_product_deinit(gproduct *p);

typedef struct gcall {
    int32_t rule, to;
} gcall;

typedef struct gdfa {
    int64_t n_state, cap_state;
    int32_t n_class;
    uint8_t class_of[256];
    int32_t *next;       /* [n_state][n_class], -1: nothing */
    uint8_t *accepts;    /* [n_state] */
    int32_t *call_begin; /* [n_state + 1] */
    gcall *calls;
    int64_t n_call, cap_call;
} gdfa;

/* The table of a pattern of a schema, kept while it is compiled. */
typedef struct gmatcher {
    char *pattern;
    gdfa table;
} gmatcher;
void whim_matchers_deinit(struct whim_grammar_builder *b);

struct whim_grammar_builder {
    whim_grammar_limits limits;
    int64_t deadline;
    whim_err err;
    whim_diag diag;

    gnode *nodes;
    int64_t n_node, cap_node;
    int32_t *kids;
    int64_t n_kid, cap_kid;
    char *bytes;
    int64_t n_byte, cap_byte;
    grange *ranges;
    int64_t n_range, cap_range;
    grule *rules;
    int64_t n_rule, cap_rule;
    int64_t n_rule_done;  /* rules before it have been written */
    bool has_named_rules; /* of GBNF, which may put anything between quotes */
    const json_t *schema; /* the document that references point into */
    json_t *made;         /* array that owns schemas made by merging */
    char **marks; /* literal texts and marks of the caller: special tokens inside are legal */
    int64_t n_mark, cap_mark;
    int32_t string_rule, value_rule, number_rule, integer_rule; /* -1: not made yet */
    gmatcher *matchers;
    int64_t n_matcher, cap_matcher;
    int64_t n_choice;     /* choices of schemas merged so far */
    int64_t n_joined;     /* and keys of theirs that were joined */
    int64_t n_narrowed;   /* and opposites of which a part was left out */
    char left_out[32];    /* the keyword of the last such part, "" for none */
    bool without_calls;   /* what is made is compared with other parts: no rules of its own */
    whim_diag impossible; /* the first schema that no value fits, "" for none */
    gproduct product;     /* made last: the same part is often written many times in a row */
};

/* Grow an array to hold `need` of `size`; false and the builder failed when memory is out. */
bool whim_gb_grow(whim_grammar_builder *b, void *array, int64_t need, int64_t *cap, int64_t size);
/* Append items to an array of *n; the place of the first, or -1: the builder has failed. */
int32_t whim_gb_append(whim_grammar_builder *b, void *array, int64_t *n, int64_t *cap,
                       const void *items, int64_t count, int64_t size);
/* Zeroed memory; NULL and the builder failed when there is none. */
void *whim_gb_alloc(whim_grammar_builder *b, int64_t count, int64_t size);

/* Fail the builder; the first message stays. Always -1. */
int32_t whim_gb_fail(whim_grammar_builder *b, whim_err err, const char *fmt, ...) WHIM_PRINTF(3, 4);
int32_t whim_gb_no_memory(whim_grammar_builder *b);
static inline bool whim_gb_failed(const whim_grammar_builder *b) /* asked in every loop */
{
    return b->err != WHIM_ERR_OK;
}
/* Fails the builder when its time is over. */
bool whim_gb_late(whim_grammar_builder *b);

int32_t whim_gb_node(whim_grammar_builder *b, gnode node);
int32_t whim_gb_bytes(whim_grammar_builder *b, const char *bytes, int64_t n);
int32_t whim_gb_text(whim_grammar_builder *b, const char *text);
/* Parts that are written one by one. */
#define WHIM_GRAMMAR_PARTS(...)               \
    (const whim_grammar_node[]){__VA_ARGS__}, \
        sizeof((const whim_grammar_node[]){__VA_ARGS__}) / sizeof(whim_grammar_node)
#define whim_gb_seq(b, ...) whim_grammar_seq(b, WHIM_GRAMMAR_PARTS(__VA_ARGS__))
#define whim_gb_any_of(b, ...) whim_grammar_any_of(b, WHIM_GRAMMAR_PARTS(__VA_ARGS__))
int32_t whim_gb_optional(whim_grammar_builder *b, int32_t part);
/* GN_BOTH or GN_BUT_NOT of two parts; -1 when one of them is. */
int32_t whim_gb_pair(whim_grammar_builder *b, gnode_kind kind, int32_t one, int32_t two);
int32_t whim_gb_never(whim_grammar_builder *b);
/* `least` to `most` digits from lo to hi. */
int32_t whim_gb_digits(whim_grammar_builder *b, char lo, char hi, int64_t least, int64_t most);
/* One character of the ranges (any order, overlaps are fine). */
int32_t whim_gb_chars(whim_grammar_builder *b, const grange *ranges, int32_t n);
int32_t whim_gb_members(whim_grammar_builder *b, const int32_t *triples, int64_t n_member,
                        bool at_least_one);
/* A growing list of parts; {0} is empty. The node of them all (GN_SEQ, GN_ANY_OF) frees it. */
typedef struct glist {
    int32_t *ids;
    int64_t n, cap;
} glist;
void whim_glist_add(whim_grammar_builder *b, glist *list, int32_t part);
int32_t whim_glist_node(whim_grammar_builder *b, glist *list, gnode_kind kind);
/* A new rule, to be written later. */
int32_t whim_gb_rule(whim_grammar_builder *b, const void *schema, const char *path);
int32_t whim_gb_call(whim_grammar_builder *b, int32_t rule);

/* --- characters (grammar_chars.c) ------------------------------------------------------------- */

enum { GC_MAX = 0x10FFFF };

/* Sort ranges and join neighbours; cut out surrogates. Returns how many are left (room for n +
 * 1). */
int32_t whim_ranges_clean(grange *ranges, int32_t n);
/* Everything that is not in the (clean) ranges; room for n + 2. */
int32_t whim_ranges_invert(const grange *ranges, int32_t n, grange *out);
/* A character of the ranges as it stands inside a JSON string: itself, or escaped where it must
 * be. */
int32_t whim_gb_json_chars(whim_grammar_builder *b, const grange *ranges, int32_t n);
/* Any character inside a JSON string, in any of its spellings. */
int32_t whim_gb_json_any_char(whim_grammar_builder *b);
/* A text as a JSON string, without its quotes and with them. */
int32_t whim_gb_json_body(whim_grammar_builder *b, const char *text, int64_t n);
int32_t whim_gb_json_text(whim_grammar_builder *b, const char *text, int64_t n);

/* --- regular expressions (grammar_regex.c) ---------------------------------------------------- */

typedef struct gregex_mode {
    bool json;   /* characters as they stand inside a JSON string */
    bool search; /* found anywhere in the text, unless ^ and $ say otherwise */
} gregex_mode;

int32_t whim_gb_regex(whim_grammar_builder *b, const char *pattern, gregex_mode mode,
                      const char *path);

/* --- JSON and schemas (grammar_json.c, grammar_schema*.c) ------------------------------------- */

int32_t whim_gb_json_string(whim_grammar_builder *b); /* calls of shared rules */
int32_t whim_gb_json_number(whim_grammar_builder *b);
int32_t whim_gb_json_value(whim_grammar_builder *b);
/* A call of a rule, which is made at the first one. */
int32_t whim_gb_shared(whim_grammar_builder *b, int32_t *rule, const char *name,
                       int32_t (*make)(whim_grammar_builder *b));
int32_t whim_gb_quoted(whim_grammar_builder *b, int32_t body);
int32_t whim_gb_comma(whim_grammar_builder *b); /* with the white space that may follow */
int32_t whim_gb_colon(whim_grammar_builder *b);
/* A constant, as it is written. */
int32_t whim_gb_json_const(whim_grammar_builder *b, const json_t *value, int32_t depth,
                           const char *path);

/* Where a schema stands. */
typedef struct gplace {
    const struct gplace *up;
    const char *key; /* NULL: `index` counts */
    int64_t index;
    const char *root; /* of the topmost place */
} gplace;
enum { GPLACE_ROOM = 512 };
const char *whim_gplace_text(const gplace *place, char *buf);
/* Fail the builder with a message that begins with a key (or NULL) of the place. Always -1. */
int32_t whim_gb_fail_at(whim_grammar_builder *b, const gplace *place, const char *key,
                        const char *what);

int32_t whim_gb_schema_node(whim_grammar_builder *b, const json_t *schema, const gplace *place,
                            int32_t depth);
/* The same as a call where the schema is an object or array, so that it is written once. */
int32_t whim_gb_schema_value(whim_grammar_builder *b, const json_t *schema, const gplace *place,
                             int32_t depth);
int32_t whim_gb_schema_object(whim_grammar_builder *b, const json_t *s, const gplace *place,
                              int32_t depth);
int32_t whim_gb_schema_array(whim_grammar_builder *b, const json_t *s, const gplace *place,
                             int32_t depth);
int32_t whim_gb_schema_string(whim_grammar_builder *b, const json_t *s, const gplace *place);
/* `type` is integer or number. */
int32_t whim_gb_schema_number(whim_grammar_builder *b, const json_t *s, const char *type,
                              const gplace *place);
/* What the numbers of a schema are held to. */
typedef struct gbounds {
    bool has_lo, has_hi, above_lo, below_hi; /* above, below: the bound itself is out */
    double lo, hi;
} gbounds;
int32_t whim_gb_decimals(whim_grammar_builder *b, const gbounds *bounds, int32_t most_digits,
                         const char *path);
/* Whole numbers from lo to hi. */
int32_t whim_gb_int_range(whim_grammar_builder *b, int64_t lo, int64_t hi);
/* The schema that both schemas allow, owned by the builder; NULL: failed. */
const json_t *whim_gb_schema_merge(whim_grammar_builder *b, const json_t *one, const json_t *two,
                                   const gplace *place, int32_t depth);
/* What a reference ("#/$defs/Name") points to inside a document, or NULL. */
const json_t *whim_schema_pointer(const json_t *root, const char *ref);
/* The same in the builder's document; NULL: failed. */
const json_t *whim_gb_schema_target(whim_grammar_builder *b, const char *ref, const gplace *place);
/* A limit such as minItems; false: failed. `*out` keeps its value when the key is absent. */
bool whim_gb_schema_count(whim_grammar_builder *b, const json_t *s, const char *key,
                          const gplace *place, int64_t *out);
/* Whether a schema says what a text may be: by length, pattern or a format that is known. */
bool whim_schema_holds_text(const json_t *s);
/* Whether a list of words with spaces between them has the key. */
bool whim_schema_has_word(const char *words, const char *key);
/* Whether the keyword says nothing about what is valid: annotations, and what JSON Schema does not
 * know, which it says is to be ignored. */
bool whim_schema_is_note(const char *key);

/* --- automata (grammar_nfa.c, grammar_dfa.c, grammar_product.c) ------------------------------- */

typedef enum gedge_kind { GE_BYTES, GE_FREE, GE_CALL } gedge_kind;

typedef struct gedge {
    int32_t to, next; /* next edge of the same state, -1: last */
    int32_t rule;     /* GE_CALL */
    uint8_t kind, lo, hi;
} gedge;

typedef struct gnfa {
    whim_grammar_builder *b;
    int32_t *first; /* [n_state] first edge */
    int64_t n_state, cap_state;
    gedge *edges;
    int64_t n_edge, cap_edge;
    int64_t max_state;
} gnfa;

int32_t whim_nfa_state(gnfa *nfa); /* -1: failed */
void whim_nfa_edge(gnfa *nfa, int32_t from, gedge_kind kind, uint8_t lo, uint8_t hi, int32_t rule,
                   int32_t to);
void whim_nfa_free_move(gnfa *nfa, int32_t from, int32_t to);
/* Write a node behind the state `from`; returns the state behind it. */
int32_t whim_nfa_emit(gnfa *nfa, int32_t node, int32_t from);
int32_t whim_nfa_emit_product(gnfa *nfa, const gnode *node, int32_t from);
int32_t whim_nfa_emit_chars(gnfa *nfa, const gnode *node, int32_t from);
void whim_nfa_deinit(gnfa *nfa);

/* The table of a node, without the empty text where `not_empty`; state 0 is the start. false:
 * failed. */
bool whim_dfa_of_node(whim_grammar_builder *b, int32_t node, bool not_empty, gdfa *out);
void whim_dfa_deinit(gdfa *dfa);

/* Lists of numbers, each kept once and known by its place. */
typedef struct gsets {
    int32_t *ints; /* all lists, one behind the other */
    int64_t n_int, cap_int;
    int64_t *begin; /* [n + 1] */
    int64_t n, cap_begin;
    int32_t *table; /* open addressing: place + 1 */
    int64_t cap_table;
} gsets;
/* The place of a list, which is added when it is new; -1: failed. */
int32_t whim_sets_place(whim_grammar_builder *b, gsets *s, const int32_t *list, int64_t n);
void whim_sets_deinit(gsets *s);

/* --- the compiled grammar (grammar_compile.c) ------------------------------------------------- */

typedef struct gstate {
    const int32_t *next;     /* [classes of the rule] */
    const uint8_t *class_of; /* [256] */
    int32_t first_call, n_call;
    int32_t rule;
    bool accepts; /* the rule may end here */
    bool moves;   /* a byte may follow inside the rule */
    bool plain;   /* neither accepts nor calls */
    bool is_last; /* accepts, and nothing else: a call that leads here is the rule's last act */
    bool is_free; /* any text that a JSON string need not escape may come, and again behind it */
} gstate;

struct gentry;

/* A mask that is kept. */
typedef struct gkept_entry {
    int32_t state;
    struct gentry *entry; /* NULL: an empty slot */
} gkept_entry;

/* The rule for strings of `lo` to `hi` characters (-1: no limit). Its states are those of plain
 * strings, once for each number of characters up to `most`. They are numbers from `begin` on and
 * nowhere written down: a length of thousands costs nothing. */
typedef struct gcounted {
    int32_t rule, begin;
    int64_t lo, hi, most;
} gcounted;

struct whim_grammar {
    int32_t n_ref; /* atomic */
    gstate *states;
    int64_t n_state;
    gcall *calls; /* `to` and `rule` (start) are states */
    int64_t n_call;
    gdfa *tables; /* [n_rule]: own what states point into */
    int32_t n_rule;
    int32_t root_rule;
    int32_t start;
    int32_t string_begin, n_string; /* states of the shared rule for strings */
    int32_t string_body;            /* that between the quotes where a character may begin */
    gcounted *counted;              /* in the order of `begin`, which is n_state for the first */
    int32_t n_counted;
    int32_t *partner; /* [n_state] the state of that rule that this one is like, or < 0 */
    uint16_t *alike; /* [n_state] the shortest text that tells the two apart; GA_NEVER: none does */
    char **marks;
    int64_t n_mark;
    /* Masks that cost much to find, kept for the vocabulary that asked first. */
    pthread_mutex_t lock;
    int64_t vocab_serial;
    gkept_entry *entries; /* [cap_entry], a power of two: found by a hash of the state */
    int64_t n_entry, cap_entry;
    int64_t entry_bytes;
};

/* --- strings of some lengths (counted.c) ------------------------------------------------------ */

/* The table of the state that such a rule starts in, made from that of plain strings. */
bool whim_counted_table(whim_grammar_builder *b, const gdfa *string, gdfa *out);
/* Give numbers to the states of all such rules that have a table. */
bool whim_counted_join(whim_grammar_builder *b, whim_grammar *g);
/* Whether an answer can be finished from the first state behind the quote. */
bool whim_counted_is_live(const whim_grammar *g, const uint8_t *live, int32_t state);
/* The rule of a state; *count: the characters so far, *inner: the state of plain strings. */
const gcounted *whim_counted_find(const whim_grammar *g, int32_t state, int64_t *count,
                                  int32_t *inner);
/* The state that a byte leads to, or -1. */
int32_t whim_counted_next(const whim_grammar *g, int32_t state, uint8_t byte);
/* The state of plain strings that it is like, and no more than the length of the shortest text that
 * tells the two apart. */
int32_t whim_counted_partner(const whim_grammar *g, int32_t state);
uint16_t whim_counted_alike(const whim_grammar *g, int32_t state);

/* What is known of any state but where bytes lead to from it. */
static inline const gstate *whim_grammar_at(const whim_grammar *g, int32_t state)
{
    return &g->states[state < g->n_state ? state : whim_counted_partner(g, state)];
}

static inline int32_t whim_grammar_next(const whim_grammar *g, int32_t state, uint8_t byte)
{
    if (state >= g->n_state) {
        return whim_counted_next(g, state, byte);
    }
    const gstate *s = &g->states[state];
    return s->next[s->class_of[byte]];
}

/* Calls of rules that are written alike become calls of one of them. */
bool whim_grammar_share_rules(whim_grammar_builder *b);

enum { GA_NEVER = 60000 };
bool whim_grammar_find_alike(whim_grammar_builder *b, whim_grammar *g);
void whim_grammar_find_free(whim_grammar_builder *b, whim_grammar *g);

/* Kinds of characters, as bits. Text is what a JSON string need not escape, without spaces and ends
 * of lines that are not ASCII. */
enum {
    GK_LOWER = 1,
    GK_UPPER = 2,
    GK_DIGIT = 4,
    GK_NAME = 8, /* - . _ */
    GK_SPACE = 16,
    GK_SIGN = 32,
    GK_BEYOND = 64,
    GK_TEXT = 127,
    GK_ELSE = 128,
    GK_COUNT = 7, /* kinds of text */
};
/* The kind of one character of n bytes. */
uint8_t whim_text_kind(const char *bytes, int64_t n);
enum { GLEADS_MOST = 8 };
/* The states that the characters of a kind lead to, of which none ends its rule or calls another,
 * into list[GLEADS_MOST]; 0 where there are more, or a character leads nowhere or elsewhere. */
int32_t whim_grammar_kind_next(const whim_grammar *g, int32_t state, uint8_t kind, int32_t *list);

#endif

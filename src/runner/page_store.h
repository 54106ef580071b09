/* SPDX-License-Identifier: Apache-2.0 */
/* Pages and recurrent states of an exec on disk (kv/disk_tier.h). Of each a rank has its own part,
 * in files of its own; whoever leads says what is kept and what is looked for, by letters, as it
 * does of steps. Of several groups of ranks the first keeps the pages of all, which travel to it
 * and back: a page's bits do not depend on the group, so whatever one has computed is there for
 * all, and for other numbers of groups.
 *
 * Invariants:
 *  1. A page is there when every rank that keeps has its part of it, whole; else it is there for
 *     none, and no rank writes to its device.
 *  2. A part is found by ranks of the same number among as many (of their group), with the same
 *     model, only.
 *  3. The limit is that of all ranks together.
 * Threads: the exec's. */
#ifndef WHIM_RUNNER_PAGE_STORE_H
#define WHIM_RUNNER_PAGE_STORE_H

#include "comm/rank_meters.h"
#include "kv/disk_tier.h"
#include "runner/ranks.h"

#include <limits.h>

enum { WHIM_STORE_SPACE = 256, WHIM_STORE_ABOUT = 128 };

/* What whoever leads opens it with; others are told. */
typedef struct whim_page_store_cfg {
    const char *dir;   /* on other hosts: of the same name, unless their exec's cfg has one */
    const char *space; /* whim_disk_tier_cfg.space, but for the rank */
    const char *about; /* the model's name, for who looks into the folder; NULL: none */
    int64_t max_bytes; /* whim_disk_tier_cfg.max_bytes, of all ranks */
    bool may_fail;     /* a rank that cannot is no reason to end the group: all do without */
    whim_log *log;     /* others write lines of its form to their standard error */
} whim_page_store_cfg;

/* The same as a letter. */
typedef struct whim_store_order {
    int64_t max_bytes;
    int32_t is_first; /* else who cannot open does without: ranks are here again, or may_fail */
    uint8_t is_json, is_journal, reserved[2];
    char dir[PATH_MAX], space[WHIM_STORE_SPACE], about[WHIM_STORE_ABOUT];
} whim_store_order;

/* A page or a state to keep or to look for, as a letter; the page's tokens follow. */
typedef struct whim_store_page {
    int32_t group, number; /* of the page, or the slot */
    int32_t is_asked;      /* of one to keep: whether all did is told */
    int32_t kind;          /* whim_disk_kind */
    whim_prefix_key key;
} whim_store_page;

typedef struct whim_page_store {
    whim_store_order order;
    whim_disk_tier *tier;              /* NULL: closed, or of a rank that keeps nothing */
    void *item;                        /* one page or state on its way */
    int32_t *letter;                   /* the leader's whim_store_page and tokens */
    int64_t parts_bytes;               /* of a record, the parts of all that keep */
    bool is_off;                       /* some rank has none, since ranks were started again */
    int64_t n_halved;                  /* pages that only some ranks had */
    int64_t n_failing, n_losing;       /* ranks whose disk failed, or had to drop new pages */
    whim_disk_tier_stats told;         /* who follows: what its meters had last */
    char space[WHIM_STORE_SPACE + 32]; /* of this rank's part */
    char about[WHIM_STORE_SPACE + WHIM_STORE_ABOUT + 64];
    whim_log *log, own_log;
} whim_page_store;

/* --- for whoever leads, or is alone ----------------------------------------------------------- */

/* A rank that cannot: its reason ends the group, unless it may fail; then it only fails. */
WHIM_MUST_CHECK whim_err whim_exec_store_open(whim_exec *exec, const whim_page_store_cfg *cfg,
                                              whim_diag *diag);

/* After whim_exec_rejoin, with ranks that have none. Where one of them cannot open its part, pages
 * are no longer kept or found. */
void whim_exec_store_rejoin(whim_exec *exec);

/* Writes what is queued everywhere, then closes. */
void whim_exec_store_close(whim_exec *exec);

/* Keep a page or a state of a group under a page's key. With `wait` false means that some rank had
 * no room for it in its queue. */
bool whim_exec_store_put(whim_exec *exec, int32_t group, whim_disk_kind kind, int32_t number,
                         const whim_prefix_key *key, const int32_t *tokens, bool wait);

/* Bring one to a group; false: it is not there, and page or slot is as it was. */
bool whim_exec_store_get(whim_exec *exec, int32_t group, whim_disk_kind kind, int32_t number,
                         const whim_prefix_key *key, const int32_t *tokens);

/* Whether get may find it: the leader has its part. */
bool whim_exec_store_has(whim_exec *exec, whim_disk_kind kind, const whim_prefix_key *key);

/* Ask all ranks whether their disks have written what they were given. Once that is true, stats
 * knows the result. */
bool whim_exec_store_is_written(whim_exec *exec);

/* Of all ranks: their bytes and errors, pages that all have written, and the most that one has
 * dropped. Others tell of theirs when they get a letter. */
whim_disk_tier_stats whim_exec_store_stats(whim_exec *exec);

/* --- for those who follow --------------------------------------------------------------------- */

/* Do as a letter of n_word words says. An error is the group's end. */
WHIM_MUST_CHECK whim_err whim_store_obey(whim_exec *exec, whim_letter_kind kind,
                                         const int32_t *words, int64_t n_word, whim_diag *diag);

/* What has come of pages that were written meanwhile, for meters. */
void whim_store_tell(whim_exec *exec);

/* Any rank, with its exec: its own part. */
void whim_page_store_free(whim_page_store *store);

#endif

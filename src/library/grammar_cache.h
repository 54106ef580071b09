/* SPDX-License-Identifier: Apache-2.0 */
/* Grammars that were compiled lately, by all that made them: agents send the same tools with every
 * request, and a grammar also keeps the masks that it has found. It keeps 16 grammars, each with at
 * most 4 MiB of masks, or a 64th of the memory for requests if that is less. All of them together
 * keep an eighth of that memory; that is looked at with each that is asked for. What cannot be
 * compiled is kept too, for a minute: finding that out may take as long as the limit allows.
 * Threads: any. */
#ifndef WHIM_LIBRARY_GRAMMAR_CACHE_H
#define WHIM_LIBRARY_GRAMMAR_CACHE_H

#include "base/err.h"
#include "chat/format.h"
#include "engine/meters.h"

typedef struct whim_grammar_cache whim_grammar_cache;

/* NULL without memory; a NULL cache compiles every time. `meters` (borrowed, or NULL) counts times,
 * failures and hits. */
whim_grammar_cache *whim_grammar_cache_create(whim_meters *meters);
void whim_grammar_cache_destroy(whim_grammar_cache *cache);

/* As whim_answer_grammar; the caller gets a reference of its own. BUSY: it is not known yet, and to
 * compile it was not allowed. */
WHIM_MUST_CHECK whim_err whim_grammar_cache_get(whim_grammar_cache *cache,
                                                const whim_answer_rule *rule, bool may_compile,
                                                whim_grammar **out, whim_diag *diag);

#endif

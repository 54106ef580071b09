/* SPDX-License-Identifier: Apache-2.0 */
/* Proposals of the service's requests: where they come from, how many are worth their rows, and
 * what became of them. They decide when a token comes, never which. Threads: the service's. */
#ifndef WHIM_ENGINE_SERVICE_DRAFT_H
#define WHIM_ENGINE_SERVICE_DRAFT_H

#include "engine/service/inner.h"

/* A choice is let in. */
void whim_choice_propose_init(whim_choice *c);

/* Whether proposals for the tokens after those under way would pay, as far as the text is known. */
bool whim_service_would_propose(whim_service *s);

/* Before a plan: hand the scheduler what pays. */
void whim_service_propose(whim_service *s);

/* After a step that the draft was not asked for. */
void whim_service_not_drafted(whim_service *s);

/* After a step, with its tokens in place: of a choice's n proposals the first n_right were
 * right. */
void whim_choice_proposed(whim_choice *c, int64_t n, int64_t n_right);

#endif

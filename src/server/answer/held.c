/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that unfinished answers hold. When the memory for requests and answers is nearly used up,
 * one answer is ended so that the others can continue: the largest one of the client whose answers
 * hold most. */
#include "base/heap/budget.h"
#include "server/answer/run.h"

static int64_t held_by(const whim_answer *a)
{
    int64_t n = a->out.cap;
    for (int32_t i = 0; i < a->n_choice; i++) {
        const whim_answer_choice *c = &a->choices[i];
        n += c->pending.n_byte;
        for (int32_t k = 0; k < c->n_part; k++) {
            n += c->parts[k].text.cap;
        }
    }
    for (int32_t p = 0; p < a->task->n_prompt; p++) {
        n += a->prompts[p].echo.n_byte;
    }
    return n;
}

static int64_t held_by_client(const whim_answer *first, uint64_t client)
{
    int64_t n = 0;
    for (const whim_answer *a = first; a != NULL; a = a->run->next) {
        n += whim_exchange_get_notes(a->ex)->client == client ? a->run->n_held : 0;
    }
    return n;
}

static bool may_give(const whim_answer *a)
{
    return a->run->n_held >= WHIM_ANSWER_LEAST_HELD && !a->run->failed && !a->run->mute;
}

whim_answer *whim_answer_greediest(whim_answer *first)
{
    whim_answer *best = NULL;
    int64_t most = 0;
    for (whim_answer *a = first; a != NULL; a = a->run->next) {
        a->run->n_held = held_by(a);
    }
    for (whim_answer *a = first; a != NULL; a = a->run->next) {
        int64_t n = may_give(a) ? held_by_client(first, whim_exchange_get_notes(a->ex)->client) : 0;
        bool is_more = n > most || (n > 0 && n == most && a->run->n_held > best->run->n_held);
        best = is_more ? a : best;
        most = is_more ? n : most;
    }
    return best;
}

bool whim_answers_hold_too_much(void)
{
    return whim_budget_is_over(WHIM_ANSWER_SHARE);
}
